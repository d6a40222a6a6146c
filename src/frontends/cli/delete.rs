//! `gone delete`: deletes exactly the plan that was shown and confirmed, or with `--yes` the targets or the plan file.

use std::io;
use std::path::PathBuf;

use clap::Args;
use serde::Serialize;

use super::args::{Format, Why};
use super::output::Printer;
use super::plan::{self, make};
use super::plan_view::{write_plan, write_refusals};
use super::wait::{self, Wait};
use super::{Exit, Failure, Needs, Session, Verb, columns, plan_file};
use crate::control::{Command, NamedOptions, Receipt};
use crate::domain::model::{Deletion, DeletionState, Plan, Step, Target, short_id};
use crate::domain::text;
use crate::present::{count, resource_words, state_words, targets_in_full};

/// Delete resources, and retry until they are gone
#[derive(Clone, Debug, Args)]
#[command(after_long_help = "\
In a TARGET, % escapes: %2F is a slash in a name.

Examples:
  gone delete network/web@prod/RegionOne --cascade
  gone delete --plan plan.json --yes --wait=30m -o json
  gone delete router_interface/ROUTER,SUBNET --yes
  gone delete port/4fdb... --yes --reason 'ticket 4711'")]
pub struct Delete {
    /// KIND/ID-or-NAME[@CLOUD[/REGION]], such as network/web@prod
    #[arg(
        required_unless_present = "plan",
        conflicts_with = "plan",
        value_name = "TARGET"
    )]
    pub targets: Vec<String>,
    #[command(flatten)]
    pub options: plan::Options,
    /// Delete exactly the plan in this file, or nothing
    #[arg(long, value_name = "FILE", conflicts_with_all = ["cascade", "on_failure", "drift", "release_floating_ips", "include_public", "with_project", "with_servers"])]
    pub plan: Option<PathBuf>,
    /// Do not ask
    #[arg(short, long)]
    pub yes: bool,
    /// Wait for the end, at most this long (30s, 5m, 2h)
    ///
    /// Waits until everything is gone or needs a person. While a cloud does not answer, the deletion is planned again.
    #[arg(long, value_name = "DURATION", num_args = 0..=1, require_equals = true, default_missing_value = "", value_parser = wait::parse)]
    pub wait: Option<Wait>,
    #[command(flatten)]
    pub why: Why,
}

/// A deletion, and after a wait the result for each resource.
#[derive(Serialize)]
struct Outcome<'a> {
    #[serde(flatten)]
    deletion: &'a Deletion,
    /// Whether the request joined this deletion, which was already deleting the targets (T6).
    existing: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    steps: Option<&'a [Step]>,
}

impl Verb for Delete {
    fn needs(&self) -> Needs<'_> {
        Needs::reading(false).of_targets(&self.targets)
    }

    async fn run(self, session: &mut Session<'_>) -> Result<Exit, Failure> {
        session.action_words = match &self.plan {
            Some(path) => format!("delete the resources in the plan {}", path.display()),
            None => format!("delete {}", self.targets.join(" ")),
        };
        session.refuse_if_read_only()?;
        if !self.yes {
            session.needs_terminal("Add --yes to delete without being asked.")?;
        }
        let wait = self.wait.or(session.embedded.then_some(None));
        let limit = wait.flatten();
        let command = self.command(session, limit).await?;
        let deadline = wait::deadline(limit, session.clock.now());
        let reason = &self.why.reason;
        let accepted = session.submit(command, reason, deadline, Receipt::into_accepted);
        let accepted = accepted.await?;
        let (id, existing) = (accepted.deletion_id, accepted.existing);
        if wait.is_none() {
            let deletion = session.deletion(&id).await?;
            print(&mut session.out, &deletion, existing, None)?;
            return Ok(match deletion.state {
                DeletionState::Refused => Exit::of_deletion(&deletion, &[]),
                _ => Exit::Done,
            });
        }
        let (deletion, exit) = match wait::follow(session, &id, deadline).await {
            Err(failure) if failure.exit == Exit::Interrupted => {
                let how = match session.embedded {
                    true => {
                        "the deletion stays in the ledger and continues when `gone` or `gone --engine` runs"
                    }
                    false => "the deletion continues in the engine",
                };
                let id = short_id(&id);
                let next =
                    format!("To see its state: gone show {id}; to stop it: gone cancel {id}");
                session.err.say(format!("Interrupted: {how}. {next}"))?;
                return Ok(Exit::Interrupted);
            }
            followed => followed?,
        };
        let steps = session.steps(&id, &[]).await?;
        print(&mut session.out, &deletion, existing, Some(&steps))?;
        say_what_is_left(session, &deletion, exit)?;
        Ok(exit)
    }
}

