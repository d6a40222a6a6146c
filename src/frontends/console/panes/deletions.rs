//! All deletions, with how far they are.

use crate::control::{Command, Snapshot, query};
use crate::domain::filter::{Facts, SearchQuery};
use crate::domain::ladder::PurgeScope;
use crate::domain::model::{Deletion, DeletionState, Paged, short_id};

use super::super::feed::PAGE_ROWS;
use super::super::keys::{Action, Scope};
use super::super::look::{
    Cell, RenderContext, Tone, blocker_words, count, duration, kind_words, name_or_id, thousands,
};
use super::super::prompt::Confirm;
use super::super::rows::{Row, Rows};
use super::blockers::{BlockersPane, Source};
use super::chart::ChartPane;
use super::inspect::InspectPane;
use super::ladder::LadderPane;
use super::list_pane::{ListPane, Refresh, Shown};
use super::tree::TreePane;
use super::{Column, Context, PaneRequest};

pub(crate) struct DeletionsPane {
    rows: Rows<Deletion>,
}

impl DeletionsPane {
    pub(crate) fn new() -> Self {
        Self { rows: Rows::new() }
    }
}

impl Row for Deletion {
    type Key = String;

    fn key(&self) -> String {
        self.id.clone()
    }
    fn fits(&self, filter: &SearchQuery) -> bool {
        fits_deletion(filter, self, &target_words(self))
    }
    type Request = query::Deletions;
    fn request(cursor: Option<String>) -> query::Deletions {
        query::Deletions {
            cursor,
            limit: PAGE_ROWS,
            ..query::Deletions::default()
        }
    }
    fn of(page: Paged<Self>) -> Paged<Self> {
        page
    }
}

/// `words` are those of its targets. Of the kinds and sites of several, each counts.
pub(crate) fn fits_deletion(filter: &SearchQuery, deletion: &Deletion, words: &str) -> bool {
    let keys = || deletion.targets.iter().map(|target| &target.key);
    let kinds: Vec<&str> = keys().map(|key| key.kind.as_str()).collect();
    let sites: Vec<String> = keys().map(|key| key.site.to_string()).collect();
    filter.fits(&Facts {
        texts: &[&deletion.id, words, &deletion.reason],
        state: deletion.state.as_str(),
        kind: &kinds.join(" "),
        site: &sites.join(" "),
        project: "",
        since: Some(deletion.requested_at),
    })
}

/// `network web and 2 more`
pub(crate) fn target_words(deletion: &Deletion) -> String {
    let Some(first) = deletion.targets.first() else {
        return String::new();
    };
    let name = name_or_id(&first.name, &first.key.id);
    let words = format!("{} {name}", kind_words(&first.key.kind));
    match deletion.targets.len() {
        1 => words,
        n => format!("{words} and {} more", n - 1),
    }
}

/// `120/536`, what is done of what there is.
pub(crate) fn progress_words(deletion: &Deletion) -> String {
    let total = thousands(deletion.counts.total);
    format!("{}/{total}", thousands(deletion.counts.ended()))
}

/// `4.2/s, about 3m 05s left`, at the rate of the last minute.
pub(crate) fn pace_words(deletion: &Deletion) -> Option<String> {
    let eta = deletion.eta_seconds?;
    let counts = &deletion.counts;
    let left = counts.live().saturating_sub(counts.verifying);
    let rate = left as f64 / eta.max(1) as f64;
    Some(format!("{rate:.1}/s, about {} left", duration(eta)))
}

/// Pauses what runs, resumes what is paused.
pub(crate) fn pause(deletion: &Deletion) -> PaneRequest {
    let deletion_id = deletion.id.clone();
    let what = target_words(deletion);
    if deletion.state == DeletionState::Paused {
        PaneRequest::Submit {
            what: format!("resuming {what}"),
            command: Command::Resume { deletion_id },
        }
    } else {
        PaneRequest::Submit {
            what: format!("pausing {what}"),
            command: Command::Pause { deletion_id },
        }
    }
}

pub(crate) fn retry(deletion: &Deletion) -> PaneRequest {
    PaneRequest::Submit {
        what: format!("retry of {}", target_words(deletion)),
        command: Command::Retry {
            deletion_id: deletion.id.clone(),
        },
    }
}

/// What can be done about all of it that is stuck.
pub(crate) fn ladder(deletion: &Deletion) -> LadderPane {
    LadderPane::new(
        PurgeScope::Deletion(deletion.id.clone()),
        target_words(deletion),
    )
}

pub(crate) fn cancel(deletion: &Deletion) -> PaneRequest {
    let what = target_words(deletion);
    let confirm = Confirm::new(
        "y".to_owned(),
        vec!["y".to_owned(), "yes".to_owned()],
        format!("cancelling {what}"),
        Command::Cancel {
            deletion_id: deletion.id.clone(),
        },
    );
    let confirm = confirm.saying(vec![
        format!("Cancel the deletion of {what} ({})", short_id(&deletion.id)),
        "What was sent already runs to its end; what was not is released and stays.".to_owned(),
    ]);
    PaneRequest::Ask(Box::new(confirm))
}

fn progress_width(look: &RenderContext) -> u16 {
    if look.width < 120 { 10 } else { 20 }
}

