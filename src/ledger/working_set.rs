//! The rows that the changes of one transaction read and write, in memory.
//!
//! Rows are loaded and saved together, by sets of ids: a step whose dependencies end one after the other is
//! written once. [`transitions`](super::transitions) decides what changes in them.
//!
//! Before rows are searched for by anything but their ids, all rows but the deletions are saved, so that the
//! search finds what earlier changes wrote.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use chrono::{DateTime, Utc};

use super::AuditEntry;
use super::events::EventDraft;
use super::store::{
    EndedTombstone, Fallible, OutcomeSteps, RowStore, Stop, StoredDeletion, StoredRequest,
    StoredStep, StoredTombstone, Unsaved, UnsavedEvent, UnsavedOthers,
};
use crate::domain::model::{Phase, ResourceKey, StepState};

/// The result of a part of a change.
pub type Changing<S, T = ()> = Result<T, Stop<<S as Fallible>::Error>>;

/// Number of steps in one part, where many steps are inserted, changed or read in parts.
pub const STEPS_IN_MEMORY_MAX: usize = 2_000;

struct KeptStep {
    /// The row as it is saved, if `now` may differ from it.
    saved: Option<StoredStep>,
    now: StoredStep,
}

#[derive(Clone)]
struct KeptDeletion {
    /// The row as it is saved; none if this transaction inserted the row.
    saved: Option<StoredDeletion>,
    now: StoredDeletion,
}

/// The rows that a transaction has touched, as they are saved and as they are now.
pub struct WorkingSet<S: RowStore> {
    store: S,
    steps: HashMap<i64, KeptStep>,
    /// Steps that may differ from how they are saved.
    written: Vec<i64>,
    /// The dependents of steps, as far as they were loaded, in the order of their ids. Outcomes change no edges.
    dependents: HashMap<i64, Vec<i64>>,
    deletions: BTreeMap<i64, KeptDeletion>,
    unsaved: UnsavedOthers,
    /// The owners whose left steps must be updated (P9); see `owner_moved` and `note_owner`.
    owners_moved: BTreeSet<i64>,
    /// When a step last moved in this transaction, or an owner was noted.
    pub moved_at: Option<DateTime<Utc>>,
}

/// The deletions as they were at a savepoint.
pub struct Deletions(BTreeMap<i64, KeptDeletion>);

impl<S: RowStore> WorkingSet<S> {
    pub fn new(store: S) -> Self {
        Self {
            store,
            steps: HashMap::new(),
            written: Vec::new(),
            dependents: HashMap::new(),
            deletions: BTreeMap::new(),
            unsaved: UnsavedOthers::default(),
            owners_moved: BTreeSet::new(),
            moved_at: None,
        }
    }

    /// Loads together the rows that the outcomes of these steps need and that are not in memory.
    pub fn load_for_outcomes(&mut self, mut steps: OutcomeSteps) -> Result<(), S::Error> {
        steps.all.retain(|id| !self.steps.contains_key(id));
        steps.ending.retain(|id| !self.dependents.contains_key(id));
        if steps.is_empty() {
            return Ok(());
        }
        let rows = self.store.load_for_outcomes(&steps)?;
        self.note_dependents(&steps.ending, rows.dependents);
        for now in rows.steps {
            // A row that is in memory already may have changed.
            let kept = KeptStep { saved: None, now };
            self.steps.entry(kept.now.id).or_insert(kept);
        }
        for now in rows.deletions {
            let saved = Some(now.clone());
            let kept = KeptDeletion { saved, now };
            self.deletions.entry(kept.now.num).or_insert(kept);
        }
        Ok(())
    }

    fn load_step(&mut self, id: i64) -> Result<(), S::Error> {
        match self.steps.contains_key(&id) {
            true => Ok(()),
            false => self.load_steps(&[id]),
        }
    }

    pub fn load_steps(&mut self, ids: &[i64]) -> Result<(), S::Error> {
        let mut unknown = HashSet::new();
        let ids: Vec<i64> = ids
            .iter()
            .filter(|id| !self.steps.contains_key(id) && unknown.insert(**id))
            .copied()
            .collect();
        if ids.is_empty() {
            return Ok(());
        }
        for now in self.store.load_steps(&ids)? {
            self.adopt_step(now);
        }
        Ok(())
    }

    /// Adds a step, as it is saved, to the rows in memory.
    pub fn adopt_step(&mut self, now: StoredStep) {
        self.steps.insert(now.id, KeptStep { saved: None, now });
    }

    /// `edges`: all edges from these steps to their dependents.
    fn note_dependents(&mut self, ids: &[i64], edges: Vec<(i64, i64)>) {
        for id in ids {
            self.dependents.insert(*id, Vec::new());
        }
        for (dependency, dependent) in edges {
            self.dependents
                .entry(dependency)
                .or_default()
                .push(dependent);
        }
    }

    pub fn find_step(&mut self, id: i64) -> Result<Option<&StoredStep>, S::Error> {
        self.load_step(id)?;
        Ok(self.steps.get(&id).map(|step| &step.now))
    }

