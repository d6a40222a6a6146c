//! Answers queries, each by the type of its request.

use std::sync::Arc;

use serde_json::Value;

use super::PAGE_MAX;
use super::activity::Activities;
use super::copies::CopySearch;
use super::explain::Explaining;
use super::listings::Listings;
use super::orphans::Orphans;
use super::peers::{Federation, required};
use super::purge::Purging;
use super::records::{deletion, saved_plan, step};
use super::registry::NativeResources;
use super::sites::Sites;
use crate::control::query::{self, Counted, Handler};
use crate::control::traffic::Counters;
use crate::control::{
    ControlError, DeploymentStatus, Explanation, GateStatus, KindInfo, SiteCount, SiteListing,
    SiteProgress, SiteStatus,
};
use crate::domain::activity::ReconcilerStatus;
use crate::domain::attention::CauseGroup;
use crate::domain::engines::{EngineRole, EngineRow};
use crate::domain::filter::SearchQuery;
use crate::domain::gantt::{Gantt, Upcoming};
use crate::domain::kinds::{Kind, Kinds};
use crate::domain::ladder::Ladder;
use crate::domain::last_day::LastDay;
use crate::domain::last_hour::LastHour;
use crate::domain::model::{Deletion, Event, Orphan, Paged, Plan, Step, StepState, Tombstone};
use crate::domain::notification::NotificationCursor;
use crate::domain::outline::Outline;
use crate::domain::peers::Answers;
use crate::ledger::{Cursor, DeletionFilter, EventFilter, Ledger, StepFilter, TombstoneFilter};
use crate::system::clock::Clock;
use crate::system::machine::host;

/// Maximum number of columns of a chart, more than any screen has.
const COLUMNS_MAX: u32 = 1_000;

/// Answers every query.
pub(super) struct Queries {
    pub(super) clock: Clock,
    pub(super) ledger: Arc<dyn Ledger>,
    pub(super) kinds: Arc<Kinds>,
    pub(super) sites: Arc<Sites>,
    pub(super) gates: Arc<Counters>,
    pub(super) copies: Arc<CopySearch>,
    pub(super) listings: Listings,
    pub(super) explaining: Explaining,
    pub(super) purging: Arc<Purging>,
    pub(super) orphans: Arc<Orphans>,
    pub(super) native: Arc<NativeResources>,
    pub(super) activities: Arc<Activities>,
    /// Exchanges messages with other deployments; none for an engine without `[deployment]`.
    pub(super) federation: Option<Arc<Federation>>,
}

impl Queries {
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

    /// Parses a search as a person typed it, with ages counted from now.
    fn search(&self, filter: &str) -> SearchQuery {
        let mut filter = SearchQuery::parse(filter);
        filter.set_now(self.clock.now());
        filter
    }
}

impl Handler<query::Deletions> for Queries {
    async fn handle(&self, request: query::Deletions) -> Result<Paged<Deletion>, ControlError> {
        let filter = DeletionFilter {
            states: request.states,
            site: request.site,
            kind: request.kind,
            older_than: request.older_than,
            oldest_first: false,
        };
        let page = page_of(request.cursor, request.limit);
        Ok(self.ledger.deletions(filter, page).await?)
    }
}

impl Handler<query::Deletion> for Queries {
    async fn handle(&self, request: query::Deletion) -> Result<Box<Deletion>, ControlError> {
        deletion(&*self.ledger, &request.id).await.map(Box::new)
    }
}

impl Handler<query::Progress> for Queries {
    async fn handle(&self, request: query::Progress) -> Result<Vec<SiteProgress>, ControlError> {
        let id = self.full_id(&request.deletion_id).await?;
        let progress = self.ledger.progress(&id).await?;
        let progress = progress.into_iter();
        Ok(progress
            .map(|(site, counts)| SiteProgress { site, counts })
            .collect())
    }
}

impl Handler<query::Steps> for Queries {
    async fn handle(&self, request: query::Steps) -> Result<Paged<Step>, ControlError> {
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
        Ok(self.ledger.steps(filter, page).await?)
    }
}

impl Handler<query::StepCount> for Queries {
    async fn handle(&self, request: query::StepCount) -> Result<Counted, ControlError> {
        let filter = StepFilter {
            deletion_id: request.deletion_id,
            states: request.states,
            cause: request.cause,
            text: self.search(&request.filter),
            ..StepFilter::default()
        };
        let (steps, next) = self.ledger.count_steps(filter, request.cursor).await?;
        Ok(Counted { steps, next })
    }
}

impl Handler<query::Outline> for Queries {
    async fn handle(&self, request: query::Outline) -> Result<Outline, ControlError> {
        let id = self.full_id(&request.deletion_id).await?;
        let mut below = request.below;
        below.truncate(PAGE_MAX);
        Ok(self.ledger.outline(&id, below).await?)
    }
}

