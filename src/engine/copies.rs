//! Copies at other sites: found when their original is to go, and swept when they come back (T14b).

use std::collections::{BTreeMap, BTreeSet};

use chrono::{DateTime, Utc};

use super::Shared;
use super::planning::unreadable;
use super::sweep::{PAGE, swept_together};
use crate::cloud::{CloudFailure, Fields, ListRows, Names};
use crate::domain::kinds::Kind;
use crate::domain::mapping::{CopiedBy, Local, Mapped, Mapping};
use crate::domain::model::{KindName, Phase, Resource, ResourceKey, Site, Tombstone};
use crate::domain::plan::{Filter, Lookup};
use crate::ledger::LedgerError;

/// What goes with its originals.
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

/// Originals of one kind whose copies one site may hold.
struct Asked<'a> {
    mapping: &'a Mapping,
    local: &'a Site,
    kind: &'a Kind,
    originals: Vec<&'a Resource>,
}

impl Shared {
    /// The copies that these resources have: one listing for each site and kind that may hold some. A
    /// site that cannot be listed could hide one, and fails all (T19).
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
                asked.extend(mapping.locals.iter().map(|local| Asked {
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
                }
            })
            .collect();
        Ok(copies)
    }

    /// Each copy with its original's key; none where the kind cannot have any.
    async fn copies_at(
        &self,
        asked: &Asked<'_>,
    ) -> Result<Option<Vec<(ResourceKey, Resource)>>, CloudFailure> {
        let Asked {
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
                "{local} may hold copies of what is at {}, and this engine does not serve it: start it with --all-regions, or correct [[mapping]]",
                mapping.central
            )));
        }
        // Without a name, nothing is like it by name.
        let rows = match filter.values.is_empty() {
            true => Vec::new(),
            false => {
                let few = filter.values.len() <= kind.values_max(&filter.key);
                let lookup = Lookup {
                    site: (*local).clone(),
                    kind: kind.name.clone(),
                    filter: few.then_some(filter),
                };
                self.look_up(&lookup)
                    .await
                    .map_err(|failure| CloudFailure {
                        message: format!(
                            "copies at {local} cannot be looked for: {}",
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
        let projects = match mapping.by {
            CopiedBy::Name => self.projects(asked, &found).await,
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
        for copy in &found {
            let fitting = originals.iter().filter(|original| {
                mapping.by.fits(original, copy)
                    && (mapping.by != CopiedBy::Name || same_project(original, copy))
            });
            copies.extend(fitting.map(|original| (original.key.clone(), copy.clone())));
        }
        Ok(Some(copies))
    }

    /// The names of the projects that both sides are of, by cloud and id; in one cloud, ids tell.
    async fn projects(
        &self,
        asked: &Asked<'_>,
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
            let named = self.cloud.project_names(site, &ids, Names::Asked).await;
            let cloud = site.cloud().unwrap_or_default();
            let named = named.into_iter();
            names.extend(named.map(|(id, name)| ((cloud.to_owned(), id), name)));
        }
        names
    }

    /// Of several resources that a word fits, those that are no copies of another of them.
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

    /// Looks for copies that came in around the fence: new ones, whose tag names what is being deleted
    /// or is gone, or that have its id. A local that reads in between gets nothing back (T12).
    pub(super) async fn sweep_copies(&self, since: DateTime<Utc>) -> Result<(), LedgerError> {
        let mut after = 0;
        loop {
            let page = self.ledger.originals(since, after, PAGE).await?;
            let Some(last) = page.last() else {
                return Ok(());
            };
            after = last.tombstone.record_id;
            let mut groups: BTreeMap<(Site, KindName, CopiedBy), Vec<Tombstone>> = BTreeMap::new();
            for original in page {
                let key = &original.tombstone.key;
                for local in original.locals {
                    if self.sites.may_look(&local) && !self.sites.read_only(&local) {
                        for by in self.copied_by(&key.site, &local) {
                            let place = (local.clone(), key.kind.clone(), by);
                            let group = groups.entry(place).or_default();
                            group.push(original.tombstone.clone());
                        }
                    }
                }
            }
            for ((local, kind, by), mut originals) in groups {
                let Some(kind) = self.kinds.get(&kind) else {
                    continue;
                };
                let Some(Filter { key, .. }) = by.filter_for(kind, []) else {
                    continue;
                };
                for batch in originals.chunks_mut(swept_together(kind, &key)) {
                    self.sweep_copies_at(&local, kind, by, batch).await?;
                }
            }
        }
    }

    /// How copies are known there with certainty; by their tags, where that is no longer said.
    fn copied_by(&self, central: &Site, local: &Site) -> BTreeSet<CopiedBy> {
        let mapping = self.settings.mapping.iter();
        let of_both = mapping.filter(|it| it.central == *central && it.locals.contains(local));
        let mut by: BTreeSet<CopiedBy> = of_both.map(|it| it.by).collect();
        by.remove(&CopiedBy::Name);
        if by.is_empty() {
            by.insert(CopiedBy::Tag);
        }
        by
    }

    async fn sweep_copies_at(
        &self,
        local: &Site,
        kind: &Kind,
        by: CopiedBy,
        originals: &mut [Tombstone],
    ) -> Result<(), LedgerError> {
        let ids = originals.iter().map(|original| original.key.id.as_str());
        let Some(filter) = by.filter_for(kind, ids) else {
            return Ok(());
        };
        let request = ListRows {
            site: local,
            kind,
            filter: (filter.values.len() <= kind.values_max(&filter.key)).then_some(&filter),
            fields: Fields::Planning,
            rows_max: None,
        };
        let listing = self.once(local, self.cloud.list(request)).await;
        self.site_answered(local, listing.as_ref().err());
        let Ok(listing) = listing else {
            return Ok(());
        };
        let rows = listing.rows.iter();
        let found = rows.flat_map(|row| self.kinds.resources_in(local, kind, row));
        let found: Vec<Resource> = found.filter(|it| it.key.kind == kind.name).collect();
        let keys = found.iter().map(|copy| copy.key.clone()).collect();
        // What has a tombstone of its own is being deleted, or is swept for by its own id.
        let known = self.ledger.tombstones_of(keys).await?;
        let is_new = |copy: &&Resource| known.iter().all(|known| known.key != copy.key);
        for copy in found.iter().filter(is_new) {
            let named = by.original_of(copy);
            let original = originals
                .iter_mut()
                .find(|it| Some(it.key.id.as_str()) == named);
            // Which was told already, and goes on being deleted.
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
