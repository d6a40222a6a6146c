//! The share of calls to each site in the last hour, minute by minute, after which a step could not go on, because the
//! cloud refused or failed.
//!
//! The engine counts the calls of all deletions. The counts are queried in the background, after the engine has made
//! progress and at most once a minute; a frame draws the last answer.

use chrono::{DateTime, TimeDelta, Utc};

use super::kit::*;
use crate::control::query;
use crate::domain::last_hour::{LastHour, MINUTES, minute_end};
use crate::domain::model::Site;
use crate::present::{count, thousands};

/// Shortest time between two queries. A query also waits [`PAUSE_FACTOR`] times as long as the last answer took.
const ASKED_EVERY: TimeDelta = TimeDelta::minutes(1);
const PAUSE_FACTOR: i32 = 10;

/// The calls to a site within some time.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Calls {
    answered: u64,
    refused: u64,
}

impl Calls {
    /// The number of calls. A refusal that an observation finds in a later minute than its call counts as a call of
    /// that minute too.
    fn all(self) -> u64 {
        self.answered.max(self.refused)
    }

    /// The share of the calls that were refused, in percent, rounded up; `None` without a call.
    fn percent(self) -> Option<u64> {
        let all = self.all();
        (all > 0).then(|| (self.refused * 100).div_ceil(all))
    }
}

/// Sums the calls to a site in the hour before `until` in `cells` equal intervals. Their number must divide 60.
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

#[derive(Default)]
pub(super) struct HeatMap {
    /// The last hour that was counted.
    shown: Option<LastHour>,
    /// Ticket of the query under way.
    ticket: Option<u64>,
    /// When the last query was sent, and how long its answer took.
    asked_at: Option<DateTime<Utc>>,
    took: TimeDelta,
    is_current: bool,
}

impl HeatMap {
    /// The last hour of a site as a line of `signs` signs after these words; `None` until it is known. The number of
    /// signs must divide 60. The counts move to earlier signs as time passes, also while nothing happens.
    pub(super) fn heat_line(
        &self,
        words: &str,
        site: &Site,
        signs: usize,
        look: &RenderContext,
    ) -> Option<Cell> {
        let cells = cells(self.shown.as_ref()?, site, signs, minute_end(look.now));
        let signs = cells.into_iter().map(|calls| sign(calls, look));
        let parts = [(words, Tone::Dim)].into_iter().chain(signs);
        Some(Cell::of_parts(parts))
    }

    /// `34 of 410 calls refused or failed, as of 09:30`
    pub(super) fn words(&self, site: &Site) -> Option<String> {
        let hour = self.shown.as_ref()?;
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
        Some(format!("{share}, as of {at}"))
    }
}

impl Refreshed for HeatMap {
    fn invalidate(&mut self) {
        self.is_current = false;
    }
    fn ask(&mut self, context: &mut Context) {
        let pause = ASKED_EVERY.max(self.took * PAUSE_FACTOR);
        let has_rested = self.asked_at.is_none_or(|at| context.now - at >= pause);
        // Each time of a replay has its own last hour; a query for each would cost much and be looked at little.
        if self.is_current || self.ticket.is_some() || !has_rested || context.replays {
            return;
        }
        self.is_current = true;
        self.asked_at = Some(context.now);
        self.ticket = Some(context.outbox.ask(query::LastHour {}));
    }
    fn answer(&mut self, arrived: &mut Arrived, context: &mut Context) -> bool {
        let Some(answer) = arrived.take::<query::LastHour>(&mut self.ticket) else {
            return false;
        };
        match answer {
            Ok(hour) => self.shown = Some(hour),
            Err(_) => self.is_current = false,
        }
        self.took = self
            .asked_at
            .map_or(TimeDelta::zero(), |at| context.now - at);
        true
    }
    /// False: no person waits for the picture.
    fn is_waiting(&self) -> bool {
        false
    }
    fn errors(&self) -> &[String] {
        &[]
    }
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
    fn map(minutes: &[(u32, u64, u64)]) -> HeatMap {
        let minute = |(minute, calls, refused): &(u32, u64, u64)| SiteMinute {
            site: west(),
            minute: *minute,
            calls: *calls,
            refused: *refused,
        };
        HeatMap {
            shown: Some(LastHour {
                until: "2025-11-21T12:00:00Z".parse().unwrap(),
                minutes: minutes.iter().map(minute).collect(),
            }),
            ..HeatMap::default()
        }
    }

    fn drawn(map: &HeatMap, signs: usize) -> String {
        drawn_at("2025-11-21T11:59:59Z", map, signs)
    }

    fn drawn_at(now: &str, map: &HeatMap, signs: usize) -> String {
        let screen = RenderContext {
            now: now.parse().unwrap(),
            ..*ANY_SCREEN
        };
        map.heat_line("", &west(), signs, &screen).unwrap().text
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
        assert_eq!(drawn(&map(&minutes), 12), "▁▂▃▅▇······█");
        assert_eq!(drawn(&map(&minutes), 1), "▃");
        // Even one refusal among many calls is shown.
        assert_eq!(drawn(&map(&[(0, 10_000, 1)]), 1), "▂");
    }

    #[test]
    fn the_hour_moves_on_while_nothing_happens() {
        let map = map(&[(0, 4, 0), (30, 4, 0), (59, 1, 1)]);
        assert_eq!(drawn_at("2025-11-21T11:59:30Z", &map, 6), "▁··▁·█");
        assert_eq!(drawn_at("2025-11-21T12:00:00Z", &map, 6), "··▁··█");
        assert_eq!(drawn_at("2025-11-21T12:29:00Z", &map, 6), "▁·█···");
        assert_eq!(drawn_at("2025-11-21T13:30:00Z", &map, 6), "······");
        // A console whose clock is behind the engine's.
        assert_eq!(drawn_at("2025-11-21T11:30:00Z", &map, 6), "▁··▁·█");
    }

    #[test]
    fn a_step_that_an_observation_found_refused_a_minute_after_its_call_counts_as_a_call() {
        let map = map(&[(58, 4, 0), (59, 0, 4)]);
        assert!(drawn(&map, 60).ends_with("·▁█"));
        let share = map.words(&west()).unwrap();
        assert_eq!(share, "4 of 4 calls refused or failed, as of 11:59");
        let share = map.words(&Site::region("prod", "east")).unwrap();
        assert_eq!(share, "no call, as of 11:59");
    }
}
