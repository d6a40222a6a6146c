//! Copies at other sites: found when their original is to be deleted, and swept when they come back (T14b).

use std::collections::{BTreeMap, BTreeSet};

use chrono::{DateTime, Utc};

use super::Shared;
use super::errors::{ledger_error, unreadable};
use super::sweep::{PAGE, swept_together};
use crate::cloud::{CloudFailure, Fields, ListRows, NameLookup};
use crate::control::{ControlError, query};
use crate::domain::kinds::Kind;
use crate::domain::mapping::{CopiedBy, Local, Mapped, Mapping};
use crate::domain::model::{KindName, Phase, Resource, ResourceKey, Site, Tombstone};
use crate::domain::query::{ListFilter, Lookup};
use crate::ledger::{Change, LedgerError, Original, OriginalName, StuckAgain};

/// The copies that are deleted with their originals.
#[derive(Default)]
pub(super) struct Copies {
    pub(super) mapping: Vec<Mapped>,
    pub(super) resources: Vec<Resource>,
}

impl Copies {
    pub(super) fn keys(&self) -> Vec<ResourceKey> {
        let resources = self.resources.iter();
        resources.map(|copy| copy.key.clone()).collect()
    }
}

/// An id whose copies are looked for: an original's, or that of a resource that was deleted with it.
struct Swept {
    id: String,
    original: Tombstone,
}

/// Originals of one kind whose copies one site may hold.
struct CopyQuery<'a> {
    mapping: &'a Mapping,
    local: &'a Site,
    kind: &'a Kind,
    originals: Vec<&'a Resource>,
}

impl Shared {
    /// Finds the copies of these resources, by one listing for each site and kind that may hold some. A site
    /// that cannot be listed could hide one, and fails all (T19).
    pub(super) async fn copies_of(&self, originals: &[Resource]) -> Result<Copies, CloudFailure> {
        let mut asked = Vec::new();
        for mapping in &self.settings.mapping {
            let mut by_kind: BTreeMap<&KindName, Vec<&Resource>> = BTreeMap::new();
            for original in originals.iter().filter(|it| it.key.site == mapping.central) {
                by_kind
                    .entry(&original.key.kind)
                    .or_default()
                    .push(original);
            }
            for (kind, originals) in by_kind {
                let Some(kind) = self.kinds.get(kind) else {
                    continue;
                };
                asked.extend(mapping.locals.iter().map(|local| CopyQuery {
                    mapping,
                    local,
                    kind,
                    originals: originals.clone(),
                }));
            }
        }
        let listings = asked.iter().map(|asked| self.copies_at(asked));
        let mut copies = Copies::default();
        let mut mapped: BTreeMap<(&ResourceKey, CopiedBy), Vec<Local>> = BTreeMap::new();
        let listings = futures_util::future::join_all(listings).await;
        for (asked, found) in asked.iter().zip(listings) {
            let Some(found) = found? else {
                continue;
            };
            for original in &asked.originals {
                let own = found.iter().filter(|(of, _)| *of == original.key);
                let mut ids: Vec<String> = own.map(|(_, copy)| copy.key.id.clone()).collect();
                ids.sort();
                let key = (&original.key, asked.mapping.by);
                mapped.entry(key).or_default().push(Local {
                    site: asked.local.clone(),
                    copies: ids,
                });
            }
            copies
                .resources
                .extend(found.into_iter().map(|(_, copy)| copy));
        }
        copies.resources.sort_by(|a, b| a.key.cmp(&b.key));
        copies.resources.dedup_by(|a, b| a.key == b.key);
        copies.mapping = mapped
            .into_iter()
            .map(|((original, by), mut locals)| {
                locals.sort_by(|a, b| a.site.cmp(&b.site));
                Mapped {
                    original: original.clone(),
                    by,
                    locals,
                    parts: Vec::new(),
                }
            })
            .collect();
        Ok(copies)
    }

