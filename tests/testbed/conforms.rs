//! The conformance scenes against the services of the test bed.
use std::time::Duration;

use serde_json::{Value, json};
use tokio::runtime::Runtime;

use crate::conformance::{Answer, Caller, Request, Service, TestedCloud, run, scenes};

/// A login to one of the clouds in `clouds.yaml`.
struct Login {
    token: String,
    project: String,
    catalog: Value,
}

impl Login {
    /// The URL of a service's API, without a `/` at the end.
    fn url(&self, service: Service) -> String {
        let endpoint = self
            .catalog
            .as_array()
            .unwrap()
            .iter()
            .filter(|offered| offered["type"] == service.kind())
            .flat_map(|offered| offered["endpoints"].as_array().unwrap())
            .find(|endpoint| endpoint["region"] == "RegionOne" && endpoint["interface"] == "public")
            .unwrap();
        let url = endpoint["url"].as_str().unwrap().trim_end_matches('/');
        let versions = ["/v2.0", "/v2.1", "/v2", "/v3"];
        let url = versions
            .iter()
            .fold(url, |url, version| url.trim_end_matches(version));
        format!("{url}{}", service.root())
    }
}

fn log_in(runtime: &Runtime, clouds: &Value, cloud: &str) -> Login {
    let auth = &clouds["clouds"][cloud]["auth"];
    let domain = json!({"id": "default"});
    let body = json!({"auth": {
        "identity": {"methods": ["password"], "password": {"user": {
            "name": auth["username"], "domain": domain, "password": auth["password"],
        }}},
        "scope": {"project": {"name": auth["project_name"], "domain": domain}},
    }});
    let url = format!("{}/auth/tokens", auth["auth_url"].as_str().unwrap());
    runtime.block_on(async {
        let answer = reqwest::Client::new()
            .post(url)
            .json(&body)
            .send()
            .await
            .unwrap();
        let token = answer.headers()["x-subject-token"]
            .to_str()
            .unwrap()
            .to_owned();
        let body: Value = answer.json().await.unwrap();
        Login {
            token,
            project: body["token"]["project"]["id"].as_str().unwrap().to_owned(),
            catalog: body["token"]["catalog"].clone(),
        }
    })
}

/// Runs a scene against the test bed.
fn check(scene: &str) {
    let path = crate::bed::clouds();
    let clouds = std::fs::read_to_string(&path)
        .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let clouds: Value = serde_saphyr::from_str(&clouds).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let admin = log_in(&runtime, &clouds, "testbed");
    let demo = log_in(&runtime, &clouds, "testbed-demo");
    let client = reqwest::Client::builder()
        .timeout(Duration::from_secs(60))
        .build()
        .unwrap();
    let mut send = |request: &Request<'_>| {
        let token = match request.caller {
            Caller::Admin => admin.token.as_str(),
            Caller::Demo => demo.token.as_str(),
            Caller::BadToken => "bad",
        };
        let url = format!("{}{}", admin.url(request.service), request.path);
        let mut call = client
            .request(request.method.parse().unwrap(), url)
            .header("x-auth-token", token)
            .body(request.bytes());
        for (name, value) in request.all_headers() {
            call = call.header(name, value);
        }
        runtime.block_on(async {
            let answer = call.send().await.unwrap();
            let status = answer.status().as_u16();
            Answer::new(status, &answer.bytes().await.unwrap())
        })
    };
    let mut tested = TestedCloud {
        url: admin.url(Service::Network),
        balancers_url: admin.url(Service::LoadBalancer),
        demo_project: demo.project.clone(),
        send: &mut send,
        wait: &mut || std::thread::sleep(Duration::from_millis(100)),
    };
    run(&mut tested, scene);
}

macro_rules! conforms {
    ($($test:ident $scene:ident)*) => {
        $(#[test]
        #[ignore = "needs the test bed"]
        fn $test() {
            check(stringify!($scene));
        })*

        #[test]
        fn every_scene_has_a_test() {
            let tested = [$(stringify!($scene)),*];
            let known: Vec<&str> = scenes().map(|(name, _)| *name).collect();
            assert_eq!(tested.as_slice(), known.as_slice());
        }
    };
}

conforms! {
    testbed_networks networks
    testbed_device_owners device_owners
    testbed_missing_resources missing_resources
    testbed_router_in_use router_in_use
    testbed_router_interfaces router_interfaces
    testbed_shared_interfaces shared_interfaces
    testbed_automatic_addresses automatic_addresses
    testbed_server_owned_ports server_owned_ports
    testbed_external_networks external_networks
    testbed_port_forwardings port_forwardings
    testbed_trunks trunks
    testbed_disabled_trunks disabled_trunks
    testbed_security_groups security_groups
    testbed_pools_and_policies pools_and_policies
    testbed_segments segments
    testbed_address_groups address_groups
    testbed_qos_policies qos_policies
    testbed_local_ips local_ips
    testbed_conntrack_helpers conntrack_helpers
    testbed_ndp_proxies ndp_proxies
    testbed_metering_labels metering_labels
    testbed_permissions permissions
    testbed_if_match if_match
    testbed_revision_numbers revision_numbers
    testbed_list_pages list_pages
    testbed_list_filters list_filters
    testbed_missing_markers missing_markers
    testbed_request_bodies request_bodies
    testbed_bulk_creation bulk_creation
    testbed_tags tags
    testbed_attributes attributes
    testbed_images images
    testbed_image_members image_members
    testbed_image_member_added_again image_member_added_again
    testbed_image_visibility image_visibility
    testbed_image_deletion image_deletion
    testbed_image_files image_files
    testbed_image_tags image_tags
    testbed_image_lists image_lists
    testbed_image_filters image_filters
    testbed_image_sorting image_sorting
    testbed_image_pages image_pages
    testbed_image_refusals image_refusals
    testbed_balancers balancers
    testbed_balancer_children balancer_children
    testbed_balancer_deletions balancer_deletions
    testbed_balancer_updates balancer_updates
    testbed_balancer_vips balancer_vips
    testbed_balancer_ports balancer_ports
    testbed_balancer_graphs balancer_graphs
    testbed_balancer_lists balancer_lists
    testbed_balancer_filters balancer_filters
    testbed_balancer_permissions balancer_permissions
    testbed_balancer_request_bodies balancer_request_bodies
    testbed_balancer_child_request_bodies balancer_child_request_bodies
    testbed_servers servers
    testbed_server_locks server_locks
    testbed_server_states server_states
    testbed_server_ports server_ports
    testbed_server_volumes server_volumes
    testbed_server_trunks server_trunks
    testbed_server_lists server_lists
    testbed_server_request_bodies server_request_bodies
    testbed_keypairs_and_server_groups keypairs_and_server_groups
    testbed_volumes volumes
    testbed_volume_snapshots volume_snapshots
    testbed_volume_backups volume_backups
    testbed_volume_attachments volume_attachments
    testbed_volume_transfers volume_transfers
    testbed_volume_groups volume_groups
    testbed_volume_lists volume_lists
    testbed_stuck_volumes stuck_volumes
}
