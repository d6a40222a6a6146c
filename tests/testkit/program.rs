//! Runs the program in its own process, and keeps its output and its exit code.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

pub const GONE: &str = env!("CARGO_BIN_EXE_gone");
/// Longest wait for a program or a condition. Neutron deletes 25 ports a second on an idle machine, so only a program
/// that hangs takes longer.
pub const DEADLINE: Duration = Duration::from_secs(120);

/// Returns the environment variables of a program whose settings, state and `clouds.yaml` are in this folder.
pub fn environment(home: &Path) -> BTreeMap<&'static str, PathBuf> {
    BTreeMap::from([
        ("PATH", std::env::var("PATH").unwrap().into()),
        ("HOME", home.to_path_buf()),
        ("XDG_CONFIG_HOME", home.join("config")),
        ("XDG_STATE_HOME", home.join("state")),
        ("OS_CLIENT_CONFIG_FILE", home.join("clouds.yaml")),
    ])
}

/// Makes a command run in this folder, with only the variables of [`environment`] and without standard
/// input.
pub fn run_in<'c>(home: &Path, command: &'c mut Command) -> &'c mut Command {
    command
        .env_clear()
        .envs(environment(home))
        .current_dir(home)
        .stdin(Stdio::null())
}

/// A child process, which is killed when this value is dropped.
pub struct ChildGuard(pub Child);

impl Drop for ChildGuard {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The process id of an engine that this test did not start. The engine is killed when this value is dropped.
pub struct KilledOnDrop(pub u32);

impl Drop for KilledOnDrop {
    fn drop(&mut self) {
        let pid = Pid::from_raw(i32::try_from(self.0).unwrap()).unwrap();
        let _ = kill_process(pid, Signal::KILL);
    }
}

/// A running program. Its output is read while it runs.
pub struct Running {
    /// The arguments, for messages.
    line: String,
    child: ChildGuard,
    out: Output,
    err: Output,
}

/// The output of one stream, which a thread reads.
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

    /// Returns the output so far.
    fn text(&self) -> String {
        String::from_utf8(self.text.lock().unwrap().clone()).unwrap()
    }

    /// Waits until the program has closed the stream, and returns its whole output.
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
            child: ChildGuard(child),
        }
    }

    pub fn pid(&self) -> u32 {
        self.child.0.id()
    }

    pub fn signal(&self, signal: Signal) {
        send(self.pid(), signal);
    }

    /// Returns the program's standard error so far.
    pub fn err(&self) -> String {
        self.err.text()
    }

    pub fn has_ended(&mut self) -> bool {
        self.child.0.try_wait().unwrap().is_some()
    }

    /// Kills the program with SIGKILL.
    pub fn kill(mut self) {
        self.child.0.kill().unwrap();
        self.child.0.wait().unwrap();
    }

    /// Sends SIGTERM to the program, and waits until it has ended.
    pub fn stop(self) -> RunResult {
        self.signal(Signal::TERM);
        self.end()
    }

    /// Waits until the program has ended, for at most [`DEADLINE`].
    #[track_caller]
    pub fn end(mut self) -> RunResult {
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
        RunResult {
            line: self.line,
            code: self.child.0.wait().unwrap().code(),
            out: self.out.whole(),
            err: self.err.whole(),
        }
    }
}

/// The output and the exit code of a program that has ended.
#[derive(Debug)]
pub struct RunResult {
    /// The arguments, for messages.
    line: String,
    /// The exit code; none if a signal ended the program.
    pub code: Option<i32>,
    pub out: String,
    pub err: String,
}

impl RunResult {
    /// Runs a command, and waits until it has ended.
    #[track_caller]
    pub fn of(command: &mut Command) -> Self {
        Running::start(command).end()
    }

    /// Asserts the exit code 0.
    #[track_caller]
    pub fn ok(self) -> Self {
        self.ends_with(0)
    }

    /// Asserts the exit code.
    #[track_caller]
    pub fn ends_with(self, code: i32) -> Self {
        let Self { line, out, err, .. } = &self;
        assert_eq!(self.code, Some(code), "gone {line}\n{out}\n{err}");
        self
    }

    /// Asserts that each of these words is in standard output or in standard error.
    #[track_caller]
    pub fn says(self, words: &[&str]) -> Self {
        for word in words {
            let is_there = self.out.contains(word) || self.err.contains(word);
            assert!(is_there, "no {word:?} in {}\n{}", self.out, self.err);
        }
        self
    }

    /// Asserts that standard error contains each of these words.
    #[track_caller]
    pub fn stderr_has(self, words: &[&str]) -> Self {
        for word in words {
            assert!(self.err.contains(word), "no {word:?} in: {}", self.err);
        }
        self
    }

    /// Asserts that standard output contains each of these words.
    #[track_caller]
    pub fn stdout_has(self, words: &[&str]) -> Self {
        for word in words {
            assert!(self.out.contains(word), "no {word:?} in: {}", self.out);
        }
        self
    }

    /// Returns the standard output as JSON.
    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.out).expect(&self.out)
    }

    /// Returns the error document: the last line of standard error, as JSON.
    #[track_caller]
    pub fn failure(&self) -> Value {
        let last = self.err.lines().last().unwrap_or_default();
        serde_json::from_str(last).expect(&self.err)
    }
}

/// Waits until the condition holds, for at most [`DEADLINE`].
#[track_caller]
pub fn wait_for(what: &str, condition: impl FnMut() -> bool) {
    wait_within(DEADLINE, what, condition);
}

/// Waits until the condition holds, for at most `limit`. `what` describes the condition in the failure.
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
