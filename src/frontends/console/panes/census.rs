//! The number of resources of each kind at the sites. They are counted in the background, one kind after the other:
//! at first each as soon as the previous count has arrived, later at most one every few seconds.

use std::collections::{BTreeMap, BTreeSet};

use chrono::TimeDelta;

use super::kit::*;
use crate::control::{ControlError, KindInfo, SiteCount};
use crate::domain::model::KindName;
use crate::present::{joined, kind_words, thousands};

/// Shortest time between two counts once all kinds were counted, because each count costs calls to the clouds.
const COUNTED_EVERY: TimeDelta = TimeDelta::seconds(5);

/// The numbers of resources of one kind, at each site.
#[derive(Clone, PartialEq)]
pub(super) struct KindCount {
    pub(super) kind: KindInfo,
    pub(super) sites: Vec<SiteCount>,
    /// Why the last count failed; the counts are then those of an earlier answer, if there was one.
    pub(super) error: Option<String>,
}

impl KindCount {
    /// The number of resources at the sites that answered.
    pub(super) fn total(&self) -> u64 {
        self.sites.iter().filter_map(|site| site.resources).sum()
    }

    /// Whether some site did not answer or the last count failed, so that there may be more resources.
    pub(super) fn is_partial(&self) -> bool {
        self.error.is_some() || self.sites.iter().any(|site| site.resources.is_none())
    }

    /// Whether no site returned a number.
    pub(super) fn is_unknown(&self) -> bool {
        self.sites.iter().all(|site| site.resources.is_none())
    }

    /// `1,203`, `≥ 1,203` if some site did not answer, or `failed` if none did.
    pub(super) fn total_words(&self, look: &RenderContext) -> String {
        let total = thousands(self.total());
        match (self.is_unknown(), self.is_partial()) {
            (true, _) => "failed".to_owned(),
            (false, true) => format!("{} {total}", look.pick("≥", ">=")),
            (false, false) => total,
        }
    }

    /// `RegionOne 1,200 · RegionTwo failed`
    pub(super) fn by_site(&self, look: &RenderContext) -> String {
        let sites = self.sites.iter().map(|site| {
            let number = site.resources.map_or("failed".to_owned(), thousands);
            format!("{} {number}", look.site(&site.site))
        });
        joined(sites.chain(self.error.clone()), look.dot())
    }

    /// The counts with their time, and the errors of sites that could not be counted.
    pub(super) fn lines(&self, look: &RenderContext) -> Vec<Cell> {
        let counted = self.sites.iter().map(|site| site.at).max();
        let counted = counted.map(|at| format!("counted at {}", look.time(at)));
        let mut words = vec![kind_words(&self.kind.name), self.by_site(look)];
        words.extend(counted);
        let failed = self.sites.iter().filter_map(|site| {
            let error = site.error.as_ref()?;
            Some(Cell::new(format!("{}: {error}", site.site), Tone::Warn))
        });
        let counts = Cell::plain(words.join(look.dot()));
        [counts].into_iter().chain(failed).collect()
    }
}

pub(super) struct Census {
    /// Whether the counts are shown, so that they are queried.
    pub(super) is_shown: bool,
    kinds: Feed<KindInfo>,
    pace: Pace,
    /// Index in `kinds` of the kind that is being counted, or is counted next.
    next: usize,
    counts: BTreeMap<KindName, KindCount>,
}

impl Census {
    pub(super) fn new() -> Self {
        let mut pace = Pace::default();
        pace.period = Some(COUNTED_EVERY);
        Self {
            is_shown: false,
            kinds: Feed::reading(query::Kinds {}, |mut kinds| {
                kinds.retain(|kind| kind.is_counted);
                kinds
            }),
            pace,
            next: 0,
            counts: BTreeMap::new(),
        }
    }

    /// The kinds that have resources, or whose number of resources is unknown; those with the most resources first.
    pub(super) fn counts(&self) -> Vec<&KindCount> {
        let counts = self.counts.values();
        let shown = counts.filter(|it| it.total() > 0 || it.is_unknown());
        let mut shown: Vec<_> = shown.collect();
        shown.sort_by_key(|it| std::cmp::Reverse(it.total()));
        shown
    }

    /// The number of kinds that were counted, and of all kinds that can be counted.
    pub(super) fn progress(&self) -> (usize, usize) {
        (self.counts.len(), self.kinds.rows.len())
    }

    /// Says which sites did not list some kind, and how many kinds have no row of their own.
    pub(super) fn gaps(&self, kinds_left_out: usize) -> String {
        let sites = self.counts.values().flat_map(|it| &it.sites);
        let failed = sites.filter(|site| site.error.is_some());
        let failed: BTreeSet<String> = failed.map(|site| site.site.to_string()).collect();
        let failed = joined(failed, ", ");
        let failed = non_empty(&failed).map(|it| format!("no complete counts from {it}"));
        let more = (kinds_left_out > 0).then(|| format!("{kinds_left_out} more kinds"));
        joined(failed.into_iter().chain(more), ", ")
    }

    fn count_next(&mut self, context: &mut Context) {
        let Some(kind) = self.kinds.rows.get(self.next) else {
            return;
        };
        let kind = kind.name.as_str().to_owned();
        let ticket = context.outbox.ask(query::ResourceCounts { kind });
        self.pace.asked(ticket, context.now);
    }

    fn counted(&mut self, answer: Result<Vec<SiteCount>, ControlError>, context: &Context) {
        self.pace.arrived(context.now);
        let Some(kind) = self.kinds.rows.get(self.next).cloned() else {
            return;
        };
        let name = kind.name.clone();
        match answer {
            // No site has this kind.
            Err(ControlError::Usage { .. }) => {
                self.kinds.rows.remove(self.next);
                self.counts.remove(&name);
            }
            answer => {
                let count = self.counts.entry(name).or_insert(KindCount {
                    kind,
                    sites: Vec::new(),
                    error: None,
                });
                match answer {
                    Ok(sites) => (count.sites, count.error) = (sites, None),
                    Err(error) => count.error = Some(error.to_string()),
                }
                self.next += 1;
            }
        }
        if self.next >= self.kinds.rows.len() {
            self.next = 0;
        }
        if self.counts.len() < self.kinds.rows.len() {
            self.pace.invalidate();
        }
    }
}

impl Refreshed for Census {
    fn ask(&mut self, context: &mut Context) {
        if !self.is_shown || context.replays {
            return;
        }
        if !self.kinds.pace.loaded || !self.kinds.pace.errors.is_empty() {
            self.kinds.ask(context);
        } else if self.pace.is_due(context) {
            self.count_next(context);
        }
    }
    fn answer(&mut self, arrived: &mut Arrived, context: &mut Context) -> bool {
        if self.kinds.answer(arrived, context) {
            return true;
        }
        match arrived.take::<query::ResourceCounts>(&mut self.pace.ticket) {
            Some(answer) => self.counted(answer, context),
            None => return false,
        }
        true
    }
    fn is_timed(&self) -> bool {
        self.is_shown
    }
}
