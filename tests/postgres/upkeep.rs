//! The program's commands for a ledger on a server: check, audit, export, replay, backup, and migration.

use std::path::Path;
use std::process::Command;

use gone::ledger::postgres::{Address, PostgresLedger};
use gone::ledger::sqlite::{Options, Store};
use gone::ledger::store::tables::{ColumnType, TABLES};
use gone::ledger::upkeep;
use gone::ledger::{EngineTerms, LedgerError, Location};
use serde_json::Value;

use crate::server::{self, OwnServer};
use crate::stage::{Stage, text, wait_for};
use crate::support::{accept, at, many_ports, new_deletion, start, target};

const DELETE_WEB: &str = "delete network/web-net-0 --cascade --yes --reason ticket -o json";

/// The names of the rules that do not hold.
fn broken(checks: &Value) -> Vec<String> {
    let checks = checks.as_array().unwrap().iter();
    let failed = checks.filter(|check| check["health"] == "fail");
    failed.map(|check| text(&check["name"])).collect()
}

#[test]
fn p06_check_audit_export_and_replay_work_on_a_ledger_on_a_server() {
    let folder = tempfile::tempdir().unwrap();
    let server = OwnServer::start(folder.path());
    let address = server.address_of("practice");
    let stage = Stage::new();
    stage.settings(&format!("[ledger]\npath = '{address}'\n"));
    stage.network("web", 2);
    stage.gone(DELETE_WEB).ok();

    let checked = stage.gone("ledger check -o json").ok().json();
    assert!(checked.as_array().unwrap().len() > 20, "{checked}");
    stage
        .gone("audit list")
        .ok()
        .stdout_has(&["delete", "ticket"]);
    let whole = stage.gone("audit verify -o json").ok().json();
    let head = text(&whole["head"]);
    stage.gone(&format!("audit verify --head {head}")).ok();
    let rows = stage.gone("audit export").ok().out;
    assert_eq!(rows.lines().count() as u64, whole["rows"].as_u64().unwrap());
    let exported = stage.gone("ledger export").ok().out;
    assert!(exported.contains(r#""table":"tombstones""#));
    let replayed = format!("replay {address} -o json");
    let replayed = stage.gone(&replayed).ok().json();
    assert_eq!(replayed[0]["state"], "gone", "{replayed}");
    stage.gone("doctor").stdout_has(&["can be written"]);

    // Commands that work only for a file, or only with the programs of the server, say what to do instead.
    let backup = stage.gone("ledger backup /backup/gone.dump").ends_with(2);
    backup.stderr_has(&[
        "pg_dump --format=custom --schema=practice --file='/backup/gone.dump'",
        "pg_restore",
    ]);
    stage
        .gone("audit seal --reason lost")
        .ends_with(2)
        .stderr_has(&["has a chain and no seal"]);

    server.run_sql(
        "UPDATE practice.deletions SET gone = gone + 1, total = total + 1;
         UPDATE practice.audit SET reason = 'another' WHERE seq = 1;
         UPDATE practice.numbers SET last = 0 WHERE name = 'event'",
    );
    let checked = stage.gone("ledger check -o json").ends_with(1).json();
    let rules = [
        "each deletion's total of steps equals a recount",
        "the counts of each deletion's steps by state equal a recount",
        "no row has a number above the last number that was given",
        "p6: the audit's hash chain is intact",
    ];
    assert_eq!(broken(&checked), rules);
    stage
        .gone("audit verify")
        .ends_with(1)
        .stdout_has(&["broken at row 1"]);
}

/// The dump command that `ledger backup` suggests works as it is, and so does the restore command.
#[test]
fn the_suggested_dump_and_restore_commands_preserve_a_ledger() {
    let folder = tempfile::tempdir().unwrap();
    let server = OwnServer::start(folder.path());
    let address = server.address_of("kept");
    drop(PostgresLedger::open(&address, None, EngineTerms::default()).unwrap());
    let before = exported(&address);
    let dump = tempfile::tempdir().unwrap();
    let dump = dump.path().join("it's whole");
    run(&address.dump_command(&dump));
    server.run_sql("DROP SCHEMA kept CASCADE");
    run(&address.restore_command(&dump));
    assert_eq!(exported(&address), before);
}

fn run(command: &str) {
    let path = std::env::var("PATH").unwrap();
    let path = format!("{}:{path}", server::programs().display());
    let mut shell = Command::new("sh");
    let run = shell.args(["-c", command]).env("PATH", path);
    let ended = run.output().unwrap();
    let stderr = String::from_utf8_lossy(&ended.stderr);
    assert!(ended.status.success(), "{command}: {stderr}");
}

fn exported(address: &Address) -> Vec<u8> {
    let mut text = Vec::new();
    upkeep::export(&Location::Postgres(Box::new(address.clone())), &mut text).unwrap();
    text
}

/// Makes a copy to the schema `moved` wait at the tombstones, which follow the steps, until the table `continued` has a
/// row: so the copy cannot end before it is killed.
const HALT_THE_COPY: &str = "
CREATE TABLE public.continued();
CREATE FUNCTION public.halt() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN
    WHILE NOT EXISTS(SELECT FROM public.continued) LOOP
        PERFORM pg_sleep(0.01);
    END LOOP;
    RETURN NULL;
END';
CREATE FUNCTION public.add_halt() RETURNS event_trigger LANGUAGE plpgsql AS 'BEGIN
    IF EXISTS(SELECT FROM pg_event_trigger_ddl_commands() WHERE object_identity = ''moved.tombstones'') THEN
        CREATE TRIGGER halt BEFORE INSERT ON moved.tombstones EXECUTE FUNCTION public.halt();
    END IF;
END';
CREATE EVENT TRIGGER add_halt ON ddl_command_end WHEN TAG IN ('CREATE TABLE') EXECUTE FUNCTION public.add_halt();
";

#[test]
fn n13_a_killed_copy_is_resumed_and_no_engine_opens_it_before() {
    const STEPS: usize = 10_000;
    let folder = tempfile::tempdir().unwrap();
    let server = OwnServer::start(folder.path());
    let address = server.address_of("moved");
    let stage = Stage::new();
    create_large_ledger(&stage.ledger(), STEPS);
    server.run_sql(HALT_THE_COPY);
    let migrate = format!(
        "ledger migrate {} {address} -o json",
        stage.ledger().display()
    );
    let counted = stage.gone(&format!("{migrate} --dry-run")).ok().json();
    assert_eq!(rows(&counted, "steps"), STEPS as u64);

    let copying = stage.start(&migrate);
    wait_for("the copy is under way", || {
        // There is no table yet at first.
        let copied = server.query("SELECT count(*) FROM moved.steps");
        copied.is_ok_and(|rows| rows != "0")
    });
    let copied = server.run_sql("SELECT count(*) FROM moved.tombstones");
    assert_eq!(copied, "0", "the copy waits at the tombstones");
    copying.kill();
    server.run_sql("INSERT INTO public.continued DEFAULT VALUES");
    let mut refused = None;
    wait_for("the session of the killed process ends", || {
        refused = PostgresLedger::open(&address, None, EngineTerms::default()).err();
        !matches!(refused, Some(LedgerError::Held { .. }))
    });
    assert!(
        matches!(refused, Some(LedgerError::Unfinished { .. })),
        "{refused:?}"
    );
    stage
        .gone(&format!("list --ledger {address}"))
        .ends_with(2)
        .stderr_has(&["gone ledger migrate"]);

    let copied = stage.gone(&migrate).ok().json();
    assert_eq!(rows(&copied, "steps"), STEPS as u64);
    let there = stage
        .gone(&format!("audit verify -o json --ledger {address}"))
        .ok()
        .json();
    assert_eq!(there["head"], copied["audit_head"]);
    stage.gone(&format!("ledger check --ledger {address}")).ok();
    stage
        .gone(&migrate)
        .ends_with(2)
        .stderr_has(&["already", "?schema=NAME"]);
}

fn rows(report: &Value, table: &str) -> u64 {
    let tables = report["tables"].as_array().unwrap();
    let found = tables.iter().find(|it| it["table"] == table).unwrap();
    found["rows"].as_u64().unwrap()
}

/// Creates a ledger with a deletion of this many steps.
fn create_large_ledger(path: &Path, steps: usize) {
    let mut store = Store::open(path, Options::default()).unwrap();
    let root = vec![target("port", "root")];
    let plan = many_ports(steps);
    store
        .apply(vec![
            accept(new_deletion("one", root, at(0))),
            start("one", &plan, at(0)),
        ])
        .unwrap();
}

#[test]
fn the_table_descriptions_match_the_columns_and_types_on_a_server() {
    let server = server::shared();
    drop(
        PostgresLedger::open(
            &server.address_of("described"),
            None,
            EngineTerms::default(),
        )
        .unwrap(),
    );
    // Some tables, and most columns of engines, exist only on a server.
    let there = server.run_sql(
        "SELECT table_name || '.' || column_name || ' ' || data_type FROM information_schema.columns
         WHERE table_schema = 'described' AND table_name NOT IN ('numbers', 'tombstone_changes', 'version')
             AND (table_name <> 'engines' OR column_name IN ('epoch', 'pid'))
         ORDER BY 1",
    );
    let columns = TABLES.iter().flat_map(|table| {
        let columns = table.columns.iter();
        columns.map(move |(column, is)| {
            let is = match is {
                ColumnType::Number => "bigint",
                ColumnType::Flag => "boolean",
                ColumnType::Text | ColumnType::Document => "text",
            };
            format!("{}.{column} {is}", table.name)
        })
    });
    let mut described: Vec<String> = columns.collect();
    described.sort();
    assert_eq!(there.lines().collect::<Vec<_>>(), described);
}
