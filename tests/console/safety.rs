//! Nothing is deleted by accident: not by wrong keys, pasted text, keys typed ahead, or rows that move.

use std::sync::Arc;

use gone::control::{Accepted, Command, ControlError, Query, Receipt, SiteState, query};
use gone::domain::ladder::{PurgeScope, Rung};
use gone::domain::model::{DeletionState, ErrorClass, EventKind, SitePause, StepError, StepState};
use gone::frontends::console::{
    ConsoleOptions, Effect, EngineMode, Event, Exit, Practice, State, render_lines, update,
};
use termina::event::{KeyCode, KeyEvent, KeyEventKind, Modifiers};

use super::fake::{TestConsole, World, deletion, id, now, options, refusal, site, step};

/// A console that shows the plan of network `web`.
fn with_plan() -> TestConsole {
    let mut console = TestConsole::new(World::busy(), (80, 24));
    console.press(":network enter /web enter space D");
    console
}

fn plan_hash(command: &Command) -> &str {
    match command {
        Command::DeletePlan { plan_hash, .. } => plan_hash,
        other => panic!("not a deletion by plan: {other:?}"),
    }
}

#[test]
fn a_deletion_is_planned_confirmed_and_followed() {
    let mut console = with_plan();
    assert!(matches!(console.sent.as_slice(), [Command::Plan { .. }]));
    let text = console.text();
    assert!(
        text.contains("6 steps · 1 automatic · 1 unset · 0 refused"),
        "{text}"
    );
    console.press("enter web");
    assert_eq!(console.changes().len(), 0, "nothing is sent before enter");
    console.press("enter");
    let hash = console.world.plan.as_ref().unwrap().hash.clone();
    assert_eq!(console.changes().len(), 1);
    assert_eq!(plan_hash(console.changes()[0]), hash);
    let text = console.text();
    assert!(text.contains("deletion 00000001: network web-1"), "{text}");
    assert!(text.contains("accepted as deletion 00000001"), "{text}");
}

#[test]
fn the_name_or_the_short_id_confirms_and_anything_else_does_not() {
    for (typed, confirms) in [
        ("00000001", true),
        ("web", true),
        ("We", false),
        ("web2", false),
        ("y", false),
        ("", false),
    ] {
        let mut console = with_plan();
        console.press(&format!("enter {typed} enter"));
        assert_eq!(console.changes().len(), usize::from(confirms), "{typed:?}");
        if !confirms {
            assert!(
                console.text().contains("That is not it"),
                "{}",
                console.text()
            );
            console.press("esc");
            assert!(console.text().contains("nothing was sent"));
        }
    }
}

#[test]
fn p05_wrong_keys_on_a_read_only_engine_send_no_command() {
    let mut world = World::busy();
    world.snapshot.engine.read_only = true;
    let mut console = TestConsole::new(world, (80, 24));
    console.press(":network enter");
    let before = console.queries.len();
    console.press("ctrl-d ctrl-k delete backspace");
    assert!(
        console.text().contains("backspace deletes nothing here"),
        "{}",
        console.text()
    );
    console.handle(Event::Paste("D\nweb\nenter\n\n".to_owned()));
    assert!(console.text().contains("pasted text does nothing here"));
    console.press("D");
    assert!(
        console.text().contains("this engine is read-only"),
        "{}",
        console.text()
    );
    console.press("enter esc space D");
    assert_eq!(console.sent.len(), 0, "not even a plan is requested");
    assert_eq!(console.queries.len(), before);
    assert!(console.text().contains("READ-ONLY"));
}

#[test]
fn p05_no_plan_is_requested_for_a_read_only_site() {
    let mut world = World::busy();
    world.snapshot.sites[0].read_only = true;
    let mut console = TestConsole::new(world, (80, 24));
    console.press(":network enter D");
    assert_eq!(console.sent.len(), 0);
    assert!(console.text().contains("prod/RegionOne is read-only"));
}

