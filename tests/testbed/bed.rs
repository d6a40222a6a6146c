//! A project in the test bed that one test owns, a home directory, and the program.
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tempfile::TempDir;

#[allow(dead_code)] // This target does not use all of it.
#[path = "../testkit/program.rs"]
pub mod program;

pub use program::{ChildGuard, DEADLINE, wait_for};
use program::{GONE, RunResult};

use crate::api::{Api, Holdings, text};
use crate::estate::Outer;

/// Returns the path of the test bed's `clouds.yaml`.
///
/// # Panics
/// If there is no test bed: a test that needs it fails.
pub fn clouds() -> PathBuf {
    let clouds = std::env::var_os("GONE_TESTBED_CLOUDS");
    clouds
        .expect(
            "GONE_TESTBED_CLOUDS must name the test bed's clouds.yaml: tests/testbed/up prints it",
        )
        .into()
}

/// A seeded project of the test bed, and a home directory. Dropping it deletes the project and its resources.
pub struct Bed {
    /// The name of the project, with which the name of every seeded resource begins.
    pub name: String,
    /// The id of the project.
    pub project: String,
    /// The ids of the seeded networks.
    pub networks: Vec<String>,
    /// An admin's calls in the region of the seed.
    pub api: Api,
    /// The home directory.
    pub folder: TempDir,
    /// Resources of other projects on networks of this project, deleted first: collection and id.
    foreign: Vec<(String, String)>,
    /// Resources of other projects that this project uses, deleted last: collection and id.
    pub prerequisites: Vec<(String, String)>,
    /// Further regions in which the project has resources.
    pub other_regions: Vec<Api>,
}

impl Drop for Bed {
    fn drop(&mut self) {
        for (collection, id) in &self.foreign {
            self.api.delete_all(collection, [id.clone()]);
        }
        for api in self.other_regions.iter().chain([&self.api]) {
            api.clean_up(&self.project);
        }
        for (collection, id) in &self.prerequisites {
            self.api.delete_all(collection, [id.clone()]);
        }
    }
}

impl Bed {
    /// A project with one network in the first region. Only a router uses the network.
    pub fn small() -> Self {
        Self::seeded("RegionOne", "--networks 1 --ports 0 --trunks 0 --fips 0")
    }

