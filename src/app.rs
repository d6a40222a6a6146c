//! Puts the rooms together: which mode this is, which engine it speaks to, and the exit code.
//!
//! The decisions ([`mode`], [`places`], [`way`]) are pure functions of the command line, the
//! settings and what was found; the rest wires.

use std::io::{self, BufRead as _, BufWriter, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use clap::Parser as _;
use tokio_util::sync::CancellationToken;

use crate::cloud::{OpenStack, openstack};
use crate::control::Control;
use crate::control::remote::RemoteControl;
use crate::domain::model::{ErrorClass, Origin, Site};
use crate::faces::cli::args::{Cli, Format, Global, SandboxArgs, Verb};
use crate::faces::cli::output::{Style, Tolerant};
use crate::faces::cli::{self, Exit, Failure, ReadLine, Session};
use crate::faces::offline::doctor;
use crate::system::clock::Clock;
use crate::system::config::{self, Settings, Surroundings};
use crate::system::telemetry::{self, Verbosity};

/// Parses the command line, does what it says, and ends with CONTRACT's exit code.
pub fn main() -> ExitCode {
    let around = Surroundings::of_process();
    let exit = match Cli::try_parse() {
        Ok(cli) => run(cli, &around),
        Err(error) => not_understood(&error),
    };
    ExitCode::from(exit.code())
}

/// Help and version go to standard output; what is not understood, with the nearest word that is, to
/// standard error, as JSON where JSON was asked for.
fn not_understood(error: &clap::Error) -> Exit {
    if !error.use_stderr() {
        // The reader may have left (`gone --help | head`).
        let _ = error.print();
        return Exit::Done;
    }
    let arguments: Vec<String> = std::env::args().collect();
    let json = arguments.iter().enumerate().any(|(position, argument)| {
        let next = arguments.get(position + 1).map(String::as_str);
        match argument.as_str() {
            "-o" | "--output" => matches!(next, Some("json" | "jsonl")),
            "-ojson" | "-ojsonl" | "--output=json" | "--output=jsonl" => true,
            _ => false,
        }
    });
    if json {
        let text = error.render().to_string();
        let message = text.trim().trim_start_matches("error: ");
        let failure = Failure::usage("understand the command line", message, "");
        complain(&failure, Style::default(), Format::Json);
    } else {
        let _ = error.print();
    }
    Exit::Usage
}

fn complain(failure: &Failure, style: Style, format: Format) {
    // Standard error is the last place to tell; if it is gone too, the code remains.
    let _ = failure.write(&mut io::stderr().lock(), style, format);
}

/// What this process is.
#[derive(Debug)]
pub enum Mode {
    PrintConfig,
    Console,
    Engine,
    /// The practice cloud alone.
    SandboxServer(SandboxArgs),
    Doctor,
    /// A client of an engine.
    Client(Verb),
}

/// # Errors
/// Words that do not go together.
pub fn mode(engine: bool, print_config: bool, verb: Option<Verb>) -> Result<Mode, Failure> {
    match (engine, print_config, verb) {
        (false, true, None) => Ok(Mode::PrintConfig),
        (true, false, None) => Ok(Mode::Engine),
        (false, false, None) => Ok(Mode::Console),
        (false, false, Some(Verb::Sandbox(args))) => Ok(Mode::SandboxServer(args)),
        (false, false, Some(Verb::Doctor)) => Ok(Mode::Doctor),
        (false, false, Some(verb)) => Ok(Mode::Client(verb)),
        _ => Err(Failure::usage(
            "understand the command line",
            "--engine, --print-config and a verb are each a mode of their own",
            "Use one of them.",
        )),
    }
}

/// Where the state of this process is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Places {
    /// Private (0700): the ledger's usual place, logs.
    pub state: PathBuf,
    pub ledger: PathBuf,
    /// Whether the ledger was named: then no other engine than that ledger's is meant.
    pub ledger_named: bool,
    /// The socket that an engine of ours serves.
    pub serve: PathBuf,
    /// The socket at which an engine is looked for.
    pub reach: PathBuf,
}

/// The sandbox has a ledger, a socket and logs of its own, and never meets the engine of a real
/// cloud: `$GONE_SOCKET` and the settings' ledger do not count for it.
///
/// # Errors
/// There is no home, or the ledger is on a database server.
pub fn places(
    global: &Global,
    settings: &Settings,
    around: &Surroundings,
    exists: impl Fn(&Path) -> bool,
) -> Result<Places, Failure> {
    let tried = "find the state folder";
    let Some(state) = around.state_folder() else {
        let advice = "Set HOME or XDG_STATE_HOME.";
        return Err(Failure::usage(tried, "there is no home", advice));
    };
    let option = global.ledger.as_deref();
    if option
        .and_then(Path::to_str)
        .is_some_and(|path| path.contains("://"))
    {
        return Err(Failure::usage(
            "open the ledger",
            "a database server is not supported by this version",
            "Give --ledger the path of a file.",
        ));
    }
    let socket = global.socket.as_deref();
    if global.sandbox.is_some() {
        let state = state.join("sandbox");
        let own = socket.map_or_else(|| state.join("gone.sock"), Path::to_path_buf);
        return Ok(Places {
            ledger: option.map_or_else(|| state.join("ledger.db"), Path::to_path_buf),
            ledger_named: true,
            serve: own.clone(),
            reach: own,
            state,
        });
    }
    let named = option.or(settings.ledger.path.as_deref());
    let usual = state.join("gone.sock");
    Ok(Places {
        ledger: named.map_or_else(|| state.join("ledger.db"), Path::to_path_buf),
        ledger_named: option.is_some(),
        serve: around.socket_to_serve(socket).unwrap_or(usual.clone()),
        reach: around.socket_to_reach(socket, exists).unwrap_or(usual),
        state,
    })
}

