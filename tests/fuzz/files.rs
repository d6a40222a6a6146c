//! The parsers of the texts that people write: settings, kinds, clouds, plans and targets.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use gone::cloud::openstack::RestCalls;
use gone::cloud::openstack::config::{CloudsConfig, Environment};
use gone::control::TargetSpec;
use gone::domain::kinds::Source;
use gone::domain::model::{Plan, PlanStep, ResourceKey, Site, Target};
use gone::domain::plan::plan_hash;
use gone::domain::text::is_hostile;
use gone::frontends::cli::plan_file;
use gone::system::config::{self, Surroundings};

use super::mutate::{fuzz, mutants};

use crate::testkit;

/// Asserts that a message is not empty, is one line, and has no character that misleads a terminal.
#[track_caller]
fn assert_printable(message: &str) {
    assert!(!message.is_empty());
    let hostile: Vec<char> = message.chars().filter(|c| is_hostile(*c)).collect();
    assert!(hostile.is_empty(), "{hostile:?} in {message:?}");
}

fn lines(text: &str) -> usize {
    text.matches('\n').count() + 1
}

const SETTINGS: &str = "
[ledger]
path = '/var/lib/gone.db'
hold_down = '7d'
[engine]
concurrency = 4
call_timeout = '250ms'
[gc]
schedule = ['1m', '5m']
jitter = 0.5
[gc.kind.load_balancer]
max_attempts = 12
pending_max = '3h'
[guard]
read_only_clouds = ['prod', 'lab']
reason = { prod = 'OPS-*' }
[[guard.protect]]
kind = 'network'
name = 'prod-*'
younger_than = '1h'
[deployment]
name = 'billing-1'
service = 'billing'
region = 'eu-1'
[notify]
gather = '10s'
[notify.webhook]
url = 'https://chat.example.org/x'
[notify.mail]
from = 'Gone <gone@example.org>'
to = ['ops@example.org']
server = '127.0.0.1'
tls = 'none'
port = 25
[api]
uids = [1000]
[console]
on_hangup = 'stop'
";

#[test]
fn settings() {
    let samples = vec![config::DEFAULTS.into(), SETTINGS.into()];
    let words = &[
        "[[guard.protect]]\n",
        "[gc.kind.x]\n",
        "[notify.mail]\n",
        "[api]",
        "99999999999999d",
        "1ms",
        "http://",
        "@",
        "[::1]",
        "postgres://x",
        "jitter = ",
        "to = []",
        "= true",
        "'''",
    ];
    fuzz("settings", &mutants(samples, words), |case| {
        let text = case.text();
        match config::parse(&text, Path::new("config.toml")) {
            Ok(settings) => {
                let written = toml::to_string(&settings).unwrap();
                let again = config::parse(&written, Path::new("again")).expect(&written);
                assert_eq!(again, settings, "{written}");
            }
            Err(error) => {
                assert!(error.line.is_some() || !error.key.is_empty(), "{error}");
                let is_in_text = error
                    .line
                    .is_none_or(|line| (1..=lines(&text)).contains(&line));
                assert!(is_in_text, "{error}");
                assert_printable(&error.to_string());
            }
        }
    });
}

#[test]
fn settings_in_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("config.toml");
    let words = &["\u{feff}", "[engine]\n"];
    fuzz(
        "settings-file",
        &mutants(vec![SETTINGS.into()], words),
        |case| {
            std::fs::write(&file, &case.0).unwrap();
            if let Err(error) = config::load(Some(&file), &Surroundings::default()) {
                assert!(error.to_string().contains("config.toml"), "{error}");
            }
        },
    );
}

fn kinds_files() -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("assets/kinds/openstack");
    let mut files: Vec<PathBuf> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    files.sort();
    files
        .iter()
        .map(|file| std::fs::read(file).unwrap())
        .collect()
}

#[test]
fn kinds() {
    let words = &[
        "[kind.x]\n",
        "[[answer]]\n",
        "[[kind.port.reference]]\n",
        "on_delete = \"cascade\"\n",
        "each = \"\"",
        "{id}",
        "{",
        "}",
        "lb-{id}",
        "parent",
        "kind = \"port\"\n",
        "path = \"a.b\"\n",
        "batch",
        "settles",
        "aliases = [\"network\"]\n",
    ];
    fuzz("kinds", &mutants(kinds_files(), words), |case| {
        let source = Source {
            file: "mine.toml".to_owned(),
            text: case.text(),
        };
        let row =
            serde_json::json!({"id": "a", "name": "b", "device_id": "lb-a", "subports": [{}]});
        match gone::cloud::load_kinds(std::slice::from_ref(&source)) {
            Ok(kinds) => {
                let site = Site::region("a", "b");
                for kind in kinds.iter() {
                    if let Some(calls) = kind.calls_of::<RestCalls>() {
                        calls.classify(409, "InUse", "in use by a");
                    }
                    kind.settling(&row);
                    kind.id_variables("a,b,c");
                    kinds.resources_in(&site, kinds.listed(kind), &row);
                    assert_eq!(kinds.get(&kind.name).map(|it| &it.name), Some(&kind.name));
                }
            }
            Err(error) => {
                let longest = kinds_files()
                    .iter()
                    .map(|file| lines(&String::from_utf8_lossy(file)))
                    .max();
                let lines_max = lines(&source.text).max(longest.unwrap());
                assert!((1..=lines_max).contains(&error.line), "{error}");
                assert!(
                    !error.file.is_empty() && !error.message.is_empty(),
                    "{error}"
                );
            }
        }
    });
}

