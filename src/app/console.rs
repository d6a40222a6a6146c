//! The console: attached to the engine that owns the ledger, or with an engine of its own.

use std::io::{self, IsTerminal as _, Write as _};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use chrono::{DateTime, Utc};
use rustix::process::Pid;

use super::{Paths, Process, clouds, engine, practice, runtime};
use crate::control::Control;
use crate::domain::model::Origin;
use crate::frontends::cli::args::Global;
use crate::frontends::cli::{Exit, Failure};
use crate::frontends::console::{self, ConsoleOptions, EngineMode, Keymap, Practice, Replayed};
use crate::system::config::{OnHangup, Settings, Surroundings};

/// How long a console whose terminal hung up waits until the engine that it started has a session of its own:
/// half of the two seconds within which the console must end.
const AWAY_MAX: Duration = Duration::from_secs(1);
const AWAY_AGAIN: Duration = Duration::from_millis(5);
/// The console's log, in the state folder, because the console uses the screen.
const LOG: &str = "gone.log";

/// Whether a replay opens the console: there is a terminal, and no other output was requested.
pub(super) fn fits(global: &Global) -> bool {
    global.output.is_table() && is_terminal()
}

fn is_terminal() -> bool {
    std::io::stdout().is_terminal() && std::io::stdin().is_terminal()
}

pub(super) fn open(process: &Process<'_>) -> Result<Exit, Failure> {
    if !is_terminal() {
        let why = "standard input or standard output is not a terminal";
        let advice = "Use a verb (`gone --help` lists the verbs), or `gone --engine` to run without a terminal.";
        return Err(Failure::usage("open the console", why, advice));
    }
    let (settings, paths) = process.settings_and_paths()?;
    process.log_to_file(&paths, LOG)?;
    runtime()?.block_on(run(process, settings, &paths))
}

/// Opens the console on a replay of the time from `first` to `last`.
pub(super) async fn replay(
    process: &Process<'_>,
    settings: Settings,
    control: Arc<dyn Control>,
    (first, last): (DateTime<Utc>, DateTime<Utc>),
) -> Result<Exit, Failure> {
    process.log_to_file(&process.paths(&settings)?, LOG)?;
    let ledger = control.snapshot().borrow().engine.ledger.clone();
    let mut options = options(process, &settings);
    options.replay = Some(Replayed {
        ledger,
        first,
        last,
    });
    draw(process, control, options).await?;
    Ok(Exit::Done)
}

fn options(process: &Process<'_>, settings: &Settings) -> ConsoleOptions {
    let (global, around, style) = (process.global, process.around, process.style);
    ConsoleOptions {
        ascii: style.ascii,
        no_color: !style.colour,
        low_bandwidth: global.low_bandwidth,
        theme: settings.console.theme,
        // The keys were checked when the settings were read.
        keys: Keymap::with(&settings.console.keys).unwrap_or_default(),
        accent: settings.console.accent.clone(),
        mouse: settings.console.mouse,
        alert: settings.console.alert,
        actor: around.actor(Origin::Console),
        start: None,
        views: settings.views.clone(),
        columns: settings.columns.clone(),
        settings_file: settings_file(global, around),
        last_view: None,
        engine: EngineMode::Attached,
        practice: global.sandbox.as_ref().map(|_| Practice {
            keeps_ledger: global.ledger.is_some(),
        }),
        tour: global.sandbox.as_deref().is_some_and(practice::has_tour),
        replay: None,
    }
}

/// The settings file, in which the console saves views. The practice cloud has one only if `--config`
/// names the file.
fn settings_file(global: &Global, around: &Surroundings) -> Option<PathBuf> {
    let usual = || Some(around.config_folder()?.join("config.toml"));
    let usual = usual().filter(|_| global.sandbox.is_none());
    global.config.clone().or(usual)
}

