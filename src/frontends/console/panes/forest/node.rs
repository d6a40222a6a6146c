//! One resource of the tree, as described by a plan or by its step in the engine.

use crate::domain::awaiting::{awaits_clearance, tree_of};
use crate::domain::model::{Action, Blocker, PlanStep, ResourceKey, Step, StepState};
use crate::present::resource_words;

/// The part that a resource has in a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum PlanRole {
    Step,
    /// The cloud removes the resource by itself.
    Automatic,
    /// The resource stays, and loses a reference.
    Unset,
}

impl PlanRole {
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Step => "",
            Self::Automatic => "automatic",
            Self::Unset => "unset",
        }
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub(crate) id: i64,
    pub(crate) key: ResourceKey,
    pub(crate) name: String,
    pub(crate) project: String,
    pub(crate) action: Action,
    pub(crate) why: String,
    pub(crate) part: PlanRole,
    /// The wave in which the resource is deleted; 1 is the first. 0 if there is no order, or if it is not known.
    pub(super) wave: u32,
    /// The step in the engine; `None` for a resource of a plan.
    pub(crate) live: Option<Box<Step>>,
    /// The step's blockers at other deployments, with their depths in the tree of blockers.
    pub(super) elsewhere: Vec<(usize, Blocker)>,
}

impl Node {
    pub(super) fn planned(step: &PlanStep, part: PlanRole, wave: u32) -> Self {
        Self {
            id: i64::from(step.id),
            key: step.key(),
            name: step.name.clone(),
            project: step.project_id.to_string(),
            action: step.action,
            why: step.why.to_string(),
            part,
            wave,
            live: None,
            elsewhere: Vec::new(),
        }
    }

    pub(crate) fn live(step: &Step) -> Self {
        let elsewhere = match awaits_clearance(step) {
            true => tree_of(&step.blockers),
            false => Vec::new(),
        };
        let elsewhere = elsewhere.iter().map(|it| (it.depth, it.by.clone()));
        Self {
            id: step.id,
            key: step.resource.key.clone(),
            name: step.resource.name.clone(),
            project: step.project_id.clone(),
            action: step.action,
            why: step.why.clone(),
            part: PlanRole::Step,
            wave: 0,
            live: Some(Box::new(step.clone())),
            elsewhere: elsewhere.collect(),
        }
    }

    /// The action on the resource, in a word.
    pub(crate) fn does(&self) -> &'static str {
        match self.part {
            PlanRole::Step => self.action.as_str(),
            part => part.word(),
        }
    }

    pub(crate) fn state(&self) -> Option<StepState> {
        self.live.as_ref().map(|live| live.state)
    }

    pub(crate) fn words(&self) -> String {
        resource_words(&self.key.kind, &self.name, &self.key.id)
    }
}
