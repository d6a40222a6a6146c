//! The resources that abandoned steps left behind, and the release of tombstones (P3).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::audit::audit;
use super::confirm::Confirming;
use super::guards::Guards;
use super::reads::Reads;
use super::resolve::{By, Resolver};
use crate::control::{ControlError, Envelope, Receipt};
use crate::domain::model::{KindName, Orphan, Presence, ResourceKey, Site, StepResource, Target};
use crate::domain::policy::Observed;
use crate::domain::text::escape;
use crate::ledger::{Change, Cursor, Ledger};
use crate::system::clock::Clock;

/// Lists orphans, and releases tombstones.
pub(super) struct Orphans {
    pub(super) clock: Clock,
    pub(super) ledger: Arc<dyn Ledger>,
    pub(super) reads: Arc<Reads>,
    pub(super) resolver: Arc<Resolver>,
    pub(super) confirming: Arc<Confirming>,
    pub(super) guards: Arc<Guards>,
}

impl Orphans {
    /// Lists a page of the orphans. Each orphan at a site that may be read is observed now.
    pub(super) async fn list(
        &self,
        page: Cursor,
    ) -> Result<(Vec<Orphan>, Option<String>), ControlError> {
        let page = self.ledger.orphans(page).await?;
        let mut groups: BTreeMap<(Site, KindName), Vec<usize>> = BTreeMap::new();
        for (at, abandoned) in page.rows.iter().enumerate() {
            let key = &abandoned.step.key;
            if let Some(kind) = self
                .reads
                .kinds
                .get(&key.kind)
                .filter(|_| self.reads.sites.may_read(&key.site))
            {
                let listed = self.reads.kinds.listed(kind).name.clone();
                groups
                    .entry((key.site.clone(), listed))
                    .or_default()
                    .push(at);
            }
        }
        let mut there = vec![Presence::Unclear; page.rows.len()];
        for ((site, listed), rows) in groups {
            let Some(kind) = self.reads.kinds.get(&listed) else {
                continue;
            };
            let steps: Vec<_> = rows
                .iter()
                .filter_map(|at| Some(page.rows.get(*at)?.step.clone()))
                .collect();
            let observed = self.confirming.observe(&site, kind, &steps, 0).await;
            for (at, observed) in rows.iter().zip(observed) {
                if let Some(there) = there.get_mut(*at) {
                    *there = match observed {
                        Observed::Absent => Presence::Absent,
                        Observed::Present
                        | Observed::Recreated(_)
                        | Observed::StillDeleting(_)
                        | Observed::Failed(_)
                        | Observed::HadNoEffect(_) => Presence::Present,
                        Observed::Unclear(_) | Observed::Unprovable(_) => Presence::Unclear,
                    };
                }
            }
        }
        let orphans = page.rows.into_iter().zip(there).map(|(abandoned, there)| {
            let step = abandoned.step;
            Orphan {
                resource: StepResource {
                    key: step.key,
                    name: step.name,
                },
                project_id: step.project_id,
                since: abandoned.since,
                why: step
                    .last_error
                    .map(|error| error.message)
                    .unwrap_or_default(),
                deletion_id: step.deletion_id,
                step_id: step.id,
                there,
            }
        });
        Ok((orphans.collect(), page.next))
    }

    /// Releases a tombstone, but only if an observation shows that the resource exists.
    pub(super) async fn release(
        &self,
        envelope: &Envelope,
        key: ResourceKey,
    ) -> Result<Receipt, ControlError> {
        let kind = self.reads.kinds.get(&key.kind).ok_or_else(|| {
            ControlError::usage(format!("unknown kind {}", escape(key.kind.as_str())))
        })?;
        let known = self.ledger.tombstones_of(vec![key.clone()]).await?;
        if known.is_empty() {
            return Err(ControlError::not_found(format!(
                "there is no tombstone of {}",
                escape(&key.to_string())
            )));
        }
        let ids = BTreeSet::from([key.id.as_str()]);
        let found = self.resolver.find(&key.site, kind, &ids, By::Id).await?;
        if found.is_empty() {
            return Err(ControlError::conflict(format!(
                "{} does not exist: its tombstone stays, so that the resource is not re-created",
                escape(&key.to_string())
            )));
        }
        self.guards.reasoned(envelope, &[Target::of(&key, "")])?;
        let audit = audit(envelope, "release", &key.to_string());
        self.reads
            .journal
            .commit_command(Change::Release {
                key,
                audit,
                now: self.clock.now(),
            })
            .await
    }
}
