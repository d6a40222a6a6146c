//! A site is paused when its login loses rights, and absences that are observed then do not count.

use std::time::Duration;

use super::harness::*;
use gone::control::{Command, SiteState, TargetSpec};
use gone::domain::model::{EventKind, StepState};
use serde_json::json;

#[tokio::test(start_paused = true)]
async fn n13_a_refused_token_pauses_the_site_until_the_login_works_and_uses_no_attempt() {
    let mut bench = Bench::new(1);
    bench.send_one_at_a_time();
    let (network, ports) = bench.plain_network(6);
    bench.limits(json!({ "latency_ms": 200 }));
    with_engine(&bench, async |client| {
        let id = client.delete("network", &network).await;
        client.until(&id, |it| it.counts.gone > 1).await;
        bench.control(
            "PUT",
            "/users",
            json!({ "name": "admin", "password": "changed" }),
        );
        bench.control("PUT", "/tokens", json!({ "user": "admin", "revoke": true }));
        tokio::time::sleep(Duration::from_secs(2)).await;
        assert_eq!(client.site_status().await.state, SiteState::Paused);
        let sent = bench.writes().len();
        tokio::time::sleep(Duration::from_secs(3600)).await;
        assert_eq!(bench.writes().len(), sent, "the paused site got a write");
        for step in client.steps(&id).await {
            assert_eq!(step.attempts, 0, "{step:?}");
            assert!(step.state != StepState::Stuck);
        }
        bench.control(
            "PUT",
            "/users",
            json!({ "name": "admin", "password": "secret" }),
        );
        client.until_gone(&id).await;
        let lines = client.timeline(None, None).await;
        let about: Vec<&str> = lines
            .iter()
            .filter(|line| line.kind == EventKind::Site)
            .map(|line| line.message.as_str())
            .collect();
        assert!(
            about.len() == 2 && about[0].contains("paused") && about[1].contains("resumed"),
            "{about:?}"
        );
    })
    .await;
    for port in &ports {
        assert!(!bench.exists("ports", port));
    }
}

#[tokio::test(start_paused = true)]
async fn n13_i15_a_refused_login_is_repeated_after_pauses_that_double_or_when_a_person_asks() {
    // By default the login is repeated after 30 s, 90 s, …; with a setting of ten minutes, after 10 and 30 minutes.
    for (every, expected) in [(None, 6..=6), (Some(600), 2..=2)] {
        let mut bench = Bench::new(1);
        if let Some(seconds) = every {
            bench.settings.engine.sign_in_every = Duration::from_secs(seconds);
        }
        let (network, _) = bench.plain_network(1);
        bench.faults(
            json!([{ "match": { "path": "/v3/auth/tokens" }, "action": { "status": 401 } }]),
        );
        let logins = || {
            let sent = bench.sent().into_iter();
            sent.filter(|sent| sent.path == "/v3/auth/tokens").count()
        };
        with_engine(&bench, async |client| {
            tokio::time::sleep(Duration::from_secs(1)).await;
            assert_eq!(client.site_status().await.state, SiteState::Paused);
            let before = logins();
            tokio::time::sleep(Duration::from_secs(3600)).await;
            let repeated = logins() - before;
            assert!(expected.contains(&repeated), "{every:?}: {repeated}");
            bench.faults(json!([]));
            let still = logins();
            tokio::time::sleep(Duration::from_secs(20)).await;
            assert_eq!(logins(), still, "a login was sent before a person asked");
            let resume = Command::ResumeSite { site: site() };
            client.submit(resume).await.unwrap();
            tokio::time::sleep(Duration::from_secs(1)).await;
            assert_eq!(client.site_status().await.state, SiteState::Reachable);
            // One event for the pause, and one for its end, although nothing was sent before.
            let states: Vec<_> = client
                .timeline(None, None)
                .await
                .into_iter()
                .filter(|line| line.kind == EventKind::Site)
                .map(|line| line.data["state"].clone())
                .collect();
            assert_eq!(states, ["paused", "reachable"]);
            client.delete_until_gone("network", &network).await;
        })
        .await;
    }
}

#[tokio::test(start_paused = true)]
async fn n13_an_expired_token_is_renewed_and_nothing_is_paused() {
    let mut bench = Bench::new(1);
    bench.send_one_at_a_time();
    let (network, _) = bench.plain_network(6);
    bench.limits(json!({ "latency_ms": 200 }));
    with_engine(&bench, async |client| {
        let id = client.delete("network", &network).await;
        client.until(&id, |it| it.counts.gone > 1).await;
        bench.control("PUT", "/tokens", json!({ "user": "admin", "revoke": true }));
        client.until_gone(&id).await;
        let lines = client.timeline(None, None).await;
        assert!(lines.iter().all(|line| line.kind != EventKind::Site));
    })
    .await;
}

