//! Files that another user of the machine could have planted are not followed, overwritten or believed.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, chown, symlink};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

use super::support::{PASSWORD, Stage};

const MALLORY: u32 = 54_321;

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

fn mode_of(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o7777
}

/// Whether the test runs as root. Only root can make files of another user; without root, the checks with such files
/// are left out.
fn is_root() -> bool {
    let root = rustix::process::geteuid().is_root();
    if !root {
        eprintln!("not root: the checks with files of another user are left out");
    }
    root
}

fn folder(stage: &Stage, name: &str, with_mode: u32) -> PathBuf {
    let folder = stage.path(name);
    fs::create_dir_all(&folder).unwrap();
    set_mode(&folder, with_mode);
    folder
}

/// Asserts that commands that start an engine on this ledger say why they refuse it, and leave the victim's file
/// unchanged.
fn assert_refused(stage: &Stage, ledger: &Path, victim: &Path, words: &[&str]) {
    let before = fs::read(victim).unwrap();
    let ledger_option = format!("--ledger {}", ledger.display());
    for line in ["--engine", "plan network/x", "delete network/x --yes"] {
        let ran = stage.gone(&format!("{line} {ledger_option}"));
        assert_eq!(ran.code, Some(2), "{line}: {}{}", ran.out, ran.err);
        ran.stderr_has(words);
        assert_eq!(fs::read(victim).unwrap(), before, "{line} changed the file");
    }
}

#[test]
fn a_link_in_place_of_a_lock_log_or_ledger_is_refused() {
    for name in ["ledger.db.lock", "ledger.db"] {
        let stage = Stage::new();
        let victim = stage.path("victim");
        fs::write(&victim, "precious").unwrap();
        let state = folder(&stage, "ours", 0o700);
        symlink(&victim, state.join(name)).unwrap();
        let ledger = state.join("ledger.db");
        assert_refused(&stage, &ledger, &victim, &["is a symbolic link", name]);
    }
    // A console and an engine open their logs by `private::append`.
    let stage = Stage::new();
    let victim = stage.path("victim");
    fs::write(&victim, "precious").unwrap();
    symlink(&victim, stage.path("log")).unwrap();
    let opened = gone::system::private::append(&stage.path("log")).unwrap_err();
    assert!(
        opened.to_string().contains("is a symbolic link"),
        "{opened}"
    );
    // A hard link is refused too.
    fs::hard_link(&victim, stage.path("other")).unwrap();
    let opened = gone::system::private::append(&stage.path("other")).unwrap_err();
    assert!(opened.to_string().contains("another name"), "{opened}");
}

#[test]
fn a_ledger_that_other_users_may_replace_is_refused() {
    let stage = Stage::new();
    let victim = stage.path("victim");
    fs::write(&victim, "precious").unwrap();
    let open = folder(&stage, "open", 0o777);
    let words = ["other users may replace files in", "chmod go-w"];
    assert_refused(&stage, &open.join("ledger.db"), &victim, &words);
    // A ledger in a folder below that folder is refused too.
    let below = folder(&stage, "open/below", 0o700);
    assert_refused(&stage, &below.join("ledger.db"), &victim, &words);
    assert!(!below.join("ledger.db").exists() && !below.join("ledger.db.lock").exists());
    // In a sticky folder, where others cannot replace our files, a ledger is accepted.
    let shared = folder(&stage, "shared", 0o1777);
    let ledger = shared.join("ledger.db");
    stage.network("web", 1);
    let ledger_option = format!("--ledger {}", ledger.display());
    stage
        .gone(&format!("plan network/web-net-0 {ledger_option}"))
        .ok();
    stage.gone(&format!("list deletions {ledger_option}")).ok();
    if is_root() {
        let theirs = folder(&stage, "theirs", 0o755);
        chown(&theirs, Some(MALLORY), None).unwrap();
        let words = ["belongs to uid 54321"];
        assert_refused(&stage, &theirs.join("ledger.db"), &victim, &words);
        // In the sticky folder, a lock of another user is refused.
        let lock = shared.join("second.db.lock");
        fs::write(&lock, "{}").unwrap();
        chown(&lock, Some(MALLORY), None).unwrap();
        assert_refused(&stage, &shared.join("second.db"), &victim, &words);
    }
}

#[test]
fn an_engine_that_cannot_serve_its_socket_says_why_once_and_what_to_do() {
    let stage = Stage::new();
    folder(&stage, "open", 0o777);
    let deep = format!("{}/gone.sock", "d".repeat(120));
    fs::write(stage.path("file.sock"), "").unwrap();
    for (socket, words) in [
        (
            "open/gone.sock",
            ["other users can replace files in", "chmod go-w"],
        ),
        ("file.sock", ["is not a socket", "Move it away"]),
        (&deep, ["SUN_LEN", "Choose a shorter path"]),
    ] {
        let ran = stage
            .gone(&format!("--engine --socket {socket}"))
            .ends_with(2)
            .stderr_has(&words);
        assert_eq!(
            ran.err.matches("cannot serve the socket").count(),
            1,
            "{}",
            ran.err
        );
        assert!(!ran.err.contains("End th"), "{}", ran.err);
    }
}

#[test]
fn a_linked_state_folder_that_is_open_or_of_another_user_is_refused() {
    let stage = Stage::new();
    let elsewhere = folder(&stage, "elsewhere", 0o755);
    fs::create_dir(stage.path("state")).unwrap();
    symlink(&elsewhere, stage.path("state/gone")).unwrap();
    stage.gone("list deletions").ends_with(2).stderr_has(&[
        "other users may enter",
        "elsewhere",
        "chmod 700",
    ]);
    assert_eq!(mode_of(&elsewhere), 0o755);
    // A folder that its owner has made private is accepted behind a link.
    set_mode(&elsewhere, 0o700);
    stage.gone("list deletions").ok();
    if is_root() {
        chown(&elsewhere, Some(MALLORY), None).unwrap();
        stage
            .gone("list deletions")
            .ends_with(2)
            .stderr_has(&["belongs to uid 54321"]);
    }
}

