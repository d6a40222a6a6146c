//! Presents several clouds as one: the cloud that has a site answers for that site.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use async_trait::async_trait;

use super::{
    Acted, Call, Cloud, CloudFailure, Freshness, ListRows, Listed, NameLookup, Row, SignedIn,
};
use crate::domain::kinds::{Kind, Kinds, Offer};
use crate::domain::model::{ErrorClass, Identity, Site};
use crate::domain::policy::Retry;
use crate::system::clock::Clock;

/// Several clouds as one.
pub struct CloudRouter {
    clouds: Vec<Arc<dyn Cloud>>,
    at: BTreeMap<Site, usize>,
    clock: Clock,
}

impl CloudRouter {
    /// Routes to these clouds. If two of them have the same site, the first one answers for it.
    pub fn new(clouds: Vec<Arc<dyn Cloud>>, clock: Clock) -> Self {
        let mut at = BTreeMap::new();
        for (nth, cloud) in clouds.iter().enumerate() {
            for site in cloud.sites() {
                at.entry(site).or_insert(nth);
            }
        }
        Self { clouds, at, clock }
    }

    fn of(&self, site: &Site) -> Result<&dyn Cloud, CloudFailure> {
        let found = self.at.get(site).and_then(|at| self.clouds.get(*at));
        found.map(|cloud| &**cloud).ok_or_else(|| {
            let message = format!("the site {site} is not configured");
            CloudFailure::unanswered(Retry::Never, ErrorClass::Fatal, "", message)
        })
    }
}

#[async_trait]
impl Cloud for CloudRouter {
    fn sites(&self) -> Vec<Site> {
        self.clouds.iter().flat_map(|cloud| cloud.sites()).collect()
    }

    fn provider(&self, site: &Site) -> Option<&'static str> {
        self.of(site).ok()?.provider(site)
    }

    fn has_other_login(&self, site: &Site) -> bool {
        self.of(site).is_ok_and(|cloud| cloud.has_other_login(site))
    }

    async fn identity(&self, site: &Site, freshness: Freshness) -> Result<SignedIn, CloudFailure> {
        self.of(site)?.identity(site, freshness).await
    }

    async fn endpoint(&self, site: &Site, kind: &Kind) -> Result<String, CloudFailure> {
        self.of(site)?.endpoint(site, kind).await
    }

    async fn offer(&self, site: &Site, kinds: &Kinds) -> Result<Offer, CloudFailure> {
        self.of(site)?.offer(site, kinds).await
    }

    async fn list_by_page(
        &self,
        request: ListRows<'_>,
        listed: &mut (dyn FnMut(Listed) + Send),
    ) -> Result<Option<Identity>, CloudFailure> {
        self.of(request.site)?.list_by_page(request, listed).await
    }

    async fn read(&self, site: &Site, kind: &Kind, id: &str) -> Result<Row, CloudFailure> {
        self.of(site)?.read(site, kind, id).await
    }

    async fn act(&self, call: Call<'_>) -> Acted {
        match self.of(call.site) {
            Ok(cloud) => cloud.act(call).await,
            Err(failure) => {
                let line = format!("not sent: {}", failure.message);
                Acted::not_sent(failure, line, self.clock.now())
            }
        }
    }

    async fn account_names(
        &self,
        site: &Site,
        ids: &BTreeSet<String>,
        lookup: NameLookup,
    ) -> BTreeMap<String, String> {
        match self.of(site) {
            Ok(cloud) => cloud.account_names(site, ids, lookup).await,
            Err(_) => BTreeMap::new(),
        }
    }
}
