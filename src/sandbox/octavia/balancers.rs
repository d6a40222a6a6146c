//! Load balancers: placement of their VIP, and the rules for changing and deleting them.
use serde_json::{Map, Value};
use uuid::Uuid;

use super::body::{bad, conflict, failed, invalid};
use super::graph;
use super::kind::Kind;
use super::revival::Tree;
use super::session::{Session, given_or};
use super::store::{Item, Root, Status, Vip};
use crate::sandbox::neutron::{VipPort, VipSubnet, WantedPort};
use crate::sandbox::wire::{Refusal, Result};

/// The only provider that is enabled.
const PROVIDER: &str = "testbed";
/// Free addresses that a subnet needs to be chosen: one for the VIP and one for an amphora.
const FREE_MIN: u128 = 2;

/// The placement of a VIP, as far as it is known before its port is created.
struct Place {
    network: Uuid,
    subnet: Uuid,
    address: Option<String>,
    port: Option<VipPort>,
    more: Vec<(Uuid, Option<String>)>,
}

pub(super) fn create(session: &mut Session<'_>, body: &Map<String, Value>) -> Result<Uuid> {
    let given = |name: &str| body.get(name).and_then(Value::as_str);
    let project = given("project_id")
        .or(given("tenant_id"))
        .unwrap_or(&session.caller.project);
    session.may_change(project)?;
    let place = place(session, body)?;
    check_extras(session, body)?;
    let mut item = session.new_item(Kind::LoadBalancer, project.into(), body);
    if let Some(policy) = place.port.as_ref().and_then(VipPort::qos_policy)
        && !body.contains_key("vip_qos_policy_id")
    {
        item.values
            .insert("vip_qos_policy_id".to_owned(), policy.into());
    }
    let vip = vip(session, &item, place)?;
    item.root = Some(Box::new(Root {
        vip,
        due: None,
        next: None,
        fails: false,
    }));
    let id = item.id;
    session.octavia.store.put(item.clone());
    graph::create(session, &item, body)?;
    session.begin(id, Status::PendingCreate);
    session.octavia.store.edit(id, |item| item.updated = None);
    Ok(id)
}

pub(super) fn not_found(what: &str, id: &str) -> Refusal {
    bad(format!("{what} {id} not found."))
}

fn id_in(body: &Map<String, Value>, name: &str) -> Option<Uuid> {
    body.get(name)?.as_str()?.parse().ok()
}

/// Places the VIP in the API's order: a port decides everything, else a network, else a subnet.
fn place(session: &Session<'_>, body: &Map<String, Value>) -> Result<Place> {
    let address = body.get("vip_address").and_then(Value::as_str);
    let subnet = id_in(body, "vip_subnet_id");
    let mut place = if let Some(port) = id_in(body, "vip_port_id") {
        on_port(session, port, subnet, address)?
    } else if let Some(network) = id_in(body, "vip_network_id") {
        on_network(session, network, subnet, address)?
    } else if let Some(subnet) = subnet {
        Place {
            network: subnet_named(session, subnet)?.network,
            subnet,
            address: address.map(str::to_owned),
            port: None,
            more: Vec::new(),
        }
    } else {
        return Err(invalid(
            "VIP must contain one of: vip_port_id, vip_network_id, vip_subnet_id.",
        ));
    };
    if let Some(policy) = id_in(body, "vip_qos_policy_id")
        && !session.neutron.has_qos_policy(session.caller, policy)
    {
        return Err(not_found("qos_policy", &policy.to_string()));
    }
    place.more = more(session, &place, body)?;
    Ok(place)
}

fn subnet_named(session: &Session<'_>, id: Uuid) -> Result<VipSubnet> {
    let found = session.neutron.vip_subnet(session.caller, id);
    found.ok_or_else(|| not_found("Subnet", &id.to_string()))
}

