//! `gone cancel`, `pause`, `resume` and `retry`: one command for each argument (a deletion; for `pause` and `resume`
//! also a site or an engine; for `retry` also a step), or with `retry --all` one for all steps that match. And `gone
//! ledger prune`, by which the engine that owns the ledger removes old rows.

use std::time::Duration;

use clap::Args;
use serde::Serialize;

use super::args::Why;
use super::{Exit, Failure, Needs, Session, Verb, wait};
use crate::control::{Command, NotEligible, Receipt, RetryFilter};
use crate::domain::duration;
use crate::domain::ladder::PurgeScope;
use crate::domain::model::{Site, short_id};
use crate::present::{columns, count, thousands};

/// Cancel deletions: send nothing more; calls that were sent run to their end
#[derive(Clone, Debug, Args)]
#[command(after_long_help = "\
Examples:
  gone cancel 9f86d081 --reason 'ticket 4711'")]
pub struct Cancel {
    /// Ids of deletions, or their last 8 characters
    #[arg(required = true, value_name = "ID")]
    pub ids: Vec<String>,
    #[command(flatten)]
    pub why: Why,
}

/// Pause a deletion, a site or an engine: send nothing more until it is resumed
#[derive(Clone, Debug, Args)]
#[command(after_long_help = "\
Examples:
  gone pause 9f86d081
  gone pause prod/RegionOne --reason 'controllers are upgraded'
  gone pause --engine admin1       it ends its calls in flight, to be upgraded")]
pub struct Pause {
    #[command(flatten)]
    pub on: DeletionsOrSites,
}

/// Resume a paused deletion or site
#[derive(Clone, Debug, Args)]
#[command(after_long_help = "\
Examples:
  gone resume 9f86d081
  gone resume prod/RegionOne
  gone resume --engine admin1")]
pub struct Resume {
    #[command(flatten)]
    pub on: DeletionsOrSites,
}

#[derive(Clone, Debug, Args)]
pub struct DeletionsOrSites {
    /// Ids of deletions, or their last 8 characters; or sites, CLOUD/REGION
    #[arg(required_unless_present = "engine", value_name = "ID|SITE")]
    pub ids: Vec<String>,
    /// An engine that shares the ledger with others, by its name in `gone list engines`
    #[arg(long, value_name = "NAME", conflicts_with = "ids")]
    pub engine: Option<String>,
    #[command(flatten)]
    pub why: Why,
}

/// Retry stuck and blocked steps
#[derive(Clone, Debug, Args)]
#[command(after_long_help = "\
Examples:
  gone retry 9f86d081
  gone retry 1742                       one step, by its number
  gone retry --all --type PolicyNotAuthorized --dry-run
  gone retry --all --kind port --site prod/RegionOne")]
pub struct Retry {
    /// Ids of deletions, or their last 8 characters; numbers of steps
    #[arg(required_unless_present = "all", value_name = "ID")]
    pub ids: Vec<String>,
    /// All stuck and blocked steps that the options below match
    #[arg(long, conflicts_with = "ids")]
    pub all: bool,
    /// Only of this kind
    #[arg(long, requires = "all")]
    pub kind: Option<String>,
    /// Only at this site
    #[arg(long, requires = "all", value_name = "CLOUD/REGION")]
    pub site: Option<Site>,
    /// Only after this error type, such as NetworkInUse
    #[arg(long = "type", requires = "all")]
    pub error_type: Option<String>,
    /// Only after this HTTP status
    #[arg(long, requires = "all")]
    pub status: Option<u16>,
    /// Only count the steps that can be retried
    #[arg(long, requires = "all")]
    pub dry_run: bool,
    #[command(flatten)]
    pub why: Why,
}

/// Remove old events and ended deletions, as the engine does every hour
#[derive(Clone, Debug, Args)]
pub struct Prune {
    /// Remove rows that are older than this [default: ledger.retention of the settings]
    ///
    /// Tombstones in their hold-down stay.
    #[arg(long, value_name = "DURATION", value_parser = duration::parse)]
    pub older_than: Option<Duration>,
}

/// A verb that sends one command for each of its arguments.
struct Act {
    verb: &'static str,
    on_deletion: fn(String) -> Command,
    /// None if the verb takes no numbers of steps.
    on_step: Option<fn(i64) -> Command>,
    /// None if the verb takes no sites.
    on_site: Option<fn(Site) -> Command>,
    /// Whether the verb may cause a delete to be sent.
    sends: bool,
}

const CANCEL: Act = Act {
    verb: "cancel",
    on_deletion: |deletion_id| Command::Cancel { deletion_id },
    on_step: None,
    on_site: None,
    sends: false,
};

const PAUSE: Act = Act {
    verb: "pause",
    on_deletion: |deletion_id| Command::Pause { deletion_id },
    on_site: Some(|site| Command::PauseSite { site }),
    ..CANCEL
};

const RESUME: Act = Act {
    verb: "resume",
    on_deletion: |deletion_id| Command::Resume { deletion_id },
    on_site: Some(|site| Command::ResumeSite { site }),
    sends: true,
    ..CANCEL
};

const RETRY: Act = Act {
    verb: "retry",
    on_deletion: |deletion_id| Command::Retry { deletion_id },
    on_step: Some(|step_id| Command::RetryStep { step_id }),
    sends: true,
    ..CANCEL
};

impl Verb for Cancel {
    async fn run(self, session: &mut Session<'_>) -> Result<Exit, Failure> {
        CANCEL.run(session, &self.ids, &self.why.reason).await
    }
}

impl Verb for Pause {
    async fn run(self, session: &mut Session<'_>) -> Result<Exit, Failure> {
        let on_engine = |name| Command::PauseEngine { name };
        PAUSE.run_on(session, self.on, on_engine).await
    }
}

