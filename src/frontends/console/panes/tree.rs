//! One deletion as a tree of its steps, which shows their progress.

use std::ops::Range;
use std::sync::Arc;

use super::forest::{Forest, Node, PlanRole, RowKey, TreeRow};
use super::kit::*;
use super::search::Search;
use crate::control::ControlError;
use crate::domain::awaiting::{awaits_clearance, silent_deployment};
use crate::domain::model::{
    Blocker, Counts, Deletion, Event as LedgerEvent, Plan, Step, StepState, short_id,
};
use crate::frontends::console::about::{datum, deletion_lines};
use crate::present::{blocker_words, count, joined, pace_words, progress_words, target_words};

/// Maximum number of steps whose branches are read in one query.
const STEPS_AT_ONCE: usize = 500;
/// Minimum number of rows that are kept loaded on each side of the cursor.
const NEAR_MIN: usize = 25;
/// Number of rows that are read on each side beyond the rows that are kept loaded, so that few movements need a query,
/// and the person seldom waits.
const AHEAD: usize = 120;

struct TreePane {
    id: String,
    deletion: Feed<Deletion>,
    /// The refresh of all known branches.
    below: Pace,
    /// The query under way for branches: its ticket, and the steps that the branches are below.
    asked_below: Option<(u64, Vec<Option<i64>>)>,
    /// The steps whose branches are queried next, as the rest of a refresh.
    left_below: Vec<Option<i64>>,
    /// The query under way for steps of a branch: its ticket, the branch, and the indices of the steps.
    asked_members: Option<(u64, i64, Range<usize>)>,
    search: Option<Search>,
    /// The frozen plan, which names the resources without steps.
    frozen: Feed<Arc<Plan>>,
    /// Sequence number of the last event that the rows already include.
    since: i64,
    list: List,
    forest: Forest,
}

pub(super) fn of(id: String) -> Box<dyn Pane> {
    Box::new(TreePane {
        deletion: Feed::reading(query::Deletion { id: id.clone() }, |it| *it),
        below: Pace::default(),
        asked_below: None,
        left_below: Vec::new(),
        asked_members: None,
        search: None,
        frozen: Feed::of(query::FrozenPlan {
            deletion_id: id.clone(),
            without_steps: true,
        }),
        id,
        since: i64::MAX,
        list: List::default(),
        forest: Forest::default(),
    })
}

impl TreePane {
    fn deletion(&self) -> Option<&Deletion> {
        self.deletion.rows.first()
    }

