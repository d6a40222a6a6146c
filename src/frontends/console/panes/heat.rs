//! How the calls to each site went in the last hour, minute by minute: the share of them after which a step could not
//! go on, because the cloud refused or failed.
//!
//! The counts come from the charts of the deletions that were at work in that hour, which the engine counts from its
//! events. They are asked for in the background, one after the other, after the engine has made progress and not more
//! often than once a minute; a frame draws what is known.

use std::collections::BTreeMap;

use chrono::{DateTime, DurationRound as _, TimeDelta, Utc};

use super::kit::*;
use crate::control::{ControlError, query};
use crate::domain::gantt::Gantt;
use crate::domain::model::{Deletion, Paged, Site};
use crate::present::{count, thousands};

const MINUTES: usize = 60;
const HOUR: TimeDelta = TimeDelta::minutes(60);
/// Shortest time between two rounds of questions. A round also rests this many times as long as the last one took.
const ASKED_EVERY: TimeDelta = TimeDelta::minutes(1);
const REST: i32 = 10;
/// Number of the newest deletions among which those at work are sought, and maximum number of their charts.
const NEWEST_MAX: usize = 50;
const CHARTS_MAX: usize = 12;
/// The chart of a longer deletion takes the engine too long to count for a picture that nobody asked for.
const STEPS_MAX: u64 = 50_000;
/// Columns of a chart: two a minute, as far as the engine serves so many.
const COLUMNS_A_MINUTE: i64 = 2;
const COLUMNS_MAX: i64 = 1_000;

/// The calls to a site within a minute. A column of a long chart covers several minutes, among which its calls are
/// divided.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Minute {
    calls: f64,
    refused: f64,
}

const NO_CALL: Minute = Minute {
    calls: 0.0,
    refused: 0.0,
};

impl Minute {
    fn and(self, other: Self) -> Self {
        Self {
            calls: self.calls + other.calls,
            refused: self.refused + other.refused,
        }
    }

    /// The share of the calls that were refused, in percent; none without a call. A step can become stuck without a
    /// call of its own.
    fn percent(self) -> Option<f64> {
        let all = self.calls.max(self.refused);
        (all > 0.0).then(|| self.refused * 100.0 / all)
    }
}

/// The last hour at each site.
#[derive(Clone, Debug)]
struct Hour {
    /// The end of the last minute.
    until: DateTime<Utc>,
    sites: BTreeMap<Site, [Minute; MINUTES]>,
    /// Number of deletions that are too long to be counted, or too many.
    left_out: usize,
}

impl Hour {
    /// An hour without calls, whose last minute is the one of this time.
    fn of(now: DateTime<Utc>) -> Self {
        let minute = TimeDelta::minutes(1);
        Self {
            until: now.duration_trunc(minute).unwrap_or(now) + minute,
            sites: BTreeMap::new(),
            left_out: 0,
        }
    }

    /// The minute of a time, by its place; none if it is not in this hour.
    fn place(&self, at: DateTime<Utc>) -> Option<usize> {
        let seconds = (at - (self.until - HOUR)).num_seconds();
        let minute = usize::try_from(seconds.div_euclid(60)).ok();
        minute.filter(|minute| *minute < MINUTES)
    }

    fn add(&mut self, chart: &Gantt) {
        let columns = i32::try_from(chart.columns.max(1)).unwrap_or(i32::MAX);
        let column = (chart.until - chart.from) / columns;
        let parts = i32::try_from(column.num_minutes()).unwrap_or(i32::MAX);
        let parts = parts.max(1);
        for row in &chart.rows {
            let known = self.sites.get(&row.site).copied();
            let mut minutes = known.unwrap_or([NO_CALL; MINUTES]);
            for cell in &row.cells {
                let at = i32::try_from(cell.column).unwrap_or(i32::MAX);
                let start = chart.from + column * at;
                let share = |calls: u64| calls as f64 / f64::from(parts);
                let part = Minute {
                    calls: share(cell.sent),
                    refused: share(cell.refused),
                };
                let covered = (0..parts).map(|part| start + TimeDelta::minutes(part.into()));
                for place in covered.filter_map(|at| self.place(at)) {
                    minutes[place] = minutes[place].and(part);
                }
            }
            self.sites.insert(row.site.clone(), minutes);
        }
    }

    /// The hour of a site in so many cells; the number must divide 60.
    fn cells(&self, site: &Site, cells: usize) -> Vec<Minute> {
        let known = self.sites.get(site).copied();
        let minutes = known.unwrap_or([NO_CALL; MINUTES]);
        let each = minutes.chunks(MINUTES / cells.clamp(1, MINUTES));
        each.map(|minutes| minutes.iter().copied().fold(NO_CALL, Minute::and))
            .collect()
    }
}

