//! Measures the deletion of a whole project on a real OpenStack: how long it takes and what it leaves behind,
//! compared with three ways in which people do it today (`contenders.py`). Everything is measured in one run, each time
//! with a project of its own. The yardstick is the way `script`, eight threads that send plain calls: its measurements
//! alternate with gone's.
//!
//! `GONE_TESTBED_CLOUDS` names the testbed's `clouds.yaml`; without it, nothing is measured. With `--smoke`, the
//! bench runs briefly and proves only that it works. It then leaves out the `openstack` commands, because starting so
//! many of them takes minutes.
#![allow(
    dead_code,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    clippy::print_stderr,
    unreachable_pub
)]

#[path = "../testbed/api.rs"]
mod api;
#[path = "../testbed/bed.rs"]
mod bed;
#[allow(dead_code)] // The bench needs only the type of the external network.
#[path = "../testbed/estate.rs"]
mod estate;
mod support;

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use api::{Api, text};
use bed::{Bed, DEADLINE, clouds, wait_for};
use serde_json::{Value, json};

/// The goal for gone's time, as a share of the script's time.
const GOAL: f64 = 0.9;
const LARGE: &str =
    "--networks 10 --ports 60 --trunks 10 --fips 10 --groups 9 --balancers 1 --images 4";
const SMALL: &str =
    "--networks 1 --ports 2 --trunks 1 --fips 1 --groups 1 --balancers 1 --images 1";

/// How many resources of each kind a project gets, besides those of the seed, a stack and a zone.
#[derive(Clone, Copy)]
struct Load {
    servers: usize,
    /// One volume is attached to each server.
    volumes: usize,
    /// One snapshot of each of the last volumes.
    snapshots: usize,
    /// One backup of each of the last volumes.
    backups: usize,
}

const MANY: Load = Load {
    servers: 20,
    volumes: 40,
    snapshots: 20,
    backups: 10,
};
const FEW: Load = Load {
    servers: 1,
    volumes: 2,
    snapshots: 1,
    backups: 1,
};

fn main() {
    if std::env::var_os("GONE_TESTBED_CLOUDS").is_none() {
        println!(
            "not measured: GONE_TESTBED_CLOUDS is not set; it names the clouds.yaml of the testbed"
        );
        return;
    }
    let smoke = std::env::args().any(|argument| argument == "--smoke");
    let (shape, load, pairs) = if smoke {
        (SMALL, FEW, 1)
    } else {
        (LARGE, MANY, 5)
    };
    let run = |name: &str, empty: &dyn Fn(&Bed) -> f64| {
        let bed = Bed::seeded("RegionOne", shape);
        let load = ProjectLoad::new(&bed, load);
        let sum = |counts: &BTreeMap<&str, usize>| counts.values().sum::<usize>();
        let before = sum(&resource_counts(&load));
        let took = empty(&bed);
        let left = resource_counts(&load);
        let kinds = left.iter().filter(|(_, count)| **count > 0);
        let kinds: Vec<String> = kinds
            .map(|(kind, count)| format!("{count} {kind}"))
            .collect();
        println!(
            "{name}: {took:.1} s, {} of {before} resources left {}",
            sum(&left),
            kinds.join(", ")
        );
        took
    };
    let script = || run("script, 8 threads", &|bed| contender(bed, "script"));
    let gone = || run("gone", &empty_by_gone);
    let mut ratios = Vec::new();
    for pair in 0..pairs {
        // gone and the script take turns in being first, because the second one finds the cloud in another state.
        let (ours, theirs) = if pair % 2 == 0 {
            (gone(), script())
        } else {
            let theirs = script();
            (gone(), theirs)
        };
        println!(
            "pair {pair}: gone takes {:.2} times the script's time",
            ours / theirs
        );
        ratios.push(ours / theirs);
    }
    run("project_cleanup", &|bed| contender(bed, "cleanup"));
    if !smoke {
        run("openstack commands", &|bed| contender(bed, "commands"));
    }
    ratios.sort_by(f64::total_cmp);
    let median = ratios[ratios.len() / 2];
    println!("median of {pairs} pairs: {median:.2} times the script's time (goal <= {GOAL})");
}

/// Empties the project with gone. Returns the seconds taken.
fn empty_by_gone(bed: &Bed) -> f64 {
    let line = format!(
        "--cloud testbed delete project/{} --cascade --yes --wait=30m -o json",
        bed.name
    );
    let began = Instant::now();
    let done: Value = bed.gone(&line).ends_with(0).json();
    assert_eq!(done["state"], "gone");
    let took = began.elapsed().as_secs_f64();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let (ledger, id) = (bed.ledger(), text(&done["id"]));
    let phases = runtime.block_on(support::phases(&ledger, &id));
    println!("{}", phases.join(", "));
    took
}

