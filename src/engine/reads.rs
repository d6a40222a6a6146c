//! Reads the clouds: with patience for plans, commands and queries, and at the pace of deletes for observations (N16).
//!
//! A read with patience takes a permit of its site's limiter, and waits while the site has asked not to be called
//! (`Retry-After`). A read that is throttled, or that an unavailable or silent cloud does not answer, is repeated,
//! later each time, until the call has had no good answer for `[engine] read_patience`. A failure that cannot pass by
//! itself (rights, a wrong path, a refused connection) ends the read at once. Lists for people (`listings.rs`,
//! `belongings.rs`) take a permit and are not repeated. An observation, a list of a sweep, or the read before a call
//! ([`Reads::once`]) takes no permit and is not repeated here.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::try_join_all;
use serde_json::Value;
use tokio::time::Instant;

use super::errors::unreadable;
use super::journal::Journal;
use super::sites::{Permit, Sites};
use crate::cloud::{Cloud, CloudFailure, Fields, Freshness, ListRows, Listed, Row, Rows, SignedIn};
use crate::domain::kinds::{Kind, Kinds, Offer};
use crate::domain::model::{ErrorClass, Identity, Site};
use crate::domain::plan::Found;
use crate::domain::policy::Retry;
use crate::domain::query::{BY_ID, ListFilter, Lookup};

/// The first wait if the cloud asks for none. Each further wait is twice as long, up to `WAIT_MAX`.
const FIRST_WAIT: Duration = Duration::from_millis(500);
const WAIT_MAX: Duration = Duration::from_secs(10);

/// One read with all its attempts.
struct Patience<'s> {
    site: &'s Site,
    began: Instant,
    wait: Duration,
}

impl<'s> Patience<'s> {
    fn with(site: &'s Site) -> Self {
        Self {
            site,
            began: Instant::now(),
            wait: FIRST_WAIT,
        }
    }
}

/// Whether a failure may pass by itself, because the cloud answered that it is busy or unavailable or that it failed
/// (500 and above), or was silent.
pub(super) fn may_pass(failure: &CloudFailure) -> bool {
    match failure.retry {
        Retry::Throttled => true,
        Retry::Unavailable | Retry::Unknown => {
            failure.status.is_some() || failure.class == ErrorClass::OutcomeUnknown
        }
        // The service failed on this call.
        Retry::Scheduled => failure.status >= Some(500),
        Retry::Pending | Retry::SitePaused | Retry::AwaitsClearance | Retry::Never => false,
    }
}

/// Reads the clouds at the pace that each site takes.
pub(super) struct Reads {
    pub(super) cloud: Arc<dyn Cloud>,
    pub(super) kinds: Arc<Kinds>,
    pub(super) sites: Arc<Sites>,
    pub(super) journal: Arc<Journal>,
    /// How long a read without a good answer is repeated.
    pub(super) patience_max: Duration,
}

impl Reads {
    /// Releases the permit of a read. Returns the answer if it is good or the read is not repeated; otherwise waits as
    /// long as the cloud asks, or for the back-off, and then tells the caller to repeat the read.
    async fn read_again<T>(
        &self,
        patience: &mut Patience<'_>,
        permit: Permit<'_>,
        answer: Result<T, CloudFailure>,
    ) -> ControlFlow<Result<T, CloudFailure>> {
        let site = patience.site;
        self.sites.read_ended(&permit, answer.as_ref().err());
        drop(permit);
        self.site_answered(site, answer.as_ref().err());
        let failure = match answer {
            Ok(answer) => return ControlFlow::Break(Ok(answer)),
            Err(failure) => failure,
        };
        // A past date, or zero, asks for no wait at all; then the engine's own wait counts (N16).
        let asked = failure.retry_after.filter(|asked| !asked.is_zero());
        let wait = asked.unwrap_or(patience.wait);
        let left = self.patience_max.saturating_sub(patience.began.elapsed());
        if !may_pass(&failure) || wait > left {
            return ControlFlow::Break(Err(failure));
        }
        tracing::info!(%site, why = failure.message, ?wait, "a read failed and is retried");
        tokio::time::sleep(wait).await;
        patience.wait = (patience.wait * 2).min(WAIT_MAX);
        ControlFlow::Continue(())
    }