impl Handler<query::BranchSteps> for Queries {
    async fn handle(&self, request: query::BranchSteps) -> Result<Vec<Step>, ControlError> {
        let id = self.full_id(&request.deletion_id).await?;
        let (counts, from, limit) = (request.counts, request.from, request.limit);
        let steps = self
            .ledger
            .branch_steps(&id, request.branch, counts, from, limit);
        Ok(steps.await?)
    }
}

impl Handler<query::Chart> for Queries {
    async fn handle(&self, request: query::Chart) -> Result<Gantt, ControlError> {
        let id = self.full_id(&request.deletion_id).await?;
        let (columns, now) = (request.columns.min(COLUMNS_MAX), self.clock.now());
        let chart = self.ledger.gantt(&id, columns, now).await?;
        chart.ok_or_else(|| ControlError::not_found(format!("no deletion {id}")))
    }
}

impl Handler<query::Upcoming> for Queries {
    async fn handle(&self, _: query::Upcoming) -> Result<Upcoming, ControlError> {
        Ok(self.ledger.upcoming(self.clock.now()).await?)
    }
}

impl Handler<query::LastHour> for Queries {
    async fn handle(&self, _: query::LastHour) -> Result<LastHour, ControlError> {
        Ok(self.ledger.last_hour(self.clock.now()).await?)
    }
}

impl Handler<query::LastDay> for Queries {
    async fn handle(&self, _: query::LastDay) -> Result<LastDay, ControlError> {
        Ok(self.ledger.last_day(self.clock.now()).await?)
    }
}

impl Handler<query::Causes> for Queries {
    async fn handle(&self, request: query::Causes) -> Result<Vec<CauseGroup>, ControlError> {
        Ok(self.ledger.causes(request.sites).await?)
    }
}

impl Handler<query::Step> for Queries {
    async fn handle(&self, query::Step { id }: query::Step) -> Result<Box<Step>, ControlError> {
        step(&*self.ledger, id).await.map(Box::new)
    }
}

impl Handler<query::Timeline> for Queries {
    async fn handle(&self, request: query::Timeline) -> Result<Vec<Event>, ControlError> {
        let filter = EventFilter {
            deletion_id: self.full_id_if_any(request.deletion_id).await?,
            step_id: request.step_id,
        };
        let page = self.ledger.events(request.after, filter, PAGE_MAX).await?;
        Ok(page.events)
    }
}

impl Handler<query::Tombstones> for Queries {
    async fn handle(&self, request: query::Tombstones) -> Result<Paged<Tombstone>, ControlError> {
        let filter = TombstoneFilter {
            site: request.site,
            kind: request.kind,
            phases: request.phases,
            id: request.id,
        };
        let page = page_of(request.cursor, request.limit);
        Ok(self.ledger.tombstones(filter, page).await?)
    }
}

impl Handler<query::TombstonesOf> for Queries {
    async fn handle(&self, request: query::TombstonesOf) -> Result<Vec<Tombstone>, ControlError> {
        let mut keys = request.keys;
        keys.truncate(PAGE_MAX);
        Ok(self.ledger.tombstones_of(keys).await?)
    }
}

impl Handler<query::ShownBefore> for Queries {
    async fn handle(&self, request: query::ShownBefore) -> Result<Option<Value>, ControlError> {
        Ok(self.ledger.shown_before(request.key).await?)
    }
}

impl Handler<query::WholeOf> for Queries {
    async fn handle(&self, request: query::WholeOf) -> Result<Option<Tombstone>, ControlError> {
        Ok(self.ledger.whole_of(request.part).await?)
    }
}

impl Handler<query::Plan> for Queries {
    async fn handle(&self, request: query::Plan) -> Result<Arc<Plan>, ControlError> {
        saved_plan(&*self.ledger, &request.hash, self.clock.now()).await
    }
}

impl Handler<query::FrozenPlan> for Queries {
    async fn handle(&self, request: query::FrozenPlan) -> Result<Arc<Plan>, ControlError> {
        let deletion = deletion(&*self.ledger, &request.deletion_id).await?;
        let plan = self
            .ledger
            .frozen_plan(&deletion.id, !request.without_steps)
            .await;
        plan?.ok_or_else(|| {
            let state = deletion.state.as_str();
            ControlError::not_found(format!(
                "deletion {} has no plan: it is {state}",
                deletion.id
            ))
        })
    }
}

impl Handler<query::Explain> for Queries {
    async fn handle(&self, request: query::Explain) -> Result<Box<Explanation>, ControlError> {
        self.explaining.explain(&request.target).await.map(Box::new)
    }
}

