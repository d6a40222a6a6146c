//! `plan` and `delete`, on a paused clock.

use std::os::unix::fs::PermissionsExt as _;
use std::sync::Arc;
use std::time::Duration;

use chrono::TimeDelta;
use gone::control::read_only::ReadOnlyControl;
use gone::control::{
    Accepted, Command, ControlError, Envelope, NamedOptions, Receipt, SiteSpec, SiteState, Snapshot,
};
use gone::domain::model::*;
use gone::domain::plan::ADD_CASCADE;
use gone::frontends::cli::Exit;
use serde_json::Value;

use crate::fake::*;

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

fn attach_terminal(runner: &mut Runner) {
    runner.style.in_terminal = true;
    runner.style.err_terminal = true;
}

#[tokio::test(start_paused = true)]
async fn a_plan_in_json_has_its_hash_steps_and_refusals() {
    let ran = run(World::new(), "plan network/web@prod --cascade -o json").await;
    assert_eq!(ran.exit, Exit::Done, "{}", ran.err);
    let shown = json(&ran.out);
    for member in [
        "hash",
        "targets",
        "steps",
        "automatic",
        "unset",
        "refused",
        "warnings",
        "calls_estimate",
    ] {
        assert!(shown.get(member).is_some(), "{member}");
    }
    assert_eq!(shown["hash"], plan().hash);
}

#[tokio::test(start_paused = true)]
async fn plan_exits_with_6_for_a_refusal_only_with_check() {
    for (line, exit) in [
        ("plan network/web --check", Exit::Refused),
        ("plan network/web", Exit::Done),
    ] {
        let mut world = World::new();
        world.plan = Ok(Plan {
            refused: vec![refusal()],
            ..plan()
        });
        let ran = run(world, line).await;
        assert_eq!(ran.exit, exit, "{line}");
        assert!(
            ran.out
                .contains("blocked by floatingip \"203.0.113.9\" fip-1"),
            "{}",
            ran.out
        );
        assert!(ran.out.contains("project demo"), "{}", ran.out);
    }
    let ran = run(World::new(), "plan network/web --check").await;
    assert_eq!(ran.exit, Exit::Done);
}

#[tokio::test(start_paused = true)]
async fn the_cloud_and_region_options_choose_the_sites_of_targets() {
    let region = |cloud, region| SiteSpec::Region(Site::region(cloud, region));
    for (line, sites) in [
        ("plan network/web", vec![SiteSpec::All]),
        (
            "plan network/web@lab --cloud prod",
            vec![SiteSpec::Cloud("lab".into())],
        ),
        (
            "plan network/web --cloud prod",
            vec![SiteSpec::Cloud("prod".into())],
        ),
        (
            "plan network/web --cloud prod --region one --region two",
            vec![region("prod", "one"), region("prod", "two")],
        ),
        ("plan network/web --region two", vec![region("prod", "two")]),
    ] {
        let runner = Runner::new(World::new());
        assert_eq!(runner.run(line).await.exit, Exit::Done, "{line}");
        let Command::Plan { targets, .. } = runner.fake.submitted().remove(0).command else {
            panic!("{line}")
        };
        let found: Vec<SiteSpec> = targets.into_iter().map(|target| target.site).collect();
        assert_eq!(found, sites, "{line}");
    }
    for (line, near) in [
        ("plan network/web --cloud prot", "did you mean \"prod\"?"),
        ("plan network/web --region twoo", "did you mean \"two\"?"),
        ("list network --cloud prot", "did you mean \"prod\"?"),
    ] {
        let ran = run(World::new(), line).await;
        assert_eq!(ran.exit, Exit::Usage);
        assert!(ran.err.contains(near), "{}", ran.err);
    }
}

