//! The end of pending changes, and the scenario's control over it.
use chrono::{DateTime, TimeDelta, Utc};
use serde::Deserialize;
use uuid::Uuid;

use super::Octavia;
use super::store::{Course, Root, Status};
use crate::sandbox::neutron::Neutron;

/// The body of `PUT /sandbox/v1/balancers`.
///
/// With `provisioning_status` the balancer takes that status at once; a PENDING one lasts for `for_s`
/// seconds, or until the next such call if that is missing. Then it ends as usual, or in `ends_in`. Without
/// `provisioning_status`, `for_s` and `ends_in` apply to the balancer's next change.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::sandbox) struct BalancerChange {
    /// The first region when missing.
    pub(in crate::sandbox) region: Option<String>,
    id: Uuid,
    provisioning_status: Option<Status>,
    for_s: Option<u32>,
    ends_in: Option<End>,
}

/// An unusual end of a change.
#[derive(Clone, Copy, Debug, Deserialize)]
enum End {
    #[serde(rename = "ERROR")]
    Error,
}

impl Octavia {
    /// Completes the changes that were due by `now`.
    pub(in crate::sandbox) fn settle(&mut self, neutron: &mut Neutron, now: DateTime<Utc>) {
        while let Some((at, balancer)) = self.store.first_due(now) {
            self.finish(balancer, at, neutron);
        }
    }

    pub(super) fn finish(&mut self, balancer: Uuid, at: DateTime<Utc>, neutron: &mut Neutron) {
        let Some(item) = self.store.get(balancer).cloned() else {
            return;
        };
        let fails = item.root.as_ref().is_some_and(|root| root.fails);
        if item.status == Status::PendingDelete && !fails {
            return self.remove_balancer(balancer, at, neutron);
        }
        for id in self.store.tree(balancer) {
            let status = self.store.get(id).map(|item| item.status);
            match status {
                Some(Status::PendingDelete) if !fails => {
                    self.remove(id);
                    self.bring_back(id, neutron);
                }
                Some(status) if status.is_pending() => self.store.edit(id, |item| {
                    item.status = if fails { Status::Error } else { Status::Active };
                    item.operating = if fails { "ERROR" } else { "ONLINE" };
                    item.updated = Some(at);
                    if let Some(root) = &mut item.root {
                        root.due = None;
                        root.fails = false;
                    }
                }),
                _ => {}
            }
        }
    }

    /// Removes a balancer. Its row stays, as deleted; its port goes unless it was the user's.
    fn remove_balancer(&mut self, balancer: Uuid, at: DateTime<Utc>, neutron: &mut Neutron) {
        let within = self.store.tree(balancer);
        for id in within.into_iter().filter(|id| *id != balancer) {
            self.store.take(id);
        }
        let mut owned = None;
        self.store.edit(balancer, |item| {
            item.status = Status::Deleted;
            item.updated = Some(at);
            if let Some(root) = &mut item.root {
                root.due = None;
                owned = root.vip.owned.then_some(root.vip.port);
            }
        });
        if let Some(port) = owned {
            neutron.delete_vip_port(port, at);
        }
        self.bring_back(balancer, neutron);
    }

    /// Removes a resource with its contents; listeners that used it as their default pool then have none.
    fn remove(&mut self, id: Uuid) {
        for inner in self.store.tree(id) {
            let Some(gone) = self.store.take(inner) else {
                continue;
            };
            for listener in super::view::users_of(&self.store, &gone) {
                self.store.edit(listener, |listener| {
                    let none = serde_json::Value::Null;
                    listener.values.insert("default_pool_id".to_owned(), none);
                });
            }
        }
    }

    /// Gives a balancer another status, or sets the course of its next change.
    pub(in crate::sandbox) fn direct(
        &mut self,
        change: &BalancerChange,
        now: DateTime<Utc>,
    ) -> Result<(), String> {
        let is_balancer = self
            .store
            .get(change.id)
            .is_some_and(|item| item.root.is_some());
        if !is_balancer {
            return Err(format!("id: no load balancer {}", change.id));
        }
        let pending = change.provisioning_status.is_none_or(Status::is_pending);
        if !pending && (change.for_s.is_some() || change.ends_in.is_some()) {
            return Err("provisioning_status: only a PENDING one ends".to_owned());
        }
        if change.ends_in.is_some() && change.for_s.is_none() {
            return Err("ends_in: needs for_s".to_owned());
        }
        let fails = change.ends_in.is_some();
        self.store.edit(change.id, |item| {
            if let Some(status) = change.provisioning_status {
                item.status = status;
            }
            let Some(root) = &mut item.root else {
                return;
            };
            let root: &mut Root = root;
            match change.provisioning_status {
                Some(_) => {
                    let seconds = change
                        .for_s
                        .map(|seconds| TimeDelta::seconds(seconds.into()));
                    root.due = seconds.map(|seconds| now + seconds);
                    root.fails = fails;
                    root.next = None;
                }
                None => {
                    root.next = Some(Course {
                        seconds: change.for_s,
                        fails,
                    });
                }
            }
        });
        Ok(())
    }
}
