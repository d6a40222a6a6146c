//! The home directory of a story, the programs that run in it, and calls to the practice cloud.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use super::variation::Variation;
pub use super::world::program::GONE;
use super::world::program::RunResult;

/// A scenario with a network web that has a port www.
pub const BLOCKED: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/tests/stories/scenarios/blocked.toml"
);
/// Longest wait for an event before the story fails. It is long because the machine may be busy.
pub const DEADLINE: Duration = Duration::from_secs(45);
const POLL: Duration = Duration::from_millis(20);

/// Repeats `ask` until it answers. Without an answer in time it panics with the text of `describe`.
pub fn until<T>(what: &str, describe: impl Fn() -> String, ask: impl Fn() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(answer) = ask() {
            return answer;
        }
        assert!(
            start.elapsed() < DEADLINE,
            "no {what} in time:\n{}",
            describe()
        );
        std::thread::sleep(POLL);
    }
}

/// An empty home directory. When it is dropped, the engines and practice clouds that it has started are ended.
pub struct Home {
    folder: tempfile::TempDir,
    /// `OS_CLOUD`, the chosen cloud of `clouds.yaml`; None for all clouds.
    pub cloud: Option<&'static str>,
    pub variation: Variation,
    /// `--sandbox=SCENARIO`, the option with which every program of this story is started.
    sandbox_option: Option<String>,
    children: Vec<Child>,
}

impl Home {
    pub fn new() -> Self {
        Self::with(&Variation::baseline())
    }

