//! One connection: statements that are prepared once, and run on the calling thread.
//!
//! The client is asynchronous, so that several statements may share one round trip ([`Connection::together`]). Each
//! connection has a runtime of its own on one thread, which runs only while a caller waits for a statement or a notice:
//! the calling thread must be one that may block.
//!
//! Behind a pooler that gives a server's session to a client for one transaction only, nothing may be left in a
//! session: no settings, no prepared statements, no `LISTEN`. Then each transaction brings the settings along. The
//! server is asked once for the types of a statement's values, which are then sent with the statement. Notices do not
//! arrive.

use std::collections::HashMap;
use std::future::{Future, poll_fn};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::future::{try_join_all, try_join3};
use futures_util::{TryStreamExt as _, pin_mut};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::Notify;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{AsyncMessage, Client, Row, RowStream, SimpleQueryMessage, Statement};

use super::address::Address;
use super::failed::{Failed, Sql};
use super::notice::Listener;
use super::tls::Tls;

/// The values of a statement, in order.
pub(super) type Values<'v> = &'v [&'v (dyn ToSql + Sync)];

/// [`Values`] in a list of their own: mostly arrays, each a column of the rows that are read or written.
pub(super) type Columns<'v> = Vec<&'v (dyn ToSql + Sync)>;

/// How long connecting may take. It takes longer only if the server or the network hangs.
const CONNECT_MAX: Duration = Duration::from_secs(10);

/// How often an engine without notices reads what other engines have committed.
const POLL_EVERY: Duration = Duration::from_millis(250);

/// Settings of every session.
///
/// A commit that was answered is durable, whatever the database's own setting. Scans of whole tables, and hash and
/// merge joins, are off, because the planner would choose them for a ledger that has just grown and has no statistics
/// yet, and each statement has its index. Compiling statements is off, because it takes longer than running them. The
/// time-outs bound how long an engine that hangs within a transaction, or whose machine is gone, holds up the other
/// engines.
const SETTINGS: [(&str, &str); 11] = [
    ("synchronous_commit", "on"),
    ("enable_seqscan", "off"),
    ("enable_hashjoin", "off"),
    ("enable_mergejoin", "off"),
    ("jit", "off"),
    ("client_min_messages", "warning"),
    ("lock_timeout", "'30s'"),
    ("idle_in_transaction_session_timeout", "'15s'"),
    ("tcp_keepalives_idle", "10"),
    ("tcp_keepalives_interval", "5"),
    ("tcp_keepalives_count", "3"),
];

/// More settings of a session: their names and values. They replace settings of the same name that every session has.
pub(super) type Settings<'s> = &'s [(&'s str, &'s str)];

/// The facts about a statement that was sent before.
#[derive(Clone)]
enum Known {
    /// The statement is prepared in the session.
    Prepared(Statement),
    /// The types of the statement's values.
    Typed(Vec<Type>),
}

/// A session of the server, or a connection to a pooler, which uses several of them.
pub(super) struct Connection {
    client: Client,
    /// None only while the connection is dropped.
    runtime: Option<Runtime>,
    statements: Mutex<HashMap<String, Known>>,
    listener: Arc<Mutex<Option<Listener>>>,
    /// The settings that each transaction brings along; empty if the session keeps them.
    settings: String,
    /// Whether each transaction may have another session.
    is_pooled: bool,
    /// Whether a transaction has begun here, and has not ended.
    in_transaction: AtomicBool,
}

impl Connection {
    /// Connects, and sets up the session. `more`: settings besides those of every session.
    pub(super) fn open(address: &Address, more: Settings<'_>) -> Sql<Self> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let tls = Tls::of(address)?;
        let config = address.config()?;
        let connecting = async {
            let connecting = config.connect(tls);
            tokio::time::timeout(CONNECT_MAX, connecting).await
        };
        let hangs = |_| {
            let waited = CONNECT_MAX.as_secs();
            Failed::Impossible(format!("the server did not answer within {waited} s"))
        };
        let (client, mut connection) = runtime.block_on(connecting).map_err(hangs)??;
        let listener: Arc<Mutex<Option<Listener>>> = Arc::default();
        let woken = listener.clone();
        runtime.spawn(async move {
            // An error of the connection is ignored here: the statement that is under way fails, too, and returns an
            // error.
            while let Some(Ok(message)) = poll_fn(|context| connection.poll_message(context)).await
            {
                if let AsyncMessage::Notification(notice) = message
                    && let Some(listener) = &*locked(&woken)
                {
                    listener.receive(notice.payload());
                }
            }
            // A lost connection wakes the listener, too.
            if let Some(listener) = &*locked(&woken) {
                listener.waker.notify_one();
            }
        });
        let mut opened = Self {
            client,
            runtime: Some(runtime),
            statements: Mutex::default(),
            listener,
            settings: String::new(),
            is_pooled: address.is_pooled,
            in_transaction: AtomicBool::new(false),
        };
        let set = if opened.is_pooled { "SET LOCAL" } else { "SET" };
        let settings = SETTINGS.iter().chain(more);
        let settings: String = settings
            .map(|(name, value)| format!("{set} {name} = {value}; "))
            .collect();
        match opened.is_pooled {
            true => opened.settings = settings,
            false => opened.batch(&settings)?,
        }
        Ok(opened)
    }

    /// Runs statements without values.
    pub(super) fn batch(&self, sql: &str) -> Sql<()> {
        self.with_settings(|| Ok(self.wait(self.client.batch_execute(sql))??))
    }

    pub(super) fn is_closed(&self) -> bool {
        self.client.is_closed()
    }

    fn wait<T>(&self, work: impl Future<Output = T>) -> Sql<T> {
        match &self.runtime {
            Some(runtime) => Ok(runtime.block_on(work)),
            None => Err(Failed::Impossible("the connection is closed".to_owned())),
        }
    }

    /// Makes the notices of other engines on this channel end [`Self::wait_for_notice`], as `waker` does. Behind a
    /// pooler, no notice arrives. `own`: the epoch of this engine.
    pub(super) fn listen(&self, channel: &str, own: i64, waker: Arc<Notify>) -> Sql<()> {
        *locked(&self.listener) = Some(Listener::new(waker, own));
        match self.is_pooled {
            true => Ok(()),
            false => self.batch(&format!("LISTEN \"{channel}\"")),
        }
    }

    /// Waits until a notice or the listener's waker ends the wait, or this time has passed; behind a pooler, at most
    /// [`POLL_EVERY`].
    pub(super) fn wait_for_notice(&self, at_most: Duration) {
        let at_most = match self.is_pooled {
            true => at_most.min(POLL_EVERY),
            false => at_most,
        };
        let waiting = locked(&self.listener)
            .as_ref()
            .map(|listener| listener.wait(at_most));
        let _ = match waiting {
            Some(waiting) => self.wait(waiting),
            None => self.wait(tokio::time::sleep(at_most)),
        };
    }

    fn known(&self, sql: &str, values: usize) -> Sql<Known> {
        if let Some(known) = locked(&self.statements).get(sql) {
            return Ok(known.clone());
        }
        let known = match (self.is_pooled, values) {
            (false, _) => Known::Prepared(self.wait(self.client.prepare(sql))??),
            (true, 0) => Known::Typed(Vec::new()),
            (true, _) => Known::Typed(self.types(sql)?),
        };
        locked(&self.statements).insert(sql.to_owned(), known.clone());
        Ok(known)
    }

    /// Asks the server for the types of a statement's values, and leaves nothing behind in the session.
    fn types(&self, sql: &str) -> Sql<Vec<Type>> {
        let asking = format!(
            "PREPARE gone_types AS {sql};
             SELECT unnest(parameter_types::oid[])::text FROM pg_catalog.pg_prepared_statements
                 WHERE name = 'gone_types';
             DEALLOCATE gone_types"
        );
        let answers = self.with_settings(|| Ok(self.wait(self.client.simple_query(&asking))??))?;
        let numbers = answers.iter().filter_map(|answer| match answer {
            SimpleQueryMessage::Row(row) => row.get(0),
            _ => None,
        });
        let types = numbers.map(|number| {
            let known = number.parse().ok().and_then(Type::from_oid);
            known.ok_or_else(|| {
                Failed::Impossible(format!("the type {number} of a value is not known: {sql}"))
            })
        });
        types.collect()
    }

    async fn send(
        &self,
        sql: &str,
        known: &Known,
        values: Values<'_>,
    ) -> Result<RowStream, tokio_postgres::Error> {
        let sent = values.iter().copied();
        match known {
            Known::Prepared(statement) => self.client.query_raw(statement, sent).await,
            Known::Typed(types) => {
                let typed = sent.zip(types.iter().cloned());
                self.client.query_typed_raw(sql, typed).await
            }
        }
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Drop for Connection {
    fn drop(&mut self) {
        // The runtime is shut down without waiting: this may be a thread of another runtime.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// Transactions.
impl Connection {
    /// Begins a transaction; `kind`: its isolation, and whether it writes.
    pub(super) fn begin(&self, kind: &str) -> Sql<()> {
        self.in_transaction.store(true, Ordering::Relaxed);
        let begin = format!("BEGIN {kind}; {}", self.settings);
        Ok(self.wait(self.client.batch_execute(&begin))??)
    }

    /// Begins a transaction with these statements, all in one round trip, and returns their rows.
    pub(super) fn begin_with(&self, statements: &[(&str, Values<'_>)]) -> Sql<Vec<Vec<Row>>> {
        let known = self.all_known(statements)?;
        self.in_transaction.store(true, Ordering::Relaxed);
        let begin = format!("BEGIN; {}", self.settings);
        self.pipelined(&begin, &known, statements, "")
    }

    pub(super) fn commit(&self) -> Sql<()> {
        self.in_transaction.store(false, Ordering::Relaxed);
        Ok(self.wait(self.client.batch_execute("COMMIT"))??)
    }

    /// Commits after these statements, all in one round trip, and returns their rows. After an error of one of them
    /// nothing is committed.
    pub(super) fn commit_with(&self, statements: &[(&str, Values<'_>)]) -> Sql<Vec<Vec<Row>>> {
        let known = self.all_known(statements)?;
        self.in_transaction.store(false, Ordering::Relaxed);
        self.pipelined("", &known, statements, "COMMIT")
    }

    /// Undoes the transaction. A connection that is lost has undone it already.
    pub(super) fn roll_back(&self) {
        self.in_transaction.store(false, Ordering::Relaxed);
        let _ = self.wait(self.client.batch_execute("ROLLBACK"));
    }

    /// Does work in a transaction of this kind, and commits it. After an error, nothing of it is written.
    pub(super) fn within<T>(&self, kind: &str, work: impl FnOnce() -> Sql<T>) -> Sql<T> {
        let begun = self.begin(kind);
        self.finish(|| begun.and_then(|()| work()))
    }

    /// Does work in the transaction that has begun, and commits it. After an error, the transaction is undone.
    pub(super) fn finish<T>(&self, work: impl FnOnce() -> Sql<T>) -> Sql<T> {
        let done = work().and_then(|done| {
            self.commit()?;
            Ok(done)
        });
        if done.is_err() {
            self.roll_back();
        }
        done
    }

    /// Does work with the settings of the session: within a transaction, if only a transaction has them.
    fn with_settings<T>(&self, work: impl FnOnce() -> Sql<T>) -> Sql<T> {
        match self.is_pooled && !self.in_transaction.load(Ordering::Relaxed) {
            true => self.within("", work),
            false => work(),
        }
    }
}

/// Statements.
impl Connection {
    /// Runs a statement that returns no rows, and returns how many rows it changed.
    pub(super) fn run(&self, sql: &str, values: Values<'_>) -> Sql<u64> {
        self.with_settings(|| {
            let known = self.known(sql, values.len())?;
            self.wait(async {
                let rows = self.send(sql, &known, values).await?;
                pin_mut!(rows);
                while rows.try_next().await?.is_some() {}
                Ok(rows.rows_affected().unwrap_or_default())
            })?
        })
    }

    /// Returns all rows of a statement, in its order, as `read` converts them.
    pub(super) fn all<T>(
        &self,
        sql: &str,
        values: Values<'_>,
        read: impl Fn(&Row) -> Sql<T>,
    ) -> Sql<Vec<T>> {
        let mut found = Vec::new();
        self.each(sql, values, &mut |row| {
            found.push(read(row)?);
            Ok(true)
        })?;
        Ok(found)
    }

    /// Returns the first row of a statement, if there is any.
    pub(super) fn first<T>(
        &self,
        sql: &str,
        values: Values<'_>,
        read: impl Fn(&Row) -> Sql<T>,
    ) -> Sql<Option<T>> {
        Ok(self.all(sql, values, read)?.into_iter().next())
    }

    /// Returns the row of a statement that must return one.
    pub(super) fn one<T>(
        &self,
        sql: &str,
        values: Values<'_>,
        read: impl Fn(&Row) -> Sql<T>,
    ) -> Sql<T> {
        let found = self.first(sql, values, read)?;
        found.ok_or_else(|| Failed::Impossible(format!("the statement returned no row: {sql}")))
    }

    /// Passes the rows of a statement to `visit` as they arrive, until `visit` returns false.
    pub(super) fn each(
        &self,
        sql: &str,
        values: Values<'_>,
        visit: &mut dyn FnMut(&Row) -> Sql<bool>,
    ) -> Sql<()> {
        self.with_settings(|| {
            let known = self.known(sql, values.len())?;
            self.wait(async {
                let rows = self.send(sql, &known, values).await?;
                pin_mut!(rows);
                while let Some(row) = rows.try_next().await? {
                    if !visit(&row)? {
                        break;
                    }
                }
                Ok(())
            })?
        })
    }

    /// Runs these statements in order, all in one round trip, and returns their rows. Within a transaction, none of the
    /// later ones runs after an error.
    pub(super) fn together(&self, statements: &[(&str, Values<'_>)]) -> Sql<Vec<Vec<Row>>> {
        self.with_settings(|| {
            let known = self.all_known(statements)?;
            self.pipelined("", &known, statements, "")
        })
    }

    fn all_known(&self, statements: &[(&str, Values<'_>)]) -> Sql<Vec<Known>> {
        let known = statements
            .iter()
            .map(|(sql, values)| self.known(sql, values.len()));
        known.collect()
    }

    /// Sends all these statements without waiting in between, and returns their rows. `first` and `last`: further
    /// statements, without values; empty: none.
    fn pipelined(
        &self,
        first: &str,
        known: &[Known],
        statements: &[(&str, Values<'_>)],
        last: &str,
    ) -> Sql<Vec<Vec<Row>>> {
        let simple = async |sql: &str| match sql {
            "" => Ok(()),
            _ => self.client.batch_execute(sql).await,
        };
        let sent = known.iter().zip(statements);
        let rows = sent.map(|(known, (sql, values))| async {
            self.send(sql, known, values).await?.try_collect().await
        });
        let all = try_join3(simple(first), try_join_all(rows), simple(last));
        Ok(self.wait(all)??.1)
    }
}
