//! The files of a ledger: crashes, the lock of an engine, versions, damage, and full disks.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use gone::domain::model::{DeletionState, Origin, Phase, Site, StepState};
use gone::ledger::sqlite::{InlineLedger, Options, SqliteLedger, Store, holder, upkeep};
use gone::ledger::{
    Applied, Capacity, Change, Commit as _, DeletionFilter, Hold as _, LedgerError, Selection,
    TombstoneFilter, Views as _, WorkQueue as _, audit,
};

use crate::support::*;

fn open(folder: &Folder) -> InlineLedger {
    InlineLedger::new(Store::open(&folder.ledger(), Options::default()).unwrap())
}

/// Copies the ledger and its log as a crash would leave them now.
fn copy_as_after_crash(folder: &Folder) -> Folder {
    let after = Folder::new();
    fs::copy(folder.ledger(), after.ledger()).unwrap();
    fs::copy(folder.path("ledger.db-wal"), after.path("ledger.db-wal")).unwrap();
    after
}

#[tokio::test]
async fn t08_tombstones_survive_a_crash() {
    let folder = Folder::new();
    let ledger = open(&folder);
    start_deletion(&ledger, "one", &ports(&[("a", &[]), ("b", &[0])])).await;
    claim_all_and_move_to(&ledger, StepState::Stuck).await;

    let after = copy_as_after_crash(&folder);
    let recovered = open(&after);
    assert!(recovered.epoch() > ledger.epoch());
    for resource in ["a", "b"] {
        let tombstones = recovered
            .tombstones_of(vec![key("port", resource)])
            .await
            .unwrap();
        assert_eq!(tombstones[0].phase, Phase::Deleting, "{resource}");
    }
    assert_eq!(
        recovered.summary().await.unwrap(),
        ledger.summary().await.unwrap()
    );
    let rows = recovered.audit(0, 100).await.unwrap();
    assert!(audit::verify(audit::GENESIS, &rows).is_ok());
}

#[tokio::test]
async fn a_second_engine_is_refused_with_the_pid_and_socket_of_the_first() {
    let folder = Folder::new();
    let path = folder.ledger();
    assert_eq!(holder(&path), None);
    let first = SqliteLedger::open(&path, Options::default()).unwrap();
    first.announce(Some("/run/gone.sock")).unwrap();
    match Store::open(&path, Options::default()).unwrap_err() {
        LedgerError::Held { pid, socket, .. } => {
            assert_eq!(pid, std::process::id());
            assert_eq!(socket.as_deref(), Some("/run/gone.sock"));
        }
        other => panic!("{other}"),
    }
    assert_eq!(
        holder(&path).unwrap().socket.as_deref(),
        Some("/run/gone.sock")
    );
    first.close().await;
    assert_eq!(holder(&path), None);
    assert!(matches!(
        first.commit(Vec::new()).await,
        Err(LedgerError::Closed)
    ));
    let second = Store::open(&path, Options::default()).unwrap();
    assert!(second.epoch() > first.epoch());
}

#[tokio::test]
async fn a_reader_works_beside_the_engine_and_after_it() {
    let folder = Folder::new();
    let missing = SqliteLedger::open_reader(&folder.ledger());
    assert!(matches!(missing, Err(LedgerError::Io { .. })));
    assert!(!folder.ledger().exists(), "a reader creates no file");

    let engine = SqliteLedger::open(&folder.ledger(), Options::default()).unwrap();
    let reader = SqliteLedger::open_reader(&folder.ledger()).unwrap();
    start_deletion(&engine, "one", &ports(&[("a", &[])])).await;
    assert_eq!(state_of(&reader, "one", "a").await, StepState::Ready);
    assert!(matches!(
        reader.commit(Vec::new()).await,
        Err(LedgerError::ReadOnly { .. })
    ));
    engine.close().await;
    drop((engine, reader));
    let reader = SqliteLedger::open_reader(&folder.ledger()).unwrap();
    assert_eq!(state_of(&reader, "one", "a").await, StepState::Ready);
}

