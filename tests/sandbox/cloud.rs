//! A client for tests: calls a `World` in this process, with its own tokens and its own clock.
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

/// The reply to a call, with the parsed body.
#[derive(Debug)]
pub struct ParsedReply {
    pub status: u16,
    /// `null` if the body is not JSON.
    pub body: Value,
    pub reply: Reply,
}

impl ParsedReply {
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

/// The time at which every test begins.
fn start() -> DateTime<Utc> {
    DateTime::UNIX_EPOCH + TimeDelta::days(20_000)
}

impl Cloud {
    pub fn new() -> Self {
        Self::with_options(WorldOptions {
            regions: vec!["RegionOne".to_owned(), "RegionTwo".to_owned()],
            ..WorldOptions::default()
        })
    }

    pub fn with_options(options: WorldOptions) -> Self {
        Self::log_in_to(World::new(options))
    }

    /// A world to which the scenario of this name was applied.
    pub fn with_scenario(name: &str) -> Self {
        let scenario = Scenario::load(name).unwrap();
        let mut world = World::new(WorldOptions {
            regions: scenario.regions.clone(),
            ..WorldOptions::default()
        });
        world.apply(&scenario, start()).unwrap();
        Self::log_in_to(world)
    }

    /// Logs in as `admin` and as `demo`.
    fn log_in_to(world: World) -> Self {
        let mut cloud = Self {
            world,
            now: start(),
            admin: String::new(),
            demo: String::new(),
        };
        cloud.admin = cloud.log_in("admin", "secret").expect("admin can log in");
        cloud.demo = cloud.log_in("demo", "secret").expect("demo can log in");
        cloud
    }

    /// Sets the clock forward.
    pub fn advance(&mut self, milliseconds: i64) {
        self.now += TimeDelta::milliseconds(milliseconds);
    }

    /// Logs in to the project that has the user's name. Returns the token, or `None` if the login is refused.
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
    ) -> ParsedReply {
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
    ) -> ParsedReply {
        let mut request = Request::builder().method(method).uri(path);
        if let Some(token) = token {
            request = request.header("x-auth-token", token);
        }
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let reply = self.world.handle(request.body(bytes).unwrap(), self.now);
        ParsedReply {
            status: reply.response.status().as_u16(),
            body: serde_json::from_slice(reply.response.body()).unwrap_or(Value::Null),
            reply,
        }
    }

    /// Calls RegionOne's Neutron as admin; the path is below `/v2.0`.
    pub fn call(&mut self, method: &str, path: &str, body: Value) -> ParsedReply {
        let token = self.admin.clone();
        self.call_as(&token, method, path, body)
    }

    pub fn call_as_demo(&mut self, method: &str, path: &str, body: Value) -> ParsedReply {
        let token = self.demo.clone();
        self.call_as(&token, method, path, body)
    }

    pub fn call_as(&mut self, token: &str, method: &str, path: &str, body: Value) -> ParsedReply {
        let body = Some(&body).filter(|body| !body.is_null());
        let path = format!("/RegionOne/network/v2.0{path}");
        self.send(method.parse().unwrap(), &path, Some(token), body, &[])
    }

    pub fn get(&mut self, path: &str) -> ParsedReply {
        self.call("GET", path, Value::Null)
    }

    pub fn delete(&mut self, path: &str) -> ParsedReply {
        self.call("DELETE", path, Value::Null)
    }

    /// Calls RegionOne's Octavia as admin; the path is below `/lbaas`.
    pub fn call_octavia(&mut self, method: &str, path: &str, body: Value) -> ParsedReply {
        let token = self.admin.clone();
        let body = Some(&body).filter(|body| !body.is_null());
        let path = format!("/RegionOne/load-balancer/v2.0/lbaas{path}");
        self.send(method.parse().unwrap(), &path, Some(&token), body, &[])
    }

    /// Creates a network with a subnet, and returns both ids.
    pub fn network(&mut self, name: &str, cidr: &str) -> (String, String) {
        let network = self
            .call("POST", "/networks", json!({"network": {"name": name}}))
            .id();
        let subnet = json!({"subnet": {"network_id": network, "ip_version": 4, "cidr": cidr}});
        let subnet = self.call("POST", "/subnets", subnet).id();
        (network, subnet)
    }

    /// Creates a port, and returns its id.
    pub fn port(&mut self, network: &str) -> String {
        self.call("POST", "/ports", json!({"port": {"network_id": network}}))
            .id()
    }

    /// Sends a control call, and asserts that it is accepted.
    pub fn control(&mut self, method: &str, path: &str, body: Value) -> Value {
        let got = self.try_control(method, path, body);
        assert!(got.status < 300, "{path}: {got:?}");
        got.body
    }

    /// Sends a control call, which may be refused.
    pub fn try_control(&mut self, method: &str, path: &str, body: Value) -> ParsedReply {
        let path = format!("/sandbox/v1{path}");
        self.send(method.parse().unwrap(), &path, None, Some(&body), &[])
    }
}