/// Empties the project by one of the ways in `contenders.py`. Returns the seconds taken, without Python's start and
/// the login.
fn contender(bed: &Bed, how: &str) -> f64 {
    let clouds = clouds();
    let python = clouds.parent().unwrap().join("venv/bin/python");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/bench/contenders.py");
    let output = Command::new(python)
        .arg(script)
        .args([how, &bed.project])
        .env("OS_CLIENT_CONFIG_FILE", &clouds)
        .output()
        .unwrap();
    let err = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{how}: {err}");
    String::from_utf8(output.stdout)
        .unwrap()
        .trim()
        .parse()
        .unwrap()
}

/// How many resources of each kind the project has, without its default security group and the rules of that group.
/// Load balancers and images are counted together.
fn resource_counts(load: &ProjectLoad<'_>) -> BTreeMap<&'static str, usize> {
    let bed = load.bed;
    let mut holdings = bed.holdings();
    let groups = holdings.0["security-groups"].values();
    let default: Vec<String> = groups
        .filter(|group| group["name"] == "default")
        .map(|group| text(&group["id"]))
        .collect();
    for rows in holdings.0.values_mut() {
        let of_default = |row: &Value, field: &str| default.iter().any(|id| row[field] == **id);
        rows.retain(|_, row| !of_default(row, "id") && !of_default(row, "security_group_id"));
    }
    let mut counts: BTreeMap<&str, usize> = holdings.0.iter().map(|(k, v)| (*k, v.len())).collect();
    counts.insert(
        "load balancers and images",
        bed.api.balancers_and_images(&bed.project).len(),
    );
    for (kind, _) in load.resources() {
        *counts.entry(kind).or_default() += 1;
    }
    counts
}

/// The project's servers, volumes, snapshots, backups, stack and zone, which a login to the project created. Drop
/// deletes those that are left.
struct ProjectLoad<'b> {
    bed: &'b Bed,
    /// A login to the project.
    own: Api,
    /// The paths of the flavor and the image, which the admin created.
    prerequisites: [String; 2],
}

impl Drop for ProjectLoad<'_> {
    /// Deletes the resources that are left. Repeats the deletes while some resources block others.
    fn drop(&mut self) {
        let until = Instant::now() + DEADLINE;
        loop {
            let left = self.resources();
            if left.is_empty() || Instant::now() > until {
                break;
            }
            for (_, url) in left {
                self.own.answer_at("DELETE", &url, Value::Null);
            }
            std::thread::sleep(Duration::from_millis(500));
        }
        for path in &self.prerequisites {
            self.bed.api.delete_at(path);
        }
    }
}

impl<'b> ProjectLoad<'b> {
    fn new(bed: &'b Bed, load: Load) -> Self {
        let logins = bed.path("own.yaml");
        let clouds = std::fs::read_to_string(clouds()).unwrap();
        let mut clouds: Value = serde_saphyr::from_str(&clouds).unwrap();
        clouds["clouds"]["testbed"]["auth"]["project_name"] = json!(bed.name);
        std::fs::write(&logins, clouds.to_string()).unwrap();
        let own = Api::new(&logins, "testbed", "RegionOne");
        let image = json!({"name": bed.name, "disk_format": "raw", "container_format": "bare", "visibility": "public"});
        let image = text(&bed.api.call_any("POST", "/v2/images", image)["id"]);
        bed.api
            .upload(&format!("/v2/images/{image}/file"), b"boots nothing");
        let flavor = json!({"flavor": {"name": bed.name, "ram": 64, "vcpus": 1, "disk": 1}});
        let flavor = text(&bed.api.call_any("POST", "/v2.1/flavors", flavor)["flavor"]["id"]);
        let prerequisites = [
            format!("/v2.1/flavors/{flavor}"),
            format!("/v2/images/{image}"),
        ];
        let project = Self {
            bed,
            own,
            prerequisites,
        };
        project.create(load, &image, &flavor);
        project
    }

