//! What a frame costs: 200x60, a tree of 100 and of 100,000 steps, all lines open.
//!
//! Promised: a frame at 100,000 steps takes at most 1.2 times one at 100, and p99 stays within
//! 1 ms. A key is measured too, since it must echo at once. `--smoke` runs a few frames and judges
//! nothing.
#![allow(
    dead_code,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    unreachable_pub
)]

#[path = "../console/fake.rs"]
mod fake;

use std::time::{Duration, Instant};

use gone::domain::model::DeletionState;
use gone::faces::console::render;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use fake::{Desk, World, deletion, steps};

const COLUMNS: u16 = 200;
const ROWS: u16 = 60;
const P99_MAX: Duration = Duration::from_millis(1);
const RATIO_MAX: f64 = 1.2;

struct Measured {
    frame_p50: Duration,
    frame_p99: Duration,
    key_p99: Duration,
}

fn measure(ports: i64, frames: usize) -> Measured {
    let mut world = World::busy();
    world.steps = steps(ports);
    let total = u64::try_from(ports).unwrap() + 2;
    world.deletions[0] = deletion(1, DeletionState::Running, total / 3, total);
    let mut desk = Desk::new(world, (COLUMNS, ROWS));
    // Into the tree, onto the folded line, and open it.
    desk.press("enter home down down enter");
    let mut frame_times = Vec::with_capacity(frames);
    let mut key_times = Vec::with_capacity(frames);
    let mut before = Buffer::empty(Rect::new(0, 0, COLUMNS, ROWS));
    for n in 0..frames {
        let start = Instant::now();
        desk.press(["down", "pgdn", "up", "end", "home"][n % 5]);
        key_times.push(start.elapsed());
        let start = Instant::now();
        let mut frame = Buffer::empty(Rect::new(0, 0, COLUMNS, ROWS));
        render(&desk.state, &mut frame);
        let changed = before.diff_iter(&frame).count();
        frame_times.push(start.elapsed());
        assert!(changed > 0, "frame {n} shows nothing new");
        before = frame;
    }
    frame_times.sort_unstable();
    key_times.sort_unstable();
    Measured {
        frame_p50: frame_times[frames / 2],
        frame_p99: frame_times[frames * 99 / 100],
        key_p99: key_times[frames * 99 / 100],
    }
}

fn main() {
    let smoke = std::env::args().any(|argument| argument == "--smoke");
    let frames = if smoke { 50 } else { 5_000 };
    let many = if smoke { 10_000 } else { 100_000 };
    // Once unmeasured, so that neither pays for cold caches.
    measure(100, frames);
    let small = measure(100, frames);
    let large = measure(many, frames);
    let ratio = large.frame_p50.as_secs_f64() / small.frame_p50.as_secs_f64();
    for (steps, m) in [(100, &small), (many, &large)] {
        println!(
            "{steps:>7} steps: frame p50 {:?} p99 {:?}, key p99 {:?}",
            m.frame_p50, m.frame_p99, m.key_p99
        );
    }
    println!("ratio of p50: {ratio:.2} (at most {RATIO_MAX})");
    if !smoke {
        let p99 = large.frame_p99;
        assert!(ratio <= RATIO_MAX, "a frame depends on the number of steps");
        assert!(p99 <= P99_MAX, "p99 of a frame is {p99:?}");
    }
}
