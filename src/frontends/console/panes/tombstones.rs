//! `:tombstones`, the records by which deleted resources are kept deleted, and their release.

use super::kit::*;
use crate::control::{Command, query};
use crate::domain::model::{Phase, ResourceKey, Tombstone, short_id};
use crate::present::{count, kind_words, resource_words};

struct TombstonesPane;

pub(super) fn open(_: &Around<'_>) -> Opened {
    let feed = Feed::paged(query::Tombstones {
        limit: PAGE_ROWS,
        ..query::Tombstones::default()
    });
    Ok(listed(TombstonesPane, Rows::new(feed)))
}

impl Row for Tombstone {
    fn key(&self) -> String {
        self.record_id.to_string()
    }
    fn fits(&self, filter: &SearchQuery) -> bool {
        filter.fits(&Facts {
            texts: &[&self.key.id, &self.deletion_id],
            state: self.phase.as_str(),
            kind: self.key.kind.as_str(),
            site: &self.key.site.to_string(),
            project: "",
            since: self.gone_at.or(self.deleted_at),
        })
    }
}

fn phase(phase: Phase, look: &RenderContext) -> Cell {
    let word = phase.as_str();
    match phase {
        Phase::Checking | Phase::Deleting => {
            Cell::new(format!("{} {word}", look.pick("▶", ">")), Tone::Busy)
        }
        Phase::Gone => look.good(word),
        Phase::Released => Cell::dim(format!("{} {word}", look.pick("–", "-"))),
        Phase::Purged => Cell::new(format!("! {word}"), Tone::Warn),
    }
}

/// Says what the tombstone does in its phase.
fn means(phase: Phase) -> &'static str {
    match phase {
        Phase::Checking => {
            "Its deletion is being planned: the gate refuses writes to it, and passes reads."
        }
        Phase::Deleting => "It is being deleted: the gate refuses to change it, or to refer to it.",
        Phase::Gone => "It is gone. If it comes back during the hold-down, it is deleted again.",
        Phase::Released => "It is released: nothing is refused or deleted because of it.",
        Phase::Purged => {
            "Its step was abandoned: nothing is sent any more, and it may still exist."
        }
    }
}

/// The question before a release. The engine releases only what it finds to exist, and what no deletion works on.
fn release(key: &ResourceKey, context: &Context) -> Confirm {
    let short = short_id(&key.id);
    let words = resource_words(&key.kind, "", &key.id);
    let confirm = Confirm::new(
        format!("the short id of the resource, {short}"),
        vec![short.to_owned(), key.id.clone()],
        format!("release of the tombstone of {words}"),
        Command::Release { key: key.clone() },
    );
    let lines = vec![
        format!("Release the tombstone of {key}"),
        "The resource may then be used and changed again, and is not deleted any more.".to_owned(),
        "Only the tombstone of a resource that still exists is released.".to_owned(),
    ];
    confirm
        .saying(lines)
        .at(std::iter::once(&key.site), context.snapshot)
}

impl ListPane for TombstonesPane {
    type Row = Tombstone;
    const SCOPE: Scope = Scope::Tombstones;
    const WORD: Option<&'static str> = Some("tombstones");
    const NOUN: &'static str = "tombstone";
    const REFRESH: Refresh = Refresh::EachMove;
    const LOADING: &'static str = "Reading the tombstones…";
    const NOTHING: &'static [&'static str] = &[
        "There is no tombstone.",
        "Each resource that is deleted gets one, which keeps it deleted for a while.",
    ];
    const NOTHING_THEN: &'static str = "There was no tombstone then.";

    fn table(&self, _rows: &Rows<Tombstone>, _look: &RenderContext) -> Table<'_, Tombstone> {
        columns! { row: Tombstone, look;
            fixed("PHASE", 10) => phase(row.phase, look);  row.phase.as_str().to_owned(),
            fixed("KIND", 18) => Cell::plain(kind_words(&row.key.kind)),
            ending(flex("ID", 3)) => Cell::plain(&row.key.id),
            flex("SITE", 2).from(60) => Cell::dim(look.site(&row.key.site)),
            fixed("DELETED (UTC)", 13).from(120) => Cell::dim(look.maybe_time(row.deleted_at)); time_key(row.deleted_at),
            fixed("GONE (UTC)", 11).from(80) => Cell::dim(look.maybe_time(row.gone_at)); time_key(row.gone_at),
            fixed("CAME BACK", 9).right().from(100) => Cell::plain(row.recreated.to_string()),
            fixed("DELETION", 8).from(90) => Cell::dim(short_id(&row.deletion_id)),
        }
    }
    fn details(&self, row: &Tombstone, look: &RenderContext) -> Vec<Cell> {
        let mut facts = vec![row.key.to_string()];
        let times = [("deleted", row.deleted_at), ("gone", row.gone_at)];
        let times = times.into_iter().filter_map(|(word, at)| {
            let at = look.time(at?);
            Some(format!("{word} {at}"))
        });
        facts.extend(times);
        if row.recreated > 0 {
            facts.push(format!("came back {}", count(row.recreated, "time")));
        }
        vec![
            Cell::plain(facts.join(look.dot())),
            Cell::dim(means(row.phase)),
        ]
    }
    fn copies(&self, _: &Rows<Tombstone>, row: &Tombstone) -> Vec<Copied> {
        vec![Copied::id(&row.key.id)]
    }
    fn act(&mut self, row: &Tombstone, action: Action, context: &mut Context) {
        let words = || resource_words(&row.key.kind, "", &row.key.id);
        match action {
            Action::Open if !row.deletion_id.is_empty() => {
                context.push(Route::Tree(row.deletion_id.clone()));
            }
            Action::Explain => context.push(Route::Explain(row.key.clone(), words())),
            Action::Release if row.phase == Phase::Released => {
                context.say(Tone::Warn, "this tombstone is released already");
            }
            Action::Release => context.confirm(release(&row.key, context)),
            _ => {}
        }
    }
}

/// Ids differ at their ends, which a narrow column keeps.
fn ending(column: Column) -> Column {
    Column {
        tail: true,
        ..column
    }
}

/// A time as it is sorted; what has none comes first.
fn time_key(at: Option<chrono::DateTime<chrono::Utc>>) -> String {
    at.map(|at| at.to_rfc3339()).unwrap_or_default()
}
