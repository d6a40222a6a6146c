//! A pane without rows says why: it is still loading, its query failed, a filter hides all rows, or nothing exists.
//! For each pane of `CASES`, the tests check each of these four reasons that the pane can have.

use gone::control::{Page, Query};
use gone::domain::gantt::Gantt;
use gone::domain::model::{DeletionState, StepState};
use gone::frontends::console::ConsoleOptions;

use crate::fake::{self, TestConsole, World, deletion, explanation, step, unreachable};

const FAILURE: &str = "the socket was closed";

/// A pane, the keys that open it, and its messages while it has no rows.
struct Case {
    name: &'static str,
    /// The keys that lead to the pane from which this one is opened; empty for the pane of a new console.
    start_keys: &'static str,
    /// The keys that open this pane.
    open_keys: &'static str,
    /// The word for one row of the pane.
    noun: &'static str,
    /// The pane's message until the first answer; empty if the pane waits for no answer.
    loading: &'static str,
    /// The pane's message if nothing exists; empty if the pane always has rows.
    nothing: &'static str,
}

/// The panes of these tests. The columns are the arguments of [`case`].
#[rustfmt::skip]
const CASES: &[Case] = &[
    case("deletions", "deletion", "", ":deletions enter", "Asking for the deletions", "No deletion has been asked for yet"),
    case("stuck", "step", "", ":stuck enter", "Asking for the stuck and blocked steps", "Nothing is stuck, and nothing was refused"),
    case("gc", "step", "", ":gc enter", "Asking for the stuck and blocked steps", "Nothing is blocked"),
    case("causes", "cause", "", ":causes enter", "Asking for the causes", "Nothing is stuck"),
    case("orphans", "orphan", "", ":orphans enter", "Asking the clouds for the abandoned resources", "Nothing was abandoned"),
    case("tombstones", "tombstone", "", ":tombstones enter", "Reading the tombstones", "There is no tombstone"),
    case("drift", "step", "", ":drift enter", "Asking for the steps that are stuck with drift", "No deletion waits for your answer"),
    case("gates", "gate", "", ":gates enter", "Asking the engine for its gates", "This engine has no gate"),
    case("deployments", "deployment", "", ":deployments enter", "Asking the engine for other deployments", "No other deployment is known"),
    case("engine", "reconciler", "", ":engine enter", "Asking the engine what it does", "This engine has no reconcilers"),
    case("engines", "engine", "", ":engines enter", "Asking which engines share this ledger", "No engine works on this ledger"),
    case("network", "network", "", ":network enter", "Listing every network", "There is no network that you may see here"),
    case("events", "event", "", ":events enter", "Reading the events", "Nothing has happened yet"),
    case("sites", "site", "", ":sites enter", "", "No cloud is configured"),
    case("tree", "step", ":deletions enter", "enter", "Reading the steps", "This deletion has no steps"),
    case("chart", "row", ":deletions enter", "t", "Counting what happened", "This deletion has no steps"),
    case("inspect", "event", ":stuck enter", "enter", "Reading the timeline", "No event has been recorded yet"),
    case("explain", "line", ":stuck enter", "e", "Reading the resource, and the resources that refer to it", "Nothing blocks the resource"),
    case("blockers", "blocker", ":stuck enter down", "b", "Asking for the blockers", "No blocker is known"),
    case("cause", "step", ":causes enter", "enter", "Asking for the stuck and blocked steps", ""),
    case("ladder", "rung", ":stuck enter", "F", "Asking which rungs are offered", ""),
    case("plan", "step", ":network enter", "D", "Planning to delete", ""),
    case("details", "field", ":network enter", "enter", "", ""),
    case("tour", "station", "", ":tour enter", "", ""),
    case("help", "key", "", "?", "", ""),
];

const fn case(
    name: &'static str,
    noun: &'static str,
    start_keys: &'static str,
    open_keys: &'static str,
    loading: &'static str,
    nothing: &'static str,
) -> Case {
    Case {
        name,
        start_keys,
        open_keys,
        noun,
        loading,
        nothing,
    }
}

