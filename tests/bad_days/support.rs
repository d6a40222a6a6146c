//! A practice cloud in a process of its own, a home in a folder of its own, and the program.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::{Value, json};
use tempfile::TempDir;

#[allow(dead_code)] // No test module uses all of it.
#[path = "../testkit/program.rs"]
pub mod program;

use program::ChildGuard;
pub use program::{GONE, RunResult, Running, wait_for};

/// The password of the user `admin`: a word that nothing else contains.
pub const PASSWORD: &str = "pw-Zc8Yb2Kd5";
pub const SITE: &str = "prod/RegionOne";
pub const DELETE_WEB: &str = "delete network/web-net-0 --cascade --yes -o json";

pub struct Stage {
    pub folder: TempDir,
    pub url: String,
    runtime: tokio::runtime::Runtime,
    http: reqwest::Client,
    _cloud: ChildGuard,
}

impl Stage {
    pub fn new() -> Self {
        Self::in_regions(&["RegionOne"])
    }

    /// Starts a practice cloud that has the network `web-net-0` with this many ports besides its DHCP port.
    pub fn with_web(ports: u32) -> Self {
        let stage = Self::new();
        stage.network("web", ports);
        stage
    }

    pub fn in_regions(regions: &[&str]) -> Self {
        Self::in_cloud(regions, &[])
    }

    /// Starts a practice cloud with these options.
    pub fn in_cloud(regions: &[&str], options: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut cloud = Command::new(GONE)
            .args(["sandbox", "--listen", "127.0.0.1:0", "--regions"])
            .arg(regions.join(","))
            .args(options)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let out = cloud.stdout.take().unwrap();
        BufReader::new(out).read_line(&mut line).unwrap();
        let ready: Value = serde_json::from_str(&line).unwrap();
        let stage = Self {
            folder,
            url: ready["url"].as_str().unwrap().to_owned(),
            runtime: tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .unwrap(),
            http: reqwest::Client::new(),
            _cloud: ChildGuard(cloud),
        };
        let user = json!({"name": "admin", "password": PASSWORD});
        stage.control("PUT", "users", user);
        stage.clouds_yaml(&stage.url, PASSWORD, &regions.join(", "));
        stage
    }

    /// Writes a clouds.yaml with one cloud, `prod`, at this URL. Its first region is the default.
    pub fn clouds_yaml(&self, url: &str, password: &str, regions: &str) {
        let first = regions.split(", ").next().unwrap();
        let text = format!(
            "clouds:\n  prod:\n    auth: {{auth_url: '{url}/v3', username: admin, \
             password: {password}, project_name: admin, user_domain_id: default, \
             project_domain_id: default}}\n    region_name: {first}\n    regions: [{regions}]\n"
        );
        std::fs::write(self.path("clouds.yaml"), text).unwrap();
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub fn ledger(&self) -> PathBuf {
        self.path("state/gone/ledger.db")
    }

    /// Writes the settings of the user. Returns their file.
    pub fn settings(&self, text: &str) -> PathBuf {
        let file = self.path("config/gone/config.toml");
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(&file, text).unwrap();
        file
    }

    // The cloud.

    pub fn control(&self, method: &str, what: &str, body: Value) -> Value {
        let url = format!("{}/sandbox/v1/{what}", self.url);
        let request = self.http.request(method.parse().unwrap(), url).json(&body);
        self.runtime.block_on(async {
            let answer = request.send().await.unwrap();
            let status = answer.status();
            let text = answer.text().await.unwrap();
            assert!(status.is_success(), "{method} {what}: {status} {text}");
            serde_json::from_str(&text).unwrap_or_default()
        })
    }

    pub fn seed(&self, seed: Value) -> Value {
        self.control("POST", "seed", seed)
    }

    /// Makes a network `NAME-net-0` with this many ports besides its DHCP port. Returns the network's id.
    pub fn network(&self, name: &str, ports: u32) -> String {
        let seed = json!({"name": name, "networks": 1, "ports_per_network": ports});
        text(&self.seed(seed)["networks"][0])
    }

    pub fn faults(&self, faults: Value) {
        self.control("PUT", "faults", faults);
    }

    pub fn limits(&self, limits: Value) {
        self.control("PUT", "limits", limits);
    }

    /// Returns the calls of gone, including those to Keystone.
    pub fn calls(&self) -> Vec<LoggedCall> {
        let calls = self.control("GET", "calls?after=0", Value::Null);
        let calls: Vec<LoggedCall> = serde_json::from_value(calls["calls"].clone()).unwrap();
        let by_gone = |call: &LoggedCall| {
            let agent = call.user_agent.as_deref();
            agent.is_some_and(|agent| agent.starts_with("gone/"))
        };
        calls.into_iter().filter(by_gone).collect()
    }

    /// Returns the calls of gone that change the cloud.
    pub fn writes(&self) -> Vec<LoggedCall> {
        let calls = self.calls().into_iter();
        calls.filter(LoggedCall::writes).collect()
    }

    pub fn deletes_of(&self, id: &str) -> Vec<LoggedCall> {
        let writes = self.writes().into_iter();
        writes
            .filter(|call| call.method == "DELETE" && call.path.ends_with(id))
            .collect()
    }

    /// Waits until gone has sent this many calls that change the cloud.
    pub fn await_writes(&self, count: usize) {
        wait_for(&format!("{count} writes"), || self.writes().len() >= count);
    }

    /// Lists a collection of Neutron in RegionOne, as a client other than gone.
    pub fn list(&self, collection: &str) -> Vec<Value> {
        let path = format!("RegionOne/network/v2.0/{}", collection.replace('_', "-"));
        let answer = self.as_client("GET", &path, Value::Null);
        answer[collection].as_array().unwrap().clone()
    }

    pub fn ids(&self, collection: &str) -> Vec<String> {
        let mut ids: Vec<String> = self
            .list(collection)
            .iter()
            .map(|r| text(&r["id"]))
            .collect();
        ids.sort();
        ids
    }

    /// Logs in as admin. Returns the token.
    pub fn token(&self) -> String {
        let domain = json!({"id": "default"});
        let login = json!({"auth": {
            "identity": {"methods": ["password"], "password": {"user": {"name": "admin", "domain": domain, "password": PASSWORD}}},
            "scope": {"project": {"name": "admin", "domain": domain}},
        }});
        self.runtime.block_on(async {
            let url = format!("{}/v3/auth/tokens", self.url);
            let answer = self.http.post(url).json(&login).send().await.unwrap();
            let token = answer.headers()["x-subject-token"].to_str().unwrap();
            token.to_owned()
        })
    }

    pub fn as_client(&self, method: &str, path: &str, body: Value) -> Value {
        let token = self.token();
        self.runtime.block_on(async {
            let url = format!("{}/{path}", self.url);
            let request = self.http.request(method.parse().unwrap(), url);
            let mut request = request.header("x-auth-token", token);
            if !body.is_null() {
                request = request.json(&body);
            }
            let answer = request.send().await.unwrap();
            let status = answer.status();
            assert!(status.is_success(), "{method} {path}: {status}");
            answer.json().await.unwrap_or_default()
        })
    }

    // The program.

    /// Makes a command that runs the program without a terminal, in the home of the stage.
    pub fn command<S: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = S>) -> Command {
        let mut command = Command::new(GONE);
        command.args(args);
        self.at_home(&mut command);
        command
    }

