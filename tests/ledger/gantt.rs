//! Gantt charts, due steps, the calls of the last hour, and the deletions that ended in the last day, counted from the
//! events and the rows.

use chrono::TimeDelta;
use gone::domain::gantt::{CellState, DUE_WITHIN, GanttCell};
use gone::domain::last_hour::SiteMinute;
use gone::domain::model::{Action, ErrorClass, StepState};
use gone::ledger::sqlite::rewind::Rewind;
use gone::ledger::sqlite::{InlineLedger, Options, Store};
use gone::ledger::{Applied, Change, PurgeAction, Selection, Views as _};

use crate::stores::on_each_store;
use crate::support::*;

fn cell(column: u32, sent: u64, refused: u64, ended: u64) -> GanttCell {
    GanttCell {
        column,
        sent,
        refused,
        ended,
    }
}

/// Two ports, one of which is refused at first, and a network that waits for both.
#[tokio::test]
async fn a_gantt_chart_shows_the_calls_of_a_deletion_and_the_step_it_waited_for() {
    on_each_store(async |ledger| {
        let steps = vec![
            plan_step(0, Action::Delete, key("port", "a"), &[]),
            plan_step(1, Action::Delete, key("port", "b"), &[]),
            plan_step(2, Action::Delete, key("network", "n"), &[0, 1]),
        ];
        start_deletion(ledger, "web", &plan(steps)).await;
        let claimed = claim(ledger, 10).await;
        let of = |id: &str| claimed.iter().find(|step| step.key.id == id).unwrap();
        let refused = with_decision(
            failure(of("a"), StepState::Blocked, ErrorClass::Blocked, at(2)),
            |it| it.next_attempt_at = Some(at(8)),
        );
        commit_one(ledger, record_outcome(refused)).await;
        commit_one(
            ledger,
            record_outcome(outcome(of("b"), StepState::Gone, at(4))),
        )
        .await;

        let half = ledger.gantt(&id("web"), 10, at(10)).await.unwrap().unwrap();
        assert_eq!((half.from, half.until), (at(0), at(10)));
        let port = &half.rows[0];
        assert_eq!((port.kind.as_str(), port.ended, port.steps), ("port", 1, 2));
        assert_eq!(port.cells, [cell(2, 1, 1, 0), cell(4, 1, 0, 1)]);
        assert_eq!(port.last.name, "name-a");
        assert_eq!(port.last.ended_at, None);
        let network = &half.rows[1];
        assert_eq!(network.cell_states(10, 10), [CellState::Waits; 10]);
        let waits = network.last.waited_for.as_ref().unwrap();
        assert_eq!((waits.name.as_str(), waits.ended_at), ("name-a", None));

        commit_one(ledger, Change::WakeDue { now: at(8) }).await;
        let again = ledger.claim(vec![capacity(9)], at(8)).await.unwrap();
        end_step(ledger, &again[0], StepState::Gone, at(8)).await;
        let last = ledger.claim(vec![capacity(9)], at(9)).await.unwrap();
        end_step(ledger, &last[0], StepState::Gone, at(10)).await;

        // The deletion has ended, so a later chart covers the same time.
        let whole = ledger
            .gantt(&id("web"), 10, at(999))
            .await
            .unwrap()
            .unwrap();
        assert_eq!(whole.until, at(10));
        assert_eq!(whole.rows[0].cells[2], cell(8, 1, 0, 1));
        // An event at the very end belongs to the last column.
        assert_eq!(whole.rows[1].cells, [cell(9, 1, 0, 1)]);
        let waited = whole.rows[1].last.waited_for.as_ref().unwrap();
        assert_eq!(
            (waited.name.as_str(), waited.ended_at),
            ("name-a", Some(at(8)))
        );
        assert_eq!(ledger.gantt(&id("none"), 10, at(9)).await.unwrap(), None);
    })
    .await;
}

