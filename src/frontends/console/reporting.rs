//! The report of a deletion, written to a file that the person names.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use chrono::Utc;

use super::event::{Effect, NotWritten, ReportFile};
use super::prompt::{Asked, Prompt};
use super::render_context::Tone;
use super::state::State;
use crate::control::{Control, query};
use crate::frontends::report;
use crate::system::private;

/// Asks the loop to write the report to the file that was typed.
pub(super) fn typed(state: &mut State, deletion_id: String, file: &str) {
    let file = file.trim();
    if file.is_empty() {
        return state.hint("no report was written: it needs the name of a file");
    }
    let file = match (file.strip_prefix("~/"), std::env::home_dir()) {
        (Some(rest), Some(home)) => home.join(rest),
        _ => PathBuf::from(file),
    };
    write(state, ReportFile { deletion_id, file }, false);
}

/// Asks the loop to write the report. With `replaces`, the person agreed to replace a file that exists.
pub(super) fn write(state: &mut State, report: ReportFile, replaces: bool) {
    state.reports_under_way += 1;
    state.hint(format!("writing the report to {}", report.file.display()));
    state.outbox.push(Effect::WriteReport { report, replaces });
}

/// Says where the report is, or why it was not written; asks whether to replace a file that exists.
pub(super) fn written(state: &mut State, report: ReportFile, result: Result<(), NotWritten>) {
    state.reports_under_way = state.reports_under_way.saturating_sub(1);
    let shown = report.file.display();
    match result {
        Ok(()) => state.say(Tone::Good, format!("the report is in {shown}")),
        Err(NotWritten::Failed(why)) => {
            state.fail(format!("the report could not be written to {shown}: {why}"));
        }
        // The person is typing something else meanwhile, which the question must not interrupt.
        Err(NotWritten::Exists) if state.prompt.is_some() => {
            state.warn(format!(
                "the report was not written: {shown} exists already"
            ));
        }
        Err(NotWritten::Exists) => {
            state.message = None;
            state.prompt = Some(Prompt::Question(Asked::Replace(report)));
        }
    }
}

/// Gathers the report and writes it as a web page that only this account can read.
pub(super) async fn make(
    control: &dyn Control,
    report: &ReportFile,
    replaces: bool,
) -> Result<(), NotWritten> {
    let file = report.file.as_path();
    // The report of a long deletion takes a while to gather, so the question comes first.
    if !replaces && fs::symlink_metadata(file).is_ok() {
        return Err(NotWritten::Exists);
    }
    let id = report.deletion_id.clone();
    let failed = |error: &dyn ToString| NotWritten::Failed(error.to_string());
    let deletion = control.ask(query::Deletion { id }).await;
    let deletion = deletion.map_err(|error| failed(&error))?;
    let gathered = report::gather(control, &deletion, Utc::now()).await;
    let page = report::page(&gathered.map_err(|error| failed(&error))?);
    match replaces {
        true => private::replace(file, page.as_bytes()).map_err(|error| failed(&error)),
        false => write_new(file, page.as_bytes()),
    }
}

/// Writes a file that must not exist yet.
fn write_new(path: &Path, content: &[u8]) -> Result<(), NotWritten> {
    let created = private::create_new(path).map_err(|error| match error.kind() {
        std::io::ErrorKind::AlreadyExists => NotWritten::Exists,
        _ => NotWritten::Failed(error.to_string()),
    });
    let mut file = created?;
    let written = file.write_all(content).and_then(|()| file.sync_all());
    written.map_err(|error| {
        // A part of a report is of no use. The first error is the reason, so an error of the removal is ignored.
        let _ = fs::remove_file(path);
        NotWritten::Failed(error.to_string())
    })
}
