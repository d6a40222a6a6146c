//! The estimated rate and time left of a deletion, compared with simulated deletions whose end is known.

use chrono::{DateTime, TimeDelta, Utc};
use gone::domain::estimate::{self, Outlook};
use gone::domain::model::{Counts, Deletion, DeletionState, Origin};
use gone::ledger::store::Pace;

use super::testkit;

/// A small random number generator; the same seed gives the same numbers.
struct Random(u64);

impl Random {
    /// Returns a number from 0 up to, but not including, 1.
    fn next(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Returns a number of about the standard normal distribution.
    fn normal(&mut self) -> f64 {
        (0..12).map(|_| self.next()).sum::<f64>() - 6.0
    }
}

/// A deletion at a cloud whose speed changes over time.
struct Simulation {
    steps: u64,
    /// Number of calls in flight.
    calls: usize,
    /// Average duration of a call, in seconds.
    latency: f64,
}

fn at(seconds: f64) -> DateTime<Utc> {
    DateTime::UNIX_EPOCH + TimeDelta::milliseconds((seconds * 1000.0) as i64)
}

fn running(counts: Counts, rate_per_second: f64) -> Deletion {
    Deletion {
        counts,
        rate_per_second,
        ..testkit::deletion(
            "d",
            testkit::actor("alice", Origin::Cli),
            DeletionState::Running,
            DateTime::UNIX_EPOCH,
        )
    }
}

impl Simulation {
    /// Runs to the end. Returns the ends of the estimated range and the true time left, in seconds, at each tenth of the
    /// steps from 20 % to 90 %.
    fn run(&self, seed: u64) -> Vec<(u64, u64, f64)> {
        let mut random = Random(seed);
        let mut free = vec![0.0_f64; self.calls];
        let mut pace = Pace::default();
        let mut estimates = Vec::new();
        let mut moved = Vec::new();
        let phase = random.next() * 6.0;
        for step in 0..self.steps {
            // The last three calls wait for all calls before them, one after the other.
            let is_alone = step + 3 >= self.steps;
            let latest = free.iter().copied().fold(0.0, f64::max);
            let call = if is_alone { 0 } else { first_free(&free) };
            let from = if is_alone { latest + 2.0 } else { free[call] };
            let speed = 1.0 + 0.25 * (from / 40.0 + phase).sin();
            free[call] = from + self.latency * speed * (0.5 * random.normal()).exp();
            moved.push(free[call]);
        }
        moved.sort_by(f64::total_cmp);
        let end = moved.last().copied().unwrap() + 2.0;
        for (done, now) in (0..).zip(moved) {
            pace.moved(done, at(now));
            let counts = Counts {
                gone: done + 1,
                running: self.steps - done - 1,
                total: self.steps,
                ..Counts::default()
            };
            let tenth = (done + 1) * 10 / self.steps;
            if (2..10).contains(&tenth) && estimates.len() as u64 == tenth - 2 {
                let rate = pace.rate_per_second(&counts, at(now));
                let outlook = estimate::outlook(&running(counts, rate));
                let Some(Outlook::Within { least, most }) = outlook else {
                    panic!("no estimate at {tenth}0 %");
                };
                estimates.push((least, most, end - now));
            }
        }
        estimates
    }
}

fn first_free(free: &[f64]) -> usize {
    let calls = free.iter().enumerate();
    let first = calls.min_by(|(_, a), (_, b)| a.total_cmp(b));
    first.map_or(0, |(call, _)| call)
}

#[test]
fn the_estimated_range_contains_the_true_time_left_in_nine_of_ten_runs() {
    let runs = 100;
    let mut widest = 0.0_f64;
    for (steps, calls, latency) in [
        (40, 8, 1.0),
        (200, 8, 0.5),
        (200, 4, 3.0),
        (2_000, 8, 0.3),
        (10_000, 16, 0.4),
    ] {
        let simulation = Simulation {
            steps,
            calls,
            latency,
        };
        let mut contained = [0; 8];
        for seed in 0..runs {
            let estimates = simulation.run(seed);
            assert_eq!(estimates.len(), contained.len());
            for (contained, (least, most, truth)) in contained.iter_mut().zip(&estimates) {
                *contained += i32::from(*least as f64 <= *truth && *truth <= *most as f64);
                if *truth > 120.0 {
                    widest = widest.max(*most as f64 / (*least).max(1) as f64);
                }
            }
        }
        for (tenth, contained) in (2..).zip(contained) {
            assert!(
                i64::from(contained) * 10 >= 9 * runs as i64,
                "{steps} steps, at {tenth}0 %: {contained} of {runs}"
            );
        }
    }
    assert!(widest < 5.0, "the range is too wide to be useful: {widest}");
}

#[test]
fn no_estimate_is_given_without_a_rate_with_blocked_steps_or_while_paused() {
    let counts = Counts {
        gone: 50,
        running: 50,
        total: 100,
        ..Counts::default()
    };
    assert!(estimate::outlook(&running(counts, 1.0)).is_some());
    assert_eq!(estimate::outlook(&running(counts, 0.0)), None, "no rate");
    let some_blocked = Counts {
        running: 49,
        blocked: 1,
        ..counts
    };
    assert_eq!(estimate::outlook(&running(some_blocked, 1.0)), None);
    let paused = Deletion {
        state: DeletionState::Paused,
        ..running(counts, 1.0)
    };
    assert_eq!(estimate::outlook(&paused), None);
}

#[test]
fn a_deletion_of_blocked_and_waiting_steps_is_blocked_until_the_next_attempt() {
    let counts = Counts {
        gone: 2,
        blocked: 1,
        waiting: 1,
        total: 4,
        ..Counts::default()
    };
    let mut deletion = running(counts, 0.0);
    assert!(estimate::is_blocked(&deletion));
    assert_eq!(
        estimate::outlook(&deletion),
        None,
        "the end depends on others"
    );
    let next = at(90.0);
    deletion.next_attempt_at = Some(next);
    let outlook = estimate::outlook(&deletion);
    assert_eq!(outlook, Some(Outlook::NextAttempt(next)));
    deletion.counts.ready = 1;
    assert!(!estimate::is_blocked(&deletion));
    deletion.counts.ready = 0;
    deletion.state = DeletionState::Paused;
    assert!(!estimate::is_blocked(&deletion));
}

#[test]
fn the_rate_is_zero_after_a_minute_without_progress() {
    let mut pace = Pace::default();
    let mut counts = Counts {
        running: 100,
        total: 200,
        ..Counts::default()
    };
    assert_eq!(pace.rate_per_second(&counts, at(0.0)), 0.0);
    for second in 0..100 {
        pace.moved(counts.gone, at(f64::from(second)));
        counts.gone += 1;
    }
    let rate = pace.rate_per_second(&counts, at(99.0));
    assert!((0.95..=1.05).contains(&rate), "{rate}");
    assert_eq!(pace.rate_per_second(&counts, at(160.0)), 0.0);
}
