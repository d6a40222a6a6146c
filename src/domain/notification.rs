//! Notifications (I7): which events count, which are gathered into one message, and when that message is
//! sent.
//!
//! 1. There is one event for each step that is stuck by itself, for each refused deletion, and for each paused site.
//!    The ledger writes another event for the same step only after a change, such as a person's retry; a repeated
//!    DELETE (T6) is not enough.
//! 2. A refusal counts unless its requester still waits for the answer, which is assumed of a request from a
//!    console or the command line that is younger than [`REQUESTER_WAITS_MAX`].
//! 3. A site that works again before the message is sent is left out.
//! 4. Events within [`Pace::gather`] of the first make one message. More events about the same deletion or
//!    site wait until [`Pace::again`] has passed. If a message about another deletion or site is sent earlier, it
//!    contains these events too.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use serde::{Deserialize, Serialize};

use super::model::{Deletion, Event, EventKind, Origin, Site};

/// How far a channel has notified people. The ledger keeps one for each channel.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct CursorPosition {
    /// People have been notified of all events up to this sequence number that need a notification.
    pub through: i64,
    /// The sequence number up to which a message was begun, while it is unknown whether the receiver accepted it.
    #[serde(rename = "telling")]
    pub sending_through: Option<i64>,
    /// The channel's last error; empty if it accepted the last message.
    #[serde(rename = "failing")]
    pub last_error: String,
}

/// How far a channel has notified people, and the ledger whose events the position counts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NotificationCursor {
    /// The unique id of the ledger.
    pub ledger_id: String,
    /// The sequence number of the newest event in the ledger.
    pub newest: i64,
    /// None if no engine has started the channel since it was configured.
    #[serde(rename = "mark")]
    pub position: Option<CursorPosition>,
}

/// The site or the deletion about which a channel notifies people.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Subject {
    /// This site is paused: nothing is sent there.
    Paused(Site),
    /// Steps of this deletion are stuck.
    Stuck(String),
    /// This deletion will not start.
    Refused(String),
}

/// The content of a message about one site or deletion.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Topic {
    /// When the first of the topic's events happened.
    pub since: DateTime<Utc>,
    /// How often a step became stuck since the last message; a step that is stuck again after a retry counts again.
    /// Zero for a paused site or a refused deletion.
    pub count: u64,
    pub sites: BTreeSet<Site>,
    /// Ids of the first stuck steps, at most [`STEPS_MAX`]. A step that is stuck again after a retry has another entry.
    pub steps: Vec<i64>,
    /// The first event's line.
    pub line: String,
}

/// Number of steps of a deletion that a message describes, chosen so that a person reads them all.
pub const STEPS_MAX: usize = 5;

/// How long a requester is assumed to wait for the answer. Most plans are ready, or refused, within a second.
pub const REQUESTER_WAITS_MAX: TimeDelta = TimeDelta::minutes(1);

/// How often messages are sent (`[notify]`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// How long the first event waits for other events before a message is sent.
    pub gather: Duration,
    /// The minimum time between two messages about one deletion or site.
    pub again: Duration,
}

/// The events after a notification cursor, as far as people must still be notified of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PendingTopics {
    /// The sequence number of the last event that was examined.
    pub through: i64,
    pub topics: BTreeMap<Subject, Topic>,
}

impl PendingTopics {
    /// Makes an empty collection, for the events after the one with this sequence number.
    pub fn after(through: i64) -> Self {
        Self {
            through,
            topics: BTreeMap::new(),
        }
    }

    /// Adds the next event. If the event says that a deletion was refused, `refused` is that deletion.
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

    /// Returns the time at which a message is due; none if there is nothing to send. `notified_at` has the time of each
    /// subject's last notification. An event from before `since`, when no notifier ran, counts as if it came
    /// at `since`, because a site may have recovered meanwhile.
    pub fn due(
        &self,
        pace: Pace,
        notified_at: &BTreeMap<Subject, DateTime<Utc>>,
        since: DateTime<Utc>,
    ) -> Option<DateTime<Utc>> {
        let due = |(subject, topic): (&Subject, &Topic)| {
            let gathered = topic.since.max(since) + pace.gather;
            let again = notified_at.get(subject).map(|at| *at + pace.again);
            again.map_or(gathered, |again| again.max(gathered))
        };
        self.topics.iter().map(due).min()
    }
}

fn site_of(event: &Event) -> Option<Site> {
    event.data["site"].as_str()?.parse().ok()
}

/// Whether the requester of a deletion is assumed not to have waited when it was refused: only a console or the command
/// line waits, and for less than [`REQUESTER_WAITS_MAX`].
pub fn nobody_waits(deletion: &Deletion, refused_at: DateTime<Utc>) -> bool {
    let waits = matches!(deletion.requested_by.origin, Origin::Console | Origin::Cli);
    !waits || refused_at - deletion.requested_at >= REQUESTER_WAITS_MAX
}

/// Returns how long a channel waits before it sends again, after this number of failures in a row (from 1). A channel
/// never stops sending.
pub fn wait_after(failures: usize) -> Duration {
    const WAITS_SECONDS: [u64; 6] = [5, 15, 60, 300, 600, 900];
    let index = failures.saturating_sub(1).min(WAITS_SECONDS.len() - 1);
    Duration::from_secs(WAITS_SECONDS[index])
}
