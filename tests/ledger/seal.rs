//! `gone ledger check` distinguishes a healthy ledger from one that was changed by hand.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use gone::domain::model::{Action, Origin, Plan};
use gone::ledger::audit;
use gone::ledger::sqlite::{InlineLedger, Options, SqliteLedger, Store, seal_key, upkeep};
use gone::ledger::{AuditRow, LedgerError, Location};

use crate::support::*;

const CHAIN: &str = "p6: the audit's hash chain is intact";
const SEAL: &str = "p6: the audit ends where it was sealed";

fn audit_rows(folder: &Folder, after: i64, limit: usize) -> Vec<AuditRow> {
    gone::ledger::upkeep::audit(&Location::File(folder.ledger()), after, limit).unwrap()
}

fn open(folder: &Folder) -> Store {
    Store::open(&folder.ledger(), Options::default()).unwrap()
}

/// The rules that are broken.
fn broken(folder: &Folder) -> Vec<String> {
    let checked = upkeep::check(&folder.ledger(), &[]).unwrap();
    let broken = checked.into_iter().filter(|rule| rule.broken > 0);
    broken.map(|rule| rule.rule).collect()
}

/// Adds a row to the audit for each of these names.
fn add_audit_rows(store: &mut Store, names: &[&str]) {
    for name in names {
        let root = target("port", name);
        store
            .apply(vec![accept(new_deletion(name, vec![root], at(0)))])
            .unwrap();
    }
}

fn change_by_hand(folder: &Folder, sql: &str) {
    let db = rusqlite::Connection::open(folder.ledger()).unwrap();
    db.execute_batch(sql).unwrap();
}

/// Recomputes every hash, as anybody who knows the format can.
fn recompute_hashes(folder: &Folder) {
    let rows = audit_rows(folder, 0, 1_000);
    let db = rusqlite::Connection::open(folder.ledger()).unwrap();
    let mut last = audit::GENESIS.to_owned();
    for row in rows {
        last = audit::link(&last, &row);
        db.execute(
            "UPDATE audit SET hash = ?2 WHERE seq = ?1",
            rusqlite::params![row.seq, last],
        )
        .unwrap();
    }
}

/// A plan that unsets a field of this contract.
fn unset_plan(of: &str, field: &str) -> Plan {
    let mut step = plan_step(0, Action::Unset, key("contract", of), &[]);
    step.vars = Arc::new(BTreeMap::from([("field".to_owned(), field.to_owned())]));
    plan(vec![step])
}

#[tokio::test]
async fn i09_t01_a_check_accepts_two_unset_steps_of_one_resource() {
    let folder = Folder::new();
    let ledger = InlineLedger::new(open(&folder));
    // Two deletions unset two fields of one contract.
    start_deletion(&ledger, "one", &unset_plan("c", "network")).await;
    start_deletion(&ledger, "two", &unset_plan("c", "port")).await;
    assert_eq!(claim(&ledger, 10).await.len(), 2);
    drop(ledger);
    assert_eq!(broken(&folder), Vec::<String>::new());
}

#[test]
fn p06_a_check_finds_rows_cut_from_the_end_of_the_audit() {
    for cut in [
        "DELETE FROM audit WHERE seq = 4",
        "DELETE FROM audit WHERE seq > 1",
        "DELETE FROM audit",
    ] {
        let folder = Folder::new();
        let mut store = open(&folder);
        add_audit_rows(&mut store, &["a", "b", "c", "d"]);
        drop(store);
        assert_eq!(broken(&folder), Vec::<String>::new());
        change_by_hand(&folder, cut);
        assert_eq!(broken(&folder), [SEAL], "{cut}");
        // An engine does not hide the cut, however many rows it adds.
        add_audit_rows(&mut open(&folder), &["e", "f", "g", "h"]);
        assert_eq!(broken(&folder), [SEAL], "{cut}, after an engine added rows");
    }
}

#[test]
fn p06_a_check_finds_changed_audit_rows_with_recomputed_hashes() {
    for change in [
        // One row is removed, and the others are renumbered.
        "DELETE FROM audit WHERE seq = 2; UPDATE audit SET seq = seq - 1 WHERE seq > 2;",
        "UPDATE audit SET reason = 'another' WHERE seq = 4;",
    ] {
        let folder = Folder::new();
        add_audit_rows(&mut open(&folder), &["a", "b", "c", "d"]);
        change_by_hand(&folder, change);
        recompute_hashes(&folder);
        assert_eq!(broken(&folder), [SEAL], "{change}");
    }
}

#[test]
fn p06_a_removed_audit_row_breaks_the_chain_and_the_seal() {
    let folder = Folder::new();
    add_audit_rows(&mut open(&folder), &["a", "b", "c"]);
    change_by_hand(&folder, "DELETE FROM audit WHERE seq = 1");
    assert_eq!(broken(&folder), [CHAIN, SEAL]);
}

