//! A practice cloud with two regions in its own process, and a home directory for the programs that use it.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use super::variation::Variation;

#[allow(dead_code)] // This target does not use all of it.
#[path = "../testkit/program.rs"]
pub mod program;

use program::{ChildGuard, GONE, RunResult, wait_for};

/// A home directory, and the practice cloud that its `clouds.yaml` names.
pub struct World {
    pub home: tempfile::TempDir,
    sandbox: ChildGuard,
    url: String,
    variation: Variation,
}

impl World {
    pub fn start() -> Self {
        Self::with(&Variation::baseline())
    }

    /// Starts the practice cloud for a story in this variation.
    pub fn with(variation: &Variation) -> Self {
        let home = tempfile::tempdir().unwrap();
        let clouds = home.path().join("clouds.yaml");
        let mut child = command(home.path())
            .args([
                "sandbox",
                "--regions",
                "RegionOne,RegionTwo",
                "--clouds-yaml",
            ])
            .arg(&clouds)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let out = child.stdout.take().unwrap();
        let sandbox = ChildGuard(child);
        BufReader::new(out).read_line(&mut line).unwrap();
        let ready: Value = serde_json::from_str(&line).unwrap();
        assert_eq!(ready["regions"], json!(["RegionOne", "RegionTwo"]));
        let url = ready["url"].as_str().unwrap().to_owned();
        Self {
            home,
            sandbox,
            url,
            variation: *variation,
        }
    }

    /// Calls the control interface of the practice cloud.
    pub fn control(&self, method: &str, path: &str, body: &Value) -> Value {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        runtime.block_on(async {
            let url = format!("{}/sandbox/v1{path}", self.url);
            let method = reqwest::Method::from_bytes(method.as_bytes()).unwrap();
            let answer = reqwest::Client::new().request(method, url).json(body);
            let answer = answer.send().await.unwrap();
            assert!(answer.status().is_success(), "{path}: {}", answer.status());
            let text = answer.text().await.unwrap();
            serde_json::from_str(&text).unwrap_or(Value::Null)
        })
    }

    /// Creates a network with three ports and a router, and sets the latency of the variation.
    pub fn seed(&self) {
        let seed = json!({
            "name": self.variation.name("seed"),
            "networks": 1, "ports_per_network": 3, "routers": 1, "trunks": 0,
        });
        self.control("POST", "/seed", &seed);
        if let Some(latency) = self.variation.latency_ms {
            self.control("PUT", "/limits", &json!({ "latency_ms": latency }));
        }
    }

    /// Number of calls except GETs that Neutron and Octavia have received.
    pub fn writes(&self) -> usize {
        let calls = self.control("GET", "/calls?after=0", &json!({}));
        let rows = calls
            .as_array()
            .or_else(|| calls["calls"].as_array())
            .unwrap();
        rows.iter()
            .filter(|call| {
                let path = call["path"].as_str().unwrap();
                call["method"] != "GET" && path.contains("/v2.0/")
            })
            .count()
    }

    pub fn gone(&self, line: &str) -> RunResult {
        RunResult::of(self.command().args(line.split_whitespace()))
    }

    /// A `gone` command that chooses the cloud `sandbox`, whose login is an admin.
    pub fn command(&self) -> Command {
        let mut command = self.command_for_all_clouds();
        command.args(["--cloud", "sandbox"]);
        command
    }

    /// A `gone` command that reads every cloud of `clouds.yaml`.
    pub fn command_for_all_clouds(&self) -> Command {
        let mut command = command(self.home.path());
        command.env("OS_CLIENT_CONFIG_FILE", self.path("clouds.yaml"));
        command
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.home.path().join(name)
    }

    /// Starts an engine for the cloud `sandbox`, and waits until it serves its socket.
    pub fn engine(&self) -> ChildGuard {
        self.start_engine_by(self.command())
    }

    /// Starts an engine by this command, and waits until it serves its socket.
    pub fn start_engine_by(&self, mut command: Command) -> ChildGuard {
        let socket = self.path("state/gone/gone.sock");
        let child = command
            .args(["--engine", "--socket"])
            .arg(&socket)
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let running = ChildGuard(child);
        wait_for("the engine serves its socket", || {
            std::os::unix::net::UnixStream::connect(&socket).is_ok()
        });
        running
    }

    pub fn sandbox_pid(&self) -> u32 {
        self.sandbox.0.id()
    }
}

fn command(home: &Path) -> Command {
    let mut command = Command::new(GONE);
    command
        .env_clear()
        .env("HOME", home)
        .env("XDG_STATE_HOME", home.join("state"))
        .env("USER", "ada")
        .current_dir(home)
        .stdin(Stdio::null());
    command
}
