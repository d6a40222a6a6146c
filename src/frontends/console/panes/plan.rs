//! The plan of a deletion: exactly what it would do, before it can be started.
//!
//! The plan is frozen in the engine under its hash; this screen shows all of it and asks for a typed
//! confirmation of the resource that was under the cursor when `D` was pressed. There is no way
//! around the screen, and input typed before it was visible is discarded.

use crate::frontends::console::route::{BlockerRow, Route, Subject};
use std::borrow::Cow;
use std::sync::Arc;

use crate::control::{Accepted, Command, ControlError, Receipt, Snapshot, unexpected_reply};
use crate::domain::mapping::Mapped;
use crate::domain::model::{OnFailure, Plan, PlanOptions, Refusal, short_id};
use crate::domain::text;

use super::super::keys::{Action, Scope};
use super::super::list::List;
use super::super::look::{Cell, RenderContext, Tone};
use super::super::prompt::Confirm;
use super::emptiness::Load;
use super::forest::{Forest, Part};
use super::{Column, Context, Pane, PaneRequest};
use crate::present::{blocker_words, count, kind_words, name_or_id, rule_words};

enum Stage {
    Planning(u64),
    Ready(Arc<Plan>),
    Starting(Arc<Plan>, u64),
    Failed(String, Vec<String>),
}

pub(crate) struct PlanPane {
    subjects: Vec<Subject>,
    options: PlanOptions,
    stage: Stage,
    list: List,
    forest: Forest,
}

