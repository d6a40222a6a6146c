//! Liveness, readiness and metrics, from the snapshot alone: none of them waits for a cloud.

use std::fmt::Write as _;

use axum::Json;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use serde_json::{Value, json};

use super::Api;
use super::problem::Problem;
use crate::control::{SiteState, Snapshot};
use crate::domain::model::StepState;

/// `GET /healthz`: the process answers.
pub(super) async fn live() -> Json<Value> {
    Json(json!({"status": "ok"}))
}

/// `GET /readyz`: the ledger is migrated and its lease held, no fault, and a cloud reachable; else
/// 503, and why.
pub(super) async fn ready(State(api): State<Api>) -> Result<Json<Value>, Problem> {
    let snapshot = api.control.snapshot().borrow().clone();
    match why_not_ready(&snapshot) {
        None => Ok(Json(json!({"status": "ready"}))),
        Some(why) => Err(Problem::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "not-ready",
            why,
        )),
    }
}

fn why_not_ready(snapshot: &Snapshot) -> Option<String> {
    if let Some(fault) = &snapshot.engine.fault {
        return Some(fault.clone());
    }
    if snapshot.engine.epoch == 0 {
        return Some("the ledger's lease is not held yet".to_owned());
    }
    if snapshot.sites.is_empty() {
        return Some("no cloud is configured".to_owned());
    }
    let reachable = |state| state == SiteState::Reachable;
    if snapshot.sites.iter().any(|site| reachable(site.state)) {
        return None;
    }
    let why = snapshot
        .sites
        .iter()
        .map(|status| format!("{} ({})", status.site, status.reason));
    Some(format!(
        "no cloud is reachable: {}",
        why.collect::<Vec<_>>().join(", ")
    ))
}

/// `GET /metrics`, in Prometheus' text format.
pub(super) async fn metrics(State(api): State<Api>) -> impl IntoResponse {
    let snapshot = api.control.snapshot().borrow().clone();
    (
        [(header::CONTENT_TYPE, "text/plain; version=0.0.4")],
        exposition(&snapshot),
    )
}

/// Labels and value of one sample.
type Sample = (Vec<(&'static str, String)>, f64);

// Counts stay far below 2^53, up to which a float is exact.
#[allow(clippy::cast_precision_loss)]
fn exposition(snapshot: &Snapshot) -> String {
    let mut text = String::new();
    let engine = &snapshot.engine;
    let labelled = |name, label: &str, value: u64| (vec![(name, label.to_owned())], value as f64);
    let sites = |value: fn(&crate::control::SiteStatus) -> Option<f64>| -> Vec<Sample> {
        let samples = snapshot.sites.iter().filter_map(|status| {
            let site = vec![("site", status.site.to_string())];
            value(status).map(|value| (site, value))
        });
        samples.collect()
    };
    let flag = |set: bool| if set { 1.0 } else { 0.0 };
    let info = vec![
        ("version", engine.version.clone()),
        ("epoch", engine.epoch.to_string()),
    ];
    let deletions = snapshot.deletions_by_state.iter();
    let deletions = deletions.map(|(state, count)| labelled("state", state, *count));
    let steps =
        StepState::ALL.map(|state| labelled("state", state.as_str(), snapshot.steps.of(state)));
    let one = |value: f64| vec![(vec![], value)];
    let families: [(&str, &str, Vec<Sample>); 11] = [
        (
            "gone_engine_info",
            "What runs; always 1.",
            vec![(info, 1.0)],
        ),
        (
            "gone_engine_fault",
            "1 while the engine takes no new work.",
            one(flag(engine.fault.is_some())),
        ),
        (
            "gone_engine_read_only",
            "1 if no write is sent.",
            one(flag(engine.read_only)),
        ),
        ("gone_deletions", "Deletions by state.", deletions.collect()),
        ("gone_steps", "Steps by state.", steps.to_vec()),
        (
            "gone_steps_gone_per_second",
            "Over the last ten seconds.",
            one(snapshot.rate_per_second),
        ),
        (
            "gone_events_last_seq",
            "Sequence of the newest event.",
            one(snapshot.last_event as f64),
        ),
        (
            "gone_site_reachable",
            "1 if the site answers.",
            sites(|s| {
                Some(if s.state == SiteState::Reachable {
                    1.0
                } else {
                    0.0
                })
            }),
        ),
        (
            "gone_site_calls_in_flight",
            "Calls in flight.",
            sites(|s| Some(s.in_flight as f64)),
        ),
        (
            "gone_site_concurrency_limit",
            "How many calls may be in flight now.",
            sites(|s| Some(s.concurrency_limit as f64)),
        ),
        (
            "gone_site_latency_seconds",
            "Recent latency of the site's calls.",
            sites(|s| s.latency_ms.map(|ms| ms as f64 / 1000.0)),
        ),
    ];
    for (name, help, samples) in families {
        family(&mut text, name, help, samples);
    }
    text
}

/// One metric; all of ours are gauges. Writing to a `String` cannot fail.
fn family(text: &mut String, name: &str, help: &str, samples: Vec<Sample>) {
    let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} gauge");
    for (labels, value) in samples {
        let labels: Vec<String> = labels
            .iter()
            .map(|(label, value)| format!("{label}=\"{}\"", escape_label(value)))
            .collect();
        let labels = match labels.is_empty() {
            true => String::new(),
            false => format!("{{{}}}", labels.join(",")),
        };
        let _ = writeln!(text, "{name}{labels} {value}");
    }
}

fn escape_label(value: &str) -> String {
    value
        .replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('\n', "\\n")
}