    /// Returns a step, which must exist.
    pub fn step(&mut self, id: i64) -> Changing<S, &StoredStep> {
        match self.find_step(id)? {
            Some(step) => Ok(step),
            None => Err(Stop::Impossible(format!("there is no step {id}"))),
        }
    }

    /// Returns a step to be changed, which must exist.
    pub fn step_mut(&mut self, id: i64) -> Changing<S, &mut StoredStep> {
        self.load_step(id)?;
        let Some(step) = self.steps.get_mut(&id) else {
            return Err(Stop::Impossible(format!("there is no step {id}")));
        };
        if step.saved.is_none() {
            step.saved = Some(step.now.clone());
            self.written.push(id);
        }
        Ok(&mut step.now)
    }

    /// Lists the dependents of a step, and loads their rows.
    pub fn dependents(&mut self, id: i64) -> Result<Vec<i64>, S::Error> {
        if !self.dependents.contains_key(&id) {
            let edges = self.store.load_dependents(&[id])?;
            self.note_dependents(&[id], edges);
        }
        let mut dependents = self.dependents.get(&id).cloned().unwrap_or_default();
        self.load_steps(&dependents)?;
        dependents.retain(|dependent| self.steps.contains_key(dependent));
        Ok(dependents)
    }

    /// Lists the steps of a deletion in this state, in the order of their ids, and loads their rows.
    pub fn steps_in(&mut self, deletion: i64, state: StepState) -> Result<Vec<i64>, S::Error> {
        let found = self.searched()?.find_in_state(deletion, state)?;
        self.load_steps(&found)?;
        Ok(found)
    }

    /// Changes each of these steps. The steps are loaded and saved in parts, so that memory stays bounded. All rows
    /// must be saved first.
    pub fn each_step(
        &mut self,
        ids: &[i64],
        mut change: impl FnMut(&mut Self, i64) -> Changing<S>,
    ) -> Changing<S> {
        for part in ids.chunks(STEPS_IN_MEMORY_MAX) {
            self.forget_steps();
            self.load_steps(part)?;
            for id in part {
                change(self, *id)?;
            }
            self.save()?;
        }
        Ok(())
    }

    /// The store, for rows that are not kept in memory.
    pub fn store(&self) -> &S {
        &self.store
    }

    /// The store, for a search: all rows but the deletions are saved first.
    pub fn searched(&mut self) -> Result<&S, S::Error> {
        self.save()?;
        Ok(&self.store)
    }

    /// Returns the number of a deletion, which must exist.
    pub fn existing_deletion(&self, id: &str) -> Changing<S, i64> {
        match self.store.find_deletion(id)? {
            Some(num) => Ok(num),
            None => Err(Stop::Refused(format!("there is no deletion {id}"))),
        }
    }

    /// Returns a deletion, which must exist.
    pub fn deletion(&mut self, num: i64) -> Changing<S, &mut StoredDeletion> {
        use std::collections::btree_map::Entry;
        let kept = match self.deletions.entry(num) {
            Entry::Occupied(slot) => slot.into_mut(),
            Entry::Vacant(slot) => {
                let Some(now) = self.store.load_deletions(&[num])?.pop() else {
                    return Err(Stop::Impossible(format!("there is no deletion {num}")));
                };
                let saved = Some(now.clone());
                slot.insert(KeptDeletion { saved, now })
            }
        };
        Ok(&mut kept.now)
    }

    /// Loads the request of a deletion, which must exist.
    pub fn request(&self, num: i64) -> Changing<S, StoredRequest> {
        match self.store.load_requests(&[num])?.pop() {
            Some((_, request)) => Ok(request),
            None => Err(Stop::Impossible(format!("there is no deletion {num}"))),
        }
    }

    /// Adds a deletion that this transaction has just inserted.
    pub fn adopt(&mut self, num: i64) -> Changing<S> {
        self.deletion(num)?;
        if let Some(kept) = self.deletions.get_mut(&num) {
            kept.saved = None;
        }
        Ok(())
    }

    /// Whether this transaction may have changed the deletion.
    pub fn touched(&self, num: i64) -> bool {
        self.deletions.contains_key(&num)
    }

    pub fn event(
        &mut self,
        deletion: Option<i64>,
        step: Option<i64>,
        draft: EventDraft,
        at: DateTime<Utc>,
    ) {
        self.unsaved.events.push(UnsavedEvent {
            deletion,
            step,
            draft,
            at,
        });
    }

    /// Appends to the audit (P6), in the transaction of the recorded change.
    pub fn audit(&mut self, entry: &AuditEntry, at: DateTime<Utc>) {
        self.unsaved.audit.push((entry.clone(), at));
    }

    pub fn tombstone(&mut self, key: &ResourceKey) -> Result<Option<StoredTombstone>, S::Error> {
        let found = self
            .searched()?
            .load_tombstones(std::slice::from_ref(key))?;
        Ok(found.into_iter().next().flatten())
    }

    pub fn change_tombstone(&mut self, tombstone: StoredTombstone) {
        self.unsaved.tombstones.push(tombstone);
    }

