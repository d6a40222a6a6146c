//! Plain calls to the services of the test bed. They check the effects of gone independently of its own answers.
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Duration;

use futures_util::StreamExt as _;
use serde_json::{Value, json};
use tokio::runtime::Runtime;

/// The collections of Neutron in which a project can have rows, by path.
const COLLECTIONS: [&str; 15] = [
    "networks",
    "subnets",
    "ports",
    "routers",
    "floatingips",
    "trunks",
    "security-groups",
    "security-group-rules",
    "subnetpools",
    "address-scopes",
    "address-groups",
    "qos/policies",
    "rbac-policies",
    "local_ips",
    "metering/metering-labels",
];
/// Number of concurrent calls during the clean-up.
const PARALLEL: usize = 8;
/// Services that callers name, because the prefix of a path does not identify them, with the prefix of their API.
const NAMED: [(&str, &str); 5] = [
    ("dns", "/v2"),
    ("key-manager", "/v1"),
    ("object-store", "/v1"),
    ("orchestration", "/v1"),
    ("shared-file-system", "/v2"),
];

/// A login to one region of the test bed.
pub struct Api {
    runtime: Runtime,
    client: reqwest::Client,
    pub token: String,
    keystone: String,
    /// The URL of Neutron, with `/v2.0`.
    pub network_url: String,
    /// The URLs of the region's other services, with the prefix of their API.
    others: BTreeMap<&'static str, String>,
}

/// Services that the prefix of a path identifies, and that prefix. Not every region has them.
const OTHERS: [(&str, &str); 4] = [
    ("load-balancer", "/v2.0/lbaas"),
    ("image", "/v2"),
    ("compute", "/v2.1"),
    ("block-storage", "/v3"),
];

