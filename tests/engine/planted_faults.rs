//! Plants faults at the engine's ports, one at a time: the invariants of the simulation must detect each.

use super::harness::{PlantedFault, SentRequest};
use super::seeds::run;

/// Asserts that one of 200 seeds fails with the planted fault, and passes without it.
pub fn assert_detected(
    planted_fault: PlantedFault,
    run: impl Fn(u64, PlantedFault) -> Result<Vec<SentRequest>, String>,
) {
    let found = (0..200).find(|seed| run(*seed, planted_fault).is_err());
    let seed =
        found.unwrap_or_else(|| panic!("no seed detects the planted fault {planted_fault:?}"));
    let honest = run(seed, PlantedFault::None).err();
    assert_eq!(
        honest, None,
        "the seed fails without the planted fault, too"
    );
}

#[test]
fn a_ledger_that_forgets_outcomes_is_detected() {
    assert_detected(PlantedFault::ForgetsOutcomes, run);
}

#[test]
fn a_ledger_that_loses_its_last_commit_is_detected() {
    assert_detected(PlantedFault::CommitsLate, run);
}

#[test]
fn a_ledger_that_ignores_fencing_is_detected() {
    assert_detected(PlantedFault::IgnoresFencing, run);
}

#[test]
fn a_client_that_takes_any_404_for_gone_is_detected() {
    assert_detected(PlantedFault::AnyNotFoundIsGone, run);
}

#[test]
fn a_client_that_takes_accepted_for_gone_is_detected() {
    assert_detected(PlantedFault::AcceptedIsGone, run);
}
