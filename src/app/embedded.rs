//! An engine in this process: connects the ledger, clouds and kinds with the API's socket, gates, peers, notifier and
//! practice cloud.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use futures_util::future::{OptionFuture, join_all};
use tokio::task::JoinHandle;

use super::clouds::{NamedSite, chosen_sites, connect, environment, named_sites};
use super::gates::Gates;
use super::ledger::{open_ledger, remove_ledger};
use super::practice::{self, Practice};
use super::{Paths, Process, peers};
use crate::cloud::openstack::{self, CloudsConfig};
use crate::cloud::{Cloud, CloudRouter, OpenStack, Registry};
use crate::control::Control;
use crate::domain::kinds::{Home, Kinds, Source};
use crate::domain::model::{Scope, Site};
use crate::engine::{Engine, EngineParts, Neighbours};
use crate::frontends::api::{self, ApiHandle, ServeError};
use crate::frontends::cli::args::Global;
use crate::frontends::cli::{Exit, Failure, Needs};
use crate::frontends::notify::Notifier;
use crate::ledger::{Hold, Ledger, LedgerError};
use crate::peers::ListenHandle;
use crate::system::clock::Clock;
use crate::system::config::{self, ConfigError, NotifySettings, Settings, Surroundings};
use crate::system::{files, private};

/// Minimum number of connections of a gate after a reduction, however few open files are allowed.
const FEWEST: usize = 16;

/// An engine that runs until [`Embedded::stop`], or until this process ends.
pub(super) struct Embedded {
    pub(super) control: Arc<dyn Control>,
    hold: Arc<dyn Hold>,
    engine: JoinHandle<Result<(), LedgerError>>,
    /// None for a verb that needs no listener, if the socket cannot be served.
    api: Option<ApiHandle>,
    gates: Vec<ListenHandle>,
    /// None without peers, or if peers cannot reach the engine of a single verb.
    peers: Option<ListenHandle>,
    /// None for a verb, which ends before a receiver would answer, and for a practice cloud without explicit settings.
    notifier: Option<Notifier>,
    /// The practice cloud, which lives as long as its engine.
    practice: Option<Practice>,
}

impl Embedded {
    /// Waits until the engine ends by itself, which happens only if the ledger cannot be used, or because of a bug.
    pub(super) async fn ended(&mut self) -> Failure {
        let why = match (&mut self.engine).await {
            Ok(Ok(())) => "it ended without a reason".to_owned(),
            Ok(Err(error)) => error.to_string(),
            Err(error) => error.to_string(),
        };
        let advice = "Accepted deletions are in the ledger; start the engine again.";
        Failure::new(Exit::Internal, "internal", "run the engine", why, advice)
    }

    /// Stops the engine and releases the ledger. The next engine verifies the steps that are in flight, as
    /// after a crash.
    pub(super) async fn stop(self) {
        tokio::join!(
            OptionFuture::from(self.api.map(ApiHandle::stop)),
            OptionFuture::from(self.notifier.map(Notifier::stop)),
            join_all(self.gates.into_iter().map(ListenHandle::stop)),
            OptionFuture::from(self.peers.map(ListenHandle::stop)),
        );
        self.engine.abort();
        // The task was aborted, so its result says nothing.
        let _ = self.engine.await;
        self.hold.release().await;
        OptionFuture::from(self.practice.map(Practice::stop)).await;
    }
}

/// Starts an engine, for one verb or to stay.
///
/// An engine that stays notifies people, opens gates and listens for peers. For a practice cloud it does none of these,
/// unless the settings were given explicitly.
///
/// An engine for a verb notifies nobody, opens no gate, and runs deletions only if the verb asks for that (P10). It
/// also serves the regions that the verb's targets name. Peers can reach it, since a step may wait for a clearance of
/// theirs. If they cannot, the engine does what it can without them.
pub(super) async fn embed(
    process: &Process<'_>,
    mut settings: Settings,
    paths: &Paths,
    verb: Option<Needs<'_>>,
) -> Result<Embedded, Failure> {
    let is_practice = process.global.sandbox.is_some() && process.global.config.is_none();
    let notifies = verb.is_none() && !is_practice;
    let notify = notifies.then(|| settings.notify.clone());
    if !notifies {
        settings.gate.clear();
    }
    // The engine of a practice ledger must not speak to real deployments in this deployment's name.
    if let Some(deployment) = settings.deployment.as_mut().filter(|_| is_practice) {
        deployment.peers.clear();
    }
    wire(process, settings, paths, verb, notify).await
}

/// The settings, clouds and kinds of an engine, which are read before its ledger is opened.
struct Prepared {
    settings: Settings,
    clouds: Vec<(Site, openstack::CloudConfig)>,
    kinds: Arc<Kinds>,
    neighbours: Option<Neighbours>,
    practice: Option<Practice>,
}