impl Api {
    /// Logs in as a cloud of this `clouds.yaml`.
    pub fn new(clouds: &Path, cloud: &str, region: &str) -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        let client = reqwest::Client::builder()
            .timeout(Duration::from_secs(60))
            .build()
            .unwrap();
        let clouds: Value =
            serde_saphyr::from_str(&std::fs::read_to_string(clouds).unwrap()).unwrap();
        let auth = &clouds["clouds"][cloud]["auth"];
        let domain = json!({"id": "default"});
        let login = json!({"auth": {
            "identity": {"methods": ["password"], "password": {"user": {
                "name": auth["username"], "domain": domain, "password": auth["password"],
            }}},
            "scope": {"project": {"name": auth["project_name"], "domain": domain}},
        }});
        let keystone = auth["auth_url"].as_str().unwrap().to_owned();
        let (token, body) = runtime.block_on(async {
            let url = format!("{keystone}/auth/tokens");
            let answer = client.post(url).json(&login).send().await.unwrap();
            let token = answer.headers()["x-subject-token"].to_str().unwrap();
            (token.to_owned(), answer.json::<Value>().await.unwrap())
        });
        let catalog = body["token"]["catalog"].as_array().unwrap();
        let url_of = |service: &str| {
            let mut offered = catalog.iter().filter(|offered| offered["type"] == service);
            let endpoints = offered.next()?["endpoints"].as_array()?;
            let here = |endpoint: &&Value| {
                endpoint["region"] == region && endpoint["interface"] == "public"
            };
            let url = text(&endpoints.iter().find(here)?["url"]);
            let versions = ["/", "/v2.0", "/v2.1", "/v2", "/v3"];
            let root = versions
                .iter()
                .fold(url.as_str(), |url, it| url.trim_end_matches(it));
            // The URLs of Heat and Swift contain the project of the login.
            let root = root.rsplit_once("/v1/").map_or(root, |(root, _)| root);
            Some(root.to_owned())
        };
        let network_url = format!("{}/v2.0", url_of("network").unwrap());
        let others = OTHERS.into_iter();
        let others = others
            .chain(NAMED)
            .filter_map(|(service, root)| Some((service, format!("{}{root}", url_of(service)?))))
            .collect();
        Self {
            runtime,
            client,
            token,
            keystone,
            network_url,
            others,
        }
    }

    /// Logs in like [`Self::new`], and then calls with this token.
    pub fn with_token(clouds: &Path, cloud: &str, region: &str, token: &str) -> Self {
        Self {
            token: token.to_owned(),
            ..Self::new(clouds, cloud, region)
        }
    }

    /// A call to Keystone that must succeed. Returns the body, and the token if the call is a login; otherwise an empty
    /// text.
    pub fn identity(&self, method: &str, path: &str, body: &Value) -> (Value, String) {
        let url = format!("{}{path}", self.keystone);
        let call = self.client.request(method.parse().unwrap(), &url);
        let call = call.header("x-auth-token", &self.token);
        let call = match body {
            Value::Null => call,
            body => call.json(body),
        };
        self.runtime.block_on(async {
            let answer = call.send().await.unwrap();
            let token = answer.headers().get("x-subject-token");
            let token = token.map_or(String::new(), |it| it.to_str().unwrap().to_owned());
            let (status, text) = (answer.status(), answer.text().await.unwrap());
            assert!(status.is_success(), "{method} {path}: {status} {text}");
            (serde_json::from_str(&text).unwrap_or_default(), token)
        })
    }

    /// A call to any URL. Returns status and body, also of a failure.
    pub fn answer_at(&self, method: &str, url: &str, body: Value) -> (u16, Value) {
        let sent = self.send(method, url.to_owned(), (!body.is_null()).then_some(&body));
        self.runtime.block_on(sent)
    }

    /// The URL of a service, without its version.
    pub fn root_of(&self, service: &str) -> &str {
        let mut services = OTHERS.iter().chain(&NAMED);
        let (_, prefix) = services.find(|(name, _)| *name == service).unwrap();
        self.others[service].trim_end_matches(prefix)
    }

    /// The URL of a service, with its version.
    #[allow(dead_code)] // Only the benchmark of a project uses it.
    pub fn url_of(&self, service: &str) -> &str {
        &self.others[service]
    }

    /// A call to any URL with a body and an additional header. Returns status and body, also of a failure.
    pub fn send_with(
        &self,
        method: &str,
        url: &str,
        (header, value): (&str, &str),
        body: Value,
    ) -> (u16, Value) {
        let call = self.client.request(method.parse().unwrap(), url);
        let call = call
            .header("x-auth-token", &self.token)
            .header(header, value);
        self.runtime.block_on(async {
            let answer = call.json(&body).send().await.unwrap();
            let status = answer.status().as_u16();
            (status, answer.json().await.unwrap_or_default())
        })
    }

    /// A DELETE of any URL with an additional header. Ignores the answer.
    pub fn delete_with(&self, url: &str, (header, value): (&str, &str)) {
        let call = self.client.delete(url).header("x-auth-token", &self.token);
        let call = call.header(header, value);
        self.runtime.block_on(async { call.send().await.unwrap() });
    }

    /// A GET of any URL with an additional header. Returns status and body.
    pub fn get_with(&self, url: &str, header: &str, value: &str) -> (u16, Value) {
        let call = self.client.get(url).header("x-auth-token", &self.token);
        let call = call.header(header, value);
        self.runtime.block_on(async {
            let answer = call.send().await.unwrap();
            let status = answer.status().as_u16();
            (status, answer.json().await.unwrap_or_default())
        })
    }

    /// The load balancers and images of a project; none where the region lacks the service.
    pub fn balancers_and_images(&self, project: &str) -> Vec<Value> {
        let lists = [
            ("load-balancer", "loadbalancers", "project_id"),
            ("image", "images", "owner"),
        ];
        let lists = lists
            .into_iter()
            .filter_map(|(service, collection, filter)| {
                let url = self.others.get(service)?;
                Some((collection, format!("{url}/{collection}?{filter}={project}")))
            });
        let rows = lists.flat_map(|(collection, url)| {
            let (status, answer) = self.runtime.block_on(self.send("GET", url.clone(), None));
            assert_eq!(status, 200, "{url}: {answer}");
            answer[collection].as_array().unwrap().clone()
        });
        rows.collect()
    }

    async fn send(&self, method: &str, url: String, body: Option<&Value>) -> (u16, Value) {
        let mut call = self
            .client
            .request(method.parse().unwrap(), &url)
            .header("x-auth-token", &self.token);
        if let Some(body) = body {
            call = call.json(body);
        }
        let answer = call.send().await.unwrap();
        let status = answer.status().as_u16();
        let body = answer.bytes().await.unwrap();
        (status, serde_json::from_slice(&body).unwrap_or_default())
    }

    /// A call to Neutron that must succeed. Returns the body.
    pub fn call(&self, method: &str, path: &str, body: Value) -> Value {
        self.call_any(method, &format!("/v2.0/{path}"), body)
    }

    /// A call to Neutron. Returns status and body, also of a failure.
    pub fn answer(&self, method: &str, path: &str, body: Value) -> (u16, Value) {
        let url = self.url(&format!("/v2.0/{path}"));
        let sent = self.send(method, url, (!body.is_null()).then_some(&body));
        self.runtime.block_on(sent)
    }

    /// A call that must succeed, to the service that the prefix of the path names. Repeated, except for the create of a
    /// load balancer, if the database undid it because of a deadlock, see `begun_again` in `seed.py`.
    pub fn call_any(&self, method: &str, path: &str, body: Value) -> Value {
        self.call_at(method, path, self.url(path), body)
    }

    /// A call that must succeed, to this service of the catalog.
    pub fn call_service(&self, service: &str, method: &str, path: &str, body: Value) -> Value {
        self.call_at(
            method,
            path,
            format!("{}{path}", self.others[service]),
            body,
        )
    }

    fn call_at(&self, method: &str, path: &str, url: String, body: Value) -> Value {
        let body = (!body.is_null()).then_some(&body);
        let (status, answer) = loop {
            let sent = self.send(method, url.clone(), body);
            let (status, answer) = self.runtime.block_on(sent);
            let deadlock = "Deadlock found when trying to get lock";
            let is_undone = status == 500 && answer.to_string().contains(deadlock);
            if !is_undone || path.ends_with("/loadbalancers") {
                break (status, answer);
            }
        };
        assert!(status < 300, "{method} {path}: {status} {answer}");
        answer
    }

    /// Deletes the resource at this path. Ignores the answer.
    pub fn delete_at(&self, path: &str) {
        let sent = self.send("DELETE", self.url(path), None);
        self.runtime.block_on(sent);
    }

    /// Uploads the bytes of an image.
    pub fn upload(&self, path: &str, bytes: &'static [u8]) {
        let call = self.client.put(self.url(path)).body(bytes);
        let call = call.header("content-type", "application/octet-stream");
        let call = call.header("x-auth-token", &self.token);
        let status = self
            .runtime
            .block_on(async { call.send().await.unwrap().status() });
        assert!(status.is_success(), "{path}: {status}");
    }

    fn url(&self, path: &str) -> String {
        for (service, root) in OTHERS {
            let below = path.strip_prefix(root);
            if let Some(below) = below.filter(|below| below.starts_with('/')) {
                return format!("{}{below}", self.others[service]);
            }
        }
        format!(
            "{}{}",
            self.network_url,
            path.strip_prefix("/v2.0").unwrap()
        )
    }

    /// The rows of a collection of Neutron. `filter` is a query string.
    pub fn rows(&self, collection: &str, filter: &str) -> Vec<Value> {
        let answer = self.call("GET", &format!("{collection}?{filter}"), Value::Null);
        let key = collection.rsplit('/').next().unwrap().replace('-', "_");
        answer[key].as_array().unwrap().clone()
    }

    /// The id of the project with this name.
    pub fn project_id(&self, name: &str) -> String {
        let url = format!("{}/projects?name={name}", self.keystone);
        let (_, found) = self.runtime.block_on(self.send("GET", url, None));
        text(&found["projects"][0]["id"])
    }

    /// The NDP proxies of a project, selected here because their list accepts no filter.
    pub fn proxies(&self, project: &str) -> Vec<Value> {
        let mut rows = self.rows("ndp_proxies", "");
        rows.retain(|row| row["project_id"] == project);
        rows
    }

    /// The rows of a project in the [`COLLECTIONS`] of Neutron, and the ports that Neutron created for its routers and
    /// floating IPs, which have no project.
    pub fn holdings(&self, project: &str) -> Holdings {
        let mine = format!("project_id={project}");
        let mut rows: BTreeMap<&str, BTreeMap<String, Value>> = BTreeMap::new();
        for collection in COLLECTIONS {
            let found = self.rows(collection, &mine).into_iter().map(sorted);
            rows.insert(
                collection,
                found.map(|row| (text(&row["id"]), row)).collect(),
            );
        }
        let mut hidden = Vec::new();
        for owner in ["routers", "floatingips"] {
            for id in rows[owner].keys() {
                let found = self.rows("ports", &format!("device_id={id}"));
                hidden.extend(found.into_iter().map(sorted));
            }
        }
        let ports = rows.get_mut("ports").unwrap();
        ports.extend(hidden.into_iter().map(|row| (text(&row["id"]), row)));
        Holdings(rows)
    }

    /// Deletes these rows, several at a time. Ignores rows that are gone or still in use.
    pub fn delete_all(&self, collection: &str, ids: impl IntoIterator<Item = String>) {
        let deletes = ids.into_iter().map(|id| {
            let url = format!("{}/{collection}/{id}", self.network_url);
            self.send("DELETE", url, None)
        });
        let deletes = futures_util::stream::iter(deletes).buffer_unordered(PARALLEL);
        self.runtime.block_on(deletes.for_each(async |_| {}));
    }

    /// Deletes the rows of a project in Neutron, and the project. Ignores failures.
    pub fn clean_up(&self, project: &str) {
        let holdings = self.holdings(project);
        self.delete_all("trunks", holdings.ids("trunks"));
        for (id, row) in &holdings.0["floatingips"] {
            let forwarded = row["port_forwardings"].as_array();
            let ids = forwarded.into_iter().flatten().map(|row| text(&row["id"]));
            self.delete_all(&format!("floatingips/{id}/port_forwardings"), ids);
        }
        self.delete_all("floatingips", holdings.ids("floatingips"));
        let proxies = self.proxies(project);
        self.delete_all("ndp_proxies", proxies.iter().map(|row| text(&row["id"])));
        for id in holdings.0["local_ips"].keys() {
            let below = format!("local_ips/{id}/port_associations");
            let ports = self.rows(&below, "");
            self.delete_all(&below, ports.iter().map(|row| text(&row["fixed_port_id"])));
        }
        self.delete_all("local_ips", holdings.ids("local_ips"));
        let labels = "metering/metering-labels";
        self.delete_all(labels, holdings.ids(labels));
        for id in holdings.0["routers"].keys() {
            let path = format!("{}/routers/{id}", self.network_url);
            let put = |url: String, body: Value| {
                self.runtime.block_on(self.send("PUT", url, Some(&body)))
            };
            put(path.clone(), json!({"router": {"routes": []}}));
            for port in holdings.0["ports"].values() {
                if port["device_id"] == **id && port["device_owner"] == "network:router_interface" {
                    let url = format!("{path}/remove_router_interface");
                    put(url, json!({"port_id": port["id"]}));
                }
            }
        }
        for collection in ["routers", "ports", "networks", "subnetpools"] {
            self.delete_all(collection, holdings.ids(collection));
        }
        for collection in [
            "address-scopes",
            "security-groups",
            "address-groups",
            "qos/policies",
        ] {
            self.delete_all(collection, holdings.ids(collection));
        }
        let url = format!("{}/projects/{project}", self.keystone);
        self.runtime.block_on(self.send("DELETE", url, None));
    }
}

