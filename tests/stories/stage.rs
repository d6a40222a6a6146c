//! A home of its own for one story, the processes of it, and the practice cloud's own API.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use super::telling::Telling;
pub use super::world::program::GONE;
use super::world::program::Ran;

/// How long anything may take before a story has failed; the machine may be busy.
pub const DEADLINE: Duration = Duration::from_secs(45);
const POLL: Duration = Duration::from_millis(20);

/// Asks again until there is an answer; `told` says what was seen when there is none in time.
pub fn until<T>(what: &str, told: impl Fn() -> String, ask: impl Fn() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(answer) = ask() {
            return answer;
        }
        assert!(start.elapsed() < DEADLINE, "no {what}:\n{}", told());
        std::thread::sleep(POLL);
    }
}

/// An empty home. What is started here ends with it.
pub struct Stage {
    folder: tempfile::TempDir,
    /// `OS_CLOUD`: which cloud of `clouds.yaml`; none for all.
    pub cloud: Option<&'static str>,
    pub telling: Telling,
    /// `--sandbox=SCENARIO`, with which every program of this story is started.
    practice: Option<String>,
    started: Vec<Child>,
}

impl Stage {
    pub fn new() -> Self {
        Self::of(&Telling::as_written())
    }

    pub fn of(telling: &Telling) -> Self {
        Self {
            folder: tempfile::tempdir().unwrap(),
            cloud: Some("sandbox"),
            telling: *telling,
            practice: None,
            started: Vec::new(),
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

    /// All that a program of this story finds around it.
    pub fn environment(&self) -> Vec<(&'static str, String)> {
        let home = |name: &str| self.path(name).display().to_string();
        let mut environment = vec![
            ("HOME", home("")),
            ("XDG_CONFIG_HOME", home(".config")),
            ("XDG_STATE_HOME", home(".local/state")),
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

    /// An engine on the practice cloud and the past of this scenario, which all programs of this story use from now
    /// on. Its process id.
    pub fn start_practice(&mut self, scenario: &str) -> u32 {
        self.practice = Some(format!("--sandbox={}", self.scenario(scenario)));
        self.start_engine(&[])
    }

    /// The arguments of a program of this story.
    pub fn arguments<'a>(&'a self, own: &[&'a str]) -> Vec<&'a str> {
        let practice = self.practice.as_deref().into_iter();
        practice.chain(own.iter().copied()).collect()
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

    /// One verb, without a terminal.
    pub fn gone(&self, arguments: &[&str]) -> Ran {
        Ran::of(&mut self.command(arguments))
    }

    /// A verb that has to succeed: what it printed.
    pub fn say(&self, arguments: &[&str]) -> String {
        self.gone(arguments).ok().out
    }

    pub fn json(&self, arguments: &[&str]) -> Value {
        let mut arguments = arguments.to_vec();
        arguments.extend(["-o", "json"]);
        self.gone(&arguments).ok().json()
    }

    /// A scenario that comes with the program or lies at this path, as it is told here: how
    /// `gone` finds it.
    pub fn scenario(&self, name: &str) -> String {
        let written = std::fs::read_to_string(self.scenario_file(name)).unwrap();
        let told = self.telling.scenario(&written);
        told.map_or_else(|| name.to_owned(), |told| self.write("told.toml", &told))
    }

    fn scenario_file(&self, name: &str) -> PathBuf {
        let own = Path::new(name);
        let built_in = Path::new(env!("CARGO_MANIFEST_DIR")).join("assets/scenarios");
        match own.exists() {
            true => own.to_owned(),
            false => built_in.join(format!("{name}.toml")),
        }
    }

    /// The scenario that comes with the program by this name, but that nothing was deleted before: how `gone` finds
    /// it.
    pub fn without_past(&self, name: &str) -> String {
        let written = std::fs::read_to_string(self.scenario_file(name)).unwrap();
        let mut scenario: toml::Table = written.parse().unwrap();
        scenario.remove("past").expect("a past");
        self.write("without-past.toml", &scenario.to_string())
    }

    /// `gone sandbox` with this scenario; its `clouds.yaml` is where clients look for it.
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
        self.started.push(child);
        let ready: Value = serde_json::from_str(&ready).unwrap();
        Cloud::at(ready["url"].as_str().unwrap(), &clouds_yaml)
    }

    /// The practice cloud that a `--sandbox` console or engine of this story carries.
    pub fn carried_cloud(&self) -> Cloud {
        let file = self.path(".local/state/gone/sandbox/clouds.yaml");
        let text = std::fs::read_to_string(&file).unwrap();
        let url = text.split_once("auth_url: ").unwrap().1;
        let url = url.lines().next().unwrap().trim_end_matches("/v3");
        Cloud::at(url, &file.display().to_string())
    }

    /// A headless engine, once it answers. Its process id.
    pub fn start_engine(&mut self, options: &[&str]) -> u32 {
        let mut arguments = options.to_vec();
        arguments.push("--engine");
        let log = std::fs::File::create(self.path("engine.log")).unwrap();
        let child = self.command(&arguments).stderr(log).spawn().unwrap();
        let pid = child.id();
        self.started.push(child);
        let all = self.arguments(options);
        let practises = all.iter().any(|option| option.starts_with("--sandbox"));
        let socket = self.path(match practises {
            false => ".local/state/gone/gone.sock",
            true => ".local/state/gone/sandbox/gone.sock",
        });
        let told = || std::fs::read_to_string(self.path("engine.log")).unwrap();
        until("engine", told, || {
            std::os::unix::net::UnixStream::connect(&socket).ok()
        });
        pid
    }

    /// The only deletion that there is.
    pub fn only_deletion(&self) -> Value {
        let all = self.json(&["list"]);
        assert_eq!(all.as_array().unwrap().len(), 1, "{all}");
        all[0].clone()
    }

    /// Until the only deletion is as wanted; then it.
    pub fn deletion_until(&self, what: &str, wanted: impl Fn(&Value) -> bool) -> Value {
        let told = || self.only_deletion().to_string();
        until(what, told, || Some(self.only_deletion()).filter(&wanted))
    }
}

pub fn is_alive(pid: u32) -> bool {
    let pid = Pid::from_raw(i32::try_from(pid).unwrap()).unwrap();
    rustix::process::test_kill_process(pid).is_ok()
}

impl Drop for Stage {
    fn drop(&mut self) {
        for child in self.started.iter_mut().rev() {
            let pid = Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap();
            let _ = kill_process(pid, Signal::TERM);
            let _ = child.wait();
        }
    }
}

/// The practice cloud, as any client sees it.
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

    /// A token, and the project that it is for.
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

    pub fn project_of(&self, user: &str) -> String {
        self.log_in(user).1
    }

    /// A call to the network service of the first region: its status and body.
    pub fn call(&self, user: &str, method: &str, path: &str, body: Value) -> (u16, Value) {
        self.call_at("RegionOne/network/v2.0", user, method, path, body)
    }

    /// A call to a service of a region: `RegionTwo/image/v2`.
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

    /// The same through a gate before the network service of the first region, by its address.
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

    /// Glance takes a patch by its own media type only.
    pub fn patch_image(&self, image: &str, patch: &Value) {
        let (token, _) = self.log_in("admin");
        let url = format!("{}/RegionOne/image/v2/images/{image}", self.url);
        let kind = "application/openstack-images-v2.1-json-patch";
        let request = self.client.patch(url).header("x-auth-token", token);
        let request = request.header("content-type", kind).body(patch.to_string());
        let (status, _, body) = self.send(request);
        assert_eq!(status, 200, "{body}");
    }

    pub fn status(&self, path: &str) -> u16 {
        self.call("admin", "GET", path, Value::Null).0
    }

    /// All of a collection, as admin.
    pub fn all(&self, collection: &str) -> Vec<Value> {
        self.all_at("RegionOne/network/v2.0", collection)
    }

    pub fn all_at(&self, service: &str, collection: &str) -> Vec<Value> {
        let path = format!("/{collection}");
        let (_, body) = self.call_at(service, "admin", "GET", &path, Value::Null);
        body[collection].as_array().unwrap().clone()
    }

    /// The names of all of a collection.
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

    /// What was sent to the network service that may change something: `DELETE /v2.0/ports/…`.
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

    /// How the next change of a balancer goes.
    pub fn balancer(&self, change: &Value) {
        let request = self
            .client
            .put(format!("{}/sandbox/v1/balancers", self.url));
        let (status, _, body) = self.send(request.json(change));
        assert_eq!(status, 204, "{body}");
    }

    pub fn limits(&self, limits: &Value) {
        let request = self.client.put(format!("{}/sandbox/v1/limits", self.url));
        let (status, _, body) = self.send(request.json(limits));
        assert_eq!(status, 204, "{body}");
    }

    pub fn faults(&self, faults: &Value) {
        let request = self.client.put(format!("{}/sandbox/v1/faults", self.url));
        let (status, _, body) = self.send(request.json(faults));
        assert_eq!(status, 204, "{body}");
    }
}
