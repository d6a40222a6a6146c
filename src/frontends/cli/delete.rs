//! `gone delete`: deletes exactly what was shown and confirmed.

use serde::Serialize;

use super::args::{DeleteArgs, Format, Wait};
use super::exit::Exit;
use super::failure::Failure;
use super::plan::make;
use super::plan_view::{write_plan, write_refusals};
use super::session::Session;
use super::{columns, plan_file, wait};
use crate::control::{Accepted, Command};
use crate::domain::model::{Deletion, DeletionState, DriftPolicy, OnFailure, Plan, Step, short_id};
use crate::domain::text;
use crate::present::{count, target_in_full};

/// A deletion, and after a wait the result for each resource.
#[derive(Serialize)]
struct Outcome<'a> {
    #[serde(flatten)]
    deletion: &'a Deletion,
    /// Whether it was being deleted already.
    existing: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    steps: Option<&'a [Step]>,
}

pub(super) async fn run(session: &mut Session<'_>, args: DeleteArgs) -> Result<Exit, Failure> {
    let tried = match &args.plan {
        Some(path) => format!("delete the plan {}", path.display()),
        None => format!("delete {}", args.targets.join(" ")),
    };
    session.refuse_if_read_only(&tried)?;
    if !args.yes && !session.style.in_terminal {
        return Err(Failure::usage(
            tried,
            "there is no terminal to confirm it on",
            "Add --yes to delete without being asked.",
        ));
    }
    let wait = args.wait.or(session.embedded.then_some(Wait(None)));
    let limit = wait.unwrap_or(Wait(None));
    let command = command(session, &tried, &args, limit).await?;
    let deadline = limit.deadline(session.clock.now());
    let receipt = session
        .submit_until(&tried, command, &args.why.reason, deadline)
        .await?;
    let accepted = receipt.into_accepted();
    let Accepted {
        deletion_id,
        existing,
    } = accepted.map_err(|it| Failure::of(&tried, it))?;
    let given = (
        args.options.drift.map(DriftPolicy::from),
        args.options.on_failure.map(OnFailure::from),
    );
    let says_more = given != (None, None) || !args.why.reason.is_empty();
    if existing && says_more {
        // The options of a repeated request apply to the deletion that it joins, or are refused.
        let command = Command::SetOptions {
            deletion_id: deletion_id.clone(),
            drift: given.0,
            on_failure: given.1,
        };
        let tried = format!(
            "{tried}, which deletion {} does already",
            short_id(&deletion_id)
        );
        session.submit(&tried, command, &args.why.reason).await?;
    }
    match wait {
        Some(_) => {
            let ended = match wait::follow(session, &deletion_id, deadline).await {
                Err(failure) if failure.exit == Exit::Interrupted => {
                    say_that_it_goes_on(session, &deletion_id)?;
                    return Ok(Exit::Interrupted);
                }
                ended => ended?,
            };
            let steps = session.steps(&tried, &deletion_id, &[]).await?;
            print(session, &ended.deletion, existing, Some(&steps))?;
            say_what_is_left(session, &ended.deletion, ended.exit)?;
            Ok(ended.exit)
        }
        None => {
            let deletion = session.deletion(&tried, &deletion_id).await?;
            print(session, &deletion, existing, None)?;
            Ok(match deletion.state {
                DeletionState::Refused => Exit::of_deletion(&deletion, &[]),
                _ => Exit::Done,
            })
        }
    }
}

/// Returns the command to submit, after a confirmation if one is needed.
async fn command(
    session: &mut Session<'_>,
    tried: &str,
    args: &DeleteArgs,
    limit: Wait,
) -> Result<Command, Failure> {
    if let Some(path) = &args.plan {
        let plan = plan_file::read(path)?;
        if !args.yes {
            confirm(session, tried, &plan).await?;
        }
        let plan = Box::new(plan);
        return Ok(Command::DeletePlanFile { plan });
    }
    let targets = session.targets(tried, &args.targets).await?;
    let options = args.options.into();
    if args.yes {
        return Ok(Command::Delete { targets, options });
    }
    let deadline = limit.deadline(session.clock.now());
    let plan = make(session, tried, (targets, options), deadline).await?;
    confirm(session, tried, &plan).await?;
    Ok(Command::DeletePlan {
        plan_hash: plan.hash.clone(),
    })
}

