//! One channel: follows the events after its notification cursor, and moves the cursor when a message was
//! accepted, or when many events had no topic.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, Utc};
use tokio_util::sync::CancellationToken;

use super::Channel;
use super::message::{Message, TOPICS_MAX, TopicDetails};
use crate::control::{Command, Control, ControlError, Envelope, query};
use crate::domain::model::{Actor, Deletion, Event, EventKind, Left, Origin};
use crate::domain::notification::{
    CursorPosition, NotificationCursor, Pace, PendingTopics, Subject, wait_after,
};
use crate::system::clock::Clock;

/// Number of events that [`Control::events`] returns at most; fewer means that there are no more.
const PAGE: usize = 500;
/// After a long pause all missed events are read first, so that they become one message. Without the limit (100,000
/// events), an engine that writes events as fast as they are read would postpone the message for ever.
const PAGES_MAX: usize = 200;
/// Longest wait for the next event.
const WAIT_MS_MAX: u64 = 60_000;
/// Pause between two reads while events come one by one, to spare a busy engine.
const LULL: Duration = Duration::from_millis(250);
/// The cursor is saved after this many events without a topic: events after the saved cursor are read again after
/// a crash.
const QUIET_EVENTS: i64 = 1_000;
/// How often an engine that does not lead checks whether it leads now.
const LEADS_CHECK: Duration = Duration::from_secs(1);
/// Wait after the ledger could not be read or written.
const LEDGER_RETRY: Duration = Duration::from_secs(5);

pub(super) struct Follower {
    control: Arc<dyn Control>,
    channel: Channel,
    pace: Pace,
    clock: Clock,
    host: String,
    ledger_id: String,
    cursor: CursorPosition,
    /// Whether the cursor has not been saved in the ledger yet.
    unsaved: bool,
    /// Time at which this follower began.
    since: DateTime<Utc>,
    /// Time of the last message on each subject, kept while it delays the next one.
    notified: BTreeMap<Subject, DateTime<Utc>>,
}

/// Deletes the cursor of a channel that is no longer configured: if the channel were configured later, the old cursor
/// would make it report all events since then.
pub(super) async fn forget(control: &dyn Control, channel: &str) -> Result<(), ControlError> {
    match notification_cursor(control, channel).await?.position {
        Some(_) => save(control, channel, None).await,
        None => Ok(()),
    }
}

async fn notification_cursor(
    control: &dyn Control,
    channel: &str,
) -> Result<NotificationCursor, ControlError> {
    let channel = channel.to_owned();
    control.ask(query::NotificationCursor { channel }).await
}

async fn save(
    control: &dyn Control,
    channel: &str,
    position: Option<CursorPosition>,
) -> Result<(), ControlError> {
    let channel = channel.to_owned();
    let command = Command::MoveNotificationCursor { channel, position };
    let envelope = Envelope::new(command, Actor::new("gone", Origin::Engine));
    control.submit(envelope).await.map(drop)
}

impl Follower {
    pub(super) async fn new(
        control: Arc<dyn Control>,
        channel: Channel,
        pace: Pace,
        clock: Clock,
        host: String,
    ) -> Result<Self, ControlError> {
        let found = notification_cursor(control.as_ref(), channel.name()).await?;
        let mut follower = Self {
            control,
            channel,
            pace,
            since: clock.now(),
            clock,
            host,
            ledger_id: found.ledger_id,
            cursor: CursorPosition::default(),
            unsaved: false,
            notified: BTreeMap::new(),
        };
        match found.position {
            Some(position) => follower.cursor = position,
            None => {
                follower.cursor.through = found.newest;
                follower.save().await?;
            }
        }
        Ok(follower)
    }

    /// Runs until it is stopped; a message that is being sent is finished first.
    pub(super) async fn run(mut self, stop: CancellationToken) {
        while !stop.is_cancelled() {
            if !self.leads() {
                // Only the engine that leads sends messages and moves the cursor.
                pause(LEADS_CHECK, &stop).await;
                self.unsaved = false;
                continue;
            }
            if let Err(error) = self.follow(&stop).await {
                let channel = self.channel.name();
                tracing::warn!(channel, %error, "no notification is sent: the ledger cannot be used; this is retried");
                pause(LEDGER_RETRY, &stop).await;
            }
        }
    }

