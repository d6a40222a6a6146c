//! Roll-back of changes, and revival of deleted images and members.
use super::image::{Image, Member};
use super::{Change, Changes, Glance};

impl Glance {
    pub(in crate::sandbox) fn roll_back(&mut self, changes: Changes) {
        if let Changes(Some(Change { before, after })) = changes {
            match before {
                Some(image) => self.images.insert(image.id, image),
                None => self.images.remove(&after.id),
            };
        }
    }

    /// Revives the image that a call deleted, with its attributes and members, or the members that it removed
    /// from an existing image. Members that were added again stay. `as_new`: an image gets a new id.
    pub(in crate::sandbox) fn revive(&mut self, changes: Changes, as_new: bool) {
        let Changes(Some(Change {
            before: Some(mut before),
            after,
        })) = changes
        else {
            // The call created it, so there is nothing to revive.
            return;
        };
        if after.deleted {
            if as_new {
                before.id = self.ids.uuid();
            }
            self.images.insert(before.id, before);
        } else if let Some(now) = self.images.get_mut(&after.id)
            && !now.deleted
        {
            for member in removed(before, &after) {
                put_back(now, member);
            }
        }
    }
}

fn removed(before: Image, after: &Image) -> impl Iterator<Item = Member> + use<'_> {
    let stays = |member: &Member| after.member(&member.project).is_some();
    let members = before.members.into_iter();
    members.filter(move |member| !member.deleted && !stays(member))
}

/// Restores a member in its row, unless it was added again meanwhile.
fn put_back(now: &mut Image, member: Member) {
    let mut rows = now.members.iter_mut();
    if let Some(row) = rows.find(|row| row.deleted && row.project == member.project) {
        *row = member;
    }
}
