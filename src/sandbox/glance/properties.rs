//! The properties of an image that bodies name, and how they are set.
use serde_json::Value;

use super::image::{Image, Status, Visibility};
use super::refusal::{bad, denied, forbidden, unauthorized_action};
use super::session::Session;
use crate::sandbox::wire::Result;

/// Properties that only Glance sets.
pub(super) const READ_ONLY: [&str; 13] = [
    "created_at",
    "updated_at",
    "status",
    "checksum",
    "size",
    "virtual_size",
    "direct_url",
    "self",
    "file",
    "schema",
    "id",
    "os_hash_algo",
    "os_hash_value",
];

const RESERVED: [&str; 3] = ["location", "deleted", "deleted_at"];
const RESERVED_PREFIX: &str = "os_glance_";

/// Properties that every image has and a body may set.
const BASE: [&str; 10] = [
    "name",
    "visibility",
    "protected",
    "os_hidden",
    "owner",
    "container_format",
    "disk_format",
    "min_disk",
    "min_ram",
    "tags",
];

const NUMBER_MAX: i64 = 2_147_483_647;

pub(super) fn is_base(name: &str) -> bool {
    BASE.contains(&name)
}

pub(super) fn is_reserved(name: &str) -> bool {
    RESERVED.contains(&name) || name.starts_with(RESERVED_PREFIX)
}

/// Sets a base property to a value that fits the schema.
pub(super) fn set(image: &mut Image, name: &str, value: &Value) -> Result<()> {
    let text = || value.as_str().map(str::to_owned);
    let flag = value.as_bool().unwrap_or(false);
    match name {
        "name" => image.name = text(),
        "visibility" => {
            image.visibility = value
                .as_str()
                .and_then(Visibility::parse)
                .unwrap_or(image.visibility);
        }
        "protected" => image.protected = flag,
        "os_hidden" => image.hidden = flag,
        "owner" => image.owner = text(),
        "container_format" => {
            queued(image, name)?;
            image.container_format = text();
        }
        "disk_format" => {
            queued(image, name)?;
            image.disk_format = text();
        }
        "min_disk" => image.min_disk = number(name, value)?,
        "min_ram" => image.min_ram = number(name, value)?,
        _ => {
            let tags = value.as_array().into_iter().flatten();
            image.tags = tags.filter_map(Value::as_str).map(str::to_owned).collect();
        }
    }
    Ok(())
}

/// Checks that the image is queued: formats are fixed once a file is uploaded.
fn queued(image: &Image, name: &str) -> Result<()> {
    if image.status == Status::Queued {
        return Ok(());
    }
    Err(forbidden(format!(
        "Attribute {name} can be only replaced for a queued image."
    )))
}

fn number(name: &str, value: &Value) -> Result<i64> {
    let number = value.as_i64().unwrap_or(i64::MAX);
    if number < 0 {
        return Err(bad(format!(
            "Invalid value '{number}' for parameter '{name}': Cannot be a negative value"
        )));
    }
    if number > NUMBER_MAX {
        return Err(bad(format!(
            "'{name}' value out of range, must not exceed {NUMBER_MAX}."
        )));
    }
    Ok(number)
}

/// Checks that the caller may give an image this visibility.
pub(super) fn may_show(session: &Session<'_>, image: &Image, wanted: &Value) -> Result<()> {
    match wanted.as_str().and_then(Visibility::parse) {
        Some(Visibility::Public) if !session.caller.admin => {
            Err(unauthorized_action("publicize_image"))
        }
        Some(Visibility::Community) => session.allow("communitize_image", image),
        _ => Ok(()),
    }
}

/// Checks that the caller may create images for this owner. Only admins create images for others.
pub(super) fn may_own(session: &Session<'_>, owner: Option<&str>) -> Result<()> {
    let caller = session.caller;
    if caller.admin || owner == Some(&*caller.project) {
        return Ok(());
    }
    let shown = owner.unwrap_or("None");
    Err(denied(&format!(
        "You are not permitted to create images owned by '{shown}'"
    )))
}
