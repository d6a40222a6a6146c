//! The lists of the console's panes: stuck deletions, the retry queue, causes, sites, gates, deployments, engines,
//! the engine's reconcilers, the audit, tombstones. Pauses and resumes sites, and releases deployments and tombstones.

use axum::Json;
use axum::extract::Path;
use chrono::{DateTime, TimeDelta, Utc};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::{IntoParams, ToSchema};

use super::caller::Sent;
use super::input::{Age, Limit, Query, page_params};
use super::problem::Problem;
use super::steering::Steering;
use super::{Answer, Api, List, Taken, taken};
use crate::control::{Command, DeploymentStatus, GateStatus, SiteStatus, query};
use crate::domain::activity::ReconcilerStatus;
use crate::domain::attention::CauseGroup;
use crate::domain::engines::EngineRow;
use crate::domain::model::{
    Actor, Deletion, DeletionState, KindName, Phase, ResourceKey, Site, Step, StepState, Tombstone,
};

/// Default minimum age of `GET /stuck`: somebody may still be working on younger deletions (T10).
const STUCK_SINCE: Age = Age(TimeDelta::hours(24));

page_params! {
    ViewParams {
        older_than: Option<Age>,
        site: Option<Site>,
        kind: Option<KindName>,
    }
}

/// Deletions that wait for a person (T10).
///
/// They were requested at least 24 h ago, unless `older_than` says otherwise; `0s` lists all.
#[utoipa::path(get, path = "/stuck", operation_id = "listStuck", tag = "views", params(ViewParams),
    responses((status = 200, body = List<Deletion>)))]
pub(super) async fn stuck(api: Api, Query(params): Query<ViewParams>) -> Answer<List<Deletion>> {
    let deletions = query::Deletions {
        states: vec![DeletionState::Stuck],
        site: api.site(params.site)?,
        kind: api.kind(params.kind).await?,
        older_than: Some(api.before(params.older_than.unwrap_or(STUCK_SINCE))),
        cursor: params.cursor,
        limit: params.limit.0,
    };
    api.ask(deletions).await.map(List::json)
}

/// The retry queue: blocked steps, with their attempts, blockers and next attempt (I2).
#[utoipa::path(get, path = "/gc", operation_id = "listRetryQueue", tag = "views", params(ViewParams),
    responses((status = 200, body = List<Step>)))]
pub(super) async fn retry_queue(api: Api, Query(params): Query<ViewParams>) -> Answer<List<Step>> {
    let steps = query::Steps {
        states: vec![StepState::Blocked],
        site: api.site(params.site)?,
        kind: api.kind(params.kind).await?,
        older_than: params.older_than.map(|age| api.before(age)),
        cursor: params.cursor,
        limit: params.limit.0,
        ..query::Steps::default()
    };
    api.ask(steps).await.map(List::json)
}

/// The parameters of a list that is always whole, on one page: it takes none.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct NoParams {}

/// Declares lists that are always whole, on one page.
macro_rules! whole_lists {
    ($($(#[$words:meta])* $name:ident, $path:literal, $id:literal, $tag:literal => $query:expr, $row:ident;)*) => {$(
        $(#[$words])*
        #[utoipa::path(get, path = $path, operation_id = $id, tag = $tag, responses((status = 200, body = List<$row>)))]
        pub(super) async fn $name(
            api: Api,
            Query(NoParams {}): Query<NoParams>,
        ) -> Answer<List<$row>> {
            api.ask($query).await.map(List::whole)
        }
    )*};
}

whole_lists! {
    /// The steps that need a person, grouped by cause; the largest group first.
    causes, "/causes", "listCauses", "steps" => query::Causes::default(), CauseGroup;
    /// All sites.
    sites, "/sites", "listSites", "sites" => query::Sites {}, SiteStatus;
    /// All gates, with counts of their requests since they opened.
    gates, "/gates", "listGates", "sites" => query::Gates {}, GateStatus;
    /// All deployments that refer to this one, and those that it refers to; empty if this engine has no `[deployment]`.
    deployments, "/deployments", "listDeployments", "deployments" => query::Deployments {}, DeploymentStatus;
    /// The engines that share the ledger, the one that leads first.
    engines, "/engines", "listEngines", "views" => query::Engines {}, EngineRow;
    /// All reconcilers of the engine: what each does, did last and does next.
    reconcilers, "/engine", "listReconcilers", "views" => query::Reconcilers {}, ReconcilerStatus;
}

#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Path)]
pub(super) struct BySite {
    /// `CLOUD/REGION`, percent-encoded: `prod%2FRegionOne`.
    #[param(value_type = String)]
    site: Site,
}

/// Send nothing to a site until it is resumed; 409 if it is paused already.
#[utoipa::path(post, path = "/sites/{site}/pause", operation_id = "pauseSite", tag = "sites", params(BySite),
    request_body = Option<Steering>, responses((status = 202, body = SiteStatus)))]
pub(super) async fn pause_site(Path(it): Path<BySite>, sent: Sent<Steering>) -> Taken<SiteStatus> {
    sent.site(it.site, |site| Command::PauseSite { site }).await
}

/// Resume a paused site.
#[utoipa::path(post, path = "/sites/{site}/resume", operation_id = "resumeSite", tag = "sites", params(BySite),
    request_body = Option<Steering>, responses((status = 202, body = SiteStatus)))]
pub(super) async fn resume_site(Path(it): Path<BySite>, sent: Sent<Steering>) -> Taken<SiteStatus> {
    sent.site(it.site, |site| Command::ResumeSite { site })
        .await
}

