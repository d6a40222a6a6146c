//! A practice cloud as a process of its own, and a home for those who use it.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::telling::Telling;

pub struct World {
    pub home: tempfile::TempDir,
    sandbox: Running,
    url: String,
    telling: Telling,
}

/// A process that ends with the test.
pub struct Running(pub Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// What a verb wrote and how it ended.
pub struct Ran {
    pub code: i32,
    pub out: String,
    pub err: String,
}

impl Ran {
    #[track_caller]
    pub fn expect(self, code: i32) -> Self {
        assert_eq!(self.code, code, "out: {}\nerr: {}", self.out, self.err);
        self
    }

    pub fn json(&self) -> Value {
        serde_json::from_str(&self.out).unwrap_or_else(|e| panic!("{e}: {}", self.out))
    }
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
        let sandbox = Running(child);
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
        let output = self.command().args(line.split_whitespace()).output();
        ran(output.unwrap())
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
    pub fn engine(&self) -> Running {
        self.served_by(self.command())
    }

    /// The same for this command, of any cloud.
    pub fn served_by(&self, mut command: Command) -> Running {
        let socket = self.path("state/gone/gone.sock");
        let child = command
            .args(["--engine", "--socket"])
            .arg(&socket)
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let running = Running(child);
        until("the engine serves its socket", || {
            std::os::unix::net::UnixStream::connect(&socket).is_ok()
        });
        running
    }

    pub fn sandbox_pid(&self) -> u32 {
        self.sandbox.0.id()
    }
}

fn command(home: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_gone"));
    command
        .env_clear()
        .env("HOME", home)
        .env("XDG_STATE_HOME", home.join("state"))
        .env("USER", "ada")
        .current_dir(home)
        .stdin(Stdio::null());
    command
}

fn ran(output: Output) -> Ran {
    Ran {
        code: output.status.code().unwrap(),
        out: String::from_utf8(output.stdout).unwrap(),
        err: String::from_utf8(output.stderr).unwrap(),
    }
}

#[track_caller]
pub fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while !holds() {
        assert!(Instant::now() < deadline, "in 20 s not: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}
