//! Applies a filter to a pane.

use chrono::{DateTime, Utc};

use super::panes::kit::{Context, Pane};
use super::state::State;
use crate::domain::filter::SearchQuery;

pub(super) fn set_filter(state: &mut State, filter: String) {
    let projects = state.projects.clone();
    let now = state.ages_as_of();
    state.with_top(|pane, context| {
        if pane.list().filter.text() != filter {
            let query = SearchQuery::parse_with_names(&filter, &projects, &pane.columns());
            show_fitting(pane, query, now, context);
        }
    });
    state.ask_projects();
}

pub(super) fn show_fitting(
    pane: &mut dyn Pane,
    mut filter: SearchQuery,
    now: DateTime<Utc>,
    context: &mut Context,
) {
    filter.set_now(now);
    pane.list_mut().filter = filter;
    pane.filter_changed();
    pane.wake(false, context);
}
