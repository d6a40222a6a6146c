//! Other deployments. As an importer this engine watches owners and handles its own resources. As an owner the engine
//! waits for the clearances of its importers.
//!
//! A deployment whose own references are asynchronous imports from itself. The same code as for other deployments,
//! without a network, delivers the notices of the deployment's own deletions, handles its own resources and gives its
//! own clearances.

mod importer;
mod owner;
mod referrers;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Mutex, MutexGuard};

use chrono::{DateTime, TimeDelta, Utc};
use tokio::sync::Notify;

use super::activity::Activities;
use super::journal::Journal;
use super::lock;
use super::schedules::Schedules;
use crate::control::{ControlError, DeploymentStatus, ImporterStatus, WatchStatus};
use crate::domain::activity::Reconciler;
use crate::domain::kinds::Kinds;
use crate::domain::model::KindName;
use crate::domain::peers::{Deployment, wrong_deployment_name};
use crate::domain::text::escape;
use crate::ledger::{Importer, Ledger, WatchCursor};
use crate::peers::{Peer, PeerFailure, Peers};
use crate::system::clock::Clock;
pub(super) use importer::ImporterSide;
pub(super) use owner::OwnerSide;
pub(super) use referrers::BackReferences;

/// An engine's own deployment, and the peers that it can reach.
pub struct Neighbours {
    /// The deployment to which the engine belongs.
    pub home: Deployment,
    /// The port to the other deployments.
    pub peers: Arc<dyn Peers>,
    /// How long a watch waits for a notice (the heartbeat), and how often an owner asks without a hint
    /// (G5).
    pub heartbeat: std::time::Duration,
}

/// The parts that an engine has only if it belongs to a deployment.
pub(super) struct Federation {
    pub(super) references: Arc<BackReferences>,
    pub(super) owner: Arc<OwnerSide>,
    pub(super) importer: Arc<ImporterSide>,
    clock: Clock,
    ledger: Arc<dyn Ledger>,
    deployments: Arc<Deployments>,
}

/// The state of the deployments while an engine runs.
struct Deployments {
    home: Deployment,
    peers: Arc<dyn Peers>,
    heartbeat: std::time::Duration,
    /// The watches, by owner.
    watching: Mutex<BTreeMap<Peer, Watching>>,
    /// The importers, by name.
    importing: Mutex<BTreeMap<String, Importing>>,
    /// Wakes questions that arrived before the notices that they are about.
    arrived: Notify,
    /// Whether notices may wait to be handled. True at the start, for notices that an earlier engine
    /// received.
    has_unhandled_deletions: AtomicBool,
}

/// The watch on an owner.
#[derive(Clone, Debug, Default)]
struct Watching {
    kinds: BTreeSet<KindName>,
    owner: Option<Deployment>,
    ledger: String,
    seq: i64,
    answered_at: Option<DateTime<Utc>>,
    reason: String,
}

/// An importer on record. Deletions wait for its clearances.
#[derive(Clone, Debug)]
struct Importing {
    deployment: Deployment,
    kinds: BTreeSet<KindName>,
    last_contact_at: Option<DateTime<Utc>>,
    seq: i64,
    asked_at: Option<DateTime<Utc>>,
    asking: bool,
    /// Whether to ask the importer soon, for example because it gave a hint, has received notices, or because something
    /// new waits for its clearance.
    hinted: bool,
    reason: String,
}

/// Number of missed heartbeats after which a watch is too old to decide anything (G10).
const STALE_HEARTBEATS: i32 = 3;

impl Deployments {
    fn new(neighbours: Neighbours) -> Self {
        Self {
            home: neighbours.home,
            peers: neighbours.peers,
            heartbeat: neighbours.heartbeat,
            watching: Mutex::default(),
            importing: Mutex::default(),
            arrived: Notify::new(),
            has_unhandled_deletions: AtomicBool::new(true),
        }
    }

    fn home_peer(&self) -> Peer {
        Peer::from(&self.home)
    }

    fn is_home(&self, peer: &Peer) -> bool {
        *peer == self.home_peer()
    }

