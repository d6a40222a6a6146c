//! `gone retry`: retries deletions, steps, or all blocked and stuck steps that match.

use clap::Args;

use super::act::Act;
use super::args::Why;
use super::{Exit, Failure, Needs, Session, Verb, wait};
use crate::control::{Command, NotEligible, Receipt, RetryFilter};
use crate::domain::model::Site;
use crate::present::{count, thousands};

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
    /// Count what can be retried, and do nothing
    #[arg(long, requires = "all")]
    pub dry_run: bool,
    #[command(flatten)]
    pub why: Why,
}

const RETRY: Act = Act {
    verb: "retry",
    on_deletion: |deletion_id| Command::Retry { deletion_id },
    on_step: Some(|step_id| Command::RetryStep { step_id }),
    on_site: None,
    sends: true,
};

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
                true => "nothing done".to_owned(),
                false => format!("{} retried", thousands(retried.moved)),
            };
            let (can, left) = (count(retried.eligible, "step"), thousands(left));
            let line = format!("{can} can be retried, {left} cannot: {moved}");
            session.out.say(line)?;
            for NotEligible { reason, steps } in &retried.not_eligible {
                session.out.say(format!("  {steps}: {reason}"))?;
            }
        }
        wait::carry_on(session, !dry_run, Exit::Done).await
    }
}
