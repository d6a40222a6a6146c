//! The gates of the settings, each in front of a service of a site that this process serves.

use std::sync::Arc;
use std::time::Duration;

use crate::cloud::openstack::{CloudConfig, HttpTransport, Session};
use crate::control::Control;
use crate::control::traffic::Counters;
use crate::domain::kinds::Kinds;
use crate::domain::mapping::Mapping;
use crate::domain::model::Site;
use crate::frontends::cli::Failure;
use crate::frontends::gate::{self, Budget, KeyLocks, Threads};
use crate::ledger::tombstones::Tombstones;
use crate::present::joined;
use crate::system::clock::Clock;
use crate::system::config::GateSettings;
use crate::system::listener::ListenHandle;

const TRIED: &str = "open the gates";

/// The gates to open, each with a login of its own.
pub(super) struct Gates {
    wanted: Vec<(GateSettings, Arc<Session>)>,
    /// The tombstones that the ledger keeps in memory for the gates. None without a gate.
    pub(super) tombstones: Option<Arc<Tombstones>>,
    pub(super) counters: Arc<Counters>,
}

impl Gates {
    /// Finds the cloud of each gate, and prepares a login for it.
    ///
    /// # Errors
    /// The region of a gate is not served, which happens only with a practice cloud; or `clouds.yaml` is wrong.
    pub(super) fn of(
        settings: &[GateSettings],
        clouds: &[(Site, CloudConfig)],
        clock: &Clock,
    ) -> Result<Self, Failure> {
        let mut wanted = Vec::new();
        for (position, gate) in settings.iter().enumerate() {
            let site = gate.upstream.site();
            match clouds.iter().find(|(known, _)| *known == site) {
                Some((_, cloud)) => wanted.push((gate.clone(), session(cloud, clock)?)),
                None => return Err(unknown(position, &site, clouds)),
            }
        }
        Ok(Self {
            tombstones: (!wanted.is_empty()).then(Arc::default),
            wanted,
            counters: Arc::default(),
        })
    }

    pub(super) async fn open(
        self,
        kinds: &Arc<Kinds>,
        mapping: &[Mapping],
        control: &Arc<dyn Control>,
        clock: &Clock,
        call_timeout: Duration,
    ) -> Result<Vec<ListenHandle>, Failure> {
        let tombstones = self.tombstones.unwrap_or_default();
        if self.wanted.is_empty() {
            return Ok(Vec::new());
        }
        let key_locks = Arc::<KeyLocks>::default();
        let budget = Arc::<Budget>::default();
        let advice = "Let this user have more threads and open files (ulimit -u, ulimit -n).";
        let threads = Threads::start().map_err(Failure::usage_of(TRIED, advice))?;
        let mut open = Vec::new();
        for (settings, session) in self.wanted {
            let parts = gate::GateParts {
                settings,
                kinds: kinds.clone(),
                mapping: mapping.to_vec(),
                tombstones: tombstones.clone(),
                key_locks: key_locks.clone(),
                budget: budget.clone(),
                counters: self.counters.clone(),
                control: control.clone(),
                session,
                clock: clock.clone(),
                call_timeout,
            };
            let advice =
                "Stop the program that listens there, or give [[gate]] listen another address.";
            let opened = gate::serve(parts, threads.clone()).await;
            open.push(opened.map_err(Failure::usage_of(TRIED, advice))?);
        }
        Ok(open)
    }
}

fn session(cloud: &CloudConfig, clock: &Clock) -> Result<Arc<Session>, Failure> {
    let advice = "Correct clouds.yaml; `gone doctor` says more.";
    let transport = HttpTransport::new(cloud).map_err(Failure::usage_of(TRIED, advice))?;
    let clock = clock.clone();
    let now = Arc::new(move || clock.now());
    let session = Session::new(cloud.clone(), Arc::new(transport), now);
    Ok(Arc::new(session))
}

fn unknown(position: usize, site: &Site, clouds: &[(Site, CloudConfig)]) -> Failure {
    let known = joined(clouds.iter().map(|(site, _)| site), ", ");
    let why = format!("gate[{position}].upstream: no such site {site}; this engine has {known}");
    let advice = "Name one of these in [[gate]], or start the engine without --sandbox.";
    Failure::usage(TRIED, why, advice)
}
