//! `purge`, `release`, `list orphans`, sites paused by hand, and `ledger prune`.

use gone::app::command_line::Cli;
use gone::control::Command;
use gone::domain::ladder::{PurgeScope, Rung};
use gone::domain::model::*;
use gone::frontends::cli::Exit;
use serde_json::Value;

use crate::fake::*;

#[tokio::test]
async fn p03_purge_without_a_rung_shows_the_ladder_and_sends_nothing() {
    let runner = Runner::new(World::new());
    let ran = runner.run("purge deadbeef").await;
    assert_eq!(ran.exit, Exit::Done, "{}", ran.err);
    let expected = "\
load balancer api (lb-1) at prod/one, in deletion deadbeef

RUNG     OFFERED  WHAT IT DOES
retry    yes      DELETE /v2.0/lbaas/loadbalancers/lb-1
unpin    no       nothing is known that pins it
runbook  yes      sends nothing: tells what to do
forget   yes      sends nothing: abandons it
                  leaves: lb-1, as an orphan

Nothing was done. To take a rung: gone purge deadbeef --rung NAME --confirm deadbeef
";
    assert_eq!(ran.out, expected);
    let ran = runner.run("purge deadbeef -o json").await;
    let shown: Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!(
        shown["offers"][1]["why_not"],
        "nothing is known that pins it"
    );
    let ran = runner.run("purge deadbeef -o csv").await;
    assert!(
        ran.out.starts_with("RUNG,OFFERED,DOES,LEAVES,WHY NOT"),
        "{}",
        ran.out
    );
    assert!(runner.fake.submitted().is_empty());
}

#[tokio::test]
async fn p03_purge_takes_a_rung_only_together_with_confirm() {
    use clap::Parser as _;
    for half in ["--rung forget", "--confirm deadbeef"] {
        let line = format!("gone purge deadbeef {half}");
        assert!(
            Cli::try_parse_from(line.split_whitespace()).is_err(),
            "{half}"
        );
    }
    let runner = Runner::new(World::new());
    let ran = runner
        .run("purge deadbeef --rung forget --confirm deadbeef --reason ticket")
        .await;
    assert_eq!(ran.exit, Exit::Done, "{}", ran.err);
    assert!(ran.out.contains("2 steps abandoned"), "{}", ran.out);
    let envelope = runner.fake.submitted().pop().unwrap();
    assert_eq!(envelope.reason, "ticket");
    let Command::Purge {
        what,
        rung,
        confirm,
    } = envelope.command
    else {
        panic!("{:?}", envelope.command);
    };
    assert_eq!(what, PurgeScope::Deletion(DELETION.to_owned()));
    assert_eq!((rung, confirm.as_str()), (Rung::Forget, "deadbeef"));

    let ran = runner
        .run("purge 1742 --rung runbook --confirm deadbeef")
        .await;
    assert_eq!(ran.out, "1. Look.\n2. Act.\n");
    let command = runner.fake.submitted().pop().unwrap().command;
    assert!(matches!(
        command,
        Command::Purge {
            what: PurgeScope::Step(1742),
            ..
        }
    ));

    let sent = runner.fake.submitted().len();
    let words = "gone purge deadbeef --rung forgt --confirm deadbeef".split(' ');
    let wrong = Cli::try_parse_from(words).unwrap_err();
    assert_eq!(wrong.exit_code(), i32::from(Exit::Usage.code()));
    assert!(
        wrong.to_string().contains("did you mean \"forget\"?"),
        "{wrong}"
    );
    let ran = runner
        .run("purge deadbeef --rung retry --confirm deadbeef --read-only")
        .await;
    assert_eq!(ran.exit, Exit::Refused);
    assert_eq!(runner.fake.submitted().len(), sent);
}