#[test]
fn a_socket_named_by_another_users_lock_is_never_called() {
    if !is_root() {
        return;
    }
    let stage = Stage::new();
    let theirs = folder(&stage, "theirs", 0o755);
    let socket = theirs.join("gone.sock");
    let listener = UnixListener::bind(&socket).unwrap();
    listener.set_nonblocking(true).unwrap();
    chown(&theirs, Some(MALLORY), None).unwrap();
    chown(&socket, Some(MALLORY), None).unwrap();
    // As if an engine of the other user owned the ledger.
    let shared = folder(&stage, "shared", 0o777);
    let ledger = shared.join("ledger.db");
    let lock = shared.join("ledger.db.lock");
    let owner = serde_json::json!({"pid": 1, "socket": socket});
    fs::write(&lock, owner.to_string()).unwrap();
    chown(&lock, Some(MALLORY), None).unwrap();
    let held = fs::File::open(&lock).unwrap();
    held.lock().unwrap();
    for with_mode in [0o777, 0o1777] {
        set_mode(&shared, with_mode);
        let line = format!("delete network/x --yes --ledger {}", ledger.display());
        stage.gone(&line).ends_with(2);
        assert!(
            listener.accept().is_err(),
            "the socket was called ({with_mode:o})"
        );
    }
    // A socket that another user has put into a sticky folder is not called either.
    let squatted = folder(&stage, "tmp", 0o1777).join("gone.sock");
    let listener = UnixListener::bind(&squatted).unwrap();
    listener.set_nonblocking(true).unwrap();
    chown(&squatted, Some(MALLORY), None).unwrap();
    let line = format!("list deletions --socket {}", squatted.display());
    stage
        .gone(&line)
        .ends_with(2)
        .stderr_has(&["belongs to uid 54321", "Nothing was sent"]);
    assert!(listener.accept().is_err(), "the socket was called");
}

#[test]
fn a_backup_and_a_written_clouds_yaml_follow_no_link() {
    let stage = Stage::new();
    let victim = stage.path("victim");
    fs::write(&victim, "precious").unwrap();
    // A backup writes to a new file only.
    stage.network("web", 1);
    stage.gone("delete network/web-net-0 --cascade --yes").ok();
    symlink(&victim, stage.path("backup.db")).unwrap();
    let backup = format!("ledger backup {}", stage.path("backup.db").display());
    stage.gone(&backup).ends_with(2);
    // The written clouds.yaml replaces the link.
    let link = stage.path("sandbox.yaml");
    symlink(&victim, &link).unwrap();
    let line = format!("sandbox --clouds-yaml {}", link.display());
    let sandbox = stage.start(&line);
    super::support::wait_for("the file", || {
        fs::symlink_metadata(&link).is_ok_and(|found| found.is_file())
    });
    assert_eq!(mode_of(&link), 0o600);
    drop(sandbox);
    assert_eq!(fs::read_to_string(&victim).unwrap(), "precious");
}

#[test]
fn a_secret_file_that_another_user_could_have_written_is_refused() {
    use secrecy::ExposeSecret as _;
    let stage = Stage::new();
    let secret = stage.path("secret");
    fs::write(&secret, PASSWORD).unwrap();
    set_mode(&secret, 0o600);
    let read = |path: &Path| gone::system::config::secret_in(path);
    assert_eq!(read(&secret).unwrap().expose_secret(), PASSWORD);
    // Mounted secrets are often links.
    symlink(&secret, stage.path("mounted")).unwrap();
    assert!(read(&stage.path("mounted")).is_ok());
    let open = folder(&stage, "open", 0o777);
    fs::write(open.join("secret"), PASSWORD).unwrap();
    set_mode(&open.join("secret"), 0o600);
    let refused = read(&open.join("secret")).unwrap_err();
    assert!(refused.contains("other users may replace"), "{refused}");
    if is_root() {
        chown(&secret, Some(MALLORY), None).unwrap();
        let refused = read(&secret).unwrap_err();
        assert!(refused.contains("belongs to uid 54321"), "{refused}");
    }
}

#[test]
fn doctor_warns_of_settings_that_others_may_write() {
    let stage = Stage::new();
    let settings = stage.settings("");
    stage.gone("doctor").ok();
    set_mode(&settings, 0o666);
    let output = stage.gone("doctor").ok().out;
    assert!(
        output.contains("may be written by others (mode 666)"),
        "{output}"
    );
    set_mode(&settings, 0o600);
    set_mode(settings.parent().unwrap(), 0o777);
    let output = stage.gone("doctor").ok().out;
    assert!(output.contains("may be replaced by others"), "{output}");
}

#[test]
fn p12_doctor_warns_of_a_gate_that_takes_tokens_in_plain_http_from_other_machines() {
    let stage = Stage::new();
    let gate = |listen: &str| {
        stage.settings(&format!(
            "[[gate]]\nlisten = '{listen}'\nupstream = {{ cloud = 'prod', region = 'RegionOne', service = 'network' }}\n"
        ));
        stage.gone("doctor").ok().out
    };
    let warning = "takes tokens in plain HTTP from other machines";
    let output = gate("127.0.0.1:9696");
    assert!(!output.contains(warning), "{output}");
    for listen in ["0.0.0.0:9696", "192.0.2.1:9696", "[::]:9696"] {
        let output = gate(listen);
        assert!(
            output.contains(&format!("the gate at {listen} {warning}")),
            "{output}"
        );
    }
}