#[test]
fn files_and_new_folders_are_private() {
    let folder = Folder::new();
    let path = folder.path("state").join("gone").join("ledger.db");
    let _store = Store::open(&path, Options::default()).unwrap();
    let mode = |path: &std::path::Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(path.parent().unwrap()), 0o700);
    for name in [
        "ledger.db",
        "ledger.db-wal",
        "ledger.db-shm",
        "ledger.db.lock",
    ] {
        assert_eq!(mode(&path.with_file_name(name)), 0o600, "{name}");
    }
}

#[tokio::test]
async fn a_ledger_of_the_first_version_is_upgraded_and_its_deletion_continues() {
    let folder = Folder::new();
    let old = rusqlite::Connection::open(folder.ledger()).unwrap();
    old.execute_batch(include_str!("version_1.sql")).unwrap();
    drop(old);
    // The check also passes before an engine has upgraded the ledger.
    for rule in upkeep::check(&folder.ledger(), &[]).unwrap() {
        assert_eq!(rule.broken, 0, "{rule:?}");
    }
    let ledger = open(&folder);
    let deletions = ledger
        .deletions(DeletionFilter::default(), first_page())
        .await;
    let id = deletions.unwrap().rows[0].id.clone();
    // The blocked port of the deletion becomes due, is deleted, and is confirmed gone.
    let now = at(0);
    commit_one(&ledger, Change::WakeDue { now }).await;
    let sandbox = Capacity {
        site: Site::region("sandbox", "RegionOne"),
        ..capacity(8)
    };
    let claimed = ledger.claim(vec![sandbox], now).await.unwrap();
    assert_eq!(claimed.len(), 1);
    let accepted = with_decision(outcome(&claimed[0], StepState::Verifying, now), |it| {
        it.next_attempt_at = Some(now)
    });
    assert_eq!(
        commit_one(&ledger, record_outcome(accepted)).await,
        Applied::Done
    );
    let observed = steps_to_observe(&ledger, now, 8).await.unwrap();
    assert_eq!(observed.len(), 1);
    let gone = record_outcome(outcome(&observed[0], StepState::Gone, now));
    assert_eq!(commit_one(&ledger, gone).await, Applied::Done);
    let counts = ledger.deletion(&id).await.unwrap().unwrap().counts;
    assert_eq!((counts.gone, counts.ready, counts.total), (3, 1, 4));
    drop(ledger);
    let db = rusqlite::Connection::open(folder.ledger()).unwrap();
    let version: i64 = db
        .query_row("PRAGMA user_version", (), |row| row.get(0))
        .unwrap();
    assert_eq!(version, 21);
    for rule in upkeep::check(&folder.ledger(), &[]).unwrap() {
        assert_eq!(rule.broken, 0, "{rule:?}");
    }
}

