//! Notifies people: continuously beside an engine that stays, and once as a test.

use std::sync::Arc;

use clap::{Args, Subcommand};

use super::{LocalVerb, Process, runtime};
use crate::control::Control;
use crate::domain::model::ErrorClass;
use crate::frontends::cli::{self, Exit, Failure};
use crate::frontends::notify::{self, ChannelTest, Notifier, StartError};
use crate::frontends::offline::doctor;
use crate::system::clock::Clock;
use crate::system::config::NotifySettings;

pub(super) async fn start(
    control: Arc<dyn Control>,
    settings: &NotifySettings,
) -> Result<Notifier, Failure> {
    let started = Notifier::start(control, settings, Clock::system()).await;
    started.map_err(|error| match error {
        StartError::Control(error) => Failure::of("read the notification cursors", error),
        StartError::Secret { .. } => {
            let advice =
                "Correct the file, or [notify] in the settings; `gone notify test` tests it.";
            Failure::usage("notify people as [notify] says", error.to_string(), advice)
        }
    })
}

/// Test the notifications about deletions and sites that need a person
#[derive(Clone, Debug, Args)]
#[command(after_long_help = "\
The engine sends notifications by webhook and mail, as [notify] of the settings says: of a step that is stuck,
of a deletion that was refused while nobody waited, and of a site that was paused.

Examples:
  gone notify test                      send a test by each channel, and show the answers
  gone notify test --config try.toml -o json")]
pub struct Notify {
    #[command(subcommand)]
    pub work: NotifyWork,
}

#[derive(Clone, Copy, Debug, Subcommand)]
pub enum NotifyWork {
    /// Send a test notification by each channel
    ///
    /// Exits with 2 if there is no channel, and with 5 if one cannot be reached.
    Test,
}

impl LocalVerb for Notify {
    fn run(self, process: &Process<'_>) -> Result<Exit, Failure> {
        match self.work {
            NotifyWork::Test => runtime()?.block_on(test(process)),
        }
    }
}

async fn test(process: &Process<'_>) -> Result<Exit, Failure> {
    let tests = notify::test(&process.settings()?.notify, &Clock::system()).await;
    if tests.is_empty() {
        let why = "neither a webhook nor mail is configured";
        let advice = "Write [notify.webhook] or [notify.mail] into the settings; `gone --print-config` shows them.";
        return Err(Failure::usage("send a test", why, advice));
    }
    let checks: Vec<doctor::Check> = tests.iter().map(check).collect();
    let next = "Each receiver accepted the test. Check that it arrived.";
    process.print(|to| cli::doctor::report(to, &checks, next))
}

fn check(tests: &ChannelTest) -> doctor::Check {
    let error = match &tests.answer {
        Ok(answer) => return doctor::ok(&tests.channel, answer),
        Err(error) => error,
    };
    let advice = match error.class {
        ErrorClass::Auth => "Check the token_file, or user and password_file.",
        ErrorClass::Fatal => "Correct [notify] in the settings.",
        _ => "Check the address, the network and the receiver.",
    };
    doctor::fail(&tests.channel, error.class.into(), &error.why, advice)
}
