//! `gone doctor`: what was found on this machine, whether it is good, and what to do.
//!
//! [`examine`] is pure: it judges [`Facts`], which the caller has gathered. The functions at the end
//! gather the facts for which the imports of this module suffice.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use serde::Serialize;
use strum::Display;

use crate::cloud::openstack::config::CloudEntry;
use crate::cloud::{Cloud, Fields, Freshness, ListRows};
use crate::domain::kinds::{Kind, Kinds};
use crate::domain::mapping::Mapping;
use crate::domain::model::{ErrorClass, Site};
use crate::domain::text::{did_you_mean, escape};
use crate::system::private::{Trusted, check_way};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Display)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum Health {
    Ok,
    Warn,
    Fail,
}

/// The kind of failure of a failed check, which decides the exit code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum CheckFailure {
    Configuration,
    Auth,
    Unreachable,
    /// The ledger does not contain what was written.
    Damage,
}

impl From<ErrorClass> for CheckFailure {
    fn from(class: ErrorClass) -> Self {
        match class {
            ErrorClass::Auth => Self::Auth,
            ErrorClass::Fatal => Self::Configuration,
            _ => Self::Unreachable,
        }
    }
}

/// The result of one check.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Check {
    pub name: String,
    pub health: Health,
    pub found: String,
    /// What to do; empty if nothing.
    pub advice: String,
    /// Set exactly if the health is `Fail`.
    #[serde(rename = "trouble")]
    pub failure: Option<CheckFailure>,
}

