//! The outline of a deletion, which is read branch by branch, and the search for steps by text.

use std::collections::BTreeMap;

use gone::domain::filter::SearchQuery;
use gone::domain::model::{Action, ErrorClass, Plan, Step, StepState};
use gone::domain::outline::{BY_URGENCY, BranchRead};
use gone::ledger::sqlite::{Options, SqliteLedger, upkeep};
use gone::ledger::{Applied, Change, Cursor, Ledger, StepFilter};

use crate::stores::on_each_store;
use crate::support::*;

/// A plan for networks that each have a subnet and this number of ports. A subnet waits for its ports, and a network
/// for its subnet and ports.
fn networks(networks: usize, ports: usize) -> Plan {
    let mut steps = Vec::new();
    for n in 0..networks {
        let first = u32::try_from(steps.len()).unwrap();
        for p in 0..ports {
            let key = key("port", &format!("port-{n}-{p}"));
            steps.push(plan_step(steps.len(), Action::Delete, key, &[]));
        }
        let before: Vec<u32> = (first..).take(ports).collect();
        let subnet = key("subnet", &format!("subnet-{n}"));
        steps.push(plan_step(steps.len(), Action::Delete, subnet, &before));
        let before: Vec<u32> = (first..).take(ports + 1).collect();
        let network = key("network", &format!("network-{n}"));
        steps.push(plan_step(steps.len(), Action::Delete, network, &before));
    }
    plan(steps)
}

async fn below(ledger: &dyn Ledger, name: &str, step: Option<i64>) -> Vec<BranchRead> {
    let outline = ledger.outline(&id(name), vec![step]).await.unwrap();
    outline.branches
}

async fn steps_of_branch(ledger: &dyn Ledger, name: &str, branch: &BranchRead) -> Vec<Step> {
    let (deletion, branch) = (id(name), &branch.branch);
    let all = ledger.branch_steps(&deletion, branch.id, branch.counts, 0, 500);
    all.await.unwrap()
}

#[tokio::test]
async fn an_outline_has_the_counts_of_each_branch_and_the_steps_of_short_ones() {
    on_each_store(async |ledger| {
        start_deletion(ledger, "one", &networks(2, 10)).await;
        let roots = below(ledger, "one", None).await;
        let [networks] = roots.as_slice() else {
            panic!("{roots:?}");
        };
        assert_eq!(
            (networks.branch.kind.as_str(), networks.branch.leaf),
            ("network", false)
        );
        assert_eq!(networks.branch.counts.waiting, 2);
        let names: Vec<&str> = networks
            .steps
            .iter()
            .map(|s| s.resource.key.id.as_str())
            .collect();
        assert_eq!(names, ["network-0", "network-1"]);

        let subnets = below(ledger, "one", Some(networks.steps[0].id)).await;
        assert_eq!(subnets[0].steps[0].resource.key.id, "subnet-0");
        let ports = below(ledger, "one", Some(subnets[0].steps[0].id)).await;
        let [ports] = ports.as_slice() else {
            panic!("{ports:?}");
        };
        assert!(ports.branch.leaf && ports.steps.is_empty());
        assert_eq!(
            (ports.branch.counts.ready, ports.branch.counts.total),
            (10, 10)
        );
        // A deletion has no branch below a step of another deletion, and no steps in a branch of another deletion.
        start_deletion(ledger, "two", &single_network("two")).await;
        assert_eq!(below(ledger, "two", Some(networks.steps[0].id)).await, []);
        assert_eq!(steps_of_branch(ledger, "two", ports).await, []);
    })
    .await;
}

fn single_network(name: &str) -> Plan {
    let step = plan_step(0, Action::Delete, key("network", name), &[]);
    plan(vec![step])
}

#[tokio::test]
async fn the_steps_of_a_branch_are_sorted_by_urgency_and_read_from_any_index() {
    on_each_store(async |ledger| {
        start_deletion(ledger, "one", &networks(1, 40)).await;
        let ends = [
            (StepState::Gone, 7),
            (StepState::Stuck, 3),
            (StepState::Blocked, 5),
            (StepState::Verifying, 2),
        ];
        for (state, steps) in ends {
            for step in claim(ledger, steps).await {
                let change = match state {
                    StepState::Stuck | StepState::Blocked => {
                        failure(&step, state, ErrorClass::Blocked, at(2))
                    }
                    _ => outcome(&step, state, at(2)),
                };
                commit_one(ledger, record_outcome(change)).await;
            }
        }
        let network = below(ledger, "one", None).await[0].steps[0].id;
        let subnet = below(ledger, "one", Some(network)).await[0].steps[0].id;
        let ports = below(ledger, "one", Some(subnet)).await.remove(0);
        let all = steps_of_branch(ledger, "one", &ports).await;
        let order = |step: &Step| {
            let urgency = BY_URGENCY.iter().position(|state| *state == step.state);
            (urgency, step.id)
        };
        assert!(all.is_sorted_by_key(order) && all.len() == 40);
        let mut by_state: BTreeMap<&str, u64> = BTreeMap::new();
        for step in &all {
            *by_state.entry(step.state.as_str()).or_default() += 1;
        }
        for state in BY_URGENCY {
            let found = by_state.get(state.as_str()).copied().unwrap_or(0);
            assert_eq!(ports.branch.counts.of(state), found, "{state:?}");
        }
        for (from, limit) in [(0, 5), (2, 9), (7, 40), (33, 3), (39, 5), (40, 5)] {
            let deletion = id("one");
            let some = ledger.branch_steps(
                &deletion,
                ports.branch.id,
                ports.branch.counts,
                from as u64,
                limit,
            );
            let wanted: Vec<Step> = all.iter().skip(from).take(limit).cloned().collect();
            assert_eq!(some.await.unwrap(), wanted, "{limit} from {from}");
        }
        // The outline below a step says at which index of its branch the step is.
        for (index, step) in (0..).zip(&all) {
            let outline = ledger
                .outline(&id("one"), vec![Some(step.id)])
                .await
                .unwrap();
            let place = &outline.places[0];
            assert_eq!((place.branch, place.index), (ports.branch.id, index));
            assert_eq!(place.step.id, step.id);
        }
    })
    .await;
}

