//! Two ways to drive one [`Store`]: a thread in production, an inline call in the simulation.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::thread::JoinHandle;

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use rusqlite::{Connection, OpenFlags};
use tokio::sync::{Semaphore, mpsc, oneshot};

use super::connection::{check_content, check_version, configure, fault};
use super::lock::Lock;
use super::pages::{self, position};
use super::sql::Sql;
use super::store::{Job, Outcome, Store};
use super::{
    Options, claims, gantt, native, notification_cursor, outline, peers, purge, reads, summary,
};
use crate::domain::attention::CauseGroup;
use crate::domain::gantt::{Gantt, Upcoming};
use crate::domain::model::{
    Actor, Counts, Deletion, Identity, KindName, Paged, Plan, ResourceKey, Site, SitePause, Step,
    Target, Tombstone,
};
use crate::domain::native::Native;
use crate::domain::news::NotificationCursor;
use crate::domain::outline::Outline;
use crate::domain::peers::{ClearanceRequest, Deployment, News, PendingClearance};
use crate::ledger::{
    AbandonedStep, Applied, AuditRow, Capacity, Change, ClaimedStep, Cursor, DeletionFilter, Due,
    EventFilter, EventPage, Importer, KeptRequest, Ledger, LedgerError, LiveStep, NativeFilter,
    ObservationsDue, Original, OriginalName, PointedAt, StepFilter, Summary, TombstoneFilter,
    UnhandledDeletion, WatchCursor,
};

/// Requests that may wait for the writer: as many as one transaction takes if each is one change, so that a
/// request waits for at most one commit before its own.
const QUEUE_MAX: usize = 1024;
/// Changes in one transaction of several requests. A larger transaction is hardly faster, and all its
/// requests wait for each other. A single request with more changes is still one transaction.
const CHANGES_MAX: usize = 1024;
/// Connections for reading, enough for the pages of a console or two and an API client.
const READERS: usize = 4;

/// How requests reach the store.
#[async_trait]
pub(super) trait Drive: Send + Sync {
    async fn write(&self, job: Job) -> Result<Outcome, LedgerError>;
    async fn read<T, F>(&self, read: F) -> Result<T, LedgerError>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> Sql<T> + Send + 'static;
}

/// The ledger in production: one thread writes, and groups the requests that have queued up meanwhile; a few
/// connections read beside it.
#[derive(Debug)]
pub struct SqliteLedger {
    name: String,
    epoch: i64,
    /// None if the ledger was opened for reading only.
    writer: Option<Writer>,
    readers: Arc<Readers>,
}

#[derive(Debug)]
struct Writer {
    /// None once the ledger is closed.
    queue: Mutex<Option<mpsc::Sender<Request>>>,
    thread: Mutex<Option<JoinHandle<()>>>,
    /// The lock, which the store owns, and releases when it is dropped.
    lock: Weak<Lock>,
}

#[derive(Debug)]
struct Request {
    job: Job,
    answer: oneshot::Sender<Result<Outcome, LedgerError>>,
}

impl SqliteLedger {
    /// Opens the ledger as its engine; see [`Store::open`]. Blocks for as long as SQLite does.
    pub fn open(path: &Path, options: Options) -> Result<Self, LedgerError> {
        Self::open_with(path, options, Store::group)
    }

    /// Opens the ledger, whose writer applies each group of requests by this function: [`Store::group`], or
    /// one that is as slow as another disk.
    pub fn open_with(
        path: &Path,
        options: Options,
        group: impl FnMut(&mut Store, &[Job]) -> Result<Vec<Outcome>, LedgerError> + Send + 'static,
    ) -> Result<Self, LedgerError> {
        let store = Store::open(path, options)?;
        let (name, epoch, lock) = (store.path().to_owned(), store.epoch(), store.lock());
        let readers = Arc::new(Readers::open(path)?);
        let (queue, requests) = mpsc::channel(QUEUE_MAX);
        let thread = std::thread::Builder::new()
            .name("ledger".to_owned())
            .spawn(move || run(store, requests, group))
            .map_err(|error| LedgerError::Io {
                path: name.clone(),
                detail: error.to_string(),
            })?;
        let writer = Writer {
            queue: Mutex::new(Some(queue)),
            thread: Mutex::new(Some(thread)),
            lock,
        };
        Ok(Self {
            name,
            epoch,
            writer: Some(writer),
            readers,
        })
    }

    /// Opens the ledger for reading only, also beside an engine that writes it.
    pub fn open_reader(path: &Path) -> Result<Self, LedgerError> {
        Ok(Self {
            name: path.display().to_string(),
            epoch: 0,
            writer: None,
            readers: Arc::new(Readers::open(path)?),
        })
    }

    /// The epoch of this opening; 0 if the ledger was opened for reading only.
    pub fn epoch(&self) -> i64 {
        self.epoch
    }

