//! Verbs that scripts use, against a running engine.

use serde_json::{Value, json};

use super::home::{BLOCKED, Cloud, Home};

/// Starts a deletion of network web in which the cloud refuses the delete of the port. Returns the cloud and the short
/// id of the deletion, once the step is blocked.
fn start_blocked_deletion(home: &mut Home) -> (Cloud, String) {
    let cloud = home.serve_cloud(BLOCKED);
    let www = cloud.id_of("ports", "www");
    cloud.set_faults(&json!([{
        "match": {"method": "DELETE", "kind": "port", "id": www},
        "action": {"status": 409, "type": "PortInUse", "message": "Port is in use."},
    }]));
    home.start_engine(&[]);
    home.stdout_of(&["delete", "network/web", "--cascade", "--yes"]);
    let deletion = home.wait_for_deletion("blocked step", |deletion| {
        deletion["counts"]["blocked"] == 1
    });
    let id = deletion["id"].as_str().unwrap();
    (cloud, id[id.len() - 8..].to_owned())
}

#[test]
fn retry_starts_the_next_attempt_of_a_blocked_step_at_once() {
    let mut home = Home::new();
    let (cloud, id) = start_blocked_deletion(&mut home);
    let attempts = |home: &Home| home.json(&["list", "gc"])[0]["attempts"].clone();
    assert_eq!(attempts(&home), 1);
    home.stdout_of(&["retry", &id]);
    home.wait_for_deletion("second refusal", |deletion| {
        deletion["counts"]["blocked"] == 1 && attempts(&home) == 2
    });
    cloud.set_faults(&json!([]));
    home.stdout_of(&["retry", &id]);
    home.wait_for_deletion("end", |deletion| deletion["state"] == "gone");
    assert!(
        cloud
            .all("networks")
            .iter()
            .all(|network| network["name"] != "web")
    );
    home.gone(&["retry", "00000000"]).ends_with(2);
}

#[test]
fn p08_cancel_releases_the_tombstone_of_an_unsent_step_and_sends_nothing_more() {
    let mut home = Home::new();
    let (cloud, id) = start_blocked_deletion(&mut home);
    let before = cloud.writes();
    let answer = home.json(&["cancel", &id]);
    assert_eq!(answer[0]["did"], "cancel", "{answer}");
    home.wait_for_deletion("cancellation", |deletion| deletion["state"] == "cancelled");
    assert_eq!(cloud.writes(), before);
    let web = cloud.id_of("networks", "web");
    assert_eq!(cloud.status(&format!("/networks/{web}")), 200);
    let tombstones = home.json(&["list", "tombstones"]);
    let network = tombstones
        .as_array()
        .unwrap()
        .iter()
        .find(|t| t["id"] == web.as_str());
    assert_eq!(network.unwrap()["phase"], "released");
}

#[test]
fn list_show_tree_and_explain_can_be_read_by_programs() {
    let mut home = Home::new();
    let (_, id) = start_blocked_deletion(&mut home);
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
        let value = home.json(read);
        assert!(value.is_array() || value.is_object(), "{read:?}: {value}");
        let is_list = read[0] == "list";
        assert_eq!(
            value.is_array(),
            is_list || read[0] == "tree",
            "{read:?}: {value}"
        );

        let arguments = [read, &["-o", "jsonl"]].concat();
        for line in home.stdout_of(&arguments).lines() {
            serde_json::from_str::<Value>(line).unwrap();
        }
        let arguments = [read, &["-o", "csv"]].concat();
        let text = home.stdout_of(&arguments);
        let mut reader = csv::Reader::from_reader(text.as_bytes());
        assert!(reader.headers().unwrap().len() > 1, "{read:?}: {text}");
        let rows: Vec<csv::StringRecord> = reader.records().map(Result::unwrap).collect();
        if is_list {
            assert_eq!(rows.len(), value.as_array().unwrap().len(), "{text}");
        } else {
            assert!(!rows.is_empty(), "{read:?}: {text}");
        }
    }
    let tree = home.json(&["tree", &id]).to_string();
    for name in ["\"web\"", "\"www\"", "router_interface"] {
        assert!(tree.contains(name), "{name} in {tree}");
    }
}
