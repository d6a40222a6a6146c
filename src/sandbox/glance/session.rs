//! The context of one call: its rights, and its changes.
use chrono::{DateTime, Utc};
use serde_json::Value;
use uuid::Uuid;

use super::image::{Image, seconds};
use super::refusal::{bad, no_image, unauthorized_action};
use super::{Change, Changes, Glance};
use crate::sandbox::Caller;
use crate::sandbox::wire::{Call, Refusal, Result};

pub(super) struct Session<'a> {
    pub(super) glance: &'a mut Glance,
    pub(super) caller: &'a Caller,
    /// Whole seconds.
    pub(super) now: DateTime<Utc>,
    pub(super) changes: Changes,
}

impl<'a> Session<'a> {
    pub(super) fn new(glance: &'a mut Glance, caller: &'a Caller, now: DateTime<Utc>) -> Self {
        Self {
            glance,
            caller,
            now: seconds(now),
            changes: Changes::default(),
        }
    }

    /// Returns a copy of the image that a path names, if it exists and the caller may see it.
    pub(super) fn find(&self, text: &str) -> Option<Image> {
        let id: Uuid = text.parse().ok()?;
        let image = self.glance.images.get(&id)?;
        (text.len() == 36 && !image.deleted && image.visible(self.caller)).then(|| image.clone())
    }

    pub(super) fn named(&self, text: &str) -> Result<Image> {
        self.find(text).ok_or_else(|| no_image(text))
    }

    /// Applies the policy of most rules: allowed to the owner's members and to admins.
    pub(super) fn allow(&self, rule: &str, image: &Image) -> Result<()> {
        let member = self.caller.writes() && image.owned_by(self.caller);
        if member || self.caller.admin {
            return Ok(());
        }
        Err(unauthorized_action(rule))
    }

    /// Stores a changed image. This is the last action of a call, so a refused call has changed nothing.
    pub(super) fn put(&mut self, image: Image) {
        let before = self.glance.images.insert(image.id, image.clone());
        self.changes.0 = Some(Change {
            before,
            after: image,
        });
    }

    /// Stores a changed image and sets its update time.
    pub(super) fn save(&mut self, mut image: Image) {
        image.updated = self.now;
        self.put(image);
    }
}

/// Returns the body, which must be an object or a list.
pub(super) fn body(call: &Call<'_>) -> Result<Value> {
    if call.body.is_empty() {
        return Err(bad("Body expected in request."));
    }
    let body: Value =
        serde_json::from_slice(call.body).map_err(|_| bad("Malformed JSON in request body."))?;
    if !body.is_object() && !body.is_array() {
        return Err(bad("Unexpected body type. Expected list/dict."));
    }
    Ok(body)
}

/// Refuses a body.
pub(super) fn no_body(call: &Call<'_>) -> Result<(), Refusal> {
    if call.body.is_empty() {
        return Ok(());
    }
    Err(bad("A body is not expected with this request."))
}
