//! The audit's hash chain: each row's hash covers the previous row, so a row that was changed, inserted, or
//! removed from the middle is found (P6). The seal ([`super::sqlite`], `seal`) shows that no row was cut off
//! at the end.

use super::AuditRow;
use crate::domain::canonical::Canonical;

/// The hash before the first row.
pub const GENESIS: &str = "";

/// The first row at which the chain does not hold.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the audit is broken at row {seq}: the row is not what gone wrote")]
pub struct Broken {
    pub seq: i64,
}

/// Checks consecutive rows that start after the row whose hash is `previous` ([`GENESIS`] for the first).
/// Returns the last hash, from which the next page continues.
pub fn verify(previous: &str, rows: &[AuditRow]) -> Result<String, Broken> {
    let mut last = previous.to_owned();
    for row in rows {
        if link(&last, row) != row.hash {
            return Err(Broken { seq: row.seq });
        }
        last.clone_from(&row.hash);
    }
    Ok(last)
}

/// SHA-256, in hex, over the previous hash and the row's canonical JSON (keys sorted, no spaces,
/// without the hash).
pub fn link(previous: &str, row: &AuditRow) -> String {
    let body = serde_json::json!({
        "seq": row.seq,
        "at": row.at,
        "actor": row.actor,
        "action": row.action,
        "target": row.target,
        "reason": row.reason,
        "detail": row.detail,
    });
    let mut hash = Canonical::default();
    hash.text(previous);
    hash.value(&body);
    hash.finish()
}