#[tokio::test(start_paused = true)]
async fn an_ambiguous_target_lists_its_candidates() {
    let ambiguous = ControlError::Ambiguous {
        message: "2 networks are called web".into(),
        candidates: vec![
            target("network", "n-1", "web"),
            target("network", "n-2", "web"),
        ],
    };
    let mut world = World::new();
    world.plan = Err(ambiguous.clone());
    let ran = run(world, "plan network/web").await;
    assert_eq!(ran.exit, Exit::Usage);
    assert!(
        ran.err.contains("cannot plan network/web: 2 networks"),
        "{}",
        ran.err
    );
    assert!(ran.err.contains("network/n-2@prod/one"), "{}", ran.err);
    assert_eq!(ran.out, "");

    let mut world = World::new();
    world.plan = Err(ambiguous);
    let ran = run(world, "plan network/web -o json").await;
    let error = json(&ran.err);
    assert_eq!(error["error"], "ambiguous");
    assert_eq!(error["exit_code"], 2);
    assert_eq!(error["candidates"][1]["id"], "n-2");
    assert_eq!(error["tried"], "plan network/web");
}

#[tokio::test(start_paused = true)]
async fn p01_a_plan_file_is_private_and_a_changed_one_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("p.json");
    let path = file.display();
    let ran = run(World::new(), &format!("plan network/web --out {path}")).await;
    assert_eq!(ran.exit, Exit::Done, "{}", ran.err);
    let mode = std::fs::metadata(&file).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode, 0o600);
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);

    let line = format!("delete --plan {path} --yes");
    let runner = Runner::new(World::new());
    assert_eq!(runner.run(&line).await.exit, Exit::Done);
    let Command::DeletePlanFile { plan: sent } = runner.fake.submitted().remove(0).command else {
        panic!()
    };
    assert_eq!(*sent, plan());

    let text = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, text.replace("vm-1", "vm-2")).unwrap();
    let runner = Runner::new(World::new());
    let ran = runner.run(&line).await;
    assert_eq!(ran.exit, Exit::Usage);
    assert!(
        ran.err.contains("changed after it was frozen"),
        "{}",
        ran.err
    );
    assert!(runner.fake.submitted().is_empty());

    for (content, word) in [("{}", "missing field"), ("nonsense", "expected")] {
        std::fs::write(&file, content).unwrap();
        let ran = run(World::new(), &line).await;
        assert_eq!(ran.exit, Exit::Usage);
        assert!(ran.err.contains(word), "{}", ran.err);
    }
    std::fs::remove_file(&file).unwrap();
    assert_eq!(run(World::new(), &line).await.exit, Exit::Usage);
}

#[tokio::test(start_paused = true)]
async fn without_a_terminal_and_without_yes_nothing_is_sent() {
    let runner = Runner::new(World::new());
    let ran = runner.run("delete network/web --cascade").await;
    assert_eq!(ran.exit, Exit::Usage);
    assert!(ran.err.contains("--yes"), "{}", ran.err);
    assert!(runner.fake.submitted().is_empty());
}

