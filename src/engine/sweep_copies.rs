//! Sweeps for copies that are created at other sites after the deletion of their original began (T14b).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use chrono::{DateTime, Utc};

use super::copies::{CopyQuery, CopySearch, as_planned};
use super::journal::Journal;
use super::reads::{Reads, rows_to_plan};
use super::removal::{PAGE, Removal, swept_together};
use crate::domain::kinds::Kind;
use crate::domain::model::{CopiedBy, KindName, Phase, Resource, ResourceKey, Site, Tombstone};
use crate::domain::query::ListFilter;
use crate::ledger::{Change, Ledger, LedgerError, Original, RecreationReason};
use crate::system::clock::Clock;

/// An id whose copies are searched for: that of an original, or of a resource that was deleted along with it.
struct Swept {
    id: String,
    original: Tombstone,
}

/// The sweep for copies at other sites.
pub(super) struct CopySweep {
    pub(super) clock: Clock,
    pub(super) ledger: Arc<dyn Ledger>,
    pub(super) journal: Arc<Journal>,
    pub(super) reads: Arc<Reads>,
    pub(super) copies: Arc<CopySearch>,
    pub(super) removal: Arc<Removal>,
}

impl CopySweep {
    /// Deletes copies that were created without passing the gate, once their original is being deleted or gone. Such a
    /// copy has no tombstone, and its tag names the original, or it has the original's id. So a local site that reads
    /// the original before the original is gone does not keep a copy of it (T12). A resource that has only the name and
    /// project of the original is left to a person.
    pub(super) async fn sweep(&self, since: DateTime<Utc>) -> Result<(), LedgerError> {
        let mut after = 0;
        loop {
            let page = self.ledger.originals(since, after, PAGE).await?;
            let Some(last) = page.last() else {
                return Ok(());
            };
            after = last.tombstone.record_id;
            self.look_for_namesakes(&page).await?;
            let mut groups: BTreeMap<(Site, KindName, CopiedBy), Vec<Swept>> = BTreeMap::new();
            for original in page {
                let key = &original.tombstone.key;
                // While the original is being deleted, the copies of its parts are deleted along with its own
                // copies.
                let is_gone = original.tombstone.phase == Phase::Gone;
                let parts = original.parts.iter().filter(|_| is_gone);
                let swept: Vec<&ResourceKey> = std::iter::once(key).chain(parts).collect();
                for local in &original.locals {
                    if self.reads.sites.may_read(local) && !self.reads.sites.read_only(local) {
                        for by in self.copied_by(&key.site, local) {
                            for named in &swept {
                                let group = (local.clone(), named.kind.clone(), by);
                                groups.entry(group).or_default().push(Swept {
                                    id: named.id.clone(),
                                    original: original.tombstone.clone(),
                                });
                            }
                        }
                    }
                }
            }
            for ((local, kind, by), mut originals) in groups {
                let Some(kind) = self.reads.kinds.get(&kind) else {
                    continue;
                };
                let Some(ListFilter { key, .. }) = by.filter_for(kind, []) else {
                    continue;
                };
                for batch in originals.chunks_mut(swept_together(kind, &key)) {
                    self.sweep_at(&local, kind, by, batch).await?;
                }
            }
        }
    }

    /// Returns how copies at the local site are recognised with certainty. If the settings no longer map the
    /// sites to each other, copies are recognised by their tags.
    fn copied_by(&self, central: &Site, local: &Site) -> BTreeSet<CopiedBy> {
        let mapping = self.copies.mapping.iter();
        let of_both = mapping.filter(|it| it.central == *central && it.locals.contains(local));
        let mut by: BTreeSet<CopiedBy> = of_both.map(|it| it.by).collect();
        if by.is_empty() {
            by.insert(CopiedBy::Tag);
        }
        by.remove(&CopiedBy::Name);
        by
    }

