//! Engines in processes of their own, each with its own home, ledger and kinds.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use gone::domain::peers::Deployment;
use rustix::process::Signal;
use serde_json::Value;
use tempfile::TempDir;

use crate::support::{DEADLINE, TOKEN, deployment, write_private};

#[allow(dead_code)] // No test target uses all of it.
#[path = "../testkit/program.rs"]
mod program;

use program::{ChildGuard, GONE, send};
pub use program::{RunResult, wait_for};

/// A deployment with its own folder and configuration. Its engine runs between `start` and `kill`.
pub struct Home {
    pub name: String,
    listen: String,
    folder: TempDir,
    runtime: tokio::runtime::Runtime,
    client: reqwest::Client,
    engine: Option<ChildGuard>,
}

/// The configuration of a deployment.
pub struct Setup<'a> {
    pub deployment: Deployment,
    pub listen: String,
    pub heartbeat: &'a str,
    /// The peers, and the address of each.
    pub peers: Vec<(Deployment, String)>,
    /// Text that is appended to `config.toml`.
    pub settings: &'a str,
    /// The texts of the kinds files.
    pub kinds: &'a [&'a str],
}

/// A random address of this machine, out of fifteen million, so that two tests hardly ever choose the same.
pub fn address() -> String {
    let part = || fastrand::u8(2..=250);
    format!("127.{}.{}.{}:7661", part(), part(), part())
}

/// Sets up `d0` with the service `s0`, `d1` with `s1` and so on. Each is a peer of the others, and has the kinds files
/// at its index.
pub fn homes<const N: usize>(kinds: [&[&str]; N]) -> [Home; N] {
    let addresses = kinds.map(|_| address());
    let mut number = 0;
    kinds.map(|kinds| {
        let others = (0..N).filter(|n| *n != number);
        let setup = Setup {
            deployment: deployment(&format!("s{number}")),
            listen: addresses[number].clone(),
            heartbeat: "1s",
            peers: others
                .map(|n| (deployment(&format!("s{n}")), addresses[n].clone()))
                .collect(),
            settings: "[gc]\nschedule = ['1s']\njitter = 0.0\n",
            kinds,
        };
        number += 1;
        Home::new(&setup)
    })
}

impl Home {
    pub fn new(setup: &Setup) -> Self {
        let folder = tempfile::tempdir().unwrap();
        // Each call opens its own connection, because an engine that was killed has closed the old ones.
        let client = reqwest::Client::builder()
            .unix_socket(folder.path().join("state/gone/gone.sock"))
            .timeout(DEADLINE)
            .pool_max_idle_per_host(0)
            .build()
            .unwrap();
        let home = Self {
            name: setup.deployment.name.clone(),
            listen: setup.listen.clone(),
            folder,
            runtime: tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .unwrap(),
            client,
            engine: None,
        };
        std::fs::create_dir_all(home.path("config/gone/kinds")).unwrap();
        write_private(&home.path("token"), TOKEN);
        std::fs::write(home.path("clouds.yaml"), "clouds: {}\n").unwrap();
        home.configure(setup);
        for (n, text) in setup.kinds.iter().enumerate() {
            std::fs::write(home.path(&format!("config/gone/kinds/{n}.toml")), text).unwrap();
        }
        home
    }

