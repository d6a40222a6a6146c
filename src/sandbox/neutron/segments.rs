//! Segments: each network has an initial one, and an admin may add more.

use http::StatusCode;
use serde_json::{Map, Value};
use uuid::Uuid;

use super::kind::{Attribute, F, Kind, Meta, P, Row, S, U, Unset, stored};
use super::networks::Network;
use super::revival::Renamed;
use super::store::Indexes;
use super::subnets::Subnet;
use super::{Scope, Session, body};
use crate::sandbox::wire::{Refusal, Result};

#[derive(Clone, Debug)]
pub(super) struct Segment {
    pub(super) meta: Meta,
    network: Uuid,
    number: u32,
}

static KIND: Kind = Kind {
    singular: "segment",
    plural: "segments",
    not_found: "SegmentNotFound",
    before: "Segment ",
    after: " could not be found.",
    bulk: false,
    first_revision: Some(0),
    forgets_marker: true,
    attributes: &[
        Attribute::new("id", F | S, Unset::Absent),
        Attribute::new("network_id", F | S | P, Unset::Absent),
        Attribute::new("name", F | S | P | U, Unset::Absent),
        Attribute::new("description", F | S | P | U, Unset::Absent),
        Attribute::new("physical_network", F | S | P, Unset::Null),
        Attribute::new("network_type", F | S | P, Unset::Text("vxlan")),
        Attribute::new("segmentation_id", F | S | P, Unset::Absent),
        Attribute::new("created_at", 0, Unset::Absent),
        Attribute::new("updated_at", 0, Unset::Absent),
        Attribute::new("revision_number", F, Unset::Absent),
    ],
};

impl Row for Segment {
    const KIND: &'static Kind = &KIND;

    stored!(segments, Segment);

    fn index(&self, indexes: &mut Indexes, present: bool) {
        indexes
            .segments_by_network
            .set(&self.network, self.meta.id, present);
    }

    fn attribute(&self, name: &str, _scope: &Scope<'_>) -> Option<Value> {
        Some(match name {
            "network_id" => self.network.to_string().into(),
            "segmentation_id" => self.number.into(),
            // The initial segment has no name or description.
            "name" if self.meta.name.is_empty() => Value::Null,
            "description" if self.meta.name.is_empty() => Value::Null,
            _ => return None,
        })
    }

    fn visible(&self, scope: &Scope<'_>) -> bool {
        scope.caller.admin
    }

    fn rename(&mut self, names: &Renamed) {
        names.swap(&mut self.network);
    }

    fn create(session: &mut Session<'_>, body: &Map<String, Value>) -> Result<Uuid> {
        if !session.caller.admin {
            return Err(session.forbidden("create_segment"));
        }
        let network = session.referred::<Network>(body, "network_id")?.meta.id;
        if !body.contains_key("network_type") {
            return Err(body::missing("network_type"));
        }
        let given = body.get("segmentation_id").and_then(Value::as_u64);
        let number = given.and_then(|number| u32::try_from(number).ok());
        let segment = Self {
            network,
            number: number.unwrap_or_else(|| session.next_segment()),
            meta: session.meta::<Self>(body)?,
        };
        Ok(session.insert(segment))
    }

    fn update(_: &mut Session<'_>, _: Uuid, _: &Map<String, Value>) -> Result<()> {
        Ok(())
    }

    /// Refuses if a subnet uses the segment. The message says so twice, as Neutron's does at least.
    fn deletable(&self, session: &mut Session<'_>) -> Result<()> {
        let id = self.meta.id;
        let store = session.store();
        let subnets = store.indexes().subnets_by_network.of(&self.network);
        let subnets: Vec<String> = subnets
            .filter(|subnet| {
                let subnet = store.get::<Subnet>(*subnet);
                subnet.is_some_and(|subnet| subnet.segment() == Some(id))
            })
            .map(|subnet| subnet.to_string())
            .collect();
        if subnets.is_empty() {
            return Ok(());
        }
        let why = format!(
            "Segment '{id}' cannot be deleted: The segment is still associated with subnet(s) {}.",
            subnets.join(", ")
        );
        Err(Refusal::new(
            StatusCode::CONFLICT,
            "SegmentInUse",
            format!("{why}\n{why}"),
        ))
    }

    fn delete(session: &mut Session<'_>, id: Uuid) {
        session.take::<Self>(id);
    }
}

/// Returns the initial segment of a network. Its id is derived from the network's, so that it takes none of
/// the ids of a seed.
pub(super) fn first_of(network: &Network) -> Segment {
    const OWN: u128 = 0x5e60_0000_0000;
    Segment {
        meta: Meta {
            id: Uuid::from_u128(network.meta.id.as_u128() ^ OWN),
            name: String::new(),
            description: String::new(),
            tags: Default::default(),
            revision: 0,
            more: Map::new(),
            ..network.meta.clone()
        },
        network: network.meta.id,
        number: network.segmentation_id,
    }
}
