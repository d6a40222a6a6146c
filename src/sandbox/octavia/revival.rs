//! Revival of deleted resources, as if another system, a resync or an import had re-created them.
use std::collections::BTreeMap;

use uuid::Uuid;

use super::kind::Kind;
use super::session::Session;
use super::store::{Item, Status};
use super::view::users_of;
use super::{Changes, Octavia};
use crate::sandbox::neutron::{Neutron, VipPort};

/// A resource with its contents, as it was when its deletion was requested.
#[derive(Clone)]
pub(super) struct Tree {
    /// Parents before children; the first is the resource itself.
    items: Vec<Item>,
    /// The port that is deleted with a balancer.
    port: Option<VipPort>,
    /// The listeners whose default pool it is.
    users: Vec<Uuid>,
}

impl Tree {
    pub(super) fn of(session: &Session<'_>, item: &Item) -> Self {
        let store = session.store();
        let ids = store.tree(item.id);
        let owned = item.root.as_ref().filter(|root| root.vip.owned);
        Self {
            items: ids
                .into_iter()
                .filter_map(|id| store.get(id).cloned())
                .collect(),
            port: owned.and_then(|root| session.neutron.vip_port(session.caller, root.vip.port)),
            users: users_of(store, item),
        }
    }
}

impl Octavia {
    /// Revives the resources that `changes` deleted, with their contents and the VIP's port, under new ids if
    /// `as_new`. A resource that is not gone yet is revived once it is.
    pub(in crate::sandbox) fn revive(
        &mut self,
        changes: Changes,
        as_new: bool,
        neutron: &mut Neutron,
    ) {
        for tree in changes.deleted {
            let Some(root) = tree.items.first().map(|item| item.id) else {
                continue;
            };
            if self.store.get(root).is_some() {
                self.returns.insert(root, (tree, as_new));
            } else {
                self.put_back(tree, as_new, neutron);
            }
        }
    }

    /// Revives a resource that was to be revived once it is gone.
    pub(super) fn bring_back(&mut self, gone: Uuid, neutron: &mut Neutron) {
        if let Some((tree, as_new)) = self.returns.remove(&gone) {
            self.put_back(tree, as_new, neutron);
        }
    }

    fn put_back(&mut self, tree: Tree, as_new: bool, neutron: &mut Neutron) {
        let Tree { items, port, users } = tree;
        let mut names = BTreeMap::new();
        if as_new {
            for item in &items {
                names.insert(item.id, self.ids.uuid());
            }
        }
        let named = |id: Uuid| names.get(&id).copied().unwrap_or(id);
        for mut item in items {
            item.id = named(item.id);
            item.balancer = named(item.balancer);
            item.parent = named(item.parent);
            for name in ["default_pool_id", "redirect_pool_id"] {
                if let Some(pool) = item.refers_to(name) {
                    let pool = named(pool).to_string();
                    item.values.insert(name.to_owned(), pool.into());
                }
            }
            item.status = Status::Active;
            if let (Some(root), Some(port)) = (&mut item.root, &port) {
                let other = as_new.then_some(item.id);
                root.vip.port = neutron.put_back_vip_port(port.clone(), other);
                root.due = None;
            }
            // A child is not revived without its parent.
            let whole = item.root.is_some() || self.store.get(item.parent).is_some();
            if !whole || self.store.get(item.id).is_some() {
                continue;
            }
            if item.kind == Kind::Pool {
                self.use_again(&users, &item);
            }
            self.store.put(item);
        }
    }

    /// Restores the default pool of listeners that have none.
    fn use_again(&mut self, users: &[Uuid], pool: &Item) {
        for listener in users {
            self.store.edit(*listener, |listener| {
                if listener.refers_to("default_pool_id").is_none() {
                    let pool = pool.id.to_string().into();
                    listener.values.insert("default_pool_id".to_owned(), pool);
                }
            });
        }
    }
}
