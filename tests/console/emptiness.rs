//! A pane without rows says why: it still asks, it could not be answered, a filter hides all rows, or there is
//! nothing. Each of the four, for each pane.

use gone::control::{ControlError, Explanation, Page, Query};
use gone::domain::gantt::Gantt;
use gone::domain::model::{DeletionState, StepState};
use gone::frontends::console::ConsoleOptions;

use crate::fake::{self, Desk, World, deletion, step};

const FAILURE: &str = "the socket was closed";

/// One pane.
struct Case {
    /// Its name, and from where it is opened.
    name: &'static str,
    before: &'static str,
    /// What opens it.
    opens: &'static str,
    /// One of its rows.
    noun: &'static str,
    /// Said until the first answer; none: it needs none.
    loading: Option<&'static str>,
    /// Said where there is nothing; none: it is never empty by itself.
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
        before: ":deletions enter",
        opens: "enter",
        ..pane(
            "tree",
            "step",
            "Reading the steps",
            "This deletion has no steps yet",
        )
    },
    Case {
        before: ":deletions enter",
        opens: "t",
        ..pane(
            "chart",
            "row",
            "Counting what happened",
            "This deletion has no steps yet",
        )
    },
    Case {
        before: ":stuck enter",
        opens: "enter",
        ..pane(
            "inspect",
            "event",
            "Reading the timeline",
            "Nothing has happened to it yet",
        )
    },
    Case {
        before: ":stuck enter",
        opens: "e",
        ..pane(
            "explain",
            "line",
            "Reading it, and what refers to it",
            "Nothing blocks it",
        )
    },
    Case {
        before: ":stuck enter down",
        opens: "b",
        ..pane(
            "blockers",
            "blocker",
            "Asking for the blockers",
            "No blocker is known",
        )
    },
    Case {
        before: ":causes enter",
        opens: "enter",
        nothing: None,
        ..pane(
            "cause",
            "step",
            "Asking for the stuck and blocked steps",
            "",
        )
    },
    Case {
        before: ":stuck enter",
        opens: "F",
        nothing: None,
        ..pane("ladder", "rung", "Asking what can be done about it", "")
    },
    Case {
        before: ":network enter",
        opens: "D",
        nothing: None,
        ..pane("plan", "step", "Planning to delete", "")
    },
    Case {
        before: ":network enter",
        opens: "enter",
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
        opens: "?",
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
        before: "",
        opens: "",
        noun,
        loading: Some(loading),
        nothing: Some(nothing),
    }
}

impl Case {
    /// The keys that open it.
    fn open(&self, desk: &mut Desk) {
        match self.opens {
            "" => desk.press(&format!(":{} enter", self.name)),
            keys => desk.press(keys),
        }
    }

    /// The pane in this world; before it is opened, something may change.
    fn desk(&self, world: World, prepare: impl FnOnce(&mut Desk)) -> Desk {
        let options = ConsoleOptions {
            tour: self.name == "tour",
            ..fake::options()
        };
        let mut desk = Desk::with(world, (120, 40), options);
        desk.press(self.before);
        prepare(&mut desk);
        self.open(&mut desk);
        desk
    }
}

fn says(case: &Case, desk: &Desk, words: &str) {
    let text = desk.text();
    assert!(
        text.contains(words),
        "{}: \"{words}\" is not said:\n{text}",
        case.name
    );
    let mut braces = text.split('{').skip(1);
    let is_name = |rest: &str| rest.starts_with(|c: char| c.is_ascii_lowercase());
    assert!(
        !braces.any(is_name),
        "{}: an action without its key:\n{text}",
        case.name
    );
}

/// What any of the panes says where there is nothing.
fn says_of_no_nothing(case: &Case, desk: &Desk) {
    let text = desk.text();
    for nothing in CASES.iter().filter_map(|case| case.nothing) {
        assert!(
            !text.contains(nothing),
            "{}: \"{nothing}\":\n{text}",
            case.name
        );
    }
}

