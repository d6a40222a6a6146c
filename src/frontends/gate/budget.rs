//! One bound for the memory of everything that gates read completely: answers of the upstream, and request bodies
//! (P12).

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

/// How an answer is read, with the bytes of memory for each byte of its text: for the text that is read, the text that
/// is written, and the rows or the tree.
#[derive(Clone, Copy, Debug)]
pub(super) enum Read {
    /// The rows are read as JSON texts, and parsed one at a time: about sixty bytes for each row.
    Rows = 4,
    /// The answer is read as one tree of JSON values: twelve times the text.
    Tree = 14,
}

/// The unit of accounting, in bytes.
const UNIT: usize = 1 << 10;
/// Units for all large answers; the largest answer takes them all.
const LARGE_UNITS: u32 = 256 << 10;
/// Units for all small answers, which therefore never wait for a large one.
const SMALL_UNITS: u32 = 96 << 10;
/// Units for all request bodies.
const BODY_UNITS: u32 = 32 << 10;
/// An answer up to this size is a small one.
pub(super) const SMALL_BYTES_MAX: usize = 1 << 20;

/// The memory that all gates of an engine share: 384 MiB.
#[derive(Debug)]
pub struct Budget {
    large: Arc<Semaphore>,
    small: Arc<Semaphore>,
    bodies: Arc<Semaphore>,
    /// One permit, for the large page that is being read.
    large_page: Arc<Semaphore>,
}

impl Default for Budget {
    fn default() -> Self {
        let units = |units: u32| Arc::new(Semaphore::new(units as usize));
        Self {
            large: units(LARGE_UNITS),
            small: units(SMALL_UNITS),
            bodies: units(BODY_UNITS),
            large_page: units(1),
        }
    }
}

/// The permit to read a large page. There is one, so no two large pages are read at a time.
pub(super) type LargePage = OwnedSemaphorePermit;
/// A share of the memory, given back when it is dropped.
pub(super) type Share = OwnedSemaphorePermit;

/// Keeps only the share for a text of this length.
pub(super) fn shrink(share: &mut Share, bytes: usize) {
    let over = share.num_permits().saturating_sub(bytes / UNIT + 1);
    drop(share.split(over));
}

impl Budget {
    /// Waits for a share for an answer of this length. None if that takes longer than `within`.
    pub(super) async fn answer(&self, bytes: usize, read: Read, within: Duration) -> Option<Share> {
        let (pool, most) = match bytes <= SMALL_BYTES_MAX {
            true => (&self.small, SMALL_UNITS),
            false => (&self.large, LARGE_UNITS),
        };
        let units = u32::try_from(bytes * read as usize / UNIT + 1).unwrap_or(most);
        let share = pool.clone().acquire_many_owned(units.min(most));
        timeout(within, share).await.ok()?.ok()
    }

    /// Waits until no other large page is being read: together they would take all cores. None if that takes
    /// longer than `within`.
    pub(super) async fn large_page(&self, within: Duration) -> Option<LargePage> {
        let permit = self.large_page.clone().acquire_owned();
        timeout(within, permit).await.ok()?.ok()
    }

    /// Returns a share for a part of a body; calls `relieve`, and waits, if none is free now.
    pub(super) async fn body(
        &self,
        bytes: usize,
        relieve: impl FnOnce() -> usize,
    ) -> Option<Share> {
        let units = u32::try_from(bytes / UNIT + 1).unwrap_or(BODY_UNITS);
        let units = units.min(BODY_UNITS);
        if let Ok(share) = self.bodies.clone().try_acquire_many_owned(units) {
            return Some(share);
        }
        relieve();
        self.bodies.clone().acquire_many_owned(units).await.ok()
    }
}