impl Sent<Steering> {
    async fn site(self, site: Site, command: fn(Site) -> Command) -> Taken<SiteStatus> {
        self.0.site(Some(site.clone()))?;
        let api = self.submit(command(site.clone())).await?;
        let sites = api.ask(query::Sites {}).await?;
        match sites.into_iter().find(|row| row.site == site) {
            Some(row) => taken(row),
            None => Err(Problem::not_found(format!("no site {site}"))),
        }
    }
}

/// The release of a deployment.
#[derive(Serialize, ToSchema)]
pub(super) struct Released {
    /// The deployment's name.
    released: String,
}

/// Stop waiting for the clearance of a deployment that is gone for good; references that it still has may dangle.
///
/// 404 if no deployment of this name is on record.
#[utoipa::path(post, path = "/deployments/{name}/release", operation_id = "releaseDeployment", tag = "deployments",
    params(("name" = String, Path, description = "The name of a deployment on record, percent-encoded.")),
    request_body = Option<Steering>, responses((status = 202, body = Released)))]
pub(super) async fn release_importer(
    Path(released): Path<String>,
    sent: Sent<Steering>,
) -> Taken<Released> {
    let name = released.clone();
    sent.submit(Command::ReleaseImporter { name }).await?;
    taken(Released { released })
}

#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct AuditParams {
    /// `next` of the previous page; any other value is 400.
    #[param(value_type = Option<String>)]
    cursor: Option<i64>,
}

/// A row of the audit, which the ledger writes as JSON.
#[derive(ToSchema)]
#[expect(dead_code)]
struct AuditRow {
    seq: i64,
    at: DateTime<Utc>,
    actor: Actor,
    action: String,
    target: String,
    reason: String,
    /// The details of the action.
    detail: Value,
    /// SHA-256 over the previous hash and this row: the rows form a chain (P6).
    hash: String,
}

/// The audit: one row for each action, oldest first.
///
/// `next` is null only on an empty page.
#[utoipa::path(get, path = "/audit", operation_id = "listAudit", tag = "views", params(AuditParams),
    responses((status = 200, body = List<AuditRow>)))]
pub(super) async fn audit(api: Api, Query(params): Query<AuditParams>) -> Answer<List<Value>> {
    let after = params.cursor.unwrap_or_default();
    let items = api.ask(query::Audit { after }).await?;
    let next = items.last().and_then(|row| row["seq"].as_i64());
    let next = next.map(|seq| seq.to_string());
    Ok(Json(List { items, next }))
}

page_params! {
    TombstoneParams {
        site: Option<Site>,
        kind: Option<KindName>,
        /// One or several phases, separated by commas.
        #[serde(default)]
        #[param(style = Form, explode = false)]
        phase: Vec<Phase>,
        /// The resource's id.
        id: Option<String>,
    }
}

/// The tombstones of resources that are being deleted or were deleted, for other engines' filters (I8).
#[utoipa::path(get, path = "/tombstones", operation_id = "listTombstones", tag = "tombstones",
    params(TombstoneParams), responses((status = 200, body = List<Tombstone>)))]
pub(super) async fn tombstones(
    api: Api,
    Query(params): Query<TombstoneParams>,
) -> Answer<List<Tombstone>> {
    let tombstones = query::Tombstones {
        site: api.site(params.site)?,
        kind: api.kind(params.kind).await?,
        phases: params.phase,
        id: params.id,
        cursor: params.cursor,
        limit: params.limit.0,
    };
    api.ask(tombstones).await.map(List::json)
}

#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Path)]
pub(super) struct ByKey {
    /// `CLOUD/REGION`, percent-encoded: `prod%2FRegionOne`.
    #[param(value_type = String)]
    site: Site,
    /// The kind's name in the kinds files: `network`.
    #[param(value_type = String)]
    kind: KindName,
    /// The resource's id, percent-encoded.
    id: String,
}

/// One tombstone.
#[utoipa::path(get, path = "/tombstones/{site}/{kind}/{id}", operation_id = "getTombstone", tag = "tombstones",
    params(ByKey), responses((status = 200, body = Tombstone)))]
pub(super) async fn tombstone(api: Api, Path(by): Path<ByKey>) -> Answer<Tombstone> {
    let key = api.key(by)?;
    api.tombstone(key).await.map(Json)
}

/// Release the tombstone of a resource that still exists.
///
/// 409 if the resource is not confirmed to exist, or a deletion works on it.
#[utoipa::path(post, path = "/tombstones/{site}/{kind}/{id}/release", operation_id = "release", tag = "tombstones",
    params(ByKey), request_body = Option<Steering>, responses((status = 202, body = Tombstone)))]
pub(super) async fn release(Path(by): Path<ByKey>, sent: Sent<Steering>) -> Taken<Tombstone> {
    let key = sent.0.key(by)?;
    let api = sent.submit(Command::Release { key: key.clone() }).await?;
    taken(api.tombstone(key).await?)
}

impl Api {
    fn key(&self, ByKey { site, kind, id }: ByKey) -> Result<ResourceKey, Problem> {
        self.site(Some(site.clone()))?;
        Ok(ResourceKey { site, kind, id })
    }

    async fn tombstone(&self, key: ResourceKey) -> Result<Tombstone, Problem> {
        let found = self.ask(query::Tombstones::of(key.clone())).await?;
        let first = found.rows.into_iter().next();
        first.ok_or_else(|| Problem::not_found(format!("no tombstone of {key}")))
    }
}
