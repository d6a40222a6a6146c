//! One deletion as a tree of its steps, which shows their progress.

use crate::domain::outline::Outline;
use crate::frontends::console::about::deletion_lines;
use crate::frontends::console::arrived::Arrived;
use crate::frontends::console::feed::whole;
use crate::frontends::console::panes::emptiness::Load;
use crate::frontends::console::requests::{cancel, ladder, pause, retry};
use crate::frontends::console::route::{Route, Source};
use std::borrow::Cow;
use std::ops::Range;

use crate::control::{Command, ControlError, query};
use crate::domain::awaiting::silent_deployment;
use crate::domain::ladder::PurgeScope;
use crate::domain::model::{Blocker, Deletion, Event as LedgerEvent, Step, StepState, short_id};

use super::super::feed::{Feed, Fetch};
use super::super::keys::{Action, Scope};
use super::super::list::List;
use super::super::look::{Cell, RenderContext, Tone};
use super::forest::{Forest, Node, Part, RowKey};
use super::search::Search;
use super::{Column, Context, Pane, PaneRequest};
use crate::present::{blocker_words, count, kind_words, pace_words, progress_words, target_words};

/// Number of steps that the engine returns at once.
const STEPS_AT_ONCE: usize = 500;
/// Number of rows that are kept loaded on each side of the cursor: more than a screen has.
const NEAR: usize = 200;

pub(crate) struct TreePane {
    id: String,
    deletion: Feed<Deletion>,
    /// Decides when all known branches are queried again.
    below: Feed<()>,
    /// The query for branches under way: its ticket, and the steps that the branches are below.
    asked_below: Option<(u64, Vec<Option<i64>>)>,
    /// The steps whose branches are queried next, as the rest of a refresh.
    left_below: Vec<Option<i64>>,
    /// The query for steps of a branch under way: its ticket, the branch, and the index of the first step.
    asked_members: Option<(u64, i64, usize)>,
    search: Option<Search>,
    /// Ticket of the query for the frozen plan, which names the resources without steps.
    frozen: Option<u64>,
    /// Sequence number of the last event that the rows already include.
    since: i64,
    list: List,
    forest: Forest,
}

impl TreePane {
    pub(crate) fn new(id: String) -> Self {
        Self {
            id,
            deletion: Feed::new(1),
            below: Feed::new(0),
            asked_below: None,
            left_below: Vec::new(),
            asked_members: None,
            search: None,
            frozen: None,
            since: i64::MAX,
            list: List::default(),
            forest: Forest::default(),
        }
    }

    fn deletion(&self) -> Option<&Deletion> {
        self.deletion.rows.first()
    }

    /// Queries what is shown but not loaded or out of date.
    fn ask(&mut self, context: &mut Context<'_>) {
        if let Fetch::Page(_) = self.deletion.due(context) {
            let id = self.id.clone();
            self.deletion.ask(query::Deletion { id }, true, context);
        }
        if let Some(search) = &mut self.search {
            search.ask(self.list.cursor, context);
            return;
        }
        self.ask_below(context);
        if self.asked_members.is_none()
            && self.below.error.is_none()
            && let Some((branch, wanted)) = self.forest.missing(self.near())
            && let Some(counts) = self.forest.counts_of(branch)
        {
            let room = STEPS_AT_ONCE.saturating_sub(wanted.len()) / 2;
            let from = wanted.start.saturating_sub(room);
            let ticket = context.ask(query::BranchSteps {
                deletion_id: self.id.clone(),
                branch,
                counts,
                from: from as u64,
                limit: STEPS_AT_ONCE,
            });
            self.asked_members = Some((ticket, branch, from));
        }
    }

    fn near(&self) -> Range<usize> {
        let cursor = self.list.cursor;
        cursor.saturating_sub(NEAR)..cursor + NEAR
    }

