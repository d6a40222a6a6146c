//! The scenes about volumes, and their snapshots, backups, attachments, transfers and groups.
use super::Caller::Demo;
use super::Service::BlockStorage;
use super::scenes::Scene;
use super::{Step, step};

pub const SCENES: &[Scene] = &[
    ("volumes", volumes),
    ("volume_snapshots", volume_snapshots),
    ("volume_backups", volume_backups),
    ("volume_attachments", volume_attachments),
    ("volume_transfers", volume_transfers),
    ("volume_groups", volume_groups),
    ("volume_lists", volume_lists),
    ("stuck_volumes", stuck_volumes),
];

const NOT_FOUND: &str = "itemNotFound";
const INVALID: &str = "badRequest";
const FORBIDDEN: &str = "forbidden";

const REFUSED: &str = "Invalid volume: Volume status must be available or error or error_restoring or error_extending or error_managing and must not be migrating, attached, belong to a group, have snapshots, awaiting a transfer, or be disassociated from snapshots after volume transfer.";
const FORCE_REFUSED: &str = "Invalid volume: Volume  must not be migrating, attached, belong to a group, have snapshots, awaiting a transfer, or be disassociated from snapshots after volume transfer.";
const SNAPSHOT_REFUSED: &str =
    "Invalid snapshot: Snapshot status must be available or error and must not be part of a group.";
const VOLUME_GONE: &str = "Volume $v could not be found.";

fn call(method: &'static str, path: &'static str) -> Step {
    let step = step(method, path).at(BlockStorage);
    step.header("openstack-api-version", "volume 3.70")
}

fn get(path: &'static str) -> Step {
    call("GET", path)
}

fn post(path: &'static str, body: &'static str) -> Step {
    call("POST", path).body(body).status(202)
}

fn delete(path: &'static str) -> Step {
    call("DELETE", path).status(202)
}

fn refused(step: Step) -> Step {
    step.refuses(400, INVALID, REFUSED)
}

/// Waits until the resource at a path has this status.
fn reaches(path: &'static str, pointer: &'static str, status: &'static str) -> Step {
    get(path).shows(pointer, status).eventually()
}

