//! Cascades in Neutron: the resources that are deleted with a target, those that stay, and the order of the calls.

use std::collections::BTreeSet;

use super::harness::*;
use gone::domain::model::{
    Action, DeletionState, EventKind, OnFailure, PlanOptions, RefusalRule, StepState,
};
use serde_json::{Value, json};

#[tokio::test(start_paused = true)]
async fn n02_interfaces_and_routes_are_removed_and_floating_ips_stay_disassociated() {
    let bench = Bench::new(1);
    let shop = bench.shop(2);
    bench.delete_until_gone("network", &shop.network).await;
    assert!(!bench.exists("networks", &shop.network));
    let (_, router) = bench.api(
        "GET",
        &format!("/v2.0/routers/{}", shop.router),
        Value::Null,
    );
    assert_eq!(router["router"]["routes"], json!([]));
    let (_, fip) = bench.api(
        "GET",
        &format!("/v2.0/floatingips/{}", shop.floating_ip),
        Value::Null,
    );
    assert_eq!(fip["floatingip"]["port_id"], Value::Null);
    assert_eq!(bench.writes_to(&shop.floating_ip), []);
    // The other two networks keep their interfaces.
    let ports = bench.rows("ports");
    let interfaces = ports
        .iter()
        .filter(|port| port["device_owner"] == "network:router_interface");
    assert_eq!(interfaces.count(), 2);
}

