//! The console on a real terminal: which bytes it writes, and how it restores the terminal.
//!
//! The console runs in a child process with its own terminal. The child is this test binary, which becomes a console if
//! an environment variable is set.

use std::io::Write as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use gone::control::{Control, ControlError, Envelope, Page, Query, Receipt, Snapshot};
use gone::domain::model::Event as LedgerEvent;
use gone::frontends::console::{ConsoleOptions, run};
use portable_pty::CommandBuilder;
use rustix::process::{Pid, Signal, kill_process};
use tokio::sync::watch;

use super::fake::{World, options};
use super::terminal::Terminal;

const DEADLINE: Duration = Duration::from_secs(20);
/// An idle console must write nothing for this long.
const IDLE: Duration = Duration::from_millis(600);

/// An engine that answers from plain data, and appends the name of each command to a file.
struct Fake {
    world: World,
    snapshot: watch::Sender<Arc<Snapshot>>,
    command_log: PathBuf,
}

#[async_trait]
impl Control for Fake {
    async fn submit(&self, envelope: Envelope) -> Result<Receipt, ControlError> {
        let mut file = std::fs::File::options();
        let file = file.create(true).append(true).open(&self.command_log);
        let command = serde_json::to_value(&envelope.command).unwrap();
        writeln!(file.unwrap(), "{}", command["do"]).unwrap();
        // Long enough for keys to be typed before the receipt.
        tokio::time::sleep(Duration::from_millis(200)).await;
        self.world.receipt(&envelope.command)
    }
    async fn query(&self, query: Query) -> Result<Page, ControlError> {
        self.world.answer(&query)
    }
    async fn events(&self, _: i64, wait_ms: u64) -> Result<Vec<LedgerEvent>, ControlError> {
        tokio::time::sleep(Duration::from_millis(wait_ms)).await;
        Ok(Vec::new())
    }
    fn snapshot(&self) -> watch::Receiver<Arc<Snapshot>> {
        self.snapshot.subscribe()
    }
}

/// Becomes a console if one of the tests below started this process; otherwise tests nothing.
#[test]
fn child() {
    let Ok(command_log) = std::env::var("GONE_TEST_CONSOLE") else {
        return;
    };
    let world = World::busy();
    let (snapshot, _keep) = watch::channel(Arc::new(world.snapshot.clone()));
    let control = Arc::new(Fake {
        world,
        snapshot,
        command_log: command_log.into(),
    });
    let options = ConsoleOptions {
        no_color: std::env::var("NO_COLOR").is_ok(),
        low_bandwidth: std::env::var("GONE_TEST_SLOW").is_ok(),
        ascii: std::env::var("GONE_TEST_ASCII").is_ok(),
        mouse: std::env::var("GONE_TEST_MOUSE").is_ok(),
        ..options()
    };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    if std::env::var("GONE_TEST_PANIC").is_ok() {
        runtime.spawn(async {
            tokio::time::sleep(Duration::from_millis(300)).await;
            panic!("a worker fails beside the console");
        });
    }
    let exit = runtime.block_on(run(control, options)).unwrap();
    println!("ended with {exit:?}");
    runtime.shutdown_background();
    std::process::exit(0);
}

/// A console in a child process, on a terminal of its own.
struct ConsoleProcess {
    terminal: Terminal,
    _folder: tempfile::TempDir,
    command_log: PathBuf,
}

impl ConsoleProcess {
    /// Starts a console, and waits for its first screen.
    fn start(environment: &[(&str, &str)]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let command_log = folder.path().join("commands");
        let mut command = CommandBuilder::new(std::env::current_exe().unwrap());
        command.args(["--exact", "pty::child", "--nocapture", "--test-threads=1"]);
        command.env("GONE_TEST_CONSOLE", &command_log);
        command.env("TERM", "xterm-256color");
        command.env_remove("NO_COLOR");
        for (name, value) in environment {
            command.env(name, value);
        }
        let console = Self {
            terminal: Terminal::start(command, 80, 24),
            _folder: folder,
            command_log,
        };
        console.wait_for_text("network web-1");
        console
    }

    fn press(&mut self, keys: &str) {
        self.terminal.press(keys);
    }

    /// Presses keys, and waits until the screen has this text.
    fn press_until(&mut self, keys: &str, text: &str) {
        self.press(keys);
        self.wait_for_text(text);
    }

    fn contents(&self) -> String {
        self.terminal.text()
    }

    fn screen(&self) -> vt100::Screen {
        self.terminal.read(|drawn| drawn.screen().clone())
    }

    fn bytes(&self) -> usize {
        self.terminal.read(|drawn| drawn.raw.len())
    }

