//! An engine in this process: connects ledger, clouds, kinds and socket.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio::task::JoinHandle;

use super::clouds::{NamedSite, PRACTICE, chosen_sites, connect, environment, named_sites};
use super::gates::Gates;
use super::ledger::{ledger_failure, open_ledger, remove_ledger};
use super::practice::{self, Scenario, Scene, ServerHandle, SideEngine};
use super::{Paths, peers, settings_failure};
use crate::cloud::openstack::{self, CloudsConfig};
use crate::cloud::{Cloud, CloudRouter, OpenStack, Registry};
use crate::control::Control;
use crate::domain::kinds::{Home, Kinds, Source};
use crate::domain::model::{Scope, Site};
use crate::engine::{Engine, EngineParts};
use crate::frontends::api::{self, ApiHandle, ServeError};
use crate::frontends::cli::args::Global;
use crate::frontends::cli::{Exit, Failure, Verb};
use crate::frontends::gate::GateHandle;
use crate::frontends::notify::Notifier;
use crate::ledger::{Hold, Ledger, LedgerError, Opened};
use crate::peers::ListenHandle;
use crate::system::clock::Clock;
use crate::system::config::{
    self, ConfigError, DeploymentSettings, NotifySettings, Settings, Surroundings,
};
use crate::system::{files, private};

/// Number of connections that each gate may hold, however few open files are allowed.
const FEWEST: usize = 16;

/// An engine that runs until [`Embedded::stop`], or until this process ends.
pub(super) struct Embedded {
    pub(super) control: Arc<dyn Control>,
    hold: Arc<dyn Hold>,
    engine: JoinHandle<Result<(), LedgerError>>,
    /// None for a verb that needs no listener, if the socket cannot be served.
    api: Option<ApiHandle>,
    gates: Vec<GateHandle>,
    /// None without peers, or if peers cannot reach the engine of a single verb.
    peers: Option<ListenHandle>,
    /// None for a verb, which ends before an answer would come.
    notifier: Option<Notifier>,
    /// The other deployments of a practice scenario.
    beside: Vec<SideEngine>,
    /// The practice cloud, which lives as long as its engine.
    sandbox: Option<ServerHandle>,
}

impl Embedded {
    /// Waits until the engine ends by itself, which happens only if the ledger cannot be used.
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
        let notifier = async {
            if let Some(notifier) = self.notifier {
                notifier.stop().await;
            }
        };
        let gates = futures_util::future::join_all(self.gates.into_iter().map(GateHandle::stop));
        let peers = async {
            if let Some(peers) = self.peers {
                peers.stop().await;
            }
        };
        let api = async {
            if let Some(api) = self.api {
                api.stop().await;
            }
        };
        tokio::join!(api, notifier, gates, peers);
        self.engine.abort();
        // The task was aborted, so its result says nothing.
        let _ = self.engine.await;
        self.hold.release().await;
        for beside in self.beside {
            beside.stop().await;
        }
        drop(self.sandbox);
    }
}

/// Options that differ between an engine that stays and one for a verb.
struct EngineOptions {
    notify: Option<NotifySettings>,
    /// Whether it is an error that peers cannot reach this engine.
    must_reach_peers: bool,
    /// Whether it is an error that the socket cannot be served.
    must_listen: bool,
    /// Whether the engine runs deletions without being asked to.
    works: bool,
}

/// Starts an engine for one verb. It notifies nobody, opens no gate, and runs deletions only if the verb asks
/// for that (P10). It also serves the regions that the verb's targets name. Peers can reach it, since a step
/// may wait for a clearance of theirs. If they cannot, the engine does what it can without them.
pub(super) async fn embed(
    global: &Global,
    settings: Settings,
    paths: &Paths,
    around: &Surroundings,
    verb: &impl Verb,
) -> Result<Embedded, Failure> {
    let settings = Settings {
        gate: Vec::new(),
        deployment: settings.deployment.map(|it| alone_for_practice(it, global)),
        ..settings
    };
    let options = EngineOptions {
        notify: None,
        must_reach_peers: false,
        must_listen: verb.needs_listener(),
        works: false,
    };
    wire(global, settings, paths, around, verb.targets(), options).await
}