    /// The table, whose rows are given by their positions in the forest.
    fn table(&self, look: &RenderContext) -> Table<'_, usize> {
        let forest = &self.forest;
        columns! { row: usize, look;
            flex("WHAT", 3) => forest.label(*row, look),
            fixed("STATE", 14) => forest.states(*row, look),
            fixed("DOES", 9).from(60) => forest.does(*row),
            fixed("ID", 8).from(70) => Cell::dim(forest.short_id(*row)),
            attempts(look).right().from(60) => Cell::plain(forest.attempts(*row)),
            fixed("NEXT (UTC)", 11).from(90) => Cell::dim(forest.next_attempt(*row, look)),
            flex("WHY", 2).from(110) => forest.why(*row),
        }
    }

    /// Queries the rows near the cursor that are not loaded or are out of date.
    fn ask(&mut self, context: &mut Context) {
        self.deletion.ask(context);
        if let Some(search) = &mut self.search {
            search.reach(self.list.cursor);
            return search.ask(context);
        }
        self.ask_below(context);
        if self.asked_members.is_none()
            && self.below.errors.is_empty()
            && let Some((branch, counts, wanted)) = self.forest.missing(self.around_cursor())
        {
            let asked = wanted.start.saturating_sub(AHEAD)..wanted.end + AHEAD;
            let ticket = context.outbox.ask(query::BranchSteps {
                deletion_id: self.id.clone(),
                branch,
                counts,
                from: asked.start as u64,
                limit: asked.len(),
            });
            self.asked_members = Some((ticket, branch, asked));
        }
    }

    /// The rows that are kept loaded: on each side of the cursor as many as the screen has, and at least [`NEAR_MIN`].
    fn around_cursor(&self) -> Range<usize> {
        let (cursor, near) = (self.list.cursor, self.list.height.max(NEAR_MIN));
        cursor.saturating_sub(near)..cursor + near + 1
    }

    fn ask_below(&mut self, context: &mut Context) {
        if self.asked_below.is_some() {
            return;
        }
        let mut is_refresh = false;
        let mut wanted = std::mem::take(&mut self.left_below);
        if wanted.is_empty() && self.below.errors.is_empty() {
            wanted = self.forest.unknown.clone();
        }
        if wanted.is_empty() && self.below.is_due(context) {
            is_refresh = true;
            wanted = self.forest.known_below();
            if wanted.is_empty() {
                wanted.push(None);
            }
        }
        if wanted.is_empty() {
            return;
        }
        // The rest is queried once the answer arrives.
        self.left_below = wanted.split_off(wanted.len().min(STEPS_AT_ONCE));
        let ticket = context.outbox.ask(query::Outline {
            deletion_id: self.id.clone(),
            below: wanted.clone(),
        });
        if is_refresh {
            self.below.asked(ticket, context.now);
        }
        self.asked_below = Some((ticket, wanted));
    }

    /// Lays out the rows again; the cursor stays on the row with the key `held`.
    fn relayout(&mut self, held: Option<RowKey>) {
        let found = self.search.as_ref().map(|search| &search.feed.rows);
        self.forest
            .show(found.map(|found| found.iter().map(Node::live).collect()));
        self.list
            .follow(held.and_then(|key| self.forest.row_of(key)));
    }

    /// The key of the row under the cursor.
    fn held(&self) -> Option<RowKey> {
        self.forest.key(self.list.cursor)
    }

    /// Drops the tree, because the replay shows a time at which the deletion had no steps.
    fn forget(&mut self) {
        self.forest = Forest::default();
        self.frozen.rows.clear();
    }

    fn invalidate(&mut self) {
        self.below.invalidate();
        if let Some(search) = &mut self.search {
            search.invalidate();
        }
    }

    /// Opens or folds the row under the cursor; returns false if there was nothing to open or to fold.
    fn set_unfolded(&mut self, unfolds: bool, context: &mut Context) -> bool {
        let is_changed = self.forest.set_unfolded(unfolds, &mut self.list);
        if is_changed && unfolds {
            self.ask(context);
        }
        is_changed
    }

    /// Shows the timeline of a step, or opens or folds a line.
    fn open_row(&mut self, context: &mut Context) {
        match self.forest.step(self.list.cursor) {
            Some(node) if node.part == PlanRole::Step => {
                context.push(Route::InspectStep(node.id, self.id.clone()));
            }
            Some(node) => {
                let does = node.does();
                let why =
                    format!("{does}: gone sends no call for this resource, so it has no timeline");
                context.say(Tone::Dim, why);
            }
            None => {
                if !self.set_unfolded(true, context) {
                    self.set_unfolded(false, context);
                }
            }
        }
    }

    fn took_deletion(&mut self, known: Option<Counts>, context: &Context) {
        let now = self.deletion().map(|deletion| deletion.counts);
        if known.is_some() && now.is_some() && known != now {
            self.invalidate();
        }
        if let Some(deletion) = self.deletion.rows.first() {
            self.id.clone_from(&deletion.id);
        }
        // Otherwise the tree of another time would stay.
        if context.replays && now.is_none_or(|counts| counts.total == 0) {
            self.forget();
        }
    }

    /// Takes branches, or steps of a branch. `take` changes the tree, and returns false if steps have changed their
    /// state since they were counted. After an error the rows stay, and are queried again after a while or when the
    /// engine makes progress.
    fn took<T>(
        &mut self,
        answer: Result<T, ControlError>,
        take: impl FnOnce(&mut Forest, T) -> bool,
        context: &mut Context,
    ) {
        match answer {
            Ok(answer) => {
                let held = self.held();
                if !take(&mut self.forest, answer) {
                    self.below.invalidate();
                }
                self.relayout(held);
            }
            Err(error) => {
                self.left_below.clear();
                self.below.fail(error.to_string(), context.now);
            }
        }
        self.ask(context);
    }
}