#[tokio::test]
async fn blocked_steps_are_counted_by_due_time() {
    on_each_store(async |ledger| {
        start_deletion(ledger, "web", &many_ports(6)).await;
        let claimed = claim(ledger, 10).await;
        // Due times: overdue, now, at the end of the first column, right after it, far away; one step is not blocked.
        for (step, due) in claimed.iter().zip([-5, 0, 10, 11, 200_000]) {
            let refused = with_decision(
                failure(step, StepState::Blocked, ErrorClass::Blocked, at(2)),
                |it| it.next_attempt_at = Some(at(100) + TimeDelta::seconds(due)),
            );
            commit_one(ledger, record_outcome(refused)).await;
        }
        let upcoming = ledger.upcoming(at(100)).await.unwrap();
        assert_eq!((upcoming.at, upcoming.now), (at(100), 2));
        assert_eq!(upcoming.next, Some(at(110)));
        let mut columns = vec![0; DUE_WITHIN.len() + 1];
        (columns[0], columns[1]) = (1, 1);
        columns[DUE_WITHIN.len()] = 1;
        assert_eq!(upcoming.columns, columns);
    })
    .await;
}

fn minute(minute: u32, calls: u64, refused: u64) -> SiteMinute {
    SiteMinute {
        site: site(),
        minute,
        calls,
        refused,
    }
}

/// One deletion each minute for two hours.
#[tokio::test]
async fn the_last_hour_counts_the_calls_of_all_deletions_by_minute() {
    on_each_store(async |ledger| {
        for n in 0..120 {
            let (name, now) = (format!("web-{n}"), at(n * 60 + 30));
            let root = target("port", &format!("root-{name}"));
            commit_one(ledger, accept(new_deletion(&name, vec![root], now))).await;
            commit_one(ledger, start(&name, &ports(&[(name.as_str(), &[])]), now)).await;
            let step = ledger
                .claim(vec![capacity(1)], now)
                .await
                .unwrap()
                .remove(0);
            end_step(ledger, &step, StepState::Gone, now).await;
        }
        let now = at(120 * 60 - 1);
        let hour = ledger.last_hour(now).await.unwrap();
        assert_eq!(hour.until, at(120 * 60));
        let each: Vec<SiteMinute> = (0..60).map(|n| minute(n, 1, 0)).collect();
        assert_eq!(hour.minutes, each);
        // Half an hour later, half of the calls are older than an hour; after an hour, all of them are.
        let hour = ledger
            .last_hour(now + TimeDelta::minutes(30))
            .await
            .unwrap();
        assert_eq!(hour.minutes, each[..30]);
        let hour = ledger
            .last_hour(now + TimeDelta::minutes(60))
            .await
            .unwrap();
        assert_eq!(hour.minutes, []);
    })
    .await;
}

/// A stuck step causes three events: its outcome, its need for a person, and its stuck dependent.
#[tokio::test]
async fn a_refused_call_is_counted_once_and_its_stuck_dependent_is_not() {
    on_each_store(async |ledger| {
        start_deletion(
            ledger,
            "web",
            &ports(&[("a", &[]), ("b", &[0]), ("c", &[])]),
        )
        .await;
        let claimed = claim(ledger, 10).await;
        let stuck = failure(&claimed[0], StepState::Stuck, ErrorClass::Fatal, at(70));
        commit_one(ledger, record_outcome(stuck)).await;
        let accepted = outcome(&claimed[1], StepState::Verifying, at(80));
        commit_one(ledger, record_outcome(accepted)).await;
        let hour = ledger.last_hour(at(59 * 60)).await.unwrap();
        assert_eq!(hour.minutes, [minute(1, 2, 1)]);
        // Only the observation finds that the accepted delete had no effect.
        let observed = steps_to_observe(ledger, at(200), 1)
            .await
            .unwrap()
            .remove(0);
        let refused = failure(&observed, StepState::Blocked, ErrorClass::Blocked, at(200));
        commit_one(ledger, record_outcome(refused)).await;
        let hour = ledger.last_hour(at(59 * 60)).await.unwrap();
        assert_eq!(hour.minutes, [minute(1, 2, 1), minute(3, 0, 1)]);
    })
    .await;
}