    fn ask_below(&mut self, context: &mut Context<'_>) {
        if self.asked_below.is_some() {
            return;
        }
        let unknown = self.forest.unknown_below().iter().copied().map(Some);
        let unknown: Vec<Option<i64>> = unknown.collect();
        let (mut wanted, is_refresh) = if !self.left_below.is_empty() {
            (std::mem::take(&mut self.left_below), false)
        } else if self.below.error.is_none() && !unknown.is_empty() {
            (unknown, false)
        } else if let Fetch::Page(_) = self.below.due(context) {
            match self.forest.known_below() {
                known if known.is_empty() => (vec![None], true),
                known => (known, true),
            }
        } else {
            return;
        };
        // The rest is queried once the answer arrives.
        self.left_below = wanted.split_off(wanted.len().min(STEPS_AT_ONCE));
        let ticket = context.ask(query::Outline {
            deletion_id: self.id.clone(),
            below: wanted.clone(),
        });
        if is_refresh {
            self.below.asked(ticket, true, context.now);
        }
        self.asked_below = Some((ticket, wanted));
    }

    /// Lays out the rows again; the cursor stays on the row `held`.
    fn relayout(&mut self, held: Option<RowKey>) {
        match &self.search {
            Some(search) => {
                let found = search.rows().iter().map(Node::live);
                self.forest.show(Some(found.collect()));
            }
            None => self.forest.show(None),
        }
        self.list
            .follow(held.and_then(|key| self.forest.row_of(key)));
    }

    /// Drops the tree, of which nothing is known at the time that is shown.
    fn forget(&mut self) {
        self.forest = Forest::default();
        self.frozen = None;
    }

    fn invalidate(&mut self) {
        self.below.invalidate();
        if let Some(search) = &mut self.search {
            search.invalidate();
        }
    }

    fn open_row(&mut self, context: &mut Context<'_>) {
        let row = self.list.cursor;
        if let Some(node) = self.forest.step(row) {
            if node.part == Part::Step {
                context.push(Route::InspectStep {
                    id: node.id,
                    deletion_id: self.id.clone(),
                });
            } else {
                context.say(
                    Tone::Dim,
                    format!("{}: no call of ours, so it has no timeline", node.does()),
                );
            }
            return;
        }
        let held = self.forest.key(row);
        if !self.forest.unfold(row) {
            self.forest.fold(row);
        }
        self.relayout(held);
        self.ask(context);
    }

    fn take_deletion(&mut self, arrived: &mut Arrived, context: &mut Context<'_>) {
        let known = self.deletion().map(|known| known.counts);
        let row = |row: Box<Deletion>| whole(vec![*row]);
        self.deletion
            .receive::<query::Deletion>(arrived, context, row);
        let Some(row) = self.deletion.rows.first() else {
            // Otherwise the tree of another time would stay.
            if context.replays {
                self.forget();
            }
            return;
        };
        let (id, counts) = (row.id.clone(), row.counts);
        if known.is_some_and(|known| known != counts) {
            self.invalidate();
        }
        self.id = id;
        if context.replays && counts.total == 0 {
            self.forget();
        }
    }

    fn took_outline(
        &mut self,
        asked: &[Option<i64>],
        answer: Result<Outline, ControlError>,
        is_refresh: bool,
        context: &mut Context<'_>,
    ) {
        match answer {
            Ok(outline) => {
                let held = self.forest.key(self.list.cursor);
                self.forest.learn(asked, outline);
                self.relayout(held);
                if is_refresh {
                    self.below.take(Vec::new(), None, context.now);
                }
            }
            Err(error) => self.failed(error.to_string()),
        }
        self.ask(context);
    }

    /// Records an error. The rows stay, and are queried again when the engine makes progress.
    fn failed(&mut self, error: String) {
        self.left_below.clear();
        self.below.fail(error);
    }

    fn took_members(
        &mut self,
        (branch, from): (i64, usize),
        answer: Result<Vec<Step>, ControlError>,
        context: &mut Context<'_>,
    ) {
        match answer {
            Ok(rows) => {
                let held = self.forest.key(self.list.cursor);
                let nodes = rows.iter().map(Node::live).collect();
                if !self.forest.load(branch, from..from + STEPS_AT_ONCE, nodes) {
                    // The steps have changed state since they were counted.
                    self.below.invalidate();
                }
                self.relayout(held);
                self.ask(context);
            }
            Err(error) => self.failed(error.to_string()),
        }
    }
}

