//! Finds the copies of resources at other sites, which are deleted with their originals.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::errors::unreadable;
use super::reads::Reads;
use crate::cloud::{CloudFailure, NameLookup};
use crate::control::{ControlError, query};
use crate::domain::kinds::Kind;
use crate::domain::mapping::Mapping;
use crate::domain::model::{
    CopiedBy, KindName, Local, Mapped, Resource, ResourceKey, Site, Tombstone,
};
use crate::domain::query::Lookup;
use crate::ledger::{OriginalName, WorkQueue};

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

/// A search at one site for the copies of originals of one kind.
pub(super) struct CopyQuery<'a> {
    pub(super) mapping: &'a Mapping,
    pub(super) local: &'a Site,
    pub(super) kind: &'a Kind,
    pub(super) originals: Vec<&'a Resource>,
}

/// Finds copies by the settings' `[[mapping]]`.
pub(super) struct CopySearch {
    pub(super) ledger: Arc<dyn WorkQueue>,
    pub(super) reads: Arc<Reads>,
    pub(super) mapping: Vec<Mapping>,
}

impl CopySearch {
    /// Finds the copies of these resources, by one lookup for each mapping, local site and kind that may have some.
    /// Fails if one of the sites cannot be read, because it could hide a copy (T19).
    pub(super) async fn copies_of(&self, originals: &[Resource]) -> Result<Copies, CloudFailure> {
        let mut asked = Vec::new();
        for mapping in &self.mapping {
            let mut by_kind: BTreeMap<&KindName, Vec<&Resource>> = BTreeMap::new();
            for original in originals.iter().filter(|it| it.key.site == mapping.central) {
                by_kind
                    .entry(&original.key.kind)
                    .or_default()
                    .push(original);
            }
            for (kind, originals) in by_kind {
                let Some(kind) = self.reads.kinds.get(kind) else {
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

    /// Returns each copy with its original's key; none for a kind that cannot have copies, or has no filter for them.
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
        if !self.reads.cloud.sites().contains(local) {
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
                            "gone cannot search for copies at {local}: {}",
                            failure.message
                        ),
                        ..failure
                    })?
                    .0
            }
        };
        let found = self.reads.kinds.resources_of(local, kind, &rows);
        Ok(Some(self.copies_among(asked, &found).await))
    }

    /// Returns the copies among these resources of the local site, each with its original's key.
    pub(super) async fn copies_among(
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

    /// Returns the names of the projects of the originals and of the resources that were found, by cloud and id.
    /// Returns none for sites of one cloud, where ids suffice, or if no resource was found.
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
                .reads
                .cloud
                .account_names(site, &ids, NameLookup::Listed)
                .await;
            let cloud = site.cloud().unwrap_or_default();
            let named = named.into_iter();
            names.extend(named.map(|(id, name)| ((cloud.to_owned(), id), name)));
        }
        names
    }

    /// Removes the resources that are copies of another resource of the list. Projects of different clouds are not
    /// compared.
    pub(super) fn without_copies<'r>(&self, fits: Vec<&'r Resource>) -> Vec<&'r Resource> {
        let is_copy = |copy: &Resource| {
            self.mapping.iter().any(|mapping| {
                let mut originals = fits.iter().filter(|it| it.key.site == mapping.central);
                mapping.locals.contains(&copy.key.site)
                    && originals.any(|original| {
                        let may_differ = mapping.by != CopiedBy::Name
                            || original.key.site.cloud() != copy.key.site.cloud();
                        mapping.by.fits(original, copy)
                            && (may_differ || original.project_id == copy.project_id)
                    })
            })
        };
        let fits = fits.iter().copied();
        fits.filter(|resource| !is_copy(resource)).collect()
    }

    /// Returns the mappings that find copies at this site by their names.
    pub(super) fn by_name(&self, local: &Site) -> impl Iterator<Item = &Mapping> {
        let mapping = self.mapping.iter();
        mapping.filter(move |it| it.by == CopiedBy::Name && it.locals.contains(local))
    }

    /// Returns the tombstone of an original that is being deleted or gone, if a resource with this name and project at
    /// this site would be a copy of that original; none if there is no such original. An original counts too if its
    /// project is not known yet, or cannot be compared.
    pub(super) async fn namesake(
        &self,
        request: query::Namesake,
    ) -> Result<Option<Tombstone>, ControlError> {
        let query::Namesake {
            site: local, name, ..
        } = &request;
        let Some(kind) = self.reads.kinds.get(&request.kind) else {
            return Ok(None);
        };
        let copy = as_planned(
            &ResourceKey::new(local, &kind.name, String::new()),
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
                .await?;
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
                if self.is_of_another_project(&asked, &copy).await {
                    continue;
                }
                return Ok(Some(tombstone));
            }
        }
        Ok(None)
    }

    /// Whether a resource certainly belongs to another project than its original.
    async fn is_of_another_project(&self, asked: &CopyQuery<'_>, copy: &Resource) -> bool {
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
}

/// Builds a resource from its key, name and project alone, for the search by name: an original as its plan knew it, or
/// a copy that is to be created.
pub(super) fn as_planned(key: &ResourceKey, named: &OriginalName) -> Resource {
    Resource {
        key: key.clone(),
        name: named.name.clone(),
        project_id: named.project_id.clone(),
        tags: Vec::new(),
        attributes: serde_json::Value::Null,
    }
}
