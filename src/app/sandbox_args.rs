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
    /// Address on which the practice cloud listens; port 0 takes a free port
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:0")]
    pub listen: SocketAddr,
    /// Names of its regions [default: the scenario's, or RegionOne]
    #[arg(long, value_name = "A,B", value_delimiter = ',')]
    pub regions: Vec<String>,
    /// A file with the practice cloud's resources and faults, or the name of a built-in scenario
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
