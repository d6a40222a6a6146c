//! Answers queries from the ledger, and from fresh listings of the clouds.

use std::sync::Arc;

use serde_json::Value;

use super::belongings::tally;
use super::errors::ledger_error;
use super::records::{deletion, saved_plan};
use super::{PAGE_MAX, Shared};
use crate::cloud::{CloudFailure, Fields, ListRows};
use crate::control::query::{self, Counted};
use crate::control::{
    ControlError, Explanation, KindInfo, Page, Query, Request, SiteListing, SiteProgress, SiteSpec,
};
use crate::domain::attention::CauseGroup;
use crate::domain::filter::SearchQuery;
use crate::domain::gantt::{Gantt, Upcoming};
use crate::domain::ladder::Ladder;
use crate::domain::model::{
    Deletion, ErrorClass, Event, Orphan, Paged, Phase, Plan, Resource, Step, Tombstone,
};
use crate::domain::news::NotificationCursor;
use crate::domain::outline::Outline;
use crate::ledger::{
    Cursor, DeletionFilter, EventFilter, LedgerError, StepFilter, TombstoneFilter,
};

/// More columns than any screen has.
const COLUMNS_MAX: u32 = 1_000;

impl Shared {
    pub(super) async fn answer(&self, query: Query) -> Result<Page, ControlError> {
        match query {
            Query::Deletions(request) => page(request, |it| self.list_deletions(it)).await,
            Query::Deletion(request) => page(request, |it| self.get_deletion(it)).await,
            Query::Progress(request) => page(request, |it| self.progress(it)).await,
            Query::Steps(request) => page(request, |it| self.list_steps(it)).await,
            Query::StepCount(request) => page(request, |it| self.count_steps(it)).await,
            Query::Outline(request) => page(request, |it| self.outline(it)).await,
            Query::BranchSteps(request) => page(request, |it| self.branch_steps(it)).await,
            Query::Chart(request) => page(request, |it| self.chart(it)).await,
            Query::Upcoming(request) => page(request, |_| self.upcoming()).await,
            Query::Causes(request) => page(request, |it| self.causes(it)).await,
            Query::Step(request) => page(request, |it| self.get_step(it)).await,
            Query::Timeline(request) => page(request, |it| self.timeline(it)).await,
            Query::Tombstones(request) => page(request, |it| self.list_tombstones(it)).await,
            Query::ShownBefore(request) => page(request, |it| self.shown_before(it)).await,
            Query::WholeOf(request) => page(request, |it| self.whole_of(it)).await,
            Query::Namesake(request) => page(request, |it| self.copies.namesake(it)).await,
            Query::Plan(request) => page(request, |it| self.get_plan(it)).await,
            Query::FrozenPlan(request) => page(request, |it| self.frozen_plan(it)).await,
            Query::Resources(request) => page(request, |it| self.list_resources(it)).await,
            Query::Native(request) => page(request, |it| self.list_native(it)).await,
            Query::Explain(request) => page(request, |it| self.explain_target(it)).await,
            Query::Ladder(request) => page(request, |it| self.get_ladder(it)).await,
            Query::Orphans(request) => page(request, |it| self.list_orphans(it)).await,
            Query::Sites(_) => Ok(Page::Sites(self.sites.statuses())),
            Query::Gates(_) => Ok(Page::Gates(self.gates.statuses())),
            Query::Kinds(_) => Ok(Page::Kinds(self.kind_infos())),
            Query::Audit(request) => page(request, |it| self.audit_rows(it)).await,
            Query::NotificationCursor(request) => page(request, |it| self.notified(it)).await,
            Query::PointsAt(request) => page(request, |it| self.points_at(it.question)).await,
            Query::Deployments(request) => page(request, |_| self.deployment_statuses()).await,
        }
    }

    async fn list_deletions(
        &self,
        request: query::Deletions,
    ) -> Result<Paged<Deletion>, ControlError> {
        let filter = DeletionFilter {
            states: request.states,
            site: request.site,
            kind: request.kind,
            older_than: request.older_than,
            oldest_first: false,
        };
        let page = page_of(request.cursor, request.limit);
        let found = self.ledger.deletions(filter, page).await;
        found.map_err(ledger_error)
    }

    async fn get_deletion(&self, request: query::Deletion) -> Result<Box<Deletion>, ControlError> {
        deletion(&*self.ledger, &request.id).await.map(Box::new)
    }

    async fn progress(&self, request: query::Progress) -> Result<Vec<SiteProgress>, ControlError> {
        let id = self.full_id(&request.deletion_id).await?;
        let progress = self.ledger.progress(&id).await.map_err(ledger_error)?;
        let progress = progress.into_iter();
        Ok(progress
            .map(|(site, counts)| SiteProgress { site, counts })
            .collect())
    }

    async fn list_steps(&self, request: query::Steps) -> Result<Paged<Step>, ControlError> {
        let filter = StepFilter {
            deletion_id: self.full_id_if_any(request.deletion_id).await?,
            states: request.states,
            site: request.site,
            kind: request.kind,
            older_than: request.older_than,
            cause: request.cause,
            text: self.search(&request.filter),
        };
        let page = page_of(request.cursor, request.limit);
        self.ledger.steps(filter, page).await.map_err(ledger_error)
    }

