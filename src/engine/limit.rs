//! How many calls a site may have in flight: as many as bring more, and no more.
//!
//! 1. It starts at `concurrency`, and is compared with twice as many, up to `concurrency_max`: while
//!    these bring at least [`GAIN_MIN`] times as much a second it doubles; else the cloud is full, and
//!    it stays with the fewer.
//! 2. The two are tried in turns: a cloud's speed changes by itself within seconds, and what came one
//!    after the other would take that for a gain. What is far from it either way is believed at once.
//! 3. Throttling, 5xx and silence halve it at once; it grows back by one for each [`GROW_AFTER`] good
//!    answers.
//! 4. A cloud changes: after [`COMPARE_AGAIN`] good answers it is compared again, with half as many
//!    first, though not with fewer than it started with.
//!
//! Only answers count that came while the limit was in use: three calls say nothing of sixteen.

use std::time::Duration;

/// Twice the calls must bring this many times as much; less is noise, or a queue in the cloud. A real
/// Neutron on two cores brought 0.9 to 1.25 times as much from 8 to 16, and nothing after that.
const GAIN_MIN: f64 = 1.1;
/// After one turn each, a gain is believed that is so far from [`GAIN_MIN`], after four one that is half
/// as far: single answers of a real Neutron differ by half.
const MARGIN: f64 = 0.2;
/// After so many turns each, the gain is believed as it is.
const TURNS: u32 = 6;
/// Good answers after which a lowered limit grows by one.
const GROW_AFTER: u32 = 16;
/// Good answers after which a settled limit is questioned.
const COMPARE_AGAIN: u32 = 10_000;

#[derive(Clone, Debug)]
pub(super) struct Limit {
    now: usize,
    start: usize,
    max: usize,
    phase: Phase,
    /// Good answers since the limit or the phase last changed.
    answers: u32,
}

#[derive(Clone, Copy, Debug)]
enum Phase {
    Compare(Compare),
    Settled,
    /// After an overload, on the way back to this.
    Regain(usize),
}

/// Two limits, in turns.
#[derive(Clone, Copy, Debug)]
struct Compare {
    fewer: Tried,
    more: Tried,
    /// Answers of this turn that do not count: those calls were sent under the other limit.
    skipped: u32,
}

#[derive(Clone, Copy, Debug)]
struct Tried {
    calls: usize,
    turns: u32,
    /// What each of its answers took, together.
    took: Duration,
}

impl Tried {
    fn new(calls: usize) -> Self {
        Self {
            calls,
            turns: 0,
            took: Duration::ZERO,
        }
    }

    /// What was seen at another time weighs as much as one turn.
    fn as_one_turn(self) -> Self {
        Self {
            turns: 1,
            took: self.took / self.turns.max(1),
            ..self
        }
    }

    /// Answers a second.
    fn rate(&self) -> f64 {
        let answers = self.calls as f64 * f64::from(self.turns);
        // Faster than any clock tells: more cannot be shown to bring more, and does no harm.
        let mean = (self.took.as_secs_f64() / answers).max(1e-6);
        self.calls as f64 / mean
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
        limit.compare(Tried::new(start), 0);
        limit
    }

    pub(super) fn now(&self) -> usize {
        self.now
    }

    /// The site was overloaded or silent.
    pub(super) fn overloaded(&mut self) {
        let goal = match self.phase {
            Phase::Regain(goal) => goal,
            Phase::Compare(compare) => compare.fewer.calls,
            Phase::Settled => self.now,
        };
        self.enter(Phase::Regain(goal), (self.now / 2).max(1));
    }