/// Detail lines about a blocker at another deployment.
fn elsewhere_lines(by: &Blocker) -> Vec<Cell> {
    let advice = match silent_deployment(by) {
        Some(name) => {
            format!("See why it says nothing. If it is gone for good: gone release {name}")
        }
        None if by.in_plan => {
            "It goes as part of the same, and what it holds goes after it.".to_owned()
        }
        None => "Delete or free it there: what it holds then goes by itself.".to_owned(),
    };
    vec![
        Cell::plain(blocker_words(by)),
        Cell::dim(format!("id {} at {}", by.id, by.site)),
        Cell::dim(advice),
    ]
}

impl Pane for TreePane {
    fn scope(&self) -> Scope {
        Scope::Tree
    }
    fn title(&self, _look: &RenderContext) -> String {
        let short = short_id(&self.id);
        self.deletion().map_or_else(
            || format!("deletion {short}"),
            |d| format!("deletion {short}: {}", target_words(d)),
        )
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
        // A search hides the tree, which is queried when it is shown again: then only the search counts.
        let rows = match &self.search {
            Some(search) => search.is_waiting(),
            None => self.below.is_waiting(),
        };
        let asks = self.asked_below.is_some() || self.asked_members.is_some();
        asks || rows || self.deletion.is_waiting()
    }
    fn follows(&self) -> bool {
        self.deletion().is_none_or(|d| !d.state.is_terminal())
    }

    fn columns(&self, look: &RenderContext) -> Vec<Column> {
        vec![
            Column::flex("WHAT", 3),
            Column::fixed("STATE", 14),
            Column::fixed("DOES", 9).from(60),
            Column::fixed("ID", 8).from(70),
            Column::attempts(look).right().from(60),
            Column::fixed("NEXT (UTC)", 11).from(90),
            Column::flex("WHY", 2).from(110),
        ]
    }

    fn cells(&self, row: usize, look: &RenderContext) -> Vec<Cell> {
        let node = self.forest.node(row);
        let elsewhere = self.forest.elsewhere(row).map(|by| &by.id);
        let id = node.map(|n| &n.resource_id).or(elsewhere);
        let live = node.and_then(|node| node.live.as_ref());
        let tries = live.filter(|l| l.attempts > 0);
        vec![
            self.forest.label(row, look),
            self.forest.states(row, look),
            Cell::plain(self.forest.does(row)),
            Cell::dim(id.map_or("", |id| short_id(id))),
            Cell::plain(tries.map_or_else(String::new, |l| {
                format!("{}/{}", l.attempts, l.max_attempts)
            })),
            Cell::dim(
                live.and_then(|l| l.next_attempt_at)
                    .map_or_else(String::new, |at| look.time(at)),
            ),
            Cell::dim(node.map_or("", |n| n.why.as_str())),
        ]
    }

    fn head(&self, look: &RenderContext) -> Vec<Cell> {
        let mut lines = Vec::new();
        if let Some(deletion) = self.deletion() {
            let state = look.deletion_state(deletion.state);
            let bar = look.bar(&deletion.counts, usize::from(look.width / 4));
            let mut text = format!("{} {bar} {}", state.text, progress_words(deletion));
            if let Some(pace) = pace_words(deletion) {
                text.push_str(look.dot());
                text.push_str(&pace);
            }
            lines.push(Cell::new(text, state.tone));
            if !deletion.note.is_empty() {
                lines.push(Cell::plain(deletion.note.clone()));
            }
        }
        if let Some(search) = &self.search {
            let all = self.deletion().map_or(0, |d| d.counts.total);
            lines.push(Cell::new(search.words(all), Tone::Strong));
        }
        let search = self.search.as_ref().and_then(Search::error);
        let own = [&self.deletion.error, &self.below.error];
        lines.extend(look.errors(own.into_iter().flatten().chain(search)));
        lines
    }