fn on_port(
    session: &Session<'_>,
    id: Uuid,
    subnet: Option<Uuid>,
    address: Option<&str>,
) -> Result<Place> {
    let found = session.neutron.vip_port(session.caller, id);
    let port = found.ok_or_else(|| not_found("Port", &id.to_string()))?;
    if !port.device().is_empty() {
        let device = port.device();
        return Err(invalid(&format!(
            "Port {id} is already used by device {device} "
        )));
    }
    let mut addresses = port.addresses();
    let (subnet, address) = match (subnet, address) {
        (Some(subnet), _) => {
            subnet_named(session, subnet)?;
            addresses.find(|(known, _)| *known == subnet).ok_or_else(|| {
                invalid("No VIP address found on the specified VIP port within the specified subnet.")
            })?
        }
        (None, Some(address)) => addresses
            .find(|(_, known)| known == address)
            .ok_or_else(|| invalid("Specified VIP address not found on the specified VIP port."))?,
        (None, None) => match (addresses.next(), addresses.next()) {
            (Some(only), None) => only,
            _ => {
                return Err(invalid(
                    "VIP port's subnet could not be determined. Please specify either a VIP subnet \
                     or address.",
                ));
            }
        },
    };
    drop(addresses);
    Ok(Place {
        network: port.network(),
        subnet,
        address: Some(address),
        port: Some(port),
        more: Vec::new(),
    })
}

fn on_network(
    session: &Session<'_>,
    network: Uuid,
    subnet: Option<Uuid>,
    address: Option<&str>,
) -> Result<Place> {
    let found = session.neutron.vip_network(session.caller, network);
    let subnets = found.ok_or_else(|| not_found("Network", &network.to_string()))?;
    let chosen = match (subnet, address) {
        (Some(subnet), _) => subnets
            .iter()
            .find(|known| known.id == subnet)
            .ok_or_else(|| not_found("Subnet", &subnet.to_string()))?,
        (None, Some(address)) => subnets
            .iter()
            .find(|known| known.holds(address))
            .ok_or_else(|| {
                invalid("Supplied network does not contain a subnet for VIP address specified.")
            })?,
        (None, None) => roomy(&subnets)?,
    };
    Ok(Place {
        network,
        subnet: chosen.id,
        address: address.map(str::to_owned),
        port: None,
        more: Vec::new(),
    })
}

/// Returns the first subnet with enough free addresses, preferably of IP version 4.
fn roomy(subnets: &[VipSubnet]) -> Result<&VipSubnet> {
    if subnets.is_empty() {
        return Err(invalid("Supplied network does not contain a subnet."));
    }
    let with_room = || subnets.iter().filter(|subnet| subnet.free >= FREE_MIN);
    with_room()
        .find(|subnet| subnet.is_version_4())
        .or_else(|| with_room().next())
        .ok_or_else(|| {
            invalid("Subnet(s) in the supplied network do not contain enough available IPs.")
        })
}

/// Returns the additional VIPs: in other subnets of the same network.
fn more(
    session: &Session<'_>,
    place: &Place,
    body: &Map<String, Value>,
) -> Result<Vec<(Uuid, Option<String>)>> {
    let mut more: Vec<(Uuid, Option<String>)> = Vec::new();
    for wanted in body
        .get("additional_vips")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
    {
        let text = |name: &str| wanted.get(name).and_then(Value::as_str);
        let Some(subnet) = text("subnet_id").and_then(|id| id.parse().ok()) else {
            continue;
        };
        if subnet == place.subnet || more.iter().any(|(known, _)| *known == subnet) {
            return Err(invalid(
                "Duplicate VIP subnet(s) specified. Only one IP can be bound per subnet.",
            ));
        }
        more.push((subnet, text("ip_address").map(str::to_owned)));
    }
    for (id, _) in &more {
        let subnet = session.neutron.vip_subnet(session.caller, *id);
        let subnet = subnet.ok_or_else(|| invalid(&format!("Subnet {id} not found")))?;
        if subnet.network != place.network {
            return Err(invalid("All VIP subnets must belong to the same network."));
        }
    }
    Ok(more)
}

/// Refuses a body that names a security group, flavor, zone or provider that does not exist.
fn check_extras(session: &Session<'_>, body: &Map<String, Value>) -> Result<()> {
    let groups = body.get("vip_sg_ids").and_then(Value::as_array);
    for group in groups.into_iter().flatten().filter_map(Value::as_str) {
        let known = group
            .parse()
            .is_ok_and(|id| session.neutron.has_group(session.caller, id));
        if !known {
            return Err(not_found("Security Group", group));
        }
    }
    let given = |name: &str| body.get(name).and_then(Value::as_str);
    if given("flavor_id").is_some() {
        return Err(invalid("Invalid flavor_id."));
    }
    if given("availability_zone").is_some() {
        return Err(invalid("Invalid availability zone."));
    }
    match given("provider") {
        Some(provider) if provider != PROVIDER => {
            Err(bad(format!("Provider '{provider}' is not enabled.")))
        }
        _ => Ok(()),
    }
}

