//! Finds how many calls a site may have in flight: as many as raise the throughput, and no more.
//!
//! 1. The limit starts at `concurrency` and is compared with twice as many calls, up to `concurrency_max`.
//!    While twice as many bring at least [`GAIN_MIN`] times as many answers a second, the limit doubles.
//!    Otherwise the cloud is full, and the lower limit stays.
//! 2. The two limits alternate, because a cloud's speed changes by itself within seconds, and a single
//!    comparison would take such a change for a gain. A result far from the threshold is believed at once.
//!    While more calls seem to bring nothing, the lower limit serves [`REST`] answers between two of its periods.
//!    The time between answers is measured, and not the duration of each call: the first calls into an empty
//!    queue are answered soonest, and that speed does not last.
//! 3. An overload (the service is unavailable or cannot be reached) halves the limit at once. The limit then grows
//!    back by one for each [`GROW_AFTER`] good answers.
//! 4. A cloud changes. After [`COMPARE_AGAIN`] good answers the limit is compared again, starting with half
//!    as many calls, though not with fewer than `concurrency`.
//!
//! A period counts if on average at least half of its limit was in use: three calls in flight say nothing about
//! a limit of sixteen. The average in flight is the total duration of the calls divided by the time that passed.

use std::time::Duration;

use tokio::time::Instant;

/// Factor by which twice the calls must raise the rate. A smaller gain is noise, or a queue in the cloud. On
/// a real Neutron with two cores, 16 calls brought 0.9 to 1.25 times the rate of 8, and more calls brought
/// nothing.
const GAIN_MIN: f64 = 1.1;
/// A gain that exceeds [`GAIN_MIN`] by this much is believed after one period of each limit. A gain that exceeds it by
/// half as much is believed after four periods: single answers of a real Neutron differ by half.
const MARGIN: f64 = 0.4;
/// As [`MARGIN`], for a gain below [`GAIN_MIN`]. This margin is smaller, because each period with too many calls
/// costs speed (a real Neutron with two cores lost a tenth), while a gain that is missed is found later.
const MARGIN_BELOW: f64 = 0.3;
/// Number of periods of each limit after which the gain is believed as it is.
const PERIODS: u32 = 8;
/// While a comparison shows no gain, it rests for this number of answers, with fewer calls in flight. Too many calls
/// cost speed: a real Neutron with two cores spends more time on each of 16 calls than on each of 8.
const REST: u32 = 100;
/// Number of good answers after which a lowered limit grows by one.
const GROW_AFTER: u32 = 16;
/// Number of good answers after which a settled limit is compared again.
const COMPARE_AGAIN: u32 = 10_000;

#[derive(Clone, Debug)]
pub(super) struct Limit {
    now: usize,
    start: usize,
    max: usize,
    phase: Phase,
    /// Number of good answers since the limit, the phase or the period of a comparison last changed.
    answers: u32,
}

#[derive(Clone, Copy, Debug)]
enum Phase {
    Compare(Compare),
    Settled,
    /// The limit grows back to this number of calls after an overload.
    Regain(usize),
}

/// The comparison of two limits that alternate.
#[derive(Clone, Copy, Debug)]
struct Compare {
    fewer: Measured,
    more: Measured,
    /// Number of answers of this period that do not count, because their calls were sent under the other limit.
    skipped: u32,
    /// When the last answer of this period that does not count arrived.
    since: Option<Instant>,
    /// Total duration of this period's calls that count.
    took: Duration,
}

/// The measurements of one limit.
#[derive(Clone, Copy, Debug)]
struct Measured {
    calls: usize,
    periods: u32,
    /// Mean time between two answers within each period, summed over the periods.
    between: Duration,
}

impl Measured {
    fn new(calls: usize) -> Self {
        Self {
            calls,
            periods: 0,
            between: Duration::ZERO,
        }
    }

