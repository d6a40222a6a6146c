//! The report of a deletion: what was asked for, by whom, and what became of each resource. It is gathered from the
//! engine; the command line prints it as text, and it is also one web page that can be attached to a ticket.

mod content;
mod html;

pub use content::{Report, Section};
pub use html::page;

use std::pin::pin;

use chrono::{DateTime, Utc};
use futures_util::TryStreamExt as _;
use futures_util::stream::{self, Stream};

use self::content::{History, ReportRecords};
use crate::control::{Control, ControlError, query};
use crate::domain::model::{Deletion, Event};

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

async fn history(control: &dyn Control, deletion: &Deletion) -> Result<History, ControlError> {
    let mut pages = pin!(timeline(control, &deletion.id, 0));
    let mut history = History::default();
    while let Some(events) = pages.try_next().await? {
        events.into_iter().for_each(|event| history.add(event));
    }
    Ok(history)
}

/// Streams the events of a deletion after this sequence, a page at a time.
pub fn timeline(
    control: &dyn Control,
    deletion_id: &str,
    after: i64,
) -> impl Stream<Item = Result<Vec<Event>, ControlError>> {
    stream::try_unfold(after, async move |after| {
        let page = query::Timeline {
            deletion_id: Some(deletion_id.to_owned()),
            step_id: None,
            after,
        };
        let events = control.ask(page).await?;
        let last = events.last().map(|event| event.seq);
        Ok(last.filter(|last| *last > after).map(|last| (events, last)))
    })
}
