//! Resolves words to resources: `KIND/ID-OR-NAME` at a site, a cloud or all sites, each to exactly one resource, or to
//! one in each region if all regions share it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use futures_util::future::try_join_all;

use super::belongings::unknown_owner;
use super::copies::CopySearch;
use super::reads::Reads;
use crate::cloud::CloudFailure;
use crate::control::{ControlError, SiteSpec, TargetSpec};
use crate::domain::kinds::Kind;
use crate::domain::model::{KindName, Resource, ResourceKey, Site};
use crate::domain::query::{BY_ID, ListFilter, Lookup};
use crate::domain::text::{did_you_mean, escape};

/// Finds the resources that people and plans name.
pub(super) struct Resolver {
    pub(super) reads: Arc<Reads>,
    pub(super) copies: Arc<CopySearch>,
}

impl Resolver {
    /// Finds resources of a kind by their ids, or by their names, with one listing for all of them. Reads each resource
    /// by itself if the kind's lists take no filter by id. Finds none by name if the kind is derived, has no list, or
    /// is listed below a parent.
    pub(super) async fn find(
        &self,
        site: &Site,
        kind: &Kind,
        words: &BTreeSet<&str>,
        by: By,
    ) -> Result<Vec<Resource>, CloudFailure> {
        let listed = self.reads.kinds.listed(kind);
        let may_be = |word: &&str| matches!(by, By::Name) || kind.spec.ids.may_be(word);
        let words = &words
            .iter()
            .copied()
            .filter(may_be)
            .collect::<BTreeSet<_>>();
        if words.is_empty() {
            return Ok(Vec::new());
        }
        let key = match (&kind.spec.derived, &listed.spec.list, by) {
            (Some(derived), _, By::Id) => derived.find_by.as_str(),
            // A list below a parent that is not at this site is an error, whereas a read of a row finds
            // nothing.
            (None, Some(list), By::Id) if list.within.is_some() => {
                let whole = words.iter().copied().filter(|word| word.contains(','));
                return self.read_all(site, listed, &whole.collect()).await;
            }
            (None, _, By::Id) => match listed.id_filter() {
                Some(filter) => filter,
                None => return self.read_all(site, listed, words).await,
            },
            (None, Some(list), By::Name) if list.within.is_none() => list.name.as_str(),
            (_, _, By::Name) => return Ok(Vec::new()),
        };
        // A composite id begins with its parent's id, by which the row is found.
        let composite = kind.spec.derived.is_some() || listed.id_filter() != Some(BY_ID);
        let part = |word: &&str| match (word.split_once(','), by) {
            (Some((parent, _)), By::Id) if composite => parent.to_owned(),
            _ => (*word).to_owned(),
        };
        let values: BTreeSet<String> = words.iter().map(part).collect();
        let filter = ListFilter {
            key: key.to_owned(),
            values: values.into_iter().collect(),
        };
        let (rows, _) = self
            .reads
            .look_up(&Lookup {
                site: site.clone(),
                kind: listed.name.clone(),
                filter: Some(filter),
            })
            .await?;
        let mut found = self.reads.kinds.resources_of(site, kind, &rows);
        found.retain(|found| words.contains(by.word(found)));
        Ok(found)
    }

    /// Finds resources by ids. If a login is shown only its own resource, the cloud refuses every word except that
    /// resource's id, even the resource's name. So a refusal is returned beside the resources: it counts only if a
    /// word is not the name of a resource either.
    async fn find_ids(
        &self,
        site: &Site,
        kind: &Kind,
        words: &BTreeSet<&str>,
    ) -> Result<(Vec<Resource>, Option<CloudFailure>), CloudFailure> {
        if !kind.spec.list.as_ref().is_some_and(|list| list.own_only) {
            return Ok((self.find(site, kind, words, By::Id).await?, None));
        }
        let mut found = Vec::new();
        let mut refused = None;
        for word in words {
            match self
                .find(site, kind, &BTreeSet::from([*word]), By::Id)
                .await
            {
                Ok(more) => found.extend(more),
                Err(failure) if failure.forbidden => refused = Some(failure),
                Err(failure) => return Err(failure),
            }
        }
        Ok((found, refused))
    }

    /// Reads each resource by itself, if the kind's lists take no filter by id or are below a parent.
    async fn read_all(
        &self,
        site: &Site,
        kind: &Kind,
        ids: &BTreeSet<&str>,
    ) -> Result<Vec<Resource>, CloudFailure> {
        let reads = ids.iter().map(|id| self.reads.read(site, kind, id));
        let rows = try_join_all(reads).await?.into_iter();
        let rows: Vec<_> = rows.filter_map(|read| read.row).collect();
        Ok(self.reads.kinds.resources_of(site, kind, &rows))
    }

