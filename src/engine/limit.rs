//! How many calls a site may have in flight: as many as bring more, and no more.
//!
//! 1. It starts at `concurrency` and doubles, up to `concurrency_max`, while that brings at least
//!    [`GAIN_MIN`] times as much a second; then the cloud is full, and it goes back to what brought
//!    the same with less.
//! 2. Throttling, 5xx and silence halve it at once; it grows back by one for each
//!    [`GROW_AFTER`] good answers.
//! 3. A cloud changes: after [`SEARCH_AGAIN`] good answers it is tried again whether more brings more.
//!
//! Only answers count that came while the limit was in use: three calls say nothing of sixteen.

use std::time::Duration;

/// Twice the calls must bring this many times as much; less is noise, or a queue in the cloud. A real
/// Neutron on two cores brought 1.05 to 1.25 times as much from 8 to 16.
const GAIN_MIN: f64 = 1.05;
/// So clear a gain needs no second look.
const GAIN_CLEAR: f64 = 1.3;
/// A mean is taken over this many answers for each call in flight, or over one where that is clear;
/// after as many that are left out: those were sent under the limit before. Single answers of a real
/// Neutron differ by half, so that three rounds of eight could not tell 1.0 from 1.1.
const ROUNDS: u32 = 6;
/// Good answers after which a lowered limit grows by one.
const GROW_AFTER: u32 = 16;
/// Good answers after which a settled limit is questioned: about 1 in 10 of them is spent on that.
const SEARCH_AGAIN: u32 = 2_000;

#[derive(Clone, Debug)]
pub(super) struct Limit {
    now: usize,
    max: usize,
    phase: Phase,
    /// Answers since the limit or the phase last changed.
    answers: u32,
    /// What those took together that count for the mean.
    took: Duration,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Phase {
    /// With what the limit before brought a second; none at the first.
    Search(Option<(usize, f64)>),
    Settled,
    /// After an overload, on the way back to this.
    Regain(usize),
}

impl Limit {
    pub(super) fn new(start: usize, max: usize) -> Self {
        Self {
            now: start,
            max: max.max(start),
            phase: Phase::Search(None),
            answers: 0,
            took: Duration::ZERO,
        }
    }

    pub(super) fn now(&self) -> usize {
        self.now
    }

    /// The site was overloaded or silent.
    pub(super) fn overloaded(&mut self) {
        let goal = match self.phase {
            Phase::Regain(goal) => goal,
            Phase::Search(Some((before, _))) => before,
            Phase::Search(None) | Phase::Settled => self.now,
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
                if self.answers >= SEARCH_AGAIN {
                    self.enter(Phase::Search(None), self.now);
                }
            }
            Phase::Search(before) if in_flight * 2 > self.now => self.measure(before, took),
            Phase::Search(_) => {}
        }
    }

    fn measure(&mut self, before: Option<(usize, f64)>, took: Duration) {
        let window = u32::try_from(self.now).unwrap_or(u32::MAX);
        self.answers += 1;
        if self.answers <= window {
            return;
        }
        self.took += took;
        let counted = self.answers - window;
        if !counted.is_multiple_of(window) {
            return;
        }
        let mean = self.took.as_secs_f64() / f64::from(counted);
        // Faster than any clock tells: more cannot be shown to bring more, and does no harm.
        let rate = self.now as f64 / mean.max(1e-6);
        let gains = |wanted: f64| {
            before.is_none_or(|(smaller, brought)| {
                rate >= brought * gain_wanted(wanted, smaller, self.now)
            })
        };
        let clear = before.is_some() && gains(GAIN_CLEAR);
        if !clear && counted < window.saturating_mul(ROUNDS) {
            return;
        }
        match before {
            Some((smaller, _)) if !gains(GAIN_MIN) => self.enter(Phase::Settled, smaller),
            _ if self.now >= self.max => self.enter(Phase::Settled, self.now),
            _ => {
                let doubled = (self.now * 2).min(self.max);
                self.enter(Phase::Search(Some((self.now, rate))), doubled);
            }
        }
    }

    fn enter(&mut self, phase: Phase, limit: usize) {
        self.phase = phase;
        self.now = limit;
        self.answers = 0;
        self.took = Duration::ZERO;
    }
}

/// What the ceiling cut short need not bring as much as a whole doubling.
fn gain_wanted(doubled: f64, smaller: usize, larger: usize) -> f64 {
    1.0 + (doubled - 1.0) * (larger - smaller) as f64 / smaller as f64
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
            serve(&mut limit, workers, 1_000);
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
        serve(&mut limit, 32, 1_000);
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
        serve(&mut limit, 8, 1_000);
        assert_eq!(limit.now(), 8);
        serve(&mut limit, 64, SEARCH_AGAIN + 1_000);
        assert_eq!(limit.now(), 64);
    }
}
