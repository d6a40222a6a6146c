//! The plan of a deletion: exactly what it would do, before it can be started.
//!
//! The plan is frozen in the engine under its hash; this screen shows all of it and asks for a typed
//! confirmation of the resource that was under the cursor when `D` was pressed. There is no way
//! around the screen, and input typed before it was visible is discarded.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

use super::Route;
use super::forest::{Forest, Node, Part};
use super::kit::{Action, Arrived, Cell, Confirm, Context, List, Load, Pane, PaneRequest};
use super::kit::{RenderContext, Scope, Shown, Table, Tone, columns, fixed, flex};
use crate::control::{Accepted, Command, ControlError, Receipt, Snapshot, unexpected_reply};
use crate::domain::mapping::Mapped;
use crate::domain::model::{OnFailure, Plan, PlanOptions, Refusal, Target, short_id};
use crate::domain::text;
use crate::frontends::console::look::or_none;
use crate::frontends::console::subjects::{BlockerRow, Subject};
use crate::present::{blocker_words, count, resource_words, rule_words};

enum Stage {
    Planning(u64),
    Ready(Arc<Plan>),
    Starting(Arc<Plan>, u64),
    Failed(String, Vec<String>),
}

struct PlanPane {
    subjects: Vec<Subject>,
    options: PlanOptions,
    stage: Stage,
    list: List,
    forest: Forest,
}

pub(super) fn of(subjects: Vec<Subject>, cascade: bool) -> Box<dyn Pane> {
    let options = PlanOptions {
        cascade,
        ..PlanOptions::default()
    };
    Box::new(PlanPane {
        subjects,
        options,
        stage: Stage::Planning(0),
        list: List::default(),
        forest: Forest::default(),
    })
}

impl PlanPane {
    fn ask(&mut self, context: &mut Context<'_>) {
        let ticket = context.submit(Command::Plan {
            targets: self.subjects.iter().map(Subject::target).collect(),
            options: self.options,
        });
        self.stage = Stage::Planning(ticket);
        context.requests.push(PaneRequest::Guard);
    }

    fn plan(&self) -> Option<&Arc<Plan>> {
        match &self.stage {
            Stage::Ready(plan) | Stage::Starting(plan, _) => Some(plan),
            Stage::Planning(_) | Stage::Failed(..) => None,
        }
    }

    fn refused(&self) -> &[Refusal] {
        self.plan().map_or(&[], |plan| &plan.refused)
    }

    fn show(&mut self, plan: Arc<Plan>, context: &mut Context<'_>) {
        self.forest = Forest::of(&plan);
        self.forest.filter(&self.list.filter);
        self.list.cursor = 0;
        self.stage = Stage::Ready(plan);
        context.requests.push(PaneRequest::Guard);
    }

    fn subject_words(&self) -> String {
        match self.subjects.as_slice() {
            [one] => one.words(),
            many => format!("{} marked resources", many.len()),
        }
    }

    /// Asks the person to type the name or short id of the one resource, or how many resources there are.
    fn confirm(&self, plan: &Plan, snapshot: &Snapshot) -> Confirm {
        let mut accepted = Vec::new();
        let ask = match self.subjects.as_slice() {
            [one] => {
                let short = short_id(&one.key.id).to_owned();
                // A name that cannot be typed as it is shown is not asked for.
                let typable = !one.name.is_empty() && text::escape(&one.name) == one.name;
                let ask = if typable {
                    accepted.push(one.name.clone());
                    format!("the name \"{}\" or the short id {short}", one.name)
                } else {
                    format!("the short id {short}")
                };
                accepted.push(short);
                ask
            }
            many => {
                accepted.push(many.len().to_string());
                format!("how many resources were marked: {}", many.len())
            }
        };
        let command = Command::DeletePlan {
            plan_hash: plan.hash.clone(),
        };
        let confirm = Confirm::new(ask, accepted, "delete".to_owned(), command);
        let confirm = confirm.saying(vec![
            format!("Delete {}", self.subject_words()),
            counts(plan, ", "),
        ]);
        confirm.at(plan.steps.iter().map(|step| &step.site), snapshot)
    }

