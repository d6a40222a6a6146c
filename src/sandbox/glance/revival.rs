//! Changes that are taken back, and deleted images and members that come back.
use super::image::Image;
use super::{Changes, Glance};

impl Glance {
    pub(in crate::sandbox) fn roll_back(&mut self, changes: Changes) {
        for (id, before) in changes.0.into_iter().rev() {
            match before {
                Some(image) => self.images.insert(id, image),
                None => self.images.remove(&id),
            };
        }
    }

    /// Brings back what `changes` deleted, with all attributes. What is there now stays: an image
    /// that only lost members gets them back. `as_new`: an image comes back under a new id.
    pub(in crate::sandbox) fn revive(&mut self, changes: Changes, as_new: bool) {
        for (id, before) in changes.0 {
            let Some(mut image) = before.filter(|image| !image.deleted) else {
                // It was made by the call, so there is nothing to bring back.
                continue;
            };
            match self.images.get_mut(&id) {
                Some(now) if !now.deleted => put_members_back(now, image),
                _ => {
                    if as_new {
                        image.id = self.ids.uuid();
                    }
                    self.images.insert(image.id, image);
                }
            }
        }
    }
}

fn put_members_back(now: &mut Image, before: Image) {
    for member in before.members.into_iter().filter(|member| !member.deleted) {
        let mut gone = now.members.iter_mut().filter(|now| now.deleted);
        if let Some(gone) = gone.find(|gone| gone.project == member.project) {
            *gone = member;
        }
    }
}
