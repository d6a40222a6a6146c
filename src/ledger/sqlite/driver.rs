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
        let store = Store::open(path, options)?;
        let (name, epoch, lock) = (store.path().to_owned(), store.epoch(), store.lock());
        let readers = Arc::new(Readers::open(path)?);
        let (queue, requests) = mpsc::channel(QUEUE_MAX);
        let thread = std::thread::Builder::new()
            .name("ledger".to_owned())
            .spawn(move || run(store, requests))
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
fn run(mut store: Store, mut requests: mpsc::Receiver<Request>) {
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
        let outcomes = store.group(&jobs);
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

#[async_trait]
impl<D: Drive> Ledger for D {
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

    async fn observations_due(
        &self,
        now: DateTime<Utc>,
    ) -> Result<Vec<ObservationsDue>, LedgerError> {
        self.read(move |db| claims::observations_due(db, now)).await
    }

    async fn verifying(
        &self,
        of: Vec<ObservationsDue>,
        now: DateTime<Utc>,
        limit: usize,
    ) -> Result<Vec<ClaimedStep>, LedgerError> {
        self.read(move |db| claims::verifying(db, &of, now, limit))
            .await
    }

    async fn next_due(&self, now: DateTime<Utc>) -> Result<Due, LedgerError> {
        self.read(move |db| claims::next_due(db, now)).await
    }

    async fn held_down(
        &self,
        since: DateTime<Utc>,
        after_record: i64,
        limit: usize,
    ) -> Result<Vec<Tombstone>, LedgerError> {
        let limit = pages::limit(limit);
        self.read(move |db| reads::held_down(db, since, after_record, limit))
            .await
    }

    async fn originals(
        &self,
        since: DateTime<Utc>,
        after_record: i64,
        limit: usize,
    ) -> Result<Vec<Original>, LedgerError> {
        let limit = pages::limit(limit);
        self.read(move |db| reads::originals(db, since, after_record, limit))
            .await
    }

    async fn whole_of(&self, part: ResourceKey) -> Result<Option<Tombstone>, LedgerError> {
        self.read(move |db| reads::whole_of(db, &part)).await
    }

    async fn namesakes(
        &self,
        site: Site,
        kind: KindName,
        name: String,
    ) -> Result<Vec<(Tombstone, Option<OriginalName>)>, LedgerError> {
        self.read(move |db| reads::namesakes(db, &site, &kind, &name))
            .await
    }

    async fn deletions(
        &self,
        filter: DeletionFilter,
        page: Cursor,
    ) -> Result<Paged<Deletion>, LedgerError> {
        let (after, limit) = (position(&page)?, pages::limit(page.limit));
        self.read(move |db| pages::deletions(db, &filter, after, limit))
            .await
    }

    async fn deletion(&self, id: &str) -> Result<Option<Deletion>, LedgerError> {
        let id = id.to_owned();
        self.read(move |db| reads::deletion(db, &id)).await
    }

    async fn frozen(
        &self,
        deletion_id: &str,
        with_steps: bool,
    ) -> Result<Option<Arc<Plan>>, LedgerError> {
        let id = deletion_id.to_owned();
        let plan = self
            .read(move |db| reads::frozen(db, &id, with_steps))
            .await?;
        Ok(plan.map(Arc::new))
    }

    async fn progress(&self, deletion_id: &str) -> Result<Vec<(Site, Counts)>, LedgerError> {
        let id = deletion_id.to_owned();
        self.read(move |db| reads::progress(db, &id)).await
    }

    async fn identities(
        &self,
        deletion_id: &str,
    ) -> Result<BTreeMap<String, Identity>, LedgerError> {
        let id = deletion_id.to_owned();
        self.read(move |db| reads::identities(db, &id)).await
    }

    async fn steps(&self, filter: StepFilter, page: Cursor) -> Result<Paged<Step>, LedgerError> {
        let (after, limit) = (position(&page)?, pages::limit(page.limit));
        self.read(move |db| pages::steps(db, &filter, after, limit))
            .await
    }

    async fn count_steps(
        &self,
        filter: StepFilter,
        after: Option<String>,
    ) -> Result<(u64, Option<String>), LedgerError> {
        let after = position(&Cursor { after, limit: 0 })?;
        self.read(move |db| pages::count_steps(db, &filter, after))
            .await
    }

    async fn outline(
        &self,
        deletion_id: &str,
        below: Vec<Option<i64>>,
    ) -> Result<Outline, LedgerError> {
        let id = deletion_id.to_owned();
        self.read(move |db| outline::outline(db, &id, &below)).await
    }

    async fn branch_steps(
        &self,
        deletion_id: &str,
        branch: i64,
        counts: Counts,
        from: u64,
        limit: usize,
    ) -> Result<Vec<Step>, LedgerError> {
        let (id, limit) = (deletion_id.to_owned(), pages::limit(limit));
        self.read(move |db| outline::branch_steps(db, &id, (branch, &counts), from, limit))
            .await
    }

    async fn step(&self, id: i64) -> Result<Option<Step>, LedgerError> {
        self.read(move |db| reads::step(db, id, None)).await
    }

    async fn tombstones(
        &self,
        filter: TombstoneFilter,
        page: Cursor,
    ) -> Result<Paged<Tombstone>, LedgerError> {
        let (after, limit) = (position(&page)?, pages::limit(page.limit));
        self.read(move |db| pages::tombstones(db, &filter, after, limit))
            .await
    }

    async fn shown_before(
        &self,
        key: ResourceKey,
    ) -> Result<Option<serde_json::Value>, LedgerError> {
        self.read(move |db| reads::shown_before(db, &key)).await
    }

    async fn tombstones_of(&self, keys: Vec<ResourceKey>) -> Result<Vec<Tombstone>, LedgerError> {
        self.read(move |db| reads::tombstones_of(db, &keys)).await
    }

    async fn events(
        &self,
        after: i64,
        filter: EventFilter,
        limit: usize,
    ) -> Result<EventPage, LedgerError> {
        let limit = pages::limit(limit);
        self.read(move |db| reads::events(db, after, &filter, limit))
            .await
    }

    async fn audit(&self, after: i64, limit: usize) -> Result<Vec<AuditRow>, LedgerError> {
        let limit = pages::limit(limit);
        self.read(move |db| reads::audit(db, after, limit)).await
    }

    async fn plan(&self, hash: &str, now: DateTime<Utc>) -> Result<Option<Arc<Plan>>, LedgerError> {
        let hash = hash.to_owned();
        let plan = self.read(move |db| reads::plan(db, &hash, now)).await?;
        Ok(plan.map(Arc::new))
    }

    async fn kept_request(
        &self,
        actor: &Actor,
        key: &str,
        now: DateTime<Utc>,
    ) -> Result<Option<KeptRequest>, LedgerError> {
        let (actor, key) = (actor.clone(), key.to_owned());
        self.read(move |db| reads::kept_request(db, &actor, &key, now))
            .await
    }

    async fn orphans(&self, page: Cursor) -> Result<Paged<AbandonedStep>, LedgerError> {
        let (after, limit) = (position(&page)?, pages::limit(page.limit));
        self.read(move |db| purge::orphans(db, after, limit)).await
    }

    async fn site_pauses(&self) -> Result<Vec<SitePause>, LedgerError> {
        self.read(purge::site_pauses).await
    }

    async fn causes(&self, sites: Vec<Site>) -> Result<Vec<CauseGroup>, LedgerError> {
        self.read(move |db| reads::causes(db, &sites)).await
    }

    async fn gantt(
        &self,
        deletion_id: &str,
        columns: u32,
        now: DateTime<Utc>,
    ) -> Result<Option<Gantt>, LedgerError> {
        let id = deletion_id.to_owned();
        self.read(move |db| gantt::gantt(db, &id, columns, now))
            .await
    }

    async fn upcoming(&self, now: DateTime<Utc>) -> Result<Upcoming, LedgerError> {
        self.read(move |db| gantt::upcoming(db, now)).await
    }

    async fn summary(&self) -> Result<Summary, LedgerError> {
        self.read(summary::summary).await
    }

    async fn native(
        &self,
        filter: NativeFilter,
        page: Cursor,
    ) -> Result<Paged<Native>, LedgerError> {
        let after = position(&page)?.map(|[num]| num);
        let limit = pages::limit(page.limit);
        self.read(move |db| native::list(db, &filter, after, limit))
            .await
    }

    async fn pointed_at(
        &self,
        to: Vec<ResourceKey>,
        fields: Arc<[(KindName, String)]>,
        named_max: usize,
    ) -> Result<Vec<PointedAt>, LedgerError> {
        self.read(move |db| peers::pointed_at(db, &to, &fields, named_max))
            .await
    }

    async fn importers(&self) -> Result<Vec<Importer>, LedgerError> {
        self.read(peers::importers).await
    }

    async fn watches(&self) -> Result<Vec<WatchCursor>, LedgerError> {
        self.read(peers::watches).await
    }

    async fn importers_cursor(&self) -> Result<(String, i64), LedgerError> {
        self.read(peers::position).await
    }

    async fn news(
        &self,
        from: Deployment,
        (ledger, after): (String, i64),
        kinds: BTreeSet<KindName>,
        limit: usize,
    ) -> Result<News, LedgerError> {
        self.read(move |db| peers::news(db, &from, (&ledger, after), &kinds, limit))
            .await
    }

    async fn awaited(
        &self,
        home: Site,
        importer: &str,
        after: i64,
        limit: usize,
    ) -> Result<(Vec<(i64, ClearanceRequest)>, i64), LedgerError> {
        let importer = importer.to_owned();
        self.read(move |db| peers::awaited(db, &home, &importer, after, limit))
            .await
    }

    async fn pending_clearances(&self, step: i64) -> Result<Vec<PendingClearance>, LedgerError> {
        self.read(move |db| peers::pending_clearances(db, step))
            .await
    }

    async fn unhandled_deletions(
        &self,
        limit: usize,
    ) -> Result<Option<UnhandledDeletion>, LedgerError> {
        self.read(move |db| peers::unhandled_deletions(db, limit))
            .await
    }

    async fn handled_by_deletion(&self, key: ResourceKey) -> Result<Option<Deletion>, LedgerError> {
        let read = move |db: &Connection| match peers::handled_by_deletion(db, &key)? {
            Some(id) => reads::deletion(db, &id),
            None => Ok(None),
        };
        self.read(read).await
    }

    async fn owners_going(&self) -> Result<BTreeSet<String>, LedgerError> {
        self.read(peers::owners_going).await
    }

    async fn live_steps(
        &self,
        home: Site,
        keys: Vec<ResourceKey>,
    ) -> Result<Vec<Option<LiveStep>>, LedgerError> {
        let each = move |db: &Connection| {
            let found = keys.iter().map(|key| peers::live_step(db, &home, key));
            found.collect::<Sql<Vec<_>>>()
        };
        self.read(each).await
    }

    async fn waited_for(&self, step: i64) -> Result<Vec<Target>, LedgerError> {
        self.read(move |db| peers::waited_for(db, step)).await
    }

    async fn notification_cursor(&self, channel: &str) -> Result<NotificationCursor, LedgerError> {
        let channel = channel.to_owned();
        self.read(move |db| notification_cursor::read(db, &channel))
            .await
    }
}
