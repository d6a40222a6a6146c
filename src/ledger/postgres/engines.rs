//! The rows of the engines: joining, leases, and which engine leads.

use std::time::Duration;

use tokio::time::Instant;

use super::address::Address;
use super::client::Connection;
use super::failed::Sql;
use super::living::{RENEWED_AGO, find_living, held, process};
use super::lock;
use super::notice::Notice;
use super::process::Process;
use super::schema;
use crate::domain::engines::{EngineRole, EngineRow};
use crate::ledger::engines::{Beat, GATE_LEASE, Member, MemberRow, Roster};
use crate::ledger::store::sql::ReadColumns as _;
use crate::ledger::tombstones::{Changed, Tombstones};
use crate::ledger::{Holder, LedgerError};
use crate::system::machine::host;

/// Number of rows that are loaded at a time when an engine joins.
const LOADED_TOGETHER: i64 = 10_000;

/// Joins the engines of the ledger with a new epoch, and loads the tombstones into memory if this engine has gates.
/// From then on, each transaction of this engine applies the changes of tombstones to them.
///
/// # Errors
/// Another engine is alive, and it or this engine must be the only one; the tables have another version; or the server
/// fails.
pub(super) fn join(db: &Connection, address: &Address, member: &Member) -> Result<(), LedgerError> {
    let own = Process::own();
    let terms = &member.terms;
    let name = match terms.name.as_str() {
        "" => format!("{}/{}", host(), own.pid),
        name => name.to_owned(),
    };
    let sent = Instant::now();
    let joining = lock::within(db, &address.schema, || {
        // An engine of a newer version may have changed the tables while this one had no lease.
        if let Err(refused) = schema::check(db, address) {
            return Ok(Err(refused));
        }
        end_leases_of_the_dead(db)?;
        if let Some(other) = find_living(db, terms.is_alone)? {
            return Ok(Err(held(address, other)));
        }
        let joined = db.one(
            "INSERT INTO engines(epoch, pid, host, name, version, machine, process, renewed_at,
                 lease_ms, ended, works, has_gates, alone, drained, applied, passed)
             SELECT coalesce(max(epoch), 0) + 1, $1::bigint, $2::text, $3::text, $4::text, $5::text,
                 $6::text, clock_timestamp(), $7::bigint, false, $8::boolean, $9::boolean,
                 $10::boolean, coalesce(bool_or(epoch = $11 AND drained), false), n.last, n.last
             FROM numbers n LEFT JOIN engines ON true WHERE n.name = 'tombstone' GROUP BY n.last
             RETURNING epoch, applied",
            &[
                &i64::from(own.pid),
                &host(),
                &name,
                &env!("CARGO_PKG_VERSION"),
                &own.machine,
                &own.started,
                &millis(terms.lease),
                &member.works(),
                &member.index.is_some(),
                &terms.is_alone,
                // An engine that was paused stays paused in its next epoch.
                &member.epoch(),
            ],
            |row| Ok((row.read::<i64>(0)?, row.read::<i64>(1)?)),
        )?;
        if let Some(index) = &member.index {
            index.distrust();
            load_tombstones(db, index)?;
        }
        Ok(Ok(joined))
    });
    match joining.map_err(|error| schema::held_or_fault(address, &error))? {
        Ok((epoch, applied)) => {
            // The server has begun the lease at this time or later, never earlier.
            member.joined(epoch, applied, sent + terms.lease);
            notify(db, address, epoch).map_err(|error| schema::fault(address, &error))
        }
        Err(refused) => Err(refused),
    }
}

fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}

/// Ends the leases that crashed processes on this machine have left behind.
fn end_leases_of_the_dead(db: &Connection) -> Sql<()> {
    let sql = "SELECT epoch, machine, pid, process FROM engines WHERE NOT ended";
    let dead = db.all(sql, &[], |row| Ok((row.read::<i64>(0)?, process(row, 1)?)))?;
    let dead: Vec<i64> = dead
        .into_iter()
        .filter_map(|(epoch, process)| process.has_ended().then_some(epoch))
        .collect();
    let sql = "UPDATE engines SET renewed_at = to_timestamp(0) WHERE epoch = ANY($1)";
    db.run(sql, &[&dead]).map(drop)
}

/// Ends this engine's lease, so that nobody waits for its end, and wakes the other engines.
pub(super) fn leave(db: &Connection, address: &Address, epoch: i64) -> Sql<()> {
    let sql = "UPDATE engines SET renewed_at = to_timestamp(0), works = false WHERE epoch = $1";
    db.run(sql, &[&epoch])?;
    notify(db, address, epoch)
}

