//! Copies of a ledger to another location and back: they keep all rows and numbers, and an interrupted copy is
//! resumed.

use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::time::{Duration, Instant};

use gone::domain::model::{Origin, StepState};
use gone::ledger::migrate::{Copied, CopyWork, NotCopied, Progress, count, migrate};
use gone::ledger::sqlite::{Options, Store};
use gone::ledger::store::tables::TABLES;
use gone::ledger::{Applied, EngineTerms, LedgerError, Location, Opened, open, upkeep};

use serde_json::Value;

use crate::stores::new_location;
use crate::support::*;

/// Rows for the tables that the changes in [`filled`] leave empty. The order of their texts differs between collations,
/// and some numbers belong to rows that were deleted.
const MORE_ROWS: &str = r#"
INSERT INTO told VALUES('b', '{}'), ('A', '{}'), ('ä', '{}'), ('Z', '{}');
INSERT INTO sites VALUES('cloud/one', 'x'), ('Cloud/two', 'y''z');
INSERT INTO site_pauses SELECT 'cloud/two', actor, 'why', 5 FROM audit LIMIT 1;
INSERT INTO native(num, site, kind, id, incarnation, name, fields, created_at, updated_at)
    VALUES(1, 'home', 'contract', 'A-1', 1, 'one', '{}', 1, 1), (2, 'home', 'contract', 'b-2', 1, '', '{}', 1, 1),
        (9, 'home', 'contract', 'gone', 1, '', '{}', 1, 1);
DELETE FROM native WHERE num = 9;
INSERT INTO native_references VALUES(2, 'of', 'b-3', 'contract', 'home'), (2, 'of', 'A-1', 'contract', 'home');
INSERT INTO awaited VALUES('shop', 1, NULL), ('shop', 2, '"none"');
INSERT INTO watches VALUES('orders', 'eu', 'shop', '0f', 7);
INSERT INTO foreign_going VALUES(1, 'shop', 'home', 'contract', 'X', 'gone', 1, 'd', 'r', 0, 9);
INSERT INTO snapshots VALUES(1, '{"name": "ä\u0000"}');
INSERT INTO namesakes VALUES(1, 'cloud/one', 'image', 'Web', 'p');
INSERT INTO parts VALUES('cloud/one', 'rule', 'b', 1), ('cloud/one', 'rule', 'A', 1), ('cloud/one', 'rule', 'ä', 1),
    ('cloud/one', 'rule', 'a', 1), ('cloud/one', 'rule', '_', 1);
INSERT INTO plans VALUES('h', '{}', 1);
INSERT INTO idempotency(actor, key, body, deletion, at) VALUES('ada', 'k', 'b', 'd', 1);
INSERT INTO idempotency(actor, key, body, deletion, answer, at) VALUES('ada', 'K', 'b', '', '{}', 1);
INSERT INTO events(seq, at, kind, message, data) VALUES(5000, 1, 'note', '', '{}');
DELETE FROM events WHERE seq = 5000;
"#;

/// Limit for the wait until a session that held a ledger has ended; even a busy machine needs less.
const RELEASED_WITHIN: Duration = Duration::from_secs(60);

fn file(path: impl AsRef<Path>) -> Location {
    Location::File(path.as_ref().to_owned())
}

/// A ledger in a file, with rows in every table.
fn filled(folder: &Folder, name: &str) -> Location {
    let path = folder.path(name);
    let mut store = Store::open(&path, Options::default()).unwrap();
    let db = rusqlite::Connection::open(&path).unwrap();
    let ports = ports(&[("a", &[]), ("b", &[0]), ("c", &[]), ("d", &[]), ("e", &[])]);
    let root = vec![target("port", "root-one")];
    let applied = store.apply(vec![
        accept(new_deletion("one", root, at(0))),
        start("one", &ports, at(0)),
    ]);
    assert_eq!(applied.unwrap().last(), Some(&Applied::Done));
    // From here on, each change of the tombstone of a port adds a notice for this importer.
    db.execute_batch(
        "INSERT INTO importers VALUES('shop', 'orders', 'eu', 1);
         INSERT INTO importer_kinds VALUES('port', 'shop');",
    )
    .unwrap();
    let claimed = store.claim(vec![capacity(3)], at(1)).unwrap();
    let ends = [StepState::Gone, StepState::Stuck, StepState::Verifying];
    let changes = claimed
        .iter()
        .zip(ends)
        .map(|(step, to)| record_outcome(outcome(step, to, at(2))));
    store.apply(changes.collect()).unwrap();
    let waiting = vec![target("port", "z")];
    store
        .apply(vec![accept(new_deletion("two", waiting, at(3)))])
        .unwrap();
    db.execute_batch(MORE_ROWS).unwrap();
    file(path)
}