    fn act_ready(&mut self, plan: &Arc<Plan>, action: Action, context: &mut Context<'_>) {
        match action {
            Action::Confirm if !plan.refused.is_empty() => {
                let refused = "refused: what stands in the way must go first; {blockers} shows it, \
                               {toggle_cascade} or {toggle_release} plan otherwise";
                context.say(Tone::Warn, context.keys.spell(refused));
            }
            Action::Confirm if plan.steps.is_empty() => {
                context.say(Tone::Warn, "there is nothing to delete in this plan");
            }
            Action::Confirm => context.confirm(self.confirm(plan, context.snapshot)),
            Action::ToggleCascade => self.ask_with(|it| &mut it.cascade, context),
            Action::ToggleRelease => self.ask_with(|it| &mut it.release_floating_ips, context),
            Action::TogglePublic => self.ask_with(|it| &mut it.include_public, context),
            Action::ToggleProject => self.ask_with(|it| &mut it.with_project, context),
            Action::Refresh => self.ask(context),
            Action::Unfold | Action::Fold => self.fold(action),
            Action::Blockers => match BlockerRow::of_refusals(&plan.refused) {
                known if known.is_empty() => {
                    context.say(Tone::Dim, "nothing stands in the way of this plan");
                }
                known => context.push(Route::PlanBlockers(known, self.subject_words())),
            },
            Action::Copy => {
                let row = self.list.cursor.checked_sub(self.refusal_rows());
                let node = row.and_then(|row| self.forest.node(row));
                let refused = || {
                    plan.refused
                        .get(self.list.cursor)
                        .map(|it| &it.resource.key.id)
                };
                if let Some(id) = node.map(|node| &node.resource_id).or_else(refused) {
                    context.copy(id.clone());
                }
            }
            _ => {}
        }
    }

    /// Plans again with this option turned over.
    fn ask_with(&mut self, option: fn(&mut PlanOptions) -> &mut bool, context: &mut Context<'_>) {
        let option = option(&mut self.options);
        *option = !*option;
        self.ask(context);
    }

    fn refusal_rows(&self) -> usize {
        self.refused().len()
    }

    fn fold(&mut self, action: Action) {
        let above = self.refusal_rows();
        let Some(row) = self.list.cursor.checked_sub(above) else {
            return;
        };
        let held = if action == Action::Unfold {
            let key = self.forest.key(row);
            self.forest.unfold(row).then_some(key).flatten()
        } else {
            self.forest.fold(row)
        };
        if let Some(held) = held {
            self.forest.layout();
            self.list.cursor = above + self.forest.row_of(held).unwrap_or_default();
        }
    }
}

/// `12 steps, 3 automatic, 1 unset, 0 refused, at most 14 calls`; and copies, if there are any.
fn counts(plan: &Plan, between: &str) -> String {
    let copies = plan.mapping.iter().flat_map(Mapped::copies).count();
    let copies = (copies > 0).then(|| format!("{copies} copies at other sites"));
    let mut counts = vec![
        count(plan.steps.len(), "step"),
        format!("{} automatic", plan.automatic.len()),
        format!("{} unset", plan.unset.len()),
        format!("{} refused", plan.refused.len()),
        format!("at most {}", count(plan.calls_estimate, "call")),
    ];
    counts.extend(copies);
    counts.join(between)
}

/// The options of the plan in words; two options that extend the plan are named only if they are on.
fn choices(options: &PlanOptions) -> Vec<&'static str> {
    let mut choices = vec![
        match options.cascade {
            true => "cascade on",
            false => "cascade off",
        },
        match options.release_floating_ips {
            true => "floating IPs released",
            false => "floating IPs kept",
        },
        match options.on_failure {
            OnFailure::Stop => "on failure stop",
            OnFailure::Continue => "on failure go on with the rest",
        },
    ];
    if options.include_public {
        choices.push("also what other projects may use");
    }
    if options.with_project {
        choices.push("also the Keystone project");
    }
    choices
}

/// A row of the plan: what refuses comes before the tree.
struct PlanRow<'p> {
    pane: &'p PlanPane,
    row: usize,
}

