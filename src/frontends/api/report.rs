//! A deletion as a whole: as a tree, and as a report with one line for each resource.

use std::collections::{HashMap, HashSet};
use std::pin::pin;

use axum::Json;
use axum::body::Body;
use axum::extract::Path;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use chrono::{DateTime, Utc};
use futures_util::{StreamExt, TryStreamExt as _, stream};
use serde::Serialize;
use serde_json::json;
use utoipa::ToSchema;

use super::deletions::ByDeletion;
use super::input::PAGE_ROWS_MAX;
use super::problem::Problem;
use super::{Answer, Api};
use crate::control::{ControlError, Pages as _, query};
use crate::domain::model::{
    Action, Blocker, DeletionState, Paged, PlanStep, Step, StepError, StepResource, StepState,
    Target,
};
use crate::domain::report::Line;

/// Maximum number of steps of a tree: the engine and the client keep the whole document in memory, about 100 MiB at
/// this size.
const TREE_STEPS_MAX: usize = 200_000;
/// Common JSON parsers accept 128 levels, and one level of steps takes two of these.
const TREE_DEPTH_MAX: usize = 32;

/// A deletion with its steps, nested.
#[derive(Serialize, ToSchema)]
pub(super) struct Tree {
    deletion_id: String,
    state: DeletionState,
    targets: Vec<Target>,
    roots: Vec<TreeNode>,
    /// Resources that the cloud itself removes (N5).
    automatic: Vec<PlanStep>,
    /// Resources that stay, and lose a reference (N2).
    unset: Vec<PlanStep>,
}

/// A step in a tree: whole where it first occurs, and by its head alone wherever another step waits for it too.
#[derive(Serialize, ToSchema)]
#[serde(untagged)]
enum TreeNode {
    Whole {
        #[serde(flatten)]
        head: NodeHead,
        why: String,
        attempts: u32,
        next_attempt_at: Option<DateTime<Utc>>,
        blockers: Vec<Blocker>,
        last_error: Option<StepError>,
        /// The steps that must go before this step.
        #[serde(skip_serializing_if = "Option::is_none")]
        #[schema(nullable = false, no_recursion)]
        children: Option<Vec<TreeNode>>,
        /// True, instead of `children`, if the steps that must go before this step are roots of their own.
        #[serde(skip_serializing_if = "Option::is_none")]
        #[schema(nullable = false)]
        truncated: Option<bool>,
    },
    Repeated {
        #[serde(flatten)]
        head: NodeHead,
        /// Always true: the step is shown whole elsewhere.
        repeated: bool,
    },
}

/// The fields of every node.
#[derive(Serialize, ToSchema)]
struct NodeHead {
    id: i64,
    resource: StepResource,
    action: Action,
    state: StepState,
}

/// The steps of a deletion, nested: the children of a step are the steps that must go before it.
///
/// Steps deeper than 32 levels are roots of their own.
#[utoipa::path(get, path = "/deletions/{id}/tree", operation_id = "getTree", tag = "deletions", params(ByDeletion),
    responses((status = 200, body = Tree)))]
pub(super) async fn tree(api: Api, Path(it): Path<ByDeletion>) -> Answer<Tree> {
    let deletion = api.deletion(it.id).await?;
    let mut steps = Vec::new();
    let mut pages = pin!(api.control.pages(steps_of(&deletion.id)));
    while let Some(page) = pages.try_next().await? {
        steps.extend(page);
        if steps.len() > TREE_STEPS_MAX {
            let message = format!(
                "a tree has at most {TREE_STEPS_MAX} steps, and this deletion has more; page through \
                 /api/v1/deletions/{}/steps",
                deletion.id
            );
            let status = StatusCode::UNPROCESSABLE_ENTITY;
            return Err(Problem::new(status, "too-large", message));
        }
    }
    api.control.complete_dependencies(&mut steps).await?;
    let frozen = query::FrozenPlan::of(&deletion.id);
    let frozen = api.control.find(frozen).await?;
    let (automatic, unset) = frozen
        .map(|plan| (plan.automatic.clone(), plan.unset.clone()))
        .unwrap_or_default();
    Ok(Json(Tree {
        deletion_id: deletion.id,
        state: deletion.state,
        targets: deletion.targets,
        roots: nested(&steps),
        automatic,
        unset,
    }))
}

fn nested(steps: &[Step]) -> Vec<TreeNode> {
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
    fn node(&mut self, step: &Step, depth: usize) -> TreeNode {
        let head = NodeHead {
            id: step.id,
            resource: step.resource.clone(),
            action: step.action,
            state: step.state,
        };
        if !self.seen.insert(step.id) {
            let repeated = true;
            return TreeNode::Repeated { head, repeated };
        }
        let known = |id: &i64| self.by_id.get(id).copied();
        let before: Vec<&Step> = step.depends_on.iter().filter_map(known).collect();
        let is_truncated = depth + 1 == TREE_DEPTH_MAX && !before.is_empty();
        let children = (!is_truncated).then(|| {
            let before = before.into_iter();
            before.map(|step| self.node(step, depth + 1)).collect()
        });
        TreeNode::Whole {
            head,
            why: step.why.clone(),
            attempts: step.attempts,
            next_attempt_at: step.next_attempt_at,
            blockers: step.blockers.clone(),
            last_error: step.last_error.clone(),
            children,
            truncated: is_truncated.then_some(true),
        }
    }
}

/// A report, which is written as a stream.
#[derive(ToSchema)]
#[expect(dead_code)]
struct ReportDocument {
    data: Vec<Line>,
}

/// The outcome for each resource, at any time (N10).
#[utoipa::path(get, path = "/deletions/{id}/report", operation_id = "getReport", tag = "deletions",
    params(ByDeletion), responses((status = 200, body = ReportDocument)))]
pub(super) async fn report(api: Api, Path(it): Path<ByDeletion>) -> Result<Response, Problem> {
    let deletion = api.deletion(it.id).await?;
    let frozen = query::FrozenPlan::of(&deletion.id);
    let frozen = api.control.find(frozen).await?;
    let lines = Line::without_a_step(&deletion, frozen.as_deref());
    let start = ("{\"data\":[", lines, Some(steps_of(&deletion.id)));
    // Each piece of the text has the lines of a page of steps; the first one begins with the lines without a step.
    let pieces = stream::try_unfold(start, move |(before, mut lines, page)| {
        let control = api.control.clone();
        async move {
            let Some(page) = page else { return Ok(None) };
            let Paged { rows, next } = control.ask(page.clone()).await?;
            lines.extend(rows.iter().map(Line::of));
            let lines: Vec<String> = lines.iter().map(|line| json!(line).to_string()).collect();
            let after = if next.is_none() { "]}" } else { "" };
            let text = format!("{before}{}{after}", lines.join(","));
            let further = next.map(|next| page.at_cursor(next));
            // A page that has a next one is not empty, so a comma is due.
            Ok::<_, ControlError>(Some((text, (",", Vec::new(), further))))
        }
    });
    let mut pieces = Box::pin(pieces);
    // The first page is read before the answer begins, because a failure can then still be a problem document.
    let first = pieces.try_next().await?;
    let body = stream::iter(first.map(Ok)).chain(pieces);
    let json = [(header::CONTENT_TYPE, "application/json")];
    Ok((json, Body::from_stream(body)).into_response())
}

fn steps_of(deletion_id: &str) -> query::Steps {
    query::Steps {
        limit: PAGE_ROWS_MAX,
        ..query::Steps::of(deletion_id)
    }
}