    /// Returns each copy with its original's key; none where the kind cannot have copies.
    async fn copies_at(
        &self,
        asked: &CopyQuery<'_>,
    ) -> Result<Option<Vec<(ResourceKey, Resource)>>, CloudFailure> {
        let CopyQuery {
            mapping,
            local,
            kind,
            originals,
        } = asked;
        let Some(filter) = mapping.by.filter(kind, originals.iter().copied()) else {
            return Ok(None);
        };
        if !self.cloud.sites().contains(local) {
            return Err(unreadable(format!(
                "{local} may have copies of the resources at {}, but this engine does not serve \
                 it: start it with --all-regions, or correct [[mapping]]",
                mapping.central
            )));
        }
        // Originals without a name have no copies by name.
        let rows = match filter.values.is_empty() {
            true => Vec::new(),
            false => {
                let few = filter.values.len() <= kind.values_max(&filter.key);
                let lookup = Lookup {
                    site: (*local).clone(),
                    kind: kind.name.clone(),
                    filter: few.then_some(filter),
                };
                self.reads
                    .look_up(&lookup)
                    .await
                    .map_err(|failure| CloudFailure {
                        message: format!(
                            "gone cannot look for copies at {local}: {}",
                            failure.message
                        ),
                        ..failure
                    })?
                    .0
            }
        };
        let rows = rows.iter();
        let found = rows.flat_map(|row| self.kinds.resources_in(local, kind, row));
        let found: Vec<Resource> = found.filter(|it| it.key.kind == kind.name).collect();
        Ok(Some(self.copies_among(asked, &found).await))
    }

    /// Returns those of these resources of the local site that are copies, each with its original's key.
    async fn copies_among(
        &self,
        asked: &CopyQuery<'_>,
        found: &[Resource],
    ) -> Vec<(ResourceKey, Resource)> {
        let CopyQuery {
            mapping, originals, ..
        } = asked;
        let projects = match mapping.by {
            CopiedBy::Name => self.projects(asked, found).await,
            CopiedBy::Tag | CopiedBy::Id => BTreeMap::new(),
        };
        let same_project = |one: &Resource, other: &Resource| {
            let named = |it: &Resource| {
                let cloud = it.key.site.cloud()?.to_owned();
                projects.get(&(cloud, it.project_id.clone()))
            };
            match one.key.site.cloud() == other.key.site.cloud() {
                true => one.project_id == other.project_id,
                false => named(one).is_some_and(|name| named(other) == Some(name)),
            }
        };
        let mut copies = Vec::new();
        for copy in found {
            let fitting = originals.iter().filter(|original| {
                mapping.by.fits(original, copy)
                    && (mapping.by != CopiedBy::Name || same_project(original, copy))
            });
            copies.extend(fitting.map(|original| (original.key.clone(), copy.clone())));
        }
        copies
    }

    /// Returns the names of the projects of both sides, by cloud and id; none within one cloud, where ids
    /// suffice.
    async fn projects(
        &self,
        asked: &CopyQuery<'_>,
        found: &[Resource],
    ) -> BTreeMap<(String, String), String> {
        let central = &asked.mapping.central;
        let mut names = BTreeMap::new();
        if central.cloud() == asked.local.cloud() || found.is_empty() {
            return names;
        }
        let ids = |resources: &mut dyn Iterator<Item = &Resource>| -> BTreeSet<String> {
            resources.map(|it| it.project_id.clone()).collect()
        };
        let sides = [
            (central, ids(&mut asked.originals.iter().copied())),
            (asked.local, ids(&mut found.iter())),
        ];
        for (site, ids) in sides {
            let named = self
                .cloud
                .project_names(site, &ids, NameLookup::Asked)
                .await;
            let cloud = site.cloud().unwrap_or_default();
            let named = named.into_iter();
            names.extend(named.map(|(id, name)| ((cloud.to_owned(), id), name)));
        }
        names
    }

