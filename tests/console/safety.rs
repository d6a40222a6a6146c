//! Nothing is deleted by accident: wrong keys, pasted text, type-ahead, rows that move.

use std::sync::Arc;

use gone::control::{Accepted, Command, ControlError, Query, Receipt, SiteState, query};
use gone::domain::ladder::{PurgeScope, Rung};
use gone::domain::model::{DeletionState, ErrorClass, EventKind, SitePause, StepError, StepState};
use gone::frontends::console::{
    ConsoleOptions, Effect, EngineMode, Event, Exit, Practice, State, render_lines, update,
};
use termina::event::{KeyCode, KeyEvent, KeyEventKind, Modifiers};

use super::fake::{Desk, World, deletion, id, now, options, refusal, site, step};

fn at_plan() -> Desk {
    let mut desk = Desk::new(World::busy(), (80, 24));
    desk.press(":network enter /web enter space D");
    desk
}

fn plan_hash(command: &Command) -> &str {
    match command {
        Command::DeletePlan { plan_hash } => plan_hash,
        other => panic!("not a deletion by plan: {other:?}"),
    }
}

#[test]
fn a_deletion_is_planned_confirmed_and_followed() {
    let mut desk = at_plan();
    assert!(matches!(desk.sent.as_slice(), [Command::Plan { .. }]));
    let text = desk.text();
    assert!(
        text.contains("6 steps · 1 automatic · 1 unset · 0 refused"),
        "{text}"
    );
    desk.press("enter web");
    assert_eq!(desk.changes().len(), 0, "before enter nothing is sent");
    desk.press("enter");
    let hash = desk.world.plan.as_ref().unwrap().hash.clone();
    assert_eq!(desk.changes().len(), 1);
    assert_eq!(plan_hash(desk.changes()[0]), hash);
    let text = desk.text();
    assert!(text.contains("deletion 00000001: network web-1"), "{text}");
    assert!(text.contains("accepted as deletion 00000001"), "{text}");
}

#[test]
fn the_short_id_confirms_too_and_anything_else_does_not() {
    for (typed, goes) in [
        ("00000001", true),
        ("web", true),
        ("We", false),
        ("web2", false),
        ("y", false),
        ("", false),
    ] {
        let mut desk = at_plan();
        desk.press(&format!("enter {typed} enter"));
        assert_eq!(desk.changes().len(), usize::from(goes), "{typed:?}");
        if !goes {
            assert!(desk.text().contains("That is not it"), "{}", desk.text());
            desk.press("esc");
            assert!(desk.text().contains("nothing was sent"));
        }
    }
}

#[test]
fn p05_wrong_keys_on_a_read_only_engine_send_no_call() {
    let mut world = World::busy();
    world.snapshot.engine.read_only = true;
    let mut desk = Desk::new(world, (80, 24));
    desk.press(":network enter");
    let asked = desk.asked.len();
    desk.press("ctrl-d ctrl-k delete backspace");
    assert!(
        desk.text().contains("backspace deletes nothing here"),
        "{}",
        desk.text()
    );
    desk.take(Event::Paste("D\nweb\nenter\n\n".to_owned()));
    assert!(desk.text().contains("pasted text does nothing here"));
    desk.press("D");
    assert!(
        desk.text().contains("this engine is read-only"),
        "{}",
        desk.text()
    );
    desk.press("enter esc space D");
    assert_eq!(desk.sent.len(), 0, "not even a plan");
    assert_eq!(desk.asked.len(), asked);
    assert!(desk.text().contains("READ-ONLY"));
}

#[test]
fn p05_one_read_only_site_is_enough() {
    let mut world = World::busy();
    world.snapshot.sites[0].read_only = true;
    let mut desk = Desk::new(world, (80, 24));
    desk.press(":network enter D");
    assert_eq!(desk.sent.len(), 0);
    assert!(desk.text().contains("prod/RegionOne is read-only"));
}