/// Detail lines about a blocker at another deployment.
fn elsewhere_lines(by: &Blocker) -> Vec<Cell> {
    let release = silent_deployment(by).map(|name| {
        format!(
            "Find out why deployment {name} does not answer. If it is switched off for good: gone release {name}"
        )
    });
    let advice = match by.in_plan {
        true => "It is being deleted too; the resource that it blocks is deleted after it.",
        false => {
            "Delete or free it there: the resource that it blocks is then deleted automatically."
        }
    };
    vec![
        Cell::plain(blocker_words(by)),
        id_line(&by.id, &by.site),
        Cell::dim(release.unwrap_or_else(|| advice.to_owned())),
    ]
}

/// The blocker of a step, or its last error; `None` without either.
fn last_words(step: &Step) -> Option<String> {
    let error = step.last_error.as_ref();
    let error = error.and_then(|error| non_empty(&error.message));
    // If the step waits for clearances, the message names all blockers, and why each is not deleted.
    let blocker = step.blockers.first().filter(|_| !awaits_clearance(step));
    let blocker = blocker.map(|by| format!("blocked by {}", blocker_words(by)));
    blocker.or(error.map(str::to_owned))
}

impl Pane for TreePane {
    fn scope(&self) -> Scope {
        Scope::Tree
    }
    fn title(&self, _look: &RenderContext) -> String {
        let short = short_id(&self.id);
        match self.deletion() {
            Some(deletion) => format!("deletion {short}: {}", target_words(deletion)),
            None => format!("deletion {short}"),
        }
    }
    fn list(&self) -> &List {
        &self.list
    }
    fn list_mut(&mut self) -> &mut List {
        &mut self.list
    }
    fn len(&self) -> usize {
        self.forest.len()
    }
    fn is_busy(&self) -> bool {
        // A search hides the tree, which is queried again only when it is shown again.
        let search = self.search.as_ref();
        let rows = search.map_or(self.below.is_waiting(), Search::is_waiting);
        let asks = self.asked_below.is_some() || self.asked_members.is_some();
        asks || rows || self.deletion.is_waiting()
    }
    fn freshness(&self, now: DateTime<Utc>) -> Freshness {
        self.below.freshness(true, now)
    }
    fn is_live(&self) -> bool {
        self.below.is_timed()
    }
    fn follows(&self) -> bool {
        self.deletion().is_none_or(|d| !d.state.is_terminal())
    }

    fn shown(&self, rows: Range<usize>, look: &RenderContext) -> Shown {
        let table = self.table(look);
        let table = table.arranged(&self.list.columns, None, look);
        table.shown(rows.collect::<Vec<_>>().iter(), look)
    }
    fn choosable(&self) -> Option<Choosable> {
        Some(Choosable {
            kept_as: TREE.to_owned(),
            names: self.table(&ANY_SCREEN).names(),
        })
    }

    fn head(&self, look: &RenderContext) -> Vec<Cell> {
        let mut lines = Vec::new();
        if let Some(deletion) = self.deletion() {
            let state = look.deletion_state(deletion);
            let bar = look.bar(&deletion.counts, usize::from(look.width / 4));
            let progress = format!("{} {bar} {}", state.text, progress_words(&deletion.counts));
            let pace = pace_words(deletion, |at| look.time(at));
            let facts = joined([progress].into_iter().chain(pace), look.dot());
            lines.push(Cell::new(facts, state.tone));
            lines.extend(non_empty(&deletion.note).map(Cell::plain));
        }
        if let Some(search) = &self.search {
            let all = self.deletion().map_or(0, |d| d.counts.total);
            lines.push(Cell::new(search.words(all), Tone::Strong));
        }
        let search = self.search.iter().flat_map(Search::errors);
        let own = self.deletion.errors().iter().chain(&self.below.errors);
        lines.extend(look.errors(own.chain(search)));
        lines
    }

