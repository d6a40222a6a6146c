//! Security groups with their rules, and the address groups that rules name.
use uuid::Uuid;

use super::refused;
use crate::sandbox::core::{Call, Hooks, Row, Session, Store, refuse_if, values};

const DEFAULT: &str = "default";

pub(super) const SECURITY_GROUP: Hooks = Hooks {
    create: |session, group, _| {
        let is_default = group.text("name") == DEFAULT;
        refuse_if(is_default, || {
            refused("SecurityGroupDefaultAlreadyExists", &[])
        })?;
        ensure_default(session, &group.project);
        Ok(put_with_rules(session, group, &["egress"]))
    },
    deletable: |session, group| {
        session.check_unblocked(group)?;
        let is_kept = group.text("name") == DEFAULT && !session.caller.is_admin;
        refuse_if(is_kept, || refused("SecurityGroupCannotRemoveDefault", &[]))
    },
    ..Hooks::NONE
};

/// Returns the project's default group, and creates it if it is missing.
pub(in crate::sandbox) fn ensure_default(session: &mut Session<'_>, project: &str) -> Uuid {
    let known = session
        .store()
        .list_by_text("security_group", "name", DEFAULT)
        .find(|group| group.text("name") == DEFAULT && *group.project == *project)
        .map(|group| group.id);
    known.unwrap_or_else(|| {
        let mut group = session.new_row("security_group", project);
        group.set("name", DEFAULT);
        group.set("description", "Default security group");
        put_with_rules(session, group, &["egress", "ingress"])
    })
}

/// Stores a new group with rules for these directions: with `egress` all traffic may leave, with `ingress` the group's
/// own ports may reach each other.
fn put_with_rules(session: &mut Session<'_>, group: Row, directions: &[&str]) -> Uuid {
    let project = group.project.clone();
    let id = session.put(group);
    for ethertype in ["IPv4", "IPv6"] {
        for direction in directions {
            let mut rule = session.new_row("security_group_rule", &project);
            rule.set("security_group_id", id.to_string());
            rule.set("direction", *direction);
            rule.set("ethertype", ethertype);
            if *direction == "ingress" {
                rule.set("remote_group_id", id.to_string());
            }
            session.put(rule);
        }
    }
    id
}

/// Creates the missing default groups of the projects that a list of groups covers, as Neutron does.
pub(super) fn create_missing_defaults(session: &mut Session<'_>, call: &Call<'_>) {
    let mut projects = vec![session.caller.project.to_string()];
    if session.caller.is_admin {
        let named = ["project_id", "tenant_id"].map(|name| values(call, name));
        projects.extend(named.into_iter().flatten());
    }
    for project in projects {
        ensure_default(session, &project);
    }
}

pub(super) const RULE: Hooks = Hooks {
    create: |session, rule, _| match equal_rule(session.store(), &rule) {
        Some(equal) => Err(refused("SecurityGroupRuleExists", &[&equal])),
        None => Ok(session.put(rule)),
    },
    ..Hooks::NONE
};

/// Returns the id of another rule of the same group with the same content.
fn equal_rule(store: &Store, rule: &Row) -> Option<Uuid> {
    const CONTENT: &str = "direction ethertype remote_group_id remote_address_group_id protocol \
                           port_range_min port_range_max remote_ip_prefix";
    let (_, group) = rule.parent()?;
    let mut others = store.of("security_group_rule", "security_group_id", group);
    let is_same = |other: &&Row| {
        let mut names = CONTENT.split(' ');
        names.all(|name| rule.value(name) == other.value(name))
    };
    others.find(is_same).map(|other| other.id)
}

pub(super) const ADDRESS_GROUP: Hooks = Hooks {
    create: |session, mut group, _| {
        // Neutron adds the addresses in a second step.
        group.revision = u64::from(!group.items("addresses").is_empty());
        Ok(session.put(group))
    },
    ..Hooks::NONE
};
