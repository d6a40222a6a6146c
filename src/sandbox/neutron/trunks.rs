//! Trunks and their subports.

use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::interfaces::port_in_use;
use super::kind::{Attribute, F, Kind, Meta, P, Row, S, U, Unset, stored};
use super::ports::Port;
use super::store::Indexes;
use super::{Scope, Session, body};
use crate::sandbox::wire::{Refusal, Result};

#[derive(Clone, Debug)]
pub(super) struct Trunk {
    pub(super) meta: Meta,
    pub(super) port: Uuid,
    pub(super) admin_state_up: bool,
    pub(super) subports: Vec<Subport>,
}

#[derive(Clone, Debug)]
pub(super) struct Subport {
    pub(super) port: Uuid,
    pub(super) segmentation_type: String,
    pub(super) segmentation_id: u64,
}

static KIND: Kind = Kind {
    singular: "trunk",
    plural: "trunks",
    not_found: "TrunkNotFound",
    before: "Trunk ",
    after: " could not be found.",
    bulk: false,
    first_revision: Some(0),
    forgets_marker: true,
    attributes: &[
        Attribute::new("admin_state_up", F | S | P | U, Unset::Absent),
        Attribute::new("id", F | S, Unset::Absent),
        Attribute::new("project_id", F | S | P, Unset::Absent),
        Attribute::new("name", F | S | P | U, Unset::Absent),
        Attribute::new("port_id", F | S | P, Unset::Absent),
        Attribute::new("status", F | S, Unset::Text("DOWN")),
        Attribute::new("sub_ports", P, Unset::Absent),
        Attribute::new("revision_number", F, Unset::Absent),
        Attribute::new("description", F | P | U, Unset::Absent),
        Attribute::new("created_at", 0, Unset::Absent),
        Attribute::new("updated_at", 0, Unset::Absent),
        Attribute::new("tenant_id", F | S | P, Unset::Absent),
        Attribute::new("tags", F, Unset::Absent),
    ],
};

impl Row for Trunk {
    const KIND: &'static Kind = &KIND;

    stored!(trunks, Trunk);

    fn index(&self, indexes: &mut Indexes, present: bool) {
        indexes
            .trunks_by_parent
            .set(&self.port, self.meta.id, present);
        for subport in &self.subports {
            indexes
                .trunks_by_subport
                .set(&subport.port, self.meta.id, present);
        }
    }

    fn attribute(&self, name: &str, _scope: &Scope<'_>) -> Option<Value> {
        Some(match name {
            "admin_state_up" => self.admin_state_up.into(),
            "port_id" => self.port.to_string().into(),
            "sub_ports" => self.subports_shown(),
            _ => return None,
        })
    }

    fn create(session: &mut Session<'_>, body: &Map<String, Value>) -> Result<Uuid> {
        let port = session.referred::<Port>(body, "port_id")?;
        let indexes = session.store().indexes();
        if indexes.trunks_by_parent.has(&port.meta.id)
            || indexes.trunks_by_subport.has(&port.meta.id)
        {
            return Err(Refusal::conflict(
                "ParentPortInUse",
                format!(
                    "Port {} is currently in use and is not eligible for use as a parent port.",
                    port.meta.id
                ),
            ));
        }
        let trunk = Self {
            port: port.meta.id,
            admin_state_up: body::flag(body, "admin_state_up")?.unwrap_or(true),
            subports: Vec::new(),
            meta: session.meta::<Self>(body)?,
        };
        let id = session.insert(trunk);
        if let Some(Value::Array(wanted)) = body.get("sub_ports") {
            add(session, id, wanted)?;
        }
        Ok(id)
    }

    fn update(session: &mut Session<'_>, id: Uuid, body: &Map<String, Value>) -> Result<()> {
        let admin_state_up = body::flag(body, "admin_state_up")?;
        session.edit(id, |trunk: &mut Self| {
            trunk.admin_state_up = admin_state_up.unwrap_or(trunk.admin_state_up);
        });
        Ok(())
    }

    /// A disabled trunk cannot be deleted; one with subports can.
    fn deletable(&self, _session: &mut Session<'_>) -> Result<()> {
        self.enabled()
    }

    fn delete(session: &mut Session<'_>, id: Uuid) {
        session.take::<Self>(id);
    }
}