/// The signs of a share, up to so many percent.
const LEVELS: [(f64, &str, &str, Tone); 6] = [
    (0.0, "▁", "_", Tone::Good),
    (5.0, "▂", "-", Tone::Warn),
    (20.0, "▃", "=", Tone::Warn),
    (50.0, "▅", "+", Tone::Bad),
    (80.0, "▇", "*", Tone::Bad),
    (f64::INFINITY, "█", "#", Tone::Bad),
];

fn sign(minute: Minute, look: &RenderContext) -> (&'static str, Tone) {
    let Some(percent) = minute.percent() else {
        return (look.pick("·", "."), Tone::Dim);
    };
    let mut levels = LEVELS.iter();
    let level = levels.find(|(most, ..)| percent <= *most);
    level.map_or((" ", Tone::Plain), |(_, unicode, ascii, tone)| {
        (look.pick(unicode, ascii), *tone)
    })
}

pub(super) struct HeatMap {
    /// The last hour that was counted.
    shown: Option<Hour>,
    /// The hour that is being counted.
    counting: Hour,
    /// The charts that are still to be asked for.
    charts: Vec<query::Chart>,
    /// Tickets of the question under way.
    asked_deletions: Option<u64>,
    asked_chart: Option<u64>,
    began: Option<DateTime<Utc>>,
    took: TimeDelta,
    is_stale: bool,
}

impl HeatMap {
    pub(super) fn new() -> Self {
        Self {
            shown: None,
            counting: Hour::of(DateTime::UNIX_EPOCH),
            charts: Vec::new(),
            asked_deletions: None,
            asked_chart: None,
            began: None,
            took: TimeDelta::zero(),
            is_stale: true,
        }
    }

    /// The last hour of a site in so many signs, behind these words; none until it is known. The number must divide
    /// 60.
    pub(super) fn strip(
        &self,
        words: &str,
        site: &Site,
        signs: usize,
        look: &RenderContext,
    ) -> Option<Cell> {
        let hour = self.shown.as_ref()?;
        let cells = hour.cells(site, signs);
        let signs = cells.into_iter().map(|minute| sign(minute, look));
        let parts = [(words, Tone::Dim)].into_iter().chain(signs);
        Some(Cell::of_parts(parts))
    }

    /// `34 of 410 calls refused or failed, as of 09:30`
    pub(super) fn words(&self, site: &Site) -> Option<String> {
        let hour = self.shown.as_ref()?;
        let sum = hour.cells(site, 1).into_iter().fold(NO_CALL, Minute::and);
        let number = |calls: f64| thousands(calls.round() as u64);
        let told = match sum.percent() {
            None => "no call".to_owned(),
            Some(_) => format!(
                "{} of {} refused or failed",
                number(sum.refused),
                count(sum.calls.max(sum.refused).round() as u64, "call")
            ),
        };
        let left_out = match hour.left_out {
            0 => String::new(),
            more => format!(", {} not counted", count(more, "deletion")),
        };
        let at = (hour.until - TimeDelta::minutes(1)).format("%H:%M");
        Some(format!("{told}{left_out}, as of {at}"))
    }

    /// Takes the newest deletions, and asks for the charts of those that were at work in this hour.
    fn took_deletions(&mut self, newest: Vec<Deletion>, context: &mut Context) {
        let since = self.counting.until - HOUR;
        let live = context.snapshot.deletions.iter();
        let ended = newest.iter().filter(|it| it.finished_at.is_some());
        let ended = ended.filter(|it| it.finished_at.is_some_and(|at| at >= since));
        let worked = live.filter(|it| it.finished_at.is_none()).chain(ended);
        let worked: Vec<&Deletion> = worked.filter(|it| it.counts.total > 0).collect();
        let short = worked.iter().filter(|it| it.counts.total <= STEPS_MAX);
        let charts = short.take(CHARTS_MAX).map(|it| {
            let until = it.finished_at.unwrap_or(context.now);
            let minutes = (until - it.requested_at).num_minutes().max(0) + 1;
            let columns = (minutes * COLUMNS_A_MINUTE).min(COLUMNS_MAX);
            query::Chart {
                deletion_id: it.id.clone(),
                columns: u32::try_from(columns).unwrap_or(1),
            }
        });
        self.charts = charts.collect();
        self.counting.left_out = worked.len() - self.charts.len();
        self.ask_chart(context);
    }

    /// Asks for the next chart, or shows what was counted.
    fn ask_chart(&mut self, context: &mut Context) {
        match self.charts.pop() {
            Some(chart) => self.asked_chart = Some(context.outbox.ask(chart)),
            None => {
                self.shown = Some(self.counting.clone());
                self.rest(context.now);
            }
        }
    }

    fn rest(&mut self, now: DateTime<Utc>) {
        self.took = self.began.map_or(TimeDelta::zero(), |began| now - began);
    }

    fn fail(&mut self, context: &Context) {
        self.charts.clear();
        self.is_stale = true;
        self.rest(context.now);
    }
}

