//! The report of a deletion: what was asked for, by whom, and what became of each resource. It is gathered from the
//! engine; the command line prints it as text, and it is also one web page that can be attached to a ticket.

mod content;
mod html;

pub use content::{Report, Section};
pub use html::page;

use chrono::{DateTime, Utc};
use futures_util::TryStreamExt as _;

use self::content::{History, ReportRecords};
use crate::control::{Control, ControlError, query};
use crate::domain::model::Deletion;

/// Number of columns of the chart: several pixels each, on paper too.
const CHART_COLUMNS: u32 = 160;

/// Gathers the report of a deletion: its plan, its steps, its chart and all of its events.
///
/// # Errors
/// The engine's own error.
pub async fn gather(
    control: &dyn Control,
    deletion: &Deletion,
    made_at: DateTime<Utc>,
) -> Result<Report, ControlError> {
    let plan = control.find(query::FrozenPlan::of(&deletion.id)).await?;
    let steps = query::Steps {
        deletion_id: Some(deletion.id.clone()),
        ..query::Steps::default()
    };
    let steps = control.pages(steps).try_concat().await?;
    let chart = query::Chart {
        deletion_id: deletion.id.clone(),
        columns: CHART_COLUMNS,
    };
    Ok(Report::new(ReportRecords {
        deletion,
        plan: plan.as_deref(),
        steps: &steps,
        chart: control.find(chart).await?,
        history: history(control, deletion).await?,
        made_at,
    }))
}

/// Reads all events of a deletion, a page at a time.
async fn history(control: &dyn Control, deletion: &Deletion) -> Result<History, ControlError> {
    let (mut history, mut after) = (History::default(), 0);
    loop {
        let page = query::Timeline {
            deletion_id: Some(deletion.id.clone()),
            step_id: None,
            after,
        };
        let events = control.ask(page).await?;
        match events.last().map(|event| event.seq) {
            Some(last) if last > after => after = last,
            _ => return Ok(history),
        }
        events.into_iter().for_each(|event| history.add(event));
    }
}
