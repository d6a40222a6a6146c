//! Creates complete load balancers at once, already ACTIVE.
use serde_json::{Value, json};
use uuid::Uuid;

use super::pending::{self, BALANCER};
use crate::sandbox::neutron::Seed;
use crate::sandbox::session::Session;
use crate::sandbox::wire::Result;

/// Creates the balancers of a seed in one subnet: each with a listener, a pool of two members there and a
/// health monitor.
pub(in crate::sandbox) fn seed(
    session: &mut Session<'_>,
    seed: &Seed,
    subnet: Uuid,
) -> Result<Vec<Uuid>> {
    let cidr = session
        .get("subnet", subnet)
        .map(|row| row.text("cidr").to_owned());
    let cidr = cidr.and_then(|cidr| cidr.parse::<ipnet::IpNet>().ok());
    let hosts = cidr
        .into_iter()
        .flat_map(|cidr| cidr.hosts().skip(1).take(2));
    let members: Value = hosts
        .map(|address| json!({"address": address, "protocol_port": 8080}))
        .collect();
    let mut made = Vec::new();
    for number in 0..seed.load_balancers {
        let name = format!("{}-balancer-{number}", seed.prefix());
        made.push(session.create(BALANCER, &whole(&name, subnet, &members))?);
    }
    for id in &made {
        if let Some(row) = session.get(BALANCER, *id).cloned() {
            session.edit(BALANCER, *id, |row| row.due = None);
            pending::settle(session, &row);
        }
    }
    Ok(made)
}

fn whole(name: &str, subnet: Uuid, members: &Value) -> Value {
    json!({
        "name": name,
        "vip_subnet_id": subnet,
        "listeners": [{
            "name": format!("{name}-http"),
            "protocol": "HTTP",
            "protocol_port": 80,
            "default_pool": {
                "name": format!("{name}-pool"),
                "protocol": "HTTP",
                "lb_algorithm": "ROUND_ROBIN",
                "members": members,
                "healthmonitor": {"type": "HTTP", "delay": 5, "timeout": 3, "max_retries": 3},
            },
        }],
    })
}
