//! Loads the rows that outcomes of steps need, by statements that share a round trip.

use std::sync::LazyLock;

use tokio_postgres::Row;

use super::client::Columns;
use super::failed::{Failed, Sql};
use crate::ledger::store::decode::{self, DELETION, STEP};
use crate::ledger::store::sql::ReadColumns as _;
use crate::ledger::store::{OutcomeRows, OutcomeSteps};

/// The steps with these ids.
static STEPS: LazyLock<String> = LazyLock::new(|| {
    format!(
        "SELECT {STEP} FROM unnest($1::bigint[]) WITH ORDINALITY AS k(id, n)
         JOIN steps s ON s.id = k.id ORDER BY k.n"
    )
});

/// The steps that depend on any of the steps with these ids.
static DEPENDENT_STEPS: LazyLock<String> = LazyLock::new(|| {
    format!(
        "SELECT {STEP} FROM steps s
         WHERE s.id IN (SELECT dependent FROM edges WHERE dependency = ANY($1))"
    )
});

/// The deletions of these steps.
static DELETIONS: LazyLock<String> = LazyLock::new(|| {
    format!(
        "SELECT {DELETION} FROM deletions d
         WHERE d.num IN (SELECT deletion FROM steps WHERE id = ANY($1))"
    )
});

/// The edges from steps to their dependents.
const DEPENDENTS: &str =
    "SELECT e.dependency, e.dependent FROM unnest($1::bigint[]) WITH ORDINALITY AS k(id, n)
     JOIN edges e ON e.dependency = k.id ORDER BY k.n, e.dependent";

/// Decodes an edge of [`DEPENDENTS`].
fn edge(row: &Row) -> Sql<(i64, i64)> {
    Ok((row.read(0)?, row.read(1)?))
}

pub(super) fn statements(steps: &OutcomeSteps) -> [(&'static str, Columns<'_>); 4] {
    [
        (&STEPS, vec![&steps.all]),
        (DEPENDENTS, vec![&steps.ending]),
        (&DEPENDENT_STEPS, vec![&steps.ending]),
        (&DELETIONS, vec![&steps.all]),
    ]
}

/// Decodes the answers of [`statements`].
pub(super) fn loaded(answers: &[Vec<Row>]) -> Sql<OutcomeRows> {
    let [found, edges, dependents, deletions] = answers else {
        let why = format!(
            "the server returned {} results for four statements",
            answers.len()
        );
        return Err(Failed::Impossible(why));
    };
    let steps = found
        .iter()
        .chain(dependents)
        .map(|row| Ok(decode::step(row)?));
    let deletions = deletions.iter().map(|row| Ok(decode::deletion(row)?));
    Ok(OutcomeRows {
        steps: steps.collect::<Sql<_>>()?,
        dependents: edges.iter().map(edge).collect::<Sql<_>>()?,
        deletions: deletions.collect::<Sql<_>>()?,
    })
}
