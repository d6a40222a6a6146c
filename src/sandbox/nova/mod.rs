//! Nova v2.1 of one region.
//!
//! A server has ports of Neutron and volumes of Cinder, which are freed or deleted with it. To build, delete or restore
//! a server takes time and shows in its task state.
mod actions;
mod devices;
mod lists;
mod servers;
mod states;

use std::fmt::Display;
use std::sync::LazyLock;

use super::core::{Api, Call, Handled, Refusal, Session, Tables};

pub(super) static API: Api = Api {
    tables: LazyLock::new(|| Tables::read(include_str!("../../../assets/sandbox/compute.toml"))),
    hooks: &[
        ("compute_flavor", servers::FLAVOR),
        ("keypair", servers::KEYPAIR),
        ("server", servers::SERVER),
        ("server_group", servers::SERVER_GROUP),
    ],
    own,
    list_query: lists::list_query,
    page: lists::page,
    refuse: |refusal, _| refusal.fault(),
};

/// Returns the refusal with a name, from the service's file.
fn refused(name: &str, parts: &[&dyn Display]) -> Refusal {
    API.tables.service.refusal(name, parts)
}

fn own(session: &mut Session<'_>, call: &Call<'_>, path: &[&str]) -> Handled {
    match (call.method.as_str(), path) {
        ("DELETE", ["os-keypairs", name]) => servers::delete_key(session, call, name).map(Some),
        _ => Ok(None),
    }
}