    /// Gives an earlier measurement the weight of one period.
    fn as_one_period(self) -> Self {
        Self {
            periods: 1,
            between: self.between / self.periods.max(1),
            ..self
        }
    }

    /// Returns the number of answers a second.
    fn rate(&self) -> f64 {
        // A rate beyond the clock's resolution cannot be shown to rise.
        f64::from(self.periods) / self.between.as_secs_f64().max(1e-9)
    }
}

impl Limit {
    pub(super) fn new(start: usize, max: usize) -> Self {
        let mut limit = Self {
            now: start,
            start,
            max: max.max(start),
            phase: Phase::Settled,
            answers: 0,
        };
        limit.compare(Measured::new(start), count(start));
        limit
    }

    pub(super) fn now(&self) -> usize {
        self.now
    }

    /// Halves the limit: the site is overloaded or cannot be reached.
    pub(super) fn overloaded(&mut self) {
        let goal = match self.phase {
            Phase::Regain(goal) => goal,
            Phase::Compare(compare) => compare.fewer.calls,
            Phase::Settled => self.now,
        };
        self.enter(Phase::Regain(goal), (self.now / 2).max(1));
    }

    /// Records a good answer.
    pub(super) fn answered(&mut self, now: Instant, took: Duration) {
        match self.phase {
            Phase::Regain(goal) => {
                self.answers += 1;
                if self.now >= goal {
                    self.enter(Phase::Settled, self.now);
                } else if self.answers >= GROW_AFTER {
                    self.enter(self.phase, self.now + 1);
                }
            }
            Phase::Settled => {
                self.answers += 1;
                if self.answers >= COMPARE_AGAIN {
                    let in_flight = count(self.now);
                    self.compare(Measured::new((self.now / 2).max(self.start)), in_flight);
                }
            }
            Phase::Compare(compare) => self.measure(compare, now, took),
        }
    }

    /// Starts a comparison with twice as many calls, after this number of answers that do not count. If the maximum
    /// allows no more calls, the limit stays instead.
    fn compare(&mut self, fewer: Measured, skipped: u32) {
        let more = Measured::new((fewer.calls * 2).min(self.max));
        let period_of = if fewer.periods == 0 { &fewer } else { &more }.calls;
        if more.calls <= fewer.calls {
            self.enter(Phase::Settled, fewer.calls);
            return;
        }
        let compare = Compare {
            fewer,
            more,
            skipped,
            since: None,
            took: Duration::ZERO,
        };
        self.enter(Phase::Compare(compare), period_of);
    }

    fn measure(&mut self, mut compare: Compare, now: Instant, took: Duration) {
        self.answers += 1;
        if self.answers <= compare.skipped {
            compare.since = Some(now);
            compare.took = Duration::ZERO;
        } else {
            compare.took += took;
        }
        let counted = self.answers.saturating_sub(compare.skipped);
        let length = count(compare.more.calls);
        if counted < length {
            self.phase = Phase::Compare(compare);
            return;
        }
        let passed = compare.since.map_or(Duration::ZERO, |since| now - since);
        let skipped = count(self.now);
        if compare.took * 2 < passed * skipped {
            self.enter(Phase::Compare(Compare { skipped, ..compare }), self.now);
            return;
        }
        let is_more = self.now == compare.more.calls;
        let measured = match is_more {
            true => &mut compare.more,
            false => &mut compare.fewer,
        };
        measured.between += passed / length;
        measured.periods += 1;
        compare.skipped = skipped;
        let Compare { fewer, more, .. } = compare;
        if !is_more {
            self.enter(Phase::Compare(compare), more.calls);
            return;
        }
        let doubt = match more.periods {
            PERIODS.. => 0.0,
            periods => f64::from(periods).sqrt().recip(),
        };
        let gains = |wanted| more.rate() >= fewer.rate() * gain_wanted(wanted, &compare);
        if gains(GAIN_MIN + MARGIN * doubt) {
            self.compare(more.as_one_period(), count(more.calls));
        } else if !gains(GAIN_MIN - MARGIN_BELOW * doubt) || more.periods >= PERIODS {
            self.enter(Phase::Settled, fewer.calls);
        } else {
            if !gains(GAIN_MIN) {
                compare.skipped += REST;
            }
            self.enter(Phase::Compare(compare), fewer.calls);
        }
    }

