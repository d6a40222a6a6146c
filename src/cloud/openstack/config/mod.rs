//! The configured clouds and their logins: `clouds.yaml`, `secure.yaml` and `OS_*` variables, as openstacksdk
//! reads them.
//!
//! 1. `clouds.{yaml,yml,json}` is the first file that exists, and that this user may read, of:
//!    `$OS_CLIENT_CONFIG_FILE`, then in the current folder, `$XDG_CONFIG_HOME/openstack`, `~/.config/openstack` and
//!    `/etc/openstack`. `secure.*` is found in the same way, with `$OS_CLIENT_SECURE_FILE`, and its values win.
//! 2. `OS_*` variables make one more cloud, `envvars` (or `$OS_CLOUD_NAME`), if `OS_AUTH_URL` is among them.
//!    In the cloud that `$OS_CLOUD` names, they choose region, project, interface and certificates, as in
//!    openstackclient. In other clouds they change nothing.
//! 3. A region's `values` win over the cloud's.
//! 4. `HTTP_PROXY`, `HTTPS_PROXY` and `ALL_PROXY` are the proxies of all clouds. The hosts that `NO_PROXY`
//!    lists (`host`, `.domain`, address, network, `*`, each also with `:port`) are reached directly.
//! 5. A cloud with `profile: NAME` takes the values that it does not set itself from the entry NAME of
//!    `public-clouds` in `clouds-public.{yaml,yml,json}`, which is searched for as in 1, with
//!    `$OS_CLIENT_VENDOR_FILE`.
//!
//! gone is stricter than openstacksdk where openstacksdk's silence could choose another cloud than the user
//! meant. A file that a variable names must exist and be readable. A broken file is an error and is not skipped. Where
//! `regions` and `region_name` are both given, `region_name` counts (openstacksdk takes the first of
//! `regions`; a warning says so). gone reads neither the profiles that openstacksdk ships nor those at a URL:
//! a cloud that needs one fails with an error that says so.
mod error;
mod file;
mod profiles;
mod proxies;
mod raw;
mod resolve;

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub use error::ConfigError;
pub(super) use error::{did_you_mean, nearest};
pub use proxies::{Proxies, Proxy};
pub use resolve::{CloudConfig, Credentials, DomainRef, Interface, Scope, Tls, UserRef};

use raw::RawCloud;

/// The variables and folders of a process from which the configuration is read, as values.
#[derive(Clone, Default)]
pub struct Environment {
    pub variables: BTreeMap<String, String>,
    pub current_dir: PathBuf,
    pub home: Option<PathBuf>,
    /// The host's folder, `/etc/openstack`.
    pub system_dir: PathBuf,
}

impl fmt::Debug for Environment {
    // The variables may contain OS_PASSWORD.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Environment")
            .field("current_dir", &self.current_dir)
            .field("home", &self.home)
            .finish_non_exhaustive()
    }
}

impl Environment {
    /// Reads the environment of this process. Variables that are not UTF-8 are left out.
    ///
    /// # Errors
    /// The current folder does not exist, or cannot be read.
    pub fn of_process() -> std::io::Result<Self> {
        let variables: BTreeMap<String, String> = std::env::vars_os()
            .filter_map(|(k, v)| Some((k.into_string().ok()?, v.into_string().ok()?)))
            .collect();
        // Inside a snap, HOME is not the user's home. openstacksdk looks in the real one.
        let home = ["SNAP_REAL_HOME", "HOME"]
            .iter()
            .find_map(|name| variables.get(*name))
            .map(PathBuf::from);
        Ok(Self {
            variables,
            current_dir: std::env::current_dir()?,
            home,
            system_dir: PathBuf::from("/etc/openstack"),
        })
    }

    fn variable(&self, name: &str) -> Option<&str> {
        let value = self.variables.get(name).map(String::as_str);
        value.filter(|value| !value.is_empty())
    }

    /// Returns the folders that are searched, in order.
    fn folders(&self) -> Vec<PathBuf> {
        let mut folders = vec![self.current_dir.clone()];
        if let Some(config) = self.variable("XDG_CONFIG_HOME") {
            folders.push(Path::new(config).join("openstack"));
        }
        if let Some(home) = &self.home {
            folders.push(home.join(".config/openstack"));
        }
        folders.push(self.system_dir.clone());
        folders
    }
}

