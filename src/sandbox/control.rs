//! `/sandbox/v1`: seeds, faults, limits, load balancers, tokens, users, the credential and the call log.
use std::time::Duration;

use bytes::Bytes;
use chrono::{DateTime, Utc};
use http::{Request, StatusCode};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::core::{Answer, Call, Caller, Limits, Region};
use super::octavia::BalancerChange;
use super::seed::Seed;
use super::world::{Fate, Reply, World, call_of};

/// A result whose error is a text for the caller: `FIELD: PROBLEM`.
type Result<T> = std::result::Result<T, String>;

impl World {
    /// Answers one request that arrives at `now`.
    ///
    /// 1. Pending changes that end by `now` have ended, and deleted resources exist again if a fault revives them by
    ///    then.
    /// 2. The effect happens at `now`, whatever the delay: calls take effect in the order in which
    ///    this function is called.
    /// 3. The answer leaves `delay` later.
    ///
    /// `now` must not go backwards. Control calls, below `/sandbox/v1`, are not logged or delayed, and no
    /// fault hits them.
    pub fn handle(&mut self, request: Request<Bytes>, now: DateTime<Utc>) -> Reply {
        self.catch_up(now);
        let path = request.uri().path();
        let Some(below) = path.strip_prefix("/sandbox/v1") else {
            return self.serve(&request, now);
        };
        let call = call_of(&request, "", path, below);
        let answer = self.control(&call, now).unwrap_or_else(|problem| {
            Answer::json(StatusCode::BAD_REQUEST, json!({"error": problem}))
        });
        Reply {
            response: answer.into_response(),
            delay: Duration::ZERO,
            fate: Fate::Answer,
        }
    }

    /// Handles a control call.
    ///
    /// | call | body | answer |
    /// |---|---|---|
    /// | `POST /seed` | [`Seed`] | 201, the ids of the created resources |
    /// | `PUT /faults` | a list of `Rule`; replaces all rules | 204 |
    /// | `PUT /limits` | [`Limits`], or a list of them | 204 |
    /// | `PUT /tokens` | `TokenChange` | 204 |
    /// | `PUT /balancers` | [`BalancerChange`] | 204 |
    /// | `PUT /users` | `UserChange` | 204 |
    /// | `PUT /credential` | `CredentialChange` | 204 |
    /// | `GET /calls?after=N` | | 200 `{"calls": […]}` |
    ///
    /// An invalid body is answered with 400 `{"error": "FIELD: PROBLEM"}`, another call with 404.
    fn control(&mut self, call: &Call<'_>, now: DateTime<Utc>) -> Result<Answer> {
        let body = call.body;
        match (call.method.as_str(), call.segments().as_slice()) {
            ("POST", ["seed"]) => return self.seed(&parse(body)?, now).map(Answer::created),
            ("PUT", ["faults"]) => self.faults.replace(parse(body)?)?,
            ("PUT", ["limits"]) => {
                let limits = match parse(body)? {
                    Value::Array(_) => parse(body)?,
                    _ => vec![parse(body)?],
                };
                limits
                    .into_iter()
                    .try_for_each(|limits| self.limit(limits))?;
            }
            ("PUT", ["tokens"]) => self.keystone.change_tokens(&parse(body)?, now)?,
            ("PUT", ["balancers"]) => {
                let change: BalancerChange = parse(body)?;
                let region = self.region(change.region.as_deref())?;
                change.apply(&mut region.session(Caller::admin_of(""), now))?;
            }
            ("PUT", ["users"]) => self.keystone.change_user(parse(body)?, now)?,
            ("PUT", ["credential"]) => self.keystone.change_credential(parse(body)?),
            ("GET", ["calls"]) => {
                let text = call.param("after").unwrap_or("0");
                let after = text.parse();
                let after = after.map_err(|_| format!("after: {text:?} is not a number"))?;
                let calls: Vec<_> = self.log_after(after).collect();
                return Ok(Answer::ok(json!({"calls": calls})));
            }
            _ => {
                let problem = json!({"error": "there is no control call {method} {path}"});
                return Ok(Answer::json(StatusCode::NOT_FOUND, problem));
            }
        }
        Ok(Answer::no_content())
    }

    /// Returns the region with a name; without one, the first.
    fn region(&mut self, name: Option<&str>) -> Result<&mut Region> {
        let mut regions = self.regions.iter_mut();
        let found = regions.find(|region| name.is_none_or(|name| region.name == name));
        found.ok_or_else(|| format!("region: no region {}", name.unwrap_or_default()))
    }

    pub(super) fn seed(&mut self, seed: &Seed, now: DateTime<Utc>) -> Result<Value> {
        let project = seed.project.as_deref().unwrap_or("admin");
        let id = self.keystone.project_id(project);
        let caller = Caller::admin_of(id.ok_or_else(|| format!("project: no project {project}"))?);
        let members = self.keystone.other_projects(&caller.project);
        let region = self.region(seed.region.as_deref())?;
        seed.check()?;
        let (made, _) = region.transact(caller, now, |session| seed.build(session, members));
        made.map_err(|problem| format!("the seed does not fit: {problem}"))
    }

    pub(super) fn limit(&mut self, limits: Limits) -> Result<()> {
        limits.check()?;
        match &limits.region {
            Some(name) => self.region(Some(name))?.pace.set(limits),
            None => {
                for region in &mut self.regions {
                    region.pace.set(limits.clone());
                }
            }
        }
        Ok(())
    }
}

fn parse<T: DeserializeOwned>(body: &[u8]) -> Result<T> {
    let mut json = serde_json::Deserializer::from_slice(body);
    serde_path_to_error::deserialize(&mut json).map_err(|error| error.to_string())
}
