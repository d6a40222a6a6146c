//! The plan of a deletion: exactly what it would do, before it can be started.
//!
//! The plan is frozen in the engine under its hash; this screen shows all of it and asks for a typed confirmation: the
//! name or short id of the one resource, or the number of marked resources. The screen cannot be skipped, and input
//! typed before it was visible is discarded.

use std::ops::Range;
use std::sync::Arc;

use super::forest::{Forest, HEAD_WARNINGS_MAX, PlanRole, TreeRow};
use super::kit::*;
use super::names;
use crate::control::{Accepted, Command, ControlError, NamedOptions, Receipt, unexpected_reply};
use crate::domain::model::{Plan, PlanOptions, Refusal, Target, short_id};
use crate::domain::text;
use crate::present::{blocker_words, plan_options_words, plan_words};

enum Stage {
    Planning(u64),
    Ready(Arc<Plan>),
    Starting(Arc<Plan>, u64),
    Failed(String, Vec<String>),
}

struct PlanPane {
    targets: Vec<Target>,
    options: PlanOptions,
    stage: Stage,
    planned_at: Option<DateTime<Utc>>,
    list: List,
    forest: Forest,
    /// The names of projects by id, for each cloud.
    projects: Vec<Feed<(String, String)>>,
}

pub(super) fn of(targets: Vec<Target>, cascade: bool) -> Box<dyn Pane> {
    Box::new(PlanPane {
        targets,
        options: PlanOptions {
            cascade,
            ..PlanOptions::default()
        },
        stage: Stage::Planning(0),
        planned_at: None,
        list: List::default(),
        forest: Forest::default(),
        projects: Vec::new(),
    })
}

impl PlanPane {
    fn ask(&mut self, context: &mut Context) {
        let command = Command::Plan {
            targets: self.targets.iter().map(|it| target_spec(&it.key)).collect(),
            options: self.options,
        };
        self.stage = Stage::Planning(context.outbox.submit(command, ""));
        context.requests.push(PaneRequest::Guard);
    }

    fn plan(&self) -> Option<&Arc<Plan>> {
        match &self.stage {
            Stage::Ready(plan) | Stage::Starting(plan, _) => Some(plan),
            Stage::Planning(_) | Stage::Failed(..) => None,
        }
    }

    fn show(&mut self, plan: Arc<Plan>, context: &mut Context) {
        self.forest = Forest::of(&plan);
        self.forest.filter(&self.list.filter);
        self.list.cursor = 0;
        if self.projects.is_empty() {
            self.projects = names::look_up_projects(plan.steps.iter().map(|step| &step.site));
        }
        for lookup in &mut self.projects {
            lookup.ask(context);
        }
        self.stage = Stage::Ready(plan);
        self.planned_at = Some(context.now);
        context.requests.push(PaneRequest::Guard);
    }

    fn target_words(&self) -> String {
        match self.targets.as_slice() {
            [one] => words_at(one),
            many => format!("{} marked resources", many.len()),
        }
    }

    /// Asks the person to type the name or short id of the one resource, or how many resources there are.
    fn confirm(&self, plan: &Plan, snapshot: &Snapshot) -> Confirm {
        let (ask, accepted) = match self.targets.as_slice() {
            [Target { key, name }] => {
                let short = short_id(&key.id).to_owned();
                let by_id = format!("the short id {short}");
                // A name with characters that are shown escaped cannot be typed, so only the short id is accepted.
                match !name.is_empty() && text::escape(name) == *name {
                    true => (
                        format!("the name \"{name}\" or {by_id}"),
                        vec![name.clone(), short],
                    ),
                    false => (by_id, vec![short]),
                }
            }
            many => {
                let n = many.len().to_string();
                (format!("how many resources were marked: {n}"), vec![n])
            }
        };
        let plan_hash = plan.hash.clone();
        let named = NamedOptions::default();
        let command = Command::DeletePlan { plan_hash, named };
        let lines = vec![
            format!("Delete {}", self.target_words()),
            plan_words(plan, ", "),
        ];
        let sites = plan.steps.iter().map(|step| &step.site);
        let confirm = Confirm::new(ask, accepted, "delete".to_owned(), command);
        confirm.saying(lines).at(sites, snapshot)
    }