    /// Leaves out the resources that are copies of another one of them.
    pub(super) fn without_copies<'r>(&self, fits: Vec<&'r Resource>) -> Vec<&'r Resource> {
        let is_copy = |copy: &Resource| {
            self.settings.mapping.iter().any(|mapping| {
                let mut originals = fits.iter().filter(|it| it.key.site == mapping.central);
                mapping.locals.contains(&copy.key.site)
                    && originals.any(|original| mapping.by.fits(original, copy))
            })
        };
        let fits = fits.iter().copied();
        fits.filter(|resource| !is_copy(resource)).collect()
    }

    /// Looks for copies that came in around the fence: new ones, whose tag names an original that is being
    /// deleted or is gone, or that have its id. A local site that reads in between gets nothing back (T12).
    /// A resource that has only the original's name is left to a person.
    pub(super) async fn sweep_copies(&self, since: DateTime<Utc>) -> Result<(), LedgerError> {
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
                // While the original is being deleted, its parts' copies go with its own copies.
                let is_gone = original.tombstone.phase == Phase::Gone;
                let parts = original.parts.iter().filter(|_| is_gone);
                let swept: Vec<&ResourceKey> = std::iter::once(key).chain(parts).collect();
                for local in &original.locals {
                    if self.sites.may_read(local) && !self.sites.read_only(local) {
                        for by in self.copied_by(&key.site, local) {
                            for named in &swept {
                                let place = (local.clone(), named.kind.clone(), by);
                                groups.entry(place).or_default().push(Swept {
                                    id: named.id.clone(),
                                    original: original.tombstone.clone(),
                                });
                            }
                        }
                    }
                }
            }
            for ((local, kind, by), mut originals) in groups {
                let Some(kind) = self.kinds.get(&kind) else {
                    continue;
                };
                let Some(ListFilter { key, .. }) = by.filter_for(kind, []) else {
                    continue;
                };
                for batch in originals.chunks_mut(swept_together(kind, &key)) {
                    self.sweep_copies_at(&local, kind, by, batch).await?;
                }
            }
        }
    }

    /// Returns how copies there are known with certainty; by their tags, where the settings no longer say.
    fn copied_by(&self, central: &Site, local: &Site) -> BTreeSet<CopiedBy> {
        let mapping = self.settings.mapping.iter();
        let of_both = mapping.filter(|it| it.central == *central && it.locals.contains(local));
        let mut by: BTreeSet<CopiedBy> = of_both.map(|it| it.by).collect();
        if by.is_empty() {
            by.insert(CopiedBy::Tag);
        }
        by.remove(&CopiedBy::Name);
        by
    }

    fn by_name(&self, local: &Site) -> impl Iterator<Item = &Mapping> {
        let mapping = self.settings.mapping.iter();
        mapping.filter(move |it| it.by == CopiedBy::Name && it.locals.contains(local))
    }

    /// Looks for resources with the name and project of originals that are gone. A name does not prove that
    /// a resource is a copy, so nothing removes it (T14): a person is asked.
    async fn look_for_namesakes(&self, originals: &[Original]) -> Result<(), LedgerError> {
        let mut groups: BTreeMap<(&Site, &Site, &KindName), Vec<Resource>> = BTreeMap::new();
        for original in originals {
            let key = &original.tombstone.key;
            // While the original is being deleted, its copies still exist as planned.
            let Some(named) = original.name.as_ref() else {
                continue;
            };
            if original.tombstone.phase != Phase::Gone {
                continue;
            }
            for local in original.locals.iter().filter(|it| self.sites.may_read(it)) {
                let group = groups.entry((&key.site, local, &key.kind)).or_default();
                group.push(as_planned(key, named));
            }
        }
        for ((central, local, kind), originals) in groups {
            let mut mappings = self.by_name(local);
            let (Some(mapping), Some(kind)) = (
                mappings.find(|it| it.central == *central),
                self.kinds.get(kind),
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
        let copies = self.copies_among(asked, &found).await;
        let keys = copies.iter().map(|(_, copy)| copy.key.clone()).collect();
        // Resources with a tombstone that is not released are known: being deleted, abandoned or swept for.
        let mut known = self.ledger.tombstones_of(keys).await?;
        known.retain(|it| it.phase != Phase::Released);
        let mut told: BTreeSet<&ResourceKey> = BTreeSet::new();
        for (original, copy) in &copies {
            let is_known = known.iter().any(|known| known.key == copy.key);
            if is_known || !told.insert(original) {
                continue;
            }
            self.journal
                .commit(vec![Change::Recreated {
                    key: original.clone(),
                    copy: Some(copy.key.clone()),
                    stuck: Some(StuckAgain::NameAlone),
                    now: self.clock.now(),
                }])
                .await?;
        }
        Ok(())
    }

    /// Returns the original, being deleted or gone, of which a resource with this name and project at this
    /// site would be a copy. An original whose project is not known yet, or cannot be compared, counts as
    /// one.
    pub(super) async fn namesake(
        &self,
        request: query::Namesake,
    ) -> Result<Option<Tombstone>, ControlError> {
        let query::Namesake {
            site: local, name, ..
        } = &request;
        let Some(kind) = self.kinds.get(&request.kind) else {
            return Ok(None);
        };
        let copy = as_planned(
            &ResourceKey {
                site: local.clone(),
                kind: kind.name.clone(),
                id: String::new(),
            },
            &OriginalName {
                name: name.clone(),
                project_id: request.project_id.clone(),
            },
        );
        for mapping in self.by_name(local) {
            let central = mapping.central.clone();
            let found = self
                .ledger
                .namesakes(central, kind.name.clone(), name.clone())
                .await
                .map_err(ledger_error)?;
            for (tombstone, named) in found {
                let Some(named) = named else {
                    return Ok(Some(tombstone));
                };
                let original = as_planned(&tombstone.key, &named);
                let asked = CopyQuery {
                    mapping,
                    local,
                    kind,
                    originals: vec![&original],
                };
                if self.is_anothers(&asked, &copy).await {
                    continue;
                }
                return Ok(Some(tombstone));
            }
        }
        Ok(None)
    }

    /// Whether a resource certainly belongs to another project than its original.
    async fn is_anothers(&self, asked: &CopyQuery<'_>, copy: &Resource) -> bool {
        let one_cloud = asked.mapping.central.cloud() == asked.local.cloud();
        let original = asked.originals.first();
        let Some(original) = original else {
            return false;
        };
        if one_cloud {
            return original.project_id != copy.project_id;
        }
        let projects = self.projects(asked, std::slice::from_ref(copy)).await;
        let named = |it: &Resource| {
            let cloud = it.key.site.cloud().unwrap_or_default().to_owned();
            projects.get(&(cloud, it.project_id.clone()))
        };
        matches!((named(original), named(copy)), (Some(one), Some(other)) if one != other)
    }

    /// Lists resources at a site; none where it does not answer, until the next sweep.
    async fn listed_at(&self, local: &Site, kind: &Kind, filter: &ListFilter) -> Vec<Resource> {
        let request = ListRows {
            site: local,
            kind,
            filter: (filter.values.len() <= kind.values_max(&filter.key)).then_some(filter),
            fields: Fields::Planning,
            rows_max: None,
        };
        let listing = self.reads.once(local, self.cloud.list(request)).await;
        self.reads.site_answered(local, listing.as_ref().err());
        let rows = listing.map(|listing| listing.rows).unwrap_or_default();
        let found = rows
            .iter()
            .flat_map(|row| self.kinds.resources_in(local, kind, row));
        found.filter(|it| it.key.kind == kind.name).collect()
    }

    async fn sweep_copies_at(
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
        // A resource with a tombstone of its own is being deleted, or is swept for by its own id.
        let known = self.ledger.tombstones_of(keys).await?;
        let is_new = |copy: &&Resource| known.iter().all(|known| known.key != copy.key);
        for copy in found.iter().filter(is_new) {
            let named = by.original_of(copy);
            let original = originals
                .iter_mut()
                .find(|it| Some(it.id.as_str()) == named)
                .map(|it| &mut it.original);
            // Whether this was reported already, and the original is still being deleted.
            let told = |original: &Tombstone| {
                original.phase == Phase::Deleting
                    && original.recreated > self.settings.gc.recreate_max
            };
            if let Some(original) = original.filter(|original| !told(original)) {
                self.remove_again(original, Some(&copy.key)).await?;
                original.recreated += 1;
            }
        }
        Ok(())
    }
}

fn as_planned(key: &ResourceKey, named: &OriginalName) -> Resource {
    Resource {
        key: key.clone(),
        name: named.name.clone(),
        project_id: named.project_id.clone(),
        tags: Vec::new(),
        attributes: serde_json::Value::Null,
    }
}
