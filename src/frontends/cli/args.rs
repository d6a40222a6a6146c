//! The words of the command line. Names here are fixed: scripts use them.

use crate::domain::ladder::Rung;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::domain::duration;
use crate::domain::model::{DriftPolicy, OnFailure, PlanOptions, Site};
use crate::system::telemetry::LogFormat;

const EXAMPLES: &str = "\
Examples:
  gone --sandbox                        try it on a built-in practice cloud
  gone                                  the console, on the clouds of clouds.yaml
  gone plan network/web@prod --cascade  what would be deleted, in which order, and why
  gone list stuck                       what needs a person
  gone doctor                           what is missing on this machine

Exit codes: 0 done, 1 internal error, 2 usage or configuration, 3 authentication, 4 some stuck,
failed or purged, 5 unreachable, 6 refused, 7 the plan has drifted, 8 still running, 130 interrupted.";

/// Deletes cloud resources, and keeps at it until they are gone.
#[derive(Debug, Parser)]
#[command(name = "gone", version, after_help = EXAMPLES, args_conflicts_with_subcommands = false)]
pub struct Cli {
    #[command(flatten)]
    pub global: Global,
    /// Run the engine without a console
    #[arg(long)]
    pub engine: bool,
    /// Leave the session of the terminal that started it: a console hands over to such an engine
    #[arg(long, hide = true, requires = "engine")]
    pub new_session: bool,
    /// The OS_* variables come by standard input, as a JSON object: a console hands them over so
    #[arg(long, hide = true, requires = "new_session")]
    pub variables_by_stdin: bool,
    /// Show every setting with its default, as a settings file
    #[arg(long)]
    pub print_config: bool,
    #[command(subcommand)]
    pub verb: Option<Verb>,
}