    fn detail(&self, look: &RenderContext) -> Vec<Cell> {
        let row = self.list.cursor;
        if let Some(by) = self.forest.elsewhere(row) {
            return elsewhere_lines(by);
        }
        let Some(node) = self.forest.node(row) else {
            return match (self.forest.fold_words(row), self.deletion()) {
                (Some(words), _) => {
                    let opens = format!("{} opens the line", look.key(Action::Open));
                    vec![Cell::plain(words), Cell::dim(opens)]
                }
                (None, Some(deletion)) => deletion_lines(deletion, look),
                (None, None) => Vec::new(),
            };
        };
        let mut facts = format!("{} {}", node.does(), node.words());
        if !node.why.is_empty() {
            facts.push_str(look.dot());
            facts.push_str(&node.why);
        }
        let mut lines = vec![
            Cell::plain(facts),
            Cell::dim(format!("id {} at {}", node.resource_id, node.site)),
        ];
        if let Some(live) = &node.live {
            if live.recreated > 0 {
                let times = count(u64::from(live.recreated), "time");
                lines.push(Cell::new(format!("re-created {times}"), Tone::Warn));
            }
            if !live.held_by.is_empty() && live.state != StepState::Gone {
                lines.push(Cell::new(live.held_by.clone(), Tone::Warn));
            }
        }
        lines
    }