    fn enter(&mut self, phase: Phase, limit: usize) {
        self.phase = phase;
        self.now = limit;
        self.answers = 0;
    }
}

fn count(calls: usize) -> u32 {
    u32::try_from(calls).unwrap_or(u32::MAX)
}

/// Returns the required gain. A limit that the maximum cuts short need not bring as much as a whole doubling.
fn gain_wanted(doubled: f64, compare: &Compare) -> f64 {
    let (fewer, more) = (compare.fewer.calls as f64, compare.more.calls as f64);
    1.0 + (doubled - 1.0) * (more - fewer) / fewer
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::cmp::Reverse;
    use std::collections::{BinaryHeap, VecDeque};

    use super::*;

    /// A cloud with this number of workers. Calls beyond that number wait in its queue.
    struct Cloud {
        workers: usize,
        /// For each worker's call: when it ends, and when it was sent.
        ends: BinaryHeap<Reverse<(Duration, Duration)>>,
        /// When the queued calls were sent.
        queued: VecDeque<Duration>,
        began: Instant,
        now: Duration,
        /// None: a call takes 50 ms. Otherwise the durations of calls differ by as much as 70 %, and swing by
        /// a third within seconds.
        random: Option<fastrand::Rng>,
    }

    impl Cloud {
        fn of(workers: usize) -> Self {
            Self {
                workers,
                ends: BinaryHeap::new(),
                queued: VecDeque::new(),
                began: Instant::now(),
                now: Duration::ZERO,
                random: None,
            }
        }

        fn of_varying_speed(workers: usize, seed: u64) -> Self {
            let random = Some(fastrand::Rng::with_seed(seed));
            let cloud = Self::of(workers);
            Self { random, ..cloud }
        }

        fn work(&mut self, sent: Duration) {
            let takes = match &mut self.random {
                Some(random) => {
                    let swing = 1.0 + 0.33 * (self.now.as_secs_f64() / 5.0).sin();
                    Duration::from_secs_f64(swing * (0.3 + 1.4 * random.f64()))
                }
                None => Duration::from_millis(50),
            };
            self.ends.push(Reverse((self.now + takes, sent)));
        }

        fn serve(&mut self, limit: &mut Limit, answers: u32) {
            for _ in 0..answers {
                while self.ends.len() + self.queued.len() < limit.now() {
                    self.queued.push_back(self.now);
                    self.take_up();
                }
                let Reverse((ended, sent)) = self.ends.pop().unwrap();
                self.now = ended;
                self.take_up();
                limit.answered(self.began + self.now, ended - sent);
            }
        }

        fn take_up(&mut self) {
            while self.ends.len() < self.workers
                && let Some(sent) = self.queued.pop_front()
            {
                self.work(sent);
            }
        }
    }

    #[test]
    fn the_limit_doubles_while_throughput_grows_and_falls_back_when_the_cloud_is_full() {
        for (workers, expected) in [(1, 8), (8, 8), (16, 16), (32, 32), (64, 64), (500, 64)] {
            let mut limit = Limit::new(8, 64);
            Cloud::of(workers).serve(&mut limit, 3_000);
            assert_eq!(limit.now(), expected, "{workers} workers");
        }
    }

    #[test]
    fn a_comparison_that_shows_no_gain_rests_with_the_lower_limit() {
        let mut limit = Limit::new(8, 64);
        let mut cloud = Cloud::of(8);
        let mut limits = Vec::new();
        for _ in 0..1_000 {
            cloud.serve(&mut limit, 1);
            limits.push(limit.now());
        }
        let periods: Vec<_> = limits.chunk_by(|a, b| a == b).collect();
        assert!(periods.len() > 5, "{} periods", periods.len());
        // The first period of 8 calls is before any comparison, and the last period may not have ended.
        for period in &periods[1..periods.len() - 1] {
            let is_rest = u32::try_from(period.len()).unwrap() >= REST;
            assert_eq!(is_rest, period[0] == 8, "{period:?}");
        }
    }

    #[test]
    fn the_limit_never_exceeds_its_maximum() {
        let mut limit = Limit::new(8, 20);
        let mut cloud = Cloud::of(500);
        for _ in 0..10_000 {
            cloud.serve(&mut limit, 1);
            assert!(limit.now() <= 20);
        }
        assert_eq!(limit.now(), 20);
        let mut fixed = Limit::new(1, 1);
        Cloud::of(500).serve(&mut fixed, 10_000);
        assert_eq!(fixed.now(), 1);
    }

    #[test]
    fn the_limit_does_not_grow_while_fewer_calls_are_in_flight_than_it_allows() {
        let mut limit = Limit::new(8, 64);
        let began = Instant::now();
        for answer in 0..10_000 {
            let took = Duration::from_millis(3);
            limit.answered(began + Duration::from_millis(answer), took);
        }
        assert_eq!(limit.now(), 8);
    }

    #[test]
    fn an_overload_halves_the_limit_and_it_grows_back() {
        let mut limit = Limit::new(8, 64);
        let mut cloud = Cloud::of(32);
        cloud.serve(&mut limit, 3_000);
        assert_eq!(limit.now(), 32);
        limit.overloaded();
        limit.overloaded();
        assert_eq!(limit.now(), 8);
        cloud.serve(&mut limit, GROW_AFTER);
        assert_eq!(limit.now(), 9);
        cloud.serve(&mut limit, GROW_AFTER * 23 + 1);
        assert_eq!(limit.now(), 32);
        for _ in 0..10 {
            limit.overloaded();
        }
        assert_eq!(limit.now(), 1);
    }

    #[test]
    fn the_limit_rises_when_the_cloud_gains_workers() {
        let mut limit = Limit::new(8, 64);
        let mut cloud = Cloud::of(8);
        cloud.serve(&mut limit, 3_000);
        assert_eq!(limit.now(), 8);
        cloud.workers = 64;
        cloud.serve(&mut limit, COMPARE_AGAIN + 1_000);
        assert_eq!(limit.now(), 64);
    }

    #[test]
    fn the_limit_falls_to_its_start_when_the_cloud_loses_workers() {
        let mut limit = Limit::new(8, 64);
        let mut cloud = Cloud::of(64);
        cloud.serve(&mut limit, 2_000);
        assert_eq!(limit.now(), 64);
        cloud.workers = 4;
        cloud.serve(&mut limit, 4 * (COMPARE_AGAIN + 2_000));
        assert_eq!(limit.now(), 8);
    }

    /// Counts the clouds, out of a hundred with swinging speed, whose final limit is accepted by `like`.
    fn clouds_with(workers: usize, answers: u32, like: impl Fn(usize) -> bool) -> usize {
        let ended = (0..100).map(|seed| {
            let mut limit = Limit::new(8, 64);
            Cloud::of_varying_speed(workers, seed).serve(&mut limit, answers);
            limit.now()
        });
        ended.filter(|now| like(*now)).count()
    }

    #[test]
    fn a_queue_in_a_cloud_of_varying_speed_is_rarely_taken_for_a_gain() {
        let overfilled = clouds_with(8, 1_500, |limit| limit > 8);
        assert!(overfilled <= 10, "{overfilled} of 100");
    }

    #[test]
    fn a_gain_of_a_quarter_is_usually_found_in_a_cloud_of_varying_speed() {
        let underfilled = clouds_with(10, 1_500, |limit| limit < 16);
        assert!(underfilled <= 10, "{underfilled} of 100");
    }
}