impl PlanRow<'_> {
    fn refusal(&self) -> Option<&Refusal> {
        self.pane.refused().get(self.row)
    }
    /// The row of the tree.
    fn tree_row(&self) -> usize {
        self.row.saturating_sub(self.pane.refusal_rows())
    }
    fn node(&self) -> Option<&Node> {
        self.pane.forest.node(self.tree_row())
    }
    fn order(&self) -> String {
        let wave = self.pane.forest.wave(self.tree_row());
        let wave = wave.filter(|_| self.refusal().is_none());
        wave.map_or_else(String::new, |wave| wave.to_string())
    }
    fn label(&self, look: &RenderContext) -> Cell {
        match self.refusal() {
            Some(Refusal { resource, .. }) => {
                let Target { key, name } = resource;
                look.bad(resource_words(&key.kind, name, &key.id))
            }
            None => self.pane.forest.label(self.tree_row(), look),
        }
    }
    fn does(&self) -> Cell {
        match self.refusal() {
            Some(_) => Cell::new("refused", Tone::Bad),
            None => Cell::plain(self.pane.forest.does(self.tree_row())),
        }
    }
    fn id(&self) -> &str {
        let id = self.refusal().map(|refusal| &refusal.resource.key.id);
        let id = id.or_else(|| self.node().map(|node| &node.resource_id));
        id.map_or("", |id| short_id(id))
    }
    fn why(&self) -> Cell {
        match self.refusal() {
            Some(refusal) => Cell::plain(rule_words(refusal.rule)),
            None => Cell::dim(self.node().map_or("", |node| node.why.as_str())),
        }
    }
}

impl Pane for PlanPane {
    fn scope(&self) -> Scope {
        Scope::Plan
    }
    fn title(&self, _look: &RenderContext) -> String {
        format!("plan: delete {}", self.subject_words())
    }
    fn list(&self) -> &List {
        &self.list
    }
    fn list_mut(&mut self) -> &mut List {
        &mut self.list
    }
    fn len(&self) -> usize {
        self.refusal_rows() + self.forest.len()
    }
    fn is_busy(&self) -> bool {
        matches!(self.stage, Stage::Planning(_) | Stage::Starting(..))
    }
    fn is_modal(&self) -> bool {
        self.is_busy()
    }

    fn shown(&self, rows: Range<usize>, look: &RenderContext) -> Shown {
        let rows: Vec<PlanRow> = rows.map(|row| PlanRow { pane: self, row }).collect();
        let table: Table<PlanRow> = columns! { it: PlanRow, look;
            fixed("ORDER", 5).right().from(50) => Cell::dim(it.order()),
            flex("WHAT", 3) => it.label(look),
            fixed("DOES", 9) => it.does(),
            fixed("ID", 8).from(50) => Cell::dim(it.id()),
            flex("WHY", 2).from(60) => it.why(),
        };
        table.shown(rows.iter(), look)
    }

    fn head(&self, look: &RenderContext) -> Vec<Cell> {
        if let Stage::Failed(error, changes) = &self.stage {
            let mut lines = vec![look.bad(error)];
            lines.extend(changes.iter().map(Cell::plain));
            return lines;
        }
        let Some(plan) = self.plan() else {
            return Vec::new();
        };
        let counts = counts(plan, look.dot());
        let mut lines = vec![match plan.refused.is_empty() {
            true => Cell::new(format!("{} {counts}", look.pick("▶", ">")), Tone::Strong),
            false => look.bad(format!("must not start: {counts}")),
        }];
        lines.push(Cell::dim(choices(&plan.options).join(look.dot())));
        let warnings = plan.warnings.iter();
        lines.extend(warnings.map(|w| Cell::new(format!("! {w}"), Tone::Warn)));
        lines
    }

    fn detail(&self, look: &RenderContext) -> Vec<Cell> {
        let row = PlanRow {
            pane: self,
            row: self.list.cursor,
        };
        if let Some(refusal) = row.refusal() {
            let mut lines = vec![Cell::new(&refusal.reason, Tone::Bad)];
            if let Some(blocker) = &refusal.blocker {
                let words = blocker_words(blocker);
                lines.push(Cell::plain(format!("blocked by {words}")));
                lines.push(Cell::dim(format!("id {} at {}", blocker.id, blocker.site)));
            }
            return lines;
        }
        let Some(node) = row.node() else {
            return Vec::new();
        };
        let note = match node.part {
            Part::Automatic => "automatic: the cloud removes it by itself; costs no call",
            Part::Unset => "unset: it stays, and only loses its reference",
            Part::Step => &node.why,
        };
        let head = format!("{} {}{}{note}", node.does(), node.words(), look.dot());
        let (id, site) = (&node.resource_id, &node.site);
        let project = or_none(&node.project, look);
        vec![
            Cell::plain(head),
            Cell::dim(format!("id {id} at {site}, project {project}")),
        ]
    }

