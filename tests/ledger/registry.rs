//! The registry in the ledger: one record for each identity, and creates and updates during a deletion.

use chrono::{DateTime, Utc};
use gone::domain::model::{Action, KindName, Origin, Phase, ResourceKey, Site, StepState};
use gone::domain::native::{Native, NativeReference};
use gone::ledger::{
    Applied, Capacity, Change, Ledger, NativeBy, NativeFilter, NewNative, TombstoneFilter,
};
use serde_json::json;

use crate::stores::on_each_store;
use crate::support::*;

fn registry_key(kind: &str, id: &str) -> ResourceKey {
    ResourceKey {
        site: Site::Deployment {
            name: "home".into(),
        },
        kind: KindName::new(kind),
        id: id.to_owned(),
    }
}

fn new_native(key: ResourceKey, to: &[(&str, ResourceKey)], now: DateTime<Utc>) -> Box<NewNative> {
    let mut fields = serde_json::Map::new();
    let references = to.iter().map(|(field, to)| {
        fields.insert((*field).to_owned(), json!(to.id));
        NativeReference {
            field: (*field).to_owned(),
            here: to.site == key.site,
            to: to.clone(),
        }
    });
    Box::new(NewNative {
        references: references.collect(),
        fields: fields.clone(),
        audit: entry("create", &key.to_string(), Origin::Api),
        key,
        now,
    })
}

async fn add_rack(ledger: &dyn Ledger, id: &str, now: DateTime<Utc>) -> Applied {
    commit_one(
        ledger,
        Change::Add(new_native(registry_key("rack", id), &[], now)),
    )
    .await
}

async fn rack(ledger: &dyn Ledger, id: &str) -> Option<Native> {
    let filter = NativeFilter {
        site: registry_key("rack", id).site,
        kind: KindName::new("rack"),
        by: NativeBy::Ids(vec![id.to_owned()]),
    };
    ledger
        .native(filter, first_page())
        .await
        .unwrap()
        .rows
        .pop()
}

/// Deletes a rack as an engine does: starts a deletion, removes the resource, and records that it is gone.
async fn delete_rack(ledger: &dyn Ledger, name: &str, id: &str, incarnation: u32) {
    let plan = plan(vec![plan_step(
        0,
        Action::Delete,
        registry_key("rack", id),
        &[],
    )]);
    start_deletion(ledger, name, &plan).await;
    let capacities = vec![Capacity {
        site: registry_key("rack", id).site,
        now: 10,
        ahead: 0,
    }];
    let step = ledger.claim(capacities, at(2)).await.unwrap().remove(0);
    let key = registry_key("rack", id);
    let gone = Change::DeleteNative {
        key,
        incarnation,
        unless: [].into(),
        now: at(4),
    };
    assert_eq!(commit_one(ledger, gone).await, Applied::Done);
    let change = outcome(&step, StepState::Gone, at(3));
    assert_eq!(
        commit_one(ledger, record_outcome(change)).await,
        Applied::Done
    );
}

#[tokio::test]
async fn m01_m03_a_resource_that_is_recreated_keeps_its_record() {
    on_each_store(async |ledger| {
        let mut records = Vec::new();
        for life in 1..=4 {
            assert_eq!(add_rack(ledger, "r1", at(1)).await, Applied::Done);
            let found = rack(ledger, "r1").await.unwrap();
            assert_eq!((found.incarnation, found.deleting), (life, false));
            delete_rack(ledger, &format!("deletion-{life}"), "r1", life).await;
            assert_eq!(rack(ledger, "r1").await, None);
            let filter = TombstoneFilter {
                id: Some("r1".to_owned()),
                ..TombstoneFilter::default()
            };
            let rows = ledger.tombstones(filter, first_page()).await;
            let rows = rows.unwrap().rows;
            assert_eq!(rows.len(), 1);
            assert_eq!((rows[0].phase, rows[0].incarnation), (Phase::Gone, life));
            records.push(rows[0].record_id);
        }
        records.dedup();
        assert_eq!(records.len(), 1);
    })
    .await;
}

#[tokio::test]
async fn m02_m05_a_second_create_of_the_same_id_is_refused_and_changes_nothing() {
    on_each_store(async |ledger| {
        let both = vec![
            Change::Add(new_native(registry_key("rack", "r1"), &[], at(1))),
            Change::Add(new_native(registry_key("rack", "R1"), &[], at(2))),
        ];
        let answers = ledger.commit(both).await.unwrap();
        assert_eq!(answers[0], Applied::Done);
        assert!(
            matches!(&answers[1], Applied::Refused(why) if why == "rack/R1@home exists already")
        );
        assert_eq!(rack(ledger, "r1").await.unwrap().created_at, at(1));
    })
    .await;
}

