//! What is on the screen is true now, or says how old it is.

use chrono::TimeDelta;
use gone::control::{ControlError, Query, query};
use gone::domain::model::{Phase, Tombstone};
use gone::frontends::console::Event;

use super::fake::{Desk, World, id, key, now};

fn is_list(query: &Query) -> bool {
    matches!(query, Query::Resources(query::Resources { kind, .. }) if kind == "network")
}

fn lists(desk: &Desk) -> usize {
    desk.asked.iter().filter(|query| is_list(query)).count()
}

fn desk() -> Desk {
    let mut desk = Desk::new(World::busy(), (100, 24));
    desk.press(":network enter");
    desk
}

/// The deletion of `storage` ends: the engine confirms that it is gone, and publishes.
fn end_deletion(desk: &mut Desk) {
    let gone = desk.now + TimeDelta::seconds(1);
    desk.world.tombstones = vec![Tombstone {
        record_id: 1,
        key: key("network", &id(3)),
        phase: Phase::Gone,
        deleted_at: Some(now()),
        gone_at: Some(gone),
        incarnation: 1,
        recreated: 0,
        deletion_id: "d".to_owned(),
    }];
    desk.world.listings[0].rows.remove(2);
    desk.world.listings[0].at = gone + TimeDelta::seconds(1);
    desk.world.snapshot.steps.gone += 1;
    desk.world.snapshot.last_event += 1;
    *desk
        .world
        .snapshot
        .deletions_by_state
        .entry("gone".to_owned())
        .or_default() += 1;
    desk.publish();
}

#[test]
fn a_list_never_shows_what_ended_as_if_it_were_there() {
    // However long the clouds take to list their networks again.
    for is_slow in [false, true] {
        for (name, before, after) in [
            ("shown", "", ""),
            ("hidden", "?", "esc"),
            ("hidden twice", "enter ?", "esc esc"),
            ("filtered", "/stor enter", ""),
            ("marked", "down down space", ""),
            ("filtered, marked and hidden", "/stor enter space ?", "esc"),
        ] {
            let mut desk = desk();
            desk.press(before);
            if is_slow {
                desk.withholds = is_list;
            }
            end_deletion(&mut desk);
            desk.press(after);
            let text = desk.text();
            let has_row = text.lines().any(|line| line.contains("storage  "));
            assert!(!has_row, "{name}, slow: {is_slow}\n{text}");
            assert!(!text.contains("1 marked"), "{name}\n{text}");
            if before.starts_with('/') {
                desk.press("esc");
            }
            assert!(desk.text().contains("edge"), "{name}\n{}", desk.text());
        }
    }
}

#[test]
fn a_list_is_asked_again_on_return() {
    let mut desk = desk();
    let before = lists(&desk);
    desk.press("?");
    desk.pass(30);
    assert_eq!(lists(&desk), before, "nobody looks at it");
    desk.press("esc");
    desk.pass(1);
    assert_eq!(lists(&desk), before + 1);
}

#[test]
fn a_list_is_asked_again_the_more_rarely_the_longer_it_takes() {
    let mut desk = desk();
    let before = lists(&desk);
    desk.pass(60);
    let quick = lists(&desk) - before;
    assert!((10..=12).contains(&quick), "every five seconds: {quick}");

    let mut desk = Desk::new(World::busy(), (100, 24));
    desk.withholds = is_list;
    desk.press(":network enter");
    desk.answer_withheld(4);
    let before = lists(&desk);
    desk.pass(35);
    assert_eq!(lists(&desk), before, "not within ten times as long");
    desk.pass(5);
    assert_eq!(lists(&desk), before + 1);
}

#[test]
fn a_list_says_how_old_it_is() {
    let title = |desk: &Desk| {
        let text = desk.text();
        let title = text.lines().find(|line| line.starts_with("── network"));
        title.unwrap_or_else(|| panic!("{text}")).to_owned()
    };
    let mut desk = Desk::new(World::busy(), (100, 24));
    desk.withholds = is_list;
    desk.press(":network enter");
    assert!(title(&desk).contains("asking…"), "{}", title(&desk));
    desk.answer_withheld(4);
    assert!(title(&desk).contains(" just now "), "{}", title(&desk));
    desk.pass(23);
    // The rows are as old as the question.
    assert!(title(&desk).contains(" 20 s ago "), "{}", title(&desk));
    desk.pass(15);
    assert!(title(&desk).contains("asking…"), "{}", title(&desk));
    desk.world.answers = Some(Box::new(|query| {
        is_list(query).then(|| {
            Err(ControlError::Unreachable {
                message: "the socket was closed".to_owned(),
            })
        })
    }));
    desk.answer_withheld(1);
    desk.withholds = |_| false;
    desk.press("ctrl-r");
    desk.pass(3);
    let failed = title(&desk);
    assert!(failed.contains("failed just now, retrying"), "{failed}");
    let before = lists(&desk);
    desk.pass(180);
    let retries = lists(&desk) - before;
    assert!(
        (3..=8).contains(&retries),
        "more and more rarely: {retries}"
    );
    desk.world.answers = None;
    desk.pass(61);
    assert!(title(&desk).contains(" just now "), "{}", title(&desk));
}

#[test]
fn a_pane_that_follows_the_engine_says_so_until_the_engine_has_gone() {
    let mut desk = Desk::new(World::busy(), (100, 24));
    for pane in ["", ":stuck enter", ":sites enter", ":events enter"] {
        desk.press(pane);
        if desk.following.is_some() {
            desk.follow();
        }
        assert!(desk.text().contains(" live ─"), "{pane}\n{}", desk.text());
    }
    desk.take(Event::EngineGone);
    let text = desk.text();
    assert!(text.contains(" as of 09:30:00 ─"), "{text}");
    assert!(!text.contains(" live ─"), "{text}");
}

#[test]
fn no_pane_is_live_while_the_engine_of_an_attached_console_cannot_be_reached() {
    let mut desk = Desk::new(World::busy(), (80, 24));
    for pane in ["", ":stuck enter", ":sites enter", ":home enter"] {
        desk.press(pane);
        assert!(desk.text().contains(" live ─"), "{pane}\n{}", desk.text());
        let engine = &mut desk.world.snapshot.engine;
        engine.fault = Some("engine not reachable, since 09:30:07 UTC: it has ended".to_owned());
        engine.unreachable_since = Some(super::fake::now() + chrono::TimeDelta::seconds(7));
        desk.publish();
        let text = desk.text();
        assert!(text.contains(" as of 09:30:00 ─"), "{pane}\n{text}");
        assert!(!text.contains(" live ─"), "{pane}\n{text}");
        let told = "✖ engine not reachable since 09:30:07: start gone --engine";
        assert!(text.contains(told), "{pane}\n{text}");
        let engine = &mut desk.world.snapshot.engine;
        engine.fault = None;
        engine.unreachable_since = None;
        desk.publish();
    }
}

#[test]
fn what_is_read_once_says_when() {
    let mut desk = desk();
    for pane in ["enter", "esc e", "esc D"] {
        desk.press(pane);
        let text = desk.text();
        assert!(text.contains(" as of 09:30:00 ─"), "{pane}\n{text}");
    }
}
