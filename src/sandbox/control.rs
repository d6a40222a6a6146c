//! `/sandbox/v1`: seeds, faults, limits, the call log, users and tokens.
use chrono::{DateTime, Utc};
use http::StatusCode;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::faults::Rule;
use super::keystone::{CredentialChange, TokenChange, UserChange};
use super::neutron::{Seed, Seeded};
use super::octavia::BalancerChange;
use super::pace::Limits;
use super::wire::{Answer, Call};
use super::world::World;
use super::{glance, octavia};

/// The error is a text for the caller that names the field.
type Result<T> = std::result::Result<T, String>;

/// Handles a call below `/sandbox/v1`.
///
/// | call | body | answer |
/// |---|---|---|
/// | `POST /seed` | [`Seed`] | 201, the ids of the created resources |
/// | `PUT /faults` | a list of [`Rule`]; replaces all rules | 204 |
/// | `PUT /limits` | [`Limits`], or a list of them | 204 |
/// | `PUT /tokens` | [`TokenChange`] | 204 |
/// | `PUT /balancers` | [`BalancerChange`] | 204 |
/// | `PUT /users` | [`UserChange`] | 204 |
/// | `PUT /credential` | [`CredentialChange`] | 204 |
/// | `GET /calls?after=N` | | 200 `{"calls": […]}` |
///
/// An invalid body is answered with 400 `{"error": "FIELD: PROBLEM"}`.
pub(super) fn handle(world: &mut World, call: &Call<'_>, now: DateTime<Utc>) -> Answer {
    let result = match (call.method.as_str(), call.segments().as_slice()) {
        ("POST", ["seed"]) => parse(call.body)
            .and_then(|seed| world.seed(&seed, now))
            .map(|made| Answer::created(json!(made))),
        ("PUT", ["faults"]) => parse::<Vec<Rule>>(call.body)
            .and_then(|rules| world.faults.replace(rules))
            .map(|()| Answer::no_content()),
        ("PUT", ["limits"]) => parse_limits(call.body)
            .and_then(|limits| {
                limits
                    .into_iter()
                    .try_for_each(|limits| world.limit(limits))
            })
            .map(|()| Answer::no_content()),
        ("PUT", ["tokens"]) => parse::<TokenChange>(call.body)
            .and_then(|change| world.keystone.change_tokens(&change, now))
            .map(|()| Answer::no_content()),
        ("PUT", ["balancers"]) => parse::<BalancerChange>(call.body)
            .and_then(|change| world.direct(&change, now))
            .map(|()| Answer::no_content()),
        ("PUT", ["users"]) => parse::<UserChange>(call.body)
            .and_then(|change| world.keystone.change_user(change))
            .map(|()| Answer::no_content()),
        ("PUT", ["credential"]) => parse::<CredentialChange>(call.body).map(|change| {
            world.keystone.change_credential(change);
            Answer::no_content()
        }),
        ("GET", ["calls"]) => after(call).map(|after| {
            let calls: Vec<_> = world.log_after(after).collect();
            Answer::ok(json!({"calls": calls}))
        }),
        _ => {
            return Answer::json(
                StatusCode::NOT_FOUND,
                json!({"error": "no such control call"}),
            );
        }
    };
    result
        .unwrap_or_else(|problem| Answer::json(StatusCode::BAD_REQUEST, json!({"error": problem})))
}

fn after(call: &Call<'_>) -> Result<u64> {
    let text = call.param("after").unwrap_or("0");
    text.parse()
        .map_err(|_| format!("after: {text:?} is not a number"))
}

fn parse<T: DeserializeOwned>(body: &[u8]) -> Result<T> {
    let mut json = serde_json::Deserializer::from_slice(body);
    serde_path_to_error::deserialize(&mut json).map_err(|error| error.to_string())
}

/// Parses the limits of one region, or a list of them.
fn parse_limits(body: &[u8]) -> Result<Vec<Limits>> {
    match parse::<Value>(body)? {
        Value::Array(_) => parse(body),
        _ => parse(body).map(|limits| vec![limits]),
    }
}

impl World {
    fn region_index(&self, name: Option<&str>) -> Result<usize> {
        let Some(name) = name else {
            return Ok(0);
        };
        self.regions
            .iter()
            .position(|region| region.name == name)
            .ok_or_else(|| format!("region: no region {name}"))
    }

    pub(super) fn seed(&mut self, seed: &Seed, now: DateTime<Utc>) -> Result<Seeded> {
        let project = seed.project.as_deref().unwrap_or("admin");
        let caller = self
            .admin_of(project)
            .ok_or_else(|| format!("project: no project {project}"))?;
        let index = self.region_index(seed.region.as_deref())?;
        seed.check()?;
        let members = self.keystone.other_projects(&caller.project);
        let region = self.regions.get_mut(index).ok_or("region: there is none")?;
        let (made, _) = region.transact(caller, now, |session| {
            let mut made = seed.build(session)?;
            made.images = glance::seed(session, seed, &members)?;
            if let Some(subnet) = made.subnets.first() {
                made.load_balancers = octavia::seed(session, seed, *subnet)?;
            }
            Ok(made)
        });
        made.map_err(|refusal| format!("the seed does not fit: {refusal}"))
    }

    fn direct(&mut self, change: &BalancerChange, now: DateTime<Utc>) -> Result<()> {
        let index = self.region_index(change.region.as_deref())?;
        let region = self.regions.get_mut(index).ok_or("region: there is none")?;
        region.as_service(now, |session| change.apply(session))
    }

    pub(super) fn limit(&mut self, limits: Limits) -> Result<()> {
        limits.check()?;
        if limits.region.is_none() {
            for region in &mut self.regions {
                region.pace.set(limits.clone());
            }
            return Ok(());
        }
        let index = self.region_index(limits.region.as_deref())?;
        if let Some(region) = self.regions.get_mut(index) {
            region.pace.set(limits);
        }
        Ok(())
    }
}