/// Takes the user's port, or creates one. Of Neutron's refusal only the status is reported.
fn vip(session: &mut Session<'_>, balancer: &Item, place: Place) -> Result<Vip> {
    let owned = place.port.is_none();
    let port = match place.port {
        Some(port) => port,
        None => {
            let mut addresses = vec![(place.subnet, place.address)];
            addresses.extend(place.more.iter().cloned());
            let wanted = WantedPort {
                balancer: balancer.id,
                project: &balancer.project,
                network: place.network,
                addresses,
                groups: balancer.value("vip_sg_ids"),
            };
            let made = session.neutron.make_vip_port(&wanted, session.now);
            let (port, changes) = made.map_err(|status| refused(place.network, status))?;
            session.network = changes;
            port
        }
    };
    let on = |subnet: Uuid| {
        port.addresses()
            .find(|(known, _)| *known == subnet)
            .map(|(_, address)| address)
            .unwrap_or_default()
    };
    let more = place.more.iter();
    Ok(Vip {
        address: on(place.subnet),
        port: port.id(),
        subnet: place.subnet,
        network: place.network,
        more: more.map(|(subnet, _)| (*subnet, on(*subnet))).collect(),
        owned,
    })
}

fn refused(network: Uuid, status: http::StatusCode) -> Refusal {
    let exception = match status {
        http::StatusCode::CONFLICT => "ConflictException",
        _ => "BadRequestException",
    };
    let message = format!(
        "Error creating neutron port on network {network} due to {exception}('{exception}: {}').",
        status.as_u16()
    );
    if status == http::StatusCode::CONFLICT {
        failed(message)
    } else {
        bad(message)
    }
}

pub(super) fn update(
    session: &mut Session<'_>,
    balancer: &Item,
    body: &Map<String, Value>,
) -> Result<()> {
    if let Some(policy) = id_in(body, "vip_qos_policy_id")
        && !session.neutron.has_qos_policy(session.caller, policy)
    {
        return Err(not_found("qos_policy", &policy.to_string()));
    }
    if balancer.status != Status::Active {
        return Err(wrong_state(balancer));
    }
    session.begin(balancer.id, Status::PendingUpdate);
    set(session, balancer, body);
    Ok(())
}

/// Copies the attributes of a body into an item.
pub(super) fn set(session: &mut Session<'_>, item: &Item, body: &Map<String, Value>) {
    let form = item.kind.form();
    session.edit(item.id, |item| {
        for (name, value) in body {
            let unset = form.attribute(name).and_then(|known| known.unset.value());
            if let Some(unset) = unset {
                item.values
                    .insert(name.clone(), given_or(value, name, unset));
            }
        }
    });
}

/// Deletes a balancer; one with children only on request (`cascade`). An ERROR one can be deleted, a pending
/// one cannot.
pub(super) fn delete(
    session: &mut Session<'_>,
    balancer: &Item,
    cascade: Option<&str>,
) -> Result<()> {
    let id = balancer.id;
    let cascade = cascade.is_some_and(|word| {
        ["1", "t", "true", "on", "y", "yes"].contains(&word.trim().to_ascii_lowercase().as_str())
    });
    let store = session.store();
    let has_children = !store.children(id, Kind::Listener).is_empty()
        || !store.children(id, Kind::Pool).is_empty();
    if has_children && !cascade {
        return Err(invalid(&format!(
            "Cannot delete Load Balancer {id} - it has children"
        )));
    }
    if !matches!(balancer.status, Status::Active | Status::Error) {
        return Err(wrong_state(balancer));
    }
    let tree = Tree::of(session, balancer);
    session.deleted.push(tree);
    session.begin(id, Status::PendingDelete);
    Ok(())
}

fn wrong_state(balancer: &Item) -> Refusal {
    conflict(format!(
        "Invalid state {} of loadbalancer resource {}",
        balancer.status.text(),
        balancer.id
    ))
}
