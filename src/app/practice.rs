//! The practice mode: its scenario, and the practice cloud beside an engine or alone.

use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use chrono::Utc;

use super::clouds::PRACTICE;
use super::past::Past;
use super::peers::ScenePart;
use super::sandbox_args::Sandbox;
use super::scene::{Scene, SideEngine};
use super::{EndSignals, LocalVerb, Paths, Process, runtime};
use crate::cloud::openstack::CloudConfig;
use crate::control::Control;
use crate::domain::kinds::Kinds;
use crate::domain::model::Site;
use crate::frontends::cli::output::Tolerant;
use crate::frontends::cli::{Exit, Failure};
use crate::ledger::Location;
use crate::present::joined;
use crate::sandbox::{self, Scenario, ServerHandle, WorldOptions};
use crate::system::private;

/// Loads a built-in scenario or a file.
fn scenario(name: &str) -> Result<Scenario, Failure> {
    let built_in = joined(Scenario::built_in(), ", ");
    let advice = format!("Name a built-in scenario ({built_in}), or a file.");
    Scenario::load(full_name(name)).map_err(Failure::usage_of("read the scenario", advice))
}

/// Returns the full name of a scenario: the default one has several names.
fn full_name(name: &str) -> &str {
    match name {
        "" | "default" => sandbox::DEFAULT_SCENARIO,
        name => name,
    }
}

/// Whether a scenario is the one whose resources the tour refers to, by any of its names.
#[cfg(feature = "console")]
pub(super) fn has_tour(scenario: &str) -> bool {
    full_name(scenario) == sandbox::DEFAULT_SCENARIO
}

/// Returns the text that distinguishes a scenario from all others: its name, or the whole path of its file.
fn identity(name: &str) -> String {
    let name = full_name(name);
    if Scenario::built_in().any(|known| known == name) {
        return name.to_owned();
    }
    std::path::absolute(name).map_or_else(|_| name.to_owned(), |path| path.display().to_string())
}

/// The file beside an engine's socket that says which scenario the engine has.
fn scenario_file(socket: &Path) -> PathBuf {
    socket.with_extension("scenario")
}

/// Refuses a scenario that is not the one of the engine at this socket. An empty name fits every scenario.
pub(super) fn check_is_running(named: &str, socket: &Path) -> Result<(), Failure> {
    if named.is_empty() {
        return Ok(());
    }
    let wanted = identity(named);
    let engine = format!("the engine at {}", socket.display());
    let why = match std::fs::read_to_string(scenario_file(socket)) {
        Ok(runs) if runs == wanted => return Ok(()),
        Ok(runs) => format!("{engine} has the scenario \"{runs}\""),
        Err(error) => format!("{engine} does not say which scenario it has: {error}"),
    };
    Err(Failure::usage(
        format!("attach to the practice cloud of the scenario \"{wanted}\""),
        why,
        "End that engine first, or use it: leave out the name of the scenario.",
    ))
}

/// Writes beside the engine's socket which scenario the engine has. Called when the engine holds the ledger, before it
/// serves the socket.
pub(super) fn announce(name: &str, paths: &Paths) -> io::Result<()> {
    private::replace(&scenario_file(&paths.serve), identity(name).as_bytes())
}

/// The practice cloud of a scenario, beside an engine of this process.
pub(super) struct Practice {
    scenario: Scenario,
    cloud: ServerHandle,
    /// None for a scenario without deployments, and after the other deployments were started.
    scene: Option<Scene>,
    /// The other deployments of the scenario.
    beside: Vec<SideEngine>,
}

