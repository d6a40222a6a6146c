//! Decodes the rows of a SQL store into values. Each function names the columns that it reads, in their order.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use super::plans::{OriginalCopies, StoredRequest};
use super::reads::{GroupProgress, SearchedStep, StepGroup, TombstoneRow};
use super::sql::{Decoded, ReadColumns as _, SqlRow};
use super::steps::{StepPlan, StepRow};
use super::{Pace, StoredDeletion, StoredStep, StoredTombstone};
use crate::domain::attention::{Cause, CauseGroup};
use crate::domain::gantt::GanttCell;
use crate::domain::last_hour::SiteMinute;
use crate::domain::model::{Counts, Event, SitePause};
use crate::domain::native::Native;
use crate::domain::outline::Branch;
use crate::domain::peers::{Deployment, PendingClearance};
use crate::domain::policy::PendingObservations;
use crate::ledger::{AuditRow, KeptRequest, ObservationsDue, WatchCursor};

/// The columns of a deletion that change while its steps move, of the table `d`.
pub const DELETION: &str = "d.num, d.id, d.state, d.cancelled, d.paused, d.stops, d.waiting, \
     d.ready, d.running, d.verifying, d.blocked, d.stuck, d.gone, d.skipped, d.purged, d.total, \
     d.finished_at, d.woken_at, d.note, d.moved_at, d.pace_at, d.pace_done, d.pace_mid_at, \
     d.pace_mid_done";

/// Decodes the columns of [`DELETION`].
pub fn deletion(row: &dyn SqlRow) -> Decoded<StoredDeletion> {
    Ok(StoredDeletion {
        num: row.read(0)?,
        id: row.read(1)?,
        state: row.word(2)?,
        cancelled: row.read(3)?,
        paused: row.read(4)?,
        stops: row.read(5)?,
        counts: row.counts(6)?,
        finished_at: row.read(16)?,
        woken_at: row.read(17)?,
        note: row.read(18)?,
        pace: Pace {
            moved_at: row.read(19)?,
            from: (row.read(20)?, row.read(21)?),
            middle: (row.read(22)?, row.read(23)?),
        },
    })
}

/// The columns of a request, of the table `r`, and when its deletion `d` was requested.
pub const REQUEST: &str = "r.num, r.targets, r.copies, r.options, r.plan_hash, r.reason, r.root, r.deadline, r.actor, \
     r.cause, r.refused, d.requested_at";

/// Decodes the columns of [`REQUEST`]: the deletion's number, and its request.
pub fn request(row: &dyn SqlRow) -> Decoded<(i64, StoredRequest)> {
    let request = StoredRequest {
        targets: row.json(1)?,
        copies: row.json(2)?,
        options: row.json(3)?,
        plan_hash: row.read(4)?,
        reason: row.read(5)?,
        root: row.read(6)?,
        deadline: row.read(7)?,
        actor: row.json(8)?,
        cause: row.read(9)?,
        refused: row.json(10)?,
        requested_at: row.read(11)?,
    };
    Ok((row.read(0)?, request))
}

/// Decodes the columns body, deletion and answer.
pub fn kept_request(row: &dyn SqlRow) -> Decoded<KeptRequest> {
    Ok(KeptRequest {
        body: row.read(0)?,
        deletion: row.read(1)?,
        answer: row.json_or_default(2)?,
    })
}

/// The columns of a step, of the table `s`.
pub const STEP: &str = "s.id, s.deletion, s.site, s.kind, s.resource, s.name, s.action, s.record, s.state, s.since, \
     s.ended_at, s.claim, s.epoch, s.sent, s.waits, s.attempts, s.looks, s.next_attempt_at, \
     s.own_attempt_at, s.blocked_since, s.blockers, s.last_error, s.held_by, s.left_to, s.told";

/// The columns of [`STEP`], then those that are written with the plan.
pub static STEP_ROW: LazyLock<String> = LazyLock::new(|| {
    format!(
        "{STEP}, s.position, s.rank, s.max_attempts, s.branch, s.project, s.vars, s.why, \
         s.fingerprint"
    )
});

/// Decodes the columns of [`STEP_ROW`]: a step, with the columns that come from its plan.
pub fn step_row(row: &dyn SqlRow) -> Decoded<StepRow> {
    Ok(StepRow {
        now: step(row)?,
        plan: StepPlan {
            position: row.read(25)?,
            rank: row.read(26)?,
            max_attempts: row.read(27)?,
            branch: row.read(28)?,
            project_id: row.read(29)?,
            vars: row.json_or_default(30)?,
            why: row.read(31)?,
            fingerprint: row.read(32)?,
        },
    })
}

