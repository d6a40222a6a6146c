//! Nothing is deleted by accident: not by wrong keys, pasted text, keys typed ahead, or rows that move.

use std::sync::Arc;

use chrono::TimeDelta;
use gone::control::{Accepted, Command, ControlError, Query, Receipt, SiteSpec, SiteState, query};
use gone::domain::ladder::{PurgeScope, Rung};
use gone::domain::model::{DeletionState, ErrorClass, EventKind, SitePause, StepError, StepState};
use gone::frontends::console::{
    ConsoleOptions, Effect, Event, Exit, Practice, State, render_lines, update,
};
use termina::event::{KeyCode, KeyEvent, KeyEventKind, Modifiers};

use super::fake::{
    TestConsole, World, deletion, embedded, error, id, now, options, refusal, site, step,
    unreachable,
};

/// A console that shows the plan of network `web`.
fn with_plan() -> TestConsole {
    TestConsole::busy(":network enter /web enter space D")
}

/// The snapshot of the engine, published without any time having passed.
fn snapshot_of(console: &TestConsole) -> Event {
    Event::Snapshot(Arc::new(console.world.snapshot.clone()), now())
}

fn pressed(code: KeyCode) -> Event {
    Event::Key(KeyEvent::new(code, Modifiers::NONE))
}

#[test]
fn a_deletion_is_planned_confirmed_and_followed() {
    let mut console = with_plan();
    assert!(matches!(console.sent.as_slice(), [Command::Plan { .. }]));
    console.assert_shows(["6 steps · 1 automatic · 1 unset · 0 refused"]);
    console.press("enter web");
    assert_eq!(console.changes().len(), 0, "nothing is sent before enter");
    console.press("enter");
    let hash = &console.world.plan.as_ref().unwrap().hash;
    let changes = console.changes();
    let is_of_plan =
        |it: &Command| matches!(it, Command::DeletePlan { plan_hash, .. } if plan_hash == hash);
    assert!(changes.len() == 1 && is_of_plan(changes[0]), "{changes:?}");
    console.assert_shows([
        "deletion 00000001: network web-1",
        "accepted as deletion 00000001",
    ]);
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
            console.assert_shows(["That is not it"]);
            console.press("esc");
            console.assert_shows(["nothing was sent"]);
        }
    }
}

#[test]
fn p05_wrong_keys_on_a_read_only_engine_send_no_command() {
    let mut world = World::busy();
    world.snapshot.engine.read_only = true;
    let mut console = TestConsole::new(world, (80, 24)).after(":network enter");
    let before = console.queries.len();
    console.press("ctrl-d ctrl-k delete backspace");
    console.assert_shows(["backspace deletes nothing here"]);
    console.handle(Event::Paste("D\nweb\nenter\n\n".to_owned()));
    console.assert_shows(["pasted text does nothing here"]);
    console.press("D");
    console.assert_shows(["this engine is read-only"]);
    console.press("enter esc space D");
    assert_eq!(console.sent.len(), 0, "not even a plan is requested");
    assert_eq!(console.queries.len(), before);
    console.assert_shows(["READ-ONLY"]);
}

#[test]
fn p05_no_plan_is_requested_for_a_read_only_site() {
    let mut world = World::busy();
    world.snapshot.sites[0].read_only = true;
    let console = TestConsole::new(world, (80, 24)).after(":network enter D");
    assert_eq!(console.sent.len(), 0);
    console.assert_shows(["prod/RegionOne is read-only"]);
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
                let mut console = TestConsole::busy(keys);
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
    let mut console = TestConsole::busy(":network enter");
    console.answers_commands = false;
    console.paints_frames = false;
    // All keys are typed before the plan arrives, and again before it is on the screen.
    console.press("D enter web enter");
    console.answer_last_command();
    console.press("enter web enter");
    console.handle(Event::Paste("web\n".to_owned()));
    assert_eq!(console.changes().len(), 0);
    console.assert_hides(["confirm ─"]);
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
    let mut console = TestConsole::busy(":network enter");
    console.answers_commands = false;
    console.press("D");
    console.assert_shows(["Planning to delete", "esc back"]);
    console.assert_hides(["confirm…", "? help"]);
    console.answer_last_command();
    console.assert_shows(["enter confirm…"]);
}

