//! The messages between deployments: which ones are accepted, and which answers are clearances.

use gone::domain::model::{KindName, Phase, ResourceKey, Site};
use gone::domain::peers::{
    Answers, ClearanceAnswer, ClearanceRequest, DeletionNotice, DeletionNotices, Deployment,
    NamedReferrer, PeerScope, Question, Waits,
};

const ROOT: &str = "d1/x";

fn key(id: &str) -> ResourceKey {
    ResourceKey {
        site: Site::Deployment { name: "d0".into() },
        kind: KindName::new("k"),
        id: id.to_owned(),
    }
}

/// The referrer `a` with this root. `waits` lists resources, each with the resources that it waits for: `[("a",
/// ["rx"]), …]`.
fn referrer(root: Option<&str>, waits: &[(&str, &[&str])]) -> NamedReferrer {
    let mut known = Waits::default();
    for (id, on) in waits {
        known.add(key(id), on.iter().map(|id| key(id)).collect());
    }
    NamedReferrer {
        key: key("a"),
        name: String::new(),
        project_id: String::new(),
        blocks: false,
        root: root.map(str::to_owned),
        waits: known,
        why: String::new(),
        held_by: Vec::new(),
    }
}

fn request(id: &str) -> ClearanceRequest {
    ClearanceRequest {
        key: key(id),
        deletion: Some("x".to_owned()),
        incarnation: 1,
        root: ROOT.to_owned(),
    }
}

#[test]
fn g13_a_referrer_that_waits_for_the_resource_in_a_cycle_and_for_nothing_else_is_clear() {
    let root = Some(ROOT);
    for (referrer, clear) in [
        (referrer(root, &[("a", &["rx"])]), true),
        (referrer(root, &[("a", &["b"]), ("b", &["rx"])]), true),
        (
            referrer(root, &[("a", &["b", "c"]), ("b", &["rx"]), ("c", &["a"])]),
            true,
        ),
        // `a` waits for nothing, so it is deleted without this clearance.
        (referrer(root, &[("a", &[])]), false),
        // The waits of `a`, or of a resource that it waits for, are not known, or such a resource waits for nothing.
        (referrer(root, &[]), false),
        (referrer(root, &[("a", &["b", "rx"])]), false),
        (referrer(root, &[("a", &["b", "rx"]), ("b", &[])]), false),
        // `a` waits for a cycle that does not contain it. That cycle ends without this clearance.
        (
            referrer(root, &[("a", &["b"]), ("b", &["c"]), ("c", &["b"])]),
            false,
        ),
        (
            referrer(root, &[("a", &["b", "rx"]), ("b", &["c"]), ("c", &["b"])]),
            false,
        ),
        // Another cascade deletes `a`, or none does.
        (referrer(Some("d1/y"), &[("a", &["rx"])]), false),
        (referrer(None, &[("a", &["rx"])]), false),
    ] {
        let answered = ClearanceAnswer::of(request("rx"), vec![referrer.clone()], 1);
        assert_eq!(answered.clear, clear, "{referrer:?}");
    }
    assert!(ClearanceAnswer::of(request("rx"), Vec::new(), 0).clear);
    let unnamed = ClearanceAnswer::of(request("rx"), vec![referrer(root, &[("a", &["rx"])])], 2);
    assert!(!unnamed.clear);
}

#[test]
fn g07_an_answer_counts_only_if_complete_late_enough_and_about_the_question() {
    let question = Question {
        from: Deployment {
            name: "d1".into(),
            service: "s1".into(),
            region: "r1".into(),
        },
        ledger: "l".into(),
        seq: 5,
        about: vec![request("rx"), request("ry")],
    };
    let answers = question.about.iter();
    let right = Answers {
        from: question.from.clone(),
        ledger: "l".into(),
        seq: 5,
        about: answers
            .map(|request| ClearanceAnswer::of(request.clone(), Vec::new(), 0))
            .collect(),
    };
    assert_eq!(right.check(&question), Ok(()));
    type Change = fn(&mut Answers);
    let wrong: [(&str, Change); 6] = [
        ("early", |it| it.seq = 4),
        ("of another ledger", |it| it.ledger = "m".into()),
        ("empty", |it| it.about.clear()),
        ("short", |it| drop(it.about.pop())),
        ("of another deletion", |it| {
            it.about[0].asked.deletion = Some("y".into());
        }),
        ("of another incarnation", |it| {
            it.about[1].asked.incarnation = 2
        }),
    ];
    for (mistake, change) in wrong {
        let mut answer = right.clone();
        change(&mut answer);
        assert!(answer.check(&question).is_err(), "{mistake}");
    }
}

