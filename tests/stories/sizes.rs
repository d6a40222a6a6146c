//! Each story of a day with gone is told in a terminal of 80x24 and in one of 200x60.

use std::fs;
use std::path::Path;

/// The number of stories.
const STORIES: usize = 20;
/// The stories that are not told in a terminal, and why.
const NOT_IN_A_TERMINAL: [(usize, &str); 5] = [
    (8, "it is a job, which has no terminal: `nightly.rs`"),
    (9, "deletions that wait for an approval do not exist yet"),
    (
        16,
        "it is told on the test bed: `tests/testbed/whole_project.rs`",
    ),
    (
        18,
        "it is told by the command line and through a gate: `tenant.rs`",
    ),
    (20, "its console is not shown: `tests/postgres/story_20.rs`"),
];
/// What a test of a story calls for each size.
const SMALL: [&str; 2] = ["Telling::as_written()", "tell(80, 24)"];
const LARGE: [&str; 2] = ["Telling::otherwise()", "tell(200, 60)"];

/// The tests of all stories: the number of the story, and the body of the test.
fn told() -> Vec<(usize, String)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/stories");
    let files = fs::read_dir(folder).unwrap().map(|it| it.unwrap().path());
    let rust = files.filter(|path| path.extension().is_some_and(|it| it == "rs"));
    let texts = rust.map(|path| fs::read_to_string(path).unwrap());
    let in_terminal = texts.filter(|text| text.contains("Seat::take"));
    in_terminal.flat_map(|text| tests_of(&text)).collect()
}

fn tests_of(text: &str) -> Vec<(usize, String)> {
    let tests = text.split("#[test]\nfn story_").skip(1);
    let read = |test: &str| {
        let (number, rest) = test.split_once('_').unwrap();
        let (body, _) = rest.split_once("\n}\n").unwrap();
        (number.parse().unwrap(), body.to_owned())
    };
    tests.map(read).collect()
}

#[test]
fn each_story_is_told_on_a_small_and_on_a_large_screen() {
    let told = told();
    for story in 1..=STORIES {
        let is_told = |calls: [&str; 2]| {
            let own = told.iter().filter(|(number, _)| *number == story);
            let mut bodies = own.map(|(_, body)| body);
            bodies.any(|body| calls.iter().any(|call| body.contains(call)))
        };
        let sizes = [is_told(SMALL), is_told(LARGE)];
        let excused = NOT_IN_A_TERMINAL
            .iter()
            .find(|(number, _)| *number == story);
        match excused {
            None => assert_eq!(sizes, [true, true], "story {story} at 80x24 and at 200x60"),
            Some((_, why)) => assert_eq!(sizes, [false, false], "story {story} is told: {why}"),
        }
    }
}
