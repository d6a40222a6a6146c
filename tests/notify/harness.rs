//! A ledger in a file, a control over it, and the notifier.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use gone::control::{
    Command, Control, ControlError, Envelope, Page, Query, Receipt, Snapshot, query,
};
use gone::domain::model::{
    Blocker, ErrorClass, Event, EventKind, Left, Origin, Plan, PlanStep, Refusal, RefusalRule,
    ResourceKey, Site, StepError, StepState, Target,
};
use gone::domain::notification::CursorPosition;
use gone::domain::policy::Decision;
use gone::frontends::notify::Notifier;
use gone::ledger::sqlite::{InlineLedger, Options, Store};
use gone::ledger::{
    Applied, Capacity, Change, Commit as _, EventFilter, NewDeletion, NewEvent, StepChange,
    Views as _, WorkQueue as _,
};
use gone::system::clock::Clock;
use gone::system::config::{MailSettings, MailTls, NotifySettings, WebhookSettings};
use tokio::sync::watch;

use super::receivers::{DEADLINE, MailServer, WebServer};

use crate::testkit;

pub const FRIDAY: &str = "2026-01-02T02:00:00Z";

/// The part of the engine's control that the notifier uses, over the real ledger.
pub struct FakeControl {
    ledger: InlineLedger,
    committed: watch::Sender<u64>,
    snapshot: watch::Sender<Arc<Snapshot>>,
    /// While set, a delivered message is never recorded, as if the engine crashed after it sent the message.
    pub hangs_when_recording: AtomicBool,
}

impl FakeControl {
    pub async fn commit(&self, changes: Vec<Change>) -> Vec<Applied> {
        let applied = self.ledger.commit(changes).await.unwrap();
        self.committed.send_modify(|version| *version += 1);
        applied
    }

    /// Sets whether another engine leads the engines of the ledger.
    pub fn set_follows(&self, follows: bool) {
        self.snapshot
            .send_modify(|snapshot| Arc::make_mut(snapshot).engine.follows = follows);
    }

    pub async fn cursor(&self, channel: &str) -> Option<CursorPosition> {
        self.ledger
            .notification_cursor(channel)
            .await
            .unwrap()
            .position
    }
}

#[async_trait]
impl Control for FakeControl {
    async fn submit(&self, envelope: Envelope) -> Result<Receipt, ControlError> {
        let Command::MoveNotificationCursor { channel, position } = envelope.command else {
            panic!("the notifier may only move its cursors: {envelope:?}");
        };
        let is_delivered = position
            .as_ref()
            .is_some_and(|position| position.sending_through.is_none());
        if is_delivered && self.hangs_when_recording.load(Ordering::SeqCst) {
            std::future::pending::<()>().await;
        }
        self.commit(vec![Change::MoveNotificationCursor { channel, position }])
            .await;
        Ok(Receipt::Done { moved: 0 })
    }

    async fn query(&self, query: Query) -> Result<Page, ControlError> {
        let nothing = || ControlError::NotFound {
            message: "none".to_owned(),
        };
        match query {
            Query::NotificationCursor(query::NotificationCursor { channel }) => Ok(
                Page::NotificationCursor(self.ledger.notification_cursor(&channel).await.unwrap()),
            ),
            Query::Deletion(query::Deletion { id }) => {
                let row = self.ledger.deletion(&id).await.unwrap();
                Ok(Page::Deletion(Box::new(row.ok_or_else(nothing)?)))
            }
            Query::FrozenPlan(query::FrozenPlan {
                deletion_id,
                without_steps: true,
            }) => {
                let plan = self.ledger.frozen_plan(&deletion_id, false).await.unwrap();
                Ok(Page::FrozenPlan(plan.ok_or_else(nothing)?))
            }
            Query::Step(query::Step { id }) => {
                let row = self.ledger.step(id).await.unwrap();
                Ok(Page::Step(Box::new(row.ok_or_else(nothing)?)))
            }
            other => panic!("a query that the notifier does not make: {other:?}"),
        }
    }

    async fn events(&self, after: i64, wait_ms: u64) -> Result<Vec<Event>, ControlError> {
        let mut committed = self.committed.subscribe();
        let deadline = tokio::time::Instant::now() + Duration::from_millis(wait_ms);
        loop {
            committed.mark_unchanged();
            let page = self.ledger.events(after, EventFilter::default(), 500).await;
            let events = page.unwrap().events;
            let changed = committed.changed();
            if !events.is_empty() || tokio::time::timeout_at(deadline, changed).await.is_err() {
                return Ok(events);
            }
        }
    }

