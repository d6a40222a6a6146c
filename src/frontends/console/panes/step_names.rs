//! The names of resources of which rows know only the ids, from the steps that deleted them. They are looked up in the
//! background; rows show the ids until the names are known, or if they cannot be read.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::kit::*;
use crate::domain::model::{KindName, ResourceKey, Site};

/// Maximum number of pages of a group's steps that are read. The names of the group's other resources stay unknown.
const PAGES_MAX: usize = 4;

pub(super) type NamesByResource = BTreeMap<ResourceKey, String>;

/// The steps of one kind at one site in one deletion.
type Group = (String, Site, KindName);

#[derive(Default)]
pub(super) struct StepNames {
    pub(super) known: Arc<NamesByResource>,
    /// The groups that were looked up already, and those in `waiting`.
    requested: BTreeSet<Group>,
    waiting: Vec<Group>,
    /// Ticket of the query under way.
    asked: Option<u64>,
    /// The group that is looked up, and the number of its pages that were read.
    group: Option<Group>,
    pages: usize,
}

impl StepNames {
    /// Looks up the names of these resources, each with the id of the deletion that has it as a step. A group that was
    /// looked up before is not looked up again, because a step keeps the name that its resource had.
    pub(super) fn look_up<'r>(
        &mut self,
        resources: impl Iterator<Item = (&'r str, &'r ResourceKey)>,
    ) {
        let known = resources.filter(|(deletion_id, _)| !deletion_id.is_empty());
        let mut groups: Vec<_> = known.map(|(id, key)| (id, &key.site, &key.kind)).collect();
        // Rows next to each other mostly belong to one group.
        groups.dedup();
        for (deletion_id, site, kind) in groups {
            let group = (deletion_id.to_owned(), site.clone(), kind.clone());
            if self.requested.insert(group.clone()) {
                self.waiting.push(group);
            }
        }
    }

    fn ask_page(&mut self, cursor: Option<String>, context: &mut Context) {
        let Some((deletion_id, site, kind)) = self.group.clone() else {
            return;
        };
        self.asked = Some(context.outbox.ask(query::Steps {
            site: Some(site),
            kind: Some(kind),
            cursor,
            ..query::Steps::of(&deletion_id)
        }));
    }
}

impl Refreshed for StepNames {
    fn ask(&mut self, context: &mut Context) {
        if self.asked.is_none()
            && let Some(next) = self.waiting.pop()
        {
            (self.group, self.pages) = (Some(next), 0);
            self.ask_page(None, context);
        }
    }
    fn answer(&mut self, arrived: &mut Arrived, context: &mut Context) -> bool {
        let Some(answer) = arrived.take::<query::Steps>(&mut self.asked) else {
            return false;
        };
        // After an error, and for a deletion that the ledger no longer has, the rows keep the ids.
        let (rows, next) =
            answer.map_or_else(|_| (Vec::new(), None), |page| (page.rows, page.next));
        let resources = rows.into_iter().map(|step| step.resource);
        let named = resources.filter(|resource| !resource.name.is_empty());
        let named = named.map(|resource| (resource.key, resource.name));
        Arc::make_mut(&mut self.known).extend(named);
        self.pages += 1;
        match next.filter(|_| self.pages < PAGES_MAX) {
            Some(cursor) => self.ask_page(Some(cursor), context),
            None => self.ask(context),
        }
        true
    }
}
