//! `gone doctor`, for which this module gathers the facts, and `gone check kinds`.

use std::io;
use std::path::Path;
use std::sync::Arc;

use clap::{Args, Subcommand};

use super::clouds::{NamedSite, chosen_cloud, chosen_sites, connect, named_sites};
use super::embedded::{cloud_environment, resolve_kinds};
use super::{LocalVerb, Paths, Process, embedded, peers, practice, runtime};
use crate::cloud::openstack;
use crate::control::remote::RemoteControl;
use crate::control::{Control, ControlError};
use crate::domain::check;
use crate::domain::kinds::Kinds;
use crate::domain::model::{ErrorClass, Site};
use crate::frontends::cli::args::Global;
use crate::frontends::cli::{self, Exit, Failure};
use crate::frontends::offline::doctor;
use crate::frontends::{gate, notify};
use crate::ledger::{Location, can_write_at_server, holder, open_reader};
use crate::system::clock::Clock;
use crate::system::config::Settings;
use crate::system::{files, private};

/// Check clouds, rights, ledger, socket and terminal, and say what to do
#[derive(Clone, Debug, Args)]
#[command(after_long_help = "\
Examples:
  gone doctor
  gone doctor --cloud prod -o json")]
pub struct Doctor {}

/// Check the kinds for deletions that could never end
#[derive(Clone, Debug, Args)]
#[command(after_long_help = "\
Reads the built-in kinds and those in $XDG_CONFIG_HOME/gone/kinds, and asks no cloud. Exits with 2 if
there is an error, a file cannot be read or the settings name another kind; notes alone exit with 0.

Examples:
  gone check kinds                      each finding with its smallest example, and the fix
  gone check kinds -o json | jq '.[] | select(.severity == \"error\").fix'")]
pub struct Check {
    #[command(subcommand)]
    pub work: CheckWork,
}

#[derive(Clone, Copy, Debug, Subcommand)]
pub enum CheckWork {
    /// Check all kinds: stuck cascades, cycles, references that cannot work
    Kinds,
}

impl LocalVerb for Doctor {
    fn run(self, process: &Process<'_>) -> Result<Exit, Failure> {
        runtime()?.block_on(examine(process))
    }
}

impl LocalVerb for Check {
    fn run(self, process: &Process<'_>) -> Result<Exit, Failure> {
        match self.work {
            CheckWork::Kinds => check_kinds(process),
        }
    }
}

async fn examine(process: &Process<'_>) -> Result<Exit, Failure> {
    let global = process.global;
    let kinds = embedded::kinds(process.around);
    let loaded = process.read_settings().and_then(|(mut settings, file)| {
        // The error of the kinds is reported below, where they are needed.
        if let Ok(kinds) = &kinds {
            resolve_kinds(&mut settings, kinds, process)?;
        }
        Ok((settings, file))
    });
    let (settings, file) = match loaded {
        Ok((settings, file)) => (settings, Ok(file)),
        Err(error) => (Settings::default(), Err(error.to_string())),
    };
    let paths = process.paths(&settings)?;
    let engine = engine_facts(&paths).await;
    if let Some(scenario) = &global.sandbox {
        practice_runs(scenario, &engine)?;
    }
    let ledger = paths.ledger.file();
    let mut facts = doctor::Facts {
        settings: file,
        clouds: Ok(Vec::new()),
        mapping: Vec::new(),
        named_clouds: Vec::new(),
        warnings: Vec::new(),
        logins: Vec::new(),
        ledger: doctor::LedgerFacts {
            writable: match ledger {
                Some(file) => doctor::can_write(file),
                None => can_write_at_server(&paths.ledger).map_err(|error| error.to_string()),
            },
            readable: readable(&paths.ledger),
            name: paths.ledger.to_string(),
        },
        engine,
        notify: notify_facts(&settings, &paths.ledger).await,
        terminal: terminal_facts(process),
        deployment: settings.deployment.as_ref().map(|it| it.name.clone()),
        peers: match &settings.deployment {
            Some(deployment) => peers::facts(deployment).await,
            None => Vec::new(),
        },
    };
    // These settings name clouds other than the practice cloud.
    if global.sandbox.is_none() {
        facts.mapping.clone_from(&settings.mapping);
        facts.named_clouds = named_clouds(&settings);
    }
    let by_others = ledger.map(doctor::readable_by_others);
    facts.warnings.extend(by_others.into_iter().flatten());
    if let Ok(Some(file)) = &facts.settings {
        facts.warnings.extend(doctor::writable_by_others(file));
    }
    facts.warnings.extend(gate_warnings(&settings));
    cloud_facts(global, &paths, kinds, &settings, &mut facts).await?;
    let checks = doctor::examine(&facts);
    let next = "Next: `gone` opens the console; `gone plan` shows what a deletion does.";
    process.print(|to| cli::doctor::report(to, &checks, next))
}

