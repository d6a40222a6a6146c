//! One resource of the tree, as described by a plan or by its step in the engine.

use chrono::{DateTime, Utc};

use super::super::kit::Copied;
use crate::domain::awaiting::{awaits_clearance, tree_of};
use crate::domain::model::{Action, Blocker, PlanStep, ResourceKey, Step, StepState};
use crate::present::{blocker_words, resource_words};

/// The part that a resource has in a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum PlanRole {
    Step,
    /// The cloud removes the resource itself.
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
    /// 1 goes first; 0 if there is no order, or it is not known.
    pub(super) wave: u32,
    pub(crate) live: Option<Live>,
}

/// The engine's facts about a step, as far as a row shows them.
#[derive(Clone, Debug)]
pub(crate) struct Live {
    pub(crate) state: StepState,
    pub(crate) attempts: u32,
    pub(crate) max_attempts: u32,
    pub(crate) next_attempt_at: Option<DateTime<Utc>>,
    pub(crate) recreated: u32,
    /// The blocker of the step, or its last error; empty without either.
    pub(crate) blocked_by: String,
    /// The last answer of the cloud, for the clipboard.
    pub(crate) error: Option<Copied>,
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
        }
    }

    pub(crate) fn live(step: &Step) -> Self {
        let blocked_by = match (step.blockers.first(), &step.last_error) {
            // The message names all blockers, and why each does not go.
            (_, Some(error)) if awaits_clearance(step) => error.message.clone(),
            (Some(blocker), _) => format!("blocked by {}", blocker_words(blocker)),
            (None, Some(error)) => error.message.clone(),
            (None, None) => String::new(),
        };
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
            live: Some(Live {
                state: step.state,
                attempts: step.attempts,
                max_attempts: step.max_attempts,
                next_attempt_at: step.next_attempt_at,
                recreated: step.recreated,
                blocked_by,
                error: Copied::error(step),
                elsewhere: elsewhere.collect(),
            }),
        }
    }

    pub(super) fn elsewhere(&self) -> &[(usize, Blocker)] {
        self.live.as_ref().map_or(&[], |live| &live.elsewhere)
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