/// The view that the console showed last, and the file that keeps it. The practice cloud starts afresh.
fn last_view(global: &Global, paths: &Paths) -> (Option<String>, Option<PathBuf>) {
    let file = paths.state.join("last-view");
    if global.sandbox.is_some() {
        return (None, None);
    }
    let kept = std::fs::read_to_string(&file).ok();
    let kept = kept.filter(|view| view.len() <= VIEW_BYTES_MAX);
    (kept, Some(file))
}

/// A longer file does not contain a view.
const VIEW_BYTES_MAX: usize = 4096;

async fn draw(
    process: &Process<'_>,
    control: Arc<dyn Control>,
    options: ConsoleOptions,
) -> Result<console::Exit, Failure> {
    let is_dumb = process.around.term.as_deref() == Some("dumb");
    let ended = match process.global.plain || is_dumb {
        true => console::run_plain(control, options).await,
        false => console::run(control, options).await,
    };
    ended.map_err(|error| {
        let why = format!("{error:#}");
        Failure::new(Exit::Internal, "internal", "draw the console", why, "")
    })
}

async fn run(process: &Process<'_>, settings: Settings, paths: &Paths) -> Result<Exit, Failure> {
    let global = process.global;
    let on_hangup = settings.console.on_hangup;
    let mut options = options(process, &settings);
    (options.start, options.last_view) = last_view(global, paths);
    let (control, embedded) = engine(process, settings, paths, None).await?;
    if embedded.is_some() {
        options.engine = EngineMode::Embedded;
    }
    let ended = draw(process, control, options).await;
    if let Some(embedded) = embedded {
        embedded.stop().await;
        let goes_on = match &ended {
            Ok(console::Exit::LeaveRunning) => true,
            Ok(console::Exit::HangUp) => on_hangup == OnHangup::Background,
            _ => false,
        };
        // A practice cloud ends with its process, so no other engine could continue its deletions.
        if goes_on && global.sandbox.is_none() {
            leave_running(global, paths).await?;
        }
    }
    ended.map(|_| Exit::Done)
}

/// Starts the headless engine on the same ledger, detached from this terminal. The ledger's lock is released,
/// so that engine takes over as after a crash. Secrets reach it through the configuration, and those in
/// `OS_*` variables through a pipe, because an engine's environment and arguments can be read in `/proc` as
/// long as it runs.
async fn leave_running(global: &Global, paths: &Paths) -> Result<(), Failure> {
    let program = std::env::current_exe()?;
    let mut command = Command::new(program);
    command
        .args(["--engine", "--new-session", "--variables-by-stdin"])
        .arg("--ledger")
        .arg(match paths.ledger.file() {
            Some(path) => path.to_owned(),
            None => paths.ledger.to_string().into(),
        })
        .arg("--socket")
        .arg(&paths.serve);
    if let Some(config) = &global.config {
        command.arg("--config").arg(config);
    }
    if let Some(cloud) = &global.cloud {
        command.arg("--cloud").arg(cloud);
    }
    for region in &global.region {
        command.arg("--region").arg(region);
    }
    if global.all_regions {
        command.arg("--all-regions");
    }
    if global.read_only {
        command.arg("--read-only");
    }
    let variables = clouds::variables()?;
    for name in variables.keys() {
        command.env_remove(name);
    }
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let mut child = command.spawn()?;
    if let Some(mut stdin) = child.stdin.take() {
        stdin.write_all(&serde_json::to_vec(&variables).map_err(io::Error::from)?)?;
    }
    away(child).await;
    Ok(())
}

/// Waits until the engine leads a session of its own. If this process led the terminal's session and ended
/// before that, the kernel would hang up on every process in the session.
async fn away(mut child: Child) {
    let since = Instant::now();
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    while since.elapsed() < AWAY_MAX {
        if pid.is_some() && rustix::process::getsid(pid).ok() == pid {
            return;
        }
        if let Ok(Some(status)) = child.try_wait() {
            tracing::error!(%status, "the engine that should continue the work has ended");
            return;
        }
        tokio::time::sleep(AWAY_AGAIN).await;
    }
}
