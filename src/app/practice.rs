//! The practice mode: its scenario, and the practice cloud beside an engine or alone.

use std::io::{self, Write as _};

use super::sandbox_args::Sandbox;
use super::{LocalVerb, Places, Process, ToldToEnd, log_to_stderr, runtime};
use crate::frontends::cli::output::Tolerant;
use crate::frontends::cli::{Exit, Failure};
use crate::sandbox::{self, WorldOptions};
pub(super) use crate::sandbox::{Scenario, ServerHandle};

pub(super) use super::scene::{Scene, SideEngine};

/// Loads a built-in scenario or a file.
pub(super) fn scenario(name: &str) -> Result<Scenario, Failure> {
    let name = if name.is_empty() { "default" } else { name };
    Scenario::load(name).map_err(|error| {
        let built_in: Vec<&str> = Scenario::built_in().collect();
        let advice = format!("Built in: {}; or give a file.", built_in.join(", "));
        Failure::usage("read the scenario", error.to_string(), advice)
    })
}

/// Whether a scenario is the one whose resources the tour refers to, by any of its names.
#[cfg(feature = "console")]
pub(super) fn has_tour(scenario: &str) -> bool {
    matches!(scenario, "" | "default" | sandbox::DEFAULT_SCENARIO)
}

/// Starts the practice cloud of a scenario on a free port of loopback.
pub(super) async fn start(scenario: Scenario, places: &Places) -> Result<ServerHandle, Failure> {
    let options = sandbox::ServeOptions {
        listen: ([127, 0, 0, 1], 0).into(),
        world: WorldOptions {
            regions: scenario.regions.clone(),
            ..WorldOptions::default()
        },
        scenario: Some(scenario),
    };
    let handle = sandbox::serve(options)
        .await
        .map_err(|error| Failure::usage("start the practice cloud", error.to_string(), ""))?;
    handle.write_clouds_yaml(&places.clouds_file())?;
    Ok(handle)
}

impl LocalVerb for Sandbox {
    fn run(self, process: &Process<'_>) -> Result<Exit, Failure> {
        log_to_stderr(process.global, process.style, true)?;
        runtime()?.block_on(serve(self))
    }
}

/// Serves the practice cloud alone, for any client, until a signal ends it.
async fn serve(args: Sandbox) -> Result<Exit, Failure> {
    let tried = "serve the practice cloud";
    let scenario = match &args.scenario {
        Some(name) => Some(scenario(&name.to_string_lossy())?),
        None => None,
    };
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
    let listen = args.listen;
    let options = sandbox::ServeOptions {
        listen,
        world,
        scenario,
    };
    let mut told = ToldToEnd::listen()?;
    let handle = sandbox::serve(options)
        .await
        .map_err(|error| Failure::usage(tried, error.to_string(), ""))?;
    if let Some(path) = &args.clouds_yaml {
        handle.write_clouds_yaml(path).map_err(|error| {
            let message = format!("{}: {error}", path.display());
            Failure::usage(tried, message, "Choose another file for --clouds-yaml.")
        })?;
    }
    let ready = handle.ready_line(args.clouds_yaml.as_deref());
    let mut out = Tolerant(io::stdout());
    writeln!(out, "{ready}")?;
    out.flush()?;
    told.recv().await;
    Ok(Exit::Done)
}
