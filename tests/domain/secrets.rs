//! Plans with zones below zones, certificates of listeners, and kinds that a service shows only to the logins of their
//! own project.

use gone::domain::model::{KindName, Plan, PlanOptions, RefusalRule};
use gone::domain::plan::{Frozen, Planner};
use serde_json::{Value, json};

use super::topology::{Topology, cascade, goes_after, site, steps};

#[test]
fn a_zone_is_deleted_after_the_zones_below_it() {
    let mut cloud = Topology::new();
    for (id, name) in [
        ("org", "example.org."),
        ("www", "www.example.org."),
        ("deep", "a.b.example.org."),
        ("other", "notexample.org."),
    ] {
        cloud.add("zone", json!({ "id": id, "name": name }));
    }
    let plan = cloud.plan("zone", "org", cascade());
    assert_eq!(steps(&plan), ["zone/deep", "zone/www", "zone/org"]);
    assert!(goes_after(&plan, "zone/org", "zone/www"));
    assert!(goes_after(&plan, "zone/org", "zone/deep"));
    cloud.lookups.clear();
    let plan = cloud.plan("zone", "org", PlanOptions::default());
    let mut blockers: Vec<_> = plan.refused.iter().map(|it| it.reason.as_str()).collect();
    blockers.sort_unstable();
    assert_eq!(blockers.len(), 2, "{blockers:?}");
    assert!(
        blockers[0].contains("zone a.b.example.org. "),
        "{blockers:?}"
    );
}

/// A load balancer whose listener uses a container as its certificate, and the container's secret.
fn with_certificate() -> Topology {
    let mut cloud = Topology::new();
    let url = |kind: &str, id: &str| format!("https://barbican.example.org/v1/{kind}/{id}");
    cloud
        .add("project", json!({ "id": "p1", "name": "demo" }))
        .add(
            "load_balancer",
            json!({ "id": "lb", "provisioning_status": "ACTIVE" }),
        )
        .add(
            "listener",
            json!({ "id": "https", "loadbalancers": [{ "id": "lb" }],
                "default_tls_container_ref": url("containers", "tls") }),
        )
        .add(
            "secret_container",
            json!({ "id": "tls", "secret_refs": [{ "secret_ref": url("secrets", "key") }] }),
        )
        .add("secret", json!({ "id": "key" }));
    cloud
}

/// Barbican itself would delete a certificate that a listener uses.
#[test]
fn a_certificate_is_deleted_after_the_listener_that_uses_it() {
    let mut cloud = with_certificate();
    let plan = cloud.plan("project", "p1", cascade());
    assert!(plan.refused.is_empty(), "{:?}", plan.refused);
    assert!(goes_after(
        &plan,
        "secret_container/tls",
        "load_balancer/lb"
    ));
    assert!(goes_after(&plan, "secret/key", "secret_container/tls"));
    cloud.lookups.clear();
    for (kind, id) in [("secret_container", "tls"), ("secret", "key")] {
        let refused = cloud.plan(kind, id, cascade()).refused;
        let in_use = |it: &&gone::domain::model::Refusal| it.rule == RefusalRule::InUse;
        let why: Vec<_> = refused.iter().filter(in_use).map(|it| &it.reason).collect();
        assert!(why[0].contains("listener"), "{why:?}");
        cloud.lookups.clear();
    }
}

#[test]
fn a_secret_with_consumers_is_refused() {
    for (consumers, refused) in [
        (json!([]), false),
        (json!([{ "service": "volume", "resource_id": "v1" }]), true),
    ] {
        let mut cloud = Topology::new();
        cloud.add("secret", json!({ "id": "key", "consumers": consumers }));
        let plan = cloud.plan("secret", "key", cascade());
        assert_eq!(!plan.refused.is_empty(), refused, "{:?}", plan.refused);
    }
}

/// Octavia registers its listener as a consumer of the container. Both are deleted with their project.
#[test]
fn a_secret_whose_consumers_are_deleted_too_is_not_refused() {
    let mut cloud = with_certificate();
    let used = json!([{ "name": "Octavia", "URL": "https://cloud/v2/listeners/https" }]);
    cloud.change("secret_container", "tls", "consumers", used);
    let plan = cloud.plan("project", "p1", cascade());
    assert!(plan.refused.is_empty(), "{:?}", plan.refused);
    cloud.lookups.clear();
    let other = json!([{ "name": "Octavia", "URL": "https://cloud/v2/listeners/other" }]);
    cloud.change("secret_container", "tls", "consumers", other);
    assert_eq!(cloud.plan("project", "p1", cascade()).refused.len(), 1);
}

/// The plan of a project whose secrets only its own logins see.
fn of_another_project(options: PlanOptions) -> Plan {
    let cloud = with_certificate();
    let project = &cloud.rows["project"][0];
    let kind = cloud.kinds.get(&KindName::new("project")).unwrap();
    let target = cloud.kinds.resources_in(&site(), kind, project).remove(0);
    let mut planner = Planner::new(&cloud.kinds, options, &|_| None, vec![target]);
    loop {
        let wanted = planner.wanted();
        if wanted.is_empty() {
            return planner.finish(Frozen::default());
        }
        for lookup in wanted {
            if lookup.kind.as_str().starts_with("secret") {
                assert!(planner.can_do_without(&lookup));
                planner.not_shown(&lookup, "it shows each login its own project".to_owned());
                continue;
            }
            assert!(!planner.can_do_without(&lookup) || lookup.kind.as_str() != "network");
            let rows: &[Value] = match lookup.kind.as_str() {
                "load_balancer" => &cloud.rows["load_balancer"],
                _ => &[],
            };
            let mut found = planner.found(&lookup);
            found.begin();
            found.add(rows);
            planner.feed(found);
        }
    }
}

#[test]
fn n19_kinds_shown_only_to_the_projects_own_logins_are_warned_of_and_keep_the_project() {
    let plan = of_another_project(cascade());
    assert!(plan.refused.is_empty(), "{:?}", plan.refused);
    assert_eq!(steps(&plan), ["load_balancer/lb"]);
    let warning = "not looked at: secret, secret_container, secret_order: it shows each login its own \
        project";
    assert!(
        plan.warnings.iter().any(|it| it == warning),
        "{:?}",
        plan.warnings
    );

    let plan = of_another_project(PlanOptions {
        with_project: true,
        ..cascade()
    });
    let refused: Vec<_> = plan.refused.iter().map(|it| it.reason.as_str()).collect();
    assert!(
        refused
            .iter()
            .any(|it| it.contains("cannot tell whether project demo")),
        "{refused:?}"
    );
}
