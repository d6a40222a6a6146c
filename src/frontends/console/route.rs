//! Routes: a pane names the next one by its route, so that no pane imports another.

use chrono::{DateTime, Utc};

use crate::control::{SiteSpec, TargetSpec};
use crate::domain::attention::Cause;
use crate::domain::awaiting;
use crate::domain::ladder::PurgeScope;
use crate::domain::model::{Blocker, Deletion, Refusal, Resource, ResourceKey, Step};
use crate::present::{blocker_words, kind_words, name_or_id, rule_words};

/// A pane, and the subject that it shows.
pub(crate) enum Route {
    /// The blockers of one resource.
    Blockers {
        /// The resource, in words.
        subject: String,
        /// The blockers that are known already.
        rows: Vec<BlockerRow>,
        /// The step or deletion whose blockers are queried again; `None` for those of a plan.
        source: Option<Source>,
    },
    Causes,
    /// The steps that need a person for one cause.
    Cause(Cause),
    Chart(Box<Deletion>),
    Details(Box<Resource>),
    Explain {
        key: ResourceKey,
        words: String,
    },
    InspectDeletion(Box<Deletion>),
    InspectStep {
        id: i64,
        deletion_id: String,
    },
    Ladder {
        what: PurgeScope,
        words: String,
    },
    Plan {
        subjects: Vec<Subject>,
        cascade: bool,
    },
    /// The deletion's steps as a tree.
    Tree(String),
}

/// One resource whose deletion is planned.
#[derive(Clone, Debug)]
pub(crate) struct Subject {
    pub(crate) key: ResourceKey,
    pub(crate) name: String,
}

impl Subject {
    pub(crate) fn of(row: &Resource) -> Self {
        Self {
            key: row.key.clone(),
            name: row.name.clone(),
        }
    }
    pub(crate) fn target(&self) -> TargetSpec {
        TargetSpec {
            kind: self.key.kind.as_str().to_owned(),
            id_or_name: self.key.id.clone(),
            site: SiteSpec::Region(self.key.site.clone()),
        }
    }
    pub(crate) fn words(&self) -> String {
        let name = name_or_id(&self.name, &self.key.id);
        format!("{} {name} at {}", kind_words(&self.key.kind), self.key.site)
    }
}

/// One blocker.
#[derive(Clone, Debug)]
pub(crate) struct BlockerRow {
    /// `blocked by floating IP 203.0.113.9 (project demo, not in this plan)`
    pub(crate) text: String,
    /// The resource that is blocked, in words.
    pub(crate) resource: String,
    /// Id of the blocker, or of the blocked resource if a rule refuses it.
    pub(crate) id: String,
    pub(crate) site: String,
    pub(crate) since: Option<DateTime<Utc>>,
    pub(crate) advice: String,
}

impl BlockerRow {
    pub(crate) fn of_refusals(refused: &[Refusal]) -> Vec<Self> {
        refused
            .iter()
            .map(|refusal| {
                let resource = &refusal.resource;
                let name = name_or_id(&resource.name, &resource.key.id);
                let resource_words = format!("{} {name}", kind_words(&resource.key.kind));
                match &refusal.blocker {
                    Some(blocker) => Self::new(blocker, resource_words, refusal.reason.clone()),
                    None => Self {
                        text: format!("{resource_words} is {}", rule_words(refusal.rule)),
                        resource: resource_words,
                        id: resource.key.id.clone(),
                        site: resource.key.site.to_string(),
                        since: None,
                        advice: refusal.reason.clone(),
                    },
                }
            })
            .collect()
    }

    pub(crate) fn of_step(step: &Step) -> Vec<Self> {
        let resource = &step.resource;
        let name = name_or_id(&resource.name, &resource.key.id);
        let words = format!("{} {name}", kind_words(&resource.key.kind));
        let blockers = step.blockers.iter();
        let elsewhere = awaiting::next_action(step);
        blockers
            .map(|blocker| {
                let advice = if let Some(advice) = &elsewhere {
                    advice
                } else if blocker.in_plan {
                    "This deletion removes it too; wait for it."
                } else {
                    "This deletion leaves it alone: its owner has to free it. Then try again."
                };
                Self::new(blocker, words.clone(), advice.to_owned())
            })
            .collect()
    }

    fn new(blocker: &Blocker, resource: String, advice: String) -> Self {
        Self {
            text: format!("blocked by {}", blocker_words(blocker)),
            resource,
            id: blocker.id.clone(),
            site: blocker.site.to_string(),
            since: blocker.since,
            advice,
        }
    }
}

/// The step or deletion that has the blockers.
#[derive(Clone, Debug)]
pub(crate) enum Source {
    Step(i64),
    Deletion(String),
}