    async fn count_steps(&self, request: query::StepCount) -> Result<Counted, ControlError> {
        let filter = StepFilter {
            deletion_id: request.deletion_id,
            states: request.states,
            cause: request.cause,
            text: self.search(&request.filter),
            ..StepFilter::default()
        };
        let counted = self.ledger.count_steps(filter, request.cursor).await;
        let (steps, next) = counted.map_err(ledger_error)?;
        Ok(Counted { steps, next })
    }

    async fn outline(&self, request: query::Outline) -> Result<Outline, ControlError> {
        let id = self.full_id(&request.deletion_id).await?;
        let mut below = request.below;
        below.truncate(PAGE_MAX);
        self.ledger.outline(&id, below).await.map_err(ledger_error)
    }

    async fn branch_steps(&self, request: query::BranchSteps) -> Result<Vec<Step>, ControlError> {
        let id = self.full_id(&request.deletion_id).await?;
        let (counts, from, limit) = (request.counts, request.from, request.limit);
        let steps = self
            .ledger
            .branch_steps(&id, request.branch, counts, from, limit);
        steps.await.map_err(ledger_error)
    }

    async fn chart(&self, request: query::Chart) -> Result<Gantt, ControlError> {
        let id = self.full_id(&request.deletion_id).await?;
        let (columns, now) = (request.columns.min(COLUMNS_MAX), self.clock.now());
        let chart = self.ledger.gantt(&id, columns, now).await;
        chart
            .map_err(ledger_error)?
            .ok_or_else(|| not_found(format!("no deletion {id}")))
    }

    async fn upcoming(&self) -> Result<Upcoming, ControlError> {
        let upcoming = self.ledger.upcoming(self.clock.now()).await;
        upcoming.map_err(ledger_error)
    }

    async fn causes(&self, request: query::Causes) -> Result<Vec<CauseGroup>, ControlError> {
        self.ledger
            .causes(request.sites)
            .await
            .map_err(ledger_error)
    }

    async fn get_step(&self, query::Step { id }: query::Step) -> Result<Box<Step>, ControlError> {
        let step = self.ledger.step(id).await.map_err(ledger_error)?;
        let step = step.ok_or_else(|| not_found(format!("no step {id}")))?;
        Ok(Box::new(step))
    }

    async fn timeline(&self, request: query::Timeline) -> Result<Vec<Event>, ControlError> {
        let filter = EventFilter {
            deletion_id: self.full_id_if_any(request.deletion_id).await?,
            step_id: request.step_id,
        };
        let page = self.ledger.events(request.after, filter, PAGE_MAX).await;
        Ok(page.map_err(ledger_error)?.events)
    }

    async fn list_tombstones(
        &self,
        request: query::Tombstones,
    ) -> Result<Paged<Tombstone>, ControlError> {
        let filter = TombstoneFilter {
            site: request.site,
            kind: request.kind,
            phases: request.phases,
            id: request.id,
        };
        let page = page_of(request.cursor, request.limit);
        let found = self.ledger.tombstones(filter, page).await;
        found.map_err(ledger_error)
    }

    async fn shown_before(
        &self,
        request: query::ShownBefore,
    ) -> Result<Option<Value>, ControlError> {
        let row = self.ledger.shown_before(request.key).await;
        row.map_err(ledger_error)
    }

    async fn whole_of(&self, request: query::WholeOf) -> Result<Option<Tombstone>, ControlError> {
        let whole = self.ledger.whole_of(request.part).await;
        whole.map_err(ledger_error)
    }

    async fn get_plan(&self, request: query::Plan) -> Result<Arc<Plan>, ControlError> {
        saved_plan(&*self.ledger, &request.hash, self.clock.now()).await
    }

    async fn frozen_plan(&self, request: query::FrozenPlan) -> Result<Arc<Plan>, ControlError> {
        let deletion = deletion(&*self.ledger, &request.deletion_id).await?;
        let plan = self
            .ledger
            .frozen(&deletion.id, !request.without_steps)
            .await;
        plan.map_err(ledger_error)?.ok_or_else(|| {
            let state = deletion.state.as_str();
            not_found(format!(
                "deletion {} has no plan: it is {state}",
                deletion.id
            ))
        })
    }

    async fn explain_target(
        &self,
        request: query::Explain,
    ) -> Result<Box<Explanation>, ControlError> {
        self.explain(&request.target).await.map(Box::new)
    }

    async fn get_ladder(&self, request: query::Ladder) -> Result<Box<Ladder>, ControlError> {
        Ok(Box::new(self.purging.ladder(&request.what).await?.ladder))
    }

    async fn list_orphans(&self, request: query::Orphans) -> Result<Paged<Orphan>, ControlError> {
        let (rows, next) = self
            .orphans
            .list(page_of(request.cursor, request.limit))
            .await?;
        Ok(Paged { rows, next })
    }

