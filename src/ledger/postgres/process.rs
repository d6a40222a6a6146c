//! The process of an engine, so that another one on the same machine can see that it has ended.

use std::fs;

/// A process of a machine, which no later process ever is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Process {
    /// The boot and the process namespace of the machine; empty where the system does not say.
    pub(super) machine: String,
    pub(super) pid: u32,
    /// When it started, in the system's own unit.
    pub(super) started: String,
}

impl Process {
    /// This process.
    pub(super) fn own() -> Self {
        let pid = std::process::id();
        Self {
            machine: machine().unwrap_or_default(),
            pid,
            started: started(pid).unwrap_or_default(),
        }
    }

    /// Whether it is on this machine, where it can be seen.
    pub(super) fn is_here(&self) -> bool {
        !self.machine.is_empty() && machine().as_ref() == Some(&self.machine)
    }

    /// Whether it has certainly ended. A process on another machine is never certain.
    pub(super) fn has_ended(&self) -> bool {
        self.is_here()
            && !self.started.is_empty()
            && started(self.pid).as_ref() != Some(&self.started)
    }
}

fn machine() -> Option<String> {
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    let namespace = fs::read_link("/proc/self/ns/pid").ok()?;
    Some(format!("{} {}", boot.trim(), namespace.display()))
}

/// When a process started: clock ticks since the boot, the 22nd field of `/proc/PID/stat` (see `man 5 proc`). None if
/// there is no such process, or it has ended and is only not yet waited for.
fn started(pid: u32) -> Option<String> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The second field is the program's name in parentheses, and may hold anything.
    let (_, after_name) = stat.rsplit_once(')')?;
    let mut fields = after_name.split_ascii_whitespace();
    let state = fields.next()?;
    (state != "Z" && state != "X").then_some(())?;
    fields.nth(18).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_that_runs_has_not_ended_and_one_that_has_ended_is_seen() {
        let own = Process::own();
        assert!(own.is_here() && !own.has_ended());
        let earlier = Process {
            started: "1".to_owned(),
            ..own.clone()
        };
        assert!(earlier.has_ended());
        let elsewhere = Process {
            machine: "another".to_owned(),
            ..earlier
        };
        assert!(!elsewhere.has_ended());
    }
}
