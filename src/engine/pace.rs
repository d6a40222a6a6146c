//! Limits the calls a second to a site, once the site has said that it was sent too many calls.
//!
//! Providers limit calls by the second (10 or 20), and answer 429 to further calls. Fewer calls in flight would
//! not help: with one call in flight, a quick cloud still gets too many calls a second, and a slow cloud gets
//! too few.
//!
//! 1. Nothing is paced until the first refusal. From then on calls are sent evenly, at the rate of good
//!    answers until then, and the rate grows fast, because there may have been few answers.
//! 2. From the second refusal on, the rate is known. It drops a little, or to the rate of good answers, and
//!    grows slowly, so that few calls in a hundred are refused.
//! 3. Refusals of calls that were already in flight at an earlier refusal count as that refusal.
//!
//! A cloud may ask for a pause of a second after each refusal, although its limiter saves up fewer calls than it
//! allows in a second. The calls that are not saved up are lost, so the limit of that cloud cannot be used up.

use std::collections::VecDeque;
use std::time::Duration;

use tokio::time::Instant;

/// Window in which good answers are counted.
const COUNTED_FOR: Duration = Duration::from_secs(2);
const COUNTED_MIN: Duration = Duration::from_millis(500);
/// Maximum number of answers that are counted: more than any cloud was observed to give in this window.
const COUNTED_MAX: usize = 1_000;
/// Factors by which the rate grows each second: until the second refusal, and from then on.
const GROWTH_FIRST: f64 = 3.0;
const GROWTH: f64 = 1.04;
/// The rate after a refusal, as a factor of the rate before, is at most `BACK` and at least `BACK_MOST`.
/// Between these two it is the rate of good answers.
const BACK: f64 = 0.9;
const BACK_MOST: f64 = 0.6;
/// Lowest rate, in calls a second.
const RATE_MIN: f64 = 1.0;
/// Above this rate, in calls a second, pacing ends, because the concurrency limit allows no more calls.
const RATE_MAX: f64 = 1_000.0;

#[derive(Debug, Default)]
pub(super) struct Pace {
    at: Option<Known>,
    /// When the last good answers arrived, the newest last.
    answers: VecDeque<Instant>,
}

#[derive(Clone, Copy, Debug)]
struct Known {
    /// Number of calls that may be sent a second.
    rate: f64,
    growth: f64,
    next: Instant,
    /// Refusals of calls that were sent before this time belong to the same overload.
    since: Instant,
}

impl Pace {
    /// Returns when the next call may be sent. None means at once.
    pub(super) fn next(&self) -> Option<Instant> {
        self.at.map(|at| at.next)
    }

    /// Returns the number of calls a second; none if the site is not paced.
    pub(super) fn rate(&self) -> Option<f64> {
        self.at.map(|at| at.rate)
    }

    pub(super) fn sent(&mut self, now: Instant) {
        if let Some(at) = &mut self.at {
            at.next = now + apart(at.rate);
        }
    }

    /// Records a good answer.
    pub(super) fn answered(&mut self, now: Instant) {
        self.answers.push_back(now);
        if self.answers.len() > COUNTED_MAX {
            self.answers.pop_front();
        }
        if let Some(at) = &mut self.at {
            // Each answer stands for the time between two answers.
            at.rate *= at.growth.powf(at.rate.recip());
        }
        if self.at.is_some_and(|at| at.rate > RATE_MAX) {
            self.at = None;
        }
    }

    /// Records that a call which was sent at that time exceeded the limit.
    pub(super) fn refused(&mut self, sent: Instant, now: Instant) {
        if self.at.is_some_and(|at| sent < at.since) {
            return;
        }
        let answered = self.answered_a_second(now);
        let (rate, growth) = match self.at {
            Some(at) => {
                let least = at.rate * BACK_MOST;
                (least.max(answered).min(at.rate * BACK), GROWTH)
            }
            None => (answered, GROWTH_FIRST),
        };
        let rate = rate.max(RATE_MIN);
        self.at = Some(Known {
            rate,
            growth,
            next: now + apart(rate),
            since: now,
        });
    }