impl Verb for Resume {
    async fn run(self, session: &mut Session<'_>) -> Result<Exit, Failure> {
        let on_engine = |name| Command::ResumeEngine { name };
        RESUME.run_on(session, self.on, on_engine).await
    }
}

impl Verb for Retry {
    fn needs(&self) -> Needs<'_> {
        Needs::reading(self.dry_run)
    }

    async fn run(self, session: &mut Session<'_>) -> Result<Exit, Failure> {
        if !self.all {
            return RETRY.run(session, &self.ids, &self.why.reason).await;
        }
        session.action_words = "retry --all".to_owned();
        let dry_run = self.dry_run;
        if !dry_run {
            session.refuse_if_read_only()?;
        }
        let kind = match &self.kind {
            Some(kind) => Some(session.kind(kind).await?),
            None => None,
        };
        if let Some(site) = &self.site {
            session.known_site(site).await?;
        }
        let filter = Box::new(RetryFilter {
            site: self.site,
            kind,
            error_type: self.error_type,
            status: self.status,
            ..RetryFilter::default()
        });
        let command = Command::RetryMatching { filter, dry_run };
        let retried = session.submit(command, &self.why.reason, None, Receipt::into_retried);
        let retried = retried.await?;
        if !session.out.value(&retried)? {
            let left: u64 = retried.not_eligible.iter().map(|it| it.steps).sum();
            let moved = match dry_run {
                true => "nothing was retried".to_owned(),
                false => format!("{} retried", thousands(retried.moved)),
            };
            let (can, left) = (count(retried.eligible, "step"), thousands(left));
            let line = format!("{can} can be retried, {left} cannot; {moved}");
            session.out.say(line)?;
            for NotEligible { reason, steps } in &retried.not_eligible {
                session.out.say(format!("  {steps}: {reason}"))?;
            }
        }
        wait::carry_on(session, !dry_run, Exit::Done).await
    }
}

impl Verb for Prune {
    async fn run(self, session: &mut Session<'_>) -> Result<Exit, Failure> {
        session.action_words = "ledger prune".to_owned();
        let before = self.older_than.map(|age| session.clock.now() - age);
        let command = Command::Prune { before };
        let rows = session.submit(command, "", None, Receipt::into_moved);
        let rows = rows.await?;
        if !session.out.value(&serde_json::json!({ "rows": rows }))? {
            let line = format!("{} of the ledger removed", count(rows, "row"));
            session.out.say(line)?;
        }
        Ok(Exit::Done)
    }
}

#[derive(Serialize)]
struct Done {
    id: String,
    /// A table shows the short id of a deletion, and the whole of any other id.
    #[serde(skip)]
    is_deletion: bool,
    did: &'static str,
    /// Number of steps that the verb changed.
    moved: u64,
}

columns! {
    DONE: Done, |row|
    "ID" 9 => if row.is_deletion { short_id(&row.id) } else { row.id.as_str() };
    "DID" 8 => row.did;
    "STEPS MOVED" 7 => row.moved;
}

impl Act {
    async fn run_on(
        &self,
        session: &mut Session<'_>,
        on: DeletionsOrSites,
        on_engine: fn(String) -> Command,
    ) -> Result<Exit, Failure> {
        let Some(name) = on.engine else {
            return self.run(session, &on.ids, &on.why.reason).await;
        };
        session.action_words = format!("{} the engine {name}", self.verb);
        let command = on_engine(name.clone());
        session.submit(command, &on.why.reason, None, Ok).await?;
        session.out.list(DONE, &[self.done(name, false, 0)])?;
        Ok(Exit::Done)
    }

    /// Handles every id, even after one that fails, until ctrl-c; the exit code is that of the worst result.
    async fn run(
        &self,
        session: &mut Session<'_>,
        ids: &[String],
        reason: &str,
    ) -> Result<Exit, Failure> {
        session.action_words = self.verb.to_owned();
        if self.sends {
            session.refuse_if_read_only()?;
        }
        let one = async |session: &mut Session<'_>, id: &str| self.one(session, id, reason).await;
        let (done, exit) = session.each(ids, one).await?;
        if !done.is_empty() {
            session.out.list(DONE, &done)?;
        }
        wait::carry_on(session, self.sends && !done.is_empty(), exit).await
    }

    /// Acts on a site or a deletion, or on a step by its number, if no deletion's id ends with it.
    async fn one(
        &self,
        session: &mut Session<'_>,
        id: &str,
        reason: &str,
    ) -> Result<Done, Failure> {
        // A site is written CLOUD/REGION, and no id has a slash.
        if let (Some(on_site), Some((cloud, region))) = (self.on_site, id.split_once('/')) {
            let command = on_site(Site::region(cloud, region));
            session.submit(command, reason, None, Ok).await?;
            return Ok(self.done(id.to_owned(), false, 0));
        }
        let (id, is_deletion, command) = match self.on_step {
            Some(on_step) => match session.deletion_or_step(id).await? {
                PurgeScope::Deletion(id) => (id.clone(), true, (self.on_deletion)(id)),
                PurgeScope::Step(step) => (id.to_owned(), false, on_step(step)),
            },
            None => {
                let id = session.deletion(id).await?.id;
                (id.clone(), true, (self.on_deletion)(id))
            }
        };
        let moved = session.submit(command, reason, None, Receipt::into_moved);
        Ok(self.done(id, is_deletion, moved.await?))
    }

    fn done(&self, id: String, is_deletion: bool, moved: u64) -> Done {
        Done {
            id,
            is_deletion,
            did: self.verb,
            moved,
        }
    }
}
