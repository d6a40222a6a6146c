//! Measures a ledger on a PostgreSQL server: compared with the same row changes in a loop, and with a delay of each
//! message to and from the server.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use gone::ledger::postgres::{Address, PostgresLedger};
use gone::ledger::{Applied, Change, ClaimedStep, Commit as _, EngineTerms, WorkQueue as _};
use tokio_postgres::{Client, NoTls};

use super::server::{self, OwnServer};
use super::{accept, capacity, delay_proxy, end_each, now, plan};

/// Number of commits at the same time, which the ledger groups.
const IN_FLIGHT: usize = 16;

/// Number of commits at the same time for a fast site: the default of `concurrency_max`.
const IN_FLIGHT_MOST: usize = 64;

/// The time that a message takes, in each direction.
const DELAY: Duration = Duration::from_micros(500);

/// Durable transitions per second, with [`IN_FLIGHT`] commits in flight unless a field says otherwise.
pub(crate) struct Rates {
    pub(crate) ours: f64,
    /// The rate of the same row changes in a loop, without the ledger.
    pub(crate) bare: f64,
    /// Bytes in the tables for each step that is gone.
    pub(crate) size: u64,
    /// The rate of the ledger, with [`DELAY`] in each direction.
    pub(crate) delayed: f64,
    /// The rate of the ledger, with [`DELAY`] in each direction and [`IN_FLIGHT_MOST`] commits in flight.
    pub(crate) delayed_most: f64,
}

/// Measures `n` steps; `None` if PostgreSQL is not installed.
pub(crate) fn transitions(n: usize) -> Option<Rates> {
    server::installed()?;
    let folder = tempfile::tempdir().unwrap();
    let server = OwnServer::durable(folder.path());
    let (ledger, steps) = claimed(&server.address_of("ours"), n);
    let ours = run(ledger, &steps, IN_FLIGHT);
    let tables = "SELECT sum(pg_total_relation_size(oid)) FROM pg_class
         WHERE relkind = 'r' AND relnamespace = 'ours'::regnamespace";
    let bytes: u64 = server.run_sql(tables).parse().unwrap();
    let size = bytes / steps.len() as u64;
    let (ledger, steps) = claimed(&server.address_of("bare"), n);
    drop(ledger);
    let bare = block(2, loop_of_sets(folder.path(), "bare", &steps));

    let away = tempfile::tempdir().unwrap();
    let socket = |folder: &Path| folder.join(".s.PGSQL.5432");
    delay_proxy::start(&socket(away.path()), &socket(folder.path()), DELAY);
    let run_delayed = |schema: &str, in_flight| {
        let (ledger, steps) = claimed(&server.address_of(schema), n);
        block(1, ledger.close());
        let away = away.path().display();
        let url = format!("postgres://postgres@/postgres?host={away}&schema={schema}");
        let address = Address::parse(&url).unwrap();
        let ledger = PostgresLedger::open(&address, None, EngineTerms::default()).unwrap();
        run(ledger, &steps, in_flight)
    };
    Some(Rates {
        ours,
        bare,
        size,
        delayed: run_delayed("distant", IN_FLIGHT),
        delayed_most: run_delayed("most", IN_FLIGHT_MOST),
    })
}

fn block<T>(threads: usize, work: impl Future<Output = T>) -> T {
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = runtime.worker_threads(threads).enable_all().build();
    runtime.unwrap().block_on(work)
}

/// Creates a ledger with one deletion of `n` steps, and claims all steps that can be sent.
fn claimed(address: &Address, n: usize) -> (PostgresLedger, Vec<ClaimedStep>) {
    let ledger = PostgresLedger::open(address, None, EngineTerms::default()).unwrap();
    let plan = plan(n, 1);
    let started = Change::Start {
        deletion_id: "claimed".to_owned(),
        ranks: vec![1; plan.steps.len()],
        max_attempts: vec![8; plan.steps.len()],
        plan,
        now: now(),
    };
    let steps = block(1, async {
        ledger.commit(vec![accept("claimed")]).await.unwrap();
        assert_eq!(ledger.commit(vec![started]).await.unwrap(), [Applied::Done]);
        ledger.claim(vec![capacity(n)], now()).await.unwrap()
    });
    (ledger, steps)
}

