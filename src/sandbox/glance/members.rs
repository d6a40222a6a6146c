//! Members of shared images. A member is identified by its project. Deleted members stay in the database.
use serde_json::Value;
use uuid::Uuid;

use super::{json_body, refused};
use crate::sandbox::core::{Answer, Call, Handled, Hooks, Result, Row, Session, refuse_if};

pub(super) const MEMBER: Hooks = Hooks {
    create: |session, row, body| {
        let text = |name: &str| body[name].as_str().unwrap_or_default();
        let image = row.id_of("image_id").unwrap_or_default();
        Ok(put(session, row, image, text("member_id"), text("status")).id)
    },
    // Owners and admins see all members; a member sees only itself.
    visible: |session, member| {
        owns_image(session, member) || *member.text("member_id") == *session.caller.project
    },
    writable: owns_image,
    ..Hooks::NONE
};

fn owns_image(session: &Session<'_>, member: &Row) -> bool {
    let image = session.store.referred(member, "image_id", "image");
    image.is_some_and(|image| session.caller.owns(&image.project))
}

/// Handles the calls of members that differ from the common methods: only shared images have members.
pub(super) fn own(session: &mut Session<'_>, call: &Call<'_>, id: &str, path: &[&str]) -> Handled {
    let body = match (call.method.as_str(), path) {
        ("POST", []) | ("PUT", [_]) => json_body(call)?,
        _ => Value::Null,
    };
    let image = session.named("image", id);
    let image = image.map_err(|_| refused("ImageNotFound", &[&id]))?;
    let is_shared = image.text("visibility") == "shared";
    let verb = match (call.method.as_str(), path) {
        ("GET", []) if !is_shared => return Err(refused("MembersNotListed", &[&id])),
        ("GET", _) if !is_shared => return Err(refused("MembersNotShared", &[])),
        ("POST", []) => "create",
        ("PUT", [_]) => "update",
        ("DELETE", [_]) => "delete",
        _ => return Ok(None),
    };
    refuse_if(!is_shared, || refused("MembersNotAllowed", &[&verb, &id]))?;
    match path {
        [] => add(session, &image, &body).map(Some),
        [project] if verb == "update" => set_status(session, &image, project, &body).map(Some),
        _ => Ok(None),
    }
}

/// Returns the id of a project's membership: one row for each image and project.
fn id_of(image: Uuid, project: &str) -> Uuid {
    Uuid::new_v5(&image, project.as_bytes())
}

/// Stores a new member with a status. A member that was deleted before has its old position in lists.
fn put(session: &mut Session<'_>, mut row: Row, image: Uuid, project: &str, status: &str) -> Row {
    row.id = id_of(image, project);
    row.project = project.into();
    if let Some(old) = session.store.find("image_member", row.id) {
        row.number = old.number;
    }
    row.set("member_id", project);
    row.set("image_id", image.to_string());
    row.set("status", status);
    session.put(row.clone());
    row
}

fn add(session: &mut Session<'_>, image: &Row, body: &Value) -> Result<Answer> {
    let project = body["member"]
        .as_str()
        .filter(|project| !project.is_empty());
    let project = project.ok_or_else(|| refused("MemberNotNamed", &[]))?;
    let store = session.store();
    let is_there = store
        .of("image_member", "image_id", image.id)
        .any(|member| member.text("member_id") == project);
    let was_there = store.find("image_member", id_of(image.id, project));
    let is_refused = was_there.is_some() && !session.options.member_reuse;
    if !session.caller.writes() || !session.caller.owns(&image.project) {
        return Err(session.store.kind("image_member").forbidden("create"));
    }
    if is_there || is_refused {
        return Err(refused("MemberExists", &[&project, &image.id]));
    }
    let row = session.new_row("image_member", project);
    let member = put(session, row, image.id, project, "pending");
    Ok(Answer::ok(session.shown(&member, &[])))
}

/// Sets a member's status. The member or an admin accepts or rejects; the image's owner cannot do that.
fn set_status(
    session: &mut Session<'_>,
    image: &Row,
    project: &str,
    body: &Value,
) -> Result<Answer> {
    let status = body["status"]
        .as_str()
        .ok_or_else(|| refused("StatusNotNamed", &[]))?;
    let member = session
        .store
        .of("image_member", "image_id", image.id)
        .find(|it| it.text("member_id") == project && session.sees(it))
        .cloned();
    let kind = session.store.kind("image_member");
    let mut member = member.ok_or_else(|| kind.missing_in(image.id, project))?;
    let caller = &session.caller;
    let is_invited = caller.writes() && *image.project != *caller.project;
    if !is_invited && !caller.is_admin {
        return Err(member.kind.forbidden("update"));
    }
    if !["pending", "accepted", "rejected"].contains(&status) {
        return Err(refused("StatusUnknown", &[]));
    }
    member.set("status", status);
    member.updated = Some(session.now);
    session.put(member.clone());
    Ok(Answer::ok(session.shown(&member, &[])))
}
