//! The words of the command line. Names here are fixed: scripts use them.

use crate::domain::ladder::Rung;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use clap::{
    Args, Command, CommandFactory as _, FromArgMatches as _, Parser, Subcommand, ValueEnum,
};

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
#[command(name = "gone", version, after_long_help = EXAMPLES, args_conflicts_with_subcommands = false)]
pub struct Cli {
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
    #[command(flatten)]
    pub global: Global,
    #[command(subcommand)]
    pub verb: Option<Verb>,
}

/// The command line. `-h` of a verb fits a small screen: its own options and two examples; `--help` has the rest.
pub fn command() -> Command {
    with_brief_help(Cli::command())
}

fn with_brief_help(command: Command) -> Command {
    let long = command.get_after_long_help().map(ToString::to_string);
    let examples = long.iter().flat_map(|text| text.lines());
    let examples: Vec<&str> = examples
        .filter(|line| line.starts_with("  gone "))
        .take(2)
        .collect();
    let command = match examples.is_empty() {
        true => command,
        false => {
            let examples = examples.join("\n");
            let more = "All options, also the global ones (--cloud, --region, -o): --help";
            command.after_help(format!("Examples:\n{examples}\n{more}"))
        }
    };
    command.mut_subcommands(with_brief_help)
}

impl Cli {
    /// The arguments of this process.
    ///
    /// # Errors
    /// They are wrong, or ask for help; the error says so.
    pub fn of_process() -> Result<Self, clap::Error> {
        let matches = command().try_get_matches()?;
        Self::from_arg_matches(&matches).map_err(|error| error.format(&mut command()))
    }
}

#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Global options")]
pub struct Global {
    /// Settings file [default: $XDG_CONFIG_HOME/gone/config.toml]
    #[arg(long, global = true, hide_short_help = true, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// The ledger's file [default: $XDG_STATE_HOME/gone/ledger.db]
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
    /// How results are written; dot and mermaid draw a plan
    #[arg(
        short,
        long,
        global = true,
        hide_short_help = true,
        value_enum,
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
    /// The console over a line of some 9,600 bit/s: only ASCII, and little is written for a key
    #[arg(long, global = true, hide_short_help = true)]
    pub low_bandwidth: bool,
    /// The console by lines, for screen readers; also where TERM is dumb
    #[arg(long, global = true, hide_short_help = true)]
    pub plain: bool,
    /// How logs are written [default: text on a terminal, else json]
    #[arg(
        long,
        global = true,
        hide_short_help = true,
        value_enum,
        value_name = "FORMAT"
    )]
    pub log_format: Option<LogFormatArg>,
    /// Tell more in the logs; twice for still more
    #[arg(short, long, global = true, hide_short_help = true, action = clap::ArgAction::Count)]
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
    #[command(after_long_help = PLAN_EXAMPLES)]
    Plan(PlanArgs),
    /// Delete resources, and keep at it until they are gone
    #[command(after_long_help = DELETE_EXAMPLES)]
    Delete(DeleteArgs),
    /// List deletions, what needs a person, sites, or the resources of a kind
    #[command(after_long_help = LIST_EXAMPLES)]
    List(ListArgs),
    /// Show one deletion: its counts, its blocked steps and its last events
    #[command(after_long_help = SHOW_EXAMPLES)]
    Show(IdArg),
    /// Show a deletion's steps as a tree, dependents below what waits for them
    #[command(after_long_help = TREE_EXAMPLES)]
    Tree(IdArg),
    /// Say why a resource does not go, or what would block its deletion
    #[command(after_long_help = EXPLAIN_EXAMPLES)]
    Explain(ExplainArgs),
    /// Show events as they happen, of all deletions or of one until it ends
    #[command(after_long_help = WATCH_EXAMPLES)]
    Watch(WatchArgs),
    /// Retry stuck and blocked steps
    #[command(after_long_help = RETRY_EXAMPLES)]
    Retry(RetryArgs),
    /// Accept or refuse the resources that appeared after a deletion's plan
    #[command(after_long_help = DRIFT_EXAMPLES)]
    Drift(DriftArgs),
    /// Show the purge ladder of a stuck deletion or step, or take a rung of it
    #[command(after_long_help = PURGE_EXAMPLES)]
    Purge(PurgeArgs),
    /// Release the tombstone of a resource that still exists, or a dead deployment
    #[command(after_long_help = RELEASE_EXAMPLES)]
    Release(ReleaseArgs),
    /// Cancel deletions: send nothing more; what was sent runs to its end
    #[command(after_long_help = CANCEL_EXAMPLES)]
    Cancel(IdArgs),
    /// Pause a deletion or a site: send nothing more until it is resumed
    #[command(after_long_help = PAUSE_EXAMPLES)]
    Pause(PauseArgs),
    /// Resume a paused deletion or site
    #[command(after_long_help = RESUME_EXAMPLES)]
    Resume(PauseArgs),
    /// As `gone ledger prune`.
    #[command(skip)]
    Prune(PruneArgs),
}