#[test]
fn p06_a_check_finds_a_removed_or_forged_seal_and_an_engine_does_not_replace_it() {
    for change in [
        "DELETE FROM audit_seal; DELETE FROM audit WHERE seq = 3;",
        // As if the ledger were of the version before seals.
        "DROP TABLE audit_seal; DROP INDEX steps_left; DROP INDEX steps_live; DROP INDEX deletions_by_end;
             ALTER TABLE steps DROP COLUMN left_to; ALTER TABLE steps DROP COLUMN own_attempt_at;
             ALTER TABLE requests DROP COLUMN deadline; DROP TABLE namesakes; DROP TABLE parts;
             ALTER TABLE foreign_going DROP COLUMN gone_at; ALTER TABLE idempotency DROP COLUMN answer;
             CREATE UNIQUE INDEX steps_live ON steps(resource) WHERE ended_at IS NULL;
             PRAGMA user_version = 12; DELETE FROM audit WHERE seq = 3;",
        "DELETE FROM audit WHERE seq = 3; UPDATE audit_seal SET length = 2,
             hash = (SELECT hash FROM audit WHERE seq = 2);",
    ] {
        let folder = Folder::new();
        add_audit_rows(&mut open(&folder), &["a", "b", "c"]);
        change_by_hand(&folder, change);
        assert_eq!(broken(&folder), [SEAL], "{change}");
        add_audit_rows(&mut open(&folder), &["d", "e"]);
        assert_eq!(broken(&folder), [SEAL], "{change}, after an engine added rows");
    }
}

#[test]
fn p06_the_files_that_a_crash_leaves_pass_the_check() {
    let folder = Folder::new();
    let mut store = open(&folder);
    for name in ["a", "b", "c"] {
        add_audit_rows(&mut store, &[name]);
        // The files as they are on the disk if the process is killed now.
        let after = Folder::new();
        for file in ["ledger.db", "ledger.db-wal", "ledger.db.key"] {
            fs::copy(folder.path(file), after.path(file)).unwrap();
        }
        assert_eq!(broken(&after), Vec::<String>::new(), "after {name}");
        add_audit_rows(&mut open(&after), &["z"]);
        assert_eq!(
            broken(&after),
            Vec::<String>::new(),
            "after {name}, and after an engine added rows"
        );
    }
}

#[test]
fn p06_a_crash_while_the_first_seal_is_written_is_not_taken_for_tampering() {
    let folder = Folder::new();
    add_audit_rows(&mut open(&folder), &["a"]);
    let key = seal_key(&folder.ledger());
    let secret = fs::read_to_string(&key).unwrap();
    let secret = secret.lines().next().unwrap().to_owned() + "\n";
    // The seal is written, but its key file does not say so yet.
    fs::write(&key, &secret).unwrap();
    assert_eq!(broken(&folder), Vec::<String>::new());
    add_audit_rows(&mut open(&folder), &["b"]);
    assert!(fs::read_to_string(&key).unwrap().ends_with("sealed\n"));
    // The key is written, but nothing is sealed yet.
    fs::write(&key, &secret).unwrap();
    change_by_hand(&folder, "DELETE FROM audit_seal");
    assert_eq!(broken(&folder), Vec::<String>::new());
    add_audit_rows(&mut open(&folder), &["c"]);
    assert_eq!(broken(&folder), Vec::<String>::new());
    change_by_hand(&folder, "DELETE FROM audit WHERE seq = 3");
    assert_eq!(broken(&folder), [SEAL]);
}

#[test]
fn p06_a_backup_is_checked_and_restored_with_the_key_of_its_ledger() {
    let (folder, elsewhere) = (Folder::new(), Folder::new());
    let mut store = open(&folder);
    add_audit_rows(&mut store, &["a", "b"]);
    let copy = elsewhere.ledger();
    upkeep::backup(&folder.ledger(), &copy).unwrap();
    add_audit_rows(&mut store, &["c"]);
    drop(store);
    let keys = [seal_key(&folder.ledger())];
    let sealed = |keys: &[PathBuf]| {
        let checked = upkeep::check(&copy, keys).unwrap();
        checked.into_iter().find(|rule| rule.rule == SEAL).unwrap()
    };
    assert_eq!(sealed(&keys).broken, 0);
    // Without the key the audit cannot be checked, and the rule fails.
    let unknown = sealed(&[]);
    assert!(unknown.detail.contains("cannot be checked"), "{unknown:?}");
    assert_eq!(unknown.broken, 1);
    // An engine on the backup continues to seal with that key.
    let options = Options {
        seal_keys: keys.to_vec(),
        ..Options::default()
    };
    add_audit_rows(&mut Store::open(&copy, options).unwrap(), &["d"]);
    assert_eq!(sealed(&keys).broken, 0);
    // The backup replaces the ledger, so that the ledger's key is beside it.
    for log in ["ledger.db-wal", "ledger.db-shm"] {
        let _ = fs::remove_file(folder.path(log));
    }
    fs::copy(&copy, folder.ledger()).unwrap();
    assert_eq!(broken(&folder), Vec::<String>::new());
}

