//! The rows on the screen are current, or the pane shows how old they are.

use chrono::TimeDelta;
use gone::control::{Query, query};
use gone::domain::model::{Phase, Tombstone};
use gone::frontends::console::Event;

use super::fake::{TestConsole, World, now, tombstone, unreachable};

fn is_list(query: &Query) -> bool {
    matches!(query, Query::Resources(query::Resources { kind, .. }) if kind == "network")
}

fn lists(console: &TestConsole) -> usize {
    console.count(is_list)
}

fn console() -> TestConsole {
    TestConsole::new(World::busy(), (100, 24)).after(":network enter")
}

/// Ends the deletion of network `storage`: the engine confirms that it is gone, and publishes a snapshot.
fn end_deletion(console: &mut TestConsole) {
    let gone = console.now + TimeDelta::seconds(1);
    console.world.tombstones = vec![Tombstone {
        deleted_at: Some(now()),
        gone_at: Some(gone),
        ..tombstone(3, "network", Phase::Gone)
    }];
    console.world.listings[0].rows.remove(2);
    console.world.listings[0].at = gone + TimeDelta::seconds(1);
    console.world.snapshot.steps.gone += 1;
    console.world.snapshot.last_event += 1;
    let by_state = &mut console.world.snapshot.deletions_by_state;
    *by_state.entry("gone".to_owned()).or_default() += 1;
    console.publish();
}

#[test]
fn a_list_drops_a_deleted_resource_at_once_even_if_the_cloud_answers_slowly() {
    for is_slow in [false, true] {
        for (name, before, after) in [
            ("shown", "", ""),
            ("hidden", "?", "esc"),
            ("hidden twice", "enter ?", "esc esc"),
            ("filtered", "/stor enter", ""),
            ("marked", "down down space", ""),
            ("filtered, marked and hidden", "/stor enter space ?", "esc"),
        ] {
            let mut console = console();
            console.press(before);
            if is_slow {
                console.withholds = is_list;
            }
            end_deletion(&mut console);
            console.press(after);
            let text = console.text();
            let has_row = text.lines().any(|line| line.contains("storage  "));
            assert!(!has_row, "{name}, slow: {is_slow}\n{text}");
            assert!(!text.contains("1 marked"), "{name}\n{text}");
            if before.starts_with('/') {
                console.press("esc");
            }
            console.assert_shows(["edge"]);
        }
    }
}

#[test]
fn a_hidden_list_is_refreshed_only_after_it_is_shown_again() {
    let mut console = console();
    let before = lists(&console);
    console.press("?");
    console.advance(30);
    assert_eq!(lists(&console), before, "a hidden list is not refreshed");
    console.press("esc");
    console.advance(1);
    assert_eq!(lists(&console), before + 1);
}

#[test]
fn a_list_that_takes_longer_is_refreshed_less_often() {
    let mut console = console();
    let before = lists(&console);
    console.advance(60);
    let quick = lists(&console) - before;
    assert!(
        (10..=12).contains(&quick),
        "refreshed every five seconds: {quick}"
    );

    let mut console = TestConsole::new(World::busy(), (100, 24));
    console.withholds = is_list;
    console.press(":network enter");
    console.answer_withheld(4);
    let before = lists(&console);
    console.advance(35);
    assert_eq!(
        lists(&console),
        before,
        "not refreshed within ten times the time that it takes"
    );
    console.advance(5);
    assert_eq!(lists(&console), before + 1);
}

#[test]
fn a_failed_query_of_home_is_retried_although_nothing_changes() {
    let is_causes = |query: &Query| matches!(query, Query::Causes(_));
    let mut world = World::busy();
    world.override_answer = Some(Box::new(move |query| {
        is_causes(query).then(|| Err(unreachable("the socket was closed")))
    }));
    let mut console = TestConsole::new(world, (100, 24));
    console.press(":home enter");
    console.assert_shows(["failed just now, retrying"]);
    let before = console.count(is_causes);
    console.advance(180);
    let retries = console.count(is_causes) - before;
    assert!((3..=8).contains(&retries), "{retries}");
}

#[test]
fn a_list_says_how_old_it_is() {
    let assert_titled = |console: &TestConsole, age: &str| {
        let title = console.line("── network");
        assert!(title.contains(age), "{title}");
    };
    let mut console = TestConsole::new(World::busy(), (100, 24));
    console.withholds = is_list;
    console.press(":network enter");
    assert_titled(&console, "asking…");
    console.answer_withheld(4);
    assert_titled(&console, " just now ");
    console.advance(23);
    // The query is 27 seconds old and its answer 23. Ages are rounded down to tens of seconds.
    assert_titled(&console, " 20 s ago ");
    console.advance(15);
    assert_titled(&console, "asking…");
    console.world.override_answer = Some(Box::new(|query| {
        is_list(query).then(|| Err(unreachable("the socket was closed")))
    }));
    console.answer_withheld(1);
    console.withholds = |_| false;
    console.press("ctrl-r");
    console.advance(3);
    assert_titled(&console, "failed just now, retrying");
    let before = lists(&console);
    console.advance(180);
    let retries = lists(&console) - before;
    assert!(
        (3..=8).contains(&retries),
        "retried less and less often: {retries}"
    );
    console.world.override_answer = None;
    console.advance(61);
    assert_titled(&console, " just now ");
}

#[test]
fn a_pane_that_follows_the_engine_is_marked_live_until_the_engine_ends() {
    let mut console = TestConsole::new(World::busy(), (100, 24));
    for pane in ["", ":stuck enter", ":sites enter", ":events enter"] {
        console.press(pane);
        if console.event_request.is_some() {
            console.deliver_events();
        }
        console.assert_shows([" live ─"]);
    }
    console.handle(Event::EngineGone);
    console.assert_shows([" as of 09:30:00 ─"]);
    console.assert_hides([" live ─"]);
}

#[test]
fn no_pane_is_live_while_the_engine_of_an_attached_console_cannot_be_reached() {
    let mut console = TestConsole::busy("");
    for pane in ["", ":stuck enter", ":sites enter", ":home enter"] {
        console.press(pane);
        console.assert_shows([" live ─"]);
        let engine = &mut console.world.snapshot.engine;
        engine.fault = Some("engine not reachable since 09:30:07 UTC: it has ended; if it does not come up again, start gone --engine".to_owned());
        engine.unreachable_since = Some(super::fake::now() + chrono::TimeDelta::seconds(7));
        console.publish();
        console.assert_shows([
            " as of 09:30:00 ─",
            "✖ engine not reachable since 09:30:07: start gone --engine",
        ]);
        console.assert_hides([" live ─"]);
        let engine = &mut console.world.snapshot.engine;
        engine.fault = None;
        engine.unreachable_since = None;
        console.publish();
    }
}

#[test]
fn a_pane_that_is_read_once_shows_the_time_of_its_data() {
    let mut console = console();
    for pane in ["enter", "esc e", "esc D"] {
        console.press(pane);
        console.assert_shows([" as of 09:30:00 ─"]);
    }
}
