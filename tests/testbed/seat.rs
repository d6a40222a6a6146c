//! The console on a terminal, and somebody who types.
use std::time::{Duration, Instant};

use portable_pty::CommandBuilder;

use crate::bed::{Bed, DEADLINE};
use crate::terminal::Terminal;

/// The console reads the cloud anew each few seconds; between two frames it is silent this long.
const QUIET: Duration = Duration::from_millis(400);
const LEAVE_MAX: Duration = Duration::from_secs(10);

pub struct Seat(Terminal);

impl Seat {
    pub fn take(bed: &Bed, arguments: &[&str]) -> Self {
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

    /// The line drops; returns when the console has ended.
    #[track_caller]
    pub fn hang_up(&mut self) {
        self.0.hang_up();
        self.ended();
        // A console that is still there would take the line feed that this types.
        self.0.close();
    }

    fn contents(&self) -> String {
        self.0.text()
    }

    #[track_caller]
    fn wait(&self, what: &str, condition: impl Fn(&Self) -> bool) {
        let since = Instant::now();
        while !condition(self) {
            let shown = self.contents();
            assert!(since.elapsed() < DEADLINE / 4, "no {what} in\n{shown}");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    #[track_caller]
    pub fn see(&self, text: &str) {
        self.wait(text, |seat| seat.contents().contains(text));
    }

    /// From a plan on to its typed confirmation. What is typed before keys are offered does not count.
    #[track_caller]
    pub fn go_on(&mut self) {
        self.see("enter confirm");
        self.press("\r");
        self.see("| >");
    }

    /// Waits until nothing more is drawn.
    #[track_caller]
    pub fn quiet(&self) {
        self.wait("silence", |seat| {
            seat.0.read(|drawn| drawn.at.elapsed() > QUIET)
        });
    }

    /// The console leaves, by itself and in time.
    #[track_caller]
    pub fn ended(&mut self) {
        let code = self.0.wait_for_exit(LEAVE_MAX);
        assert_eq!(code, 0, "{}", self.contents());
    }
}
