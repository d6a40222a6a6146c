//! `gone ledger check`: the ledger's rules as checks, like those of the doctor.

use std::path::PathBuf;

use super::doctor::{Check, CheckFailure, fail, ok};
use crate::ledger::invariants::RuleChecked;
use crate::ledger::{LedgerError, Location, upkeep};

/// Returns a check for each rule that holds in every ledger.
///
/// # Errors
/// The ledger cannot be read at all.
pub fn check(location: &Location, seal_keys: &[PathBuf]) -> Result<Vec<Check>, LedgerError> {
    let checked = upkeep::check(location, seal_keys)?.into_iter();
    Ok(checked.map(shown).collect())
}

fn shown(checked: RuleChecked) -> Check {
    let RuleChecked {
        rule,
        broken,
        detail,
    } = &checked;
    let found = match (broken, detail.as_str()) {
        (0, _) => return ok(rule, "holds"),
        (times, "") => format!("broken {times} times"),
        (_, detail) => detail.to_owned(),
    };
    let advice = "Stop the engine, keep this ledger as it is, and continue with a backup.";
    fail(rule, CheckFailure::Damage, &found, advice)
}
