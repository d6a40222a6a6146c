//! Applies a filter to a pane.

use chrono::{DateTime, Utc};

use super::panes::kit::{Context, Pane};
use super::state::State;
use crate::domain::filter::SearchQuery;

pub(super) fn set_filter(state: &mut State, filter: String) {
    let projects = state.projects.clone();
    let told = state.told_at();
    state.with_top(|pane, context| {
        if pane.list().filter.text() != filter {
            let query = SearchQuery::naming(&filter, &projects, &pane.columns());
            show_fitting(pane, query, told, context);
        }
    });
    state.ask_projects();
}

pub(super) fn show_fitting(
    pane: &mut dyn Pane,
    mut filter: SearchQuery,
    told: DateTime<Utc>,
    context: &mut Context,
) {
    filter.at(told);
    pane.list_mut().filter = filter;
    pane.filter_changed();
    pane.wake(false, context);
}