#[test]
fn a_pasted_newline_never_confirms() {
    let mut console = with_plan();
    console.press("enter");
    console.handle(Event::Paste("web\n\nweb\r\n".to_owned()));
    assert_eq!(console.changes().len(), 0);
    // Only the first line was pasted.
    console.assert_shows([">web "]);
    console.press("enter");
    assert_eq!(console.changes().len(), 1);
}

#[test]
fn the_confirmation_is_for_the_row_under_the_cursor_when_d_was_pressed() {
    let mut console = TestConsole::busy(":network enter down");
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
    assert_eq!(targets[0].site, SiteSpec::Region(site("RegionOne")));
    console.answer_command(ticket, &command);
    console.press("enter");
    console.assert_shows(["the name \"db\" or the short id 00000002"]);
    console.press("web enter");
    assert_eq!(console.changes().len(), 0);
}

#[test]
fn cursor_and_marks_stay_on_their_rows_when_a_refresh_moves_them() {
    let mut console = TestConsole::busy(":network enter down space");
    console.assert_shows([" * db", ">  storage"]);
    let rows = &mut console.world.listings[0].rows;
    rows.reverse();
    rows.retain(|row| row.name != "edge");
    console.press("ctrl-r");
    console.assert_shows([" * db", ">  storage"]);
    console.assert_hides(["edge"]);
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
    let mut console = TestConsole::busy(":network enter space space D enter");
    console.assert_shows(["how many resources were marked: 2"]);
    console.press("web enter esc enter 2 enter");
    assert_eq!(console.changes().len(), 1);
}

#[test]
fn n15_a_refused_plan_cannot_be_confirmed_and_names_its_blocker() {
    let mut world = World::busy();
    world.plan.as_mut().unwrap().refused = vec![refusal()];
    let mut console = TestConsole::new(world, (80, 24)).after(":network enter D enter web enter");
    assert_eq!(console.changes().len(), 0);
    console.press("b");
    console.assert_shows(["blocked by floating IP 203.0.113.9 (project demo, not in this plan)"]);
    console.press("y");
    assert_eq!(console.copied, [id(0xb10c)]);
}

#[test]
fn p01_drift_at_the_confirmation_is_shown_and_nothing_more_is_sent() {
    let mut console = with_plan();
    console.answers_commands = false;
    console.press("enter web enter");
    let (ticket, _) = console.unanswered_commands.pop().unwrap();
    let drifted = ControlError::Drifted {
        message: "the cloud has changed since this plan".to_owned(),
        changes: vec!["port server-9 is new".to_owned()],
    };
    console.receive(ticket, Err(drifted));
    console.assert_shows(["the cloud has changed", "server-9 is new"]);
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
    let cascades = console.sent.iter().map(|command| match command {
        Command::Plan { options, .. } => options.cascade,
        other => panic!("{other:?}"),
    });
    assert!(cascades.eq([true, false]));
}

#[test]
fn p08_cancel_asks_first() {
    let mut console = TestConsole::busy("c enter n enter");
    assert_eq!(console.sent.len(), 0);
    console.press("backspace y enter");
    assert!(
        matches!(console.sent.as_slice(), [Command::Cancel { deletion_id }]
        if *deletion_id == deletion(1, DeletionState::Running, 0, 1).id)
    );
    console.assert_shows(["network web-1 is cancelled"]);
}

#[test]
fn a_blocked_step_is_explained_and_retried_and_the_id_of_its_blocker_is_copied() {
    let mut console = TestConsole::busy(":stuck enter down enter");
    console.assert_shows([
        "req-3f1a0c52-5a64-4d0e-9f6e-0a4b2f8d9c11",
        "attempt 1 of 8",
        "next attempt 09:35:00",
    ]);
    console.press("b");
    console.assert_shows(["blocked by floating IP 203.0.113.9 (project demo, not in this plan)"]);
    console.press("y");
    assert_eq!(console.copied, [id(0xb10c)]);
    console.press("r");
    assert!(matches!(
        console.sent.as_slice(),
        [Command::RetryStep { step_id: 91 }]
    ));
    console.assert_shows(["retry of port server-42: 1 step"]);
}