#[tokio::test(start_paused = true)]
async fn p01_delete_sends_the_shown_plan_after_its_name_or_short_id_is_typed() {
    for typed in ["web\n", "4fdb1c2d\n", "network-3-4fdb1c2d\n"] {
        let mut runner = Runner::new(World::new());
        attach_terminal(&mut runner);
        runner.typed = typed.into();
        let ran = runner.run("delete network/web --cascade").await;
        assert_eq!(ran.exit, Exit::Done, "{}", ran.err);
        assert!(
            ran.err
                .contains("To delete network web (4 steps), type \"web\" or 4fdb1c2d: "),
            "{}",
            ran.err
        );
        assert!(ran.err.contains("Automatic"), "{}", ran.err);
        let submitted = runner.fake.submitted();
        let Command::DeletePlan { plan_hash, .. } = &submitted[1].command else {
            panic!("{submitted:?}")
        };
        assert_eq!(*plan_hash, plan().hash);
        assert_eq!(submitted[1].actor.name, "ada");
    }
    for typed in ["", "y\n", "yes\n", "Web\n", "web2\n"] {
        let mut runner = Runner::new(World::new());
        attach_terminal(&mut runner);
        runner.typed = typed.into();
        let ran = runner.run("delete network/web --cascade").await;
        assert_eq!(ran.exit, Exit::Usage, "{typed:?}");
        let message = "the typed text is not the name or short id of network web; nothing was sent";
        assert!(ran.err.contains(message), "{}", ran.err);
        assert_eq!(
            runner.fake.submitted().len(),
            1,
            "only the plan was submitted"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn p01_the_plan_to_approve_is_shown_uncut_on_a_narrow_screen() {
    let mut runner = Runner::new(World::new());
    attach_terminal(&mut runner);
    runner.style.width = Some(40);
    let ran = runner.run("delete network/web --cascade").await;
    for step in plan().steps {
        assert!(ran.err.contains(&step.resource_id), "{}", ran.err);
    }
    let printed = runner.run("plan network/web --cascade").await.out;
    let table = printed
        .lines()
        .skip_while(|line| !line.starts_with("ACTION"));
    assert!(table.clone().count() > 4, "{printed}");
    let table = table.take_while(|line| !line.is_empty());
    assert!(table.clone().all(|line| line.len() <= 40), "{printed}");
}

#[tokio::test(start_paused = true)]
async fn a_plan_with_refusals_asks_for_no_confirmation() {
    let mut world = World::new();
    world.plan = Ok(Plan {
        refused: vec![refusal()],
        ..plan()
    });
    let mut runner = Runner::new(world);
    attach_terminal(&mut runner);
    runner.typed = "web\n".into();
    let ran = runner.run("delete network/web").await;
    assert_eq!(ran.exit, Exit::Refused);
    assert!(!ran.err.contains("To delete"), "{}", ran.err);
    assert_eq!(runner.fake.submitted().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_refusal_names_the_option_that_adds_the_cascade() {
    let mut world = World::new();
    world.plan = Ok(Plan {
        refused: vec![Refusal {
            reason: format!("network web is in use: port vm is on it{ADD_CASCADE}"),
            ..refusal()
        }],
        ..plan()
    });
    let ran = run(world, "plan network/web").await;
    assert!(
        ran.out
            .contains("port vm is on it; add --cascade to delete it too"),
        "{}",
        ran.out
    );
}

#[tokio::test(start_paused = true)]
async fn p05_the_read_only_option_sends_nothing() {
    for line in [
        "delete network/web --yes --read-only",
        "retry deadbeef --read-only",
        "resume deadbeef --read-only",
    ] {
        let runner = Runner::new(World::new());
        assert_eq!(runner.run(line).await.exit, Exit::Refused, "{line}");
        assert!(runner.fake.submitted().is_empty(), "{line}");
    }
    let runner = Runner::new(World::new());
    assert_eq!(
        runner.run("plan network/web --read-only").await.exit,
        Exit::Done
    );
}

#[tokio::test(start_paused = true)]
async fn p05_read_only_settings_send_nothing_to_a_writable_engine() {
    for line in [
        "delete network/web --yes",
        "delete --plan abc --yes",
        "retry deadbeef",
        "retry --all",
        "resume deadbeef",
        "drift deadbeef --accept",
        "purge deadbeef --rung retry --confirm deadbeef",
    ] {
        let mut runner = Runner::new(World::new());
        runner.read_only = true;
        let ran = runner.run(line).await;
        assert_eq!(ran.exit, Exit::Refused, "{line}: {}", ran.err);
        assert!(ran.err.contains("[guard] read_only"), "{line}: {}", ran.err);
        assert!(runner.fake.submitted().is_empty(), "{line}");
    }
}

#[tokio::test(start_paused = true)]
async fn p05_a_read_only_control_refuses_changes_passes_a_cancel_and_shows_read_only() {
    let fake = Fake::new(World::new());
    let control = ReadOnlyControl::over(fake.clone());
    let submit = async |command| {
        let envelope = Envelope {
            command,
            actor: Actor {
                name: "ada".into(),
                origin: Origin::Console,
            },
            reason: String::new(),
            idempotency_key: None,
            deadline: None,
        };
        control.submit(envelope).await
    };
    let deletion_id = || DELETION.to_owned();
    for refused in [
        Command::Retry {
            deletion_id: deletion_id(),
        },
        Command::Drift {
            deletion_id: deletion_id(),
            accept: false,
        },
        Command::DeletePlan {
            plan_hash: "abc".into(),
            named: NamedOptions::default(),
        },
    ] {
        let answer = submit(refused).await;
        assert!(
            matches!(&answer, Err(ControlError::Refused { message, .. }) if message.contains("read-only")),
            "{answer:?}"
        );
    }
    assert!(fake.submitted().is_empty());
    submit(Command::Cancel {
        deletion_id: deletion_id(),
    })
    .await
    .unwrap();
    assert_eq!(fake.submitted().len(), 1);

    let mut snapshots = control.snapshot();
    assert!(snapshots.borrow_and_update().engine.read_only);
    fake.snapshot.send_modify(|snapshot| {
        let newer = Snapshot {
            version: 7,
            ..(**snapshot).clone()
        };
        *snapshot = Arc::new(newer);
    });
    snapshots.changed().await.unwrap();
    let snapshot = snapshots.borrow().clone();
    assert_eq!(snapshot.version, 7);
    assert!(snapshot.engine.read_only && snapshot.sites.iter().all(|site| site.read_only));
}

#[tokio::test(start_paused = true)]
async fn delete_ends_once_accepted_with_an_engine_and_waits_without_one() {
    let runner = Runner::new(World::new());
    let ran = runner
        .run("delete network/web --yes --reason why -o json")
        .await;
    assert_eq!(ran.exit, Exit::Done);
    let shown = json(&ran.out);
    assert_eq!(shown["id"], DELETION);
    assert_eq!(shown["state"], "running");
    assert_eq!(shown["existing"], false);
    assert_eq!(runner.fake.submitted()[0].reason, "why");

    let mut world = World::new();
    world.deletions = [
        deletion(DeletionState::Running),
        deletion(DeletionState::Gone),
    ]
    .into();
    world.steps = vec![step(1, "network", StepState::Gone, &[])];
    let mut runner = Runner::new(world);
    runner.embedded = true;
    let ran = runner.run("delete network/web --yes -o json").await;
    assert_eq!(ran.exit, Exit::Done);
    let shown = json(&ran.out);
    assert_eq!(shown["state"], "gone");
    assert_eq!(shown["steps"][0]["resource"]["id"], "network-1");
}

/// Another deletion reports events during the wait.
#[tokio::test(start_paused = true)]
async fn a_wait_ends_with_its_deletion_despite_events_of_other_deletions() {
    let event = |seq, deletion_id: &str, kind| Event {
        seq,
        at: start(),
        deletion_id: Some(deletion_id.into()),
        step_id: None,
        kind,
        message: String::new(),
        data: serde_json::Value::Null,
    };
    let mut world = World::new();
    world.deletions = [
        deletion(DeletionState::Running),
        deletion(DeletionState::Gone),
    ]
    .into();
    world.new_events = [
        event(1, "another", EventKind::Attempt),
        event(2, "another", EventKind::DeletionState),
        event(3, DELETION, EventKind::DeletionState),
    ]
    .into();
    let began = tokio::time::Instant::now();
    let ran = run(world, "delete network/web --yes --wait").await;
    assert_eq!(ran.exit, Exit::Done, "{}", ran.err);
    assert_eq!(began.elapsed().as_millis(), 100);
}

#[tokio::test(start_paused = true)]
async fn a_rejected_delete_exits_with_the_code_of_its_error() {
    let message = || "no".to_owned();
    for (error, code) in [
        (
            ControlError::Drifted {
                message: message(),
                changes: vec!["port p changed".into()],
            },
            7,
        ),
        (
            ControlError::Refused {
                message: message(),
                refused: vec![refusal()],
            },
            6,
        ),
        (ControlError::Auth { message: message() }, 3),
        (ControlError::Forbidden { message: message() }, 3),
        (ControlError::Unreachable { message: message() }, 5),
    ] {
        let mut world = World::new();
        world.accept = Err(error);
        let ran = run(world, "delete network/web --yes --wait").await;
        assert_eq!(ran.exit.code(), code);
        assert!(
            ran.err.starts_with("gone: cannot delete network/web: no"),
            "{}",
            ran.err
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_deletion_refused_after_acceptance_prints_why_and_exits_by_its_rule() {
    for (rule, exit) in [
        (RefusalRule::InUse, Exit::Refused),
        (RefusalRule::Drift, Exit::Drifted),
        (RefusalRule::Unreadable, Exit::Unreachable),
    ] {
        for line in [
            "delete network/web --yes",
            "delete network/web --yes --wait",
        ] {
            let mut world = World::new();
            let mut refused = deletion(DeletionState::Refused);
            refused.refused = vec![Refusal { rule, ..refusal() }];
            world.deletions = [refused].into();
            let ran = run(world, line).await;
            assert_eq!(ran.exit, exit, "{line} {rule:?}");
            assert!(
                ran.out
                    .contains("blocked by floatingip \"203.0.113.9\" fip-1"),
                "{}",
                ran.out
            );
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_wait_prints_every_step_and_exits_with_4_if_one_is_stuck() {
    let mut stuck = deletion(DeletionState::Stuck);
    stuck.counts.stuck = 1;
    let mut port_step = step(2, "port", StepState::Stuck, &[]);
    port_step.last_error = Some(error(ErrorClass::Blocked));
    port_step.blockers = vec![blocker()];
    let mut world = World::new();
    world.deletions = [deletion(DeletionState::Running), stuck].into();
    world.steps = vec![step(1, "network", StepState::Gone, &[]), port_step];
    world.page_rows = 1;
    let ran = run(world, "delete network/web --yes --wait=30m").await;
    assert_eq!(ran.exit, Exit::Stuck);
    assert!(ran.out.contains("network-1"), "{}", ran.out);
    assert!(
        ran.out
            .contains("blocked by floatingip \"203.0.113.9\" fip-1"),
        "{}",
        ran.out
    );
    assert!(
        ran.err.contains(&format!("gone show {SHORT}")),
        "{}",
        ran.err
    );
}

/// A deletion whose only step is retried after this many minutes.
fn blocked_for(minutes: i64) -> World {
    let mut blocked = deletion(DeletionState::Running);
    blocked.counts = Counts {
        blocked: 1,
        total: 1,
        ..Counts::default()
    };
    let mut port_step = step(2, "port", StepState::Blocked, &[]);
    port_step.next_attempt_at = Some(start() + TimeDelta::minutes(minutes));
    let mut world = World::new();
    world.deletions = [blocked].into();
    world.steps = vec![port_step];
    world
}

#[tokio::test(start_paused = true)]
async fn a_wait_ends_at_once_when_no_step_can_run_in_time() {
    for (line, minutes) in [
        ("delete network/web --yes --wait=5m", 6),
        ("delete network/web --yes --wait", 61),
    ] {
        let began = tokio::time::Instant::now();
        let ran = run(blocked_for(minutes), line).await;
        assert_eq!(ran.exit, Exit::Stuck, "{line}");
        assert!(began.elapsed() < Duration::from_secs(1), "{line}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_wait_continues_when_a_blocked_step_moves_between_two_queries() {
    let mut world = blocked_for(6);
    world.steps.clear();
    world.deletions.push_back(deletion(DeletionState::Gone));
    let ran = run(world, "delete network/web --yes --wait=5m").await;
    assert_eq!(ran.exit, Exit::Done, "{}", ran.err);
}

#[tokio::test(start_paused = true)]
async fn a_wait_ends_with_8_at_its_deadline() {
    let began = tokio::time::Instant::now();
    let ran = run(World::new(), "delete network/web --yes --wait=90s").await;
    assert_eq!(ran.exit, Exit::StillRunning);
    assert_eq!(began.elapsed().as_secs(), 90);

    // The next attempt comes before the wait ends, but the step stays blocked.
    let ran = run(blocked_for(2), "delete network/web --yes --wait=5m").await;
    assert_eq!(ran.exit, Exit::StillRunning);
}

#[tokio::test(start_paused = true)]
async fn a_wait_at_a_paused_site_exits_with_3_unless_a_person_paused_it() {
    for (paused_by, exit) in [
        (None, Exit::Auth),
        (Some(paused_by_hand()), Exit::StillRunning),
    ] {
        let mut world = World::new();
        let mut ready = deletion(DeletionState::Running);
        ready.counts = Counts {
            ready: 1,
            total: 1,
            ..Counts::default()
        };
        world.deletions = [ready].into();
        world.sites[0].state = SiteState::Paused;
        world.sites[0].paused_by = paused_by;
        let ran = run(world, "delete network/web --yes --wait").await;
        assert_eq!(ran.exit, exit);
    }
}

#[tokio::test(start_paused = true)]
async fn a_wait_survives_a_restart_of_the_engine_but_not_a_lasting_absence() {
    let mut world = World::new();
    world.deletions = [deletion(DeletionState::Gone)].into();
    world.unreachable_queries = 20;
    assert_eq!(
        run(world, "delete network/web --yes --wait").await.exit,
        Exit::Done
    );

    let mut world = World::new();
    world.unreachable_queries = usize::MAX;
    let ran = run(world, "delete network/web --yes --wait").await;
    assert_eq!(ran.exit, Exit::Unreachable);
    assert!(
        ran.err.contains("Nothing that was accepted is lost"),
        "{}",
        ran.err
    );
}

#[tokio::test(start_paused = true)]
async fn ctrl_c_says_where_the_deletion_continues_and_cancels_nothing() {
    for (embedded, word) in [
        (false, "continues in the engine"),
        (true, "stays in the ledger"),
    ] {
        let mut runner = Runner::new(World::new());
        runner.embedded = embedded;
        let interrupt = runner.interrupt.clone();
        let later = tokio::spawn(async move {
            tokio::time::sleep(Duration::from_secs(7)).await;
            interrupt.cancel();
        });
        let ran = runner.run("delete network/web --yes --wait").await;
        later.await.unwrap();
        assert_eq!(ran.exit, Exit::Interrupted);
        assert!(ran.err.contains(word), "{}", ran.err);
        assert!(
            ran.err.contains(&format!("gone show {SHORT}")),
            "{}",
            ran.err
        );
        assert_eq!(runner.fake.submitted().len(), 1, "no cancel was submitted");
    }
}

#[tokio::test(start_paused = true)]
async fn progress_is_shown_on_a_terminal_only() {
    let world = || {
        let mut world = World::new();
        let mut second = deletion(DeletionState::Running);
        second.counts.gone = 2;
        second.rate_per_second = 0.5;
        world.deletions = [
            deletion(DeletionState::Running),
            second,
            deletion(DeletionState::Gone),
        ]
        .into();
        world
    };
    let mut runner = Runner::new(world());
    attach_terminal(&mut runner);
    let ran = runner.run("delete network/web --yes --wait").await;
    assert!(
        ran.err.contains("running: gone 1 of 2, running 1"),
        "{}",
        ran.err
    );
    assert!(ran.err.contains("0.5/s, up to 25 s left"), "{}", ran.err);
    assert!(!ran.out.contains('\r'));

    let ran = run(world(), "delete network/web --yes --wait").await;
    assert_eq!(ran.err, "");
}

#[tokio::test(start_paused = true)]
async fn the_fault_of_the_engine_is_shown_while_waiting() {
    let mut world = World::new();
    world.deletions = [
        deletion(DeletionState::Running),
        deletion(DeletionState::Gone),
    ]
    .into();
    let mut runner = Runner::new(world);
    attach_terminal(&mut runner);
    let mut snapshot = Snapshot::default();
    snapshot.engine.fault = Some("the disk is full".into());
    runner.fake.snapshot.send_replace(Arc::new(snapshot));
    let ran = runner.run("delete network/web --yes --wait").await;
    assert!(ran.err.contains("the disk is full"), "{}", ran.err);
}

#[tokio::test(start_paused = true)]
async fn t06_delete_says_that_the_target_is_already_being_deleted() {
    let mut world = World::new();
    world.accept = Ok(Receipt::Accepted(Accepted {
        deletion_id: DELETION.into(),
        existing: true,
    }));
    let ran = run(world, "delete network/web --yes").await;
    assert_eq!(ran.exit, Exit::Done);
    assert!(ran.out.contains("already being deleted"), "{}", ran.out);
}
