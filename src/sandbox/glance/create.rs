//! `POST /v2/images`.
use http::{HeaderName, StatusCode, header};
use serde_json::{Map, Value};
use uuid::Uuid;

use super::image::Image;
use super::properties::{self, READ_ONLY, is_base, is_reserved, may_own, may_show};
use super::refusal::{bad, denied, forbidden, internal_error};
use super::schema;
use super::session::{Session, body};
use crate::sandbox::wire::{Answer, Call, Refusal, Result};

const IMPORT_METHODS: HeaderName = HeaderName::from_static("openstack-image-import-methods");
const STORES: HeaderName = HeaderName::from_static("openstack-image-store-ids");

/// Properties that are refused before any other check.
const DISALLOWED: [&str; 5] = ["direct_url", "self", "file", "schema", "stores"];

/// Characters of a free property's name.
const NAME_MAX: usize = 255;

pub(super) fn create(session: &mut Session<'_>, call: &Call<'_>) -> Result<Answer> {
    let Value::Object(body) = body(call)? else {
        return Err(internal_error());
    };
    check(&body)?;
    let image = made(session, &body)?;
    let url = format!("{}/{}", call.url, image.id);
    let shown = image.view();
    session.put(image);
    Ok(Answer::json(StatusCode::CREATED, shown)
        .with(header::LOCATION, url)
        .with(
            IMPORT_METHODS,
            "glance-direct,web-download,copy-image".to_owned(),
        )
        .with(STORES, "files".to_owned()))
}

/// Performs the checks that need no image, in Glance's order.
fn check(body: &Map<String, Value>) -> Result<()> {
    if let Some(name) = DISALLOWED.iter().find(|name| body.contains_key(**name)) {
        return Err(read_only(name));
    }
    schema::check(body)?;
    for name in body.keys().filter(|name| is_free(name)) {
        if name.chars().count() > NAME_MAX {
            return Err(bad(
                "Custom property should not be greater than 255 characters.",
            ));
        }
        if is_reserved(name) {
            return Err(denied(&format!("Attribute '{name}' is reserved.")));
        }
    }
    Ok(())
}

fn is_free(name: &str) -> bool {
    !is_base(name) && !READ_ONLY.contains(&name) && name != "locations"
}

fn read_only(name: &str) -> Refusal {
    forbidden(format!("Attribute '{name}' is read-only."))
}

fn made(session: &mut Session<'_>, body: &Map<String, Value>) -> Result<Image> {
    let owner = match body.get("owner") {
        Some(owner) => owner.as_str().map(str::to_owned),
        None => Some(session.caller.project.to_string()),
    };
    may_own(session, owner.as_deref())?;
    let id: Option<Uuid> = body
        .get("id")
        .and_then(Value::as_str)
        .and_then(|id| id.parse().ok());
    let id = id.unwrap_or_else(|| session.glance.ids.uuid());
    let mut image = Image::new(id, owner, session.now);
    session.allow("add_image", &image)?;
    if let Some(visibility) = body.get("visibility") {
        may_show(session, &image, visibility)?;
    }
    let set_by_glance = |name: &&String| READ_ONLY.contains(&name.as_str()) && *name != "id";
    if let Some(name) = body.keys().find(set_by_glance) {
        return Err(read_only(name));
    }
    if body.contains_key("locations") {
        return Err(forbidden("Attribute 'locations' is reserved."));
    }
    for (name, value) in body {
        if is_base(name) {
            properties::set(&mut image, name, value)?;
        } else if name != "id" {
            image.properties.insert(name.clone(), value.clone());
        }
    }
    // The id of a deleted image cannot be used again.
    if session.glance.images.contains_key(&id) {
        return Err(Refusal::conflict(
            "",
            format!("Image ID {id} already exists!"),
        ));
    }
    Ok(image)
}