#[tokio::test]
async fn p03_a_purged_deletion_exits_with_4() {
    let mut world = World::new();
    let mut purged = deletion(DeletionState::Purged);
    purged.counts = Counts {
        purged: 1,
        total: 1,
        ..Counts::default()
    };
    world.deletions = [purged].into();
    let runner = Runner::new(world);
    for line in [
        "delete network/web --yes --wait",
        "show deadbeef",
        "show deadbeef -o json",
    ] {
        let ran = runner.run(line).await;
        assert_eq!(ran.exit, Exit::Stuck, "{line}: {}", ran.err);
    }
}

#[tokio::test]
async fn p03_list_orphans_shows_whether_each_still_exists() {
    let orphan = |id: &str, there| Orphan {
        resource: StepResource {
            key: key("load_balancer", id),
            name: "api".into(),
        },
        project_id: "demo".into(),
        since: start(),
        why: "it is still PENDING_DELETE".into(),
        deletion_id: DELETION.into(),
        step_id: 7,
        there,
    };
    let world = || {
        let mut world = World::new();
        world.page_rows = 1;
        world.orphans = vec![
            orphan("lb-1", Presence::Present),
            orphan("lb-2", Presence::Unclear),
        ];
        world
    };
    let ran = run(world(), "list orphans").await;
    assert_eq!(ran.exit, Exit::Done, "{}", ran.err);
    let lines: Vec<&str> = ran.out.lines().collect();
    assert!(lines[0].starts_with("THERE"), "{}", ran.out);
    assert!(lines[1].starts_with("present") && lines[1].contains("PENDING_DELETE"));
    assert!(lines[2].starts_with("unclear") && lines[2].contains("lb-2"));
    let ran = run(world(), "list orphans --cloud lab -o json").await;
    assert_eq!(ran.out.trim(), "[]");
}

#[tokio::test]
async fn a_tombstone_is_released_by_its_target_if_exactly_one_matches() {
    let tombstone = |site: Site, phase| Tombstone {
        record_id: 1,
        key: ResourceKey {
            site,
            ..key("port", "p1")
        },
        phase,
        deleted_at: Some(start()),
        gone_at: None,
        incarnation: 1,
        recreated: 0,
        deletion_id: DELETION.into(),
    };
    let mut world = World::new();
    world.tombstones = vec![
        tombstone(Site::region("prod", "one"), Phase::Gone),
        tombstone(Site::region("prod", "two"), Phase::Gone),
        tombstone(Site::region("lab", "one"), Phase::Released),
    ];
    world.kinds = vec![kind("port", &["ports"])];
    let runner = Runner::new(world);
    let ran = runner
        .run("release ports/p1@prod/two --reason restored")
        .await;
    assert_eq!(ran.exit, Exit::Done, "{}", ran.err);
    assert_eq!(ran.out, "port/p1@prod/two: released\n");
    let envelope = runner.fake.submitted().pop().unwrap();
    assert_eq!(envelope.reason, "restored");
    let Command::Release { key } = envelope.command else {
        panic!("{:?}", envelope.command);
    };
    assert_eq!(key.site, Site::region("prod", "two"));
    for line in ["release port/p1", "release port/p1@lab"] {
        let ran = runner.run(line).await;
        assert_eq!(ran.exit, Exit::Usage, "{line}: {}", ran.err);
    }
    let ran = runner.run("release prot/p1@prod/two").await;
    assert_eq!(ran.exit, Exit::Usage);
    assert!(ran.err.contains("did you mean \"port\"?"), "{}", ran.err);
    assert_eq!(runner.fake.submitted().len(), 1);
}

fn with_deployments() -> Runner {
    let mut world = World::new();
    world.deployments = deployments();
    Runner::new(world)
}

