//! Glance v2 of one region.
//!
//! Every call runs in a `Session`. `image` has the stored data and its view, `schema` the checks of a body,
//! `refusal` the form of refusals; `create`, `patch`, `members`, `data` and `lists` handle the calls.
use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use uuid::Uuid;

mod create;
mod data;
mod fixed;
mod image;
mod lists;
mod members;
mod patch;
mod properties;
mod refusal;
mod revival;
mod schema;
mod search;
mod seed;
mod session;

use image::Image;
pub(super) use refusal::page as refuse;
use refusal::{forbidden, no_such_path, not_allowed, not_found};
pub(super) use seed::check_count;
use session::{Session, no_body};

use super::Caller;
use super::ids::Ids;
use super::region::{self, Outcome};
use super::wire::{Answer, Call, Refusal, Result};

/// One region's image service.
pub(super) struct Glance {
    /// All images, including deleted ones.
    images: BTreeMap<Uuid, Image>,
    ids: Ids,
    member_reuse: bool,
}

/// The changes that a call made, so that a fault can roll them back or revive what the call deleted. No call
/// changes more than one image.
#[derive(Default)]
pub(super) struct Changes(Option<Change>);

struct Change {
    /// `None`: the image did not exist.
    before: Option<Image>,
    after: Image,
}

impl Glance {
    /// `member_reuse`: whether a deleted member can be added again. Otherwise Glance reports a duplicate, as
    /// on databases whose unique key is image and member alone.
    pub(super) fn new(seed: u64, member_reuse: bool) -> Self {
        Self {
            images: BTreeMap::new(),
            ids: Ids::new(seed),
            member_reuse,
        }
    }

    /// `caller` is `None` for a missing or bad token.
    pub(super) fn handle(
        &mut self,
        call: &Call<'_>,
        caller: Option<&Caller>,
        now: DateTime<Utc>,
    ) -> Outcome {
        if let Some(answer) = fixed::versions(call) {
            return Outcome {
                answer,
                changes: region::Changes::default(),
            };
        }
        let Some(caller) = caller else {
            return Outcome {
                answer: refuse(Refusal::unauthorized(), call),
                changes: region::Changes::default(),
            };
        };
        let mut session = Session::new(self, caller, now);
        let answer = route(&mut session, call).unwrap_or_else(|refusal| refuse(refusal, call));
        Outcome {
            answer,
            changes: region::Changes {
                image: session.changes,
                ..region::Changes::default()
            },
        }
    }
}

fn route(session: &mut Session<'_>, call: &Call<'_>) -> Result<Answer> {
    let segments = call.segments();
    let ["v2", "images", path @ ..] = segments.as_slice() else {
        return Err(no_such_path());
    };
    // Glance's paths have no `/` at the end.
    if call.url.ends_with('/') {
        return Err(no_such_path());
    }
    match (call.method.as_str(), path) {
        ("GET", []) => lists::list(session, call),
        ("POST", []) => create::create(session, call),
        (_, []) => Ok(not_allowed(call, "GET, POST")),
        ("GET", [id]) => {
            no_body(call)?;
            Ok(Answer::ok(session.named(id)?.view()))
        }
        ("PATCH", [id]) => patch::patch(session, call, id),
        ("DELETE", [id]) => {
            no_body(call)?;
            delete(session, id)
        }
        (_, [_]) => Ok(not_allowed(call, "GET, PATCH, DELETE")),
        ("GET", [id, "file"]) => {
            no_body(call)?;
            data::download(session, id)
        }
        ("PUT", [id, "file"]) => data::upload(session, call, id),
        (_, [_, "file"]) => Ok(not_allowed(call, "GET, PUT")),
        ("PUT" | "DELETE", [id, "tags", tag]) => {
            no_body(call)?;
            data::tag(session, call, id, tag)
        }
        (_, [_, "tags", _]) => Ok(not_allowed(call, "PUT, DELETE")),
        ("POST", [id, "actions", action @ ("deactivate" | "reactivate")]) => {
            no_body(call)?;
            data::act(session, id, action)
        }
        (_, [_, "actions", "deactivate" | "reactivate"]) => Ok(not_allowed(call, "POST")),
        (_, [id, "members", rest @ ..]) => members::members(session, call, id, rest),
        _ => Err(no_such_path()),
    }
}

/// Deletes an image with its members.
fn delete(session: &mut Session<'_>, id: &str) -> Result<Answer> {
    let mut image = session
        .find(id)
        .ok_or_else(|| not_found(format!("Failed to find image {id} to delete")))?;
    session.allow("delete_image", &image)?;
    if image.protected {
        return Err(forbidden(format!(
            "Image {id} is protected and cannot be deleted."
        )));
    }
    image.deleted = true;
    for member in &mut image.members {
        member.deleted = true;
    }
    session.save(image);
    Ok(Answer::no_content())
}
