//! How a program at a terminal is ended from outside.

use portable_pty::Child;
use rustix::process::{Pid, Signal, kill_process};

pub type Program = Box<dyn Child + Send + Sync>;

/// As sshd does when the line drops.
pub fn hang_up(program: &mut Program) {
    send(program, Signal::HUP);
}

/// At once, and waits for it. Not by `Child::kill`, which hangs up first: a console leaves its engine
/// behind at that.
pub fn end(program: &mut Program) {
    send(program, Signal::KILL);
    let _ = program.wait();
}

/// To nobody else: the number of one that has ended may be another's.
fn send(program: &mut Program, signal: Signal) {
    let pid = program.process_id().and_then(|pid| i32::try_from(pid).ok());
    if let (Ok(None), Some(pid)) = (program.try_wait(), pid.and_then(Pid::from_raw)) {
        let _ = kill_process(pid, signal);
    }
}