#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Global options")]
pub struct Global {
    /// Settings file [default: $XDG_CONFIG_HOME/gone/config.toml]
    #[arg(long, global = true, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// The ledger's file [default: $XDG_STATE_HOME/gone/ledger.db]
    #[arg(long, global = true, value_name = "PATH")]
    pub ledger: Option<PathBuf>,
    /// The engine's socket
    #[arg(long, global = true, value_name = "PATH")]
    pub socket: Option<PathBuf>,
    /// Only this cloud of clouds.yaml
    #[arg(long, global = true, value_name = "NAME")]
    pub cloud: Option<String>,
    /// Only this region; may be given several times
    #[arg(long, global = true, value_name = "NAME")]
    pub region: Vec<String>,
    /// All regions of each cloud, not only the one that clouds.yaml names
    #[arg(long, global = true, conflicts_with = "region")]
    pub all_regions: bool,
    /// Send nothing that changes a cloud
    #[arg(long, global = true)]
    pub read_only: bool,
    /// Use the built-in practice cloud, with a ledger of its own
    #[arg(long, global = true, value_name = "SCENARIO", num_args = 0..=1, require_equals = true, default_missing_value = "")]
    pub sandbox: Option<String>,
    /// How results are written; dot and mermaid draw a plan
    #[arg(
        short,
        long,
        global = true,
        value_enum,
        value_name = "FORMAT",
        default_value = "table"
    )]
    pub output: Format,
    /// No colours, also on a terminal
    #[arg(long, global = true)]
    pub no_color: bool,
    /// Only ASCII characters
    #[arg(long, global = true)]
    pub ascii: bool,
    /// The console over a line of some 9,600 bit/s: only ASCII, and little is written for a key
    #[arg(long, global = true)]
    pub low_bandwidth: bool,
    /// The console by lines, for screen readers; also where TERM is dumb
    #[arg(long, global = true)]
    pub plain: bool,
    /// How logs are written [default: text on a terminal, else json]
    #[arg(long, global = true, value_enum, value_name = "FORMAT")]
    pub log_format: Option<LogFormatArg>,
    /// Tell more in the logs; twice for still more
    #[arg(short, long, global = true, action = clap::ArgAction::Count)]
    pub verbose: u8,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Format {
    #[default]
    Table,
    Json,
    Jsonl,
    Csv,
    Yaml,
    Dot,
    Mermaid,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LogFormatArg {
    Text,
    Json,
}

impl From<LogFormatArg> for LogFormat {
    fn from(format: LogFormatArg) -> Self {
        match format {
            LogFormatArg::Text => Self::Text,
            LogFormatArg::Json => Self::Json,
        }
    }
}

#[derive(Debug, Subcommand)]
pub enum Verb {
    #[command(flatten)]
    Engine(EngineVerb),
    #[command(flatten)]
    Local(LocalVerb),
}

/// Verbs that an engine carries out: the one that runs, or one of their own for as long as they take.
#[derive(Debug, Subcommand)]
pub enum EngineVerb {
    /// Show what a deletion would do, and send no write call
    #[command(after_help = PLAN_EXAMPLES)]
    Plan(PlanArgs),
    /// Delete resources, and keep at it until they are gone
    #[command(after_help = DELETE_EXAMPLES)]
    Delete(DeleteArgs),
    /// List deletions, what is stuck or waits and why, tombstones, orphans, sites, gates, deployments, or the resources of a kind
    #[command(after_help = LIST_EXAMPLES)]
    List(ListArgs),
    /// Show one deletion: counts, what does not move and why, what happened last
    #[command(after_help = SHOW_EXAMPLES)]
    Show(IdArg),
    /// Show a deletion's steps, what must go first below what waits for it
    #[command(after_help = TREE_EXAMPLES)]
    Tree(IdArg),
    /// Say why a resource does not go, or what would hold it
    #[command(after_help = EXPLAIN_EXAMPLES)]
    Explain(ExplainArgs),
    /// Tell what happens, as it happens; of one deletion until it is settled
    #[command(after_help = WATCH_EXAMPLES)]
    Watch(WatchArgs),
    /// Put what is stuck or blocked back to work
    #[command(after_help = RETRY_EXAMPLES)]
    Retry(RetryArgs),
    /// Accept or refuse the resources that appeared after a deletion's plan
    #[command(after_help = DRIFT_EXAMPLES)]
    Drift(DriftArgs),
    /// Show what can be done about what is stuck, or with --rung do it
    #[command(after_help = PURGE_EXAMPLES)]
    Purge(PurgeArgs),
    /// Let the tombstone of a resource go that is there after its end, or a deployment that is gone for good
    #[command(after_help = RELEASE_EXAMPLES)]
    Release(ReleaseArgs),
    /// Send no further delete; what was sent runs to its end
    #[command(after_help = CANCEL_EXAMPLES)]
    Cancel(IdArgs),
    /// Send nothing more, of a deletion or to a site, until resumed
    #[command(after_help = PAUSE_EXAMPLES)]
    Pause(PauseArgs),
    /// Go on after a pause
    #[command(after_help = RESUME_EXAMPLES)]
    Resume(PauseArgs),
    /// As `gone ledger prune`.
    #[command(skip)]
    Prune(PruneArgs),
}

/// Verbs that need no engine.
#[derive(Debug, Subcommand)]
pub enum LocalVerb {
    /// Check what the kinds let happen: deletions that could never end, and how to mend that
    #[command(after_help = CHECK_EXAMPLES)]
    Check(CheckArgs),
    /// Check clouds, rights, ledger, socket and terminal, and say what to do
    #[command(after_help = DOCTOR_EXAMPLES)]
    Doctor,
    /// Check, copy or write out the ledger, also while an engine works on it
    #[command(after_help = LEDGER_EXAMPLES)]
    Ledger(LedgerArgs),
    /// List who did what, when and why; verify that no row is missing; write all rows out
    #[command(after_help = AUDIT_EXAMPLES)]
    Audit(AuditArgs),
    /// Show how a ledger stood at any time: what was known when
    #[command(after_help = REPLAY_EXAMPLES)]
    Replay(ReplayArgs),
    /// Try how people are told of what needs them
    #[command(after_help = NOTIFY_EXAMPLES)]
    Notify(NotifyArgs),
    /// Serve the practice cloud, and nothing else
    #[command(after_help = SANDBOX_EXAMPLES)]
    Sandbox(SandboxArgs),
    /// Write what a shell needs to complete verbs and options
    #[command(after_help = COMPLETIONS_EXAMPLES)]
    Completions(CompletionsArgs),
    /// Write the manual's pages, as `man` reads them
    #[command(after_help = MAN_EXAMPLES)]
    Man(ManArgs),
}

const PLAN_EXAMPLES: &str = "\
TARGET is KIND/ID-or-NAME[@CLOUD[/REGION]]. % escapes, so %2F is a slash in a name.

Examples:
  gone plan network/web@prod/RegionOne --cascade
  gone plan network/web --cascade --region RegionOne --out plan.json
  gone plan network/web --cascade --check     exit 6 if something refuses
  gone plan network/web --cascade -o dot | dot -Tsvg > plan.svg";

const DELETE_EXAMPLES: &str = "\
TARGET is KIND/ID-or-NAME[@CLOUD[/REGION]]. % escapes, so %2F is a slash in a name.

Examples:
  gone delete network/web@prod/RegionOne --cascade
  gone delete --plan plan.json --yes --wait=30m -o json
  gone delete router_interface/ROUTER,SUBNET --yes
  gone delete port/4fdb... --yes --reason 'ticket 4711'";

const LIST_EXAMPLES: &str = "\
Examples:
  gone list                             deletions
  gone list stuck --older-than 24h      what needs a person, since a day
  gone list causes                      why, the most frequent first: gone retry --all --type ...
  gone list retrying                    blocked steps, and when each is attempted next
  gone list network --cloud prod        the networks of a cloud, listed now
  gone list orphans                     what was abandoned, and whether it still exists
  gone list deployments                 other deployments, and what waits for their clearance
  gone list tombstones -o jsonl";

const DRIFT_EXAMPLES: &str = "\
A deletion with --drift ask is stuck when resources appear after its plan: `gone show ID` names them.
To accept deletes them too, under the guards of every deletion. To refuse leaves them, ends the
deletion, and says what stays because of them.

Examples:
  gone drift 9f86d081 --accept --reason 'ticket 4711'
  gone drift 9f86d081 --refuse";

const SHOW_EXAMPLES: &str = "\
Examples:
  gone show 9f86d081                    by its short id
  gone show 9f86d081 -o json";

const TREE_EXAMPLES: &str = "\
Examples:
  gone tree 9f86d081
  gone tree 9f86d081 -o json            nested, each with its children";

const EXPLAIN_EXAMPLES: &str = "\
Examples:
  gone explain network/web@prod
  gone explain loadbalancer/api -o json";

const WATCH_EXAMPLES: &str = "\
Examples:
  gone watch                            all that happens, until ctrl-c
  gone watch 9f86d081                   one deletion, with its exit code
  gone watch -o jsonl | jq .message";

const RETRY_EXAMPLES: &str = "\
Examples:
  gone retry 9f86d081
  gone retry 1742                       one step, by its number
  gone retry --all --type PolicyNotAuthorized --dry-run
  gone retry --all --kind port --site prod/RegionOne";

const PURGE_EXAMPLES: &str = "\
The rungs, from the lowest on: retry, unpin (remove the edges that hold it), runbook (what to do by
hand, for this one id), forget (give it up: what is there becomes an orphan).