    fn configure(&self, setup: &Setup) {
        let token = self.path("token").display().to_string();
        let peers = setup.peers.iter().map(|(peer, address)| {
            format!(
                "[[deployment.peers]]\nurl = 'http://{address}'\nservice = '{}'\nregion = '{}'\n\
                 token_file = '{token}'\n",
                peer.service, peer.region
            )
        });
        let Deployment {
            name,
            service,
            region,
        } = &setup.deployment;
        let settings = format!(
            "[deployment]\nname = '{name}'\nservice = '{service}'\nregion = '{region}'\n\
             listen = '{}'\nheartbeat = '{}'\n{}{}",
            setup.listen,
            setup.heartbeat,
            peers.collect::<String>(),
            setup.settings,
        );
        std::fs::write(self.path("config/gone/config.toml"), settings).unwrap();
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The address at which its peers reach the deployment.
    pub fn listen_address(&self) -> &str {
        &self.listen
    }

    fn command(&self) -> Command {
        let mut command = Command::new(GONE);
        command
            .env_clear()
            .env("HOME", self.folder.path())
            .env("XDG_CONFIG_HOME", self.path("config"))
            .env("XDG_STATE_HOME", self.path("state"))
            .env("OS_CLIENT_CONFIG_FILE", self.path("clouds.yaml"))
            .current_dir(self.folder.path())
            .stdin(Stdio::null());
        command
    }

    /// Starts `gone --engine`, and waits until it serves its socket.
    pub fn start(&mut self) {
        let log = std::fs::File::options()
            .create(true)
            .append(true)
            .open(self.path("log"))
            .unwrap();
        let mut command = self.command();
        command.arg("--engine").stderr(log).stdout(Stdio::null());
        let mut engine = ChildGuard(command.spawn().unwrap());
        let pid = engine.0.id();
        let ledger = self.path("state/gone/ledger.db");
        wait_for(
            &format!("the engine of {} to serve its socket", self.name),
            || {
                let ended = engine.0.try_wait().unwrap();
                assert!(ended.is_none(), "{} ended: {}", self.name, self.log());
                let owner = gone::ledger::sqlite::holder(&ledger);
                owner.is_some_and(|owner| owner.pid == pid && owner.socket.is_some())
            },
        );
        self.engine = Some(engine);
    }

    /// Kills the engine, as `kill -9` does.
    pub fn kill(&mut self) {
        self.engine = None;
    }

    /// Stops the engine's process (SIGSTOP): it answers no call, and its connections stay open.
    pub fn freeze(&self) {
        send(self.pid(), Signal::STOP);
    }

    pub fn thaw(&self) {
        send(self.pid(), Signal::CONT);
    }

    pub fn is_running(&self) -> bool {
        self.engine.is_some()
    }

    pub fn pid(&self) -> u32 {
        self.engine.as_ref().unwrap().0.id()
    }

    /// The log of the engine, over all its starts.
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.path("log")).unwrap_or_default()
    }

    /// Runs a verb to its end.
    pub fn gone(&self, line: &str) -> RunResult {
        RunResult::of(self.command().args(line.split_whitespace()))
    }

    /// Calls the engine's API. Returns the status and the body of the answer.
    pub fn api(&self, method: &str, path: &str, body: &Value) -> (u16, Value) {
        self.runtime.block_on(async {
            let url = format!("http://localhost/api/v1/{path}");
            let mut request = self.client.request(method.parse().unwrap(), url);
            if !body.is_null() {
                request = request.json(body);
            }
            let answer = request.send().await.unwrap();
            let status = answer.status().as_u16();
            (status, answer.json().await.unwrap_or_default())
        })
    }

    /// Creates a resource. Repeats a call that is answered 503, as it is while this deployment has no fresh notices of
    /// the deployment to which the resource refers.
    pub fn create(&self, kind: &str, body: &Value) {
        let path = format!("resources/{kind}");
        wait_for(
            &format!("{kind} {body} to be created at {}", self.name),
            || match self.api("POST", &path, body) {
                (201, _) => true,
                (503, _) => false,
                (status, answer) => panic!("{status} {answer}\n{}", self.log()),
            },
        );
    }

    /// Returns a resource in its stored form; none if it does not exist.
    pub fn resource(&self, kind: &str, id: &str) -> Option<Value> {
        match self.api("GET", &format!("resources/{kind}/{id}"), &Value::Null) {
            (200, row) => Some(row),
            (404, _) => None,
            (status, answer) => panic!("{status} {answer}\n{}", self.log()),
        }
    }
}
