//! Rows about other deployments.

use std::collections::BTreeSet;

use chrono::{DateTime, Utc};
use gone::domain::model::{KindName, Phase, ResourceKey};
use gone::domain::peers::{ClearanceAnswer, DeletionNotice, Deployment, PendingClearance};
use gone::ledger::store::{PeerReads, PeerRows, StoredNotice, TombstoneRow};
use gone::ledger::{UnhandledDeletion, WatchCursor};

use super::tables::PeerDeletion;
use super::{Answer, MemoryRows, Tables};

impl Tables {
    /// The ids of the steps after this one that have not ended and wait for the clearance of an importer.
    fn steps_awaiting(&self, importer: &str, after: i64) -> Vec<i64> {
        let awaited = self
            .pending_clearances
            .keys()
            .filter(|(by, _)| by == importer);
        let live = |step: &i64| self.steps.get(step).is_some_and(|it| it.ended_at.is_none());
        let steps = awaited.map(|(_, step)| *step);
        steps.filter(|step| *step > after && live(step)).collect()
    }

    /// The unhandled notices of resources that are being deleted, ordered by root and age.
    fn unhandled(&self) -> Vec<&PeerDeletion> {
        let all = self.peer_deletions.values();
        let unhandled =
            all.filter(|it| it.notice.phase == Phase::Deleting && it.handled_by.is_none());
        let mut unhandled: Vec<&PeerDeletion> = unhandled.collect();
        unhandled.sort_by_key(|it| (&it.notice.root, it.num));
        unhandled
    }
}

impl PeerReads for MemoryRows {
    fn load_importers(&self) -> Answer<Vec<(Deployment, DateTime<Utc>)>> {
        Ok(self.tables().importers.values().cloned().collect())
    }

    fn load_importer_kinds(&self) -> Answer<Vec<(KindName, String)>> {
        Ok(self.tables().importer_kinds.iter().cloned().collect())
    }

    fn count_pending_clearances(&self, importer: &str) -> Answer<u64> {
        Ok(self.tables().steps_awaiting(importer, 0).len() as u64)
    }

    fn find_pending_clearances(
        &self,
        importer: &str,
        after: i64,
        limit: usize,
    ) -> Answer<Vec<(i64, i64)>> {
        let tables = self.tables();
        let notified = |step: i64| {
            let record = tables.steps[&step].record;
            let mut notices = tables.notices.iter();
            let noted = notices.find(|(_, noted)| Some(**noted) == record);
            (step, noted.map_or(0, |(seq, _)| *seq))
        };
        let steps = tables.steps_awaiting(importer, after).into_iter();
        Ok(steps.take(limit).map(notified).collect())
    }

    fn load_pending(&self, step: i64) -> Answer<Vec<PendingClearance>> {
        let tables = self.tables();
        let pending = tables.pending_clearances.iter();
        let pending = pending.filter(|((_, awaiting), _)| *awaiting == step);
        let pending = pending.map(|((importer, _), said)| PendingClearance {
            importer: importer.clone(),
            said: said.clone(),
        });
        Ok(pending.collect())
    }

    fn load_watches(&self) -> Answer<Vec<WatchCursor>> {
        Ok(self.tables().watches.clone())
    }

    fn newest_notice(&self) -> Answer<i64> {
        Ok(self.tables().last_notice)
    }

    fn load_notices(
        &self,
        after: i64,
        kinds: &BTreeSet<KindName>,
        limit: usize,
    ) -> Answer<Vec<(i64, TombstoneRow)>> {
        let tables = self.tables();
        let notices = tables.notices.range(after + 1..);
        let notices = notices.filter_map(|(seq, record)| Some((*seq, tables.record(*record)?)));
        let notices = notices.filter(|(_, row)| kinds.contains(&row.key.kind));
        Ok(notices.take(limit).collect())
    }

    fn find_unhandled(&self, limit: usize) -> Answer<Option<UnhandledDeletion>> {
        let tables = self.tables();
        let unhandled = tables.unhandled();
        let Some(first) = unhandled.first() else {
            return Ok(None);
        };
        let (owner, root) = (first.owner.clone(), first.notice.root.clone());
        let its = unhandled
            .iter()
            .filter(|it| (&it.owner, &it.notice.root) == (&owner, &root));
        let keys = its.take(limit).map(|it| it.notice.key.clone()).collect();
        Ok(Some(UnhandledDeletion { owner, root, keys }))
    }

    fn find_handler(&self, key: &ResourceKey) -> Answer<Option<i64>> {
        let tables = self.tables();
        let handled_by = tables.peer_deletions.get(key).and_then(|it| it.handled_by);
        Ok(handled_by.filter(|num| *num > 0))
    }

