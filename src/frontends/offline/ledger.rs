//! `gone ledger check`: the ledger's rules as checks, like those of the doctor.

use std::path::{Path, PathBuf};

use super::doctor::{Check, CheckFailure, Health};
use crate::ledger::LedgerError;
use crate::ledger::sqlite::upkeep::{self, RuleChecked};

/// Returns a check for each rule that holds in every ledger.
///
/// # Errors
/// The ledger cannot be read at all.
pub fn check(path: &Path, seal_keys: &[PathBuf]) -> Result<Vec<Check>, LedgerError> {
    Ok(upkeep::check(path, seal_keys)?
        .into_iter()
        .map(shown)
        .collect())
}

fn shown(checked: RuleChecked) -> Check {
    let well = checked.broken == 0;
    let found = match (well, checked.detail.as_str()) {
        (true, _) => "holds".to_owned(),
        (false, "") => format!("broken {} times", checked.broken),
        (false, detail) => detail.to_owned(),
    };
    Check {
        name: checked.rule,
        health: if well { Health::Ok } else { Health::Fail },
        found,
        advice: match well {
            true => String::new(),
            false => "Stop the engine, keep this file, and go on with a backup.".to_owned(),
        },
        trouble: (!well).then_some(CheckFailure::Damage),
    }
}
