//! One deletion as a living tree of its steps.

use crate::control::{Command, ControlError, Page, Query};
use crate::domain::ladder::Purged;
use crate::domain::model::{Deletion, Event as LedgerEvent, Step, StepState, short_id};

use super::super::feed::{Feed, PAGE_ROWS, Want};
use super::super::keys::{Action, Scope};
use super::super::list::List;
use super::super::look::{Cell, Look, Tone, count, duration, thousands};
use super::blockers::{BlockersPane, Source};
use super::deletions::{
    cancel, deletion_lines, done, ladder, pause, progress_words, retry, target_words,
};
use super::forest::{Forest, Node, Part, RowKey};
use super::inspect::InspectPane;
use super::ladder::LadderPane;
use super::{Column, Context, Pane, Wish, unexpected};

pub(crate) struct TreePane {
    id: String,
    deletion: Feed<Deletion>,
    steps: Feed<Step>,
    /// What the frozen plan says of resources that are no steps: automatic and unset.
    others: Vec<Node>,
    frozen: Option<u64>,
    /// Older events are in the rows already.
    since: i64,
    list: List,
    forest: Forest,
}

impl TreePane {
    pub(crate) fn new(id: String) -> Self {
        Self {
            id,
            deletion: Feed::new(1),
            steps: Feed::new(usize::MAX),
            others: Vec::new(),
            frozen: None,
            since: i64::MAX,
            list: List::default(),
            forest: Forest::default(),
        }
    }

    fn deletion(&self) -> Option<&Deletion> {
        self.deletion.rows.first()
    }

    fn ask(&mut self, context: &mut Context<'_>) {
        if let Want::Page(_) = self.deletion.due(context.now) {
            let id = self.id.clone();
            let ticket = context.query(Query::Deletion { id });
            self.deletion.asked(ticket, None, context.now);
        }
        if let Want::Page(cursor) = self.steps.due(context.now) {
            self.page(cursor, context);
        }
    }

    fn page(&mut self, cursor: Option<String>, context: &mut Context<'_>) {
        let ticket = context.query(Query::Steps {
            deletion_id: Some(self.id.clone()),
            states: Vec::new(),
            site: None,
            kind: None,
            older_than: None,
            cursor: cursor.clone(),
            cause: None,
            limit: PAGE_ROWS,
        });
        self.steps.asked(ticket, cursor.as_deref(), context.now);
    }

    fn replant(&mut self) {
        let held = self.forest.key(self.list.cursor);
        let steps = self.steps.rows.iter().map(Node::live);
        self.forest
            .set(steps.chain(self.others.iter().cloned()).collect());
        self.relayout(held);
    }

    fn relayout(&mut self, held: Option<RowKey>) {
        self.forest.layout(&self.list.filter);
        let keys = (0..self.forest.len()).map_while(|row| self.forest.key(row));
        self.list.hold(held, keys);
    }

    fn took_steps(&mut self, rows: Vec<Step>, next: Option<String>, context: &mut Context<'_>) {
        match self.steps.take(rows, next, context.now) {
            Want::Page(next) => self.page(next, context),
            Want::Nothing => self.replant(),
        }
    }

