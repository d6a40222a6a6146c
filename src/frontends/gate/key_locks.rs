//! Serializes creates under one natural key, across all gates (M5, M6).

use std::collections::{BTreeSet, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use crate::domain::model::ResourceKey;

/// The natural keys under which creates run, shared by all gates of an engine.
#[derive(Debug, Default)]
pub struct KeyLocks {
    taken: Mutex<HashSet<ResourceKey>>,
    ended: Notify,
}

impl KeyLocks {
    /// Waits until no other create uses any of these keys, and locks them.
    pub(super) async fn take(self: &Arc<Self>, keys: BTreeSet<ResourceKey>) -> KeyLock {
        loop {
            let ended = self.ended.notified();
            tokio::pin!(ended);
            // From here on no release is missed.
            ended.as_mut().enable();
            if self.take_all(&keys) {
                let of = self.clone();
                return KeyLock { of, keys };
            }
            ended.await;
        }
    }

    /// Takes all keys or none, so that no two creates wait for each other.
    fn take_all(&self, keys: &BTreeSet<ResourceKey>) -> bool {
        let mut taken = self.taken();
        if keys.iter().any(|key| taken.contains(key)) {
            return false;
        }
        taken.extend(keys.iter().cloned());
        true
    }

    fn taken(&self) -> MutexGuard<'_, HashSet<ResourceKey>> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The lock on the keys of one create; dropping it releases them.
#[derive(Debug)]
pub(super) struct KeyLock {
    of: Arc<KeyLocks>,
    keys: BTreeSet<ResourceKey>,
}

impl Drop for KeyLock {
    fn drop(&mut self) {
        let mut taken = self.of.taken();
        for key in &self.keys {
            taken.remove(key);
        }
        drop(taken);
        self.of.ended.notify_waiters();
    }
}