    /// Makes one read at the site's pace. A failed read is not repeated here, because its caller repeats it
    /// later.
    pub(super) async fn once<T>(
        &self,
        site: &Site,
        read: impl Future<Output = Result<T, CloudFailure>>,
    ) -> Result<T, CloudFailure> {
        let sent = self.sites.next_slot(site);
        tokio::time::sleep_until(sent).await;
        let answer = read.await;
        self.sites
            .single_read_ended(site, sent, answer.as_ref().err());
        answer
    }

    /// Reads one row at the site's pace, and does not repeat a failed read.
    pub(super) async fn read_once(
        &self,
        site: &Site,
        kind: &Kind,
        id: &str,
    ) -> Result<Row, CloudFailure> {
        self.once(site, self.cloud.read(site, kind, id)).await
    }

    /// Lists rows at the site's pace, and does not repeat a failed list.
    pub(super) async fn list_once(&self, request: ListRows<'_>) -> Result<Rows, CloudFailure> {
        self.once(request.site, self.cloud.list(request)).await
    }

    /// Makes one read at the site's pace. While it fails for a reason that may pass by itself, repeats it for up to
    /// `[engine] read_patience`.
    async fn patiently<T, F>(&self, site: &Site, read: impl Fn() -> F) -> Result<T, CloudFailure>
    where
        F: Future<Output = Result<T, CloudFailure>>,
    {
        let mut patience = Patience::with(site);
        loop {
            let permit = self.sites.read_permit(site).await;
            let answer = read().await;
            if let ControlFlow::Break(answer) = self.read_again(&mut patience, permit, answer).await
            {
                return answer;
            }
        }
    }

    pub(super) async fn identity(
        &self,
        site: &Site,
        freshness: Freshness,
    ) -> Result<SignedIn, CloudFailure> {
        self.patiently(site, || self.cloud.identity(site, freshness))
            .await
    }

    pub(super) async fn endpoint(&self, site: &Site, kind: &Kind) -> Result<String, CloudFailure> {
        self.patiently(site, || self.cloud.endpoint(site, kind))
            .await
    }

    pub(super) async fn offer(&self, site: &Site) -> Result<Offer, CloudFailure> {
        self.patiently(site, || self.cloud.offer(site, &self.kinds))
            .await
    }

    pub(super) async fn list(&self, request: ListRows<'_>) -> Result<Rows, CloudFailure> {
        self.patiently(request.site, || self.cloud.list(request))
            .await
    }

    pub(super) async fn read(
        &self,
        site: &Site,
        kind: &Kind,
        id: &str,
    ) -> Result<Row, CloudFailure> {
        self.patiently(site, || self.cloud.read(site, kind, id))
            .await
    }

    /// Returns all rows that a lookup finds, and the login's identity if the cloud gave it.
    pub(super) async fn look_up(
        &self,
        lookup: &Lookup,
    ) -> Result<(Vec<Value>, Option<Identity>), CloudFailure> {
        let rows = self.rows_of(lookup)?;
        if let Some(ids) = ids_to_read(&rows) {
            return self.read_each(rows.site, rows.kind, ids).await;
        }
        let listing = self.list(rows).await?;
        Ok((listing.rows, listing.identity))
    }