/// A ledger that was repaired by hand may have one id in several spellings.
#[tokio::test]
async fn m04_records_of_one_identity_are_merged_into_the_oldest() {
    const DELETING: &str = "27bded44-41c2-4aea-8bee-3f2894bc3daa";
    const GONE: &str = "0c7bf79b-64c4-4ad9-a0a3-1059a152d7d3";
    let folder = Folder::new();
    let old = rusqlite::Connection::open(folder.ledger()).unwrap();
    old.execute_batch(include_str!("version_1.sql")).unwrap();
    let record = |id: &str| -> (i64, i64) {
        let sql = "SELECT record_id, deletion FROM tombstones WHERE id = ?1";
        let row = |row: &rusqlite::Row| Ok((row.get(0)?, row.get(1)?));
        old.query_row(sql, [id], row).unwrap()
    };
    let (deleting, gone) = (record(DELETING), record(GONE));
    let mut insert = old
        .prepare(
            "INSERT INTO tombstones(site, kind, id, phase, deleted_at, gone_at, incarnation,
                 recreated, deletion)
             VALUES('sandbox/RegionOne', 'port', ?1, ?2, 1000000, ?3, ?4, ?5, 99)",
        )
        .unwrap();
    let (upper, later) = (DELETING.to_uppercase(), GONE.to_uppercase());
    insert
        .execute((&upper, "gone", Some(2_000_000), 3, 1))
        .unwrap();
    insert
        .execute((&later, "released", None::<i64>, 2, 0))
        .unwrap();
    drop(insert);
    let highest = old.last_insert_rowid();
    drop(old);

    let ledger = open(&folder);
    let of = async |id: &str| {
        let filter = TombstoneFilter {
            id: Some(id.to_owned()),
            ..TombstoneFilter::default()
        };
        let mut found = ledger.tombstones(filter, first_page()).await.unwrap().rows;
        assert_eq!(found.len(), 1, "{found:?}");
        found.remove(0)
    };
    // A tombstone in phase deleting takes precedence over one that ended later.
    let merged = of(DELETING).await;
    assert_eq!(
        (merged.record_id, merged.phase),
        (deleting.0, Phase::Deleting)
    );
    assert_eq!(merged.key.id, DELETING);
    assert_eq!((merged.incarnation, merged.recreated), (4, 1));
    let merged = of(GONE).await;
    assert_eq!((merged.record_id, merged.phase), (gone.0, Phase::Released));
    assert_eq!((merged.incarnation, merged.gone_at), (3, None));
    // The number of a record is not used again.
    start_deletion(&ledger, "new", &ports(&[("a", &[])])).await;
    let new = ledger.tombstones_of(vec![key("port", "a")]).await.unwrap();
    assert!(new[0].record_id > highest, "{new:?}");
    drop(ledger);
    for rule in upkeep::check(&folder.ledger(), &[]).unwrap() {
        assert_eq!(rule.broken, 0, "{rule:?}");
    }
}

/// Version 19 compared the ids of parts without regard to case, and its triggers recorded the owner steps whose state
/// had changed.
#[test]
fn t20_an_upgrade_spells_the_ids_of_parts_as_their_cloud_does() {
    let folder = Folder::new();
    drop(Store::open(&folder.ledger(), Options::default()).unwrap());
    let old = rusqlite::Connection::open(folder.ledger()).unwrap();
    old.execute_batch(
        "DROP INDEX deletions_by_end;
         CREATE TABLE owners_moved(step INTEGER PRIMARY KEY) STRICT;
         CREATE TRIGGER steps_moved AFTER UPDATE OF state ON steps BEGIN SELECT 1; END;
         CREATE TRIGGER steps_left_moved AFTER UPDATE OF state ON steps BEGIN SELECT 1; END;
         INSERT INTO parts(site, kind, id, record) VALUES
             ('cloud/one', 'port', '0C7BF79B-64C4-4AD9-A0A3-1059A152D7D3', 1),
             ('cloud/one', 'port', 'Named', 2);
         PRAGMA user_version = 19",
    )
    .unwrap();
    drop(old);
    drop(Store::open(&folder.ledger(), Options::default()).unwrap());
    let db = rusqlite::Connection::open(folder.ledger()).unwrap();
    let text = |sql: &str| -> String { db.query_row(sql, (), |row| row.get(0)).unwrap() };
    let ids = "SELECT group_concat(id) FROM (SELECT id FROM parts ORDER BY record)";
    assert_eq!(text(ids), "0c7bf79b-64c4-4ad9-a0a3-1059a152d7d3,Named");
    let named = "SELECT count(*) || '' FROM parts WHERE id = 'NAMED'";
    assert_eq!(text(named), "0");
    assert_eq!(
        text("SELECT count(*) || '' FROM sqlite_master WHERE type = 'trigger'"),
        "2"
    );
}

