//! Requests under clients' own keys (`Idempotency-Key`), and their answers.

use chrono::{DateTime, Utc};
use rusqlite::{Connection, params};
use serde_json::Value;

use super::batch::Batch;
use super::intents::KEPT;
use super::rows;
use super::sql::{Run, Sql};
use crate::domain::model::Actor;
use crate::ledger::{KeptRequest, KeyedRequest};

/// The request that this actor made under this key within the last 24 h.
pub(super) fn kept(
    db: &Connection,
    actor: &Actor,
    key: &str,
    now: DateTime<Utc>,
) -> Sql<Option<KeptRequest>> {
    db.first(
        "SELECT body, deletion, answer FROM idempotency WHERE actor = ?1 AND key = ?2 AND at > ?3",
        params![rows::json(actor)?, key, rows::micros(now - KEPT)],
        |row| {
            Ok(KeptRequest {
                body: row.get(0)?,
                deletion: row.get(1)?,
                answer: rows::from_json_opt(row, 2)?,
            })
        },
    )
}

impl Batch<'_> {
    /// `deletion`: the id of the deletion that the request asked for, or empty.
    pub(super) fn remember_request(
        &self,
        request: &KeyedRequest,
        deletion: &str,
        answer: Option<&Value>,
        now: DateTime<Utc>,
    ) -> Sql<()> {
        let expired = rows::micros(now - KEPT);
        self.db
            .run("DELETE FROM idempotency WHERE at <= ?1", params![expired])?;
        let answer = answer.map(rows::json).transpose()?;
        self.db
            .run(
                "INSERT INTO idempotency(actor, key, body, deletion, answer, at)
                 VALUES(?1, ?2, ?3, ?4, ?5, ?6)",
                params![
                    rows::json(&request.actor)?,
                    request.key,
                    request.body,
                    deletion,
                    answer,
                    rows::micros(now)
                ],
            )
            .map(drop)
    }
}