    /// An empty home directory for a story in this variation.
    pub fn with(variation: &Variation) -> Self {
        Self {
            folder: tempfile::tempdir().unwrap(),
            cloud: Some("sandbox"),
            variation: *variation,
            sandbox_option: None,
            children: Vec::new(),
        }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub fn write(&self, name: &str, text: &str) -> String {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
        path.display().to_string()
    }

    /// The environment variables of every program of this story.
    pub fn environment(&self) -> Vec<(&'static str, String)> {
        let path = |name: &str| self.path(name).display().to_string();
        let mut environment = vec![
            ("HOME", path("")),
            ("XDG_CONFIG_HOME", path(".config")),
            ("XDG_STATE_HOME", path(".local/state")),
            ("PATH", "/usr/bin:/bin".to_owned()),
            ("USER", "ada".to_owned()),
            ("LANG", "C.UTF-8".to_owned()),
            ("TERM", "xterm-256color".to_owned()),
        ];
        if let Some(cloud) = self.cloud {
            environment.push(("OS_CLOUD", cloud.to_owned()));
        }
        environment
    }

    /// Starts an engine with the practice cloud of this scenario. The engine's ledger has the past of the scenario.
    /// All programs of this story use that engine from now on. Returns its process id.
    pub fn start_practice_engine(&mut self, scenario: &str) -> u32 {
        self.sandbox_option = Some(format!("--sandbox={}", self.scenario(scenario)));
        self.start_engine(&[])
    }

    /// The arguments of a program of this story, with the `--sandbox` option of the story.
    pub fn arguments<'a>(&'a self, own: &[&'a str]) -> Vec<&'a str> {
        let sandbox = self.sandbox_option.as_deref().into_iter();
        sandbox.chain(own.iter().copied()).collect()
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(GONE);
        command
            .args(self.arguments(arguments))
            .env_clear()
            .envs(self.environment())
            .current_dir(self.folder.path())
            .stdin(Stdio::null());
        command
    }

    /// Runs one verb without a terminal.
    pub fn gone(&self, arguments: &[&str]) -> RunResult {
        RunResult::of(&mut self.command(arguments))
    }

    /// Runs a verb that must succeed, and returns its standard output.
    pub fn stdout_of(&self, arguments: &[&str]) -> String {
        self.gone(arguments).ok().out
    }

    /// Runs a verb that must succeed, and returns its output as JSON.
    pub fn json(&self, arguments: &[&str]) -> Value {
        let mut arguments = arguments.to_vec();
        arguments.extend(["-o", "json"]);
        self.gone(&arguments).ok().json()
    }

    /// Returns the name or path under which `gone` finds this scenario in the variation of the story. The scenario is
    /// a built-in one or the file at this path.
    pub fn scenario(&self, name: &str) -> String {
        let written = std::fs::read_to_string(self.scenario_file(name)).unwrap();
        let varied = self.variation.scenario(&written);
        varied.map_or_else(|| name.to_owned(), |text| self.write("varied.toml", &text))
    }

    fn scenario_file(&self, name: &str) -> PathBuf {
        let own = Path::new(name);
        let built_in = Path::new(env!("CARGO_MANIFEST_DIR")).join("assets/scenarios");
        match own.exists() {
            true => own.to_owned(),
            false => built_in.join(format!("{name}.toml")),
        }
    }

    /// Returns the path of a copy of this scenario that has no past deletions.
    pub fn without_past(&self, name: &str) -> String {
        let written = std::fs::read_to_string(self.scenario_file(name)).unwrap();
        let mut scenario: toml::Table = written.parse().unwrap();
        scenario
            .remove("past")
            .expect("the scenario has past deletions");
        self.write("without-past.toml", &scenario.to_string())
    }

    /// Starts `gone sandbox` with this scenario. The program writes its `clouds.yaml` to the file that clients read.
    pub fn serve_cloud(&mut self, scenario: &str) -> Cloud {
        let scenario = self.scenario(scenario);
        let folder = self.path(".config/openstack");
        std::fs::create_dir_all(&folder).unwrap();
        let clouds_yaml = folder.join("clouds.yaml").display().to_string();
        let arguments = [
            "sandbox",
            "--scenario",
            &scenario,
            "--clouds-yaml",
            &clouds_yaml,
        ];
        let mut child = self
            .command(&arguments)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut ready = String::new();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        output.read_line(&mut ready).unwrap();
        self.children.push(child);
        let ready: Value = serde_json::from_str(&ready).unwrap();
        Cloud::at(ready["url"].as_str().unwrap(), &clouds_yaml)
    }

    /// The practice cloud inside a `--sandbox` console or engine of this story.
    pub fn embedded_cloud(&self) -> Cloud {
        let file = self.path(".local/state/gone/sandbox/clouds.yaml");
        let text = std::fs::read_to_string(&file).unwrap();
        let url = text.split_once("auth_url: ").unwrap().1;
        let url = url.lines().next().unwrap().trim_end_matches("/v3");
        Cloud::at(url, &file.display().to_string())
    }

    /// Starts a headless engine, waits until it serves its socket, and returns its process id.
    pub fn start_engine(&mut self, options: &[&str]) -> u32 {
        let mut arguments = options.to_vec();
        arguments.push("--engine");
        let log = std::fs::File::create(self.path("engine.log")).unwrap();
        let child = self.command(&arguments).stderr(log).spawn().unwrap();
        let pid = child.id();
        self.children.push(child);
        let all = self.arguments(options);
        let is_practice = all.iter().any(|option| option.starts_with("--sandbox"));
        let socket = self.path(match is_practice {
            false => ".local/state/gone/gone.sock",
            true => ".local/state/gone/sandbox/gone.sock",
        });
        let log = || std::fs::read_to_string(self.path("engine.log")).unwrap();
        until("engine", log, || {
            std::os::unix::net::UnixStream::connect(&socket).ok()
        });
        pid
    }

    /// The only deletion in the ledger.
    pub fn only_deletion(&self) -> Value {
        let all = self.json(&["list"]);
        assert_eq!(all.as_array().unwrap().len(), 1, "{all}");
        all[0].clone()
    }

    /// Waits until the only deletion meets the condition, and returns it.
    pub fn wait_for_deletion(&self, what: &str, wanted: impl Fn(&Value) -> bool) -> Value {
        let state = || self.only_deletion().to_string();
        until(what, state, || Some(self.only_deletion()).filter(&wanted))
    }
}

pub fn is_alive(pid: u32) -> bool {
    let pid = Pid::from_raw(i32::try_from(pid).unwrap()).unwrap();
    rustix::process::test_kill_process(pid).is_ok()
}

impl Drop for Home {
    fn drop(&mut self) {
        for child in self.children.iter_mut().rev() {
            let pid = Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap();
            let _ = kill_process(pid, Signal::TERM);
            let _ = child.wait();
        }
    }
}

/// A client of the practice cloud.
pub struct Cloud {
    url: String,
    password: String,
    runtime: tokio::runtime::Runtime,
    client: reqwest::Client,
}

impl Cloud {
    fn at(url: &str, clouds_yaml: &str) -> Self {
        let text = std::fs::read_to_string(Path::new(clouds_yaml)).unwrap();
        let password = text.split_once("password: ").unwrap().1;
        Self {
            url: url.to_owned(),
            password: password.lines().next().unwrap().to_owned(),
            runtime: tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .unwrap(),
            client: reqwest::Client::new(),
        }
    }

    fn send(&self, request: reqwest::RequestBuilder) -> (u16, reqwest::header::HeaderMap, Value) {
        self.runtime.block_on(async {
            let answer = request.send().await.unwrap();
            let (status, headers) = (answer.status().as_u16(), answer.headers().clone());
            let body = answer.bytes().await.unwrap();
            let body = serde_json::from_slice(&body).unwrap_or_default();
            (status, headers, body)
        })
    }

    /// Logs a user in. Returns the token and the id of its project.
    fn log_in(&self, user: &str) -> (String, String) {
        let domain = json!({"id": "default"});
        let body = json!({"auth": {
            "identity": {"methods": ["password"], "password": {"user": {"name": user, "domain": domain, "password": self.password}}},
            "scope": {"project": {"name": user, "domain": domain}},
        }});
        let url = format!("{}/v3/auth/tokens", self.url);
        let (_, headers, body) = self.send(self.client.post(url).json(&body));
        let token = headers["x-subject-token"].to_str().unwrap().to_owned();
        let project = body["token"]["project"]["id"].as_str().unwrap().to_owned();
        (token, project)
    }

    /// The id of the project to which this user logs in.
    pub fn project_of(&self, user: &str) -> String {
        self.log_in(user).1
    }

    /// Calls the network service of the first region. Returns status and body.
    pub fn call(&self, user: &str, method: &str, path: &str, body: Value) -> (u16, Value) {
        self.call_at("RegionOne/network/v2.0", user, method, path, body)
    }

    /// Calls a service of a region, for example `RegionTwo/image/v2`. Returns status and body.
    pub fn call_at(
        &self,
        service: &str,
        user: &str,
        method: &str,
        path: &str,
        body: Value,
    ) -> (u16, Value) {
        let url = format!("{}/{service}{path}", self.url);
        self.call_url(&url, user, method, body)
    }

    /// Calls the network service of the first region through the gate at this address. Returns status and body.
    pub fn call_through(&self, gate: &str, user: &str, method: &str, path: &str) -> (u16, Value) {
        let url = format!("http://{gate}/RegionOne/network/v2.0{path}");
        self.call_url(&url, user, method, Value::Null)
    }

    fn call_url(&self, url: &str, user: &str, method: &str, body: Value) -> (u16, Value) {
        let (token, _) = self.log_in(user);
        let method = reqwest::Method::from_bytes(method.as_bytes()).unwrap();
        let mut request = self.client.request(method, url);
        request = request.header("x-auth-token", token);
        if !body.is_null() {
            request = request.json(&body);
        }
        let (status, _, body) = self.send(request);
        (status, body)
    }

    /// Patches an image as an admin. Glance accepts a patch only with its own media type.
    pub fn patch_image(&self, image: &str, patch: &Value) {
        let (token, _) = self.log_in("admin");
        let url = format!("{}/RegionOne/image/v2/images/{image}", self.url);
        let kind = "application/openstack-images-v2.1-json-patch";
        let request = self.client.patch(url).header("x-auth-token", token);
        let request = request.header("content-type", kind).body(patch.to_string());
        let (status, _, body) = self.send(request);
        assert_eq!(status, 200, "{body}");
    }

    /// The status of a GET to the network service as an admin.
    pub fn status(&self, path: &str) -> u16 {
        self.call("admin", "GET", path, Value::Null).0
    }

    /// All rows of a collection of the network service, read as an admin.
    pub fn all(&self, collection: &str) -> Vec<Value> {
        self.all_at("RegionOne/network/v2.0", collection)
    }

    pub fn all_at(&self, service: &str, collection: &str) -> Vec<Value> {
        let path = format!("/{collection}");
        let (_, body) = self.call_at(service, "admin", "GET", &path, Value::Null);
        body[collection].as_array().unwrap().clone()
    }

    /// The names of all rows of a collection of the network service.
    pub fn names(&self, collection: &str) -> Vec<String> {
        let all = self.all(collection);
        let names = all.iter().map(|it| it["name"].as_str().unwrap().to_owned());
        names.collect()
    }

    pub fn id_of(&self, collection: &str, name: &str) -> String {
        let all = self.all(collection);
        let found = all.iter().find(|item| item["name"] == name);
        let found = found.unwrap_or_else(|| panic!("no {name} in {collection}"));
        found["id"].as_str().unwrap().to_owned()
    }

    /// All calls except GETs that the services of the regions received, for example `DELETE /v2.0/ports/…`.
    pub fn writes(&self) -> Vec<String> {
        let (_, _, body) = self.send(self.client.get(format!("{}/sandbox/v1/calls", self.url)));
        let calls = body["calls"].as_array().unwrap();
        let writes = calls
            .iter()
            .filter(|call| !call["region"].is_null() && call["method"] != "GET");
        writes
            .map(|call| {
                let path = call["path"].as_str().unwrap();
                let path = path.split_once("/network").map_or(path, |(_, path)| path);
                format!("{} {path}", call["method"].as_str().unwrap())
            })
            .collect()
    }

    /// Sets the course of the next change of a balancer.
    pub fn set_balancer_course(&self, change: &Value) {
        self.put("balancers", change);
    }

    pub fn set_limits(&self, limits: &Value) {
        self.put("limits", limits);
    }

    pub fn set_faults(&self, faults: &Value) {
        self.put("faults", faults);
    }

    /// Changes a setting of the practice cloud.
    fn put(&self, what: &str, body: &Value) {
        let url = format!("{}/sandbox/v1/{what}", self.url);
        let (status, _, answer) = self.send(self.client.put(url).json(body));
        assert_eq!(status, 204, "{answer}");
    }

    /// Waits until the services of the cloud have received this call.
    pub fn wait_for_write(&self, call: &str) {
        let writes = || self.writes().join("\n");
        let is_sent = || self.writes().iter().any(|write| write == call);
        until(call, writes, || is_sent().then_some(()));
    }
}