/// Ends these steps with this many commits in flight, and closes the ledger. Returns the steps per second.
fn run(ledger: PostgresLedger, steps: &[ClaimedStep], in_flight: usize) -> f64 {
    let ledger = Arc::new(ledger);
    block(2, async {
        let rate = end_each(&ledger, steps, in_flight).await;
        ledger.close().await;
        rate
    })
}

/// Ends the steps in sets of [`IN_FLIGHT`], with one round trip for each table of a set. Returns the steps per
/// second.
async fn loop_of_sets(socket: &Path, schema: &str, steps: &[ClaimedStep]) -> f64 {
    let config = format!("host={} user=postgres dbname=postgres", socket.display());
    let (client, connection) = tokio_postgres::connect(&config, NoTls).await.unwrap();
    tokio::spawn(connection);
    let set = format!("SET search_path = {schema}; SET enable_seqscan = off; SET jit = off");
    client.batch_execute(&set).await.unwrap();
    let statements = Statements::of(&client).await;
    let before = Instant::now();
    for batch in steps.chunks(IN_FLIGHT) {
        statements.end(&client, batch).await;
    }
    steps.len() as f64 / before.elapsed().as_secs_f64()
}

struct Statements(Vec<tokio_postgres::Statement>);

impl Statements {
    async fn of(client: &Client) -> Self {
        let mut all = Vec::new();
        for sql in [
            "SELECT id, deletion, record FROM steps WHERE id = ANY($1) AND state = 'running'",
            "UPDATE steps s SET state = 'gone', since = $2, ended_at = $2, attempts = 1
             FROM unnest($1::bigint[]) AS n(id) WHERE s.id = n.id",
            "UPDATE tombstones t SET phase = 'gone', gone_at = $2
             FROM unnest($1::bigint[]) AS n(record) WHERE t.record_id = n.record",
            "WITH given AS (UPDATE numbers SET last = last + cardinality($1::bigint[])
                 WHERE name = 'event' RETURNING last - cardinality($1::bigint[]) AS before)
             INSERT INTO events(seq, at, deletion, step, kind, message, data)
             SELECT before + n, $2, 1, id, 'attempt', 'DELETE 204', '{\"state\":\"gone\"}'
             FROM given, unnest($1::bigint[]) WITH ORDINALITY AS n(id, n)",
            "UPDATE steps s SET waits = s.waits - n.ended FROM
                 (SELECT dependent, count(*) AS ended FROM edges WHERE dependency = ANY($1)
                  GROUP BY dependent) n WHERE s.id = n.dependent",
            "UPDATE deletions SET running = running - $1, gone = gone + $1 WHERE num = 1",
        ] {
            all.push(client.prepare(sql).await.unwrap());
        }
        Self(all)
    }

    async fn end(&self, client: &Client, batch: &[ClaimedStep]) {
        let [load, steps, tombstones, events, waits, deletions] = &self.0[..] else {
            unreachable!()
        };
        let ids: Vec<i64> = batch.iter().map(|step| step.id).collect();
        let now = now().timestamp_micros();
        client.batch_execute("BEGIN").await.unwrap();
        let found = client.query(load, &[&ids]).await.unwrap();
        let records: Vec<i64> = found.iter().map(|row| row.get(2)).collect();
        client.execute(steps, &[&ids, &now]).await.unwrap();
        client.execute(tombstones, &[&records, &now]).await.unwrap();
        client.execute(events, &[&ids, &now]).await.unwrap();
        client.execute(waits, &[&ids]).await.unwrap();
        let count = i64::try_from(batch.len()).unwrap();
        client.execute(deletions, &[&count]).await.unwrap();
        client.batch_execute("COMMIT").await.unwrap();
    }
}
