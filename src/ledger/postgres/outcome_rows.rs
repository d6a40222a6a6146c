//! The rows that outcomes of steps need, by statements that share a round trip.

use tokio_postgres::Row;

use super::client::Columns;
use super::failed::{Failed, Sql};
use super::{deletion_rows, step_rows};
use crate::ledger::store::decode;
use crate::ledger::store::sql::ReadColumns as _;
use crate::ledger::store::{OutcomeRows, OutcomeSteps};

/// The edges from steps to their dependents.
pub(super) const DEPENDENTS: &str =
    "SELECT e.dependency, e.dependent FROM unnest($1::bigint[]) WITH ORDINALITY AS k(id, n)
     JOIN edges e ON e.dependency = k.id ORDER BY k.n, e.dependent";

/// Decodes an edge of [`DEPENDENTS`].
pub(super) fn edge(row: &Row) -> Sql<(i64, i64)> {
    Ok((row.read(0)?, row.read(1)?))
}

pub(super) fn statements(steps: &OutcomeSteps) -> [(&'static str, Columns<'_>); 4] {
    [
        (&step_rows::LOAD, vec![&steps.all]),
        (DEPENDENTS, vec![&steps.ending]),
        (&step_rows::LOAD_DEPENDENTS, vec![&steps.ending]),
        (&deletion_rows::LOAD_OF_STEPS, vec![&steps.all]),
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