/// Decodes the columns of [`STEP`].
pub fn step(row: &dyn SqlRow) -> Decoded<StoredStep> {
    Ok(StoredStep {
        id: row.read(0)?,
        deletion: row.read(1)?,
        key: row.key(2)?,
        name: row.read(5)?,
        action: row.word(6)?,
        record: row.read(7)?,
        state: row.word(8)?,
        since: row.read(9)?,
        ended_at: row.read(10)?,
        claim: row.read(11)?,
        epoch: row.read(12)?,
        sent: row.read(13)?,
        waits: row.read(14)?,
        attempts: row.read(15)?,
        observations: row.read(16)?,
        next_attempt_at: row.read(17)?,
        own_attempt_at: row.read(18)?,
        blocked_since: row.read(19)?,
        blockers: row.json_or_default(20)?,
        error: row.json_or_default(21)?,
        held_by: row.read(22)?,
        left_to: row.read(23)?,
        notified: row.read(24)?,
    })
}

/// The columns of a step in which a person searches.
pub const SEARCHED: &str = "deletion, id, name, resource, action, kind, site, project, blocked_since, blockers, last_error";

/// Decodes the columns of [`SEARCHED`].
pub fn searched(row: &dyn SqlRow) -> Decoded<SearchedStep<'_>> {
    Ok(SearchedStep {
        deletion: row.read(0)?,
        id: row.read(1)?,
        name: row.some_text(2)?,
        resource: row.some_text(3)?,
        action: row.some_text(4)?,
        kind: row.some_text(5)?,
        site: row.some_text(6)?,
        project: row.some_text(7)?,
        blocked_since: row.read(8)?,
        blockers: row.json_or_default(9)?,
        error: row.json_or_default(10)?,
    })
}

/// The columns of a tombstone, of the table `t`, then those of its resource.
pub const TOMBSTONE: &str = "t.record_id, t.deletion, t.phase, t.deleted_at, t.gone_at, \
     t.incarnation, t.recreated, t.site, t.kind, t.id";

/// Decodes the columns of [`TOMBSTONE`]: a tombstone with its resource.
pub fn tombstone(row: &dyn SqlRow) -> Decoded<TombstoneRow> {
    Ok(TombstoneRow {
        now: stored_tombstone(row)?,
        key: row.key(7)?,
    })
}

/// Decodes the first columns of [`TOMBSTONE`], without the resource.
pub fn stored_tombstone(row: &dyn SqlRow) -> Decoded<StoredTombstone> {
    Ok(StoredTombstone {
        record: row.read(0)?,
        deletion: row.read(1)?,
        phase: row.word(2)?,
        deleted_at: row.read(3)?,
        gone_at: row.read(4)?,
        incarnation: row.read(5)?,
        recreated: row.read(6)?,
    })
}

/// Decodes the columns site, kind and id of the original, the sites of its copies, and the name and project by which
/// copies are known. Its parts are other rows.
pub fn copies(row: &dyn SqlRow) -> Decoded<OriginalCopies> {
    let name: Option<String> = row.read(4)?;
    Ok(OriginalCopies {
        original: row.key(0)?,
        sites: row.json(3)?,
        parts: BTreeSet::new(),
        name: match name {
            Some(name) => Some((name, row.read(5)?)),
            None => None,
        },
    })
}

/// Decodes the columns id, below, site, kind, action and leaf. The counts of the branch are other rows.
pub fn branch(row: &dyn SqlRow) -> Decoded<Branch> {
    Ok(Branch {
        id: row.read(0)?,
        below: row.read(1)?,
        site: row.read(2)?,
        kind: row.read(3)?,
        action: row.word(4)?,
        leaf: row.read(5)?,
        counts: Counts::default(),
    })
}

/// Decodes the columns deletion, site, kind and rank of a group of verifying steps, when the first of them is due,
/// whether those that are due fill a list, the highest ranks of the steps that are ready and running, the number of the
/// deletion's verifying steps, the number of its ready and running steps, and when it was requested.
pub fn observations_due(row: &dyn SqlRow) -> Decoded<ObservationsDue> {
    Ok(ObservationsDue {
        deletion: row.read(0)?,
        site: row.read(1)?,
        kind: row.read(2)?,
        gathered: PendingObservations {
            rank: row.read(3)?,
            oldest: row.read(4)?,
            fills_a_list: row.read(5)?,
            ready: row.read(6)?,
            running: row.read(7)?,
            verifying: row.read(8)?,
            unsent: row.read(9)?,
            since: row.read(10)?,
        },
    })
}

