//! Rows that the transitions of steps and deletions find and change, and the removal of old rows.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::sync::atomic::Ordering;

use chrono::{DateTime, Utc};
use gone::domain::model::{
    Action, DeletionState, KindName, Phase, ResourceKey, Site, SitePause, StepState,
};
use gone::domain::notification::CursorPosition;
use gone::ledger::store::{
    NewTombstone, PruneRows, RowStore, SiteRows, StepFinds, StepReads, StepRow, StoredDeletion,
    StoredStep, StoredTombstone, Unsaved,
};

use super::{Answer, MemoryRows, Tables};

/// The first dependency of a step for which `is_wanted` is true.
fn dependency(
    tables: &Tables,
    step: i64,
    is_wanted: impl Fn(&StoredStep) -> bool,
) -> Option<&StoredStep> {
    let before = tables.edges.iter().filter(|(_, to)| *to == step);
    let mut before = before.filter_map(|(from, _)| tables.steps.get(from));
    before.find(|it| is_wanted(it))
}

impl StepFinds for MemoryRows {
    fn load_steps(&self, ids: &[i64]) -> Answer<Vec<StoredStep>> {
        self.loads.fetch_add(1, Ordering::Relaxed);
        let tables = self.tables();
        Ok(ids
            .iter()
            .filter_map(|id| tables.steps.get(id).cloned())
            .collect())
    }

    fn load_dependents(&self, ids: &[i64]) -> Answer<Vec<(i64, i64)>> {
        self.loads.fetch_add(1, Ordering::Relaxed);
        let tables = self.tables();
        let of = |id: &i64| {
            tables
                .edges
                .range((*id, 0)..(*id + 1, 0))
                .copied()
                .collect::<Vec<_>>()
        };
        Ok(ids.iter().flat_map(of).collect())
    }

    fn find_ready_deletions(
        &self,
        site: &Site,
        (after, until): (i64, i64),
        limit: usize,
    ) -> Answer<Vec<i64>> {
        let tables = self.tables();
        let ready = tables.steps.values().filter(|it| {
            it.state == StepState::Ready
                && it.key.site == *site
                && it.deletion > after
                && it.deletion <= until
        });
        let deletions: BTreeSet<i64> = ready.map(|it| it.deletion).collect();
        Ok(deletions.into_iter().take(limit).collect())
    }

    fn find_left_to(&self, owners: &[i64]) -> Answer<Vec<i64>> {
        Ok(self.tables().steps_where(|it| {
            it.ended_at.is_none() && it.left_to.is_some_and(|owner| owners.contains(&owner))
        }))
    }

    fn load_ready(&self, site: &Site, deletion: i64, limit: usize) -> Answer<Vec<StepRow>> {
        let tables = self.tables();
        let ready = tables.steps_where(|it| {
            it.state == StepState::Ready && it.key.site == *site && it.deletion == deletion
        });
        let rank = |id: &i64| tables.plans.get(id).map_or(0, |plan| plan.rank);
        let mut ready: Vec<i64> = ready;
        ready.sort_by_key(|id| (Reverse(rank(id)), *id));
        let ready = ready.iter().take(limit);
        Ok(ready.filter_map(|id| tables.step_row(*id)).collect())
    }

    fn find_stuck_dependency(&self, step: i64) -> Answer<Option<(i64, i64)>> {
        let tables = self.tables();
        let stuck = dependency(&tables, step, |it| {
            it.state == StepState::Stuck && it.held_by != Some(step)
        });
        Ok(stuck.map(|it| (it.id, it.held_by.unwrap_or(it.id))))
    }

    fn find_abandoned_dependency(&self, step: i64) -> Answer<Option<i64>> {
        let tables = self.tables();
        let abandoned = dependency(&tables, step, |it| it.state == StepState::Purged);
        Ok(abandoned.map(|it| it.id))
    }

    fn find_failed(&self, deletion: i64, other_than: i64) -> Answer<Option<i64>> {
        let failed = self.tables().steps_where(|it| {
            it.deletion == deletion
                && it.state == StepState::Stuck
                && it.held_by.is_none()
                && it.id != other_than
        });
        Ok(failed.first().copied())
    }

    fn find_due(&self, now: DateTime<Utc>, limit: usize) -> Answer<Vec<i64>> {
        let tables = self.tables();
        let mut due = tables.steps_where(|it| {
            it.state == StepState::Blocked && it.next_attempt_at.is_some_and(|next| next <= now)
        });
        due.sort_by_key(|id| tables.steps[id].next_attempt_at);
        due.truncate(limit);
        Ok(due)
    }

    fn find_ahead(&self, now: DateTime<Utc>, by: DateTime<Utc>) -> Answer<Vec<i64>> {
        Ok(self.tables().steps_where(|it| match it.state {
            StepState::Blocked => it.since > now,
            StepState::Verifying => it.since > now || it.next_attempt_at > Some(by),
            _ => false,
        }))
    }