    fn snapshot(&self) -> watch::Receiver<Arc<Snapshot>> {
        self.snapshot.subscribe()
    }
}

pub struct Harness {
    folder: tempfile::TempDir,
    pub control: Arc<FakeControl>,
    pub settings: NotifySettings,
    /// The resources that stay, in the plan of every deletion.
    pub left: Vec<Left>,
    clock: Clock,
}

impl Harness {
    /// Creates a harness whose settings gather no events, and allow the next message about a deletion at once.
    pub fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(&folder.path().join("ledger.db"), Options::default()).unwrap();
        let control = Arc::new(FakeControl {
            ledger: InlineLedger::new(store),
            committed: watch::Sender::new(0),
            snapshot: watch::Sender::new(Arc::default()),
            hangs_when_recording: AtomicBool::new(false),
        });
        Self {
            folder,
            control,
            settings: NotifySettings {
                gather: Duration::ZERO,
                again: Duration::ZERO,
                ..NotifySettings::default()
            },
            left: Vec::new(),
            clock: Clock::system(),
        }
    }

    pub fn with_webhook(mut self, server: &WebServer) -> Self {
        self.settings.webhook = Some(WebhookSettings {
            url: server.url.clone(),
            token_file: None,
        });
        self
    }

    pub fn with_mail(mut self, server: &MailServer) -> Self {
        self.settings.mail = Some(mail(server));
        self
    }

    /// Writes a file with a secret, which only its owner can read.
    pub fn secret(&self, name: &str, text: &str) -> PathBuf {
        use std::os::unix::fs::PermissionsExt as _;
        let file = self.folder.path().join(name);
        std::fs::write(&file, text).unwrap();
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
        file
    }

    pub async fn start(&self) -> Notifier {
        let control: Arc<dyn Control> = self.control.clone();
        let started = Notifier::start(control, &self.settings, self.clock.clone());
        started.await.unwrap()
    }

    /// Waits until the channel has a cursor for which `wanted` is true, and returns it.
    pub async fn wait_for_cursor(
        &self,
        channel: &str,
        wanted: impl Fn(&CursorPosition) -> bool,
    ) -> CursorPosition {
        let mut committed = self.control.committed.subscribe();
        let waiting = async {
            loop {
                committed.mark_unchanged();
                if let Some(position) = self.control.cursor(channel).await.filter(&wanted) {
                    return position;
                }
                committed.changed().await.unwrap();
            }
        };
        let found = tokio::time::timeout(DEADLINE, waiting).await;
        found.unwrap_or_else(|_| panic!("timed out waiting for the cursor of {channel}"))
    }

    /// Starts a deletion of a network with this number of ports.
    pub async fn running(&self, name: &str, ports: usize) {
        let steps =
            (0..ports).map(|port| (format!("port-{name}-{port}"), format!("server-{port}")));
        self.running_with(name, &format!("net-{name}"), steps.collect())
            .await;
    }

    /// Starts a deletion of a network of this name with these ports, given by id and name.
    pub async fn running_with(&self, name: &str, network: &str, ports: Vec<(String, String)>) {
        let target = Target {
            key: key("network", &format!("id-{name}")),
            name: network.to_owned(),
        };
        let steps: Vec<PlanStep> = ports
            .into_iter()
            .enumerate()
            .map(|(position, (id, name))| step(position, &id, &name))
            .collect();
        let plan = Plan {
            left: self.left.clone(),
            ..plan(vec![target.clone()], steps)
        };
        let count = plan.steps.len();
        let applied = self
            .control
            .commit(vec![
                Change::Accept(Box::new(new_deletion(
                    name,
                    target,
                    Origin::Gate,
                    self.clock.now(),
                ))),
                Change::Start {
                    deletion_id: id(name),
                    ranks: vec![1; count],
                    max_attempts: vec![8; count],
                    plan: Arc::new(plan),
                    now: self.clock.now(),
                },
            ])
            .await;
        assert_eq!(applied.last(), Some(&Applied::Done), "{applied:?}");
    }

    /// Makes every ready step stuck, in one transaction.
    pub async fn all_stuck(&self, message: &str) {
        let now = self.clock.now();
        let capacity = Capacity {
            site: site(),
            now: 5_000,
            ahead: 0,
        };
        let claimed = self.control.ledger.claim(vec![capacity], now).await;
        let changes = claimed.unwrap().into_iter().map(|step| {
            Change::Step(Box::new(StepChange {
                step_id: step.id,
                fence: step.fence,
                decision: Decision {
                    to: StepState::Stuck,
                    attempts: 8,
                    next_attempt_at: None,
                    blocked_since: Some(FRIDAY.parse().unwrap()),
                    blockers: vec![blocker()],
                    error: Some(StepError {
                        class: ErrorClass::Blocked,
                        status: Some(409),
                        kind: "PortInUse".to_owned(),
                        message: message.to_owned(),
                        request_id: "req-1".to_owned(),
                        at: now,
                    }),
                    observed_again: false,
                },
                message: "DELETE 409 PortInUse".to_owned(),
                answer: None,
                now,
            }))
        });
        let applied = self.control.commit(changes.collect()).await;
        assert!(applied.iter().all(|one| *one == Applied::Done));
    }

    /// Starts a deletion with one port, and makes its step stuck.
    pub async fn stuck(&self, name: &str) {
        self.running(name, 1).await;
        self.all_stuck("a server holds it").await;
    }

    /// Refuses a deletion that was requested this number of seconds ago.
    pub async fn refused(&self, name: &str, origin: Origin, after_seconds: i64) {
        let target = Target {
            key: key("network", &format!("id-{name}")),
            name: format!("net-{name}"),
        };
        let requested_at = self.clock.now() - chrono::TimeDelta::seconds(after_seconds);
        let refusal = Refusal {
            resource: target.clone(),
            rule: RefusalRule::InUse,
            reason: format!("net-{name} is used by a router"),
            blocker: Some(blocker()),
            changes: Vec::new(),
        };
        self.control
            .commit(vec![
                Change::Accept(Box::new(new_deletion(name, target, origin, requested_at))),
                Change::Refuse {
                    deletion_id: id(name),
                    refused: vec![refusal],
                    note: "in use".to_owned(),
                    now: self.clock.now(),
                },
            ])
            .await;
    }

    /// Records an event that says that a site has this state.
    pub async fn site_event(&self, site: &str, state: &str) {
        let event = NewEvent {
            deletion_id: None,
            step_id: None,
            kind: EventKind::Site,
            message: format!("{site} {state}: the login was refused"),
            data: serde_json::json!({ "site": site, "state": state }),
        };
        let now = self.clock.now();
        self.control.commit(vec![Change::Note { event, now }]).await;
    }
}

