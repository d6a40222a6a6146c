//! Two engines: what is deleted in one, and what points at it from the other.

use serde_json::{Value, json};

use crate::processes::{Home, homes, wait_for};

/// What `d1` offers. It knows nothing of the kinds of others (G8).
const OWNER: &str = "service = 's1'\n[kind.rx.native]\n";

/// What `d0` has: each way to point at an `rx`, and what holds one of those.
const IMPORTER: &str = "
service = 's0'
[kind.lease.native.fields]
rx = {}
[[kind.lease.reference]]
to = 'rx'
field = 'rx'
on_delete = 'cascade'
says = 'uses'
[kind.note.native.fields]
rx = {}
[[kind.note.reference]]
to = 'rx'
field = 'rx'
on_delete = 'unset'
says = 'is about'
[kind.contract.native.fields]
rx = {}
[[kind.contract.reference]]
to = 'rx'
field = 'rx'
on_delete = 'block'
says = 'is for'
[kind.hold.native.fields]
lease = {}
[[kind.hold.reference]]
to = 'lease'
field = 'lease'
on_delete = 'block'
says = 'holds'
";

/// `d0`, which imports from `d1`; both run, and `rx` r1 is kept.
fn importer_and_owner() -> [Home; 2] {
    let [mut d0, mut d1] = homes([&[OWNER, IMPORTER], &[OWNER]]);
    d1.start();
    d0.start();
    d1.create("rx", &json!({"id": "r1"}));
    [d0, d1]
}

fn delete_r1(d1: &Home, more: &str) -> crate::processes::Ran {
    d1.gone(&format!("delete rx/r1 --cascade --yes --no-color {more}"))
}

fn explained(d1: &Home) -> String {
    let ran = d1.gone("explain rx/r1 --no-color");
    format!("{}{}", ran.out, ran.err)
}

/// Without `gone --engine` the verb's own engine waits for others, who must reach it for that.
#[test]
fn g07_a_verb_with_an_engine_of_its_own_is_reached_by_those_whose_word_it_waits_for() {
    let [d0, mut d1] = importer_and_owner();
    d0.create("lease", &json!({"id": "l1", "rx": "r1@d1"}));
    d1.kill();
    // Another program has its address: what needs nobody's word works all the same.
    let taken = std::net::TcpListener::bind(d1.listens()).unwrap();
    d1.gone("list rx")
        .ends_with(0)
        .says(&["r1", "the listener for peers is not served"]);
    drop(taken);
    delete_r1(&d1, "--wait").ends_with(0);
    assert_eq!(d0.kept("lease", "l1"), None);
}

#[test]
fn g06_what_points_across_deployments_is_deleted_or_unset() {
    let [d0, d1] = importer_and_owner();
    d0.create("lease", &json!({"id": "l1", "rx": "r1@d1"}));
    d0.create("note", &json!({"id": "n1", "rx": "r1@d1"}));
    d1.create("rx", &json!({"id": "r2"}));
    d0.create("lease", &json!({"id": "l2", "rx": "r2@d1"}));
    delete_r1(&d1, "--wait").ends_with(0);
    assert_eq!(d1.kept("rx", "r1"), None);
    // Clear was said by who had seen to it.
    assert_eq!(d0.kept("lease", "l1"), None);
    let note = d0.kept("note", "n1").unwrap();
    assert_eq!(
        note.get("rx").unwrap_or(&Value::Null),
        &Value::Null,
        "{note}"
    );
    assert!(d0.kept("lease", "l2").is_some() && d1.kept("rx", "r2").is_some());
}

/// `r1` waits for `d0`, whose lease is held there.
fn held_at_d0() -> [Home; 2] {
    let [d0, d1] = importer_and_owner();
    d0.create("lease", &json!({"id": "l1", "rx": "r1@d1"}));
    d0.create("hold", &json!({"id": "h1", "lease": "l1"}));
    delete_r1(&d1, "").ends_with(0);
    wait_for("word of the lease at d1", || explained(&d1).contains("l1"));
    [d0, d1]
}

fn released(d0: &Home, d1: &Home) {
    d0.gone("delete hold/h1 --yes --wait=50s").ends_with(0);
    wait_for("end of r1", || d1.kept("rx", "r1").is_none());
    assert_eq!(d0.kept("lease", "l1"), None);
}

#[test]
fn g07_nothing_goes_before_a_frozen_importer_has_seen_to_its_own() {
    let [d0, d1] = held_at_d0();
    d0.freeze();
    let explained = explained(&d1);
    assert!(explained.contains("d0"), "{explained}");
    assert!(d1.kept("rx", "r1").is_some());
    d0.thaw();
    assert!(d1.kept("rx", "r1").is_some());
    released(&d0, &d1);
}

/// The word may come any moment: it is not given up as what is only tried in ten minutes would be.
#[test]
fn a_wait_for_the_word_of_others_lasts_until_its_deadline() {
    let [d0, d1] = held_at_d0();
    delete_r1(&d1, "--wait=2s").ends_with(8);
    released(&d0, &d1);
}

#[test]
fn g07_nothing_goes_before_a_killed_importer_is_back() {
    let [mut d0, mut d1] = held_at_d0();
    d0.kill();
    assert!(explained(&d1).contains("d0"));
    // The owner remembers whom it waits for.
    d1.kill();
    d1.start();
    assert!(d1.kept("rx", "r1").is_some());
    wait_for("d0 by name", || explained(&d1).contains("d0"));
    d0.start();
    released(&d0, &d1);
}

#[test]
fn g02_nothing_is_accepted_that_someone_elsewhere_blocks_or_may_block() {
    let [d0, d1] = importer_and_owner();
    d0.create("contract", &json!({"id": "c1", "rx": "r1@d1"}));
    delete_r1(&d1, "--wait=50s")
        .ends_with(6)
        .says(&["contract", "c1", "d0"]);
    d0.gone("delete contract/c1 --yes --wait=50s").ends_with(0);
    d0.freeze();
    delete_r1(&d1, "--wait=50s")
        .ends_with(5)
        .says(&["deployment d0 does not answer", "no answer within"]);
    d0.thaw();
    delete_r1(&d1, "--wait").ends_with(0);
    assert_eq!(d1.kept("rx", "r1"), None);
}

#[test]
fn g10_nothing_new_points_at_what_goes() {
    let [d0, d1] = held_at_d0();
    let more = json!({"id": "l9", "rx": "r1@d1"});
    let (status, said) = d0.api("POST", "resources/lease", &more);
    assert_eq!(status, 409, "{said}");
    released(&d0, &d1);
}

#[test]
fn g01_a_doctor_and_the_log_tell_of_peers() {
    let [mut d0, d1] = importer_and_owner();
    assert!(d1.log().contains("listening for other deployments"));
    let doctor = || d1.gone("doctor --no-color");
    doctor().says(&["peer s0/r", "answers; known by", "token (mode 600)"]);
    d0.kill();
    doctor().says(&["fail", "peer s0/r", "/peer/v1: Connection refused"]);
}
