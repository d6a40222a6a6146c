//! The tombstones in memory, which a gate consults for every request.
//!
//! The ledger fills them before it answers its first request, and updates them after each commit of this engine,
//! before the commit is answered. So this engine's gates have a deletion's write guards before that deletion lists
//! anything (T3). The commits of other engines that share the ledger are applied later
//! ([`super::engines`]). After [`Tombstones::drained`], no write that passed a gate before the guards were raised is
//! still in progress (T14).

use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use tokio::sync::Notify;
use tokio::time::Instant;
use uuid::Uuid;

use crate::domain::model::{KindName, Phase, ResourceKey, Site};

/// The tombstones of all sites, by kind and id, without the released ones (T3).
#[derive(Default)]
pub struct Tombstones {
    by_site: RwLock<HashMap<Site, HashMap<KindName, KindTombstones>>>,
    writes: Mutex<HashMap<Site, Writes>>,
    /// Notified when a write that a gate let through has ended.
    ended: Notify,
    /// Whether a commit could not be applied to these tombstones.
    lost: AtomicBool,
    /// The time until which gates may answer from these tombstones. None: for as long as the ledger is open.
    trusted_until: RwLock<Option<Instant>>,
}

/// The tombstones of one kind at one site. A million ids take some 50 MB as UUIDs, and three times that as text.
#[derive(Default)]
struct KindTombstones {
    by_uuid: HashMap<[u8; 16], Phase>,
    by_text: HashMap<Box<str>, Phase>,
    /// Number of tombstones in `checking` or `deleting`.
    under_way: usize,
}

impl KindTombstones {
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
        self.under_way += usize::from(is_under_way(phase));
        self.under_way -= usize::from(before.is_some_and(is_under_way));
    }

    fn remove(&mut self, id: &Id) {
        let before = match id {
            Id::Uuid(id) => self.by_uuid.remove(id),
            Id::Text(id) => self.by_text.remove(id),
        };
        self.under_way -= usize::from(before.is_some_and(is_under_way));
    }

    fn len(&self) -> usize {
        self.by_uuid.len() + self.by_text.len()
    }
}

fn is_under_way(phase: Phase) -> bool {
    matches!(phase, Phase::Checking | Phase::Deleting)
}

/// An id in a form that ignores its case, as some providers do.
enum Id {
    Uuid([u8; 16]),
    Text(Box<str>),
}

impl Id {
    fn of(text: &str) -> Self {
        const HYPHENATED: usize = 36;
        match Uuid::try_parse(text) {
            // A UUID without hyphens, as in Keystone, is a different id from the same UUID with hyphens.
            Ok(uuid) if text.len() == HYPHENATED => Self::Uuid(uuid.into_bytes()),
            _ => Self::Text(text.to_lowercase().into()),
        }
    }
}

/// A tombstone row as it is after a commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Changed {
    pub site: Site,
    pub kind: KindName,
    pub id: String,
    /// None: the row was removed.
    pub phase: Option<Phase>,
}

impl Changed {
    pub fn of(key: ResourceKey, phase: Option<Phase>) -> Self {
        Self {
            site: key.site,
            kind: key.kind,
            id: key.id,
            phase,
        }
    }
}

impl Tombstones {
    /// Returns the phase of the resource's tombstone; none if the resource has no tombstone, or a released one.
    pub fn phase(&self, site: &Site, kind: &KindName, id: &str) -> Option<Phase> {
        self.read().get(site)?.get(kind)?.phase(&Id::of(id))
    }

    /// Whether any resource of the kind at the site has a tombstone. If none has, and resources of the kind cannot
    /// be parts of others (T20), a gate passes lists of the kind untouched.
    pub fn any(&self, site: &Site, kind: &KindName) -> bool {
        let by_site = self.read();
        let of_kind = by_site.get(site).and_then(|kinds| kinds.get(kind));
        of_kind.is_some_and(|of_kind| of_kind.len() > 0)
    }

    /// Whether any resource of the kind at the site is being checked or deleted, and is not gone yet.
    pub fn is_any_under_way(&self, site: &Site, kind: &KindName) -> bool {
        let by_site = self.read();
        let of_kind = by_site.get(site).and_then(|kinds| kinds.get(kind));
        of_kind.is_some_and(|of_kind| of_kind.under_way > 0)
    }

