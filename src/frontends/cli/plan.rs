//! `gone plan`: shows what a deletion would do. It sends no write call.

use std::sync::Arc;

use chrono::{DateTime, Utc};

use super::args::{Format, PlanArgs};
use super::exit::Exit;
use super::failure::Failure;
use super::plan_file;
use super::plan_view::write_plan;
use super::session::Session;
use crate::control::{Command, TargetSpec};
use crate::domain::model::{Plan, PlanOptions};

pub(super) async fn run(session: &mut Session<'_>, args: PlanArgs) -> Result<Exit, Failure> {
    let tried = format!("plan {}", args.targets.join(" "));
    let targets = session.targets(&tried, &args.targets).await?;
    let plan = make(session, &tried, (targets, args.options.into()), None).await?;
    if let Some(path) = &args.out {
        plan_file::write(path, &plan).map_err(|error| {
            let tried = format!("write the plan to {}", path.display());
            Failure::usage(tried, error.to_string(), "Choose another file or folder.")
        })?;
    }
    let format = session.global.output;
    write_plan(session.out, session.style, format, &plan)?;
    if let (Some(path), Format::Table) = (&args.out, format) {
        let path = path.display();
        writeln!(
            session.err,
            "Kept in {path}; run it with: gone delete --plan {path}"
        )?;
    }
    Ok(if args.check && !plan.refused.is_empty() {
        Exit::Refused
    } else {
        Exit::Done
    })
}

pub(super) async fn make(
    session: &mut Session<'_>,
    tried: &str,
    (targets, options): (Vec<TargetSpec>, PlanOptions),
    deadline: Option<DateTime<Utc>>,
) -> Result<Arc<Plan>, Failure> {
    let command = Command::Plan { targets, options };
    let receipt = session.submit_until(tried, command, "", deadline).await?;
    receipt.into_plan().map_err(|it| Failure::of(tried, it))
}
