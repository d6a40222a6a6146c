//! `gone sandbox`: serves the practice cloud alone, for any client.

use std::io::{self, Write as _};
use std::net::SocketAddr;
use std::path::PathBuf;

use clap::builder::{PossibleValuesParser, TypedValueParser as _};
use clap::{ArgAction, Args};

use super::{LocalVerb, Process, ToldToEnd, embedded, log_to_stderr, runtime};
use crate::frontends::cli::output::Tolerant;
use crate::frontends::cli::{Exit, Failure};
use crate::sandbox::{self, WorldOptions};

const TRIED: &str = "serve the practice cloud";

/// Serve the practice cloud, and nothing else
#[derive(Clone, Debug, Args)]
#[command(after_long_help = "\
Prints one line of JSON when it is ready: its url, the clouds.yaml that it wrote, its regions.

Examples:
  gone sandbox --clouds-yaml clouds.yaml
  gone sandbox --listen 127.0.0.1:5000 --regions RegionOne,RegionTwo --member-reuse off")]
pub struct Sandbox {
    /// Where it listens; port 0 takes a free one
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:0")]
    pub listen: SocketAddr,
    /// Names of its regions [default: the scenario's, or RegionOne]
    #[arg(long, value_name = "A,B", value_delimiter = ',')]
    pub regions: Vec<String>,
    /// A file with its resources and faults
    #[arg(long, value_name = "FILE")]
    pub scenario: Option<PathBuf>,
    /// Write a clouds.yaml for its clients here
    #[arg(long, value_name = "OUT")]
    pub clouds_yaml: Option<PathBuf>,
    /// Keep the ids that clients give
    #[arg(long)]
    pub keep_ids: bool,
    /// Whether its Glance revives the row of a deleted image member
    #[arg(long, value_name = "on|off", default_value = "on", action = ArgAction::Set, value_parser = PossibleValuesParser::new(["on", "off"]).map(|word| word == "on"))]
    pub member_reuse: bool,
}

impl LocalVerb for Sandbox {
    fn run(self, process: &Process<'_>) -> Result<Exit, Failure> {
        log_to_stderr(process.global, process.style, true)?;
        runtime()?.block_on(serve(self))
    }
}

/// Serves it until a signal ends it.
async fn serve(args: Sandbox) -> Result<Exit, Failure> {
    let scenario = args
        .scenario
        .as_ref()
        .map(|name| embedded::scenario(&name.to_string_lossy()));
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
    let mut told = ToldToEnd::listen()?;
    let handle = sandbox::serve(options)
        .await
        .map_err(|error| Failure::usage(TRIED, error.to_string(), ""))?;
    if let Some(path) = &args.clouds_yaml {
        handle.write_clouds_yaml(path).map_err(|error| {
            let message = format!("{}: {error}", path.display());
            Failure::usage(TRIED, message, "Choose another file for --clouds-yaml.")
        })?;
    }
    let ready = handle.ready_line(args.clouds_yaml.as_deref());
    let mut out = Tolerant(io::stdout());
    writeln!(out, "{ready}")?;
    out.flush()?;
    told.recv().await;
    Ok(Exit::Done)
}
