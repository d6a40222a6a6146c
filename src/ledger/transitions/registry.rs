//! The registry: resources of our own kinds, and their references (`assets/contract.md`, "Kinds").

use chrono::{DateTime, Utc};

use super::refuse;
use crate::domain::kinds::IN_USE;
use crate::domain::model::{KindName, ResourceKey, short_id};
use crate::domain::native::{NativeReference, without};
use crate::ledger::events;
use crate::ledger::store::LedgerRows;
use crate::ledger::working_set::{Changing, WorkingSet};
use crate::ledger::{Applied, NewNative};

impl<S: LedgerRows> WorkingSet<S> {
    /// Adds a resource. Each identity has one row (M1): a resource that is re-created under the same id is another
    /// incarnation.
    pub fn add_native(&mut self, new: &NewNative) -> Changing<S, Applied> {
        let key = &new.key;
        if let Some(why) = self.why_locked(key)? {
            return refuse(why);
        }
        if self.store().load_native(key)?.is_some() {
            return refuse(format!("{key} exists already"));
        }
        self.check_references(&new.references)?;
        self.revive(key, &new.audit, new.now)?;
        let incarnation = self.tombstone(key)?.map_or(1, |it| it.incarnation);
        let num = self.store().insert_native(new, incarnation)?;
        self.store().insert_references(num, &new.references)?;
        self.record_written(new, "created")
    }

    /// Updates a resource. Stale if it does not exist, or was written since it was read.
    pub fn amend_native(
        &mut self,
        new: &NewNative,
        read_at: DateTime<Utc>,
    ) -> Changing<S, Applied> {
        if let Some(why) = self.why_locked(&new.key)? {
            return refuse(why);
        }
        let Some((num, before)) = self.store().load_native(&new.key)? else {
            return Ok(Applied::Stale);
        };
        if before.updated_at != read_at {
            return Ok(Applied::Stale);
        }
        let before = self.store().load_references(num)?;
        let is_new = |it: &&NativeReference| {
            let same = |(field, to): &(String, ResourceKey)| *field == it.field && *to == it.to;
            !before.iter().any(same)
        };
        let added: Vec<NativeReference> = new.references.iter().filter(is_new).cloned().collect();
        self.check_references(&added)?;
        self.store().save_fields(num, &new.fields, new.now)?;
        self.store().remove_references(num)?;
        self.store().insert_references(num, &new.references)?;
        self.record_written(new, "updated")
    }

    /// Deletes this incarnation of a resource. Stale if it does not exist; refused while a resource refers to it from
    /// one of the fields in `unless`.
    pub fn delete_native(
        &mut self,
        key: &ResourceKey,
        incarnation: u32,
        unless: &[(KindName, String)],
        now: DateTime<Utc>,
    ) -> Changing<S, Applied> {
        let keys = std::slice::from_ref(key);
        let referrers = self.store().find_referrers(keys, unless, 1)?;
        let referrers = referrers.into_iter().next().unwrap_or_default();
        if let Some(first) = referrers.named.first() {
            let more = match referrers.count {
                0 | 1 => String::new(),
                n => format!(", and {} more", n - 1),
            };
            return refuse(format!("{key} is in use: {} refers to it{more}", first.key));
        }
        let Some(num) = self.store().remove_native(key, incarnation)? else {
            return Ok(Applied::Stale);
        };
        let referred = self.store().load_references(num)?;
        self.store().remove_references(num)?;
        self.retry_unreferenced(referred.iter().map(|(_, to)| to), now)?;
        Ok(Applied::Done)
    }

    /// Removes references; a missing reference counts as removed. Stale if the resource does not exist.
    pub fn unset_native(
        &mut self,
        key: &ResourceKey,
        references: &[(String, ResourceKey)],
        now: DateTime<Utc>,
    ) -> Changing<S, Applied> {
        let Some((num, before)) = self.store().load_native(key)? else {
            return Ok(Applied::Stale);
        };
        let mut fields = before.fields.clone();
        for (field, to) in references {
            fields = without(fields, field, to, &key.site);
            self.store().remove_reference(num, field, to)?;
        }
        if fields != before.fields {
            self.store().save_fields(num, &fields, now)?;
        }
        self.retry_unreferenced(references.iter().map(|(_, to)| to), now)?;
        Ok(Applied::Done)
    }

    /// Retries the steps that were blocked or stuck because other resources referred to these resources.
    fn retry_unreferenced<'k>(
        &mut self,
        referred: impl Iterator<Item = &'k ResourceKey>,
        now: DateTime<Utc>,
    ) -> Changing<S> {
        for to in referred {
            for step in self.searched()?.find_live(std::slice::from_ref(to))? {
                self.retry_if_met(step, IN_USE, now)?;
            }
        }
        Ok(())
    }

    /// Returns why a resource can be neither created nor changed: it is being deleted (T17, M2). None if it is not.
    fn why_locked(&mut self, key: &ResourceKey) -> Changing<S, Option<String>> {
        if let Some((_, id)) = self.first_in_deletion(std::slice::from_ref(key))? {
            let short = short_id(&id);
            return Ok(Some(format!("{key} is being deleted by deletion {short}")));
        }
        // A resource that is gone may be created again (M1).
        let going = self.store().load_notice(key)?.filter(|it| !it.is_gone);
        Ok(going.map(|it| {
            let short = short_id(&it.deletion);
            let owner = it.owner;
            format!("{key} is being deleted by deletion {short} of deployment {owner}")
        }))
    }

    /// Refuses references to a resource that is being deleted (G10), that another deployment has deleted (T20),
    /// or that belongs to this deployment and does not exist.
    fn check_references(&mut self, references: &[NativeReference]) -> Changing<S> {
        for NativeReference { field, to, here } in references {
            if let Some(why) = self.why_locked(to)? {
                return refuse(format!("{field}: {why}"));
            }
            if *here {
                if self.store().load_native(to)?.is_none() {
                    return refuse(format!("{field}: there is no {to}"));
                }
            } else if let Some(gone) = self.store().load_notice(to)?.filter(|it| it.is_gone) {
                return refuse(format!(
                    "{field}: there is no {to}: it was deleted by deletion {} of deployment {}",
                    short_id(&gone.deletion),
                    gone.owner
                ));
            }
        }
        Ok(())
    }

    fn record_written(&mut self, new: &NewNative, what: &str) -> Changing<S, Applied> {
        let NewNative { key, audit, .. } = new;
        self.audit(audit, new.now);
        let draft = events::registry_written(key, what, &audit.actor.name);
        self.event(None, None, draft, new.now);
        Ok(Applied::Done)
    }
}
