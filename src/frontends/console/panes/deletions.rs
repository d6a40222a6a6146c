//! All deletions, with their progress.

use super::kit::*;
use crate::domain::model::{Deletion, short_id};
use crate::frontends::console::about::time_left;
use crate::present::{deletion_state_word, joined, progress_words, target_words};

struct DeletionsPane;

pub(super) fn open(_: &Around<'_>) -> Opened {
    let feed = Feed::paged(query::Deletions::default());
    Ok(listed(DeletionsPane, feed))
}

impl Row for Deletion {
    fn key(&self) -> String {
        self.id.clone()
    }
    fn fits(&self, filter: &SearchQuery) -> bool {
        let keys = || self.targets.iter().map(|target| &target.key);
        filter.fits(&Facts {
            texts: &[&self.id, &target_words(self), &self.reason],
            state: deletion_state_word(self),
            // The kind and the site of any target may match the filter.
            kind: &joined(keys().map(|key| &key.kind), " "),
            site: &joined(keys().map(|key| &key.site), "\n"),
            project: "",
            since: Some(self.requested_at),
        })
    }
}

fn progress_bar(deletion: &Deletion, look: &RenderContext, width: u16) -> Cell {
    let bar = look.bar(&deletion.counts, usize::from(width));
    match deletion.counts.total {
        0 => Cell::default(),
        _ => Cell::new(bar, look.deletion_state(deletion).tone),
    }
}

/// The share of the deletion's steps whose resources are gone, in thousandths.
fn progress_rank(deletion: &Deletion) -> String {
    let counts = &deletion.counts;
    let gone = (counts.gone * 1_000).checked_div(counts.total);
    gone.unwrap_or(0).to_string()
}

fn gone(deletion: &Deletion) -> String {
    match deletion.counts.total {
        0 => String::new(),
        _ => progress_words(&deletion.counts),
    }
}

impl ListPane for DeletionsPane {
    type Row = Deletion;
    const SCOPE: Scope = Scope::Deletions;
    const NOUN: &'static str = "deletion";
    const DETAIL_ROWS: u16 = 5;
    const LOADING: &'static str = "Asking for the deletions…";
    const NOTHING: &'static [&'static str] = &[
        "No deletion has been asked for yet. Once you start one, it is shown here.",
        "",
        ":network lists the networks; the name of any other kind lists its resources.",
        "{plan_deletion} on a row plans its deletion, and deletes nothing yet.",
        "{help} shows all keys.",
    ];
    const NOTHING_THEN: &'static str = "No deletion had been asked for by then.";

    fn table(&self, _rows: &Rows<Deletion>, look: &RenderContext) -> Table<'_, Deletion> {
        let bar = if look.width < 120 { 10 } else { 20 };
        columns! { row: Deletion, look;
            fixed("STATE", 11) => look.deletion_state(row); deletion_state_word(row).to_owned(),
            fixed("ID", 8).from(60) => Cell::dim(short_id(&row.id)),
            flex("WHAT", 3) => Cell::plain(target_words(row)),
            fixed("PROGRESS", bar).from(60) => progress_bar(row, look, bar); progress_rank(row),
            fixed("GONE", 13).right() => Cell::plain(gone(row)); row.counts.gone.to_string(),
            fixed("LEFT", 10).right().from(60) => Cell::dim(time_left(row, look)),
            // These columns appear only on screens that are wide enough to show the names whole too.
            fixed("REQUESTED", 11).from(120) => Cell::dim(look.time(row.requested_at)); time_key(row.requested_at),
            flex("BY", 1).from(140) => Cell::dim(&row.requested_by.name),
        }
    }
    fn details(&self, deletion: &Deletion, look: &RenderContext) -> Vec<Cell> {
        WorkItem::Deletion(deletion).lines_in_full(look)
    }
    fn item<'r>(&self, deletion: &'r Deletion) -> Option<WorkItem<'r>> {
        Some(WorkItem::Deletion(deletion))
    }
    /// Takes deletions from the snapshot, which is newer than the page.
    fn update(&mut self, rows: &mut Rows<Deletion>, context: &Context, moved: bool) -> bool {
        for row in rows.feed.rows.iter_mut().filter(|_| moved) {
            let mut newer = context.snapshot.deletions.iter();
            if let Some(new) = newer.find(|new| new.id == row.id) {
                row.clone_from(new);
            }
        }
        false
    }
}