/// Shows the plan, and asks the person to type the target's name or short id; with several targets the
/// plan's short id, since none of their names represents all.
async fn confirm(session: &mut Session<'_>, tried: &str, plan: &Plan) -> Result<(), Failure> {
    // The question goes to standard error: standard output carries the result.
    write_plan(session.err, session.style, Format::Table, plan)?;
    if !plan.refused.is_empty() {
        let message = "the plan is refused, see above";
        let advice =
            "Nothing was sent. Free what is named above, or include dependents with --cascade.";
        return Err(Failure::new(
            Exit::Refused,
            "refused",
            tried,
            message,
            advice,
        ));
    }
    let steps = count(plan.steps.len(), "step");
    let expected = expected_words(plan);
    let what = match plan.targets.as_slice() {
        [one] if one.name.is_empty() => format!("its short id, {}", short_id(&one.key.id)),
        [_] => "its name or short id".to_owned(),
        _ => format!("the plan's short id, {}", short_id(&plan.hash)),
    };
    write!(session.err, "\nTo delete ({steps}), type {what}: ")?;
    session.err.flush()?;
    let typed = session.typed_line(tried).await?;
    if expected.iter().any(|word| word == typed.trim()) {
        return Ok(());
    }
    Err(Failure::usage(
        tried,
        "what was typed is not that; nothing was sent",
        "",
    ))
}

fn expected_words(plan: &Plan) -> Vec<String> {
    match plan.targets.as_slice() {
        [one] => [
            one.name.clone(),
            text::escape(&one.name).into_owned(),
            one.key.id.clone(),
            short_id(&one.key.id).to_owned(),
        ]
        .into_iter()
        .filter(|word| !word.trim().is_empty())
        .collect(),
        _ => vec![short_id(&plan.hash).to_owned()],
    }
}

fn print(
    session: &mut Session<'_>,
    deletion: &Deletion,
    existing: bool,
    steps: Option<&[Step]>,
) -> Result<(), Failure> {
    let format = session.global.output;
    match (steps, format) {
        (Some(steps), Format::Jsonl | Format::Csv) => {
            return session.print_rows(columns::RESULTS, steps);
        }
        (None, Format::Csv) => {
            return session.print_deletions(std::slice::from_ref(deletion));
        }
        _ => {}
    }
    let outcome = Outcome {
        deletion,
        existing,
        steps,
    };
    if session.print_value(&outcome)? {
        return Ok(());
    }
    let style = session.style;
    if let Some(steps) = steps.filter(|steps| !steps.is_empty()) {
        session.print_rows(columns::RESULTS, steps)?;
        writeln!(session.out)?;
    }
    let targets: Vec<String> = deletion.targets.iter().map(target_in_full).collect();
    let known = if existing {
        " (was deleting already)"
    } else {
        ""
    };
    let line = format!(
        "Deletion {} of {}{known}: {}",
        short_id(&deletion.id),
        targets.join(", "),
        wait::line(deletion, None, None)
    );
    writeln!(session.out, "{}", style.safe(&line))?;
    if !deletion.note.is_empty() {
        writeln!(session.out, "{}", style.safe(&deletion.note))?;
    }
    Ok(write_refusals(session.out, style, &deletion.refused)?)
}

/// After a wait that did not end with everything gone, tells the state, and what to do.
fn say_what_is_left(
    session: &mut Session<'_>,
    deletion: &Deletion,
    exit: Exit,
) -> Result<(), Failure> {
    let id = short_id(&deletion.id);
    let advice = match exit {
        Exit::Stuck if deletion.counts.live() > 0 => {
            format!(
                "Nothing more can run in time; it stays in the ledger: gone show {id}, gone retry {id}"
            )
        }
        Exit::Stuck => {
            format!("What is stuck needs a person: gone show {id}, then gone retry {id}")
        }
        Exit::StillRunning => format!("Still running; it stays in the ledger: gone show {id}"),
        Exit::Auth | Exit::Unreachable => format!("`gone list sites` tells why: gone show {id}"),
        _ => return Ok(()),
    };
    Ok(writeln!(session.err, "{advice}")?)
}

fn say_that_it_goes_on(session: &mut Session<'_>, deletion_id: &str) -> Result<(), Failure> {
    let id = short_id(deletion_id);
    let how = if session.embedded {
        "it stays in the ledger and goes on when `gone` or `gone --engine` runs"
    } else {
        "the deletion goes on in the engine"
    };
    Ok(writeln!(
        session.err,
        "Interrupted: {how}. Look: gone show {id}; stop it: gone cancel {id}"
    )?)
}