#[test]
fn a_pane_that_still_asks_says_so() {
    for case in CASES {
        let Some(loading) = case.loading else {
            continue;
        };
        let desk = case.desk(World::busy(), |desk| {
            desk.answers = false;
            desk.receives = false;
        });
        says(case, &desk, loading);
        says_of_no_nothing(case, &desk);
    }
}

#[test]
fn that_there_is_no_row_is_said_only_until_there_is_one() {
    let mut desk = Desk::new(World::busy(), (80, 24));
    desk.withholds = |query| matches!(query, Query::Resources(_));
    desk.press(":network enter D");
    let told = "there is no row to plan a deletion of";
    assert!(desk.text().contains(told), "{}", desk.text());
    desk.answer_withheld(1);
    let text = desk.text();
    assert!(text.contains("storage") && !text.contains(told), "{text}");
}

#[test]
fn a_question_that_failed_is_not_taken_for_nothing() {
    for case in CASES.iter().filter(|case| case.loading.is_some()) {
        let mut desk = case.desk(World::busy(), |desk| {
            desk.world.answers = Some(Box::new(
                |_: &Query| -> Option<Result<Page, ControlError>> { Some(Err(unreachable())) },
            ));
            desk.world.plan = Err(unreachable());
        });
        if case.name == "events" {
            desk.lose_events(unreachable());
        }
        says(case, &desk, FAILURE);
        says_of_no_nothing(case, &desk);
        let text = desk.text();
        let asked = ["could not be", "could be listed", "Nothing was sent"];
        assert!(
            asked.iter().any(|words| text.contains(words)),
            "{}:\n{text}",
            case.name
        );
    }
}

#[test]
fn a_filter_that_matches_nothing_says_so() {
    for case in CASES {
        let mut world = World::busy();
        if case.name == "drift" {
            world.steps.push(fake::drifted(95, "web"));
        }
        let mut desk = case.desk(world, |_| {});
        if case.name == "events" {
            desk.follow();
        }
        desk.press("/zzzz enter");
        says(case, &desk, &format!("No {} matches \"zzzz\".", case.noun));
        says_of_no_nothing(case, &desk);
        desk.press("esc");
        assert!(!desk.text().contains("matches \"zzzz\""), "{}", case.name);
    }
}

#[test]
fn a_pane_with_nothing_says_what_would_be_here() {
    for case in CASES {
        let Some(nothing) = case.nothing else {
            continue;
        };
        let mut world = World::empty();
        match case.before {
            "" => {}
            ":deletions enter" => {
                world.deletions = vec![deletion(1, DeletionState::Running, 0, 1)];
                world.plan = Err(unreachable());
            }
            _ => world.steps = vec![step(1, "port", "p", StepState::Stuck, &[])],
        }
        let mut desk = case.desk(world, |desk| {
            desk.world.steps.retain(|_| case.name != "tree");
            desk.world.answers = Some(Box::new(|query| match query {
                Query::Chart(_) => Some(Ok(Page::Chart(no_rows()))),
                Query::Explain(_) => Some(Ok(Page::Explain(Box::new(no_findings())))),
                _ => None,
            }));
        });
        if case.name == "events" {
            desk.follow();
        }
        says(case, &desk, nothing);
        // No filter could show more.
        if !["tree", "stuck", "gc"].contains(&case.name) {
            desk.press("/zzzz enter");
            says(case, &desk, nothing);
        }
    }
}

#[test]
fn a_kind_that_one_site_could_not_list_is_not_taken_for_nothing() {
    let mut world = World::busy();
    for listing in &mut world.listings {
        listing.rows.clear();
    }
    world.listings[0].error = None;
    world.listings[1].error = Some(FAILURE.to_owned());
    let mut desk = Desk::new(world, (120, 40));
    desk.press(":network enter");
    for _ in 0..2 {
        let text = desk.text();
        assert!(text.contains("Not every site could be listed"), "{text}");
        assert!(text.contains(FAILURE), "{text}");
        assert!(!text.contains("There is no network"), "{text}");
        desk.press("/zzzz enter");
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
