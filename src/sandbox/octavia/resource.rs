//! The methods of all kinds: lists, GET, POST, PUT and DELETE.
use serde_json::json;
use uuid::Uuid;

use super::body::{self, Verb, bad};
use super::kind::Kind;
use super::lists::{self, Scope};
use super::session::{Session, forbidden};
use super::store::Item;
use super::view::{Depth, statuses, view};
use super::{balancers, children, no_method, no_page};
use crate::sandbox::wire::{Answer, Call, Refusal, Result};

pub(super) fn route(session: &mut Session<'_>, call: &Call<'_>, path: &[&str]) -> Result<Answer> {
    let kind = match path.first().copied() {
        Some("loadbalancers") => Kind::LoadBalancer,
        Some("listeners") => Kind::Listener,
        Some("pools") => Kind::Pool,
        Some("healthmonitors") => Kind::HealthMonitor,
        Some("l7policies") => Kind::Policy,
        _ => return Err(no_page()),
    };
    match (kind, path) {
        (Kind::LoadBalancer, [_, id, "status" | "statuses"])
            if call.method == http::Method::GET =>
        {
            let balancer = session.find(kind, id)?;
            session.may_see(&balancer.project)?;
            Ok(Answer::ok(statuses(session.store(), &balancer)))
        }
        (Kind::Pool, [_, pool, "members", rest @ ..]) => {
            let pool = holder(session, kind, "Pool", pool)?;
            answer(session, call, Kind::Member, Some(&pool), rest)
        }
        (Kind::Policy, [_, policy, "rules", rest @ ..]) => {
            let policy = holder(session, kind, "L7Policy", policy)?;
            answer(session, call, Kind::Rule, Some(&policy), rest)
        }
        (_, [_, rest @ ..]) => answer(session, call, kind, None, rest),
        (_, []) => Err(no_page()),
    }
}

/// Returns the parent that a path names. It is looked up before the API's own functions, so a refusal has the
/// shape of a page.
fn holder(session: &Session<'_>, kind: Kind, title: &str, id: &str) -> Result<Item> {
    session.find(kind, id).map_err(|refusal| {
        Refusal::new(
            refusal.status,
            "Bad Request",
            format!("{title} {id} not found."),
        )
    })
}

fn answer(
    session: &mut Session<'_>,
    call: &Call<'_>,
    kind: Kind,
    holder: Option<&Item>,
    rest: &[&str],
) -> Result<Answer> {
    match (call.method.as_str(), rest) {
        ("GET", []) => list(session, call, kind, holder),
        ("POST", []) => {
            let body = body::read(kind, Verb::Post, call)?;
            if kind == Kind::LoadBalancer {
                let id = balancers::create(session, &body)?;
                return Ok(Answer::created(shown(session, kind, id, Depth::Full, &[])));
            }
            let id = children::create(session, kind, holder, &body)?;
            Ok(Answer::created(shown(session, kind, id, Depth::Ids, &[])))
        }
        ("PUT" | "DELETE", []) => Err(bad("Missing argument: \"id\"")),
        ("GET", [id]) => {
            let item = session.find(kind, id)?;
            session.may_see(&item.project)?;
            within(&item, holder, id)?;
            let fields = lists::fields(call);
            Ok(Answer::ok(shown(
                session,
                kind,
                item.id,
                Depth::Ids,
                &fields,
            )))
        }
        ("PUT", [id]) => {
            let body = body::read(kind, Verb::Put, call)?;
            let item = session.find(kind, id)?;
            session.may_change(&item.project)?;
            within(&item, holder, id)?;
            if kind == Kind::LoadBalancer {
                balancers::update(session, &item, &body)?;
            } else {
                children::update(session, &item, &body)?;
            }
            Ok(Answer::ok(shown(session, kind, item.id, Depth::Ids, &[])))
        }
        ("DELETE", [id]) => {
            let item = session.find(kind, id)?;
            session.may_change(&item.project)?;
            within(&item, holder, id)?;
            if kind == Kind::LoadBalancer {
                balancers::delete(session, &item, call.param("cascade"))?;
            } else {
                children::delete(session, &item)?;
            }
            Ok(Answer::no_content())
        }
        (_, [] | [_]) => Err(no_method()),
        _ => Err(no_page()),
    }
}

/// Refuses a resource that is not in the parent that the path names.
fn within(item: &Item, holder: Option<&Item>, id: &str) -> Result<()> {
    match holder {
        Some(holder) if holder.id != item.parent => Err(super::session::missing(item.kind, id)),
        _ => Ok(()),
    }
}

fn list(
    session: &Session<'_>,
    call: &Call<'_>,
    kind: Kind,
    holder: Option<&Item>,
) -> Result<Answer> {
    let caller = session.caller;
    let project = match holder {
        Some(holder) => {
            session.may_see(&holder.project)?;
            None
        }
        None if caller.admin => None,
        None => {
            let wanted = call.param("project_id").unwrap_or(&caller.project);
            if *wanted != *caller.project {
                return Err(forbidden());
            }
            Some(&*caller.project)
        }
    };
    let scope = Scope {
        kind,
        parent: holder.map(|holder| holder.id),
        project,
    };
    lists::list(call, session.store(), &scope).map(Answer::ok)
}

fn shown(
    session: &Session<'_>,
    kind: Kind,
    id: Uuid,
    depth: Depth,
    fields: &[&str],
) -> serde_json::Value {
    let item = session.store().get(id);
    let shown = item.map(|item| view(session.store(), item, depth, fields));
    json!({kind.form().singular: shown})
}