Examples:
  gone purge 9f86d081                   what is offered, what each does, and why others are not
  gone purge 1742 --rung unpin --confirm 9f86d081
  gone purge 9f86d081 --rung forget --confirm 9f86d081 --reason 'ticket 4711'";

const RELEASE_EXAMPLES: &str = "\
A tombstone is let go only of what is seen to be there, and on which no deletion works.

A deployment is one that refers to what is here: gone list deployments shows them. Once it is
released, its word is waited for no more: what it still has may point at nothing. So the name is
asked for, but with --yes.

Examples:
  gone release port/4fdb...@prod/RegionOne
  gone release load_balancer/0c1a... --reason 'restored by its owner'
  gone release billing-1 --reason 'switched off for good, ticket 4711'";

const CANCEL_EXAMPLES: &str = "\
Examples:
  gone cancel 9f86d081";

const PAUSE_EXAMPLES: &str = "\
Examples:
  gone pause 9f86d081
  gone pause prod/RegionOne --reason 'controllers are upgraded'";

const RESUME_EXAMPLES: &str = "\
Examples:
  gone resume 9f86d081
  gone resume prod/RegionOne";

const CHECK_EXAMPLES: &str = "\
Looks at the kinds alone, those that it brings and those of $XDG_CONFIG_HOME/gone/kinds: no cloud is
asked. Exit 2 if there is an error, or a file that cannot be read; notes are 0.

Examples:
  gone check kinds                      each finding with its smallest example, and the fix
  gone check kinds -o json | jq '.[] | select(.severity == \"error\").fix'";

const DOCTOR_EXAMPLES: &str = "\
Examples:
  gone doctor
  gone doctor --cloud prod -o json";

const SANDBOX_EXAMPLES: &str = "\
Prints one line of JSON when it is ready: its url, the clouds.yaml that it wrote, its regions.

