//! Reads of deletions, tombstones, and the log.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use gone::domain::last_day::LastDay;
use gone::domain::model::{
    Actor, DeletionState, Event, Identity, KindName, Phase, Plan, ResourceKey, Site, SitePause,
    StepState,
};
use gone::domain::notification::CursorPosition;
use gone::ledger::store::{
    DeletionReads, EventRange, EventsOf, LogReads, OriginalCopies, StoredDeletion, StoredRequest,
    StoredTombstone, TombstoneReads, TombstoneRow, Totals,
};
use gone::ledger::{AuditRow, DeletionFilter, KeptRequest, TombstoneFilter};
use serde_json::Value;

use super::{Answer, MemoryRows};

impl DeletionReads for MemoryRows {
    fn find_deletion(&self, id: &str) -> Answer<Option<i64>> {
        let tables = self.tables();
        let found = tables.deletions.values().find(|row| row.id == id);
        Ok(found.map(|row| row.num))
    }

    fn load_frozen(&self, num: i64) -> Answer<Option<Plan>> {
        Ok(self.tables().frozen.get(&num).cloned())
    }

    fn load_plan(&self, hash: &str, since: DateTime<Utc>) -> Answer<Option<Plan>> {
        let tables = self.tables();
        let found = tables.saved_plans.get(hash);
        Ok(found
            .filter(|(_, at)| *at > since)
            .map(|(plan, _)| plan.clone()))
    }

    fn find_request(
        &self,
        actor: &Actor,
        key: &str,
        since: DateTime<Utc>,
    ) -> Answer<Option<KeptRequest>> {
        let tables = self.tables();
        let found = tables
            .kept_requests
            .iter()
            .find(|(request, _, at)| request.actor == *actor && request.key == key && *at > since);
        Ok(found.map(|(_, kept, _)| kept.clone()))
    }

    fn count_ended(&self, since: DateTime<Utc>) -> Answer<LastDay> {
        let tables = self.tables();
        let ended = tables.deletions.values().filter(|row| {
            row.state != DeletionState::Stuck && row.finished_at.is_some_and(|at| at > since)
        });
        Ok(ended.fold(LastDay::default(), |sum, row| LastDay {
            deletions: sum.deletions + 1,
            gone: sum.gone + row.counts.gone,
        }))
    }

    fn load_totals(&self) -> Answer<Totals> {
        let tables = self.tables();
        let mut totals = Totals::default();
        for state in DeletionState::ALL {
            let its = tables.deletions.values().filter(|row| row.state == state);
            totals.deletions.insert(state, its.count() as u64);
        }
        for row in tables.deletions.values() {
            for state in StepState::ALL {
                *totals.steps.of_mut(state) += row.counts.of(state);
                totals.steps.total += row.counts.of(state);
            }
        }
        Ok(totals)
    }

    fn find_deletions_ending(&self, suffix: &str, limit: usize) -> Answer<Vec<i64>> {
        let tables = self.tables();
        let found = tables
            .deletions
            .values()
            .filter(|row| row.id.ends_with(suffix));
        Ok(found.take(limit).map(|row| row.num).collect())
    }

    fn find_deletions(
        &self,
        filter: &DeletionFilter,
        after: Option<i64>,
        limit: usize,
    ) -> Answer<Vec<i64>> {
        let tables = self.tables();
        let is_wanted = |row: &&StoredDeletion| {
            let request = &tables.requests[&row.num];
            let is_about = |key: &ResourceKey| {
                filter.site.as_ref().is_none_or(|site| *site == key.site)
                    && filter.kind.as_ref().is_none_or(|kind| *kind == key.kind)
            };
            (filter.states.is_empty() || filter.states.contains(&row.state))
                && filter
                    .older_than
                    .is_none_or(|than| request.requested_at < than)
                && request.targets.iter().any(|target| is_about(&target.key))
        };
        let found = tables.deletions.values().filter(is_wanted);
        let mut found: Vec<i64> = found.map(|row| row.num).collect();
        found.retain(|num| match filter.oldest_first {
            true => after.is_none_or(|after| *num > after),
            false => after.is_none_or(|after| *num < after),
        });
        if !filter.oldest_first {
            found.reverse();
        }
        found.truncate(limit);
        Ok(found)
    }

    fn load_deletions(&self, nums: &[i64]) -> Answer<Vec<StoredDeletion>> {
        let tables = self.tables();
        let found = nums.iter().filter_map(|num| tables.deletions.get(num));
        Ok(found.cloned().collect())
    }

    fn load_requests(&self, nums: &[i64]) -> Answer<Vec<(i64, StoredRequest)>> {
        let tables = self.tables();
        let found = nums.iter().filter_map(|num| {
            let request = tables.requests.get(num)?;
            Some((*num, request.clone()))
        });
        Ok(found.collect())
    }

    fn load_identities(&self, num: i64) -> Answer<Option<BTreeMap<String, Identity>>> {
        let tables = self.tables();
        Ok(tables.frozen.get(&num).map(|plan| plan.identities.clone()))
    }
}

