//! Flavors, keypairs and server groups.
use uuid::Uuid;

use super::refused;
use crate::sandbox::core::{Answer, Body, Call, Hooks, Result, Row, Session};

pub(super) const FLAVOR: Hooks = Hooks {
    create: |session, mut flavor, body| {
        let id = body.get("id").cloned();
        let id = id.unwrap_or_else(|| flavor.id.to_string().into());
        flavor.set("id", id);
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