/// Rows by the path of their collection and their id.
#[derive(Clone, Debug)]
pub struct Holdings(pub BTreeMap<&'static str, BTreeMap<String, Value>>);

impl Holdings {
    pub fn ids(&self, collection: &str) -> BTreeSet<String> {
        self.0[collection].keys().cloned().collect()
    }

    /// The ids of all rows, by collection.
    pub fn all_ids(&self) -> BTreeMap<&'static str, BTreeSet<String>> {
        let ids = |collection: &&'static str| (*collection, self.ids(collection));
        self.0.keys().map(ids).collect()
    }

    pub fn count(&self, collection: &str) -> usize {
        self.0[collection].len()
    }

    /// The ids that must remain after the cascade of the network, computed from the rules N2 to N6 alone.
    pub fn without(&self, network: &str) -> BTreeMap<&'static str, BTreeSet<String>> {
        let mut left = self.all_ids();
        let here = |row: &Value| row["network_id"] == network;
        let mut ports: BTreeSet<&str> = self.0["ports"]
            .iter()
            .filter(|(_, row)| here(row))
            .map(|(id, _)| id.as_str())
            .collect();
        for (id, trunk) in &self.0["trunks"] {
            if ports.contains(trunk["port_id"].as_str().unwrap()) {
                left.get_mut("trunks").unwrap().remove(id);
                let subports = trunk["sub_ports"].as_array().unwrap().iter();
                ports.extend(subports.map(|subport| subport["port_id"].as_str().unwrap()));
            }
        }
        for (collection, rows) in &self.0 {
            let kept = left.get_mut(collection).unwrap();
            kept.retain(|id| match *collection {
                "networks" => id != network,
                "ports" => !ports.contains(id.as_str()),
                "subnets" => !here(&rows[id]),
                "rbac-policies" => rows[id]["object_id"] != network,
                _ => true,
            });
        }
        left
    }
}

/// The text of a JSON string.
pub fn text(value: &Value) -> String {
    value
        .as_str()
        .unwrap_or_else(|| panic!("not a string: {value}"))
        .to_owned()
}

/// Sorts the arrays inside a row, because Neutron returns them (rules, addresses) in varying order.
fn sorted(mut value: Value) -> Value {
    match &mut value {
        Value::Array(items) => {
            *items = std::mem::take(items).into_iter().map(sorted).collect();
            items.sort_by_key(Value::to_string);
        }
        Value::Object(members) => {
            for member in members.values_mut() {
                *member = sorted(member.take());
            }
        }
        _ => {}
    }
    value
}
