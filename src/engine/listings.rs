//! Lists the resources of the clouds for people. Each query reads the clouds again.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;

use chrono::{DateTime, Utc};

use super::belongings::tally;
use super::reads::Reads;
use super::resolve::Resolver;
use crate::cloud::{CloudFailure, Fields, ListRows, NameLookup};
use crate::control::{ControlError, SiteCount, SiteListing, SiteSpec, query};
use crate::domain::kinds::Kind;
use crate::domain::model::{ErrorClass, Phase, Resource, Site, Tombstone};
use crate::ledger::{Ledger, LedgerError};
use crate::system::clock::Clock;

/// Lists resources as the clouds have them.
pub(super) struct Listings {
    pub(super) clock: Clock,
    pub(super) ledger: Arc<dyn Ledger>,
    pub(super) reads: Arc<Reads>,
    pub(super) resolver: Arc<Resolver>,
}

impl Listings {
    /// Lists the resources of a kind at the site of the request, or at each site if it names none. Resources that are
    /// being deleted are shown in that state (T7).
    pub(super) async fn list(
        &self,
        request: query::Resources,
    ) -> Result<Vec<SiteListing>, ControlError> {
        self.list_with(request, |_, _| Fields::All).await
    }

    /// Lists as [`Self::list`] does. `fields` chooses the fields to read, by the kind and the kind that is
    /// listed for it.
    async fn list_with(
        &self,
        request: query::Resources,
        fields: impl Fn(&Kind, &Kind) -> Fields,
    ) -> Result<Vec<SiteListing>, ControlError> {
        let spec = request.site.clone().map_or(SiteSpec::All, SiteSpec::Region);
        let kind = self.resolver.kind_meant(&request.kind, &spec)?;
        let sites = self.resolver.sites_with(kind, &spec)?;
        let listed = self.reads.kinds.listed(kind);
        let (wants_names, is_bare) = (request.names, request.bare);
        let fields = fields(kind, listed);
        let listings = sites.iter().map(|site| async move {
            let request = ListRows {
                site,
                kind: listed,
                filter: None,
                fields,
                rows_max: None,
            };
            // People see the failure and ask again, so the read is paced and not repeated.
            let permit = self.reads.sites.read_permit(site).await;
            let began = self.clock.now();
            let listing = self.reads.cloud.list(request).await;
            self.reads.sites.read_ended(&permit, listing.as_ref().err());
            drop(permit);
            self.reads.site_answered(site, listing.as_ref().err());
            let mut class = listing.as_ref().err().map(class_of);
            let (mut rows, mut error) = match listing {
                Ok(listing) => {
                    let rows = self.reads.kinds.resources_of(site, kind, &listing.rows);
                    (rows, None)
                }
                Err(failure) => (Vec::new(), Some(failure.message)),
            };
            if !is_bare
                && kind.spec.unknown.is_some()
                && error.is_none()
                && let Err(failure) = tally(&self.reads, site, kind, &mut rows).await
            {
                class = Some(class_of(&failure));
                error = Some(format!(
                    "gone cannot tell which resources belong to the listed ones: {}",
                    failure.message
                ));
            }
            // A resource that is confirmed gone after this time may still be among the rows.
            let at = self.clock.now();
            if let Err(unread) = self.mark_deleted(&mut rows, began).await {
                error = Some(format!(
                    "gone cannot tell which of the listed resources are being deleted: {unread}"
                ));
            }
            let names = match wants_names {
                true => self.project_names(site, &rows).await,
                false => BTreeMap::new(),
            };
            SiteListing {
                site: site.clone(),
                rows,
                error,
                class,
                names,
                at,
            }
        });
        Ok(futures_util::future::join_all(listings).await)
    }

    /// Counts the resources of a kind at each site.
    pub(super) async fn count(&self, kind: String) -> Result<Vec<SiteCount>, ControlError> {
        let all = query::Resources {
            kind,
            ..query::Resources::default()
        };
        let counted = self.list_with(all, |kind, listed| self.fields_to_count(kind, listed));
        let counted = counted.await?.into_iter();
        let counted = counted.map(|listing| SiteCount {
            site: listing.site,
            resources: listing.error.is_none().then_some(listing.rows.len() as u64),
            error: listing.error,
            at: listing.at,
        });
        Ok(counted.collect())
    }

    /// Returns the fields that counting the resources of a kind needs. Ids are enough if each listed row is one
    /// resource of the kind. All fields are needed if rows of other kinds are tallied (`unknown`). Otherwise the fields
    /// of planning are needed.
    fn fields_to_count(&self, kind: &Kind, listed: &Kind) -> Fields {
        let kinds = self.reads.kinds.iter();
        let mut derived = kinds.filter_map(|it| it.spec.derived.as_ref());
        let is_replaced = derived.any(|it| it.from == listed.name && it.replaces);
        match kind.spec.unknown.is_some() {
            true => Fields::All,
            false if is_replaced || kind.name != listed.name => Fields::Planning,
            false => Fields::Id,
        }
    }

    /// Returns the names of the rows' projects, by id.
    async fn project_names(&self, site: &Site, rows: &[Resource]) -> BTreeMap<String, String> {
        let ids = rows.iter().map(|row| row.project_id.clone());
        let ids: BTreeSet<String> = ids.filter(|id| !id.is_empty()).collect();
        let names = self
            .reads
            .cloud
            .account_names(site, &ids, NameLookup::Listed);
        names.await
    }

    /// Shows each resource that is being deleted in the state that its kind names. Removes the resources that were
    /// confirmed gone since the listing began, because the cloud may have read their rows before they were gone.
    async fn mark_deleted(
        &self,
        rows: &mut Vec<Resource>,
        began: DateTime<Utc>,
    ) -> Result<(), LedgerError> {
        let keys = rows.iter().map(|row| row.key.clone()).collect();
        let tombstones = self.ledger.tombstones_of(keys).await?;
        let went = |tombstone: &&Tombstone| tombstone.is_gone_since(began);
        let gone: HashSet<_> = tombstones.iter().filter(went).map(|it| &it.key).collect();
        rows.retain(|row| !gone.contains(&row.key));
        let doomed: HashSet<_> = tombstones
            .into_iter()
            .filter(|tombstone| tombstone.phase == Phase::Deleting)
            .map(|tombstone| tombstone.key)
            .collect();
        for row in rows.iter_mut().filter(|row| doomed.contains(&row.key)) {
            let shown = self
                .reads
                .kinds
                .get(&row.key.kind)
                .map(|kind| kind.spec.deleting.clone())
                .unwrap_or_default();
            if let serde_json::Value::Object(fields) = &mut row.attributes {
                fields.extend(
                    shown
                        .into_iter()
                        .map(|(field, value)| (field, value.into())),
                );
            }
        }
        Ok(())
    }
}

/// Returns the class of a failure. A refusal to list counts as a lack of rights.
fn class_of(failure: &CloudFailure) -> ErrorClass {
    match failure.forbidden {
        true => ErrorClass::Auth,
        false => failure.class,
    }
}