impl Practice {
    /// Starts the practice cloud of a scenario on a free port of loopback.
    pub(super) async fn start(name: &str, paths: &Paths) -> Result<Self, Failure> {
        let scenario = scenario(name)?;
        let options = sandbox::ServeOptions {
            listen: ([127, 0, 0, 1], 0).into(),
            world: WorldOptions {
                regions: scenario.regions.clone(),
                ..WorldOptions::default()
            },
            scenario: Some(scenario.clone()),
        };
        let cloud = sandbox::serve(options).await;
        let cloud = cloud.map_err(Failure::usage_of("start the practice cloud", ""))?;
        cloud.write_clouds_yaml(&paths.clouds_file())?;
        Ok(Self {
            scene: Scene::of(&scenario),
            scenario,
            cloud,
            beside: Vec::new(),
        })
    }

    /// Returns the part of this process's engine in the scenario; none if the scenario has no deployments.
    pub(super) fn part(&self) -> Result<Option<ScenePart>, Failure> {
        self.scene.as_ref().map(Scene::own_part).transpose()
    }

    /// Starts the other deployments, and creates each of the scenario's resources at its deployment.
    pub(super) async fn play_scene(
        &mut self,
        own: &Arc<dyn Control>,
        state: &Path,
    ) -> Result<(), Failure> {
        if let Some(scene) = self.scene.take() {
            self.beside = scene.play(own, state).await?;
        }
        Ok(())
    }

    pub(super) async fn stop(self) {
        for beside in self.beside {
            beside.stop().await;
        }
    }

    /// Plays the past of the scenario on the practice cloud and a new ledger. Deletions at a site that is not served
    /// are left out.
    pub(super) async fn play_past(
        &self,
        clouds: &[(Site, CloudConfig)],
        kinds: &Arc<Kinds>,
        ledger: &Location,
    ) -> Result<(), Failure> {
        let deletions = self.scenario.past.iter().filter_map(|deletion| {
            let site = Site::region(PRACTICE, self.scenario.region_of(deletion));
            let is_served = clouds.iter().any(|(served, _)| *served == site);
            is_served.then(|| (site, deletion.clone()))
        });
        let past = Past {
            deletions: deletions.collect(),
            clouds: clouds.to_vec(),
            kinds: kinds.clone(),
            world: self.cloud.world(),
            ledger: ledger.clone(),
            now: Utc::now(),
        };
        if past.deletions.is_empty() {
            return Ok(());
        }
        let played = tokio::task::spawn_blocking(move || past.play()).await;
        played.map_err(std::io::Error::other)?
    }
}

impl LocalVerb for Sandbox {
    fn run(self, process: &Process<'_>) -> Result<Exit, Failure> {
        process.log_to_stderr(true)?;
        runtime()?.block_on(serve(self))
    }
}

/// Serves the practice cloud alone, for any client, until a signal ends it.
async fn serve(args: Sandbox) -> Result<Exit, Failure> {
    let action_words = "serve the practice cloud";
    let named = args.scenario.as_ref();
    let scenario = named.map(|name| scenario(&name.to_string_lossy()));
    let scenario = scenario.transpose()?;
    let mut world = WorldOptions {
        keep_ids: args.keep_ids,
        member_reuse: args.member_reuse,
        ..WorldOptions::default()
    };
    match &scenario {
        _ if !args.regions.is_empty() => world.regions = args.regions,
        Some(scenario) => world.regions.clone_from(&scenario.regions),
        None => {}
    }
    let options = sandbox::ServeOptions {
        listen: args.listen,
        world,
        scenario,
    };
    let mut end = EndSignals::listen()?;
    let handle = sandbox::serve(options).await;
    let handle = handle.map_err(Failure::usage_of(action_words, ""))?;
    if let Some(path) = &args.clouds_yaml {
        handle.write_clouds_yaml(path).map_err(|error| {
            let message = format!("{}: {error}", path.display());
            let advice = "Choose another file for --clouds-yaml.";
            Failure::usage(action_words, message, advice)
        })?;
    }
    let ready = handle.ready_line(args.clouds_yaml.as_deref());
    let mut out = Tolerant(io::stdout());
    writeln!(out, "{ready}")?;
    out.flush()?;
    end.recv().await;
    Ok(Exit::Done)
}