/// Creates a network of another project, which only an admin sees. To a login without that role, the cloud answers that
/// it does not exist. Returns its id.
fn their_network(bench: &Bench) -> String {
    let made = bench.seed(json!({ "networks": 1, "ports_per_network": 6, "project": "demo" }));
    made["networks"][0].as_str().unwrap().to_owned()
}

const ALL_ROLES: [&str; 4] = ["admin", "manager", "member", "reader"];

/// Sets the roles of the engine's login.
fn set_roles(bench: &Bench, roles: &[&str]) {
    let user = json!({ "name": "admin", "roles": { "admin": roles } });
    bench.control("PUT", "/users", user);
}

/// Removes roles of the login during a deletion, and revokes its tokens. Returns true if the site is paused, no
/// existing resource is reported as gone, and the network is gone once the roles are restored.
fn is_correct_when_rights_are_lost(planted_fault: PlantedFault) -> bool {
    paused(async {
        let mut bench = Bench::new(1);
        bench.planted_fault = planted_fault;
        bench.send_one_at_a_time();
        let network = their_network(&bench);
        bench.limits(json!({ "latency_ms": 200 }));
        let is_correct = with_engine(&bench, async |client| {
            let id = client.delete("network", &network).await;
            client.until(&id, |it| it.counts.gone > 1).await;
            set_roles(&bench, &["member", "reader"]);
            bench.control("PUT", "/tokens", json!({ "user": "admin", "revoke": true }));
            tokio::time::sleep(Duration::from_secs(600)).await;
            let paused = client.site_status().await.state == SiteState::Paused;
            set_roles(&bench, &ALL_ROLES);
            for step in client.steps(&id).await {
                let collection = format!("{}s", step.resource.key.kind);
                if step.state == StepState::Gone && bench.exists(&collection, &step.resource.key.id)
                {
                    return false;
                }
            }
            client.until_gone(&id).await;
            paused
        })
        .await;
        is_correct && !bench.exists("networks", &network)
    })
}

#[test]
fn i13_an_absence_observed_with_fewer_rights_does_not_count() {
    assert!(is_correct_when_rights_are_lost(PlantedFault::None));
}

#[test]
fn i13_a_ledger_that_loses_the_identity_of_the_plan_is_detected() {
    assert!(!is_correct_when_rights_are_lost(
        PlantedFault::LosesIdentity
    ));
}

#[tokio::test(start_paused = true)]
async fn i13_a_token_that_loses_rights_proves_no_absence() {
    let mut bench = Bench::new(1);
    bench.send_one_at_a_time();
    let network = their_network(&bench);
    bench.limits(json!({ "latency_ms": 200 }));
    with_engine(&bench, async |client| {
        let id = client.delete("network", &network).await;
        client.until(&id, |it| it.counts.gone > 1).await;
        // The cloud reads the roles of a token at each call: the token stays valid, and sees less.
        set_roles(&bench, &["member", "reader"]);
        tokio::time::sleep(Duration::from_secs(600)).await;
        set_roles(&bench, &ALL_ROLES);
        for step in client.steps(&id).await {
            if step.state == StepState::Gone {
                let collection = format!("{}s", step.resource.key.kind);
                assert!(
                    !bench.exists(&collection, &step.resource.key.id),
                    "{step:?}"
                );
            }
        }
        client.until_gone(&id).await;
    })
    .await;
    assert!(!bench.exists("networks", &network));
}

#[tokio::test(start_paused = true)]
async fn i13_a_shared_resource_is_no_witness_of_the_logins_rights() {
    let bench = Bench::new(1);
    let made = bench.seed(json!({ "networks": 40, "ports_per_network": 0, "project": "demo" }));
    let networks: Vec<String> = serde_json::from_value(made["networks"].clone()).unwrap();
    let shared =
        json!({ "name": "everybody's", "project_id": bench.demo_project(), "shared": true });
    bench.create("networks", shared);
    bench.limits(json!({ "latency_ms": 200 }));
    with_engine(&bench, async |client| {
        let id = client.delete_all("network", &networks).await;
        client.until(&id, |it| it.counts.running > 0).await;
        // The token stays valid, and sees less: only the shared network of this project.
        set_roles(&bench, &["member", "reader"]);
        tokio::time::sleep(Duration::from_secs(600)).await;
        let steps = client.steps(&id).await;
        let state = client.site_status().await.state;
        set_roles(&bench, &ALL_ROLES);
        let mut gone = steps.iter().filter(|step| step.state == StepState::Gone);
        let lives = gone.find(|step| bench.exists("networks", &step.resource.key.id));
        assert_eq!(lives, None);
        assert_eq!(state, SiteState::Paused);
        client.until_gone(&id).await;
    })
    .await;
    assert!(
        networks
            .iter()
            .all(|network| !bench.exists("networks", network))
    );
}