/// Ends the lost engines for good, in the transaction that takes over their steps in flight. Returns the epochs of the
/// engines that have not ended, this one included.
pub(super) fn end_lost(db: &Connection, own: i64) -> Sql<Vec<i64>> {
    let sql = format!(
        "UPDATE engines SET ended = true
         WHERE NOT ended AND epoch <> $1 AND {RENEWED_AGO} >= lease_ms"
    );
    db.run(&sql, &[&own])?;
    let sql = "SELECT epoch FROM engines WHERE NOT ended ORDER BY epoch";
    db.all(sql, &[], |row| Ok(row.read(0)?))
}

/// Renews the lease, and reads the rows of all engines that have not ended, in one round trip. None if other engines
/// have ended the lease.
pub(super) fn renew(db: &Connection, beat: &Beat) -> Sql<Option<Roster>> {
    let renew = "WITH before AS (SELECT renewed_at FROM engines WHERE epoch = $1)
         UPDATE engines SET renewed_at = clock_timestamp(), works = $2, applied = $3, passed = $4
         WHERE epoch = $1 AND NOT ended
         RETURNING (SELECT before.renewed_at + $5::bigint * interval '1 millisecond' FROM before)
             > clock_timestamp()";
    let gate_lease = millis(GATE_LEASE);
    let renewing: super::client::Values<'_> = &[
        &beat.epoch,
        &beat.works,
        &beat.applied,
        &beat.passed,
        &gate_lease,
    ];
    let rows = member_rows();
    let mut answers = db
        .together(&[(renew, renewing), (&rows, &[]), (NUMBERS, &[])])?
        .into_iter();
    let mut next = || answers.next().unwrap_or_default();
    let (renewed, engines, numbers) = (next(), next(), next());
    let Some(renewed) = renewed.first() else {
        return Ok(None);
    };
    roster(&engines, &numbers, renewed.read(0)?).map(Some)
}

/// Reads the rows of all engines that have not ended, without a write.
pub(super) fn read(db: &Connection) -> Sql<Roster> {
    let rows = member_rows();
    let mut answers = db.together(&[(&rows, &[]), (NUMBERS, &[])])?.into_iter();
    let mut next = || answers.next().unwrap_or_default();
    let (engines, numbers) = (next(), next());
    roster(&engines, &numbers, true)
}

const NUMBERS: &str = "SELECT
     (SELECT last FROM numbers WHERE name = 'event'),
     (SELECT last FROM numbers WHERE name = 'tombstone')";

fn member_rows() -> String {
    format!(
        "SELECT epoch, works AND NOT drained, has_gates, applied, passed, {RENEWED_AGO}, lease_ms
         FROM engines WHERE NOT ended ORDER BY epoch"
    )
}

fn roster(
    engines: &[tokio_postgres::Row],
    numbers: &[tokio_postgres::Row],
    was_trusted: bool,
) -> Sql<Roster> {
    let rows = engines.iter().map(|row| {
        Ok(MemberRow {
            epoch: row.read(0)?,
            claims: row.read(1)?,
            has_gates: row.read(2)?,
            applied: row.read(3)?,
            passed: row.read(4)?,
            renewed_ago_ms: row.read(5)?,
            lease_ms: row.read(6)?,
        })
    });
    let (event, tombstone) = match numbers.first() {
        Some(row) => (row.read(0)?, row.read(1)?),
        None => (0, 0),
    };
    Ok(Roster {
        rows: rows.collect::<Sql<_>>()?,
        event,
        tombstone,
        was_trusted,
    })
}

/// The channel on which the engines of a ledger wake each other.
pub(super) fn channel(address: &Address) -> String {
    format!("gone {}", address.schema)
}

/// The statement that wakes the other engines; its values are the channel and the text of a [`Notice`]. No engine
/// relies on the statement, because each also reads the ledger by itself.
pub(super) const NOTIFY: &str = "SELECT pg_notify($1, $2)";

/// Wakes the other engines at once.
pub(super) fn notify(db: &Connection, address: &Address, epoch: i64) -> Sql<()> {
    let notice = Notice {
        epoch,
        is_urgent: true,
    };
    db.all(NOTIFY, &[&channel(address), &notice.text()], |_| Ok(()))
        .map(drop)
}

/// Loads the tombstones into memory.
fn load_tombstones(db: &Connection, index: &Tombstones) -> Sql<()> {
    index.clear();
    let mut after = 0_i64;
    loop {
        let part = db.all(
            "SELECT record_id, site, kind, id, phase FROM tombstones WHERE record_id > $1
             ORDER BY record_id LIMIT $2",
            &[&after, &LOADED_TOGETHER],
            |row| {
                let changed = Changed::of(row.key(1)?, Some(row.word(4)?));
                Ok((row.read::<i64>(0)?, changed))
            },
        )?;
        let Some((last, _)) = part.last() else {
            return Ok(());
        };
        after = *last;
        index.apply(part.into_iter().map(|(_, changed)| changed));
    }
}