#[test]
fn one_key_pauses_a_running_deletion_and_resumes_a_paused_one() {
    let mut console = TestConsole::busy("p");
    console.assert_shows(["network web-1 is paused"]);
    console.world.deletions[0].state = DeletionState::Paused;
    console.world.snapshot.deletions = vec![console.world.deletions[0].clone()];
    console.publish();
    console.press("p");
    console.assert_shows(["network web-1 is resumed"]);
    assert!(matches!(
        console.sent.as_slice(),
        [Command::Pause { .. }, Command::Resume { .. }]
    ));
}

#[test]
fn quitting_an_embedded_engine_with_work_asks_whether_to_leave_it_running() {
    for (key, exit) in [("l", Exit::LeaveRunning), ("s", Exit::Stop)] {
        let mut console =
            TestConsole::with(World::busy(), (80, 24), embedded()).after("q q enter esc");
        assert_eq!(console.exits, []);
        console.press("q");
        console.assert_shows(["leave it running"]);
        console.press(key);
        assert_eq!(console.exits, [exit]);
    }
    let attached = TestConsole::busy("q");
    assert_eq!(attached.exits, [Exit::Quit]);
}

/// An accepted deletion has no steps until it is planned.
#[test]
fn a_deletion_that_is_being_planned_is_work_under_way() {
    let mut world = World::empty();
    world.deletions = vec![deletion(1, DeletionState::Planning, 0, 0)];
    world.snapshot.deletions = world.deletions.clone();
    world.snapshot.deletions_by_state = [("planning".to_owned(), 1)].into();
    let mut console = TestConsole::with(world, (80, 24), embedded());
    console.assert_shows(["1 deletion being planned"]);
    console.assert_hides(["nothing under way"]);
    console.press("q");
    console.assert_shows(["1 deletion is being planned."]);
    console.assert_hides(["0 steps"]);
    assert_eq!(console.exits, []);
}

/// The practice cloud runs in the console's process, so the deletions cannot go on without the console.
#[test]
fn quitting_a_practice_cloud_says_that_it_ends_and_leaves_nothing_running() {
    for (keeps_ledger, expected) in [
        (false, "and its deletions are lost"),
        (true, "its deletions stay in the ledger"),
    ] {
        let practice = ConsoleOptions {
            practice: Some(Practice { keeps_ledger }),
            ..embedded()
        };
        let mut console = TestConsole::with(World::busy(), (80, 24), practice).after("q");
        for text in [console.text(), render_lines(&console.state).join("\n")] {
            let words = text.split([' ', '\n', '│']).filter(|word| !word.is_empty());
            let text = words.collect::<Vec<_>>().join(" ");
            let ends = "The practice cloud ends with this console";
            assert!(text.contains(ends) && text.contains(expected), "{text}");
            for untrue in ["leave it running", "an engine that is started"] {
                assert!(!text.contains(untrue), "{text}");
            }
        }
        console.press("l");
        assert_eq!(console.exits, []);
        console.handle(Event::Resize(39, 9));
        console.assert_hides(["leave it"]);
        console.press("s");
        assert_eq!(console.exits, [Exit::Stop]);
    }
}

#[test]
fn a_pending_quit_proceeds_once_the_work_has_ended() {
    let mut console = TestConsole::with(World::busy(), (80, 24), embedded()).after("q");
    console.publish();
    console.assert_shows(["leave it running"]);
    console.world.snapshot = World::empty().snapshot;
    console.publish();
    assert_eq!(console.exits, [Exit::Quit]);
}

#[test]
fn a_site_is_paused_and_resumed_by_the_same_key() {
    let mut console = TestConsole::busy(":sites enter p");
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
    let mut console = TestConsole::busy(":orphans enter");
    let before = console.queries.len();
    let later = || Event::Tick(now() + TimeDelta::seconds(2));
    console.world.snapshot.last_event += 1;
    console.publish();
    console.handle(later());
    assert_eq!(console.queries.len(), before);
    console.press("ctrl-r");
    console.handle(later());
    assert_eq!(console.queries.len(), before + 1);
}

