//! Images: their rules, JSON patches, tags, uploads and actions.
use http::Method;
use serde_json::{Value, json};
use uuid::Uuid;

use super::{bad, denied, forbidden, json_body, not_found, problem};
use crate::sandbox::api::Problem;
use crate::sandbox::body;
use crate::sandbox::kind::{Body, Hooks};
use crate::sandbox::neutron::Seed;
use crate::sandbox::resource::refusal;
use crate::sandbox::row::Row;
use crate::sandbox::session::{Session, View};
use crate::sandbox::wire::{self, Answer, Call, Handled, Refusal, Result};

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
        let message = format!("Image {} is protected and cannot be deleted.", image.id);
        match image.flag("protected") {
            true => Err(forbidden(message)),
            false => Ok(()),
        }
    },
    show: show_image,
    visible: |view, image| {
        let is_open = match image.text("visibility") {
            "public" | "community" => true,
            "shared" => member_status(view, image).is_some(),
            _ => false,
        };
        is_open || view.caller.owns(&image.project)
    },
    ..Hooks::NONE
};

/// Returns the caller's status as a member of an image.
pub(super) fn member_status<'s>(view: &View<'s>, image: &Row) -> Option<&'s str> {
    let mut members = view.store.of("image_member", "image_id", image.id);
    let member = members.find(|member| *member.text("member_id") == *view.caller.project)?;
    Some(member.text("status"))
}

fn show_image(_: &View<'_>, image: &Row, name: &str) -> Option<Value> {
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
    match wanted.and_then(Value::as_str) {
        Some("public") if !session.caller.admin => {
            Err(problem(Problem::Forbidden("publicize_image", image.kind)))
        }
        _ => Ok(()),
    }
}

/// Handles what differs from the common methods of a resource.
pub(super) fn own(session: &mut Session<'_>, call: &Call<'_>, id: &str) -> Handled {
    match call.method.as_str() {
        "PATCH" => Some(patch(session, call, id)),
        "PUT" => Some(Err(problem(Problem::NoMethod))),
        "DELETE" if session.named("image", id).is_err() => {
            let message = format!("Failed to find image {id} to delete");
            Some(Err(not_found(message)))
        }
        _ => None,
    }
}

/// Stores a changed image and sets its update time.
fn save(session: &mut Session<'_>, mut image: Row) {
    image.updated = Some(session.now);
    session.put(image);
}

/// Applies all of the changes, or none.
fn patch(session: &mut Session<'_>, call: &Call<'_>, id: &str) -> Result<Answer> {
    if call.header("content-type") != Some(PATCH) {
        let message = format!("Image PATCH expects Content-Type one of: {PATCH}");
        return Err(refusal(415, "", message));
    }
    let body = json_body(call)?;
    let changes = body.as_array();
    let changes =
        changes.ok_or_else(|| bad("Request body must be a JSON array of operation objects."))?;
    let mut image = session.named("image", id)?;
    for change in changes {
        session.may_change(&image, "update")?;
        apply(session, &mut image, change)?;
    }
    let id = image.id;
    save(session, image);
    Ok(Answer::ok(session.shown("image", id)))
}

fn apply(session: &Session<'_>, image: &mut Row, change: &Value) -> Result<()> {
    let name = change["path"]
        .as_str()
        .and_then(|path| path.strip_prefix('/'));
    let name = name.ok_or_else(|| bad("An operation needs a path."))?;
    let is_base = image.kind.attribute(name).is_some();
    let is_there = is_base
        || image
            .others()
            .is_some_and(|others| others.contains_key(name));
    let missing = || {
        let message = format!("Property {name} does not exist.");
        Err(Refusal::conflict("", message))
    };
    let mut value = Body::new();
    value.insert(name.to_owned(), change["value"].clone());
    match change["op"].as_str() {
        Some("remove") if is_base => Err(denied(&format!("Property {name} may not be removed."))),
        Some("remove" | "replace") if !is_there => missing(),
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
                let message = format!("Attribute {name} can be only replaced for a queued image.");
                return Err(forbidden(message));
            }
            if let Some(owner) = value.get("owner").and_then(Value::as_str) {
                image.project = owner.into();
            }
            image.apply(&value);
            set_tags(image, value.get("tags"));
            Ok(())
        }
        _ => Err(bad("An operation must be one of: add, remove, replace.")),
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
        _ => Err(problem(Problem::NoPage)),
    }
}

/// Answers 204 when nothing has been uploaded yet.
fn download(session: &Session<'_>, id: &str) -> Result<Answer> {
    let image = session.named("image", id)?;
    if image.text("status") == "deactivated" && !session.caller.admin {
        return Err(forbidden(
            "The requested image has been deactivated. Image data download is forbidden.",
        ));
    }
    let mut answer = Answer::no_content();
    if let Some(file) = image.file {
        answer.status = http::StatusCode::OK;
        answer.body = wire::Body::Octets(file);
    }
    Ok(answer)
}

/// Stores the file of an image. An image takes a file only once.
fn upload(session: &mut Session<'_>, call: &Call<'_>, id: &str) -> Result<Answer> {
    if call.header("content-type") != Some(OCTETS) {
        let message = format!("The request media type must be {OCTETS}.");
        return Err(refusal(415, "", message));
    }
    let mut image = session.named("image", id)?;
    session.may_change(&image, "upload_image")?;
    let status = image.text("status");
    if status != "queued" {
        let message = format!("Image status transition from {status} to saving is not allowed");
        return Err(Refusal::conflict("", message));
    }
    let mut missing = vec!["disk_format", "container_format"];
    missing.retain(|name| image.value(name).is_null());
    let word = match missing.len() {
        0 => "",
        1 => "Property",
        _ => "Properties",
    };
    if !word.is_empty() {
        let missing = missing.join(", ");
        let message = format!("{word} {missing} must be set prior to saving data.");
        return Err(bad(message));
    }
    image.file = Some(call.body.to_vec().into());
    image.set("status", "active");
    save(session, image);
    Ok(Answer::no_content())
}

/// Changes a tag: `PUT` adds it, `DELETE` removes it.
fn change_tag(session: &mut Session<'_>, call: &Call<'_>, id: &str, tag: &str) -> Result<Answer> {
    let image = session.named("image", id);
    let mut image = image.map_err(|_| not_found(format!("Image {id} not found.")))?;
    session.may_change(&image, "update")?;
    let mut tags = image.items("tags").to_vec();
    if call.method == Method::PUT {
        tags.push(tag.into());
    } else if !tags.iter().any(|known| known == tag) {
        return Err(problem(Problem::NoPage));
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
    session.may_change(&image, action)?;
    if image.text("status") == "queued" {
        let message = format!("Not allowed to {action} image in status 'queued'");
        return Err(forbidden(message));
    }
    image.set(
        "status",
        match action {
            "deactivate" => "deactivated",
            _ => "active",
        },
    );
    save(session, image);
    Ok(Answer::no_content())
}

/// Creates shared images of the caller's project. Each has all of `members`, of whom every other one has
/// accepted.
pub(in crate::sandbox) fn seed(
    session: &mut Session<'_>,
    seed: &Seed,
    members: &[String],
) -> Result<Vec<Uuid>> {
    let mut made = Vec::new();
    for number in 0..seed.images {
        let name = format!("{}-image-{number}", seed.prefix());
        let id = session.create("image", &json!({"name": name}))?;
        for (project, status) in members.iter().zip(["accepted", "pending"].iter().cycle()) {
            super::members::put(session, id, project, status);
        }
        made.push(id);
    }
    Ok(made)
}