    /// Checks that a deployment may use its name. Its service and region come from the settings of the peer
    /// that was recognised. Only the name is its own claim (P13).
    fn check_sender(&self, from: &Deployment) -> Result<(), String> {
        if *from == self.home {
            return Ok(());
        }
        let peer = Peer::from(from);
        let name = escape(&from.name);
        if let Some(why) = wrong_deployment_name(&from.name) {
            return Err(format!("{peer} calls itself \"{}\"; {why}", cut(&name)));
        }
        if from.name == self.home.name || self.is_home(&peer) {
            return Err(format!(
                "{peer} calls itself {name}, which conflicts with this deployment, {} ({}): give \
                 each deployment its own name, service and region",
                self.home.name,
                self.home_peer()
            ));
        }
        match self.peers.scope(&peer).name {
            Some(wanted) if wanted != from.name => {
                return Err(format!(
                    "{peer} calls itself {name}, but [deployment] peers names it {wanted}: correct \
                     one of them"
                ));
            }
            _ => {}
        }
        let named = |other: &Peer| {
            *other != peer && self.peers.scope(other).name.as_ref() == Some(&from.name)
        };
        match self.peers.known().into_iter().find(named) {
            Some(other) => Err(format!(
                "{peer} calls itself {name}, but [deployment] peers gives that name to {other}: \
                 correct one of them"
            )),
            None => Ok(()),
        }
    }

    fn watching(&self) -> MutexGuard<'_, BTreeMap<Peer, Watching>> {
        lock(&self.watching)
    }

    fn importing(&self) -> MutexGuard<'_, BTreeMap<String, Importing>> {
        lock(&self.importing)
    }

    /// Lists the owners to watch, with the kinds to watch for: each deployment of a service to whose kinds
    /// this deployment's kinds refer, and this deployment itself for its asynchronous references.
    fn imported(&self, kinds: &Kinds) -> BTreeMap<Peer, BTreeSet<KindName>> {
        let mut imported: BTreeMap<Peer, BTreeSet<KindName>> = BTreeMap::new();
        let known = self.peers.known();
        for kind in kinds.native_of(&self.home.service) {
            for reference in &kind.spec.references {
                let Some(to) = kinds.get(&reference.to) else {
                    continue;
                };
                let deployments = known.iter().filter(|peer| peer.service == to.service);
                let here = reference.asynchronous.then(|| self.home_peer());
                for peer in deployments.cloned().chain(here) {
                    imported.entry(peer).or_default().insert(to.name.clone());
                }
            }
        }
        imported
    }

    fn is_fresh(&self, watching: &Watching, now: DateTime<Utc>) -> bool {
        let heartbeat = TimeDelta::from_std(self.heartbeat).unwrap_or(TimeDelta::MAX);
        let limit = heartbeat
            .checked_mul(STALE_HEARTBEATS)
            .unwrap_or(TimeDelta::MAX);
        watching.answered_at.is_some_and(|at| now - at <= limit)
    }
}

/// Returns the federation, or an error if the engine has no `[deployment]`.
pub(super) fn required(federation: Option<&Arc<Federation>>) -> Result<&Federation, ControlError> {
    federation.map(Arc::as_ref).ok_or_else(|| {
        ControlError::usage(
            "this engine belongs to no deployment: its configuration has no [deployment]",
        )
    })
}

impl Federation {
    pub(super) fn new(
        neighbours: Neighbours,
        clock: &Clock,
        ledger: &Arc<dyn Ledger>,
        journal: &Arc<Journal>,
        schedules: &Arc<Schedules>,
        activities: &Activities,
    ) -> Self {
        let kinds = &schedules.kinds;
        let deployments = Arc::new(Deployments::new(neighbours));
        let references = Arc::new(BackReferences {
            ledger: ledger.clone(),
            kinds: kinds.clone(),
            deployments: deployments.clone(),
        });
        let owner = Arc::new(OwnerSide {
            clock: clock.clone(),
            ledger: ledger.clone(),
            kinds: kinds.clone(),
            journal: journal.clone(),
            schedules: schedules.clone(),
            deployments: deployments.clone(),
            references: references.clone(),
            asking: activities.add(Reconciler::AskImporters),
        });
        let importer = Arc::new(ImporterSide {
            clock: clock.clone(),
            ledger: ledger.clone(),
            kinds: kinds.clone(),
            journal: journal.clone(),
            deployments: deployments.clone(),
            owner: owner.clone(),
            references: references.clone(),
            watching: activities.add(Reconciler::WatchOwners),
            handling: activities.add(Reconciler::HandleNotices),
            hinting: activities.add(Reconciler::HintOwners),
            hinted_at: AtomicU64::new(0),
        });
        Self {
            references,
            owner,
            importer,
            clock: clock.clone(),
            ledger: ledger.clone(),
            deployments,
        }
    }