    fn find_gone_step(&self, deletion: i64, record: i64) -> Answer<Option<i64>> {
        let gone = self.tables().steps_where(|it| {
            (it.deletion, it.record, it.state) == (deletion, Some(record), StepState::Gone)
        });
        Ok(gone.first().copied())
    }

    fn find_own_enables(&self, step: i64) -> Answer<Vec<i64>> {
        let tables = self.tables();
        let for_others = |from: i64| {
            let mut dependents = tables.edges.range((from, 0)..(from + 1, 0));
            dependents.any(|(_, to)| *to != step)
        };
        let is_being_enabled = |key: &ResourceKey| {
            let mut steps = tables.steps.values();
            steps.any(|it| it.key == *key && it.action == Action::Enable && it.ended_at.is_none())
        };
        Ok(tables.steps_where(|it| {
            tables.edges.contains(&(it.id, step))
                && it.action == Action::Enable
                && it.state == StepState::Gone
                && !for_others(it.id)
                && !is_being_enabled(&it.key)
        }))
    }

    fn find_checking(&self, deletion: i64) -> Answer<Vec<i64>> {
        let tables = self.tables();
        let rows = tables.tombstones.values().map(|(_, row)| row);
        let checking = rows.filter(|it| (it.deletion, it.phase) == (deletion, Phase::Checking));
        Ok(checking.map(|it| it.record).collect())
    }
}

impl SiteRows for MemoryRows {
    fn await_clearances(&self, awaited: &[(String, i64)]) -> Answer {
        let tables = &mut *self.tables();
        for wait in awaited {
            tables.pending_clearances.entry(wait.clone()).or_default();
        }
        Ok(())
    }

    fn pause_site(&self, site: &Site, pause: Option<&SitePause>) -> Answer<bool> {
        let pauses = &mut self.tables().pauses;
        Ok(match pause {
            Some(_) if pauses.contains_key(site) => false,
            Some(pause) => pauses.insert(site.clone(), pause.clone()).is_none(),
            None => pauses.remove(site).is_some(),
        })
    }

    fn save_notification_cursor(&self, channel: &str, position: Option<&CursorPosition>) -> Answer {
        let cursors = &mut self.tables().notification_cursors;
        match position {
            Some(position) => cursors.insert(channel.to_owned(), position.clone()),
            None => cursors.remove(channel),
        };
        Ok(())
    }

    fn load_site_state(&self, site: &str) -> Answer<Option<String>> {
        Ok(self.tables().sites.get(site).cloned())
    }

    fn save_site_state(&self, site: &str, state: &str) -> Answer {
        let sites = &mut self.tables().sites;
        sites.insert(site.to_owned(), state.to_owned());
        Ok(())
    }
}

impl RowStore for MemoryRows {
    fn epoch(&self) -> i64 {
        self.epoch
    }

    fn is_caused_by_change(_: &String) -> bool {
        true
    }

    fn begin_savepoint(&self) -> Answer {
        let now = self.tables().clone();
        self.savepoints.lock().unwrap().push(now);
        Ok(())
    }

    fn keep_savepoint(&self) -> Answer {
        let kept = self.savepoints.lock().unwrap().pop();
        kept.map(drop).ok_or_else(|| "no savepoint".to_owned())
    }

    fn undo_savepoint(&self) -> Answer {
        let before = self.savepoints.lock().unwrap().pop();
        *self.tables() = before.ok_or("no savepoint")?;
        Ok(())
    }

    fn end_lost_engines(&self) -> Answer<Vec<i64>> {
        let engines = &mut self.tables().engines;
        for engine in engines.iter_mut() {
            engine.has_ended |= engine.epoch != self.epoch && engine.is_lost();
        }
        let living = engines.iter().filter(|engine| !engine.has_ended);
        let mut living: Vec<i64> = living.map(|engine| engine.epoch).collect();
        if living.is_empty() {
            living.push(self.epoch);
        }
        Ok(living)
    }

    fn take_over_observations(&self) -> Answer {
        let tables = &mut *self.tables();
        let verifying = tables
            .steps
            .values_mut()
            .filter(|it| it.state == StepState::Verifying);
        verifying.for_each(|it| it.epoch = self.epoch);
        Ok(())
    }

    fn insert_tombstones(&self, new: &[NewTombstone<'_>]) -> Answer<Vec<i64>> {
        let tables = &mut *self.tables();
        let insert = |new: &NewTombstone<'_>| {
            tables.last_record += 1;
            let record = tables.last_record;
            let row = StoredTombstone {
                record,
                deletion: new.deletion,
                phase: new.phase,
                deleted_at: Some(new.deleted_at),
                gone_at: None,
                incarnation: 1,
                recreated: 0,
            };
            tables.insert_tombstone(new.key.clone(), row);
            tables.notify_importers(record);
            record
        };
        Ok(new.iter().map(insert).collect())
    }