    /// Creates the resources. Requests as many as possible before it waits for one.
    fn create(&self, load: Load, image: &str, flavor: &str) {
        let name = &self.bed.name;
        let make = |path: &str, kind: &str, mut fields: Value| {
            fields["name"] = json!(name);
            text(&self.own.call_any("POST", path, json!({ kind: fields }))[kind]["id"])
        };
        let template = json!({"heat_template_version": "2018-08-31", "resources": {
            "net": {"type": "OS::Neutron::Net"}, "volume": {"type": "OS::Cinder::Volume", "properties": {"size": 1}}}});
        let stack = json!({"stack_name": name, "template": template, "timeout_mins": 3});
        let stacks = format!("/{}/stacks", self.bed.project);
        self.own
            .call_service("orchestration", "POST", &stacks, stack);
        let zone = json!({"name": format!("{name}.org."), "email": "a@example.org"});
        self.own.call_service("dns", "POST", "/zones", zone);
        let networks = json!([{"uuid": self.bed.networks[0]}]);
        let server = json!({"imageRef": image, "flavorRef": flavor, "networks": networks});
        let servers = (0..load.servers).map(|_| make("/v2.1/servers", "server", server.clone()));
        let servers: Vec<String> = servers.collect();
        let volumes = (0..load.volumes).map(|_| make("/v3/volumes", "volume", json!({"size": 1})));
        let volumes: Vec<String> = volumes.collect();
        // The stack has a volume, too.
        self.wait_until("volumes", "status", "available", load.volumes + 1);
        let last = volumes.iter().rev();
        for volume in last.clone().take(load.snapshots) {
            make("/v3/snapshots", "snapshot", json!({"volume_id": volume}));
        }
        self.wait_until("snapshots", "status", "available", load.snapshots);
        for volume in last.take(load.backups) {
            make("/v3/backups", "backup", json!({"volume_id": volume}));
        }
        self.wait_until("servers", "status", "ACTIVE", load.servers);
        for (server, volume) in servers.iter().zip(&volumes) {
            let path = format!("/v2.1/servers/{server}/os-volume_attachments");
            let attachment = json!({"volumeAttachment": {"volumeId": volume}});
            self.own.call_any("POST", &path, attachment);
        }
        self.wait_until("volumes", "status", "in-use", load.servers);
        self.wait_until("backups", "status", "available", load.backups);
        self.wait_until("stacks", "stack_status", "CREATE_COMPLETE", 1);
        self.wait_until("zones", "status", "ACTIVE", 1);
    }

    /// Waits until at least this many rows of a list have this state.
    fn wait_until(&self, list: &str, field: &str, state: &str, least: usize) {
        let listed = LISTS.iter().find(|(key, ..)| *key == list).unwrap();
        wait_for(&format!("{least} {list} to be {state}"), || {
            let rows = self.rows(listed);
            rows.iter().filter(|row| row[field] == state).count() >= least
        });
    }

    /// The rows of the project in one of the lists.
    fn rows(&self, (key, service, path): &List) -> Vec<Value> {
        let project = &self.bed.project;
        let path = path.replace("{project}", project);
        let mut rows = self.own.call_service(service, "GET", &path, Value::Null);
        let rows = rows[key].take();
        let mut rows: Vec<Value> = serde_json::from_value(rows).unwrap();
        // Heat shows an admin the stacks of all projects.
        rows.retain(|row| *key != "stacks" || row["project"] == project.as_str());
        rows
    }

    /// The project's resources in the lists: the key of the list, and the URL that deletes the resource.
    fn resources(&self) -> Vec<(&'static str, String)> {
        let of_list = |list: &List| {
            let (key, service, path) = *list;
            let path = path.replace("{project}", &self.bed.project);
            let collection = path.trim_end_matches("/detail");
            let rows = self.rows(list).into_iter().map(move |row| {
                let id = match key {
                    "stacks" => format!("{}/{}", text(&row["stack_name"]), text(&row["id"])),
                    _ => text(&row["id"]),
                };
                (
                    key,
                    format!("{}{collection}/{id}", self.own.url_of(service)),
                )
            });
            rows.collect::<Vec<_>>()
        };
        LISTS.iter().flat_map(of_list).collect()
    }
}

/// A list: the key of its rows, its service and its path.
type List = (&'static str, &'static str, &'static str);

/// The lists, in the order in which their rows can be deleted.
const LISTS: [List; 6] = [
    ("stacks", "orchestration", "/{project}/stacks"),
    ("zones", "dns", "/zones"),
    ("servers", "compute", "/servers/detail"),
    ("snapshots", "block-storage", "/snapshots/detail"),
    ("backups", "block-storage", "/backups/detail"),
    ("volumes", "block-storage", "/volumes/detail"),
];
