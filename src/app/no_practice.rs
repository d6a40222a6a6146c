//! The practice mode's functions in a build without the practice cloud.

use std::io;
use std::path::Path;
use std::sync::Arc;

use super::sandbox_args::Sandbox;
use super::{LocalVerb, Paths, Process};
use crate::cloud::openstack::CloudConfig;
use crate::control::Control;
use crate::domain::kinds::{Kinds, Source};
use crate::domain::model::Site;
use crate::engine::Neighbours;
use crate::frontends::cli::{Exit, Failure};
use crate::ledger::Location;
use crate::system::config::DeploymentSettings;

/// A build without the practice cloud has no scenario, so no value of these types ever exists.
pub(super) enum Scenario {}
pub(super) enum Scene {}
pub(super) enum SideEngine {}
pub(super) enum ServerHandle {}

fn failure() -> Failure {
    let advice = "Build with the feature \"sandbox\".";
    Failure::usage(
        "start the practice cloud",
        "this build has no practice mode",
        advice,
    )
}

/// Refuses to load a scenario.
///
/// # Errors
/// Always: there is no practice cloud in this build.
pub(super) fn scenario(_: &str) -> Result<Scenario, Failure> {
    Err(failure())
}

/// Refuses every scenario.
///
/// # Errors
/// Always, as for `scenario`.
pub(super) fn check_is_running(_: &str, _: &Path) -> Result<(), Failure> {
    Err(failure())
}

pub(super) fn announce(_: &str, _: &Paths) -> io::Result<()> {
    Ok(())
}

pub(super) async fn start(scenario: &Scenario, _: &Paths) -> Result<ServerHandle, Failure> {
    match *scenario {}
}

pub(super) async fn play_past(
    scenario: &Scenario,
    _: &ServerHandle,
    _: &[(Site, CloudConfig)],
    _: &Arc<Kinds>,
    _: &Location,
) -> Result<(), Failure> {
    match *scenario {}
}

impl LocalVerb for Sandbox {
    fn run(self, _: &Process<'_>) -> Result<Exit, Failure> {
        Err(failure())
    }
}

/// Whether a scenario is the one with the tour. In this build none is.
#[cfg(feature = "console")]
pub(super) fn has_tour(_: &str) -> bool {
    false
}

impl Scene {
    pub(super) fn of(scenario: &Scenario) -> Option<Self> {
        match *scenario {}
    }

    pub(super) fn settings(&self) -> DeploymentSettings {
        match *self {}
    }

    pub(super) fn own_kinds(&self) -> Result<Vec<Source>, Failure> {
        match *self {}
    }

    pub(super) fn neighbours(&self) -> Neighbours {
        match *self {}
    }

    pub(super) async fn play(
        self,
        _: &Arc<dyn Control>,
        _: &Path,
    ) -> Result<Vec<SideEngine>, Failure> {
        match self {}
    }
}

impl SideEngine {
    pub(super) async fn stop(self) {
        match self {}
    }
}