/// Where a value was found.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Origin {
    File(PathBuf),
    /// `OS_*` variables.
    Environment,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => write!(f, "{}", path.display()),
            Self::Environment => f.write_str("environment"),
        }
    }
}

/// A finding that does not keep gone from using the other clouds and files, but that an admin should know about
/// (`gone doctor` shows it).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Warning {
    /// A file with passwords that group or others may read.
    #[error("{p} may be read by others (mode {mode:03o}): chmod 600 {p}", p = path.display())]
    ReadableByOthers { path: PathBuf, mode: u32 },
    /// A file that exists in one of the searched folders, but that this user may not read. The next file is used.
    #[error("{} cannot be read and is ignored", path.display())]
    Unreadable { path: PathBuf },
    /// An unknown key that is close to a known one.
    #[error("{origin}: cloud {cloud:?}: {field:?} is unknown; did you mean {nearest:?}?")]
    UnknownField {
        origin: Origin,
        cloud: String,
        field: String,
        nearest: String,
    },
    /// One cloud of a file cannot be read. The other clouds can.
    #[error("{error}; this cloud cannot be used")]
    Broken { error: String },
    /// `OS_*` variables that would configure a cloud, but `OS_CLOUD` names none.
    #[error(
        "OS_CLOUD is not set, so gone ignores {}; set OS_CLOUD to the cloud that these variables are for",
        names.join(", ")
    )]
    VariablesUnused { names: Vec<String> },
    /// A variable without effect, because one of the cloud's own fields takes precedence.
    #[error(
        "{name} is ignored: the {by} of cloud {cloud:?} takes precedence, as in openstackclient"
    )]
    VariableIgnored {
        name: String,
        cloud: String,
        by: &'static str,
    },
    /// `region_name` is not the first of `regions`. Other clients take the first one.
    #[error(
        "cloud {cloud:?}: region_name {region_name:?} is used here, but openstacksdk takes \
         the first of regions, {first:?}"
    )]
    RegionNotFirst {
        cloud: String,
        region_name: String,
        first: String,
    },
}

/// One cloud as configured, before it is resolved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CloudEntry {
    pub name: String,
    /// Region names, in the order of the file; empty if none is configured.
    pub regions: Vec<String>,
    /// The files, or the environment, that describe the cloud.
    pub found_in: Vec<Origin>,
}

/// All configured clouds.
pub struct CloudsConfig {
    clouds: BTreeMap<String, RawCloud>,
    /// The clouds that cannot be read, and why.
    broken: BTreeMap<String, ConfigError>,
    files: Vec<PathBuf>,
    searched: Vec<PathBuf>,
    default_cloud: Option<String>,
    home: Option<PathBuf>,
    proxies: Arc<Proxies>,
    warnings: Vec<Warning>,
}

impl fmt::Debug for CloudsConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CloudsConfig")
            .field("clouds", &self.clouds.keys().collect::<Vec<_>>())
            .field("files", &self.files)
            .finish_non_exhaustive()
    }
}

