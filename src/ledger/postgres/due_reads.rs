//! Steps that fall due: those to observe, and those whose next attempt is due.

use chrono::{DateTime, Utc};

use super::client::Connection;
use super::failed::Sql;
use super::rows::{limit, micros};
use crate::domain::model::StepState;
use crate::domain::policy::{PendingObservations, WORTH_A_LIST};
use crate::ledger::ObservationsDue;
use crate::ledger::store::decode;
use crate::ledger::store::sql::ReadColumns as _;
use crate::ledger::store::{DueCount, StepRow};

/// Finds the groups with steps to observe: jumps from one to the next along an index, and counts within each.
const OBSERVATIONS: &str = "
    WITH RECURSIVE g AS (
        (SELECT deletion, site, kind, rank FROM steps WHERE state = 'verifying'
         ORDER BY deletion, site, kind, rank LIMIT 1)
        UNION ALL
        SELECT next.* FROM g, LATERAL (
            SELECT s.deletion, s.site, s.kind, s.rank FROM steps s WHERE s.state = 'verifying'
                AND (s.deletion, s.site, s.kind, s.rank) > (g.deletion, g.site, g.kind, g.rank)
            ORDER BY s.deletion, s.site, s.kind, s.rank LIMIT 1) next
    )
    SELECT g.deletion, g.site, g.kind, g.rank, o.oldest,
        $2 = (SELECT count(*) FROM (SELECT FROM steps v WHERE v.state = 'verifying'
            AND v.deletion = g.deletion AND v.site = g.site AND v.kind = g.kind
            AND v.rank = g.rank AND v.next_attempt_at <= $1 LIMIT $2) due),
        (SELECT s.rank FROM steps s WHERE s.state = 'ready' AND s.site = g.site
            AND s.deletion = g.deletion AND NOT d.paused AND NOT d.cancelled
         ORDER BY s.rank DESC LIMIT 1),
        (SELECT max(s.rank) FROM steps s
         WHERE s.state = 'running' AND s.deletion = g.deletion AND s.site = g.site),
        d.verifying, d.ready + d.running, d.requested_at
    FROM g JOIN deletions d ON d.num = g.deletion, LATERAL (
        SELECT min(v.next_attempt_at) AS oldest FROM steps v WHERE v.state = 'verifying'
            AND v.deletion = g.deletion AND v.site = g.site AND v.kind = g.kind
            AND v.rank = g.rank) o
    WHERE o.oldest <= $1 ORDER BY g.deletion, g.site, g.kind, g.rank";

pub(super) fn observations(db: &Connection, now: DateTime<Utc>) -> Sql<Vec<ObservationsDue>> {
    db.all(
        OBSERVATIONS,
        &[&micros(now), &(WORTH_A_LIST as i64)],
        |row| {
            Ok(ObservationsDue {
                deletion: row.read(0)?,
                site: row.read(1)?,
                kind: row.read(2)?,
                gathered: PendingObservations {
                    oldest: row.read(4)?,
                    fills_a_list: row.read(5)?,
                    rank: row.read(3)?,
                    ready: row.read(6)?,
                    running: row.read(7)?,
                    verifying: row.read(8)?,
                    unsent: row.read(9)?,
                    since: row.read(10)?,
                },
            })
        },
    )
}

pub(super) fn observed(
    db: &Connection,
    of: &[ObservationsDue],
    now: DateTime<Utc>,
    most: usize,
) -> Sql<Vec<StepRow>> {
    let deletions: Vec<i64> = of.iter().map(|it| it.deletion).collect();
    let sites: Vec<String> = of.iter().map(|it| it.site.to_string()).collect();
    let kinds: Vec<&str> = of.iter().map(|it| it.kind.as_str()).collect();
    let ranks: Vec<i64> = of.iter().map(|it| i64::from(it.gathered.rank)).collect();
    let sql = decode::select_steps(
        "FROM unnest($2::bigint[], $3::text[], $4::text[], $5::bigint[]) WITH ORDINALITY
             AS g(deletion, site, kind, rank, n),
         LATERAL (SELECT * FROM steps v WHERE v.state = 'verifying' AND v.next_attempt_at <= $1
             AND v.deletion = g.deletion AND v.site = g.site AND v.kind = g.kind
             AND v.rank = g.rank ORDER BY v.next_attempt_at LIMIT $6) s
         ORDER BY g.n, s.next_attempt_at, s.id LIMIT $6",
    );
    let values: super::client::Values<'_> = &[
        &micros(now),
        &deletions,
        &sites,
        &kinds,
        &ranks,
        &limit(most),
    ];
    db.all(&sql, values, |row| Ok(decode::step_row(row)?))
}

pub(super) fn first(
    db: &Connection,
    state: StepState,
    after: Option<DateTime<Utc>>,
) -> Sql<Option<DateTime<Utc>>> {
    let sql = format!(
        "SELECT min(next_attempt_at) FROM steps WHERE state = '{}' AND next_attempt_at > $1",
        state.as_str()
    );
    let after = after.map_or(i64::MIN, micros);
    db.one(&sql, &[&after], |row| Ok(row.read(0)?))
}

pub(super) fn count(db: &Connection, ends: &[DateTime<Utc>]) -> Sql<Vec<DueCount>> {
    // A bucket of the server contains its lower bound, and one of `DueCount` its upper bound.
    let begins: Vec<i64> = ends.iter().map(|end| micros(*end) + 1).collect();
    let found = db.all(
        "SELECT width_bucket(next_attempt_at, $1::bigint[])::bigint, count(*), min(next_attempt_at)
         FROM steps WHERE state = 'blocked' AND next_attempt_at IS NOT NULL GROUP BY 1",
        &[&begins],
        |row| {
            let due = DueCount {
                steps: row.read(1)?,
                first: row.read(2)?,
            };
            Ok((row.read::<usize>(0)?, due))
        },
    )?;
    let mut counted = vec![DueCount::default(); ends.len() + 1];
    for (place, due) in found {
        if let Some(slot) = counted.get_mut(place) {
            *slot = due;
        }
    }
    Ok(counted)
}
