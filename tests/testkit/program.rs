//! The program in a process of its own: what it wrote, and how it ended.

use std::io::Read;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

pub const GONE: &str = env!("CARGO_BIN_EXE_gone");
/// Nothing takes longer unless it hangs: Neutron deletes 25 ports a second on a machine that does nothing else.
pub const DEADLINE: Duration = Duration::from_secs(120);

/// A process that is killed when this is dropped.
pub struct Ended(pub Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A program under way, whose output is read as it is written.
pub struct Running {
    line: String,
    child: Ended,
    out: Output,
    err: Output,
}

struct Output {
    text: Arc<Mutex<Vec<u8>>>,
    thread: JoinHandle<()>,
}

impl Output {
    fn read(mut stream: impl Read + Send + 'static) -> Self {
        let text = Arc::new(Mutex::new(Vec::new()));
        let kept = text.clone();
        let thread = std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(n @ 1..) = stream.read(&mut buffer) {
                kept.lock().unwrap().extend_from_slice(&buffer[..n]);
            }
        });
        Self { text, thread }
    }

    fn text(&self) -> String {
        String::from_utf8(self.text.lock().unwrap().clone()).unwrap()
    }

    fn whole(self) -> String {
        self.thread.join().unwrap();
        String::from_utf8(std::mem::take(&mut self.text.lock().unwrap())).unwrap()
    }
}

impl Running {
    pub fn start(command: &mut Command) -> Self {
        let piped = command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = piped.spawn().unwrap();
        let (out, err) = (child.stdout.take().unwrap(), child.stderr.take().unwrap());
        let arguments = command
            .get_args()
            .map(|argument| argument.to_string_lossy());
        Self {
            line: arguments.collect::<Vec<_>>().join(" "),
            out: Output::read(out),
            err: Output::read(err),
            child: Ended(child),
        }
    }

    pub fn pid(&self) -> u32 {
        self.child.0.id()
    }

    pub fn signal(&self, signal: Signal) {
        send(self.pid(), signal);
    }

    /// What it has written to standard error so far.
    pub fn err(&self) -> String {
        self.err.text()
    }

    pub fn has_ended(&mut self) -> bool {
        self.child.0.try_wait().unwrap().is_some()
    }

    /// `kill -9`.
    pub fn kill(mut self) {
        self.child.0.kill().unwrap();
        self.child.0.wait().unwrap();
    }

    /// As an administrator ends it.
    pub fn stop(self) -> Ran {
        self.signal(Signal::TERM);
        self.end()
    }

    /// Waits until it has ended.
    #[track_caller]
    pub fn end(mut self) -> Ran {
        let since = Instant::now();
        while !self.has_ended() {
            let Self { line, err, .. } = &self;
            assert!(
                since.elapsed() < DEADLINE,
                "gone {line} hangs: {}",
                err.text()
            );
            std::thread::sleep(Duration::from_millis(5));
        }
        Ran {
            line: self.line,
            code: self.child.0.wait().unwrap().code(),
            out: self.out.whole(),
            err: self.err.whole(),
        }
    }
}

/// What a program wrote, and how it ended.
#[derive(Debug)]
pub struct Ran {
    line: String,
    /// None if a signal ended it.
    pub code: Option<i32>,
    pub out: String,
    pub err: String,
}

impl Ran {
    /// Runs a command to its end.
    #[track_caller]
    pub fn of(command: &mut Command) -> Self {
        Running::start(command).end()
    }

    #[track_caller]
    pub fn ok(self) -> Self {
        self.ends_with(0)
    }

    #[track_caller]
    pub fn ends_with(self, code: i32) -> Self {
        let Self { line, out, err, .. } = &self;
        assert_eq!(self.code, Some(code), "gone {line}\n{out}\n{err}");
        self
    }

    /// Each of these words is in standard output or in standard error.
    #[track_caller]
    pub fn says(self, words: &[&str]) -> Self {
        for word in words {
            let said = self.out.contains(word) || self.err.contains(word);
            assert!(said, "no {word:?} in {}\n{}", self.out, self.err);
        }
        self
    }

    /// Standard error contains each of these words.
    #[track_caller]
    pub fn complains(self, words: &[&str]) -> Self {
        for word in words {
            assert!(self.err.contains(word), "no {word:?} in: {}", self.err);
        }
        self
    }

    /// Standard output contains each of these words.
    #[track_caller]
    pub fn prints(self, words: &[&str]) -> Self {
        for word in words {
            assert!(self.out.contains(word), "no {word:?} in: {}", self.out);
        }
        self
    }

    /// Standard output as JSON.
    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.out).expect(&self.out)
    }

    /// The error document, which is the last line of standard error.
    #[track_caller]
    pub fn failure(&self) -> Value {
        let last = self.err.lines().last().unwrap_or_default();
        serde_json::from_str(last).expect(&self.err)
    }
}

#[track_caller]
pub fn wait_for(what: &str, condition: impl FnMut() -> bool) {
    wait_within(DEADLINE, what, condition);
}

#[track_caller]
pub fn wait_within(limit: Duration, what: &str, mut condition: impl FnMut() -> bool) {
    let since = Instant::now();
    while !condition() {
        assert!(since.elapsed() < limit, "not within {limit:?}: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

pub fn send(pid: u32, signal: Signal) {
    let pid = Pid::from_raw(i32::try_from(pid).unwrap()).unwrap();
    kill_process(pid, signal).unwrap();
}
