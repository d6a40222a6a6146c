//! Notifies people, by webhook and mail, of the deletions and sites that need them (I7).
//!
//! ```text
//! ledger's events ──▶ PendingTopics (domain::notification) ──▶ Message ──▶ webhook
//!        ▲                          one for each channel      └──▶ mail
//!        └── cursor: the last event that the channel has reported, kept in the ledger
//! ```
//!
//! **The topics of a message** ([`crate::domain::notification`] decides): a step that is stuck by itself, even while
//! other steps of its deletion continue; a refused deletion that nobody waits for; a paused site. Steps that wait
//! for a stuck step are reported with it. Blocked steps are retried automatically, so nobody is notified of them.
//!
//! **Once, even after a crash.** The events are the outbox. Before a message is sent, the channel's
//! cursor records the last event that the message covers, and afterwards that the message was accepted. If the engine
//! crashes in between, the message is sent once more, with the same events and the same id: `gone-LEDGER-EVENT`, which
//! is the `Idempotency-Key` of a webhook and the `Message-ID` of a mail. A new channel begins at the newest event, not
//! with the whole history.
//!
//! **A channel never delays another one or the engine.** Each is a task that only reads events, sends messages and
//! moves its cursor. A failing channel is retried for ever with growing waits; meanwhile its events gather in the
//! ledger and become one message.
//!
//! Only a process whose engine keeps running sends messages (`gone`, `gone --engine`): a command ends before
//! an answer comes, and the next engine reports the command's events.
//!
//! # The webhook
//! `POST` with `Content-Type: application/json`; any 2xx accepts the message; redirects are not followed.
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
//! `type` is `stuck`, `refused` or `paused` (no deletion); for the last two, `reasons` says why. In a test, `news` is
//! empty. `left` lists the resources that stay by the plan of a stuck deletion: at most 3 of `left_count`. There are at
//! most 10 entries in `news`, 3 in `targets`, 5 in `steps`, and 500 characters in a text; `more` counts the omitted
//! entries of `news`.
//! Texts from clouds are escaped, and in `text` also made harmless to chat systems.

mod follow;
mod mail;
mod message;
mod webhook;

use std::collections::BTreeSet;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use strum::{IntoStaticStr, VariantNames};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::control::{Control, ControlError};
use crate::domain::model::ErrorClass;
use crate::domain::notification::Pace;
use crate::system::clock::Clock;
use crate::system::config::{MailSettings, NotifySettings, WebhookSettings, secret_in};
use crate::system::machine::host;
use follow::Follower;
use message::Message;

/// Time that messages in progress have to finish when the engine stops.
const STOP_MAX: Duration = Duration::from_secs(1);

/// A channel by which people are notified. The ledger keeps the channel's cursor under the channel's name.
#[derive(Clone, Debug, IntoStaticStr, VariantNames)]
#[strum(serialize_all = "lowercase")]
enum Channel {
    Webhook(WebhookSettings),
    Mail(MailSettings),
}

impl Channel {
    fn all(settings: &NotifySettings) -> Vec<Self> {
        let webhook = settings.webhook.clone().map(Self::Webhook);
        let mail = settings.mail.clone().map(Self::Mail);
        webhook.into_iter().chain(mail).collect()
    }

    fn name(&self) -> &'static str {
        self.into()
    }

    /// Returns the channel's destination, without secrets.
    fn shown(&self) -> String {
        match self {
            Self::Webhook(webhook) => format!("webhook {}", webhook.shown()),
            Self::Mail(mail) => {
                let (to, server, port) = (mail.to.join(", "), &mail.server, mail.port());
                format!("mail to {to} by {server}:{port}")
            }
        }
    }

    /// Checks that the channel's secret can be read.
    fn check(&self) -> Result<(), StartError> {
        let file = match self {
            Self::Webhook(webhook) => webhook.token_file.as_deref(),
            Self::Mail(mail) => mail.password_file.as_deref(),
        };
        let channel = self.shown();
        let secret = file.map(secret_in).transpose().map(drop);
        secret.map_err(|why| StartError::Secret { channel, why })
    }

    /// Sends a message and returns the receiver's answer. `had` are the recipients who got the message in an
    /// earlier attempt.
    async fn send(
        &self,
        message: &Message,
        host: &str,
        had: &mut BTreeSet<String>,
    ) -> Result<String, DeliveryError> {
        match self {
            Self::Webhook(webhook) => webhook::send(webhook, message).await,
            Self::Mail(mail) => mail::send(mail, message, host, had).await,
        }
    }
}