impl TombstoneReads for MemoryRows {
    fn find_held_down(
        &self,
        (since, record): (DateTime<Utc>, i64),
        limit: usize,
    ) -> Answer<Vec<TombstoneRow>> {
        let mut found = self.tables().records_where(|_, row| {
            row.phase == Phase::Gone && (row.gone_at, row.record) > (Some(since), record)
        });
        found.sort_by_key(|row| (row.now.gone_at, row.now.record));
        found.truncate(limit);
        Ok(found)
    }

    fn find_originals(
        &self,
        since: DateTime<Utc>,
        after: i64,
        limit: usize,
    ) -> Answer<Vec<TombstoneRow>> {
        let tables = self.tables();
        let mut found = tables.records_where(|_, row| {
            let deletion = tables.deletions.get(&row.deletion);
            let is_paused = deletion.is_none_or(|deletion| deletion.paused);
            row.record > after
                && tables.copies.contains_key(&row.record)
                && match row.phase {
                    Phase::Deleting => !is_paused,
                    Phase::Gone => row.gone_at >= Some(since),
                    _ => false,
                }
        });
        found.truncate(limit);
        Ok(found)
    }

    fn find_whole(&self, part: &ResourceKey) -> Answer<Option<i64>> {
        let tables = self.tables();
        let mut copies = tables.copies.iter().rev();
        let found = copies.find(|(_, of)| of.parts.contains(part));
        Ok(found.map(|(record, _)| *record))
    }

    fn find_namesakes(&self, site: &Site, kind: &KindName, name: &str) -> Answer<Vec<i64>> {
        let tables = self.tables();
        let found = tables.copies.iter().filter(|(_, of)| {
            (&of.original.site, &of.original.kind) == (site, kind)
                && of.name.as_ref().is_some_and(|(its, _)| its == name)
        });
        Ok(found.map(|(record, _)| *record).collect())
    }

    fn load_snapshot(&self, record: i64) -> Answer<Option<Value>> {
        Ok(self.tables().snapshots.get(&record).cloned())
    }

    fn load_tombstones(&self, keys: &[ResourceKey]) -> Answer<Vec<Option<StoredTombstone>>> {
        let tables = self.tables();
        let of = |key: &ResourceKey| {
            let record = tables.record_of.get(key)?;
            Some(tables.tombstones[record].1.clone())
        };
        Ok(keys.iter().map(of).collect())
    }

    fn load_records(&self, records: &[i64]) -> Answer<Vec<TombstoneRow>> {
        let tables = self.tables();
        Ok(records.iter().filter_map(|it| tables.record(*it)).collect())
    }

    fn find_tombstones(
        &self,
        filter: &TombstoneFilter,
        after: i64,
        limit: usize,
    ) -> Answer<Vec<TombstoneRow>> {
        let mut found = self.tables().records_where(|key, row| {
            row.record > after
                && filter.site.as_ref().is_none_or(|site| *site == key.site)
                && filter.kind.as_ref().is_none_or(|kind| *kind == key.kind)
                && filter.id.as_ref().is_none_or(|id| *id == key.id)
                && (filter.phases.is_empty() || filter.phases.contains(&row.phase))
        });
        found.truncate(limit);
        Ok(found)
    }

    fn load_copies(&self, records: &[i64]) -> Answer<Vec<(i64, OriginalCopies)>> {
        let tables = self.tables();
        let found = records.iter().filter_map(|record| {
            let copies = tables.copies.get(record)?;
            Some((*record, copies.clone()))
        });
        Ok(found.collect())
    }
}

impl LogReads for MemoryRows {
    fn ledger_id(&self) -> Answer<String> {
        Ok(format!("{:0>32}", "memory"))
    }

    fn load_events(&self, after: i64, of: EventsOf, limit: usize) -> Answer<Vec<Event>> {
        let tables = self.tables();
        let found = tables.events.range(after + 1..).filter(|(_, it)| match of {
            EventsOf::All => true,
            EventsOf::Deletion(num) => it.deletion == Some(num),
            EventsOf::Step(step) => it.step == Some(step),
        });
        let shown = found.take(limit).map(|(seq, it)| Event {
            seq: *seq,
            at: it.at,
            deletion_id: it
                .deletion
                .and_then(|num| Some(tables.deletions.get(&num)?.id.clone())),
            step_id: it.step,
            kind: it.draft.kind,
            message: it.draft.words.clone(),
            data: it.draft.fields.clone(),
        });
        Ok(shown.collect())
    }

    fn event_range(&self) -> Answer<EventRange> {
        let tables = self.tables();
        let first = tables.events.keys().next();
        Ok(EventRange {
            oldest: first.copied().unwrap_or(tables.last_event + 1),
            newest: tables.last_event,
            latest_at: tables.events.values().last().map(|it| it.at),
        })
    }

    fn load_audit(&self, after: i64, limit: usize) -> Answer<Vec<AuditRow>> {
        let tables = self.tables();
        let rows = tables.audit.iter().filter(|row| row.seq > after);
        Ok(rows.take(limit).cloned().collect())
    }

    fn load_cursor_position(&self, channel: &str) -> Answer<Option<CursorPosition>> {
        Ok(self.tables().notification_cursors.get(channel).cloned())
    }

    fn load_site_pauses(&self) -> Answer<Vec<SitePause>> {
        let mut pauses: Vec<SitePause> = self.tables().pauses.values().cloned().collect();
        pauses.sort_by_key(|pause| pause.site.to_string());
        Ok(pauses)
    }
}