/// Verbs that need no engine.
#[derive(Debug, Subcommand)]
pub enum LocalVerb {
    /// Check the kinds for deletions that could never end
    #[command(after_long_help = CHECK_EXAMPLES)]
    Check(CheckArgs),
    /// Check clouds, rights, ledger, socket and terminal, and say what to do
    #[command(after_long_help = DOCTOR_EXAMPLES)]
    Doctor,
    /// Check, copy or write out the ledger, also while an engine works on it
    #[command(after_long_help = LEDGER_EXAMPLES)]
    Ledger(LedgerArgs),
    /// Show, verify and export the audit: who did what, when and why
    #[command(after_long_help = AUDIT_EXAMPLES)]
    Audit(AuditArgs),
    /// Show a ledger as it was at any time
    #[command(after_long_help = REPLAY_EXAMPLES)]
    Replay(ReplayArgs),
    /// Test the notices about what needs a person
    #[command(after_long_help = NOTIFY_EXAMPLES)]
    Notify(NotifyArgs),
    /// Serve the practice cloud, and nothing else
    #[command(after_long_help = SANDBOX_EXAMPLES)]
    Sandbox(SandboxArgs),
    /// Write a shell's completion script
    #[command(after_long_help = COMPLETIONS_EXAMPLES)]
    Completions(CompletionsArgs),
    /// Write the manual's pages, as `man` reads them
    #[command(after_long_help = MAN_EXAMPLES)]
    Man(ManArgs),
}

const PLAN_EXAMPLES: &str = "\
In a TARGET, % escapes: %2F is a slash in a name.

Examples:
  gone plan network/web@prod/RegionOne --cascade
  gone plan network/web --cascade --region RegionOne --out plan.json
  gone plan network/web --cascade --check     exit 6 if something refuses
  gone plan network/web --cascade -o dot | dot -Tsvg > plan.svg";

const DELETE_EXAMPLES: &str = "\
In a TARGET, % escapes: %2F is a slash in a name.

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
The rungs, from the lowest on: retry, unpin (remove the edges that hold it), runbook (what to do
manually, for this one id), forget (abandon it: what still exists becomes an orphan).

Examples:
  gone purge 9f86d081                   what is offered, what each does, and why others are not
  gone purge 1742 --rung unpin --confirm 9f86d081
  gone purge 9f86d081 --rung forget --confirm 9f86d081 --reason 'ticket 4711'";

const RELEASE_EXAMPLES: &str = "\
A tombstone is released only if its resource is confirmed to exist and no deletion works on it.

`gone list deployments` shows the deployments that refer to resources here. After the release of one,
no deletion waits for its clearance any more, and what it still has may point at nothing. So its name
must be typed, unless --yes is given.

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
Reads the built-in kinds and those in $XDG_CONFIG_HOME/gone/kinds, and asks no cloud. Exits with 2 if
there is an error or a file cannot be read; notes alone exit with 0.

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

A replay shows only what left an event: a call in flight is shown as ready, and a step whose retry was
due as blocked until it was answered.

Examples:
  gone replay /backup/gone.db           from its end
  gone replay ledger.db --from 03:12    of its last day; or 2026-11-24T03:12:07Z, or -1h
  gone replay ledger.db --from -1h -o json    its deletions as they stood then";

const NOTIFY_EXAMPLES: &str = "\
The engine sends notices by webhook and mail, by [notify] of the settings, when something is stuck, was
refused while nobody waited, or when a site was paused.

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
    /// KIND/ID-or-NAME[@CLOUD[/REGION]], such as network/web@prod
    #[arg(required = true, value_name = "TARGET")]
    pub targets: Vec<String>,
    #[command(flatten)]
    pub options: PlanFlags,
    /// Write the plan to a file, for `delete --plan`
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
    /// After a failed step: continue (default) or stop
    ///
    /// `continue` goes on with the steps that do not depend on the failed one.
    #[arg(long, value_enum, value_name = "POLICY", hide_possible_values = true)]
    pub on_failure: Option<OnFailureArg>,
    /// On drift: ask (default), absorb or refuse
    ///
    /// Drift is a resource that appears after the plan: a person is asked, it is deleted too, or the deletion ends.
    #[arg(long, value_enum, value_name = "POLICY", hide_possible_values = true)]
    pub drift: Option<DriftArg>,
    /// Delete the floating IPs too
    ///
    /// Without this they stay, disassociated.
    #[arg(long)]
    pub release_floating_ips: bool,
    /// Also delete what other projects may use
    ///
    /// These are public and community images, and shared networks.
    #[arg(long)]
    pub include_public: bool,
    /// Delete the Keystone project too, at the end
    ///
    /// It goes once everything that belongs to it is gone in each region.
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
    /// KIND/ID-or-NAME[@CLOUD[/REGION]], such as network/web@prod
    #[arg(
        required_unless_present = "plan",
        conflicts_with = "plan",
        value_name = "TARGET"
    )]
    pub targets: Vec<String>,
    #[command(flatten)]
    pub options: PlanFlags,
    /// Delete exactly the plan in this file, or nothing
    #[arg(long, value_name = "FILE", conflicts_with_all = ["cascade", "on_failure", "drift", "release_floating_ips", "include_public", "with_project"])]
    pub plan: Option<PathBuf>,
    /// Do not ask
    #[arg(short, long)]
    pub yes: bool,
    /// Wait for the end, at most so long (30s, 5m, 2h)
    ///
    /// Waits until everything is gone or needs a person. While a cloud does not answer, the deletion is planned again.
    #[arg(long, value_name = "DURATION", num_args = 0..=1, require_equals = true, default_missing_value = "", value_parser = parse_wait)]
    pub wait: Option<Wait>,
    #[command(flatten)]
    pub why: Why,
}

