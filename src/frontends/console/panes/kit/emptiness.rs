//! The text in place of rows. It is decided here for all panes, so that no pane takes a failed query, or a
//! search that matches nothing, for "there is nothing".

use super::{Cell, Pane, RenderContext};

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

/// The lines that are shown in place of rows.
pub(crate) fn lines(pane: &dyn Pane, look: &RenderContext) -> Vec<Cell> {
    let filter = &pane.list().filter;
    match pane.load() {
        Load::Asking => pane.loading(look),
        Load::Failed => pane.failed(look),
        // There may be rows; the filter hides all of them.
        Load::Answered if !filter.is_empty() => {
            let none = format!("No {} matches \"{}\".", pane.noun(), filter.text());
            let mut lines = vec![Cell::plain(none)];
            lines.extend(look.texts(&["", "{back} shows all again."]).pop());
            lines
        }
        Load::Answered | Load::Empty => pane.nothing(look),
    }
}
