//! Revival of deleted resources, as if another system, a resync or an import had re-created them.
use std::collections::BTreeMap;

use uuid::Uuid;

use super::kind::Row;
use super::networks::Network;
use super::ports::Port;
use super::routers::Router;
use super::store::{Store, Undo};
use super::trunks::Trunk;
use super::{Changes, Neutron};
use crate::sandbox::ids::Ids;

/// Old ids and their replacements; empty when resources are revived under their own ids.
#[derive(Default)]
pub(super) struct Renamed(BTreeMap<Uuid, Uuid>);

impl Renamed {
    pub(super) fn swap(&self, id: &mut Uuid) {
        if let Some(new) = self.0.get(id) {
            *id = *new;
        }
    }
}

impl Neutron {
    /// Revives the resources that `changes` deleted, with all attributes, under new ids if `as_new`.
    /// Resources that exist stay; a trunk gets its subports back, a router its interfaces and routes.
    pub(in crate::sandbox) fn revive(&mut self, changes: Changes, as_new: bool) {
        let Changes(mut changes) = changes;
        let names = if as_new {
            new_names(&changes, &self.store, &mut self.ids)
        } else {
            Renamed::default()
        };
        // Networks and subnets first: the others need them.
        changes.sort_by_key(|change| match change {
            Undo::Network(..) => 0,
            Undo::Subnet(..) => 1,
            _ => 2,
        });
        for change in changes {
            match change {
                Undo::Network(_, Some(row)) => put_back(&mut self.store, row, &names),
                Undo::Subnet(_, Some(row)) => put_back(&mut self.store, row, &names),
                Undo::Port(_, Some(row)) => put_back_port(&mut self.store, row, &names),
                Undo::Router(_, Some(row)) => put_back_router(&mut self.store, row, &names),
                Undo::FloatingIp(_, Some(row)) => put_back(&mut self.store, row, &names),
                Undo::Forwarding(_, Some(row)) => put_back(&mut self.store, row, &names),
                Undo::Trunk(_, Some(row)) => put_back_trunk(&mut self.store, row, &names),
                Undo::Group(_, Some(row)) => put_back(&mut self.store, row, &names),
                Undo::Rule(_, Some(row)) => put_back(&mut self.store, row, &names),
                Undo::Pool(_, Some(row)) => put_back(&mut self.store, row, &names),
                Undo::Scope(_, Some(row)) => put_back(&mut self.store, row, &names),
                Undo::AddressGroup(_, Some(row)) => put_back(&mut self.store, row, &names),
                Undo::QosPolicy(_, Some(row)) => put_back(&mut self.store, row, &names),
                Undo::Policy(_, Some(row)) => put_back(&mut self.store, row, &names),
                Undo::LocalIp(_, Some(row)) => put_back(&mut self.store, row, &names),
                Undo::Association(_, Some(row)) => put_back(&mut self.store, row, &names),
                Undo::ConntrackHelper(_, Some(row)) => put_back(&mut self.store, row, &names),
                Undo::NdpProxy(_, Some(row)) => put_back(&mut self.store, row, &names),
                Undo::MeteringLabel(_, Some(row)) => put_back(&mut self.store, row, &names),
                Undo::MeteringRule(_, Some(row)) => put_back(&mut self.store, row, &names),
                // The call created it, so there is nothing to revive.
                _ => {}
            }
        }
    }
}

/// Chooses a new id for each row that is gone.
fn new_names(changes: &[Undo], store: &Store, ids: &mut Ids) -> Renamed {
    let mut names = Renamed::default();
    for change in changes {
        let gone = match change {
            Undo::Network(id, _) => missing::<Network>(store, *id),
            Undo::Subnet(id, _) => missing::<super::subnets::Subnet>(store, *id),
            Undo::Port(id, _) => missing::<Port>(store, *id),
            Undo::Router(id, _) => missing::<Router>(store, *id),
            Undo::FloatingIp(id, _) => missing::<super::floating_ips::FloatingIp>(store, *id),
            Undo::Forwarding(id, _) => missing::<super::forwardings::Forwarding>(store, *id),
            Undo::Trunk(id, _) => missing::<Trunk>(store, *id),
            Undo::Group(id, _) => missing::<super::groups::Group>(store, *id),
            Undo::Rule(id, _) => missing::<super::groups::Rule>(store, *id),
            Undo::Pool(id, _) => missing::<super::pools::Pool>(store, *id),
            Undo::Scope(id, _) => missing::<super::scopes::AddressScope>(store, *id),
            Undo::Segment(id, _) => missing::<super::segments::Segment>(store, *id),
            Undo::AddressGroup(id, _) => missing::<super::address_groups::AddressGroup>(store, *id),
            Undo::QosPolicy(id, _) => missing::<super::qos::QosPolicy>(store, *id),
            Undo::Policy(id, _) => missing::<super::pools::RbacPolicy>(store, *id),
            Undo::LocalIp(id, _) => missing::<super::local_ips::LocalIp>(store, *id),
            Undo::Association(id, _) => missing::<super::local_ips::Association>(store, *id),
            Undo::ConntrackHelper(id, _) => {
                missing::<super::conntrack::ConntrackHelper>(store, *id)
            }
            Undo::NdpProxy(id, _) => missing::<super::ndp_proxies::NdpProxy>(store, *id),
            Undo::MeteringLabel(id, _) => missing::<super::metering::MeteringLabel>(store, *id),
            Undo::MeteringRule(id, _) => missing::<super::metering::MeteringRule>(store, *id),
        };
        if let Some(id) = gone {
            names.0.entry(id).or_insert_with(|| ids.uuid());
        }
    }
    names
}

fn missing<R: Row>(store: &Store, id: Uuid) -> Option<Uuid> {
    store.get::<R>(id).is_none().then_some(id)
}

fn put_back<R: Row>(store: &mut Store, mut row: R, names: &Renamed) {
    row.rename(names);
    names.swap(&mut row.meta_mut().id);
    if store.get::<R>(row.meta().id).is_none() {
        store.put(row);
    }
}

/// A port is not revived without its network.
pub(super) fn put_back_port(store: &mut Store, mut port: Port, names: &Renamed) {
    port.rename(names);
    if store.get::<Network>(port.network).is_some() {
        put_back(store, port, names);
    }
}

fn put_back_router(store: &mut Store, mut router: Router, names: &Renamed) {
    router.rename(names);
    if store.get::<Router>(router.meta.id).is_none() {
        return put_back(store, router, names);
    }
    let gateway = router
        .gateway
        .filter(|gateway| store.get::<Port>(gateway.port).is_some());
    let interfaces: Vec<Uuid> = router
        .interfaces
        .into_iter()
        .filter(|port| store.get::<Port>(*port).is_some())
        .collect();
    store.edit(router.meta.id, |now: &mut Router| {
        now.gateway = now.gateway.take().or(gateway);
        for port in interfaces {
            if !now.interfaces.contains(&port) {
                now.interfaces.push(port);
            }
        }
        for route in router.routes {
            if !now.routes.contains(&route) {
                now.routes.push(route);
            }
        }
    });
}

fn put_back_trunk(store: &mut Store, trunk: Trunk, names: &Renamed) {
    if store.get::<Trunk>(trunk.meta.id).is_none() {
        return put_back(store, trunk, names);
    }
    let free: Vec<_> = trunk
        .subports
        .into_iter()
        .filter(|sub| !store.indexes().trunks_by_subport.has(&sub.port))
        .collect();
    store.edit(trunk.meta.id, |now: &mut Trunk| now.subports.extend(free));
}
