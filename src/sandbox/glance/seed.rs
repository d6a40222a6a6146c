//! Creates images at once, bypassing the API.
use chrono::{DateTime, Utc};
use uuid::Uuid;

use super::Glance;
use super::image::{Image, Member, seconds};

/// Maximum number of images in one seed.
const IMAGES_MAX: u32 = 100_000;

impl Glance {
    /// Creates shared images of `owner`. Each has all of `members`, of whom every other one has accepted.
    pub(in crate::sandbox) fn seed(
        &mut self,
        count: u32,
        prefix: &str,
        owner: &str,
        members: &[String],
        now: DateTime<Utc>,
    ) -> Vec<Uuid> {
        let now = seconds(now);
        (0..count)
            .map(|number| {
                let mut image = Image::new(self.ids.uuid(), Some(owner.to_owned()), now);
                image.name = Some(format!("{prefix}-image-{number}"));
                image.members = members
                    .iter()
                    .zip(["accepted", "pending"].into_iter().cycle())
                    .map(|(project, status)| Member {
                        project: project.clone(),
                        status,
                        created: now,
                        updated: now,
                        deleted: false,
                    })
                    .collect();
                let id = image.id;
                self.images.insert(id, image);
                id
            })
            .collect()
    }
}

/// Refuses a seed that is too large.
pub(in crate::sandbox) fn check_count(count: u32) -> Result<(), String> {
    if count > IMAGES_MAX {
        return Err(format!("images: at most {IMAGES_MAX}"));
    }
    Ok(())
}
