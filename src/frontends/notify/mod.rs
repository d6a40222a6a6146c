//! Tells people, by webhook and mail, that something needs them (I7).
//!
//! ```text
//! ledger's events ──▶ Gathered (domain::news) ──▶ Message ──▶ webhook
//!        ▲                     one each for a channel    └──▶ mail
//!        └── Mark: how far the channel is, kept in the ledger
//! ```
//!
//! **What counts** ([`crate::domain::news`] decides): a step that is stuck by itself, also while others
//! of its deletion go on; a refused deletion that nobody waits for; a site that was paused. What waits
//! for a stuck step is told with it; what is blocked is retried automatically and is no news.
//!
//! **Once, over a crash.** The events are the outbox. Before a message is sent its channel's mark says
//! up to which event it reaches, and after it was taken that it was. What a crash leaves between the
//! two is sent once more, with the same events and the same id: `gone-LEDGER-EVENT`, which is the
//! `Idempotency-Key` of a webhook and the `Message-ID` of a mail. A channel that is new begins at the
//! newest event: it does not tell the whole history.
//!
//! **One channel never holds up another, nor the engine.** Each is a task that only reads. One that
//! takes nothing is tried again after growing waits, for ever; meanwhile its news gathers in the ledger
//! and is one message afterwards.
//!
//! Only the process whose engine stays with the ledger sends (`gone`, `gone --engine`): a verb is gone
//! before an answer comes, and what it leaves is told by the next engine.
//!
//! # The webhook
//! `POST` with `Content-Type: application/json`; any 2xx takes it; redirects are not followed.
//!
//! ```json
//! {"id": "gone-9f…-1742", "text": "one line for each of these, for chat systems",
//!  "at": "2026-01-02T03:04:05Z", "host": "admin1",
//!  "news": [{"type": "stuck", "deletion_id": "0189…", "short_id": "9f86d081", "since": "…",
//!            "targets": [{"site", "kind", "id", "name"}], "sites": ["prod/RegionOne"], "count": 3,
//!            "steps": [{"id": 1742, "resource": {"site", "kind", "id", "name"}, "attempts": 8,
//!                       "blocked_since": "…", "last_error": {"class", "status", "type", "message",
//!                       "request_id", "at"}, "blockers": [{"kind", "id", "name", "site", …}]}],
//!            "reasons": [], "left": [{"resource": {"site", "kind", "id", "name"}, "project_id", "reason"}],
//!            "left_count": 1, "next": ["gone explain …", "gone retry …"]}],
//!  "more": 0}
//! ```
//! `type` is `stuck`, `refused` (`reasons` says why) or `paused` (no deletion); a test has no news. `left`
//! is what stays by the plan of a stuck deletion: 3 of `left_count` at most. At most 10 of `news`, 5 of
//! `steps`, 500 characters of a text; `more` counts what was left out. What clouds say is escaped, and in
//! `text` also harmless to chat systems.

mod follow;
mod mail;
mod message;
mod webhook;

use std::collections::BTreeSet;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::control::{Control, ControlError};
use crate::domain::news::Pace;
use crate::system::clock::Clock;
use crate::system::config::{MailSettings, NotifySettings, WebhookSettings, secret_in};
use follow::Follower;
use message::Message;

/// Of the second within which an engine that is told to end settles what is in flight.
const STOP_MAX: Duration = Duration::from_secs(1);

/// A way to tell people.
#[derive(Clone, Debug)]
enum Channel {
    Webhook(WebhookSettings),
    Mail(MailSettings),
}

/// Under which the ledger keeps the marks.
const CHANNELS: [&str; 2] = ["webhook", "mail"];

impl Channel {
    fn all(settings: &NotifySettings) -> Vec<Self> {
        let webhook = settings.webhook.clone().map(Self::Webhook);
        let mail = settings.mail.clone().map(Self::Mail);
        webhook.into_iter().chain(mail).collect()
    }

    fn name(&self) -> &'static str {
        match self {
            Self::Webhook(_) => CHANNELS[0],
            Self::Mail(_) => CHANNELS[1],
        }
    }

    /// Where it leads, without secrets.
    fn shown(&self) -> String {
        match self {
            Self::Webhook(webhook) => format!("webhook {}", webhook.shown()),
            Self::Mail(mail) => format!(
                "mail to {} by {}:{}",
                mail.to.join(", "),
                mail.server,
                mail.port()
            ),
        }
    }

    /// Whether its secret can be read.
    fn check(&self) -> Result<(), String> {
        let file = match self {
            Self::Webhook(webhook) => webhook.token_file.as_deref(),
            Self::Mail(mail) => mail.password_file.as_deref(),
        };
        file.map_or(Ok(()), |file| secret_in(file).map(drop))
    }

    /// What was answered by who took it. `had` are the recipients who have it from an earlier try.
    async fn send(
        &self,
        message: &Message,
        host: &str,
        had: &mut BTreeSet<String>,
    ) -> Result<String, NotTaken> {
        match self {
            Self::Webhook(webhook) => webhook::send(webhook, message).await,
            Self::Mail(mail) => mail::send(mail, message, host, had).await,
        }
    }
}

