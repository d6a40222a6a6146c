//! Resources of rare kinds are deleted with their project. The project's plan lists the resources for which gone has no
//! kinds (N19, P9).

use super::harness::*;
use gone::domain::kinds::Source;
use gone::domain::model::PlanOptions;
use serde_json::{Value, json};

/// Collections of resources that few projects have.
const RARE: [&str; 5] = [
    "local_ips",
    "ndp_proxies",
    "metering/metering-labels",
    "metering/metering-label-rules",
    "address-groups",
];

#[tokio::test(start_paused = true)]
async fn n19_the_metering_labels_local_ips_proxies_and_address_groups_of_a_project_are_deleted() {
    let bench = Bench::new(1);
    let made = bench.furnish_demo();
    for collection in RARE {
        assert!(!bench.ids(collection).is_empty(), "{collection}");
    }
    let steps = with_engine(&bench, async |client| {
        let id = client.delete_until_gone("project", "demo").await.id;
        client.steps(&id).await
    })
    .await;
    for collection in RARE {
        assert_eq!(bench.ids(collection), Vec::<String>::new(), "{collection}");
    }
    let planned = |kind: &str| {
        let id = &made[kind];
        steps
            .iter()
            .any(|step| step.resource.key.kind.as_str() == kind && step.resource.key.id == **id)
    };
    assert!(planned("local_ip") && planned("metering_label"));
    // Resources that the cloud removes by itself cost no call.
    for kind in ["conntrack_helper", "metering_label_rule", "ndp_proxy"] {
        let (_, own) = made[kind].split_once(',').unwrap_or(("", &made[kind]));
        assert_eq!(bench.writes_to(own), [], "{kind}");
    }
}

#[tokio::test(start_paused = true)]
async fn n19_a_plan_lists_the_resources_removed_along_with_a_router_a_port_or_a_label() {
    let bench = Bench::new(1);
    let made = bench.furnish_demo();
    let plan = with_engine(&bench, async |client| client.plan("project", "demo").await).await;
    for kind in [
        "conntrack_helper",
        "metering_label_rule",
        "ndp_proxy",
        "local_ip_association",
    ] {
        let mut automatic = plan.automatic.iter();
        assert!(
            automatic.any(|step| step.kind.as_str() == kind && step.resource_id == made[kind]),
            "{kind}: {:?}",
            plan.automatic
        );
    }
    assert_eq!(plan.refused, []);
}

#[tokio::test(start_paused = true)]
async fn n19_a_network_is_deleted_with_the_local_ips_that_have_their_address_on_it() {
    let bench = Bench::new(1);
    let (network, ports) = bench.plain_network(2);
    let other = bench.create("networks", json!({ "name": "other" }));
    let addresses = json!({ "network_id": other, "ip_version": 4, "cidr": "10.9.0.0/24" });
    bench.create("subnets", addresses);
    let local = |fields: Value| bench.create("local_ips", fields);
    // One local IP has a port of its own, one is on a port of the user, and one is on another network.
    let own = local(json!({ "network_id": network }));
    local(json!({ "local_port_id": ports[0] }));
    let elsewhere = local(json!({ "network_id": other }));
    for local in [&own, &elsewhere] {
        let associations = format!("/v2.0/local_ips/{local}/port_associations");
        let body = json!({ "port_association": { "fixed_port_id": ports[1] } });
        assert_eq!(bench.api("POST", &associations, body).0, 201);
    }
    bench.delete_until_gone("network", &network).await;
    assert_eq!(bench.ids("local_ips"), [elsewhere]);
}

#[tokio::test(start_paused = true)]
async fn n19_a_shared_metering_label_stays_unless_public_resources_are_included() {
    let bench = Bench::new(1);
    let fields = json!({ "name": "all", "shared": true, "project_id": bench.demo_project() });
    let label = bench.create("metering/metering-labels", fields);
    let plan = with_engine(&bench, async |client| {
        let plan = client.plan("project", "demo").await;
        client.delete_until_gone("project", "demo").await;
        plan
    })
    .await;
    let why = "it meters the traffic of other projects too";
    assert!(
        plan.warnings.iter().any(|it| it.contains(why)),
        "{:?}",
        plan.warnings
    );
    assert_eq!(bench.ids("metering/metering-labels"), [label]);
    let options = PlanOptions {
        include_public: true,
        ..cascade()
    };
    with_engine(&bench, async |client| {
        let id = client.delete_with("project", "demo", options).await;
        client.until_gone(&id).await;
    })
    .await;
    assert_eq!(bench.ids("metering/metering-labels"), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn n19_a_projects_plan_lists_resources_without_kinds_and_a_networks_plan_does_not() {
    let bench = Bench::in_regions(1, &["RegionOne", "RegionTwo"]);
    let (network, _) = bench.plain_network(1);
    let plans = with_engine(&bench, async |client| {
        let whole = client.plan("project", "demo").await;
        (whole, client.plan("network", &network).await)
    })
    .await;
    let said = |warnings: &[String]| {
        let said = warnings
            .iter()
            .filter(|it| it.starts_with("not looked at: "));
        said.cloned().collect::<Vec<_>>()
    };
    // There is one line for each site. gone has kinds for all extensions of the site.
    let line = |region: &str| {
        format!(
            "not looked at: compute (servers that are soft-deleted, and key pairs, which belong to users), \
             image (metadata definition namespaces); gone has no kinds for these, so those of the \
             project at envvars/{region} are not deleted"
        )
    };
    let (whole, network) = plans;
    assert_eq!(
        said(&whole.warnings),
        [line("RegionOne"), line("RegionTwo")]
    );
    assert_eq!(said(&network.warnings), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn n19_an_extension_that_the_cloud_lacks_costs_no_call_and_refuses_nothing() {
    let mut bench = Bench::new(1);
    bench.seed(json!({ "project": "demo", "networks": 1, "ports_per_network": 2 }));
    let mine = Source {
        file: "mine.toml".to_owned(),
        text: r#"
            service = "network"
            defaults.call.prefix = "/v2.0"
            [kind.log.list]
            [kind.log.call]
            requires_extension = "logging"
            not_found = ["LogResourceNotFound"]
            delete = { method = "DELETE", path = "/log/logs/{id}" }
            list = { path = "/log/logs", items = "logs", item = "log" }
            [[kind.log.reference]]
            to = "project"
            field = "project_id"
            find = { key = "project_id" }
            on_delete = "cascade"
            says = "in"
        "#
        .to_owned(),
    };
    bench.kinds = std::sync::Arc::new(gone::cloud::load_kinds(&[mine]).unwrap());
    with_engine(&bench, async |client| {
        let plan = client.plan("project", "demo").await;
        assert_eq!(plan.refused, []);
        client.delete_until_gone("project", "demo").await;
    })
    .await;
    let paths_of_extensions = ["/log/", "/bgp", "/vpn/"];
    let sent = bench.sent();
    let call = sent.iter().find(|it| {
        paths_of_extensions
            .iter()
            .any(|part| it.path.contains(part))
    });
    assert!(call.is_none(), "{call:?}");
}
