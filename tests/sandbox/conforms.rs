//! The practice cloud gives the answers that real services gave (`tests/testbed/BEHAVIOUR.md`).
use std::cell::RefCell;
use std::collections::BTreeSet;

use http::Method;

use crate::cloud::Cloud;
use crate::conformance::rows::{OTHER_SERVICES, ROWS};
use crate::conformance::{Answer, Caller, Request, TestedCloud, run, scenes};

fn check(scene: &str) {
    let mut cloud = Cloud::new();
    let token = cloud.log_in("demo", "secret").unwrap();
    let demo = cloud.send(Method::GET, "/v3/auth/projects", Some(&token), None, &[]);
    let demo_project = demo.body["projects"][0]["id"].as_str().unwrap().to_owned();
    let admin = cloud.log_in("admin", "secret").unwrap();
    let cloud = RefCell::new(cloud);
    let mut send = |request: &Request<'_>| {
        let token = match request.caller {
            Caller::Admin => &admin,
            Caller::Demo => &token,
            Caller::BadToken => "bad",
        };
        let Request { service, path, .. } = request;
        let kind = match service.kind() {
            "block-storage" => "volumev3",
            kind => kind,
        };
        let path = format!("/RegionOne/{kind}{}{path}", service.root());
        let method = request.method.parse().unwrap();
        let mut cloud = cloud.borrow_mut();
        let headers = request.all_headers();
        let got = cloud.send_bytes(method, &path, Some(token), request.bytes(), &headers);
        Answer::new(got.status, got.reply.response.body())
    };
    let mut tested = TestedCloud {
        url: "http://sandbox.invalid/RegionOne/network/v2.0".to_owned(),
        balancers_url: "http://sandbox.invalid/RegionOne/load-balancer/v2.0/lbaas".to_owned(),
        demo_project,
        send: &mut send,
        wait: &mut || cloud.borrow_mut().advance(100),
    };
    run(&mut tested, scene);
}

macro_rules! conforms {
    ($($scene:ident)*) => {
        $(#[test]
        fn $scene() {
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
    networks device_owners missing_resources router_in_use router_interfaces shared_interfaces automatic_addresses server_owned_ports external_networks port_forwardings trunks
    disabled_trunks security_groups pools_and_policies segments address_groups qos_policies local_ips conntrack_helpers ndp_proxies metering_labels permissions if_match revision_numbers
    list_pages list_filters missing_markers request_bodies bulk_creation tags attributes
    images image_members image_member_added_again image_visibility image_deletion
    image_files image_tags image_lists image_filters image_sorting image_pages image_refusals
    balancers balancer_children balancer_deletions balancer_updates balancer_vips balancer_ports balancer_graphs balancer_lists balancer_filters balancer_permissions balancer_request_bodies balancer_child_request_bodies
    servers server_locks server_states server_ports server_volumes server_trunks server_lists server_request_bodies keypairs_and_server_groups
    volumes volume_snapshots volume_backups volume_attachments volume_transfers volume_groups volume_lists stuck_volumes
}

/// The first cells of the rows of BEHAVIOUR.md, without the sections about other services.
fn recorded_rows() -> Vec<String> {
    let mut rows = Vec::new();
    let mut ours = true;
    let mut in_body = false;
    for line in include_str!("../testbed/BEHAVIOUR.md").lines() {
        if let Some(title) = line.strip_prefix("## ") {
            ours = !OTHER_SERVICES.iter().any(|other| title.starts_with(other));
        }
        let Some(cells) = line.strip_prefix("| ") else {
            in_body = false;
            continue;
        };
        if cells.starts_with("---") {
            in_body = true;
        } else if in_body && ours {
            rows.push(cells.split(" | ").next().unwrap_or_default().to_owned());
        }
    }
    rows
}

#[test]
fn every_row_of_behaviour_md_is_shown_by_a_scene() {
    let shown: BTreeSet<&str> = scenes()
        .flat_map(|(_, scene)| scene())
        .flat_map(|step| step.rows)
        .collect();
    let rows = recorded_rows();
    for row in &rows {
        let key = ROWS
            .iter()
            .find(|(cell, _)| cell == row)
            .map(|(_, key)| *key);
        let key = key.unwrap_or_else(|| panic!("ROWS has no key for the row {row:?}"));
        assert!(
            shown.contains(key),
            "no step has the key {key:?} of the row {row:?}"
        );
    }
    let recorded = |cell: &str| rows.iter().any(|row| row == cell);
    for (cell, _) in ROWS {
        assert!(recorded(cell), "BEHAVIOUR.md has no row {cell:?}");
    }
    for key in shown {
        assert!(
            ROWS.iter().any(|(_, known)| *known == key),
            "ROWS does not have the key {key:?} of a step"
        );
    }
}