    fn detail(&self, look: &RenderContext) -> Vec<Cell> {
        let row = self.list.cursor;
        if let Some(TreeRow::Elsewhere(_, by)) = self.forest.row(row) {
            return elsewhere_lines(by);
        }
        let Some(node) = self.forest.node(row) else {
            return match (self.forest.fold_words(row), self.deletion()) {
                (Some(words), _) => look.texts(&[words.as_str(), "{open} opens the line"]),
                (None, Some(deletion)) => deletion_lines(deletion, look),
                (None, None) => Vec::new(),
            };
        };
        let mut does = format!("{} {}", node.does(), node.words());
        if !node.why.is_empty() {
            does = [&*does, &node.why].join(look.dot());
        }
        let mut lines = vec![Cell::plain(does), id_line(&node.key.id, &node.key.site)];
        if let Some(live) = &node.live {
            if live.recreated > 0 {
                let times = count(u64::from(live.recreated), "time");
                lines.push(Cell::new(format!("re-created {times}"), Tone::Warn));
            }
            let blocked_by = last_words(live).filter(|_| live.state != StepState::Gone);
            lines.extend(blocked_by.map(|words| Cell::new(words, Tone::Warn)));
        }
        lines
    }

    fn detail_rows(&self) -> u16 {
        4
    }
    fn vacancy(&self, look: &RenderContext) -> Vacancy {
        let search = self.search.as_ref();
        let nothing: &[&str] = match (look.replays, self.deletion()) {
            (true, Some(_)) => &["The deletion had no steps by then: they come with its plan."],
            (true, None) => &["The deletion had not been asked for by then."],
            (false, _) => &[
                "This deletion has no steps: it is not planned yet, was refused or cancelled,",
                "or its plan has nothing to delete.",
            ],
        };
        let loading = search.map_or("Reading the steps…", |_| "Searching the steps…");
        Vacancy {
            load: search.map_or_else(|| self.below.load(), Search::load),
            noun: "step".into(),
            loading: vec![Cell::dim(loading)],
            failed: look.texts(FAILED),
            nothing: look.texts(nothing),
        }
    }

    fn filter_changed(&mut self) {
        let filter = self.list.filter.resolved_text();
        let searches = !self.list.filter.is_empty();
        self.search = searches.then(|| Search::new(&self.id, filter));
        // The rows on the screen stay until the search is answered.
        if self.search.is_none() {
            self.relayout(self.held());
        }
    }

    fn open(&mut self, context: &mut Context) {
        self.since = context.snapshot.last_event;
        self.invalidate();
        self.deletion.invalidate();
        if self.frozen.rows.is_empty() {
            self.frozen.ask_at_once(context);
        }
        self.ask(context);
    }

    fn wake(&mut self, moved: bool, context: &mut Context) {
        if moved {
            let new = context.snapshot.deletions.iter().find(|d| d.id == self.id);
            match (new, self.deletion.rows.first_mut()) {
                (Some(new), Some(known)) if *known != *new => {
                    known.clone_from(new);
                    self.invalidate();
                }
                (Some(_), Some(_)) => {}
                // The deletion is not loaded yet, or is no longer in the snapshot. Its steps may still change: the
                // last calls of a cancelled deletion are completed, and a resource that is gone may be created again.
                _ => {
                    self.deletion.invalidate();
                    self.invalidate();
                }
            }
        }
        self.ask(context);
    }

