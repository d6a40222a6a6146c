//! A whole deletion: as a tree, and as a report with one line for each resource.

use crate::control::query::if_found;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use axum::Json;
use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use futures_util::{StreamExt, stream};
use serde_json::{Value, json};

use super::Api;
use super::input::PAGE_ROWS_MAX;
use super::problem::Problem;
use crate::control::{ControlError, query};
use crate::domain::model::{Paged, Plan, Step};
use crate::domain::report::Line;

/// Most steps of a tree: both sides hold the whole document in memory, about 100 MiB at this size.
const TREE_STEPS_MAX: usize = 200_000;
/// Common JSON parsers stop at 128 levels; a level of ours is two of theirs.
const TREE_DEPTH_MAX: usize = 32;

/// `GET /deletions/{id}/tree`: `{deletion_id, state, roots: [node], automatic: [], unset: []}`. A node
/// is `{id, resource, action, state, …, children: [node]}`, its children what must go before it.
///
/// A step that several wait for is shown whole under the first and as `{id, resource, state,
/// repeated: true}` under the others. What lies deeper than 32 levels starts a root of its own.
pub(super) async fn tree(
    State(api): State<Api>,
    Path(id): Path<String>,
) -> Result<Json<Value>, Problem> {
    let deletion = api.deletion(id).await?;
    let mut steps = Vec::new();
    let mut cursor = None;
    loop {
        let Paged { rows: page, next } = api.step_page(&deletion.id, cursor).await?;
        steps.extend(page);
        if steps.len() > TREE_STEPS_MAX {
            return Err(Problem::new(
                StatusCode::UNPROCESSABLE_ENTITY,
                "too-large",
                format!(
                    "more than {TREE_STEPS_MAX} steps make no tree; page through /api/v1/deletions/{}/steps",
                    deletion.id
                ),
            ));
        }
        match next {
            Some(next) => cursor = Some(next),
            None => break,
        }
    }
    let frozen = api.frozen(&deletion.id).await?;
    let (automatic, unset) = frozen
        .as_ref()
        .map_or((&[][..], &[][..]), |plan| (&plan.automatic, &plan.unset));
    Ok(Json(json!({
        "deletion_id": deletion.id,
        "state": deletion.state,
        "targets": deletion.targets,
        "roots": nested(&steps),
        "automatic": automatic,
        "unset": unset,
    })))
}

fn nested(steps: &[Step]) -> Vec<Value> {
    let awaited: HashSet<i64> = steps.iter().flat_map(|s| s.depends_on.clone()).collect();
    let mut forest = Forest {
        by_id: steps.iter().map(|step| (step.id, step)).collect(),
        seen: HashSet::new(),
    };
    // First the steps that no other step waits for; then those that were too deep below them.
    let (inner, roots): (Vec<&Step>, Vec<&Step>) =
        steps.iter().partition(|step| awaited.contains(&step.id));
    let mut nodes = Vec::new();
    for step in roots.into_iter().chain(inner) {
        if !forest.seen.contains(&step.id) {
            nodes.push(forest.node(step, 0));
        }
    }
    nodes
}

struct Forest<'a> {
    by_id: HashMap<i64, &'a Step>,
    seen: HashSet<i64>,
}

impl Forest<'_> {
    fn node(&mut self, step: &Step, depth: usize) -> Value {
        let mut node = json!({
            "id": step.id,
            "resource": step.resource,
            "action": step.action,
            "state": step.state,
        });
        if !self.seen.insert(step.id) {
            node["repeated"] = json!(true);
            return node;
        }
        node["why"] = json!(step.why);
        node["attempts"] = json!(step.attempts);
        node["next_attempt_at"] = json!(step.next_attempt_at);
        node["blockers"] = json!(step.blockers);
        node["last_error"] = json!(step.last_error);
        let before: Vec<&Step> = step
            .depends_on
            .iter()
            .filter_map(|id| self.by_id.get(id).copied())
            .collect();
        if depth + 1 == TREE_DEPTH_MAX && !before.is_empty() {
            node["truncated"] = json!(true);
            return node;
        }
        let children: Vec<Value> = before
            .into_iter()
            .map(|step| self.node(step, depth + 1))
            .collect();
        node["children"] = json!(children);
        node
    }
}

/// `GET /deletions/{id}/report`: `{"data": [{message, resource: {name, id, kind, site}, action,
/// status}]}`, at any time (N10), streamed; each line as [`Line`] says.
pub(super) async fn report(
    State(api): State<Api>,
    Path(id): Path<String>,
) -> Result<Response, Problem> {
    let deletion = api.deletion(id).await?;
    let frozen = api.frozen(&deletion.id).await?;
    let lines = Line::without_a_step(&deletion, frozen.as_deref());
    let report = Report {
        api,
        deletion_id: deletion.id,
        text: "{\"data\":[".to_owned(),
        lines,
        cursor: None,
    };
    // The first page before the answer begins: only then can a failure still be a problem document.
    let (first, rest) = report.page().await?;
    let rest = stream::try_unfold(rest, |report| async move {
        match report {
            Some(report) => report.page().await.map(Some),
            None => Ok::<_, ControlError>(None),
        }
    });
    let body = stream::once(async { Ok(first) }).chain(rest);
    let json = [(header::CONTENT_TYPE, "application/json")];
    Ok((json, Body::from_stream(body)).into_response())
}

/// A report that is being written, a page of steps at a time.
struct Report {
    api: Api,
    deletion_id: String,
    /// Separator before the next line.
    text: String,
    /// Lines that precede the next page.
    lines: Vec<Line>,
    cursor: Option<String>,
}

impl Report {
    async fn page(mut self) -> Result<(String, Option<Self>), ControlError> {
        let Paged { rows: steps, next } =
            self.api.step_page(&self.deletion_id, self.cursor).await?;
        self.lines.extend(steps.iter().map(Line::of));
        let mut text = self.text;
        for (at, line) in self.lines.drain(..).enumerate() {
            if at > 0 {
                text.push(',');
            }
            text.push_str(&json!(line).to_string());
        }
        if next.is_none() {
            text.push_str("]}");
            return Ok((text, None));
        }
        // A page that has a next one is not empty, so a comma is due.
        self.text = ",".to_owned();
        self.cursor = next;
        let rest = Self { ..self };
        Ok((text, Some(rest)))
    }
}

impl Api {
    async fn step_page(
        &self,
        deletion_id: &str,
        cursor: Option<String>,
    ) -> Result<Paged<Step>, ControlError> {
        let steps = query::Steps {
            deletion_id: Some(deletion_id.to_owned()),
            cursor,
            limit: PAGE_ROWS_MAX,
            ..query::Steps::default()
        };
        self.control.ask(steps).await
    }

    /// None until there is a plan.
    async fn frozen(&self, deletion_id: &str) -> Result<Option<Arc<Plan>>, ControlError> {
        let plan = query::FrozenPlan {
            deletion_id: deletion_id.to_owned(),
            without_steps: false,
        };
        if_found(self.control.ask(plan).await)
    }
}
