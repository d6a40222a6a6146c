//! The process of an engine, so that another engine on the same machine can find out that the process has ended.

use std::fs;

/// The identity of a process of a machine. No later process has the same one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Process {
    /// The ids of the machine's boot and of the process namespace; empty where the system does not say.
    pub(super) machine: String,
    pub(super) pid: u32,
    /// When the process started: clock ticks since the boot (`123456`); empty where the system does not say.
    pub(super) started: String,
}

impl Process {
    /// Returns the identity of this process.
    pub(super) fn own() -> Self {
        let pid = std::process::id();
        Self {
            machine: machine().unwrap_or_default(),
            pid,
            started: started(pid).unwrap_or_default(),
        }
    }

    /// Whether the process is on this machine and in this process namespace, where it can be observed.
    pub(super) fn is_here(&self) -> bool {
        !self.machine.is_empty() && machine().as_ref() == Some(&self.machine)
    }

    /// Whether the process has certainly ended. False for a process on another machine.
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
/// there is no such process, or it has ended and its parent has not yet waited for it.
fn started(pid: u32) -> Option<String> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The second field is the program's name in parentheses, which may contain any character.
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
    fn a_running_process_has_not_ended_and_an_earlier_one_with_its_pid_has() {
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
