//! The relations between the rows of a load balancer, and its pending changes: which rows a change involves, and how it
//! ends. The control call [`BalancerChange`] sets a status, or how long the next change takes and how it ends.
use serde::Deserialize;
use uuid::Uuid;

use super::refused;
use crate::sandbox::core::{Course, End, Result, Row, Session, Store, refuse_if};

pub(super) const BALANCER: &str = "load_balancer";
pub(super) const STATUS: &str = "provisioning_status";

/// Octavia's `provisioning_status`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, strum::AsRefStr)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
#[strum(serialize_all = "SCREAMING_SNAKE_CASE")]
pub(super) enum Status {
    Active,
    Error,
    PendingCreate,
    PendingUpdate,
    PendingDelete,
}

impl Status {
    pub(super) fn is_of(self, row: &Row) -> bool {
        row.text(STATUS) == self.as_ref()
    }

    fn set_on(self, row: &mut Row) {
        row.set(STATUS, self.as_ref());
        row.is_deleting = self == Self::PendingDelete;
    }
}

/// Gives a row a status.
pub(super) fn set_status(session: &mut Session<'_>, kind: &str, id: Uuid, status: Status) {
    let now = session.now;
    session.edit(kind, id, |row| {
        status.set_on(row);
        row.updated = Some(now);
    });
}

/// Makes a balancer pending until the change is done.
pub(super) fn begin(session: &mut Session<'_>, balancer: Uuid, status: Status) {
    set_status(session, BALANCER, balancer, status);
    session.begin(BALANCER, balancer);
}

/// Makes the balancer of a changed (or new) row pending, with the other rows that the change involves: the row itself,
/// the rows in the balancer that contain it, and the listeners that use a pool among all these. Refuses the change
/// unless the balancer, and the pool or policy of a member, monitor or rule, is ACTIVE: a balancer takes one change at
/// a time.
pub(super) fn begin_change(session: &mut Session<'_>, row: &Row) -> Result<()> {
    let store = session.store();
    let mut touched = Vec::new();
    let mut part = row;
    while part.kind.name != BALANCER {
        touched.push((part.kind.name, part.id));
        let listeners = listeners_of(store, part).into_iter();
        touched.extend(listeners.map(|id| ("listener", id)));
        part = parent_of(store, part).ok_or_else(|| row.kind.missing(row.id))?;
        let title = match part.kind.name {
            BALANCER => "Load Balancer",
            "pool" => "Pool",
            "l7policy" => "L7Policy",
            _ => continue,
        };
        let is_settled = !part.is_deleted && Status::Active.is_of(part);
        refuse_if(!is_settled, || refused("Immutable", &[&title, &part.id]))?;
    }
    let balancer = part.id;
    begin(session, balancer, Status::PendingUpdate);
    for (kind, id) in touched {
        set_status(session, kind, id, Status::PendingUpdate);
    }
    Ok(())
}

/// Ends the change of a balancer and of the rows in it.
pub(super) fn settle(session: &mut Session<'_>, balancer: &Row) {
    let fails = balancer.end != End::Done;
    let (status, operating) = match fails {
        true => (Status::Error, "ERROR"),
        false => (Status::Active, "ONLINE"),
    };
    for (kind, id) in session.store().tree(balancer) {
        // A row that was removed with its parent is missing.
        let row = session.get(kind, id);
        if row.is_some_and(|row| row.is_deleting && !fails) {
            session.remove(kind, id);
        } else if row.is_some_and(|row| row.text(STATUS).starts_with("PENDING_")) {
            set_status(session, kind, id, status);
            session.edit(kind, id, |row| row.set("operating_status", operating));
        }
    }
}

/// The body of `PUT /sandbox/v1/balancers`.
///
/// With `provisioning_status` the balancer takes that status at once. A PENDING status lasts for `for_s` seconds,
/// or without `for_s` until the next such call; then it ends as usual, or in `ends_in`. Without
/// `provisioning_status`, `for_s` and `ends_in` apply to the balancer's next change.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::sandbox) struct BalancerChange {
    /// The balancer's region; the first region when missing.
    pub(in crate::sandbox) region: Option<String>,
    id: Uuid,
    provisioning_status: Option<Status>,
    for_s: Option<u32>,
    ends_in: Option<Unusual>,
}

/// An unusual end of a change.
#[derive(Clone, Copy, Debug, Deserialize)]
enum Unusual {
    #[serde(rename = "ERROR")]
    Error,
}

impl BalancerChange {
    /// Gives a balancer another status, or sets the course of its next change.
    pub(in crate::sandbox) fn apply(&self, session: &mut Session<'_>) -> Result<(), String> {
        if session.get(BALANCER, self.id).is_none() {
            return Err(format!("id: no load balancer {}", self.id));
        }
        let status = self.provisioning_status;
        let is_pending = status.is_none_or(|status| status.as_ref().starts_with("PENDING_"));
        let is_timed = self.for_s.is_some() || self.ends_in.is_some();
        if is_timed && !is_pending {
            return Err("provisioning_status: for_s and ends_in need a PENDING status".to_owned());
        }
        if self.ends_in.is_some() && self.for_s.is_none() {
            return Err("ends_in: needs for_s".to_owned());
        }
        let seconds = self.for_s;
        let end = self.ends_in.map_or(End::Done, |_| End::Error);
        session.edit(BALANCER, self.id, |row| {
            row.next = Some(Course { seconds, end });
            if let Some(status) = status {
                status.set_on(row);
            }
        });
        if status.is_some() {
            session.begin(BALANCER, self.id);
        }
        Ok(())
    }
}

/// Returns the parent of a row, also if the parent is deleted.
pub(super) fn parent_of<'s>(store: &'s Store, row: &Row) -> Option<&'s Row> {
    let parent = row.kind.parent?;
    store.find(parent.kind, row.id_of(parent.attribute)?)
}

/// Lists the children of a row, of one kind, oldest first.
pub(super) fn children<'s>(store: &'s Store, parent: &Row, kind: &str) -> Vec<&'s Row> {
    let taken = parent.kind.takes.iter().find(|taken| taken.kind == kind);
    let attribute = taken.map_or("", |taken| taken.attribute);
    let mut found: Vec<&Row> = store.of(kind, attribute, parent.id).collect();
    found.sort_by_key(|row| row.number);
    found
}

/// Lists the listeners that send requests to a pool: by default, or by an enabled policy with rules.
pub(super) fn listeners_of(store: &Store, pool: &Row) -> Vec<Uuid> {
    let is_at_work = |policy: &&Row| {
        policy.flag("admin_state_up") && !children(store, policy, "l7rule").is_empty()
    };
    let by_policy = store.of("l7policy", "redirect_pool_id", pool.id);
    let by_policy = by_policy.filter(is_at_work);
    let mut found = store.ids("listener", "default_pool_id", pool.id);
    for id in by_policy.filter_map(|policy| policy.id_of("listener_id")) {
        if !found.contains(&id) {
            found.push(id);
        }
    }
    found
}
