//! `/gone/v1/deletions/{id}`, for who may know of it: what an accepted cascade points at (N8, P7).

use std::collections::BTreeMap;

use http::{Response, StatusCode, request};
use serde_json::json;

use super::pass::Whole;
use super::refusal::{Refusal, name_deletion, refused};
use super::{Gate, Out};
use crate::cloud::openstack::Identity;
use crate::control::{Page, Query};
use crate::domain::model::{Actor, Deletion, Origin, Plan};
use crate::domain::report::Line;
use crate::domain::text::escape;

/// Where the gate itself tells of deletions.
pub(super) const DELETIONS: &str = "/gone/v1/deletions/";

impl Gate {
    /// One, or its report. Of what is another project's the report has only how much of it there is.
    pub(super) async fn deletion(
        &self,
        head: &request::Parts,
        path: &str,
    ) -> Result<Response<Out>, Refusal> {
        let caller = self.caller(head).await?;
        let (id, report) = match path.strip_suffix("/report") {
            Some(id) => (id, true),
            None => (path, false),
        };
        let unknown = || {
            let message = format!("deletion {} could not be found.", escape(id));
            Refusal::new(StatusCode::NOT_FOUND, "HTTPNotFound", message)
        };
        if id.contains('/') || !self.may_read(&caller, id).await {
            return Err(unknown());
        }
        let deletion = self.read_deletion(id).await.map_err(|_| unknown())?;
        let answer = match report {
            true => self.report(&caller, &deletion).await?,
            false => json!(deletion),
        };
        let mut response = Whole::json_of(&answer).relay();
        name_deletion(response.headers_mut(), Some(&deletion.id));
        Ok(response)
    }

    async fn report(
        &self,
        caller: &Identity,
        deletion: &Deletion,
    ) -> Result<serde_json::Value, Refusal> {
        let admin = self.is_admin(caller);
        let frozen = self.frozen(&deletion.id).await;
        let mut data = Vec::new();
        let mut others: BTreeMap<String, u64> = BTreeMap::new();
        let mut lines = Line::without_a_step(deletion, frozen.as_deref());
        let mut cursor = None;
        loop {
            let query = Query::Steps {
                deletion_id: Some(deletion.id.clone()),
                states: Vec::new(),
                site: None,
                kind: None,
                older_than: None,
                cursor,
                cause: None,
                filter: String::new(),
                limit: 0,
            };
            let Page::Steps { rows, next } = self.control.query(query).await.map_err(refused)?
            else {
                return Err(Refusal::unavailable("the engine answered something else"));
            };
            lines.extend(rows.iter().map(Line::of));
            for line in lines.drain(..) {
                let own = caller.project_id.as_deref() == Some(&line.project_id);
                match admin || own {
                    true => data.push(line),
                    false => *others.entry(line.status.to_string()).or_default() += 1,
                }
            }
            match next {
                Some(next) => cursor = Some(next),
                None => return Ok(json!({ "data": data, "others": others })),
            }
        }
    }

    pub(super) async fn read_deletion(&self, id: &str) -> Result<Deletion, Refusal> {
        let query = Query::Deletion { id: id.to_owned() };
        match self.control.query(query).await {
            Ok(Page::Deletion { row }) => Ok(*row),
            Ok(_) => Err(Refusal::unavailable("the engine answered something else")),
            Err(error) => Err(refused(error)),
        }
    }

    async fn frozen(&self, id: &str) -> Option<std::sync::Arc<Plan>> {
        let query = Query::FrozenPlan {
            deletion_id: id.to_owned(),
            without_steps: false,
        };
        match self.control.query(query).await {
            Ok(Page::Plan { plan }) => Some(plan),
            _ => None,
        }
    }

    /// Who asked for it, whose project its targets are of, and admins.
    pub(super) async fn may_read(&self, caller: &Identity, id: &str) -> bool {
        if self.is_admin(caller) {
            return true;
        }
        let Ok(deletion) = self.read_deletion(id).await else {
            return false;
        };
        if deletion.requested_by == actor(caller) {
            return true;
        }
        let Some(plan) = self.frozen(&deletion.id).await else {
            return false;
        };
        let of_targets = plan.steps.iter().filter(|step| {
            let key = step.key();
            plan.targets.iter().any(|target| target.key == key)
        });
        let mut projects = of_targets.map(|step| &*step.project_id).peekable();
        projects.peek().is_some() && projects.all(|it| caller.project_id.as_deref() == Some(it))
    }
}

/// As the audit and the console name who came this way.
pub(super) fn actor(caller: &Identity) -> Actor {
    let project = caller.project_id.as_deref().unwrap_or("no project");
    Actor {
        name: format!(
            "{} ({}) of {project}",
            escape(&caller.user_name),
            caller.user_id
        ),
        origin: Origin::Gate,
    }
}
