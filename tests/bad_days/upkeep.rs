//! The upkeep of the ledger: checks, backups, exports and the audit, also beside an engine at work.

use std::os::unix::fs::PermissionsExt as _;

use serde_json::{Value, json};

use super::support::{DELETE_WEB, Stage, text};

#[test]
fn a_backup_beside_a_working_engine_is_complete_private_and_overwrites_nothing() {
    let stage = Stage::with_web(60);
    stage.limits(json!({"latency_ms": 20, "parallel": 4}));
    let engine = stage.engine();
    let id = text(&stage.gone(DELETE_WEB).ok().json()["id"]);
    stage.await_writes(10);
    let copy = stage.path("copy.db");
    let backup = format!("ledger backup {} -o json", copy.display());
    let reported = stage.gone(&backup).ok().json();
    let metadata = std::fs::metadata(&copy).unwrap();
    assert_eq!(reported["bytes"], metadata.len());
    assert_eq!(metadata.permissions().mode() & 0o777, 0o600);
    let before = std::fs::read(&copy).unwrap();
    stage
        .gone(&backup)
        .ends_with(2)
        .stderr_has(&["copy.db", "File exists"]);
    assert!(
        before == std::fs::read(&copy).unwrap(),
        "the copy was overwritten"
    );

    let of_copy = format!("--ledger {}", copy.display());
    stage.gone(&format!("ledger check {of_copy}")).ok();
    let db = rusqlite::Connection::open(&copy).unwrap();
    let known: i64 = db
        .query_row(
            "SELECT count(*) FROM deletions WHERE id = ?1",
            [&id],
            |row| row.get(0),
        )
        .unwrap();
    assert_eq!(known, 1);
    drop(db);
    // A verb that reads needs no socket; the engine of the other ledger serves the default socket.
    let listed = stage.gone(&format!("list -o json {of_copy}")).ok().json();
    assert_eq!(listed[0]["id"], id.as_str());
    stage
        .gone(&format!("delete network/x --yes {of_copy}"))
        .ends_with(2)
        .stderr_has(&[
            "another engine serves it",
            "End that engine, or choose another socket with --socket.",
        ]);
    // The engine completes the deletion, and its own ledger is intact.
    stage.await_state(&id, "gone");
    stage.gone("ledger check").ok();
    engine.stop().ok();
}

#[test]
fn ledger_check_exits_with_1_and_names_the_rules_that_a_manual_change_broke() {
    let stage = Stage::with_web(2);
    stage.gone(DELETE_WEB).ok();
    stage.gone("ledger check").ok();
    let db = rusqlite::Connection::open(stage.ledger()).unwrap();
    db.execute(
        "UPDATE deletions SET gone = gone + 1, total = total + 1",
        (),
    )
    .unwrap();
    db.execute("UPDATE audit SET reason = 'another' WHERE seq = 1", ())
        .unwrap();
    drop(db);
    let checked = stage.gone("ledger check -o json").ends_with(1).json();
    let broken: Vec<&str> = checked
        .as_array()
        .unwrap()
        .iter()
        .filter(|check| check["health"] == "fail")
        .map(|check| check["name"].as_str().unwrap())
        .collect();
    let rules = [
        "each deletion's total of steps equals a recount",
        "the counts of each deletion's steps by state equal a recount",
        "p6: the audit's hash chain is intact",
        "p6: the audit ends where it was sealed",
    ];
    assert_eq!(broken, rules);
}

#[test]
fn p06_the_audit_is_listed_verified_and_exported_and_a_removed_last_row_is_found() {
    let stage = Stage::with_web(2);
    stage.gone(&format!("{DELETE_WEB} --reason ticket")).ok();
    let listed = stage.gone("audit list").ok().out;
    for word in ["delete", "network", "ticket"] {
        assert!(listed.contains(word), "{word}: {listed}");
    }
    let mut rows = listed.lines().skip(1);
    assert!(rows.all(|row| row.contains("Z  ")), "{listed}");
    let rows = stage.gone("audit export").ok().out;
    let rows: Vec<Value> = rows
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let whole = stage.gone("audit verify -o json").ok().json();
    assert_eq!(whole["rows"], rows.len());
    let head = format!("{}:{}", rows.len(), text(&rows.last().unwrap()["hash"]));
    assert_eq!(whole["head"], head);
    stage.network("api", 1);
    stage.gone("delete network/api-net-0 --cascade --yes").ok();
    // The audit is verified with a head that was kept elsewhere, and is refused with a different head.
    stage.gone(&format!("audit verify --head {head}")).ok();
    stage
        .gone(&format!("audit verify --head {head}0"))
        .ends_with(1);
    stage.gone("audit verify --head 99:abc").ends_with(1);
    stage.gone("audit verify --head abc").ends_with(2);

    let db = rusqlite::Connection::open(stage.ledger()).unwrap();
    db.execute(
        "DELETE FROM audit WHERE seq = (SELECT max(seq) FROM audit)",
        (),
    )
    .unwrap();
    drop(db);
    stage
        .gone("audit verify")
        .ends_with(1)
        .stdout_has(&["cut from its end"]);
    stage.gone("ledger check").ends_with(1);
    stage.gone("audit seal --reason explained").ok();
    stage.gone("audit verify").ok();
    stage
        .gone("audit list --last 1")
        .ok()
        .stdout_has(&["seal", "explained"]);
}

#[test]
fn ledger_export_writes_deletions_steps_and_events_as_lines_of_json() {
    let stage = Stage::with_web(2);
    let id = text(&stage.gone(DELETE_WEB).ok().json()["id"]);
    let out = stage.gone("ledger export").ok().out;
    let lines: Vec<Value> = out
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let of = |table: &str| lines.iter().filter(|line| line["table"] == table).count();
    assert_eq!(of("deletions"), 1);
    assert_eq!(of("steps"), 3);
    assert!(lines.iter().any(|line| line["id"] == id.as_str()));
    let db = rusqlite::Connection::open(stage.ledger()).unwrap();
    let events: i64 = db
        .query_row("SELECT count(*) FROM events", (), |row| row.get(0))
        .unwrap();
    assert_eq!(of("events") as i64, events);
}

#[test]
fn a_missing_ledger_is_reported_and_not_created() {
    let stage = Stage::new();
    for line in ["ledger check", "ledger export", "ledger backup x.db"] {
        stage
            .gone(line)
            .ends_with(2)
            .stderr_has(&["ledger.db", "--ledger"]);
    }
    assert!(!stage.ledger().exists());
    for line in [
        "list",
        "list stuck",
        "show deadbeef",
        "tree deadbeef",
        "report deadbeef",
        "watch deadbeef",
        "explain network/web",
        "retry --all --dry-run",
        "purge deadbeef",
    ] {
        stage
            .gone(&format!("{line} --ledger typo.db"))
            .ends_with(2)
            .stderr_has(&["there is no ledger at", "typo.db"]);
    }
    for name in ["typo.db", "typo.db.key", "typo.db.lock"] {
        assert!(!stage.path(name).exists(), "{name}");
    }
    // A verb that reads may create the ledger at its default path.
    stage.gone("list").ok();
}