#[test]
fn p06_a_person_seals_a_ledger_without_its_key_again_and_the_audit_records_it() {
    let folder = Folder::new();
    add_audit_rows(&mut open(&folder), &["a", "b"]);
    fs::remove_file(seal_key(&folder.ledger())).unwrap();
    add_audit_rows(&mut open(&folder), &["c"]);
    assert_eq!(broken(&folder), [SEAL]);
    let entry = entry("seal", "audit", Origin::Cli);
    let mut store = open(&folder);
    let head = store.reseal(&folder.ledger(), &entry, at(5)).unwrap();
    assert_eq!(head.unwrap().length, 4);
    add_audit_rows(&mut store, &["d"]);
    drop(store);
    assert_eq!(broken(&folder), Vec::<String>::new());
    // The new key says from the beginning that there is a seal, so the removal of the seal is found.
    let undone = "DELETE FROM audit WHERE seq = 5; DELETE FROM audit_seal";
    let whole = fs::read(folder.ledger()).unwrap();
    change_by_hand(&folder, undone);
    assert_eq!(broken(&folder), [SEAL]);
    fs::write(folder.ledger(), whole).unwrap();
    let rows = audit_rows(&folder, 3, 1);
    assert_eq!(rows[0].action, "seal");
}

#[test]
fn an_empty_file_and_the_database_of_another_program_are_refused_and_not_changed() {
    let folder = Folder::new();
    fs::write(folder.ledger(), "").unwrap();
    let opened = Store::open(&folder.ledger(), Options::default());
    assert!(
        matches!(opened, Err(LedgerError::Empty { .. })),
        "{opened:?}"
    );
    let checked = upkeep::check(&folder.ledger(), &[]);
    assert!(matches!(checked, Err(LedgerError::Empty { .. })));
    assert_eq!(fs::read(folder.ledger()).unwrap(), b"");

    change_by_hand(&folder, "CREATE TABLE theirs(a)");
    let before = fs::read(folder.ledger()).unwrap();
    let opened = Store::open(&folder.ledger(), Options::default());
    assert!(
        matches!(opened, Err(LedgerError::Foreign { .. })),
        "{opened:?}"
    );
    let checked = upkeep::check(&folder.ledger(), &[]);
    assert!(matches!(checked, Err(LedgerError::Foreign { .. })));
    let read = SqliteLedger::open_reader(&folder.ledger());
    assert!(matches!(read, Err(LedgerError::Foreign { .. })));
    assert_eq!(fs::read(folder.ledger()).unwrap(), before);
}

/// Damage is also found in tables that are not read first.
#[test]
fn damage_in_any_table_is_found_when_a_ledger_is_opened() {
    for table in ["events", "requests", "audit", "plans", "steps"] {
        let folder = Folder::new();
        let mut store = open(&folder);
        add_audit_rows(&mut store, &["a", "b", "c"]);
        drop(store);
        let db = rusqlite::Connection::open(folder.ledger()).unwrap();
        db.query_row("PRAGMA wal_checkpoint(TRUNCATE)", (), |_| Ok(()))
            .unwrap();
        let root = "SELECT rootpage FROM sqlite_master WHERE name = ?1";
        let page: i64 = db.query_row(root, [table], |row| row.get(0)).unwrap();
        drop(db);
        let mut bytes = fs::read(folder.ledger()).unwrap();
        let at = usize::try_from(page - 1).unwrap() * 4096;
        bytes[at..at + 64].fill(0xa5);
        fs::write(folder.ledger(), &bytes).unwrap();
        let opened = Store::open(&folder.ledger(), Options::default());
        assert!(
            matches!(opened, Err(LedgerError::Corrupt { .. })),
            "{table}: {opened:?}"
        );
        assert_eq!(
            fs::read(folder.ledger()).unwrap(),
            bytes,
            "{table} was changed"
        );
    }
}

#[test]
fn a_new_ledger_in_place_of_a_removed_one_ignores_the_log_of_that_one() {
    let folder = Folder::new();
    add_audit_rows(&mut open(&folder), &["a"]);
    // The log of the removed ledger is left, as after a crash.
    fs::write(folder.path("ledger.db-wal"), "what another ledger logged").unwrap();
    fs::remove_file(folder.ledger()).unwrap();
    add_audit_rows(&mut open(&folder), &["b"]);
    assert_eq!(broken(&folder), Vec::<String>::new());
    assert_eq!(audit_rows(&folder, 0, 9).len(), 1);
}
