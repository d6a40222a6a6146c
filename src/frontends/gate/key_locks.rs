//! Serializes creates under one natural key, across all gates (M5, M6).

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;

use tokio::sync::watch;

use crate::domain::model::ResourceKey;

/// The natural keys under which creates run, shared by all gates of an engine.
#[derive(Debug, Default)]
pub struct KeyLocks(watch::Sender<HashSet<ResourceKey>>);

impl KeyLocks {
    /// Waits until no other create uses any of these keys, and locks them: all or none, so that no two creates wait for
    /// each other.
    pub(super) async fn take(self: &Arc<Self>, keys: BTreeSet<ResourceKey>) -> KeyLock {
        // From here on no release is missed.
        let mut changes = self.0.subscribe();
        let lock = |taken: &mut HashSet<ResourceKey>| {
            if keys.iter().any(|key| taken.contains(key)) {
                return false;
            }
            taken.extend(keys.iter().cloned());
            true
        };
        while !keys.is_empty() && !self.0.send_if_modified(lock) {
            // Fails only if `self`, which sends the changes, is dropped.
            let _ = changes.changed().await;
        }
        let of = self.clone();
        KeyLock { of, keys }
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
        if !self.keys.is_empty() {
            let unlock = |taken: &mut HashSet<_>| taken.retain(|key| !self.keys.contains(key));
            self.of.0.send_modify(unlock);
        }
    }
}
