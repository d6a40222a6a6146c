//! The audit's hash chain: each row's hash covers the previous row, so a row that was changed, inserted, or
//! removed from the middle is found (P6). In a file, the seal ([`super::sqlite`], `seal`) shows that no row was
//! cut off at the end.

use std::fmt::{self, Display, Formatter};

use chrono::{DateTime, SubsecRound as _, Utc};

use super::store::{LogReads, Stored};
use super::{AuditEntry, AuditRow};
use crate::domain::canonical::Canonical;

/// The hash before the first row.
pub const GENESIS: &str = "";

/// Number of the audit's rows that are read at a time.
const ROWS: usize = 1_000;

/// The length of the chain, and its last hash.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Head {
    pub length: i64,
    pub hash: String,
}

impl Head {
    pub fn of(row: &AuditRow) -> Self {
        Self {
            length: row.seq,
            hash: row.hash.clone(),
        }
    }

    pub fn none() -> Self {
        Self {
            length: 0,
            hash: GENESIS.to_owned(),
        }
    }
}

impl Display for Head {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.length, self.hash)
    }
}

/// The first row at which the chain is broken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the audit is broken at row {seq}: this row, or the one before it, was changed, inserted or removed outside gone"
)]
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

/// Returns the row that continues the chain with this entry. Logs the row's number and hash: a log that is kept
/// elsewhere shows whether the audit still has the row.
pub fn next_row(before: &Head, entry: &AuditEntry, now: DateTime<Utc>) -> AuditRow {
    let mut row = AuditRow {
        seq: before.length + 1,
        // In the precision of the tables; otherwise the hash would not match the row that is read back.
        at: now.trunc_subsecs(6),
        actor: entry.actor.clone(),
        action: entry.action.clone(),
        target: entry.target.clone(),
        reason: entry.reason.clone(),
        detail: entry.detail.clone(),
        hash: String::new(),
    };
    row.hash = link(&before.hash, &row);
    tracing::info!(audit = %Head::of(&row), action = row.action, "recorded an action in the audit");
    row
}

/// Checks the whole chain. Returns its end, or the first row at which it is broken.
///
/// # Errors
/// The store cannot be read.
pub fn chain<R: LogReads>(reads: &R) -> Stored<R, Result<Head, Broken>> {
    let mut head = Head::none();
    loop {
        let rows = reads.load_audit(head.length, ROWS)?;
        let Some(row) = rows.last() else {
            return Ok(Ok(head));
        };
        let length = row.seq;
        // Rows are numbered from 1 without gaps.
        let expected = head.length + 1..;
        if let Some((row, _)) = rows.iter().zip(expected).find(|(row, seq)| row.seq != *seq) {
            return Ok(Err(Broken { seq: row.seq }));
        }
        match verify(&head.hash, &rows) {
            Ok(hash) => head = Head { length, hash },
            Err(broken) => return Ok(Err(broken)),
        }
    }
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
