//! Ledgers get random changes, and the state after each change is noted. Then a copy of each ledger is rewound to the
//! times of these states, in random order, and must show the state of each time.
//!
//! `GONE_SEED=17 cargo test --test ledger for_more_seeds` runs one seed; `GONE_SEEDS=0..10000` runs many.

use std::collections::{BTreeMap, BTreeSet};

use gone::domain::model::{ErrorClass, OnFailure, Origin, StepState};
use gone::ledger::sqlite::rewind::Rewind;
use gone::ledger::sqlite::upkeep::rules;
use gone::ledger::sqlite::{InlineLedger, Options, Store};
use gone::ledger::{
    Applied, AuditEntry, Change, ClaimedStep, PurgeAction, RecreationReason, RetryBy, Selection,
    WorkQueue as _,
};
use rusqlite::{Connection, Row};
use serde_json::Value;

use crate::seed_selection::seeds;
use crate::support::*;

const DELETIONS: u64 = 5;
const RESOURCES: u64 = 8;
/// Seconds between two changes. A repeated DELETE wakes steps once a minute.
const BETWEEN: i64 = 25;

/// The attempts, the error, and the next attempt in milliseconds of a blocked or stuck step.
type StepFailure = (i64, Option<String>, Option<i64>);

const STOPPING: &str = "SELECT count(*) FROM deletions WHERE stops";

/// The state of a ledger, from its tables.
#[derive(Clone, Debug, Default, PartialEq)]
struct LedgerState {
    /// State, whether another step keeps it stuck, and deletion.
    steps: BTreeMap<i64, (String, bool, i64)>,
    failures: BTreeMap<i64, StepFailure>,
    /// State, whether it has ended, and why it was refused.
    deletions: BTreeMap<i64, (String, bool, Option<String>)>,
    /// Phase, deletion, and the time at which the resource was gone.
    tombstones: BTreeMap<i64, (String, i64, Option<i64>)>,
    last_event: i64,
}

fn read<T>(
    db: &Connection,
    sql: &str,
    row: impl Fn(&Row) -> rusqlite::Result<(i64, T)>,
) -> BTreeMap<i64, T> {
    let mut rows = db.prepare_cached(sql).unwrap();
    let rows = rows.query_map((), |found| row(found)).unwrap();
    rows.collect::<Result<_, _>>().unwrap()
}

impl LedgerState {
    fn of(db: &Connection) -> Self {
        Self {
            steps: read(
                db,
                "SELECT id, state, held_by IS NOT NULL, deletion FROM steps",
                |row| Ok((row.get(0)?, (row.get(1)?, row.get(2)?, row.get(3)?))),
            ),
            failures: read(
                db,
                "SELECT id, attempts, last_error, next_attempt_at / 1000 FROM steps
                 WHERE state IN ('blocked', 'stuck') AND last_error ->> 'type' = 'PortInUse'",
                |row| Ok((row.get(0)?, (row.get(1)?, row.get(2)?, row.get(3)?))),
            ),
            deletions: read(
                db,
                "SELECT num, state, finished_at IS NOT NULL, iif(state = 'refused', note, NULL)
                 FROM deletions",
                |row| Ok((row.get(0)?, (row.get(1)?, row.get(2)?, row.get(3)?))),
            ),
            tombstones: read(
                db,
                "SELECT record_id, phase, deletion, gone_at FROM tombstones",
                |row| Ok((row.get(0)?, (row.get(1)?, row.get(2)?, row.get(3)?))),
            ),
            last_event: one_number(db, "SELECT coalesce(max(seq), 0) FROM events"),
        }
    }
}

fn one_number(db: &Connection, sql: &str) -> i64 {
    db.query_row(sql, (), |row| row.get(0)).unwrap()
}

/// A ledger that gets random changes, and the states that it had.
struct History {
    folder: Folder,
    ledger: InlineLedger,
    db: Connection,
    random: fastrand::Rng,
    seconds: i64,
    claims: Vec<ClaimedStep>,
    /// Steps whose last move has no event: they became due, were claimed, or were in flight when an engine recovered.
    without_event: BTreeSet<i64>,
    /// Seconds, the state at that time, and the steps without an event.
    notes: Vec<(i64, LedgerState, BTreeSet<i64>)>,
}

