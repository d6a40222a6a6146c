//! A practice cloud as a process of its own, and a home for those who use it.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use super::telling::Telling;

#[allow(dead_code)] // No theme needs all of it.
#[path = "../testkit/program.rs"]
pub mod program;

use program::{Ended, GONE, Ran, wait_for};

pub struct World {
    pub home: tempfile::TempDir,
    sandbox: Ended,
    url: String,
    telling: Telling,
}

impl World {
    pub fn start() -> Self {
        Self::of(&Telling::as_written())
    }

    pub fn of(telling: &Telling) -> Self {
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
        let sandbox = Ended(child);
        BufReader::new(out).read_line(&mut line).unwrap();
        let ready: Value = serde_json::from_str(&line).unwrap();
        assert_eq!(ready["regions"], json!(["RegionOne", "RegionTwo"]));
        let url = ready["url"].as_str().unwrap().to_owned();
        Self {
            home,
            sandbox,
            url,
            telling: *telling,
        }
    }

    /// Calls the sandbox's own control.
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

    pub fn seed(&self) {
        let seed = json!({
            "name": self.telling.name("seed"),
            "networks": 1, "ports_per_network": 3, "routers": 1, "trunks": 0,
        });
        self.control("POST", "/seed", &seed);
        if let Some(latency) = self.telling.latency_ms {
            self.control("PUT", "/limits", &json!({ "latency_ms": latency }));
        }
    }

    /// How many DELETE and other writes Neutron got.
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

    pub fn gone(&self, line: &str) -> Ran {
        Ran::of(self.command().args(line.split_whitespace()))
    }

    /// With the practice cloud in `clouds.yaml`, as its admin.
    pub fn command(&self) -> Command {
        let mut command = self.of_all_clouds();
        command.args(["--cloud", "sandbox"]);
        command
    }

    /// With all that is in `clouds.yaml`.
    pub fn of_all_clouds(&self) -> Command {
        let mut command = command(self.home.path());
        command.env("OS_CLIENT_CONFIG_FILE", self.path("clouds.yaml"));
        command
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.home.path().join(name)
    }

    /// Starts the engine, and waits until it answers.
    pub fn engine(&self) -> Ended {
        self.served_by(self.command())
    }

    /// The same for this command, of any cloud.
    pub fn served_by(&self, mut command: Command) -> Ended {
        let socket = self.path("state/gone/gone.sock");
        let child = command
            .args(["--engine", "--socket"])
            .arg(&socket)
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let running = Ended(child);
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
