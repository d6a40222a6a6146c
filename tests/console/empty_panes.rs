//! A pane without rows says why: it is still loading, its query failed, a filter hides all rows, or nothing exists.
//! The tests check each of the four for each pane.

use gone::control::{ControlError, Explanation, Page, Query};
use gone::domain::gantt::Gantt;
use gone::domain::model::{DeletionState, StepState};
use gone::frontends::console::ConsoleOptions;

use crate::fake::{self, TestConsole, World, deletion, step};

const FAILURE: &str = "the socket was closed";

/// One pane.
struct Case {
    /// The name of the pane, which is also its command if `open_keys` is empty.
    name: &'static str,
    /// The keys that lead to the pane from which this one is opened.
    start_keys: &'static str,
    /// The keys that open the pane.
    open_keys: &'static str,
    /// The word for one of its rows.
    noun: &'static str,
    /// The message until the first answer; none if the pane waits for no answer.
    loading: Option<&'static str>,
    /// The message if nothing exists; none if the pane always has rows.
    nothing: Option<&'static str>,
}

const CASES: &[Case] = &[
    pane(
        "deletions",
        "deletion",
        "Asking for the deletions",
        "No deletion has been asked for yet",
    ),
    pane(
        "stuck",
        "step",
        "Asking for the stuck and blocked steps",
        "Nothing is stuck, and nothing was refused",
    ),
    pane(
        "gc",
        "step",
        "Asking for the stuck and blocked steps",
        "Nothing is blocked",
    ),
    pane(
        "causes",
        "cause",
        "Asking for the causes",
        "Nothing is stuck",
    ),
    pane(
        "orphans",
        "orphan",
        "Asking the clouds for what was abandoned",
        "Nothing was abandoned",
    ),
    pane(
        "tombstones",
        "tombstone",
        "Reading the tombstones",
        "There is no tombstone",
    ),
    pane(
        "drift",
        "step",
        "Reading what is stuck with drift",
        "No deletion waits for your answer",
    ),
    pane(
        "gates",
        "gate",
        "Asking the engine for its gates",
        "This engine has no gate",
    ),
    pane(
        "deployments",
        "deployment",
        "Asking the engine for other deployments",
        "No other deployment is known",
    ),
    pane(
        "engine",
        "reconciler",
        "Asking the engine what it does",
        "This engine has no reconcilers",
    ),
    pane(
        "engines",
        "engine",
        "Asking which engines share this ledger",
        "No engine works on this ledger",
    ),
    pane(
        "network",
        "network",
        "Listing every network",
        "There is no network that you may see here",
    ),
    pane(
        "events",
        "event",
        "Reading the events",
        "Nothing has happened yet",
    ),
    Case {
        loading: None,
        ..pane("sites", "site", "", "No cloud is configured")
    },
    Case {
        start_keys: ":deletions enter",
        open_keys: "enter",
        ..pane(
            "tree",
            "step",
            "Reading the steps",
            "This deletion has no steps yet",
        )
    },
    Case {
        start_keys: ":deletions enter",
        open_keys: "t",
        ..pane(
            "chart",
            "row",
            "Counting what happened",
            "This deletion has no steps yet",
        )
    },
    Case {
        start_keys: ":stuck enter",
        open_keys: "enter",
        ..pane(
            "inspect",
            "event",
            "Reading the timeline",
            "Nothing has happened to it yet",
        )
    },
    Case {
        start_keys: ":stuck enter",
        open_keys: "e",
        ..pane(
            "explain",
            "line",
            "Reading it, and what refers to it",
            "Nothing blocks it",
        )
    },
    Case {
        start_keys: ":stuck enter down",
        open_keys: "b",
        ..pane(
            "blockers",
            "blocker",
            "Asking for the blockers",
            "No blocker is known",
        )
    },
    Case {
        start_keys: ":causes enter",
        open_keys: "enter",
        nothing: None,
        ..pane(
            "cause",
            "step",
            "Asking for the stuck and blocked steps",
            "",
        )
    },
    Case {
        start_keys: ":stuck enter",
        open_keys: "F",
        nothing: None,
        ..pane("ladder", "rung", "Asking what can be done about it", "")
    },
    Case {
        start_keys: ":network enter",
        open_keys: "D",
        nothing: None,
        ..pane("plan", "step", "Planning to delete", "")
    },
    Case {
        start_keys: ":network enter",
        open_keys: "enter",
        loading: None,
        nothing: None,
        ..pane("details", "field", "", "")
    },
    Case {
        loading: None,
        nothing: None,
        ..pane("tour", "station", "", "")
    },
    Case {
        open_keys: "?",
        loading: None,
        nothing: None,
        ..pane("help", "key", "", "")
    },
];

const fn pane(
    name: &'static str,
    noun: &'static str,
    loading: &'static str,
    nothing: &'static str,
) -> Case {
    Case {
        name,
        start_keys: "",
        open_keys: "",
        noun,
        loading: Some(loading),
        nothing: Some(nothing),
    }
}

impl Case {
    /// Opens the pane by its keys.
    fn open(&self, console: &mut TestConsole) {
        match self.open_keys {
            "" => console.press(&format!(":{} enter", self.name)),
            keys => console.press(keys),
        }
    }

    /// Opens the pane in a console with this world. `prepare` changes the console just before.
    fn console(&self, world: World, prepare: impl FnOnce(&mut TestConsole)) -> TestConsole {
        let options = ConsoleOptions {
            tour: self.name == "tour",
            ..fake::options()
        };
        let mut console = TestConsole::with(world, (120, 40), options);
        console.press(self.start_keys);
        prepare(&mut console);
        self.open(&mut console);
        console
    }
}

