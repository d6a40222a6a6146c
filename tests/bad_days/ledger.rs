//! A ledger on a full disk, damaged, of another version, or owned by another engine.

use std::os::unix::net::UnixListener;
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use rustix::process::{Pid, Resource, Rlimit, Signal, prlimit};
use serde_json::json;

use super::support::{DELETE_WEB, GONE, Running, Stage, files, text, wait_for};

fn ledger_with_a_deletion(stage: &Stage) -> String {
    stage.network("web", 2);
    let id = text(&stage.gone(DELETE_WEB).ok().json()["id"]);
    // The checkpoint empties the write-ahead log, so that the whole ledger is in one file.
    let db = rusqlite::Connection::open(stage.ledger()).unwrap();
    let sql = "PRAGMA wal_checkpoint(TRUNCATE)";
    db.query_row(sql, (), |row| row.get::<_, i64>(0)).unwrap();
    id
}

/// Returns the bytes of the ledger and of its write-ahead log.
fn contents(stage: &Stage) -> Vec<(std::path::PathBuf, Vec<u8>)> {
    let all = files(stage.ledger().parent().unwrap()).into_iter();
    let name = |path: &Path| path.file_name().unwrap().to_str().unwrap().to_owned();
    // SQLite may rebuild the index of the log at any time, an empty log has no data, and the lock file names the
    // process that locked it last.
    all.filter(|(path, bytes)| match name(path).as_str() {
        "ledger.db" => true,
        "ledger.db-wal" => !bytes.is_empty(),
        _ => false,
    })
    .collect()
}

/// Asserts that commands that open the ledger say what is wrong and what to do, exit with 2, and change nothing in it.
fn assert_refused_untouched(stage: &Stage, words: &[&str]) {
    let before = contents(stage);
    let ledger = stage.ledger();
    for line in ["list", "delete network/web-net-0 --yes", "--engine"] {
        let ran = stage.gone(line).ends_with(2);
        let ran = ran.stderr_has(&["open the ledger", ledger.to_str().unwrap(), "gone doctor"]);
        ran.stderr_has(words);
    }
    let output = stage.gone("doctor").ends_with(2).out;
    for word in words {
        assert!(output.contains(word), "no {word:?} in {output}");
    }
    assert!(before == contents(stage), "the ledger was changed");
}

#[test]
fn a_file_that_is_not_a_ledger_is_refused_untouched() {
    let stage = Stage::new();
    let ledger = stage.ledger();
    std::fs::create_dir_all(ledger.parent().unwrap()).unwrap();
    std::fs::write(&ledger, "my notes\n".repeat(1000)).unwrap();
    assert_refused_untouched(&stage, &["damaged", "not a database", "restore a backup"]);
}

#[test]
fn a_damaged_ledger_is_refused_untouched() {
    let stage = Stage::new();
    ledger_with_a_deletion(&stage);
    let ledger = stage.ledger();
    let mut bytes = std::fs::read(&ledger).unwrap();
    // The first page lists the tables. Its first 100 bytes, the header, stay as they are.
    bytes[100..4096].fill(0xff);
    std::fs::write(&ledger, bytes).unwrap();
    assert_refused_untouched(&stage, &["damaged", "restore a backup"]);
}

#[test]
fn a_ledger_of_a_newer_version_is_refused_untouched() {
    let stage = Stage::new();
    ledger_with_a_deletion(&stage);
    let db = rusqlite::Connection::open(stage.ledger()).unwrap();
    db.pragma_update(None, "user_version", 999).unwrap();
    drop(db);
    assert_refused_untouched(&stage, &["newer gone", "schema 999", "use that version"]);
}

#[test]
fn a_second_engine_names_the_owner_of_the_ledger_and_verbs_attach_to_the_first() {
    let stage = Stage::with_web(2);
    let first = stage.engine();
    let socket = stage.path("state/gone/gone.sock");
    let pid = format!("pid {}", first.pid());
    stage.gone("--engine").ends_with(5).stderr_has(&[
        "open the ledger",
        stage.ledger().to_str().unwrap(),
        &pid,
        socket.to_str().unwrap(),
    ]);
    stage
        .gone("--engine --socket other.sock")
        .ends_with(5)
        .stderr_has(&[&pid, socket.to_str().unwrap()]);
    // The first engine is not disturbed. Verbs attach to it, even if they name only its ledger.
    let output = stage.gone("doctor -o json").ok().out;
    assert!(
        output.contains(&format!("process {}", first.pid())),
        "{output}"
    );
    let accepted = stage.gone(DELETE_WEB).ok().json();
    assert!(
        accepted.get("steps").is_none(),
        "the verb did not wait: {accepted}"
    );
    let ledger = stage.ledger();
    let list = format!(
        "list --ledger {} --socket nowhere.sock -o json",
        ledger.display()
    );
    assert_eq!(stage.gone(&list).ok().json()[0]["id"], accepted["id"]);
    stage.await_state(&text(&accepted["id"]), "gone");
    first.stop().ok();
}

#[test]
fn a_killed_engine_leaves_no_lock() {
    let stage = Stage::new();
    let id = ledger_with_a_deletion(&stage);
    stage.engine().kill();
    let again = stage.engine();
    assert_eq!(stage.show(&id)["state"], "gone");
    again.stop().ok();
}