/// Repeats the attempt until the ledger is not held: the session of an interrupted copy may still exist for a moment.
#[track_caller]
fn once_released<T>(mut attempt: impl FnMut() -> Option<T>) -> T {
    let since = Instant::now();
    loop {
        if let Some(done) = attempt() {
            return done;
        }
        assert!(
            since.elapsed() < RELEASED_WITHIN,
            "the ledger is still held"
        );
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn copy(from: &Location, to: &Location) -> Result<Copied, NotCopied> {
    once_released(|| match migrate(from, to, &[], &mut |_| {}) {
        Err(NotCopied::Ledger(LedgerError::Held { .. })) => None,
        done => Some(done),
    })
}

/// Copies this many batches, and is interrupted by a panic right after the next one, as if the process were killed.
/// Returns false if the copy was finished before.
fn copy_interrupted(from: &Location, to: &Location, after: usize) -> bool {
    let mut batches = 0;
    let mut count = |progress: Progress| {
        batches += 1;
        if progress.work == CopyWork::Copying && batches > after {
            std::panic::resume_unwind(Box::new(()));
        }
    };
    once_released(|| {
        let copied = catch_unwind(AssertUnwindSafe(|| migrate(from, to, &[], &mut count)));
        match copied {
            Err(_) => Some(true),
            Ok(Err(NotCopied::Ledger(LedgerError::Held { .. }))) => None,
            Ok(done) => {
                done.unwrap();
                Some(false)
            }
        }
    })
}

fn open_as_engine(location: &Location) -> Result<Opened, LedgerError> {
    once_released(
        || match open(location, None, Vec::new(), EngineTerms::default()) {
            Err(LedgerError::Held { .. }) => None,
            opened => Some(opened),
        },
    )
}

fn wait<T>(work: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().build();
    runtime.unwrap().block_on(work)
}

fn release(opened: Opened) {
    wait(opened.hold.release());
}

/// The rows of an export, without the seal of the audit, which only a file has.
fn exported(location: &Location) -> BTreeSet<String> {
    let mut text = Vec::new();
    upkeep::export(location, &mut text).unwrap();
    let rows = String::from_utf8(text).unwrap();
    // The keys are sorted, because the columns of a file are in the order in which they were added.
    let rows = rows
        .lines()
        .map(|line| serde_json::from_str::<BTreeMap<String, Value>>(line).unwrap());
    rows.filter(|row| row["table"] != "audit_seal")
        .map(|row| serde_json::to_string(&row).unwrap())
        .collect()
}

fn assert_same(one: &Location, other: &Location) {
    let (one, other) = (exported(one), exported(other));
    let differs: Vec<_> = one.symmetric_difference(&other).collect();
    assert!(differs.is_empty(), "{differs:#?}");
}

fn assert_sound(location: &Location) {
    for rule in upkeep::check(location, &[]).unwrap() {
        assert_eq!(rule.broken, 0, "{location}: {} {}", rule.rule, rule.detail);
    }
}

#[test]
fn a_copy_to_another_ledger_and_back_keeps_each_row_its_numbers_and_the_epoch() {
    let folder = Folder::new();
    let (from, to) = (filled(&folder, "from.db"), new_location(&folder, "to.db"));
    let counted = count(&from, &to).unwrap();
    let there = copy(&from, &to).unwrap();
    assert!(
        there.tables.iter().all(|table| table.rows > 0),
        "{:?}",
        there.tables
    );
    let rows = |tables: &[gone::ledger::migrate::CopiedTable]| -> Vec<u64> {
        tables.iter().map(|table| table.rows).collect()
    };
    assert_eq!(rows(&counted), rows(&there.tables));
    assert_same(&from, &to);
    assert_sound(&to);
    let end = upkeep::verify_audit(&to, &[]).unwrap().unwrap();
    assert_eq!(end, there.audit);

    let back = file(folder.path("back.db"));
    let returned = copy(&to, &back).unwrap();
    assert_eq!(returned, there);
    assert_sound(&back);
    let original = upkeep::verify_audit(&from, &[]).unwrap().unwrap();
    assert_eq!(original, returned.audit);

    // The next engine continues with a greater epoch, and with numbers that no row had, not even a deleted one.
    for location in [&to, &back] {
        let opened = open_as_engine(location).unwrap();
        assert_eq!(opened.epoch, 2, "{location}");
        wait(async {
            let ledger = &*opened.ledger;
            let start = start("two", &ports(&[("z", &[])]), at(4));
            assert_eq!(commit_one(ledger, start).await, Applied::Done);
            let events = ledger.events(0, Default::default(), 1_000).await.unwrap();
            assert!(events.events.last().unwrap().seq > 5_000, "{location}");
            assert_eq!(state_of(ledger, "one", "a").await, StepState::Gone);
        });
        release(opened);
        assert_sound(location);
    }
}

#[test]
fn an_interrupted_copy_cannot_be_opened_and_is_resumed() {
    let folder = Folder::new();
    let (from, to) = (filled(&folder, "from.db"), new_location(&folder, "to.db"));
    let mut times = 0;
    // Each copy is interrupted after one more batch.
    while copy_interrupted(&from, &to, 0) {
        times += 1;
        let refused = open_as_engine(&to).err().unwrap();
        assert!(
            matches!(refused, LedgerError::Unfinished { .. }),
            "{refused}"
        );
        assert!(upkeep::check(&to, &[]).is_err());
    }
    assert_eq!(times, TABLES.len());
    assert_same(&from, &to);
    assert_sound(&to);
}

#[test]
fn a_copy_starts_over_if_an_engine_has_opened_its_source_since() {
    let folder = Folder::new();
    let (from, to) = (filled(&folder, "from.db"), new_location(&folder, "to.db"));
    assert!(copy_interrupted(&from, &to, 8));
    let opened = open_as_engine(&from).unwrap();
    wait(commit_one(&*opened.ledger, cancel("two", at(9))));
    release(opened);
    copy(&from, &to).unwrap();
    assert_same(&from, &to);
    let opened = open_as_engine(&to).unwrap();
    assert_eq!(opened.epoch, 3);
    release(opened);
}

#[test]
fn a_copy_is_refused_while_an_engine_holds_a_ledger_or_if_the_target_was_used() {
    let folder = Folder::new();
    let (from, to) = (filled(&folder, "from.db"), new_location(&folder, "to.db"));
    let assert_held = |done: Result<Copied, NotCopied>| {
        let error = done.unwrap_err();
        assert!(
            matches!(&error, NotCopied::Ledger(LedgerError::Held { .. })),
            "{error}"
        );
    };
    let opened = open_as_engine(&from).unwrap();
    assert_held(migrate(&from, &to, &[], &mut |_| {}));
    assert_eq!(count(&from, &to).unwrap().len(), TABLES.len());
    release(opened);

    let opened = open_as_engine(&to).unwrap();
    assert_held(migrate(&from, &to, &[], &mut |_| {}));
    release(opened);
    for error in [copy(&from, &to).err(), count(&from, &to).err()] {
        let error = error.unwrap();
        assert!(matches!(&error, NotCopied::InUse { .. }), "{error}");
    }
    let error = copy(&from, &from).unwrap_err();
    assert!(matches!(&error, NotCopied::Same { .. }), "{error}");
}

#[test]
fn an_unfinished_copy_of_another_ledger_is_not_overwritten() {
    let folder = Folder::new();
    let (one, two) = (filled(&folder, "one.db"), filled(&folder, "two.db"));
    let to = new_location(&folder, "to.db");
    assert!(copy_interrupted(&one, &to, 8));
    let error = copy(&two, &to).unwrap_err();
    assert!(matches!(&error, NotCopied::AnotherSource { .. }), "{error}");
    copy(&one, &to).unwrap();
    assert_same(&one, &to);
}

#[test]
fn p06_a_ledger_with_a_tampered_audit_is_not_copied_until_it_is_sealed_again() {
    let folder = Folder::new();
    let (from, to) = (filled(&folder, "from.db"), new_location(&folder, "to.db"));
    let cut = "DELETE FROM audit WHERE seq = (SELECT max(seq) FROM audit)";
    let db = rusqlite::Connection::open(from.file().unwrap()).unwrap();
    db.execute(cut, ()).unwrap();
    let error = copy(&from, &to).unwrap_err();
    assert!(
        matches!(&error, NotCopied::Audit { why, .. } if why.contains("cut from its end")),
        "{error}"
    );
    let entry = entry("seal", "audit", Origin::Cli);
    let mut store = Store::open(from.file().unwrap(), Options::default()).unwrap();
    let sealed = store.reseal(from.file().unwrap(), &entry, at(9));
    sealed.unwrap().unwrap();
    drop(store);
    copy(&from, &to).unwrap();
    assert_same(&from, &to);
}

#[test]
fn an_older_ledger_is_not_copied_until_an_engine_has_opened_it() {
    let folder = Folder::new();
    let (path, to) = (folder.path("old.db"), new_location(&folder, "to.db"));
    let db = rusqlite::Connection::open(&path).unwrap();
    db.execute_batch(include_str!("version_1.sql")).unwrap();
    drop(db);
    let error = copy(&file(&path), &to).unwrap_err();
    assert!(
        matches!(
            &error,
            NotCopied::Ledger(LedgerError::Older { found: 1, .. })
        ),
        "{error}"
    );
    release(open_as_engine(&file(&path)).unwrap());
    copy(&file(&path), &to).unwrap();
    assert_same(&file(&path), &to);
}

#[test]
fn the_table_descriptions_match_the_columns_of_a_ledger_file() {
    let folder = Folder::new();
    let location = filled(&folder, "ledger.db");
    let db = rusqlite::Connection::open(location.file().unwrap()).unwrap();
    let all = "SELECT m.name || '.' || c.name FROM sqlite_master m, pragma_table_info(m.name) c
         WHERE m.type = 'table' AND m.name NOT LIKE 'sqlite%' AND m.name <> 'audit_seal'
         ORDER BY 1";
    let mut all = db.prepare(all).unwrap();
    let there: Vec<String> = all
        .query_map((), |row| row.get(0))
        .unwrap()
        .map(Result::unwrap)
        .collect();
    let columns = TABLES.iter().flat_map(|table| {
        let columns = table.columns.iter();
        columns.map(move |(column, _)| format!("{}.{column}", table.name))
    });
    let mut described: Vec<String> = columns.collect();
    described.sort();
    assert_eq!(there, described);
}