impl History {
    fn begin(seed: u64) -> Self {
        let folder = Folder::new();
        let store = Store::open(&folder.ledger(), Options::default()).unwrap();
        let db = Connection::open(folder.ledger()).unwrap();
        db.set_prepared_statement_cache_capacity(16);
        Self {
            folder,
            ledger: InlineLedger::new(store),
            db,
            random: fastrand::Rng::with_seed(seed),
            seconds: 0,
            claims: Vec::new(),
            without_event: BTreeSet::new(),
            notes: Vec::new(),
        }
    }

    fn name(&mut self) -> String {
        format!("d{}", self.random.u64(..DELETIONS))
    }

    fn resource(&mut self) -> String {
        format!("r{}", self.random.u64(..RESOURCES))
    }

    /// A retry as an engine writes it: the audit entry names the deletion or the resource.
    fn retry(&mut self) -> Option<Change> {
        let name = self.name();
        let repeat = self.random.u8(..3) == 0;
        let stuck = self.stuck_steps();
        let (selection, target, action) = match self.random.bool() {
            true if repeat => (Selection::Deletion(id(&name)), id(&name), "delete again"),
            true => (Selection::Deletion(id(&name)), id(&name), "retry"),
            false => {
                let step = *self.random.choice(&stuck)?;
                let resource = self.resource_of(step);
                let target = key("port", &resource).to_string();
                (Selection::Steps(vec![step]), target, "retry")
            }
        };
        Some(Change::Retry {
            by: match action {
                "retry" => RetryBy::Person,
                _ => RetryBy::Repeat,
            },
            selection,
            audit: AuditEntry {
                target,
                ..entry(action, "", Origin::Cli)
            },
            now: at(self.seconds),
        })
    }

    fn stuck_steps(&self) -> Vec<i64> {
        let stuck = "SELECT id, 0 FROM steps WHERE state = 'stuck' AND held_by IS NULL";
        let stuck = read(&self.db, stuck, |row| {
            Ok((row.get(0)?, row.get::<_, i64>(1)?))
        });
        stuck.into_keys().collect()
    }

    fn resource_of(&self, step: i64) -> String {
        let resource = "SELECT resource FROM steps WHERE id = ?1";
        let mut resource = self.db.prepare_cached(resource).unwrap();
        resource.query_row([step], |row| row.get(0)).unwrap()
    }

    fn outcome_of(&mut self, step: &ClaimedStep) -> Change {
        let to = *self
            .random
            .choice(&[
                StepState::Gone,
                StepState::Gone,
                StepState::Gone,
                StepState::Stuck,
                StepState::Stuck,
                StepState::Blocked,
                StepState::Verifying,
                StepState::Ready,
            ])
            .unwrap();
        let now = at(self.seconds);
        let class = match self.random.bool() {
            true => ErrorClass::Blocked,
            false => ErrorClass::Fatal,
        };
        let change = match to {
            StepState::Stuck | StepState::Blocked => failure(step, to, class, now),
            _ => outcome(step, to, now),
        };
        let due = at(self.seconds + self.random.i64(1..200));
        record_outcome(with_decision(change, |it| {
            it.next_attempt_at = (to != StepState::Stuck).then_some(due)
        }))
    }

    /// A plan that deletes some resources. Each step waits for some of the steps before it.
    fn plan(&mut self) -> gone::domain::model::Plan {
        let mut resources: Vec<u64> = (0..RESOURCES).collect();
        self.random.shuffle(&mut resources);
        resources.truncate(self.random.usize(1..6));
        let steps = resources.iter().enumerate().map(|(position, resource)| {
            let before = 0..u32::try_from(position).unwrap();
            let after: Vec<u32> = before.filter(|_| self.random.u8(..3) == 0).collect();
            let key = key("port", &format!("r{resource}"));
            plan_step(position, gone::domain::model::Action::Delete, key, &after)
        });
        plan(steps.collect())
    }