impl Delete {
    /// Returns the command to submit, after a confirmation if one is needed.
    async fn command(&self, session: &mut Session<'_>, limit: Wait) -> Result<Command, Failure> {
        if let Some(path) = &self.plan {
            let plan = Box::new(plan_file::read(path)?);
            if !self.yes {
                confirm(session, &plan).await?;
            }
            return Ok(Command::DeletePlanFile { plan });
        }
        let targets = session.targets(&self.targets).await?;
        let named = NamedOptions {
            drift: self.options.drift,
            on_failure: self.options.on_failure,
        };
        if self.yes {
            return Ok(Command::Delete {
                targets,
                options: self.options.into(),
                named,
            });
        }
        let deadline = wait::deadline(limit, session.clock.now());
        let plan = make(session, targets, self.options, deadline).await?;
        confirm(session, &plan).await?;
        let plan_hash = plan.hash.clone();
        Ok(Command::DeletePlan { plan_hash, named })
    }
}

/// Shows the plan, and asks the person to type the target's name or short id; with several targets the
/// plan's short id, since none of their names represents all.
async fn confirm(session: &mut Session<'_>, plan: &Plan) -> Result<(), Failure> {
    // The question goes to standard error: standard output carries the result. What is approved is shown whole.
    write_plan(&mut session.err.formatted(Format::Wide), plan)?;
    if !plan.refused.is_empty() {
        let why = "the plan is refused for the reasons above";
        let advice = "Nothing was sent. Remove the blockers named above, or include dependents with --cascade.";
        return Err(Failure::refused(why, advice));
    }
    let steps = count(plan.steps.len(), "step");
    let (question, wanted, mut words) = match plan.targets.as_slice() {
        [Target { key, name }] => {
            let id = short_id(&key.id);
            let resource = resource_words(&key.kind, name, &key.id);
            let (typed, wanted) = match name.as_str() {
                "" => (id.to_owned(), "short id"),
                name => (format!("\"{name}\" or {id}"), "name or short id"),
            };
            let escaped = text::escape(name).into_owned();
            (
                format!("To delete {resource} ({steps}), type {typed}"),
                format!("the {wanted} of {resource}"),
                vec![name.clone(), escaped, key.id.clone(), id.to_owned()],
            )
        }
        several => {
            let id = short_id(&plan.hash);
            let targets = count(several.len(), "target");
            (
                format!("To delete {targets} ({steps}), type the plan's short id, {id}"),
                "the plan's short id".to_owned(),
                vec![id.to_owned()],
            )
        }
    };
    words.retain(|word| !word.trim().is_empty());
    session.confirm(&question, &words, &wanted, "sent").await
}

fn print(
    out: &mut Printer<'_>,
    deletion: &Deletion,
    existing: bool,
    steps: Option<&[Step]>,
) -> io::Result<()> {
    match (steps, out.format) {
        (Some(steps), Format::Jsonl | Format::Csv) => {
            return out.list(columns::RESULTS, steps);
        }
        (None, Format::Csv) => {
            let one = std::slice::from_ref(deletion);
            return out.rows(&columns::deletions(one), one);
        }
        _ => {}
    }
    let outcome = Outcome {
        deletion,
        existing,
        steps,
    };
    if out.value(&outcome)? {
        return Ok(());
    }
    if let Some(steps) = steps.filter(|steps| !steps.is_empty()) {
        out.list(columns::RESULTS, steps)?;
        out.say("")?;
    }
    let known = match existing {
        true => " (already being deleted)",
        false => "",
    };
    let (id, targets) = (short_id(&deletion.id), targets_in_full(&deletion.targets));
    let state = state_words(deletion);
    out.say(format!("Deletion {id} of {targets}{known}: {state}"))?;
    if !deletion.note.is_empty() {
        out.say(&deletion.note)?;
    }
    write_refusals(out, &deletion.refused)
}

/// After a wait that did not end with everything gone, says which state the deletion is in, and what to do.
fn say_what_is_left(
    session: &mut Session<'_>,
    deletion: &Deletion,
    exit: Exit,
) -> Result<(), Failure> {
    let id = short_id(&deletion.id);
    let advice = match exit {
        Exit::Stuck if deletion.counts.live() > 0 => format!(
            "The deletion has not ended, and stays in the ledger: gone show {id} says what blocks it; then gone retry {id}"
        ),
        Exit::Stuck if deletion.counts.stuck > 0 => {
            format!("The deletion needs a person: gone show {id} says why; then gone retry {id}")
        }
        Exit::Stuck => format!("Not everything is gone: gone show {id} says why"),
        Exit::StillRunning => {
            format!("The deletion is still running, and stays in the ledger: gone show {id}")
        }
        Exit::Auth | Exit::Unreachable => format!(
            "`gone list sites` says why a site is not used; gone show {id} shows the deletion."
        ),
        _ => return Ok(()),
    };
    Ok(session.err.say(advice)?)
}