Examples:
  gone sandbox --clouds-yaml clouds.yaml
  gone sandbox --listen 127.0.0.1:5000 --regions RegionOne,RegionTwo --member-reuse off";

const LEDGER_EXAMPLES: &str = "\
Examples:
  gone ledger check                     every rule that must hold; exit 1 if one does not
  gone ledger prune --older-than 30d    by the engine that has it, or by one of its own
  gone ledger backup /backup/gone.db    whole and consistent; give it back with --ledger. Keep the
                                        ledger's key (ledger.db.key) too, but not beside the copy
  gone ledger export > ledger.jsonl     each row of each table as a line of JSON";

const AUDIT_EXAMPLES: &str = "\
Each row's hash covers the row before it, and a seal covers the last one, under a key that is not in
the ledger (FILE.key beside it). So `verify` finds rows that were changed, removed or added by hand,
also at the end. It does not find that the whole ledger is an older copy, or was sealed by somebody
who can read the key: against these, keep the last row's LENGTH:HASH elsewhere and compare. The engine
logs it with each row, and `verify` prints it.

Examples:
  gone audit list --last 20
  gone audit verify                     exit 1 if a row is missing or was changed
  gone audit verify --head 117:0b6e…    and the first 117 rows are those of that time
  gone audit export > audit.jsonl       each row as a line of JSON, with its hash
  gone audit seal --reason \"moved to another machine, the key was lost\"";

const REPLAY_EXAMPLES: &str = "\
Opens the console on a copy: the ledger is only read, also while an engine has it. There , and .
go an event back and on, < and > a twentieth of the whole, { and } to its ends, and :at to a time.

What has no event is not told apart: a call in flight shows as ready, what was due again as
blocked until it is answered; many steps that were tried again at once show so if they were sent
again later.

Examples:
  gone replay /backup/gone.db           from its end
  gone replay ledger.db --from 03:12    of its last day; or 2026-11-24T03:12:07Z, or -1h
  gone replay ledger.db --from -1h -o json    its deletions as they stood then";

const NOTIFY_EXAMPLES: &str = "\
The engine tells people by webhook and mail, as [notify] in the settings says, when something is stuck,
refused while nobody waits, or a site was paused.

Examples:
  gone notify test                      send a test by each, and say what was answered
  gone notify test --config try.toml -o json";

const COMPLETIONS_EXAMPLES: &str = "\
Examples:
  gone completions bash > ~/.local/share/bash-completion/completions/gone
  gone completions zsh > \"${fpath[1]}/_gone\"
  gone completions fish > ~/.config/fish/completions/gone.fish";

const MAN_EXAMPLES: &str = "\
Examples:
  gone man | man -l -
  gone man delete | man -l -
  gone man --out /usr/local/share/man/man1";

impl EngineVerb {
    /// Its targets, as typed.
    pub fn targets(&self) -> &[String] {
        match self {
            Self::Plan(plan) => &plan.targets,
            Self::Delete(delete) => &delete.targets,
            Self::Explain(explain) => std::slice::from_ref(&explain.target),
            Self::Release(release) => &release.words,
            _ => &[],
        }
    }
}

#[derive(Clone, Debug, Args)]
pub struct PlanArgs {
    #[arg(required = true, value_name = "TARGET")]
    pub targets: Vec<String>,
    #[command(flatten)]
    pub options: PlanFlags,
    /// Keep the plan in a file, with its hash, for `delete --plan`
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// Exit with 6 if something refuses
    #[arg(long)]
    pub check: bool,
}

/// The choices that a plan freezes.
#[derive(Clone, Copy, Debug, Args)]
pub struct PlanFlags {
    /// Also delete what depends on the targets
    #[arg(long)]
    pub cascade: bool,
    /// When a step fails: go on with what is independent, or stop [default: continue]
    #[arg(long, value_enum, value_name = "POLICY")]
    pub on_failure: Option<OnFailureArg>,
    /// When the cloud changes on the way: ask a person, absorb it, or refuse [default: ask]
    #[arg(long, value_enum, value_name = "POLICY")]
    pub drift: Option<DriftArg>,
    /// Delete the floating IPs too, which would stay, disassociated
    #[arg(long)]
    pub release_floating_ips: bool,
    /// Also delete what other projects may use: public and community images, shared networks
    #[arg(long)]
    pub include_public: bool,
    /// Delete the Keystone project too, once all that belongs to it is gone in each region
    #[arg(long)]
    pub with_project: bool,
}