    /// Resolves each target as [`Self::resolve_all`] does, and drops repeated resources. Returns an error if no target
    /// is named. A word that fits several resources is refused, and they are listed.
    pub(super) async fn resolve(
        &self,
        specs: &[TargetSpec],
    ) -> Result<Vec<Resource>, ControlError> {
        let mut targets: Vec<Resource> = Vec::new();
        for found in self.resolve_all(specs).await? {
            if targets.iter().all(|target| target.key != found.key) {
                targets.push(found);
            }
        }
        if targets.is_empty() {
            return Err(ControlError::usage(
                "no target is named: name at least one resource",
            ));
        }
        Ok(targets)
    }

    pub(super) async fn resolve_one(&self, spec: &TargetSpec) -> Result<Resource, ControlError> {
        let mut found = self.resolve_all(std::slice::from_ref(spec)).await?;
        Ok(found.swap_remove(0))
    }

    /// Resolves a target to its resource; none if there is none.
    pub(super) async fn look_for(
        &self,
        target: &TargetSpec,
    ) -> Result<Option<Resource>, ControlError> {
        match self.resolve_one(target).await {
            Ok(found) => Ok(Some(found)),
            Err(ControlError::NotFound { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Returns the names of resources, as far as this login may read them, because an id says little to a
    /// person.
    pub(super) async fn names<'k>(
        &self,
        keys: impl Iterator<Item = &'k ResourceKey>,
    ) -> BTreeMap<ResourceKey, String> {
        let lookups = ids_by_kind(keys).into_iter();
        let lookups = lookups.map(|((site, kind), ids)| async move {
            let kind = self.reads.kinds.get(kind)?;
            self.find(site, kind, &ids, By::Id).await.ok()
        });
        let found = futures_util::future::join_all(lookups).await;
        let found = found.into_iter().flatten().flatten();
        found.map(|found| (found.key, found.name)).collect()
    }

    /// Resolves each target, in order, to one resource, or to one in each region if all regions share it.
    /// Finds all targets of a site and kind with the same lookups.
    async fn resolve_all(&self, specs: &[TargetSpec]) -> Result<Vec<Resource>, ControlError> {
        let mut asked = Vec::new();
        for spec in specs {
            let kind = self.kind_meant(&spec.kind, &spec.site)?;
            let sites = self.sites_with(kind, &spec.site)?;
            asked.push((kind, sites, spec.id_or_name.as_str()));
        }
        let mut wanted: BTreeMap<(&Site, &KindName), BTreeSet<&str>> = BTreeMap::new();
        for (kind, sites, word) in &asked {
            for site in sites {
                let words = wanted.entry((site, &kind.name)).or_default();
                words.insert(word);
            }
        }
        let lookups = wanted.into_iter().map(|(at, words)| async move {
            let site = at.0;
            let Some(kind) = self.reads.kinds.get(at.1) else {
                return Ok((at, Vec::new()));
            };
            let (mut found, refused) = self.find_ids(site, kind, &words).await?;
            let is_id = |word: &&str| found.iter().any(|found| found.key.id == *word);
            let names: BTreeSet<&str> = words.into_iter().filter(|word| !is_id(word)).collect();
            if !names.is_empty() {
                let mut named = self.find(site, kind, &names, By::Name).await?;
                named.retain(|named| !found.iter().any(|found| found.key == named.key));
                let is_name = |word: &&&str| named.iter().any(|found| found.name == **word);
                let unmatched: Vec<&str> = names
                    .iter()
                    .filter(|word| !is_name(word))
                    .copied()
                    .collect();
                found.extend(named);
                match refused {
                    Some(failure) if !unmatched.is_empty() => return Err(failure),
                    _ => {}
                }
                for word in unmatched {
                    found.extend(unknown_owner(&self.reads, site, kind, word).await?);
                }
            }
            Ok((at, found))
        });
        let mut found: BTreeMap<(&Site, &KindName), Vec<Resource>> = BTreeMap::new();
        for answer in futures_util::future::join_all(lookups).await {
            // Each site must answer: a silent one could have a second resource that the word fits.
            let (at, resources) = answer?;
            found.insert(at, resources);
        }
        let mut meant = Vec::new();
        for (kind, sites, word) in &asked {
            let fits = sites.iter().flat_map(|site| {
                let here = found.get(&(site, &kind.name)).into_iter().flatten();
                let here: Vec<&Resource> = here.collect();
                let by = match here.iter().any(|found| found.key.id == *word) {
                    true => By::Id,
                    false => By::Name,
                };
                here.into_iter()
                    .filter(move |found| by.word(found) == *word)
            });
            let fits = self.copies.without_copies(fits.collect());
            meant.extend(the_one(kind, sites, word, fits)?);
        }
        Ok(meant)
    }

    /// Returns the kind that a word names. If several providers have a kind of that name, returns the kind of
    /// the sites' provider.
    pub(super) fn kind_meant(&self, word: &str, spec: &SiteSpec) -> Result<&Kind, ControlError> {
        let sites = self.reads.cloud.sites().into_iter();
        let meant = sites.filter(|site| spec.matches(site));
        let providers: BTreeSet<&str> = meant
            .filter_map(|it| self.reads.cloud.provider(&it))
            .collect();
        let provider = match providers.len() {
            1 => providers.first().copied(),
            _ => None,
        };
        let kind = self.reads.kinds.resolve_at(word, provider);
        kind.map_err(ControlError::usage)
    }

    /// Returns the sites that `spec` names and at which resources of the kind can exist; an error if there are none.
    pub(super) fn sites_with(
        &self,
        kind: &Kind,
        spec: &SiteSpec,
    ) -> Result<Vec<Site>, ControlError> {
        let mut sites = self.sites_of(spec)?;
        sites.retain(|site| {
            let provider = kind.provider;
            let has = provider.is_none() || self.reads.cloud.provider(site) == provider;
            has && self.reads.kinds.may_be_at(kind, site)
        });
        match sites.is_empty() {
            false => Ok(sites),
            true => Err(ControlError::usage(
                match (kind.is_native(), self.reads.kinds.home()) {
                    (true, Some(home)) if home.service == kind.service => {
                        let (kind, at) = (&kind.name, &home.site);
                        format!(
                            "{kind} is kept at {at}, which is not a cloud: leave out --cloud, or \
                             write {kind}/…@{at}"
                        )
                    }
                    (true, _) => format!(
                        "{} belongs to the service {}, which this deployment does not serve",
                        kind.name, kind.service
                    ),
                    (false, _) => format!(
                        "{} is a kind of {}, but the request names no such cloud",
                        kind.name,
                        kind.provider.unwrap_or("a cloud")
                    ),
                },
            )),
        }
    }

    pub(super) fn sites_of(&self, spec: &SiteSpec) -> Result<Vec<Site>, ControlError> {
        let all = self.reads.cloud.sites();
        let sites: Vec<Site> = all
            .iter()
            .filter(|site| spec.matches(site))
            .cloned()
            .collect();
        if sites.is_empty() {
            let known: Vec<String> = all.iter().map(Site::to_string).collect();
            let wanted = match spec {
                SiteSpec::All => {
                    return Err(ControlError::usage(
                        "no cloud is configured: gone doctor says where gone searches for clouds",
                    ));
                }
                SiteSpec::Cloud(cloud) => cloud.to_string(),
                SiteSpec::Region(site) => site.to_string(),
            };
            return Err(ControlError::usage(format!(
                "no such site \"{}\"{}; configured: {}",
                escape(&wanted),
                did_you_mean(&wanted, known.iter().map(String::as_str)),
                known.join(", ")
            )));
        }
        Ok(sites)
    }
}

#[derive(Clone, Copy)]
pub(super) enum By {
    Id,
    Name,
}

impl By {
    fn word(self, resource: &Resource) -> &str {
        match self {
            By::Id => &resource.key.id,
            By::Name => &resource.name,
        }
    }
}

/// Groups the ids of resources by site and kind, since one list finds those of a group.
pub(super) fn ids_by_kind<'k>(
    keys: impl IntoIterator<Item = &'k ResourceKey>,
) -> BTreeMap<(&'k Site, &'k KindName), BTreeSet<&'k str>> {
    let mut ids: BTreeMap<_, BTreeSet<&str>> = BTreeMap::new();
    for ResourceKey { site, kind, id } in keys {
        ids.entry((site, kind)).or_default().insert(id);
    }
    ids
}

fn the_one(
    kind: &Kind,
    sites: &[Site],
    word: &str,
    fits: Vec<&Resource>,
) -> Result<Vec<Resource>, ControlError> {
    match fits.as_slice() {
        [one] => Ok(vec![(*one).clone()]),
        [first, others @ ..]
            if kind.spec.in_all_regions && others.iter().all(|it| it.key.id == first.key.id) =>
        {
            Ok(fits.into_iter().cloned().collect())
        }
        [] => {
            let sites: Vec<String> = sites.iter().map(Site::to_string).collect();
            Err(ControlError::not_found(format!(
                "no {} with the id or name \"{}\" at {}",
                kind.name,
                escape(word),
                sites.join(", ")
            )))
        }
        several => Err(ControlError::Ambiguous {
            message: format!(
                "{} resources fit {}/{}; name one by its id, or add @CLOUD/REGION",
                several.len(),
                kind.name,
                escape(word)
            ),
            candidates: several.iter().map(|one| one.target()).collect(),
        }),
    }
}