    /// Releases the tombstones of a deletion that are still in phase `checking`.
    pub fn release_checking(&mut self, num: i64, now: DateTime<Utc>) -> Result<(), S::Error> {
        for record in self.searched()?.find_checking(num)? {
            self.end_tombstone(num, Some(record), Some(Phase::Released), now);
        }
        Ok(())
    }

    /// Sets a tombstone's phase in the transaction that causes it, such as the one that ends its step (T9). Does
    /// nothing without a record or a phase.
    pub fn end_tombstone(
        &mut self,
        deletion: i64,
        record: Option<i64>,
        phase: Option<Phase>,
        at: DateTime<Utc>,
    ) {
        if let (Some(record), Some(phase)) = (record, phase) {
            self.unsaved.ended.push(EndedTombstone {
                record,
                deletion,
                phase,
                at,
            });
        }
    }

    /// Ends a step's wait for clearances.
    pub fn drop_pending_clearances(&mut self, step: i64) {
        self.unsaved.cleared.push(step);
    }

    /// Saves everything but the deletions, of which only the last state counts.
    pub fn save(&mut self) -> Result<(), S::Error> {
        self.save_by(|store, unsaved, _| store.save(unsaved))
    }

    /// Saves like [`Self::save`], and finds the steps whose owners have moved since the last call.
    pub fn save_and_find_left(&mut self) -> Result<Vec<i64>, S::Error> {
        self.save_by(|store, unsaved, owners_moved| {
            let owners = Vec::from_iter(std::mem::take(owners_moved));
            match owners.is_empty() {
                true => store.save(unsaved).map(|()| Vec::new()),
                false => store.save_and_find_left_to(unsaved, &owners),
            }
        })
    }

    fn save_by<T>(
        &mut self,
        save: impl FnOnce(&S, &Unsaved<'_>, &mut BTreeSet<i64>) -> Result<T, S::Error>,
    ) -> Result<T, S::Error> {
        let written = std::mem::take(&mut self.written);
        let changed = written.iter().filter_map(|id| {
            let step = self.steps.get(id)?;
            let saved = step.saved.as_ref()?;
            (*saved != step.now).then_some((saved, &step.now))
        });
        let changed: Vec<_> = changed.collect();
        let owners = changed
            .iter()
            .filter_map(|(saved, now)| owner_moved(saved, now));
        self.owners_moved.extend(owners);
        let unsaved = Unsaved {
            steps: changed,
            others: std::mem::take(&mut self.unsaved),
        };
        let answer = save(&self.store, &unsaved, &mut self.owners_moved)?;
        for id in written {
            if let Some(step) = self.steps.get_mut(&id) {
                step.saved = None;
            }
        }
        Ok(answer)
    }

    /// Drops the steps from memory, because statements of the store may change them, or because memory must stay
    /// bounded. Their unsaved changes are lost.
    pub fn forget_steps(&mut self) {
        self.steps.clear();
        self.written.clear();
        self.dependents.clear();
    }

    pub fn save_deletions(&mut self) -> Result<(), S::Error> {
        let mut changed = Vec::new();
        for kept in self.deletions.values_mut() {
            if kept.saved.as_ref() != Some(&kept.now) {
                changed.push((kept.saved.take(), kept.now.clone()));
            }
            kept.saved = Some(kept.now.clone());
        }
        self.store.save_deletions(&changed)
    }

    /// Notes the owner of a left step, because the owner may have moved before the step was left to it.
    pub fn note_owner(&mut self, owner: i64, now: DateTime<Utc>) {
        self.owners_moved.insert(owner);
        self.moved_at = Some(now);
    }

    /// Opens a savepoint, to be kept or undone.
    pub fn savepoint(&mut self) -> Result<Deletions, S::Error> {
        self.save()?;
        self.store.begin_savepoint()?;
        Ok(Deletions(self.deletions.clone()))
    }

    pub fn keep(&mut self, _: Deletions) -> Result<(), S::Error> {
        self.save()?;
        self.store.keep_savepoint()
    }

    /// Undoes everything since the savepoint: drops the steps and the unsaved rows from memory, and sets the deletions
    /// back.
    pub fn undo(&mut self, to: Deletions) -> Result<(), S::Error> {
        self.store.undo_savepoint()?;
        self.forget_steps();
        self.unsaved = UnsavedOthers::default();
        self.deletions = to.0;
        Ok(())
    }
}

/// Returns the owner whose left steps a change of this step concerns: the step itself if it has ended, has become stuck
/// or is no longer stuck; or the step's own owner if the step waits for that owner again.
fn owner_moved(saved: &StoredStep, now: &StoredStep) -> Option<i64> {
    let was_stuck = saved.state == StepState::Stuck;
    match (saved.state == now.state, now.left_to) {
        (true, _) => None,
        (false, Some(owner)) if was_stuck && now.state == StepState::Waiting => Some(owner),
        _ => {
            (was_stuck || now.state == StepState::Stuck || now.ended_at.is_some()).then_some(now.id)
        }
    }
}
