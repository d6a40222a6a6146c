//! The console on a real terminal: what it writes, and how it leaves.
//!
//! The console runs as a child of the test: this same binary, told by an environment variable to
//! become one on its own terminal.

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
/// How long "at rest" is looked at.
const REST: Duration = Duration::from_millis(600);

/// An engine of plain data, which writes down what it is told.
struct Fake {
    world: World,
    snapshot: watch::Sender<Arc<Snapshot>>,
    told: PathBuf,
}

#[async_trait]
impl Control for Fake {
    async fn submit(&self, envelope: Envelope) -> Result<Receipt, ControlError> {
        let mut file = std::fs::File::options()
            .create(true)
            .append(true)
            .open(&self.told)
            .unwrap();
        let command = serde_json::to_value(&envelope.command).unwrap();
        writeln!(file, "{}", command["do"]).unwrap();
        // Long enough that keys come in meanwhile.
        tokio::time::sleep(Duration::from_millis(200)).await;
        self.world.receive(&envelope.command)
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

/// Becomes a console if the test below started it; otherwise it is no test.
#[test]
fn child() {
    let Ok(told) = std::env::var("GONE_TEST_CONSOLE") else {
        return;
    };
    let world = World::busy();
    let (snapshot, _keep) = watch::channel(Arc::new(world.snapshot.clone()));
    let control = Arc::new(Fake {
        world,
        snapshot,
        told: told.into(),
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
    println!("left with {exit:?}");
    runtime.shutdown_background();
    std::process::exit(0);
}

struct Seat {
    terminal: Terminal,
    _folder: tempfile::TempDir,
    told: PathBuf,
}

impl Seat {
    fn take(environment: &[(&str, &str)]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let told = folder.path().join("told");
        let mut command = CommandBuilder::new(std::env::current_exe().unwrap());
        command.args(["--exact", "pty::child", "--nocapture", "--test-threads=1"]);
        command.env("GONE_TEST_CONSOLE", &told);
        command.env("TERM", "xterm-256color");
        command.env_remove("NO_COLOR");
        for (name, value) in environment {
            command.env(name, value);
        }
        Self {
            terminal: Terminal::start(command, 80, 24),
            _folder: folder,
            told,
        }
    }

    fn press(&mut self, keys: &str) {
        self.terminal.press(keys);
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

    fn see(&self, text: &str) {
        self.wait(text, |seat| seat.contents().contains(text));
    }

    /// Until nothing more is written; how much was written by then.
    fn silence(&self) -> usize {
        self.wait("silence", |seat| {
            let before = seat.bytes();
            std::thread::sleep(REST);
            seat.bytes() == before
        });
        self.bytes()
    }

    fn told(&self) -> String {
        std::fs::read_to_string(&self.told).unwrap_or_default()
    }

    fn pid(&self) -> u32 {
        self.terminal.program.process_id().unwrap()
    }

    fn signal(&self, signal: Signal) {
        let pid = i32::try_from(self.pid()).unwrap();
        kill_process(Pid::from_raw(pid).unwrap(), signal).unwrap();
    }

    /// The terminal is as it was: screen, cursor, paste, title, line discipline.
    fn left(&mut self, exit: &str) {
        self.see(&format!("left with {exit}"));
        assert_eq!(self.terminal.wait_for_exit(DEADLINE), 0);
        assert!(self.terminal.is_given_back(), "{}", self.contents());
        self.terminal.assert_untouched();
    }
}

#[test]
fn quitting_gives_the_terminal_back_whole() {
    let mut seat = Seat::take(&[]);
    seat.see("network web-1");
    assert!(seat.screen().alternate_screen());
    seat.press("?");
    seat.see("keys on rows that can be marked");
    seat.press("\x1b");
    seat.see("network web-1");
    seat.press(":stuck\r");
    seat.see("lb-shop");
    seat.press("q");
    seat.left("Quit");
}

#[test]
fn sigterm_and_a_hang_up_give_the_terminal_back() {
    for (signal, exit) in [(Signal::TERM, "Terminated"), (Signal::HUP, "HangUp")] {
        let mut seat = Seat::take(&[]);
        seat.see("network web-1");
        seat.signal(signal);
        seat.left(exit);
    }
}

#[test]
fn the_mouse_is_asked_for_only_where_it_is_wanted_and_let_go_at_the_end() {
    let mode = |seat: &Seat| seat.screen().mouse_protocol_mode();
    let mut seat = Seat::take(&[]);
    seat.see("network web-1");
    assert_eq!(mode(&seat), vt100::MouseProtocolMode::None);
    seat.press("q");
    seat.left("Quit");

    let mut seat = Seat::take(&[("GONE_TEST_MOUSE", "1")]);
    seat.see("network web-1");
    // Moves without a button are not asked for: they would fill a slow line.
    assert_eq!(mode(&seat), vt100::MouseProtocolMode::PressRelease);
    seat.press(":net\r");
    seat.see("storage");
    let contents = seat.contents();
    let line = contents.lines().position(|line| line.contains("storage"));
    let click = format!("\x1b[<0;10;{0}M\x1b[<0;10;{0}m", line.unwrap() + 1);
    seat.press(&click);
    seat.wait("the cursor on storage", |seat| {
        let contents = seat.contents();
        let row = contents.lines().find(|line| line.starts_with('>'));
        row.is_some_and(|row| row.contains("storage"))
    });
    seat.press(&click);
    seat.see("── network storage ──");
    seat.press("q");
    seat.left("Quit");
}

/// A serial line reports no size.
#[test]
fn a_terminal_that_does_not_know_its_size_is_drawn_on_as_80_by_24() {
    let mut seat = Seat::take(&[]);
    seat.see("network web-1");
    seat.terminal.report_size(0, 0);
    seat.press(":net\r");
    seat.see("storage");
    seat.press("q");
    seat.left("Quit");
}

#[test]
fn at_rest_not_one_byte_is_written() {
    let mut seat = Seat::take(&[]);
    seat.see("network web-1");
    for (keys, text) in [
        ("", "web-1"),
        (":stuck\r", "lb-shop"),
        (":net\r", "storage"),
    ] {
        seat.press(keys);
        seat.see(text);
        // Answers may still come in; after them there must be silence.
        seat.silence();
    }
    let before = seat.bytes();
    seat.press("\x1b[A");
    std::thread::sleep(REST);
    let wrote = seat.bytes() - before;
    assert_eq!(wrote, 0, "a key that moves nothing writes nothing");
}

#[test]
fn what_is_typed_ahead_on_a_real_terminal_deletes_nothing() {
    let mut seat = Seat::take(&[]);
    seat.see("network web-1");
    seat.press(":network\r");
    seat.see("storage");
    seat.press("D\rweb\r\x1b[200~web\nweb\n\x1b[201~");
    seat.see("6 steps");
    seat.silence();
    assert!(
        !seat.contents().contains("confirm ─"),
        "{}",
        seat.contents()
    );
    seat.press("\rweb\r");
    seat.see("Type the name");
    seat.see("│ >");
    assert_eq!(seat.told(), "\"plan\"\n");
    seat.press("web");
    seat.see(">web");
    seat.press("\r");
    seat.see("accepted as deletion");
    assert_eq!(seat.told(), "\"plan\"\n\"delete_plan\"\n");
}

#[test]
fn suspended_it_gives_the_terminal_to_the_shell_and_comes_back() {
    let mut seat = Seat::take(&[]);
    seat.see("network web-1");
    seat.press("\x1a");
    seat.wait("shell's screen", |seat| !seat.screen().alternate_screen());
    let pid = seat.pid();
    seat.wait("stop", |_| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
        stat.rsplit(')').next().unwrap().trim().starts_with('T')
    });
    seat.signal(Signal::CONT);
    seat.wait("console's screen", |seat| seat.screen().alternate_screen());
    seat.see("network web-1");
    seat.press("q");
    seat.left("Quit");
}

#[test]
fn no_color_names_no_colour_at_all() {
    let mut seat = Seat::take(&[("NO_COLOR", "1")]);
    seat.see("network web-1");
    seat.press(":stuck\r");
    seat.see("lb-shop");
    seat.press("q");
    seat.left("Quit");
    let raw = seat
        .terminal
        .read(|drawn| String::from_utf8_lossy(&drawn.raw).into_owned());
    for sequence in raw.split("\x1b[").skip(1) {
        let Some((codes, _)) = sequence
            .split_once('m')
            .filter(|(codes, _)| codes.chars().all(|c| c.is_ascii_digit() || c == ';'))
        else {
            continue;
        };
        for code in codes.split(';') {
            assert!(["0", "1", "2", "7"].contains(&code), "ESC[{codes}m");
        }
    }
    assert!(raw.contains(";7m"), "the selection is reversed");
}

#[test]
fn a_panic_beside_the_console_does_not_scribble_over_it() {
    let mut seat = Seat::take(&[("GONE_TEST_PANIC", "1")]);
    seat.see("network web-1");
    seat.press(":events\r");
    seat.see("events");
    std::thread::sleep(REST);
    assert!(
        !seat.contents().contains("a worker fails"),
        "{}",
        seat.contents()
    );
    seat.press("q");
    seat.left("Quit");
}

/// Whatever a key leads to, all told: the row of the cursor, its strip, what is typed.
#[test]
fn over_a_slow_line_a_key_costs_less_than_300_bytes() {
    const ECHO_MAX: usize = 300;
    let mut seat = Seat::take(&[("GONE_TEST_SLOW", "1")]);
    seat.see("network web-1");
    let mut most = (0, String::new());
    for (goes, text, keys) in [
        ("", "web-1", "jk:s"),
        (":net\r", "storage", "j /s"),
        (":stuck\r", "lb-shop", "jk"),
        (":events\r", "events", "j"),
        (":sites\r", "sites", "j"),
    ] {
        // Out of the prompt of before; what comes at once after esc is another key.
        seat.press("\x1b");
        seat.silence();
        seat.press(goes);
        seat.see(text);
        let mut before = seat.silence();
        for key in keys.chars() {
            seat.press(&key.to_string());
            let after = seat.silence();
            let cost = after - before;
            before = after;
            if cost > most.0 {
                most = (cost, format!("{key:?} in {goes:?}\n{}", seat.contents()));
            }
        }
    }
    assert!(most.0 < ECHO_MAX, "{} bytes for {}", most.0, most.1);
    assert!(most.0 > 0, "no key was echoed");
}

/// What goes out by parts is in the end what a fast line shows, letter by letter.
#[test]
fn a_slow_line_shows_the_same_in_the_end() {
    let walk = [":stuck\r", "b", "\x1b", ":net\r", "?"];
    let mut fast = Seat::take(&[("GONE_TEST_ASCII", "1")]);
    let mut slow = Seat::take(&[("GONE_TEST_SLOW", "1")]);
    fast.see("network web-1");
    slow.see("network web-1");
    // The strip is shorter, and so the table longer.
    let top = |seat: &Seat| {
        let text = seat.contents();
        let lines = text.lines().take(9).map(|line| line.trim_end().to_owned());
        lines.collect::<Vec<_>>()
    };
    for keys in walk {
        let before = top(&fast);
        for seat in [&mut fast, &mut slow] {
            seat.press(keys);
        }
        let what = format!("other screen after {keys:?}");
        fast.wait(&what, |fast| top(fast) != before);
        let what = format!("screen as on the fast one after {keys:?}");
        slow.wait(&what, |slow| top(slow) == top(&fast));
    }
}