#[test]
fn no_single_key_sends_a_change_from_any_pane() {
    let panes = [
        "",
        ":network enter",
        ":network enter D",
        "enter",
        ":stuck enter",
        ":gc enter",
        ":events enter",
        ":sites enter",
        ":orphans enter",
        ":tombstones enter",
        ":drift enter",
        ":causes enter",
        "?",
        ":stuck enter b",
        ":stuck enter enter",
    ];
    let codes = (' '..='~').map(KeyCode::Char).chain([
        KeyCode::Enter,
        KeyCode::Delete,
        KeyCode::Backspace,
        KeyCode::Tab,
        KeyCode::Insert,
        KeyCode::Function(5),
    ]);
    for code in codes {
        for modifiers in [Modifiers::NONE, Modifiers::CONTROL, Modifiers::ALT] {
            for keys in panes {
                let mut desk = Desk::new(World::busy(), (80, 24));
                desk.press(keys);
                desk.take(Event::Key(KeyEvent::new(code, modifiers)));
                for command in desk.changes() {
                    // These start nothing that was not confirmed before.
                    let harmless = matches!(
                        command,
                        Command::Retry { .. }
                            | Command::RetryStep { .. }
                            | Command::Pause { .. }
                            | Command::PauseSite { .. }
                            | Command::Resume { .. }
                    );
                    assert!(harmless, "{code:?} {modifiers:?} in {keys:?}: {command:?}");
                    assert_eq!(modifiers, Modifiers::NONE, "{code:?}: {command:?}");
                }
            }
        }
    }
}

#[test]
fn what_is_typed_ahead_of_the_plan_is_discarded() {
    let mut desk = Desk::new(World::busy(), (80, 24));
    desk.press(":network enter");
    desk.receives = false;
    desk.shows = false;
    // All of it before the plan is there, and then before it is on the screen.
    desk.press("D enter web enter");
    let (ticket, command) = desk.held.pop().unwrap();
    desk.receive(ticket, &command);
    desk.press("enter web enter");
    desk.take(Event::Paste("web\n".to_owned()));
    assert_eq!(desk.changes().len(), 0);
    assert!(!desk.text().contains("confirm ─"), "{}", desk.text());
    desk.take(Event::GuardPainted);
    desk.press("enter");
    // The prompt is asked for, but not on the screen yet.
    desk.press("web enter");
    desk.take(Event::Paste("web".to_owned()));
    assert_eq!(desk.changes().len(), 0);
    desk.take(Event::GuardPainted);
    desk.press("enter");
    assert_eq!(desk.changes().len(), 0, "the line is still empty");
    desk.press("web enter");
    assert_eq!(desk.changes().len(), 1);
}

#[test]
fn while_a_plan_is_made_only_the_ways_out_are_offered() {
    let mut desk = Desk::new(World::busy(), (80, 24));
    desk.press(":network enter");
    desk.receives = false;
    desk.press("D");
    let text = desk.text();
    assert!(
        text.contains("Planning to delete") && text.contains("esc back"),
        "{text}"
    );
    assert!(
        !text.contains("confirm…") && !text.contains("? help"),
        "{text}"
    );
    let (ticket, command) = desk.held.pop().unwrap();
    desk.receive(ticket, &command);
    assert!(desk.text().contains("enter confirm…"), "{}", desk.text());
}

#[test]
fn a_pasted_newline_never_confirms() {
    let mut desk = at_plan();
    desk.press("enter");
    desk.take(Event::Paste("web\n\nweb\r\n".to_owned()));
    assert_eq!(desk.changes().len(), 0);
    assert!(
        desk.text().contains(">web "),
        "only the first line came in: {}",
        desk.text()
    );
    desk.press("enter");
    assert_eq!(desk.changes().len(), 1);
}

#[test]
fn the_confirmation_is_for_the_row_under_the_cursor_when_d_was_pressed() {
    let mut desk = Desk::new(World::busy(), (80, 24));
    desk.press(":network enter down");
    desk.receives = false;
    desk.press("D");
    // The list is refreshed and turned around while the plan is made.
    desk.world.listings[0].rows.reverse();
    desk.world.snapshot.steps.gone += 1;
    desk.publish();
    let (ticket, command) = desk.held.pop().unwrap();
    let Command::Plan { targets, .. } = &command else {
        panic!("{command:?}");
    };
    assert_eq!(targets[0].id_or_name, id(2));
    assert_eq!(
        targets[0].site,
        gone::control::SiteSpec::Region(site("RegionOne"))
    );
    desk.receive(ticket, &command);
    desk.press("enter");
    assert!(
        desk.text()
            .contains("the name \"db\" or the short id 00000002")
    );
    desk.press("web enter");
    assert_eq!(desk.changes().len(), 0);
}

