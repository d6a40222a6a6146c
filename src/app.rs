//! Composes the program: chooses the mode of this process and the engine that it uses, and returns the exit
//! code.
//!
//! The decisions ([`mode`], [`paths`], [`choose_engine`]) are functions of the command line, the settings and
//! the sockets that exist; the rest is wiring.

mod clouds;
pub mod command_line;
#[cfg(feature = "console")]
mod console;
#[cfg(not(feature = "console"))]
#[path = "app/no_console.rs"]
mod console;
mod embedded;
mod examine;
mod gates;
mod ledger;
pub mod migrate;
mod notify;
#[cfg(feature = "sandbox")]
mod past;
mod peers;
#[cfg(feature = "sandbox")]
mod practice;
#[cfg(not(feature = "sandbox"))]
#[path = "app/no_practice.rs"]
mod practice;
mod replay;
mod sandbox_args;
#[cfg(feature = "sandbox")]
mod scene;
pub mod upkeep;

use std::io::{self, BufRead as _, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;

use self::command_line::{Cli, Verb};
use self::embedded::Embedded;
use crate::control::read_only::ReadOnlyControl;
use crate::control::remote::RemoteControl;
use crate::control::{Control, ControlError};
use crate::domain::model::Origin;
use crate::frontends::cli::args::{Format, Global};
use crate::frontends::cli::output::{Printer, Style, Tolerant};
use crate::frontends::cli::{self, Exit, Failure, Needs, ReadLine, Session};
#[cfg(feature = "console")]
use crate::frontends::console::Keymap;
use crate::ledger::sqlite::seal_key;
use crate::ledger::{Holder, Location, holder};
use crate::system::clock::Clock;
use crate::system::config::{self, ConfigError, Settings, Surroundings};
use crate::system::private;
use crate::system::telemetry::{self, Verbosity};

/// How long a client waits for the socket of an engine that is starting or ending.
const ATTACH_MAX: Duration = Duration::from_secs(5);
/// The log, in the state folder, of an engine that continues without the console that started it.
const ENGINE_LOG: &str = "engine.log";
/// Time between two attempts to attach to an engine.
const ATTACH_AGAIN: Duration = Duration::from_millis(100);

/// Parses the command line, carries it out, and returns an exit code of `assets/contract.md`.
pub fn main() -> ExitCode {
    let around = Surroundings::of_process();
    let exit = match Cli::of_process() {
        Ok(cli) => run(cli, &around),
        Err(error) => not_understood(&error),
    };
    ExitCode::from(exit.code())
}

/// Prints help and version to standard output. Prints why a command line was not understood, with the nearest
/// known word, to standard error, as JSON if the command line asks for JSON.
fn not_understood(error: &clap::Error) -> Exit {
    if !error.use_stderr() {
        // The process that reads the output may have ended (`gone --help | head`).
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
    // Standard error is the last place to report; if it is gone too, the exit code remains.
    let mut err = io::stderr().lock();
    let _ = failure.write(&mut Printer::new(&mut err, style, format));
}

/// The mode of this process.
#[derive(Debug)]
pub enum Mode {
    PrintConfig,
    Console,
    Engine,
    Verb(Verb),
}

/// Chooses the mode from the arguments; without any, the console.
///
/// # Errors
/// The arguments exclude each other.
pub fn mode(engine: bool, print_config: bool, verb: Option<Verb>) -> Result<Mode, Failure> {
    match (engine, print_config, verb) {
        (false, true, None) => Ok(Mode::PrintConfig),
        (true, false, None) => Ok(Mode::Engine),
        (false, false, None) => Ok(Mode::Console),
        (false, false, Some(verb)) => Ok(Mode::Verb(verb)),
        _ => Err(Failure::usage(
            "understand the command line",
            "--engine, --print-config and a verb exclude each other",
            "Use one of them.",
        )),
    }
}

/// The global options, the surroundings and the output style, which every mode needs.
#[derive(Clone, Copy)]
pub(crate) struct Process<'a> {
    global: &'a Global,
    around: &'a Surroundings,
    style: Style,
}

impl Process<'_> {
    /// Reads the settings, to which `--read-only` is added, and derives the paths from them.
    fn settings_and_paths(&self) -> Result<(Settings, Paths), Failure> {
        let settings = self.settings()?;
        let paths = self.paths(&settings)?;
        Ok((settings, paths))
    }

    fn settings(&self) -> Result<Settings, Failure> {
        let (mut settings, _) = self.read_settings()?;
        settings.guard.read_only |= self.global.read_only;
        Ok(settings)
    }

    /// Reads the settings, and returns their file too. The console's keys are checked in every mode, so that a
    /// wrong key is found before somebody needs it.
    fn read_settings(&self) -> Result<(Settings, Option<PathBuf>), ConfigError> {
        let (settings, file) = config::load(self.global.config.as_deref(), self.around)?;
        #[cfg(feature = "console")]
        if let (Err(wrong), Some(file)) = (Keymap::with(&settings.console.keys), &file) {
            let key = format!("console.keys.{}", wrong.action);
            return Err(config::wrong(file, key, &wrong.why));
        }
        Ok((settings, file))
    }

    fn paths(&self, settings: &Settings) -> Result<Paths, Failure> {
        paths(self.global, settings, self.around, Path::exists)
    }

    fn log_to_stderr(&self, engine: bool) -> io::Result<()> {
        let format = telemetry::format_for(self.global.log_format, self.style.err_terminal);
        let times = self.global.verbose;
        telemetry::to_stderr(format, Verbosity { times, engine })
    }

    /// Sends an engine's log to this file of the state folder.
    fn log_to_file(&self, paths: &Paths, name: &str) -> io::Result<()> {
        private::folder(&paths.state)?;
        let format = telemetry::format_for(self.global.log_format, true);
        let (times, engine) = (self.global.verbose, true);
        telemetry::to_file(&paths.state.join(name), format, Verbosity { times, engine })
    }

    /// Carries out a verb for this user through an engine. `embedded` says whether the engine ends with the verb.
    async fn run_verb(
        &self,
        verb: impl cli::Verb,
        control: Arc<dyn Control>,
        embedded: bool,
        read_only: bool,
        clock: Clock,
        interrupt: CancellationToken,
    ) -> Exit {
        let mut out = Tolerant(BufWriter::new(io::stdout().lock()));
        // Standard error is not locked: other threads of the engine log there too, and would wait for the lock
        // and keep the other locks that they hold.
        let mut err = Tolerant(io::stderr());
        let session = Session {
            action_words: String::new(),
            control,
            embedded,
            actor: self.around.actor(Origin::Cli),
            global: self.global,
            read_only,
            clock,
            out: Printer::new(&mut out, self.style, self.global.output),
            err: Printer::new(&mut err, self.style, self.global.output),
            read_line: read_line(),
            interrupt,
        };
        cli::run(session, verb).await
    }

    /// Writes a result to standard output.
    fn print<T, E>(
        &self,
        write: impl FnOnce(&mut Printer<'_>) -> Result<T, E>,
    ) -> Result<T, Failure>
    where
        Failure: From<E>,
    {
        let mut out = Tolerant(BufWriter::new(io::stdout().lock()));
        let written = write(&mut Printer::new(&mut out, self.style, self.global.output))?;
        out.flush()?;
        Ok(written)
    }
}

/// A verb that needs no engine. The exception is `gone ledger prune`.
trait LocalVerb {
    fn run(self, process: &Process<'_>) -> Result<Exit, Failure>;
}

/// The paths of this process's state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Paths {
    /// The private folder (0700) of the logs, and by default of the ledger.
    pub state: PathBuf,
    pub ledger: Location,
    /// Whether only the engine of this ledger may be used: the command line names the ledger, or the process
    /// uses the sandbox.
    pub ledger_named: bool,
    /// The socket that an engine of this process serves.
    pub serve: PathBuf,
    /// The socket at which a client expects a running engine.
    pub reach: PathBuf,
    /// Paths at which the key for the audit seal of a backup may be: beside the usual ledgers.
    pub seal_keys: Vec<PathBuf>,
}

impl Paths {
    /// # Errors
    /// The ledger is a file that does not exist.
    fn require_ledger(&self) -> Result<(), Failure> {
        match self.ledger.file().filter(|path| !path.exists()) {
            None => Ok(()),
            Some(path) => {
                let why = format!("there is no ledger at {}", path.display());
                let advice = "Name it with --ledger; an engine creates one when it starts.";
                Err(Failure::usage("open the ledger", why, advice))
            }
        }
    }

    /// Returns the path of the practice cloud's `clouds.yaml`.
    fn clouds_file(&self) -> PathBuf {
        self.state.join("clouds.yaml")
    }
}

/// Returns the paths. `exists` says whether a socket exists. The sandbox has its own ledger, socket and logs, and
/// never uses the engine of a real cloud. `$GONE_SOCKET` and the settings' ledger do not apply to it.
///
/// # Errors
/// There is no home folder, or no ledger can be kept at the URL.
pub fn paths(
    global: &Global,
    settings: &Settings,
    around: &Surroundings,
    exists: impl Fn(&Path) -> bool,
) -> Result<Paths, Failure> {
    let Some(state) = around.state_folder() else {
        let (why, advice) = ("there is no home folder", "Set HOME or XDG_STATE_HOME.");
        return Err(Failure::usage("find the state folder", why, advice));
    };
    let located = |url: &Path| {
        let advice = "Give --ledger the path of a file, or postgres://USER@HOST/DATABASE.";
        located(around, url, "open the ledger", advice)
    };
    let option = global.ledger.as_deref();
    let socket = global.socket.as_deref();
    if global.sandbox.is_some() {
        let state = state.join("sandbox");
        let own = socket.map_or_else(|| state.join("gone.sock"), Path::to_path_buf);
        return Ok(Paths {
            ledger: located(option.unwrap_or(&state.join("ledger.db")))?,
            ledger_named: true,
            serve: own.clone(),
            reach: own,
            seal_keys: Vec::new(),
            state,
        });
    }
    let named = option.or(settings.ledger.path.as_deref());
    let usual = state.join("gone.sock");
    let usual_ledgers = [Some(state.join("ledger.db")), settings.ledger.path.clone()];
    Ok(Paths {
        seal_keys: usual_ledgers
            .iter()
            .flatten()
            .map(|path| seal_key(path))
            .collect(),
        ledger: located(named.unwrap_or(&state.join("ledger.db")))?,
        ledger_named: option.is_some(),
        serve: around.socket_to_serve(socket).unwrap_or(usual.clone()),
        reach: around.socket_to_reach(socket, exists).unwrap_or(usual),
        state,
    })
}

fn located(
    around: &Surroundings,
    url: &Path,
    action_words: &str,
    advice: &str,
) -> Result<Location, Failure> {
    let located = Location::parse(url, around.passfile.clone());
    located.map_err(Failure::usage_of(action_words, advice))
}

/// The engine that a console or a verb uses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EngineSource {
    /// Attach to the running engine at this socket.
    Attach(PathBuf),
    /// Start an engine in this process, for as long as the process lives.
    Embed,
}