/// Reads clouds and kinds, completes the settings with them, and starts the practice cloud of a scenario.
async fn prepare(
    process: &Process<'_>,
    mut settings: Settings,
    paths: &Paths,
    targets: &[String],
) -> Result<Prepared, Failure> {
    let global = process.global;
    limit_gate_connections(&mut settings);
    prepare_folders(paths)?;
    let practice = match &global.sandbox {
        Some(scenario) => Some(Practice::start(scenario, paths).await?),
        None => None,
    };
    let part = practice.as_ref().map(Practice::part).transpose()?.flatten();
    if let Some((deployment, ..)) = &part {
        settings.deployment = Some(deployment.clone());
    }
    let clouds = clouds(global, paths, &settings, targets)?;
    let kinds = kinds(process.around)?;
    // The settings may name kinds of this user that the deployments of a scenario leave out.
    resolve_kinds(&mut settings, &kinds, process)?;
    let (kinds, neighbours) = match part {
        Some((_, own_kinds, neighbours)) => (kinds_of(own_kinds)?, Some(neighbours)),
        None => (kinds, peers::neighbours(settings.deployment.as_ref())?),
    };
    // This deployment keeps the resources of some kinds itself.
    let home = settings.deployment.as_ref().map(|it| Home {
        site: it.site(),
        service: it.service.clone(),
    });
    Ok(Prepared {
        settings,
        clouds,
        kinds: Arc::new(kinds.at_home(home)),
        neighbours,
        practice,
    })
}

async fn wire(
    process: &Process<'_>,
    settings: Settings,
    paths: &Paths,
    verb: Option<Needs<'_>>,
    notify: Option<NotifySettings>,
) -> Result<Embedded, Failure> {
    let global = process.global;
    let targets = verb.map_or(&[][..], |verb| verb.targets);
    let Prepared {
        settings,
        clouds,
        kinds,
        neighbours,
        mut practice,
    } = prepare(process, settings, paths, targets).await?;
    let clock = Clock::system();
    let gates = Gates::of(&settings.gate, &clouds, &clock)?;
    if let (Some(practice), None) = (&practice, &global.ledger) {
        // The ids of an earlier practice ledger would mean nothing in this cloud.
        remove_ledger(&paths.ledger).await?;
        practice.play_past(&clouds, &kinds, &paths.ledger).await?;
    }
    let opened = open_ledger(paths, gates.tombstones.clone(), &settings).await?;
    let (mapping, call_timeout) = (settings.mapping.clone(), settings.engine.call_timeout);
    let cloud = connect(clouds, clock.clone(), call_timeout);
    let uids = settings.api.uids.clone();
    let deployment = settings.deployment.clone();
    let engine = Engine::new(EngineParts {
        neighbours,
        cloud: with_registry(cloud, &kinds, &opened.ledger, &clock),
        ledger: opened.ledger,
        kinds: kinds.clone(),
        clock: clock.clone(),
        settings,
        tombstones: gates.tombstones.clone(),
        gates: gates.counters.clone(),
        ledger_name: paths.ledger.to_string(),
        epoch: opened.epoch,
    });
    let engine = match verb {
        None => engine,
        Some(_) => engine.idle_until_asked(),
    };
    let control = engine.control();
    // A client that reaches the socket must be able to read which scenario the engine has.
    if let Some(name) = &global.sandbox {
        practice::announce(name, paths)?;
    }
    let must_listen = verb.is_none_or(|verb| verb.listener);
    let api = serve(&control, paths, uids, &clock, must_listen).await?;
    opened
        .hold
        .announce(api.as_ref().and_then(|_| paths.serve.to_str()))?;
    let notifier = match &notify {
        Some(notify) => Some(super::notify::start(control.clone(), notify).await?),
        None => None,
    };
    let gates = gates
        .open(&kinds, &mapping, &control, &clock, call_timeout)
        .await?;
    let peers = match deployment {
        Some(deployment) => match peers::listen(&deployment, &control).await {
            Err(failure) if verb.is_some() => {
                tracing::warn!(
                    why = failure.message,
                    "the listener for peers is not served, so no other deployment can reach this engine"
                );
                None
            }
            listening => listening?,
        },
        None => None,
    };
    let engine = tokio::spawn(async move { engine.run().await });
    if let Some(practice) = &mut practice {
        practice.play_scene(&control, &paths.state).await?;
    }
    Ok(Embedded {
        control,
        hold: opened.hold,
        engine,
        api,
        gates,
        peers,
        notifier,
        practice,
    })
}