    /// Follows the events from the cursor on, until an error or until it is stopped.
    async fn follow(&mut self, stop: &CancellationToken) -> Result<(), ControlError> {
        if self.unsaved {
            self.save().await?;
        } else {
            // Another engine may have moved the cursor while that engine led, or removed it, if its settings lack the
            // channel.
            let found = notification_cursor(self.control.as_ref(), self.channel.name()).await?;
            match found.position {
                Some(position) => self.cursor = position,
                None => self.save().await?,
            }
        }
        if let Some(through) = self.cursor.sending_through {
            // An engine may have ended after it sent a message and before it recorded that the message was accepted:
            // the same message is sent once more.
            let gathered = self.gather_to(through).await?;
            self.notify(gathered, stop).await?;
        }
        let mut gathered = PendingTopics::after(self.cursor.through);
        let mut full_pages = 0;
        while !stop.is_cancelled() && self.leads() {
            let wait_ms = self.until_due(&gathered);
            let events = tokio::select! {
                () = stop.cancelled() => return Ok(()),
                events = self.events(gathered.through, wait_ms) => events?,
            };
            self.take(&mut gathered, &events).await?;
            if events.len() >= PAGE && full_pages < PAGES_MAX {
                full_pages += 1;
                continue;
            }
            full_pages = 0;
            match gathered.due(self.pace, &self.notified, self.since) {
                Some(due) if due <= self.clock.now() => {
                    self.notify(gathered, stop).await?;
                    gathered = PendingTopics::after(self.cursor.through);
                }
                None if gathered.through - self.cursor.through >= QUIET_EVENTS => {
                    self.cursor.through = gathered.through;
                    self.save().await?;
                }
                _ if !events.is_empty() => pause(LULL, stop).await,
                _ => {}
            }
        }
        Ok(())
    }

    /// Whether this engine leads the engines of its ledger: only the engine that leads sends messages.
    fn leads(&self) -> bool {
        !self.control.snapshot().borrow().engine.follows
    }

    fn until_due(&self, gathered: &PendingTopics) -> u64 {
        let due = gathered.due(self.pace, &self.notified, self.since);
        let left = due.map(|due| (due - self.clock.now()).num_milliseconds().max(0));
        left.map_or(WAIT_MS_MAX, |left| left.unsigned_abs().min(WAIT_MS_MAX))
    }

    /// Gathers the topics of a message that covers the events up to this one.
    async fn gather_to(&self, through: i64) -> Result<PendingTopics, ControlError> {
        let mut gathered = PendingTopics::after(self.cursor.through);
        while gathered.through < through {
            let mut events = self.events(gathered.through, 0).await?;
            events.retain(|event| event.seq <= through);
            if events.is_empty() {
                break;
            }
            self.take(&mut gathered, &events).await?;
        }
        gathered.through = through;
        Ok(gathered)
    }

    /// Returns the next events. Events that are no longer kept are skipped, with an error in the log.
    async fn events(&self, after: i64, wait_ms: u64) -> Result<Vec<Event>, ControlError> {
        match self.control.events(after, wait_ms).await {
            Err(ControlError::Expired { oldest, .. }) => {
                let channel = self.channel.name();
                tracing::error!(
                    channel,
                    after,
                    oldest,
                    "events were pruned before anybody was notified of them"
                );
                self.control.events(oldest - 1, wait_ms).await
            }
            events => events,
        }
    }

    async fn take(
        &self,
        gathered: &mut PendingTopics,
        events: &[Event],
    ) -> Result<(), ControlError> {
        for event in events {
            let refused = match (event.kind, &event.deletion_id) {
                (EventKind::DeletionRefused, Some(id)) => self.deletion(id).await?,
                _ => None,
            };
            gathered.take(event, refused.as_deref());
        }
        Ok(())
    }

