//! Derives the sites from `clouds.yaml` and the global options.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use crate::cloud::{OpenStack, openstack};
use crate::domain::model::Site;
use crate::frontends::cli::args::Global;
use crate::system::clock::Clock;
use crate::system::config::Settings;

/// The name of the entry in the practice cloud's `clouds.yaml` that has the admin's login.
pub(super) const PRACTICE: &str = "sandbox";

/// Returns the cloud that is chosen: that of `--cloud`, or else the practice cloud or the default (`$OS_CLOUD`). None
/// means all clouds.
pub(super) fn chosen_cloud<'c>(
    clouds: &'c openstack::CloudsConfig,
    global: &'c Global,
) -> Option<&'c str> {
    global.cloud.as_deref().or_else(|| match global.sandbox {
        // The practice cloud's second entry in `clouds.yaml` is the same cloud, as a member of another
        // project sees it.
        Some(_) => Some(PRACTICE),
        None => clouds.default_cloud(),
    })
}

/// Returns the configured clouds that were chosen, with one site for each chosen region; all clouds if none was chosen.
/// An error in one cloud does not hide the others.
pub(super) fn chosen_sites(
    clouds: &openstack::CloudsConfig,
    global: &Global,
) -> Vec<(Site, Result<openstack::CloudConfig, openstack::ConfigError>)> {
    let mut sites = Vec::new();
    let wanted = chosen_cloud(clouds, global);
    let chosen = |name: &str| wanted.is_none_or(|cloud| cloud == name);
    for entry in clouds.clouds().filter(|entry| chosen(&entry.name)) {
        let regions: Vec<Option<&str>> = match (&global.region, global.all_regions) {
            (wanted, _) if !wanted.is_empty() => wanted.iter().map(|r| Some(r.as_str())).collect(),
            (_, all) if (all || global.sandbox.is_some()) && !entry.regions.is_empty() => {
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

/// A region that a target, a mapping or a gate names.
pub(super) struct NamedSite {
    /// The target, or the key of the setting, that names the region.
    pub(super) by: String,
    pub(super) site: Site,
    pub(super) cloud: Result<openstack::CloudConfig, openstack::ConfigError>,
}

/// Returns the regions that are named but not served yet, so that they are served too: a mapping works only if all
/// of its regions are served.
pub(super) fn named_sites(
    clouds: &openstack::CloudsConfig,
    global: &Global,
    settings: &Settings,
    targets: &[String],
    served: &[(Site, openstack::CloudConfig)],
) -> Vec<NamedSite> {
    // A practice cloud is served without any other cloud.
    if global.sandbox.is_some() {
        return Vec::new();
    }
    let mut known: BTreeSet<Site> = served.iter().map(|(site, _)| site.clone()).collect();
    let named = by_targets(clouds, targets).into_iter();
    let new = named.chain(by_settings(settings)).filter_map(|(by, site)| {
        let Site::Region { cloud, region } = &site else {
            return None;
        };
        let cloud = clouds.cloud(cloud, Some(region));
        known
            .insert(site.clone())
            .then_some(NamedSite { by, site, cloud })
    });
    new.collect()
}

fn by_settings(settings: &Settings) -> Vec<(String, Site)> {
    let mut named = Vec::new();
    for (position, mapping) in settings.mapping.iter().enumerate() {
        let key = |end: &str| format!("mapping[{position}].{end}");
        named.push((key("central"), mapping.central.clone()));
        let locals = mapping.locals.iter().cloned();
        named.extend(locals.map(|local| (key("locals"), local)));
    }
    let gates = settings.gate.iter().enumerate();
    named.extend(gates.map(|(at, gate)| (format!("gate[{at}].upstream"), gate.upstream.site())));
    named
}

/// Returns the regions of `clouds.yaml` that targets name, as in `network/web@prod/RegionTwo`.
fn by_targets(clouds: &openstack::CloudsConfig, targets: &[String]) -> Vec<(String, Site)> {
    let mut named = Vec::new();
    for entry in clouds.clouds() {
        for region in &entry.regions {
            let end = format!("@{}/{region}", entry.name);
            if let Some(target) = targets.iter().find(|target| target.ends_with(&end)) {
                named.push((target.clone(), Site::region(&entry.name, region)));
            }
        }
    }
    named
}

/// Returns the provider of these clouds: OpenStack over HTTP.
pub(super) fn connect(
    clouds: Vec<(Site, openstack::CloudConfig)>,
    clock: Clock,
    call_timeout: Duration,
) -> OpenStack {
    let transport = |cloud: &openstack::CloudConfig| match openstack::HttpTransport::new(cloud) {
        Ok(transport) => Ok(Arc::new(transport) as Arc<dyn openstack::Transport>),
        Err(error) => Err(error.to_string()),
    };
    OpenStack::new(clouds, Box::new(transport), clock, call_timeout)
        .rereading_config(Box::new(reread_config))
}

fn reread_config(cloud: &openstack::CloudConfig) -> Option<openstack::CloudConfig> {
    let clouds = openstack::CloudsConfig::load(&environment().ok()?).ok()?;
    clouds.cloud(&cloud.name, cloud.region.as_deref()).ok()
}

/// The variables that a console handed over.
static TAKEN_OVER: OnceLock<BTreeMap<String, String>> = OnceLock::new();

/// Returns the environment in which clouds are configured: the variables of this process, and those that a
/// console handed over.
pub(super) fn environment() -> io::Result<openstack::Environment> {
    let mut environment = openstack::Environment::of_process()?;
    let taken_over = TAKEN_OVER.get().into_iter().flatten();
    let taken_over = taken_over.map(|(name, value)| (name.clone(), value.clone()));
    environment.variables.extend(taken_over);
    Ok(environment)
}

/// Returns the variables that a console hands over: all that select a cloud or log in to it.
#[cfg(feature = "console")]
pub(super) fn variables() -> io::Result<BTreeMap<String, String>> {
    let mut variables = environment()?.variables;
    variables.retain(|name, _| name.starts_with("OS_"));
    Ok(variables)
}

/// Reads the variables that a console hands over, and closes the pipe.
pub(super) fn take_over_variables() -> io::Result<()> {
    let variables = serde_json::from_reader(io::stdin().lock())?;
    // The process reads the variables only once.
    let _ = TAKEN_OVER.set(variables);
    let nowhere = std::fs::File::open("/dev/null")?;
    Ok(rustix::stdio::dup2_stdin(&nowhere)?)
}
