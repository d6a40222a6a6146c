//! The subjects that one pane hands to the next: resources to delete, and blockers.

use chrono::{DateTime, Utc};

use crate::control::{SiteSpec, TargetSpec};
use crate::domain::awaiting;
use crate::domain::model::{Blocker, Refusal, Resource, ResourceKey, Step};
use crate::present::{blocker_words, resource_words, rule_words};

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
        let words = resource_words(&self.key.kind, &self.name, &self.key.id);
        format!("{words} at {}", self.key.site)
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
                let words = resource_words(&resource.key.kind, &resource.name, &resource.key.id);
                match &refusal.blocker {
                    Some(blocker) => Self::new(blocker, words, refusal.reason.clone()),
                    None => Self {
                        text: format!("{words} is {}", rule_words(refusal.rule)),
                        resource: words,
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
        let words = resource_words(&resource.key.kind, &resource.name, &resource.key.id);
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