    async fn change(&mut self) -> Option<Change> {
        let now = at(self.seconds);
        Some(match self.random.u8(..40) {
            0..4 => {
                let target = target("port", &self.resource());
                let mut deletion = new_deletion(&self.name(), vec![target], now);
                if self.random.u8(..3) == 0 {
                    deletion.options.on_failure = OnFailure::Stop;
                }
                accept(deletion)
            }
            4..9 => {
                let plan = self.plan();
                start(&self.name(), &plan, now)
            }
            9 => Change::Refuse {
                deletion_id: id(&self.name()),
                refused: Vec::new(),
                note: "no".to_owned(),
                now,
            },
            10..24 => {
                let newest = self.claims.len().checked_sub(1 + self.random.usize(..4))?;
                let step = self.claims[newest].clone();
                self.outcome_of(&step)
            }
            24..28 => {
                let due = steps_to_observe(&self.ledger, now, 9).await.unwrap();
                let step = self.random.choice(&due)?.clone();
                self.outcome_of(&step)
            }
            28 | 29 => Change::WakeDue { now },
            30..34 => self.retry()?,
            34 => cancel(&self.name(), now),
            35 => {
                let paused = self.random.bool();
                pause(&self.name(), paused, now)
            }
            36 => Change::Recover { now },
            37 => Change::Recreated {
                key: key("port", &self.resource()),
                copy: None,
                // Never stuck if a deletion stops at a failure: a replay only guesses which of its steps were in
                // flight.
                stuck: (self.random.bool() && one_number(&self.db, STOPPING) == 0)
                    .then_some(RecreationReason::TooOften),
                now,
            },
            38 => {
                let what = match self.random.bool() {
                    true => Selection::Deletion(id(&self.name())),
                    false => Selection::Steps(vec![*self.random.choice(&self.stuck_steps())?]),
                };
                purge(what, PurgeAction::Forget, now)
            }
            _ => release("port", &self.resource(), now),
        })
    }

    async fn advance(&mut self) {
        self.seconds += BETWEEN;
        let before = LedgerState::of(&self.db);
        let mut moves_without_event = false;
        if self.random.u8(..4) == 0 {
            let capacity = capacity(self.random.usize(1..3));
            let claimed = self.ledger.claim(vec![capacity], at(self.seconds)).await;
            self.claims.extend(claimed.unwrap());
        } else {
            let Some(change) = self.change().await else {
                return;
            };
            moves_without_event = matches!(change, Change::WakeDue { .. } | Change::Recover { .. });
            let applied = commit_one(&self.ledger, change).await;
            assert!(!matches!(applied, Applied::Refused(why) if why.contains("cannot store")));
        }
        let after = LedgerState::of(&self.db);
        for (step, (state, ..)) in &after.steps {
            let was = before.steps.get(step).map(|(state, ..)| state);
            if was != Some(state) {
                match moves_without_event || state == "running" {
                    true => self.without_event.insert(*step),
                    false => self.without_event.remove(step),
                };
            }
        }
        self.notes
            .push((self.seconds, after, self.without_event.clone()));
    }
}

/// Whether a step that was in one state may be shown in another. States between which a step moves without an event
/// cannot be distinguished.
fn may_show(was: &str, shown: &str, has_no_event: bool) -> bool {
    let before_answer = ["ready", "blocked", "running"];
    match was {
        "running" => before_answer.contains(&shown) || shown == "verifying",
        "ready" if has_no_event => before_answer.contains(&shown),
        "verifying" if has_no_event => before_answer.contains(&shown) || shown == was,
        _ => was == shown,
    }
}

fn compare(
    was: &LedgerState,
    shown: &LedgerState,
    without_event: &BTreeSet<i64>,
) -> Result<(), String> {
    let same = |what: &str, was: &dyn std::fmt::Debug, shown: &dyn std::fmt::Debug| {
        let (was, shown) = (format!("{was:?}"), format!("{shown:?}"));
        (was == shown)
            .then_some(())
            .ok_or_else(|| format!("{what}:\n was   {was}\n shown {shown}"))
    };
    same("events", &was.last_event, &shown.last_event)?;
    same("deletions", &was.deletions, &shown.deletions)?;
    let ids = |state: &LedgerState| state.steps.keys().copied().collect::<Vec<_>>();
    same("step ids", &ids(was), &ids(shown))?;
    for (step, (state, held, _)) in &was.steps {
        let (shown, shown_held, _) = &shown.steps[step];
        // In a deletion that stops at a failure, a replay only guesses whether a step was sent before the failure, or
        // was stuck because of it and then retried.
        let in_flight = state == "running" || state == "verifying" && without_event.contains(step);
        let may_be_held = in_flight && *shown_held || *held && shown == "running";
        let may_show = may_show(state, shown, without_event.contains(step)) && held == shown_held;
        if !may_show && !may_be_held {
            return Err(format!(
                "step {step}: was {state}, held {held}; shown {shown}, held {shown_held}"
            ));
        }
    }
    for (step, (attempts, error, next)) in &was.failures {
        let (shown_attempts, shown_error, shown_next) = &shown.failures[step];
        let parsed = |error: &Option<String>| -> Option<Value> {
            error
                .as_ref()
                .map(|text| serde_json::from_str(text).unwrap())
        };
        same(
            &format!("failure of step {step}"),
            &(attempts, parsed(error), next),
            &(shown_attempts, parsed(shown_error), shown_next),
        )?;
    }
    same("tombstones", &was.tombstones, &shown.tombstones)
}

