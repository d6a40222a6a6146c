//! The tables, and the checks before they are used.

use tokio_postgres::error::SqlState;

use super::address::Address;
use super::client::{Connection, Settings};
use super::failed::{Failed, Sql};
use super::living::{Living, find_living, held};
use super::lock;
use crate::ledger::LedgerError;
use crate::ledger::store::sql::ReadColumns as _;
use crate::ledger::store::tables::UNFINISHED;

/// The version of the tables that this program writes, as in the table `version`.
pub(super) const KNOWN: i64 = 3;
/// The first version whose engines have leases.
const FIRST_WITH_LEASES: i64 = 2;
/// The migration to each version from the one before. Never edited once released: a change is one more migration.
const MIGRATIONS: [&str; 3] = [
    include_str!("schema.sql"),
    include_str!("schema_2.sql"),
    include_str!("schema_3.sql"),
];
/// The oldest version of the server that has everything that the statements and the session's settings use: 14.0, as
/// `server_version_num`.
const SERVER_MIN: i64 = 140_000;

/// The contents of the schema.
enum Found {
    Nothing,
    /// Tables of something else.
    Foreign,
    Version(i64),
}

/// The error of a ledger that cannot be reached, read or written.
pub(super) fn fault(address: &Address, error: &Failed) -> LedgerError {
    match error {
        Failed::Damaged { .. } => LedgerError::Corrupt {
            name: address.to_string(),
            detail: error.to_string(),
        },
        _ => LedgerError::io(address, error),
    }
}

/// The error of a ledger whose lock could not be taken: `Held` if another process has it.
pub(super) fn held_or_fault(address: &Address, error: &Failed) -> LedgerError {
    match error.code() == Some(&SqlState::LOCK_NOT_AVAILABLE) {
        true => LedgerError::Held {
            name: address.to_string(),
            pid: 0,
            socket: None,
        },
        false => fault(address, error),
    }
}

/// Connects, with this schema as the only one in the search path, and checks the server's version and the database's
/// encoding.
pub(super) fn connect(address: &Address) -> Result<Connection, LedgerError> {
    connect_with(address, &[])
}

/// Connects as [`connect`] does, with further settings.
pub(super) fn connect_with(
    address: &Address,
    settings: Settings<'_>,
) -> Result<Connection, LedgerError> {
    let failed = |error: Failed| fault(address, &error);
    let path = format!("\"{}\"", address.schema);
    let settings = [settings, &[("search_path", path.as_str())]].concat();
    let db = Connection::open(address, &settings).map_err(failed)?;
    let about = "SELECT current_setting('server_version_num')::bigint,
         current_setting('server_encoding')";
    let (version, encoding) = db
        .one(about, &[], |row| {
            Ok((row.read::<i64>(0)?, row.read::<String>(1)?))
        })
        .map_err(failed)?;
    if version < SERVER_MIN {
        let why = format!(
            "the server is PostgreSQL {}; it must be 14 or newer",
            version / 10_000
        );
        return Err(LedgerError::io(address, why));
    }
    if encoding != "UTF8" {
        let why = format!(
            "the database's encoding is {encoding}; create a database with the encoding UTF8"
        );
        return Err(LedgerError::io(address, why));
    }
    Ok(db)
}

/// Checks that the schema has a ledger of this version.
pub(super) fn check(db: &Connection, address: &Address) -> Result<(), LedgerError> {
    match found(db, address).map_err(|error| fault(address, &error))? {
        Found::Version(KNOWN) => Ok(()),
        Found::Version(UNFINISHED) => Err(LedgerError::Unfinished {
            name: address.to_string(),
        }),
        Found::Version(found) if found > KNOWN => Err(LedgerError::Newer {
            name: address.to_string(),
            found,
            known: KNOWN,
        }),
        Found::Version(found) => {
            let why = format!(
                "its tables have version {found}, and this program needs version {KNOWN}; start an engine of this version, which upgrades the tables"
            );
            Err(LedgerError::io(address, why))
        }
        Found::Nothing => Err(LedgerError::io(
            address,
            "there is no ledger yet; an engine creates one when it starts",
        )),
        Found::Foreign => Err(foreign(address)),
    }
}

fn foreign(address: &Address) -> LedgerError {
    let why = format!(
        "the schema \"{}\" has tables that are not a ledger's; name another schema with ?schema=NAME",
        address.schema
    );
    LedgerError::io(address, why)
}

/// Whether the schema has a ledger whose rows say which engines are alive.
pub(super) fn has_engines(db: &Connection, address: &Address) -> Result<bool, LedgerError> {
    let found = found(db, address).map_err(|error| fault(address, &error))?;
    Ok(matches!(found, Found::Version(version) if version >= FIRST_WITH_LEASES))
}

