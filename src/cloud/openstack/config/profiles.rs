//! Vendors' profiles, which a cloud names by `profile: NAME`: described in `clouds-public.yaml`.
use std::collections::BTreeMap;
use std::path::PathBuf;

use super::error::{ConfigError, did_you_mean, nearest, paths};
use super::file::{self, Parsed};
use super::raw::RawCloud;
use super::{Environment, Warning};

/// The keys by which a cloud names its profile. `cloud` is openstacksdk's old name for `profile`.
const KEYS: [&str; 2] = ["profile", "cloud"];

/// The profiles of this host, if it has a file of them.
struct Profiles {
    file: Option<PathBuf>,
    searched: Vec<PathBuf>,
    parsed: Parsed,
}

/// Adds to each cloud the values of the profile that it names; the cloud's own values win. Returns the clouds
/// whose profile is unknown or cannot be read, and why.
pub(super) fn lay_under(
    clouds: &mut BTreeMap<String, RawCloud>,
    environment: &Environment,
    warnings: &mut Vec<Warning>,
) -> Vec<(String, ConfigError)> {
    // The file is read only if a cloud needs it, so a broken file does not affect the other clouds.
    let mut profiles = None;
    let mut without = Vec::new();
    for (name, cloud) in clouds {
        if !KEYS.iter().any(|key| cloud.fields.contains_key(*key)) {
            continue;
        }
        let profiles = profiles.get_or_insert_with(|| read(environment, warnings));
        let profile = match profiles {
            Ok(profiles) => profiles.of(name, cloud),
            Err(error) => Err(error.clone()),
        };
        match profile {
            Ok(profile) => cloud.lay_over(profile),
            Err(error) => without.push((name.clone(), error)),
        }
    }
    without
}

fn read(environment: &Environment, warnings: &mut Vec<Warning>) -> Result<Profiles, ConfigError> {
    let mut searched = Vec::new();
    let variable = "OS_CLIENT_VENDOR_FILE";
    let stem = "clouds-public";
    let found = file::find(environment, stem, variable, &mut searched, warnings)?;
    let parsed = match &found {
        Some((path, text)) => file::parse(path, text, "public-clouds")?,
        None => Parsed::default(),
    };
    Ok(Profiles {
        file: found.map(|(path, _)| path),
        searched,
        parsed,
    })
}

impl Profiles {
    fn of(&self, name: &str, cloud: &RawCloud) -> Result<RawCloud, ConfigError> {
        let Some(wanted) = KEYS.iter().find_map(|key| cloud.fields.get(*key)) else {
            return Ok(RawCloud::default());
        };
        let profile = wanted.text();
        if let Some(found) = self.parsed.clouds.get(profile) {
            return Ok(found.clone());
        }
        if let Some(error) = self.parsed.broken.get(profile) {
            return Err(error.clone());
        }
        let known: Vec<&String> = self.parsed.clouds.keys().collect();
        let problem = match &self.file {
            _ if profile.contains("://") => "is a URL, and profiles are not fetched".to_owned(),
            Some(file) => {
                let near = did_you_mean(&nearest(profile, &known));
                format!("is not in {}{near}", file.display())
            }
            None => format!("is in no file (searched: {})", paths(&self.searched)),
        };
        Err(ConfigError::Profile {
            origin: wanted.origin.clone(),
            cloud: name.to_owned(),
            profile: profile.to_owned(),
            problem,
        })
    }
}

impl RawCloud {
    /// Adds the values of a profile that this cloud does not set itself. The cloud's own origins still come
    /// first.
    fn lay_over(&mut self, mut profile: Self) {
        let places = std::mem::take(&mut profile.found_in);
        let own = std::mem::replace(self, profile);
        self.overlay(own);
        self.found_in.extend(places);
    }
}