#[test]
fn cursor_and_marks_stay_on_their_rows_when_a_refresh_moves_them() {
    let mut desk = Desk::new(World::busy(), (80, 24));
    desk.press(":network enter down space");
    let before = desk.text();
    assert!(
        before.contains(" * db") && before.contains(">  storage"),
        "{before}"
    );
    desk.world.listings[0].rows.reverse();
    desk.world.listings[0].rows.retain(|row| row.name != "edge");
    desk.press("ctrl-r");
    let after = desk.text();
    assert!(
        after.contains(" * db") && after.contains(">  storage"),
        "{after}"
    );
    assert!(!after.contains("edge"));
    desk.press("D");
    let Some(Command::Plan { targets, .. }) = desk.sent.last() else {
        panic!("no plan");
    };
    assert_eq!(targets.len(), 1);
    assert_eq!(
        targets[0].id_or_name,
        id(2),
        "what is marked, not the cursor"
    );
}

#[test]
fn several_marked_rows_are_confirmed_by_their_number() {
    let mut desk = Desk::new(World::busy(), (80, 24));
    desk.press(":network enter space space D enter");
    assert!(
        desk.text().contains("how many resources were marked: 2"),
        "{}",
        desk.text()
    );
    desk.press("web enter esc enter 2 enter");
    assert_eq!(desk.changes().len(), 1);
}

#[test]
fn n15_a_refused_plan_cannot_be_confirmed_and_names_its_blocker() {
    let mut world = World::busy();
    world.plan.as_mut().unwrap().refused = vec![refusal()];
    let mut desk = Desk::new(world, (80, 24));
    desk.press(":network enter D enter web enter");
    assert_eq!(desk.changes().len(), 0);
    let mut desk = desk;
    desk.press("b");
    let text = desk.text();
    let words = "blocked by floating IP 203.0.113.9 (project demo, not in this plan)";
    assert!(text.contains(words), "{text}");
    desk.press("y");
    assert_eq!(desk.copied, [id(0xb10c)]);
}

#[test]
fn p01_drift_is_told_and_nothing_follows() {
    let mut desk = at_plan();
    desk.receives = false;
    desk.press("enter web enter");
    let (ticket, _) = desk.held.pop().unwrap();
    desk.take(Event::Receipt {
        ticket,
        receipt: Err(ControlError::Drifted {
            message: "the cloud has changed since this plan".to_owned(),
            changes: vec!["port server-9 is new".to_owned()],
        }),
        now: now(),
    });
    let text = desk.text();
    assert!(
        text.contains("the cloud has changed") && text.contains("server-9 is new"),
        "{text}"
    );
    desk.press("enter web enter");
    assert_eq!(desk.changes().len(), 1, "only the one that was refused");
}

