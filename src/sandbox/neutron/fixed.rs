//! Fixed answers: versions, extensions, and collections that stay empty.
use serde_json::{Value, json};

use super::no_page;
use crate::sandbox::wire::{Answer, Call, Refusal, Result};

/// The extensions of this release of Neutron.
const EXTENSIONS: &str = "
aap-reject-multicast address-group address-scope router-admin-state-down-before-update agent
agent-resources-synced agent_sort_key allowed-address-pairs auto-allocated-topology availability_zone
availability_zone_filter default-subnetpools dhcp_agent_scheduler dns-integration dvr empty-string-filtering
expose-l3-conntrack-helper expose-port-forwarding-in-fip external-net extra_dhcp_opt extraroute
extraroute-atomic filter-validation floating-ip-port-forwarding-description
floating-ip-port-forwarding-detail floating-ip-port-forwarding-port-ranges fip-port-details flavors
floating-ip-port-forwarding floatingip-pools floating-ip-router-writable ip_allocation
ip-substring-filtering l2_adjacency router l3-conntrack-helper ext-gw-mode l3-ha l3-ext-ndp-proxy l3-flavors
l3-ndp-proxy l3-port-ip-change-not-allowed l3_agent_scheduler local_ip metering
metering_source_and_destination_fields multi-provider net-mtu net-mtu-writable network_availability_zone
network_ha network-ip-availability network-ip-availability-details pagination port-device-profile
port-mac-override port-mac-address-regenerate port-numa-affinity-policy port-numa-affinity-policy-socket
port-resource-request port-resource-request-groups binding binding-extended port-security project-id
provider qos qos-bw-limit-direction qos-bw-minimum-ingress qos-default qos-fip qos-gateway-ip
qos-port-network-policy qos-pps-minimum qos-pps-minimum-rule-alias qos-pps qos-rule-type-details
qos-rule-type-filter qos-rules-alias quota-check-limit quota-check-limit-default quotas quota_details
rbac-policies rbac-address-group rbac-address-scope rbac-security-groups rbac-subnetpool revision-if-match
standard-attr-revisions router_availability_zone security-groups-default-rules
security-groups-default-statefulness security-groups-normalized-cidr port-security-groups-filtering
security-groups-remote-address-group security-groups-rules-belongs-to-default-sg
security-groups-shared-filtering security-group segment segments-peer-subnet-host-routes service-type
sorting standard-attr-segment standard-attr-description stateful-security-group subnet-external-network
subnet_onboard subnet-segmentid-writable subnet-service-types subnet_allocation subnetpool-prefix-ops
tag-creation standard-attr-tag standard-attr-timestamp trunk trunk-details";

/// Collections that exist but stay empty here: path, and the type and the message of a 404.
const EMPTY: [(&str, &str, &str); 2] = [
    ("agents", "AgentNotFound", "Agent {id} could not be found."),
    (
        "flavors",
        "FlavorNotFound",
        "Flavor {id} could not be found.",
    ),
];

/// Collections that can only be listed, and are empty here.
const LISTS: [&str; 3] = ["availability_zones", "quotas", "service-providers"];

/// Answers `GET` of the endpoint, which needs no token.
pub(super) fn versions(call: &Call<'_>) -> Option<Answer> {
    if !call.segments().is_empty() {
        return None;
    }
    let root = call.url.trim_end_matches('/');
    Some(Answer::ok(json!({"versions": [{
        "id": "v2.0",
        "status": "CURRENT",
        "links": [{"rel": "self", "href": format!("{root}/v2.0/")}],
    }]})))
}

/// Answers a path that leads to no kind.
pub(super) fn answer(call: &Call<'_>, path: &[&str]) -> Option<Result<Answer>> {
    let is_get = call.method == http::Method::GET;
    match path {
        [] => Some(Ok(Answer::ok(json!({"resources": []})))),
        ["extensions"] => {
            let all: Value = EXTENSIONS.split_whitespace().map(extension).collect();
            Some(Ok(Answer::ok(json!({"extensions": all}))))
        }
        ["extensions", alias] => {
            let known = EXTENSIONS.split_whitespace().any(|known| known == *alias);
            let shown = known.then(|| Answer::ok(json!({"extension": extension(alias)})));
            Some(shown.ok_or_else(no_page))
        }
        [list] if LISTS.contains(list) && is_get => {
            Some(Ok(Answer::ok(json!({list.replace('-', "_"): []}))))
        }
        [collection, rest @ ..] => {
            let (name, error, message) = EMPTY.iter().find(|(name, ..)| name == collection)?;
            Some(match rest {
                [] if is_get => Ok(Answer::ok(json!({*name: []}))),
                [id] => Err(Refusal::not_found(error, message.replace("{id}", id))),
                _ => Err(no_page()),
            })
        }
    }
}

fn extension(alias: &str) -> Value {
    json!({"name": alias, "alias": alias, "description": "", "updated": "2016-01-01T10:00:00-00:00", "links": []})
}