impl From<PlanFlags> for PlanOptions {
    fn from(flags: PlanFlags) -> Self {
        Self {
            cascade: flags.cascade,
            on_failure: flags.on_failure.map(OnFailure::from).unwrap_or_default(),
            drift: flags.drift.map(DriftPolicy::from).unwrap_or_default(),
            release_floating_ips: flags.release_floating_ips,
            include_public: flags.include_public,
            with_project: flags.with_project,
            ..Self::default()
        }
    }
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum OnFailureArg {
    Continue,
    Stop,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum DriftArg {
    Ask,
    Absorb,
    Refuse,
}

impl From<OnFailureArg> for OnFailure {
    fn from(given: OnFailureArg) -> Self {
        match given {
            OnFailureArg::Continue => Self::Continue,
            OnFailureArg::Stop => Self::Stop,
        }
    }
}

impl From<DriftArg> for DriftPolicy {
    fn from(given: DriftArg) -> Self {
        match given {
            DriftArg::Ask => Self::Ask,
            DriftArg::Absorb => Self::Absorb,
            DriftArg::Refuse => Self::Refuse,
        }
    }
}

#[derive(Clone, Debug, Args)]
pub struct DeleteArgs {
    #[arg(
        required_unless_present = "plan",
        conflicts_with = "plan",
        value_name = "TARGET"
    )]
    pub targets: Vec<String>,
    #[command(flatten)]
    pub options: PlanFlags,
    /// Exactly the plan in this file, or nothing
    #[arg(long, value_name = "FILE", conflicts_with_all = ["cascade", "on_failure", "drift", "release_floating_ips", "include_public", "with_project"])]
    pub plan: Option<PathBuf>,
    /// Do not ask
    #[arg(short, long)]
    pub yes: bool,
    /// Wait until all is gone or needs a person, at most so long (30s, 5m, 2h); until then it is also
    /// planned again while a cloud does not answer
    #[arg(long, value_name = "DURATION", num_args = 0..=1, require_equals = true, default_missing_value = "", value_parser = parse_wait)]
    pub wait: Option<Wait>,
    #[command(flatten)]
    pub why: Why,
}

#[derive(Clone, Debug, Args)]
pub struct Why {
    /// Why, for the audit and for whoever looks later
    #[arg(
        long,
        value_name = "TEXT",
        default_value = "",
        hide_default_value = true
    )]
    pub reason: String,
}

/// How long to wait: none as long as something can happen within the hour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wait(pub Option<Duration>);

impl Wait {
    /// Until when, if it began now.
    pub(super) fn deadline(self, now: DateTime<Utc>) -> Option<DateTime<Utc>> {
        now.checked_add_signed(TimeDelta::from_std(self.0?).ok()?)
    }
}

fn parse_wait(text: &str) -> Result<Wait, String> {
    match text {
        "" => Ok(Wait(None)),
        text => duration::parse(text).map(|duration| Wait(Some(duration))),
    }
}

#[derive(Clone, Debug, Args)]
pub struct ListArgs {
    /// deletions, stuck, causes, retrying, tombstones, orphans, sites, gates, deployments, or a kind such as network
    #[arg(default_value = "deletions", value_name = "WHAT")]
    pub what: ListWhat,
    /// Only deletions, steps and tombstones that are in their state for longer than this (24h without a value)
    #[arg(long, value_name = "DURATION", num_args = 0..=1, default_missing_value = "24h", value_parser = duration::parse)]
    pub older_than: Option<Duration>,
}

/// The lists of `gone list`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListWhat {
    Deletions,
    Stuck,
    Causes,
    /// Blocked steps, also called `gc`.
    Retrying,
    Tombstones,
    Orphans,
    Sites,
    Gates,
    Deployments,
    /// The resources of a kind, by its name or an alias.
    Kind(String),
}

impl From<&str> for ListWhat {
    fn from(word: &str) -> Self {
        match word {
            "deletions" => Self::Deletions,
            "stuck" => Self::Stuck,
            "causes" => Self::Causes,
            "retrying" | "gc" => Self::Retrying,
            "tombstones" => Self::Tombstones,
            "orphans" => Self::Orphans,
            "sites" => Self::Sites,
            "gates" => Self::Gates,
            "deployments" => Self::Deployments,
            kind => Self::Kind(kind.to_owned()),
        }
    }
}