/// Checks whether this role could write the ledger, or create one. Writes nothing.
///
/// # Errors
/// The server cannot be reached, the schema has other tables, an unfinished copy or a ledger of another version, or the
/// role has too few rights.
pub fn can_write(address: &Address) -> Result<(), LedgerError> {
    let check = || {
        let db = connect(address)?;
        let failed = |error: Failed| fault(address, &error);
        let (sql, right) = match found(&db, address).map_err(failed)? {
            Found::Nothing => (
                "SELECT has_database_privilege(current_database(), 'CREATE')",
                "may not create a schema: GRANT CREATE ON DATABASE … TO …",
            ),
            _ => {
                self::check(&db, address)?;
                (
                    "SELECT has_table_privilege('steps', 'INSERT') AND has_table_privilege('steps', 'UPDATE')
                         AND has_table_privilege('steps', 'DELETE')",
                    "may not write the tables: it must own them",
                )
            }
        };
        match db.one(sql, &[], |row| Ok(row.read(0)?)).map_err(failed)? {
            true => Ok(()),
            false => Err(LedgerError::io(address, format!("this role {right}"))),
        }
    };
    on_a_thread(check).unwrap_or(Err(LedgerError::Closed))
}

/// Does blocking work on a thread of its own, because tokio refuses to wait for a connection on a thread of a runtime.
/// None if the work panicked.
pub(super) fn on_a_thread<T: Send>(work: impl FnOnce() -> T + Send) -> Option<T> {
    std::thread::scope(|scope| scope.spawn(work).join()).ok()
}

/// Brings the tables to this version, and creates them if the schema has none. No engine may be alive meanwhile. The
/// session must have the settings [`lock::SHORT_WAIT`].
pub(super) fn migrate(db: &Connection, address: &Address) -> Result<(), LedgerError> {
    let failed = |error: Failed| fault(address, &error);
    match found(db, address).map_err(failed)? {
        Found::Nothing => {}
        Found::Version(found) if found < KNOWN => {}
        _ => return check(db, address),
    }
    // The migrations run in one transaction: a crash leaves a whole ledger of one version. An engine of version 1 holds
    // the lock for as long as it runs; a later one begins no new epoch while this session holds it.
    match lock::within(db, &address.schema, || bring_up(db, address)) {
        Ok(None) => Ok(()),
        Ok(Some(living)) => Err(held(address, living)),
        Err(error) if error.code() == Some(&SqlState::LOCK_NOT_AVAILABLE) => {
            let sql = "SELECT pid FROM engines ORDER BY epoch DESC LIMIT 1";
            let pid = db.first(sql, &[], |row| Ok(row.read(0)?)).ok().flatten();
            Err(LedgerError::Held {
                name: address.to_string(),
                pid: pid.unwrap_or_default(),
                socket: None,
            })
        }
        Err(error) => Err(failed(error)),
    }
}

/// Runs the migrations that are missing; the process that held the lock before may have run them. Runs none while an
/// engine is alive, which writes the tables as they are, and returns that engine.
fn bring_up(db: &Connection, address: &Address) -> Sql<Option<Living>> {
    let schema = &address.schema;
    let from = match found(db, address)? {
        Found::Version(found) => found,
        _ => 0,
    };
    if (FIRST_WITH_LEASES..KNOWN).contains(&from)
        && let Some(living) = find_living(db, true)?
    {
        return Ok(Some(living));
    }
    db.batch(&format!("CREATE SCHEMA IF NOT EXISTS \"{schema}\""))?;
    let done = usize::try_from(from).unwrap_or_default();
    for migration in MIGRATIONS.iter().skip(done) {
        db.batch(migration)?;
    }
    tracing::info!(ledger = %address, from, to = KNOWN, "brought the tables to this version");
    db.batch(&format!(
        "DELETE FROM version; INSERT INTO version(number) VALUES({KNOWN})"
    ))?;
    Ok(None)
}

fn found(db: &Connection, address: &Address) -> Sql<Found> {
    let tables: i64 = db.one(
        "SELECT count(*) FROM pg_catalog.pg_class c
         JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = $1",
        &[&address.schema],
        |row| Ok(row.read(0)?),
    )?;
    if tables == 0 {
        return Ok(Found::Nothing);
    }
    let ours: i64 = db.one(
        "SELECT count(*) FROM pg_catalog.pg_tables WHERE schemaname = $1
             AND tablename IN ('version', 'engines', 'steps', 'tombstones')",
        &[&address.schema],
        |row| Ok(row.read(0)?),
    )?;
    if ours < 4 {
        return Ok(Found::Foreign);
    }
    let number = db.one("SELECT number FROM version", &[], |row| Ok(row.read(0)?))?;
    Ok(Found::Version(number))
}
