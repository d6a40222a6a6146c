//! The console on a terminal, and its user.
use std::time::{Duration, Instant};

use portable_pty::CommandBuilder;

use crate::bed::{Bed, DEADLINE};
use crate::terminal::Terminal;

/// How long the console must write nothing to count as silent. It reads the cloud again every few seconds.
const QUIET: Duration = Duration::from_millis(400);
/// Longest time that the console may take to end.
const LEAVE_MAX: Duration = Duration::from_secs(10);

/// A console that runs on a terminal.
pub struct Session(Terminal);

impl Session {
    pub fn start(bed: &Bed, arguments: &[&str]) -> Self {
        let mut command = CommandBuilder::new(env!("CARGO_BIN_EXE_gone"));
        command.args(arguments);
        command.env_clear();
        for (name, value) in bed.environment() {
            command.env(name, value);
        }
        command.env("TERM", "xterm-256color");
        command.cwd(bed.folder.path());
        Self(Terminal::start(command, 140, 40))
    }

    pub fn press(&mut self, typed: &str) {
        self.0.press(typed);
    }

    /// Sends SIGHUP, as a dropped line does, and waits until the console has ended.
    #[track_caller]
    pub fn hang_up(&mut self) {
        self.0.hang_up();
        self.wait_for_exit();
        // The terminal is closed only now, because closing it types a line feed, which a running console would take.
        self.0.close();
    }

    fn text(&self) -> String {
        self.0.text()
    }

    #[track_caller]
    fn wait_until(&self, what: &str, condition: impl Fn(&Self) -> bool) {
        let since = Instant::now();
        while !condition(self) {
            let shown = self.text();
            assert!(since.elapsed() < DEADLINE / 4, "no {what} in\n{shown}");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Waits until the screen contains this text.
    #[track_caller]
    pub fn wait_for(&self, text: &str) {
        self.wait_until(text, |session| session.text().contains(text));
    }

    /// From a plan, opens the dialog for the typed confirmation. The console drops keys that are typed before it is
    /// shown.
    #[track_caller]
    pub fn open_confirmation(&mut self) {
        self.wait_for("enter confirm");
        self.press("\r");
        self.wait_for("| >");
    }

    /// Waits until the console has written nothing for [`QUIET`].
    #[track_caller]
    pub fn wait_for_silence(&self) {
        self.wait_until("silence", |session| {
            session.0.read(|drawn| drawn.at.elapsed() > QUIET)
        });
    }

    /// Waits until the console has ended with exit code 0.
    #[track_caller]
    pub fn wait_for_exit(&mut self) {
        let code = self.0.wait_for_exit(LEAVE_MAX);
        assert_eq!(code, 0, "{}", self.text());
    }
}