/// Starts an engine that stays: it notifies people, opens gates and listens for peers. For a practice cloud
/// it does none of these, unless the settings were given explicitly.
pub(super) async fn embed_to_stay(
    global: &Global,
    settings: Settings,
    paths: &Paths,
    around: &Surroundings,
) -> Result<Embedded, Failure> {
    let practice = is_practice(global);
    let notify = (!practice).then(|| settings.notify.clone());
    let gate = match practice {
        true => Vec::new(),
        false => settings.gate,
    };
    let settings = Settings {
        gate,
        deployment: settings.deployment.map(|it| alone_for_practice(it, global)),
        ..settings
    };
    let options = EngineOptions {
        notify,
        must_reach_peers: true,
        must_listen: true,
        works: true,
    };
    wire(global, settings, paths, around, &[], options).await
}

/// Whether this is a practice cloud whose settings were not given explicitly.
fn is_practice(global: &Global) -> bool {
    global.sandbox.is_some() && global.config.is_none()
}

/// Removes the peers for a practice cloud, because the engine of a practice ledger must not speak to real
/// deployments in this deployment's name.
fn alone_for_practice(deployment: DeploymentSettings, global: &Global) -> DeploymentSettings {
    match is_practice(global) {
        true => DeploymentSettings {
            peers: Vec::new(),
            ..deployment
        },
        false => deployment,
    }
}

/// The settings, clouds and kinds of an engine, which are read before its ledger is opened.
struct Prepared {
    settings: Settings,
    clouds: Vec<(Site, openstack::CloudConfig)>,
    kinds: Arc<Kinds>,
    scenario: Option<Scenario>,
    scene: Option<Scene>,
    /// The practice cloud, which lives as long as its engine.
    sandbox: Option<ServerHandle>,
}

/// Reads clouds and kinds, completes the settings with them, and starts the practice cloud of a scenario.
async fn prepare(
    global: &Global,
    settings: Settings,
    paths: &Paths,
    around: &Surroundings,
    targets: &[String],
) -> Result<Prepared, Failure> {
    let settings = limit_gate_connections(settings);
    prepare_folders(paths)?;
    let named = global.sandbox.as_deref();
    let scenario = named.map(practice::scenario).transpose()?;
    let scene = scenario.as_ref().and_then(Scene::of);
    let sandbox = match &scenario {
        Some(scenario) => Some(practice::start(scenario, paths).await?),
        None => None,
    };
    let settings = match &scene {
        Some(scene) => Settings {
            deployment: Some(scene.settings()),
            ..settings
        },
        None => settings,
    };
    let clouds = clouds(global, paths, &settings, targets)?;
    let kinds = Arc::new(kinds_at_home(scene.as_ref(), around, &settings)?);
    // The settings may name kinds of this user that a scene leaves out.
    let settings = match &scene {
        Some(_) => resolve_kinds(settings, &self::kinds(around)?, global, around),
        None => resolve_kinds(settings, &kinds, global, around),
    };
    Ok(Prepared {
        settings: settings.map_err(|error| settings_failure(&error))?,
        clouds,
        kinds,
        scenario,
        scene,
        sandbox,
    })
}

