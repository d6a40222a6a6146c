//! The README's picture is what the renderer draws.

use super::fake::{Desk, World};

const README: &str = include_str!("../../README.md");

/// The block after the marker, without its fence.
fn picture() -> String {
    let (_, after) = README
        .split_once("<!-- the plan screen, drawn by the renderer -->\n```text\n")
        .unwrap();
    let (block, _) = after.split_once("```\n").unwrap();
    block.to_owned()
}

#[test]
fn the_readmes_picture_is_drawn_by_the_renderer() {
    let mut desk = Desk::new(World::busy(), (80, 24));
    desk.press(":net enter D");
    let drawn: String = desk
        .text()
        .lines()
        .map(|line| format!("{}\n", line.trim_end()))
        .collect();
    assert_eq!(picture(), drawn, "the README's picture should be:\n{drawn}");
}
