//! Load balancers: placement of their VIP, and the rules for changing and deleting them.
use std::net::IpAddr;

use serde_json::{Value, json};
use uuid::Uuid;

use super::pending::{self, BALANCER, STATUS, Status, begin};
use super::{children, refused};
use crate::sandbox::core::{Body, Call, Hooks, Result, Row, Session, Store, refuse_if};
use crate::sandbox::neutron::is_inside;

pub(super) const LOAD_BALANCER: Hooks = Hooks {
    create,
    update: |session, row, _| {
        check_status(&row, &[Status::Active])?;
        let id = session.put(row);
        begin(session, id, Status::PendingUpdate);
        Ok(())
    },
    delete,
    removed: |session, balancer| {
        if let Some(port) = own_port(session.store(), balancer) {
            session.remove("port", port);
        }
    },
    settle: pending::settle,
    show: children::show,
    ..Hooks::NONE
};

fn create(session: &mut Session<'_>, mut row: Row, body: &Body) -> Result<Uuid> {
    let (port, subnet) = vip(session, &row, body)?;
    let on = |subnet: &Value| {
        let mut fixed = port.items("fixed_ips").iter();
        let fixed = fixed.find(|fixed| fixed["subnet_id"] == *subnet);
        fixed.map(|fixed| fixed["ip_address"].clone())
    };
    let more = row.items("additional_vips").iter();
    let more: Value = more
        .map(|vip| &vip["subnet_id"])
        .map(|subnet| json!({"subnet_id": subnet, "ip_address": on(subnet), "port_id": port.id}))
        .collect();
    row.set("additional_vips", more);
    row.set("vip_address", on(&subnet));
    row.set("vip_port_id", port.id.to_string());
    row.set("vip_subnet_id", subnet);
    row.set("vip_network_id", port.value("network_id"));
    children::create_all(session, &row, body)?;
    let id = session.put(row);
    session.begin(BALANCER, id);
    Ok(id)
}

/// Returns the row of the network service that an attribute of a body names.
fn named(session: &Session<'_>, kind: &str, body: &Body, name: &str) -> Result<Option<Row>> {
    session.optional_row(kind, body, name).map_err(|_| {
        let (first, rest) = kind.split_at(1);
        let id = body[name].as_str().unwrap_or_default();
        refused("VipTargetNotFound", &[&(first.to_uppercase() + rest), &id])
    })
}

/// Returns the port of the VIP, and the id of the subnet on which it has the VIP's address. A port decides everything;
/// else a subnet; else a network: its first subnet that has the wanted address is taken, IPv4 before IPv6.
fn vip(session: &mut Session<'_>, balancer: &Row, body: &Body) -> Result<(Row, Value)> {
    let address = balancer.value("vip_address");
    let port = named(session, "port", body, "vip_port_id")?;
    let network = named(session, "network", body, "vip_network_id")?;
    let subnet = named(session, "subnet", body, "vip_subnet_id")?;
    if let Some(port) = port {
        let subnet = subnet_on(&port, subnet.map(|subnet| subnet.id), &address)?;
        return Ok((port, subnet));
    }
    let subnet = match (subnet, network) {
        (Some(subnet), _) => subnet,
        (None, Some(network)) => {
            let wanted: Option<IpAddr> = address.as_str().and_then(|text| text.parse().ok());
            let fits = |row: &&Row| wanted.is_none_or(|address| is_inside(row, address));
            let subnets = session.store().of("subnet", "network_id", network.id);
            let subnets = subnets.filter(fits);
            let subnet = subnets.min_by_key(|row| row.value("ip_version").as_u64());
            let subnet = subnet.ok_or_else(|| refused("VipWithoutSubnet", &[]))?;
            subnet.clone()
        }
        (None, None) => return Err(refused("VipNowhere", &[])),
    };
    let port = create_port(session, balancer, &subnet)?;
    Ok((port, subnet.id.to_string().into()))
}

/// Returns the id of the subnet on which a free port has the wanted address.
fn subnet_on(port: &Row, subnet: Option<Uuid>, address: &Value) -> Result<Value> {
    let device = port.text("device_id");
    if !device.is_empty() {
        return Err(refused("VipPortInUse", &[&port.id, &device]));
    }
    let fits = |fixed: &&Value| {
        subnet.is_none_or(|subnet| fixed["subnet_id"] == subnet.to_string())
            && (address.is_null() || fixed["ip_address"] == *address)
    };
    let fixed = port.items("fixed_ips").iter().find(fits);
    let fixed = fixed.ok_or_else(|| refused("VipAddressNotOnPort", &[]))?;
    Ok(fixed["subnet_id"].clone())
}

/// Creates a balancer's port, which stays if the balancer is then refused, as in Octavia. The caller learns only
/// whether Neutron refused the port with a conflict.
fn create_port(session: &mut Session<'_>, balancer: &Row, subnet: &Row) -> Result<Row> {
    let (network, address) = (subnet.text("network_id"), balancer.value("vip_address"));
    let mut addresses = vec![json!({"subnet_id": subnet.id, "ip_address": address})];
    addresses.extend_from_slice(balancer.items("additional_vips"));
    let body = json!({
        "project_id": &*balancer.project,
        "name": format!("octavia-lb-{}", balancer.id),
        "network_id": network,
        "admin_state_up": false,
        "device_id": device(balancer.id),
        "device_owner": OWNER,
        "fixed_ips": addresses,
    });
    let made = session.as_service(&balancer.project, |session| session.create("port", &body));
    let id = made.map_err(|refusal| match refusal.status {
        http::StatusCode::CONFLICT => refused("VipPortConflict", &[&network]),
        _ => refused("VipPortRefused", &[&network]),
    })?;
    session.commit();
    session.row("port", id)
}

const OWNER: &str = "Octavia";

/// Returns the device of a balancer's port.
fn device(balancer: Uuid) -> String {
    format!("lb-{balancer}")
}

/// Refuses a change of a balancer that has none of these statuses.
fn check_status(balancer: &Row, statuses: &[Status]) -> Result<()> {
    let is_one = statuses.iter().any(|status| status.is_of(balancer));
    let status = balancer.text(STATUS);
    refuse_if(!is_one, || refused("WrongState", &[&status, &balancer.id]))
}

/// Begins to delete a balancer, with children only if the call says `cascade`. A balancer in ERROR can be deleted,
/// a pending one cannot.
fn delete(session: &mut Session<'_>, balancer: &Row, call: &Call<'_>) -> Result<()> {
    let yes = ["1", "t", "true", "on", "y", "yes"];
    let cascades = call
        .param("cascade")
        .is_some_and(|word| yes.contains(&word.to_ascii_lowercase().as_str()));
    let tree = session.store().tree(balancer);
    if tree.len() > 1 && !cascades {
        return Err(refused("HasChildren", &[&balancer.id]));
    }
    check_status(balancer, &[Status::Active, Status::Error])?;
    let port = own_port(session.store(), balancer).map(|port| ("port", port));
    for (kind, id) in tree.into_iter().chain(port) {
        session.record_unchanged(kind, id);
    }
    begin(session, balancer.id, Status::PendingDelete);
    Ok(())
}

/// Returns the port that is deleted with a balancer: the one that was created for it.
fn own_port(store: &Store, balancer: &Row) -> Option<Uuid> {
    let port = store.referred(balancer, "vip_port_id", "port")?;
    let is_own =
        port.text("device_owner") == OWNER && port.text("device_id") == device(balancer.id);
    is_own.then_some(port.id)
}