#[test]
fn a_ledger_with_a_newer_schema_is_refused_and_not_changed() {
    let folder = Folder::new();
    drop(Store::open(&folder.ledger(), Options::default()).unwrap());
    let db = rusqlite::Connection::open(folder.ledger()).unwrap();
    db.pragma_update(None, "user_version", 99).unwrap();
    drop(db);
    let before = fs::read(folder.ledger()).unwrap();
    for error in [
        Store::open(&folder.ledger(), Options::default()).unwrap_err(),
        SqliteLedger::open_reader(&folder.ledger()).unwrap_err(),
    ] {
        assert!(
            matches!(error, LedgerError::Newer { found: 99, .. }),
            "{error}"
        );
    }
    assert_eq!(fs::read(folder.ledger()).unwrap(), before);
    assert_eq!(
        holder(&folder.ledger()),
        None,
        "a failed opening leaves no lock"
    );
}

#[tokio::test]
async fn a_damaged_ledger_file_is_reported_as_corrupt() {
    let folder = Folder::new();
    fs::write(folder.ledger(), vec![b'x'; 8192]).unwrap();
    let error = Store::open(&folder.ledger(), Options::default()).unwrap_err();
    assert!(matches!(error, LedgerError::Corrupt { .. }), "{error}");

    // A file with a valid first page and damage in the other pages is refused, too.
    let folder = Folder::new();
    let ledger = open(&folder);
    start_deletion(&ledger, "one", &ports(&[("a", &[])])).await;
    drop(ledger);
    let mut bytes = fs::read(folder.ledger()).unwrap();
    bytes[4096..].fill(0x5a);
    fs::write(folder.ledger(), bytes).unwrap();
    let error = Store::open(&folder.ledger(), Options::default()).unwrap_err();
    assert!(matches!(error, LedgerError::Corrupt { .. }), "{error}");
}

#[tokio::test]
async fn a_full_disk_loses_no_accepted_deletion_and_writes_succeed_once_there_is_space() {
    let folder = Folder::new();
    let mut store = Store::open(
        &folder.ledger(),
        Options {
            pages_max: Some(60),
            ..Options::default()
        },
    )
    .unwrap();
    let mut accepted = 0;
    let error = loop {
        let name = format!("n{accepted}");
        let change = accept(new_deletion(&name, vec![target("port", &name)], at(0)));
        match store.apply(vec![change]) {
            Ok(_) => accepted += 1,
            Err(error) => break error,
        }
        assert!(accepted < 10_000, "the limit was never reached");
    };
    assert!(matches!(error, LedgerError::Io { .. }), "{error}");
    // A batch fails as a whole, including the changes that would have fitted.
    let batch = (0..50)
        .map(|n| {
            accept(new_deletion(
                &format!("b{n}"),
                vec![target("port", &format!("b{n}"))],
                at(0),
            ))
        })
        .collect();
    assert!(matches!(store.apply(batch), Err(LedgerError::Io { .. })));

    store.set_pages_max(1_000_000).unwrap();
    let ledger = InlineLedger::new(store);
    let counted = |summary: gone::ledger::Summary| {
        summary
            .deletions_by_state
            .iter()
            .find(|(s, _)| *s == DeletionState::Planning)
            .unwrap()
            .1
    };
    assert_eq!(counted(ledger.summary().await.unwrap()), accepted);
    let rows = ledger.audit(0, 500).await.unwrap();
    assert_eq!(rows.len() as u64, accepted.min(500));
    let again = accept_port(&ledger, "later", "later", at(1)).await;
    assert!(
        matches!(
            again,
            Applied::Accepted {
                existing: false,
                ..
            }
        ),
        "{again:?}"
    );
    assert_eq!(counted(ledger.summary().await.unwrap()), accepted + 1);
}