#[test]
fn no_single_key_sends_more_than_a_retry_a_pause_or_a_resume_from_any_pane() {
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
                let mut console = TestConsole::new(World::busy(), (80, 24));
                console.press(keys);
                console.handle(Event::Key(KeyEvent::new(code, modifiers)));
                for command in console.changes() {
                    // These commands only affect deletions that were confirmed earlier, and sites.
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
fn keys_typed_before_the_plan_is_on_the_screen_are_discarded() {
    let mut console = TestConsole::new(World::busy(), (80, 24));
    console.press(":network enter");
    console.answers_commands = false;
    console.paints_frames = false;
    // All keys are typed before the plan arrives, and again before it is on the screen.
    console.press("D enter web enter");
    let (ticket, command) = console.unanswered_commands.pop().unwrap();
    console.answer_command(ticket, &command);
    console.press("enter web enter");
    console.handle(Event::Paste("web\n".to_owned()));
    assert_eq!(console.changes().len(), 0);
    assert!(!console.text().contains("confirm ─"), "{}", console.text());
    console.handle(Event::GuardPainted);
    console.press("enter");
    // The prompt is open, but not on the screen yet.
    console.press("web enter");
    console.handle(Event::Paste("web".to_owned()));
    assert_eq!(console.changes().len(), 0);
    console.handle(Event::GuardPainted);
    console.press("enter");
    assert_eq!(console.changes().len(), 0, "the line is still empty");
    console.press("web enter");
    assert_eq!(console.changes().len(), 1);
}

#[test]
fn the_footer_offers_no_confirmation_while_a_plan_is_computed() {
    let mut console = TestConsole::new(World::busy(), (80, 24));
    console.press(":network enter");
    console.answers_commands = false;
    console.press("D");
    let text = console.text();
    assert!(
        text.contains("Planning to delete") && text.contains("esc back"),
        "{text}"
    );
    assert!(
        !text.contains("confirm…") && !text.contains("? help"),
        "{text}"
    );
    let (ticket, command) = console.unanswered_commands.pop().unwrap();
    console.answer_command(ticket, &command);
    assert!(
        console.text().contains("enter confirm…"),
        "{}",
        console.text()
    );
}

#[test]
fn a_pasted_newline_never_confirms() {
    let mut console = with_plan();
    console.press("enter");
    console.handle(Event::Paste("web\n\nweb\r\n".to_owned()));
    assert_eq!(console.changes().len(), 0);
    assert!(
        console.text().contains(">web "),
        "only the first line was pasted: {}",
        console.text()
    );
    console.press("enter");
    assert_eq!(console.changes().len(), 1);
}

#[test]
fn the_confirmation_is_for_the_row_under_the_cursor_when_d_was_pressed() {
    let mut console = TestConsole::new(World::busy(), (80, 24));
    console.press(":network enter down");
    console.answers_commands = false;
    console.press("D");
    // The list is refreshed and reversed while the plan is computed.
    console.world.listings[0].rows.reverse();
    console.world.snapshot.steps.gone += 1;
    console.publish();
    let (ticket, command) = console.unanswered_commands.pop().unwrap();
    let Command::Plan { targets, .. } = &command else {
        panic!("{command:?}");
    };
    assert_eq!(targets[0].id_or_name, id(2));
    assert_eq!(
        targets[0].site,
        gone::control::SiteSpec::Region(site("RegionOne"))
    );
    console.answer_command(ticket, &command);
    console.press("enter");
    assert!(
        console
            .text()
            .contains("the name \"db\" or the short id 00000002")
    );
    console.press("web enter");
    assert_eq!(console.changes().len(), 0);
}

#[test]
fn cursor_and_marks_stay_on_their_rows_when_a_refresh_moves_them() {
    let mut console = TestConsole::new(World::busy(), (80, 24));
    console.press(":network enter down space");
    let before = console.text();
    assert!(
        before.contains(" * db") && before.contains(">  storage"),
        "{before}"
    );
    console.world.listings[0].rows.reverse();
    console.world.listings[0]
        .rows
        .retain(|row| row.name != "edge");
    console.press("ctrl-r");
    let after = console.text();
    assert!(
        after.contains(" * db") && after.contains(">  storage"),
        "{after}"
    );
    assert!(!after.contains("edge"));
    console.press("D");
    let Some(Command::Plan { targets, .. }) = console.sent.last() else {
        panic!("no plan");
    };
    assert_eq!(targets.len(), 1);
    assert_eq!(
        targets[0].id_or_name,
        id(2),
        "the marked row is the target, not the one under the cursor"
    );
}

#[test]
fn several_marked_rows_are_confirmed_by_their_number() {
    let mut console = TestConsole::new(World::busy(), (80, 24));
    console.press(":network enter space space D enter");
    assert!(
        console.text().contains("how many resources were marked: 2"),
        "{}",
        console.text()
    );
    console.press("web enter esc enter 2 enter");
    assert_eq!(console.changes().len(), 1);
}

#[test]
fn n15_a_refused_plan_cannot_be_confirmed_and_names_its_blocker() {
    let mut world = World::busy();
    world.plan.as_mut().unwrap().refused = vec![refusal()];
    let mut console = TestConsole::new(world, (80, 24));
    console.press(":network enter D enter web enter");
    assert_eq!(console.changes().len(), 0);
    let mut console = console;
    console.press("b");
    let text = console.text();
    let words = "blocked by floating IP 203.0.113.9 (project demo, not in this plan)";
    assert!(text.contains(words), "{text}");
    console.press("y");
    assert_eq!(console.copied, [id(0xb10c)]);
}

#[test]
fn p01_drift_at_the_confirmation_is_shown_and_nothing_more_is_sent() {
    let mut console = with_plan();
    console.answers_commands = false;
    console.press("enter web enter");
    let (ticket, _) = console.unanswered_commands.pop().unwrap();
    console.handle(Event::Receipt {
        ticket,
        receipt: Err(ControlError::Drifted {
            message: "the cloud has changed since this plan".to_owned(),
            changes: vec!["port server-9 is new".to_owned()],
        }),
        now: now(),
    });
    let text = console.text();
    assert!(
        text.contains("the cloud has changed") && text.contains("server-9 is new"),
        "{text}"
    );
    console.press("enter web enter");
    assert_eq!(
        console.changes().len(),
        1,
        "only the deletion that was refused for drift was sent"
    );
}

#[test]
fn a_deletion_is_planned_again_after_its_cascade_is_switched_off() {
    let mut console = with_plan();
    console.press("x");
    let cascades: Vec<bool> = console
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
    let mut console = TestConsole::new(World::busy(), (80, 24));
    console.press("c enter n enter");
    assert_eq!(console.sent.len(), 0);
    console.press("backspace y enter");
    assert!(
        matches!(console.sent.as_slice(), [Command::Cancel { deletion_id }]
        if *deletion_id == deletion(1, DeletionState::Running, 0, 1).id)
    );
    let expected = "network web-1 is cancelled";
    assert!(console.text().contains(expected), "{}", console.text());
}

#[test]
fn a_blocked_step_is_explained_copied_and_retried() {
    let mut console = TestConsole::new(World::busy(), (80, 24));
    console.press(":stuck enter down enter");
    let text = console.text();
    assert!(
        text.contains("req-3f1a0c52-5a64-4d0e-9f6e-0a4b2f8d9c11"),
        "{text}"
    );
    assert!(
        text.contains("attempt 1 of 8") && text.contains("next attempt 09:35:00"),
        "{text}"
    );
    console.press("b");
    let words = "blocked by floating IP 203.0.113.9 (project demo, not in this plan)";
    assert!(console.text().contains(words), "{}", console.text());
    console.press("y");
    assert_eq!(console.copied, [id(0xb10c)]);
    console.press("r");
    assert!(matches!(
        console.sent.as_slice(),
        [Command::RetryStep { step_id: 91 }]
    ));
    assert!(
        console.text().contains("retry of port server-42: 1 step"),
        "{}",
        console.text()
    );
}

#[test]
fn one_key_pauses_a_running_deletion_and_resumes_a_paused_one() {
    let mut console = TestConsole::new(World::busy(), (80, 24));
    console.press("p");
    let expected = "network web-1 is paused";
    assert!(console.text().contains(expected), "{}", console.text());
    console.world.deletions[0].state = DeletionState::Paused;
    console.world.snapshot.deletions = vec![console.world.deletions[0].clone()];
    console.publish();
    console.press("p");
    let expected = "network web-1 is resumed";
    assert!(console.text().contains(expected), "{}", console.text());
    assert!(matches!(
        console.sent.as_slice(),
        [Command::Pause { .. }, Command::Resume { .. }]
    ));
}

#[test]
fn quitting_an_embedded_engine_with_work_asks_whether_to_leave_it_running() {
    for (key, exit) in [("l", Exit::LeaveRunning), ("s", Exit::Stop)] {
        let embedded = ConsoleOptions {
            engine: EngineMode::Embedded,
            ..options()
        };
        let mut console = TestConsole::with(World::busy(), (80, 24), embedded);
        console.press("q q enter esc");
        assert_eq!(console.exits, []);
        console.press("q");
        assert!(
            console.text().contains("leave it running"),
            "{}",
            console.text()
        );
        console.press(key);
        assert_eq!(console.exits, [exit]);
    }
    let mut attached = TestConsole::new(World::busy(), (80, 24));
    attached.press("q");
    assert_eq!(attached.exits, [Exit::Quit]);
}

/// An accepted deletion has no steps until it is planned.
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
    let mut console = TestConsole::with(world, (80, 24), embedded);
    let text = console.text();
    assert!(text.contains("1 deletion being planned"), "{text}");
    assert!(!text.contains("nothing under way"), "{text}");
    console.press("q");
    let text = console.text();
    assert!(text.contains("1 deletion is being planned."), "{text}");
    assert!(!text.contains("0 steps"), "{text}");
    assert_eq!(console.exits, []);
}

/// The practice cloud runs in the console's process, so the deletions cannot go on without the console.
#[test]
fn quitting_a_practice_cloud_says_that_it_ends_and_leaves_nothing_running() {
    for (keeps_ledger, expected) in [
        (false, "and its deletions are forgotten"),
        (true, "its deletions stay in the ledger"),
    ] {
        let practice = ConsoleOptions {
            engine: EngineMode::Embedded,
            practice: Some(Practice { keeps_ledger }),
            ..options()
        };
        let mut console = TestConsole::with(World::busy(), (80, 24), practice);
        console.press("q");
        for text in [console.text(), render_lines(&console.state).join("\n")] {
            let words = text.split([' ', '\n', '│']).filter(|word| !word.is_empty());
            let text = words.collect::<Vec<_>>().join(" ");
            let ends = "The practice cloud ends with this console";
            assert!(text.contains(ends) && text.contains(expected), "{text}");
            for untrue in ["leave it running", "the next start continues"] {
                assert!(!text.contains(untrue), "{text}");
            }
        }
        console.press("l");
        assert_eq!(console.exits, []);
        console.handle(Event::Resize(39, 9));
        assert!(!console.text().contains("leave it"), "{}", console.text());
        console.press("s");
        assert_eq!(console.exits, [Exit::Stop]);
    }
}

#[test]
fn a_pending_quit_proceeds_once_the_work_has_ended() {
    let embedded = ConsoleOptions {
        engine: EngineMode::Embedded,
        ..options()
    };
    let mut console = TestConsole::with(World::busy(), (80, 24), embedded);
    console.press("q");
    console.publish();
    assert!(
        console.text().contains("leave it running"),
        "{}",
        console.text()
    );
    console.world.snapshot = World::empty().snapshot;
    console.publish();
    assert_eq!(console.exits, [Exit::Quit]);
}

#[test]
fn a_site_is_paused_and_resumed_by_the_same_key() {
    let mut console = TestConsole::new(World::busy(), (80, 24));
    console.press(":sites enter p");
    let site = console.world.snapshot.sites[0].site.clone();
    let status = &mut console.world.snapshot.sites[0];
    status.state = SiteState::Paused;
    status.paused_by = Some(SitePause {
        site: site.clone(),
        by: options().actor,
        reason: String::new(),
        at: now(),
    });
    console.publish();
    console.press("p");
    let [
        Command::PauseSite { site: paused },
        Command::ResumeSite { site: resumed },
    ] = console.sent.as_slice()
    else {
        panic!("{:?}", console.sent);
    };
    assert_eq!((paused, resumed), (&site, &site));
}

/// Each query for orphans makes the engine observe the clouds.
#[test]
fn orphans_are_queried_on_demand_and_not_after_each_event_of_the_engine() {
    let mut console = TestConsole::new(World::busy(), (80, 24));
    console.press(":orphans enter");
    let before = console.queries.len();
    let later = now() + chrono::TimeDelta::seconds(2);
    console.world.snapshot.last_event += 1;
    console.publish();
    console.handle(Event::Tick(later));
    assert_eq!(console.queries.len(), before);
    console.press("ctrl-r");
    console.handle(Event::Tick(later));
    assert_eq!(console.queries.len(), before + 1);
}

#[test]
fn a_failed_command_is_shown_until_the_next_key_and_kept_in_events() {
    let mut world = World::busy();
    world.steps.clear();
    let mut console = TestConsole::new(world, (80, 24));
    console.press("r");
    console.handle(Event::Receipt {
        ticket: 9_999,
        receipt: Err(ControlError::Unreachable {
            message: "the engine does not answer on its socket".to_owned(),
        }),
        now: now(),
    });
    assert!(console.text().contains("the engine does not answer"));
    console.press("down");
    assert!(
        !console.text().contains("the engine does not answer"),
        "the next key clears the message"
    );
    console.press(":events enter");
    assert!(
        console.text().contains("the engine does not answer"),
        "{}",
        console.text()
    );
}

#[test]
fn the_release_of_a_key_is_ignored() {
    let mut console = TestConsole::new(World::busy(), (80, 24));
    let mut key = KeyEvent::new(KeyCode::Char('q'), Modifiers::NONE);
    key.kind = KeyEventKind::Release;
    console.handle(Event::Key(key));
    assert_eq!(console.exits, []);
}

/// Lists of resources are an exception: others change the resources too, so the lists are refreshed by time.
#[test]
fn panes_query_nothing_again_while_nothing_changes() {
    let mut console = TestConsole::new(World::busy(), (80, 24));
    for pane in [
        "",
        ":stuck enter",
        ":gc enter",
        "?",
        ":sites enter",
        ":orphans enter",
    ] {
        console.press(pane);
        let before = console.queries.len();
        assert!(!console.state.wants_tick(), "{pane}");
        for _ in 0..5 {
            console.publish();
        }
        assert_eq!(console.queries.len(), before, "{pane}");
        assert!(!console.state.wants_tick(), "{pane}");
    }
}

#[test]
fn several_events_within_a_second_lead_to_one_later_query_of_the_rows() {
    let mut console = TestConsole::new(World::busy(), (80, 24));
    console.press(":stuck enter");
    let stuck = |console: &TestConsole| {
        let steps = |q: &&Query| matches!(q, Query::Steps(_));
        console.queries.iter().filter(steps).count()
    };
    let before = stuck(&console);
    for _ in 0..10 {
        console.world.snapshot.last_event += 1;
        let snapshot = Arc::new(console.world.snapshot.clone());
        console.handle(Event::Snapshot {
            snapshot,
            now: now(),
        });
    }
    assert_eq!(stuck(&console), before);
    assert!(console.state.wants_tick(), "the query is still due");
    console.handle(Event::Tick(now() + chrono::TimeDelta::seconds(2)));
    assert_eq!(stuck(&console), before + 1);
}

/// While the filter hides the branches, they are not read.
#[test]
fn a_filtered_tree_reads_its_outline_again_only_after_the_filter_is_cleared() {
    let mut console = TestConsole::new(World::busy(), (80, 24));
    console.press("enter / p o r t enter");
    assert!(!console.state.wants_tick());
    let outlines = |console: &TestConsole| {
        let outlines = |q: &&Query| matches!(q, Query::Outline(_));
        console.queries.iter().filter(outlines).count()
    };
    let before = outlines(&console);
    console.world.snapshot.last_event += 1;
    console.world.snapshot.deletions[0].counts.gone += 1;
    console.publish();
    console.handle(Event::Tick(now() + chrono::TimeDelta::seconds(2)));
    assert!(!console.state.wants_tick());
    assert_eq!(outlines(&console), before);
    console.press("esc");
    assert_eq!(outlines(&console), before + 1);
}

#[test]
fn the_console_starts_with_the_pane_from_its_options() {
    let start = ConsoleOptions {
        start: Some("stuck".to_owned()),
        ..options()
    };
    let console = TestConsole::with(World::busy(), (80, 24), start);
    assert!(console.text().contains("── stuck 3"), "{}", console.text());
}

#[test]
fn a_kind_typed_before_the_kinds_are_known_is_listed_once_they_are() {
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
fn a_mark_survives_a_failed_list_and_disappears_with_its_resource() {
    let mut console = TestConsole::new(World::busy(), (80, 24));
    console.press(":network enter space");
    let rows = std::mem::take(&mut console.world.listings[0].rows);
    console.press("ctrl-r D");
    assert_eq!(console.sent.len(), 0, "no marked row is listed");
    assert!(
        console.text().contains("no marked row is listed now"),
        "{}",
        console.text()
    );
    console.world.listings.pop();
    console.world.listings[0].rows = rows.into_iter().skip(1).collect();
    console.press("ctrl-r");
    assert!(!console.text().contains("marked"), "{}", console.text());
}

#[test]
fn a_list_is_refreshed_a_few_seconds_after_a_resource_is_gone() {
    let mut console = TestConsole::new(World::busy(), (80, 24));
    console.press(":network enter");
    let lists = |console: &TestConsole| {
        let queries = console.queries.iter();
        queries.filter(|q| matches!(q, Query::Resources(_))).count()
    };
    let before = lists(&console);
    console.world.listings[0].rows.remove(0);
    console.world.snapshot.steps.gone += 1;
    let snapshot = Arc::new(console.world.snapshot.clone());
    console.handle(Event::Snapshot {
        snapshot,
        now: now(),
    });
    assert_eq!(
        lists(&console),
        before,
        "a list costs calls, so it is not refreshed at once"
    );
    assert!(console.state.wants_tick());
    console.handle(Event::Tick(now() + chrono::TimeDelta::seconds(6)));
    assert_eq!(lists(&console), before + 1);
    assert!(
        console.text().contains("── network 4"),
        "{}",
        console.text()
    );
}

#[test]
fn the_console_says_that_the_engine_has_gone() {
    let mut console = TestConsole::new(World::busy(), (80, 24));
    console.handle(Event::EngineGone);
    console.press("down");
    assert!(
        console.text().contains("the engine has gone"),
        "{}",
        console.text()
    );
}

#[test]
fn the_tree_follows_events_and_its_folded_row_opens_and_closes() {
    let mut console = TestConsole::new(World::busy(), (80, 24));
    console.press("enter down down");
    assert!(console.text().contains("▶ 4/12"), "{}", console.text());
    let gone = serde_json::json!({"state": "gone"});
    let mut event = super::fake::event(6, EventKind::StepState, "port server-1 is gone", gone);
    event.step_id = Some(1);
    console.world.events.push(event);
    console.world.steps[0].state = StepState::Gone;
    console.deliver_events();
    // The engine counts the steps of a folded row.
    console.publish();
    assert!(console.text().contains("▶ 5/12"), "{}", console.text());
    console.press("enter");
    let text = console.text();
    assert!(
        text.contains("▾ port ×12") && text.contains("├ port server-"),
        "{text}"
    );
    console.press("enter");
    assert!(!console.text().contains("├ port server-"));
}

#[test]
fn p03_a_rung_is_taken_only_after_the_short_id_was_typed() {
    let mut console = TestConsole::new(World::busy(), (80, 24));
    console.press(":stuck enter F");
    let text = console.text();
    assert!(text.contains("ladder of load balancer lb-shop"), "{text}");
    assert!(text.contains("nothing is known that pins it"), "{text}");
    // The rungs are retry, unpin, runbook and forget. Enter on a rung that is not offered opens no prompt.
    console.press("down enter");
    assert!(
        console.text().contains("unpin is not offered"),
        "{}",
        console.text()
    );
    console.press("down down enter");
    let text = console.text();
    assert!(text.contains("leaves: lb-shop, as an orphan"), "{text}");
    assert!(
        text.contains("the short id of the deletion, 00000001"),
        "{text}"
    );
    for wrong in ["y enter", "yes enter", "lb-shop enter"] {
        console.press(wrong);
        assert!(console.changes().is_empty(), "{wrong}");
        console.press("ctrl-u");
    }
    console.press("00000001 enter");
    let [
        Command::Purge {
            what,
            rung,
            confirm,
        },
    ] = console.changes()[..]
    else {
        panic!("{:?}", console.changes());
    };
    assert_eq!((*rung, confirm.as_str()), (Rung::Forget, "00000001"));
    assert!(matches!(what, PurgeScope::Step(_)), "{what:?}");
    assert!(
        console.text().contains("1 step abandoned"),
        "{}",
        console.text()
    );
}

#[test]
fn p03_a_runbook_replaces_the_ladder_on_the_screen_and_is_copied_by_line() {
    let mut console = TestConsole::new(World::busy(), (80, 24));
    console.press(":stuck enter F down down enter 00000001 enter");
    let text = console.text();
    assert!(text.contains("runbook for load balancer lb-shop"), "{text}");
    assert!(text.contains("1. Look at the log."), "{text}");
    console.press("y");
    assert_eq!(console.copied, ["1. Look at the log."]);
}

/// Story 7: the engine counts the steps to retry, and the person must type their number.
#[test]
fn causes_are_retried_only_after_the_number_of_steps_was_typed() {
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
    let mut console = TestConsole::new(world, (80, 24));
    console.press(":stuck enter g");
    let text = console.text();
    assert!(text.contains("30 port"), "{text}");
    console.press("space space");
    assert!(console.text().contains("2 marked"), "{}", console.text());
    console.press("r");
    let text = console.text();
    assert!(text.contains("39 eligible, 1 not"), "{text}");
    assert!(text.contains("1 not: protected: name keep-*"), "{text}");
    assert_eq!(
        console.changes().len(),
        0,
        "counting the steps changes nothing"
    );
    console.press("4 0 enter");
    assert_eq!(console.changes().len(), 0);
    console.press("ctrl-u 3 9 enter");
    let causes = match console.changes().as_slice() {
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
    assert!(
        console.text().contains("39 retried, 1 not"),
        "{}",
        console.text()
    );
}

#[test]
fn back_and_forward_restore_views_with_their_filter_and_their_answers() {
    // Without the sign of a query under way.
    let shown = |console: &TestConsole| console.text().replace('◐', "─").replace("─ ", "──");
    let mut console = TestConsole::new(World::busy(), (80, 24));
    console.press(":network enter /web enter");
    let filtered = shown(&console);
    console.press(":stuck enter b");
    let blockers = shown(&console);
    console.press("[ [");
    assert_eq!(shown(&console), filtered);
    console.press("] ]");
    assert_eq!(shown(&console), blockers);
    console.press("]");
    assert_eq!(shown(&console), blockers, "there is no newer view");
    // Another pane opened from here ends the way forward.
    console.press("[ :gc enter ]");
    assert!(
        console.text().contains("retried automatically"),
        "{}",
        console.text()
    );
}

#[test]
fn a_plan_that_is_shown_again_takes_no_key_before_it_is_painted() {
    let mut console = with_plan();
    console.press("[");
    // Both keys come before the next frame, as when keys are held down.
    for code in [KeyCode::Char(']'), KeyCode::Enter] {
        let key = KeyEvent::new(code, Modifiers::NONE);
        update(&mut console.state, Event::Key(key));
    }
    assert!(console.state.is_guarded());
    assert!(
        !console.text().contains("Type the name"),
        "{}",
        console.text()
    );
    console.handle(Event::GuardPainted);
    console.press("enter");
    assert!(
        console.text().contains("Type the name"),
        "{}",
        console.text()
    );
}

#[test]
fn up_and_down_recall_earlier_command_lines() {
    let mut console = TestConsole::new(World::busy(), (80, 24));
    console.press(":stuck enter :gc enter :stuck enter : up");
    let line = |console: &TestConsole| console.text().lines().last().unwrap_or_default().to_owned();
    assert!(console.text().contains(":stuck"), "{}", line(&console));
    console.press("up");
    assert!(console.text().contains(":gc"), "{}", line(&console));
    console.press("up");
    assert!(
        console.text().contains(":gc"),
        "a repeated line is kept once: {}",
        line(&console)
    );
    // A new prompt starts with the newest line again.
    console.press("esc : up");
    assert!(console.text().contains(":stuck"), "{}", line(&console));
    console.press("up down down down");
    assert!(!console.text().contains(":gc"), "{}", line(&console));
    console.press("up up enter");
    assert!(
        console.text().contains("retried automatically"),
        "{}",
        console.text()
    );
}

#[test]
fn a_cloud_that_requires_a_reason_gets_it_with_the_confirmation() {
    let mut world = World::busy();
    world.snapshot.sites[0].reason_wanted = Some("OPS-*".to_owned());
    let mut console = TestConsole::new(world, (80, 24));
    console.press(":network enter D enter web enter");
    let text = console.text();
    assert!(
        text.contains("Type the reason, with a word like OPS-*"),
        "{text}"
    );
    assert_eq!(console.changes().len(), 0);
    console.press("because enter");
    assert!(
        console.text().contains("That is not it"),
        "{}",
        console.text()
    );
    assert_eq!(console.changes().len(), 0);
    console.handle(Event::Paste(" see OPS-4711\n".to_owned()));
    assert_eq!(console.changes().len(), 0, "pasted text confirms nothing");
    console.press("enter");
    assert_eq!(console.changes().len(), 1);
    assert_eq!(console.reasons.last().unwrap(), "because see OPS-4711");

    // A rung of the ladder needs the reason too. A cloud that requires none is not asked about one.
    console.press(":stuck enter F down down down enter 00000001 enter");
    assert!(
        console.text().contains("Type the reason"),
        "{}",
        console.text()
    );
    console.press("esc");
    assert!(
        console.text().contains("nothing was sent"),
        "{}",
        console.text()
    );
    assert_eq!(console.changes().len(), 1);
    let mut console = with_plan();
    console.press("enter web enter");
    assert_eq!(console.changes().len(), 1);
    assert_eq!(console.reasons.last().unwrap(), "");
}

/// The person leaves the plan while the engine accepts it, and returns to the deletion.
#[test]
fn a_plan_left_during_its_confirmation_is_shown_as_its_deletion_on_return() {
    let mut console = with_plan();
    console.press("enter web");
    let effects = update(
        &mut console.state,
        Event::Key(KeyEvent::new(KeyCode::Enter, Modifiers::NONE)),
    );
    let ticket = effects.iter().find_map(|effect| match effect {
        Effect::Submit { ticket, .. } => Some(*ticket),
        _ => None,
    });
    console.press("[");
    console.handle(Event::Receipt {
        ticket: ticket.unwrap(),
        receipt: Ok(Receipt::Accepted(Accepted {
            deletion_id: deletion(1, DeletionState::Running, 0, 1).id,
            existing: false,
        })),
        now: now(),
    });
    assert!(
        console.text().contains("accepted as deletion"),
        "{}",
        console.text()
    );
    console.press("]");
    assert!(
        console.text().contains("deletion 00000001: network web-1"),
        "{}",
        console.text()
    );
}

#[test]
fn a_count_that_arrives_while_a_person_types_does_not_replace_the_prompt() {
    let mut console = TestConsole::new(World::busy(), (80, 24));
    console.press(":causes enter space space");
    console.answers_commands = false;
    console.press("r /po");
    let (ticket, command) = console.unanswered_commands.pop().unwrap();
    console.answer_command(ticket, &command);
    assert!(!console.state.is_guarded());
    console.press("rt");
    let text = console.text();
    assert!(text.contains(" /port"), "{text}");
    // `:events` keeps what was said about the count meanwhile.
    console.press("esc :events enter");
    let text = console.text();
    assert!(text.contains("not asked while you type"), "{text}");
    console.press("esc r");
    let (ticket, command) = console.unanswered_commands.pop().unwrap();
    console.answer_command(ticket, &command);
    let text = console.text();
    assert!(
        !text.contains("/port") && text.contains("eligible"),
        "{text}"
    );
}