const CLOUDS: &str = "
clouds:
  prod:
    auth: &auth
      auth_url: https://keystone.example.org/v3
      username: admin
      password: 'pw: 1'
      project_name: admin
      user_domain_id: default
      project_domain_name: Default
    region_name: RegionOne
    regions:
      - RegionOne
      - name: RegionTwo
        values: {interface: internal}
    interface: public
    verify: true
    network_endpoint_override: http://n.example.org/
    api_timeout: 30
  lab:
    <<: {auth_type: v3applicationcredential}
    auth: *auth
    profile: vexxhost
";
const SECURE: &str = "clouds:\n  prod:\n    auth:\n      password: \"secret\"\n  lab: {auth: {application_credential_id: a, application_credential_secret: b}}\n";

#[test]
fn clouds() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let environment = Environment {
        variables: BTreeMap::from([
            (
                "OS_CLIENT_CONFIG_FILE".to_owned(),
                path("clouds.yaml").display().to_string(),
            ),
            (
                "OS_CLIENT_SECURE_FILE".to_owned(),
                path("secure.yaml").display().to_string(),
            ),
        ])
        .into_iter()
        .collect(),
        current_dir: folder.path().to_owned(),
        home: None,
        system_dir: folder.path().to_owned(),
    };
    let words = &[
        "clouds:\n",
        "  - ",
        "&a ",
        "*a",
        "*auth",
        "<<: *auth\n",
        "!!binary ",
        "!!set",
        "|\n",
        ">-\n",
        "---\n",
        "...\n",
        "%YAML 1.2\n",
        "regions:",
        "auth:",
        "null",
        "verify: no",
        "[{",
        "? ",
        "auth_type: token\n",
        "cacert: /nowhere\n",
    ];
    let samples = vec![CLOUDS.into(), SECURE.into()];
    let both = (mutants(samples.clone(), words), mutants(samples, words));
    fuzz("clouds", &both, |(clouds, secure)| {
        std::fs::write(path("clouds.yaml"), &clouds.0).unwrap();
        std::fs::write(path("secure.yaml"), &secure.0).unwrap();
        let assert_names_place = |error: &dyn std::fmt::Display| {
            let message = error.to_string();
            let place = ["clouds.yaml", "secure.yaml", "cloud \""];
            assert!(place.iter().any(|word| message.contains(word)), "{message}");
        };
        match CloudsConfig::load(&environment) {
            Err(error) => assert_names_place(&error),
            Ok(config) => {
                config
                    .warnings()
                    .iter()
                    .for_each(|warning| drop(warning.to_string()));
                for entry in config.clouds().take(20) {
                    let regions = entry
                        .regions
                        .iter()
                        .take(5)
                        .map(|region| Some(region.as_str()));
                    for region in regions.chain([None]) {
                        if let Err(error) = config.cloud(&entry.name, region) {
                            assert_names_place(&error);
                        }
                    }
                }
            }
        }
    });
}

fn key(kind: &str, id: &str) -> ResourceKey {
    testkit::key(Site::region("prod", "RegionOne"), kind, id)
}

fn plan() -> Plan {
    let step = |id: u32, kind: &str, depends_on: &[u32]| PlanStep {
        name: "web é".to_owned(),
        project_id: "p".into(),
        fingerprint: "f00d".to_owned(),
        vars: Arc::new(BTreeMap::from([("router_id".to_owned(), "r".to_owned())])),
        ..testkit::plan_step(id, key(kind, &format!("r{id}")), depends_on)
    };
    let target = Target {
        key: key("network", "r1"),
        name: "web".to_owned(),
    };
    let steps = vec![step(0, "port", &[]), step(1, "network", &[0])];
    let mut plan = Plan {
        endpoints: BTreeMap::from([("prod/RegionOne".to_owned(), "http://n".to_owned())]),
        automatic: vec![step(2, "port", &[])],
        warnings: vec!["careful".to_owned()],
        calls_estimate: 7,
        ..testkit::plan(vec![target], steps)
    };
    plan.hash = plan_hash(&plan);
    plan
}

#[test]
fn plans() {
    let folder = tempfile::tempdir().unwrap();
    let (file, again) = (
        folder.path().join("p.json"),
        folder.path().join("again.json"),
    );
    plan_file::write(&file, &plan()).unwrap();
    let samples = vec![
        std::fs::read(&file).unwrap(),
        serde_json::to_vec(&plan()).unwrap(),
    ];
    let words = &[
        "\"hash\": ",
        "\"steps\": [",
        "\"depends_on\": [4294967296]",
        "{}",
        "[]",
        "\"x\": 1,",
    ];
    fuzz("plans", &mutants(samples, words), |case| {
        std::fs::write(&file, &case.0).unwrap();
        match plan_file::read(&file) {
            Ok(plan) => {
                plan_file::write(&again, &plan).unwrap();
                assert_eq!(plan_file::read(&again).unwrap(), plan);
            }
            Err(failure) => {
                assert!(failure.action_words.contains("p.json"), "{failure:?}");
                assert!(!failure.message.is_empty(), "{failure:?}");
            }
        }
    });
}

#[test]
fn targets() {
    let samples = [
        "network/web@prod/RegionOne",
        "static_route/R,10.0.0.0/8,10.0.0.1@prod",
        "port/a%2Fb%40c",
        "project/%C3%A9",
    ];
    let samples = samples.map(|text| text.as_bytes().to_vec()).to_vec();
    fuzz(
        "targets",
        &mutants(samples, &["@", "/", "%", "%00", "@prod"]),
        |case| {
            let text = case.text();
            match TargetSpec::parse(&text, &["prod"]) {
                Ok(target) => {
                    let again = TargetSpec::parse(&target.to_string(), &["prod"]);
                    assert_eq!(again.as_ref(), Ok(&target), "{target}");
                }
                Err(message) => assert!(!message.is_empty()),
            }
        },
    );
}
