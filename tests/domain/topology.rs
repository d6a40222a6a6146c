//! A cloud as rows in memory, which answers the planner's lookups.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use gone::domain::kinds::{Kinds, lookup};
use gone::domain::model::{KindName, Plan, PlanOptions, Resource, Site};
use gone::domain::plan::{Found, Frozen, Planner};
use gone::domain::query::Lookup;
use serde_json::{Value, json};

pub struct Topology {
    pub kinds: Kinds,
    pub rows: BTreeMap<String, Vec<Value>>,
    /// The lookups that were answered, in order.
    pub lookups: Vec<Lookup>,
    /// The identities and endpoints with which the rows were read.
    pub frozen: Frozen,
}

/// Passes the rows in two pages. The second page is read again from its start, because one of its rows is gone.
fn found<'k>(planner: &Planner<'k>, lookup: &Lookup, rows: &[Value]) -> Found<'k> {
    let (first, second) = rows.split_at(rows.len() / 2);
    let mut found = planner.found(lookup);
    found.begin();
    found.add(first);
    found.begin();
    for row in second {
        let mut vanished = row.clone();
        vanished["id"] = json!("vanished");
        found.add(&[vanished]);
    }
    found.begin_again();
    found.add(second);
    found
}

pub fn site() -> Site {
    Site::region("prod", "RegionOne")
}

/// The shipped kinds, read once because a property test makes hundreds of clouds.
static KINDS: LazyLock<Kinds> = LazyLock::new(|| gone::cloud::load_kinds(&[]).unwrap());

impl Topology {
    pub fn new() -> Self {
        Self {
            kinds: KINDS.clone(),
            rows: BTreeMap::new(),
            lookups: Vec::new(),
            frozen: Frozen::default(),
        }
    }

    pub fn add(&mut self, kind: &str, row: Value) -> &mut Self {
        let mut full = json!({ "project_id": "p1", "name": "", "tags": [] });
        full.as_object_mut()
            .unwrap()
            .extend(row.as_object().unwrap().clone());
        self.rows.entry(kind.to_owned()).or_default().push(full);
        self
    }

    pub fn change(&mut self, kind: &str, id: &str, field: &str, value: Value) {
        let row = self
            .rows
            .get_mut(kind)
            .unwrap()
            .iter_mut()
            .find(|row| row["id"] == id)
            .unwrap();
        row[field] = value;
    }

    /// The network `web` with a subnet, a router interface with a route behind it, a server's port with a floating IP,
    /// a DHCP port, and a trunk whose two subports are on the network `storage`.
    pub fn web() -> Self {
        let mut cloud = Self::new();
        cloud
            .add("network", json!({ "id": "web", "name": "web", "shared": false, "router:external": false }))
            .add("network", json!({ "id": "storage", "name": "storage", "shared": false, "router:external": false }))
            .add("subnet", json!({ "id": "s1", "name": "s1", "network_id": "web", "cidr": "10.0.0.0/24" }))
            .add("subnet", json!({ "id": "s2", "name": "s2", "network_id": "storage", "cidr": "10.1.0.0/24" }))
            .add("router", json!({ "id": "r1", "name": "r1", "routes": [
                { "destination": "192.0.2.0/24", "nexthop": "10.0.0.9" }, { "destination": "198.51.100.0/24", "nexthop": "10.1.0.9" }] }));
        for (id, network, owner, device, subnet, ip) in [
            (
                "if1",
                "web",
                "network:router_interface",
                "r1",
                "s1",
                "10.0.0.1",
            ),
            (
                "if2",
                "storage",
                "network:router_interface",
                "r1",
                "s2",
                "10.1.0.1",
            ),
            ("dhcp", "web", "network:dhcp", "d", "s1", "10.0.0.2"),
            ("vm", "web", "compute:nova", "vm", "s1", "10.0.0.3"),
            ("parent", "web", "compute:nova", "vm2", "s1", "10.0.0.4"),
            ("sub1", "storage", "", "", "s2", "10.1.0.5"),
            ("sub2", "storage", "", "", "s2", "10.1.0.6"),
            ("other", "storage", "compute:nova", "vm3", "s2", "10.1.0.7"),
        ] {
            cloud.add("port", json!({ "id": id, "name": id, "network_id": network, "device_owner": owner, "device_id": device,
                "fixed_ips": [{ "subnet_id": subnet, "ip_address": ip }], "security_groups": [] }));
        }
        cloud
            .add("trunk", json!({ "id": "t1", "name": "t1", "port_id": "parent", "admin_state_up": true,
                "sub_ports": [{ "port_id": "sub1" }, { "port_id": "sub2" }] }))
            .add("floating_ip", json!({ "id": "fip", "floating_ip_address": "203.0.113.9", "port_id": "vm", "router_id": "r1",
                "fixed_ip_address": "10.0.0.3", "port_forwardings": [] }));
        cloud
    }

