//! The blockers of one resource, and their owners (P2).

use super::kit::{Action, Batch, Cell, Context, Feed, ListPane, Pane, Refresh, RenderContext};
use super::kit::{Row, Rows, Scope, Table, Tone, acts, columns, fixed, flex, listed};
use crate::control::query;
use crate::domain::filter::SearchQuery;
use crate::domain::ladder::PurgeScope;
use crate::frontends::console::subjects::BlockerRow;

struct BlockersPane {
    words: String,
    /// The step or deletion; `None` for a plan.
    of: Option<PurgeScope>,
}

/// Returns the blockers of a step or a deletion, which are queried.
pub(super) fn of(of: PurgeScope, words: String) -> Box<dyn Pane> {
    let feed = match of.clone() {
        PurgeScope::Step(id) => Feed::reading(
            move |_| query::Step { id },
            |step| Batch::from(BlockerRow::of_step(&step)),
        ),
        PurgeScope::Deletion(id) => Feed::reading(
            move |_| query::Deletion { id: id.clone() },
            |deletion| Batch::from(BlockerRow::of_refusals(&deletion.refused)),
        ),
    };
    let of = Some(of);
    listed(BlockersPane { words, of }, Rows::new(feed))
}

pub(super) fn of_plan(known: Vec<BlockerRow>, words: String) -> Box<dyn Pane> {
    listed(BlockersPane { words, of: None }, Rows::of(known))
}

impl Row for BlockerRow {
    type Key = (String, String);

    fn key(&self) -> Self::Key {
        (self.id.clone(), self.resource.clone())
    }
    fn fits(&self, filter: &SearchQuery) -> bool {
        filter.fits_texts(&[self.text.as_str(), &self.id, &self.resource])
    }
}

impl ListPane for BlockersPane {
    type Row = BlockerRow;
    const SCOPE: Scope = Scope::Blockers;
    const NOUN: &'static str = "blocker";
    const REFRESH: Refresh = Refresh::EachMove;
    const DETAIL_ROWS: u16 = 5;
    const LOADING: &'static str = "Asking for the blockers…";
    const NOTHING: &'static [&'static str] = &[
        "No blocker is known.",
        "If it still does not go, its own error says why: enter on the step.",
    ];
    const NOTHING_THEN: &'static str = "No blocker was known then.";

    fn heading(&self, _rows: &Rows<BlockerRow>, _look: &RenderContext) -> String {
        format!("in the way of {}", self.words)
    }
    fn table(&self, _rows: &Rows<BlockerRow>, _look: &RenderContext) -> Table<'_, BlockerRow> {
        columns! { row: BlockerRow, look;
            flex("WHAT", 4) => Cell::new(&row.text, Tone::Warn),
            fixed("SINCE (UTC)", 11).from(60) => Cell::dim(look.maybe_time(row.since)),
            flex("HOLDS", 2).from(110) => Cell::plain(&row.resource),
            fixed("SITE", 18).from(130) => Cell::dim(&row.site),
        }
    }
    fn details(&self, row: &BlockerRow, _look: &RenderContext) -> Vec<Cell> {
        vec![
            Cell::plain(&row.text),
            Cell::dim(format!("id {} at {}", row.id, row.site)),
            Cell::plain(&row.advice),
        ]
    }
    fn copied(&self, row: &BlockerRow) -> String {
        row.id.clone()
    }
    fn act_anywhere(
        &mut self,
        _rows: &mut Rows<BlockerRow>,
        action: Action,
        context: &mut Context<'_>,
    ) -> bool {
        let of = self.of.as_ref();
        of.is_some_and(|of| acts::act(of, self.words.clone(), action, context))
    }
}
