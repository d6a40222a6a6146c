//! Guards that refuse a command: read-only sites, a missing reason, protected resources (P4, P5).

use std::collections::BTreeMap;
use std::sync::Arc;

use super::journal::Journal;
use super::protection::protected;
use super::resolve::{By, Resolver, ids_by_kind};
use super::sites::Sites;
use crate::control::{ControlError, Envelope};
use crate::domain::kinds::Kinds;
use crate::domain::model::{Origin, Refusal, RefusalRule, ResourceKey, Step, Target};
use crate::domain::text::{escape, word_fits};
use crate::system::clock::Clock;
use crate::system::config::ProtectRule;

pub(super) struct Guards {
    pub(super) clock: Clock,
    pub(super) kinds: Arc<Kinds>,
    pub(super) sites: Arc<Sites>,
    pub(super) journal: Arc<Journal>,
    pub(super) resolver: Arc<Resolver>,
    pub(super) protect: Vec<ProtectRule>,
}

impl Guards {
    /// Refuses targets at read-only sites, whoever asks (P5), and any command while the engine accepts no new
    /// work.
    pub(super) fn writable(&self, targets: &[Target]) -> Result<(), ControlError> {
        if let Some(fault) = &self.journal.status().fault {
            return Err(ControlError::internal(format!(
                "the engine accepts no new work: {fault}"
            )));
        }
        let reason = |target: &Target| {
            let site = &target.key.site;
            let read_only = self.sites.read_only(site);
            read_only.then(|| format!("{site} is read-only"))
        };
        refuse(targets, reason, |first| {
            format!(
                "{first}: nothing was sent; see [guard] read_only and read_only_clouds in the settings, or --read-only"
            )
        })
    }

    /// Refuses a command without the reason that the configuration of a target's cloud requires. Clients of a gate and
    /// other deployments cannot give a reason, and the engine's own deletions name their cause, so their commands are
    /// not refused.
    pub(super) fn reasoned(
        &self,
        envelope: &Envelope,
        targets: &[Target],
    ) -> Result<(), ControlError> {
        if matches!(
            envelope.actor.origin,
            Origin::Gate | Origin::Peer | Origin::Engine
        ) {
            return Ok(());
        }
        let reason = |target: &Target| {
            let site = &target.key.site;
            let pattern = self.sites.reason_wanted(site)?;
            (!word_fits(&envelope.reason, &pattern)).then(|| match pattern.as_str() {
                "*" => format!("{site} requires a reason"),
                pattern => format!("{site} requires a reason with a word like {pattern}"),
            })
        };
        refuse(targets, reason, |first| {
            format!(
                "{first} (see [guard] reason in the settings): nothing was sent; give one with --reason"
            )
        })
    }

    /// For each of these steps whose resource must not be deleted now, returns the reason: a rule protects the resource
    /// in its present state (P4), or the resource cannot be read. Makes one lookup for each site and kind.
    pub(super) async fn guarding(
        &self,
        steps: impl IntoIterator<Item = &Step>,
    ) -> BTreeMap<ResourceKey, String> {
        let rules = &self.protect;
        let steps = steps.into_iter().filter(|_| !rules.is_empty());
        let wanted = ids_by_kind(steps.map(|step| &step.resource.key));
        let now = self.clock.now();
        let mut guarding = BTreeMap::new();
        for ((site, name), ids) in wanted {
            let Some(kind) = self.kinds.get(name) else {
                continue;
            };
            match self.resolver.find(site, kind, &ids, By::Id).await {
                Ok(found) => guarding.extend(found.into_iter().filter_map(|resource| {
                    let rule = protected(&self.kinds, rules, &resource, now)?;
                    Some((resource.key, format!("the resource is protected: {rule}")))
                })),
                Err(failure) => guarding.extend(ids.iter().map(|id| {
                    let key = ResourceKey::new(site, name, *id);
                    let message = escape(&failure.message).into_owned();
                    (
                        key,
                        format!("gone cannot tell whether the resource is protected: {message}"),
                    )
                })),
            }
        }
        guarding
    }
}

/// Refuses the targets for which `reason` returns a reason. `message` builds the message from the first of these
/// reasons.
fn refuse(
    targets: &[Target],
    reason: impl Fn(&Target) -> Option<String>,
    message: impl Fn(&str) -> String,
) -> Result<(), ControlError> {
    let refusal = |target: &Target| {
        let reason = reason(target)?;
        Some(Refusal::new(target, RefusalRule::Protected, reason))
    };
    let refused: Vec<Refusal> = targets.iter().filter_map(refusal).collect();
    match refused.first() {
        None => Ok(()),
        Some(first) => Err(ControlError::Refused {
            message: message(&first.reason),
            refused,
        }),
    }
}
