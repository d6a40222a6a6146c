//! `/gone/v1/deletions/{id}`, the address that an accepted cascade returns, and its `/report`, for callers who may read
//! the deletion (N8, P7).

use std::collections::BTreeMap;
use std::future;
use std::pin::pin;
use std::time::Duration;

use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use http::StatusCode;
use serde_json::{Value, json};
use tokio::time::sleep;

use super::pass::Whole;
use super::refusal::{Refusal, Result, name_deletion, refused};
use super::rights::Caller;
use super::route::Named;
use super::{Gate, Head};
use crate::control::query;
use crate::domain::model::{Actor, Deletion, Origin, Refusal as PlanRefusal, RefusalRule, Target};
use crate::domain::plan;
use crate::domain::report::Line;
use crate::domain::text::{counted, escape};

/// Path of the deletions, which the gate itself serves.
pub(super) const DELETIONS: &str = "/gone/v1/deletions/";
/// Maximum number of blockers of other projects that the service is asked about for one answer, and how many of
/// them at once. Without these limits, one request of a tenant could cause hundreds of requests to the service.
const ASKED_MAX: usize = 24;
const ASKED_AT_ONCE: usize = 8;
/// Longest time of the requests that ask the service about blockers when a client reads a deletion.
const ASKED_FOR: Duration = Duration::from_secs(5);

impl Gate {
    /// Answers with a deletion or its report. The report only counts the resources of other projects; for an admin of
    /// this cloud, only those in other clouds.
    pub(super) async fn deletion(&self, head: &Head, path: &str) -> Result {
        let caller = self.caller(head).await?;
        let id = path.strip_suffix("/report").unwrap_or(path);
        let unknown = || {
            let message = format!("deletion {} could not be found.", escape(id));
            Refusal::of(StatusCode::NOT_FOUND, message)
        };
        if id.contains('/') {
            return Err(unknown());
        }
        let deletion = self.readable(&caller, id).await?.ok_or_else(unknown)?;
        let answer = match id == path {
            true => {
                let shown = self.as_shown_to(&caller, head, deletion.clone(), ASKED_FOR);
                json!(shown.await)
            }
            false => self.report(&caller, &deletion).await?,
        };
        let mut response = Whole::json_of(&answer).relay();
        name_deletion(response.headers_mut(), Some(&deletion.id));
        Ok(response)
    }

    /// Returns a deletion that names only the blockers that the caller may know of: blockers of other projects that the
    /// service does not show to the caller within this time, and those in other clouds, are only counted.
    pub(super) async fn as_shown_to(
        &self,
        caller: &Caller,
        head: &Head,
        mut deletion: Deletion,
        within: Duration,
    ) -> Deletion {
        let all = std::mem::take(&mut deletion.refused).into_iter();
        let (known, others): (Vec<_>, Vec<_>) =
            all.partition(|refused| self.may_know(caller, refused));
        deletion.refused = known;
        if others.is_empty() {
            return deletion;
        }
        let of_others = others.len();
        let shown = self.shown_to(head, others, within).await;
        let hidden = of_others - shown.len();
        deletion.refused.extend(shown);
        let first = deletion.refused.first().map(|it| it.reason.clone());
        let block = if hidden == 1 { "blocks" } else { "block" };
        let counted = (hidden > 0).then(|| {
            let resources = counted(hidden as u64, "resource");
            format!("{resources} of other projects {block} the deletion; ask an administrator")
        });
        let why: Vec<String> = first.into_iter().chain(counted).collect();
        deletion.note = format!("nothing was sent: {}", why.join("; "));
        deletion
    }

    /// Returns the refusals whose blocker the service itself shows to the caller within this time, as Neutron shows a
    /// network's ports to the network's owner; asks about at most [`ASKED_MAX`] blockers. Removes the names of owners.
    async fn shown_to(
        &self,
        head: &Head,
        refused: Vec<PlanRefusal>,
        within: Duration,
    ) -> Vec<PlanRefusal> {
        let here = refused.into_iter().filter_map(|mut refused| {
            let blocker = refused.blocker.as_ref()?;
            let service = &self.parts.kinds.get(&blocker.kind)?.service;
            let is_here = blocker.site == self.site && *service == self.service;
            let blocker = is_here.then(|| Named::new(&blocker.kind, &blocker.id))?;
            // The service shows only the id of the owner's project; Keystone shows the name to few callers.
            plan::name_owners(std::slice::from_mut(&mut refused), |_| Some(String::new()));
            Some((refused, blocker))
        });
        // A blocker is named only if the service has shown it: a blocker without an answer counts as hidden.
        let asked = here.take(ASKED_MAX).map(async |(refused, blocker)| {
            let row = self.row_for(head, &blocker).await;
            matches!(row, Ok(Some(_))).then_some(refused)
        });
        let in_time = stream::iter(asked)
            .buffered(ASKED_AT_ONCE)
            .take_until(sleep(within));
        in_time.filter_map(future::ready).collect().await
    }