#[tokio::test]
async fn p06_tampering_with_the_audit_is_found() {
    let folder = Folder::new();
    let ledger = open(&folder);
    for name in ["aa", "bb", "cc"] {
        accept_port(&ledger, name, name, at(0)).await;
    }
    let rows = ledger.audit(0, 100).await.unwrap();
    assert_eq!(rows.len(), 3);
    let head = audit::verify(audit::GENESIS, &rows).unwrap();
    assert_eq!(head, rows[2].hash);
    // An audit can be verified in pages, each with the last hash of the page before.
    let page = audit::verify(audit::GENESIS, &rows[..1]).unwrap();
    assert_eq!(audit::verify(&page, &rows[1..]).unwrap(), head);

    let mut edited = rows.clone();
    edited[1].reason = "nothing to see".to_owned();
    assert_eq!(audit::verify(audit::GENESIS, &edited).unwrap_err().seq, 2);
    let mut rehashed = rows.clone();
    rehashed.remove(1);
    assert_eq!(audit::verify(audit::GENESIS, &rehashed).unwrap_err().seq, 3);
    assert!(
        audit::verify(audit::GENESIS, &rows[1..]).is_err(),
        "the beginning is missing"
    );
    let mut swapped = rows;
    swapped.swap(0, 1);
    assert!(audit::verify(audit::GENESIS, &swapped).is_err());
}

#[tokio::test]
async fn i12_an_unreadable_row_fails_only_the_change_that_reads_it() {
    let folder = Folder::new();
    let ledger = open(&folder);
    for name in ["aa", "bb"] {
        start_deletion(&ledger, name, &ports(&[(name, &[])])).await;
    }
    claim_all_and_move_to(&ledger, StepState::Stuck).await;
    let db = rusqlite::Connection::open(folder.ledger()).unwrap();
    let corrupt = "UPDATE steps SET last_error = '{nonsense' WHERE resource = 'bb'";
    assert_eq!(db.execute(corrupt, ()).unwrap(), 1);

    // The state of the first step changes before the second step is found unreadable, so the change must be undone as a
    // whole.
    let (first, second) = (step_id_raw(&db, "aa"), step_id_raw(&db, "bb"));
    let applied = ledger
        .commit(vec![
            pause("aa", true, at(3)),
            retry(Selection::Steps(vec![first, second]), Origin::Cli, at(3)),
            retry(Selection::Steps(vec![first]), Origin::Cli, at(4)),
        ])
        .await
        .unwrap();
    assert!(matches!(applied[1], Applied::Refused(_)), "{applied:?}");
    assert_eq!(applied[2], Applied::Moved(1));
    let summary = ledger.summary().await;
    assert!(
        matches!(summary, Err(LedgerError::Corrupt { .. })),
        "{summary:?}"
    );
    let deletion = ledger.deletion(&id("aa")).await.unwrap().unwrap();
    assert_eq!((deletion.counts.ready, deletion.counts.stuck), (1, 0));
}

#[tokio::test]
async fn i12_an_outcome_of_an_unreadable_step_is_refused_alone() {
    let folder = Folder::new();
    let ledger = open(&folder);
    start_deletion(
        &ledger,
        "one",
        &ports(&[("a", &[]), ("b", &[]), ("c", &[])]),
    )
    .await;
    let claimed = claim(&ledger, 3).await;
    let db = rusqlite::Connection::open(folder.ledger()).unwrap();
    let corrupt = "UPDATE steps SET state = 'nonsense' WHERE resource = 'b'";
    assert_eq!(db.execute(corrupt, ()).unwrap(), 1);

    let gone = |step| record_outcome(outcome(step, StepState::Gone, at(3)));
    let applied = ledger.commit(claimed.iter().map(gone).collect()).await;
    let applied = applied.unwrap();
    assert_eq!((&applied[0], &applied[2]), (&Applied::Done, &Applied::Done));
    assert!(matches!(applied[1], Applied::Refused(_)), "{applied:?}");
    let counts = ledger.deletion(&id("one")).await.unwrap().unwrap().counts;
    assert_eq!((counts.gone, counts.running), (2, 1));
}

fn step_id_raw(db: &rusqlite::Connection, resource: &str) -> i64 {
    db.query_row(
        "SELECT id FROM steps WHERE resource = ?1",
        [resource],
        |row| row.get(0),
    )
    .unwrap()
}
