//! The console on a terminal, and somebody who types.
use std::io::{Read as _, Write};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use portable_pty::{Child, CommandBuilder, MasterPty, PtySize, native_pty_system};

use crate::bed::{Bed, DEADLINE};
use crate::terminal;

/// The console reads the cloud anew each few seconds; between two frames it is silent this long.
const QUIET: Duration = Duration::from_millis(400);
const LEAVE_MAX: Duration = Duration::from_secs(10);

pub struct Seat {
    /// None after a hang-up.
    terminal: Option<(Box<dyn MasterPty + Send>, Box<dyn Write + Send>)>,
    child: Box<dyn Child + Send + Sync>,
    screen: Arc<Mutex<(vt100::Parser, Instant)>>,
}

impl Seat {
    pub fn take(bed: &Bed, arguments: &[&str]) -> Self {
        let size = PtySize {
            rows: 40,
            cols: 140,
            pixel_width: 0,
            pixel_height: 0,
        };
        let pair = native_pty_system().openpty(size).unwrap();
        let mut command = CommandBuilder::new(env!("CARGO_BIN_EXE_gone"));
        command.args(arguments);
        command.env_clear();
        for (name, value) in bed.environment() {
            command.env(name, value);
        }
        command.env("TERM", "xterm-256color");
        command.cwd(bed.folder.path());
        let child = pair.slave.spawn_command(command).unwrap();
        drop(pair.slave);
        let parser = vt100::Parser::new(size.rows, size.cols, 0);
        let screen = Arc::new(Mutex::new((parser, Instant::now())));
        let mut reader = pair.master.try_clone_reader().unwrap();
        let drawn = screen.clone();
        std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(n @ 1..) = reader.read(&mut buffer) {
                let mut drawn = drawn.lock().unwrap();
                drawn.0.process(&buffer[..n]);
                drawn.1 = Instant::now();
            }
        });
        let keys = pair.master.take_writer().unwrap();
        Self {
            terminal: Some((pair.master, keys)),
            child,
            screen,
        }
    }

    pub fn press(&mut self, typed: &str) {
        let (_, keys) = self.terminal.as_mut().unwrap();
        keys.write_all(typed.as_bytes()).unwrap();
        keys.flush().unwrap();
    }

    /// The line drops; returns when the console has ended.
    #[track_caller]
    pub fn hang_up(&mut self) {
        // As sshd does: the reader's end of the terminal is still held by its thread.
        terminal::hang_up(&mut self.child);
        self.ended();
        // The writer types a line feed when it is dropped, which a console that is still there would take.
        self.terminal = None;
    }

    fn contents(&self) -> String {
        self.screen.lock().unwrap().0.screen().contents()
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
            seat.screen.lock().unwrap().1.elapsed() > QUIET
        });
    }

    /// The console leaves, by itself and in time.
    #[track_caller]
    pub fn ended(&mut self) {
        let since = Instant::now();
        let mut status = self.child.try_wait().unwrap();
        while status.is_none() {
            let shown = self.contents();
            assert!(since.elapsed() < LEAVE_MAX, "it stays:\n{shown}");
            std::thread::sleep(Duration::from_millis(10));
            status = self.child.try_wait().unwrap();
        }
        assert!(status.unwrap().success(), "{}", self.contents());
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        terminal::end(&mut self.child);
    }
}
