//! How a resource is related to others: what it uses, what uses it, to which project it belongs, which deletion has a
//! step for it, and what protects it. Front ends open the resource or the deletion at the other end of a relation.

use serde::{Deserialize, Serialize};
use strum::IntoStaticStr;

use super::kinds::Kinds;
use super::model::{
    Deletion, KindName, Plan, PlanStep, RefusalRule, Resource, ResourceKey, Target, short_id,
};

/// Maximum number of resources that are named as users of one resource; a network may have 50,000 ports.
const USERS_MAX: usize = 500;

/// A relation of a resource to another one, to a deletion or to a rule.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Relation {
    pub how: RelationKind,
    /// The resource at the other end; none for a deletion or a rule.
    pub resource: Option<Target>,
    /// Id of the deletion at the other end; none for a resource or a rule.
    pub deletion_id: Option<String>,
    /// More about the relation, such as the rule that protects; may be empty.
    pub note: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, IntoStaticStr)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum RelationKind {
    Uses,
    UsedBy,
    OwnedBy,
    DeletedBy,
    ProtectedBy,
}

impl RelationKind {
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

impl Relation {
    fn to(how: RelationKind, resource: Target, note: impl Into<String>) -> Self {
        Self {
            how,
            resource: Some(resource),
            deletion_id: None,
            note: note.into(),
        }
    }

    fn said(how: RelationKind, note: String) -> Self {
        Self {
            how,
            resource: None,
            deletion_id: None,
            note,
        }
    }

    /// Returns the relation to a deletion that has the resource as a step.
    pub fn deleted_by(deletion: &Deletion) -> Self {
        let (id, state) = (short_id(&deletion.id), deletion.state.as_str());
        Self {
            deletion_id: Some(deletion.id.clone()),
            ..Self::said(
                RelationKind::DeletedBy,
                format!("deletion {id}, which is {state}"),
            )
        }
    }
}

/// Returns the relations that a row shows: the resources to which it refers, and its project.
pub fn of_row(kinds: &Kinds, resource: &Resource) -> Vec<Relation> {
    let has_project = !resource.project_id.is_empty() && resource.key.kind.as_str() != PROJECT;
    let project = has_project.then(|| {
        Target::of(
            &ResourceKey::new(
                &resource.key.site,
                &KindName::new(PROJECT),
                &resource.project_id,
            ),
            "",
        )
    });
    let mut all: Vec<Relation> = Vec::new();
    let kind = kinds.get(&resource.key.kind);
    let references = kind.into_iter().flat_map(|kind| &kind.spec.references);
    for reference in references {
        for id in kinds.referred_in(reference, &resource.attributes) {
            let used = Target::of(&ResourceKey::new(&resource.key.site, &reference.to, id), "");
            // Several references may name the same resource: by an address, and by its id.
            let is_known = project.as_ref() == Some(&used)
                || all.iter().any(|it| it.resource.as_ref() == Some(&used));
            if !is_known && used.key != resource.key && !used.key.id.is_empty() {
                all.push(Relation::to(RelationKind::Uses, used, ""));
            }
        }
    }
    all.extend(project.map(|it| Relation::to(RelationKind::OwnedBy, it, "")));
    all
}

/// The name of the kind of projects.
const PROJECT: &str = "project";

/// Returns the relations that a plan for one target, with its cascade, shows: the resources that use the target, and
/// the rules that protect it.
pub fn of_plan(kinds: &Kinds, plan: &Plan, target: &ResourceKey) -> Vec<Relation> {
    let own = plan.steps.iter().find(|step| step.key() == *target);
    let before = own.map(|own| own.depends_on.as_slice()).unwrap_or_default();
    let steps = plan.steps.iter().filter(|step| before.contains(&step.id));
    // Automatic and unset resources have no position in the order, so only their kind says whether they refer to the
    // target itself.
    let others = plan.automatic.iter().chain(&plan.unset);
    let others = others.filter(|step| refers(kinds, &step.kind, &target.kind));
    let mut all: Vec<Relation> = steps.chain(others).map(user).collect();
    let refused = plan.refused.iter().filter(|it| it.resource.key == *target);
    for refusal in refused {
        let (how, note) = match (&refusal.blocker, refusal.rule) {
            (Some(blocker), _) => {
                let by = Target::of(&blocker.key(), &blocker.name);
                let is_known = all.iter().any(|it| it.resource.as_ref() == Some(&by));
                if !is_known {
                    all.push(Relation::to(RelationKind::UsedBy, by, &refusal.reason));
                }
                continue;
            }
            (None, RefusalRule::Protected) => (RelationKind::ProtectedBy, &refusal.reason),
            (None, _) => continue,
        };
        all.push(Relation::said(how, note.clone()));
    }
    let users = all.iter().filter(|it| it.how == RelationKind::UsedBy);
    let more = users.count().saturating_sub(USERS_MAX);
    if more > 0 {
        let mut kept = 0;
        all.retain(|it| {
            kept += usize::from(it.how == RelationKind::UsedBy);
            it.how != RelationKind::UsedBy || kept <= USERS_MAX
        });
        let note = format!("{more} more, which a plan with the cascade lists");
        all.push(Relation::said(RelationKind::UsedBy, note));
    }
    all
}

fn user(step: &PlanStep) -> Relation {
    Relation::to(RelationKind::UsedBy, step.target(), step.why.to_string())
}

fn refers(kinds: &Kinds, from: &KindName, to: &KindName) -> bool {
    let kind = kinds.get(from);
    kind.is_some_and(|kind| kind.spec.references.iter().any(|it| it.to == *to))
}