    fn detail_rows(&self) -> u16 {
        4
    }
    fn load(&self) -> Load {
        match &self.search {
            Some(search) => search.load(),
            None => self.below.load(),
        }
    }
    fn noun(&self) -> Cow<'static, str> {
        "step".into()
    }
    fn loading(&self, _look: &RenderContext) -> Vec<Cell> {
        vec![Cell::dim(match self.search {
            Some(_) => "Looking through the steps…",
            None => "Reading the steps…",
        })]
    }
    fn nothing(&self, look: &RenderContext) -> Vec<Cell> {
        if look.replays {
            let told = match self.deletion() {
                Some(_) => "It had no steps by then: they come with its plan.",
                None => "It had not been asked for by then.",
            };
            return vec![Cell::plain(told)];
        }
        vec![
            Cell::plain("This deletion has no steps yet."),
            Cell::dim("While it is planned, its steps come here by themselves."),
        ]
    }

    fn filter_changed(&mut self) {
        let filter = self.list.filter.meant();
        let deletion = Some(self.id.clone());
        self.search = (!self.list.filter.is_empty()).then(|| Search::new(deletion, filter));
        // The rows on the screen stay until something is found.
        if self.search.is_none() {
            let held = self.forest.key(self.list.cursor);
            self.relayout(held);
        }
    }

    fn open(&mut self, context: &mut Context<'_>) {
        self.since = context.snapshot.last_event;
        self.invalidate();
        self.deletion.invalidate();
        if self.frozen.is_none() {
            self.frozen = Some(context.ask(query::FrozenPlan {
                deletion_id: self.id.clone(),
                without_steps: true,
            }));
        }
        self.ask(context);
    }

    fn wake(&mut self, moved: bool, context: &mut Context<'_>) {
        if moved {
            let new = context.snapshot.deletions.iter().find(|d| d.id == self.id);
            match (new, self.deletion.rows.first_mut()) {
                (Some(new), Some(known)) if *known != *new => {
                    known.clone_from(new);
                    self.invalidate();
                }
                (Some(_), Some(_)) => {}
                // The deletion has ended or is not loaded yet; the snapshot does not have it.
                _ => {
                    let settled = self.deletion().is_some_and(|d| d.state.is_terminal());
                    if !settled || context.snapshot.steps.live() > 0 {
                        self.deletion.invalidate();
                        self.invalidate();
                    }
                }
            }
        }
        self.ask(context);
    }

    fn answer(&mut self, arrived: &mut Arrived, context: &mut Context<'_>) -> bool {
        let asked_frozen = self.frozen;
        if let Some(plan) = arrived.take::<query::FrozenPlan>(&mut self.frozen) {
            // Without the plan the tree lacks only resources without steps; there may be a plan later.
            if let Ok(plan) = plan {
                self.frozen = asked_frozen;
                self.forest.add_sections(&plan.automatic, &plan.unset);
                let held = self.forest.key(self.list.cursor);
                self.relayout(held);
            }
            return true;
        }
        if self.deletion.is_asked(arrived) {
            self.take_deletion(arrived, context);
            return true;
        }
        if let Some((ticket, asked)) = self.asked_below.take_if(|(it, _)| arrived.is_to(Some(*it)))
            && let is_refresh = self.below.is_asked(arrived)
            && let Some(answer) = arrived.take::<query::Outline>(&mut Some(ticket))
        {
            self.took_outline(&asked, answer, is_refresh, context);
            return true;
        }
        let members = self
            .asked_members
            .take_if(|(it, ..)| arrived.is_to(Some(*it)));
        if let Some((ticket, branch, from)) = members
            && let Some(answer) = arrived.take::<query::BranchSteps>(&mut Some(ticket))
        {
            self.took_members((branch, from), answer, context);
            return true;
        }
        let cursor = self.list.cursor;
        let mut search = self.search.as_mut();
        if search
            .as_mut()
            .is_some_and(|search| search.answer(arrived, cursor, context))
        {
            let held = self.forest.key(cursor);
            self.relayout(held);
            return true;
        }
        false
    }

    fn followed(&mut self, events: &[LedgerEvent]) {
        let mut moved = false;
        for event in events.iter().filter(|event| event.seq > self.since) {
            let state = event.data.get("state").and_then(|s| s.as_str());
            let state = StepState::ALL
                .into_iter()
                .find(|s| Some(s.as_str()) == state);
            if let (Some(step), Some(state)) = (event.step_id, state) {
                moved |= self.forest.patch(step, state);
                // Only the engine knows the counts of folded lines.
                self.below.invalidate();
            }
        }
        if moved && self.search.is_none() {
            let held = self.forest.key(self.list.cursor);
            self.relayout(held);
        }
    }

    fn act(&mut self, action: Action, context: &mut Context<'_>) {
        let row = self.list.cursor;
        match action {
            Action::Open => self.open_row(context),
            Action::Unfold => {
                let held = self.forest.key(row);
                if self.forest.unfold(row) {
                    self.relayout(held);
                    self.ask(context);
                }
            }
            Action::Fold => {
                if let Some(held) = self.forest.fold(row) {
                    self.relayout(None);
                    let found = self.forest.row_of(held);
                    self.list.cursor = found.unwrap_or(self.list.cursor);
                }
            }
            Action::Explain => {
                if let Some(node) = self.forest.step(row) {
                    context.push(Route::Explain {
                        key: node.key(),
                        words: node.words(),
                    });
                }
            }
            Action::Blockers => match self.forest.step(row).filter(|n| n.live.is_some()) {
                Some(node) => context.push(Route::Blockers {
                    subject: format!("{} {}", kind_words(&node.kind), node.name),
                    rows: Vec::new(),
                    source: Some(Source::Step(node.id)),
                }),
                None => context.push(Route::Blockers {
                    subject: self.deletion().map(target_words).unwrap_or_default(),
                    rows: Vec::new(),
                    source: Some(Source::Deletion(self.id.clone())),
                }),
            },
            Action::Retry => {
                let held = |state| matches!(state, StepState::Stuck | StepState::Blocked);
                let node = self.forest.step(row);
                let node = node.filter(|n| n.live.as_ref().is_some_and(|l| held(l.state)));
                if let Some(node) = node {
                    context.requests.push(PaneRequest::Submit {
                        what: format!("retry of {}", node.name),
                        command: Command::RetryStep { step_id: node.id },
                    });
                } else if let Some(deletion) = self.deletion() {
                    context.requests.push(retry(deletion));
                }
            }
            Action::Ladder => {
                let node = self.forest.step(row).filter(|node| node.part == Part::Step);
                match (node, self.deletion()) {
                    (Some(node), _) => {
                        context.push(Route::Ladder {
                            what: PurgeScope::Step(node.id),
                            words: node.words(),
                        });
                    }
                    (None, Some(deletion)) => context.push(ladder(deletion)),
                    (None, None) => {}
                }
            }
            Action::Chart => {
                if let Some(deletion) = self.deletion() {
                    context.push(Route::Chart(Box::new(deletion.clone())));
                }
            }
            Action::Pause => context.requests.extend(self.deletion().map(pause)),
            Action::Cancel => context.requests.extend(self.deletion().map(cancel)),
            Action::Copy => {
                let node = self.forest.node(row).map(|n| &n.resource_id);
                let id = node.or_else(|| self.forest.elsewhere(row).map(|by| &by.id));
                context.copy(id.unwrap_or(&self.id).clone());
            }
            Action::Refresh => {
                self.invalidate();
                self.deletion.invalidate();
                self.ask(context);
            }
            _ => {}
        }
    }
}