/// Checks the kinds, and that the settings name only these kinds. The check asks no cloud, and reads no ledger.
fn check_kinds(process: &Process<'_>) -> Result<Exit, Failure> {
    let kinds = embedded::kinds(process.around)?;
    resolve_kinds(&mut process.settings()?, &kinds, process)?;
    let (count, findings) = (kinds.iter().count(), check::check(&kinds));
    process.print(|to| cli::check::report(to, count, &findings))
}

/// Checks that there is a practice cloud to examine.
///
/// # Errors
/// No engine serves the practice cloud, or the engine that does has another scenario.
fn practice_runs(scenario: &str, engine: &doctor::EngineFacts) -> Result<(), Failure> {
    if engine.answer.is_ok() {
        return practice::check_is_running(scenario, &engine.socket);
    }
    Err(Failure::usage(
        "examine the practice cloud",
        "no console or engine with --sandbox is running, so there is no practice cloud",
        "Start `gone --sandbox` in another terminal first; without --sandbox, doctor examines your own clouds.",
    ))
}

async fn cloud_facts(
    global: &Global,
    paths: &Paths,
    kinds: Result<Kinds, Failure>,
    settings: &Settings,
    facts: &mut doctor::Facts,
) -> Result<(), Failure> {
    let environment = cloud_environment(global, paths)?;
    let clouds = match openstack::CloudsConfig::load(&environment) {
        Ok(clouds) => clouds,
        Err(error) => {
            facts.clouds = Err(error.to_string());
            return Ok(());
        }
    };
    facts.clouds = Ok(clouds.clouds().collect());
    let warnings = clouds.warnings().iter().map(ToString::to_string);
    facts.warnings.extend(warnings);
    if let Some(name) = chosen_cloud(&clouds, global)
        && clouds.clouds().all(|entry| entry.name != name)
        && let Err(error) = clouds.cloud(name, None)
    {
        let region = global.region.first().map_or("default", String::as_str);
        let site = Site::region(name, region);
        facts.logins.push(misconfigured(site, error.to_string()));
    }
    let mut usable = Vec::new();
    for (site, cloud) in chosen_sites(&clouds, global) {
        match cloud {
            Ok(cloud) => usable.push((site, cloud)),
            Err(error) => facts.logins.push(misconfigured(site, error.to_string())),
        }
    }
    for NamedSite { by, site, cloud } in named_sites(&clouds, global, settings, &[], &usable) {
        match cloud {
            Ok(cloud) => usable.push((site, cloud)),
            Err(_) if facts.logins.iter().any(|login| login.site == site) => {}
            Err(error) => {
                let why = format!("{by} names {site}: {error}");
                facts.logins.push(misconfigured(site, why));
            }
        }
    }
    let clouds = connect(usable, Clock::system(), settings.engine.call_timeout);
    facts.logins.extend(doctor::log_in(&clouds, &kinds?).await);
    Ok(())
}

fn misconfigured(site: Site, why: String) -> doctor::Login {
    doctor::Login {
        site,
        result: Err((ErrorClass::Fatal, why)),
    }
}

