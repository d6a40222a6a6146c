//! Liveness, readiness and metrics of the engine, from the snapshot alone (none of them waits for a cloud), and
//! the description of the API.

use std::fmt::Write as _;

use axum::Json;
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use serde::Serialize;
use utoipa::ToSchema;

use super::problem::Problem;
use super::{Answer, Api};
use crate::control::{SiteState, SiteStatus, Snapshot};
use crate::domain::model::StepState;
use crate::present::joined;

/// Whether the engine runs, or is ready to take work.
#[derive(Serialize, ToSchema)]
pub(super) struct Status {
    /// `ok` or `ready`.
    status: &'static str,
}

/// Whether the process answers.
#[utoipa::path(get, path = "/healthz", operation_id = "getHealth", tag = "engine",
    responses((status = 200, body = Status)))]
pub(super) async fn live() -> Json<Status> {
    Json(Status { status: "ok" })
}

/// Whether the engine takes work: it holds its ledger's lease, has no fault and reaches a cloud.
///
/// Otherwise the answer is 503, with the reason.
#[utoipa::path(get, path = "/readyz", operation_id = "getReadiness", tag = "engine",
    responses((status = 200, body = Status)))]
pub(super) async fn ready(api: Api) -> Answer<Status> {
    let snapshot = api.control.snapshot().borrow().clone();
    match why_not_ready(&snapshot) {
        None => Ok(Json(Status { status: "ready" })),
        Some(why) => {
            let status = StatusCode::SERVICE_UNAVAILABLE;
            Err(Problem::new(status, "not-ready", why))
        }
    }
}

fn why_not_ready(snapshot: &Snapshot) -> Option<String> {
    if let Some(fault) = &snapshot.engine.fault {
        return Some(fault.clone());
    }
    if snapshot.engine.epoch == 0 {
        return Some("this engine does not hold the ledger's lease yet".to_owned());
    }
    if snapshot.sites.is_empty() {
        return Some("no cloud is configured".to_owned());
    }
    let mut sites = snapshot.sites.iter();
    if sites.any(|site| site.state == SiteState::Reachable) {
        return None;
    }
    let sites = snapshot.sites.iter();
    let why = sites.map(|site| format!("{} ({})", site.site, site.reason));
    Some(format!("no cloud is reachable: {}", joined(why, ", ")))
}

/// This document: the API for programs, as OpenAPI 3.1.
#[utoipa::path(get, path = "/openapi.json", operation_id = "getDescription", tag = "engine",
    responses((status = 200, body = Object)))]
pub(super) async fn description() -> impl IntoResponse {
    (
        [(header::CONTENT_TYPE, "application/json")],
        super::description(),
    )
}

/// Metrics, in Prometheus' text format.
#[utoipa::path(get, path = "/metrics", operation_id = "getMetrics", tag = "engine",
    responses((status = 200, body = String, content_type = "text/plain")))]
pub(super) async fn metrics(api: Api) -> impl IntoResponse {
    let snapshot = api.control.snapshot().borrow().clone();
    (
        [(header::CONTENT_TYPE, "text/plain; version=0.0.4")],
        exposition(&snapshot),
    )
}

fn exposition(snapshot: &Snapshot) -> String {
    let engine = &snapshot.engine;
    let mut text = Exposition(String::new());
    let epoch = engine.epoch.to_string();
    let info = labels(&[("version", &engine.version), ("epoch", &epoch)]);
    text.gauge(
        "gone_engine_info",
        "The engine's version and epoch, as labels; the value is always 1.",
        [(info, 1.0)],
    );
    let fault = f64::from(engine.fault.is_some());
    text.single(
        "gone_engine_fault",
        "1 while the engine takes no new work.",
        fault,
    );
    let read_only = f64::from(engine.read_only);
    let help = "1 if the engine sends no call that changes a cloud.";
    text.single("gone_engine_read_only", help, read_only);
    let by_state = |state: &str, count: u64| (labels(&[("state", state)]), count as f64);
    let deletions = snapshot.deletions_by_state.iter();
    let deletions = deletions.map(|(state, count)| by_state(state, *count));
    text.gauge("gone_deletions", "Deletions by state.", deletions);
    let steps = StepState::ALL.map(|state| by_state(state.as_str(), snapshot.steps.of(state)));
    text.gauge("gone_steps", "Steps by state.", steps);
    let rate = snapshot.rate_per_second;
    let help = "Steps that clouds accepted per second, over the last minute.";
    text.single("gone_steps_gone_per_second", help, rate);
    let (help, newest) = (
        "Sequence number of the newest event.",
        snapshot.last_event as f64,
    );
    text.single("gone_events_last_seq", help, newest);
    let by_site = |value: fn(&SiteStatus) -> Option<f64>| {
        snapshot.sites.iter().filter_map(move |status| {
            let site = labels(&[("site", &status.site.to_string())]);
            value(status).map(|value| (site, value))
        })
    };
    let reachable = by_site(|site| Some(f64::from(site.state == SiteState::Reachable)));
    text.gauge("gone_site_reachable", "1 if the site answers.", reachable);
    let in_flight = by_site(|site| Some(site.in_flight as f64));
    text.gauge("gone_site_calls_in_flight", "Calls in flight.", in_flight);
    let limit = by_site(|site| Some(site.concurrency_limit as f64));
    let help = "Calls that may be in flight.";
    text.gauge("gone_site_concurrency_limit", help, limit);
    let latency = by_site(|site| site.latency_ms.map(|ms| ms as f64 / 1000.0));
    text.gauge("gone_site_latency_seconds", "Recent latency.", latency);
    text.0
}

/// Prometheus' text while it is written. All metrics are gauges, even counts: pruning the ledger may lower them.
struct Exposition(String);

impl Exposition {
    fn single(&mut self, name: &str, help: &str, value: f64) {
        self.gauge(name, help, [(String::new(), value)]);
    }

    /// Writes a metric and its samples: the labels and the value of each.
    fn gauge(&mut self, name: &str, help: &str, samples: impl IntoIterator<Item = (String, f64)>) {
        // Writing to a String cannot fail.
        let _ = writeln!(self.0, "# HELP {name} {help}\n# TYPE {name} gauge");
        for (labels, value) in samples {
            let _ = writeln!(self.0, "{name}{labels} {value}");
        }
    }
}

/// Returns labels as Prometheus writes them: `{site="prod/RegionOne"}`.
fn labels(pairs: &[(&str, &str)]) -> String {
    let pairs = pairs.iter().map(|(label, value)| {
        let value = value.replace('\\', r"\\").replace('"', "\\\"");
        format!("{label}=\"{}\"", value.replace('\n', r"\n"))
    });
    format!("{{{}}}", joined(pairs, ","))
}