/// Chooses the engine. The first choice is an engine of the ledger, at the socket that it serves. The second is the
/// usual socket if an engine listens there or the ledger's engine serves no socket, unless only an engine of this
/// ledger may be used. Otherwise this process starts an engine of its own. `owner` is `None` if the ledger has no
/// engine on this machine, and `Some(None)` if its engine serves no socket.
pub fn choose_engine(
    paths: &Paths,
    owner: Option<Option<PathBuf>>,
    listens: impl Fn(&Path) -> bool,
) -> EngineSource {
    match owner {
        Some(Some(socket)) => EngineSource::Attach(socket),
        Some(None) if !paths.ledger_named => EngineSource::Attach(paths.reach.clone()),
        None if !paths.ledger_named && listens(&paths.reach) => {
            EngineSource::Attach(paths.reach.clone())
        }
        // The engine at the usual socket may have another ledger. A ledger on a server may have several engines.
        Some(None) | None => EngineSource::Embed,
    }
}

/// Whether there is a socket to attach to. An untrusted socket counts too, because attaching to it says why
/// it is refused, whereas an engine of this process would only hide the problem.
fn listens(socket: &Path) -> bool {
    match private::check_socket(socket) {
        Ok(()) => true,
        Err(error) => private::is_untrusted(&error),
    }
}