#[test]
fn the_cascade_can_be_switched_and_is_planned_again() {
    let mut desk = at_plan();
    desk.press("x");
    let cascades: Vec<bool> = desk
        .sent
        .iter()
        .map(|command| match command {
            Command::Plan { options, .. } => options.cascade,
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(cascades, [true, false]);
}

#[test]
fn p08_cancel_asks_first() {
    let mut desk = Desk::new(World::busy(), (80, 24));
    desk.press("c enter n enter");
    assert_eq!(desk.sent.len(), 0);
    desk.press("backspace y enter");
    assert!(
        matches!(desk.sent.as_slice(), [Command::Cancel { deletion_id }]
        if *deletion_id == deletion(1, DeletionState::Running, 0, 1).id)
    );
    let told = "network web-1 is cancelled";
    assert!(desk.text().contains(told), "{}", desk.text());
}

#[test]
fn a_blocked_step_is_explained_copied_and_retried() {
    let mut desk = Desk::new(World::busy(), (80, 24));
    desk.press(":stuck enter down enter");
    let text = desk.text();
    assert!(
        text.contains("req-3f1a0c52-5a64-4d0e-9f6e-0a4b2f8d9c11"),
        "{text}"
    );
    assert!(
        text.contains("attempt 1 of 8") && text.contains("next attempt 09:35:00"),
        "{text}"
    );
    desk.press("b");
    let words = "blocked by floating IP 203.0.113.9 (project demo, not in this plan)";
    assert!(desk.text().contains(words), "{}", desk.text());
    desk.press("y");
    assert_eq!(desk.copied, [id(0xb10c)]);
    desk.press("r");
    assert!(matches!(
        desk.sent.as_slice(),
        [Command::RetryStep { step_id: 91 }]
    ));
    assert!(
        desk.text().contains("retry of port server-42: 1 step"),
        "{}",
        desk.text()
    );
}

#[test]
fn pausing_and_resuming_follow_the_state() {
    let mut desk = Desk::new(World::busy(), (80, 24));
    desk.press("p");
    let told = "network web-1 is paused";
    assert!(desk.text().contains(told), "{}", desk.text());
    desk.world.deletions[0].state = DeletionState::Paused;
    desk.world.snapshot.deletions = vec![desk.world.deletions[0].clone()];
    desk.publish();
    desk.press("p");
    let told = "network web-1 is resumed";
    assert!(desk.text().contains(told), "{}", desk.text());
    assert!(matches!(
        desk.sent.as_slice(),
        [Command::Pause { .. }, Command::Resume { .. }]
    ));
}

#[test]
fn quitting_an_embedded_engine_with_work_asks_what_becomes_of_it() {
    for (key, exit) in [("l", Exit::LeaveRunning), ("s", Exit::Stop)] {
        let embedded = ConsoleOptions {
            engine: EngineMode::Embedded,
            ..options()
        };
        let mut desk = Desk::with(World::busy(), (80, 24), embedded);
        desk.press("q q enter esc");
        assert_eq!(desk.exits, []);
        desk.press("q");
        assert!(desk.text().contains("leave it running"), "{}", desk.text());
        desk.press(key);
        assert_eq!(desk.exits, [exit]);
    }
    let mut attached = Desk::new(World::busy(), (80, 24));
    attached.press("q");
    assert_eq!(attached.exits, [Exit::Quit]);
}

/// A deletion that was accepted has no steps until it is planned.
#[test]
fn a_deletion_that_is_being_planned_is_work_under_way() {
    let embedded = ConsoleOptions {
        engine: EngineMode::Embedded,
        ..options()
    };
    let mut world = World::empty();
    world.deletions = vec![deletion(1, DeletionState::Planning, 0, 0)];
    world.snapshot.deletions = world.deletions.clone();
    world.snapshot.deletions_by_state = [("planning".to_owned(), 1)].into();
    let mut desk = Desk::with(world, (80, 24), embedded);
    let text = desk.text();
    assert!(text.contains("1 deletion being planned"), "{text}");
    assert!(!text.contains("nothing under way"), "{text}");
    desk.press("q");
    let text = desk.text();
    assert!(text.contains("1 deletion is being planned."), "{text}");
    assert!(!text.contains("0 steps"), "{text}");
    assert_eq!(desk.exits, []);
}

/// The practice cloud is in the console's process, so nothing that the other console offers would be true.
#[test]
fn quitting_a_practice_cloud_says_that_it_ends_and_leaves_nothing_running() {
    for (keeps_ledger, told) in [
        (false, "and its deletions are forgotten"),
        (true, "its deletions stay in the ledger"),
    ] {
        let practice = ConsoleOptions {
            engine: EngineMode::Embedded,
            practice: Some(Practice { keeps_ledger }),
            ..options()
        };
        let mut desk = Desk::with(World::busy(), (80, 24), practice);
        desk.press("q");
        for text in [desk.text(), render_lines(&desk.state).join("\n")] {
            let words = text.split([' ', '\n', '│']).filter(|word| !word.is_empty());
            let text = words.collect::<Vec<_>>().join(" ");
            let ends = "The practice cloud ends with this console";
            assert!(text.contains(ends) && text.contains(told), "{text}");
            for untrue in ["leave it running", "the next start continues"] {
                assert!(!text.contains(untrue), "{text}");
            }
        }
        desk.press("l");
        assert_eq!(desk.exits, []);
        desk.take(Event::Resize(39, 9));
        assert!(!desk.text().contains("leave it"), "{}", desk.text());
        desk.press("s");
        assert_eq!(desk.exits, [Exit::Stop]);
    }
}

#[test]
fn the_question_about_work_answers_itself_once_the_work_has_ended() {
    let embedded = ConsoleOptions {
        engine: EngineMode::Embedded,
        ..options()
    };
    let mut desk = Desk::with(World::busy(), (80, 24), embedded);
    desk.press("q");
    desk.publish();
    assert!(desk.text().contains("leave it running"), "{}", desk.text());
    desk.world.snapshot = World::empty().snapshot;
    desk.publish();
    assert_eq!(desk.exits, [Exit::Quit]);
}

#[test]
fn a_site_is_paused_and_resumed_by_the_same_key() {
    let mut desk = Desk::new(World::busy(), (80, 24));
    desk.press(":sites enter p");
    let site = desk.world.snapshot.sites[0].site.clone();
    let status = &mut desk.world.snapshot.sites[0];
    status.state = SiteState::Paused;
    status.paused_by = Some(SitePause {
        site: site.clone(),
        by: options().actor,
        reason: String::new(),
        at: now(),
    });
    desk.publish();
    desk.press("p");
    let [
        Command::PauseSite { site: paused },
        Command::ResumeSite { site: resumed },
    ] = desk.sent.as_slice()
    else {
        panic!("{:?}", desk.sent);
    };
    assert_eq!((paused, resumed), (&site, &site));
}

/// Each answer is a look at the clouds.
#[test]
fn orphans_are_looked_at_when_asked_and_not_whenever_the_engine_moves() {
    let mut desk = Desk::new(World::busy(), (80, 24));
    desk.press(":orphans enter");
    let asked = desk.asked.len();
    let later = now() + chrono::TimeDelta::seconds(2);
    desk.world.snapshot.last_event += 1;
    desk.publish();
    desk.take(Event::Tick(later));
    assert_eq!(desk.asked.len(), asked);
    desk.press("ctrl-r");
    desk.take(Event::Tick(later));
    assert_eq!(desk.asked.len(), asked + 1);
}

#[test]
fn a_failed_question_is_told_and_kept() {
    let mut world = World::busy();
    world.steps.clear();
    let mut desk = Desk::new(world, (80, 24));
    desk.press("r");
    desk.take(Event::Receipt {
        ticket: 9_999,
        receipt: Err(ControlError::Unreachable {
            message: "the engine does not answer on its socket".to_owned(),
        }),
        now: now(),
    });
    assert!(desk.text().contains("the engine does not answer"));
    desk.press("down");
    assert!(
        !desk.text().contains("the engine does not answer"),
        "the line is free again"
    );
    desk.press(":events enter");
    assert!(
        desk.text().contains("the engine does not answer"),
        "{}",
        desk.text()
    );
}

#[test]
fn a_key_that_is_let_go_is_no_key() {
    let mut desk = Desk::new(World::busy(), (80, 24));
    let mut key = KeyEvent::new(KeyCode::Char('q'), Modifiers::NONE);
    key.kind = KeyEventKind::Release;
    desk.take(Event::Key(key));
    assert_eq!(desk.exits, []);
}

/// But for lists of resources, which others change too: those are asked again on a clock.
#[test]
fn nothing_is_asked_again_while_nothing_moves() {
    let mut desk = Desk::new(World::busy(), (80, 24));
    for pane in [
        "",
        ":stuck enter",
        ":gc enter",
        "?",
        ":sites enter",
        ":orphans enter",
    ] {
        desk.press(pane);
        let asked = desk.asked.len();
        assert!(!desk.state.wants_tick(), "{pane}");
        for _ in 0..5 {
            desk.publish();
        }
        assert_eq!(desk.asked.len(), asked, "{pane}");
        assert!(!desk.state.wants_tick(), "{pane}");
    }
}

#[test]
fn rows_are_asked_again_when_the_engine_moved_but_at_most_once_a_second() {
    let mut desk = Desk::new(World::busy(), (80, 24));
    desk.press(":stuck enter");
    let stuck = |desk: &Desk| {
        let steps = |q: &&Query| matches!(q, Query::Steps(_));
        desk.asked.iter().filter(steps).count()
    };
    let before = stuck(&desk);
    for _ in 0..10 {
        desk.world.snapshot.last_event += 1;
        let snapshot = Arc::new(desk.world.snapshot.clone());
        desk.take(Event::Snapshot {
            snapshot,
            now: now(),
        });
    }
    assert_eq!(stuck(&desk), before);
    assert!(desk.state.wants_tick(), "it has to be asked later");
    desk.take(Event::Tick(now() + chrono::TimeDelta::seconds(2)));
    assert_eq!(stuck(&desk), before + 1);
}

/// The branches behind it wait until they are shown again.
#[test]
fn a_filtered_tree_of_a_deletion_that_moved_comes_to_rest() {
    let mut desk = Desk::new(World::busy(), (80, 24));
    desk.press("enter / p o r t enter");
    assert!(!desk.state.wants_tick());
    let outlines = |desk: &Desk| {
        let outlines = |q: &&Query| matches!(q, Query::Outline(_));
        desk.asked.iter().filter(outlines).count()
    };
    let before = outlines(&desk);
    desk.world.snapshot.last_event += 1;
    desk.world.snapshot.deletions[0].counts.gone += 1;
    desk.publish();
    desk.take(Event::Tick(now() + chrono::TimeDelta::seconds(2)));
    assert!(!desk.state.wants_tick());
    assert_eq!(outlines(&desk), before);
    desk.press("esc");
    assert_eq!(outlines(&desk), before + 1);
}

#[test]
fn the_console_starts_where_it_was_told_to() {
    let start = ConsoleOptions {
        start: Some("stuck".to_owned()),
        ..options()
    };
    let desk = Desk::with(World::busy(), (80, 24), start);
    assert!(desk.text().contains("── stuck 3"), "{}", desk.text());
}

#[test]
fn a_word_typed_before_the_kinds_are_known_waits_for_them() {
    let world = World::busy();
    let (mut state, _) = State::new(options(), Arc::new(world.snapshot.clone()), now(), (80, 24));
    for c in ":network".chars() {
        update(
            &mut state,
            Event::Key(KeyEvent::new(KeyCode::Char(c), Modifiers::NONE)),
        );
    }
    update(
        &mut state,
        Event::Key(KeyEvent::new(KeyCode::Enter, Modifiers::NONE)),
    );
    let effects = update(
        &mut state,
        Event::Answer {
            ticket: 1,
            answer: world.answer(&Query::Kinds(query::Kinds {})),
            now: now(),
        },
    );
    assert!(format!("{effects:?}").contains("Resources"), "{effects:?}");
}

#[test]
fn a_mark_outlives_a_failed_listing_and_goes_with_its_resource() {
    let mut desk = Desk::new(World::busy(), (80, 24));
    desk.press(":network enter space");
    let rows = std::mem::take(&mut desk.world.listings[0].rows);
    desk.press("ctrl-r D");
    assert_eq!(desk.sent.len(), 0, "nothing that is marked is listed");
    assert!(
        desk.text().contains("no marked row is listed now"),
        "{}",
        desk.text()
    );
    desk.world.listings.pop();
    desk.world.listings[0].rows = rows.into_iter().skip(1).collect();
    desk.press("ctrl-r");
    assert!(!desk.text().contains("marked"), "{}", desk.text());
}

#[test]
fn a_list_is_refreshed_once_something_went_also_when_it_went_too_soon() {
    let mut desk = Desk::new(World::busy(), (80, 24));
    desk.press(":network enter");
    let lists = |desk: &Desk| {
        let asked = desk.asked.iter();
        asked.filter(|q| matches!(q, Query::Resources(_))).count()
    };
    let asked = lists(&desk);
    desk.world.listings[0].rows.remove(0);
    desk.world.snapshot.steps.gone += 1;
    let snapshot = Arc::new(desk.world.snapshot.clone());
    desk.take(Event::Snapshot {
        snapshot,
        now: now(),
    });
    assert_eq!(
        lists(&desk),
        asked,
        "a listing costs calls: not at once again"
    );
    assert!(desk.state.wants_tick());
    desk.take(Event::Tick(now() + chrono::TimeDelta::seconds(6)));
    assert_eq!(lists(&desk), asked + 1);
    assert!(desk.text().contains("── network 4"), "{}", desk.text());
}

#[test]
fn an_engine_that_has_gone_is_said_to_be() {
    let mut desk = Desk::new(World::busy(), (80, 24));
    desk.take(Event::EngineGone);
    desk.press("down");
    assert!(
        desk.text().contains("the engine has gone"),
        "{}",
        desk.text()
    );
}

#[test]
fn the_tree_follows_events_and_opens_its_folded_line() {
    let mut desk = Desk::new(World::busy(), (80, 24));
    desk.press("enter down down");
    assert!(desk.text().contains("▶ 4/12"), "{}", desk.text());
    let gone = serde_json::json!({"state": "gone"});
    let mut event = super::fake::event(6, EventKind::StepState, "port server-1 is gone", gone);
    event.step_id = Some(1);
    desk.world.events.push(event);
    desk.world.steps[0].state = StepState::Gone;
    desk.follow();
    // The numbers of a folded line are the engine's.
    desk.publish();
    assert!(desk.text().contains("▶ 5/12"), "{}", desk.text());
    desk.press("enter");
    let text = desk.text();
    assert!(
        text.contains("▾ port ×12") && text.contains("├ port server-"),
        "{text}"
    );
    desk.press("enter");
    assert!(!desk.text().contains("├ port server-"));
}

#[test]
fn p03_a_rung_is_taken_by_the_typed_short_id_alone() {
    let mut desk = Desk::new(World::busy(), (80, 24));
    desk.press(":stuck enter F");
    let text = desk.text();
    assert!(text.contains("ladder of load balancer lb-shop"), "{text}");
    assert!(text.contains("nothing is known that pins it"), "{text}");
    // Retry, unpin, runbook, forget: on a rung that is not offered enter asks nothing.
    desk.press("down enter");
    assert!(
        desk.text().contains("unpin is not offered"),
        "{}",
        desk.text()
    );
    desk.press("down down enter");
    let text = desk.text();
    assert!(text.contains("leaves: lb-shop, as an orphan"), "{text}");
    assert!(
        text.contains("the short id of the deletion, 00000001"),
        "{text}"
    );
    for wrong in ["y enter", "yes enter", "lb-shop enter"] {
        desk.press(wrong);
        assert!(desk.changes().is_empty(), "{wrong}");
        desk.press("ctrl-u");
    }
    desk.press("00000001 enter");
    let [
        Command::Purge {
            what,
            rung,
            confirm,
        },
    ] = desk.changes()[..]
    else {
        panic!("{:?}", desk.changes());
    };
    assert_eq!((*rung, confirm.as_str()), (Rung::Forget, "00000001"));
    assert!(matches!(what, PurgeScope::Step(_)), "{what:?}");
    assert!(desk.text().contains("1 step abandoned"), "{}", desk.text());
}

#[test]
fn p03_a_runbook_is_shown_in_place_of_the_ladder_and_copied_by_the_line() {
    let mut desk = Desk::new(World::busy(), (80, 24));
    desk.press(":stuck enter F down down enter 00000001 enter");
    let text = desk.text();
    assert!(text.contains("runbook for load balancer lb-shop"), "{text}");
    assert!(text.contains("1. Look at the log."), "{text}");
    desk.press("y");
    assert_eq!(desk.copied, ["1. Look at the log."]);
}

/// Story 7: what is tried again is counted by the engine, and the number must be typed.
#[test]
fn causes_are_tried_again_only_once_their_number_is_typed() {
    let mut world = World::busy();
    world.steps.retain(|step| step.state != StepState::Stuck);
    let stuck = |n: i64, status, kind: &str| {
        let mut step = step(n, "port", "server", StepState::Stuck, &[]);
        step.last_error = Some(StepError {
            class: ErrorClass::Fatal,
            status: Some(status),
            kind: kind.to_owned(),
            message: "no".to_owned(),
            request_id: String::new(),
            at: now(),
        });
        step
    };
    world
        .steps
        .extend((200..230).map(|n| stuck(n, 403, "PolicyNotAuthorized")));
    world
        .steps
        .extend((300..310).map(|n| stuck(n, 400, "BadRequest")));
    let mut desk = Desk::new(world, (80, 24));
    desk.press(":stuck enter g");
    let text = desk.text();
    assert!(text.contains("30 port"), "{text}");
    desk.press("space space");
    assert!(desk.text().contains("2 marked"), "{}", desk.text());
    desk.press("r");
    let text = desk.text();
    assert!(text.contains("39 eligible, 1 not"), "{text}");
    assert!(text.contains("1 not: protected: name keep-*"), "{text}");
    assert_eq!(desk.changes().len(), 0, "counting changes nothing");
    desk.press("4 0 enter");
    assert_eq!(desk.changes().len(), 0);
    desk.press("ctrl-u 3 9 enter");
    let causes = match desk.changes().as_slice() {
        [
            Command::RetryMatching {
                filter,
                dry_run: false,
            },
        ] => filter.causes.clone(),
        other => panic!("{other:?}"),
    };
    let kinds: Vec<_> = causes.iter().map(|it| it.error_type.as_deref()).collect();
    assert_eq!(kinds, [Some("PolicyNotAuthorized"), Some("BadRequest")]);
    assert!(desk.text().contains("39 retried, 1 not"), "{}", desk.text());
}

#[test]
fn views_that_were_left_are_there_again_with_their_filter_and_what_they_had_asked() {
    // Without the sign that something is asked again.
    let shown = |desk: &Desk| desk.text().replace('◐', "─").replace("─ ", "──");
    let mut desk = Desk::new(World::busy(), (80, 24));
    desk.press(":network enter /web enter");
    let filtered = shown(&desk);
    desk.press(":stuck enter b");
    let blockers = shown(&desk);
    desk.press("[ [");
    assert_eq!(shown(&desk), filtered);
    desk.press("] ]");
    assert_eq!(shown(&desk), blockers);
    desk.press("]");
    assert_eq!(shown(&desk), blockers, "there is no newer one");
    // Another way from here ends the way forward.
    desk.press("[ :gc enter ]");
    assert!(
        desk.text().contains("retried automatically"),
        "{}",
        desk.text()
    );
}

#[test]
fn a_plan_that_is_shown_again_takes_no_key_before_it_is_seen() {
    let mut desk = at_plan();
    desk.press("[");
    // All at once, as when keys are held down.
    for code in [KeyCode::Char(']'), KeyCode::Enter] {
        let key = KeyEvent::new(code, Modifiers::NONE);
        update(&mut desk.state, Event::Key(key));
    }
    assert!(desk.state.is_guarded());
    assert!(!desk.text().contains("Type the name"), "{}", desk.text());
    desk.take(Event::GuardPainted);
    desk.press("enter");
    assert!(desk.text().contains("Type the name"), "{}", desk.text());
}

#[test]
fn what_was_typed_after_a_colon_is_found_again() {
    let mut desk = Desk::new(World::busy(), (80, 24));
    desk.press(":stuck enter :gc enter :stuck enter : up");
    let line = |desk: &Desk| desk.text().lines().last().unwrap_or_default().to_owned();
    assert!(desk.text().contains(":stuck"), "{}", line(&desk));
    desk.press("up");
    assert!(desk.text().contains(":gc"), "{}", line(&desk));
    desk.press("up");
    assert!(
        desk.text().contains(":gc"),
        "the same word stands once: {}",
        line(&desk)
    );
    // Another line begins with the newest again.
    desk.press("esc : up");
    assert!(desk.text().contains(":stuck"), "{}", line(&desk));
    desk.press("up down down down");
    assert!(!desk.text().contains(":gc"), "{}", line(&desk));
    desk.press("up up enter");
    assert!(
        desk.text().contains("retried automatically"),
        "{}",
        desk.text()
    );
}

#[test]
fn a_cloud_that_wants_a_reason_gets_one_with_the_confirmation() {
    let mut world = World::busy();
    world.snapshot.sites[0].reason_wanted = Some("OPS-*".to_owned());
    let mut desk = Desk::new(world, (80, 24));
    desk.press(":network enter D enter web enter");
    let text = desk.text();
    assert!(
        text.contains("Type the reason, with a word like OPS-*"),
        "{text}"
    );
    assert_eq!(desk.changes().len(), 0);
    desk.press("because enter");
    assert!(desk.text().contains("That is not it"), "{}", desk.text());
    assert_eq!(desk.changes().len(), 0);
    desk.take(Event::Paste(" see OPS-4711\n".to_owned()));
    assert_eq!(desk.changes().len(), 0, "what is pasted confirms nothing");
    desk.press("enter");
    assert_eq!(desk.changes().len(), 1);
    assert_eq!(desk.reasons.last().unwrap(), "because see OPS-4711");

    // A rung of the ladder, too; and where nobody wants one, nobody asks.
    desk.press(":stuck enter F down down down enter 00000001 enter");
    assert!(desk.text().contains("Type the reason"), "{}", desk.text());
    desk.press("esc");
    assert!(desk.text().contains("nothing was sent"), "{}", desk.text());
    assert_eq!(desk.changes().len(), 1);
    let mut desk = at_plan();
    desk.press("enter web enter");
    assert_eq!(desk.changes().len(), 1);
    assert_eq!(desk.reasons.last().unwrap(), "");
}

/// Left while the engine takes the plan over: what comes back to is the deletion, not the plan.
#[test]
fn a_plan_that_was_left_while_it_started_is_the_deletion_when_it_is_shown_again() {
    let mut desk = at_plan();
    desk.press("enter web");
    let effects = update(
        &mut desk.state,
        Event::Key(KeyEvent::new(KeyCode::Enter, Modifiers::NONE)),
    );
    let ticket = effects.iter().find_map(|effect| match effect {
        Effect::Submit { ticket, .. } => Some(*ticket),
        _ => None,
    });
    desk.press("[");
    desk.take(Event::Receipt {
        ticket: ticket.unwrap(),
        receipt: Ok(Receipt::Accepted(Accepted {
            deletion_id: deletion(1, DeletionState::Running, 0, 1).id,
            existing: false,
        })),
        now: now(),
    });
    assert!(
        desk.text().contains("accepted as deletion"),
        "{}",
        desk.text()
    );
    desk.press("]");
    assert!(
        desk.text().contains("deletion 00000001: network web-1"),
        "{}",
        desk.text()
    );
}
