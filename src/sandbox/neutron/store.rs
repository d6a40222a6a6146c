//! One region's resources and their indexes, with a journal to roll changes back.
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use uuid::Uuid;

use super::address_groups::AddressGroup;
use super::conntrack::ConntrackHelper;
use super::floating_ips::FloatingIp;
use super::forwardings::Forwarding;
use super::groups::{Group, Rule};
use super::kind::Row;
use super::local_ips::{Association, LocalIp};
use super::metering::{MeteringLabel, MeteringRule};
use super::ndp_proxies::NdpProxy;
use super::networks::Network;
use super::pools::{Pool, RbacPolicy};
use super::ports::Port;
use super::qos::QosPolicy;
use super::routers::Router;
use super::scopes::AddressScope;
use super::segments::Segment;
use super::subnets::Subnet;
use super::trunks::Trunk;

#[derive(Default)]
pub(super) struct Tables {
    pub(super) networks: BTreeMap<Uuid, Network>,
    pub(super) subnets: BTreeMap<Uuid, Subnet>,
    pub(super) ports: BTreeMap<Uuid, Port>,
    pub(super) routers: BTreeMap<Uuid, Router>,
    pub(super) floating_ips: BTreeMap<Uuid, FloatingIp>,
    pub(super) forwardings: BTreeMap<Uuid, Forwarding>,
    pub(super) trunks: BTreeMap<Uuid, Trunk>,
    pub(super) groups: BTreeMap<Uuid, Group>,
    pub(super) rules: BTreeMap<Uuid, Rule>,
    pub(super) pools: BTreeMap<Uuid, Pool>,
    pub(super) scopes: BTreeMap<Uuid, AddressScope>,
    pub(super) segments: BTreeMap<Uuid, Segment>,
    pub(super) address_groups: BTreeMap<Uuid, AddressGroup>,
    pub(super) qos_policies: BTreeMap<Uuid, QosPolicy>,
    pub(super) policies: BTreeMap<Uuid, RbacPolicy>,
    pub(super) local_ips: BTreeMap<Uuid, LocalIp>,
    pub(super) associations: BTreeMap<Uuid, Association>,
    pub(super) conntrack_helpers: BTreeMap<Uuid, ConntrackHelper>,
    pub(super) ndp_proxies: BTreeMap<Uuid, NdpProxy>,
    pub(super) metering_labels: BTreeMap<Uuid, MeteringLabel>,
    pub(super) metering_rules: BTreeMap<Uuid, MeteringRule>,
}

/// Indexes of references, so that no rule scans a table of 100,000 ports.
#[derive(Default)]
pub(super) struct Indexes {
    pub(super) ports_by_network: Index<Uuid>,
    pub(super) ports_by_device: Index<String>,
    pub(super) ports_by_group: Index<Uuid>,
    /// Subnet → address → port. Address allocation reads it too.
    pub(super) addresses: BTreeMap<Uuid, BTreeMap<IpAddr, Uuid>>,
    pub(super) subnets_by_network: Index<Uuid>,
    pub(super) segments_by_network: Index<Uuid>,
    pub(super) floating_ips_by_port: Index<Uuid>,
    pub(super) floating_ips_by_network: Index<Uuid>,
    pub(super) forwardings_by_port: Index<Uuid>,
    pub(super) forwardings_by_floating_ip: Index<Uuid>,
    pub(super) trunks_by_parent: Index<Uuid>,
    pub(super) trunks_by_subport: Index<Uuid>,
    pub(super) rules_by_group: Index<Uuid>,
    pub(super) rules_by_remote_group: Index<Uuid>,
    pub(super) policies_by_object: Index<Uuid>,
}

/// Key → ids.
pub(super) struct Index<K>(BTreeMap<K, BTreeSet<Uuid>>);

impl<K> Default for Index<K> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<K: Ord + Clone> Index<K> {
    pub(super) fn set(&mut self, key: &K, id: Uuid, present: bool) {
        if present {
            match self.0.get_mut(key) {
                Some(ids) => {
                    ids.insert(id);
                }
                None => {
                    self.0.insert(key.clone(), BTreeSet::from([id]));
                }
            }
        } else if let Some(ids) = self.0.get_mut(key) {
            ids.remove(&id);
            if ids.is_empty() {
                self.0.remove(key);
            }
        }
    }

    /// Returns the ids of a key in ascending order.
    pub(super) fn of<'a, Q>(&'a self, key: &Q) -> impl Iterator<Item = Uuid> + use<'a, K, Q>
    where
        K: std::borrow::Borrow<Q>,
        Q: Ord + ?Sized,
    {
        self.0.get(key).into_iter().flatten().copied()
    }

    pub(super) fn has<Q>(&self, key: &Q) -> bool
    where
        K: std::borrow::Borrow<Q>,
        Q: Ord + ?Sized,
    {
        self.0.contains_key(key)
    }
}