    /// Reads the rows of these ids side by side.
    async fn read_each(
        &self,
        site: &Site,
        kind: &Kind,
        ids: &[String],
    ) -> Result<(Vec<Value>, Option<Identity>), CloudFailure> {
        let reads = ids.iter().map(|id| self.read(site, kind, id));
        let reads = try_join_all(reads).await?;
        let mut identities = reads.iter().filter_map(|read| read.identity.clone());
        let identity = identities.next();
        if identities.any(|other| Some(&other) != identity.as_ref()) {
            return Err(unreadable(format!(
                "{site}: the user's project or roles changed while the rows of {} were read, each with a call of \
                 its own, so they cannot be combined",
                kind.name
            )));
        }
        let rows = reads.into_iter().filter_map(|read| read.row).collect();
        Ok((rows, identity))
    }

    /// Splits a lookup that needs a call for each value of its filter, so that these calls are made side by side.
    pub(super) fn by_call(&self, lookup: &Lookup) -> Vec<Lookup> {
        let is_single = |filter: &&ListFilter| {
            let kind = self.kinds.get(&lookup.kind);
            kind.is_some_and(|it| it.is_listed_within() || !it.calls.takes_several(&filter.key))
        };
        let single = lookup.filter.as_ref().filter(is_single);
        let Some(ListFilter { key, values }) = single else {
            return vec![lookup.clone()];
        };
        let of_value = |value: &String| Lookup {
            filter: Some(ListFilter {
                key: key.clone(),
                values: vec![value.clone()],
            }),
            ..lookup.clone()
        };
        values.iter().map(of_value).collect()
    }

    /// Passes the rows of a lookup on to the planner, page by page. Starts again from `begin` if the lookup is
    /// repeated.
    pub(super) async fn look_up_by_page<'k>(
        &self,
        lookup: &Lookup,
        begin: impl Fn() -> Found<'k>,
    ) -> Result<(Found<'k>, Option<Identity>), CloudFailure> {
        let rows = self.rows_of(lookup)?;
        if let Some(ids) = ids_to_read(&rows) {
            let (rows, identity) = self.read_each(rows.site, rows.kind, ids).await?;
            let mut found = begin();
            found.add(&rows);
            return Ok((found, identity));
        }
        let mut patience = Patience::with(&lookup.site);
        loop {
            let mut found = begin();
            let permit = self.sites.read_permit(&lookup.site).await;
            let mut take = |listed| match listed {
                Listed::Part => found.begin(),
                Listed::PartAgain => found.begin_again(),
                Listed::Rows(rows) => found.add(&rows),
            };
            let listing = self.cloud.list_by_page(rows, &mut take).await;
            if let ControlFlow::Break(listing) =
                self.read_again(&mut patience, permit, listing).await
            {
                return Ok((found, listing?));
            }
        }
    }

    fn rows_of<'r>(&'r self, lookup: &'r Lookup) -> Result<ListRows<'r>, CloudFailure> {
        let kind = self
            .kinds
            .get(&lookup.kind)
            .ok_or_else(|| unreadable(format!("unknown kind {}", lookup.kind)))?;
        Ok(rows_to_plan(&lookup.site, kind, lookup.filter.as_ref()))
    }

    /// Records in the site's status whether a read worked.
    pub(super) fn site_answered(&self, site: &Site, failure: Option<&CloudFailure>) {
        if self.sites.read_answered(site, failure) {
            self.journal.show_soon();
        }
    }
}

/// Returns the request for all rows of a listed kind, or for those that a filter finds, with the fields that planning
/// needs.
pub(super) fn rows_to_plan<'r>(
    site: &'r Site,
    kind: &'r Kind,
    filter: Option<&'r ListFilter>,
) -> ListRows<'r> {
    ListRows {
        site,
        kind,
        filter,
        fields: Fields::Planning,
        rows_max: None,
    }
}

/// Returns the ids of a filter by id if the kind's lists take no such filter: each resource is then read by itself.
fn ids_to_read<'r>(rows: &ListRows<'r>) -> Option<&'r [String]> {
    let filter = rows.filter.filter(|filter| filter.key == BY_ID)?;
    (rows.kind.id_filter().is_none()).then_some(filter.values.as_slice())
}