fn run(cli: Cli, around: &Surroundings) -> Exit {
    let Cli {
        global,
        engine,
        new_session,
        variables_by_stdin,
        print_config,
        verb,
    } = cli;
    if new_session {
        // `setsid` fails only in a process that leads a process group. An engine that a console starts leads none.
        let _ = rustix::process::setsid();
    }
    let style = Style::of_process(around, &global);
    if variables_by_stdin && let Err(error) = clouds::take_over_variables() {
        let failure = Failure::from(error);
        complain(&failure, style, global.output);
        return failure.exit;
    }
    let process = Process {
        global: &global,
        around,
        style,
    };
    let done = mode(engine, print_config, verb).and_then(|mode| match mode {
        Mode::PrintConfig => {
            process.print(|to| to.stream.write_all(config::DEFAULTS.as_bytes()))?;
            Ok(Exit::Done)
        }
        Mode::Verb(Verb::Engine(verb)) => client(&process, verb),
        Mode::Verb(Verb::Local(verb)) => verb.run(&process),
        Mode::Engine => {
            match new_session {
                // Nobody reads the engine's standard error any more.
                true => process.log_to_file(&process.settings_and_paths()?.1, ENGINE_LOG)?,
                false => process.log_to_stderr(true)?,
            }
            runtime()?.block_on(headless(&process))
        }
        Mode::Console => console::open(&process),
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

impl From<ConfigError> for Failure {
    fn from(error: ConfigError) -> Self {
        let advice = "`gone --print-config` shows every key.";
        Self::usage("read the settings", error.to_string(), advice)
    }
}

/// Runs a verb as a client of the running engine, or with an engine of its own that ends with the verb.
fn client(process: &Process<'_>, verb: impl cli::Verb) -> Result<Exit, Failure> {
    process.log_to_stderr(false)?;
    runtime()?.block_on(carry_out(process, verb))
}

async fn carry_out(process: &Process<'_>, verb: impl cli::Verb) -> Result<Exit, Failure> {
    let (settings, paths) = process.settings_and_paths()?;
    // An engine would create the ledger, so a mistyped name would give empty lists.
    let global = process.global;
    let needs = verb.needs();
    if needs.only_reads && global.ledger.is_some() && global.sandbox.is_none() {
        paths.require_ledger()?;
    }
    let read_only = settings.guard.read_only;
    let (control, embedded) = engine(process, settings, &paths, Some(needs)).await?;
    let (clock, is_embedded) = (Clock::system(), embedded.is_some());
    let exit = process
        .run_verb(verb, control, is_embedded, read_only, clock, interrupt())
        .await;
    if let Some(embedded) = embedded {
        embedded.stop().await;
    }
    Ok(exit)
}

/// Returns the engine that this process uses: the running engine to which it attaches, or an engine that it starts. An
/// engine that it starts without a verb stays.
async fn engine(
    process: &Process<'_>,
    settings: Settings,
    paths: &Paths,
    verb: Option<Needs<'_>>,
) -> Result<(Arc<dyn Control>, Option<Embedded>), Failure> {
    if let Some(control) = attached(process.global, paths, settings.guard.read_only).await? {
        return Ok((control, None));
    }
    let embedded = embedded::embed(process, settings, paths, verb).await?;
    Ok((embedded.control.clone(), Some(embedded)))
}

/// Attaches to the engine that this process uses. None if the process must start one of its own. Waits up to
/// [`ATTACH_MAX`] for an engine that is starting or ending. `read_only` is this process's setting; the engine has
/// its own.
async fn attached(
    global: &Global,
    paths: &Paths,
    read_only: bool,
) -> Result<Option<Arc<dyn Control>>, Failure> {
    let since = Instant::now();
    loop {
        // Read each time, because an engine that is ending closes its socket before it releases its ledger.
        let holder = holder(&paths.ledger);
        if let Some(Holder { pid, socket: None }) = &holder
            && paths.ledger_named
            && paths.ledger.file().is_some()
        {
            // The engine at the usual socket may have another ledger.
            if since.elapsed() < ATTACH_MAX {
                tokio::time::sleep(ATTACH_AGAIN).await;
                continue;
            }
            let action_words = format!("attach to the engine of {}", paths.ledger);
            let why = format!("process {pid} uses this ledger and serves no socket");
            let advice = "Wait until that process has ended, or end it.";
            let (exit, class) = (Exit::Unreachable, "unreachable");
            return Err(Failure::new(exit, class, action_words, why, advice));
        }
        let owner = holder.map(|holder| holder.socket.map(PathBuf::from));
        let EngineSource::Attach(socket) = choose_engine(paths, owner, listens) else {
            return Ok(None);
        };
        let action_words = || format!("attach to the engine at {}", socket.display());
        if let Err(error) = private::check_socket(&socket)
            && private::is_untrusted(&error)
        {
            let advice = "Nothing was sent. Name another socket with --socket, or end the process that listens.";
            return Err(Failure::usage(action_words(), error.to_string(), advice));
        }
        match RemoteControl::connect(&socket).await {
            Ok(control) => {
                if let Some(scenario) = &global.sandbox {
                    practice::check_is_running(scenario, &socket)?;
                }
                return Ok(Some(match read_only {
                    true => ReadOnlyControl::over(control),
                    false => control,
                }));
            }
            Err(ControlError::Unreachable { .. }) if since.elapsed() < ATTACH_MAX => {
                tokio::time::sleep(ATTACH_AGAIN).await;
            }
            Err(error) => return Err(Failure::of(action_words(), error)),
        }
    }
}

/// Runs the headless engine until a signal ends it, or until it ends by itself, which is an error.
async fn headless(process: &Process<'_>) -> Result<Exit, Failure> {
    let (settings, paths) = process.settings_and_paths()?;
    let mut end = EndSignals::listen()?;
    // The engine continues when the terminal that started it is closed.
    let mut hangup = signal(SignalKind::hangup())?;
    let mut embedded = tokio::select! {
        embedded = embedded::embed(process, settings, &paths, None) => embedded?,
        () = end.recv() => return Ok(Exit::Done),
    };
    tracing::info!(
        ledger = %paths.ledger,
        socket = %paths.serve.display(),
        "the engine runs"
    );
    loop {
        tokio::select! {
            failure = embedded.ended() => return Err(failure),
            () = end.recv() => break,
            _ = hangup.recv() => tracing::info!("the terminal was closed; the engine continues"),
        }
    }
    tracing::info!(
        "the engine ends on a signal; an engine that is started on this ledger continues its deletions"
    );
    embedded.stop().await;
    Ok(Exit::Done)
}

/// The signals that end a server. The server listens for them before it announces itself anywhere, because a reader
/// of the announcement may end the server at once.
struct EndSignals {
    terminate: Signal,
    interrupt: Signal,
}

impl EndSignals {
    fn listen() -> io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
        })
    }

    async fn recv(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}

/// Returns a token that is cancelled at the first ctrl-c. The second ctrl-c ends the process.
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

/// Returns a reader of one line, which discards input that was typed before the question appeared.
fn read_line() -> ReadLine {
    Arc::new(|| {
        let stdin = io::stdin();
        // Errors are ignored, because without a terminal nothing was typed ahead.
        let _ = rustix::termios::tcflush(&stdin, rustix::termios::QueueSelector::IFlush);
        let mut line = String::new();
        stdin.lock().read_line(&mut line)?;
        Ok(line)
    })
}