/// A row before a change; `None`: it did not exist.
#[derive(Clone)]
pub(super) enum Undo {
    Network(Uuid, Option<Network>),
    Subnet(Uuid, Option<Subnet>),
    Port(Uuid, Option<Port>),
    Router(Uuid, Option<Router>),
    FloatingIp(Uuid, Option<FloatingIp>),
    Forwarding(Uuid, Option<Forwarding>),
    Trunk(Uuid, Option<Trunk>),
    Group(Uuid, Option<Group>),
    Rule(Uuid, Option<Rule>),
    Pool(Uuid, Option<Pool>),
    Scope(Uuid, Option<AddressScope>),
    Segment(Uuid, Option<Segment>),
    AddressGroup(Uuid, Option<AddressGroup>),
    QosPolicy(Uuid, Option<QosPolicy>),
    Policy(Uuid, Option<RbacPolicy>),
    LocalIp(Uuid, Option<LocalIp>),
    Association(Uuid, Option<Association>),
    ConntrackHelper(Uuid, Option<ConntrackHelper>),
    NdpProxy(Uuid, Option<NdpProxy>),
    MeteringLabel(Uuid, Option<MeteringLabel>),
    MeteringRule(Uuid, Option<MeteringRule>),
}

#[derive(Default)]
pub(super) struct Store {
    tables: Tables,
    indexes: Indexes,
    /// Set while changes may have to be rolled back.
    journal: Option<Vec<Undo>>,
}

impl Store {
    pub(super) fn get<R: Row>(&self, id: Uuid) -> Option<&R> {
        R::table(&self.tables).get(&id)
    }

    pub(super) fn all<R: Row>(&self) -> &BTreeMap<Uuid, R> {
        R::table(&self.tables)
    }

    pub(super) fn indexes(&self) -> &Indexes {
        &self.indexes
    }

    /// Inserts or replaces a row.
    pub(super) fn put<R: Row>(&mut self, row: R) {
        let id = row.meta().id;
        self.forget::<R>(id);
        row.index(&mut self.indexes, true);
        R::table_mut(&mut self.tables).insert(id, row);
    }

    pub(super) fn take<R: Row>(&mut self, id: Uuid) -> Option<R> {
        if !R::table(&self.tables).contains_key(&id) {
            return None;
        }
        self.forget(id)
    }

    /// Changes a row in place. Returns false when there is none.
    pub(super) fn edit<R: Row>(&mut self, id: Uuid, change: impl FnOnce(&mut R)) -> bool {
        let Some(mut row) = self.get::<R>(id).cloned() else {
            return false;
        };
        change(&mut row);
        self.put(row);
        true
    }

    /// Removes a row from its table and the indexes, and journals its previous state.
    fn forget<R: Row>(&mut self, id: Uuid) -> Option<R> {
        let before = R::table_mut(&mut self.tables).remove(&id);
        if let Some(row) = &before {
            row.index(&mut self.indexes, false);
        }
        if let Some(journal) = &mut self.journal {
            journal.push(R::undo(id, before.clone()));
        }
        before
    }

    /// Starts a new journal of changes.
    pub(super) fn record(&mut self) {
        self.journal = Some(Vec::new());
    }

    /// Ends the journal and returns its changes, oldest first.
    pub(super) fn recorded(&mut self) -> Vec<Undo> {
        self.journal.take().unwrap_or_default()
    }

    /// Rolls changes back, newest first.
    pub(super) fn roll_back(&mut self, changes: Vec<Undo>) {
        for change in changes.into_iter().rev() {
            match change {
                Undo::Network(id, row) => self.restore(id, row),
                Undo::Subnet(id, row) => self.restore(id, row),
                Undo::Port(id, row) => self.restore(id, row),
                Undo::Router(id, row) => self.restore(id, row),
                Undo::FloatingIp(id, row) => self.restore(id, row),
                Undo::Forwarding(id, row) => self.restore(id, row),
                Undo::Trunk(id, row) => self.restore(id, row),
                Undo::Group(id, row) => self.restore(id, row),
                Undo::Rule(id, row) => self.restore(id, row),
                Undo::Pool(id, row) => self.restore(id, row),
                Undo::Scope(id, row) => self.restore(id, row),
                Undo::Segment(id, row) => self.restore(id, row),
                Undo::AddressGroup(id, row) => self.restore(id, row),
                Undo::QosPolicy(id, row) => self.restore(id, row),
                Undo::Policy(id, row) => self.restore(id, row),
                Undo::LocalIp(id, row) => self.restore(id, row),
                Undo::Association(id, row) => self.restore(id, row),
                Undo::ConntrackHelper(id, row) => self.restore(id, row),
                Undo::NdpProxy(id, row) => self.restore(id, row),
                Undo::MeteringLabel(id, row) => self.restore(id, row),
                Undo::MeteringRule(id, row) => self.restore(id, row),
            }
        }
    }

    fn restore<R: Row>(&mut self, id: Uuid, row: Option<R>) {
        match row {
            Some(row) => self.put(row),
            None => {
                self.forget::<R>(id);
            }
        }
    }
}
