//! Checks that each numbered story has a test in a terminal of 80x24 and one in a terminal of 200x60, or a reason why
//! it has none.

use std::fs;
use std::path::Path;

/// The number of stories.
const STORIES: usize = 20;
/// The stories without a test in a terminal, and the reasons.
const NOT_IN_A_TERMINAL: [(usize, &str); 5] = [
    (8, "it is a script without a terminal: `nightly.rs`"),
    (9, "deletions that wait for an approval do not exist yet"),
    (
        16,
        "it runs on the test bed: `tests/testbed/whole_project.rs`",
    ),
    (18, "it uses the command line and a gate: `tenant.rs`"),
    (20, "it has no console: `tests/postgres/story_20.rs`"),
];
/// A test of a story that runs at 80x24 contains one of these texts: its line in `in_variations!`, or a call.
const SMALL: [&str; 2] = ["baseline fn", "run(80, 24)"];
/// A test of a story that runs at 200x60 contains one of these texts.
const LARGE: [&str; 2] = ["slow_cloud fn", "run(200, 60)"];

/// Returns the number of the story and the text of the test, for each test of a story in a terminal.
fn story_tests() -> Vec<(usize, String)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/stories");
    let files = fs::read_dir(folder).unwrap().map(|it| it.unwrap().path());
    let rust = files.filter(|path| path.extension().is_some_and(|it| it == "rs"));
    let texts = rust.map(|path| fs::read_to_string(path).unwrap());
    let in_terminal = texts.filter(|text| text.contains("Session::start"));
    in_terminal.flat_map(|text| tests_of(&text)).collect()
}

fn tests_of(text: &str) -> Vec<(usize, String)> {
    let lines: Vec<&str> = text.lines().collect();
    let read = |(at, line): (usize, &&str)| {
        let (number, _) = line.split_once("fn story_")?.1.split_once('_')?;
        let body = lines[at + 1..].iter().take_while(|it| !it.contains("fn "));
        let test = std::iter::once(line).chain(body).copied();
        Some((number.parse().ok()?, test.collect()))
    };
    lines.iter().enumerate().filter_map(read).collect()
}

#[test]
fn each_story_runs_on_a_small_and_on_a_large_screen() {
    let tests = story_tests();
    for story in 1..=STORIES {
        let has_test = |marks: [&str; 2]| {
            let own = tests.iter().filter(|(number, _)| *number == story);
            let mut texts = own.map(|(_, text)| text);
            texts.any(|text| marks.iter().any(|mark| text.contains(mark)))
        };
        let sizes = [has_test(SMALL), has_test(LARGE)];
        let excused = NOT_IN_A_TERMINAL
            .iter()
            .find(|(number, _)| *number == story);
        match excused {
            None => assert_eq!(sizes, [true, true], "story {story} at 80x24 and at 200x60"),
            Some((_, why)) => assert_eq!(
                sizes,
                [false, false],
                "story {story} has a test in a terminal: {why}"
            ),
        }
    }
}