#[tokio::test]
async fn the_last_day_counts_the_ended_deletions_and_their_gone_steps() {
    on_each_store(async |ledger| {
        let ends = async |name: &str, states: &[StepState], now| {
            let root = target("port", &format!("root-{name}"));
            commit_one(ledger, accept(new_deletion(name, vec![root], now))).await;
            let ids: Vec<String> = (0..states.len()).map(|n| format!("{name}-{n}")).collect();
            let steps: Vec<(&str, &[u32])> = ids.iter().map(|id| (id.as_str(), &[][..])).collect();
            commit_one(ledger, start(name, &ports(&steps), now)).await;
            let claimed = ledger.claim(vec![capacity(9)], now).await.unwrap();
            for (step, state) in claimed.iter().zip(states) {
                commit_one(ledger, record_outcome(outcome(step, *state, now))).await;
            }
        };
        ends("early", &[StepState::Gone, StepState::Gone], at(0)).await;
        ends("late", &[StepState::Gone, StepState::Skipped], at(3_600)).await;
        // A stuck or running deletion has not ended.
        ends("stuck", &[StepState::Gone, StepState::Stuck], at(3_600)).await;
        start_deletion(ledger, "waits", &ports(&[("w", &[])])).await;

        let day = async |now| {
            let day = ledger.last_day(now).await.unwrap();
            (day.deletions, day.gone)
        };
        let hours = |hours: i64| at(hours * 3_600);
        assert_eq!(day(hours(2)).await, (2, 3));
        assert_eq!(day(hours(24)).await, (1, 1));
        assert_eq!(day(hours(25)).await, (0, 0));
    })
    .await;
}

#[tokio::test]
async fn a_ledger_without_events_has_no_calls_in_its_last_hour() {
    on_each_store(async |ledger| {
        let hour = ledger.last_hour(at(0)).await.unwrap();
        assert_eq!(hour.minutes, []);
    })
    .await;
}

#[tokio::test]
async fn a_gantt_chart_also_shows_a_rung_that_moves_no_step() {
    on_each_store(async |ledger| {
        // The other port is in flight, so that the deletion has not ended.
        start_deletion(ledger, "web", &ports(&[("a", &[]), ("b", &[])])).await;
        let step = claim(ledger, 2).await.remove(0);
        let refused = failure(&step, StepState::Stuck, ErrorClass::Fatal, at(2));
        commit_one(ledger, record_outcome(refused)).await;
        let chosen = Selection::Steps(vec![step.id]);
        let runbook = purge(chosen, PurgeAction::Runbook, at(50));
        assert_eq!(commit_one(ledger, runbook).await, Applied::Done);
        let drawn = ledger.gantt(&id("web"), 10, at(100)).await.unwrap();
        let cells = &drawn.unwrap().rows[0].cells;
        assert_eq!(cells.last(), Some(&cell(5, 0, 0, 0)));
    })
    .await;
}

/// In a rewound copy, `events` is a view of the events up to the time that the copy shows.
#[tokio::test]
async fn a_rewound_copy_has_the_gantt_chart_of_its_time() {
    let folder = Folder::new();
    let store = Store::open(&folder.ledger(), Options::default()).unwrap();
    let ledger = InlineLedger::new(store);
    start_deletion(&ledger, "web", &ports(&[("a", &[]), ("b", &[])])).await;
    let claimed = claim(&ledger, 10).await;
    let refused = with_decision(
        failure(&claimed[0], StepState::Blocked, ErrorClass::Blocked, at(2)),
        |it| it.next_attempt_at = Some(at(30)),
    );
    commit_one(&ledger, record_outcome(refused)).await;
    end_step(&ledger, &claimed[1], StepState::Gone, at(9)).await;

    let copy = Folder::new();
    let mut rewind = Rewind::open(&folder.ledger(), &copy.path("")).unwrap();
    rewind.seek(at(5)).unwrap();
    let shown = rewind.ledger().unwrap();
    let chart = shown.gantt(&id("web"), 10, at(10)).await.unwrap().unwrap();
    assert_eq!(chart.rows[0].ended, 0);
    assert_eq!(chart.rows[0].cells, [cell(2, 1, 1, 0)]);
    let upcoming = shown.upcoming(at(5)).await.unwrap();
    assert_eq!(upcoming.columns.iter().sum::<u64>(), 1);
}