    /// Searches for resources with the name and project of originals that are gone. A name does not prove that a
    /// resource is a copy, so none is deleted (T14): a person must decide about them.
    async fn look_for_namesakes(&self, originals: &[Original]) -> Result<(), LedgerError> {
        let mut groups: BTreeMap<(&Site, &Site, &KindName), Vec<Resource>> = BTreeMap::new();
        for original in originals {
            let key = &original.tombstone.key;
            let Some(named) = original.name.as_ref() else {
                continue;
            };
            // Until the original is gone, resources with its name may be copies that its deletion still deletes.
            if original.tombstone.phase != Phase::Gone {
                continue;
            }
            for local in original
                .locals
                .iter()
                .filter(|it| self.reads.sites.may_read(it))
            {
                let group = groups.entry((&key.site, local, &key.kind)).or_default();
                group.push(as_planned(key, named));
            }
        }
        for ((central, local, kind), originals) in groups {
            let mut mappings = self.copies.by_name(local);
            let (Some(mapping), Some(kind)) = (
                mappings.find(|it| it.central == *central),
                self.reads.kinds.get(kind),
            ) else {
                continue;
            };
            let Some(ListFilter { key, .. }) = mapping.by.filter(kind, []) else {
                continue;
            };
            for batch in originals.chunks(swept_together(kind, &key)) {
                let asked = CopyQuery {
                    mapping,
                    local,
                    kind,
                    originals: batch.iter().collect(),
                };
                self.look_for_namesakes_of(&asked).await?;
            }
        }
        Ok(())
    }

    async fn look_for_namesakes_of(&self, asked: &CopyQuery<'_>) -> Result<(), LedgerError> {
        let originals = asked.originals.iter().copied();
        let Some(filter) = asked.mapping.by.filter(asked.kind, originals) else {
            return Ok(());
        };
        let found = self.listed_at(asked.local, asked.kind, &filter).await;
        let copies = self.copies.copies_among(asked, &found).await;
        let keys = copies.iter().map(|(_, copy)| copy.key.clone()).collect();
        // A resource with a tombstone that is not released is already being deleted, abandoned or swept.
        let mut known = self.ledger.tombstones_of(keys).await?;
        known.retain(|it| it.phase != Phase::Released);
        let mut reported: BTreeSet<&ResourceKey> = BTreeSet::new();
        for (original, copy) in &copies {
            let is_known = known.iter().any(|known| known.key == copy.key);
            if is_known || !reported.insert(original) {
                continue;
            }
            self.journal
                .commit(vec![Change::Recreated {
                    key: original.clone(),
                    copy: Some(copy.key.clone()),
                    stuck: Some(RecreationReason::NameAlone),
                    now: self.clock.now(),
                }])
                .await?;
        }
        Ok(())
    }

    /// Lists resources at a site. If the site does not answer, returns none; the next sweep lists again.
    async fn listed_at(&self, local: &Site, kind: &Kind, filter: &ListFilter) -> Vec<Resource> {
        let filter = Some(filter).filter(|it| it.values.len() <= kind.values_max(&it.key));
        let request = rows_to_plan(local, kind, filter);
        let listing = self.reads.list_once(request).await;
        self.reads.site_answered(local, listing.as_ref().err());
        let rows = listing.map(|listing| listing.rows).unwrap_or_default();
        self.reads.kinds.resources_of(local, kind, &rows)
    }

    async fn sweep_at(
        &self,
        local: &Site,
        kind: &Kind,
        by: CopiedBy,
        originals: &mut [Swept],
    ) -> Result<(), LedgerError> {
        let ids = originals.iter().map(|swept| swept.id.as_str());
        let Some(filter) = by.filter_for(kind, ids) else {
            return Ok(());
        };
        let found = self.listed_at(local, kind, &filter).await;
        let keys = found.iter().map(|copy| copy.key.clone()).collect();
        // A resource with a tombstone of its own is being deleted, is swept by its own id, or was abandoned or
        // released.
        let known = self.ledger.tombstones_of(keys).await?;
        let is_new = |copy: &&Resource| known.iter().all(|known| known.key != copy.key);
        for copy in found.iter().filter(is_new) {
            let named = by.original_of(copy);
            let original = originals
                .iter_mut()
                .find(|it| Some(it.id.as_str()) == named)
                .map(|it| &mut it.original);
            // Whether a re-creation was reported already, and the original is still being deleted.
            let is_reported = |original: &Tombstone| {
                original.phase == Phase::Deleting && original.recreated > self.removal.recreate_max
            };
            if let Some(original) = original.filter(|original| !is_reported(original)) {
                self.removal.remove_again(original, Some(&copy.key)).await?;
                original.recreated += 1;
            }
        }
        Ok(())
    }
}