#[test]
fn a_verb_waits_for_an_ending_engine_and_then_runs_without_one() {
    let stage = Stage::new();
    let id = ledger_with_a_deletion(&stage);
    let engine = stage.engine();
    // The engine no longer answers, but still has the lock of the ledger.
    engine.signal(Signal::STOP);
    let socket = stage.ledger().with_file_name("gone.sock");
    std::fs::remove_file(&socket).unwrap();
    let listener = UnixListener::bind(&socket).unwrap();
    let verb = stage.start(&format!("show {id}"));
    // The verb has found the engine's socket, which then closes while the engine still has the lock.
    drop(listener.accept().unwrap());
    std::fs::remove_file(&socket).unwrap();
    drop(listener);
    engine.kill();
    verb.end().ok();
}

/// Whether only the owner may read the file of the lock. An engine makes it so before it takes the lock.
fn is_private(lock: &std::path::Path) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::metadata(lock).unwrap().permissions().mode() & 0o777 == 0o600
}

#[test]
fn a_query_for_the_owner_does_not_keep_an_engine_from_the_ledger() {
    let stage = Stage::new();
    let ledger = stage.ledger();
    std::fs::create_dir_all(ledger.parent().unwrap()).unwrap();
    let lock = ledger.with_extension("db.lock");
    let query_lock = std::fs::File::create(&lock).unwrap();
    // Keeps the lock, as a console on a busy machine does between the query for the owner and the release of the lock.
    query_lock.lock_shared().unwrap();
    let engine = stage.start("--engine");
    wait_for("the engine at the lock", || is_private(&lock));
    // Longer than an engine waits for a lock that another engine has.
    std::thread::sleep(Duration::from_millis(300));
    drop(query_lock);
    stage.await_engine(engine.pid());
    engine.stop().ok();
}

#[test]
fn an_engine_that_is_terminated_while_it_starts_exits_with_0() {
    let stage = Stage::new();
    let ledger = stage.ledger();
    std::fs::create_dir_all(ledger.parent().unwrap()).unwrap();
    let lock = ledger.with_extension("db.lock");
    let query_lock = std::fs::File::create(&lock).unwrap();
    // The engine waits for the lock, and gets no further.
    query_lock.lock_shared().unwrap();
    let engine = stage.start("--engine");
    wait_for("the engine at the lock", || is_private(&lock));
    engine.signal(Signal::TERM);
    drop(query_lock);
    engine.end().ok();
}

/// Limits the size in bytes of the files that the engine writes, as a full disk does. None removes the limit.
fn limit_files(engine: &Running, bytes: Option<u64>) {
    let pid = Pid::from_raw(i32::try_from(engine.pid()).unwrap());
    let limit = Rlimit {
        current: bytes,
        maximum: None,
    };
    prlimit(pid, Resource::Fsize, limit).unwrap();
}

#[test]
fn a_full_disk_stops_the_engine_until_there_is_space_again() {
    let stage = Stage::with_web(60);
    stage.limits(json!({"latency_ms": 20, "parallel": 4}));
    // A write past the limit is an error, as on a full disk, not a signal.
    let mut command = Command::new("bash");
    command.args(["-c", "trap '' XFSZ; exec \"$0\" --engine", GONE]);
    stage.at_home(&mut command);
    let engine = Running::start(&mut command);
    stage.await_engine(engine.pid());
    let id = text(&stage.gone(DELETE_WEB).ok().json()["id"]);
    stage.await_writes(10);
    limit_files(&engine, Some(4096));
    wait_for("the fault", || {
        engine.err().contains("cannot read or write the ledger")
    });
    // Calls in flight end; no further call is sent.
    let in_flight = 8;
    let sent = stage.writes().len();
    let refused = stage
        .gone("delete network/web-net-0 --cascade --yes")
        .ends_with(1);
    refused.stderr_has(&[
        "network/web-net-0",
        "cannot read or write the ledger",
        "ledger.db",
    ]);
    let shown = stage.show(&id);
    assert_eq!(shown["state"], "running");
    assert!(stage.writes().len() <= sent + in_flight);
    limit_files(&engine, None);
    let deletion = stage.await_state(&id, "gone");
    assert_eq!(deletion["counts"]["stuck"], 0);
    assert!(stage.ids("networks").is_empty());
    for call in stage.writes() {
        assert_eq!(stage.deletes_of(&call.path).len(), 1, "{call:?}");
    }
    engine.stop().ok();
}

#[test]
fn a_ledger_that_cannot_be_created_on_a_full_disk_is_reported() {
    let stage = Stage::new();
    let mut command = Command::new("bash");
    command.args(["-c", "trap '' XFSZ; ulimit -f 1; exec \"$0\" list", GONE]);
    stage.at_home(&mut command);
    Running::start(&mut command)
        .end()
        .ends_with(2)
        .stderr_has(&[
            "open the ledger",
            "cannot read or write the ledger",
            "ledger.db",
        ]);
    // Without the trap, the signal ends the program like a crash, after which the next start works.
    let mut command = Command::new("bash");
    command.args(["-c", "ulimit -c 0; ulimit -f 1; exec \"$0\" list", GONE]);
    stage.at_home(&mut command);
    let status = command.status().unwrap();
    assert_eq!(status.signal(), Some(Signal::XFSZ.as_raw()));
    stage.gone("list").ok();
}

#[test]
fn a_state_folder_that_cannot_be_written_is_named() {
    let stage = Stage::new();
    std::fs::write(stage.path("state"), "a file").unwrap();
    stage
        .gone("list")
        .ends_with(2)
        .stderr_has(&[stage.path("state/gone").to_str().unwrap(), "gone doctor"]);
}
