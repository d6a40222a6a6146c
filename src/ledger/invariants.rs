//! Rules that every ledger keeps at any time, as SQL that each store with SQL runs.

use super::derived;

/// The rules: the first version of a file's tables that has the rule, its name, and a statement that counts the
/// violations, with the placeholders of [`derived::fill`] and [`NUMBERS`]. If two rules have the same name, the later
/// one replaces the other from its version on. No rule compares a flag with a value, because flags are numbers in a
/// file and truth values on a server.
const RULES: [(i64, &str, &str); 25] = [
    (1, "each deletion's counts by state sum to its total of steps",
     "SELECT count(*) FROM deletions WHERE total <> waiting + ready + running + verifying + blocked
          + stuck + gone + skipped + purged"),
    (1, "each deletion's total of steps equals a recount",
     "SELECT count(*) FROM deletions
          LEFT JOIN (SELECT deletion, count(*) AS found FROM steps GROUP BY deletion) AS steps
              ON steps.deletion = num
          WHERE total <> coalesce(found, 0)"),
    (1, "the counts of each deletion's steps by state equal a recount",
     "SELECT count(*) FROM deletions WHERE {miscounted}"),
    (1, "the sums over all steps equal a recount",
     "SELECT count(*) FROM counters WHERE name LIKE 'step\\_%' ESCAPE '\\'
          AND n <> (SELECT count(*) FROM steps WHERE 'step_' || state = counters.name)"),
    (1, "the sums over all deletions equal a recount",
     "SELECT count(*) FROM counters WHERE name LIKE 'deletion\\_%' ESCAPE '\\'
          AND n <> (SELECT count(*) FROM deletions WHERE 'deletion_' || state = counters.name)"),
    (1, "the counts of unfinished dependencies equal a recount",
     "SELECT count(*) FROM steps s WHERE ended_at IS NULL AND waits <> (
          SELECT count(*) FROM edges JOIN steps t ON t.id = dependency
          WHERE dependent = s.id AND t.ended_at IS NULL)"),
    (1, "waiting steps have an unfinished dependency, and active steps have none",
     "SELECT count(*) FROM steps WHERE (state = 'waiting' AND waits = 0)
          OR (state IN ('ready', 'running', 'verifying', 'blocked') AND waits > 0)"),
    (1, "n12: no waiting step depends on a stuck step",
     "SELECT count(*) FROM steps s WHERE state = 'waiting' AND EXISTS (
          SELECT 1 FROM edges JOIN steps t ON t.id = dependency
          WHERE dependent = s.id AND t.state = 'stuck')"),
    (1, "a step stuck because of another names a stuck step of its deletion that is stuck by \
         itself",
     "SELECT count(*) FROM steps s WHERE held_by IS NOT NULL AND (state <> 'stuck'
          OR NOT EXISTS (SELECT 1 FROM steps t WHERE t.id = s.held_by AND t.state = 'stuck'
              AND t.held_by IS NULL AND t.deletion = s.deletion))"),
    (1, "n11: a deletion that a stuck step stopped has no unsent steps",
     "SELECT count(*) FROM steps s JOIN deletions d ON d.num = deletion WHERE stops
          AND s.state IN ('waiting', 'ready') AND NOT sent AND EXISTS (
          SELECT 1 FROM steps t WHERE t.deletion = d.num AND t.state = 'stuck')"),
    (10, "each step is in a branch of its deletion, site, kind and action",
     "SELECT count(*) FROM steps s WHERE NOT EXISTS (
          SELECT 1 FROM branches b WHERE b.id = s.branch
              AND (b.deletion, b.site, b.kind, b.action) = (s.deletion, s.site, s.kind, {s.action}))"),
    (1, "a step has an end time exactly when its state is terminal",
     "SELECT count(*) FROM steps
          WHERE (ended_at IS NOT NULL) <> (state IN ('gone', 'skipped', 'purged'))"),
    (1, "each live step belongs to a deletion",
     "SELECT count(*) FROM steps WHERE ended_at IS NULL
          AND NOT EXISTS (SELECT 1 FROM deletions WHERE num = steps.deletion)"),
    (1, "m1: one tombstone per resource",
     "SELECT count(*) FROM (SELECT 1 FROM tombstones GROUP BY site, kind, id HAVING count(*) > 1) AS several"),
    // Two deletions may delete two resources to which one resource refers, and each unsets its own reference.
    (1, "i9: one live step per resource and action",
     "SELECT count(*) FROM (SELECT 1 FROM steps WHERE ended_at IS NULL
          GROUP BY site, kind, resource, {action}, CASE WHEN action = 'unset' THEN vars ELSE '' END
          HAVING count(*) > 1) AS several"),
    // A resource that is enabled or loses a reference stays, and has no tombstone.
    (1, "t1: each resource that is being deleted has a tombstone",
     "SELECT count(*) FROM steps s WHERE ended_at IS NULL AND {takes_away}
          AND NOT EXISTS (
          SELECT 1 FROM tombstones t WHERE t.record_id = s.record AND t.phase = 'deleting'
              AND t.deletion = s.deletion AND t.id = s.resource)"),
    (1, "t9: no tombstone in phase deleting outlives its step",
     "SELECT count(*) FROM tombstones WHERE phase = 'deleting' AND (record_id, deletion) NOT IN (
          SELECT record, deletion FROM steps WHERE ended_at IS NULL AND record IS NOT NULL)"),
    (1, "t3: a tombstone in phase checking belongs to a deletion in planning",
     "SELECT count(*) FROM tombstones t JOIN deletions d ON d.num = t.deletion
          WHERE phase = 'checking' AND d.state <> 'planning'"),
    (1, "the state of each deletion follows from its counts",
     "SELECT count(*) FROM deletions
          WHERE state <> CASE WHEN state IN ('planning', 'refused') AND NOT cancelled THEN state
                  ELSE {state} END
              OR (finished_at IS NOT NULL) <> ({live} = 0 AND state IN {finished})"),
    (4, "i7: a person was notified of each step that is stuck by itself",
     "SELECT count(*) FROM steps WHERE state = 'stuck' AND held_by IS NULL AND NOT told"),
    (PEERS, "no row has a number above the last number that was given",
     "SELECT count(*) FROM {numbers} AS given WHERE last < CASE name
          WHEN 'deletion' THEN (SELECT max(num) FROM deletions)
          WHEN 'event' THEN (SELECT max(seq) FROM events)
          WHEN 'foreign' THEN (SELECT max(num) FROM foreign_going)
          WHEN 'native' THEN (SELECT max(num) FROM native)
          WHEN 'notice' THEN (SELECT max(seq) FROM peer_changes)
          WHEN 'record' THEN (SELECT max(record_id) FROM tombstones) END"),
    (LEFT, "waiting steps have an unfinished dependency, and active steps have none",
     "SELECT count(*) FROM steps WHERE (state = 'waiting' AND waits = 0 AND left_to IS NULL)
          OR (state IN ('ready', 'running', 'verifying', 'blocked')
              AND (waits > 0 OR left_to IS NOT NULL))"),
    (LEFT, "i9: one live step per resource and action",
     "SELECT count(*) FROM (SELECT 1 FROM steps WHERE ended_at IS NULL AND left_to IS NULL
          GROUP BY site, kind, resource, {action}, CASE WHEN action = 'unset' THEN vars ELSE '' END
          HAVING count(*) > 1) AS several"),
    (LEFT, "t1: each resource that is being deleted has a tombstone",
     "SELECT count(*) FROM steps s WHERE ended_at IS NULL AND {takes_away}
          AND left_to IS NULL AND NOT EXISTS (
          SELECT 1 FROM tombstones t WHERE t.record_id = s.record AND t.phase = 'deleting'
              AND t.deletion = s.deletion AND t.id = s.resource)"),
    (LEFT, "p9: a step left to another deletion has a live owner step for the same resource, and is stuck if the owner step is",
     "SELECT count(*) FROM steps s LEFT JOIN steps o ON o.id = s.left_to
          WHERE s.left_to IS NOT NULL AND s.ended_at IS NULL AND (o.id IS NULL
              OR o.ended_at IS NOT NULL OR o.left_to IS NOT NULL
              OR (o.resource, o.kind, o.site, {o.action}) <> (s.resource, s.kind, s.site, {s.action})
              OR o.state = 'stuck' AND s.state <> 'stuck'
              OR o.state <> 'stuck' AND s.state = 'stuck' AND s.held_by IS NULL)"),
];

/// The name of the rule that every store checks by [`audit::chain`](super::audit::chain).
pub const CHAIN: &str = "p6: the audit's hash chain is intact";
/// The placeholder of a table with the last number that was given to each sort of row: columns `name` and `last`.
const NUMBERS: &str = "{numbers}";
/// The first version of a file's tables that has the registry and other deployments.
const PEERS: i64 = 12;
/// The first version of a file's tables in which a step may be left to another deletion.
const LEFT: i64 = 14;
/// A version later than any version of the tables: it has all rules, as the tables of a server do.
pub const LATEST: i64 = i64::MAX;

/// The rules for a version of the tables, in their order, each with its statement. `numbers`: the text of the store
/// that replaces [`NUMBERS`].
pub fn rules(version: i64, numbers: &str) -> impl Iterator<Item = (&'static str, String)> {
    let known = move |(since, ..): &(i64, &str, &str)| *since <= version;
    RULES.into_iter().enumerate().filter_map(move |(at, rule)| {
        let is_replaced = RULES[at + 1..]
            .iter()
            .any(|later| known(later) && later.1 == rule.1);
        let (_, name, sql) = rule;
        let sql = || derived::fill(sql).replace(NUMBERS, numbers);
        (known(&rule) && !is_replaced).then(|| (name, sql()))
    })
}

/// A rule, and how many violations of it were found.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct RuleChecked {
    pub rule: String,
    pub broken: u64,
    /// A description of the fault; empty if there is none, or if only the number of violations is known.
    pub detail: String,
}

impl RuleChecked {
    pub(super) fn new(rule: &str, broken: u64, detail: String) -> Self {
        Self {
            rule: rule.to_owned(),
            broken,
            detail,
        }
    }
}
