//! `:drift`, the steps that wait until a person accepts or refuses newcomers: resources that appeared after the plan of
//! their deletion (P11). One answer applies to the whole deletion.

use super::kit::*;
use crate::domain::drift::{newcomer_words, newcomers, waits_for_drift_answer};
use crate::domain::model::{Paged, Step, StepState, short_id};
use crate::frontends::console::about::{fits_step, step_lines};
use crate::present::{and_more, count, resource_words};

struct DriftPane;

pub(super) fn open(_: &Around<'_>) -> Opened {
    let ask = |at: At<'_, _>| query::Steps {
        states: vec![StepState::Stuck],
        cursor: at.cursor,
        ..query::Steps::default()
    };
    let read = |mut page: Paged<Step>| {
        page.rows.retain(waits_for_drift_answer);
        Batch {
            next: page.next,
            ..page.rows.into()
        }
    };
    Ok(listed(DriftPane, Feed::asking(ask, read)))
}

/// `port p1`, or `port p1 and 3 more`
fn newcomers_in_short(step: &Step) -> String {
    let mut all = newcomers(step);
    let first = all.next();
    let first = first.map(|it| resource_words(&it.kind, &it.name, &it.id));
    first.unwrap_or_default() + &and_more(all.count())
}

/// A step that waits for an answer.
impl Row for Step {
    fn key(&self) -> String {
        self.id.to_string()
    }
    fn fits(&self, filter: &SearchQuery) -> bool {
        let named: Vec<String> = newcomers(self).map(newcomer_words).collect();
        let named = named.iter().map(String::as_str);
        let texts: Vec<&str> = named.chain([self.deletion_id.as_str()]).collect();
        fits_step(filter, self, &texts)
    }
}

impl ListPane for DriftPane {
    type Row = Step;
    const SCOPE: Scope = Scope::Drift;
    const NOUN: &'static str = "step";
    const DETAIL_ROWS: u16 = 5;
    const LOADING: &'static str = "Asking for the steps that are stuck with drift…";
    const NOTHING: &'static [&'static str] = &[
        "No deletion waits for your answer.",
        "If newcomers block a cascade whose drift policy is ask, this pane asks whether to delete them too.",
    ];
    const NOTHING_THEN: &'static str = "No deletion waited for an answer then.";

    fn table(&self, _rows: &Rows<Step>, _look: &RenderContext) -> Table<'_, Step> {
        columns! { row: Step, look;
            fixed("DELETION", 8) => Cell::dim(short_id(&row.deletion_id)),
            flex("STUCK", 2) => Cell::new(step_words(row), Tone::Bad),
            fixed("NEW", 4).right() => Cell::plain(newcomers(row).count().to_string()),
            flex("APPEARED AFTER THE PLAN", 3).from(60) => Cell::new(newcomers_in_short(row), Tone::Warn),
            fixed("SINCE (UTC)", 11).from(80) => Cell::dim(look.maybe_time(row.blocked_since)); time_key(row.blocked_since),
            fixed("SITE", 18).from(110) => Cell::dim(look.site(&row.resource.key.site)),
        }
    }
    fn details(&self, step: &Step, look: &RenderContext) -> Vec<Cell> {
        let new = count(newcomers(step).count(), "resource");
        let waits = format!("{} waits: {new} appeared after the plan", step_words(step));
        let named = newcomers(step).take(2).map(newcomer_words);
        let mut lines: Vec<Cell> = [waits].into_iter().chain(named).map(Cell::plain).collect();
        lines.extend(step_lines(step, look));
        lines
    }
    fn item<'r>(&self, row: &'r Step) -> Option<WorkItem<'r>> {
        Some(WorkItem::Step(row))
    }
    fn copies(&self, _: &Rows<Step>, row: &Step) -> Vec<Copied> {
        let mut texts = vec![Copied::new("the id of the deletion", &row.deletion_id)];
        texts.extend(WorkItem::Step(row).copies());
        texts
    }
}
