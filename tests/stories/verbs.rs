//! The verbs of scripts, against an engine that runs.

use serde_json::{Value, json};

use super::stage::{Cloud, Stage};

const SCENARIO: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/tests/stories/scenarios/blocked.toml"
);

/// A deletion of network web whose port is refused, and its short id.
fn blocked(stage: &mut Stage) -> (Cloud, String) {
    let cloud = stage.serve_cloud(SCENARIO);
    let www = cloud.id_of("ports", "www");
    cloud.faults(&json!([{
        "match": {"method": "DELETE", "kind": "port", "id": www},
        "action": {"status": 409, "type": "PortInUse", "message": "Port is in use."},
    }]));
    stage.start_engine(&[]);
    stage.say(&["delete", "network/web", "--cascade", "--yes"]);
    let deletion = stage.deletion_until("block", |deletion| deletion["counts"]["blocked"] == 1);
    let id = deletion["id"].as_str().unwrap();
    (cloud, id[id.len() - 8..].to_owned())
}

#[test]
fn retry_puts_what_is_blocked_back_to_work_at_once() {
    let mut stage = Stage::new();
    let (cloud, id) = blocked(&mut stage);
    let attempts = |stage: &Stage| stage.json(&["list", "gc"])[0]["attempts"].clone();
    assert_eq!(attempts(&stage), 1);
    stage.say(&["retry", &id]);
    stage.deletion_until("second refusal", |deletion| {
        deletion["counts"]["blocked"] == 1 && attempts(&stage) == 2
    });
    cloud.faults(&json!([]));
    stage.say(&["retry", &id]);
    stage.deletion_until("end", |deletion| deletion["state"] == "gone");
    assert!(
        cloud
            .all("networks")
            .iter()
            .all(|network| network["name"] != "web")
    );
    stage.gone(&["retry", "00000000"]).ends_with(2);
}

#[test]
fn p08_cancel_releases_what_was_not_sent_and_sends_nothing_more() {
    let mut stage = Stage::new();
    let (cloud, id) = blocked(&mut stage);
    let before = cloud.writes();
    let answer = stage.json(&["cancel", &id]);
    assert_eq!(answer[0]["did"], "cancel", "{answer}");
    stage.deletion_until("cancellation", |deletion| deletion["state"] == "cancelled");
    assert_eq!(cloud.writes(), before);
    let web = cloud.id_of("networks", "web");
    assert_eq!(cloud.status(&format!("/networks/{web}")), 200);
    let tombstones = stage.json(&["list", "tombstones"]);
    let network = tombstones
        .as_array()
        .unwrap()
        .iter()
        .find(|t| t["id"] == web.as_str());
    assert_eq!(network.unwrap()["phase"], "released");
}

#[test]
fn list_show_tree_and_explain_can_be_read_by_programs() {
    let mut stage = Stage::new();
    let (_, id) = blocked(&mut stage);
    let reads: [&[&str]; 10] = [
        &["list"],
        &["list", "stuck"],
        &["list", "gc"],
        &["list", "tombstones"],
        &["list", "sites"],
        &["list", "deployments"],
        &["list", "port"],
        &["show", &id],
        &["tree", &id],
        &["explain", "network/web"],
    ];
    for read in reads {
        let value = stage.json(read);
        assert!(value.is_array() || value.is_object(), "{read:?}: {value}");
        let is_list = read[0] == "list";
        assert_eq!(
            value.is_array(),
            is_list || read[0] == "tree",
            "{read:?}: {value}"
        );

        let arguments = [read, &["-o", "jsonl"]].concat();
        for line in stage.say(&arguments).lines() {
            serde_json::from_str::<Value>(line).unwrap();
        }
        let arguments = [read, &["-o", "csv"]].concat();
        let text = stage.say(&arguments);
        let mut reader = csv::Reader::from_reader(text.as_bytes());
        assert!(reader.headers().unwrap().len() > 1, "{read:?}: {text}");
        let rows: Vec<csv::StringRecord> = reader.records().map(Result::unwrap).collect();
        if is_list {
            assert_eq!(rows.len(), value.as_array().unwrap().len(), "{text}");
        } else {
            assert!(!rows.is_empty(), "{read:?}: {text}");
        }
    }
    let tree = stage.json(&["tree", &id]).to_string();
    for name in ["\"web\"", "\"www\"", "router_interface"] {
        assert!(tree.contains(name), "{name} in {tree}");
    }
}