/// The facts about the settings, clouds, ledger, engine and peers that `gone doctor` reports.
#[derive(Clone, Debug)]
pub struct Facts {
    /// The settings file that was read, `None` for the defaults; or what is wrong with it.
    pub settings: Result<Option<PathBuf>, String>,
    pub clouds: Result<Vec<CloudEntry>, String>,
    pub mapping: Vec<Mapping>,
    /// The keys of the settings that name clouds, each with the cloud.
    pub named_clouds: Vec<(&'static str, String)>,
    /// Findings that stop nothing but should be known, such as permissions and unknown fields. Each says what to do.
    pub warnings: Vec<String>,
    pub logins: Vec<Login>,
    pub ledger: LedgerFacts,
    pub engine: EngineFacts,
    /// The channels that notify people of the deletions and sites that need them.
    pub notify: Vec<NotifyFacts>,
    /// Name of the deployment that this engine belongs to, if the settings name one.
    pub deployment: Option<String>,
    /// The other deployments that the settings name.
    pub peers: Vec<PeerFacts>,
    pub terminal: TerminalFacts,
}

#[derive(Clone, Debug)]
pub struct PeerFacts {
    /// Service and region of the peer.
    pub peer: String,
    pub url: String,
    /// How the peer is recognized: the token's file, with its mode or why it cannot be read; or `its certificate`.
    pub known_by: String,
    /// Whether the peer answers in our protocol, or why it does not.
    pub answer: Result<(), String>,
}

#[derive(Clone, Debug)]
pub struct NotifyFacts {
    /// Name and destination of the channel.
    pub channel: String,
    /// The reason why the last message was not delivered; empty if it was.
    pub failing: String,
}

#[derive(Clone, Debug)]
pub struct Login {
    pub site: Site,
    /// The user that is logged in; or the class of the failure, and what failed, on what, and why.
    pub result: Result<String, (ErrorClass, String)>,
}

#[derive(Clone, Debug)]
pub struct LedgerFacts {
    /// The ledger's file or URL.
    pub name: String,
    /// Whether the ledger can be written, or its folder if there is no ledger.
    pub writable: Result<(), String>,
    /// Whether this program can read the ledger; `None` if there is none, or if it is on a server.
    pub readable: Option<Result<(), String>>,
}

#[derive(Clone, Debug)]
pub struct EngineFacts {
    pub socket: PathBuf,
    /// The process that holds the ledger's lock.
    pub owner_pid: Option<u32>,
    /// Whether the socket answered: the engine's version and pid, or why not.
    pub answer: Result<String, String>,
}

#[derive(Clone, Debug)]
pub struct TerminalFacts {
    pub name: Option<String>,
    pub is_terminal: bool,
    /// Columns and rows.
    pub size: Option<(u16, u16)>,
    pub colour: bool,
    pub utf8: bool,
}

/// The console needs at least this size.
const COLUMNS_MIN: u16 = 40;
const ROWS_MIN: u16 = 10;

/// Judges the facts; the checks are in the order in which problems should be fixed.
pub fn examine(facts: &Facts) -> Vec<Check> {
    let mut checks = vec![settings_check(&facts.settings)];
    checks.extend(cloud_checks(&facts.clouds, facts.deployment.as_ref()));
    if let Ok(clouds) = &facts.clouds {
        checks.extend(facts.mapping.iter().map(|it| mapping_check(it, clouds)));
        checks.extend(named_cloud_checks(facts, clouds));
    }
    checks.extend(facts.warnings.iter().map(|it| warn("files", it, "")));
    checks.extend(facts.logins.iter().map(login_check));
    checks.extend(ledger_checks(&facts.ledger));
    checks.push(engine_check(&facts.engine));
    checks.extend(facts.peers.iter().map(peer_check));
    checks.extend(notify_checks(&facts.notify));
    checks.push(terminal_check(&facts.terminal));
    checks
}

fn settings_check(settings: &Result<Option<PathBuf>, String>) -> Check {
    match settings {
        Ok(Some(file)) => ok("settings", file.display().to_string()),
        Ok(None) => ok(
            "settings",
            "no file; the defaults apply (gone --print-config shows them)",
        ),
        Err(error) => {
            let advice = "Correct the file; `gone --print-config` shows every key.";
            fail("settings", CheckFailure::Configuration, error, advice)
        }
    }
}

fn cloud_checks(
    clouds: &Result<Vec<CloudEntry>, String>,
    deployment: Option<&String>,
) -> Vec<Check> {
    let clouds = match clouds {
        Ok(clouds) => clouds,
        Err(error) => {
            let advice = "Correct the file; without it, no cloud can be reached.";
            return vec![fail("clouds", CheckFailure::Configuration, error, advice)];
        }
    };
    if clouds.is_empty() {
        let advice = "Write ~/.config/openstack/clouds.yaml or set OS_* variables; \
                      `gone --sandbox` needs neither.";
        return vec![match deployment {
            Some(name) => ok("clouds", format!("none; {name} keeps resources of its own")),
            None => fail("clouds", CheckFailure::Configuration, "no cloud", advice),
        }];
    }
    let check = |cloud: &CloudEntry| {
        let regions = match cloud.regions.as_slice() {
            [] => "no region named".to_owned(),
            regions => regions.join(", "),
        };
        let found_in: Vec<String> = cloud.found_in.iter().map(ToString::to_string).collect();
        let found = format!("{regions}; in {}", found_in.join(", "));
        ok(&format!("cloud {}", cloud.name), found)
    };
    clouds.iter().map(check).collect()
}

/// Checks that the sites of a mapping are regions of configured clouds: otherwise resources with copies there cannot
/// be deleted.
fn mapping_check(mapping: &Mapping, clouds: &[CloudEntry]) -> Check {
    let known = |site: &Site| match site.parts() {
        (name, Some(region)) => clouds.iter().any(|cloud| {
            let mut regions = cloud.regions.iter();
            cloud.name == name && (cloud.regions.is_empty() || regions.any(|it| it == region))
        }),
        // A deployment.
        (_, None) => false,
    };
    let mut sites = std::iter::once(&mapping.central).chain(&mapping.locals);
    let name = format!("mapping of {}", mapping.central);
    let locals: Vec<String> = mapping.locals.iter().map(Site::to_string).collect();
    match sites.find(|site| !known(site)) {
        None => ok(&name, format!("copies at {}", locals.join(", "))),
        Some(missing) => {
            let found = format!("{missing} is not a region of a configured cloud");
            let advice = "Correct [[mapping]] in the settings, or add the cloud to clouds.yaml.";
            fail(&name, CheckFailure::Configuration, found, advice)
        }
    }
}

/// Warns of clouds in the settings that do not exist: a rule for them has no effect.
fn named_cloud_checks(facts: &Facts, clouds: &[CloudEntry]) -> Vec<Check> {
    let known = || {
        let clouds = clouds.iter().map(|cloud| cloud.name.as_str());
        clouds.chain(facts.deployment.as_deref())
    };
    let unknown = facts.named_clouds.iter();
    let unknown = unknown.filter(|(_, name)| known().all(|it| it != name));
    let check = |(key, name): &(&str, String)| {
        let near = did_you_mean(name, known());
        let found = format!("there is no cloud \"{}\"{near}", escape(name));
        let advice = "Correct the settings, or add the cloud to clouds.yaml; until then the setting has no effect.";
        warn(key, found, advice)
    };
    unknown.map(check).collect()
}

fn login_check(login: &Login) -> Check {
    let name = format!("login {}", login.site);
    let (class, message) = match &login.result {
        Ok(user) => return ok(&name, user),
        Err(failure) => failure,
    };
    let advice = match class {
        ErrorClass::Auth => {
            "Check user, password, project and domains in clouds.yaml; a service that refuses a good login \
             needs another role, or other access rules of the application credential."
        }
        ErrorClass::Fatal => "Correct this cloud's entry in clouds.yaml.",
        _ => "Check the network, the proxy and auth_url.",
    };
    fail(&name, (*class).into(), message, advice)
}

fn ledger_checks(ledger: &LedgerFacts) -> Vec<Check> {
    let path = &ledger.name;
    let mut checks = vec![match &ledger.writable {
        Ok(()) => ok("ledger", format!("{path} can be written")),
        Err(error) => {
            let found = format!("{path} cannot be written: {error}");
            let advice = "Give this user the right to write there, and start the server if it is on one; or choose another \
                          ledger with --ledger.";
            fail("ledger", CheckFailure::Configuration, found, advice)
        }
    }];
    if let Some(Err(error)) = &ledger.readable {
        // The ledger's own errors say what to do.
        let advice = "Fix this ledger first, or use another one with --ledger FILE.";
        let failure = CheckFailure::Configuration;
        checks.push(fail("ledger content", failure, error, advice));
    }
    checks
}

fn engine_check(engine: &EngineFacts) -> Check {
    let socket = engine.socket.display();
    match (&engine.answer, engine.owner_pid) {
        (Ok(answer), _) => ok("engine", format!("{answer}; answers at {socket}")),
        (Err(error), Some(pid)) => {
            let found =
                format!("process {pid} holds the ledger, but does not answer at {socket}: {error}");
            let advice = "Wait a moment if the process is starting or ending; otherwise read its log, and end the process.";
            fail("engine", CheckFailure::Unreachable, found, advice)
        }
        (Err(_), None) => {
            let found = format!("no engine runs; `gone` starts one, which serves {socket}");
            ok("engine", found)
        }
    }
}

fn peer_check(facts: &PeerFacts) -> Check {
    let name = format!("peer {}", facts.peer);
    let (url, known_by) = (&facts.url, &facts.known_by);
    match &facts.answer {
        Ok(()) => ok(&name, format!("{url} answers; recognized by {known_by}")),
        Err(why) => {
            let found = format!("{why}; recognized by {known_by}");
            let advice = "Check that it runs and listens there, and check its ca_file; until it answers, resources that it \
                          may refer to are not deleted.";
            fail(&name, CheckFailure::Unreachable, found, advice)
        }
    }
}

fn notify_checks(channels: &[NotifyFacts]) -> Vec<Check> {
    if channels.is_empty() {
        let found = "nobody is notified of stuck steps, refused deletions and paused sites; to name recipients, set [notify] in the settings";
        return vec![ok("notify", found)];
    }
    let check = |facts: &NotifyFacts| match facts.failing.as_str() {
        "" => ok("notify", &facts.channel),
        why => {
            let found = format!("{} does not accept the last message: {why}", facts.channel);
            let advice = "The message is sent again until it is accepted; `gone notify test` sends a test message.";
            warn("notify", found, advice)
        }
    };
    channels.iter().map(check).collect()
}

fn terminal_check(terminal: &TerminalFacts) -> Check {
    if !terminal.is_terminal {
        let found = "standard output is not a terminal; only the console needs one";
        return ok("terminal", found);
    }
    let (name, size) = (terminal.name.as_deref().unwrap_or("unknown"), terminal.size);
    let shown_size = size.map(|(columns, rows)| format!(", {columns}x{rows}"));
    let shown_size = shown_size.unwrap_or_default();
    let no = if terminal.colour { "" } else { "no " };
    let letters = if terminal.utf8 { "UTF-8" } else { "ASCII" };
    let found = format!("{name}{shown_size}, {no}colour, {letters}");
    if size.is_some_and(|(columns, rows)| columns < COLUMNS_MIN || rows < ROWS_MIN) {
        let advice = format!("The console needs {COLUMNS_MIN}x{ROWS_MIN} at least.");
        return warn("terminal", found, &advice);
    }
    if !terminal.utf8 {
        let advice = "Lines are drawn in ASCII; set LANG to a UTF-8 locale for more.";
        return warn("terminal", found, advice);
    }
    ok("terminal", found)
}

pub fn ok(name: &str, found: impl Into<String>) -> Check {
    Check {
        name: name.to_owned(),
        health: Health::Ok,
        found: found.into(),
        advice: String::new(),
        failure: None,
    }
}

fn warn(name: &str, found: impl Into<String>, advice: &str) -> Check {
    Check {
        health: Health::Warn,
        advice: advice.to_owned(),
        ..ok(name, found)
    }
}

pub fn fail(name: &str, failure: CheckFailure, found: impl Into<String>, advice: &str) -> Check {
    Check {
        health: Health::Fail,
        failure: Some(failure),
        ..warn(name, found, advice)
    }
}

/// Logs in at every site, at the same time, and checks that each service answers.
pub async fn log_in(cloud: &dyn Cloud, kinds: &Kinds) -> Vec<Login> {
    let logins = cloud.sites().into_iter().map(|site| async {
        let result = match cloud.identity(&site, Freshness::ByLoggingIn).await {
            Ok(signed_in) => match shows_nothing(cloud, &site, kinds).await {
                None => Ok(signed_in.shown),
                Some((class, why)) => Err((class, format!("{}: {why}", signed_in.shown))),
            },
            Err(failure) => Err((failure.class, failure.message)),
        };
        Login { site, result }
    });
    futures_util::future::join_all(logins).await
}

/// Asks each service for one row of a kind. Returns the errors, with the class of the first one; none if all services
/// answer.
async fn shows_nothing(
    cloud: &dyn Cloud,
    site: &Site,
    kinds: &Kinds,
) -> Option<(ErrorClass, String)> {
    let mut services: BTreeMap<&str, &Kind> = BTreeMap::new();
    for kind in kinds.iter() {
        let list = kind.spec.list.as_ref();
        let is_plain = list.is_some_and(|list| list.within.is_none() && !list.own_only);
        if is_plain && kind.calls.extension().is_none() && !kind.is_native() {
            services.entry(&kind.service).or_insert(kind);
        }
    }
    let asked = services.values().map(|kind| async move {
        let rows = ListRows {
            site,
            kind,
            filter: None,
            fields: Fields::Id,
            rows_max: Some(1),
        };
        cloud.list(rows).await.err()
    });
    let failures = futures_util::future::join_all(asked).await;
    let failures: Vec<_> = failures.into_iter().flatten().collect();
    let class = match failures.first()? {
        failure if failure.status == Some(403) => ErrorClass::Auth,
        failure => failure.class,
    };
    let messages: BTreeSet<String> = failures.into_iter().map(|it| it.message).collect();
    Some((class, messages.into_iter().collect::<Vec<_>>().join("; ")))
}

/// Checks that this user can write the ledger, or if there is none the nearest folder above it. Writes
/// nothing.
pub fn can_write(ledger: &Path) -> Result<(), String> {
    use rustix::fs::{Access, access};
    let mut path = ledger;
    while !path.exists() {
        match path.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => path = parent,
            _ => path = Path::new("."),
        }
    }
    if path != ledger && !path.is_dir() {
        return Err(format!("{} is not a folder", path.display()));
    }
    let wanted = match path.is_dir() {
        true => Access::WRITE_OK | Access::EXEC_OK,
        false => Access::READ_OK | Access::WRITE_OK,
    };
    let granted = access(path, wanted).map_err(io::Error::from);
    granted.map_err(|error| format!("{}: {error}", path.display()))
}

/// Returns a warning if anyone but the owner and root can write the settings, which say which clouds are
/// asked, where messages go and what is protected.
pub fn writable_by_others(settings: &Path) -> Option<String> {
    let path = settings.display();
    let mode = std::fs::metadata(settings).ok()?.permissions().mode() & 0o777;
    if mode & 0o022 != 0 {
        let why = format!("{path} may be written by others (mode {mode:03o}): chmod go-w {path}");
        return Some(why);
    }
    let way = check_way(settings, Trusted::us()).err()?;
    Some(format!("{path} may be replaced by others: {way}"))
}

/// Returns a warning if anyone but the owner can read the ledger's file.
pub fn readable_by_others(ledger: &Path) -> Option<String> {
    let mode = std::fs::metadata(ledger).ok()?.permissions().mode() & 0o777;
    let path = ledger.display();
    (mode & 0o077 != 0)
        .then(|| format!("{path} may be read by others (mode {mode:03o}): chmod 600 {path}"))
}