/// Resolves the kinds that the settings name. A rule for a kind that does not exist would protect nothing.
pub(super) fn resolve_kinds(
    settings: &mut Settings,
    kinds: &Kinds,
    process: &Process<'_>,
) -> Result<(), ConfigError> {
    config::resolve_kinds(settings, kinds).map_err(|(key, why)| {
        let file = config::file_of(process.global.config.as_deref(), process.around);
        config::wrong(&file.unwrap_or_default(), key, &why)
    })
}

/// Adds the registry to the clouds, if this deployment keeps resources itself.
fn with_registry(
    cloud: OpenStack,
    kinds: &Arc<Kinds>,
    ledger: &Arc<dyn Ledger>,
    clock: &Clock,
) -> Arc<dyn Cloud> {
    let Some(home) = kinds.home() else {
        return Arc::new(cloud);
    };
    let site = home.site.clone();
    let registry = Registry::new(site, kinds.clone(), ledger.clone(), clock.clone());
    let clouds: Vec<Arc<dyn Cloud>> = vec![Arc::new(cloud), Arc::new(registry)];
    Arc::new(CloudRouter::new(clouds, clock.clone()))
}

/// Serves the API on the engine's socket. None if that fails and the engine may work without its socket (`must_listen`
/// is false).
async fn serve(
    control: &Arc<dyn Control>,
    paths: &Paths,
    uids: BTreeMap<u32, Scope>,
    clock: &Clock,
    must_listen: bool,
) -> Result<Option<ApiHandle>, Failure> {
    let options = api::ServeOptions {
        uids,
        clock: clock.clone(),
        ..api::ServeOptions::new(paths.serve.clone())
    };
    let error = match api::serve(control.clone(), options).await {
        Ok(served) => return Ok(Some(served)),
        Err(error) => error,
    };
    let action_words = format!("serve the socket {}", paths.serve.display());
    let (why, advice) = why_unserved(error);
    if must_listen {
        return Err(Failure::usage(action_words, why, advice));
    }
    tracing::debug!(
        why,
        "the API's socket is not served, so no other process can attach to this engine"
    );
    Ok(None)
}

/// Says why the socket cannot be served, and what to do.
fn why_unserved(error: ServeError) -> (String, &'static str) {
    match error {
        ServeError::InUse(_) => (
            "another engine serves it".to_owned(),
            "End that engine, or choose another socket with --socket.",
        ),
        ServeError::NotASocket(_) => (
            "it exists and is not a socket".to_owned(),
            "Move it away, or choose another path with --socket.",
        ),
        ServeError::OpenFolder(folder) => (
            format!("other users can replace files in {}", folder.display()),
            "Take the right to write there from others (chmod go-w), or choose a socket in a private folder with \
             --socket.",
        ),
        ServeError::Io { source, .. } => {
            let advice = match source.kind() {
                // The path is too long for the system.
                ErrorKind::InvalidInput => "Choose a shorter path with --socket.",
                _ if private::is_untrusted(&source) => {
                    "Choose a socket in a folder of your own with --socket."
                }
                ErrorKind::PermissionDenied => {
                    "Give this user the right to write there, or choose another socket with --socket."
                }
                _ => "Choose another socket with --socket; `gone doctor` says more.",
            };
            (source.to_string(), advice)
        }
    }
}

/// Returns the number of open files when all listeners hold all their connections. Each connection of a gate
/// has another one to the upstream.
pub(super) fn files_wanted(settings: &Settings) -> u64 {
    let gates = settings.gate.iter().map(|gate| gate.limits.connections);
    let gates = 2 * gates.sum::<usize>() as u64;
    gates + files::OTHER_FILES
}

/// Raises the limit of open files. If that is not enough for all gates, reduces the connections that each
/// gate may hold. Otherwise strangers who connect to one gate could use up the open files that the ledger and
/// all other listeners need.
fn limit_gate_connections(settings: &mut Settings) {
    let all = files_wanted(settings);
    let others = files::OTHER_FILES;
    let wanted = all - others;
    let Some(limit) = files::raise_limit().filter(|limit| *limit < all) else {
        return;
    };
    let left = limit.saturating_sub(others).max(1);
    for gate in &mut settings.gate {
        let fewer = gate.limits.connections as u64 * left / wanted.max(1);
        let fewest = gate.limits.connections.min(FEWEST);
        gate.limits.connections = usize::try_from(fewer).unwrap_or(usize::MAX).max(fewest);
        tracing::warn!(listen = %gate.listen, limit, connections = gate.limits.connections,
            "too few open files are allowed (LimitNOFILE, ulimit -Hn): this gate holds fewer connections than its settings say");
    }
}

