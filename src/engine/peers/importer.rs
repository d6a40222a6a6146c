//! The importer's side: watches owners, and deletes this deployment's resources that refer to resources being deleted
//! there, or unsets the references (G4, G6).

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use chrono::{DateTime, Utc};
use serde_json::json;
use tokio::task::JoinSet;

use super::owner::OwnerSide;
use super::referrers::BackReferences;
use super::{Deployments, Watching, peer_failure};
use crate::control::ControlError;
use crate::domain::kinds::Kinds;
use crate::domain::model::{Actor, DriftPolicy, Origin, PlanOptions, Site, Target};
use crate::domain::native::NativeReference;
use crate::domain::peers::{DeletionNotices, Watch, is_foreign_root};
use crate::engine::activity::Activity;
use crate::engine::audit::{keys_of, new_deletion};
use crate::engine::journal::Journal;
use crate::ledger::{
    Applied, AuditEntry, Change, Ledger, LedgerError, NewDeletion, UnhandledDeletion,
};
use crate::peers::{Peer, PeerFailure};
use crate::system::clock::Clock;

/// Maximum number of resources whose referrers one deletion handles.
const HANDLED_AT_ONCE: usize = 1_000;
/// First wait before a failed watch of an owner is repeated. The wait doubles each time, up to `AGAIN_MAX`. Also the
/// wait after notices could not be handled.
const AGAIN_FIRST: Duration = Duration::from_millis(250);
const AGAIN_MAX: Duration = Duration::from_secs(15);
/// Minimum time from the start of one watch to the start of the next: an owner that always has notices must not keep
/// the ledger writing.
const ANSWER_EVERY: Duration = Duration::from_millis(20);
/// Minimum time between two hints to owners.
const HINT_EVERY: Duration = Duration::from_millis(200);

/// Receives the notices of owners, and handles this deployment's resources that refer to resources of these owners.
pub(in crate::engine) struct ImporterSide {
    pub(super) clock: Clock,
    pub(super) ledger: Arc<dyn Ledger>,
    pub(super) kinds: Arc<Kinds>,
    pub(super) journal: Arc<Journal>,
    pub(super) deployments: Arc<Deployments>,
    pub(super) owner: Arc<OwnerSide>,
    pub(super) references: Arc<BackReferences>,
    pub(super) watching: Arc<Activity>,
    pub(super) handling: Arc<Activity>,
    pub(super) hinting: Arc<Activity>,
    /// The number of commits when owners were last sent a hint.
    pub(super) hinted_at: AtomicU64,
}

impl ImporterSide {
    /// Starts a watch for each deployment that this one imports from. Each watch lasts as long as the engine.
    pub(in crate::engine) async fn watch_all(
        self: &Arc<Self>,
        tasks: &mut JoinSet<()>,
    ) -> Result<(), LedgerError> {
        let deployments = &self.deployments;
        let cursors = self.ledger.watches().await?;
        for (peer, kinds) in deployments.imported(&self.kinds) {
            let before = cursors.iter().find(|it| Peer::from(&it.owner) == peer);
            let resumed = Watching::resume(kinds, before);
            deployments.watching().insert(peer.clone(), resumed);
            let importer = self.clone();
            tasks.spawn(async move { importer.keep_watch(&peer).await });
        }
        Ok(())
    }

    async fn keep_watch(&self, peer: &Peer) {
        let deployments = &self.deployments;
        let mut again = AGAIN_FIRST;
        loop {
            let begun = tokio::time::Instant::now();
            let run = self.watching.begin(peer.to_string());
            let watch = deployments.next_watch(peer, self.clock.now());
            let received = match self.watch_of(peer, watch).await {
                Ok(notices) => self.take_in(peer, notices).await,
                Err(failure) => Err(failure.message),
            };
            let reason = received.err().unwrap_or_default();
            let failed = !reason.is_empty();
            if failed {
                run.failed(format!("{peer}: {reason}"));
            }
            drop(run);
            if let Some(watching) = deployments.watching().get_mut(peer) {
                watching.reason = reason;
            }
            if failed {
                tokio::time::sleep(again.mul_f64(1.0 + self.clock.chance() / 4.0)).await;
                again = (again * 2).min(AGAIN_MAX);
            } else {
                again = AGAIN_FIRST;
                tokio::time::sleep_until(begun + ANSWER_EVERY).await;
            }
        }
    }