#[test]
fn g13_waits_from_nearer_deployments_win_and_waits_are_dropped_after_64_hops() {
    let home = Site::Deployment { name: "d9".into() };
    let waits_of = |id: &str, on: &str| {
        let mut waits = Waits::default();
        waits.add(key(id), [key(on)].into());
        waits
    };
    // Each deployment passes the waits on to the next.
    let pass_on = |mut passed: Waits, deployments: usize| {
        for _ in 0..deployments {
            let mut next = Waits::default();
            next.merge_reported(&home, &passed);
            passed = next;
        }
        passed
    };
    let on = |waits: &Waits| waits.of(&key("a")).cloned();
    for (first, then) in [(2, 0), (0, 2)] {
        let (far, near) = (pass_on(waits_of("a", "old"), 2), waits_of("a", "new"));
        let mut waits = Waits::default();
        for nth in [first, then] {
            waits.merge_reported(&home, if nth == 2 { &far } else { &near });
        }
        assert_eq!(on(&waits), Some([key("new")].into()));
    }
    assert!(on(&pass_on(waits_of("a", "b"), 60)).is_some());
    assert_eq!(on(&pass_on(waits_of("a", "b"), 70)), None);
    // A deployment ignores what others report about its own resources.
    let mut own = Waits::default();
    own.merge_reported(&key("a").site, &waits_of("a", "b"));
    assert_eq!(on(&own), None);
}

#[test]
fn p13_an_importer_may_report_only_its_own_referrers_and_their_waits() {
    let from = Deployment {
        name: "d0".to_owned(),
        service: "s".to_owned(),
        region: "r".to_owned(),
    };
    let elsewhere = |id: &str| ResourceKey {
        site: Site::Deployment { name: "d9".into() },
        ..key(id)
    };
    let question = Question {
        from: Deployment {
            name: "d1".to_owned(),
            ..from.clone()
        },
        ledger: "l".to_owned(),
        seq: 1,
        about: vec![request("rx")],
    };
    let answers = |referrer: NamedReferrer| Answers {
        from: from.clone(),
        ledger: "l".to_owned(),
        seq: 1,
        about: vec![ClearanceAnswer {
            asked: request("rx"),
            clear: true,
            referrers: vec![referrer],
            count: 1,
        }],
    };
    let own = referrer(Some(ROOT), &[("a", &["rx"])]);
    assert_eq!(answers(own.clone()).check(&question), Ok(()));
    // An importer may pass on waits that another deployment reported to it.
    let mut passed_on = own.clone();
    let mut others = Waits::default();
    others.add(elsewhere("z"), [key("a")].into());
    passed_on.waits.merge_reported(&from.site(), &others);
    assert_eq!(answers(passed_on).check(&question), Ok(()));
    // An importer may not report the waits of another deployment's resource as its own.
    let mut lie = own.clone();
    lie.waits.add(elsewhere("z"), [key("a")].into());
    assert!(answers(lie).check(&question).is_err());
    let lie = NamedReferrer {
        key: elsewhere("a"),
        ..own
    };
    assert!(answers(lie).check(&question).is_err());
}

#[test]
fn p13_an_owner_may_report_only_its_own_resources_and_those_of_its_regions() {
    let owner = |name: &str, region: &str| Deployment {
        name: name.to_owned(),
        service: "network".to_owned(),
        region: region.to_owned(),
    };
    let notices = |site: Site| DeletionNotices {
        from: owner("net-1", "one"),
        ledger: "l".to_owned(),
        seq: 1,
        changes: vec![DeletionNotice {
            key: ResourceKey { site, ..key("x") },
            phase: Phase::Deleting,
            incarnation: 1,
            deletion: "d".to_owned(),
            root: "net-1/d".to_owned(),
        }],
        more: false,
    };
    let deployment = |name: &str| Site::Deployment { name: name.into() };
    let kinds = [KindName::new("k")].into();
    let home = owner("home", "here");
    let listed = PeerScope {
        name: None,
        sites: vec![Site::region("prod", "three")],
    };
    for (site, accepted) in [
        (deployment("net-1"), true),
        (deployment("net-2"), false),
        (deployment("home"), false),
        (Site::region("prod", "one"), true),
        (Site::region("prod", "two"), false),
        (Site::region("prod", "three"), true),
        (Site::region("lab", "three"), false),
    ] {
        let checked = notices(site.clone()).check(&home, &kinds, &listed);
        assert_eq!(checked.is_ok(), accepted, "{site}: {checked:?}");
    }
    // A deployment accepts its own notices about any region.
    let own = notices(Site::region("prod", "two"));
    assert_eq!(
        own.check(&owner("net-1", "one"), &kinds, &PeerScope::default()),
        Ok(())
    );
}
