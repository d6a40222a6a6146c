//! Security groups with their rules, and the address groups that rules name.
use uuid::Uuid;

use super::refused;
use crate::sandbox::core::{Body, Call, Hooks, Result, Row, Session, Store, refuse_if};

const DEFAULT: &str = "default";

pub(super) const SECURITY_GROUP: Hooks = Hooks {
    create: create_group,
    deletable: |session, group| {
        session.check_unblocked(group)?;
        let is_kept = group.text("name") == DEFAULT && !session.caller.is_admin;
        refuse_if(is_kept, || refused("SecurityGroupCannotRemoveDefault", &[]))
    },
    show: |session, group, name| {
        (name == "security_group_rules").then(|| {
            let rules = session
                .store
                .of("security_group_rule", "security_group_id", group.id);
            rules.map(|rule| session.shown(rule, &[])).collect()
        })
    },
    ..Hooks::NONE
};

fn create_group(session: &mut Session<'_>, group: Row, _: &Body) -> Result<Uuid> {
    if group.text("name") == DEFAULT {
        return Err(refused("SecurityGroupDefaultAlreadyExists", &[]));
    }
    let project = group.project.clone();
    ensure_default(session, &project);
    let id = session.put(group);
    for ethertype in ["IPv4", "IPv6"] {
        put_rule(session, &project, id, "egress", ethertype, None);
    }
    Ok(id)
}

/// Returns the project's default group, and creates it if it is missing.
pub(in crate::sandbox) fn ensure_default(session: &mut Session<'_>, project: &str) -> Uuid {
    let known = session
        .store()
        .list_by_text("security_group", "name", DEFAULT)
        .find(|group| group.text("name") == DEFAULT && *group.project == *project)
        .map(|group| group.id);
    if let Some(id) = known {
        return id;
    }
    let mut group = session.new_row("security_group", project);
    group.set("name", DEFAULT);
    group.set("description", "Default security group");
    let id = session.put(group);
    for ethertype in ["IPv4", "IPv6"] {
        put_rule(session, project, id, "egress", ethertype, None);
        put_rule(session, project, id, "ingress", ethertype, Some(id));
    }
    id
}

/// Creates the missing default groups of the projects that a list of groups covers, as Neutron does.
pub(super) fn create_missing_defaults(session: &mut Session<'_>, call: &Call<'_>) {
    let mut projects = vec![session.caller.project.to_string()];
    if session.caller.is_admin {
        let named = call.query.iter().filter(|(key, value)| {
            matches!(key.as_str(), "project_id" | "tenant_id") && !value.is_empty()
        });
        projects.extend(named.map(|(_, value)| value.clone()));
    }
    for project in projects {
        ensure_default(session, &project);
    }
}

pub(super) const RULE: Hooks = Hooks {
    create: create_rule,
    delete: |session, rule, _| {
        session.remove("security_group_rule", rule.id);
        session.raise_revision("security_group", group_of(rule));
        Ok(())
    },
    ..Hooks::NONE
};

fn group_of(rule: &Row) -> Uuid {
    rule.id_of("security_group_id").unwrap_or_default()
}

fn put_rule(
    session: &mut Session<'_>,
    project: &str,
    group: Uuid,
    direction: &str,
    ethertype: &str,
    remote_group: Option<Uuid>,
) {
    let mut rule = session.new_row("security_group_rule", project);
    rule.set("security_group_id", group.to_string());
    rule.set("direction", direction);
    rule.set("ethertype", ethertype);
    if let Some(remote) = remote_group {
        rule.set("remote_group_id", remote.to_string());
    }
    session.put(rule);
}

fn create_rule(session: &mut Session<'_>, rule: Row, _: &Body) -> Result<Uuid> {
    if let Some(equal_rule) = equal_rule(session.store(), &rule) {
        return Err(refused("SecurityGroupRuleExists", &[&equal_rule]));
    }
    let group = group_of(&rule);
    let id = session.put(rule);
    session.raise_revision("security_group", group);
    Ok(id)
}

/// Returns the id of another rule of the same group with the same content.
fn equal_rule(store: &Store, rule: &Row) -> Option<Uuid> {
    const CONTENT: &str = "direction ethertype remote_group_id remote_address_group_id protocol \
                           port_range_min port_range_max remote_ip_prefix";
    let mut others = store.of("security_group_rule", "security_group_id", group_of(rule));
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