    async fn notified(
        &self,
        request: query::NotificationCursor,
    ) -> Result<NotificationCursor, ControlError> {
        let cursor = self.ledger.notification_cursor(&request.channel).await;
        cursor.map_err(ledger_error)
    }

    async fn audit_rows(&self, request: query::Audit) -> Result<Vec<Value>, ControlError> {
        let rows = self.ledger.audit(request.after, PAGE_MAX).await;
        let rows = rows.map_err(ledger_error)?;
        let rows = rows.iter().map(serde_json::to_value);
        rows.collect::<Result<_, _>>()
            .map_err(|error| ControlError::Internal {
                message: error.to_string(),
            })
    }

    /// Returns the full id of a deletion, from its full or short id.
    async fn full_id(&self, id: &str) -> Result<String, ControlError> {
        Ok(deletion(&*self.ledger, id).await?.id)
    }

    async fn full_id_if_any(&self, id: Option<String>) -> Result<Option<String>, ControlError> {
        match id {
            Some(id) => self.full_id(&id).await.map(Some),
            None => Ok(None),
        }
    }

    fn kind_infos(&self) -> Vec<KindInfo> {
        self.kinds
            .iter()
            .map(|kind| KindInfo {
                name: kind.name.clone(),
                aliases: kind.spec.aliases.clone(),
                columns: kind.spec.columns.clone(),
                has_dependents: self.kinds.referrers(&kind.name).next().is_some(),
            })
            .collect()
    }

    /// Lists the resources of a kind at each site. Resources that are being deleted are shown in that state
    /// (T7).
    async fn list_resources(
        &self,
        request: query::Resources,
    ) -> Result<Vec<SiteListing>, ControlError> {
        let spec = request.site.map_or(SiteSpec::All, SiteSpec::Region);
        let kind = self.resolver.kind_meant(&request.kind, &spec)?;
        let sites = self.resolver.sites_with(kind, &spec)?;
        let listed = self.kinds.listed(kind);
        let listings = sites.iter().map(|site| async move {
            let request = ListRows {
                site,
                kind: listed,
                filter: None,
                fields: Fields::All,
                rows_max: None,
            };
            // People see the failure and ask again, so the read is paced and not repeated.
            let permit = self.sites.permit(site).await;
            let listing = self.cloud.list(request).await;
            drop(permit);
            self.reads.site_answered(site, listing.as_ref().err());
            let mut class = listing.as_ref().err().map(class_of);
            let (mut rows, mut error) = match listing {
                Ok(listing) => {
                    let found = listing
                        .rows
                        .iter()
                        .flat_map(|row| self.kinds.resources_in(site, listed, row));
                    (
                        found.filter(|found| found.key.kind == kind.name).collect(),
                        None,
                    )
                }
                Err(failure) => (Vec::new(), Some(failure.message)),
            };
            if kind.spec.unknown.is_some()
                && error.is_none()
                && let Err(failure) = tally(&self.reads, site, kind, &mut rows).await
            {
                class = Some(class_of(&failure));
                error = Some(format!(
                    "gone cannot tell which resources belong to these: {}",
                    failure.message
                ));
            }
            if let Err(unread) = self.mark_deleting(&mut rows).await {
                error = Some(format!(
                    "gone cannot tell which of these are being deleted: {unread}"
                ));
            }
            SiteListing {
                site: site.clone(),
                rows,
                error,
                class,
                at: self.clock.now(),
            }
        });
        Ok(futures_util::future::join_all(listings).await)
    }

    /// Shows each resource that is being deleted in the state that its kind names.
    async fn mark_deleting(&self, rows: &mut [Resource]) -> Result<(), LedgerError> {
        let keys = rows.iter().map(|row| row.key.clone()).collect();
        let tombstones = self.ledger.tombstones_of(keys).await?;
        let doomed: std::collections::HashSet<_> = tombstones
            .into_iter()
            .filter(|tombstone| tombstone.phase == Phase::Deleting)
            .map(|tombstone| tombstone.key)
            .collect();
        for row in rows.iter_mut().filter(|row| doomed.contains(&row.key)) {
            let shown = self
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

impl Shared {
    /// Parses a search as a person typed it, with ages counted from now.
    fn search(&self, filter: &str) -> SearchQuery {
        let mut filter = SearchQuery::parse(filter);
        filter.at(self.clock.now());
        filter
    }
}

/// Answers a request as a page, the form in which answers go over the socket.
async fn page<R: Request, A: Future<Output = Result<R::Answer, ControlError>>>(
    request: R,
    answer: impl FnOnce(R) -> A,
) -> Result<Page, ControlError> {
    answer(request).await.map(R::page)
}

fn not_found(message: String) -> ControlError {
    ControlError::NotFound { message }
}

/// Returns the class of a failure. A login that may not list lacks the right.
fn class_of(failure: &CloudFailure) -> ErrorClass {
    match failure.forbidden {
        true => ErrorClass::Auth,
        false => failure.class,
    }
}

fn page_of(after: Option<String>, limit: usize) -> Cursor {
    Cursor {
        after,
        limit: if limit == 0 {
            PAGE_MAX
        } else {
            limit.min(PAGE_MAX)
        },
    }
}
