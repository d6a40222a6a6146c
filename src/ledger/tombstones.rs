//! The tombstones in memory: what a gate asks on every request.
//!
//! The ledger fills it before it answers its first request, and brings it up to date after each
//! commit, before anyone is told of that commit. So a fence whose intent is durable is seen by every
//! gate before its deletion lists anything (T3); with [`Tombstones::drained`], no write that passed
//! before it is still under way then (T14).

use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use tokio::sync::Notify;
use uuid::Uuid;

use crate::domain::model::{KindName, Phase, Site};

/// Of all sites, by kind and id. Released ones are as none (T3).
#[derive(Default)]
pub struct Tombstones {
    shelves: RwLock<HashMap<Site, HashMap<KindName, Shelf>>>,
    writes: Mutex<HashMap<Site, Writes>>,
    /// A write that a gate let through has ended.
    ended: Notify,
    lost: AtomicBool,
}

/// One kind at one site. A million UUIDs take some 50 MB here, and three times as much as text.
#[derive(Default)]
struct Shelf {
    by_uuid: HashMap<[u8; 16], Phase>,
    by_text: HashMap<Box<str>, Phase>,
    /// How many are in `checking` or `deleting`.
    going: usize,
}

impl Shelf {
    fn phase(&self, id: &Id) -> Option<Phase> {
        match id {
            Id::Uuid(id) => self.by_uuid.get(id).copied(),
            Id::Text(id) => self.by_text.get(id).copied(),
        }
    }

    fn put(&mut self, id: Id, phase: Phase) {
        let before = match id {
            Id::Uuid(id) => self.by_uuid.insert(id, phase),
            Id::Text(id) => self.by_text.insert(id, phase),
        };
        self.going += usize::from(is_going(phase));
        self.going -= usize::from(before.is_some_and(is_going));
    }

    fn remove(&mut self, id: &Id) {
        let before = match id {
            Id::Uuid(id) => self.by_uuid.remove(id),
            Id::Text(id) => self.by_text.remove(id),
        };
        self.going -= usize::from(before.is_some_and(is_going));
    }

    fn len(&self) -> usize {
        self.by_uuid.len() + self.by_text.len()
    }
}

fn is_going(phase: Phase) -> bool {
    matches!(phase, Phase::Checking | Phase::Deleting)
}

/// Clouds take an id in any case.
enum Id {
    Uuid([u8; 16]),
    Text(Box<str>),
}

impl Id {
    fn of(text: &str) -> Self {
        const HYPHENATED: usize = 36;
        match Uuid::try_parse(text) {
            // Keystone's ids are UUIDs without hyphens: those are others.
            Ok(uuid) if text.len() == HYPHENATED => Self::Uuid(uuid.into_bytes()),
            _ => Self::Text(text.to_lowercase().into()),
        }
    }
}

/// One row of the ledger, as it is after a commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Changed {
    pub site: Site,
    pub kind: KindName,
    pub id: String,
    /// None: the row is gone.
    pub phase: Option<Phase>,
}

impl Tombstones {
    /// The phase that a gate answers by; none where there is no tombstone, or it was released.
    pub fn phase(&self, site: &Site, kind: &KindName, id: &str) -> Option<Phase> {
        self.read().get(site)?.get(kind)?.phase(&Id::of(id))
    }

    /// Whether any resource of the kind has one: else its lists pass untouched.
    pub fn any(&self, site: &Site, kind: &KindName) -> bool {
        let shelves = self.read();
        let shelf = shelves.get(site).and_then(|kinds| kinds.get(kind));
        shelf.is_some_and(|shelf| shelf.len() > 0)
    }

    /// Whether any resource of the kind is on its way out, and not yet gone.
    pub fn any_going(&self, site: &Site, kind: &KindName) -> bool {
        let shelves = self.read();
        let shelf = shelves.get(site).and_then(|kinds| kinds.get(kind));
        shelf.is_some_and(|shelf| shelf.going > 0)
    }

    /// Whether anything at the site has one.
    pub fn any_at(&self, site: &Site) -> bool {
        let shelves = self.read();
        let kinds = shelves.get(site);
        kinds.is_some_and(|kinds| kinds.values().any(|shelf| shelf.len() > 0))
    }

    pub fn len(&self) -> usize {
        let shelves = self.read();
        shelves
            .values()
            .flat_map(HashMap::values)
            .map(Shelf::len)
            .sum()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether this is no longer what the ledger has: no gate may answer by it.
    pub fn is_lost(&self) -> bool {
        self.lost.load(Ordering::Relaxed)
    }

    pub fn lose(&self) {
        self.lost.store(true, Ordering::Relaxed);
    }

    /// Takes over what a commit has changed.
    pub fn apply(&self, changes: impl IntoIterator<Item = Changed>) {
        let mut shelves = self.write();
        for change in changes {
            let kinds = shelves.entry(change.site).or_default();
            let shelf = kinds.entry(change.kind).or_default();
            let id = Id::of(&change.id);
            match change.phase {
                None | Some(Phase::Released) => shelf.remove(&id),
                Some(phase) => shelf.put(id, phase),
            }
        }
    }

    /// A write begins that a fence would have stopped: to be called before the fence is looked for.
    pub fn begin_write(self: &Arc<Self>, site: &Site) -> Write {
        let number = self.writes().entry(site.clone()).or_default().begin();
        Write {
            of: self.clone(),
            site: site.clone(),
            number,
        }
    }

    /// Returns when every write at the site that began before has ended (T14).
    pub async fn drained(&self, site: &Site) {
        let before = self.writes().get(site).map_or(0, |writes| writes.next);
        loop {
            let ended = self.ended.notified();
            tokio::pin!(ended);
            // From here on no end is missed.
            ended.as_mut().enable();
            let first = self.writes().get(site).and_then(Writes::first);
            if first.is_none_or(|first| first >= before) {
                return;
            }
            ended.await;
        }
    }

    fn read(&self) -> RwLockReadGuard<'_, HashMap<Site, HashMap<KindName, Shelf>>> {
        self.shelves.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, HashMap<Site, HashMap<KindName, Shelf>>> {
        self.shelves.write().unwrap_or_else(PoisonError::into_inner)
    }

    fn writes(&self) -> MutexGuard<'_, HashMap<Site, Writes>> {
        self.writes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Tombstones {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tombstones")
            .field("len", &self.len())
            .finish_non_exhaustive()
    }
}

/// Writes at one site that are under way, numbered as they began.
#[derive(Default)]
struct Writes {
    next: u64,
    under_way: BTreeSet<u64>,
}

impl Writes {
    fn begin(&mut self) -> u64 {
        let number = self.next;
        self.next += 1;
        self.under_way.insert(number);
        number
    }

    fn first(&self) -> Option<u64> {
        self.under_way.first().copied()
    }
}

/// A write under way; it has ended when this is dropped.
#[derive(Debug)]
pub struct Write {
    of: Arc<Tombstones>,
    site: Site,
    number: u64,
}

impl Drop for Write {
    fn drop(&mut self) {
        if let Some(writes) = self.of.writes().get_mut(&self.site) {
            writes.under_way.remove(&self.number);
        }
        self.of.ended.notify_waiters();
    }
}