    fn open_row(&mut self, context: &mut Context<'_>) {
        let row = self.list.cursor;
        if let Some(node) = self.forest.node(row) {
            if node.part == Part::Step {
                context.push(InspectPane::of_step(node.id, &self.id));
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
    }
}

impl Pane for TreePane {
    fn scope(&self) -> Scope {
        Scope::Tree
    }
    fn title(&self, _look: &Look) -> String {
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
        self.steps.is_waiting() || self.deletion.is_waiting()
    }
    fn follows(&self) -> bool {
        self.deletion().is_none_or(|d| !d.state.is_settled())
    }

    fn columns(&self, _look: &Look) -> Vec<Column> {
        vec![
            Column::flex("WHAT", 3),
            Column::fixed("STATE", 14),
            Column::fixed("DOES", 9).from(60),
            Column::fixed("ID", 8).from(70),
            Column::fixed("TRIES", 5).right().from(60),
            Column::fixed("NEXT (UTC)", 11).from(90),
            Column::flex("WHY", 2).from(110),
        ]
    }

    fn cells(&self, row: usize, look: &Look) -> Vec<Cell> {
        let node = self.forest.node(row);
        let live = node.and_then(|node| node.live.as_ref());
        let tries = live.filter(|l| l.attempts > 0);
        vec![
            self.forest.label(row, look),
            self.forest.states(row, look),
            Cell::plain(self.forest.does(row)),
            Cell::dim(node.map_or("", |n| short_id(&n.resource_id))),
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

    fn head(&self, look: &Look) -> Vec<Cell> {
        let mut lines = Vec::new();
        if let Some(deletion) = self.deletion() {
            let state = look.deletion_state(deletion.state);
            let counts = &deletion.counts;
            let bar = look.bar(done(counts), counts.total, usize::from(look.width / 4));
            let mut text = format!("{} {bar} {}", state.text, progress_words(deletion));
            if let Some(eta) = deletion.eta_seconds {
                text.push_str(&format!("{}about {} left", look.dot(), duration(eta)));
            }
            lines.push(Cell::new(text, state.tone));
            if !deletion.note.is_empty() {
                lines.push(Cell::plain(deletion.note.clone()));
            }
        }
        for error in [&self.deletion.error, &self.steps.error]
            .into_iter()
            .flatten()
        {
            lines.push(Cell::new(
                format!("{} {error}", look.pick("✖", "x")),
                Tone::Bad,
            ));
        }
        lines
    }

    fn strip(&self, look: &Look) -> Vec<Cell> {
        let row = self.list.cursor;
        let Some(node) = self.forest.node(row) else {
            return match (self.forest.fold_words(row), self.deletion()) {
                (Some(words), _) => vec![Cell::plain(words), Cell::dim("enter opens the line")],
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

    fn strip_rows(&self) -> u16 {
        4
    }
    fn empty(&self, _look: &Look) -> Vec<Cell> {
        if !self.steps.loaded {
            let arrived = thousands(self.steps.arrived() as u64);
            return vec![Cell::dim(format!("Reading the steps… {arrived} so far"))];
        }
        if !self.list.filter.is_empty() {
            return vec![Cell::dim(
                "No step contains that text; esc shows all again.",
            )];
        }
        vec![
            Cell::plain("This deletion has no steps yet."),
            Cell::dim("While it is planned, its steps come here by themselves."),
        ]
    }

    fn filter_changed(&mut self) {
        let held = self.forest.key(self.list.cursor);
        self.relayout(held);
    }

    fn open(&mut self, context: &mut Context<'_>) {
        self.since = context.snapshot.last_event;
        self.steps.spoil();
        self.deletion.spoil();
        if self.frozen.is_none() {
            self.frozen = Some(context.query(Query::FrozenPlan {
                deletion_id: self.id.clone(),
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
                    self.steps.spoil();
                }
                (Some(_), Some(_)) => {}
                // Settled, or not known yet: the snapshot does not carry it.
                _ => {
                    let settled = self.deletion().is_some_and(|d| d.state.is_settled());
                    if !settled || context.snapshot.steps.live() > 0 {
                        self.deletion.spoil();
                        self.steps.spoil();
                    }
                }
            }
        }
        self.ask(context);
    }

    fn answer(
        &mut self,
        ticket: u64,
        answer: &mut Option<Result<Page, ControlError>>,
        context: &mut Context<'_>,
    ) -> bool {
        if self.frozen == Some(ticket) {
            // Without it the tree only lacks what is no step.
            if let Some(Ok(Page::Plan { plan })) = answer.take() {
                let automatic = plan.automatic.iter();
                let automatic = automatic.map(|s| Node::planned(s, Part::Automatic));
                let unset = plan.unset.iter().map(|s| Node::planned(s, Part::Unset));
                self.others = automatic.chain(unset).collect();
                if self.steps.loaded {
                    self.replant();
                }
            }
            return true;
        }
        if self.deletion.owns(ticket) {
            match answer.take() {
                Some(Ok(Page::Deletion { row })) => {
                    if self
                        .deletion()
                        .is_some_and(|known| known.counts != row.counts)
                    {
                        self.steps.spoil();
                    }
                    self.id.clone_from(&row.id);
                    self.deletion.take(vec![*row], None, context.now);
                }
                Some(Err(error)) => self.deletion.fail(error.to_string()),
                _ => self.deletion.fail(unexpected()),
            }
            return true;
        }
        if self.steps.owns(ticket) {
            match answer.take() {
                Some(Ok(Page::Steps { rows, next })) => self.took_steps(rows, next, context),
                Some(Err(error)) => self.steps.fail(error.to_string()),
                _ => self.steps.fail(unexpected()),
            }
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
            }
        }
        if moved {
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
                }
            }
            Action::Fold => {
                if let Some(held) = self.forest.fold(row) {
                    self.relayout(None);
                    let found = (0..self.forest.len())
                        .find(|r| self.forest.key(*r).as_ref() == Some(&held));
                    self.list.cursor = found.unwrap_or(self.list.cursor);
                }
            }
            Action::Blockers => match self.forest.node(row).filter(|n| n.live.is_some()) {
                Some(node) => context.push(BlockersPane::new(
                    format!(
                        "{} {}",
                        super::super::look::kind_words(&node.kind),
                        node.name
                    ),
                    Vec::new(),
                    Some(Source::Step(node.id)),
                )),
                None => context.push(BlockersPane::new(
                    self.deletion().map(target_words).unwrap_or_default(),
                    Vec::new(),
                    Some(Source::Deletion(self.id.clone())),
                )),
            },
            Action::Retry => {
                let held = |state| matches!(state, StepState::Stuck | StepState::Blocked);
                let node = self.forest.node(row);
                let node = node.filter(|n| n.live.as_ref().is_some_and(|l| held(l.state)));
                if let Some(node) = node {
                    context.wishes.push(Wish::Submit {
                        what: format!("retry of {}", node.name),
                        command: Command::RetryStep { step_id: node.id },
                    });
                } else if let Some(deletion) = self.deletion() {
                    context.wishes.push(retry(deletion));
                }
            }
            Action::Ladder => {
                let node = self.forest.node(row).filter(|node| node.part == Part::Step);
                match (node, self.deletion()) {
                    (Some(node), _) => {
                        context.push(LadderPane::new(Purged::Step(node.id), node.words()));
                    }
                    (None, Some(deletion)) => context.push(ladder(deletion)),
                    (None, None) => {}
                }
            }
            Action::Pause => context.wishes.extend(self.deletion().map(pause)),
            Action::Cancel => context.wishes.extend(self.deletion().map(cancel)),
            Action::Copy => {
                let node = self.forest.node(row);
                let id = node.map_or(&self.id, |n| &n.resource_id).clone();
                context.copy(id);
            }
            Action::Refresh => {
                self.steps.spoil();
                self.deletion.spoil();
                self.ask(context);
            }
            _ => {}
        }
    }
}
