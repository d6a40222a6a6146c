//! Servers: how they are created, deleted and shown; and the flavors, keypairs and groups that they name.
use chrono::TimeDelta;
use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::devices::{DISK, PORT, rows_of};
use super::states::{
    DELETING, SERVER_KIND, STATUS, TASK, VM_STATE, begin, begin_deletion, check_unlocked, set_state,
};
use super::{actions, devices, refused};
use crate::sandbox::core::{Answer, Body, Call, End, Hooks, Result, Row, Session};

pub(super) const SERVER: Hooks = Hooks {
    create,
    deletable: |session, server| check_unlocked(session, server),
    delete: |session, server, _: &Call<'_>| {
        if server.text(STATUS) == "DELETED" {
            return Err(server.kind.missing(server.id));
        }
        match server.text(VM_STATE) {
            "soft-delete" => {}
            _ if session.options.soft_delete => begin(session, server, "soft-deleting"),
            _ => begin_deletion(session, server),
        }
        Ok(())
    },
    settle,
    show,
    act: actions::act,
    ..Hooks::NONE
};

/// Time for which a deleted server is still shown by its id.
const SHOWN_FOR: TimeDelta = TimeDelta::milliseconds(300);

fn create(session: &mut Session<'_>, mut server: Row, body: &Body) -> Result<Uuid> {
    let text = |name: &str| body.get(name).and_then(Value::as_str).unwrap_or_default();
    let flavor = session.named("compute_flavor", text("flavorRef"));
    flavor.map_err(|_| refused("UnknownFlavor", &[]))?;
    if !text("imageRef").is_empty() {
        let image = session.named("image", text("imageRef"));
        image.map_err(|_| refused("UnknownImage", &[]))?;
    }
    server.set("user_id", &*session.caller.user);
    for wanted in server.items("networks").to_vec() {
        devices::plug(session, &mut server, &wanted["port"], &wanted["uuid"])?;
    }
    devices::attach_disks(session, &server)?;
    let id = session.put(server.clone());
    begin(session, &server, "spawning");
    Ok(id)
}

fn settle(session: &mut Session<'_>, server: &Row) {
    let id = server.id;
    match (server.text(TASK), server.end) {
        _ if server.text(STATUS) == "DELETED" => session.remove(SERVER_KIND, id),
        (DELETING, End::Done) => {
            devices::release_all(session, server);
            set_state(session, id, "deleted");
            let due = session.now + SHOWN_FOR;
            session.edit(SERVER_KIND, id, |row| {
                row.is_deleting = true;
                row.due = Some(due);
            });
        }
        ("soft-deleting", End::Done) => set_state(session, id, "soft-delete"),
        (_, End::Done) => {
            set_state(session, id, "active");
            let at = server.time(session.now);
            session.edit(SERVER_KIND, id, |row| row.set("OS-SRV-USG:launched_at", at));
        }
        (_, End::PutBack) => set_state(session, id, server.text(VM_STATE)),
        (task, End::Error) => {
            let reason = match task {
                DELETING => refused("NotTerminated", &[]),
                _ => refused("NotBuilt", &[&id]),
            };
            set_state(session, id, "error");
            let (code, created) = (reason.status.as_u16(), server.time(session.now));
            let fault = json!({"code": code, "created": created, "message": reason.message});
            session.edit(SERVER_KIND, id, |row| row.set("fault", fault));
        }
    }
}

fn show(session: &Session<'_>, server: &Row, name: &str) -> Option<Value> {
    Some(match name {
        "created" => server.time(server.created).into(),
        "updated" => server.time(server.updated.unwrap_or(server.created)).into(),
        "image" => match server.text("imageRef") {
            "" => "".into(),
            id => json!({"id": id, "links": []}),
        },
        "flavor" => {
            let id = server.text("flavorRef");
            let mut flavors = session.store.list_by_text("compute_flavor", "id", id);
            let flavor = flavors.next()?;
            json!({
                "original_name": flavor.value("name"),
                "ram": flavor.value("ram"),
                "vcpus": flavor.value("vcpus"),
                "disk": flavor.value("disk"),
                "ephemeral": 0,
                "swap": 0,
                "extra_specs": {},
            })
        }
        "addresses" => addresses(session, server),
        "os-extended-volumes:volumes_attached" => {
            let disks = rows_of(session, DISK, server.id).into_iter();
            let shown = |disk: Row| {
                let deletes = disk.flag("delete_on_termination");
                json!({"id": disk.value("volume_id"), "delete_on_termination": deletes})
            };
            disks.map(shown).collect()
        }
        "security_groups" if server.get(name).is_none() => json!([{"name": "default"}]),
        "OS-EXT-SRV-ATTR:instance_name" => format!("instance-{:08x}", server.number).into(),
        _ => return None,
    })
}

/// Returns the addresses of a server's ports by the names of their networks.
fn addresses(session: &Session<'_>, server: &Row) -> Value {
    let mut shown: Map<String, Value> = Map::new();
    for port in rows_of(session, PORT, server.id) {
        let network = session.store.referred(&port, "network_id", "network");
        let name = network.map_or("", |network| network.text("name"));
        let list = shown.entry(name).or_insert_with(|| json!([]));
        for address in port.items("fixed_ips") {
            let text = address["ip_address"].as_str().unwrap_or_default();
            let version = if text.contains(':') { 6 } else { 4 };
            if let Some(list) = list.as_array_mut() {
                list.push(json!({
                    "version": version,
                    "addr": text,
                    "OS-EXT-IPS:type": "fixed",
                    "OS-EXT-IPS-MAC:mac_addr": port.value("mac_address"),
                }));
            }
        }
    }
    shown.into()
}

pub(super) const FLAVOR: Hooks = Hooks {
    create: |session, mut flavor, body| {
        let id = body.get("id").cloned();
        flavor.set("id", id.unwrap_or_else(|| json!(flavor.id)));
        Ok(session.put(flavor))
    },
    visible: |_, _| true,
    writable: |session, _| session.caller.is_admin,
    ..Hooks::NONE
};

pub(super) const SERVER_GROUP: Hooks = Hooks {
    create: put_with_user,
    ..Hooks::NONE
};

/// Keypairs, which belong to a user and not to a project.
pub(super) const KEYPAIR: Hooks = Hooks {
    create: put_with_user,
    visible: is_own_key,
    writable: is_own_key,
    ..Hooks::NONE
};

fn put_with_user(session: &mut Session<'_>, mut row: Row, _: &Body) -> Result<Uuid> {
    row.set("user_id", &*session.caller.user);
    Ok(session.put(row))
}

fn is_own_key(session: &Session<'_>, key: &Row) -> bool {
    *key.text("user_id") == *session.caller.user
}

/// The first minor microversion in which the answer to DELETE says that the keypair is gone (204).
const GONE_AT_ONCE: u32 = 2;

pub(super) fn delete_key(session: &mut Session<'_>, call: &Call<'_>, name: &str) -> Result<Answer> {
    let key = session.named("keypair", name);
    let key = key.map_err(|_| refused("UnknownKey", &[&name, &session.caller.user]))?;
    session.remove("keypair", key.id);
    let version = call.header("openstack-api-version").unwrap_or_default();
    let minor = version.rsplit('.').next().unwrap_or_default();
    let is_gone =
        version.ends_with("latest") || minor.parse().is_ok_and(|it: u32| it >= GONE_AT_ONCE);
    Ok(Answer::empty(if is_gone { 204 } else { 202 }))
}
