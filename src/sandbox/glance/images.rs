//! Images: their rules, JSON patches, tags, uploads and actions.
use http::{Method, StatusCode};
use serde_json::Value;
use uuid::Uuid;

use super::members::member;
use super::{json_body, refused};
use crate::sandbox::core::{
    Answer, Body, Call, Content, Handled, Hooks, Result, Row, Session, body, refuse_if,
};

const PATCH: &str = "application/openstack-images-v2.1-json-patch";
const OCTETS: &str = "application/octet-stream";

pub(super) const IMAGE: Hooks = Hooks {
    create: |session, image, body| {
        check_visibility(session, &image, body)?;
        Ok(save(session, image))
    },
    deletable: |_, image| {
        let is_protected = image.flag("protected");
        refuse_if(is_protected, || refused("Protected", &[&image.id]))
    },
    show: show_image,
    visible: |session, image| {
        let is_open = match image.text("visibility") {
            "public" | "community" => true,
            "shared" => member(session, image, &session.caller.project).is_some(),
            _ => false,
        };
        is_open || session.caller.owns(&image.project)
    },
    ..Hooks::NONE
};

fn show_image(_: &Session<'_>, image: &Row, name: &str) -> Option<Value> {
    Some(match name {
        "owner" => image.project.to_string().into(),
        "self" => format!("/v2/images/{}", image.id).into(),
        "file" => format!("/v2/images/{}/file", image.id).into(),
        "size" => image.file.as_ref().map(|file| file.len()).into(),
        "stores" => image.file.as_ref().map(|_| "files".into())?,
        _ => return None,
    })
}

/// Refuses to make an image public unless the caller is an admin.
fn check_visibility(session: &Session<'_>, image: &Row, body: &Body) -> Result<()> {
    let is_public = body.get("visibility").is_some_and(|it| it == "public");
    let is_wrong = is_public && !session.caller.is_admin;
    refuse_if(is_wrong, || image.kind.forbidden("publicize"))
}

/// Handles the calls of an image that differ from the common methods.
pub(super) fn own(session: &mut Session<'_>, call: &Call<'_>, id: &str) -> Handled {
    match call.method.as_str() {
        "PATCH" => patch(session, call, id).map(Some),
        "PUT" => Err(refused("no_method", &[])),
        "DELETE" if session.named("image", id).is_err() => {
            Err(refused("ImageToDeleteNotFound", &[&id]))
        }
        _ => Ok(None),
    }
}

/// Stores a changed image with its tags in order, each once, and sets its update time.
fn save(session: &mut Session<'_>, mut image: Row) -> Uuid {
    let mut tags = image.items("tags").to_vec();
    tags.sort_by_key(Value::to_string);
    tags.dedup();
    image.set("tags", tags);
    image.updated = Some(session.now);
    session.put(image)
}

/// Applies a JSON patch: all of its changes, or none.
fn patch(session: &mut Session<'_>, call: &Call<'_>, id: &str) -> Result<Answer> {
    if call.header("content-type") != Some(PATCH) {
        return Err(refused("NoPatch", &[&PATCH]));
    }
    let body = json_body(call)?;
    let changes = body.as_array();
    let changes = changes.ok_or_else(|| refused("PatchWithoutOperations", &[]))?;
    let mut image = session.named("image", id)?;
    for change in changes {
        session.may_change(&image, "update")?;
        apply(session, &mut image, change)?;
    }
    let id = save(session, image);
    Ok(Answer::ok(session.shown_now("image", id)))
}

