//! Operations on an image other than changing its properties: upload, download, tags, actions.
use http::{HeaderName, StatusCode};
use md5::Md5;
use serde_json::{Map, json};
use sha2::{Digest, Sha512};

use super::image::{File, Image, Status};
use super::refusal::{
    bad, forbidden, internal_error, no_such_path, not_found, unauthorized_action, unsupported_media,
};
use super::session::Session;
use super::{refuse, schema};
use crate::sandbox::wire::{Answer, Body, Call, Refusal, Result};

const CONTENT_MD5: HeaderName = HeaderName::from_static("content-md5");
const OCTETS: &str = "application/octet-stream";

/// Formats without a signature: any bytes fit.
const FORMLESS: [&str; 5] = ["raw", "ami", "ari", "aki", "ploop"];

/// Signatures of formats: format, offset, bytes.
const MAGIC: [(&str, usize, &[u8]); 6] = [
    ("qcow2", 0, b"QFI\xfb"),
    ("vmdk", 0, b"KDMV"),
    ("vhd", 0, b"conectix"),
    ("vhdx", 0, b"vhdxfile"),
    ("vdi", 0x40, b"\x7f\x10\xda\xbe"),
    ("iso", 0x8001, b"CD001"),
];

/// Answers 204 when nothing has been uploaded yet.
pub(super) fn download(session: &Session<'_>, id: &str) -> Result<Answer> {
    let image = session.named(id)?;
    let caller = session.caller;
    if image.status == Status::Deactivated && !caller.admin {
        return Err(forbidden(
            "The requested image has been deactivated. Image data download is forbidden.",
        ));
    }
    if !caller.writes() {
        return Err(unauthorized_action("download_image"));
    }
    let Some(file) = image.file else {
        return Ok(Answer::no_content());
    };
    let answer = Answer {
        status: StatusCode::OK,
        body: Body::Octets(file.bytes),
        headers: Vec::new(),
    };
    Ok(answer.with(CONTENT_MD5, file.checksum))
}

/// Stores the file of an image. An image takes a file only once.
pub(super) fn upload(session: &mut Session<'_>, call: &Call<'_>, id: &str) -> Result<Answer> {
    let media = call.header("content-type");
    if media != Some(OCTETS) {
        let detail = format!("Invalid content type {}", media.unwrap_or("None"));
        return Err(unsupported_media(call, &detail));
    }
    let mut image = session.named(id)?;
    session.allow("upload_image", &image)?;
    if image.status != Status::Queued {
        return Err(Refusal::conflict(
            "",
            format!(
                "Image status transition from {} to saving is not allowed",
                image.status.name()
            ),
        ));
    }
    has_formats(&image)?;
    if image.file.is_some() {
        return Err(internal_error());
    }
    image.file = Some(File {
        bytes: call.body.to_vec().into(),
        checksum: hexadecimal(&Md5::digest(call.body)),
        hash: hexadecimal(&Sha512::digest(call.body)),
    });
    let format = image.disk_format.clone().unwrap_or_default();
    let found = format_of(call.body);
    if format == found || FORMLESS.contains(&format.as_str()) {
        image.status = Status::Active;
        session.save(image);
        return Ok(Answer::no_content());
    }
    // Glance checks the bytes while it stores them, so they stay although it refuses them.
    session.save(image);
    let detail = format!("Image disk_format {format} does not match stream data {found}");
    Ok(refuse(unsupported_media(call, &detail), call))
}

fn has_formats(image: &Image) -> Result<()> {
    let formats = [
        ("disk_format", &image.disk_format),
        ("container_format", &image.container_format),
    ];
    let missing: Vec<&str> = formats
        .iter()
        .filter(|(_, format)| format.is_none())
        .map(|(name, _)| *name)
        .collect();
    let word = match missing.len() {
        0 => return Ok(()),
        1 => "Property",
        _ => "Properties",
    };
    Err(bad(format!(
        "{word} {} must be set prior to saving data.",
        missing.join(", ")
    )))
}

fn format_of(bytes: &[u8]) -> &'static str {
    let begins = |at: usize, magic: &[u8]| {
        bytes
            .get(at..)
            .is_some_and(|bytes| bytes.starts_with(magic))
    };
    MAGIC
        .iter()
        .find(|(_, at, magic)| begins(*at, magic))
        .map_or("raw", |(format, _, _)| *format)
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Changes a tag: `PUT` adds it, `DELETE` removes it.
pub(super) fn tag(
    session: &mut Session<'_>,
    call: &Call<'_>,
    id: &str,
    tag: &str,
) -> Result<Answer> {
    let adds = call.method == http::Method::PUT;
    if adds {
        let mut body = Map::new();
        body.insert("tags".to_owned(), json!([tag]));
        schema::check(&body)?;
    }
    let mut image = session
        .find(id)
        .ok_or_else(|| not_found(format!("Image {id} not found.")))?;
    session.allow("modify_image", &image)?;
    if adds {
        image.tags.insert(tag.to_owned());
    } else if !image.tags.remove(tag) {
        return Err(no_such_path());
    }
    session.save(image);
    Ok(Answer::no_content())
}

/// Deactivates or reactivates an image. A repeated action succeeds.
pub(super) fn act(session: &mut Session<'_>, id: &str, action: &str) -> Result<Answer> {
    let mut image = session.named(id)?;
    session.allow(action, &image)?;
    let wanted = match action {
        "deactivate" => Status::Deactivated,
        _ => Status::Active,
    };
    if image.status == Status::Queued {
        return Err(forbidden(format!(
            "Not allowed to {action} image in status '{}'",
            image.status.name()
        )));
    }
    if image.status != wanted {
        image.status = wanted;
        session.save(image);
    }
    Ok(Answer::no_content())
}