/// To which engine a console or a verb speaks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Way {
    Attach(PathBuf),
    /// Bring one along, for as long as this process lives.
    Embed,
}

/// The engine that owns the ledger, by the socket that its lock file names; else one that listens,
/// unless another ledger was named; else our own. `owner` is none if no process holds the lock.
pub fn way(
    places: &Places,
    owner: Option<Option<PathBuf>>,
    listens: impl Fn(&Path) -> bool,
) -> Way {
    match owner {
        Some(socket) => Way::Attach(socket.unwrap_or_else(|| places.reach.clone())),
        None if !places.ledger_named && listens(&places.reach) => Way::Attach(places.reach.clone()),
        None => Way::Embed,
    }
}

fn listens(socket: &Path) -> bool {
    UnixStream::connect(socket).is_ok()
}

fn run(cli: Cli, around: &Surroundings) -> Exit {
    let Cli {
        global,
        engine,
        print_config,
        verb,
    } = cli;
    let style = Style::of_process(around, global.no_color, global.ascii);
    let done = mode(engine, print_config, verb).and_then(|mode| match mode {
        Mode::PrintConfig => {
            let mut out = Tolerant::new(io::stdout().lock());
            out.write_all(config::DEFAULTS.as_bytes())?;
            Ok(Exit::Done)
        }
        Mode::Doctor => runtime()?.block_on(examine(&global, around, style)),
        Mode::Client(verb) => {
            log_to_stderr(&global, style, false)?;
            runtime()?.block_on(client(&global, around, style, verb))
        }
        Mode::Console | Mode::Engine | Mode::SandboxServer(_) => Err(Failure::new(
            Exit::Internal,
            "internal",
            "start",
            "this mode is not part of this build",
            "",
        )),
    });
    done.unwrap_or_else(|failure| {
        complain(&failure, style, global.output);
        failure.exit
    })
}

fn runtime() -> io::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
}

fn log_to_stderr(global: &Global, style: Style, engine: bool) -> io::Result<()> {
    let format = global.log_format.map(Into::into);
    let format = telemetry::format_for(format, style.err_terminal);
    let times = global.verbose;
    telemetry::to_stderr(format, Verbosity { times, engine })
}

/// The settings, with what the command line adds.
fn settings(global: &Global, around: &Surroundings) -> Result<Settings, Failure> {
    let (mut settings, _) = config::load(global.config.as_deref(), around).map_err(|error| {
        let advice = "`gone --print-config` shows every key.";
        Failure::usage("read the settings", error.to_string(), advice)
    })?;
    settings.guard.read_only |= global.read_only;
    Ok(settings)
}

/// A verb, as a client of the engine that runs.
async fn client(
    global: &Global,
    around: &Surroundings,
    style: Style,
    verb: Verb,
) -> Result<Exit, Failure> {
    let settings = settings(global, around)?;
    let places = places(global, &settings, around, Path::exists)?;
    let control = match way(&places, None, listens) {
        Way::Attach(socket) => attach(&socket).await?,
        Way::Embed => attach(&places.reach).await?,
    };
    let mut out = Tolerant::new(BufWriter::new(io::stdout().lock()));
    let mut err = Tolerant::new(io::stderr().lock());
    let session = Session {
        control,
        embedded: false,
        actor: around.actor(Origin::Cli),
        global,
        clock: Clock::system(),
        out: &mut out,
        err: &mut err,
        style,
        read_line: read_line(),
        interrupt: interrupt(),
    };
    Ok(cli::run(session, verb).await)
}

/// The engine across a socket.
async fn attach(socket: &Path) -> Result<Arc<dyn Control>, Failure> {
    RemoteControl::connect(socket).await.map_err(|error| {
        let tried = format!("attach to the engine at {}", socket.display());
        Failure::of(tried, error)
    })
}

/// Cancelled by the first ctrl-c; the second one ends the process.
fn interrupt() -> CancellationToken {
    let token = CancellationToken::new();
    let interrupted = token.clone();
    tokio::spawn(async move {
        if tokio::signal::ctrl_c().await.is_ok() {
            interrupted.cancel();
        }
        if tokio::signal::ctrl_c().await.is_ok() {
            std::process::exit(Exit::Interrupted.code().into());
        }
    });
    token
}

