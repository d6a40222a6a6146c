//! Two engines: deletions at the owner `d1`, whose resources are referred to by resources of the importer `d0`.

use serde_json::{Value, json};

use crate::processes::{Home, homes, wait_for};

/// The kind that `d1` offers. `d1` does not know the kinds of other deployments (G8).
const OWNER: &str = "service = 's1'\n[kind.rx.native]\n";

/// The kinds of `d0`: one that is deleted with an `rx`, one whose reference is unset, one that blocks an `rx`, and one
/// that blocks a lease.
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

/// Starts `d0`, which imports from `d1`, and `d1`, which has the `rx` r1.
fn importer_and_owner() -> [Home; 2] {
    let [mut d0, mut d1] = homes([&[OWNER, IMPORTER], &[OWNER]]);
    d1.start();
    d0.start();
    d1.create("rx", &json!({"id": "r1"}));
    [d0, d1]
}

fn delete_r1(d1: &Home, more: &str) -> crate::processes::RunResult {
    d1.gone(&format!("delete rx/r1 --cascade --yes --no-color {more}"))
}

/// Waits until the owner's question to its importer has failed for this reason. Asserts that the owner still waits for
/// the clearance: neither silence nor a broken connection is one.
fn assert_still_waits(d1: &Home, reason: &str) {
    wait_for("a question of d1 to d0 to fail", || {
        let deployments = d1.gone("list deployments -o json").ends_with(0).out;
        deployments.contains(reason)
    });
    delete_r1(d1, "--wait=2s").ends_with(8);
    assert!(d1.resource("rx", "r1").is_some());
}

fn explain(d1: &Home) -> String {
    let ran = d1.gone("explain rx/r1 --no-color");
    format!("{}{}", ran.out, ran.err)
}

/// Without `gone --engine`, the verb runs an engine itself. That engine waits for the importers' clearances, so
/// importers must be able to reach it.
#[test]
fn g07_importers_can_reach_a_verb_that_runs_its_own_engine() {
    let [d0, mut d1] = importer_and_owner();
    d0.create("lease", &json!({"id": "l1", "rx": "r1@d1"}));
    d1.kill();
    // Another program uses the address of d1's listener: verbs that need no clearance still work.
    let taken = std::net::TcpListener::bind(d1.listen_address()).unwrap();
    d1.gone("list rx")
        .ends_with(0)
        .says(&["r1", "the listener for peers is not served"]);
    drop(taken);
    delete_r1(&d1, "--wait").ends_with(0);
    assert_eq!(d0.resource("lease", "l1"), None);
}

#[test]
fn g06_references_from_another_deployment_cascade_or_are_unset() {
    let [d0, d1] = importer_and_owner();
    d0.create("lease", &json!({"id": "l1", "rx": "r1@d1"}));
    d0.create("note", &json!({"id": "n1", "rx": "r1@d1"}));
    d1.create("rx", &json!({"id": "r2"}));
    d0.create("lease", &json!({"id": "l2", "rx": "r2@d1"}));
    delete_r1(&d1, "--wait").ends_with(0);
    assert_eq!(d1.resource("rx", "r1"), None);
    // The importer gave its clearance after it had handled its own resources.
    assert_eq!(d0.resource("lease", "l1"), None);
    let note = d0.resource("note", "n1").unwrap();
    assert_eq!(
        note.get("rx").unwrap_or(&Value::Null),
        &Value::Null,
        "{note}"
    );
    assert!(d0.resource("lease", "l2").is_some() && d1.resource("rx", "r2").is_some());
}

/// Starts a deletion of `r1` that waits for `d0`, where a lease is blocked.
fn deletion_blocked_at_d0() -> [Home; 2] {
    let [d0, d1] = importer_and_owner();
    d0.create("lease", &json!({"id": "l1", "rx": "r1@d1"}));
    d0.create("hold", &json!({"id": "h1", "lease": "l1"}));
    delete_r1(&d1, "").ends_with(0);
    wait_for("d1 to know of the lease", || explain(&d1).contains("l1"));
    [d0, d1]
}

fn remove_blocker_and_wait(d0: &Home, d1: &Home) {
    d0.gone("delete hold/h1 --yes --wait=50s").ends_with(0);
    wait_for("r1 to be gone", || d1.resource("rx", "r1").is_none());
    assert_eq!(d0.resource("lease", "l1"), None);
}

#[test]
fn g07_a_resource_is_not_deleted_while_its_importer_is_frozen() {
    let [d0, d1] = deletion_blocked_at_d0();
    d0.freeze();
    assert_still_waits(&d1, "no answer within");
    let explained = explain(&d1);
    assert!(explained.contains("d0"), "{explained}");
    d0.thaw();
    remove_blocker_and_wait(&d0, &d1);
}

/// The clearance may come at any moment, so `--wait` does not end early here. It ends early for a step whose next
/// attempt is after the deadline.
#[test]
fn a_wait_for_the_clearance_of_another_deployment_lasts_until_its_deadline() {
    let [d0, d1] = deletion_blocked_at_d0();
    delete_r1(&d1, "--wait=2s").ends_with(8);
    remove_blocker_and_wait(&d0, &d1);
}

#[test]
fn g07_a_resource_is_not_deleted_before_its_killed_importer_runs_again() {
    let [mut d0, mut d1] = deletion_blocked_at_d0();
    d0.kill();
    assert!(explain(&d1).contains("d0"));
    // After a restart, the owner still knows which importers it waits for.
    d1.kill();
    d1.start();
    assert_still_waits(&d1, "Connection refused");
    wait_for("d1 to name d0", || explain(&d1).contains("d0"));
    d0.start();
    remove_blocker_and_wait(&d0, &d1);
}

#[test]
fn g02_a_deletion_is_refused_when_another_deployment_blocks_it_or_does_not_answer() {
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
    assert_eq!(d1.resource("rx", "r1"), None);
}

#[test]
fn g10_a_new_reference_to_a_resource_being_deleted_is_refused() {
    let [d0, d1] = deletion_blocked_at_d0();
    let more = json!({"id": "l9", "rx": "r1@d1"});
    let (status, answer) = d0.api("POST", "resources/lease", &more);
    assert_eq!(status, 409, "{answer}");
    remove_blocker_and_wait(&d0, &d1);
}

#[test]
fn g01_doctor_and_the_log_show_the_peers() {
    let [mut d0, d1] = importer_and_owner();
    assert!(d1.log().contains("listening for other deployments"));
    let doctor = || d1.gone("doctor --no-color");
    doctor().says(&["peer s0/r", "answers; recognized by", "token (mode 600)"]);
    d0.kill();
    doctor().says(&["fail", "peer s0/r", "/peer/v1: Connection refused"]);
}