impl Case {
    /// Opens the pane in a console with this world. `prepare` changes the console before the pane is opened.
    fn console(&self, world: World, prepare: impl FnOnce(&mut TestConsole)) -> TestConsole {
        let options = ConsoleOptions {
            tour: self.name == "tour",
            ..fake::options()
        };
        let mut console = TestConsole::with(world, (120, 40), options).after(self.start_keys);
        prepare(&mut console);
        console.after(self.open_keys)
    }
}

/// Checks that the screen has this text, and no action name in braces in place of a key.
fn assert_says(case: &Case, console: &TestConsole, words: &str) {
    console.assert_shows([words]);
    let text = console.text();
    let mut braces = text.split('{').skip(1);
    let is_name = |rest: &str| rest.starts_with(|c: char| c.is_ascii_lowercase());
    assert!(
        !braces.any(is_name),
        "{}: the name of an action stands in place of its key:\n{text}",
        case.name
    );
}

/// Checks that the screen has none of the messages that nothing exists.
fn assert_not_called_empty(console: &TestConsole) {
    let messages = CASES.iter().map(|case| case.nothing);
    console.assert_hides(messages.filter(|message| !message.is_empty()));
}

#[test]
fn a_pane_says_that_it_is_loading_until_the_first_answer() {
    for case in CASES.iter().filter(|case| !case.loading.is_empty()) {
        let console = case.console(World::busy(), |console| {
            console.answers_queries = false;
            console.answers_commands = false;
        });
        assert_says(case, &console, case.loading);
        assert_not_called_empty(&console);
    }
}

#[test]
fn the_message_that_no_row_exists_disappears_with_the_first_row() {
    let mut console = TestConsole::busy("");
    console.withholds = |query| matches!(query, Query::Resources(_));
    console.press(":network enter D");
    let expected = "no resource is listed, so no deletion can be planned";
    console.assert_shows([expected]);
    console.answer_withheld(1);
    console.assert_shows(["storage"]);
    console.assert_hides([expected]);
}

#[test]
fn a_pane_whose_query_failed_shows_the_error_and_not_that_it_is_empty() {
    for case in CASES.iter().filter(|case| !case.loading.is_empty()) {
        let mut console = case.console(World::busy(), |console| {
            console.world.override_answer = Some(Box::new(|_| Some(Err(unreachable(FAILURE)))));
            console.world.plan = Err(unreachable(FAILURE));
        });
        if case.name == "events" {
            console.fail_events(unreachable(FAILURE));
        }
        assert_says(case, &console, FAILURE);
        assert_not_called_empty(&console);
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
        let expected = format!("No {} matches \"zzzz\".", case.noun);
        assert_says(case, &console, &expected);
        assert_not_called_empty(&console);
        console.press("esc");
        console.assert_hides(["matches \"zzzz\""]);
    }
}

#[test]
fn an_empty_pane_says_that_nothing_exists() {
    for case in CASES.iter().filter(|case| !case.nothing.is_empty()) {
        let mut world = World::empty();
        match case.start_keys {
            "" => {}
            ":deletions enter" => {
                world.deletions = vec![deletion(1, DeletionState::Running, 0, 1)];
                world.plan = Err(unreachable(FAILURE));
            }
            _ => world.steps = vec![step(1, "port", "p", StepState::Stuck, &[])],
        }
        let mut console = case.console(world, |console| {
            console.world.steps.retain(|_| case.name != "tree");
            console.world.override_answer = Some(Box::new(|query| match query {
                Query::Chart(_) => Some(Ok(Page::Chart(Gantt {
                    rows: Vec::new(),
                    ..fake::gantt()
                }))),
                Query::Explain(_) => {
                    let nothing = explanation(fake::target("port", 1, "p"));
                    Some(Ok(Page::Explain(Box::new(nothing))))
                }
                _ => None,
            }));
        });
        if case.name == "events" {
            console.deliver_events();
        }
        assert_says(case, &console, case.nothing);
        // A filter that matches nothing does not change the message.
        if !["tree", "stuck", "gc"].contains(&case.name) {
            console.press("/zzzz enter");
            assert_says(case, &console, case.nothing);
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
    let mut console = TestConsole::new(world, (120, 40)).after(":network enter");
    for _ in 0..2 {
        console.assert_shows(["Not every site could be listed", FAILURE]);
        console.assert_hides(["There is no network"]);
        console.press("/zzzz enter");
    }
}