/// A line typed after it was asked for: what was typed ahead answers another question.
fn read_line() -> ReadLine {
    Arc::new(|| {
        let stdin = io::stdin();
        // No terminal, nothing typed ahead.
        let _ = rustix::termios::tcflush(&stdin, rustix::termios::QueueSelector::IFlush);
        let mut line = String::new();
        stdin.lock().read_line(&mut line)?;
        Ok(line)
    })
}

/// The clouds that are configured and chosen, each as one site per region; what is wrong with one
/// does not hide the others.
pub fn chosen_sites(
    clouds: &openstack::CloudsConfig,
    global: &Global,
) -> Vec<(Site, Result<openstack::Cloud, openstack::ConfigError>)> {
    let mut sites = Vec::new();
    let chosen = |name: &str| global.cloud.as_deref().is_none_or(|cloud| cloud == name);
    for entry in clouds.clouds().filter(|entry| chosen(&entry.name)) {
        let regions: Vec<Option<&str>> = match (&global.region, global.all_regions) {
            (wanted, _) if !wanted.is_empty() => wanted.iter().map(|r| Some(r.as_str())).collect(),
            (_, true) if !entry.regions.is_empty() => {
                entry.regions.iter().map(|r| Some(r.as_str())).collect()
            }
            _ => vec![None],
        };
        for region in regions {
            let cloud = clouds.cloud(&entry.name, region);
            let resolved = cloud.as_ref().ok().and_then(|cloud| cloud.region.clone());
            // A cloud with one region need not name it.
            let region = resolved.as_deref().or(region).unwrap_or("default");
            sites.push((Site::region(&entry.name, region), cloud));
        }
    }
    sites
}

async fn examine(global: &Global, around: &Surroundings, style: Style) -> Result<Exit, Failure> {
    let loaded = config::load(global.config.as_deref(), around);
    let settings = loaded.as_ref().map(|(settings, _)| settings.clone());
    let settings = settings.unwrap_or_default();
    let places = places(global, &settings, around, Path::exists)?;
    let mut facts = doctor::Facts {
        settings: Some(loaded.map(|(_, file)| file).map_err(|e| e.to_string())),
        ledger: Some(doctor::LedgerFacts {
            writable: doctor::can_write(&places.ledger),
            schema: None,
            path: places.ledger.clone(),
        }),
        engine: Some(engine_facts(&places).await),
        terminal: Some(terminal_facts(around, style)),
        ..doctor::Facts::default()
    };
    facts
        .warnings
        .extend(doctor::readable_by_others(&places.ledger));
    cloud_facts(global, &settings, &mut facts).await?;
    let checks = doctor::examine(&facts);
    let mut out = Tolerant::new(BufWriter::new(io::stdout().lock()));
    let exit = cli::doctor::report(&mut out, style, global.output, &checks)?;
    out.flush()?;
    Ok(exit)
}

async fn cloud_facts(
    global: &Global,
    settings: &Settings,
    facts: &mut doctor::Facts,
) -> Result<(), Failure> {
    let environment = openstack::Environment::of_process()?;
    let clouds = match openstack::CloudsConfig::load(&environment) {
        Ok(clouds) => clouds,
        Err(error) => {
            facts.clouds = Some(Err(error.to_string()));
            return Ok(());
        }
    };
    let found = clouds.clouds().map(|entry| doctor::FoundCloud {
        name: entry.name,
        regions: entry.regions,
        found_in: entry.found_in.iter().map(ToString::to_string).collect(),
    });
    facts.clouds = Some(Ok(found.collect()));
    let warnings = clouds.warnings().iter().map(ToString::to_string);
    facts.warnings.extend(warnings);
    let mut usable = Vec::new();
    for (site, cloud) in chosen_sites(&clouds, global) {
        match cloud {
            Ok(cloud) => usable.push((site, cloud)),
            Err(error) => facts.logins.push(doctor::Login {
                site,
                result: Err((ErrorClass::Fatal, error.to_string())),
            }),
        }
    }
    let clouds = OpenStack::new(
        usable,
        Box::new(|cloud| match openstack::HttpTransport::new(cloud) {
            Ok(transport) => Ok(Arc::new(transport)),
            Err(error) => Err(error.to_string()),
        }),
        Clock::system(),
        settings.engine.call_timeout,
    );
    facts.logins.extend(doctor::log_in(&clouds).await);
    Ok(())
}

async fn engine_facts(places: &Places) -> doctor::EngineFacts {
    let answer = match RemoteControl::connect(&places.reach).await {
        Ok(control) => {
            let engine = control.snapshot().borrow().engine.clone();
            Ok(format!(
                "version {}, process {}",
                engine.version, engine.pid
            ))
        }
        Err(error) => Err(error.to_string()),
    };
    doctor::EngineFacts {
        socket: places.reach.clone(),
        owner_pid: None,
        answer,
    }
}

fn terminal_facts(around: &Surroundings, style: Style) -> doctor::TerminalFacts {
    let size = rustix::termios::tcgetwinsize(io::stdout()).ok();
    doctor::TerminalFacts {
        name: around.term.clone(),
        is_terminal: style.out_terminal,
        size: size.map(|size| (size.ws_col, size.ws_row)),
        colour: style.colour,
        utf8: !style.ascii,
    }
}