    fn save(&self, unsaved: &Unsaved<'_>) -> Answer {
        let tables = &mut *self.tables();
        for (_, now) in &unsaved.steps {
            tables.steps.insert(now.id, (*now).clone());
            self.steps_saved.fetch_add(1, Ordering::Relaxed);
        }
        for now in &unsaved.others.tombstones {
            tables.save_tombstone(now.clone());
        }
        for ended in &unsaved.others.ended {
            let row = tables.tombstones.get(&ended.record).map(|(_, row)| row);
            if let Some(row) = row.filter(|row| row.deletion == ended.deletion).cloned() {
                tables.save_tombstone(StoredTombstone {
                    phase: ended.phase,
                    gone_at: (ended.phase == Phase::Gone).then_some(ended.at),
                    ..row
                });
                tables.snapshots.remove(&ended.record);
            }
        }
        tables
            .pending_clearances
            .retain(|(_, step), _| !unsaved.others.cleared.contains(step));
        for (entry, at) in &unsaved.others.audit {
            tables.audit(entry, *at);
        }
        for event in &unsaved.others.events {
            tables.last_event += 1;
            tables.events.insert(tables.last_event, event.clone());
        }
        Ok(())
    }

    fn save_deletions(&self, changed: &[(Option<StoredDeletion>, StoredDeletion)]) -> Answer {
        let rows = changed.iter().map(|(_, now)| (now.num, now.clone()));
        self.tables().deletions.extend(rows);
        Ok(())
    }
}

impl PruneRows for MemoryRows {
    fn prune_leftovers(&self, before: DateTime<Utc>) -> Answer {
        let tables = &mut *self.tables();
        let tombstones = &tables.tombstones;
        let phase = |record: &i64| tombstones.get(record).map(|(_, row)| row.phase);
        tables
            .snapshots
            .retain(|record, _| matches!(phase(record), Some(Phase::Checking | Phase::Deleting)));
        tables.copies.retain(|record, of| {
            let is_kept = phase(record).is_some_and(|phase| phase != Phase::Released);
            if !is_kept {
                (of.name, of.parts) = (None, BTreeSet::new());
            }
            tombstones.contains_key(record)
        });
        tables
            .peer_deletions
            .retain(|_, it| it.gone_at.is_none_or(|gone_at| gone_at >= before));
        Ok(())
    }

    fn prune_events(&self, before: DateTime<Utc>, limit: usize) -> Answer<u64> {
        let events = &mut self.tables().events;
        let old = events.iter().take(limit);
        let old = old.take_while(|(_, it)| it.at < before);
        let old: Vec<i64> = old.map(|(seq, _)| *seq).collect();
        old.iter().for_each(|seq| {
            events.remove(seq);
        });
        Ok(old.len() as u64)
    }

    fn find_prunable(&self, before: DateTime<Utc>) -> Answer<Option<i64>> {
        let tables = self.tables();
        let newest = tables.deletions.keys().last().copied();
        let with_newest_step = tables.steps.values().last().map(|step| step.deletion);
        let mut ended = tables.deletions.values().filter(|it| {
            use DeletionState::{Cancelled, Gone, Refused};
            matches!(it.state, Refused | Gone | Cancelled)
                && it.finished_at.is_some_and(|finished| finished < before)
                && it.counts.stuck + it.counts.purged == 0
                && ![newest, with_newest_step].contains(&Some(it.num))
        });
        Ok(ended.next().map(|it| it.num))
    }

    fn prune_steps(
        &self,
        deletion: i64,
        state: StepState,
        before: DateTime<Utc>,
        unique_id_kinds: &[KindName],
        limit: usize,
    ) -> Answer<u64> {
        let mut steps = self.find_in_state(deletion, state)?;
        steps.truncate(limit);
        let tables = &mut *self.tables();
        for id in &steps {
            tables.edges.retain(|(_, to)| to != id);
            tables.branches.retain(|_, (_, it)| it.below != Some(*id));
            let Some(record) = tables.remove_step(*id).and_then(|step| step.record) else {
                continue;
            };
            let is_old = tables.record(record).is_some_and(|row| {
                row.now.deletion == deletion
                    && matches!(row.now.phase, Phase::Gone | Phase::Released)
                    && row.now.gone_at.is_none_or(|gone| gone < before)
                    && unique_id_kinds.contains(&row.key.kind)
            });
            if is_old {
                tables.remove_tombstone(record);
            }
        }
        Ok(steps.len() as u64)
    }

    fn prune_deletion(&self, deletion: i64, unique_id_kinds: &[KindName]) -> Answer {
        let tables = &mut *self.tables();
        let request = tables.requests.remove(&deletion).ok_or("no request")?;
        let targets = request.targets.iter().map(|target| &target.key);
        let keys: BTreeSet<&ResourceKey> = targets.chain(&request.copies).collect();
        let released = tables.records_where(|key, row| {
            row.deletion == deletion
                && row.phase == Phase::Released
                && unique_id_kinds.contains(&key.kind)
                && keys.contains(key)
        });
        for row in released {
            tables.remove_tombstone(row.now.record);
        }
        tables.branches.retain(|_, (of, _)| *of != deletion);
        tables.frozen.remove(&deletion);
        tables.deletions.remove(&deletion);
        Ok(())
    }
}