impl std::str::FromStr for ListWhat {
    type Err = std::convert::Infallible;

    fn from_str(word: &str) -> Result<Self, Self::Err> {
        Ok(Self::from(word))
    }
}

impl std::fmt::Display for ListWhat {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Deletions => "deletions",
            Self::Stuck => "stuck",
            Self::Causes => "causes",
            Self::Retrying => "retrying",
            Self::Tombstones => "tombstones",
            Self::Orphans => "orphans",
            Self::Sites => "sites",
            Self::Gates => "gates",
            Self::Deployments => "deployments",
            Self::Kind(kind) => kind,
        })
    }
}

#[derive(Clone, Debug, Args)]
pub struct IdArg {
    /// A deletion's id, or its last 8 characters
    pub id: String,
}

#[derive(Clone, Debug, Args)]
pub struct WatchArgs {
    /// A deletion's id, or its last 8 characters; without one, all
    pub id: Option<String>,
}

#[derive(Clone, Debug, Args)]
pub struct IdArgs {
    /// Ids of deletions, or their last 8 characters
    #[arg(required = true, value_name = "ID")]
    pub ids: Vec<String>,
}

#[derive(Clone, Debug, Args)]
pub struct DriftArgs {
    /// A deletion's id, or its last 8 characters
    pub id: String,
    #[command(flatten)]
    pub answer: DriftAnswerArgs,
    #[command(flatten)]
    pub why: Why,
}

#[derive(Clone, Copy, Debug, Args)]
#[group(required = true, multiple = false)]
pub struct DriftAnswerArgs {
    /// Delete the newcomers too
    #[arg(long)]
    pub accept: bool,
    /// Leave the newcomers, and end the deletion
    #[arg(long)]
    pub refuse: bool,
}

#[derive(Clone, Debug, Args)]
pub struct RetryArgs {
    /// Ids of deletions, or their last 8 characters; numbers of steps
    #[arg(required_unless_present = "all", value_name = "ID")]
    pub ids: Vec<String>,
    /// All that is stuck or blocked, as far as the options below fit
    #[arg(long, conflicts_with = "ids")]
    pub all: bool,
    /// Only of this kind
    #[arg(long, requires = "all")]
    pub kind: Option<String>,
    /// Only at this site
    #[arg(long, requires = "all", value_name = "CLOUD/REGION")]
    pub site: Option<Site>,
    /// Only what was last answered with this type, such as NetworkInUse
    #[arg(long = "type", requires = "all")]
    pub error_type: Option<String>,
    /// Only what was last answered with this HTTP status
    #[arg(long, requires = "all")]
    pub status: Option<u16>,
    /// Say how many may be tried and how many not, and do nothing
    #[arg(long, requires = "all")]
    pub dry_run: bool,
}

#[derive(Clone, Debug, Args)]
pub struct PauseArgs {
    /// Ids of deletions, or their last 8 characters; or sites, CLOUD/REGION
    #[arg(required = true, value_name = "ID|SITE")]
    pub ids: Vec<String>,
    #[command(flatten)]
    pub why: Why,
}

#[derive(Clone, Debug, Args)]
pub struct PurgeArgs {
    /// Ids of deletions, or their last 8 characters; or numbers of steps
    #[arg(required = true, value_name = "ID")]
    pub ids: Vec<String>,
    /// Take this rung: retry, unpin, runbook or forget
    #[arg(long, value_name = "NAME", requires = "confirm", value_parser = Rung::parse)]
    pub rung: Option<Rung>,
    /// The short id of the deletion, so that it is the one that is meant
    #[arg(long, value_name = "SHORT-ID", requires = "rung")]
    pub confirm: Option<String>,
    #[command(flatten)]
    pub why: Why,
}

#[derive(Clone, Debug, Args)]
pub struct ReleaseArgs {
    /// Tombstones: KIND/ID[@CLOUD[/REGION]]; or names of deployments
    #[arg(required = true, value_name = "TOMBSTONE|PEER")]
    pub words: Vec<String>,
    /// Do not ask before a deployment is released
    #[arg(short, long)]
    pub yes: bool,
    #[command(flatten)]
    pub why: Why,
}

#[derive(Clone, Debug, Args)]
pub struct ExplainArgs {
    #[arg(value_name = "TARGET")]
    pub target: String,
}

