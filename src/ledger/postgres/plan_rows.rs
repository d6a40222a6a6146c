//! The rows of requests and plans.

use super::failed::Sql;
use super::rows::{self, micros, micros_opt};
use super::step_rows;
use super::transaction::PostgresRows;
use crate::domain::model::{DeletionState, OnFailure};
use crate::domain::outline::Branch;
use crate::ledger::NewDeletion;
use crate::ledger::store::sql::ReadColumns as _;
use crate::ledger::store::{NewStep, OriginalCopies, PlanRows};

impl PlanRows for PostgresRows {
    fn insert_deletion(&self, wanted: &NewDeletion, root: Option<&str>) -> Sql<i64> {
        self.db.one(
            "WITH given AS (UPDATE numbers SET last = last + 1 WHERE name = 'deletion'
                 RETURNING last AS num),
             asked AS (
                 INSERT INTO requests(num, targets, options, plan_hash, actor, reason, cause,
                     copies, root, deadline)
                 SELECT num, $5::text, $6::text, $7::text, $8::text, $9::text, $10::text,
                     $11::text, $12::text, $13::bigint FROM given)
             INSERT INTO deletions(num, id, state, stops, requested_at)
             SELECT num, $1::text, $2::text, $3::boolean, $4::bigint FROM given RETURNING num",
            &[
                &wanted.id,
                &DeletionState::Planning.as_str(),
                &(wanted.options.on_failure == OnFailure::Stop),
                &micros(wanted.now),
                &rows::json(&wanted.targets)?,
                &rows::json(&wanted.options)?,
                &wanted.plan_hash,
                &rows::json(&wanted.actor)?,
                &wanted.reason,
                &wanted.cause,
                &rows::json(&wanted.copies)?,
                &root,
                &micros_opt(wanted.deadline),
            ],
            |row| Ok(row.read(0)?),
        )
    }

    fn insert_branches(&self, deletion: i64, first_step: i64, branches: &[Branch]) -> Sql<i64> {
        let sql = "SELECT coalesce(max(id), 0) + 1 FROM branches";
        let first: i64 = self.db.one(sql, &[], |row| Ok(row.read(0)?))?;
        let ids: Vec<i64> = branches.iter().map(|it| first + it.id).collect();
        let below = branches.iter().map(|it| it.below.map(|at| first_step + at));
        let below: Vec<Option<i64>> = below.collect();
        let sites: Vec<String> = branches.iter().map(|it| it.site.to_string()).collect();
        let kinds: Vec<&str> = branches.iter().map(|it| it.kind.as_str()).collect();
        let actions: Vec<&str> = branches.iter().map(|it| it.action.as_str()).collect();
        let leaves: Vec<bool> = branches.iter().map(|it| it.leaf).collect();
        self.db.run(
            "INSERT INTO branches(id, deletion, below, site, kind, action, leaf)
             SELECT n.id, $2::bigint, n.below, n.site, n.kind, n.action, n.leaf
             FROM unnest($1::bigint[], $3::bigint[], $4::text[], $5::text[], $6::text[],
                 $7::boolean[]) AS n(id, below, site, kind, action, leaf)",
            &[&ids, &deletion, &below, &sites, &kinds, &actions, &leaves],
        )?;
        Ok(first)
    }

    fn insert_steps(&self, new: &[NewStep<'_>]) -> Sql<()> {
        step_rows::insert(&self.db, new)
    }

    fn insert_edges(&self, edges: &[(i64, i64)]) -> Sql<()> {
        let (before, after): (Vec<i64>, Vec<i64>) = edges.iter().copied().unzip();
        self.db
            .run(
                "INSERT INTO edges(dependency, dependent)
                 SELECT * FROM unnest($1::bigint[], $2::bigint[]) ON CONFLICT DO NOTHING",
                &[&before, &after],
            )
            .map(drop)
    }

    fn remember_copies(&self, deletion: i64, copies: &[OriginalCopies]) -> Sql<()> {
        let keys = rows::Keys::of(copies.iter().map(|of| &of.original));
        let sites = copies.iter().map(|of| rows::json(&of.sites));
        let sites: Vec<String> = sites.collect::<Sql<_>>()?;
        let records = self.db.all(
            "UPDATE tombstones t SET copies_at = n.copies_at
             FROM unnest($1::text[], $2::text[], $3::text[], $4::text[]) WITH ORDINALITY
                 AS n(id, kind, site, copies_at, n)
             WHERE t.id = n.id AND t.kind = n.kind AND t.site = n.site AND t.deletion = $5
             RETURNING n.n, t.record_id",
            &[&keys.ids, &keys.kinds, &keys.sites, &sites, &deletion],
            |row| Ok((row.read::<usize>(0)?, row.read::<i64>(1)?)),
        )?;
        let of = |(place, record): &(usize, i64)| Some((copies.get(place - 1)?, *record));
        let found: Vec<(&OriginalCopies, i64)> = records.iter().filter_map(of).collect();
        let parts = found
            .iter()
            .flat_map(|(of, record)| of.parts.iter().map(|part| (part, *record)));
        let (parts, wholes): (Vec<_>, Vec<i64>) = parts.unzip();
        let parts = rows::Keys::of(parts);
        let named = found.iter().filter_map(|(of, record)| {
            let (name, project) = of.name.as_ref()?;
            Some((&of.original, name.as_str(), project.as_str(), *record))
        });
        let named: Vec<(&_, &str, &str, i64)> = named.collect();
        let originals = rows::Keys::of(named.iter().map(|(original, ..)| *original));
        let names: Vec<&str> = named.iter().map(|(_, name, ..)| *name).collect();
        let projects: Vec<&str> = named.iter().map(|(_, _, project, _)| *project).collect();
        let named: Vec<i64> = named.iter().map(|(.., record)| *record).collect();
        self.db
            .together(&[
                (
                    "INSERT INTO parts(id, kind, site, record) SELECT DISTINCT ON (id, kind, site) *
                     FROM unnest($1::text[], $2::text[], $3::text[], $4::bigint[])
                         AS n(id, kind, site, record)
                     ORDER BY id, kind, site, record DESC
                     ON CONFLICT(id, kind, site) DO UPDATE SET record = excluded.record",
                    &[&parts.ids, &parts.kinds, &parts.sites, &wholes],
                ),
                (
                    "INSERT INTO namesakes(record, site, kind, name, project)
                     SELECT * FROM unnest($1::bigint[], $2::text[], $3::text[], $4::text[], $5::text[])
                     ON CONFLICT(record) DO UPDATE SET site = excluded.site, kind = excluded.kind,
                         name = excluded.name, project = excluded.project",
                    &[&named, &originals.sites, &originals.kinds, &names, &projects],
                ),
            ])
            .map(drop)
    }
}
