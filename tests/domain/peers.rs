//! What deployments say to each other, and what counts as an answer.

use gone::domain::model::{KindName, Phase, ResourceKey, Site};
use gone::domain::peers::{
    Answered, Answers, ClearanceRequest, DeletionNotice, DeletionNotices, Deployment, Holder,
    PeerScope, Question, Waits,
};

const ROOT: &str = "d1/x";

fn key(id: &str) -> ResourceKey {
    ResourceKey {
        site: Site::Deployment { name: "d0".into() },
        kind: KindName::new("k"),
        id: id.to_owned(),
    }
}

/// `a` under a root, and who waits for whom: `[("a", "rx"), …]`.
fn holder(root: Option<&str>, waits: &[(&str, &[&str])]) -> Holder {
    let mut known = Waits::default();
    for (id, on) in waits {
        known.add(key(id), on.iter().map(|id| key(id)).collect());
    }
    Holder {
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

fn asked(id: &str) -> ClearanceRequest {
    ClearanceRequest {
        key: key(id),
        deletion: Some("x".to_owned()),
        incarnation: 1,
        root: ROOT.to_owned(),
    }
}

#[test]
fn g13_only_what_waits_for_the_asked_in_a_circle_and_for_nothing_else_counts_as_clear() {
    let root = Some(ROOT);
    for (holder, clear) in [
        (holder(root, &[("a", &["rx"])]), true),
        (holder(root, &[("a", &["b"]), ("b", &["rx"])]), true),
        (
            holder(root, &[("a", &["b", "c"]), ("b", &["rx"]), ("c", &["a"])]),
            true,
        ),
        // It goes by itself.
        (holder(root, &[("a", &[])]), false),
        // Of what it waits for nothing is known, or something goes by itself.
        (holder(root, &[]), false),
        (holder(root, &[("a", &["b", "rx"])]), false),
        (holder(root, &[("a", &["b", "rx"]), ("b", &[])]), false),
        // What it waits for is another circle, which ends by itself.
        (
            holder(root, &[("a", &["b"]), ("b", &["c"]), ("c", &["b"])]),
            false,
        ),
        (
            holder(root, &[("a", &["b", "rx"]), ("b", &["c"]), ("c", &["b"])]),
            false,
        ),
        // It goes for another reason, or stays.
        (holder(Some("d1/y"), &[("a", &["rx"])]), false),
        (holder(None, &[("a", &["rx"])]), false),
    ] {
        let answered = Answered::of(asked("rx"), vec![holder.clone()], 1);
        assert_eq!(answered.clear, clear, "{holder:?}");
    }
    assert!(Answered::of(asked("rx"), Vec::new(), 0).clear);
    let unnamed = Answered::of(asked("rx"), vec![holder(root, &[("a", &["rx"])])], 2);
    assert!(!unnamed.clear);
}

#[test]
fn g07_an_answer_counts_only_if_it_is_whole_late_enough_and_about_what_was_asked() {
    let question = Question {
        from: Deployment {
            name: "d1".into(),
            service: "s1".into(),
            region: "r1".into(),
        },
        ledger: "l".into(),
        seq: 5,
        about: vec![asked("rx"), asked("ry")],
    };
    let answers = question.about.iter();
    let right = Answers {
        from: question.from.clone(),
        ledger: "l".into(),
        seq: 5,
        about: answers
            .map(|asked| Answered::of(asked.clone(), Vec::new(), 0))
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
        ("of another life", |it| it.about[1].asked.incarnation = 2),
    ];
    for (what, change) in wrong {
        let mut answer = right.clone();
        change(&mut answer);
        assert!(answer.check(&question).is_err(), "{what}");
    }
}

#[test]
fn g13_what_is_nearer_is_newer_and_an_echo_dies_out() {
    let home = Site::Deployment { name: "d9".into() };
    let told = |id: &str, on: &str| {
        let mut waits = Waits::default();
        waits.add(key(id), [key(on)].into());
        waits
    };
    // Over one more deployment each time.
    let over = |mut told: Waits, deployments: usize| {
        for _ in 0..deployments {
            let mut next = Waits::default();
            next.hear(&home, &told);
            told = next;
        }
        told
    };
    let on = |waits: &Waits| waits.of(&key("a")).cloned();
    for (first, then) in [(2, 0), (0, 2)] {
        let (far, near) = (over(told("a", "old"), 2), told("a", "new"));
        let mut waits = Waits::default();
        for nth in [first, then] {
            waits.hear(&home, if nth == 2 { &far } else { &near });
        }
        assert_eq!(on(&waits), Some([key("new")].into()));
    }
    assert!(on(&over(told("a", "b"), 60)).is_some());
    assert_eq!(on(&over(told("a", "b"), 70)), None);
    // Of its own each knows best.
    let mut own = Waits::default();
    own.hear(&key("a").site, &told("a", "b"));
    assert_eq!(on(&own), None);
}

#[test]
fn p13_an_importer_says_of_its_own_alone_what_that_waits_for() {
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
        about: vec![asked("rx")],
    };
    let answers = |holder: Holder| Answers {
        from: from.clone(),
        ledger: "l".to_owned(),
        seq: 1,
        about: vec![Answered {
            asked: asked("rx"),
            clear: true,
            holders: vec![holder],
            count: 1,
        }],
    };
    let told = holder(Some(ROOT), &[("a", &["rx"])]);
    assert_eq!(answers(told.clone()).check(&question), Ok(()));
    // What it was told of others travels on.
    let mut heard = told.clone();
    let mut others = Waits::default();
    others.add(elsewhere("z"), [key("a")].into());
    heard.waits.hear(&from.site(), &others);
    assert_eq!(answers(heard).check(&question), Ok(()));
    // What another has waits for, it does not say itself.
    let mut lie = told.clone();
    lie.waits.add(elsewhere("z"), [key("a")].into());
    assert!(answers(lie).check(&question).is_err());
    let lie = Holder {
        key: elsewhere("a"),
        ..told
    };
    assert!(answers(lie).check(&question).is_err());
}

#[test]
fn p13_an_owner_speaks_of_what_it_keeps_and_of_the_regions_that_are_its() {
    let owner = |name: &str, region: &str| Deployment {
        name: name.to_owned(),
        service: "network".to_owned(),
        region: region.to_owned(),
    };
    let says = |site: Site| DeletionNotices {
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
    for (site, believed) in [
        (deployment("net-1"), true),
        (deployment("net-2"), false),
        (deployment("home"), false),
        (Site::region("prod", "one"), true),
        (Site::region("prod", "two"), false),
        (Site::region("prod", "three"), true),
        (Site::region("lab", "three"), false),
    ] {
        let checked = says(site.clone()).check(&home, &kinds, &listed);
        assert_eq!(checked.is_ok(), believed, "{site}: {checked:?}");
    }
    // Of itself a deployment hears whatever is its.
    let own = says(Site::region("prod", "two"));
    assert_eq!(
        own.check(&owner("net-1", "one"), &kinds, &PeerScope::default()),
        Ok(())
    );
}