#[derive(Clone, Debug, Args)]
pub struct SandboxArgs {
    /// Where it listens; port 0 takes a free one
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:0")]
    pub listen: SocketAddr,
    /// Names of its regions [default: the scenario's, or RegionOne]
    #[arg(long, value_name = "A,B", value_delimiter = ',')]
    pub regions: Vec<String>,
    /// A file that says what there is and what goes wrong
    #[arg(long, value_name = "FILE")]
    pub scenario: Option<PathBuf>,
    /// Write a clouds.yaml for its clients here
    #[arg(long, value_name = "OUT")]
    pub clouds_yaml: Option<PathBuf>,
    /// Keep the ids that clients give
    #[arg(long)]
    pub keep_ids: bool,
    /// Whether its Glance revives the row of a deleted image member
    #[arg(long, value_enum, value_name = "on|off", default_value = "on")]
    pub member_reuse: OnOff,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum OnOff {
    On,
    Off,
}

#[derive(Clone, Debug, Args)]
pub struct CompletionsArgs {
    #[arg(value_enum, value_name = "SHELL")]
    pub shell: clap_complete::Shell,
}

#[derive(Clone, Debug, Args)]
pub struct ManArgs {
    /// The page of this verb; without one that of the program
    #[arg(value_name = "VERB")]
    pub verb: Option<String>,
    /// Write all pages into this folder
    #[arg(long, value_name = "FOLDER", conflicts_with = "verb")]
    pub out: Option<PathBuf>,
}

#[derive(Clone, Debug, Args)]
pub struct ReplayArgs {
    /// A ledger, a backup of one, or a colleague's
    pub ledger: PathBuf,
    /// The time to begin with: RFC 3339, HH:MM[:SS] of its last day, or -1h before its end [default: its end]
    #[arg(long, value_name = "T", allow_hyphen_values = true)]
    pub from: Option<String>,
}

#[derive(Clone, Debug, Args)]
pub struct NotifyArgs {
    #[command(subcommand)]
    pub work: NotifyWork,
}

#[derive(Clone, Copy, Debug, Subcommand)]
pub enum NotifyWork {
    /// Send a test message by each channel; exit 2 if there is none, 5 if one cannot be reached
    Test,
}

#[derive(Clone, Debug, Args)]
pub struct CheckArgs {
    #[command(subcommand)]
    pub work: CheckWork,
}

#[derive(Clone, Copy, Debug, Subcommand)]
pub enum CheckWork {
    /// All kinds: cascades that get stuck, cycles, and references that cannot do what they say
    Kinds,
}

#[derive(Clone, Debug, Args)]
pub struct AuditArgs {
    #[command(subcommand)]
    pub work: AuditWork,
}

#[derive(Clone, Debug, Subcommand)]
pub enum AuditWork {
    /// Show the latest rows, oldest first
    List {
        /// How many rows
        #[arg(long, value_name = "N", default_value_t = 100)]
        last: usize,
    },
    /// Check that each row is what was written, and that none is missing
    Verify {
        /// What an earlier `verify`, or the engine's log, said: its rows must still be there
        #[arg(long, value_name = "LENGTH:HASH")]
        head: Option<String>,
    },
    /// Write every row as a line of JSON
    Export,
    /// Seal the rows as they stand, with a row that says so: when the key is lost, or the break was explained
    Seal(Why),
}

#[derive(Clone, Debug, Args)]
pub struct LedgerArgs {
    #[command(subcommand)]
    pub work: LedgerWork,
}

#[derive(Clone, Debug, Subcommand)]
pub enum LedgerWork {
    #[command(flatten)]
    File(LedgerFileWork),
    /// Let go of old events, and of deletions that ended long ago; the engine does it every hour
    Prune(PruneArgs),
}

/// Work on the ledger's file, which may be open in an engine meanwhile.
#[derive(Clone, Debug, Subcommand)]
pub enum LedgerFileWork {
    /// Check the file, every rule that must hold in it, and the audit's chain
    Check,
    /// Copy it, as it is at one moment, into a new file
    Backup {
        #[arg(value_name = "FILE")]
        to: PathBuf,
    },
    /// Write every row of every table as a line of JSON
    Export,
}

#[derive(Clone, Debug, Args)]
pub struct PruneArgs {
    /// What is older than this goes, but for what is held down (ledger.retention without it)
    #[arg(long, value_name = "DURATION", value_parser = duration::parse)]
    pub older_than: Option<Duration>,
}
