//! Reads a cloud with patience: reads for plans, observations and people are paced like deletes (N16).
//!
//! Each read takes a permit of its site's limiter, and waits while the site has asked not to be called
//! (`Retry-After`). A read that is throttled, or that an absent or silent cloud does not answer, is
//! repeated, later each time, until the call has had no good answer for `[engine] read_patience`. A failure
//! that cannot pass by itself (rights, a wrong path, a refused connection) ends the read at once.

use std::ops::ControlFlow;
use std::time::Duration;

use tokio::time::Instant;

use super::Shared;
use super::sites::Permit;
use crate::cloud::{CloudFailure, Freshness, ListRows, Row, Rows, SignedIn};
use crate::domain::kinds::{Kind, Offer};
use crate::domain::model::{ErrorClass, Site};
use crate::domain::policy::Retry;

/// The first wait where the cloud names none; each further one is twice as long.
const FIRST_WAIT: Duration = Duration::from_millis(500);
const WAIT_MAX: Duration = Duration::from_secs(10);

/// One read with all its attempts.
pub(super) struct Patience<'s> {
    site: &'s Site,
    began: Instant,
    wait: Duration,
}

impl<'s> Patience<'s> {
    pub(super) fn with(site: &'s Site) -> Self {
        Self {
            site,
            began: Instant::now(),
            wait: FIRST_WAIT,
        }
    }
}

/// Whether waiting may help: the cloud answered that it is busy or away, or was silent.
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

impl Shared {
    /// Gives the permit back, waits as long as the cloud asks, and says whether to read again.
    pub(super) async fn read_again<T>(
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
        let wait = failure.retry_after.unwrap_or(patience.wait);
        let left = self
            .settings
            .engine
            .read_patience
            .saturating_sub(patience.began.elapsed());
        if !may_pass(&failure) || wait > left {
            return ControlFlow::Break(Err(failure));
        }
        tracing::info!(%site, why = failure.message, ?wait, "a read failed and is retried");
        tokio::time::sleep(wait).await;
        patience.wait = (patience.wait * 2).min(WAIT_MAX);
        ControlFlow::Continue(())
    }

    /// Makes one read at the site's pace. It is not repeated here, since its caller makes it again later.
    pub(super) async fn once<T>(
        &self,
        site: &Site,
        read: impl Future<Output = Result<T, CloudFailure>>,
    ) -> Result<T, CloudFailure> {
        let sent = self.sites.next_slot(site);
        tokio::time::sleep_until(sent).await;
        let answer = read.await;
        self.sites.looked(site, sent, answer.as_ref().err());
        answer
    }

    pub(super) async fn identity(
        &self,
        site: &Site,
        freshness: Freshness,
    ) -> Result<SignedIn, CloudFailure> {
        let mut patience = Patience::with(site);
        loop {
            let permit = self.sites.permit(site).await;
            let answer = self.cloud.identity(site, freshness).await;
            if let ControlFlow::Break(answer) = self.read_again(&mut patience, permit, answer).await
            {
                return answer;
            }
        }
    }

    pub(super) async fn endpoint(&self, site: &Site, kind: &Kind) -> Result<String, CloudFailure> {
        let mut patience = Patience::with(site);
        loop {
            let permit = self.sites.permit(site).await;
            let answer = self.cloud.endpoint(site, kind).await;
            if let ControlFlow::Break(answer) = self.read_again(&mut patience, permit, answer).await
            {
                return answer;
            }
        }
    }

    pub(super) async fn offer(&self, site: &Site) -> Result<Offer, CloudFailure> {
        let mut patience = Patience::with(site);
        loop {
            let permit = self.sites.permit(site).await;
            let answer = self.cloud.offer(site, &self.kinds).await;
            if let ControlFlow::Break(answer) = self.read_again(&mut patience, permit, answer).await
            {
                return answer;
            }
        }
    }

    pub(super) async fn list(&self, request: ListRows<'_>) -> Result<Rows, CloudFailure> {
        let mut patience = Patience::with(request.site);
        loop {
            let permit = self.sites.permit(request.site).await;
            let answer = self.cloud.list(request).await;
            if let ControlFlow::Break(answer) = self.read_again(&mut patience, permit, answer).await
            {
                return answer;
            }
        }
    }

    pub(super) async fn read(
        &self,
        site: &Site,
        kind: &Kind,
        id: &str,
    ) -> Result<Row, CloudFailure> {
        let mut patience = Patience::with(site);
        loop {
            let permit = self.sites.permit(site).await;
            let answer = self.cloud.read(site, kind, id).await;
            if let ControlFlow::Break(answer) = self.read_again(&mut patience, permit, answer).await
            {
                return answer;
            }
        }
    }
}
