//! The text in place of rows. It is decided here for all panes, so that no pane takes a failed query, or a
//! search that matches nothing, for "there is nothing".

use super::super::keys::Action;
use super::super::look::{Cell, RenderContext};
use super::Pane;

/// The state of the query that fills a pane's rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Load {
    /// No answer has come yet.
    Asking,
    /// The query failed, and no rows of an earlier answer are left. The pane's head says why.
    Failed,
    Answered,
    /// There are no rows, whatever the filter.
    Empty,
}

/// The reason why a pane shows no rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Emptiness {
    Loading,
    Failed,
    /// There may be rows; the filter hides all of them.
    Filtered,
    Nothing,
}

impl Emptiness {
    fn of(pane: &dyn Pane) -> Self {
        match (pane.load(), pane.list().filter.is_empty()) {
            (Load::Asking, _) => Self::Loading,
            (Load::Failed, _) => Self::Failed,
            (Load::Answered, false) => Self::Filtered,
            (Load::Answered, true) | (Load::Empty, _) => Self::Nothing,
        }
    }
}

/// The lines that are shown in place of rows.
pub(crate) fn lines(pane: &dyn Pane, look: &RenderContext) -> Vec<Cell> {
    match Emptiness::of(pane) {
        Emptiness::Loading => pane.loading(look),
        Emptiness::Failed => pane.failed(look),
        Emptiness::Filtered => vec![
            Cell::plain(format!(
                "No {} matches \"{}\".",
                pane.noun(),
                pane.list().filter.text()
            )),
            Cell::dim(format!("{} shows all again.", look.key(Action::Back))),
        ],
        Emptiness::Nothing => pane.nothing(look),
    }
}
