//! The one place that knows each pane: makes the pane that a route names.

use super::Pane;
use super::attention::AttentionPane;
use super::blockers::BlockersPane;
use super::causes::CausesPane;
use super::chart::ChartPane;
use super::details::DetailsPane;
use super::explain::ExplainPane;
use super::inspect::InspectPane;
use super::ladder::LadderPane;
use super::plan::PlanPane;
use super::tree::TreePane;
use crate::frontends::console::route::Route;

pub(crate) fn open(route: Route) -> Box<dyn Pane> {
    match route {
        Route::Blockers {
            subject,
            rows,
            source,
        } => Box::new(BlockersPane::new(subject, rows, source)),
        Route::Causes => Box::new(CausesPane::new()),
        Route::Cause(cause) => Box::new(AttentionPane::of(cause)),
        Route::Chart(deletion) => Box::new(ChartPane::new(&deletion)),
        Route::Details(resource) => Box::new(DetailsPane::of(&resource)),
        Route::Explain { key, words } => Box::new(ExplainPane::new(key, words)),
        Route::InspectDeletion(deletion) => Box::new(InspectPane::of_deletion(&deletion)),
        Route::InspectStep { id, deletion_id } => Box::new(InspectPane::of_step(id, &deletion_id)),
        Route::Ladder { what, words } => Box::new(LadderPane::new(what, words)),
        Route::Plan { subjects, cascade } => Box::new(PlanPane::new(subjects, cascade)),
        Route::Tree(id) => Box::new(TreePane::new(id)),
    }
}
