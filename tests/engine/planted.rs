//! Faults that are planted at the engine's ports, one at a time: the seeds must find each.

use super::harness::{Lies, Sent};
use super::seeds::run;

/// The invariants are worth something only if they find what is planted.
pub fn finds(lies: Lies, run: impl Fn(u64, Lies) -> Result<Vec<Sent>, String>) {
    let found = (0..200).find(|seed| run(*seed, lies).is_err());
    let seed = found.unwrap_or_else(|| panic!("{lies:?} was not noticed"));
    let honest = run(seed, Lies::None).err();
    assert_eq!(honest, None, "it is not the lie that was noticed");
}

#[test]
fn a_ledger_that_forgets_outcomes_is_detected() {
    finds(Lies::ForgetsOutcomes, run);
}

#[test]
fn a_ledger_that_loses_its_last_commit_is_detected() {
    finds(Lies::CommitsLate, run);
}

#[test]
fn a_ledger_that_ignores_fencing_is_detected() {
    finds(Lies::IgnoresFence, run);
}

#[test]
fn a_client_that_takes_any_404_for_gone_is_detected() {
    finds(Lies::AnyNotFoundIsGone, run);
}

#[test]
fn a_client_that_takes_accepted_for_gone_is_detected() {
    finds(Lies::AcceptedIsGone, run);
}