    fn act_ready(&mut self, plan: &Arc<Plan>, action: Action, context: &mut Context) {
        match action {
            Action::Confirm if !plan.refused.is_empty() => {
                let refused = "refused: its blockers must go first; {blockers} shows them, \
                               {toggle_cascade} or {toggle_release} changes the plan";
                context.say(Tone::Warn, context.keys.spell(refused));
            }
            Action::Confirm if plan.steps.is_empty() => {
                context.say(Tone::Warn, "there is nothing to delete in this plan");
            }
            Action::Confirm => context.confirm(self.confirm(plan, context.snapshot)),
            Action::ToggleCascade => self.ask_with(|it| &mut it.cascade, context),
            Action::ToggleRelease => self.ask_with(|it| &mut it.delete_detached, context),
            Action::TogglePublic => self.ask_with(|it| &mut it.include_public, context),
            Action::ToggleProject => self.ask_with(|it| &mut it.with_project, context),
            Action::ToggleServers => self.ask_with(|it| &mut it.with_servers, context),
            Action::Refresh => self.ask(context),
            Action::Unfold | Action::Fold => {
                self.forest
                    .set_unfolded(action == Action::Unfold, &mut self.list);
            }
            Action::Blockers if plan.refused.is_empty() => {
                context.say(Tone::Dim, "nothing blocks this plan");
            }
            Action::Blockers => {
                let refused = plan.refused.clone();
                context.push(Route::PlanBlockers(refused, self.target_words()));
            }
            Action::Copy => {
                if let Some(id) = self.forest.id(self.list.cursor) {
                    let texts = vec![Copied::id(id), Copied::row(self)];
                    self.list.copy(id.clone(), texts, context);
                }
            }
            _ => {}
        }
    }

    /// Plans again with this option inverted.
    fn ask_with(&mut self, option: fn(&mut PlanOptions) -> &mut bool, context: &mut Context) {
        let option = option(&mut self.options);
        *option = !*option;
        self.ask(context);
    }
}