impl PlanPane {
    pub(crate) fn new(subjects: Vec<Subject>, cascade: bool) -> Self {
        Self {
            subjects,
            options: PlanOptions {
                cascade,
                ..PlanOptions::default()
            },
            stage: Stage::Planning(0),
            list: List::default(),
            forest: Forest::default(),
        }
    }

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
                let key = |action| context.keys.key(action);
                let (shows, cascade) = (key(Action::Blockers), key(Action::ToggleCascade));
                let release = key(Action::ToggleRelease);
                context.say(
                    Tone::Warn,
                    format!(
                        "refused: what stands in the way must go first; {shows} shows it, \
                         {cascade} or {release} plan otherwise"
                    ),
                );
            }
            Action::Confirm if plan.steps.is_empty() => {
                context.say(Tone::Warn, "there is nothing to delete in this plan");
            }
            Action::Confirm => {
                let confirm = self.confirm(plan, context.snapshot);
                context.requests.push(PaneRequest::Ask(Box::new(confirm)));
            }
            Action::ToggleCascade => {
                self.options.cascade = !self.options.cascade;
                self.ask(context);
            }
            Action::ToggleRelease => {
                self.options.release_floating_ips = !self.options.release_floating_ips;
                self.ask(context);
            }
            Action::TogglePublic => {
                self.options.include_public = !self.options.include_public;
                self.ask(context);
            }
            Action::ToggleProject => {
                self.options.with_project = !self.options.with_project;
                self.ask(context);
            }
            Action::Refresh => self.ask(context),
            Action::Unfold | Action::Fold => self.fold(action),
            Action::Blockers => {
                let held = BlockerRow::of_refusals(&plan.refused);
                if held.is_empty() {
                    context.say(Tone::Dim, "nothing stands in the way of this plan");
                } else {
                    context.push(Route::Blockers {
                        subject: self.subject_words(),
                        rows: held,
                        source: None,
                    });
                }
            }
            Action::Copy => {
                let row = self.list.cursor.checked_sub(self.refusal_rows());
                if let Some(node) = row.and_then(|row| self.forest.node(row)) {
                    context.copy(node.resource_id.clone());
                } else if let Some(refusal) = plan.refused.get(self.list.cursor) {
                    context.copy(refusal.resource.key.id.clone());
                }
            }
            _ => {}
        }
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

    fn columns(&self, _look: &RenderContext) -> Vec<Column> {
        vec![
            Column::fixed("ORDER", 5).right().from(50),
            Column::flex("WHAT", 3),
            Column::fixed("DOES", 9),
            Column::fixed("ID", 8).from(50),
            Column::flex("WHY", 2).from(60),
        ]
    }

    fn cells(&self, row: usize, look: &RenderContext) -> Vec<Cell> {
        if let Some(refusal) = self.refused().get(row) {
            let name = name_or_id(&refusal.resource.name, &refusal.resource.key.id);
            let glyph = look.pick("✖", "x");
            return vec![
                Cell::default(),
                Cell::new(
                    format!("{glyph} {} {name}", kind_words(&refusal.resource.key.kind)),
                    Tone::Bad,
                ),
                Cell::new("refused", Tone::Bad),
                Cell::dim(short_id(&refusal.resource.key.id)),
                Cell::plain(rule_words(refusal.rule)),
            ];
        }
        let row = row - self.refusal_rows();
        let wave = self.forest.wave(row);
        let node = self.forest.node(row);
        vec![
            Cell::dim(wave.map_or_else(String::new, |wave| wave.to_string())),
            self.forest.label(row, look),
            Cell::plain(self.forest.does(row)),
            Cell::dim(node.map_or("", |node| short_id(&node.resource_id))),
            Cell::dim(node.map_or("", |node| node.why.as_str())),
        ]
    }

    fn head(&self, look: &RenderContext) -> Vec<Cell> {
        if let Stage::Failed(error, changes) = &self.stage {
            let mut lines = vec![Cell::new(
                format!("{} {error}", look.pick("✖", "x")),
                Tone::Bad,
            )];
            lines.extend(changes.iter().map(Cell::plain));
            return lines;
        }
        let Some(plan) = self.plan() else {
            return Vec::new();
        };
        let (glyph, tone, verdict) = if plan.refused.is_empty() {
            (look.pick("▶", ">"), Tone::Strong, "")
        } else {
            (look.pick("✖", "x"), Tone::Bad, "must not start: ")
        };
        let mut lines = vec![Cell::new(
            format!("{glyph} {verdict}{}", counts(plan, look.dot())),
            tone,
        )];
        lines.push(Cell::dim(choices(&plan.options).join(look.dot())));
        let warnings = plan.warnings.iter();
        lines.extend(warnings.map(|w| Cell::new(format!("! {w}"), Tone::Warn)));
        lines
    }

    fn detail(&self, look: &RenderContext) -> Vec<Cell> {
        if let Some(refusal) = self.refused().get(self.list.cursor) {
            let mut lines = vec![Cell::new(refusal.reason.clone(), Tone::Bad)];
            if let Some(blocker) = &refusal.blocker {
                lines.push(Cell::plain(format!(
                    "blocked by {}",
                    blocker_words(blocker)
                )));
                lines.push(Cell::dim(format!("id {} at {}", blocker.id, blocker.site)));
            }
            return lines;
        }
        let row = self.list.cursor - self.refusal_rows().min(self.list.cursor);
        let Some(node) = self.forest.node(row) else {
            return Vec::new();
        };
        let note = match node.part {
            Part::Automatic => "automatic: the cloud removes it by itself; costs no call",
            Part::Unset => "unset: it stays, and only loses its reference",
            Part::Step => &node.why,
        };
        let head = format!("{} {}", node.does(), node.words());
        vec![
            Cell::plain([head.as_str(), note].join(look.dot())),
            Cell::dim(format!(
                "id {} at {}, project {}",
                node.resource_id,
                node.site,
                if node.project.is_empty() {
                    look.none()
                } else {
                    &node.project
                }
            )),
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
        vec![
            Cell::plain(format!("Planning to delete {}.", self.subject_words())),
            Cell::dim("Everything that hangs on it is listed; nothing is sent that changes"),
            Cell::dim(format!(
                "anything. {} drops the plan.",
                look.key(Action::Back)
            )),
        ]
    }
    fn failed(&self, look: &RenderContext) -> Vec<Cell> {
        let (again, back) = (look.key(Action::Refresh), look.key(Action::Back));
        vec![Cell::dim(format!(
            "Nothing was sent. {again} plans again, {back} goes back."
        ))]
    }
    fn nothing(&self, _look: &RenderContext) -> Vec<Cell> {
        vec![Cell::dim("There is nothing to delete: it is gone already.")]
    }

    fn filter_changed(&mut self) {
        self.forest.filter(&self.list.filter);
    }

    fn open(&mut self, context: &mut Context<'_>) {
        if matches!(self.stage, Stage::Planning(0)) {
            self.ask(context);
        }
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
                let text = if *existing {
                    format!("it was being deleted already, by deletion {short}")
                } else {
                    format!("accepted as deletion {short}")
                };
                context.say(Tone::Good, text);
                let tree = Route::Tree(deletion_id.clone());
                context.requests.push(PaneRequest::Replace(tree));
            }
            Ok(
                Receipt::Done { .. }
                | Receipt::Bulk(_)
                | Receipt::Purged(_)
                | Receipt::Resource { .. }
                | Receipt::News(_),
            ) => {
                self.stage = Stage::Failed(unexpected_reply().to_string(), Vec::new());
            }
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
