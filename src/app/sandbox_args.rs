//! The arguments of `gone sandbox`, in every build.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::builder::{PossibleValuesParser, TypedValueParser as _};
use clap::{ArgAction, Args};

/// Serve the practice cloud, and nothing else
#[derive(Clone, Debug, Args)]
#[command(after_long_help = "\
Prints one line of JSON when it is ready: its url, the clouds.yaml that it wrote, its regions.

Examples:
  gone sandbox --clouds-yaml clouds.yaml
  gone sandbox --listen 127.0.0.1:5000 --regions RegionOne,RegionTwo --member-reuse off")]
pub struct Sandbox {
    /// Listen on this address; port 0 takes a free port
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:0")]
    pub listen: SocketAddr,
    /// Names of the regions [default: the scenario's, or RegionOne]
    #[arg(long, value_name = "A,B", value_delimiter = ',')]
    pub regions: Vec<String>,
    /// A file of resources and faults, or the name of a built-in scenario
    #[arg(long, value_name = "FILE")]
    pub scenario: Option<PathBuf>,
    /// Write a clouds.yaml for clients into this file
    #[arg(long, value_name = "OUT")]
    pub clouds_yaml: Option<PathBuf>,
    /// Let clients choose the ids of new resources
    #[arg(long)]
    pub keep_ids: bool,
    /// Whether Glance revives the row of a deleted image member
    #[arg(long, value_name = "on|off", default_value = "on", action = ArgAction::Set, value_parser = PossibleValuesParser::new(["on", "off"]).map(|word| word == "on"))]
    pub member_reuse: bool,
}