#[tokio::test]
async fn a_step_search_finds_and_counts_all_matches_across_pages() {
    // More steps than a search reads for one page.
    const PORTS: usize = 30_000;
    on_each_store(async |ledger| {
        start_deletion(ledger, "one", &networks(1, PORTS)).await;
        let claimed = claim(ledger, 1_000).await;
        let gone = claimed
            .iter()
            .map(|step| record_outcome(outcome(step, StepState::Gone, at(2))));
        let applied = ledger.commit(gone.collect()).await.unwrap();
        assert!(applied.iter().all(|it| *it == Applied::Done));
        start_deletion(ledger, "two", &single_network("port-0-29999-of-another")).await;
        for (text, wanted) in [
            ("port-0-29999", 1),
            ("PORT-0-29999", 1),
            ("9999", 3),
            ("kind=subnet", 1),
            ("!kind=port", 2),
            ("state=gone", 1_000),
            ("~pt0", 30_000),
            ("nowhere", 0),
        ] {
            let filter = StepFilter {
                deletion_id: Some(id("one")),
                text: SearchQuery::parse(text),
                ..StepFilter::default()
            };
            let (mut found, mut after) = (0, None);
            loop {
                let page = Cursor { after, limit: 500 };
                let page = ledger.steps(filter.clone(), page).await.unwrap();
                assert!(page.rows.len() <= 500);
                found += page.rows.len();
                after = page.next;
                if after.is_none() {
                    break;
                }
            }
            assert_eq!(found, wanted, "{text}");
            let (mut counted, mut after) = (0, None);
            loop {
                let (steps, next) = ledger.count_steps(filter.clone(), after).await.unwrap();
                counted += steps;
                after = next;
                if after.is_none() {
                    break;
                }
            }
            assert_eq!(counted, wanted as u64, "{text}");
        }
    })
    .await;
}

#[tokio::test]
async fn a_step_search_also_matches_the_error_of_a_stuck_step() {
    on_each_store(async |ledger| {
        start_deletion(ledger, "one", &ports(&[("a", &[]), ("b", &[])])).await;
        let step = claim(ledger, 1).await.remove(0);
        let stuck = failure(&step, StepState::Stuck, ErrorClass::Blocked, at(2));
        commit_one(ledger, record_outcome(stuck)).await;
        let found = async |text: &str| {
            let filter = StepFilter {
                text: SearchQuery::parse(text),
                ..StepFilter::default()
            };
            let page = ledger.steps(filter, first_page()).await.unwrap();
            page.rows.iter().map(|s| s.id).collect::<Vec<_>>()
        };
        assert_eq!(found("portinuse").await, [step.id]);
        assert_eq!(found("still state=stuck").await, [step.id]);
        assert_eq!(found("!portinuse").await.len(), 1);
    })
    .await;
}

#[tokio::test]
async fn branches_are_pruned_with_their_steps() {
    let folder = Folder::new();
    let ledger = SqliteLedger::open(&folder.ledger(), Options::default()).unwrap();
    start_deletion(&ledger, "one", &networks(3, 8)).await;
    for _ in 0..3 {
        claim_all_and_move_to(&ledger, StepState::Gone).await;
    }
    // The newest steps are kept, so that their ids are not used again.
    start_deletion(&ledger, "two", &single_network("two")).await;
    let piece = || Change::Prune {
        before: at(10),
        unique_id_kinds: unique_id_kinds(),
        audit: None,
        now: at(10),
    };
    while commit_one(&ledger, piece()).await != Applied::Moved(0) {}
    ledger.close().await;
    let db = rusqlite::Connection::open(folder.ledger()).unwrap();
    let left: i64 = db
        .query_row("SELECT count(*) FROM branches", (), |row| row.get(0))
        .unwrap();
    assert_eq!(left, 1, "the branches of the deletion that is left");
    for rule in upkeep::check(&folder.ledger(), &[]).unwrap() {
        assert_eq!(rule.broken, 0, "{rule:?}");
    }
}
