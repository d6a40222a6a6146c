//! Members of shared images.
use serde_json::{Value, json};

use super::image::{Image, Member, Visibility, same};
use super::refusal::{bad, forbidden, not_allowed, not_found, unauthorized_action};
use super::session::{Session, body, no_body};
use crate::sandbox::wire::{Answer, Call, Refusal, Result};

const ONLY_SHARED: &str = "Only shared images have members.";

pub(super) fn members(
    session: &mut Session<'_>,
    call: &Call<'_>,
    image: &str,
    path: &[&str],
) -> Result<Answer> {
    match (call.method.as_str(), path) {
        ("GET", []) => {
            no_body(call)?;
            list(session, image)
        }
        ("POST", []) => add(session, call, image),
        (_, []) => Ok(not_allowed(call, "GET, POST")),
        ("GET", [project]) => {
            no_body(call)?;
            let image = looked_up(session, image)?;
            if image.visibility != Visibility::Shared {
                return Err(not_found(ONLY_SHARED));
            }
            let member = member(session, &image, project)?;
            Ok(Answer::ok(image.member_view(&image.members[member])))
        }
        ("PUT", [project]) => set_status(session, call, image, project),
        ("DELETE", [project]) => {
            no_body(call)?;
            remove(session, image, project)
        }
        (_, [_]) => Ok(not_allowed(call, "GET, PUT, DELETE")),
        _ => Err(super::no_such_path()),
    }
}

fn looked_up(session: &Session<'_>, id: &str) -> Result<Image> {
    session
        .find(id)
        .ok_or_else(|| not_found(format!("Image {id} not found.")))
}

/// Returns a shared image. The refusal of any other image names the attempted action.
fn shared(session: &Session<'_>, id: &str, verb: &str) -> Result<Image> {
    let image = looked_up(session, id)?;
    if image.visibility != Visibility::Shared {
        return Err(forbidden(format!(
            "Not allowed to {verb} members for image {id}."
        )));
    }
    Ok(image)
}

/// Whether the caller sees a member: owners and admins see all members, a member sees itself.
fn sees(session: &Session<'_>, image: &Image, member: &Member) -> bool {
    let caller = session.caller;
    let own = same(&member.project, &caller.project);
    !member.deleted && (own || caller.admin || image.owned_by(caller))
}

/// Returns the index of a member that exists and that the caller sees.
fn member(session: &Session<'_>, image: &Image, project: &str) -> Result<usize> {
    image
        .members
        .iter()
        .position(|member| same(&member.project, project) && sees(session, image, member))
        .ok_or_else(|| {
            not_found(format!(
                "{project} not found in the member list of the image {}.",
                image.id
            ))
        })
}

fn list(session: &Session<'_>, id: &str) -> Result<Answer> {
    let image = looked_up(session, id)?;
    if image.visibility != Visibility::Shared {
        return Err(forbidden(format!(
            "Not allowed to list members for image {id}: {ONLY_SHARED}"
        )));
    }
    let shown: Value = image
        .members
        .iter()
        .filter(|member| sees(session, &image, member))
        .map(|member| image.member_view(member))
        .collect();
    Ok(Answer::ok(
        json!({"members": shown, "schema": "/v2/schemas/members"}),
    ))
}

/// Adds a member. A project has one membership row: adding a deleted member revives it.
fn add(session: &mut Session<'_>, call: &Call<'_>, id: &str) -> Result<Answer> {
    let project = wanted_member(&body(call)?)?;
    let mut image = shared(session, id, "create")?;
    session.allow("add_member", &image)?;
    let known = image
        .members
        .iter_mut()
        .find(|member| same(&member.project, &project));
    let member = Member {
        project: project.clone(),
        status: "pending",
        created: session.now,
        updated: session.now,
        deleted: false,
    };
    match known {
        Some(known) if known.deleted && session.glance.member_reuse => *known = member.clone(),
        None => image.members.push(member.clone()),
        Some(_) => {
            return Err(Refusal::conflict(
                "",
                format!("Member {project} is duplicated for image {id}"),
            ));
        }
    }
    let shown = image.member_view(&member);
    session.put(image);
    Ok(Answer::ok(shown))
}

fn wanted_member(body: &Value) -> Result<String> {
    let Some(body) = body.as_object() else {
        return Err(bad(
            "Expected a member in the form: {\"member\": \"image_id\"}",
        ));
    };
    match body.get("member") {
        None => Err(bad("Member to be added not specified")),
        Some(Value::Null | Value::Bool(false)) => Err(bad("Member can't be empty")),
        Some(Value::String(project)) if project.is_empty() => Err(bad("Member can't be empty")),
        Some(Value::String(project)) => Ok(project.clone()),
        Some(other) => Ok(other.to_string()),
    }
}

/// Sets a member's status: the member accepts or rejects, the owner cannot do it for them.
fn set_status(
    session: &mut Session<'_>,
    call: &Call<'_>,
    id: &str,
    project: &str,
) -> Result<Answer> {
    let body = body(call)?;
    let Some(body) = body.as_object() else {
        return Err(bad(
            "Expected a status in the form: {\"status\": \"status\"}",
        ));
    };
    let Some(status) = body.get("status") else {
        return Err(bad("Status not specified"));
    };
    let mut image = shared(session, id, "update")?;
    let place = member(session, &image, project)?;
    let caller = session.caller;
    let invited = caller.writes() && !image.owned_by(caller);
    if !invited && !caller.admin {
        return Err(unauthorized_action("modify_member"));
    }
    let known = ["pending", "accepted", "rejected"];
    let status = known.into_iter().find(|known| status == known);
    let status = status.ok_or_else(|| {
        bad("Incorrect request: Status must be \"pending\", \"accepted\" or \"rejected\".")
    })?;
    let now = session.now;
    let member = &mut image.members[place];
    member.status = status;
    member.updated = now;
    let shown = image.member_view(&image.members[place]);
    session.put(image);
    Ok(Answer::ok(shown))
}

/// Marks a member as deleted; its row stays.
fn remove(session: &mut Session<'_>, id: &str, project: &str) -> Result<Answer> {
    let mut image = shared(session, id, "delete")?;
    let place = member(session, &image, project)?;
    session.allow("delete_member", &image)?;
    let now = session.now;
    let member = &mut image.members[place];
    member.deleted = true;
    member.updated = now;
    session.put(image);
    Ok(Answer::no_content())
}