    fn wait(&self, what: &str, condition: impl Fn(&Self) -> bool) {
        let start = Instant::now();
        while !condition(self) {
            assert!(
                start.elapsed() < DEADLINE,
                "no {what} in\n{}",
                self.contents()
            );
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Waits until the screen has this text.
    fn wait_for_text(&self, text: &str) {
        self.wait(text, |console| console.contents().contains(text));
    }

    /// Waits until nothing was written for [`IDLE`]. Returns the number of bytes written by then.
    fn wait_until_idle(&self) -> usize {
        self.wait("silence", |console| {
            let before = console.bytes();
            std::thread::sleep(IDLE);
            console.bytes() == before
        });
        self.bytes()
    }

    /// Returns the names of the commands that the engine received, one a line.
    fn commands(&self) -> String {
        std::fs::read_to_string(&self.command_log).unwrap_or_default()
    }

    fn pid(&self) -> u32 {
        self.terminal.program.process_id().unwrap()
    }

    fn signal(&self, signal: Signal) {
        let pid = i32::try_from(self.pid()).unwrap();
        kill_process(Pid::from_raw(pid).unwrap(), signal).unwrap();
    }

    fn quit(&mut self) {
        self.press("q");
        self.assert_ended("Quit");
    }

    /// Checks that the console has ended, and that the terminal is as before: its screen, cursor, paste mode, mouse
    /// mode, title and line discipline.
    fn assert_ended(&mut self, exit: &str) {
        self.wait_for_text(&format!("ended with {exit}"));
        assert_eq!(self.terminal.wait_for_exit(DEADLINE), 0);
        assert!(self.terminal.is_given_back(), "{}", self.contents());
        self.terminal.assert_untouched();
    }
}

#[test]
fn quitting_restores_the_terminal() {
    let mut console = ConsoleProcess::start(&[]);
    assert!(console.screen().alternate_screen());
    console.press_until("?", "keys on rows that can be marked");
    console.press_until("\x1b", "network web-1");
    console.press_until(":stuck\r", "lb-shop");
    console.quit();
}

#[test]
fn sigterm_and_sighup_restore_the_terminal() {
    for (signal, exit) in [(Signal::TERM, "Terminated"), (Signal::HUP, "HangUp")] {
        let mut console = ConsoleProcess::start(&[]);
        console.signal(signal);
        console.assert_ended(exit);
    }
}

#[test]
fn mouse_reports_are_requested_only_if_configured_and_switched_off_at_the_end() {
    let mode = |console: &ConsoleProcess| console.screen().mouse_protocol_mode();
    let mut console = ConsoleProcess::start(&[]);
    assert_eq!(mode(&console), vt100::MouseProtocolMode::None);
    console.quit();

    let mut console = ConsoleProcess::start(&[("GONE_TEST_MOUSE", "1")]);
    // Mouse moves without a button are not requested, because they would fill a slow line.
    assert_eq!(mode(&console), vt100::MouseProtocolMode::PressRelease);
    console.press_until(":net\r", "storage");
    let contents = console.contents();
    let line = contents.lines().position(|line| line.contains("storage"));
    let click = format!("\x1b[<0;10;{0}M\x1b[<0;10;{0}m", line.unwrap() + 1);
    console.press(&click);
    console.wait("the cursor on storage", |console| {
        let contents = console.contents();
        let row = contents.lines().find(|line| line.starts_with('>'));
        row.is_some_and(|row| row.contains("storage"))
    });
    console.press(&click);
    console.wait_for_text("── network storage ──");
    console.quit();
}

/// A serial line reports no size.
#[test]
fn a_terminal_that_reports_no_size_is_drawn_as_80_by_24() {
    let mut console = ConsoleProcess::start(&[]);
    console.terminal.report_size(0, 0);
    console.press_until(":net\r", "storage");
    console.quit();
}

#[test]
fn an_idle_console_and_a_key_that_moves_nothing_write_no_byte() {
    let mut console = ConsoleProcess::start(&[]);
    for (keys, text) in [
        ("", "web-1"),
        (":stuck\r", "lb-shop"),
        (":net\r", "storage"),
    ] {
        console.press(keys);
        console.wait_for_text(text);
        // Answers may still come in; after them, nothing may be written.
        console.wait_until_idle();
    }
    let before = console.bytes();
    console.press("\x1b[A");
    std::thread::sleep(IDLE);
    let wrote = console.bytes() - before;
    assert_eq!(wrote, 0, "a key that moves nothing writes nothing");
}

#[test]
fn keys_typed_ahead_on_a_real_terminal_delete_nothing() {
    let mut console = ConsoleProcess::start(&[]);
    console.press_until(":network\r", "storage");
    console.press_until("D\rweb\r\x1b[200~web\nweb\n\x1b[201~", "6 steps");
    console.wait_until_idle();
    let contents = console.contents();
    assert!(!contents.contains("confirm ─"), "{contents}");
    console.press_until("\rweb\r", "Type the name");
    console.wait_for_text("│ >");
    assert_eq!(console.commands(), "\"plan\"\n");
    console.press_until("web", ">web");
    console.press_until("\r", "accepted as deletion");
    assert_eq!(console.commands(), "\"plan\"\n\"delete_plan\"\n");
}

#[test]
fn a_suspended_console_gives_the_terminal_to_the_shell_and_resumes() {
    let mut console = ConsoleProcess::start(&[]);
    console.press("\x1a");
    console.wait("shell's screen", |console| {
        !console.screen().alternate_screen()
    });
    let pid = console.pid();
    console.wait("stop", |_| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
        stat.rsplit(')').next().unwrap().trim().starts_with('T')
    });
    console.signal(Signal::CONT);
    console.wait("console's screen", |console| {
        console.screen().alternate_screen()
    });
    console.wait_for_text("network web-1");
    console.quit();
}

#[test]
fn no_color_writes_no_colour_codes() {
    let mut console = ConsoleProcess::start(&[("NO_COLOR", "1")]);
    console.press_until(":stuck\r", "lb-shop");
    console.quit();
    let raw = console
        .terminal
        .read(|drawn| String::from_utf8_lossy(&drawn.raw).into_owned());
    for sequence in raw.split("\x1b[").skip(1) {
        let is_code = |codes: &&str| codes.chars().all(|c| c.is_ascii_digit() || c == ';');
        let codes = sequence.split_once('m').map(|(codes, _)| codes);
        for code in codes.filter(is_code).iter().flat_map(|it| it.split(';')) {
            assert!(["0", "1", "2", "7"].contains(&code), "ESC[{code}m");
        }
    }
    assert!(raw.contains(";7m"), "the selection is reversed");
}

#[test]
fn a_panic_in_another_task_does_not_write_over_the_screen() {
    let mut console = ConsoleProcess::start(&[("GONE_TEST_PANIC", "1")]);
    console.press_until(":events\r", "events");
    std::thread::sleep(IDLE);
    let contents = console.contents();
    assert!(!contents.contains("a worker fails"), "{contents}");
    console.quit();
}

/// The cost of a key includes everything that it redraws: the row of the cursor, the detail, and the typed text.
#[test]
fn a_key_costs_less_than_300_bytes_on_a_slow_line() {
    const ECHO_MAX: usize = 300;
    let mut console = ConsoleProcess::start(&[("GONE_TEST_SLOW", "1")]);
    let mut most = (0, String::new());
    for (route, text, keys) in [
        ("", "web-1", "jk:s"),
        (":net\r", "storage", "j /s"),
        (":stuck\r", "lb-shop", "jk"),
        (":events\r", "events", "j"),
        (":sites\r", "sites", "j"),
    ] {
        // Esc closes the last prompt. A key that came at once after it would count as an alt key.
        console.press("\x1b");
        console.wait_until_idle();
        console.press(route);
        console.wait_for_text(text);
        let mut before = console.wait_until_idle();
        for key in keys.chars() {
            console.press(&key.to_string());
            let after = console.wait_until_idle();
            let cost = after - before;
            before = after;
            if cost > most.0 {
                most = (
                    cost,
                    format!("{key:?} in {route:?}\n{}", console.contents()),
                );
            }
        }
    }
    assert!(most.0 < ECHO_MAX, "{} bytes for {}", most.0, most.1);
    assert!(most.0 > 0, "no key changed the screen");
}

/// A slow line gets its frames in parts, and shows the same characters as a fast line in the end.
#[test]
fn a_slow_line_ends_with_the_same_screen_as_a_fast_one() {
    let walk = [":stuck\r", "b", "\x1b", ":net\r", "?"];
    let mut fast = ConsoleProcess::start(&[("GONE_TEST_ASCII", "1")]);
    let mut slow = ConsoleProcess::start(&[("GONE_TEST_SLOW", "1")]);
    // The detail is shorter on a slow line, so only the lines above it are compared.
    let top = |console: &ConsoleProcess| {
        let text = console.contents();
        let lines = text.lines().take(9).map(|line| line.trim_end().to_owned());
        lines.collect::<Vec<_>>()
    };
    for keys in walk {
        let before = top(&fast);
        for console in [&mut fast, &mut slow] {
            console.press(keys);
        }
        let what = format!("new screen after {keys:?}");
        fast.wait(&what, |fast| top(fast) != before);
        let what = format!("screen as on the fast one after {keys:?}");
        slow.wait(&what, |slow| top(slow) == top(&fast));
    }
}
