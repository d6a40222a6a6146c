//! `gone plan`: shows what a deletion would do. It sends no write call.

use std::path::PathBuf;
use std::sync::Arc;

use chrono::{DateTime, Utc};
use clap::Args;

use super::args::Format;
use super::plan_view::write_plan;
use super::{Exit, Failure, Needs, Session, Verb, plan_file};
use crate::control::{Command, Receipt, TargetSpec};
use crate::domain::model::{DriftPolicy, OnFailure, Plan as FrozenPlan, PlanOptions};

/// Show what a deletion would do, and send no write call
#[derive(Clone, Debug, Args)]
#[command(after_long_help = "\
In a TARGET, % escapes: %2F is a slash in a name.

Examples:
  gone plan network/web@prod/RegionOne --cascade
  gone plan network/web --cascade --region RegionOne --out plan.json
  gone plan network/web --cascade --check     exit 6 if the plan is refused
  gone plan network/web --cascade -o dot | dot -Tsvg > plan.svg")]
pub struct Plan {
    /// KIND/ID-or-NAME[@CLOUD[/REGION]], such as network/web@prod
    #[arg(required = true, value_name = "TARGET")]
    pub targets: Vec<String>,
    #[command(flatten)]
    pub options: Options,
    /// Write the plan to a file, for `delete --plan`
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// Exit with 6 if the plan is refused
    #[arg(long)]
    pub check: bool,
}

/// The choices that a plan freezes.
#[derive(Clone, Copy, Debug, Args)]
pub struct Options {
    /// Also delete the targets' dependents
    #[arg(long)]
    pub cascade: bool,
    /// After a failed step: continue (default) or stop
    ///
    /// `continue` goes on with the steps that do not depend on the failed one.
    // The short help of `delete` fits a small screen.
    #[arg(
        long,
        value_name = "POLICY",
        hide_possible_values = true,
        hide_short_help = true
    )]
    pub on_failure: Option<OnFailure>,
    /// On drift: ask (default), absorb or refuse
    ///
    /// Drift is a resource that appears after the plan: a person is asked, it is deleted too, or the deletion ends.
    #[arg(long, value_name = "POLICY", hide_possible_values = true)]
    pub drift: Option<DriftPolicy>,
    /// Delete the floating IPs too
    ///
    /// Without this they stay, disassociated.
    #[arg(long)]
    pub release_floating_ips: bool,
    /// Also delete resources that other projects may use
    ///
    /// These are public and community images, and shared networks.
    #[arg(long)]
    pub include_public: bool,
    /// Delete the Keystone project too, at the end
    ///
    /// It is deleted once everything that belongs to it is gone in each region.
    #[arg(long)]
    pub with_project: bool,
    /// Delete the servers on the networks too
    ///
    /// Without this they stay, and lose their ports there.
    #[arg(long)]
    pub with_servers: bool,
}

impl From<Options> for PlanOptions {
    fn from(options: Options) -> Self {
        Self {
            cascade: options.cascade,
            on_failure: options.on_failure.unwrap_or_default(),
            drift: options.drift.unwrap_or_default(),
            delete_detached: options.release_floating_ips,
            include_public: options.include_public,
            with_project: options.with_project,
            with_servers: options.with_servers,
            ..Self::default()
        }
    }
}

impl Verb for Plan {
    const DRAWS: bool = true;

    /// A plan is only kept in the ledger: no other process follows it.
    fn needs(&self) -> Needs<'_> {
        let needs = Needs::reading(false).of_targets(&self.targets);
        Needs {
            listener: false,
            ..needs
        }
    }

    async fn run(self, session: &mut Session<'_>) -> Result<Exit, Failure> {
        session.action_words = format!("plan {}", self.targets.join(" "));
        if session.out.format == Format::Svg {
            let advice = "Draw the plan with: -o dot | dot -Tsvg";
            return Err(Failure::wrong("svg draws trees of deletions only", advice));
        }
        let targets = session.targets(&self.targets).await?;
        let plan = make(session, targets, self.options, None).await?;
        if let Some(path) = &self.out {
            let action_words = format!("write the plan to {}", path.display());
            let advice = "Choose another file or folder.";
            plan_file::write(path, &plan).map_err(Failure::usage_of(action_words, advice))?;
        }
        write_plan(&mut session.out, &plan)?;
        if let Some(path) = self.out.filter(|_| session.out.format.is_table()) {
            let path = path.display();
            session.err.say(format!(
                "The plan is in {path}; to run it: gone delete --plan {path}"
            ))?;
        }
        Ok(match self.check && !plan.refused.is_empty() {
            true => Exit::Refused,
            false => Exit::Done,
        })
    }
}

/// Requests a plan, and requests it again until the deadline while the engine or a cloud does not answer.
pub(super) async fn make(
    session: &mut Session<'_>,
    targets: Vec<TargetSpec>,
    options: Options,
    deadline: Option<DateTime<Utc>>,
) -> Result<Arc<FrozenPlan>, Failure> {
    let options = options.into();
    let command = Command::Plan { targets, options };
    let plan = session.submit(command, "", deadline, Receipt::into_plan);
    plan.await
}
