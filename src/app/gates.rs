//! Gates of the settings: each in front of a service of a site that this process has.

use std::sync::Arc;

use crate::cloud::openstack::{Cloud, HttpTransport, Session};
use crate::domain::model::Site;
use crate::faces::cli::Failure;
use crate::faces::gate::{self, GateHandle};
use crate::system::clock::Clock;
use crate::system::config::GateSettings;

const TRIED: &str = "open the gates";

/// A login for each gate, in their order.
pub(super) fn sessions(
    gates: &[GateSettings],
    clouds: &[(Site, Cloud)],
    clock: &Clock,
) -> Result<Vec<Arc<Session>>, Failure> {
    let session = |(position, gate): (usize, &GateSettings)| {
        let wanted = gate.upstream.site();
        let Some((_, cloud)) = clouds.iter().find(|(site, _)| *site == wanted) else {
            let known: Vec<String> = clouds.iter().map(|(site, _)| site.to_string()).collect();
            let why = format!(
                "gate[{position}].upstream: no such site {wanted}; this engine has {}",
                known.join(", ")
            );
            let advice =
                "Name one of these, or start the engine for that cloud (--cloud, --all-regions).";
            return Err(Failure::usage(TRIED, why, advice));
        };
        let unusable = |error: &dyn std::fmt::Display| {
            let advice = "Correct clouds.yaml; `gone doctor` says more.";
            Failure::usage(TRIED, error.to_string(), advice)
        };
        let transport = HttpTransport::new(cloud).map_err(|error| unusable(&error))?;
        let clock = clock.clone();
        let clock = Arc::new(move || clock.now());
        let session = Session::new(cloud.clone(), Arc::new(transport), clock);
        Ok(Arc::new(session))
    };
    gates.iter().enumerate().map(session).collect()
}

pub(super) async fn open(parts: gate::Parts) -> Result<GateHandle, Failure> {
    gate::serve(parts).await.map_err(|error| {
        let advice = "End what listens there, or give [[gate]] listen another address.";
        Failure::usage(TRIED, error.to_string(), advice)
    })
}