    pub fn at_home(&self, command: &mut Command) {
        program::run_in(self.folder.path(), command)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
    }

    pub fn environment(&self) -> BTreeMap<&'static str, PathBuf> {
        program::environment(self.folder.path())
    }

    pub fn start(&self, line: &str) -> Running {
        Running::start(&mut self.command(line.split_whitespace()))
    }

    /// Runs the program to its end.
    pub fn gone(&self, line: &str) -> RunResult {
        self.start(line).end()
    }

    /// Starts a headless engine, and waits until it serves its socket.
    pub fn engine(&self) -> Running {
        self.engine_by("--engine")
    }

    pub fn engine_by(&self, line: &str) -> Running {
        let engine = self.start(line);
        self.await_engine(engine.pid());
        engine
    }

    /// Waits until the engine of this process owns the ledger and listens.
    pub fn await_engine(&self, pid: u32) {
        wait_for(&format!("engine {pid}"), || {
            let owner = gone::ledger::sqlite::holder(&self.ledger());
            owner.is_some_and(|owner| owner.pid == pid && owner.socket.is_some())
        });
    }

    /// Runs `gone show` on a deletion. Returns its output as JSON.
    pub fn show(&self, id: &str) -> Value {
        self.gone(&format!("show {id} -o json")).ok().json()
    }

    pub fn await_state(&self, id: &str, state: &str) -> Value {
        let mut last = Value::Null;
        wait_for(&format!("state {state} of {id}"), || {
            last = self.show(id);
            last["state"] == state
        });
        last
    }
}

/// A call in the log of the cloud.
#[derive(Clone, Debug, serde::Deserialize)]
pub struct LoggedCall {
    pub at: chrono::DateTime<chrono::Utc>,
    pub method: String,
    pub path: String,
    pub status: Option<u16>,
    user_agent: Option<String>,
}

impl LoggedCall {
    fn writes(&self) -> bool {
        self.method != "GET" && !self.path.contains("/auth/tokens")
    }
}

pub fn text(value: &Value) -> String {
    value.as_str().unwrap().to_owned()
}

/// All files below a folder, with their bytes.
pub fn files(folder: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let about = path.symlink_metadata().unwrap();
        if about.is_dir() {
            found.extend(files(&path));
        } else if about.is_file() {
            found.push((path.clone(), std::fs::read(&path).unwrap()));
        }
    }
    found
}

/// Asserts that the counts of a deletion sum to its total.
#[track_caller]
pub fn assert_counts_sum(deletion: &Value) {
    let counts = deletion["counts"].as_object().unwrap();
    let all = counts.iter().filter(|(name, _)| *name != "total");
    let sum: u64 = all.map(|(_, count)| count.as_u64().unwrap()).sum();
    assert_eq!(sum, counts["total"].as_u64().unwrap(), "{deletion}");
}
