//! The gate in front of a real OpenStack, and unchanged clients.

use std::path::PathBuf;
use std::process::Command;

use serde_json::{Value, json};

use crate::api::{Api, text};
use crate::bed::{Bed, ChildGuard, clouds, wait_for};
use crate::servers::Machine;

const SERVICES: [&str; 5] = [
    "network",
    "image",
    "load-balancer",
    "compute",
    "block-storage",
];

/// Configures a gate for each service, on free ports.
fn write_settings(bed: &Bed) {
    let gate = |service| {
        format!(
            "[[gate]]\nlisten = '127.0.0.1:0'\nupstream = {{ cloud = 'testbed', region = 'RegionOne', \
             service = '{service}' }}\n"
        )
    };
    let text: String = SERVICES.map(gate).concat();
    bed.configure(&text);
}

/// The addresses of the gates in the engine's log, in the order of the settings.
pub fn addresses(bed: &Bed) -> Vec<String> {
    let log = std::fs::read_to_string(bed.path("engine.log")).unwrap();
    let lines = log.lines().filter_map(|line| {
        let line: Value = serde_json::from_str(line).ok()?;
        let is_address = line["message"] == "a gate is open";
        is_address.then(|| line["address"].as_str().unwrap().to_owned())
    });
    lines.collect()
}

/// Starts an engine with a gate for each service. Returns the engine and the addresses of the gates.
pub fn engine_with_gates(bed: &Bed) -> (ChildGuard, Vec<String>) {
    write_settings(bed);
    let engine = bed.start_engine("");
    wait_for("the gates", || addresses(bed).len() == SERVICES.len());
    (engine, addresses(bed))
}

/// Writes a `clouds.yaml` for clients in which every service is behind its gate. Returns its path.
pub fn clouds_behind_gates(bed: &Bed, gates: &[String]) -> PathBuf {
    let text = std::fs::read_to_string(bed.path("clouds.yaml")).unwrap();
    let mut clouds: Value = serde_saphyr::from_str(&text).unwrap();
    for (service, address) in SERVICES.iter().zip(gates) {
        let key = format!("{}_endpoint_override", service.replace('-', "_"));
        // The clients discover the versions of the other services.
        let version = match *service {
            "compute" => "/v2.1",
            "block-storage" => "/v3",
            _ => "",
        };
        clouds["clouds"]["testbed"][key] = json!(format!("http://{address}{version}"));
    }
    let file = bed.path("clients.yaml");
    std::fs::write(&file, clouds.to_string()).unwrap();
    file
}

/// Runs `openstack`. Returns its exit code, standard output and standard error, with ids, times and addresses masked.
pub fn openstack(clouds_file: &PathBuf, words: &str) -> (Option<i32>, String, String) {
    let program = clouds().with_file_name("venv/bin/openstack");
    let output = Command::new(program)
        .args(words.split_whitespace())
        .env("OS_CLIENT_CONFIG_FILE", clouds_file)
        .env("OS_CLOUD", "testbed")
        .output()
        .unwrap();
    let text = |bytes: Vec<u8>| mask_values(&String::from_utf8(bytes).unwrap());
    (
        output.status.code(),
        text(output.stdout),
        text(output.stderr),
    )
}

/// Replaces each word of at least three characters with a digit in it by `#`: it is an id, a time or an address.
fn mask_values(text: &str) -> String {
    let is_word = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | ':' | '.');
    let mut masked = String::new();
    let mut word = String::new();
    for c in text.chars().chain(['\n']) {
        if is_word(c) {
            word.push(c);
            continue;
        }
        let is_value = word.chars().any(|c| c.is_ascii_digit()) && word.len() >= 3;
        masked.push_str(if is_value { "#" } else { &word });
        word.clear();
        masked.push(c);
    }
    masked
}