#[tokio::test]
async fn g12_releasing_a_deployment_needs_its_typed_name_or_yes() {
    let mut runner = with_deployments();
    let ran = runner.run("release d0-1").await;
    assert_eq!(ran.exit, Exit::Usage);
    assert!(ran.err.contains("--yes"), "{}", ran.err);

    runner.style.in_terminal = true;
    runner.typed = "d0-2\n".into();
    let ran = runner.run("release d0-1").await;
    assert_eq!(ran.exit, Exit::Usage);
    let prompt = "\
Deployment d0-1 (s0/r1): on record since 2026-02-28T12:00:00Z, last contact 42s ago, 3 steps wait for its clearance
After the release, no deletion waits for this deployment's clearance. Its resources may keep references that lead to nothing.
If the deployment still exists, it is put on record again at its next watch.

To release it, type its name, d0-1: ";
    assert!(ran.err.starts_with(prompt), "{}", ran.err);
    let message = "the typed text is not the name of deployment d0-1; nothing was released";
    assert!(ran.err.contains(message), "{}", ran.err);
    assert!(runner.fake.submitted().is_empty());

    runner.typed = "d0-1\n".into();
    let ran = runner.run("release d0-1 --reason gone").await;
    assert_eq!(ran.exit, Exit::Done, "{}", ran.err);
    assert_eq!(ran.out, "deployment d0-1: released\n");
    let envelope = runner.fake.submitted().pop().unwrap();
    assert_eq!(envelope.reason, "gone");
    assert!(matches!(envelope.command, Command::ReleaseImporter { name } if name == "d0-1"));

    runner.style.in_terminal = false;
    let ran = runner.run("release d0-1 --yes").await;
    assert_eq!(ran.exit, Exit::Done, "{}", ran.err);
    assert!(ran.err.is_empty(), "{}", ran.err);
    assert_eq!(runner.fake.submitted().len(), 2);
}

#[tokio::test]
async fn g12_only_an_importer_on_record_can_be_released() {
    let runner = with_deployments();
    for (line, message) in [
        ("release d01 --yes", "did you mean \"d0-1\"?"),
        (
            "release nobody --yes",
            "no deployment \"nobody\" is on record",
        ),
        (
            "release d1-1 --yes",
            "no step waits for the clearance of d1-1",
        ),
    ] {
        let ran = runner.run(line).await;
        assert_eq!(ran.exit, Exit::Usage, "{line}");
        assert!(ran.err.contains(message), "{line}: {}", ran.err);
    }
    let ran = runner.run("release d0-1 --yes --read-only").await;
    assert_eq!(ran.exit, Exit::Refused, "{}", ran.err);
    assert!(runner.fake.submitted().is_empty());
}

#[tokio::test]
async fn a_site_is_paused_and_resumed_by_its_name() {
    let runner = Runner::new(World::new());
    for (verb, paused) in [("pause", true), ("resume", false)] {
        let ran = runner
            .run(&format!("{verb} prod/one --reason upgrade"))
            .await;
        assert_eq!(ran.exit, Exit::Done, "{}", ran.err);
        assert!(ran.out.contains("prod/one"), "{}", ran.out);
        let envelope = runner.fake.submitted().pop().unwrap();
        assert_eq!(envelope.reason, "upgrade");
        let site = Site::region("prod", "one");
        match envelope.command {
            Command::PauseSite { site: found } if paused => assert_eq!(found, site),
            Command::ResumeSite { site: found } if !paused => assert_eq!(found, site),
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test]
async fn ledger_prune_is_done_by_the_engine() {
    let runner = Runner::new(World::new());
    let ran = runner.run("ledger prune --older-than 30d").await;
    assert_eq!(ran.exit, Exit::Done, "{}", ran.err);
    assert_eq!(ran.out, "3 rows of the ledger removed\n");
    let plain = runner.run("ledger prune -o json").await;
    let plain: Value = serde_json::from_str(&plain.out).unwrap();
    assert_eq!(plain, serde_json::json!({ "rows": 3 }));
    let limits = runner
        .fake
        .submitted()
        .into_iter()
        .map(|envelope| match envelope.command {
            Command::Prune { before } => before.map(|before| before.timestamp()),
            other => panic!("{other:?}"),
        });
    let limits: Vec<_> = limits.collect();
    assert_eq!(
        limits,
        [
            Some((start() - chrono::TimeDelta::days(30)).timestamp()),
            None
        ]
    );
}