    fn answer(&mut self, arrived: &mut Arrived, context: &mut Context) -> bool {
        if self.frozen.answer(arrived, context) {
            // Without the plan the tree lacks only resources without steps; there may be a plan later.
            if let Some(plan) = self.frozen.rows.first() {
                self.forest.add_sections(&plan.automatic, &plan.unset);
                self.relayout(self.held());
            }
            return true;
        }
        let known = self.deletion().map(|known| known.counts);
        if self.deletion.answer(arrived, context) {
            self.took_deletion(known, context);
            return true;
        }
        if let Some((ticket, asked)) = self.asked_below.take_if(|(it, _)| arrived.is_to(Some(*it)))
            && let is_refresh = arrived.is_to(self.below.ticket)
            && let Some(answer) = arrived.take::<query::Outline>(&mut Some(ticket))
        {
            if is_refresh && answer.is_ok() {
                self.below.arrived(context.now);
            }
            let take_outline = |forest: &mut Forest, outline| {
                forest.take_outline(&asked, outline);
                true
            };
            self.took(answer, take_outline, context);
            return true;
        }
        let members = self
            .asked_members
            .take_if(|(it, ..)| arrived.is_to(Some(*it)));
        if let Some((ticket, branch, asked)) = members
            && let Some(answer) = arrived.take::<query::BranchSteps>(&mut Some(ticket))
        {
            let load = |forest: &mut Forest, rows: Vec<Step>| {
                let nodes = rows.iter().map(Node::live).collect();
                forest.load(branch, asked, nodes)
            };
            self.took(answer, load, context);
            return true;
        }
        let search = self.search.as_mut();
        let is_found = search.is_some_and(|search| search.answer(arrived, context));
        if is_found {
            self.relayout(self.held());
            self.ask(context);
        }
        is_found
    }

    fn followed(&mut self, events: &[LedgerEvent]) {
        let mut moved = false;
        for event in events.iter().filter(|event| event.seq > self.since) {
            let name = datum(event, "state");
            let mut states = StepState::ALL.into_iter();
            let state = states.find(|state| state.as_str() == name);
            if let (Some(step), Some(state)) = (event.step_id, state) {
                moved |= self.forest.patch(step, state);
                // Only the engine knows the counts of folded lines.
                self.below.invalidate();
            }
        }
        if moved && self.search.is_none() {
            self.relayout(self.held());
        }
    }

    fn act(&mut self, action: Action, context: &mut Context) {
        use Action::{Blockers, Ladder, Retry, Yaml};
        let row = self.list.cursor;
        let node = self.forest.step(row);
        let of_step = node.filter(|node| match action {
            Action::Retry => matches!(node.state(), Some(StepState::Stuck | StepState::Blocked)),
            _ => node.part == PlanRole::Step,
        });
        match (action, of_step, self.deletion()) {
            (Action::Open, ..) => self.open_row(context),
            (Action::Unfold | Action::Fold, ..) => {
                self.set_unfolded(action == Action::Unfold, context);
            }
            (Action::Refresh, ..) => {
                self.invalidate();
                self.deletion.invalidate();
                self.ask(context);
            }
            (Action::Copy, ..) => {
                let id = self.forest.id(row).unwrap_or(&self.id);
                let error = node.and_then(|node| Copied::error(node.live.as_ref()?));
                let texts = [Copied::id(id)].into_iter().chain(error);
                let texts = texts.chain([Copied::row(self)]).collect();
                self.list.copy(id.clone(), texts, context);
            }
            (Action::Explain, ..) => {
                if let Some(node) = node {
                    context.push(Route::Explain(node.key.clone(), node.words()));
                }
            }
            (Blockers | Retry | Ladder | Yaml, Some(node), _) => {
                act(&PurgeScope::Step(node.id), node.words(), action, context);
            }
            (_, _, Some(deletion)) => WorkItem::Deletion(deletion).act(action, context),
            (_, _, None) => {}
        }
    }
}