/// Checks whether this version can read a ledger in a file. None if there is no file, or if the ledger is on a server:
/// `can_write_at_server` checks that. Writes nothing.
fn readable(ledger: &Location) -> Option<Result<(), String>> {
    ledger.file().filter(|file| file.exists())?;
    let opened = open_reader(ledger);
    Some(opened.map(drop).map_err(|error| error.to_string()))
}

/// Reads the state of the channels from the ledger, also while an engine runs. Another check reports a ledger
/// that cannot be read.
async fn notify_facts(settings: &Settings, ledger: &Location) -> Vec<doctor::NotifyFacts> {
    let ledger = open_reader(ledger).ok();
    let mut facts = Vec::new();
    for (name, channel) in notify::channels(&settings.notify) {
        let cursor = match &ledger {
            Some(ledger) => ledger.notification_cursor(name).await.ok(),
            None => None,
        };
        let position = cursor.and_then(|cursor| cursor.position);
        let failing = position.unwrap_or_default().last_error;
        facts.push(doctor::NotifyFacts { channel, failing });
    }
    facts
}

async fn connect_to(socket: &Path) -> Result<Arc<dyn Control>, ControlError> {
    match private::check_socket(socket) {
        Err(error) if private::is_untrusted(&error) => Err(ControlError::Unreachable {
            message: error.to_string(),
        }),
        // The attempt to connect gives a better message than the check if nobody listens.
        _ => RemoteControl::connect(socket).await,
    }
}

/// Returns the keys of the settings that name clouds of `clouds.yaml`, each with the cloud.
fn named_clouds(settings: &Settings) -> Vec<(&'static str, String)> {
    let guard = &settings.guard;
    let read_only = guard.read_only_clouds.iter();
    let read_only = read_only.map(|cloud| ("guard.read_only_clouds", cloud.clone()));
    let reasons = guard.reason.keys();
    let reasons = reasons.map(|cloud| ("guard.reason", cloud.clone()));
    let accents = settings.console.accent.keys();
    let accents = accents.map(|cloud| ("console.accent", cloud.clone()));
    read_only.chain(reasons).chain(accents).collect()
}

/// Returns warnings about the gates in the settings: problems despite which a gate opens.
fn gate_warnings(settings: &Settings) -> Vec<String> {
    let listens = settings.gate.iter().map(|gate| gate.listen);
    let mut warnings: Vec<String> = listens.filter_map(gate::open_to_others).collect();
    let wanted = embedded::files_wanted(settings);
    if let Some(limit) = files::raise_limit().filter(|limit| *limit < wanted) {
        warnings.push(format!(
            "{limit} open files are allowed (ulimit -Hn, LimitNOFILE), and {wanted} are needed for all connections of \
             the gates: each gate holds fewer connections than its settings say; raise the limit"
        ));
    }
    warnings
}

async fn engine_facts(paths: &Paths) -> doctor::EngineFacts {
    let holder = holder(&paths.ledger);
    let named = holder.as_ref().and_then(|holder| holder.socket.clone());
    let socket = named.map_or_else(|| paths.reach.clone(), Into::into);
    let answer = match connect_to(&socket).await {
        Ok(control) => {
            let engine = control.snapshot().borrow().engine.clone();
            let (version, pid) = (&engine.version, engine.pid);
            Ok(format!("version {version}, process {pid}"))
        }
        Err(error) => Err(error.to_string()),
    };
    doctor::EngineFacts {
        socket,
        owner_pid: holder.map(|holder| holder.pid),
        answer,
    }
}

fn terminal_facts(process: &Process<'_>) -> doctor::TerminalFacts {
    let style = process.style;
    let size = rustix::termios::tcgetwinsize(io::stdout()).ok();
    doctor::TerminalFacts {
        name: process.around.term.clone(),
        is_terminal: style.out_terminal,
        size: size.map(|size| (size.ws_col, size.ws_row)),
        colour: style.colour,
        utf8: !style.ascii,
    }
}
