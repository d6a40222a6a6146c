//! `:tombstones`, the records by which deleted resources are kept deleted, and their release.

use std::sync::Arc;

use super::kit::*;
use super::step_names::{NamesByResource, StepNames};
use crate::control::Command;
use crate::domain::model::{Phase, ResourceKey, StepState, Target, Tombstone, short_id};
use crate::present::{count, kind_words, resource_words, target_in_full};

/// Number of rows near the cursor whose names are looked up, more than a screen has.
const NAMED_MAX: usize = 500;

#[derive(Default)]
struct TombstonesPane {
    names: StepNames,
}

/// A tombstone, with the known names of all resources.
struct Kept {
    tombstone: Tombstone,
    names: Arc<NamesByResource>,
}

impl From<Tombstone> for Kept {
    fn from(tombstone: Tombstone) -> Self {
        Self {
            tombstone,
            names: Arc::default(),
        }
    }
}

impl Kept {
    /// The name of the resource; empty if it is not known.
    fn name(&self) -> &str {
        let name = self.names.get(&self.tombstone.key);
        name.map_or("", String::as_str)
    }

    /// The name, or the whole id of a resource whose name is not known.
    fn name_or_id(&self) -> &str {
        non_empty(self.name()).unwrap_or(&self.tombstone.key.id)
    }
}

pub(super) fn open(_: &Around<'_>) -> Opened {
    let feed = Feed::paged(query::Tombstones::default());
    Ok(listed(TombstonesPane::default(), feed))
}

impl Row for Kept {
    fn key(&self) -> String {
        self.tombstone.record_id.to_string()
    }
    fn fits(&self, filter: &SearchQuery) -> bool {
        let row = &self.tombstone;
        filter.fits(&Facts {
            texts: &[self.name(), &row.key.id, &row.deletion_id],
            state: row.phase.as_str(),
            kind: row.key.kind.as_str(),
            site: &row.key.site.to_string(),
            project: "",
            since: row.gone_at.or(row.deleted_at),
        })
    }
}

fn phase(phase: Phase, look: &RenderContext) -> Cell {
    let like = match phase {
        Phase::Checking | Phase::Deleting => StepState::Running,
        Phase::Gone => StepState::Gone,
        Phase::Released => StepState::Skipped,
        Phase::Purged => StepState::Purged,
    };
    look.like(like, phase.as_str())
}

/// Says what the tombstone does in its phase.
fn means(phase: Phase) -> &'static str {
    match phase {
        Phase::Checking => {
            "Its deletion is being planned: the gate refuses writes to it, and passes reads."
        }
        Phase::Deleting => "It is being deleted: the gate refuses to change it, or to refer to it.",
        Phase::Gone => "It is gone. If it is re-created during the hold-down, it is deleted again.",
        Phase::Released => {
            "The tombstone is released: nothing is refused or deleted because of it."
        }
        Phase::Purged => {
            "Its step was abandoned: nothing is sent any more, and the resource may still exist."
        }
    }
}

/// The question before a release. The engine releases only the tombstone of a resource that it finds to exist, and
/// that no deletion works on.
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
        .done(format!("the tombstone of {words} is released"))
        .saying(lines)
        .at(std::iter::once(&key.site), context.snapshot)
}

impl ListPane for TombstonesPane {
    type Row = Kept;
    const SCOPE: Scope = Scope::Tombstones;
    const NOUN: &'static str = "tombstone";
    const LOADING: &'static str = "Reading the tombstones…";
    const NOTHING: &'static [&'static str] = &[
        "There is no tombstone.",
        "Each resource that gone deletes gets one, which keeps it deleted for a while.",
        "A resource that the cloud removes along with it gets none.",
    ];
    const NOTHING_THEN: &'static str = "There was no tombstone then.";

    fn table(&self, _rows: &Rows<Kept>, _look: &RenderContext) -> Table<'_, Kept> {
        columns! { row: Kept, look;
            fixed("PHASE", 10) => phase(row.tombstone.phase, look);  row.tombstone.phase.as_str().to_owned(),
            fixed("KIND", 18) => Cell::plain(kind_words(&row.tombstone.key.kind)),
            flex("NAME", 3).tail() => Cell::plain(row.name_or_id()),
            // Shown only if the person chooses it: a resource has its name here, and its id in the detail.
            fixed("ID", 36).tail().from(u16::MAX) => Cell::dim(&row.tombstone.key.id),
            flex("SITE", 2).from(60) => Cell::dim(look.site(&row.tombstone.key.site)),
            fixed("DELETED (UTC)", 13).from(120) => Cell::dim(look.maybe_time(row.tombstone.deleted_at)); time_key(row.tombstone.deleted_at),
            fixed("GONE (UTC)", 11).from(80) => Cell::dim(look.maybe_time(row.tombstone.gone_at)); time_key(row.tombstone.gone_at),
            fixed("RE-CREATED", 10).right().from(100) => Cell::plain(row.tombstone.recreated.to_string()),
            fixed("DELETION", 8).from(90) => Cell::dim(short_id(&row.tombstone.deletion_id)),
        }
    }
    fn details(&self, row: &Kept, look: &RenderContext) -> Vec<Cell> {
        let tombstone = &row.tombstone;
        let target = Target::of(&tombstone.key, row.name());
        let mut facts = vec![target_in_full(&target)];
        let (deleted, gone) = (tombstone.deleted_at, tombstone.gone_at);
        facts.extend(deleted.map(|at| format!("deleted {}", look.time(at))));
        facts.extend(gone.map(|at| format!("gone {}", look.time(at))));
        if tombstone.recreated > 0 {
            facts.push(format!("re-created {}", count(tombstone.recreated, "time")));
        }
        vec![
            Cell::plain(facts.join(look.dot())),
            Cell::dim(means(tombstone.phase)),
        ]
    }
    others! { names }
    /// Gives the rows the names that are known.
    fn answered(&mut self, rows: &mut Rows<Kept>) {
        for row in &mut rows.feed.rows {
            row.names = self.names.known.clone();
        }
    }
    /// Looks up the names of the rows near the cursor.
    fn update(&mut self, rows: &mut Rows<Kept>, _: &Context, _moved: bool) -> bool {
        let near = rows.near_cursor(NAMED_MAX).map(|row| &row.tombstone);
        let near = near.map(|it| (it.deletion_id.as_str(), &it.key));
        self.names.look_up(near);
        false
    }
    fn copies(&self, _: &Rows<Kept>, row: &Kept) -> Vec<Copied> {
        vec![Copied::id(&row.tombstone.key.id)]
    }
    fn act(&mut self, row: &Kept, action: Action, context: &mut Context) {
        let tombstone = &row.tombstone;
        match action {
            Action::Open if !tombstone.deletion_id.is_empty() => {
                context.push(Route::Tree(tombstone.deletion_id.clone()));
            }
            Action::Explain => {
                let ResourceKey { kind, id, .. } = &tombstone.key;
                let words = resource_words(kind, row.name(), id);
                context.push(Route::Explain(tombstone.key.clone(), words));
            }
            Action::Release if tombstone.phase == Phase::Released => {
                context.say(Tone::Warn, "this tombstone is released already");
            }
            Action::Release => context.confirm(release(&tombstone.key, context)),
            _ => {}
        }
    }
}
