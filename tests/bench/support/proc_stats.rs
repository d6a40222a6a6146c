//! The processor time and the memory of a process, from `/proc` (`man 5 proc`).

/// The processor time that a process has used, with a resolution of 10 ms, the kernel's tick.
pub fn cpu_ms(pid: u32) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let fields: Vec<&str> = stat.rsplit(") ").next().unwrap().split(' ').collect();
    let ticks = |field: usize| fields[field].parse::<u64>().unwrap();
    (ticks(11) + ticks(12)) * 10
}

/// The memory of a process in kB: now (`VmRSS`), or at its peak so far (`VmHWM`).
pub fn memory_kb(pid: u32, what: &str) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find(|line| line.starts_with(what)).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}
