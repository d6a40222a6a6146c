//! One connection: statements that are prepared once, and run on the calling thread.
//!
//! The client is asynchronous, so that several statements may share one round trip ([`Connection::together`]). Each
//! connection has a runtime of its own on one thread, which runs only while a statement does: what calls it must be
//! a thread that may block.

use std::collections::HashMap;
use std::future::{Future, poll_fn};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::future::try_join_all;
use futures_util::{TryStreamExt as _, pin_mut};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::Notify;
use tokio_postgres::types::ToSql;
use tokio_postgres::{AsyncMessage, Client, Row, Statement};

use super::address::Address;
use super::failed::{Failed, Sql};
use super::notice::Listener;
use super::tls::Tls;

/// The values of a statement, in order.
pub(super) type Values<'v> = &'v [&'v (dyn ToSql + Sync)];

/// The same, collected: mostly arrays, each a column of the rows that are written.
pub(super) type Columns<'v> = Vec<&'v (dyn ToSql + Sync)>;

/// Connecting takes longer only if the server, or the way to it, hangs.
const CONNECT_MAX: Duration = Duration::from_secs(10);

/// Settings of every session.
///
/// A commit that was answered is durable, whatever the database's own setting. Without statistics of a ledger that
/// has just grown, the planner would read whole tables: as in a file, each statement has its index. And compiling a
/// statement takes longer than running it. An engine that hangs in the middle of a transaction, or whose machine is
/// gone, holds up the others for seconds only.
const SESSION: &str = "
SET synchronous_commit = on;
SET enable_seqscan = off;
SET enable_hashjoin = off;
SET enable_mergejoin = off;
SET jit = off;
SET client_min_messages = warning;
SET lock_timeout = '30s';
SET idle_in_transaction_session_timeout = '15s';
SET tcp_keepalives_idle = 10;
SET tcp_keepalives_interval = 5;
SET tcp_keepalives_count = 3;
";

/// A session of the server.
pub(super) struct Connection {
    client: Client,
    /// None only while it is dropped.
    runtime: Option<Runtime>,
    statements: Mutex<HashMap<String, Statement>>,
    listener: Arc<Mutex<Option<Listener>>>,
}

impl Connection {
    /// Connects, and sets up the session; `more`: further settings of it.
    pub(super) fn open(address: &Address, more: &str) -> Sql<Self> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let tls = Tls::of(address)?;
        let config = address.config()?;
        let connecting = async {
            let connecting = config.connect(tls);
            tokio::time::timeout(CONNECT_MAX, connecting).await
        };
        let hangs = |_| {
            let waited = CONNECT_MAX.as_secs();
            Failed::Impossible(format!("no answer within {waited} s"))
        };
        let (client, mut connection) = runtime.block_on(connecting).map_err(hangs)??;
        let listener: Arc<Mutex<Option<Listener>>> = Arc::default();
        let woken = listener.clone();
        runtime.spawn(async move {
            // The statement that is under way fails with the connection, and says why.
            while let Some(Ok(message)) = poll_fn(|context| connection.poll_message(context)).await
            {
                if let AsyncMessage::Notification(notice) = message
                    && let Some(listener) = &*locked(&woken)
                {
                    listener.hear(notice.payload());
                }
            }
            // That it is lost is news, too.
            if let Some(listener) = &*locked(&woken) {
                listener.waker.notify_one();
            }
        });
        let opened = Self {
            client,
            runtime: Some(runtime),
            statements: Mutex::default(),
            listener,
        };
        opened.batch(&format!("{SESSION}{more}"))?;
        Ok(opened)
    }

    /// Runs statements without values.
    pub(super) fn batch(&self, sql: &str) -> Sql<()> {
        Ok(self.wait(self.client.batch_execute(sql))??)
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

    /// Has the notices of other engines wake `waker`.
    pub(super) fn listen(&self, channel: &str, own: i64, waker: Arc<Notify>) -> Sql<()> {
        *locked(&self.listener) = Some(Listener::new(waker, own));
        self.batch(&format!("LISTEN \"{channel}\""))
    }

    /// Waits until notices wake the listener, or it is woken otherwise, or this time has passed.
    pub(super) fn wait_for_notice(&self, at_most: Duration) {
        let waiting = locked(&self.listener)
            .as_ref()
            .map(|listener| listener.wait(at_most));
        let _ = match waiting {
            Some(waiting) => self.wait(waiting),
            None => self.wait(tokio::time::sleep(at_most)),
        };
    }

    fn prepared(&self, sql: &str) -> Sql<Statement> {
        if let Some(known) = locked(&self.statements).get(sql) {
            return Ok(known.clone());
        }
        let statement = self.wait(self.client.prepare(sql))??;
        locked(&self.statements).insert(sql.to_owned(), statement.clone());
        Ok(statement)
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Drop for Connection {
    fn drop(&mut self) {
        // Without waiting: this may be a thread of another runtime.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// Statements.
impl Connection {
    /// Runs a statement that returns no rows, and returns how many rows it changed.
    pub(super) fn run(&self, sql: &str, values: Values<'_>) -> Sql<u64> {
        let statement = self.prepared(sql)?;
        Ok(self.wait(self.client.execute(&statement, values))??)
    }

    /// Returns all rows.
    pub(super) fn all<T>(
        &self,
        sql: &str,
        values: Values<'_>,
        read: impl Fn(&Row) -> Sql<T>,
    ) -> Sql<Vec<T>> {
        let statement = self.prepared(sql)?;
        let rows = self.wait(self.client.query(&statement, values))??;
        rows.iter().map(read).collect()
    }

    /// Returns the first row, if there is any.
    pub(super) fn first<T>(
        &self,
        sql: &str,
        values: Values<'_>,
        read: impl Fn(&Row) -> Sql<T>,
    ) -> Sql<Option<T>> {
        Ok(self.all(sql, values, read)?.into_iter().next())
    }

    /// Returns the only row.
    pub(super) fn one<T>(
        &self,
        sql: &str,
        values: Values<'_>,
        read: impl Fn(&Row) -> Sql<T>,
    ) -> Sql<T> {
        let found = self.first(sql, values, read)?;
        found.ok_or_else(|| Failed::Impossible(format!("no row: {sql}")))
    }

    /// Passes rows on as they arrive, until `visit` returns false.
    pub(super) fn each(
        &self,
        sql: &str,
        values: Values<'_>,
        visit: &mut dyn FnMut(&Row) -> Sql<bool>,
    ) -> Sql<()> {
        let statement = self.prepared(sql)?;
        self.wait(async {
            let rows = self
                .client
                .query_raw(&statement, values.iter().copied())
                .await?;
            pin_mut!(rows);
            while let Some(row) = rows.try_next().await? {
                if !visit(&row)? {
                    break;
                }
            }
            Ok(())
        })?
    }

    /// Runs statements in this order, which share one round trip, and returns their rows. After an error none of
    /// the later ones has run.
    pub(super) fn together(&self, statements: &[(&str, Values<'_>)]) -> Sql<Vec<Vec<Row>>> {
        let prepared = statements.iter().map(|(sql, _)| self.prepared(sql));
        let prepared: Vec<Statement> = prepared.collect::<Sql<_>>()?;
        let sent = prepared.iter().zip(statements);
        let sent = sent.map(|(statement, (_, values))| self.client.query(statement, values));
        Ok(self.wait(try_join_all(sent))??)
    }
}
