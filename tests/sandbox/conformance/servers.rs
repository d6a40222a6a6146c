//! The scenes about servers, with their ports in the network service and their volumes.
use super::Caller::Demo;
use super::Service::{BlockStorage, Compute, Image};
use super::scenes::Scene;
use super::{OCTETS, Step, step};

pub const SCENES: &[Scene] = &[
    ("servers", servers),
    ("server_locks", server_locks),
    ("server_states", server_states),
    ("server_ports", server_ports),
    ("server_volumes", server_volumes),
    ("server_trunks", server_trunks),
    ("server_lists", server_lists),
    ("server_request_bodies", server_request_bodies),
    ("keypairs_and_server_groups", keypairs_and_server_groups),
];

const NOT_FOUND: &str = "itemNotFound";
const CONFLICT: &str = "conflictingRequest";
const INVALID: &str = "badRequest";
const FORBIDDEN: &str = "forbidden";

const SERVER_GONE: &str = "Instance $s could not be found.";

fn call(method: &'static str, path: &'static str) -> Step {
    let step = step(method, path).at(Compute);
    step.header("openstack-api-version", "compute 2.96")
}

pub fn get(path: &'static str) -> Step {
    call("GET", path)
}

pub fn post(path: &'static str, body: &'static str) -> Step {
    call("POST", path).body(body)
}

pub fn delete(path: &'static str) -> Step {
    call("DELETE", path)
}

fn server_action(body: &'static str) -> Step {
    post("/servers/$s/action", body).status(202)
}

fn volume(method: &'static str, path: &'static str) -> Step {
    let step = step(method, path).at(BlockStorage);
    step.header("openstack-api-version", "volume 3.70")
}

fn scene(parts: Vec<Vec<Step>>) -> Vec<Step> {
    parts.into_iter().flatten().collect()
}

