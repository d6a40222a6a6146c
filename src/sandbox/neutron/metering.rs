//! Metering labels and their rules. Only admins create and delete them.
use serde_json::{Map, Value};
use uuid::Uuid;

use super::kind::{Attribute, F, Kind, Meta, P, Row, S, Unset, stored};
use super::revival::Renamed;
use super::{Scope, Session};
use crate::sandbox::wire::Result;

#[derive(Clone, Debug)]
pub(super) struct MeteringLabel {
    pub(super) meta: Meta,
}

static LABEL: Kind = Kind {
    singular: "metering_label",
    plural: "metering_labels",
    not_found: "MeteringLabelNotFound",
    before: "Metering label '",
    after: "' does not exist.",
    bulk: true,
    first_revision: None,
    forgets_marker: true,
    attributes: &[
        Attribute::new("id", F | S, Unset::Absent),
        Attribute::new("name", F | S | P, Unset::Absent),
        Attribute::new("description", F | S | P, Unset::Absent),
        Attribute::new("shared", F | S | P, Unset::Flag(false)),
        Attribute::new("project_id", F | S | P, Unset::Absent),
        Attribute::new("tenant_id", F | S | P, Unset::Absent),
    ],
};

impl Row for MeteringLabel {
    const KIND: &'static Kind = &LABEL;

    stored!(metering_labels, MeteringLabel);

    fn attribute(&self, _name: &str, _scope: &Scope<'_>) -> Option<Value> {
        None
    }

    fn writable(&self, scope: &Scope<'_>) -> bool {
        scope.caller.admin
    }

    fn create(session: &mut Session<'_>, body: &Map<String, Value>) -> Result<Uuid> {
        if !session.caller.admin {
            return Err(session.forbidden("create_metering_label"));
        }
        let label = Self {
            meta: session.meta::<Self>(body)?,
        };
        Ok(session.insert(label))
    }

    fn update(_: &mut Session<'_>, _: Uuid, _: &Map<String, Value>) -> Result<()> {
        Ok(())
    }

    fn deletable(&self, _session: &mut Session<'_>) -> Result<()> {
        Ok(())
    }

    /// Deletes the label with its rules.
    fn delete(session: &mut Session<'_>, id: Uuid) {
        let all = session.store().all::<MeteringRule>().values();
        let rules: Vec<Uuid> = all
            .filter(|rule| rule.label == id)
            .map(|rule| rule.meta.id)
            .collect();
        for rule in rules {
            session.take::<MeteringRule>(rule);
        }
        session.take::<Self>(id);
    }
}

#[derive(Clone, Debug)]
pub(super) struct MeteringRule {
    pub(super) meta: Meta,
    label: Uuid,
}

static RULE: Kind = Kind {
    singular: "metering_label_rule",
    plural: "metering_label_rules",
    not_found: "MeteringLabelRuleNotFound",
    before: "Metering label rule '",
    after: "' does not exist.",
    bulk: false,
    first_revision: None,
    forgets_marker: true,
    attributes: &[
        Attribute::new("id", F | S, Unset::Absent),
        Attribute::new("metering_label_id", F | S | P, Unset::Absent),
        Attribute::new("direction", F | S | P, Unset::Text("ingress")),
        Attribute::new("remote_ip_prefix", F | S | P, Unset::Null),
        Attribute::new("source_ip_prefix", F | S | P, Unset::Null),
        Attribute::new("destination_ip_prefix", F | S | P, Unset::Null),
        Attribute::new("excluded", F | S | P, Unset::Flag(false)),
    ],
};

impl Row for MeteringRule {
    const KIND: &'static Kind = &RULE;

    stored!(metering_rules, MeteringRule);

    fn attribute(&self, name: &str, _scope: &Scope<'_>) -> Option<Value> {
        (name == "metering_label_id").then(|| self.label.to_string().into())
    }

    fn visible(&self, scope: &Scope<'_>) -> bool {
        scope.caller.admin
    }

    fn rename(&mut self, names: &Renamed) {
        names.swap(&mut self.label);
    }

    fn create(session: &mut Session<'_>, body: &Map<String, Value>) -> Result<Uuid> {
        if !session.caller.admin {
            return Err(session.forbidden("create_metering_label_rule"));
        }
        let rule = Self {
            label: session
                .referred::<MeteringLabel>(body, "metering_label_id")?
                .meta
                .id,
            meta: session.meta::<Self>(body)?,
        };
        Ok(session.insert(rule))
    }

    fn update(_: &mut Session<'_>, _: Uuid, _: &Map<String, Value>) -> Result<()> {
        Ok(())
    }

    fn deletable(&self, _session: &mut Session<'_>) -> Result<()> {
        Ok(())
    }

    fn delete(session: &mut Session<'_>, id: Uuid) {
        session.take::<Self>(id);
    }
}