    /// Writes into the lock file where the engine listens, for consoles that look for it.
    pub fn set_socket(&self, socket: Option<&str>) -> Result<(), LedgerError> {
        let lock = self
            .writer
            .as_ref()
            .and_then(|writer| writer.lock.upgrade());
        let lock = lock.ok_or(LedgerError::Closed)?;
        lock.say(socket).map_err(|error| LedgerError::Io {
            path: self.name.clone(),
            detail: error.to_string(),
        })
    }

    /// Answers the queued requests, closes the file and releases the lock, so that another engine can open
    /// the ledger. Later requests are answered with [`LedgerError::Closed`].
    pub async fn close(&self) {
        let Some(writer) = &self.writer else {
            return;
        };
        drop(locked(&writer.queue).take());
        let thread = locked(&writer.thread).take();
        if let Some(thread) = thread {
            // A writer that panicked has closed the ledger too.
            let _ = tokio::task::spawn_blocking(move || thread.join()).await;
        }
    }
}

/// The writer's loop: takes one request and all that have queued up meanwhile, commits, and answers them all.
/// There is no timer: a lone request does not wait for others.
fn run(
    mut store: Store,
    mut requests: mpsc::Receiver<Request>,
    mut group_commit: impl FnMut(&mut Store, &[Job]) -> Result<Vec<Outcome>, LedgerError>,
) {
    while let Some(first) = requests.blocking_recv() {
        let mut weight = weight(&first.job);
        let mut group = vec![first];
        while weight < CHANGES_MAX {
            let Ok(next) = requests.try_recv() else {
                break;
            };
            weight += self::weight(&next.job);
            group.push(next);
        }
        let (jobs, answers): (Vec<Job>, Vec<_>) = group
            .into_iter()
            .map(|request| (request.job, request.answer))
            .unzip();
        let outcomes = group_commit(&mut store, &jobs);
        // A requester that has gone away meanwhile needs no answer.
        match outcomes {
            Ok(outcomes) => answers
                .into_iter()
                .zip(outcomes)
                .for_each(|(answer, outcome)| {
                    let _ = answer.send(Ok(outcome));
                }),
            Err(error) => answers.into_iter().for_each(|answer| {
                let _ = answer.send(Err(error.clone()));
            }),
        }
    }
}

fn weight(job: &Job) -> usize {
    match job {
        Job::Commit(changes) => changes.len(),
        Job::Claim { .. } => 1,
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[async_trait]
impl Drive for SqliteLedger {
    async fn write(&self, job: Job) -> Result<Outcome, LedgerError> {
        let Some(writer) = &self.writer else {
            return Err(LedgerError::ReadOnly {
                path: self.name.clone(),
            });
        };
        let queue = locked(&writer.queue).clone().ok_or(LedgerError::Closed)?;
        let (answer, outcome) = oneshot::channel();
        queue
            .send(Request { job, answer })
            .await
            .map_err(|_| LedgerError::Closed)?;
        outcome.await.map_err(|_| LedgerError::Closed)?
    }

    async fn read<T, F>(&self, read: F) -> Result<T, LedgerError>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> Sql<T> + Send + 'static,
    {
        let turn = Arc::clone(&self.readers.turns).acquire_owned().await;
        let turn = turn.map_err(|_| LedgerError::Closed)?;
        let readers = Arc::clone(&self.readers);
        // The permit is held until the read ends, even if nobody waits for the answer any more.
        let reading = tokio::task::spawn_blocking(move || {
            let answer = readers.read(read);
            drop(turn);
            answer
        });
        reading.await.map_err(|ended| match ended.is_panic() {
            // Only this read failed; the ledger is still open.
            true => LedgerError::Io {
                path: self.name.clone(),
                detail: "a read panicked; see the log".to_owned(),
            },
            false => LedgerError::Closed,
        })?
    }
}

/// The reading connections and as many permits: whoever holds a permit finds an idle connection.
#[derive(Debug)]
struct Readers {
    name: String,
    idle: Mutex<Vec<Connection>>,
    turns: Arc<Semaphore>,
}

impl Readers {
    fn open(path: &Path) -> Result<Self, LedgerError> {
        let name = path.display().to_string();
        check_content(path)?;
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let mut idle = Vec::with_capacity(READERS);
        for _ in 0..READERS {
            let db = Connection::open_with_flags(path, flags).map_err(|e| fault(&name, &e))?;
            configure(&db).map_err(|e| fault(&name, &e))?;
            check_version(&db, &name)?;
            idle.push(db);
        }
        Ok(Self {
            name,
            idle: Mutex::new(idle),
            turns: Arc::new(Semaphore::new(READERS)),
        })
    }

    fn read<T>(&self, read: impl FnOnce(&Connection) -> Sql<T>) -> Result<T, LedgerError> {
        let db = Borrowed {
            idle: &self.idle,
            db: Some(locked(&self.idle).pop().ok_or(LedgerError::Closed)?),
        };
        let Some(db) = &db.db else {
            return Err(LedgerError::Closed);
        };
        // One snapshot for all the statements of a read, whatever is committed meanwhile.
        let answer = db.unchecked_transaction().and_then(|tx| {
            let answer = read(&tx)?;
            tx.finish()?;
            Ok(answer)
        });
        answer.map_err(|e| fault(&self.name, &e))
    }
}

/// A reader's connection, which is returned even if the read panics; otherwise each panic would cost one
/// reader.
struct Borrowed<'r> {
    idle: &'r Mutex<Vec<Connection>>,
    db: Option<Connection>,
}

impl Drop for Borrowed<'_> {
    fn drop(&mut self) {
        if let Some(db) = self.db.take() {
            locked(self.idle).push(db);
        }
    }
}

