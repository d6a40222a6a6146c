//! The terminal of a console goes away: its deletion continues.

use std::time::{Duration, Instant};

use portable_pty::{CommandBuilder, PtySize, native_pty_system};
use rustix::process::{Pid, Signal, getsid};
use serde_json::json;

use super::support::program::send;
use super::support::{GONE, PASSWORD, Stage, assert_counts_sum, files, text, wait_for};
use super::terminal;

/// The longest time that a console with an embedded engine may take to hand its ledger over to another engine
/// (`assets/contract.md`).
const HAND_OVER_MAX: Duration = Duration::from_secs(2);

/// Ends the engine that was left behind, even if the test fails.
struct LeftBehind<'a>(&'a Stage);

impl LeftBehind<'_> {
    fn pid(&self) -> Option<u32> {
        gone::ledger::sqlite::holder(&self.0.ledger()).map(|owner| owner.pid)
    }
}

impl Drop for LeftBehind<'_> {
    fn drop(&mut self) {
        if let Some(pid) = self.pid() {
            send(pid, Signal::TERM);
        }
    }
}

struct Console {
    /// Nobody reads the output of the console: the output of some seconds fits the terminal's buffer.
    terminal: Box<dyn portable_pty::MasterPty + Send>,
    child: Box<dyn portable_pty::Child + Send + Sync>,
}

impl Drop for Console {
    fn drop(&mut self) {
        terminal::end(&mut self.child);
    }
}

fn console(stage: &Stage) -> Console {
    console_with(stage, &[])
}

/// Starts a console with these variables and those of the stage.
fn console_with(stage: &Stage, variables: &[(&str, &str)]) -> Console {
    let size = PtySize {
        rows: 24,
        cols: 80,
        pixel_width: 0,
        pixel_height: 0,
    };
    let pair = native_pty_system().openpty(size).unwrap();
    let mut command = CommandBuilder::new(GONE);
    command.env_clear();
    command.cwd(stage.folder.path());
    for (name, value) in stage.environment() {
        command.env(name, value);
    }
    for (name, value) in variables {
        command.env(name, value);
    }
    command.env("TERM", "xterm-256color");
    let child = pair.slave.spawn_command(command).unwrap();
    let console = Console {
        terminal: pair.master,
        child,
    };
    stage.await_engine(console.child.process_id().unwrap());
    console
}

fn slow_stage() -> Stage {
    let stage = Stage::with_web(120);
    stage.limits(json!({"latency_ms": 50, "parallel": 4}));
    stage
}

/// Starts a deletion, and waits until the console's engine has sent some of its calls. Returns the deletion's id.
fn start_deletion(stage: &Stage) -> String {
    let line = "delete network/web-net-0 --cascade --yes -o json";
    let id = text(&stage.gone(line).ok().json()["id"]);
    stage.await_writes(12);
    id
}

fn assert_ends_in_time(console: &mut Console) {
    let since = Instant::now();
    let mut ended = None;
    while ended.is_none() {
        assert!(since.elapsed() < HAND_OVER_MAX, "the console does not end");
        std::thread::sleep(Duration::from_millis(5));
        ended = console.child.try_wait().unwrap();
    }
    // For the console, a hang-up is not a failure.
    assert_eq!(ended.unwrap().exit_code(), 0);
}