#[tokio::test(start_paused = true)]
async fn i13_a_login_that_gets_an_additional_role_has_lost_no_rights() {
    let mut bench = Bench::new(1);
    bench.send_one_at_a_time();
    let network = their_network(&bench);
    bench.limits(json!({ "latency_ms": 200 }));
    with_engine(&bench, async |client| {
        let id = client.delete("network", &network).await;
        client.until(&id, |it| it.counts.gone > 1).await;
        set_roles(&bench, &["admin", "manager", "member", "reader", "service"]);
        client.until_gone(&id).await;
        let state = client.site_status().await.state;
        assert_eq!(state, SiteState::Reachable);
    })
    .await;
    assert!(!bench.exists("networks", &network));
}

#[tokio::test(start_paused = true)]
async fn i13_another_user_proves_no_absence_and_deletes_its_own_resources() {
    let mut bench = Bench::new(1);
    bench.send_one_at_a_time();
    let network = their_network(&bench);
    bench.limits(json!({ "latency_ms": 200 }));
    let id = with_engine(&bench, async |client| {
        let id = client.delete("network", &network).await;
        client.until(&id, |it| it.counts.gone > 1).await;
        id
    })
    .await;
    bench.login = Login::Member;
    with_engine(&bench, async |client| {
        let stuck = client.until_stuck(&id).await;
        assert!(stuck.counts.stuck > 0);
        let steps = client.steps(&id).await;
        let errors = steps.iter().filter_map(|step| step.last_error.as_ref());
        let other = errors.filter(|error| error.kind == "OtherLogin").count();
        assert!(other > 0, "{steps:?}");
        let explained = client.explain("network", &network).await;
        let said = explained.lines.join("\n") + &explained.next_action;
        assert_contains(&said, "sign in as the user who made the plan");
        let own = bench.seed(json!({ "networks": 1, "project": "demo" }));
        let own = own["networks"][0].as_str().unwrap();
        client.delete_until_gone("network", own).await;
        assert_eq!(client.site_status().await.state, SiteState::Reachable);
    })
    .await;
    bench.login = Login::Admin;
    with_engine(&bench, async |client| {
        client.retry(&id).await;
        client.until_gone(&id).await;
    })
    .await;
    assert!(!bench.exists("networks", &network));
}

#[tokio::test(start_paused = true)]
async fn i15_gone_signs_in_only_to_the_sites_that_a_command_names() {
    let mut bench = Bench::in_regions(1, &["RegionOne", "RegionTwo"]);
    bench.for_one_verb = true;
    let (network, _) = bench.plain_network(1);
    with_engine(&bench, async |client| {
        tokio::time::sleep(Duration::from_secs(120)).await;
        assert!(
            bench.sent().is_empty(),
            "a call was sent before the command"
        );
        let text = format!("network/{network}@envvars/RegionOne");
        let target = TargetSpec::parse(&text, &["envvars"]).unwrap();
        let targets = vec![target];
        let options = cascade();
        client
            .submit(Command::Plan { targets, options })
            .await
            .unwrap();
        tokio::time::sleep(Duration::from_secs(120)).await;
        let logins = bench
            .sent()
            .into_iter()
            .filter(|sent| sent.path.ends_with("/v3/auth/tokens") && sent.method == "POST");
        assert_eq!(logins.count(), 1, "{:?}", bench.sent());
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn i15_a_retry_repeats_the_refused_login_of_the_sites_of_its_deletion_only() {
    let bench = Bench::in_regions(1, &["RegionOne", "RegionTwo"]);
    let (network, ports) = bench.plain_network(1);
    bench.faults(json!([{ "match": { "method": "DELETE", "id": ports[0] },
        "action": { "status": 403, "type": "PolicyNotAuthorized", "message": "no" } }]));
    let id = with_engine(&bench, async |client| {
        let id = client.delete("network", &network).await;
        client.until_stuck(&id).await;
        id
    })
    .await;
    bench.faults(json!([{ "match": { "path": "/v3/auth/tokens" }, "action": { "status": 401 } }]));
    with_engine(&bench, async |client| {
        tokio::time::sleep(Duration::from_secs(1)).await;
        let logins = || {
            let sent = bench.sent().into_iter();
            sent.filter(|sent| sent.path == "/v3/auth/tokens").count()
        };
        let before = logins();
        assert!(before >= 2, "no login was sent for one of the sites");
        client.retry(&id).await;
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(logins() - before, 1);
    })
    .await;
}
