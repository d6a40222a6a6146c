//! Changes that are taken back, and deleted images and members that come back.
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

    /// Brings back what a call deleted, with all attributes: an image and its members, or a member
    /// of an image that is there. What is there now stays. `as_new`: an image comes back under a
    /// new id.
    pub(in crate::sandbox) fn revive(&mut self, changes: Changes, as_new: bool) {
        let Changes(Some(Change {
            before: Some(mut before),
            after,
        })) = changes
        else {
            // It was made by the call, so there is nothing to bring back.
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

/// Into its own row, unless it was added again meanwhile.
fn put_back(now: &mut Image, member: Member) {
    let mut rows = now.members.iter_mut();
    if let Some(row) = rows.find(|row| row.deleted && row.project == member.project) {
        *row = member;
    }
}
