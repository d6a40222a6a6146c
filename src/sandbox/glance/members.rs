//! Members of shared images. A member is identified by its project. Deleted members stay in the database.
use serde_json::{Value, json};
use uuid::Uuid;

use super::{json_body, refused};
use crate::sandbox::core::{Answer, Call, Handled, Hooks, Result, Row, Session, refuse_if};

pub(super) const MEMBER: Hooks = Hooks {
    create: |session, mut member, _| {
        let project = member.text("member_id").to_owned();
        member.id = id_of(member.id_of("image_id").unwrap_or_default(), &project);
        member.project = project.into();
        // A member that was deleted before has its old position in lists.
        if let Some(old) = session.store.find("image_member", member.id) {
            member.number = old.number;
        }
        Ok(session.put(member))
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

/// Returns the id of a project's membership: one row for each image and project.
fn id_of(image: Uuid, project: &str) -> Uuid {
    Uuid::new_v5(&image, project.as_bytes())
}

/// Returns the membership of a project in an image.
pub(super) fn member<'s>(session: &'s Session<'_>, image: &Row, project: &str) -> Option<&'s Row> {
    let mut members = session.store.of("image_member", "image_id", image.id);
    members.find(|member| member.text("member_id") == project)
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
    let id = match path {
        [] => add(session, &image, &body)?,
        [project] if verb == "update" => set_status(session, &image, project, &body)?,
        _ => return Ok(None),
    };
    Ok(Some(Answer::ok(session.shown_now("image_member", id))))
}

fn add(session: &mut Session<'_>, image: &Row, body: &Value) -> Result<Uuid> {
    let project = body["member"].as_str().unwrap_or_default();
    refuse_if(project.is_empty(), || refused("MemberNotNamed", &[]))?;
    let kind = session.store.kind("image_member");
    let may_add = session.caller.writes() && session.caller.owns(&image.project);
    refuse_if(!may_add, || kind.forbidden("create"))?;
    let was_there = session.store.find(kind.name, id_of(image.id, project));
    let is_kept = was_there.is_some() && !session.options.member_reuse;
    if is_kept || member(session, image, project).is_some() {
        return Err(refused("MemberExists", &[&project, &image.id]));
    }
    let body = json!({"image_id": image.id, "member_id": project});
    session.create(kind.name, &body)
}

/// Sets a member's status. The member or an admin accepts or rejects; the image's owner cannot do that.
fn set_status(session: &mut Session<'_>, image: &Row, project: &str, body: &Value) -> Result<Uuid> {
    let status = body["status"].as_str();
    let status = status.ok_or_else(|| refused("StatusNotNamed", &[]))?;
    let kind = session.store.kind("image_member");
    let member = member(session, image, project).filter(|member| session.sees(member));
    let id = member.ok_or_else(|| kind.missing_in(image.id, project))?.id;
    let (caller, now) = (&session.caller, session.now);
    let is_invited = caller.writes() && *image.project != *caller.project;
    refuse_if(!is_invited && !caller.is_admin, || kind.forbidden("update"))?;
    if !["pending", "accepted", "rejected"].contains(&status) {
        return Err(refused("StatusUnknown", &[]));
    }
    session.edit(kind.name, id, |member| {
        member.set("status", status);
        member.updated = Some(now);
    });
    Ok(id)
}