    /// Returns the status of the configured peers, of the owners that this deployment watches, and of the importers on
    /// record.
    pub(super) async fn statuses(&self) -> Result<Vec<DeploymentStatus>, ControlError> {
        let deployments = &self.deployments;
        let importers = self.ledger.importers().await?;
        let newest = self.ledger.importers_cursor().await?;
        let now = self.clock.now();
        let watching = deployments.watching().clone();
        let importing = deployments.importing().clone();
        let mut rows: BTreeMap<Peer, DeploymentStatus> = BTreeMap::new();
        let configured = deployments.peers.known().into_iter();
        for peer in configured.chain(watching.keys().cloned()) {
            rows.entry(peer.clone()).or_insert_with(|| row(peer));
        }
        for (peer, watching) in watching {
            let row = rows.entry(peer.clone()).or_insert_with(|| row(peer));
            row.name = watching.owner.as_ref().map(|owner| owner.name.clone());
            row.watch = Some(WatchStatus {
                fresh: deployments.is_fresh(&watching, now),
                kinds: watching.kinds.into_iter().collect(),
                seq: watching.seq,
                answered_at: watching.answered_at,
                reason: watching.reason,
            });
        }
        let mut rows: Vec<DeploymentStatus> = rows.into_values().collect();
        for importer in importers {
            let Deployment {
                name,
                service,
                region,
            } = importer.deployment.clone();
            let seen = importing.get(&name);
            let status = importer_status(importer, seen, newest.1);
            // If another deployment took this service and region, both deployments are listed.
            let same = rows.iter_mut().find(|row| {
                (&row.service, &row.region) == (&service, &region)
                    && row.name.as_ref().is_none_or(|known| *known == name)
            });
            match same {
                Some(row) => (row.name, row.importer) = (Some(name), Some(status)),
                None => rows.push(DeploymentStatus {
                    importer: Some(status),
                    name: Some(name),
                    ..row(Peer { service, region })
                }),
            }
        }
        Ok(rows)
    }
}

/// Shortens a name that is too long for a deployment, to be shown in an error.
fn cut(name: &str) -> &str {
    name.char_indices()
        .nth(40)
        .and_then(|(end, _)| name.get(..end))
        .unwrap_or(name)
}

fn peer_failure(error: ControlError) -> PeerFailure {
    PeerFailure::new(error.to_string())
}

fn row(peer: Peer) -> DeploymentStatus {
    DeploymentStatus {
        service: peer.service,
        region: peer.region,
        ..DeploymentStatus::default()
    }
}

fn importer_status(importer: Importer, seen: Option<&Importing>, newest: i64) -> ImporterStatus {
    let last_contact_at = seen.and_then(|it| it.last_contact_at);
    let seq = seen.map_or(0, |it| it.seq);
    ImporterStatus {
        kinds: importer.kinds.into_iter().collect(),
        since: Some(importer.since),
        last_contact_at,
        seq,
        lag: match last_contact_at {
            Some(_) => (newest - seq).max(0),
            None => newest,
        },
        pending_clearances: importer.pending_clearances,
        reason: seen.map(|it| it.reason.clone()).unwrap_or_default(),
    }
}

impl Importing {
    fn of(deployment: Deployment, kinds: BTreeSet<KindName>) -> Self {
        Self {
            deployment,
            kinds,
            last_contact_at: None,
            seq: 0,
            asked_at: None,
            asking: false,
            hinted: true,
            reason: String::new(),
        }
    }
}

impl Watching {
    fn resume(kinds: BTreeSet<KindName>, cursor: Option<&WatchCursor>) -> Self {
        Self {
            kinds,
            owner: cursor.map(|it| it.owner.clone()),
            ledger: cursor.map(|it| it.ledger.clone()).unwrap_or_default(),
            seq: cursor.map_or(0, |it| it.seq),
            ..Self::default()
        }
    }
}
