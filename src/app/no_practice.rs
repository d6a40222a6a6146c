//! The practice mode's functions in a build without the practice cloud.

use std::io;
use std::path::Path;
use std::sync::Arc;

use super::peers::ScenePart;
use super::sandbox_args::Sandbox;
use super::{LocalVerb, Paths, Process};
use crate::cloud::openstack::CloudConfig;
use crate::control::Control;
use crate::domain::kinds::Kinds;
use crate::domain::model::Site;
use crate::frontends::cli::{Exit, Failure};
use crate::ledger::Location;

/// No value of this type ever exists: there is no practice cloud in this build.
pub(super) enum Practice {}

fn failure() -> Failure {
    let why = "this build has no practice mode";
    let advice = "Build with the feature \"sandbox\".";
    Failure::usage("start the practice cloud", why, advice)
}

pub(super) fn check_is_running(_: &str, _: &Path) -> Result<(), Failure> {
    Err(failure())
}

pub(super) fn announce(_: &str, _: &Paths) -> io::Result<()> {
    Ok(())
}

/// Whether a scenario is the one with the tour. In this build none is.
#[cfg(feature = "console")]
pub(super) fn has_tour(_: &str) -> bool {
    false
}

impl LocalVerb for Sandbox {
    fn run(self, _: &Process<'_>) -> Result<Exit, Failure> {
        Err(failure())
    }
}

impl Practice {
    pub(super) async fn start(_: &str, _: &Paths) -> Result<Self, Failure> {
        Err(failure())
    }

    pub(super) fn part(&self) -> Result<Option<ScenePart>, Failure> {
        match *self {}
    }

    pub(super) async fn play_scene(
        &mut self,
        _: &Arc<dyn Control>,
        _: &Path,
    ) -> Result<(), Failure> {
        match *self {}
    }

    pub(super) async fn play_past(
        &self,
        _: &[(Site, CloudConfig)],
        _: &Arc<Kinds>,
        _: &Location,
    ) -> Result<(), Failure> {
        match *self {}
    }

    pub(super) async fn stop(self) {
        match self {}
    }
}