pub fn mail(server: &MailServer) -> MailSettings {
    MailSettings {
        from: "Gone <gone@cloud.example>".to_owned(),
        to: vec!["ops@cloud.example".to_owned()],
        server: "127.0.0.1".to_owned(),
        port: Some(server.port),
        tls: MailTls::None,
        user: None,
        password_file: None,
    }
}

pub fn id(name: &str) -> String {
    format!("01890000-0000-7000-8000-{name:0>12}")
}

fn site() -> Site {
    Site::region("prod", "RegionOne")
}

pub fn key(kind: &str, id: &str) -> ResourceKey {
    testkit::key(site(), kind, id)
}

fn blocker() -> Blocker {
    Blocker {
        owner: "p-1".to_owned(),
        owner_name: "demo".to_owned(),
        ..Blocker::of(&key("server", "s-1"), "web-1")
    }
}

fn new_deletion(name: &str, target: Target, origin: Origin, now: DateTime<Utc>) -> NewDeletion {
    NewDeletion {
        reason: "ticket 4711".to_owned(),
        ..testkit::new_deletion(id(name), testkit::actor("ada", origin), vec![target], now)
    }
}

fn step(position: usize, id: &str, name: &str) -> PlanStep {
    let position = u32::try_from(position).unwrap();
    PlanStep {
        name: name.to_owned(),
        project_id: "p-1".into(),
        ..testkit::plan_step(position, key("port", id), &[])
    }
}

fn plan(targets: Vec<Target>, steps: Vec<PlanStep>) -> Plan {
    Plan {
        hash: format!("hash-{}", targets[0].key.id),
        ..testkit::plan(targets, steps)
    }
}