    fn answered_a_second(&self, now: Instant) -> f64 {
        let recent = self.answers.iter().rev();
        let recent = recent.map(|at| now - *at);
        let ages: Vec<Duration> = recent.take_while(|age| *age <= COUNTED_FOR).collect();
        let span = ages.last().copied().unwrap_or_default().max(COUNTED_MIN);
        ages.len() as f64 / span.as_secs_f64()
    }
}

fn apart(rate: f64) -> Duration {
    Duration::from_secs_f64(rate.recip())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A token bucket, as providers use it.
    struct Limiter {
        tokens: f64,
        burst: f64,
        per_second: f64,
        at: Instant,
    }

    impl Limiter {
        fn takes(&mut self, now: Instant) -> bool {
            let passed = (now - self.at).as_secs_f64();
            self.tokens = (self.tokens + passed * self.per_second).min(self.burst);
            self.at = now;
            let takes = self.tokens >= 1.0;
            self.tokens -= f64::from(u8::from(takes));
            takes
        }
    }

    /// Makes this number of calls, each of which takes 50 ms, eight at a time. Returns the duration, and how many
    /// calls were refused.
    fn run(calls: u32, per_second: f64, burst: f64, retry_after: Duration) -> (Duration, u32) {
        let began = Instant::now();
        let mut limiter = Limiter {
            tokens: burst,
            burst,
            per_second,
            at: began,
        };
        let mut pace = Pace::default();
        let (mut now, mut closed) = (began, began);
        // For each call in flight: when it is answered, when it was sent, and whether the limiter accepted
        // it.
        let mut in_flight: Vec<(Instant, Instant, bool)> = Vec::new();
        let (mut left, mut refused) = (calls, 0);
        while left > 0 || !in_flight.is_empty() {
            let opens = closed.max(pace.next().unwrap_or(now));
            if left > 0 && in_flight.len() < 8 && opens <= now {
                let taken = limiter.takes(now);
                in_flight.push((now + Duration::from_millis(50), now, taken));
                pace.sent(now);
                left -= 1;
                continue;
            }
            let answer = in_flight.iter().map(|(at, ..)| *at).min();
            let may_send = left > 0 && in_flight.len() < 8;
            let next = answer.into_iter().chain(may_send.then_some(opens)).min();
            now = next.unwrap_or(now);
            let (done, still): (Vec<_>, Vec<_>) =
                in_flight.into_iter().partition(|(at, ..)| *at <= now);
            in_flight = still;
            for (_, sent, taken) in done {
                if taken {
                    pace.answered(now);
                } else {
                    (refused, left) = (refused + 1, left + 1);
                    closed = closed.max(now + retry_after);
                    pace.refused(sent, now);
                }
            }
        }
        (now - began, refused)
    }

    #[test]
    fn n16_a_rate_limit_is_almost_fully_used_and_rarely_exceeded() {
        let mut missed = Vec::new();
        for (per_second, burst) in [(10.0, 10.0), (10.0, 15.0), (20.0, 20.0)] {
            for retry_after in [Duration::ZERO, Duration::from_secs(1)] {
                for calls in [200, 600] {
                    let (took, refused) = run(calls, per_second, burst, retry_after);
                    let ideal = (f64::from(calls) - burst) / per_second;
                    let ratio = took.as_secs_f64() / ideal;
                    let words = format!("{calls} calls, {per_second}/s, {burst}, {retry_after:?}");
                    if ratio > 1.1 || refused * 10 > calls + refused {
                        missed.push(format!(
                            "{words}: {ratio:.2} of the time, {refused} refused"
                        ));
                    }
                }
            }
        }
        assert!(missed.is_empty(), "{missed:#?}");
    }

    #[test]
    fn n16_pacing_ends_when_the_rate_limit_is_lifted() {
        let mut pace = Pace::default();
        let mut now = Instant::now();
        pace.answered(now);
        pace.refused(now, now);
        assert!(pace.next().is_some());
        for _ in 0..1_000_000 {
            now += apart(pace.rate().unwrap_or(RATE_MAX));
            pace.answered(now);
        }
        assert_eq!(pace.next(), None);
    }
}