/// Checks that the rules of a ledger hold in the rewound copy, too.
fn check_rules(db: &Connection) -> Result<(), String> {
    for (rule, sql) in rules(i64::MAX) {
        let broken = one_number(db, &sql);
        if broken != 0 {
            return Err(format!("{rule}: {broken}"));
        }
    }
    Ok(())
}

fn check_end(db: &Connection) -> Result<(), String> {
    for table in ["steps", "deletions", "requests", "tombstones"] {
        for (one, other) in [("", "last_"), ("last_", "")] {
            let sql = format!(
                "SELECT count(*) FROM (SELECT * FROM {one}{table} EXCEPT SELECT * FROM {other}{table})"
            );
            if one_number(db, &sql) != 0 {
                return Err(format!("{table} differ from those at the end"));
            }
        }
    }
    Ok(())
}

/// A third of the ledgers lose the messages of their events, which a replay does not need. Another third lose the
/// fields that older versions did not write; a replay then reads those facts from the messages.
fn change_events(db: &Connection, seed: u64) {
    let change = match seed % 3 {
        0 => return,
        1 => "UPDATE events SET message = ''",
        _ => {
            "UPDATE events SET data = json_remove(data, iif(kind = 'needs_person', '$.error', '$.note'))"
        }
    };
    db.execute(change, ()).unwrap();
}

async fn check_seed(seed: u64) -> Result<(), String> {
    let mut history = History::begin(seed);
    for _ in 0..60 {
        history.advance().await;
    }
    change_events(&history.db, seed);
    let Some(first) = history
        .notes
        .iter()
        .position(|(_, state, _)| state.last_event > 0)
    else {
        return Ok(());
    };
    let original = std::fs::read(history.folder.ledger()).unwrap();
    let copy = Folder::new();
    let mut rewind = Rewind::open(&history.folder.ledger(), &copy.path("")).unwrap();
    let db = Connection::open(copy.ledger()).unwrap();
    let mut notes = history.notes.split_off(first);
    history.random.shuffle(&mut notes);
    for (seconds, was, without_event) in &notes {
        rewind.seek(at(*seconds)).unwrap();
        let shown = LedgerState::of(&db);
        let at = format!("seed {seed}, {seconds} s: ");
        compare(was, &shown, without_event).map_err(|why| format!("{at}{why}"))?;
        check_rules(&db).map_err(|why| format!("{at}{why}"))?;
    }
    let (_, last) = rewind.span();
    rewind.seek(last).unwrap();
    check_end(&db).map_err(|why| format!("seed {seed}: {why}"))?;
    assert_eq!(std::fs::read(history.folder.ledger()).unwrap(), original);
    Ok(())
}

fn check_seeds(seeds: Vec<u64>) {
    assert!(!seeds.is_empty(), "no seed was asked for");
    let runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = { runtime }.build().unwrap();
    let wrong: Vec<String> = seeds
        .into_iter()
        .filter_map(|seed| runtime.block_on(check_seed(seed)).err())
        .collect();
    assert!(
        wrong.is_empty(),
        "{} wrong:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}

#[test]
fn a_rewound_copy_shows_the_ledger_as_it_was_at_any_time() {
    check_seeds((0..100).collect());
}

#[test]
fn a_rewound_copy_shows_the_ledger_as_it_was_at_any_time_for_more_seeds() {
    check_seeds(seeds(100..200));
}