fn assert_continues(stage: &Stage, id: &str, console: u32) {
    let left = LeftBehind(stage);
    wait_for("an engine in another process than the console", || {
        left.pid().is_some_and(|pid| pid != console)
    });
    let pid = left.pid().unwrap();
    stage.await_engine(pid);
    let deletion = stage.await_state(id, "gone");
    assert_counts_sum(&deletion);
    assert!(stage.ids("networks").is_empty());
    assert!(stage.ids("ports").is_empty());
    let twice = |id: &str| {
        let deletes = stage.deletes_of(id);
        deletes
            .iter()
            .filter(|call| call.status == Some(204))
            .count()
            > 1
    };
    assert!(!stage.writes().iter().any(|call| twice(&call.path)));
    // The engine is detached from the terminal: it has a session of its own, and its streams are /dev/null.
    let child = Pid::from_raw(i32::try_from(pid).unwrap());
    assert_eq!(getsid(child).ok(), child);
    for stream in 0..3 {
        let link = std::fs::read_link(format!("/proc/{pid}/fd/{stream}")).unwrap();
        assert_eq!(link.to_str(), Some("/dev/null"));
    }
    // The password is neither in the engine's command line or environment nor in a file of the state folder.
    let about = ["cmdline", "environ"].map(|what| std::fs::read(format!("/proc/{pid}/{what}")));
    let written = files(&stage.path("state")).into_iter();
    let written = written.map(|(_, bytes)| bytes);
    for bytes in written.chain(about.map(Result::unwrap)) {
        let mut parts = bytes.windows(PASSWORD.len());
        assert!(!parts.any(|part| part == PASSWORD.as_bytes()));
    }
    drop(left);
    wait_for("the end of the engine", || {
        LeftBehind(stage).pid().is_none()
    });
}

#[test]
fn an_engine_finishes_the_deletion_after_the_terminal_is_closed() {
    let stage = slow_stage();
    let mut console = console(&stage);
    let pid = console.child.process_id().unwrap();
    let id = start_deletion(&stage);
    // This closes the last handle of the terminal: the kernel hangs up.
    let other = native_pty_system()
        .openpty(PtySize::default())
        .unwrap()
        .master;
    drop(std::mem::replace(&mut console.terminal, other));
    assert_ends_in_time(&mut console);
    assert_continues(&stage, &id, pid);
}

#[test]
fn an_engine_finishes_the_deletion_after_a_hang_up_signal() {
    let stage = slow_stage();
    let mut console = console(&stage);
    let pid = console.child.process_id().unwrap();
    let id = start_deletion(&stage);
    terminal::hang_up(&mut console.child);
    assert_ends_in_time(&mut console);
    assert_continues(&stage, &id, pid);
}

/// Only variables name the cloud and its password. The engine that is left behind continues with them, has no
/// password in its environment, and writes a log of its own.
#[test]
fn an_engine_left_behind_has_the_password_of_a_variable_but_not_in_its_environment() {
    let stage = slow_stage();
    let text = std::fs::read_to_string(stage.path("clouds.yaml")).unwrap();
    assert!(text.contains(PASSWORD));
    std::fs::write(stage.path("clouds.yaml"), "clouds: {}\n").unwrap();
    let auth_url = format!("{}/v3", stage.url);
    let mut console = console_with(
        &stage,
        &[
            ("OS_AUTH_URL", &auth_url),
            ("OS_USERNAME", "admin"),
            ("OS_PASSWORD", PASSWORD),
            ("OS_PROJECT_NAME", "admin"),
            ("OS_USER_DOMAIN_NAME", "Default"),
            ("OS_PROJECT_DOMAIN_NAME", "Default"),
            ("OS_REGION_NAME", "RegionOne"),
        ],
    );
    let pid = console.child.process_id().unwrap();
    let id = start_deletion(&stage);
    terminal::hang_up(&mut console.child);
    assert_ends_in_time(&mut console);
    assert_continues(&stage, &id, pid);
    let log = stage.path("state").join("gone/engine.log");
    let log = std::fs::read_to_string(log).unwrap();
    assert!(log.contains("the engine runs"), "{log}");
}

#[test]
fn with_on_hangup_stop_no_engine_is_left_behind_and_the_next_one_finishes() {
    let stage = slow_stage();
    stage.settings("[console]\non_hangup = \"stop\"\n");
    let mut console = console(&stage);
    let id = start_deletion(&stage);
    terminal::hang_up(&mut console.child);
    assert_ends_in_time(&mut console);
    assert!(LeftBehind(&stage).pid().is_none());
    let left = stage.writes().len();
    stage.gone("doctor").ok();
    assert_eq!(stage.writes().len(), left);
    // The accepted deletion is not lost: the next engine finishes it.
    let engine = stage.engine();
    stage.await_state(&id, "gone");
    engine.stop().ok();
}