    fn detail_rows(&self) -> u16 {
        3
    }
    fn load(&self) -> Load {
        match &self.stage {
            Stage::Planning(_) => Load::Asking,
            Stage::Failed(..) => Load::Failed,
            Stage::Ready(_) | Stage::Starting(..) => Load::Answered,
        }
    }
    fn noun(&self) -> Cow<'static, str> {
        "step".into()
    }
    fn loading(&self, look: &RenderContext) -> Vec<Cell> {
        look.texts(&[
            &*format!("Planning to delete {}.", self.subject_words()),
            "Everything that hangs on it is listed; nothing is sent that changes anything.",
            "{back} drops the plan.",
        ])
    }
    fn failed(&self, look: &RenderContext) -> Vec<Cell> {
        look.texts(&["Nothing was sent. {refresh} plans again, {back} goes back."])
    }
    fn nothing(&self, look: &RenderContext) -> Vec<Cell> {
        look.texts(&["There is nothing to delete: it is gone already."])
    }

    fn filter_changed(&mut self) {
        self.forest.filter(&self.list.filter);
    }

    fn open(&mut self, context: &mut Context<'_>) {
        if matches!(self.stage, Stage::Planning(0)) {
            self.ask(context);
        }
    }

    fn wake(&mut self, _moved: bool, _context: &mut Context<'_>) {}
    fn answer(&mut self, _arrived: &mut Arrived, _context: &mut Context<'_>) -> bool {
        false
    }

    fn receipt(
        &mut self,
        ticket: u64,
        receipt: &Result<Receipt, ControlError>,
        context: &mut Context<'_>,
    ) -> bool {
        match &self.stage {
            Stage::Planning(own) if *own == ticket => {}
            Stage::Starting(_, own) if *own == ticket => {}
            _ => return false,
        }
        match receipt {
            Ok(Receipt::Planned { plan }) => self.show(plan.clone(), context),
            Ok(Receipt::Accepted(Accepted {
                deletion_id,
                existing,
            })) => {
                let short = short_id(deletion_id);
                context.say(
                    Tone::Good,
                    match existing {
                        true => format!("it was being deleted already, by deletion {short}"),
                        false => format!("accepted as deletion {short}"),
                    },
                );
                let tree = Route::Tree(deletion_id.clone());
                context.requests.push(PaneRequest::Replace(tree));
            }
            Ok(_) => self.stage = Stage::Failed(unexpected_reply().to_string(), Vec::new()),
            Err(error) => {
                let details = match error {
                    ControlError::Drifted { changes, .. } => changes.clone(),
                    ControlError::Refused { refused, .. } => refused
                        .iter()
                        .map(|r| format!("{}: {}", r.resource.key, r.reason))
                        .collect(),
                    ControlError::Ambiguous { candidates, .. } => {
                        candidates.iter().map(|c| c.key.to_string()).collect()
                    }
                    _ => Vec::new(),
                };
                self.forest = Forest::default();
                self.stage = Stage::Failed(error.to_string(), details);
            }
        }
        true
    }

    fn act(&mut self, action: Action, context: &mut Context<'_>) {
        match &self.stage {
            Stage::Ready(plan) => {
                let plan = plan.clone();
                self.act_ready(&plan, action, context);
            }
            Stage::Failed(..) if action == Action::Refresh => self.ask(context),
            Stage::Failed(..) | Stage::Planning(_) | Stage::Starting(..) => {}
        }
    }

    fn confirmed(&mut self, ticket: u64) -> bool {
        match &self.stage {
            Stage::Ready(plan) => {
                self.stage = Stage::Starting(plan.clone(), ticket);
                true
            }
            _ => false,
        }
    }
}