    async fn watch_of(&self, peer: &Peer, watch: Watch) -> Result<DeletionNotices, PeerFailure> {
        match self.deployments.is_home(peer) {
            true => self.owner.notices_for(watch).await.map_err(peer_failure),
            false => self.deployments.peers.watch(peer, watch).await,
        }
    }

    async fn hint(&self, peer: &Peer) -> Result<(), PeerFailure> {
        let from = self.deployments.home.clone();
        match self.deployments.is_home(peer) {
            true => self.owner.hinted(&from).map_err(peer_failure),
            false => self.deployments.peers.hint(peer, from).await,
        }
    }

    /// Commits notices before they count as received, because an owner never sends an acknowledged notice
    /// again.
    async fn take_in(&self, peer: &Peer, notices: DeletionNotices) -> Result<(), String> {
        let deployments = &self.deployments;
        if Peer::from(&notices.from) != *peer {
            let other = Peer::from(&notices.from);
            return Err(format!(
                "{peer} answers as {other}: correct the url of {peer} in [deployment] peers"
            ));
        }
        let before = deployments
            .watching()
            .get(peer)
            .cloned()
            .unwrap_or_default();
        deployments.check_sender(&notices.from)?;
        let scope = deployments.peers.scope(peer);
        let allowed = notices.check(&deployments.home, &before.kinds, &scope);
        allowed.map_err(|why| format!("the notices of {peer} are not accepted: {why}"))?;
        let as_before = before.ledger == notices.ledger && before.seq == notices.seq;
        if !as_before || !notices.changes.is_empty() {
            let advance = Change::AdvanceWatch {
                service: peer.service.clone(),
                region: peer.region.clone(),
                notices: notices.clone(),
                now: self.clock.now(),
            };
            let applied = self.journal.commit_one(advance).await;
            if let Some(Applied::Refused(why)) = applied.map_err(|error| error.to_string())? {
                return Err(why);
            }
        }
        if let Some(watching) = deployments.watching().get_mut(peer) {
            watching.owner = Some(notices.from.clone());
            watching.ledger.clone_from(&notices.ledger);
            watching.seq = notices.seq;
            watching.answered_at = Some(self.clock.now());
        }
        deployments.arrived.notify_waiters();
        if !notices.changes.is_empty() {
            deployments
                .has_unhandled_deletions
                .store(true, Ordering::Relaxed);
            self.journal.wake_loop();
        }
        Ok(())
    }

    /// After new notices, starts to handle this deployment's resources that refer to resources being deleted
    /// elsewhere.
    pub(in crate::engine) fn react(self: &Arc<Self>, tasks: &mut JoinSet<()>) {
        if self.handling.is_running()
            || !self
                .deployments
                .has_unhandled_deletions
                .swap(false, Ordering::Relaxed)
        {
            return;
        }
        let (importer, run) = (self.clone(), self.handling.begin(""));
        tasks.spawn(async move {
            if let Err(error) = importer.handle_all().await {
                run.failed(&error);
                tracing::error!(%error, "deletions of other deployments were not handled; this is \
                                         retried");
                let deployments = &importer.deployments;
                deployments
                    .has_unhandled_deletions
                    .store(true, Ordering::Relaxed);
                tokio::time::sleep(AGAIN_FIRST).await;
            }
        });
    }

    /// Creates one deletion for each batch of resources that are being deleted elsewhere under one root, if
    /// resources here refer to them.
    async fn handle_all(&self) -> Result<(), LedgerError> {
        while let Some(next) = self.ledger.unhandled_deletions(HANDLED_AT_ONCE).await? {
            let UnhandledDeletion { owner, root, keys } = next;
            let fields = self.references.pointing_fields();
            let pointed = self.ledger.referrers(keys.clone(), fields, 1).await?;
            let targets: Vec<Target> = keys
                .iter()
                .zip(&pointed)
                .filter(|(_, pointed)| pointed.count > 0)
                .map(|(key, _)| Target::of(key, ""))
                .collect();
            let deletion = (!targets.is_empty())
                .then(|| Box::new(self.chained_deletion(&owner, root, targets)));
            self.journal
                .commit(vec![Change::MarkHandled { keys, deletion }])
                .await?;
        }
        Ok(())
    }