    /// Whether any resource at the site has a tombstone.
    pub fn any_at(&self, site: &Site) -> bool {
        let by_site = self.read();
        let kinds = by_site.get(site);
        kinds.is_some_and(|kinds| kinds.values().any(|of_kind| of_kind.len() > 0))
    }

    pub fn len(&self) -> usize {
        let by_site = self.read();
        by_site
            .values()
            .flat_map(HashMap::values)
            .map(KindTombstones::len)
            .sum()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether these tombstones may differ from those of the ledger. Then no gate may answer from them.
    pub fn is_lost(&self) -> bool {
        let trusted_until = self.trusted_until.read();
        let trusted_until = *trusted_until.unwrap_or_else(PoisonError::into_inner);
        self.lost.load(Ordering::Relaxed)
            || trusted_until.is_some_and(|until| Instant::now() >= until)
    }

    /// Lets gates answer until this time. After that time, other engines do not wait for these gates any more.
    pub fn trust_until(&self, until: Instant) {
        let trusted_until = self.trusted_until.write();
        *trusted_until.unwrap_or_else(PoisonError::into_inner) = Some(until);
    }

    /// Lets no gate answer until [`Self::trust_until`] is called again.
    pub fn distrust(&self) {
        self.trust_until(Instant::now());
    }

    /// Removes all tombstones, before they are loaded again. No gate may answer meanwhile.
    pub fn clear(&self) {
        self.write().clear();
    }

    pub fn lose(&self) {
        self.lost.store(true, Ordering::Relaxed);
    }

    /// Applies the rows that a commit has changed.
    pub fn apply(&self, changes: impl IntoIterator<Item = Changed>) {
        let mut by_site = self.write();
        for change in changes {
            let kinds = by_site.entry(change.site).or_default();
            let of_kind = kinds.entry(change.kind).or_default();
            let id = Id::of(&change.id);
            match change.phase {
                None | Some(Phase::Released) => of_kind.remove(&id),
                Some(phase) => of_kind.put(id, phase),
            }
        }
    }

    /// Registers a write that a gate is about to let through. Call it before checking for a write guard: then a
    /// deletion whose guard the check does not find yet waits for the write (T14).
    pub fn begin_write(self: &Arc<Self>, site: &Site) -> Write {
        let number = self.writes().entry(site.clone()).or_default().begin();
        Write {
            of: self.clone(),
            site: site.clone(),
            number,
        }
    }

    /// Returns when every write at the site that began earlier has ended (T14).
    pub async fn drained(&self, site: &Site) {
        let before = self.writes().get(site).map_or(0, |writes| writes.next);
        loop {
            let ended = self.ended.notified();
            tokio::pin!(ended);
            // From here on no notification is missed.
            ended.as_mut().enable();
            let first = self.writes().get(site).and_then(Writes::first);
            if first.is_none_or(|first| first >= before) {
                return;
            }
            ended.await;
        }
    }

    /// Returns the numbers by which [`Self::have_ended`] recognizes the writes now in progress at all sites.
    pub fn writes_under_way(&self) -> WriteMarks {
        let writes = self.writes();
        let marks = writes
            .iter()
            .map(|(site, writes)| (site.clone(), writes.next));
        WriteMarks(marks.collect())
    }

    /// Whether all writes that were in progress when [`Self::writes_under_way`] returned these marks have ended.
    pub fn have_ended(&self, marks: &WriteMarks) -> bool {
        let writes = self.writes();
        marks.0.iter().all(|(site, before)| {
            let first = writes.get(site).and_then(Writes::first);
            first.is_none_or(|first| first >= *before)
        })
    }

    fn read(&self) -> RwLockReadGuard<'_, HashMap<Site, HashMap<KindName, KindTombstones>>> {
        self.by_site.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, HashMap<Site, HashMap<KindName, KindTombstones>>> {
        self.by_site.write().unwrap_or_else(PoisonError::into_inner)
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

/// The writes in progress at one site, numbered in the order in which they began.
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

/// The writes in progress at a moment: at each site, the number of the next write, which is higher than those of the
/// writes in progress.
#[derive(Debug)]
pub struct WriteMarks(Vec<(Site, u64)>);

/// A write in progress, which ends when this value is dropped.
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
