//! The picture of the plan screen in the README.

use super::fake::TestConsole;

const README: &str = include_str!("../../README.md");

/// Returns the text block after the marker in the README, without its fence.
fn picture() -> String {
    let (_, after) = README
        .split_once("<!-- the plan screen, drawn by the renderer -->\n```text\n")
        .unwrap();
    let (block, _) = after.split_once("```\n").unwrap();
    block.to_owned()
}

#[test]
fn the_readmes_picture_is_drawn_by_the_renderer() {
    let console = TestConsole::busy(":net enter D");
    let drawn: String = console
        .text()
        .lines()
        .map(|line| format!("{}\n", line.trim_end()))
        .collect();
    assert_eq!(picture(), drawn, "the README's picture should be:\n{drawn}");
}