/// Why a message was not taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{why}")]
pub struct NotTaken {
    pub trouble: DeliveryErrorKind,
    /// Without secrets, and escaped.
    pub why: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeliveryErrorKind {
    /// The settings, or a file that they name.
    Configuration,
    /// The token or the password was not accepted.
    Auth,
    /// No answer, or none that takes the message.
    Unreachable,
}

impl NotTaken {
    fn new(trouble: DeliveryErrorKind, why: impl Into<String>) -> Self {
        let why = why.into();
        Self { trouble, why }
    }
}

/// Why nobody will be told: the engine must not start as if somebody would.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error("{channel}: {why}")]
    Secret { channel: String, why: String },
    #[error(transparent)]
    Control(#[from] ControlError),
}

/// Tells people for as long as it lives.
pub struct Notifier {
    tasks: JoinSet<()>,
    stop: CancellationToken,
}

impl Notifier {
    /// Follows the events from each channel's mark on. To be started before the engine runs, so that a
    /// channel's first event is the first of this run.
    ///
    /// # Errors
    /// A file with a secret cannot be used, or the ledger cannot be read or written.
    pub async fn start(
        control: Arc<dyn Control>,
        settings: &NotifySettings,
        clock: Clock,
    ) -> Result<Self, StartError> {
        let mut notifier = Self {
            tasks: JoinSet::new(),
            stop: CancellationToken::new(),
        };
        let pace = Pace {
            gather: settings.gather,
            again: settings.again,
        };
        let channels = Channel::all(settings);
        for name in CHANNELS {
            if !channels.iter().any(|channel| channel.name() == name) {
                follow::forget(control.as_ref(), name).await?;
            }
        }
        for channel in channels {
            let (name, shown) = (channel.name(), channel.shown());
            channel.check().map_err(|why| StartError::Secret {
                channel: shown,
                why,
            })?;
            let follower =
                Follower::new(control.clone(), channel, pace, clock.clone(), host()).await?;
            let stop = notifier.stop.clone();
            let run = AssertUnwindSafe(follower.run(stop)).catch_unwind();
            notifier.tasks.spawn(async move {
                if run.await.is_err() {
                    // The hook has said where.
                    tracing::error!(channel = name, "telling people has ended by a mistake of gone; restart it to go on: nothing is lost");
                }
            });
        }
        Ok(notifier)
    }

    /// Ends, after what is being sent was answered, or a second: then it is sent again by the next.
    pub async fn stop(mut self) {
        self.stop.cancel();
        let ended = async { while self.tasks.join_next().await.is_some() {} };
        // What does not end in time is dropped with its task, as in a crash.
        let _ = tokio::time::timeout(STOP_MAX, ended).await;
    }
}

/// The channels that are configured: under which name the ledger keeps the mark of each, and where it
/// leads.
pub fn channels(settings: &NotifySettings) -> Vec<(&'static str, String)> {
    let channels = Channel::all(settings);
    let named = channels
        .iter()
        .map(|channel| (channel.name(), channel.shown()));
    named.collect()
}

/// What a channel made of a test.
#[derive(Clone, Debug)]
pub struct Tried {
    /// Which, and where it leads.
    pub channel: String,
    /// What it answered, if it took the message.
    pub answer: Result<String, NotTaken>,
}

/// Sends a test by each channel, all at once. None is configured: an empty list.
pub async fn test(settings: &NotifySettings, clock: &Clock) -> Vec<Tried> {
    let host = host();
    let message = Message::test(&host, &clock.new_id(), clock.now());
    let channels = Channel::all(settings);
    let tries = channels.iter().map(|channel| async {
        Tried {
            channel: channel.shown(),
            answer: channel.send(&message, &host, &mut BTreeSet::new()).await,
        }
    });
    futures_util::future::join_all(tries).await
}

/// This machine's name, where a person types the commands that a message names.
fn host() -> String {
    let uname = rustix::system::uname();
    uname.nodename().to_string_lossy().into_owned()
}
