//! For each site, the share of the last hour's calls that made a step blocked or stuck, because the cloud refused the
//! call or failed. It is drawn in equal intervals of some minutes.
//!
//! The engine counts the calls of all deletions. The counts are queried in the background, after the engine has made
//! progress and at most once a minute; a frame draws the last answer.

use chrono::TimeDelta;

use super::kit::*;
use crate::domain::last_hour::{LastHour, MINUTES, minute_end};
use crate::domain::model::Site;
use crate::present::{count, thousands};

/// Shortest time between two queries.
const ASKED_EVERY: TimeDelta = TimeDelta::minutes(1);

/// The numbers of calls to a site in one interval.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Calls {
    answered: u64,
    refused: u64,
}

impl Calls {
    /// The number of calls. If an observation finds that a call of an earlier minute was refused, the refusal counts as
    /// a call of the observation's minute too.
    fn all(self) -> u64 {
        self.answered.max(self.refused)
    }

    /// The share of the calls that were refused, in percent, rounded up; `None` without a call.
    fn percent(self) -> Option<u64> {
        let all = self.all();
        (all > 0).then(|| (self.refused * 100).div_ceil(all))
    }
}

/// Sums the calls to a site in the hour before `until` in each of `cells` equal intervals. `cells` must divide 60.
fn cells(hour: &LastHour, site: &Site, cells: usize, until: DateTime<Utc>) -> Vec<Calls> {
    let mut sums = vec![Calls::default(); cells];
    let passed = (until - hour.until).num_minutes().max(0);
    let own = hour.minutes.iter().filter(|it| it.site == *site);
    for counted in own {
        let Ok(minute) = usize::try_from(i64::from(counted.minute) - passed) else {
            continue; // More than an hour ago by now.
        };
        if let Some(sum) = sums.get_mut(minute * cells / MINUTES as usize) {
            sum.answered += counted.calls;
            sum.refused += counted.refused;
        }
    }
    sums
}

/// The maximum percentage of each level, with its sign, its ASCII sign and its tone.
const LEVELS: [(u64, &str, &str, Tone); 6] = [
    (0, "▁", "_", Tone::Good),
    (5, "▂", "-", Tone::Warn),
    (20, "▃", "=", Tone::Warn),
    (50, "▅", "+", Tone::Bad),
    (80, "▇", "*", Tone::Bad),
    (100, "█", "#", Tone::Bad),
];

fn sign(calls: Calls, look: &RenderContext) -> (&'static str, Tone) {
    let Some(percent) = calls.percent() else {
        return (look.pick("·", "."), Tone::Dim);
    };
    let mut levels = LEVELS.iter();
    let level = levels.find(|(most, ..)| percent <= *most);
    level.map_or((" ", Tone::Plain), |(_, unicode, ascii, tone)| {
        (look.pick(unicode, ascii), *tone)
    })
}

/// Returns a feed of the counts of the last hour. A replay does not query them, because each of its times would need a
/// query of its own, which costs much.
pub(super) fn last_hour() -> Feed<LastHour> {
    Feed::of(query::LastHour {}).in_background(ASKED_EVERY)
}

/// The last hour of a site as a line of `signs` signs after these words. The number of signs must divide 60. The counts
/// move to earlier signs as time passes, also while nothing happens.
pub(super) fn heat_line(
    hour: &LastHour,
    words: &str,
    site: &Site,
    signs: usize,
    look: &RenderContext,
) -> Cell {
    let cells = cells(hour, site, signs, minute_end(look.now));
    let signs = cells.into_iter().map(|calls| sign(calls, look));
    Cell::of_parts([(words, Tone::Dim)].into_iter().chain(signs))
}

/// `34 of 410 calls refused or failed, as of 09:30`
pub(super) fn heat_words(hour: &LastHour, site: &Site) -> String {
    let sum = cells(hour, site, 1, hour.until).pop().unwrap_or_default();
    let share = match sum.percent() {
        None => "no call".to_owned(),
        Some(_) => format!(
            "{} of {} refused or failed",
            thousands(sum.refused),
            count(sum.all(), "call")
        ),
    };
    let at = (hour.until - TimeDelta::minutes(1)).format("%H:%M");
    format!("{share}, as of {at}")
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::domain::last_hour::SiteMinute;

    fn west() -> Site {
        Site::region("prod", "west")
    }

    /// The hour before noon, with these calls and refusals by minute.
    fn hour(minutes: &[(u32, u64, u64)]) -> LastHour {
        let minute = |(minute, calls, refused): &(u32, u64, u64)| SiteMinute {
            site: west(),
            minute: *minute,
            calls: *calls,
            refused: *refused,
        };
        LastHour {
            until: "2025-11-21T12:00:00Z".parse().unwrap(),
            minutes: minutes.iter().map(minute).collect(),
        }
    }

    fn drawn(hour: &LastHour, signs: usize) -> String {
        drawn_at("2025-11-21T11:59:59Z", hour, signs)
    }

    fn drawn_at(now: &str, hour: &LastHour, signs: usize) -> String {
        let screen = RenderContext {
            now: now.parse().unwrap(),
            ..*ANY_SCREEN
        };
        heat_line(hour, "", &west(), signs, &screen).text
    }

    #[test]
    fn each_sign_stands_for_the_same_number_of_minutes_and_shows_the_share_of_refused_calls() {
        let minutes = [
            (0, 9, 0),
            (5, 20, 1),
            (9, 20, 1),
            (10, 9, 1),
            (15, 4, 2),
            (20, 4, 3),
            (59, 1, 1),
        ];
        assert_eq!(drawn(&hour(&minutes), 12), "▁▂▃▅▇······█");
        assert_eq!(drawn(&hour(&minutes), 1), "▃");
        // Even one refusal among many calls is shown.
        assert_eq!(drawn(&hour(&[(0, 10_000, 1)]), 1), "▂");
    }

    #[test]
    fn the_hour_moves_on_while_nothing_happens() {
        let hour = hour(&[(0, 4, 0), (30, 4, 0), (59, 1, 1)]);
        assert_eq!(drawn_at("2025-11-21T11:59:30Z", &hour, 6), "▁··▁·█");
        assert_eq!(drawn_at("2025-11-21T12:00:00Z", &hour, 6), "··▁··█");
        assert_eq!(drawn_at("2025-11-21T12:29:00Z", &hour, 6), "▁·█···");
        assert_eq!(drawn_at("2025-11-21T13:30:00Z", &hour, 6), "······");
        // A console whose clock is behind the engine's.
        assert_eq!(drawn_at("2025-11-21T11:30:00Z", &hour, 6), "▁··▁·█");
    }

    #[test]
    fn a_step_that_an_observation_found_refused_a_minute_after_its_call_counts_as_a_call() {
        let hour = hour(&[(58, 4, 0), (59, 0, 4)]);
        assert!(drawn(&hour, 60).ends_with("·▁█"));
        let share = heat_words(&hour, &west());
        assert_eq!(share, "4 of 4 calls refused or failed, as of 11:59");
        let share = heat_words(&hour, &Site::region("prod", "east"));
        assert_eq!(share, "no call, as of 11:59");
    }
}