fn apply(session: &Session<'_>, image: &mut Row, change: &Value) -> Result<()> {
    let path = change["path"].as_str();
    let name = path.and_then(|path| path.strip_prefix('/'));
    let name = name.ok_or_else(|| refused("PatchWithoutPath", &[]))?;
    let is_base = image.kind.attribute(name).is_some();
    let mut others = image.others().cloned().unwrap_or_default();
    let is_there = is_base || others.contains_key(name);
    match change["op"].as_str() {
        Some("remove") if is_base => Err(refused("PropertyNotRemovable", &[&name])),
        Some("remove" | "replace") if !is_there => Err(refused("PropertyNotFound", &[&name])),
        Some("remove") => {
            others.remove(name);
            image.set("", others);
            Ok(())
        }
        Some("add" | "replace") => {
            let value = Body::from_iter([(name.to_owned(), change["value"].clone())]);
            let value = body::check(session, image.kind, &value, false)?;
            check_visibility(session, image, &value)?;
            if name.ends_with("_format") && image.text("status") != "queued" {
                return Err(refused("FormatOfUploaded", &[&name]));
            }
            if let Some(owner) = value.get("owner").and_then(Value::as_str) {
                image.project = owner.into();
            }
            image.apply(&value);
            Ok(())
        }
        _ => Err(refused("PatchOfUnknown", &[])),
    }
}

/// Handles the file, the tags and the actions of an image.
pub(super) fn act(session: &mut Session<'_>, call: &Call<'_>, id: &str, path: &[&str]) -> Handled {
    let image = match (call.method.as_str(), path) {
        ("GET", ["file"]) => return download(session, id).map(Some),
        ("PUT", ["file"]) => upload(session, call, id)?,
        ("PUT" | "DELETE", ["tags", tag]) => change_tag(session, call, id, tag)?,
        ("POST", ["actions", action @ "deactivate"]) => switch(session, id, action, "deactivated")?,
        ("POST", ["actions", action @ "reactivate"]) => switch(session, id, action, "active")?,
        _ => return Err(refused("no_page", &[])),
    };
    save(session, image);
    Ok(Some(Answer::no_content()))
}

/// Returns the file of an image; 204 when nothing has been uploaded yet.
fn download(session: &Session<'_>, id: &str) -> Result<Answer> {
    let image = session.named("image", id)?;
    if image.text("status") == "deactivated" && !session.caller.is_admin {
        return Err(refused("Deactivated", &[]));
    }
    Ok(match image.file {
        Some(file) => Answer::new(StatusCode::OK, Content::File(file)),
        None => Answer::no_content(),
    })
}

/// Returns an image with its file. An image takes a file only once.
fn upload(session: &Session<'_>, call: &Call<'_>, id: &str) -> Result<Row> {
    if call.header("content-type") != Some(OCTETS) {
        return Err(refused("NoOctets", &[&OCTETS]));
    }
    let mut image = session.named("image", id)?;
    session.may_change(&image, "upload")?;
    let status = image.text("status");
    refuse_if(status != "queued", || refused("NotQueued", &[&status]))?;
    let mut missing = vec!["disk_format", "container_format"];
    missing.retain(|name| image.value(name).is_null());
    match missing.as_slice() {
        [] => {}
        [format] => return Err(refused("WithoutFormat", &[format])),
        formats => return Err(refused("WithoutFormats", &[&formats.join(", ")])),
    }
    image.file = Some(call.body.to_vec().into());
    image.set("status", "active");
    Ok(image)
}

/// Returns an image with a changed tag: `PUT` adds it, `DELETE` removes it.
fn change_tag(session: &Session<'_>, call: &Call<'_>, id: &str, tag: &str) -> Result<Row> {
    let image = session.named("image", id);
    let mut image = image.map_err(|_| refused("ImageNotFound", &[&id]))?;
    session.may_change(&image, "update")?;
    let mut tags = image.items("tags").to_vec();
    if call.method == Method::PUT {
        tags.push(tag.into());
    } else if !tags.iter().any(|known| known == tag) {
        return Err(refused("no_page", &[]));
    } else {
        tags.retain(|known| known != tag);
    }
    image.set("tags", tags);
    Ok(image)
}

/// Returns an image, deactivated or reactivated. A repeated action succeeds.
fn switch(session: &Session<'_>, id: &str, action: &str, status: &str) -> Result<Row> {
    let mut image = session.named("image", id)?;
    let allowed = session.may_change(&image, action);
    allowed.map_err(|_| refused("ForbiddenAction", &[&action]))?;
    let is_queued = image.text("status") == "queued";
    refuse_if(is_queued, || refused("ActionOnQueued", &[&action]))?;
    image.set("status", status);
    Ok(image)
}