/// Checks that the screen has this text, and no action name in braces in place of a key.
fn assert_says(case: &Case, console: &TestConsole, words: &str) {
    let text = console.text();
    assert!(
        text.contains(words),
        "{}: no \"{words}\" in\n{text}",
        case.name
    );
    let mut braces = text.split('{').skip(1);
    let is_name = |rest: &str| rest.starts_with(|c: char| c.is_ascii_lowercase());
    assert!(
        !braces.any(is_name),
        "{}: the name of an action stands in place of its key:\n{text}",
        case.name
    );
}

/// Checks that the screen has none of the messages that nothing exists.
fn assert_not_called_empty(case: &Case, console: &TestConsole) {
    let text = console.text();
    for nothing in CASES.iter().filter_map(|case| case.nothing) {
        assert!(
            !text.contains(nothing),
            "{}: \"{nothing}\":\n{text}",
            case.name
        );
    }
}

#[test]
fn a_pane_says_that_it_is_loading_until_the_first_answer() {
    for case in CASES {
        let Some(loading) = case.loading else {
            continue;
        };
        let console = case.console(World::busy(), |console| {
            console.answers_queries = false;
            console.answers_commands = false;
        });
        assert_says(case, &console, loading);
        assert_not_called_empty(case, &console);
    }
}

#[test]
fn the_message_that_no_row_exists_disappears_with_the_first_row() {
    let mut console = TestConsole::new(World::busy(), (80, 24));
    console.withholds = |query| matches!(query, Query::Resources(_));
    console.press(":network enter D");
    let expected = "there is no row to plan a deletion of";
    assert!(console.text().contains(expected), "{}", console.text());
    console.answer_withheld(1);
    let text = console.text();
    assert!(
        text.contains("storage") && !text.contains(expected),
        "{text}"
    );
}

#[test]
fn a_pane_whose_query_failed_shows_the_error_and_not_that_it_is_empty() {
    for case in CASES.iter().filter(|case| case.loading.is_some()) {
        let mut console = case.console(World::busy(), |console| {
            console.world.override_answer = Some(Box::new(
                |_: &Query| -> Option<Result<Page, ControlError>> { Some(Err(unreachable())) },
            ));
            console.world.plan = Err(unreachable());
        });
        if case.name == "events" {
            console.fail_events(unreachable());
        }
        assert_says(case, &console, FAILURE);
        assert_not_called_empty(case, &console);
        let text = console.text();
        let failures = ["could not be", "could be listed", "Nothing was sent"];
        assert!(
            failures.iter().any(|words| text.contains(words)),
            "{}:\n{text}",
            case.name
        );
    }
}

#[test]
fn a_pane_says_that_no_row_matches_its_filter() {
    for case in CASES {
        let mut world = World::busy();
        if case.name == "drift" {
            world.steps.push(fake::drifted(95, "web"));
        }
        let mut console = case.console(world, |_| {});
        if case.name == "events" {
            console.deliver_events();
        }
        console.press("/zzzz enter");
        assert_says(
            case,
            &console,
            &format!("No {} matches \"zzzz\".", case.noun),
        );
        assert_not_called_empty(case, &console);
        console.press("esc");
        assert!(
            !console.text().contains("matches \"zzzz\""),
            "{}",
            case.name
        );
    }
}

#[test]
fn an_empty_pane_says_that_nothing_exists() {
    for case in CASES {
        let Some(nothing) = case.nothing else {
            continue;
        };
        let mut world = World::empty();
        match case.start_keys {
            "" => {}
            ":deletions enter" => {
                world.deletions = vec![deletion(1, DeletionState::Running, 0, 1)];
                world.plan = Err(unreachable());
            }
            _ => world.steps = vec![step(1, "port", "p", StepState::Stuck, &[])],
        }
        let mut console = case.console(world, |console| {
            console.world.steps.retain(|_| case.name != "tree");
            console.world.override_answer = Some(Box::new(|query| match query {
                Query::Chart(_) => Some(Ok(Page::Chart(no_rows()))),
                Query::Explain(_) => Some(Ok(Page::Explain(Box::new(no_findings())))),
                _ => None,
            }));
        });
        if case.name == "events" {
            console.deliver_events();
        }
        assert_says(case, &console, nothing);
        // A filter that matches nothing does not change the message.
        if !["tree", "stuck", "gc"].contains(&case.name) {
            console.press("/zzzz enter");
            assert_says(case, &console, nothing);
        }
    }
}

#[test]
fn a_list_that_one_site_could_not_answer_shows_the_error_and_not_that_it_is_empty() {
    let mut world = World::busy();
    for listing in &mut world.listings {
        listing.rows.clear();
    }
    world.listings[0].error = None;
    world.listings[1].error = Some(FAILURE.to_owned());
    let mut console = TestConsole::new(world, (120, 40));
    console.press(":network enter");
    for _ in 0..2 {
        let text = console.text();
        assert!(text.contains("Not every site could be listed"), "{text}");
        assert!(text.contains(FAILURE), "{text}");
        assert!(!text.contains("There is no network"), "{text}");
        console.press("/zzzz enter");
    }
}

fn no_findings() -> Explanation {
    Explanation {
        target: fake::target("port", 1, "p"),
        deletion: None,
        step: None,
        tombstone: None,
        lines: Vec::new(),
        blockers: Vec::new(),
        refused: Vec::new(),
        next_action: String::new(),
        relations: Vec::new(),
    }
}

fn no_rows() -> Gantt {
    Gantt {
        from: fake::now(),
        until: fake::now(),
        columns: 80,
        rows: Vec::new(),
    }
}

fn unreachable() -> ControlError {
    ControlError::Unreachable {
        message: FAILURE.to_owned(),
    }
}