#[derive(Clone, Debug, Args)]
pub struct Why {
    /// The reason, for the audit
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
    /// The list: deletions, stuck, causes, retrying, tombstones, orphans, sites, gates, deployments, or a kind
    #[arg(default_value = "deletions", value_name = "WHAT")]
    pub what: ListWhat,
    /// Only rows that have been in their state for longer [24h without a value]
    ///
    /// Applies to deletions, stuck, retrying and tombstones.
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

impl ListWhat {
    /// The words of `gone list`; every other word is a kind.
    const WORDS: [(&str, Self); 10] = [
        ("deletions", Self::Deletions),
        ("stuck", Self::Stuck),
        ("causes", Self::Causes),
        ("retrying", Self::Retrying),
        ("gc", Self::Retrying),
        ("tombstones", Self::Tombstones),
        ("orphans", Self::Orphans),
        ("sites", Self::Sites),
        ("gates", Self::Gates),
        ("deployments", Self::Deployments),
    ];
}

impl From<&str> for ListWhat {
    fn from(word: &str) -> Self {
        let known = Self::WORDS.into_iter().find(|(known, _)| *known == word);
        known.map_or_else(|| Self::Kind(word.to_owned()), |(_, what)| what)
    }
}

impl std::fmt::Display for ListWhat {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let known = Self::WORDS.into_iter().find(|(_, what)| what == self);
        match (self, &known) {
            (Self::Kind(kind), _) => f.write_str(kind),
            (_, Some((word, _))) => f.write_str(word),
            (_, None) => Err(std::fmt::Error),
        }
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
    /// All stuck and blocked steps that the options below match
    #[arg(long, conflicts_with = "ids")]
    pub all: bool,
    /// Only of this kind
    #[arg(long, requires = "all")]
    pub kind: Option<String>,
    /// Only at this site
    #[arg(long, requires = "all", value_name = "CLOUD/REGION")]
    pub site: Option<Site>,
    /// Only after this error type, such as NetworkInUse
    #[arg(long = "type", requires = "all")]
    pub error_type: Option<String>,
    /// Only after this HTTP status
    #[arg(long, requires = "all")]
    pub status: Option<u16>,
    /// Count what can be retried, and do nothing
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
    /// The deletion's short id, as a confirmation
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
    /// KIND/ID-or-NAME[@CLOUD[/REGION]], such as network/web@prod
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
    /// The time to begin with, such as 03:12 or -1h [default: its end]
    ///
    /// RFC 3339, `HH:MM[:SS]` of the ledger's last day, or a duration before its end.
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
    /// Send a test notice by each channel
    ///
    /// Exits with 2 if there is no channel, and with 5 if one cannot be reached.
    Test,
}

#[derive(Clone, Debug, Args)]
pub struct CheckArgs {
    #[command(subcommand)]
    pub work: CheckWork,
}

#[derive(Clone, Copy, Debug, Subcommand)]
pub enum CheckWork {
    /// Check all kinds: stuck cascades, cycles, references that cannot work
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
        /// LENGTH:HASH of an earlier `verify`: its rows must still be there
        #[arg(long, value_name = "LENGTH:HASH")]
        head: Option<String>,
    },
    /// Write every row as a line of JSON
    Export,
    /// Seal the rows as they are, after the key was lost or a break was explained
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
    /// Remove old events and ended deletions, as the engine does every hour
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
    /// Remove what is older than this [default: ledger.retention of the settings]
    ///
    /// Tombstones in their hold-down stay.
    #[arg(long, value_name = "DURATION", value_parser = duration::parse)]
    pub older_than: Option<Duration>,
}