#[test]
fn a_failed_command_is_shown_until_the_next_key_and_kept_in_events() {
    let mut world = World::busy();
    world.steps.clear();
    let mut console = TestConsole::new(world, (80, 24)).after("r");
    console.receive(
        9_999,
        Err(unreachable("the engine does not answer on its socket")),
    );
    console.assert_shows(["the engine does not answer"]);
    console.press("down");
    // The next key clears the message.
    console.assert_hides(["the engine does not answer"]);
    console.press(":events enter");
    console.assert_shows(["the engine does not answer"]);
}

#[test]
fn the_release_of_a_key_is_ignored() {
    let mut console = TestConsole::busy("");
    let mut key = KeyEvent::new(KeyCode::Char('q'), Modifiers::NONE);
    key.kind = KeyEventKind::Release;
    console.handle(Event::Key(key));
    assert_eq!(console.exits, []);
}

/// Lists of resources are an exception: other clients change the resources too, so the lists are refreshed by time.
#[test]
fn panes_query_nothing_again_while_nothing_changes() {
    let mut console = TestConsole::busy("");
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
    let mut console = TestConsole::busy(":stuck enter");
    let stuck = |console: &TestConsole| console.count(|q| matches!(q, Query::Steps(_)));
    let before = stuck(&console);
    for _ in 0..10 {
        console.world.snapshot.last_event += 1;
        console.handle(snapshot_of(&console));
    }
    assert_eq!(stuck(&console), before);
    assert!(console.state.wants_tick(), "the query is still due");
    console.handle(Event::Tick(now() + TimeDelta::seconds(2)));
    assert_eq!(stuck(&console), before + 1);
}

/// While the filter hides the branches, they are not read.
#[test]
fn a_filtered_tree_reads_its_outline_again_only_after_the_filter_is_cleared() {
    let mut console = TestConsole::busy("enter / p o r t enter");
    assert!(!console.state.wants_tick());
    let outlines = |console: &TestConsole| console.count(|q| matches!(q, Query::Outline(_)));
    let before = outlines(&console);
    console.world.snapshot.last_event += 1;
    console.world.snapshot.deletions[0].counts.gone += 1;
    console.publish();
    console.handle(Event::Tick(now() + TimeDelta::seconds(2)));
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
    console.assert_shows(["── stuck 3"]);
}

#[test]
fn a_kind_typed_before_the_kinds_are_known_is_listed_once_they_are() {
    let world = World::busy();
    let (mut state, _) = State::new(options(), Arc::new(world.snapshot.clone()), now(), (80, 24));
    let typed = ":network".chars().map(KeyCode::Char);
    for code in typed.chain([KeyCode::Enter]) {
        update(&mut state, pressed(code));
    }
    let kinds = world.answer(&Query::Kinds(query::Kinds {}));
    let kinds = Event::Answer(1, kinds, now());
    let effects = update(&mut state, kinds);
    assert!(format!("{effects:?}").contains("Resources"), "{effects:?}");
}

#[test]
fn a_mark_survives_a_failed_list_and_disappears_with_its_resource() {
    let mut console = TestConsole::busy(":network enter space");
    let rows = std::mem::take(&mut console.world.listings[0].rows);
    console.press("ctrl-r D");
    assert_eq!(console.sent.len(), 0, "no marked row is listed");
    console.assert_shows(["no marked row is listed now"]);
    console.world.listings.pop();
    console.world.listings[0].rows = rows.into_iter().skip(1).collect();
    console.press("ctrl-r");
    console.assert_hides(["marked"]);
}

#[test]
fn a_list_is_refreshed_a_few_seconds_after_a_resource_is_gone() {
    let mut console = TestConsole::busy(":network enter");
    let lists = |console: &TestConsole| console.count(|q| matches!(q, Query::Resources(_)));
    let before = lists(&console);
    console.world.listings[0].rows.remove(0);
    console.world.snapshot.steps.gone += 1;
    console.handle(snapshot_of(&console));
    assert_eq!(
        lists(&console),
        before,
        "a list costs calls, so it is not refreshed at once"
    );
    assert!(console.state.wants_tick());
    console.handle(Event::Tick(now() + TimeDelta::seconds(6)));
    assert_eq!(lists(&console), before + 1);
    console.assert_shows(["── network 4"]);
}