/// Decodes the columns site, kind and action.
fn group(row: &dyn SqlRow) -> Decoded<StepGroup> {
    Ok(StepGroup {
        site: row.read(0)?,
        kind: row.read(1)?,
        action: row.word(2)?,
    })
}

/// Decodes the columns of the group, the chart's column, and the numbers of calls that were answered, of steps that
/// became blocked or stuck, and of steps that ended.
pub fn cell(row: &dyn SqlRow) -> Decoded<(StepGroup, GanttCell)> {
    let cell = GanttCell {
        column: row.read(3)?,
        sent: row.read(4)?,
        refused: row.read(5)?,
        ended: row.read(6)?,
    };
    Ok((group(row)?, cell))
}

/// Decodes the columns of the group, the number of its steps, the number of those that ended, and one of its steps that
/// has not ended, else the one that ended last.
pub fn group_progress(row: &dyn SqlRow) -> Decoded<GroupProgress> {
    Ok(GroupProgress {
        group: group(row)?,
        steps: row.read(3)?,
        ended: row.read(4)?,
        last: row.read(5)?,
    })
}

/// Decodes the columns site and minute, and the numbers of calls that were answered and of steps that became blocked or
/// stuck.
pub fn site_minute(row: &dyn SqlRow) -> Decoded<SiteMinute> {
    Ok(SiteMinute {
        site: row.read(0)?,
        minute: row.read(1)?,
        calls: row.read(2)?,
        refused: row.read(3)?,
    })
}

/// Decodes the columns state, kind, class, status and type of the error, number of steps, since when, and the message
/// of one of the steps.
pub fn cause_group(row: &dyn SqlRow) -> Decoded<CauseGroup> {
    let class = row.text(2)?.is_some();
    let message: Option<String> = row.read(7)?;
    Ok(CauseGroup {
        cause: Cause {
            state: row.word(0)?,
            kind: row.read(1)?,
            class: class.then(|| row.word(2)).transpose()?,
            status: row.read(3)?,
            error_type: row.read(4)?,
        },
        steps: row.read(5)?,
        since: row.read(6)?,
        message: message.unwrap_or_default(),
    })
}

/// Decodes the columns seq, at, the deletion's id, step, kind, message and data.
pub fn event(row: &dyn SqlRow) -> Decoded<Event> {
    Ok(Event {
        seq: row.read(0)?,
        at: row.read(1)?,
        deletion_id: row.read(2)?,
        step_id: row.read(3)?,
        kind: row.word(4)?,
        message: row.read(5)?,
        data: row.json(6)?,
    })
}

/// Decodes the columns seq, at, actor, action, target, reason, detail and hash.
pub fn audit_row(row: &dyn SqlRow) -> Decoded<AuditRow> {
    Ok(AuditRow {
        seq: row.read(0)?,
        at: row.read(1)?,
        actor: row.json(2)?,
        action: row.read(3)?,
        target: row.read(4)?,
        reason: row.read(5)?,
        detail: row.json(6)?,
        hash: row.read(7)?,
    })
}

/// Decodes the columns site, actor, reason and at.
pub fn site_pause(row: &dyn SqlRow) -> Decoded<SitePause> {
    Ok(SitePause {
        site: row.read(0)?,
        by: row.json(1)?,
        reason: row.read(2)?,
        at: row.read(3)?,
    })
}

/// Decodes the columns name, service and region.
pub fn deployment(row: &dyn SqlRow) -> Decoded<Deployment> {
    Ok(Deployment {
        name: row.read(0)?,
        service: row.read(1)?,
        region: row.read(2)?,
    })
}

/// Decodes the columns importer and answer.
pub fn pending_clearance(row: &dyn SqlRow) -> Decoded<PendingClearance> {
    Ok(PendingClearance {
        importer: row.read(0)?,
        said: row.json_or_default(1)?,
    })
}

/// Decodes the columns name, service and region of the owner, its ledger, and the sequence number.
pub fn watch(row: &dyn SqlRow) -> Decoded<WatchCursor> {
    Ok(WatchCursor {
        owner: deployment(row)?,
        ledger: row.read(3)?,
        seq: row.read(4)?,
    })
}

/// Decodes the columns number, key, incarnation, fields, created at, updated at and deleting of a resource that the
/// registry keeps.
pub fn native(row: &dyn SqlRow) -> Decoded<(i64, Native)> {
    let native = Native {
        key: row.key(1)?,
        incarnation: row.read(4)?,
        fields: row.json(5)?,
        created_at: row.read(6)?,
        updated_at: row.read(7)?,
        deleting: row.read(8)?,
    };
    Ok((row.read(0)?, native))
}