    /// Sends until the message is accepted. The cursor is saved before the message is sent and after it was accepted;
    /// if the engine ends in between, the next engine repeats the message.
    async fn notify(
        &mut self,
        gathered: PendingTopics,
        stop: &CancellationToken,
    ) -> Result<(), ControlError> {
        if self.cursor.sending_through != Some(gathered.through) {
            self.cursor.sending_through = Some(gathered.through);
            self.save().await?;
        }
        if !gathered.topics.is_empty() && !self.send(&gathered, stop).await? {
            return Ok(());
        }
        self.cursor = CursorPosition {
            through: gathered.through,
            sending_through: None,
            last_error: String::new(),
        };
        self.save().await?;
        let now = self.clock.now();
        self.notified.retain(|_, at| *at + self.pace.again > now);
        let subjects = gathered.topics.into_keys();
        self.notified.extend(subjects.map(|subject| (subject, now)));
        Ok(())
    }

    /// Sends a message. False if the follower was stopped before the message was accepted.
    async fn send(
        &mut self,
        gathered: &PendingTopics,
        stop: &CancellationToken,
    ) -> Result<bool, ControlError> {
        let message = self.message(gathered).await?;
        let (channel, to) = (self.channel.name(), self.channel.shown());
        let (mut failures, mut had) = (0, BTreeSet::new());
        while !stop.is_cancelled() {
            match self.channel.send(&message, &self.host, &mut had).await {
                Ok(answer) => {
                    tracing::info!(
                        channel,
                        to,
                        id = message.id,
                        answer,
                        "a notification was delivered"
                    );
                    return Ok(true);
                }
                Err(error) => {
                    failures += 1;
                    let wait = wait_after(failures);
                    let again_seconds = wait.as_secs();
                    tracing::warn!(channel, to, id = message.id, %error, again_seconds, "the notification was not delivered; it is retried");
                    if self.cursor.last_error != error.why {
                        self.cursor.last_error = error.why;
                        self.save().await?;
                    }
                    pause(wait, stop).await;
                }
            }
        }
        Ok(false)
    }

    async fn message(&self, gathered: &PendingTopics) -> Result<Message, ControlError> {
        let mut parts = Vec::new();
        for (subject, topic) in gathered.topics.iter().take(TOPICS_MAX) {
            let (deletion, left) = match subject {
                Subject::Stuck(id) => (self.deletion(id).await?, self.left(id).await?),
                Subject::Refused(id) => (self.deletion(id).await?, Vec::new()),
                Subject::Paused(_) => (None, Vec::new()),
            };
            let mut steps = Vec::new();
            for id in &topic.steps {
                let step = self.control.find(query::Step { id: *id }).await?;
                steps.extend(step.map(|step| *step));
            }
            parts.push(TopicDetails {
                subject: subject.clone(),
                topic: topic.clone(),
                deletion,
                steps,
                left,
            });
        }
        let more = gathered.topics.len() - parts.len();
        let id = format!("gone-{}-{}", self.ledger_id, gathered.through);
        let now = self.clock.now();
        Ok(Message::write(&self.host, id, &parts, more, now))
    }

    /// Returns the deletion; None if it does not exist any more: then the message says less.
    async fn deletion(&self, id: &str) -> Result<Option<Box<Deletion>>, ControlError> {
        let id = id.to_owned();
        self.control.find(query::Deletion { id }).await
    }

    /// Returns the resources that the approved plan leaves in the cloud (N19).
    async fn left(&self, deletion_id: &str) -> Result<Vec<Left>, ControlError> {
        let plan = query::FrozenPlan {
            without_steps: true,
            ..query::FrozenPlan::of(deletion_id)
        };
        let plan = self.control.find(plan).await?;
        Ok(plan.map(|plan| plan.left.clone()).unwrap_or_default())
    }

    async fn save(&mut self) -> Result<(), ControlError> {
        self.unsaved = true;
        let position = Some(self.cursor.clone());
        save(self.control.as_ref(), self.channel.name(), position).await?;
        self.unsaved = false;
        Ok(())
    }
}

async fn pause(wait: Duration, stop: &CancellationToken) {
    stop.run_until_cancelled(tokio::time::sleep(wait)).await;
}