impl Pane for PlanPane {
    fn scope(&self) -> Scope {
        Scope::Plan
    }
    fn title(&self, _look: &RenderContext) -> String {
        format!("plan: delete {}", self.target_words())
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
    fn freshness(&self, _now: DateTime<Utc>) -> Freshness {
        match (&self.stage, self.planned_at) {
            (Stage::Planning(_), _) => Freshness::Asking,
            (_, Some(at)) => Freshness::AsOf(at),
            (_, None) => Freshness::Fixed,
        }
    }
    fn is_busy(&self) -> bool {
        matches!(self.stage, Stage::Planning(_) | Stage::Starting(..))
    }
    fn is_modal(&self) -> bool {
        self.is_busy()
    }

    fn shown(&self, rows: Range<usize>, look: &RenderContext) -> Shown {
        let forest = &self.forest;
        let table = columns! { row: usize, look;
            fixed("ORDER", 5).right().from(50) => Cell::dim(forest.order(*row)),
            flex("WHAT", 3) => forest.label(*row, look),
            fixed("DOES", 9) => forest.does(*row),
            fixed("ID", 8).from(50) => Cell::dim(forest.short_id(*row)),
            flex("WHY", 2).from(60) => forest.why(*row),
        };
        table.shown(rows.collect::<Vec<_>>().iter(), look)
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
        let counts = plan_words(plan, look.dot());
        let mut lines = vec![match plan.refused.is_empty() {
            true => Cell::new(format!("{} {counts}", look.pick("▶", ">")), Tone::Strong),
            false => look.bad(format!("must not start: {counts}")),
        }];
        let options = plan_options_words(&plan.options);
        lines.push(Cell::dim(options.join(look.dot())));
        let warn = |words: String| Cell::new(format!("! {words}"), Tone::Warn);
        match plan.warnings.len() {
            0..=HEAD_WARNINGS_MAX => lines.extend(plan.warnings.iter().cloned().map(warn)),
            n => lines.push(warn(format!("{n} warnings: the last rows"))),
        }
        lines
    }

    fn detail(&self, look: &RenderContext) -> Vec<Cell> {
        let row = self.list.cursor;
        if let Some(TreeRow::Refused(refusal)) = self.forest.row(row) {
            let mut lines = vec![Cell::new(&refusal.reason, Tone::Bad)];
            if let Some(blocker) = &refusal.blocker {
                let words = blocker_words(blocker);
                lines.push(Cell::plain(format!("blocked by {words}")));
                lines.push(id_line(&blocker.id, &blocker.site));
            }
            return lines;
        }
        if let Some(TreeRow::Warning(warning)) = self.forest.row(row) {
            return vec![Cell::new(warning, Tone::Warn)];
        }
        let Some(node) = self.forest.node(row) else {
            return Vec::new();
        };
        let note = match node.part {
            PlanRole::Automatic => "automatic: the cloud removes it by itself; costs no call",
            PlanRole::Unset => "unset: it stays, and only loses its reference",
            PlanRole::Step => &node.why,
        };
        let head = format!("{} {}{}{note}", node.does(), node.words(), look.dot());
        let (id, site) = (&node.key.id, &node.key.site);
        let mut names = self.projects.iter().flat_map(|lookup| &lookup.rows);
        let name = names
            .find(|(id, _)| *id == node.project)
            .map(|(_, name)| name);
        let project = names::project_words(&node.project, name, look);
        vec![
            Cell::plain(head),
            Cell::dim(format!("id {id} at {site}, project {project}")),
        ]
    }

    fn detail_rows(&self) -> u16 {
        3
    }
    fn vacancy(&self, look: &RenderContext) -> Vacancy {
        Vacancy {
            load: match &self.stage {
                Stage::Planning(_) => Load::Asking,
                Stage::Failed(..) => Load::Failed,
                Stage::Ready(_) | Stage::Starting(..) => Load::Answered,
            },
            noun: "step".into(),
            loading: look.texts(&[
                &*format!("Planning to delete {}.", self.target_words()),
                "All dependents are listed too; no call that changes a resource is sent.",
                "{back} drops the plan.",
            ]),
            failed: look.texts(&["Nothing was sent. {refresh} plans again, {back} goes back."]),
            nothing: look.texts(&["There is nothing to delete: every target is gone already."]),
        }
    }

    fn filter_changed(&mut self) {
        self.forest.filter(&self.list.filter);
    }

    fn open(&mut self, context: &mut Context) {
        if matches!(self.stage, Stage::Planning(0)) {
            self.ask(context);
        }
    }

    fn answer(&mut self, arrived: &mut Arrived, context: &mut Context) -> bool {
        let mut lookups = self.projects.iter_mut();
        lookups.any(|lookup| lookup.answer(arrived, context))
    }

    fn receipt(&mut self, ticket: u64, reply: &Reply, context: &mut Context) -> bool {
        match &self.stage {
            Stage::Planning(own) | Stage::Starting(_, own) if *own == ticket => {}
            _ => return false,
        }
        match reply {
            Ok(Receipt::Planned { plan }) => self.show(plan.clone(), context),
            Ok(Receipt::Accepted(Accepted {
                deletion_id,
                existing,
            })) => {
                let short = short_id(deletion_id);
                let accepted = match existing {
                    true => format!("it was being deleted already, by deletion {short}"),
                    false => format!("accepted as deletion {short}"),
                };
                context.say(Tone::Good, accepted);
                let tree = Route::Tree(deletion_id.clone());
                context.requests.push(PaneRequest::Replace(tree));
            }
            Ok(_) => self.stage = Stage::Failed(unexpected_reply().to_string(), Vec::new()),
            Err(error) => {
                let details = match error {
                    ControlError::Drifted { changes, .. } => changes.clone(),
                    ControlError::Refused { refused, .. } => {
                        let words = |it: &Refusal| format!("{}: {}", it.resource.key, it.reason);
                        refused.iter().map(words).collect()
                    }
                    ControlError::Ambiguous { candidates, .. } => {
                        candidates.iter().map(|it| it.key.to_string()).collect()
                    }
                    _ => Vec::new(),
                };
                self.forest = Forest::default();
                self.stage = Stage::Failed(error.to_string(), details);
            }
        }
        true
    }

    fn act(&mut self, action: Action, context: &mut Context) {
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
        let Stage::Ready(plan) = &self.stage else {
            return false;
        };
        self.stage = Stage::Starting(plan.clone(), ticket);
        true
    }
}