#[test]
#[ignore = "needs the test bed"]
fn testbed_n01_t07_t17_unchanged_clients_work_through_the_gate_and_see_deleting_resources() {
    let shape = "--networks 2 --ports 6 --trunks 1 --fips 1";
    let bed = Bed::seeded("RegionOne", shape);
    let direct = bed.path("clouds.yaml");
    let (_engine, gates) = engine_with_gates(&bed);
    let gated = clouds_behind_gates(&bed, &gates);
    let (first, second) = (&bed.networks[0], &bed.networks[1]);
    let name = &bed.name;
    let file = bed.path("image.raw");
    std::fs::write(&file, "0123456789".repeat(100_000)).unwrap();
    for words in [
        format!("port create --network {second} {name}-new -f json"),
        format!(
            "image create {name} --file {} --disk-format raw --container-format bare -f json",
            file.display()
        ),
    ] {
        assert_eq!(openstack(&gated, &words).0, Some(0), "{words}");
    }
    for words in [
        format!("network show {first} -f json"),
        "network show no-such-network".to_owned(),
        format!("network list --project {name} -f json"),
        format!("network list --project {name} --limit 1 -f json"),
        format!("port list --network {second} --sort-column Name -f json"),
        format!("network delete {first}"),
        format!("image show {name} -f json"),
        format!(
            "image save {name} --file {}",
            bed.path("saved.raw").display()
        ),
        format!("loadbalancer list --project {name} -f json"),
    ] {
        let (here, there) = (openstack(&gated, &words), openstack(&direct, &words));
        assert_eq!(here, there, "{words}");
    }
    for words in [
        format!("port delete {name}-new"),
        format!("image delete {name}"),
    ] {
        assert_eq!(openstack(&gated, &words).0, Some(0), "{words}");
    }
    let saved = std::fs::read(bed.path("saved.raw")).unwrap();
    assert_eq!(saved, std::fs::read(&file).unwrap());

    let mut user = Api::new(&clouds(), "testbed", "RegionOne");
    user.network_url = format!("http://{}/v2.0", gates[0]);
    let path = format!("networks/{first}?cascade=true");
    let (status, answer) = user.answer("DELETE", &path, Value::Null);
    assert_eq!(status, 202, "{answer}");
    let id = answer["deletion"]["id"].as_str().unwrap();
    let state = || {
        let (status, answer) = user.answer("GET", &format!("networks/{first}"), Value::Null);
        (status, answer["network"]["status"].clone())
    };
    wait_for("the network to be deleting", || state().1 == "DELETING");
    bed.gone(&format!("pause {id}")).ok();
    let (code, shown, _) = openstack(&gated, &format!("network show {first} -f value -c status"));
    assert_eq!((code, shown.trim()), (Some(0), "DELETING"));
    let port = json!({"port": {"network_id": first}});
    let (status, answer) = user.answer("POST", "ports", port);
    assert_eq!(status, 409, "{answer}");
    assert_eq!(answer["NeutronError"]["type"], "ResourceBeingDeleted");
    bed.gone(&format!("resume {id}")).ok();
    wait_for("the network's end", || state().0 == 404);
    wait_for("the deletion's end", || {
        bed.gone(&format!("show {id} -o json")).ok().json()["state"] == "gone"
    });
    let left = bed.api.rows("ports", &format!("network_id={first}"));
    assert_eq!(left, Vec::<Value>::new());
}

#[test]
#[ignore = "needs the test bed"]
fn testbed_n01_t07_t17_the_gates_serve_and_delete_servers_and_volumes() {
    let bed = Bed::small();
    let machine = Machine::create(&bed);
    let direct = bed.path("clouds.yaml");
    let (_engine, gates) = engine_with_gates(&bed);
    let gated = clouds_behind_gates(&bed, &gates);
    let Machine { server, volume, .. } = &machine;
    let project = &bed.project;
    for words in [
        format!("server show {server} -f json"),
        format!("server list --project {project} --limit 1 -f json"),
        format!("volume list --project {project} -f json"),
        format!("volume delete {volume}"),
        "server show no-such-server".to_owned(),
    ] {
        let (here, there) = (openstack(&gated, &words), openstack(&direct, &words));
        assert_eq!(here, there, "{words}");
    }

    // A member's client, whose URLs have the project in the path.
    let member = machine.users.api("a member");
    let (compute, storage) = (
        format!("http://{}", gates[3]),
        format!("http://{}", gates[4]),
    );
    let at = format!("{storage}/v3/{project}/volumes/{volume}");
    let cascade = format!("{at}?cascade=true");
    let (status, answer) = member.answer_at("DELETE", &cascade, Value::Null);
    assert_eq!(status, 202, "{answer}");
    let id = text(&answer["deletion"]["id"]);
    let state = || {
        let (status, shown) = member.answer_at("GET", &at, Value::Null);
        (status, shown["volume"]["status"].clone())
    };
    wait_for("the volume to be deleting", || state().1 == "deleting");
    bed.gone(&format!("pause {id}")).ok();
    assert_eq!(state(), (200, json!("deleting")));
    let list = format!("{storage}/v3/{project}/volumes/detail");
    let (_, listed) = member.answer_at("GET", &list, Value::Null);
    assert_eq!(listed["volumes"][0]["status"], "deleting", "{listed}");
    let snapshot = json!({"snapshot": {"volume_id": volume, "force": true}});
    let snapshots = format!("{storage}/v3/{project}/snapshots");
    let attachment = json!({"volumeAttachment": {"volumeId": volume}});
    let attachments = format!("{compute}/v2.1/servers/{server}/os-volume_attachments");
    for (url, body) in [(snapshots, snapshot), (attachments, attachment)] {
        let (status, answer) = member.answer_at("POST", &url, body);
        assert_eq!(status, 409, "{url}: {answer}");
        let message = text(&answer["conflictingRequest"]["message"]);
        assert!(
            message.contains(&format!("is being deleted, by deletion {id}")),
            "{message}"
        );
    }
    bed.gone(&format!("resume {id}")).ok();
    wait_for("the volume's end", || {
        member.answer_at("GET", &at, Value::Null).0 == 404
    });

    // The server remains, and is deleted through its own gate.
    let server = format!("{compute}/v2.1/servers/{server}");
    let (status, answer) = member.answer_at("GET", &server, Value::Null);
    assert_eq!(
        (status, &answer["server"]["status"]),
        (200, &json!("ACTIVE"))
    );
    let cascade = format!("{server}?cascade=true");
    let (status, answer) = member.answer_at("DELETE", &cascade, Value::Null);
    assert_eq!(status, 202, "{answer}");
    wait_for("the server's end", || {
        member.answer_at("GET", &server, Value::Null).0 == 404
    });
    let of_backups = |left: &String| left.starts_with("backups ");
    assert!(
        machine.remaining().iter().all(of_backups),
        "{:?}",
        machine.remaining()
    );
    let line = format!("--cloud mine delete project/{project} --cascade --yes --wait=5m");
    bed.gone(&line).ok();
    assert_eq!(machine.remaining(), Vec::<String>::new());
}
