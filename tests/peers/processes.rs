//! Engines in processes of their own, each with its own home, ledger and kinds.

use std::io::Read as _;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use gone::domain::peers::Deployment;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;

use crate::support::{DEADLINE, TOKEN, deployment, write_private};

const GONE: &str = env!("CARGO_BIN_EXE_gone");

/// One of several deployments, its peers known to it from the start.
pub struct Home {
    pub name: String,
    listen: String,
    folder: TempDir,
    runtime: tokio::runtime::Runtime,
    client: reqwest::Client,
    engine: Option<Ended>,
}

/// How one is set up.
pub struct Setup<'a> {
    pub deployment: Deployment,
    pub listen: String,
    pub heartbeat: &'a str,
    /// The others, and where it finds each.
    pub peers: Vec<(Deployment, String)>,
    /// More of `config.toml`.
    pub settings: &'a str,
    pub kinds: &'a [&'a str],
}

/// Ends the process when dropped.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// What a verb came to.
#[derive(Debug)]
pub struct Ran {
    pub code: Option<i32>,
    pub out: String,
    pub err: String,
}

/// An address of this machine that nobody else takes: one of sixteen million.
pub fn address() -> String {
    let part = || fastrand::u8(2..=250);
    format!("127.{}.{}.{}:7661", part(), part(), part())
}

/// `d0` with `s0`, `d1` with `s1` and so on, each a peer of the others; kinds by who has their file.
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
        // One that ended closed its connections: each call has its own.
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

    /// Where others reach it.
    pub fn listens(&self) -> &str {
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
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
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
        let mut engine = Ended(command.spawn().unwrap());
        let pid = engine.0.id();
        let ledger = self.path("state/gone/ledger.db");
        wait_for(&format!("engine of {}", self.name), || {
            let ended = engine.0.try_wait().unwrap();
            assert!(ended.is_none(), "{} ended: {}", self.name, self.log());
            let owner = gone::ledger::sqlite::holder(&ledger);
            owner.is_some_and(|owner| owner.pid == pid && owner.socket.is_some())
        });
        self.engine = Some(engine);
    }

    /// `kill -9`.
    pub fn kill(&mut self) {
        self.engine = None;
    }

    /// It answers nobody, and its connections stay open.
    pub fn freeze(&self) {
        self.signal(Signal::STOP);
    }

    pub fn thaw(&self) {
        self.signal(Signal::CONT);
    }

    pub fn is_up(&self) -> bool {
        self.engine.is_some()
    }

    pub fn pid(&self) -> u32 {
        self.engine.as_ref().unwrap().0.id()
    }

    fn signal(&self, signal: Signal) {
        let pid = self.pid();
        let pid = Pid::from_raw(i32::try_from(pid).unwrap()).unwrap();
        kill_process(pid, signal).unwrap();
    }

    /// What its engine has logged.
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.path("log")).unwrap_or_default()
    }

    /// A verb, run to its end.
    pub fn gone(&self, line: &str) -> Ran {
        let mut command = self.command();
        let mut child = Ended(command.args(line.split_whitespace()).spawn().unwrap());
        let mut status = None;
        // What verbs say here fits into a pipe.
        wait_for(&format!("end of gone {line}"), || {
            status = child.0.try_wait().unwrap();
            status.is_some()
        });
        let (mut out, mut err) = (String::new(), String::new());
        child
            .0
            .stdout
            .take()
            .unwrap()
            .read_to_string(&mut out)
            .unwrap();
        child
            .0
            .stderr
            .take()
            .unwrap()
            .read_to_string(&mut err)
            .unwrap();
        Ran {
            code: status.unwrap().code(),
            out,
            err,
        }
    }

    /// A call of its API: status and body.
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

    /// Keeps a resource; tried again while its deployment has not heard of the other one yet.
    pub fn create(&self, kind: &str, body: &Value) {
        let path = format!("resources/{kind}");
        wait_for(&format!("{kind} {body} at {}", self.name), || {
            match self.api("POST", &path, body) {
                (201, _) => true,
                (503, _) => false,
                (status, said) => panic!("{status} {said}\n{}", self.log()),
            }
        });
    }

    /// A resource as it is kept, if it is.
    pub fn kept(&self, kind: &str, id: &str) -> Option<Value> {
        match self.api("GET", &format!("resources/{kind}/{id}"), &Value::Null) {
            (200, row) => Some(row),
            (404, _) => None,
            (status, said) => panic!("{status} {said}\n{}", self.log()),
        }
    }
}

impl Ran {
    #[track_caller]
    pub fn ends_with(self, code: i32) -> Self {
        assert_eq!(self.code, Some(code), "{}\n{}", self.out, self.err);
        self
    }

    /// What it says holds each of these words.
    #[track_caller]
    pub fn says(self, words: &[&str]) -> Self {
        let said = format!("{}\n{}", self.out, self.err);
        for word in words {
            assert!(said.contains(word), "no {word:?} in: {said}");
        }
        self
    }
}

#[track_caller]
pub fn wait_for(what: &str, mut condition: impl FnMut() -> bool) {
    let since = Instant::now();
    while !condition() {
        assert!(since.elapsed() < DEADLINE, "no {what}");
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
}