/// Lists the engines that have not ended, by role (the leader first), then by epoch.
pub(super) fn list(db: &Connection) -> Sql<Vec<EngineRow>> {
    let sql = format!(
        "SELECT e.epoch, e.name, e.host, e.pid, e.version, e.works, e.drained, e.has_gates,
             {RENEWED_AGO} < e.lease_ms, (extract(epoch FROM e.began_at) * 1000000)::bigint,
             (extract(epoch FROM e.renewed_at) * 1000000)::bigint,
             (SELECT count(*) FROM steps s WHERE s.state = 'running' AND s.epoch = e.epoch),
             CASE WHEN e.has_gates THEN n.last - e.applied ELSE 0 END
         FROM engines e, numbers n WHERE NOT e.ended AND n.name = 'tombstone' ORDER BY e.epoch"
    );
    let mut engines = db.all(&sql, &[], |row| {
        let (works, is_drained): (bool, bool) = (row.read(5)?, row.read(6)?);
        let role = match (row.read(8)?, works, is_drained) {
            (false, ..) => EngineRole::Lost,
            (true, false, _) => EngineRole::Idle,
            (true, true, true) => EngineRole::Drained,
            (true, true, false) => EngineRole::Works,
        };
        let number =
            |at| -> Sql<u64> { Ok(u64::try_from(row.read::<i64>(at)?).unwrap_or_default()) };
        Ok(EngineRow {
            epoch: row.read(0)?,
            name: row.read(1)?,
            host: row.read(2)?,
            pid: u32::try_from(number(3)?).unwrap_or_default(),
            version: row.read(4)?,
            role,
            has_gates: row.read(7)?,
            started_at: row.read(9)?,
            renewed_at: Some(row.read(10)?),
            running: number(11)?,
            behind: number(12)?,
        })
    })?;
    let leader = engines
        .iter_mut()
        .find(|engine| engine.role == EngineRole::Works);
    if let Some(leader) = leader {
        leader.role = EngineRole::Leads;
    }
    engines.sort_by_key(|engine| (engine.role, engine.epoch));
    Ok(engines)
}

/// Stops the engines of this name from claiming steps, or lets them claim again. Returns their number.
pub(super) fn drain(db: &Connection, name: &str, is_drained: bool) -> Sql<usize> {
    let sql = "UPDATE engines SET drained = $2 WHERE NOT ended AND name = $1";
    let drained = db.run(sql, &[&name, &is_drained])?;
    Ok(usize::try_from(drained).unwrap_or(usize::MAX))
}

/// Keeps all engines from writing and from starting, for as long as the session lives.
///
/// # Errors
/// An engine is alive, another process holds the lock, a pooler may give each transaction another session, or the
/// server fails.
pub(super) fn keep_out(db: &Connection, address: &Address) -> Result<(), LedgerError> {
    if address.is_pooled {
        let why = "through a pooler in transaction mode, engines cannot be kept out while the ledger is copied; name the server itself, without ?pooler=transaction";
        return Err(LedgerError::io(address, why));
    }
    let kept = lock::keep(db, &address.schema);
    kept.map_err(|error| schema::held_or_fault(address, &error))?;
    let living = match schema::has_engines(db, address)? {
        true => find_living(db, true).map_err(|error| schema::fault(address, &error))?,
        false => None,
    };
    match living {
        None => Ok(()),
        Some(living) => Err(held(address, living)),
    }
}

/// Returns the engine of this ledger on this machine: one with a socket if there is any, and of these the one with
/// the lowest epoch. None if there is none, or if the ledger cannot be read.
pub fn holder(address: &Address) -> Option<Holder> {
    schema::on_a_thread(|| find_holder(address)).flatten()
}

fn find_holder(address: &Address) -> Option<Holder> {
    let db = schema::connect(address).ok()?;
    schema::check(&db, address).ok()?;
    let sql = "SELECT machine, pid, process, socket FROM engines WHERE NOT ended
         ORDER BY socket IS NULL, epoch";
    let engines = db.all(sql, &[], |row| {
        Ok((process(row, 0)?, row.read::<Option<String>>(3)?))
    });
    let mut engines = engines.ok()?.into_iter();
    let (process, socket) =
        engines.find(|(process, _)| process.is_here() && !process.has_ended())?;
    Some(Holder {
        pid: process.pid,
        socket,
    })
}