#[tokio::test(start_paused = true)]
async fn n02_floating_ips_are_released_if_the_caller_asks() {
    let bench = Bench::new(1);
    let shop = bench.shop(1);
    // The floating IP's own port, on the external network: the cloud removes it by itself.
    let own: Vec<String> = bench
        .rows("ports")
        .iter()
        .filter(|port| port["device_id"] == *shop.floating_ip)
        .map(|port| port["id"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(own.len(), 1);
    with_engine(&bench, async |client| {
        let options = PlanOptions {
            delete_detached: true,
            ..cascade()
        };
        let plan = client.plan_with("network", &shop.network, options).await;
        let automatic = plan.automatic.iter().find(|one| one.resource_id == own[0]);
        assert!(automatic.unwrap().why.contains(&shop.floating_ip));
        let id = client.delete_with("network", &shop.network, options).await;
        client.until_gone(&id).await;
    })
    .await;
    assert_eq!(bench.ids("floatingips"), Vec::<String>::new());
    assert!(!bench.exists("ports", &own[0]));
    assert_eq!(bench.writes_to(&own[0]), []);
}

#[tokio::test(start_paused = true)]
async fn n03_trunks_and_their_subports_are_deleted_and_the_other_networks_stay() {
    let bench = Bench::new(1);
    let shop = bench.shop(1);
    bench.delete_until_gone("network", &shop.network).await;
    assert_eq!(bench.ids("trunks"), Vec::<String>::new());
    let left = bench.rows("ports");
    assert!(
        left.iter()
            .all(|port| !port["name"].as_str().unwrap().contains("subport"))
    );
    for other in &shop.others {
        assert!(bench.exists("networks", other));
    }
}

#[tokio::test(start_paused = true)]
async fn n03_a_disabled_trunk_is_enabled_first() {
    let bench = Bench::new(1);
    let shop = bench.shop(1);
    bench.set_trunk_state(&shop.trunk, false);
    with_engine(&bench, async |client| {
        let plan = client.plan("network", &shop.network).await;
        let enable = plan.steps.iter().find(|step| step.action == Action::Enable);
        assert!(enable.unwrap().why.contains("disabled"));
        client.delete_until_gone("network", &shop.network).await;
    })
    .await;
    let calls: Vec<_> = bench
        .writes_to(&shop.trunk)
        .iter()
        .map(|sent| (sent.method.clone(), sent.status))
        .collect();
    assert_eq!(
        calls,
        [
            ("PUT".to_owned(), Some(200)),
            ("DELETE".to_owned(), Some(204))
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn n03_a_port_that_is_a_subport_of_a_trunk_elsewhere_is_detached_first() {
    let bench = Bench::new(1);
    let shop = bench.shop(1);
    // The parent port of the subport's trunk is on another network. Only the network of the subport is deleted.
    let target = &shop.others[0];
    with_engine(&bench, async |client| {
        let id = client.delete_until_gone("network", target).await.id;
        let steps = client.steps(&id).await;
        assert!(
            steps
                .iter()
                .any(|step| step.resource.key.kind.as_str() == "subport"
                    && step.state == StepState::Gone)
        );
    })
    .await;
    let (status, trunk) = bench.api("GET", &format!("/v2.0/trunks/{}", shop.trunk), Value::Null);
    assert_eq!(status, 200);
    assert_eq!(trunk["trunk"]["sub_ports"].as_array().unwrap().len(), 1);
    assert!(bench.exists("networks", &shop.network));
    let writes = bench.writes();
    assert!(
        writes
            .iter()
            .all(|sent| sent.status.is_some_and(|status| status < 300)),
        "{writes:#?}"
    );
}

#[tokio::test(start_paused = true)]
async fn n04_n05_server_ports_are_deleted_and_automatic_ports_cost_no_call() {
    let bench = Bench::new(1);
    let shop = bench.shop(5);
    let mine = bench.rows("ports");
    let mine: Vec<_> = mine
        .iter()
        .filter(|port| port["network_id"] == shop.network.as_str())
        .collect();
    let of = |owner: &str| -> Vec<String> {
        let found = mine.iter().filter(|port| port["device_owner"] == owner);
        found
            .map(|port| port["id"].as_str().unwrap().to_owned())
            .collect()
    };
    let (dhcp, servers) = (of("network:dhcp"), of("compute:nova"));
    assert!(!dhcp.is_empty() && servers.len() > 2);
    with_engine(&bench, async |client| {
        let plan = client.plan("network", &shop.network).await;
        assert!(
            plan.automatic
                .iter()
                .any(|step| step.resource_id == dhcp[0] && step.automatic)
        );
        client.delete_until_gone("network", &shop.network).await;
    })
    .await;
    assert_eq!(bench.writes_to(&dhcp[0]), []);
    for port in &servers {
        assert_eq!(bench.writes_to(port).len(), 1);
    }
    assert!(!bench.exists("ports", &dhcp[0]));
}

#[tokio::test(start_paused = true)]
async fn n06_the_network_is_deleted_last_and_its_subnets_with_it() {
    let bench = Bench::new(1);
    let shop = bench.shop(4);
    let before = bench.all_ids();
    let frozen = with_engine(&bench, async |client| {
        let plan = client.plan("network", &shop.network).await;
        client.delete_until_gone("network", &shop.network).await;
        plan
    })
    .await;
    let last = bench.writes().pop().unwrap();
    assert_eq!(last.path, format!("/v2.0/networks/{}", shop.network));
    // No call is sent too early: the cloud refuses none.
    let refused: Vec<String> = bench
        .writes()
        .iter()
        .filter(|sent| sent.status.is_none_or(|status| status >= 300))
        .map(SentRequest::signature)
        .collect();
    assert_eq!(refused, Vec::<String>::new());
    assert!(bench.writes_to(&shop.subnet).is_empty());
    assert!(!bench.exists("subnets", &shop.subnet));
    // Only resources in the plan were deleted.
    let planned: BTreeSet<&str> = frozen
        .steps
        .iter()
        .chain(&frozen.automatic)
        .map(|step| step.resource_id.as_str())
        .collect();
    let after = bench.all_ids();
    for (collection, id) in before.difference(&after) {
        let said = planned.contains(id.as_str())
            || collection == "ports"
                && frozen
                    .steps
                    .iter()
                    .any(|step| step.vars.values().any(|value| value == id));
        assert!(
            said,
            "{collection}/{id} was deleted, and is not in the plan"
        );
    }
    assert!(after.is_subset(&before));
}

#[tokio::test(start_paused = true)]
async fn n01_a_subnet_pool_is_deleted_after_its_subnets_and_retried_after_a_400_that_says_in_use() {
    let bench = Bench::new(1);
    let scope = bench.create("address-scopes", json!({ "name": "all", "ip_version": 4 }));
    let pool = json!({ "name": "ten", "prefixes": ["10.128.0.0/16"], "default_prefixlen": 24,
        "address_scope_id": scope });
    let pool = bench.create("subnetpools", pool);
    let network = bench.create("networks", json!({ "name": "web" }));
    let subnet = json!({ "network_id": network, "ip_version": 4, "subnetpool_id": pool });
    let subnet = bench.create("subnets", subnet);
    let port = bench.create("ports", json!({ "network_id": network }));
    // The cloud refuses the delete of the pool once, as if someone had allocated from the pool meanwhile. Its status is
    // 400, not 409.
    bench.faults(
        json!([{ "match": { "method": "DELETE", "id": pool }, "times": 1,
        "action": { "status": 400, "type": "SubnetPoolDeleteError",
            "message": "Unable to delete subnet pool: Subnet pool has existing allocations." } }]),
    );
    with_engine(&bench, async |client| {
        let id = client.delete_until_gone("address_scope", &scope).await.id;
        let step = client.step_of(&id, &pool).await;
        assert_eq!(step.attempts, 1);
    })
    .await;
    let writes = bench.writes();
    let last = |sent: &SentRequest| sent.path.rsplit('/').next().unwrap().to_owned();
    let deleted: Vec<String> = writes.iter().map(last).collect();
    assert_eq!(deleted, [port, subnet, pool.clone(), pool, scope]);
    assert!(bench.exists("networks", &network));
}

#[tokio::test(start_paused = true)]
async fn n15_n01_a_segment_is_deleted_after_its_subnets_and_only_if_they_are_targets_too() {
    let bench = Bench::new(1);
    let network = bench.create("networks", json!({ "name": "web" }));
    let segment = json!({ "network_id": network, "network_type": "vxlan", "name": "rack 2" });
    let segment = bench.create("segments", segment);
    let subnet = |cidr: &str, segment: Option<&str>| {
        let subnet = json!({ "network_id": network, "ip_version": 4, "cidr": cidr,
            "segment_id": segment });
        bench.create("subnets", subnet)
    };
    let (on_it, other) = (
        subnet("10.1.0.0/24", Some(&segment)),
        subnet("10.2.0.0/24", None),
    );
    let port = json!({ "network_id": network, "fixed_ips": [{ "subnet_id": on_it }] });
    let port = bench.create("ports", port);
    with_engine(&bench, async |client| {
        let id = client.delete("segment", &segment).await;
        let refused = client.until_terminal(&id).await;
        assert_eq!(refused.state, DeletionState::Refused);
        assert_eq!(refused.refused[0].rule, RefusalRule::InUse);
        assert_contains(&refused.note, &on_it);
        assert_eq!(bench.writes().len(), 0);
        let targets = [target("segment", &segment), target("subnet", &on_it)];
        let id = client.delete_each(targets.into()).await;
        client.until_gone(&id).await;
    })
    .await;
    let writes = bench.writes();
    let last = |sent: &SentRequest| sent.path.rsplit('/').next().unwrap().to_owned();
    let deleted: Vec<String> = writes.iter().map(last).collect();
    assert_eq!(deleted, [port, on_it, segment]);
    assert!(bench.exists("networks", &network) && bench.exists("subnets", &other));
}

#[tokio::test(start_paused = true)]
async fn n01_an_address_group_is_deleted_with_the_rules_that_name_it_and_security_groups_stay() {
    let bench = Bench::new(1);
    let addresses = json!({ "name": "offices", "addresses": ["192.0.2.0/24"] });
    let addresses = bench.create("address-groups", addresses);
    let group = bench.create("security-groups", json!({ "name": "web" }));
    let rule = json!({ "security_group_id": group, "direction": "ingress",
        "remote_address_group_id": addresses });
    let rule = bench.create("security-group-rules", rule);
    bench.delete_until_gone("address_group", &addresses).await;
    assert!(!bench.exists("address-groups", &addresses));
    assert!(!bench.exists("security-group-rules", &rule));
    assert!(bench.exists("security-groups", &group));
}

#[tokio::test(start_paused = true)]
async fn n10_each_resource_reports_its_action_status_and_message() {
    let mut bench = Bench::new(1);
    bench.settings.gc.max_attempts = 1;
    let (network, ports) = bench.plain_network(4);
    bench.faults(json!([
        { "match": { "method": "DELETE", "id": ports[1] }, "action": { "status": 409, "type": "PortInUse", "message": "it is held" } },
        { "match": { "method": "DELETE", "id": ports[2] }, "action": { "status": 404, "type": "PortNotFound" } },
        { "match": { "method": "DELETE", "id": ports[3] }, "action": { "drop_after_effect": true } },
    ]));
    with_engine(&bench, async |client| {
        let id = client.delete("network", &network).await;
        client.until_stuck(&id).await;
        let stuck = client.step_of(&id, &ports[1]).await;
        let error = stuck.last_error.clone().unwrap();
        assert_eq!(
            (stuck.action, stuck.state),
            (Action::Delete, StepState::Stuck)
        );
        assert_eq!(
            (error.status, error.kind.as_str(), error.message.as_str()),
            (Some(409), "PortInUse", "it is held")
        );
        assert!(error.request_id.starts_with("req-"));
        let done = client.step_of(&id, &ports[0]).await;
        assert_eq!(done.state, StepState::Gone);
        let lines = client.timeline(Some(&id), Some(done.id)).await;
        assert!(
            lines.iter().any(|line| line.kind == EventKind::Attempt
                && line.message.contains("204")
                && line.message.contains("DELETE")),
            "{lines:#?}"
        );
        let lines = client.timeline(Some(&id), Some(stuck.id)).await;
        let attempt = lines
            .iter()
            .find(|line| line.kind == EventKind::Attempt)
            .unwrap();
        assert_eq!(attempt.data["status"], 409);
        // Each attempt has the status of its answer as data: accepted, refused, absent; none if no answer came.
        for (port, status) in ports.iter().zip([Some(204), Some(409), Some(404), None]) {
            let step = client.step_of(&id, port).await;
            let lines = client.timeline(Some(&id), Some(step.id)).await;
            let attempt = lines.iter().find(|line| line.kind == EventKind::Attempt);
            let data = attempt.unwrap().data.as_object().unwrap();
            assert_eq!(data.get("status"), status.map(Value::from).as_ref());
            let request = data.get("request_id").map(|id| id.as_str().unwrap());
            let is_known = request.is_some_and(|id| id.starts_with("req-"));
            assert_eq!(is_known, status.is_some(), "{data:?}");
        }
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn n11_after_a_failure_the_other_steps_continue_or_stop_as_requested() {
    // Calls are answered quickly, so the engine claims the next steps in advance.
    for (on_failure, others) in [(OnFailure::Continue, 5), (OnFailure::Stop, 2)] {
        let mut bench = Bench::new(1);
        bench.send_one_at_a_time();
        bench.limits(json!({ "latency_ms": 10 }));
        let (network, ports) = bench.plain_network(6);
        let third = {
            let plan = with_engine(&bench, async |client| {
                client.plan("network", &network).await
            })
            .await;
            plan.steps[2].resource_id.clone()
        };
        assert!(ports.contains(&third));
        bench.faults(json!([{ "match": { "method": "DELETE", "id": third }, "action": { "status": 403, "type": "PolicyNotAuthorized" } }]));
        with_engine(&bench, async |client| {
            let options = PlanOptions {
                on_failure,
                ..cascade()
            };
            let id = client.delete_with("network", &network, options).await;
            let deletion = client.until_stuck(&id).await;
            assert_eq!(deletion.counts.gone, others);
            assert_eq!(deletion.counts.stuck, 7 - others);
            bench.faults(json!([]));
            client.retry(&id).await;
            client.until_gone(&id).await;
        })
        .await;
    }
}
