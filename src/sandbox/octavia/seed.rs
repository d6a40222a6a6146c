//! Creates complete load balancers at once, already ACTIVE.
use chrono::{DateTime, Utc};
use serde_json::{Value, json};
use uuid::Uuid;

use super::Octavia;
use super::balancers;
use crate::sandbox::Caller;
use crate::sandbox::neutron::{Neutron, Seed};
use crate::sandbox::wire::Answer;

impl Octavia {
    /// Creates the balancers of a seed in one subnet: each with a listener, a pool of two members there and a
    /// health monitor.
    pub(in crate::sandbox) fn seed(
        &mut self,
        seed: &Seed,
        subnet: Uuid,
        caller: &Caller,
        neutron: &mut Neutron,
        now: DateTime<Utc>,
    ) -> Result<Vec<Uuid>, String> {
        let hosts = neutron.vip_subnet(caller, subnet);
        let members: Value = hosts
            .into_iter()
            .flat_map(|subnet| subnet.hosts().skip(1).take(2).collect::<Vec<_>>())
            .map(|address| json!({"address": address, "protocol_port": 8080}))
            .collect();
        let mut made = Vec::new();
        for number in 0..seed.load_balancers {
            let name = format!("{}-balancer-{number}", seed.prefix());
            let body = whole(&name, subnet, &members);
            let outcome = self.transact(caller, neutron, now, |session| {
                let body = body.as_object().cloned().unwrap_or_default();
                made.push(balancers::create(session, &body)?);
                Ok(Answer::no_content())
            });
            if !outcome.answer.is_success() {
                return Err(format!("load_balancers: {:?}", outcome.answer.body));
            }
        }
        for id in &made {
            self.finish(*id, now, neutron);
        }
        Ok(made)
    }
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