    /// A project that `seed` fills. `shape` has options of `seed`.
    pub fn seeded(region: &str, shape: &str) -> Self {
        let clouds = clouds();
        let name = format!("gone-{}", &uuid::Uuid::new_v4().simple().to_string()[..10]);
        let seed = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/testbed/seed");
        let made = Command::new(seed)
            .args(["--region", region, "--project", &name, "--prefix", &name])
            .args(shape.split_whitespace())
            .env("TESTBED_DIR", clouds.parent().unwrap())
            .env("OS_CLIENT_CONFIG_FILE", &clouds)
            .stderr(Stdio::inherit())
            .output()
            .unwrap();
        let api = Api::new(&clouds, "testbed", region);
        let mut bed = Self {
            project: api.project_id(&name),
            networks: Vec::new(),
            name,
            api,
            folder: tempfile::tempdir().unwrap(),
            foreign: Vec::new(),
            prerequisites: Vec::new(),
            other_regions: Vec::new(),
        };
        assert!(made.status.success(), "seed: {:?}", made.status);
        let made: Value = serde_json::from_slice(&made.stdout).unwrap();
        std::fs::copy(&clouds, bed.path("clouds.yaml")).unwrap();
        let networks = made["ids"]["networks"].as_array().unwrap();
        bed.networks = networks.iter().map(text).collect();
        bed
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub fn ledger(&self) -> PathBuf {
        self.path("state/gone/ledger.db")
    }

    pub fn holdings(&self) -> Holdings {
        self.api.holdings(&self.project)
    }

    /// Creates a resource of the project demo, and deletes it when the bed is dropped. Returns its row.
    pub fn create_foreign(&mut self, collection: &str, member: &str, mut fields: Value) -> Value {
        fields["project_id"] = json!(self.api.project_id("demo"));
        let made = self.api.call("POST", collection, json!({ member: fields }));
        let id = text(&made[member]["id"]);
        self.foreign.insert(0, (collection.to_owned(), id));
        made[member].clone()
    }

    /// Deletes the seeded QoS policies, which only an admin may delete.
    pub fn delete_qos_policies(&self) {
        for network in &self.networks {
            let cleared = json!({"network": {"qos_policy_id": null}});
            self.api
                .call("PUT", &format!("networks/{network}"), cleared);
        }
        let policies = format!("project_id={}", self.project);
        let ports = self.api.rows("ports", &policies);
        for port in ports.iter().filter(|it| !it["qos_policy_id"].is_null()) {
            let cleared = json!({"port": {"qos_policy_id": null}});
            let path = format!("ports/{}", text(&port["id"]));
            self.api.call("PUT", &path, cleared);
        }
        for policy in self.api.rows("qos/policies", &policies) {
            self.api
                .delete_at(&format!("/v2.0/qos/policies/{}", text(&policy["id"])));
        }
    }

    /// Creates an external network of the admin's project, to which routers of this project may lead.
    pub fn create_external_network(&mut self) -> Outer {
        let outer = Outer::make(&|method, path, body| self.api.call_any(method, path, body));
        let made = outer.made.iter();
        let made = made.map(|(collection, id)| ((*collection).to_owned(), id.clone()));
        self.prerequisites.extend(made);
        outer
    }

    /// Changes the program's `clouds.yaml`.
    pub fn change_clouds(&self, change: impl FnOnce(&mut Value)) {
        let file = self.path("clouds.yaml");
        let mut clouds = serde_saphyr::from_str(&std::fs::read_to_string(&file).unwrap()).unwrap();
        change(&mut clouds);
        std::fs::write(file, clouds.to_string()).unwrap();
    }

    /// Writes the program's `config.toml`.
    pub fn configure(&self, settings: &str) {
        std::fs::create_dir_all(self.path("config/gone")).unwrap();
        std::fs::write(self.path("config/gone/config.toml"), settings).unwrap();
    }

    /// The environment variables of the program.
    pub fn environment(&self) -> BTreeMap<&'static str, PathBuf> {
        program::environment(self.folder.path())
    }

    fn command(&self, line: &str) -> Command {
        let mut command = Command::new(GONE);
        program::run_in(self.folder.path(), &mut command).args(line.split_whitespace());
        command
    }

    /// Runs a command line to its end.
    pub fn gone(&self, line: &str) -> RunResult {
        RunResult::of(&mut self.command(line))
    }

    /// Deletes the resources of the project. `login` has the options that choose a login. The deletion must succeed.
    #[track_caller]
    pub fn delete_project(&self, login: &str) {
        let project = &self.project;
        let line = format!("{login} delete project/{project} --cascade --yes --wait=5m");
        self.gone(&line).ok();
    }

    /// Waits until `gone show` of the deletion contains all these words.
    #[track_caller]
    pub fn wait_for_show(&self, deletion: &str, words: &[&str]) {
        let line = format!("show {deletion}");
        let mut shown = self.gone(&line);
        let since = Instant::now();
        while !words.iter().all(|word| shown.out.contains(word)) {
            assert!(since.elapsed() < DEADLINE, "no {words:?} in {shown:?}");
            std::thread::sleep(Duration::from_millis(200));
            shown = self.gone(&line);
        }
    }

    /// The process id of the engine that owns the ledger and serves its socket.
    pub fn owner_pid(&self) -> Option<u32> {
        let owner = gone::ledger::sqlite::holder(&self.ledger())?;
        owner.socket.map(|_| owner.pid)
    }

    /// Starts a headless engine, and waits until it serves its socket. `sites` are options that choose clouds.
    pub fn start_engine(&self, sites: &str) -> ChildGuard {
        let log = std::fs::File::options()
            .create(true)
            .append(true)
            .open(self.path("engine.log"))
            .unwrap();
        let mut command = self.command(&format!("{sites} --engine"));
        let engine = ChildGuard(command.stdout(Stdio::null()).stderr(log).spawn().unwrap());
        wait_for("the engine", || self.owner_pid() == Some(engine.0.id()));
        engine
    }
}