async fn wire(
    global: &Global,
    settings: Settings,
    paths: &Paths,
    around: &Surroundings,
    targets: &[String],
    options: EngineOptions,
) -> Result<Embedded, Failure> {
    let Prepared {
        settings,
        clouds,
        kinds,
        scenario,
        scene,
        sandbox,
    } = prepare(global, settings, paths, around, targets).await?;
    let clock = Clock::system();
    let gates = Gates::of(&settings.gate, &clouds, &clock)?;
    if let (Some(scenario), Some(cloud), None) = (&scenario, &sandbox, &global.ledger) {
        // The ids of an earlier practice ledger would mean nothing in this cloud.
        remove_ledger(&paths.ledger).await?;
        practice::play_past(scenario, cloud, &clouds, &kinds, &paths.ledger).await?;
    }
    let Opened {
        ledger,
        epoch,
        hold,
    } = open_ledger(paths, gates.tombstones.clone(), &settings).await?;
    let (mapping, call_timeout) = (settings.mapping.clone(), settings.engine.call_timeout);
    let cloud = connect(clouds, clock.clone(), call_timeout);
    let uids = settings.api.uids.clone();
    let deployment = settings.deployment.clone();
    let engine = Engine::new(EngineParts {
        neighbours: match &scene {
            Some(scene) => Some(scene.neighbours()),
            None => peers::neighbours(deployment.as_ref())?,
        },
        cloud: with_registry(cloud, &kinds, &ledger, &clock),
        ledger,
        kinds: kinds.clone(),
        clock: clock.clone(),
        settings,
        tombstones: gates.tombstones.clone(),
        gates: gates.counters.clone(),
        ledger_name: paths.ledger.to_string(),
        epoch,
    });
    let engine = match options.works {
        true => engine,
        false => engine.idle_until_asked(),
    };
    let control = engine.control();
    // A client that reaches the socket must be able to read which scenario the engine has.
    if let Some(name) = &global.sandbox {
        practice::announce(name, paths)?;
    }
    let api = serve(&control, paths, uids, &clock, options.must_listen).await?;
    let socket = api.as_ref().and_then(|_| paths.serve.to_str());
    hold.announce(socket)
        .map_err(|error| ledger_failure(&error))?;
    let notifier = match &options.notify {
        Some(notify) => Some(super::notify::start(control.clone(), notify).await?),
        None => None,
    };
    let gates = gates
        .open(&kinds, &mapping, &control, &clock, call_timeout)
        .await?;
    let peers = match deployment {
        Some(deployment) => match peers::listen(&deployment, &control).await {
            Err(failure) if !options.must_reach_peers => {
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
    let beside = match scene {
        Some(scene) => scene.play(&control, &paths.state).await?,
        None => Vec::new(),
    };
    Ok(Embedded {
        beside,
        control,
        hold,
        engine,
        api,
        gates,
        peers,
        notifier,
        sandbox,
    })
}

/// Resolves the kinds that the settings name. A rule for a kind that does not exist would protect nothing.
pub(super) fn resolve_kinds(
    mut settings: Settings,
    kinds: &Kinds,
    global: &Global,
    around: &Surroundings,
) -> Result<Settings, ConfigError> {
    match config::resolve_kinds(&mut settings, kinds) {
        Ok(()) => Ok(settings),
        Err((key, why)) => {
            let file = config::file_of(global.config.as_deref(), around).unwrap_or_default();
            Err(config::wrong(&file, key, &why))
        }
    }
}

/// Reads the kinds, and notes the site and service of this deployment, which keeps the resources of some kinds itself.
fn kinds_at_home(
    scene: Option<&Scene>,
    around: &Surroundings,
    settings: &Settings,
) -> Result<Kinds, Failure> {
    let kinds = match scene {
        Some(scene) => kinds_of(scene.own_kinds()?)?,
        None => kinds(around)?,
    };
    let home = settings.deployment.as_ref().map(|it| Home {
        site: it.site(),
        service: it.service.clone(),
    });
    Ok(kinds.at_home(home))
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

/// Serves the API on the engine's socket. None if that fails, and the engine works without it (`must_listen` is false).
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
            "Move it away, or choose another with --socket.",
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
fn limit_gate_connections(settings: Settings) -> Settings {
    let mut settings = settings;
    let all = files_wanted(&settings);
    let others = files::OTHER_FILES;
    let wanted = all - others;
    let Some(limit) = files::raise_limit().filter(|limit| *limit < all) else {
        return settings;
    };
    let left = limit.saturating_sub(others).max(1);
    for gate in &mut settings.gate {
        let fewer = gate.limits.connections as u64 * left / wanted.max(1);
        gate.limits.connections = usize::try_from(fewer).unwrap_or(usize::MAX).max(FEWEST);
        tracing::warn!(listen = %gate.listen, limit, connections = gate.limits.connections,
            "too few open files are allowed (LimitNOFILE, ulimit -Hn): this gate holds fewer connections than its settings say");
    }
    settings
}

/// Creates the folders. gone's own folders are private. A folder that the user chose for the ledger is only
/// created if it is missing.
fn prepare_folders(paths: &Paths) -> Result<(), Failure> {
    let failed = |folder: &Path, error: std::io::Error| {
        let action_words = format!("make the folder {}", folder.display());
        let advice = "Give this user the right to write there; `gone doctor` says more.";
        Failure::usage(action_words, error.to_string(), advice)
    };
    private::folder(&paths.state).map_err(|error| failed(&paths.state, error))?;
    let needed = [paths.ledger.file(), Some(paths.serve.as_path())];
    for path in needed.into_iter().flatten() {
        match path.parent() {
            Some(folder) if !folder.as_os_str().is_empty() && !folder.exists() => {
                private::folder(folder).map_err(|error| failed(folder, error))?;
            }
            _ => {}
        }
    }
    Ok(())
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

/// Returns the cloud that is chosen if the command line chooses none.
pub(super) fn default_cloud<'c>(global: &Global, clouds: &'c CloudsConfig) -> Option<&'c str> {
    match global.sandbox {
        // The practice cloud's second entry in `clouds.yaml` is the same cloud, as a member of another
        // project sees it.
        Some(_) => Some(PRACTICE),
        None => clouds.default_cloud(),
    }
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
        Failure::usage(
            action_words,
            message,
            "`gone doctor` shows what was found, and where.",
        )
    };
    let configured = CloudsConfig::load(&environment).map_err(|e| refuse(e.to_string()))?;
    if let Some(name) = global.cloud.as_deref() {
        let known = configured.cloud(name, None);
        known.map_err(|error| refuse(error.to_string()))?;
    }
    let mut usable = Vec::new();
    let mut first_error = None;
    let default = default_cloud(global, &configured);
    for (site, cloud) in chosen_sites(&configured, global, default) {
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
    let action_words = "read the kinds";
    let advice = "Correct the file, or move it away.";
    let mut sources = Vec::new();
    let folder = around.config_folder().map(|folder| folder.join("kinds"));
    let mut files = match &folder {
        Some(folder) => kinds_files(folder).map_err(|error| {
            let said = format!("{}: {error}", folder.display());
            let advice = "Make it a folder that you may read, or move it away: it may hold rules \
                          that protect resources, so nothing runs without it.";
            Failure::usage(action_words, said, advice)
        })?,
        None => Vec::new(),
    };
    files.sort();
    for path in files {
        let file = path.display().to_string();
        let text = std::fs::read_to_string(&path)
            .map_err(|error| Failure::usage(action_words, format!("{file}: {error}"), advice))?;
        sources.push(Source { file, text });
    }
    kinds_of(sources)
}

/// Lists the kinds files of a folder; none if it does not exist.
fn kinds_files(folder: &Path) -> std::io::Result<Vec<PathBuf>> {
    let entries = match std::fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let mut files = Vec::new();
    for entry in entries {
        let path = entry?.path();
        if path.extension().is_some_and(|it| it == "toml") {
            files.push(path);
        }
    }
    Ok(files)
}

/// Loads the built-in kinds and those of the given files.
fn kinds_of(sources: Vec<Source>) -> Result<Kinds, Failure> {
    crate::cloud::load_kinds(&sources).map_err(|error| {
        let advice = "Correct the file, or move it away.";
        Failure::usage("read the kinds", error.to_string(), advice)
    })
}