impl CloudsConfig {
    /// Reads the files and variables. It is not an error if there is no file: there is then at most the cloud of the
    /// variables.
    ///
    /// # Errors
    /// A file that a variable names is missing; a file cannot be read, is not YAML, or has another shape than expected
    /// outside of its clouds; or the cloud of the environment has the name of a cloud in the file.
    pub fn load(environment: &Environment) -> Result<Self, ConfigError> {
        let mut warnings = Vec::new();
        let mut files = Vec::new();
        let mut searched = Vec::new();
        let mut clouds: BTreeMap<String, RawCloud> = BTreeMap::new();
        let mut broken = BTreeMap::new();
        for (stem, variable) in [
            ("clouds", "OS_CLIENT_CONFIG_FILE"),
            ("secure", "OS_CLIENT_SECURE_FILE"),
        ] {
            let found = file::find(environment, stem, variable, &mut searched, &mut warnings)?;
            let Some((path, text)) = found else { continue };
            file::warn_of_mode(&path, &mut warnings);
            let parsed = file::parse(&path, &text, "clouds")?;
            for (name, cloud) in parsed.clouds {
                clouds.entry(name).or_default().overlay(cloud);
            }
            for (name, error) in parsed.broken {
                let cloud = clouds.entry(name.clone()).or_default();
                cloud.found_in.push(Origin::File(path.clone()));
                warnings.push(Warning::Broken {
                    error: error.to_string(),
                });
                broken.entry(name).or_insert(error);
            }
            files.push(path);
        }
        let envvars = environment.variable("OS_CLOUD_NAME").unwrap_or("envvars");
        let from_variables = raw::from_variables(&environment.variables);
        let mut default_cloud = environment.variable("OS_CLOUD").map(str::to_owned);
        if let Some(cloud) = from_variables {
            if let Some(clash) = clouds.get(envvars) {
                return Err(ConfigError::NameClash {
                    origin: clash.found_in.first().cloned(),
                    cloud: envvars.to_owned(),
                });
            }
            clouds.insert(envvars.to_owned(), cloud);
            default_cloud.get_or_insert_with(|| envvars.to_owned());
        }
        if default_cloud.is_none() && clouds.len() == 1 {
            default_cloud = clouds.keys().next().cloned();
        }
        for (name, error) in profiles::lay_under(&mut clouds, environment, &mut warnings) {
            broken.entry(name).or_insert(error);
        }
        for (name, cloud) in &clouds {
            warnings.extend(cloud.unknown_fields(name));
            warnings.extend(cloud.region_not_first(name));
        }
        let described = clouds.contains_key(envvars);
        let beside = raw::beside(&environment.variables);
        if let Some(name) = environment.variable("OS_CLOUD") {
            // A missing cloud is reported when it is used.
            let ignored = clouds.get_mut(name).map(|cloud| cloud.choose(beside));
            let ignored = ignored.into_iter().flatten();
            let cloud = name.to_owned();
            warnings.extend(ignored.map(|(name, by)| Warning::VariableIgnored {
                name,
                cloud: cloud.clone(),
                by,
            }));
        } else if !beside.is_empty() && !described {
            let names = beside.iter().map(|(key, _)| raw::variable(key)).collect();
            warnings.push(Warning::VariablesUnused { names });
        }
        Ok(Self {
            clouds,
            broken,
            files,
            searched,
            default_cloud,
            home: environment.home.clone(),
            proxies: Arc::new(Proxies::of(&environment.variables)),
            warnings,
        })
    }

    /// Returns the clouds, by name.
    pub fn clouds(&self) -> impl Iterator<Item = CloudEntry> + '_ {
        self.clouds.iter().map(|(name, raw)| CloudEntry {
            name: name.clone(),
            regions: raw.region_names(),
            found_in: raw.found_in.clone(),
        })
    }

    /// Returns the name of the cloud that is used when the command names none: the value of `OS_CLOUD`, else the cloud
    /// of the `OS_*` variables, else the only cloud.
    pub fn default_cloud(&self) -> Option<&str> {
        self.default_cloud.as_deref()
    }

    /// Returns the files that were read.
    pub fn files(&self) -> &[PathBuf] {
        &self.files
    }

    /// Returns the warnings that `gone doctor` shows.
    pub fn warnings(&self) -> &[Warning] {
        &self.warnings
    }

    /// Resolves one cloud for `region`. Without a region, the cloud's `region_name` or first region counts.
    ///
    /// # Errors
    /// There is no such cloud or region, or a field is missing or wrong. The error has the file, the cloud,
    /// the field and the nearest valid value.
    pub fn cloud(&self, name: &str, region: Option<&str>) -> Result<CloudConfig, ConfigError> {
        if let Some(error) = self.broken.get(name) {
            return Err(error.clone());
        }
        let raw = self.clouds.get(name).ok_or_else(|| {
            let known: Vec<String> = self.clouds.keys().cloned().collect();
            ConfigError::NoSuchCloud {
                cloud: name.to_owned(),
                known,
                searched: self.searched.clone(),
            }
        })?;
        resolve::resolve(name, raw, region, self.home.as_deref(), &self.proxies)
    }
}