#[test]
fn the_console_says_that_the_engine_has_gone() {
    let mut console = TestConsole::busy("");
    console.handle(Event::EngineGone);
    console.press("down");
    console.assert_shows(["the engine has ended"]);
}

#[test]
fn the_tree_follows_events_and_its_folded_row_opens_and_closes() {
    let mut console = TestConsole::busy("enter down down");
    console.assert_shows(["▶ 4/12"]);
    let gone = serde_json::json!({"state": "gone"});
    let mut event = super::fake::event(6, EventKind::StepState, "port server-1 is gone", gone);
    event.step_id = Some(1);
    console.world.events.push(event);
    console.world.steps[0].state = StepState::Gone;
    console.deliver_events();
    // The engine counts the steps of a folded row.
    console.publish();
    console.assert_shows(["▶ 5/12"]);
    console.press("enter");
    console.assert_shows(["▾ port ×12", "├ port server-"]);
    console.press("enter");
    console.assert_hides(["├ port server-"]);
}

#[test]
fn p03_a_rung_is_taken_only_after_the_short_id_was_typed() {
    let mut console = TestConsole::busy(":stuck enter F");
    console.assert_shows([
        "ladder of load balancer lb-shop",
        "nothing is known that pins it",
    ]);
    // The rungs are retry, unpin, runbook and forget. Enter on a rung that is not offered opens no prompt.
    console.press("down enter");
    console.assert_shows(["unpin is not offered"]);
    console.press("down down enter");
    console.assert_shows([
        "leaves: lb-shop, as an orphan",
        "the short id of the deletion, 00000001",
    ]);
    for wrong in ["y enter", "yes enter", "lb-shop enter"] {
        console.press(wrong);
        assert!(console.changes().is_empty(), "{wrong}");
        console.press("ctrl-u");
    }
    console.press("00000001 enter");
    let changes = console.changes();
    let is_as_typed = matches!(changes[..], [Command::Purge { what: PurgeScope::Step(_), rung: Rung::Forget, confirm }] if confirm == "00000001");
    assert!(is_as_typed, "{changes:?}");
    console.assert_shows(["1 step abandoned"]);
}

#[test]
fn p03_a_runbook_replaces_the_ladder_on_the_screen_and_is_copied_by_line() {
    let mut console = TestConsole::busy(":stuck enter F down down enter 00000001 enter");
    console.assert_shows(["runbook for load balancer lb-shop", "1. Look at the log."]);
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
            ..error()
        });
        step
    };
    let forbidden = (200..230).map(|n| stuck(n, 403, "PolicyNotAuthorized"));
    let invalid = (300..310).map(|n| stuck(n, 400, "BadRequest"));
    world.steps.extend(forbidden.chain(invalid));
    let mut console = TestConsole::new(world, (80, 24)).after(":stuck enter g");
    console.assert_shows(["30 port"]);
    console.press("space space");
    console.assert_shows(["2 marked"]);
    console.press("r");
    console.assert_shows([
        "39 steps can be retried, 1 cannot",
        "1 not: protected: name keep-*",
    ]);
    assert_eq!(
        console.changes().len(),
        0,
        "counting the steps changes nothing"
    );
    console.press("4 0 enter");
    assert_eq!(console.changes().len(), 0);
    console.press("ctrl-u 3 9 enter");
    let [Command::RetryMatching { filter, .. }] = console.changes()[..] else {
        panic!("{:?}", console.changes());
    };
    let kinds = filter.causes.iter().map(|it| it.error_type.as_deref());
    assert!(kinds.eq([Some("PolicyNotAuthorized"), Some("BadRequest")]));
    console.assert_shows(["39 retried, 1 not"]);
}