/// Waits until the resource at a path is available.
fn available(path: &'static str, pointer: &'static str) -> Step {
    reaches(path, pointer, r#""available""#)
}

fn volume_available() -> Step {
    available("/volumes/$v", "/volume/status")
}

/// Creates the volume `v`, and waits until it is available.
fn volume() -> Vec<Step> {
    vec![
        post("/volumes", r#"{"volume": {"size": 1, "name": "data"}}"#).save("v"),
        volume_available(),
    ]
}

/// Waits until a read of the path answers 404 with this message.
fn gone(path: &'static str, message: &'static str) -> Step {
    get(path).refuses(404, NOT_FOUND, message).eventually()
}

fn volumes() -> Vec<Step> {
    let mut steps = volume();
    steps.extend([
        get("/volumes/$v")
            .shows("/volume/attachments", "[]")
            .shows("/volume/group_id", "null")
            .shows("/volume/size", "1"),
        delete("/volumes/$v")
            .by(Demo)
            .refuses(404, NOT_FOUND, VOLUME_GONE),
        delete("/volumes/$v"),
        gone("/volumes/$v", VOLUME_GONE),
        delete("/volumes/$v").refuses(404, NOT_FOUND, VOLUME_GONE),
        delete("/volumes/nosuch").refuses(404, NOT_FOUND, "Volume nosuch could not be found."),
        delete("/volumes").refuses(404, "", "The resource could not be found."),
        post("/snapshots", r#"{"snapshot": {"volume_id": "$v"}}"#).refuses(
            404,
            NOT_FOUND,
            VOLUME_GONE,
        ),
    ]);
    steps
}

const SNAPSHOT: &str = r#"{"snapshot": {"volume_id": "$v", "name": "s", "force": true}}"#;

fn volume_snapshots() -> Vec<Step> {
    let mut steps = volume();
    let made = || available("/snapshots/$s", "/snapshot/status");
    steps.extend([
        post("/snapshots", SNAPSHOT).save("s"),
        made(),
        refused(delete("/volumes/$v")),
        delete("/volumes/$v?force=true").refuses(400, INVALID, FORCE_REFUSED),
        post(
            "/volumes",
            r#"{"volume": {"size": 1, "snapshot_id": "$s"}}"#,
        )
        .save("child"),
        available("/volumes/$child", "/volume/status"),
        delete("/snapshots/$s"),
        gone("/snapshots/$s", "Snapshot $s could not be found."),
        delete("/snapshots/$s").refuses(404, NOT_FOUND, "Snapshot $s could not be found."),
        post("/snapshots", SNAPSHOT).save("s"),
        made(),
        delete("/volumes/$v?cascade=true"),
        gone("/volumes/$v", VOLUME_GONE),
        gone("/snapshots/$s", "Snapshot $s could not be found."),
    ]);
    steps
}

fn volume_backups() -> Vec<Step> {
    let mut steps = volume();
    let made = |path| available(path, "/backup/status");
    steps.extend([
        post(
            "/backups",
            r#"{"backup": {"volume_id": "$v", "name": "full"}}"#,
        )
        .keys("/backup", "id links name")
        .save("b"),
        made("/backups/$b").shows("/backup/is_incremental", "false"),
        volume_available(),
        post(
            "/backups",
            r#"{"backup": {"volume_id": "$v", "name": "more", "incremental": true}}"#,
        )
        .save("i"),
        made("/backups/$i")
            .shows("/backup/is_incremental", "true")
            .shows("/backup/has_dependent_backups", "false"),
        get("/backups/$b").shows("/backup/has_dependent_backups", "true"),
        delete("/backups/$b").refuses(
            400,
            INVALID,
            "Invalid backup: Incremental backups exist for this backup.",
        ),
        volume_available(),
        delete("/volumes/$v"),
        gone("/volumes/$v", VOLUME_GONE),
        delete("/backups/$i"),
        gone("/backups/$i", "Backup $i could not be found."),
        delete("/backups/$b"),
        gone("/backups/$b", "Backup $b could not be found."),
    ]);
    steps
}

/// Attachments without a server; the scene `server_volumes` is about those of servers.
fn volume_attachments() -> Vec<Step> {
    let mut steps = volume();
    steps.extend([
        post(
            "/attachments",
            r#"{"attachment": {"volume_uuid": "$v", "instance_uuid": "$fresh"}}"#,
        )
        .status(200)
        .save("a"),
        get("/volumes/$v").shows("/volume/status", r#""reserved""#),
        refused(delete("/volumes/$v")),
        get("/attachments?volume_id=$v")
            .keys("/attachments/0", "id instance status volume_id")
            .shows("/attachments/0/status", r#""reserved""#),
        delete("/attachments/$a")
            .status(200)
            .shows("/attachments", "[]"),
        delete("/attachments/$a").refuses(
            404,
            NOT_FOUND,
            "Volume attachment could not be found with filter: attachment_id = $a.",
        ),
        volume_available(),
    ]);
    steps
}

fn volume_transfers() -> Vec<Step> {
    let mut steps = volume();
    steps.extend([
        post(
            "/os-volume-transfer",
            r#"{"transfer": {"volume_id": "$v", "name": "t"}}"#,
        )
        .save("t"),
        reaches("/volumes/$v", "/volume/status", r#""awaiting-transfer""#),
        refused(delete("/volumes/$v")),
        delete("/os-volume-transfer/$t"),
        delete("/os-volume-transfer/$t").refuses(404, NOT_FOUND, "Transfer $t could not be found."),
        volume_available(),
    ]);
    steps
}

fn volume_groups() -> Vec<Step> {
    let delete_group = |body| post("/groups/$g/action", body);
    vec![
        post("/group_types", r#"{"group_type": {"name": "gt-$fresh"}}"#).save("gt"),
        post("/types", r#"{"volume_type": {"name": "vt-$fresh", "extra_specs": {"volume_backend_name": "testbed"}}}"#)
            .status(200)
            .save("vt"),
        post("/groups", r#"{"group": {"name": "g", "group_type": "$gt", "volume_types": ["$vt"]}}"#).save("g"),
        available("/groups/$g", "/group/status"),
        post("/volumes", r#"{"volume": {"size": 1, "volume_type": "$vt", "group_id": "$g"}}"#).save("v"),
        volume_available(),
        refused(delete("/volumes/$v")),
        refused(delete("/volumes/$v?cascade=true")),
        delete_group(r#"{"delete": {"delete-volumes": false}}"#).refuses(400, INVALID, "Invalid Group: Group $g still contains volumes. The delete-volumes flag is required to delete it."),
        delete("/groups/$g").refuses(500, "computeFault", "The server has either erred or is incapable of performing the requested operation."),
        delete("/group_types/$gt").refuses(400, INVALID, "Target group type is still in use. Group Type $gt deletion is not allowed with groups present with the type."),
        delete("/types/$vt").refuses(400, INVALID, "Target volume type is still in use."),
        post("/group_snapshots", r#"{"group_snapshot": {"name": "gs", "group_id": "$g"}}"#).save("gs"),
        available("/group_snapshots/$gs", "/group_snapshot/status"),
        get("/snapshots/detail?volume_id=$v").save("s"),
        delete("/snapshots/$s").refuses(400, INVALID, SNAPSHOT_REFUSED),
        delete_group(r#"{"delete": {"delete-volumes": true}}"#).refuses(400, INVALID, "Invalid Group: Group has existing snapshots."),
        delete("/group_snapshots/$gs"),
        gone("/group_snapshots/$gs", "GroupSnapshot $gs could not be found."),
        gone("/snapshots/$s", "Snapshot $s could not be found."),
        delete("/group_snapshots/$gs").refuses(404, NOT_FOUND, "GroupSnapshot $gs could not be found."),
        delete_group(r#"{"delete": {"delete-volumes": true}}"#),
        gone("/groups/$g", "Group $g could not be found."),
        gone("/volumes/$v", VOLUME_GONE),
        delete_group(r#"{"delete": {"delete-volumes": true}}"#).refuses(404, NOT_FOUND, "Group $g could not be found."),
    ]
}

fn volume_lists() -> Vec<Step> {
    let mut steps = volume();
    steps.extend([
        post("/volumes", r#"{"volume": {"size": 1, "name": "more"}}"#),
        get("/volumes?name=data&limit=1").keys("/volumes/0", "id links name"),
        get("/volumes?limit=1").shows("/volumes_links/0/rel", r#""next""#),
        get("/volumes/detail?project_id=$demo").by(Demo).refuses(
            400,
            INVALID,
            "Invalid filters project_id are found in query options.",
        ),
        get("/volumes/detail?all_tenants=1&project_id=$gone").shows("/volumes", "[]"),
        get("/volumes/detail?nosuch=1").shows("/volumes", "[]"),
        get("/snapshots/detail?volume_id=$v").shows("/snapshots", "[]"),
        get("/backups/detail?volume_id=$v")
            .by(Demo)
            .shows("/backups", "[]"),
    ]);
    steps
}

fn stuck_volumes() -> Vec<Step> {
    let reset = |body| post("/volumes/$v/action", body);
    vec![
        post("/volumes", r#"{"volume": {"size": 1}}"#)
            .by(Demo)
            .save("v"),
        volume_available(),
        post("/volumes/$v/action", r#"{"os-force_delete": {}}"#).by(Demo).refuses(403, FORBIDDEN, "Policy doesn't allow volume_extension:volume_admin_actions:force_delete to be performed."),
        delete("/volumes/$v?force=true").by(Demo).refuses(403, FORBIDDEN, "Policy doesn't allow volume:force_delete to be performed."),
        reset(r#"{"os-reset_status": {"status": "error"}}"#).by(Demo).refuses(403, FORBIDDEN, "Policy doesn't allow volume_extension:volume_admin_actions:reset_status to be performed."),
        reset(r#"{"os-reset_status": {"status": "error_deleting"}}"#),
        refused(delete("/volumes/$v")),
        reset(r#"{"os-reset_status": {"status": "available"}}"#),
        volume_available(),
        reset(r#"{"os-reset_status": {"status": "maintenance"}}"#),
        refused(delete("/volumes/$v")),
        delete("/volumes/$v?force=true"),
        gone("/volumes/$v", VOLUME_GONE),
    ]
}
