//! A client for tests: calls a `World` in process, with a token and a clock of its own.
use bytes::Bytes;
use chrono::{DateTime, TimeDelta, Utc};
use gone::sandbox::{Reply, Scenario, World, WorldOptions};
use http::{Method, Request};
use serde_json::{Value, json};

pub struct Cloud {
    pub world: World,
    pub now: DateTime<Utc>,
    admin: String,
    demo: String,
}

/// An answer, read.
#[derive(Debug)]
pub struct Got {
    pub status: u16,
    pub body: Value,
    pub reply: Reply,
}

impl Got {
    /// The id of the single resource in the body.
    pub fn id(&self) -> String {
        self.body
            .as_object()
            .and_then(|body| body.values().next())
            .and_then(|resource| resource["id"].as_str())
            .unwrap_or_else(|| panic!("no id in {self:?}"))
            .to_owned()
    }

    pub fn error_type(&self) -> &str {
        self.body["NeutronError"]["type"]
            .as_str()
            .unwrap_or_default()
    }
}

/// When every test begins.
fn start() -> DateTime<Utc> {
    DateTime::UNIX_EPOCH + TimeDelta::days(20_000)
}

impl Cloud {
    pub fn new() -> Self {
        Self::with(WorldOptions {
            regions: vec!["RegionOne".to_owned(), "RegionTwo".to_owned()],
            ..WorldOptions::default()
        })
    }

    pub fn with(options: WorldOptions) -> Self {
        Self::of(World::new(options))
    }

    /// A world with a scenario, by name.
    pub fn playing(name: &str) -> Self {
        let scenario = Scenario::load(name).unwrap();
        let mut world = World::new(WorldOptions {
            regions: scenario.regions.clone(),
            ..WorldOptions::default()
        });
        world.apply(&scenario, start()).unwrap();
        Self::of(world)
    }

    fn of(world: World) -> Self {
        let mut cloud = Self {
            world,
            now: start(),
            admin: String::new(),
            demo: String::new(),
        };
        cloud.admin = cloud
            .log_in("admin", "secret")
            .expect("admin's password is right");
        cloud.demo = cloud
            .log_in("demo", "secret")
            .expect("demo's password is right");
        cloud
    }

    pub fn pass(&mut self, milliseconds: i64) {
        self.now += TimeDelta::milliseconds(milliseconds);
    }

    pub fn log_in(&mut self, user: &str, password: &str) -> Option<String> {
        let domain = json!({"id": "default"});
        let body = json!({"auth": {
            "identity": {"methods": ["password"], "password": {"user": {"name": user, "domain": domain, "password": password}}},
            "scope": {"project": {"name": user, "domain": domain}},
        }});
        let got = self.send(Method::POST, "/v3/auth/tokens", None, Some(&body), &[]);
        let token = got.reply.response.headers().get("x-subject-token")?;
        Some(token.to_str().unwrap().to_owned())
    }

    pub fn send(
        &mut self,
        method: Method,
        path: &str,
        token: Option<&str>,
        body: Option<&Value>,
        headers: &[(&str, &str)],
    ) -> Got {
        let bytes = body.map_or_else(Bytes::new, |body| Bytes::from(body.to_string()));
        self.send_bytes(method, path, token, bytes, headers)
    }

    pub fn send_bytes(
        &mut self,
        method: Method,
        path: &str,
        token: Option<&str>,
        bytes: Bytes,
        headers: &[(&str, &str)],
    ) -> Got {
        let mut request = Request::builder().method(method).uri(path);
        if let Some(token) = token {
            request = request.header("x-auth-token", token);
        }
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let reply = self.world.handle(request.body(bytes).unwrap(), self.now);
        Got {
            status: reply.response.status().as_u16(),
            body: serde_json::from_slice(reply.response.body()).unwrap_or(Value::Null),
            reply,
        }
    }

    /// As admin, to RegionOne's Neutron; the path begins behind `/v2.0`.
    pub fn call(&mut self, method: &str, path: &str, body: Value) -> Got {
        let token = self.admin.clone();
        self.call_as(&token, method, path, body)
    }

    pub fn call_as_demo(&mut self, method: &str, path: &str, body: Value) -> Got {
        let token = self.demo.clone();
        self.call_as(&token, method, path, body)
    }

    pub fn call_as(&mut self, token: &str, method: &str, path: &str, body: Value) -> Got {
        let body = Some(&body).filter(|body| !body.is_null());
        let path = format!("/RegionOne/network/v2.0{path}");
        self.send(method.parse().unwrap(), &path, Some(token), body, &[])
    }

    pub fn get(&mut self, path: &str) -> Got {
        self.call("GET", path, Value::Null)
    }

    pub fn delete(&mut self, path: &str) -> Got {
        self.call("DELETE", path, Value::Null)
    }

    /// As admin, to RegionOne's Octavia; the path begins behind `/lbaas`.
    pub fn balancing(&mut self, method: &str, path: &str, body: Value) -> Got {
        let token = self.admin.clone();
        let body = Some(&body).filter(|body| !body.is_null());
        let path = format!("/RegionOne/load-balancer/v2.0/lbaas{path}");
        self.send(method.parse().unwrap(), &path, Some(&token), body, &[])
    }

    /// A network with a subnet: both ids.
    pub fn network(&mut self, name: &str, cidr: &str) -> (String, String) {
        let network = self
            .call("POST", "/networks", json!({"network": {"name": name}}))
            .id();
        let subnet = json!({"subnet": {"network_id": network, "ip_version": 4, "cidr": cidr}});
        let subnet = self.call("POST", "/subnets", subnet).id();
        (network, subnet)
    }

    pub fn port(&mut self, network: &str) -> String {
        self.call("POST", "/ports", json!({"port": {"network_id": network}}))
            .id()
    }

    /// A control call that must be accepted.
    pub fn control(&mut self, method: &str, path: &str, body: Value) -> Value {
        let got = self.refused_or_not(method, path, body);
        assert!(got.status < 300, "{path}: {got:?}");
        got.body
    }

    pub fn refused_or_not(&mut self, method: &str, path: &str, body: Value) -> Got {
        let path = format!("/sandbox/v1{path}");
        self.send(method.parse().unwrap(), &path, None, Some(&body), &[])
    }
}