    fn chained_deletion(&self, owner: &str, root: String, targets: Vec<Target>) -> NewDeletion {
        debug_assert!(is_foreign_root(&root), "a root names its deployment");
        let audit = AuditEntry {
            actor: Actor::new(format!("deployment {owner}"), Origin::Peer),
            action: "delete".to_owned(),
            target: keys_of(targets.iter().take(10)),
            reason: "a resource to which the targets refer is being deleted".to_owned(),
            detail: json!({"root": root, "targets": targets.len()}),
        };
        let options = PlanOptions {
            park: true,
            chained: true,
            drift: DriftPolicy::Absorb,
            ..PlanOptions::cascading()
        };
        NewDeletion {
            cause: Some(root),
            ..new_deletion(&self.clock, targets, options, audit)
        }
    }

    /// After a commit, sends a hint to each owner that is deleting resources, because this importer's answers may have
    /// changed. Waits [`HINT_EVERY`] first, so that changes gather.
    pub(in crate::engine) fn hint_owners(self: &Arc<Self>, tasks: &mut JoinSet<()>) {
        let changed = *self.journal.follow().borrow();
        let owners: Vec<Peer> = self.deployments.watching().keys().cloned().collect();
        let hinted_at = self.hinted_at.load(Ordering::Relaxed);
        if self.hinting.is_running() || changed == hinted_at || owners.is_empty() {
            return;
        }
        self.hinted_at.store(changed, Ordering::Relaxed);
        let (importer, run) = (self.clone(), self.hinting.begin(""));
        tasks.spawn(async move {
            tokio::time::sleep(HINT_EVERY).await;
            let deleting = importer.ledger.deleting_owners().await.unwrap_or_default();
            let hinted = owners.iter().filter(|peer| {
                let watching = importer.deployments.watching();
                let owner = watching.get(*peer).and_then(|it| it.owner.as_ref());
                owner.is_some_and(|owner| deleting.contains(&owner.name))
            });
            let hints = hinted.map(|peer| importer.hint(peer));
            // If a hint is lost, the owner asks at its next poll.
            for hint in futures_util::future::join_all(hints).await {
                if let Err(failure) = hint {
                    run.failed(failure);
                }
            }
        });
    }

    /// Allows a new reference to another deployment's resource only if the watch on that deployment is fresh
    /// (G10). The ledger checks at the write whether the resource is being deleted.
    pub(in crate::engine) fn may_refer_to(
        &self,
        reference: &NativeReference,
    ) -> Result<(), ControlError> {
        let NativeReference { field, to, .. } = reference;
        let Site::Deployment { name } = &to.site else {
            return Ok(());
        };
        let deployments = &self.deployments;
        if deployments.home.name == **name {
            return Ok(());
        }
        let watching = deployments.watching();
        let named = |it: &&Watching| it.owner.as_ref().is_some_and(|owner| owner.name == **name);
        let Some(owner) = watching.values().find(named) else {
            let owners = watching.values().filter_map(|it| it.owner.as_ref());
            let known: Vec<&str> = owners.map(|owner| owner.name.as_str()).collect();
            return Err(ControlError::unreachable(format!(
                "{field}: deployment {name} is unknown, or has not sent notices yet, so whether {to} \
                     is being deleted is unclear; notices came from: {}",
                match known.is_empty() {
                    true => "none".to_owned(),
                    false => known.join(", "),
                }
            )));
        };
        match deployments.is_fresh(owner, self.clock.now()) {
            true => Ok(()),
            false => Err(ControlError::unreachable(format!(
                "{field}: deployment {name} has been silent for too long to know whether {to} \
                     is being deleted{}; repeat the request when it answers",
                match owner.reason.as_str() {
                    "" => String::new(),
                    why => format!(" ({why})"),
                }
            ))),
        }
    }
}

impl Deployments {
    /// Builds the next watch. If the last watch is not fresh, the new one asks for an answer at once, with or
    /// without notices.
    fn next_watch(&self, peer: &Peer, now: DateTime<Utc>) -> Watch {
        let watching = self.watching().get(peer).cloned().unwrap_or_default();
        let wait = match self.is_fresh(&watching, now) {
            true => self.heartbeat,
            false => Duration::ZERO,
        };
        Watch {
            from: self.home.clone(),
            kinds: watching.kinds,
            ledger: watching.ledger,
            after: watching.seq,
            wait_ms: u64::try_from(wait.as_millis()).unwrap_or(u64::MAX),
        }
    }
}
