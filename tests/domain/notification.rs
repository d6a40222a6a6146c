//! Which events people are notified about, and when (I7).

use std::collections::BTreeMap;
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use gone::domain::model::{Deletion, DeletionState, Event, EventKind, Origin, Site};
use gone::domain::notification::{
    Pace, PendingTopics, REQUESTER_WAITS_MAX, STEPS_MAX, Subject, nobody_waits, wait_after,
};
use serde_json::json;

use crate::testkit;

const PACE: Pace = Pace {
    gather: Duration::from_secs(60),
    again: Duration::from_secs(3600),
};

fn at(seconds: i64) -> DateTime<Utc> {
    DateTime::from_timestamp(1_800_000_000 + seconds, 0).unwrap()
}

fn event(seq: i64, kind: EventKind) -> Event {
    Event {
        seq,
        at: at(seq),
        deletion_id: Some("d1".to_owned()),
        step_id: Some(seq),
        kind,
        message: format!("line {seq}"),
        data: json!({ "site": "prod/one" }),
    }
}

fn site(seq: i64, state: &str) -> Event {
    Event {
        deletion_id: None,
        step_id: None,
        data: json!({ "site": "prod/one", "state": state }),
        ..event(seq, EventKind::Site)
    }
}

fn gathered(events: &[Event]) -> PendingTopics {
    let mut gathered = PendingTopics::default();
    events.iter().for_each(|event| gathered.take(event, None));
    gathered
}

fn refused(origin: Origin, age: TimeDelta) -> Deletion {
    let by = testkit::actor("ada", origin);
    testkit::deletion("d1", by, DeletionState::Refused, at(7) - age)
}

#[test]
fn i07_stuck_steps_of_a_deletion_are_one_topic() {
    let events: Vec<Event> = (1..=9)
        .map(|seq| event(seq, EventKind::NeedsPerson))
        .collect();
    let found = gathered(&events);
    let topic = &found.topics[&Subject::Stuck("d1".to_owned())];
    assert_eq!((found.through, found.topics.len()), (9, 1));
    assert_eq!((topic.count, topic.since), (9, at(1)));
    assert_eq!(topic.steps, (1..=STEPS_MAX as i64).collect::<Vec<_>>());
    assert_eq!(topic.line, "line 1");
}

#[test]
fn events_that_need_no_person_make_no_topic() {
    for kind in [
        EventKind::Attempt,
        EventKind::StepState,
        EventKind::DeletionState,
        EventKind::DeletionAccepted,
        EventKind::DeletionPlanned,
        EventKind::Recreated,
        EventKind::Engine,
    ] {
        let found = gathered(&[event(3, kind)]);
        assert!(found.topics.is_empty(), "{kind:?}");
        assert_eq!(
            (found.through, found.due(PACE, &BTreeMap::new(), at(0))),
            (3, None)
        );
    }
}

#[test]
fn i07_a_refusal_counts_unless_its_requester_still_waits() {
    let moment = TimeDelta::seconds(1);
    for origin in [Origin::Console, Origin::Cli] {
        assert!(!nobody_waits(
            &refused(origin, REQUESTER_WAITS_MAX - moment),
            at(7)
        ));
        assert!(nobody_waits(&refused(origin, REQUESTER_WAITS_MAX), at(7)));
    }
    for origin in [Origin::Api, Origin::Gate, Origin::Peer, Origin::Engine] {
        assert!(nobody_waits(&refused(origin, TimeDelta::zero()), at(7)));
    }
    let mut found = PendingTopics::default();
    let event = event(7, EventKind::DeletionRefused);
    found.take(&event, Some(&refused(Origin::Cli, moment)));
    found.take(&event, None);
    assert!(found.topics.is_empty());
    found.take(&event, Some(&refused(Origin::Gate, moment)));
    assert!(
        found
            .topics
            .contains_key(&Subject::Refused("d1".to_owned()))
    );
}

#[test]
fn i07_a_site_that_works_again_is_left_out() {
    let lost = gathered(&[site(1, "paused")]);
    assert_eq!(lost.topics.len(), 1);
    let resumed = gathered(&[site(1, "paused"), site(2, "reachable")]);
    assert!(resumed.topics.is_empty(), "{resumed:?}");
    let lost_again = gathered(&[site(1, "paused"), site(2, "reachable"), site(3, "paused")]);
    let prod = Subject::Paused(Site::region("prod", "one"));
    assert_eq!(lost_again.topics[&prod].since, at(3));
}

#[test]
fn i07_events_are_gathered_into_one_message_and_more_of_the_same_subject_wait() {
    let found = gathered(&[
        event(0, EventKind::NeedsPerson),
        event(50, EventKind::NeedsPerson),
    ]);
    let subject = Subject::Stuck("d1".to_owned());
    let due = |notified_at| found.due(PACE, &notified_at, at(-9));
    assert_eq!(
        due(BTreeMap::new()),
        Some(at(60)),
        "the message is not due a minute after the first event"
    );
    let late = found.due(PACE, &BTreeMap::new(), at(30));
    assert_eq!(
        late,
        Some(at(90)),
        "an event from before the notifier's start does not count as of that start"
    );
    let notified = |when| BTreeMap::from([(subject.clone(), at(when))]);
    assert_eq!(due(notified(-100)), Some(at(3500)));
    assert_eq!(due(notified(-3600)), Some(at(60)));
    let other = BTreeMap::from([(Subject::Stuck("d2".to_owned()), at(0))]);
    assert_eq!(
        due(other),
        Some(at(60)),
        "a notification about another deletion changes the time"
    );
}

#[test]
fn i07_a_failing_channel_is_retried_after_longer_and_longer_waits() {
    let seconds: Vec<u64> = (1..=8).map(|n| wait_after(n).as_secs()).collect();
    assert_eq!(seconds, [5, 15, 60, 300, 600, 900, 900, 900]);
    assert_eq!(wait_after(0), wait_after(1));
    assert_eq!(wait_after(usize::MAX), Duration::from_secs(900));
}