#[tokio::test]
async fn m02_t17_a_resource_being_deleted_cannot_be_created_changed_or_referred_to() {
    on_each_store(async |ledger| {
        add_rack(ledger, "r1", at(1)).await;
        add_rack(ledger, "r2", at(1)).await;
        let read_at = rack(ledger, "r1").await.unwrap().updated_at;
        let plan = plan(vec![plan_step(
            0,
            Action::Delete,
            registry_key("rack", "r1"),
            &[],
        )]);
        start_deletion(ledger, "one", &plan).await;
        assert!(rack(ledger, "r1").await.unwrap().deleting);
        let again = add_rack(ledger, "r1", at(2)).await;
        let new = new_native(registry_key("rack", "r1"), &[], at(2));
        let changed = commit_one(ledger, Change::Amend { new, read_at }).await;
        let to = [("rack", registry_key("rack", "r1"))];
        let referring = commit_one(
            ledger,
            Change::Add(new_native(registry_key("disk", "d1"), &to, at(2))),
        )
        .await;
        let read_at = rack(ledger, "r2").await.unwrap().updated_at;
        let new = new_native(registry_key("rack", "r2"), &to, at(2));
        let amended = commit_one(ledger, Change::Amend { new, read_at }).await;
        for answer in [again, changed, referring, amended] {
            let Applied::Refused(why) = answer else {
                panic!("{answer:?}");
            };
            assert!(
                why.contains("rack/r1@home is being deleted by deletion"),
                "{why}"
            );
        }
    })
    .await;
}

#[tokio::test]
async fn i11_an_update_of_an_old_version_and_a_delete_of_another_incarnation_are_stale() {
    on_each_store(async |ledger| {
        add_rack(ledger, "r1", at(1)).await;
        let read_at = rack(ledger, "r1").await.unwrap().updated_at;
        let amend = |now| Change::Amend {
            new: new_native(registry_key("rack", "r1"), &[], now),
            read_at,
        };
        assert_eq!(commit_one(ledger, amend(at(2))).await, Applied::Done);
        assert_eq!(commit_one(ledger, amend(at(3))).await, Applied::Stale);
        let key = registry_key("rack", "r1");
        let other = Change::DeleteNative {
            key: key.clone(),
            incarnation: 2,
            unless: [].into(),
            now: at(4),
        };
        assert_eq!(commit_one(ledger, other).await, Applied::Stale);
        assert!(rack(ledger, "r1").await.is_some());
    })
    .await;
}

#[tokio::test]
async fn g06_the_reference_index_follows_creates_unsets_and_deletes() {
    on_each_store(async |ledger| {
        add_rack(ledger, "r1", at(1)).await;
        add_rack(ledger, "r2", at(1)).await;
        let to = [
            ("a", registry_key("rack", "r1")),
            ("b", registry_key("rack", "r2")),
        ];
        commit_one(
            ledger,
            Change::Add(new_native(registry_key("disk", "d1"), &to, at(1))),
        )
        .await;
        let referrers_of = async |id: &str| -> Vec<String> {
            let fields = [("disk", "a"), ("disk", "b")];
            let fields = fields.map(|(kind, field)| (KindName::new(kind), field.to_owned()));
            let to = vec![registry_key("rack", id)];
            let found = ledger.referrers(to, fields.into(), 10).await.unwrap();
            found
                .into_iter()
                .flat_map(|it| it.named)
                .map(|it| format!("{} {}", it.key.id, it.field))
                .collect()
        };
        assert_eq!(referrers_of("r1").await, ["d1 a"]);
        assert_eq!(referrers_of("R2").await, ["d1 b"]);
        let unset = Change::Unset {
            key: registry_key("disk", "d1"),
            references: vec![("a".to_owned(), registry_key("rack", "r1"))],
            now: at(2),
        };
        assert_eq!(commit_one(ledger, unset).await, Applied::Done);
        assert_eq!(referrers_of("r1").await, Vec::<String>::new());
        let gone = Change::DeleteNative {
            key: registry_key("disk", "d1"),
            incarnation: 1,
            unless: [].into(),
            now: at(4),
        };
        commit_one(ledger, gone).await;
        assert_eq!(referrers_of("r2").await, Vec::<String>::new());
    })
    .await;
}