    /// A call was answered well; `in_flight` counts it too.
    pub(super) fn answered(&mut self, took: Duration, in_flight: usize) {
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
                    self.compare(Tried::new((self.now / 2).max(self.start)), in_flight);
                }
            }
            Phase::Compare(compare) if in_flight * 2 > self.now => self.measure(compare, took),
            Phase::Compare(_) => {}
        }
    }

    /// Compares with twice as many, after so many answers that do not count.
    fn compare(&mut self, fewer: Tried, skipped: u32) {
        let more = Tried::new((fewer.calls * 2).min(self.max));
        let turn_of = if fewer.turns == 0 { &fewer } else { &more }.calls;
        if more.calls <= fewer.calls {
            self.enter(Phase::Settled, fewer.calls);
            return;
        }
        let compare = Compare {
            fewer,
            more,
            skipped,
        };
        self.enter(Phase::Compare(compare), turn_of);
    }

    fn measure(&mut self, mut compare: Compare, took: Duration) {
        self.answers += 1;
        if self.answers <= compare.skipped {
            return;
        }
        let is_more = self.now == compare.more.calls;
        let tried = match is_more {
            true => &mut compare.more,
            false => &mut compare.fewer,
        };
        tried.took += took;
        if self.answers - compare.skipped < count(self.now) {
            self.phase = Phase::Compare(compare);
            return;
        }
        tried.turns += 1;
        compare.skipped = count(self.now);
        let Compare { fewer, more, .. } = compare;
        if !is_more {
            self.enter(Phase::Compare(compare), more.calls);
            return;
        }
        let margin = match more.turns {
            TURNS.. => 0.0,
            turns => MARGIN / f64::from(turns).sqrt(),
        };
        let gains = |wanted| more.rate() >= fewer.rate() * gain_wanted(wanted, &compare);
        if gains(GAIN_MIN + margin) {
            self.compare(more.as_one_turn(), count(more.calls));
        } else if !gains(GAIN_MIN - margin) || more.turns >= TURNS {
            self.enter(Phase::Settled, fewer.calls);
        } else {
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

/// What the ceiling cut short need not bring as much as a whole doubling.
fn gain_wanted(doubled: f64, compare: &Compare) -> f64 {
    let (fewer, more) = (compare.fewer.calls as f64, compare.more.calls as f64);
    1.0 + (doubled - 1.0) * (more - fewer) / fewer
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    /// A cloud with so many workers, each at a call for so long; all else waits in its queue.
    fn serve(limit: &mut Limit, workers: usize, answers: u32) {
        for _ in 0..answers {
            let calls = limit.now();
            let took = Duration::from_millis(50) * u32::try_from(calls.div_ceil(workers)).unwrap();
            limit.answered(took, calls);
        }
    }

    #[test]
    fn it_doubles_while_more_brings_more_and_goes_back_when_the_cloud_is_full() {
        for (workers, settled) in [(1, 8), (8, 8), (16, 16), (32, 32), (64, 64), (500, 64)] {
            let mut limit = Limit::new(8, 64);
            serve(&mut limit, workers, 3_000);
            assert_eq!(limit.now(), settled, "{workers} workers");
        }
    }

    #[test]
    fn the_ceiling_is_never_passed() {
        let mut limit = Limit::new(8, 20);
        for _ in 0..10_000 {
            serve(&mut limit, 500, 1);
            assert!(limit.now() <= 20);
        }
        assert_eq!(limit.now(), 20);
        let mut fixed = Limit::new(1, 1);
        serve(&mut fixed, 500, 10_000);
        assert_eq!(fixed.now(), 1);
    }

    #[test]
    fn few_calls_say_nothing_of_many() {
        let mut limit = Limit::new(8, 64);
        for _ in 0..10_000 {
            limit.answered(Duration::from_millis(1), 3);
        }
        assert_eq!(limit.now(), 8);
    }

    #[test]
    fn an_overload_halves_it_and_it_grows_back_to_where_it_was() {
        let mut limit = Limit::new(8, 64);
        serve(&mut limit, 32, 3_000);
        assert_eq!(limit.now(), 32);
        limit.overloaded();
        limit.overloaded();
        assert_eq!(limit.now(), 8);
        serve(&mut limit, 32, GROW_AFTER);
        assert_eq!(limit.now(), 9);
        serve(&mut limit, 32, GROW_AFTER * 23 + 1);
        assert_eq!(limit.now(), 32);
        for _ in 0..10 {
            limit.overloaded();
        }
        assert_eq!(limit.now(), 1);
    }

    #[test]
    fn a_cloud_that_grew_is_found_out() {
        let mut limit = Limit::new(8, 64);
        serve(&mut limit, 8, 3_000);
        assert_eq!(limit.now(), 8);
        serve(&mut limit, 64, COMPARE_AGAIN + 1_000);
        assert_eq!(limit.now(), 64);
    }

    #[test]
    fn a_cloud_that_shrank_is_found_out_down_to_the_start() {
        let mut limit = Limit::new(8, 64);
        serve(&mut limit, 64, 2_000);
        assert_eq!(limit.now(), 64);
        serve(&mut limit, 4, 4 * (COMPARE_AGAIN + 2_000));
        assert_eq!(limit.now(), 8);
    }

    /// Its speed swings by a third within seconds, and single answers by half: no queue in it is
    /// taken for a gain.
    #[test]
    fn a_cloud_that_swings_is_not_overfilled() {
        let overfilled = (0..100).filter(|seed| {
            let mut random = fastrand::Rng::with_seed(*seed);
            let mut limit = Limit::new(8, 64);
            let mut elapsed = 0.0_f64;
            for _ in 0..1_500 {
                let calls = limit.now();
                let swing = 1.0 + 0.33 * (elapsed / 5.0).sin();
                let mean = 0.8 * calls as f64 / 8.0 * swing;
                let took = mean * (0.5 + random.f64());
                elapsed += mean / calls as f64;
                limit.answered(Duration::from_secs_f64(took), calls);
            }
            limit.now() > 8
        });
        let overfilled = overfilled.count();
        assert!(overfilled <= 10, "{overfilled} of 100");
    }
}
