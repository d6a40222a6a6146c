//! Answers the queries of a ledger from the rows that a store reads ([`LedgerReads`]), once for all stores.
//!
//! A method of the ledger's traits is answered by one function within one snapshot. A few methods need only one read of
//! the store, and no function here.

pub mod deletions;
pub mod due;
pub mod gantt;
pub mod log;
pub mod outline;
pub mod peers;
pub mod steps;
pub mod summary;
pub mod tombstones;

use std::collections::{BTreeSet, HashMap};

use super::store::{DeletionReads, LedgerReads, Stored, StoredDeletion, StoredRequest};
use super::{Cursor, LedgerError, NativeFilter};
use crate::domain::model::Paged;
use crate::domain::native::Native;

/// Maximum length of a page (a limit of 0 means this), of the list of a step's dependencies in a summary, and of
/// the batches of other reads.
pub const PAGE_MAX: usize = 500;

pub fn page_limit(wanted: usize) -> usize {
    match wanted {
        0 => PAGE_MAX,
        n => n.min(PAGE_MAX),
    }
}

/// The position after which a page begins: the keys of the last row that the previous page has or searched. None for
/// the first page.
///
/// # Errors
/// No page returned the cursor.
pub fn position<const N: usize>(cursor: &Cursor) -> Result<Option<[i64; N]>, LedgerError> {
    let Some(text) = &cursor.after else {
        return Ok(None);
    };
    let keys: Option<Vec<i64>> = text.split(':').map(|key| key.parse().ok()).collect();
    keys.and_then(|keys| <[i64; N]>::try_from(keys).ok())
        .map(Some)
        .ok_or_else(|| LedgerError::Cursor {
            cursor: text.chars().take(40).collect(),
        })
}

/// Makes a page of rows, each with its position, which is the cursor. `found` may have one row more than `limit`, if
/// there is a next page.
fn page<T>(mut found: Vec<(impl ToString, T)>, limit: usize) -> Paged<T> {
    let more = found.len() > limit;
    found.truncate(limit);
    let last = found.last().map(|(cursor, _)| cursor.to_string());
    Paged {
        next: last.filter(|_| more),
        rows: found.into_iter().map(|(_, row)| row).collect(),
    }
}

/// Deletions by their numbers.
fn deletions_of<R: DeletionReads>(
    rows: &R,
    nums: impl Iterator<Item = i64>,
) -> Stored<R, HashMap<i64, StoredDeletion>> {
    let nums: Vec<i64> = nums.collect::<BTreeSet<i64>>().into_iter().collect();
    let found = rows.load_deletions(&nums)?.into_iter();
    Ok(found.map(|row| (row.num, row)).collect())
}

/// The requests of deletions, by the deletions' numbers.
fn requests_of<R: DeletionReads>(
    rows: &R,
    nums: impl Iterator<Item = i64>,
) -> Stored<R, HashMap<i64, StoredRequest>> {
    let nums: Vec<i64> = nums.collect::<BTreeSet<i64>>().into_iter().collect();
    Ok(rows.load_requests(&nums)?.into_iter().collect())
}

/// Lists resources of the registry in the order of their numbers; the cursor is the last number.
pub fn natives<R: LedgerReads>(
    rows: &R,
    filter: &NativeFilter,
    after: Option<[i64; 1]>,
    limit: usize,
) -> Stored<R, Paged<Native>> {
    let [after] = after.unwrap_or_default();
    Ok(page(rows.find_natives(filter, after, limit + 1)?, limit))
}