/// The same ledger without a thread: every call is done when it returns. For the simulation, whose
/// clock is paused and whose order is seeded.
#[derive(Debug)]
pub struct InlineLedger {
    store: Mutex<Store>,
}

impl InlineLedger {
    pub fn new(store: Store) -> Self {
        Self {
            store: Mutex::new(store),
        }
    }

    /// The epoch of this opening.
    pub fn epoch(&self) -> i64 {
        locked(&self.store).epoch()
    }
}

#[async_trait]
impl Drive for InlineLedger {
    async fn write(&self, job: Job) -> Result<Outcome, LedgerError> {
        let mut outcomes = locked(&self.store).group(&[job])?;
        outcomes.pop().ok_or(LedgerError::Closed)
    }

    async fn read<T, F>(&self, read: F) -> Result<T, LedgerError>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> Sql<T> + Send + 'static,
    {
        locked(&self.store).read(read)
    }
}

/// Implements [`Ledger`] for both drivers: each read is one function over a connection. Arguments are owned,
/// because a read runs on another thread.
macro_rules! ledger {
    (
        reads { $(
            $name:ident($($argument:ident: $type:ty),*) -> $answer:ty = |$db:ident| $read:expr;
        )* }
        pages { $($page:ident($filter:ty) -> $row:ty = $select:path;)* }
        $($written:item)*
    ) => {
        #[async_trait]
        impl<D: Drive> Ledger for D {
            $(async fn $name(&self, $($argument: $type),*) -> Result<$answer, LedgerError> {
                $(let $argument = $argument.to_owned();)*
                self.read(move |$db| $read).await
            })*
            $(async fn $page(
                &self,
                filter: $filter,
                page: Cursor,
            ) -> Result<Paged<$row>, LedgerError> {
                let (after, limit) = (position(&page)?, pages::limit(page.limit));
                self.read(move |db| $select(db, &filter, after, limit)).await
            })*
            $($written)*
        }
    };
}

