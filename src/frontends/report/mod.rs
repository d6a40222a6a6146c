//! The report of a deletion: what was asked for, by whom, and what became of each resource. It is gathered from the
//! engine; the command line prints it as text, and it is also one web page that can be attached to a ticket.

mod content;
mod html;

pub use content::{Report, Section};
pub use html::page;

use std::pin::pin;

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
    let steps = query::Steps::of(&deletion.id);
    let steps = control.pages(steps).try_concat().await?;
    let mut history = History::default();
    let mut pages = pin!(control.timeline(&deletion.id, 0));
    while let Some(events) = pages.try_next().await? {
        events.into_iter().for_each(|event| history.add(event));
    }
    let chart = query::Chart {
        deletion_id: deletion.id.clone(),
        columns: CHART_COLUMNS,
    };
    Ok(Report::new(ReportRecords {
        deletion,
        plan: plan.as_deref(),
        steps: &steps,
        chart: control.find(chart).await?,
        history,
        made_at,
    }))
}
