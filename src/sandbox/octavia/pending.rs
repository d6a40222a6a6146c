//! The relations between the rows of a load balancer, and its pending changes: which rows a change involves, and how it
//! ends. The control call [`BalancerChange`] sets a status, or how long the next change takes and how it ends.
use chrono::TimeDelta;
use serde::Deserialize;
use uuid::Uuid;

use super::refused;
use crate::sandbox::core::{Course, End, Result, Row, Session, Store, refuse_if};

pub(super) const STATUS: &str = "provisioning_status";
const OPERATING: &str = "operating_status";

/// Octavia's `provisioning_status`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, strum::IntoStaticStr)]
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
    fn text(self) -> &'static str {
        self.into()
    }

    fn is_pending(self) -> bool {
        self.text().starts_with("PENDING_")
    }

    pub(super) fn is_of(self, row: &Row) -> bool {
        row.text(STATUS) == self.text()
    }

    pub(super) fn set_on(self, row: &mut Row) {
        row.set(STATUS, self.text());
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

/// Returns the balancer that contains a row, also if the balancer is deleted.
fn balancer_of<'s>(store: &'s Store, row: &'s Row) -> Option<&'s Row> {
    let mut row = row;
    while row.kind.name != BALANCER {
        row = parent_of(store, row)?;
    }
    Some(row)
}

/// Makes the balancer of a changed (or new) row pending, with the other rows that the change involves: the listener
/// itself unless it is new, the listeners that use a pool, the listener of a policy, the pool of a member or health
/// monitor with its listeners, the policy of a rule with its listener. Refuses the change unless the balancer, and the
/// pool or policy of a member, monitor or rule, is ACTIVE: a balancer takes one change at a time.
pub(super) fn begin_change(session: &mut Session<'_>, row: &Row, is_new: bool) -> Result<()> {
    let store = session.store();
    let parent = parent_of(store, row).ok_or_else(|| row.kind.missing(row.id))?;
    let mut touched = Vec::new();
    match row.kind.name {
        "listener" if !is_new => touched.push(("listener", row.id)),
        "pool" => touched.extend(listeners_of(store, row)),
        "l7policy" => touched.push(("listener", parent.id)),
        "member" | "health_monitor" => {
            check_settled(parent, "Pool")?;
            touched.extend(listeners_of(store, parent));
            touched.push(("pool", parent.id));
        }
        "l7rule" => {
            check_settled(parent, "L7Policy")?;
            touched.push(("l7policy", parent.id));
            touched.extend(parent.id_of("listener_id").map(|id| ("listener", id)));
        }
        _ => {}
    }
    let balancer = balancer_of(store, parent).ok_or_else(|| row.kind.missing(row.id))?;
    let id = balancer.id;
    if balancer.is_deleted || !Status::Active.is_of(balancer) {
        return Err(refused("Immutable", &[&"Load Balancer", &id]));
    }
    begin(session, id, Status::PendingUpdate);
    for (kind, id) in touched {
        set_status(session, kind, id, Status::PendingUpdate);
    }
    Ok(())
}

fn check_settled(row: &Row, title: &str) -> Result<()> {
    let is_pending = !Status::Active.is_of(row);
    refuse_if(is_pending, || refused("Immutable", &[&title, &row.id]))
}

/// Ends the change of a balancer and of the rows in it.
pub(super) fn settle(session: &mut Session<'_>, balancer: &Row) {
    let fails = balancer.end != End::Done;
    if balancer.is_deleting && !fails {
        session.remove(BALANCER, balancer.id);
        return;
    }
    let now = session.now;
    for (kind, id) in session.store().tree(balancer) {
        let Some(row) = session.get(kind, id) else {
            continue;
        };
        if row.is_deleting && !fails {
            session.remove(kind, id);
        } else if row.text(STATUS).starts_with("PENDING_") {
            session.edit(kind, id, |row| {
                let (status, operating) = match fails {
                    true => (Status::Error, "ERROR"),
                    false => (Status::Active, "ONLINE"),
                };
                status.set_on(row);
                row.set(OPERATING, operating);
                row.updated = Some(now);
                row.end = End::Done;
            });
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
        let is_pending = self.provisioning_status.is_none_or(Status::is_pending);
        if !is_pending && (self.for_s.is_some() || self.ends_in.is_some()) {
            return Err("provisioning_status: for_s and ends_in need a PENDING status".to_owned());
        }
        if self.ends_in.is_some() && self.for_s.is_none() {
            return Err("ends_in: needs for_s".to_owned());
        }
        let end = self.ends_in.map_or(End::Done, |_| End::Error);
        let now = session.now;
        session.edit(BALANCER, self.id, |row| match self.provisioning_status {
            Some(status) => {
                status.set_on(row);
                let seconds = self.for_s.map(|seconds| TimeDelta::seconds(seconds.into()));
                row.due = seconds.map(|seconds| now + seconds);
                row.end = end;
                row.next = None;
            }
            None => {
                let seconds = self.for_s;
                row.next = Some(Course { seconds, end });
            }
        });
        Ok(())
    }
}

pub(super) const BALANCER: &str = "load_balancer";

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

/// Lists the listeners that send to a pool: by default, or by an enabled policy with rules.
pub(super) fn listeners_of(store: &Store, pool: &Row) -> Vec<(&'static str, Uuid)> {
    let is_at_work = |policy: &&Row| {
        policy.flag("admin_state_up") && !children(store, policy, "l7rule").is_empty()
    };
    let by_default = store.of("listener", "default_pool_id", pool.id);
    let by_policy = store.of("l7policy", "redirect_pool_id", pool.id);
    let by_policy = by_policy
        .filter(is_at_work)
        .filter_map(|row| row.id_of("listener_id"));
    let mut found = Vec::new();
    for id in by_default.map(|listener| listener.id).chain(by_policy) {
        if !found.contains(&("listener", id)) {
            found.push(("listener", id));
        }
    }
    found
}
