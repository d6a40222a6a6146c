//! The settings' rules that protect resources (`[guard] protect`).

use chrono::{DateTime, Utc};

use crate::domain::duration;
use crate::domain::kinds::Kinds;
use crate::domain::model::Resource;
use crate::domain::text::fits_pattern;
use crate::system::config::ProtectRule;

/// Returns the first rule that protects a resource (P4), as text (`kind server, tag keep`); none if no rule does.
pub(super) fn protected(
    kinds: &Kinds,
    rules: &[ProtectRule],
    resource: &Resource,
    now: DateTime<Utc>,
) -> Option<String> {
    let created = kinds.created_at(resource);
    let age = created.and_then(|created| (now - created).to_std().ok());
    rules.iter().find_map(|rule| {
        let mut said = Vec::new();
        let mut all = true;
        let mut demand = |holds: bool, words: String| {
            all &= holds;
            said.push(words);
        };
        if let Some(kind) = &rule.kind {
            demand(resource.key.kind.as_str() == kind, format!("kind {kind}"));
        }
        if let Some(tag) = &rule.tag {
            demand(resource.tags.contains(tag), format!("tag {tag}"));
        }
        if let Some(pattern) = &rule.name {
            demand(
                fits_pattern(&resource.name, pattern),
                format!("name {pattern}"),
            );
        }
        if let Some(project) = &rule.project {
            demand(
                resource.project_id == *project,
                format!("project {project}"),
            );
        }
        // A resource whose age is unknown falls under every rule about age.
        if let Some(limit) = rule.younger_than {
            demand(
                age.is_none_or(|age| age < limit),
                format!("younger than {}", duration::format(limit)),
            );
        }
        if let Some(limit) = rule.older_than {
            demand(
                age.is_none_or(|age| age > limit),
                format!("older than {}", duration::format(limit)),
            );
        }
        (all && !said.is_empty()).then(|| said.join(", "))
    })
}
