//! What people are told of without asking (I7): what counts, what is gathered into one message, and
//! when that goes out.
//!
//! 1. Of each step that is stuck by itself there is one event; of a deletion that was refused, and of a
//!    site that was paused, one each: the ledger writes no second one until it has worked in between.
//! 2. A refusal counts unless somebody waits for it: who asked from a console or the command line, and
//!    has looked on for less than [`LOOKED_ON`].
//! 3. A site that works again before the message went is left out.
//! 4. What comes within [`Pace::gather`] of the first is one message. More about the same deletion or
//!    site waits until [`Pace::again`] has passed, unless a message goes out anyway: it takes all.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use serde::{Deserialize, Serialize};

use super::model::{Deletion, Event, EventKind, Origin, Site};

/// How far a channel has told people; kept in the ledger, for each channel.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Mark {
    /// The events up to this sequence are told, or nothing to tell.
    pub through: i64,
    /// A message about those up to this sequence was begun; whether it was taken is not known.
    pub telling: Option<i64>,
    /// What the channel answered last, if it took nothing; empty if it did.
    pub failing: String,
}

/// A channel's mark, and what it is a mark in.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NotificationCursor {
    /// Of this ledger, and of no other.
    pub ledger_id: String,
    /// The newest event.
    pub newest: i64,
    /// None if the channel has never told anything.
    pub mark: Option<Mark>,
}

/// What a topic of a message is about.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Subject {
    /// Nothing is sent there any more.
    Paused(Site),
    /// Steps of this deletion are stuck.
    Stuck(String),
    /// This deletion will not start.
    Refused(String),
}

/// One subject's part of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Topic {
    /// When the first of these came.
    pub since: DateTime<Utc>,
    /// How many steps.
    pub count: u64,
    pub sites: BTreeSet<Site>,
    /// The first of the steps, at most [`STEPS_MAX`].
    pub steps: Vec<i64>,
    /// The first event's line.
    pub line: String,
}

/// Steps of a deletion that a message tells more of than their number: as many as one reads.
pub const STEPS_MAX: usize = 5;

/// How long who asked looks at the answer. Most plans stand, or are refused, in a second.
pub const LOOKED_ON: TimeDelta = TimeDelta::minutes(1);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    pub gather: Duration,
    pub again: Duration,
}

/// What has come since a mark, and is not told yet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Gathered {
    /// The last event that was looked at.
    pub through: i64,
    pub topics: BTreeMap<Subject, Topic>,
}

impl Gathered {
    pub fn after(through: i64) -> Self {
        Self {
            through,
            topics: BTreeMap::new(),
        }
    }

    /// Takes in the next event. `refused` is the deletion of one that says it was refused.
    pub fn take(&mut self, event: &Event, refused: Option<&Deletion>) {
        self.through = event.seq;
        let deletion = event.deletion_id.clone();
        match (event.kind, deletion) {
            (EventKind::NeedsPerson, Some(deletion)) => {
                let topic = self.topic(Subject::Stuck(deletion), event);
                topic.count += 1;
                topic.sites.extend(site_of(event));
                if topic.steps.len() < STEPS_MAX {
                    topic.steps.extend(event.step_id);
                }
            }
            (EventKind::DeletionRefused, Some(id)) => {
                if let Some(deletion) = refused.filter(|deletion| nobody_waits(deletion, event.at))
                {
                    let sites = deletion
                        .targets
                        .iter()
                        .map(|target| target.key.site.clone());
                    let topic = self.topic(Subject::Refused(id), event);
                    topic.sites.extend(sites);
                }
            }
            (EventKind::Site, _) => self.take_site(event),
            _ => {}
        }
    }

    fn take_site(&mut self, event: &Event) {
        let Some(site) = site_of(event) else {
            return;
        };
        match event.data["state"].as_str() {
            Some("paused") => {
                let topic = self.topic(Subject::Paused(site.clone()), event);
                topic.sites.insert(site);
            }
            Some("reachable") => drop(self.topics.remove(&Subject::Paused(site))),
            _ => {}
        }
    }

    fn topic(&mut self, subject: Subject, event: &Event) -> &mut Topic {
        self.topics.entry(subject).or_insert_with(|| Topic {
            since: event.at,
            count: 0,
            sites: BTreeSet::new(),
            steps: Vec::new(),
            line: event.message.clone(),
        })
    }

    /// When a message is to go out; none: there is nothing to tell. `told` says when each subject was
    /// last told of. What came before `since`, when nobody looked, counts as come then: a site may turn
    /// out to work.
    pub fn due(
        &self,
        pace: Pace,
        told: &BTreeMap<Subject, DateTime<Utc>>,
        since: DateTime<Utc>,
    ) -> Option<DateTime<Utc>> {
        let due = |(subject, topic): (&Subject, &Topic)| {
            let gathered = topic.since.max(since) + pace.gather;
            let again = told.get(subject).map(|told| *told + pace.again);
            again.map_or(gathered, |again| again.max(gathered))
        };
        self.topics.iter().map(due).min()
    }
}

fn site_of(event: &Event) -> Option<Site> {
    event.data["site"].as_str()?.parse().ok()
}

/// Whether whoever asked for a deletion that was refused then has gone away meanwhile.
pub fn nobody_waits(deletion: &Deletion, refused_at: DateTime<Utc>) -> bool {
    let looks_on = matches!(deletion.requested_by.origin, Origin::Console | Origin::Cli);
    !looks_on || refused_at - deletion.requested_at >= LOOKED_ON
}

/// How long a channel that took nothing is left in peace, after so many failures in a row (from 1): it
/// is never given up.
pub fn wait_after(failures: usize) -> Duration {
    const WAITS_SECONDS: [u64; 6] = [5, 15, 60, 300, 600, 900];
    let index = failures.saturating_sub(1).min(WAITS_SECONDS.len() - 1);
    Duration::from_secs(WAITS_SECONDS[index])
}