impl Handler<query::Ladder> for Queries {
    async fn handle(&self, request: query::Ladder) -> Result<Box<Ladder>, ControlError> {
        Ok(Box::new(self.purging.ladder(&request.what).await?.ladder))
    }
}

impl Handler<query::Orphans> for Queries {
    async fn handle(&self, request: query::Orphans) -> Result<Paged<Orphan>, ControlError> {
        let (rows, next) = self
            .orphans
            .list(page_of(request.cursor, request.limit))
            .await?;
        Ok(Paged { rows, next })
    }
}

impl Handler<query::NotificationCursor> for Queries {
    async fn handle(
        &self,
        request: query::NotificationCursor,
    ) -> Result<NotificationCursor, ControlError> {
        Ok(self.ledger.notification_cursor(&request.channel).await?)
    }
}

impl Handler<query::Audit> for Queries {
    async fn handle(&self, request: query::Audit) -> Result<Vec<Value>, ControlError> {
        let rows = self.ledger.audit(request.after, PAGE_MAX).await?;
        let rows = rows.iter().map(serde_json::to_value);
        rows.collect::<Result<_, _>>()
            .map_err(|error| ControlError::internal(error.to_string()))
    }
}

impl Handler<query::Namesake> for Queries {
    async fn handle(&self, request: query::Namesake) -> Result<Option<Tombstone>, ControlError> {
        self.copies.namesake(request).await
    }
}

impl Handler<query::Resources> for Queries {
    async fn handle(&self, request: query::Resources) -> Result<Vec<SiteListing>, ControlError> {
        self.listings.list(request).await
    }
}

impl Handler<query::ResourceCounts> for Queries {
    async fn handle(&self, request: query::ResourceCounts) -> Result<Vec<SiteCount>, ControlError> {
        self.listings.count(request.kind).await
    }
}

impl Handler<query::Native> for Queries {
    async fn handle(&self, request: query::Native) -> Result<Paged<Value>, ControlError> {
        self.native.list(request).await
    }
}

impl Handler<query::Sites> for Queries {
    async fn handle(&self, _: query::Sites) -> Result<Vec<SiteStatus>, ControlError> {
        Ok(self.sites.statuses())
    }
}

impl Handler<query::Gates> for Queries {
    async fn handle(&self, _: query::Gates) -> Result<Vec<GateStatus>, ControlError> {
        Ok(self.gates.statuses())
    }
}

impl Handler<query::Kinds> for Queries {
    async fn handle(&self, _: query::Kinds) -> Result<Vec<KindInfo>, ControlError> {
        let info = |kind: &Kind| KindInfo {
            name: kind.name.clone(),
            aliases: kind.spec.aliases.clone(),
            columns: kind.spec.columns.clone(),
            fields: self.kinds.fields_of(kind),
            has_dependents: self.kinds.referrers(&kind.name).next().is_some(),
            is_counted: (kind.spec.list.is_some() || kind.is_native())
                && kind.spec.unknown.is_none()
                && !kind.is_listed_within(),
        };
        Ok(self.kinds.iter().map(info).collect())
    }
}

impl Handler<query::ClearanceAnswers> for Queries {
    async fn handle(&self, request: query::ClearanceAnswers) -> Result<Answers, ControlError> {
        let federation = required(self.federation.as_ref())?;
        federation.references.points_at(request.question).await
    }
}

impl Handler<query::Deployments> for Queries {
    async fn handle(&self, _: query::Deployments) -> Result<Vec<DeploymentStatus>, ControlError> {
        match &self.federation {
            Some(federation) => federation.statuses().await,
            None => Ok(Vec::new()),
        }
    }
}

impl Handler<query::Engines> for Queries {
    /// Lists the engines of this ledger. An engine without a lease is the only one of its ledger.
    async fn handle(&self, _: query::Engines) -> Result<Vec<EngineRow>, ControlError> {
        let engines = self.ledger.engines().await?;
        if !engines.is_empty() {
            return Ok(engines);
        }
        let status = self.listings.reads.journal.status();
        let filter = StepFilter {
            states: vec![StepState::Running],
            ..StepFilter::default()
        };
        let (running, _) = self.ledger.count_steps(filter, None).await?;
        Ok(vec![EngineRow {
            name: String::new(),
            role: EngineRole::Leads,
            epoch: status.epoch,
            host: host(),
            pid: status.pid,
            version: status.version,
            started_at: status.started_at.unwrap_or_else(|| self.clock.now()),
            renewed_at: None,
            running,
            has_gates: false,
            behind: 0,
        }])
    }
}

impl Handler<query::Reconcilers> for Queries {
    async fn handle(&self, _: query::Reconcilers) -> Result<Vec<ReconcilerStatus>, ControlError> {
        Ok(self.activities.statuses())
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