    fn load_deleting_owners(&self) -> Answer<BTreeSet<String>> {
        let tables = self.tables();
        let deleting = tables
            .peer_deletions
            .values()
            .filter(|it| it.notice.is_under_way());
        Ok(deleting.map(|it| it.owner.clone()).collect())
    }
}

impl PeerRows for MemoryRows {
    fn insert_importer(&self, importer: &Deployment, now: DateTime<Utc>) -> Answer {
        let importers = &mut self.tables().importers;
        importers.insert(importer.name.clone(), (importer.clone(), now));
        Ok(())
    }

    fn remove_importer(&self, name: &str) -> Answer<Option<Vec<i64>>> {
        let tables = &mut *self.tables();
        if tables.importers.remove(name).is_none() {
            return Ok(None);
        }
        tables
            .importer_kinds
            .retain(|(_, importer)| importer != name);
        let mut waited = Vec::new();
        tables.pending_clearances.retain(|(importer, step), _| {
            if importer == name {
                waited.push(*step);
            }
            importer != name
        });
        Ok(Some(waited))
    }

    fn add_importer_kind(&self, kind: &KindName, importer: &str) -> Answer {
        let tables = &mut *self.tables();
        tables
            .importer_kinds
            .insert((kind.clone(), importer.to_owned()));
        let existing = tables.records_where(|key, row| {
            key.kind == *kind
                && matches!(row.phase, Phase::Checking | Phase::Deleting | Phase::Gone)
        });
        for row in existing {
            if !tables
                .notices
                .values()
                .any(|noted| *noted == row.now.record)
            {
                tables.notify_importers(row.now.record);
            }
        }
        let live = tables.steps_where(|it| {
            it.key.kind == *kind && it.ended_at.is_none() && it.action.takes_away()
        });
        for step in live {
            tables
                .pending_clearances
                .entry((importer.to_owned(), step))
                .or_default();
        }
        Ok(())
    }

    fn remove_importer_kind(&self, kind: &KindName, importer: &str) -> Answer {
        let kinds = &mut self.tables().importer_kinds;
        kinds.remove(&(kind.clone(), importer.to_owned()));
        Ok(())
    }

    fn save_answer(&self, importer: &str, step: i64, answer: &ClearanceAnswer) -> Answer<bool> {
        let awaited = &mut self.tables().pending_clearances;
        let wait = (importer.to_owned(), step);
        if answer.clear {
            return Ok(awaited.remove(&wait).is_some());
        }
        let said = awaited.get_mut(&wait);
        let said = said.filter(|said| said.as_ref() != Some(answer));
        Ok(said.map(|said| *said = Some(answer.clone())).is_some())
    }

    fn save_watch(&self, watch: &WatchCursor) -> Answer {
        let watches = &mut self.tables().watches;
        watches.retain(|it| {
            (&it.owner.service, &it.owner.region) != (&watch.owner.service, &watch.owner.region)
        });
        watches.push(watch.clone());
        Ok(())
    }

    fn load_notice(&self, key: &ResourceKey) -> Answer<Option<StoredNotice>> {
        let tables = self.tables();
        Ok(tables.peer_deletions.get(key).map(|it| StoredNotice {
            deletion: it.notice.deletion.clone(),
            owner: it.owner.clone(),
            is_gone: it.notice.phase == Phase::Gone,
        }))
    }

    fn save_notice(
        &self,
        owner: &str,
        notice: &DeletionNotice,
        gone_at: Option<DateTime<Utc>>,
    ) -> Answer {
        let tables = &mut *self.tables();
        let before = tables.peer_deletions.get(&notice.key);
        if before.is_some_and(|before| before.owner != owner) {
            return Ok(());
        }
        let same = before.filter(|before| before.notice.deletion == notice.deletion);
        let handled_by = same.and_then(|before| before.handled_by);
        let num = before.map_or(tables.last_peer_deletion + 1, |before| before.num);
        tables.last_peer_deletion = tables.last_peer_deletion.max(num);
        let row = PeerDeletion {
            num,
            owner: owner.to_owned(),
            notice: notice.clone(),
            gone_at,
            handled_by,
        };
        tables.peer_deletions.insert(notice.key.clone(), row);
        Ok(())
    }

    fn remove_notice(&self, owner: &str, key: &ResourceKey) -> Answer {
        let peer_deletions = &mut self.tables().peer_deletions;
        peer_deletions.retain(|its, it| its != key || it.owner != owner);
        Ok(())
    }

    fn remove_notices_of(&self, owner: &str) -> Answer {
        self.tables()
            .peer_deletions
            .retain(|_, it| it.owner != owner);
        Ok(())
    }

    fn save_handled(&self, keys: &[ResourceKey], by: Option<i64>) -> Answer {
        let peer_deletions = &mut self.tables().peer_deletions;
        for key in keys {
            if let Some(it) = peer_deletions.get_mut(key) {
                it.handled_by = Some(by.unwrap_or(0));
            }
        }
        Ok(())
    }
}