#[test]
fn back_and_forward_restore_views_with_their_filter_and_their_answers() {
    // The screen without the sign of a query under way.
    let shown = |console: &TestConsole| console.text().replace('◐', "─").replace("─ ", "──");
    let mut console = TestConsole::busy(":network enter /web enter");
    let filtered = shown(&console);
    console.press(":stuck enter b");
    let blockers = shown(&console);
    console.press("[ [");
    assert_eq!(shown(&console), filtered);
    console.press("] ]");
    assert_eq!(shown(&console), blockers);
    console.press("]");
    assert_eq!(shown(&console), blockers, "there is no newer view");
    // Once another pane is opened from an earlier view, there is no newer view any more.
    console.press("[ :gc enter ]");
    console.assert_shows(["retried automatically"]);
}

#[test]
fn a_plan_that_is_shown_again_takes_no_key_before_it_is_painted() {
    let mut console = with_plan();
    console.press("[");
    // Both keys come before the next frame, as when keys are held down.
    for code in [KeyCode::Char(']'), KeyCode::Enter] {
        update(&mut console.state, pressed(code));
    }
    assert!(console.state.is_guarded());
    console.assert_hides(["Type the name"]);
    console.handle(Event::GuardPainted);
    console.press("enter");
    console.assert_shows(["Type the name"]);
}

#[test]
fn up_and_down_recall_earlier_command_lines() {
    let mut console = TestConsole::busy(":stuck enter :gc enter :stuck enter : up");
    console.assert_shows([":stuck"]);
    console.press("up");
    console.assert_shows([":gc"]);
    console.press("up");
    // A repeated line is kept once.
    console.assert_shows([":gc"]);
    // A new prompt starts with the newest line again.
    console.press("esc : up");
    console.assert_shows([":stuck"]);
    console.press("up down down down");
    console.assert_hides([":gc"]);
    console.press("up up enter");
    console.assert_shows(["retried automatically"]);
}

#[test]
fn a_cloud_that_requires_a_reason_gets_it_with_the_confirmation() {
    let mut world = World::busy();
    world.snapshot.sites[0].reason_wanted = Some("OPS-*".to_owned());
    let mut console = TestConsole::new(world, (80, 24)).after(":network enter D enter web enter");
    console.assert_shows(["Type the reason, with a word like OPS-*"]);
    assert_eq!(console.changes().len(), 0);
    console.press("because enter");
    console.assert_shows(["That is not it"]);
    assert_eq!(console.changes().len(), 0);
    console.handle(Event::Paste(" see OPS-4711\n".to_owned()));
    assert_eq!(console.changes().len(), 0, "pasted text confirms nothing");
    console.press("enter");
    assert_eq!(console.changes().len(), 1);
    assert_eq!(console.reasons.last().unwrap(), "because see OPS-4711");

    // A rung of the ladder needs the reason too. For a cloud that requires no reason, the console does not ask for one.
    console.press(":stuck enter F down down down enter 00000001 enter");
    console.assert_shows(["Type the reason"]);
    console.press("esc");
    console.assert_shows(["nothing was sent"]);
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
    let effects = update(&mut console.state, pressed(KeyCode::Enter));
    let ticket = effects.iter().find_map(|effect| match effect {
        Effect::Submit { ticket, .. } => Some(*ticket),
        _ => None,
    });
    console.press("[");
    let accepted = Receipt::Accepted(Accepted {
        deletion_id: deletion(1, DeletionState::Running, 0, 1).id,
        existing: false,
    });
    console.receive(ticket.unwrap(), Ok(accepted));
    console.assert_shows(["accepted as deletion"]);
    console.press("]");
    console.assert_shows(["deletion 00000001: network web-1"]);
}

#[test]
fn a_count_that_arrives_while_a_person_types_does_not_replace_the_prompt() {
    let mut console = TestConsole::busy(":causes enter space space");
    console.answers_commands = false;
    console.press("r /po");
    console.answer_last_command();
    assert!(!console.state.is_guarded());
    console.press("rt");
    console.assert_shows([" /port"]);
    // `:events` keeps the message about the count that arrived meanwhile.
    console.press("esc :events enter");
    console.assert_shows(["the confirmation does not open while you type"]);
    console.press("esc r");
    console.answer_last_command();
    console.assert_hides(["/port"]);
    console.assert_shows(["can be retried"]);
}