/// The reason why a message was not accepted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{why}")]
pub struct DeliveryError {
    /// `Fatal` if the settings, or a file that they name, are wrong; `Auth` if the token or the password was not
    /// accepted; `Unavailable` if there was no answer, or the answer did not accept the message.
    pub class: ErrorClass,
    /// Without secrets, and escaped.
    pub why: String,
}

impl DeliveryError {
    fn new(class: ErrorClass, why: impl Into<String>) -> Self {
        let why = why.into();
        Self { class, why }
    }

    fn unreachable(why: impl Into<String>) -> Self {
        Self::new(ErrorClass::Unavailable, why)
    }

    fn configuration(why: impl ToString) -> Self {
        Self::new(ErrorClass::Fatal, why.to_string())
    }
}

/// The reason why the notifier cannot start. The engine must not start without it, because nobody would be notified.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error("{channel}: {why}")]
    Secret { channel: String, why: String },
    #[error(transparent)]
    Control(#[from] ControlError),
}

/// Notifies people for as long as it lives.
pub struct Notifier {
    tasks: JoinSet<()>,
    stop: CancellationToken,
}

impl Notifier {
    /// Follows the events from each channel's cursor on. Must be started before the engine runs, so that a new
    /// channel misses no event of this run.
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
        for name in Channel::VARIANTS {
            if !channels.iter().any(|channel| channel.name() == *name) {
                follow::forget(control.as_ref(), name).await?;
            }
        }
        for channel in channels {
            let name = channel.name();
            channel.check()?;
            let follower =
                Follower::new(control.clone(), channel, pace, clock.clone(), host()).await?;
            let stop = notifier.stop.clone();
            let run = AssertUnwindSafe(follower.run(stop)).catch_unwind();
            notifier.tasks.spawn(async move {
                if run.await.is_err() {
                    // The panic hook has logged the location.
                    tracing::error!(channel = name, "a bug in gone has ended the notifications; restart the engine to continue them: nothing is lost");
                }
            });
        }
        Ok(notifier)
    }

    /// Stops once the messages in progress are answered, or after a second. The next engine repeats those without
    /// an answer.
    pub async fn stop(mut self) {
        self.stop.cancel();
        let ended = async { while self.tasks.join_next().await.is_some() {} };
        // A task that does not end in time is dropped, as in a crash.
        let _ = tokio::time::timeout(STOP_MAX, ended).await;
    }
}

/// Returns the configured channels: the name under which the ledger keeps the cursor, and the destination.
pub fn channels(settings: &NotifySettings) -> Vec<(&'static str, String)> {
    let channels = Channel::all(settings).into_iter();
    channels.map(|it| (it.name(), it.shown())).collect()
}

/// The outcome of a test of a channel.
#[derive(Clone, Debug)]
pub struct ChannelTest {
    /// The channel and its destination.
    pub channel: String,
    /// The receiver's answer, or why the message was not accepted.
    pub answer: Result<String, DeliveryError>,
}

/// Sends a test message by each channel, all at the same time. The list is empty if no channel is configured.
pub async fn test(settings: &NotifySettings, clock: &Clock) -> Vec<ChannelTest> {
    let host = host();
    let message = Message::test(&host, &clock.new_id(), clock.now());
    let channels = Channel::all(settings);
    let tries = channels.iter().map(|channel| async {
        ChannelTest {
            channel: channel.shown(),
            answer: channel.send(&message, &host, &mut BTreeSet::new()).await,
        }
    });
    futures_util::future::join_all(tries).await
}
