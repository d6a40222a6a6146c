//! `[deployment]`: this engine as one of several, and the service that it offers.

use serde::{Deserialize, Serialize};

use super::load::nonsense;
use crate::domain::model::Site;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeploymentSettings {
    /// What others call it; the site of what it keeps in its registry.
    pub name: String,
    /// The native kinds of this service are kept here.
    pub service: String,
    #[serde(default)]
    pub region: String,
}

impl DeploymentSettings {
    pub fn site(&self) -> Site {
        Site::Deployment {
            name: self.name.as_str().into(),
        }
    }
}

pub(super) fn first_nonsense(deployment: &DeploymentSettings) -> Option<(String, String)> {
    let DeploymentSettings { name, service, .. } = deployment;
    // It stands after the @ of a target, where a / would make it a region of a cloud.
    let fits = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    if name.is_empty() || !name.chars().all(fits) {
        let message = "must be letters, digits, \".\", \"_\" or \"-\"";
        return nonsense("deployment.name", message);
    }
    match service.is_empty() {
        true => nonsense("deployment.service", "must not be empty"),
        false => None,
    }
}