    /// Adds the port that Neutron creates with the floating IP: on the external network, without a project.
    pub fn add_floating_ips_port(&mut self) {
        self.add("port", json!({ "id": "own", "project_id": "", "network_id": "external", "device_owner": "network:floatingip",
            "device_id": "fip", "fixed_ips": [{ "subnet_id": "outside", "ip_address": "203.0.113.9" }], "security_groups": [] }));
    }

    /// Plans the deletion of one resource.
    pub fn plan(&mut self, kind: &str, id: &str, options: PlanOptions) -> Plan {
        self.plan_guarded(kind, id, options, &|_| None)
    }

    /// Plans the deletion of one resource. `protection` returns why a resource is protected, or none.
    pub fn plan_guarded(
        &mut self,
        kind: &str,
        id: &str,
        options: PlanOptions,
        protection: &(dyn Fn(&Resource) -> Option<String> + Send + Sync),
    ) -> Plan {
        let target = self.resource(kind, id);
        let kinds = self.kinds.clone();
        let mut planner = Planner::new(&kinds, options, protection, vec![target]);
        loop {
            let wanted = planner.wanted();
            if wanted.is_empty() {
                return planner.finish(self.frozen.clone());
            }
            for lookup in wanted {
                let rows = self.answer(&lookup);
                planner.feed(found(&planner, &lookup, &rows));
                assert!(
                    !self.lookups.contains(&lookup),
                    "looked up twice: {lookup:?}"
                );
                self.lookups.push(lookup);
            }
        }
    }

    pub fn resource(&self, kind: &str, id: &str) -> Resource {
        let kind = self.kinds.get(&KindName::new(kind)).unwrap();
        let listed = self.kinds.listed(kind);
        self.rows[listed.name.as_str()]
            .iter()
            .flat_map(|row| self.kinds.resources_in(&site(), listed, row))
            .find(|found| found.key.kind == kind.name && found.key.id == id)
            .unwrap()
    }

    fn answer(&self, wanted: &Lookup) -> Vec<Value> {
        let rows = self
            .rows
            .get(wanted.kind.as_str())
            .cloned()
            .unwrap_or_default();
        let Some(filter) = &wanted.filter else {
            return rows;
        };
        rows.into_iter()
            .filter(|row| match filter.key.as_str() {
                "fixed_ips" => lookup(row, "fixed_ips[].subnet_id")
                    .iter()
                    .any(|id| filter.values.contains(&format!("subnet_id={id}"))),
                "security_groups" => lookup(row, "security_groups[]")
                    .iter()
                    .any(|id| filter.values.contains(id)),
                // Octavia's filters have other names than its fields.
                "load_balancer_id" | "loadbalancer_id" => lookup(row, "loadbalancers[].id")
                    .iter()
                    .any(|id| filter.values.contains(id)),
                "pool_id" => lookup(row, "pools[].id")
                    .iter()
                    .any(|id| filter.values.contains(id)),
                key => lookup(row, key).iter().any(|value| {
                    let fits = |pattern: &String| match pattern.strip_prefix('*') {
                        Some(end) => value.ends_with(end),
                        None => value == pattern,
                    };
                    filter.values.iter().any(fits)
                }),
            })
            .collect()
    }
}

pub fn cascade() -> PlanOptions {
    PlanOptions {
        cascade: true,
        ..PlanOptions::default()
    }
}

/// Returns `kind/id` of every step, in order.
pub fn steps(plan: &Plan) -> Vec<String> {
    plan.steps
        .iter()
        .map(|step| format!("{}/{}", step.kind, step.resource_id))
        .collect()
}

/// Whether a step waits for another one, directly or through others.
pub fn goes_after(plan: &Plan, later: &str, earlier: &str) -> bool {
    let at = |name: &str| {
        plan.steps.iter().find(|step| {
            format!("{}/{}", step.kind, step.resource_id) == name
                && step.action != gone::domain::model::Action::Enable
        })
    };
    let (Some(later), Some(earlier)) = (at(later), at(earlier)) else {
        panic!("{later} or {earlier} is no step of {:?}", steps(plan))
    };
    let mut open = vec![later.id];
    while let Some(id) = open.pop() {
        if id == earlier.id {
            return true;
        }
        open.extend(&plan.steps[id as usize].depends_on);
    }
    false
}