impl Refreshed for HeatMap {
    fn invalidate(&mut self) {
        self.is_stale = true;
    }
    fn ask(&mut self, context: &mut Context) {
        let is_under_way = self.asked_deletions.is_some() || self.asked_chart.is_some();
        let pause = ASKED_EVERY.max(self.took * REST);
        let has_rested = self.began.is_none_or(|began| context.now - began >= pause);
        // A replay has an hour of its own at each of its times, and nobody reads them all.
        if !self.is_stale || is_under_way || !has_rested || context.replays {
            return;
        }
        self.is_stale = false;
        self.began = Some(context.now);
        self.counting = Hour::of(context.now);
        let newest = query::Deletions {
            limit: NEWEST_MAX,
            ..query::Deletions::default()
        };
        self.asked_deletions = Some(context.outbox.ask(newest));
    }
    fn answer(&mut self, arrived: &mut Arrived, context: &mut Context) -> bool {
        let deletions = arrived.take::<query::Deletions>(&mut self.asked_deletions);
        if let Some(answer) = deletions {
            match answer {
                Ok(Paged { rows, .. }) => self.took_deletions(rows, context),
                Err(_) => self.fail(context),
            }
            return true;
        }
        match arrived.take::<query::Chart>(&mut self.asked_chart) {
            None => return false,
            Some(Ok(chart)) => {
                self.counting.add(&chart);
                self.ask_chart(context);
            }
            // It was deleted from the ledger meanwhile.
            Some(Err(ControlError::NotFound { .. })) => self.ask_chart(context),
            Some(Err(_)) => self.fail(context),
        }
        true
    }
    /// Nobody waits for a picture.
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
    use crate::domain::gantt::{GanttCell, GanttRow, Last};
    use crate::domain::model::{Action, KindName};

    fn at(minutes: i64) -> DateTime<Utc> {
        let noon: DateTime<Utc> = "2025-11-21T12:00:20Z".parse().unwrap();
        noon + TimeDelta::minutes(minutes)
    }

    fn site() -> Site {
        Site::region("prod", "west")
    }

    /// A chart from so many minutes ago until noon, with these calls and refusals by column.
    fn chart(minutes: i64, columns: u32, cells: &[(u32, u64, u64)]) -> Gantt {
        let cell = |(column, sent, refused): &(u32, u64, u64)| GanttCell {
            column: *column,
            sent: *sent,
            refused: *refused,
            ended: 0,
        };
        let row = GanttRow {
            site: site(),
            kind: KindName::new("port"),
            action: Action::Delete,
            steps: 9,
            ended: 0,
            cells: cells.iter().map(cell).collect(),
            last: Last {
                name: "p".to_owned(),
                ended_at: None,
                waited_for: None,
            },
        };
        Gantt {
            from: at(-minutes),
            until: at(0),
            columns,
            rows: vec![row],
        }
    }

    /// The calls and the refusals of the minutes that have any, by the number of minutes before the last one.
    fn counted(charts: &[Gantt]) -> Vec<(usize, u64, u64)> {
        let mut hour = Hour::of(at(0));
        charts.iter().for_each(|chart| hour.add(chart));
        let minutes = hour.cells(&site(), MINUTES).into_iter().enumerate();
        let minutes = minutes.filter(|(_, minute)| minute.percent().is_some());
        let whole = |calls: f64| calls.round() as u64;
        let minutes = minutes.map(|(place, minute)| {
            let (calls, refused) = (whole(minute.calls), whole(minute.refused));
            (MINUTES - 1 - place, calls, refused)
        });
        minutes.collect()
    }

    #[test]
    fn the_calls_of_all_charts_are_counted_in_their_minutes() {
        // Ten minutes in half minutes: columns 0 and 1 are the first minute.
        let first = chart(10, 20, &[(0, 3, 0), (1, 2, 1), (19, 4, 4)]);
        let second = chart(5, 10, &[(9, 1, 0), (0, 7, 0)]);
        // The last column begins half a minute before noon, at 11:59:50.
        let sum = [(10, 5, 1), (5, 7, 0), (1, 5, 4)];
        assert_eq!(counted(&[first, second]), sum);
    }

    #[test]
    fn what_is_older_than_an_hour_is_left_out() {
        let old = chart(
            600,
            600,
            &[(0, 9, 9), (530, 9, 9), (541, 2, 0), (599, 1, 0)],
        );
        assert_eq!(counted(&[old]), [(59, 2, 0), (1, 1, 0)]);
    }

    #[test]
    fn a_column_of_several_minutes_is_divided_among_them() {
        let long = chart(4_000, 1_000, &[(999, 8, 4)]);
        let each = counted(&[long]);
        assert_eq!(each, [(4, 2, 1), (3, 2, 1), (2, 2, 1), (1, 2, 1)]);
    }

    #[test]
    fn steps_that_became_stuck_without_a_call_count_as_refused() {
        let stuck = Minute {
            calls: 1.0,
            refused: 4.0,
        };
        assert_eq!(stuck.percent(), Some(100.0));
        assert_eq!(NO_CALL.percent(), None);
    }
}
