//! The text in place of rows. It is decided here for all panes, so that no pane takes a failed query, or a
//! search that matches nothing, for "there is nothing".

use std::borrow::Cow;

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

/// The texts that a pane may show in place of rows.
pub(crate) struct Vacancy {
    pub(crate) load: Load,
    /// The word for a row.
    pub(crate) noun: Cow<'static, str>,
    pub(crate) loading: Vec<Cell>,
    pub(crate) failed: Vec<Cell>,
    /// Which rows would be here, and how they get here.
    pub(crate) nothing: Vec<Cell>,
}

/// The lines in place of rows after a query has failed.
pub(crate) const FAILED: &[&str] = &[
    "The rows could not be read; the reason is above.",
    "{refresh} asks again.",
];

/// The lines that are shown in place of rows.
pub(crate) fn lines(pane: &dyn Pane, look: &RenderContext) -> Vec<Cell> {
    let (vacancy, filter) = (pane.vacancy(look), &pane.list().filter);
    match vacancy.load {
        Load::Asking => vacancy.loading,
        Load::Failed => vacancy.failed,
        // There may be rows; the scope or the filter hides all of them.
        Load::Answered | Load::Empty if !pane.list().scope.query.is_empty() => {
            let scope = &pane.list().scope.words;
            let fits = match filter.is_empty() {
                true => String::new(),
                false => format!(" matches \"{}\" and", filter.text()),
            };
            let none = format!("No {}{fits} is in {scope}.", vacancy.noun);
            let hint = "{clear_scope} shows all clouds and projects.";
            vec![Cell::plain(none), Cell::dim(look.keys.spell(hint))]
        }
        Load::Answered if !filter.is_empty() => {
            let none = format!("No {} matches \"{}\".", vacancy.noun, filter.text());
            let hint = "{back} shows all again.";
            vec![Cell::plain(none), Cell::dim(look.keys.spell(hint))]
        }
        Load::Answered | Load::Empty => vacancy.nothing,
    }
}