impl Trunk {
    fn subports_shown(&self) -> Value {
        self.subports
            .iter()
            .map(|sub| {
                json!({
                    "port_id": sub.port,
                    "segmentation_type": sub.segmentation_type,
                    "segmentation_id": sub.segmentation_id,
                })
            })
            .collect()
    }

    fn enabled(&self) -> Result<()> {
        if self.admin_state_up {
            return Ok(());
        }
        Err(Refusal::conflict(
            "TrunkDisabled",
            format!("Trunk {} is currently disabled.", self.meta.id),
        ))
    }
}

/// Answers `GET /trunks/{id}/get_subports`.
pub(super) fn subports(session: &Session<'_>, id: Uuid) -> Result<Value> {
    Ok(json!({"sub_ports": session.row::<Trunk>(id)?.subports_shown()}))
}

/// Handles `PUT /trunks/{id}/add_subports` and `remove_subports`: answers the bare trunk. Neither raises the
/// revision number.
pub(super) fn act(
    session: &mut Session<'_>,
    id: Uuid,
    action: &str,
    body: &Value,
) -> Result<Value> {
    let wanted = body.get("sub_ports").and_then(Value::as_array);
    let Some(wanted) = wanted else {
        return Err(session.internal_error());
    };
    match action {
        // The subports are validated before the trunk's state.
        "add_subports" => add(session, id, wanted)?,
        "remove_subports" => {
            session.row::<Trunk>(id)?.enabled()?;
            remove(session, id, wanted)?;
        }
        _ => return Err(session.no_such_path()),
    }
    Ok(session.shown::<Trunk>(id))
}

fn add(session: &mut Session<'_>, id: Uuid, wanted: &[Value]) -> Result<()> {
    let mut added: Vec<Subport> = Vec::new();
    for one in wanted {
        let text = one
            .get("port_id")
            .and_then(Value::as_str)
            .unwrap_or_default();
        let (Some(kind), Some(number)) = (
            one.get("segmentation_type").and_then(Value::as_str),
            one.get("segmentation_id").and_then(Value::as_u64),
        ) else {
            return Err(Refusal::bad_request(
                "InvalidInput",
                format!(
                    "Invalid input for operation: Invalid subport details '{{'port_id': '{text}'}}': missing \
                     segmentation information. Must specify both segmentation_id and segmentation_type."
                ),
            ));
        };
        let port = session.named::<Port>(text)?;
        let indexes = session.store().indexes();
        if indexes.trunks_by_subport.has(&port.meta.id)
            || indexes.trunks_by_parent.has(&port.meta.id)
        {
            return Err(Refusal::conflict(
                "TrunkPortInUse",
                format!("Port {text} is in use by another trunk."),
            ));
        }
        if !port.device_id.is_empty() {
            return Err(port_in_use(port));
        }
        added.push(Subport {
            port: port.meta.id,
            segmentation_type: kind.to_owned(),
            segmentation_id: number,
        });
    }
    let trunk = session.row::<Trunk>(id)?;
    trunk.enabled()?;
    let mut subports = trunk.subports.clone();
    for sub in added {
        let twice = subports.iter().any(|other| {
            other.segmentation_id == sub.segmentation_id
                && other.segmentation_type == sub.segmentation_type
        });
        if twice {
            return Err(Refusal::conflict(
                "DuplicateSubPort",
                format!(
                    "segmentation_type {} and segmentation_id {} already in use on trunk {id}.",
                    sub.segmentation_type, sub.segmentation_id
                ),
            ));
        }
        subports.push(sub);
    }
    session.edit(id, |trunk: &mut Trunk| trunk.subports = subports);
    Ok(())
}

fn remove(session: &mut Session<'_>, id: Uuid, wanted: &[Value]) -> Result<()> {
    let mut subports = session.row::<Trunk>(id)?.subports.clone();
    for one in wanted {
        let text = one
            .get("port_id")
            .and_then(Value::as_str)
            .unwrap_or_default();
        let before = subports.len();
        subports.retain(|sub| sub.port.to_string() != text);
        if subports.len() == before {
            return Err(Refusal::not_found(
                "SubPortNotFound",
                format!("SubPort {text} on trunk {id} could not be found."),
            ));
        }
    }
    session.edit(id, |trunk: &mut Trunk| trunk.subports = subports);
    Ok(())
}