/// Creates the resources that a server needs: a network `n` with a subnet, an image `i` and a flavor `f`.
fn network_image_and_flavor() -> Vec<Step> {
    vec![
        super::post("/networks", r#"{"network": {"name": "servers"}}"#).save("n"),
        super::post(
            "/subnets",
            r#"{"subnet": {"network_id": "$n", "ip_version": 4, "cidr": "10.9.0.0/24"}}"#,
        ),
        super::post("/images", r#"{"name": "boots-nothing", "disk_format": "raw", "container_format": "bare", "visibility": "public"}"#)
            .at(Image)
            .save("i"),
        super::put("/images/$i/file", r#""boots nothing""#)
            .at(Image)
            .header("content-type", OCTETS)
            .status(204),
        post("/flavors", r#"{"flavor": {"name": "flavor-$fresh", "ram": 64, "vcpus": 1, "disk": 1}}"#)
            .status(200)
            .save("f"),
    ]
}

const SERVER: &str = r#"{"server": {"name": "web", "imageRef": "$i", "flavorRef": "$f", "networks": [{"uuid": "$n"}]}}"#;

/// Creates the server `s` with the resources that it needs, and waits until it is ACTIVE.
pub fn server() -> Vec<Step> {
    scene(vec![
        network_image_and_flavor(),
        vec![new_server(), active()],
    ])
}

fn new_server() -> Step {
    post("/servers", SERVER).status(202).save("s")
}

/// Waits until the server `s` is ACTIVE.
fn active() -> Step {
    get("/servers/$s")
        .shows("/server/status", r#""ACTIVE""#)
        .eventually()
}

/// Waits until the server `s` does not exist.
fn gone() -> Step {
    get("/servers/$s")
        .refuses(404, NOT_FOUND, SERVER_GONE)
        .eventually()
}

/// Waits until the volume `v` has this status.
fn volume_is(status: &'static str) -> Step {
    volume("GET", "/volumes/$v")
        .shows("/volume/status", status)
        .eventually()
}

fn servers() -> Vec<Step> {
    scene(vec![
        server(),
        vec![
            get("/servers/$s")
                .shows("/server/OS-EXT-STS:task_state", "null")
                .shows("/server/OS-EXT-STS:vm_state", r#""active""#)
                .shows("/server/locked", "false")
                .shows("/server/os-extended-volumes:volumes_attached", "[]")
                .shows("/server/flavor/ram", "64"),
            get("/servers/$s/os-interface").keys(
                "/interfaceAttachments/0",
                "fixed_ips mac_addr net_id port_id port_state tag",
            ),
            super::get("/ports?device_id=$s")
                .shows("/ports/0/device_owner", r#""compute:nova""#)
                .shows("/ports/0/network_id", r#""$n""#)
                .save("p"),
            super::delete("/networks/$n").refuses(409, "NetworkInUse", "Unable to complete operation on network $n. There are one or more ports still in use on the network, id for these ports is: $p."),
            delete("/servers/$s").by(Demo).refuses(404, NOT_FOUND, SERVER_GONE),
            delete("/servers/$s"),
            delete("/servers/$s"),
            get("/servers/$s").shows_either("/server/OS-EXT-STS:vm_state", "active", "deleted"),
            gone(),
            delete("/servers/$s").refuses(404, NOT_FOUND, SERVER_GONE),
            super::get("/ports/$p").refuses(404, "PortNotFound", "Port $p could not be found."),
            delete("/servers/nosuch").refuses(404, NOT_FOUND, "Instance nosuch could not be found."),
            delete("/servers").refuses(404, "", "The resource could not be found."),
            get("/servers/detail?deleted=true&name=web").shows("/servers/0/status", r#""DELETED""#),
        ],
    ])
}

fn server_locks() -> Vec<Step> {
    let locked = |step: Step| {
        step.by(Demo)
            .refuses(409, CONFLICT, "Instance $s is locked")
    };
    let mut steps = server();
    // The network, its subnet and the server are Demo's.
    steps[0] = super::post("/networks", r#"{"network": {"name": "servers"}}"#)
        .by(Demo)
        .save("n");
    steps[1] = super::post(
        "/subnets",
        r#"{"subnet": {"network_id": "$n", "ip_version": 4, "cidr": "10.9.0.0/24"}}"#,
    )
    .by(Demo);
    steps[5] = new_server().by(Demo);
    steps.extend([
        server_action(r#"{"lock": {"locked_reason": "do not touch"}}"#).by(Demo),
        get("/servers/$s")
            .by(Demo)
            .shows("/server/locked", "true")
            .shows("/server/locked_reason", r#""do not touch""#),
        locked(delete("/servers/$s")),
        locked(server_action(r#"{"os-stop": null}"#)),
        locked(server_action(r#"{"forceDelete": null}"#)),
        super::get("/ports?device_id=$s").by(Demo).save("p"),
        locked(delete("/servers/$s/os-interface/$p")),
        server_action(r#"{"unlock": null}"#).by(Demo),
        server_action(r#"{"lock": null}"#),
        server_action(r#"{"unlock": null}"#).by(Demo).refuses(403, FORBIDDEN, "Policy doesn't allow os_compute_api:os-lock-server:unlock:unlock_override to be performed."),
        super::delete("/ports/$p").by(Demo).refuses(403, "PolicyNotAuthorized", "rule:delete_port is disallowed by policy"),
        delete("/servers/$s"),
        gone(),
    ]);
    steps
}

fn server_states() -> Vec<Step> {
    scene(vec![
        server(),
        vec![
            server_action(r#"{"restore": null}"#).refuses(
                409,
                CONFLICT,
                "Cannot 'restore' instance $s while it is in vm_state active",
            ),
            server_action(r#"{"os-stop": null}"#),
            get("/servers/$s")
                .shows("/server/status", r#""SHUTOFF""#)
                .eventually(),
            server_action(r#"{"os-start": null}"#),
            active(),
            server_action(r#"{"os-resetState": {"state": "error"}}"#)
                .by(Demo)
                .refuses(404, NOT_FOUND, SERVER_GONE),
            server_action(r#"{"os-resetState": {"state": "error"}}"#),
            get("/servers/$s").shows("/server/status", r#""ERROR""#),
            server_action(r#"{"forceDelete": null}"#),
            server_action(r#"{"forceDelete": null}"#),
            server_action(r#"{"os-stop": null}"#).refuses(
                409,
                CONFLICT,
                "Cannot 'stop' instance $s while it is in task_state deleting",
            ),
            gone(),
        ],
    ])
}

fn server_ports() -> Vec<Step> {
    let interface = |body| post("/servers/$s/os-interface", body).status(200);
    let detach = || delete("/servers/$s/os-interface/$p").status(202);
    let free = || {
        super::get("/ports/$p")
            .shows("/port/device_id", r#""""#)
            .shows("/port/device_owner", r#""""#)
            .shows("/port/binding:vif_type", r#""unbound""#)
            .eventually()
    };
    scene(vec![
        network_image_and_flavor(),
        vec![
            super::post("/ports", r#"{"port": {"network_id": "$n"}}"#).save("p"),
            post("/servers", r#"{"server": {"name": "web", "imageRef": "$i", "flavorRef": "$f", "networks": [{"port": "$p"}]}}"#)
                .status(202)
                .save("s"),
            active(),
            super::get("/ports/$p")
                .shows("/port/device_id", r#""$s""#)
                .shows("/port/binding:vif_type", r#""ovs""#),
            detach(),
            free(),
            detach(),
            interface(r#"{"interfaceAttachment": {"port_id": "$p"}}"#),
            super::get("/ports/$p").shows("/port/device_id", r#""$s""#),
            interface(r#"{"interfaceAttachment": {"net_id": "$n"}}"#)
                .shows("/interfaceAttachment/net_id", r#""$n""#)
                .save("own"),
            delete("/servers/$s/os-interface/$own.port_id").status(202),
            super::get("/ports/$own.port_id")
                .refuses(404, "PortNotFound", "Port $own.port_id could not be found.")
                .eventually(),
            interface(r#"{"interfaceAttachment": {"net_id": "$n"}}"#).save("own"),
            super::delete("/ports/$own.port_id"),
            delete("/servers/$s"),
            gone(),
            free(),
        ],
    ])
}

fn server_volumes() -> Vec<Step> {
    let attach = |body| post("/servers/$s/os-volume_attachments", body).status(200);
    let detach = || delete("/servers/$s/os-volume_attachments/$v");
    let kept = r#"{"volumeAttachment": {"volumeId": "$v"}}"#;
    scene(vec![
        server(),
        vec![
            volume("POST", "/volumes").body(r#"{"volume": {"size": 1, "name": "kept"}}"#).status(202).save("v"),
            volume_is(r#""available""#),
            volume("POST", "/volumes").body(r#"{"volume": {"size": 1, "name": "goes"}}"#).status(202).save("w"),
            volume("GET", "/volumes/$w").shows("/volume/status", r#""available""#).eventually(),
            detach().refuses(404, NOT_FOUND, "Instance $s is not attached to volume $v"),
            attach(kept),
            volume_is(r#""in-use""#).shows("/volume/attachments/0/server_id", r#""$s""#),
            get("/servers/$s/os-volume_attachments")
                .keys("/volumeAttachments/0", "attachment_id bdm_uuid delete_on_termination device serverId tag volumeId")
                .shows("/volumeAttachments/0/device", r#""/dev/sdb""#),
            detach().status(202),
            volume_is(r#""available""#).shows("/volume/attachments", "[]"),
            detach().refuses(404, NOT_FOUND, "Instance $s is not attached to volume $v"),
            attach(kept),
            volume_is(r#""in-use""#),
            attach(r#"{"volumeAttachment": {"volumeId": "$w", "delete_on_termination": true}}"#),
            volume("GET", "/volumes/$w").shows("/volume/status", r#""in-use""#).eventually(),
            get("/servers/$s")
                .shows("/server/os-extended-volumes:volumes_attached/0", r#"{"id": "$v", "delete_on_termination": false}"#)
                .shows("/server/os-extended-volumes:volumes_attached/1", r#"{"id": "$w", "delete_on_termination": true}"#),
            volume("GET", "/attachments?volume_id=$v").save("a"),
            volume("DELETE", "/attachments/$a").refuses(409, CONFLICT, "ConflictNovaUsingAttachment: Detach volume from instance $s using the Compute API"),
            volume("POST", "/volumes/$v/action").body(r#"{"os-detach": {"attachment_id": "$a"}}"#).refuses(409, CONFLICT, "ConflictNovaUsingAttachment: Detach volume from instance $s using the Compute API"),
            delete("/servers/$s"),
            gone(),
            volume_is(r#""available""#).shows("/volume/attachments", "[]"),
            volume("GET", "/volumes/$w").refuses(404, NOT_FOUND, "Volume $w could not be found.").eventually(),
            // With `delete_on_termination`, Nova deletes a server's root volume after the server, unless the volume has
            // a snapshot.
            post("/servers", r#"{"server": {"name": "web", "flavorRef": "$f", "networks": "none", "block_device_mapping_v2": [{"uuid": "$i", "source_type": "image", "destination_type": "volume", "volume_size": 1, "boot_index": 0, "delete_on_termination": true}]}}"#)
                .status(202)
                .save("s"),
            active(),
            get("/servers/$s/os-volume_attachments").save("root"),
            delete("/servers/$s/os-volume_attachments/$root.volumeId").refuses(400, INVALID, "Cannot detach a root device volume"),
            volume("POST", "/snapshots").body(r#"{"snapshot": {"volume_id": "$root.volumeId", "force": true}}"#).status(202).save("snap"),
            volume("GET", "/snapshots/$snap").shows("/snapshot/status", r#""available""#).eventually(),
            delete("/servers/$s"),
            gone(),
            volume("GET", "/volumes/$root.volumeId").shows("/volume/status", r#""available""#).eventually(),
            volume("DELETE", "/volumes/$root.volumeId?cascade=true").status(202),
        ],
    ])
}

fn server_trunks() -> Vec<Step> {
    scene(vec![
        network_image_and_flavor(),
        vec![
            super::post("/ports", r#"{"port": {"network_id": "$n"}}"#).save("p"),
            super::post("/trunks", r#"{"trunk": {"port_id": "$p"}}"#).save("t"),
            post("/servers", r#"{"server": {"name": "web", "imageRef": "$i", "flavorRef": "$f", "networks": [{"port": "$p"}]}}"#)
                .status(202)
                .save("s"),
            active(),
            super::delete("/trunks/$t").refuses(409, "TrunkInUse", "Trunk $t is currently in use."),
            super::delete("/ports/$p").refuses(409, "PortInUseAsTrunkParent", "Port $p is currently a parent port for trunk $t."),
            delete("/servers/$s"),
            gone(),
            super::delete("/trunks/$t"),
        ],
    ])
}

fn server_lists() -> Vec<Step> {
    scene(vec![
        server(),
        vec![
            post("/servers", SERVER).status(202),
            get("/servers?name=web&limit=1").keys("/servers/0", "id links name"),
            get("/servers?limit=1").shows("/servers_links/0/rel", r#""next""#),
            get("/servers/detail?marker=$gone").refuses(400, INVALID, "marker [$gone] not found"),
            get("/servers/detail?all_tenants=1").by(Demo).refuses(403, FORBIDDEN, "Policy doesn't allow os_compute_api:servers:detail:get_all_tenants to be performed."),
            get("/servers?all_tenants=1").by(Demo).refuses(403, FORBIDDEN, "Policy doesn't allow os_compute_api:servers:index:get_all_tenants to be performed."),
            get("/servers/detail?all_tenants=1&project_id=$gone").shows("/servers", "[]"),
            get("/servers/detail?all_tenants=1&status=SOFT_DELETED").shows("/servers", "[]"),
            get("/servers/$s/nosuch").refuses(404, "", "The resource could not be found."),
        ],
    ])
}

fn server_request_bodies() -> Vec<Step> {
    scene(vec![
        network_image_and_flavor(),
        vec![
            post("/servers", "{}").refuses(400, INVALID, "*"),
            post("/servers", r#"{"server": {"name": "web", "imageRef": "$i", "networks": "none"}}"#).refuses(400, INVALID, "*"),
            post("/servers", r#"{"server": {"name": "web", "imageRef": "$i", "flavorRef": "$gone", "networks": "none"}}"#).refuses(400, INVALID, "*"),
            post("/servers", r#"{"server": {"name": "web", "imageRef": "$gone", "flavorRef": "$f", "networks": "none"}}"#).refuses(400, INVALID, "Can not find requested image"),
            post("/servers", r#"{"server": {"name": "web", "imageRef": "$i", "flavorRef": "$f", "networks": [{"port": "$gone"}]}}"#).refuses(400, INVALID, "*"),
            post("/servers", r#"{"server": {"name": "web", "imageRef": "$i", "flavorRef": "$f", "networks": "none", "color": "red"}}"#).refuses(400, INVALID, "*"),
        ],
    ])
}

fn keypairs_and_server_groups() -> Vec<Step> {
    let key = r#"{"keypair": {"name": "k", "type": "ssh", "public_key": "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIHUu5dVhRZ8gDqjWfjYqiJ4u0VQHwOxj6hb0xq2N9F4k x"}}"#;
    vec![
        post("/os-keypairs", key).save("k"),
        get("/os-keypairs/k").by(Demo).refuses(404, NOT_FOUND, "*"),
        delete("/os-keypairs/k"),
        delete("/os-keypairs/k").refuses(404, NOT_FOUND, "Keypair k not found for user $k.user_id"),
        post("/os-keypairs", key),
        delete("/os-keypairs/k")
            .header("openstack-api-version", "")
            .status(202),
        post(
            "/os-server-groups",
            r#"{"server_group": {"name": "g", "policy": "soft-anti-affinity"}}"#,
        )
        .status(200)
        .save("g"),
        get("/os-server-groups/$g")
            .keys(
                "/server_group",
                "id members name policy project_id rules user_id",
            )
            .shows("/server_group/policy", r#""soft-anti-affinity""#),
        get("/os-server-groups?offset=100").shows("/server_groups", "[]"),
        delete("/os-server-groups/$g").by(Demo).refuses(
            404,
            NOT_FOUND,
            "Instance group $g could not be found.",
        ),
        delete("/os-server-groups/$g"),
        delete("/os-server-groups/$g").refuses(
            404,
            NOT_FOUND,
            "Instance group $g could not be found.",
        ),
    ]
}