    /// Whether the caller may know of the refusal's blocker, as an admin or by the project of the caller's token.
    fn may_know(&self, caller: &Caller, refused: &PlanRefusal) -> bool {
        let Some(blocker) = &refused.blocker else {
            return refused.rule != RefusalRule::OtherProject || caller.is_admin;
        };
        let own = blocker.owner.is_empty() || caller.owns(&blocker.owner);
        let near = blocker.site.cloud() == self.site.cloud();
        near && (own || caller.is_admin)
    }

    async fn report(&self, caller: &Caller, deletion: &Deletion) -> Result<Value> {
        let frozen = query::FrozenPlan::of(&deletion.id);
        let frozen = self.parts.control.find(frozen).await.map_err(refused)?;
        let mut data = Vec::new();
        let mut others: BTreeMap<String, u64> = BTreeMap::new();
        let mut lines = Line::without_a_step(deletion, frozen.as_deref());
        let mut pages = pin!(self.parts.control.pages(query::Steps::of(&deletion.id)));
        loop {
            let page = pages.try_next().await.map_err(refused)?;
            lines.extend(page.iter().flatten().map(Line::of));
            for line in lines.drain(..) {
                let near = line.resource.site.cloud() == self.site.cloud();
                match near && caller.is_admin || caller.owns(&line.project_id) {
                    true => data.push(line),
                    false => *others.entry(line.status.to_string()).or_default() += 1,
                }
            }
            if page.is_none() {
                return Ok(json!({ "data": data, "others": others }));
            }
        }
    }

    pub(super) async fn read_deletion(&self, id: &str) -> Result<Deletion> {
        let id = id.to_owned();
        let deletion = self.parts.control.ask(query::Deletion { id }).await;
        deletion.map(|row| *row).map_err(refused)
    }

    /// Returns the deletion if the caller may read it: the caller requested it, its targets belong to the
    /// caller's project, or the caller is an admin. Only deletions of this gate's cloud are readable (P13).
    ///
    /// # Errors
    /// 503 if the ledger cannot be read now: that does not mean that there is no such deletion.
    pub(super) async fn readable(&self, caller: &Caller, id: &str) -> Result<Option<Deletion>> {
        let id = id.to_owned();
        let found = self.parts.control.find(query::Deletion { id }).await;
        let Some(deletion) = found.map_err(refused)? else {
            return Ok(None);
        };
        // This gate's Keystone does not know the projects and admins of another cloud.
        let is_of_this_cloud = |target: &Target| target.key.site.cloud() == self.site.cloud();
        if !deletion.targets.iter().all(is_of_this_cloud) {
            return Ok(None);
        }
        if caller.is_admin || has_asked(&deletion.requested_by, caller) {
            return Ok(Some(*deletion));
        }
        let plan = query::FrozenPlan::of(&deletion.id);
        let Some(plan) = self.parts.control.find(plan).await.map_err(refused)? else {
            return Ok(None);
        };
        let of_targets = plan.steps.iter().filter(|step| {
            let key = step.key();
            plan.targets.iter().any(|target| target.key == key)
        });
        let mut projects = of_targets.map(|step| &*step.project_id).peekable();
        let is_own = projects.peek().is_some() && projects.all(|it| caller.owns(it));
        Ok(is_own.then_some(*deletion))
    }
}

/// The text between the caller and the address of the request in an actor's name.
const FROM: &str = " from ";

/// Returns the actor that the audit and the console show: the caller and the caller's address.
pub(super) fn actor(caller: &Caller) -> Actor {
    let mut name = name_of(caller);
    if let Some(address) = caller.address {
        name = format!("{name}{FROM}{}", address.ip());
    }
    Actor::new(name, Origin::Gate)
}

fn name_of(caller: &Caller) -> String {
    let identity = &caller.identity;
    let project = identity.project_id.as_deref().unwrap_or("no project");
    let name = escape(&identity.user_name);
    format!("{name} ({}) of {project}", identity.user_id)
}

/// Whether the caller requested the deletion, from any address.
fn has_asked(actor: &Actor, caller: &Caller) -> bool {
    let name = name_of(caller);
    let asked = actor.name.rsplit_once(FROM);
    let asked = asked.map_or(actor.name.as_str(), |(asked, _)| asked);
    actor.origin == Origin::Gate && (asked == name || actor.name == name)
}