ledger! {
    reads {
        observations_due(now: DateTime<Utc>) -> Vec<ObservationsDue> =
            |db| claims::observations_due(db, now);
        verifying(of: Vec<ObservationsDue>, now: DateTime<Utc>, limit: usize) -> Vec<ClaimedStep> =
            |db| claims::verifying(db, &of, now, limit);
        next_due(now: DateTime<Utc>) -> Due = |db| claims::next_due(db, now);
        held_down(since: DateTime<Utc>, after_record: i64, limit: usize) -> Vec<Tombstone> =
            |db| reads::held_down(db, since, after_record, pages::limit(limit));
        originals(since: DateTime<Utc>, after_record: i64, limit: usize) -> Vec<Original> =
            |db| reads::originals(db, since, after_record, pages::limit(limit));
        whole_of(part: ResourceKey) -> Option<Tombstone> = |db| reads::whole_of(db, &part);
        namesakes(site: Site, kind: KindName, name: String)
            -> Vec<(Tombstone, Option<OriginalName>)> =
            |db| reads::namesakes(db, &site, &kind, &name);
        deletion(id: &str) -> Option<Deletion> = |db| reads::deletion(db, &id);
        frozen(deletion_id: &str, with_steps: bool) -> Option<Arc<Plan>> =
            |db| Ok(reads::frozen(db, &deletion_id, with_steps)?.map(Arc::new));
        identities(deletion_id: &str) -> BTreeMap<String, Identity> =
            |db| reads::identities(db, &deletion_id);
        progress(deletion_id: &str) -> Vec<(Site, Counts)> = |db| reads::progress(db, &deletion_id);
        outline(deletion_id: &str, below: Vec<Option<i64>>) -> Outline =
            |db| outline::outline(db, &deletion_id, &below);
        branch_steps(deletion_id: &str, branch: i64, counts: Counts, from: u64, limit: usize)
            -> Vec<Step> =
            |db| outline::branch_steps(db, &deletion_id, (branch, &counts), from, pages::limit(limit));
        step(id: i64) -> Option<Step> = |db| reads::step(db, id, None);
        causes(sites: Vec<Site>) -> Vec<CauseGroup> = |db| reads::causes(db, &sites);
        tombstones_of(keys: Vec<ResourceKey>) -> Vec<Tombstone> =
            |db| reads::tombstones_of(db, &keys);
        shown_before(key: ResourceKey) -> Option<serde_json::Value> =
            |db| reads::shown_before(db, &key);
        events(after: i64, filter: EventFilter, limit: usize) -> EventPage =
            |db| reads::events(db, after, &filter, pages::limit(limit));
        audit(after: i64, limit: usize) -> Vec<AuditRow> =
            |db| reads::audit(db, after, pages::limit(limit));
        plan(hash: &str, now: DateTime<Utc>) -> Option<Arc<Plan>> =
            |db| Ok(reads::plan(db, &hash, now)?.map(Arc::new));
        kept_request(actor: &Actor, key: &str, now: DateTime<Utc>) -> Option<KeptRequest> =
            |db| reads::kept_request(db, &actor, &key, now);
        site_pauses() -> Vec<SitePause> = |db| purge::site_pauses(db);
        gantt(deletion_id: &str, columns: u32, now: DateTime<Utc>) -> Option<Gantt> =
            |db| gantt::gantt(db, &deletion_id, columns, now);
        upcoming(now: DateTime<Utc>) -> Upcoming = |db| gantt::upcoming(db, now);
        summary() -> Summary = |db| summary::summary(db);
        notification_cursor(channel: &str) -> NotificationCursor =
            |db| notification_cursor::read(db, &channel);
        pointed_at(to: Vec<ResourceKey>, fields: Arc<[(KindName, String)]>, named_max: usize)
            -> Vec<PointedAt> =
            |db| peers::pointed_at(db, &to, &fields, named_max);
        importers() -> Vec<Importer> = |db| peers::importers(db);
        watches() -> Vec<WatchCursor> = |db| peers::watches(db);
        importers_cursor() -> (String, i64) = |db| peers::position(db);
        news(from: Deployment, since: (String, i64), kinds: BTreeSet<KindName>, limit: usize) -> News =
            |db| peers::news(db, &from, (&since.0, since.1), &kinds, limit);
        awaited(home: Site, importer: &str, after: i64, limit: usize)
            -> (Vec<(i64, ClearanceRequest)>, i64) =
            |db| peers::awaited(db, &home, &importer, after, limit);
        pending_clearances(step: i64) -> Vec<PendingClearance> =
            |db| peers::pending_clearances(db, step);
        unhandled_deletions(limit: usize) -> Option<UnhandledDeletion> =
            |db| peers::unhandled_deletions(db, limit);
        handled_by_deletion(key: ResourceKey) -> Option<Deletion> =
            |db| peers::handled_by_deletion(db, &key);
        owners_going() -> BTreeSet<String> = |db| peers::owners_going(db);
        live_steps(home: Site, keys: Vec<ResourceKey>) -> Vec<Option<LiveStep>> =
            |db| keys.iter().map(|key| peers::live_step(db, &home, key)).collect();
        waited_for(step: i64) -> Vec<Target> = |db| peers::waited_for(db, step);
    }

    pages {
        deletions(DeletionFilter) -> Deletion = pages::deletions;
        steps(StepFilter) -> Step = pages::steps;
        tombstones(TombstoneFilter) -> Tombstone = pages::tombstones;
        native(NativeFilter) -> Native = native::list;
    }

    async fn commit(&self, changes: Vec<Change>) -> Result<Vec<Applied>, LedgerError> {
        match self.write(Job::Commit(changes)).await? {
            Outcome::Applied(applied) => Ok(applied),
            Outcome::Claimed(_) => Err(LedgerError::Closed),
        }
    }

    async fn claim(
        &self,
        capacities: Vec<Capacity>,
        now: DateTime<Utc>,
    ) -> Result<Vec<ClaimedStep>, LedgerError> {
        match self.write(Job::Claim { capacities, now }).await? {
            Outcome::Claimed(claimed) => Ok(claimed),
            Outcome::Applied(_) => Err(LedgerError::Closed),
        }
    }

    async fn count_steps(
        &self,
        filter: StepFilter,
        after: Option<String>,
    ) -> Result<(u64, Option<String>), LedgerError> {
        let after = position(&Cursor { after, limit: 0 })?;
        self.read(move |db| pages::count_steps(db, &filter, after)).await
    }

    async fn orphans(&self, page: Cursor) -> Result<Paged<AbandonedStep>, LedgerError> {
        let (after, limit) = (position(&page)?, pages::limit(page.limit));
        self.read(move |db| purge::orphans(db, after, limit)).await
    }
}
