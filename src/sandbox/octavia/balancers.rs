//! Load balancers: placement of their VIP, and the rules for changing and deleting them.
use std::net::IpAddr;

use serde_json::{Value, json};
use uuid::Uuid;

use super::pending::{self, BALANCER, STATUS, Status, begin};
use super::{children, refused};
use crate::sandbox::core::{
    Body, Call, Hooks, Refusal, Result, Row, Session, Store, id_in, refuse_if,
};
use crate::sandbox::neutron::is_inside;

pub(super) const LOAD_BALANCER: Hooks = Hooks {
    create,
    update: |session, row, _| {
        refuse_if(!Status::Active.is_of(&row), || wrong_state(&row))?;
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

/// The placement of a VIP, as far as it is known before its port is created.
struct Placement {
    network: Uuid,
    subnet: Uuid,
    address: Value,
    /// The user's own port for the VIP, if the body names one.
    port: Option<Row>,
}

fn create(session: &mut Session<'_>, mut row: Row, body: &Body) -> Result<Uuid> {
    let placement = placement(session, body)?;
    let more = row.items("additional_vips").to_vec();
    let port = match placement.port {
        Some(port) => port,
        None => create_port(session, &row, &placement, &more)?,
    };
    let on = |subnet: &Value| {
        let mut fixed = port.items("fixed_ips").iter();
        let fixed = fixed.find(|fixed| fixed["subnet_id"] == *subnet);
        fixed.map(|fixed| fixed["ip_address"].clone())
    };
    let more: Value = more
        .iter()
        .map(|vip| &vip["subnet_id"])
        .map(|subnet| json!({"subnet_id": subnet, "ip_address": on(subnet), "port_id": port.id}))
        .collect();
    row.set("additional_vips", more);
    row.set("vip_address", on(&placement.subnet.to_string().into()));
    row.set("vip_port_id", port.id.to_string());
    row.set("vip_subnet_id", placement.subnet.to_string());
    row.set("vip_network_id", placement.network.to_string());
    let balancer = row.clone();
    let id = session.put(row);
    children::create_all(session, &balancer, body)?;
    begin(session, id, Status::PendingCreate);
    session.edit(BALANCER, id, |row| row.updated = None);
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

/// Places the VIP: a port decides everything; else a subnet; else a network, of whose subnets the first that has
/// the wanted address is taken, IPv4 before IPv6.
fn placement(session: &Session<'_>, body: &Body) -> Result<Placement> {
    let address = body.get("vip_address").cloned().unwrap_or_default();
    let port = named(session, "port", body, "vip_port_id")?;
    let network = named(session, "network", body, "vip_network_id")?;
    let subnet = named(session, "subnet", body, "vip_subnet_id")?;
    if let Some(port) = port {
        return on_port(port, subnet.map(|subnet| subnet.id), &address);
    }
    let subnet = match (subnet, network) {
        (Some(subnet), _) => subnet,
        (None, Some(network)) => {
            let wanted: Option<IpAddr> = address.as_str().and_then(|text| text.parse().ok());
            let fits = |row: &&Row| wanted.is_none_or(|address| is_inside(row, address));
            let subnets = session.store().of("subnet", "network_id", network.id);
            let subnet = subnets
                .filter(fits)
                .min_by_key(|row| row.value("ip_version").as_u64());
            let subnet = subnet.ok_or_else(|| refused("VipWithoutSubnet", &[]))?;
            subnet.clone()
        }
        (None, None) => return Err(refused("VipNowhere", &[])),
    };
    Ok(Placement {
        network: subnet.id_of("network_id").unwrap_or_default(),
        subnet: subnet.id,
        address,
        port: None,
    })
}

fn on_port(port: Row, subnet: Option<Uuid>, address: &Value) -> Result<Placement> {
    let device = port.text("device_id");
    if !device.is_empty() {
        return Err(refused("VipPortInUse", &[&port.id, &device]));
    }
    let fits = |fixed: &&Value| {
        subnet.is_none_or(|subnet| fixed["subnet_id"] == subnet.to_string())
            && (address.is_null() || fixed["ip_address"] == *address)
    };
    let fixed = port.items("fixed_ips").iter().find(fits).cloned();
    let fixed = fixed.ok_or_else(|| refused("VipAddressNotOnPort", &[]))?;
    Ok(Placement {
        network: port.id_of("network_id").unwrap_or_default(),
        subnet: fixed["subnet_id"]
            .as_str()
            .and_then(id_in)
            .unwrap_or_default(),
        address: fixed["ip_address"].clone(),
        port: Some(port),
    })
}

/// Creates a balancer's port, which stays if the balancer is then refused, as in Octavia. The caller learns only
/// whether Neutron refused the port with a conflict.
fn create_port(
    session: &mut Session<'_>,
    balancer: &Row,
    placement: &Placement,
    more: &[Value],
) -> Result<Row> {
    let mut addresses =
        vec![json!({"subnet_id": placement.subnet, "ip_address": placement.address})];
    addresses.extend_from_slice(more);
    let body = json!({
        "project_id": &*balancer.project,
        "name": format!("octavia-lb-{}", balancer.id),
        "network_id": placement.network,
        "admin_state_up": false,
        "device_id": device(balancer.id),
        "device_owner": OWNER,
        "fixed_ips": addresses,
    });
    let made = session.as_service(&balancer.project, |session| session.create("port", &body));
    let id = made.map_err(|refusal| match refusal.status {
        http::StatusCode::CONFLICT => refused("VipPortConflict", &[&placement.network]),
        _ => refused("VipPortRefused", &[&placement.network]),
    })?;
    session.commit();
    session.row("port", id)
}

const OWNER: &str = "Octavia";

/// Returns the device of a balancer's port.
fn device(balancer: Uuid) -> String {
    format!("lb-{balancer}")
}

fn wrong_state(balancer: &Row) -> Refusal {
    refused("WrongState", &[&balancer.text(STATUS), &balancer.id])
}

/// Begins to delete a balancer, with children only if the call says `cascade`. A balancer in ERROR can be deleted,
/// a pending one cannot.
fn delete(session: &mut Session<'_>, balancer: &Row, call: &Call<'_>) -> Result<()> {
    let id = balancer.id;
    let yes = ["1", "t", "true", "on", "y", "yes"];
    let cascades = call
        .param("cascade")
        .is_some_and(|word| yes.contains(&word.to_ascii_lowercase().as_str()));
    let tree = session.store().tree(balancer);
    if tree.len() > 1 && !cascades {
        return Err(refused("HasChildren", &[&id]));
    }
    if !Status::Active.is_of(balancer) && !Status::Error.is_of(balancer) {
        return Err(wrong_state(balancer));
    }
    for (kind, id) in tree {
        session.record_unchanged(kind, id);
    }
    if let Some(port) = own_port(session.store(), balancer) {
        session.record_unchanged("port", port);
    }
    begin(session, id, Status::PendingDelete);
    Ok(())
}

/// Returns the port that is deleted with a balancer: the one that was created for it.
fn own_port(store: &Store, balancer: &Row) -> Option<Uuid> {
    let port = store.referred(balancer, "vip_port_id", "port")?;
    let is_own =
        port.text("device_owner") == OWNER && port.text("device_id") == device(balancer.id);
    is_own.then_some(port.id)
}
