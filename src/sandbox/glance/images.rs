//! Images: their rules, JSON patches, tags, uploads and actions.
use http::{Method, StatusCode};
use serde_json::Value;

use super::{json_body, refused};
use crate::sandbox::core::{
    Answer, Body, Call, Content, Handled, Hooks, Result, Row, Session, body, refuse_if,
};

const PATCH: &str = "application/openstack-images-v2.1-json-patch";
const OCTETS: &str = "application/octet-stream";
pub(super) const VISIBILITIES: [&str; 4] = ["community", "public", "private", "shared"];
pub(super) const IMAGE: Hooks = Hooks {
    create: |session, mut image, body| {
        check_visibility(session, &image, body.get("visibility"))?;
        set_tags(&mut image, body.get("tags"));
        Ok(session.put(image))
    },
    deletable: |_, image| {
        let is_protected = image.flag("protected");
        refuse_if(is_protected, || refused("Protected", &[&image.id]))
    },
    show: show_image,
    visible: |session, image| {
        let is_open = match image.text("visibility") {
            "public" | "community" => true,
            "shared" => member_status(session, image).is_some(),
            _ => false,
        };
        is_open || session.caller.owns(&image.project)
    },
    ..Hooks::NONE
};

/// Returns the status of the caller's project as a member of an image, if it is one.
pub(super) fn member_status<'s>(session: &'s Session<'_>, image: &Row) -> Option<&'s str> {
    let mut members = session.store.of("image_member", "image_id", image.id);
    let member = members.find(|member| *member.text("member_id") == *session.caller.project)?;
    Some(member.text("status"))
}

fn show_image(_: &Session<'_>, image: &Row, name: &str) -> Option<Value> {
    let path = || format!("/v2/images/{}", image.id);
    Some(match name {
        "owner" => image.project.to_string().into(),
        "self" => path().into(),
        "file" => format!("{}/file", path()).into(),
        "size" => image.file.as_ref().map(|file| file.len()).into(),
        "stores" => image.file.as_ref().map(|_| "files".into())?,
        _ => return None,
    })
}

fn set_tags(image: &mut Row, tags: Option<&Value>) {
    if let Some(tags) = tags.and_then(Value::as_array) {
        let mut tags = tags.clone();
        tags.sort_by_key(Value::to_string);
        tags.dedup();
        image.set("tags", tags);
    }
}

/// Refuses to make an image public unless the caller is an admin.
fn check_visibility(session: &Session<'_>, image: &Row, wanted: Option<&Value>) -> Result<()> {
    let is_wrong = wanted.is_some_and(|it| it == "public") && !session.caller.is_admin;
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

/// Stores a changed image and sets its update time.
fn save(session: &mut Session<'_>, mut image: Row) {
    image.updated = Some(session.now);
    session.put(image);
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
    let id = image.id;
    save(session, image);
    Ok(Answer::ok(session.shown_now("image", id)))
}

fn apply(session: &Session<'_>, image: &mut Row, change: &Value) -> Result<()> {
    let name = change["path"]
        .as_str()
        .and_then(|path| path.strip_prefix('/'));
    let name = name.ok_or_else(|| refused("PatchWithoutPath", &[]))?;
    let is_base = image.kind.attribute(name).is_some();
    let others = image.others();
    let is_there = is_base || others.is_some_and(|others| others.contains_key(name));
    let mut value = Body::new();
    value.insert(name.to_owned(), change["value"].clone());
    match change["op"].as_str() {
        Some("remove") if is_base => Err(refused("PropertyNotRemovable", &[&name])),
        Some("remove" | "replace") if !is_there => Err(refused("PropertyNotFound", &[&name])),
        Some("remove") => {
            let mut others = image.others().cloned().unwrap_or_default();
            others.remove(name);
            image.set("", others);
            Ok(())
        }
        Some("add" | "replace") => {
            let value = body::check(session, image.kind, &value, false)?;
            check_visibility(session, image, value.get("visibility"))?;
            if name.ends_with("_format") && image.text("status") != "queued" {
                return Err(refused("FormatOfUploaded", &[&name]));
            }
            if let Some(owner) = value.get("owner").and_then(Value::as_str) {
                image.project = owner.into();
            }
            image.apply(&value);
            set_tags(image, value.get("tags"));
            Ok(())
        }
        _ => Err(refused("PatchOfUnknown", &[])),
    }
}

/// Handles the file, the tags and the actions of an image.
pub(super) fn below(
    session: &mut Session<'_>,
    call: &Call<'_>,
    id: &str,
    path: &[&str],
) -> Result<Answer> {
    match (call.method.as_str(), path) {
        ("GET", ["file"]) => download(session, id),
        ("PUT", ["file"]) => upload(session, call, id),
        ("PUT" | "DELETE", ["tags", tag]) => change_tag(session, call, id, tag),
        ("POST", ["actions", "deactivate"]) => act(session, id, "deactivate"),
        ("POST", ["actions", "reactivate"]) => act(session, id, "reactivate"),
        _ => Err(refused("no_page", &[])),
    }
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

/// Stores the file of an image. An image takes a file only once.
fn upload(session: &mut Session<'_>, call: &Call<'_>, id: &str) -> Result<Answer> {
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
    save(session, image);
    Ok(Answer::no_content())
}

/// Changes a tag: `PUT` adds it, `DELETE` removes it.
fn change_tag(session: &mut Session<'_>, call: &Call<'_>, id: &str, tag: &str) -> Result<Answer> {
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
    set_tags(&mut image, Some(&tags.into()));
    save(session, image);
    Ok(Answer::no_content())
}

/// Deactivates or reactivates an image. A repeated action succeeds.
fn act(session: &mut Session<'_>, id: &str, action: &'static str) -> Result<Answer> {
    let mut image = session.named("image", id)?;
    let allowed = session.may_change(&image, action);
    allowed.map_err(|_| refused("ForbiddenAction", &[&action]))?;
    if image.text("status") == "queued" {
        return Err(refused("ActionOnQueued", &[&action]));
    }
    let status = match action {
        "deactivate" => "deactivated",
        _ => "active",
    };
    image.set("status", status);
    save(session, image);
    Ok(Answer::no_content())
}