/// More about a deletion, for the detail.
pub(crate) fn deletion_lines(deletion: &Deletion, look: &RenderContext) -> Vec<Cell> {
    let counts = &deletion.counts;
    let parts = crate::domain::model::StepState::ALL.map(|state| (state, counts.of(state)));
    let words: Vec<String> = parts
        .into_iter()
        .filter(|(_, n)| *n > 0)
        .map(|(state, n)| format!("{} {}", thousands(n), state.as_str()))
        .collect();
    let mut lines = Vec::new();
    if !deletion.note.is_empty() {
        lines.push(Cell::plain(deletion.note.clone()));
    }
    for refusal in deletion.refused.iter().take(2) {
        // The note says the first reason already.
        let text = match &refusal.blocker {
            Some(blocker) => format!("blocked by {}", blocker_words(blocker)),
            None if deletion.note.contains(&refusal.reason) => continue,
            None => refusal.reason.clone(),
        };
        lines.push(Cell::new(text, Tone::Bad));
    }
    if counts.total > 0 {
        let steps = count(counts.total, "step");
        let pace = pace_words(deletion).map(|pace| format!("{}{pace}", look.dot()));
        let pace = pace.unwrap_or_default();
        lines.push(Cell::plain(format!("{steps}: {}{pace}", words.join(", "))));
    }
    let mut asked = format!(
        "asked for by {} at {}",
        deletion.requested_by.name,
        look.time(deletion.requested_at)
    );
    if !deletion.reason.is_empty() {
        asked.push_str(&format!(": {}", deletion.reason));
    }
    lines.push(Cell::dim(asked));
    lines
}

fn progress_bar(deletion: &Deletion, look: &RenderContext) -> Cell {
    let counts = &deletion.counts;
    if counts.total == 0 {
        return Cell::default();
    }
    let bar = look.bar(counts, usize::from(progress_width(look)));
    Cell::new(bar, look.deletion_state(deletion.state).tone)
}

impl ListPane for DeletionsPane {
    type Row = Deletion;
    const SCOPE: Scope = Scope::Deletions;
    const WORD: &'static str = "deletions";
    const NOUN: &'static str = "deletion";
    const REFRESH: Refresh = Refresh::EachMove;
    const DETAIL_ROWS: u16 = 5;
    const LOADING: &'static str = "Asking for the deletions…";

    fn rows(&self) -> &Rows<Deletion> {
        &self.rows
    }
    fn rows_mut(&mut self) -> &mut Rows<Deletion> {
        &mut self.rows
    }
    fn table(look: &RenderContext) -> Vec<Shown<Self>> {
        vec![
            Self::show(Column::fixed("STATE", 11), |row, look| {
                look.deletion_state(row.state)
            }),
            Self::show(Column::fixed("ID", 8).from(60), |row, _| {
                Cell::dim(short_id(&row.id))
            }),
            Self::show(Column::flex("WHAT", 3), |row, _| {
                Cell::plain(target_words(row))
            }),
            Self::show(
                Column::fixed("PROGRESS", progress_width(look)).from(60),
                progress_bar,
            ),
            Self::show(Column::fixed("DONE", 13).right(), |row, _| {
                match row.counts.total {
                    0 => Cell::default(),
                    _ => Cell::plain(progress_words(row)),
                }
            }),
            Self::show(Column::fixed("LEFT", 7).right().from(60), |row, _| {
                Cell::dim(row.eta_seconds.map(duration).unwrap_or_default())
            }),
            // A wider screen shows no less of the name.
            Self::show(Column::fixed("ASKED (UTC)", 11).from(120), |row, look| {
                Cell::dim(look.time(row.requested_at))
            }),
            Self::show(Column::flex("BY", 1).from(140), |row, _| {
                Cell::dim(row.requested_by.name.clone())
            }),
        ]
    }
    fn details(deletion: &Deletion, look: &RenderContext) -> Vec<Cell> {
        // The column may have cut it.
        let mut lines = vec![Cell::plain(target_words(deletion))];
        lines.extend(deletion_lines(deletion, look));
        lines
    }
    fn none(look: &RenderContext) -> Vec<Cell> {
        if look.replays {
            return vec![Cell::plain("No deletion had been asked for by then.")];
        }
        vec![
            Cell::plain("No deletion has been asked for yet. Once one is, it is followed here."),
            Cell::default(),
            Cell::dim(":network    lists the networks; so does every other kind"),
            Cell::dim(format!(
                "{:<11} on a row plans its deletion, and deletes nothing yet",
                look.key(Action::PlanDeletion)
            )),
            Cell::dim(format!("{:<11} shows all keys", look.key(Action::Help))),
        ]
    }
    /// What the snapshot carries is newer than the page.
    fn update(&mut self, snapshot: &Snapshot) {
        for row in &mut self.rows.feed.rows {
            if let Some(new) = snapshot.deletions.iter().find(|d| d.id == row.id) {
                row.clone_from(new);
            }
        }
    }
    fn act_on(&mut self, action: Action, context: &mut Context<'_>) {
        let Some(deletion) = self.rows.current() else {
            return;
        };
        match action {
            // A refused one has no steps; what refused it is the whole story.
            Action::Open if deletion.counts.total == 0 => {
                context.push(InspectPane::of_deletion(deletion));
            }
            Action::Open => context.push(TreePane::new(deletion.id.clone())),
            Action::Blockers => context.push(BlockersPane::new(
                target_words(deletion),
                Vec::new(),
                Some(Source::Deletion(deletion.id.clone())),
            )),
            Action::Retry => context.requests.push(retry(deletion)),
            Action::Ladder => context.push(ladder(deletion)),
            Action::Chart => context.push(ChartPane::new(deletion)),
            Action::Pause => context.requests.push(pause(deletion)),
            Action::Cancel => context.requests.push(cancel(deletion)),
            Action::Copy => context.copy(deletion.id.clone()),
            _ => {}
        }
    }
}
