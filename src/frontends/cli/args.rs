//! The options that every verb has. Names here are fixed: scripts use them.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use crate::system::telemetry::LogFormat;

#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Global options")]
pub struct Global {
    /// Settings file [default: $XDG_CONFIG_HOME/gone/config.toml]
    #[arg(long, global = true, hide_short_help = true, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// The ledger's file, or postgres://USER@HOST/DATABASE [default: $XDG_STATE_HOME/gone/ledger.db]
    #[arg(long, global = true, hide_short_help = true, value_name = "PATH")]
    pub ledger: Option<PathBuf>,
    /// The engine's socket
    #[arg(long, global = true, hide_short_help = true, value_name = "PATH")]
    pub socket: Option<PathBuf>,
    /// Only this cloud of clouds.yaml
    #[arg(long, global = true, hide_short_help = true, value_name = "NAME")]
    pub cloud: Option<String>,
    /// Only this region; may be given several times
    #[arg(long, global = true, hide_short_help = true, value_name = "NAME")]
    pub region: Vec<String>,
    /// All regions of each cloud, not only the one that clouds.yaml names
    #[arg(long, global = true, hide_short_help = true, conflicts_with = "region")]
    pub all_regions: bool,
    /// Send nothing that changes a cloud
    #[arg(long, global = true, hide_short_help = true)]
    pub read_only: bool,
    /// Use the built-in practice cloud, with a ledger of its own
    #[arg(long, global = true, hide_short_help = true, value_name = "SCENARIO", num_args = 0..=1, require_equals = true, default_missing_value = "")]
    pub sandbox: Option<String>,
    /// How results are written; dot, mermaid and svg draw, wide cuts nothing
    #[arg(
        short,
        long,
        global = true,
        hide_short_help = true,
        value_name = "FORMAT",
        default_value = "table"
    )]
    pub output: Format,
    /// No colours, also on a terminal
    #[arg(long, global = true, hide_short_help = true)]
    pub no_color: bool,
    /// Only ASCII characters
    #[arg(long, global = true, hide_short_help = true)]
    pub ascii: bool,
    /// Console for a line of about 9,600 bit/s: only ASCII, and few bytes for each key
    #[arg(long, global = true, hide_short_help = true)]
    pub low_bandwidth: bool,
    /// Console line by line, for screen readers; the default where TERM is dumb
    #[arg(long, global = true, hide_short_help = true)]
    pub plain: bool,
    /// How logs are written [default: text on a terminal, else json]
    #[arg(long, global = true, hide_short_help = true, value_name = "FORMAT")]
    pub log_format: Option<LogFormat>,
    /// Write more to the logs; give it twice for even more
    #[arg(short, long, global = true, hide_short_help = true, action = clap::ArgAction::Count)]
    pub verbose: u8,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Format {
    #[default]
    Table,
    // A table with all its columns, however narrow the terminal is. A doc comment would lengthen `--help`.
    Wide,
    Json,
    Jsonl,
    Csv,
    Yaml,
    Dot,
    Mermaid,
    Svg,
}

impl Format {
    pub fn is_table(self) -> bool {
        matches!(self, Self::Table | Self::Wide)
    }
}

/// The option of the verbs whose command is recorded with a reason.
#[derive(Clone, Debug, Args)]
pub struct Why {
    /// The reason, for the audit
    #[arg(long, value_name = "TEXT", default_value_t, hide_default_value = true)]
    pub reason: String,
}