/// Creates the folders. gone's own folder is private. A folder that the user chose for the ledger or the socket is only
/// created if it is missing.
fn prepare_folders(paths: &Paths) -> Result<(), Failure> {
    let make = |folder: &Path| {
        let action_words = format!("make the folder {}", folder.display());
        let advice = "Give this user the right to write there; `gone doctor` says more.";
        private::folder(folder).map_err(Failure::usage_of(action_words, advice))
    };
    make(&paths.state)?;
    let files = [paths.ledger.file(), Some(paths.serve.as_path())];
    let folders = files.into_iter().flatten().filter_map(Path::parent);
    let mut missing = folders.filter(|it| !it.as_os_str().is_empty() && !it.exists());
    missing.try_for_each(make)
}

/// Returns the environment in which the clouds of this process are configured.
pub(super) fn cloud_environment(
    global: &Global,
    paths: &Paths,
) -> std::io::Result<openstack::Environment> {
    if global.sandbox.is_none() {
        return environment();
    }
    // Only the practice cloud is served: neither a variable nor a file may add a real cloud.
    let file = paths.clouds_file().display().to_string();
    Ok(openstack::Environment {
        variables: [("OS_CLIENT_CONFIG_FILE".to_owned(), file)].into(),
        current_dir: paths.state.clone(),
        home: None,
        system_dir: paths.state.clone(),
    })
}

/// Returns the chosen clouds. A wrongly configured cloud is left out and does not stop the others. It is an error if
/// the command line, a target, a mapping or a gate names that cloud, or if no cloud is left. Only a deployment may
/// work without a cloud.
fn clouds(
    global: &Global,
    paths: &Paths,
    settings: &Settings,
    targets: &[String],
) -> Result<Vec<(Site, openstack::CloudConfig)>, Failure> {
    let action_words = "read the clouds' configuration";
    let environment = cloud_environment(global, paths)?;
    let refuse = |message: String| {
        let advice = "`gone doctor` shows what was found, and where.";
        Failure::usage(action_words, message, advice)
    };
    let configured = CloudsConfig::load(&environment).map_err(|e| refuse(e.to_string()))?;
    if let Some(name) = &global.cloud {
        configured
            .cloud(name, None)
            .map_err(|e| refuse(e.to_string()))?;
    }
    let mut usable = Vec::new();
    let mut first_error = None;
    for (site, cloud) in chosen_sites(&configured, global) {
        match cloud {
            Ok(cloud) => usable.push((site, cloud)),
            Err(error) => {
                tracing::warn!(%site, %error, "this site is not served, because its configuration is wrong");
                first_error.get_or_insert(error);
            }
        }
    }
    for NamedSite { by, site, cloud } in
        named_sites(&configured, global, settings, targets, &usable)
    {
        let cloud = cloud.map_err(|error| refuse(format!("{by} names {site}: {error}")))?;
        usable.push((site, cloud));
    }
    match (usable.is_empty(), first_error) {
        (false, _) => Ok(usable),
        (true, Some(error)) => Err(refuse(error.to_string())),
        (true, None) if settings.deployment.is_some() => Ok(usable),
        (true, None) => Err(Failure::usage(
            action_words,
            "there is no cloud",
            "Write ~/.config/openstack/clouds.yaml or set OS_* variables; `gone --sandbox` needs neither.",
        )),
    }
}

/// Loads the built-in kinds, and `kinds/*.toml` of the user's configuration folder, by file name.
pub(super) fn kinds(around: &Surroundings) -> Result<Kinds, Failure> {
    let mut files = match around.config_folder().map(|folder| folder.join("kinds")) {
        Some(folder) => files_of(&folder).map_err(|error| {
            let said = format!("{}: {error}", folder.display());
            let advice = "Make it a folder that you may read, or move it away: it may hold rules \
                          that protect resources, so nothing runs without it.";
            Failure::usage(READ_KINDS, said, advice)
        })?,
        None => Vec::new(),
    };
    files.retain(|path| path.extension().is_some_and(|it| it == "toml"));
    files.sort();
    let sources = files.into_iter().map(|path| {
        let file = path.display().to_string();
        match std::fs::read_to_string(path) {
            Ok(text) => Ok(Source { file, text }),
            Err(error) => Err(format!("{file}: {error}")),
        }
    });
    let sources: Result<Vec<Source>, String> = sources.collect();
    kinds_of(sources.map_err(Failure::usage_of(READ_KINDS, CORRECT_KINDS))?)
}

const READ_KINDS: &str = "read the kinds";
const CORRECT_KINDS: &str = "Correct the file, or move it away.";

/// Lists the files of a folder; none if it does not exist.
fn files_of(folder: &Path) -> std::io::Result<Vec<PathBuf>> {
    match std::fs::read_dir(folder) {
        Ok(entries) => entries.map(|entry| Ok(entry?.path())).collect(),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}

/// Loads the built-in kinds and those of the given files.
fn kinds_of(sources: Vec<Source>) -> Result<Kinds, Failure> {
    let kinds = crate::cloud::load_kinds(&sources);
    kinds.map_err(Failure::usage_of(READ_KINDS, CORRECT_KINDS))
}
