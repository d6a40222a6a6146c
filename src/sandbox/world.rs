//! The practice cloud: all services of all regions behind one function, without I/O.
use std::collections::VecDeque;
use std::time::Duration;

use bytes::Bytes;
use chrono::{DateTime, TimeDelta, Utc};
use http::{HeaderName, HeaderValue, Request, Response, StatusCode, header};
use percent_encoding::percent_decode_str;
use serde::Serialize;

use super::core::{Answer, Api, Call, Course, Ids, Refusal, Region, Undo, WorldOptions, revival};
use super::faults::{Action, CallFacts, Faults};
use super::keystone::Keystone;
use super::{cinder, glance, neutron, nova, octavia};

/// The services of each region. Keystone is not among them: all regions share it.
static SERVICES: [&Api; 5] = [
    &neutron::API,
    &octavia::API,
    &glance::API,
    &cinder::API,
    &nova::API,
];

/// Returns the service that has this type in the catalog, for example `network`.
pub(super) fn service(kind: &str) -> Option<&'static Api> {
    SERVICES.into_iter().find(|api| api.kind() == kind)
}

/// Number of calls that the log keeps: enough for two deletions of 100,000 ports. Older calls are dropped.
const LOG_MAX: usize = 300_000;

/// An answer and its delivery.
#[derive(Debug)]
pub struct Reply {
    pub response: Response<Bytes>,
    /// Time from the arrival of the request to the departure of the answer.
    pub delay: Duration,
    pub fate: Fate,
}

/// How an answer is delivered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    Answer,
    /// After the delay the connection closes without a byte.
    DropWithoutAnswer,
    /// The connection stays open, and no answer ever comes.
    Hang,
}

/// A region, by its position in `World::regions`, and one of its services; `None` for Keystone.
type Endpoint = Option<(usize, &'static Api)>;

/// One line of the call log.
#[derive(Clone, Debug, Serialize)]
pub(super) struct LoggedCall {
    seq: u64,
    at: DateTime<Utc>,
    /// The region's name; `null` for Keystone, and for a path of no service.
    region: Option<String>,
    method: String,
    /// The path with the query, as sent.
    path: String,
    /// The status of the answer; `null` when no answer was sent.
    status: Option<u16>,
    user_agent: Option<String>,
}

/// Deleted resources that a fault revives at a set time.
struct Revival {
    at: DateTime<Utc>,
    region: Option<usize>,
    changes: Vec<Undo>,
    as_new: bool,
}

/// The practice cloud.
///
/// The interface of the world is `handle`. The world is deterministic: the answers depend only on the options, the
/// requests and their times.
pub struct World {
    base_url: String,
    ids: Ids,
    pub(super) keystone: Keystone,
    pub(super) regions: Vec<Region>,
    pub(super) faults: Faults,
    revivals: Vec<Revival>,
    log: VecDeque<LoggedCall>,
    calls: u64,
}

impl World {
    pub fn new(options: WorldOptions) -> Self {
        let lifetime = TimeDelta::from_std(options.token_lifetime).unwrap_or(TimeDelta::MAX);
        let (names, url) = (&options.regions, &options.base_url);
        let region = |(number, name): (u64, &String)| {
            let seed = options.seed.wrapping_add(number * 0x9e37_79b9);
            Region::new(name, seed, options.clone(), &SERVICES)
        };
        Self {
            ids: Ids::new(options.seed ^ 0x0072_6571),
            keystone: Keystone::new(options.seed, url, names, &SERVICES, lifetime),
            regions: (1..).zip(names).map(region).collect(),
            base_url: options.base_url,
            faults: Faults::default(),
            revivals: Vec::new(),
            log: VecDeque::new(),
            calls: 0,
        }
    }

    /// Sets the URL at which the world is served. The catalog has it from now on; links have it if the call has
    /// no `Host` header.
    pub fn set_base_url(&mut self, base_url: &str) {
        base_url.clone_into(&mut self.base_url);
        self.keystone.set_base_url(base_url);
    }

    pub fn region_names(&self) -> impl Iterator<Item = &str> {
        self.regions.iter().map(|region| region.name.as_str())
    }

    /// Answers a call to a service, or to a path that no service has.
    pub(super) fn serve(&mut self, request: &Request<Bytes>, now: DateTime<Utc>) -> Reply {
        let path = request.uri().path().to_owned();
        let Some((endpoint, below)) = self.endpoint(&path) else {
            let message = "The requested URL was not found on the server.";
            let answer = Refusal::new(404, "", message).keystone();
            return self.reply(request, None, answer, None, now);
        };
        let call = call_of(request, &self.base_url, &path, below);
        let (region, api) = endpoint.unzip();
        let name = region.and_then(|index| self.regions.get(index));
        let name = name.map(|region| region.name.as_str());
        let facts = CallFacts::of(&call, &path, name, api);
        let action = self.faults.hit(&facts);
        let answer = match &action {
            None => self.perform(&call, endpoint, None, now).0,
            Some(action) => self.apply_fault(&call, endpoint, action, now),
        };
        self.reply(request, region, answer, action.as_ref(), now)
    }

    /// Returns the region's service that a path leads to (`None` for Keystone), and the rest of the path. Returns
    /// nothing for a path of no service.
    fn endpoint<'p>(&self, path: &'p str) -> Option<(Endpoint, &'p str)> {
        if path == "/" || path == "/v3" || path.starts_with("/v3/") {
            return Some((None, path));
        }
        let (region, rest) = path.strip_prefix('/')?.split_once('/')?;
        let index = self.regions.iter().position(|known| known.name == region)?;
        let end = rest.find('/').unwrap_or(rest.len());
        let (kind, below) = rest.split_at(end);
        Some((Some((index, service(kind)?)), below))
    }

    /// Performs a call, and returns the service's answer and the changes.
    fn perform(
        &mut self,
        call: &Call<'_>,
        endpoint: Endpoint,
        course: Option<Course>,
        now: DateTime<Utc>,
    ) -> (Answer, Vec<Undo>) {
        let Some((index, api)) = endpoint else {
            return self.keystone.handle(call, now);
        };
        let caller = self.keystone.caller(call.header("x-auth-token"), now);
        let caller = caller.filter(|_| self.keystone.is_allowed(api.kind(), call));
        match self.regions.get_mut(index) {
            Some(region) => region.handle(api, call, caller, course, now),
            None => (Answer::no_content(), Vec::new()),
        }
    }

    /// Returns the answer to a call that a fault hits. The call is performed, unless the fault refuses it or lets it
    /// hang. [`Self::reply`] applies the effects on delivery: the delay, the hang, the lost answer, the cut body.
    fn apply_fault(
        &mut self,
        call: &Call<'_>,
        endpoint: Endpoint,
        action: &Action,
        now: DateTime<Utc>,
    ) -> Answer {
        let refused = action.refusal(|refusal| match endpoint {
            None => refusal.keystone(),
            Some((_, api)) => (api.refuse)(refusal, call),
        });
        if let Some(refused) = refused {
            return refused;
        }
        if action.hang {
            return Answer::no_content();
        }
        let (answer, changes) = self.perform(call, endpoint, action.course(), now);
        let mut answer = action.apply_to(answer);
        let region = endpoint.map(|(index, _)| index);
        if action.keep {
            if let Some(rows) = self.rows_of(region) {
                rows.store.roll_back(changes);
            }
            // With `keep`, the cloud reports success even for a resource that is in use.
            if answer.status == StatusCode::CONFLICT {
                answer = Answer::no_content();
            }
        } else if let Some(after) = action.recreate_after_ms
            && answer.status.is_success()
        {
            self.revivals.push(Revival {
                at: now + TimeDelta::milliseconds(after.try_into().unwrap_or(i64::MAX / 4)),
                region,
                changes,
                as_new: action.as_new(),
            });
        }
        answer
    }

    /// Returns the rows of a region, or those of Keystone.
    fn rows_of(&mut self, region: Option<usize>) -> Option<&mut Region> {
        match region {
            None => Some(&mut self.keystone.rows),
            Some(index) => self.regions.get_mut(index),
        }
    }

    /// Ends the pending changes that are due by `now`, region by region, and then performs the due revivals. The
    /// changes of a region, and the revivals, are in the order of their times.
    pub(super) fn catch_up(&mut self, now: DateTime<Utc>) {
        for region in &mut self.regions {
            region.settle(now);
        }
        let revivals = std::mem::take(&mut self.revivals).into_iter();
        let (mut due, later): (Vec<_>, _) = revivals.partition(|revival| revival.at <= now);
        self.revivals = later;
        due.sort_by_key(|revival| revival.at);
        for revival in due {
            let Some(rows) = self.rows_of(revival.region) else {
                continue;
            };
            // A call may only have begun to delete the rows; they are revived once they are gone.
            if revival::must_wait(&rows.store, &revival.changes) {
                self.revivals.push(revival);
            } else {
                revival::revive(&mut rows.store, revival.changes, revival.as_new);
            }
        }
    }

    fn reply(
        &mut self,
        request: &Request<Bytes>,
        region: Option<usize>,
        answer: Answer,
        action: Option<&Action>,
        now: DateTime<Utc>,
    ) -> Reply {
        let extra = Duration::from_millis(action.map_or(0, |action| action.delay_ms));
        let fate = match action {
            Some(action) if action.hang => Fate::Hang,
            Some(action) if action.drop_after_effect => Fate::DropWithoutAnswer,
            _ => Fate::Answer,
        };
        let delay = match region.and_then(|index| self.regions.get_mut(index)) {
            Some(region) if fate != Fate::Hang => region.pace.admit(now, extra),
            _ => extra,
        };
        let status = (fate == Fate::Answer).then_some(answer.status.as_u16());
        self.note(request, region, status, now);
        let mut response = answer.into_response();
        if action.is_some_and(|action| action.truncate) {
            let half = response.body().len() / 2;
            response.body_mut().truncate(half);
            let headers = response.headers_mut();
            headers.insert(header::CONTENT_LENGTH, HeaderValue::from(half));
        }
        if let Ok(id) = HeaderValue::from_str(&format!("req-{}", self.ids.uuid())) {
            response.headers_mut().insert(REQUEST_ID, id);
        }
        Reply {
            response,
            delay,
            fate,
        }
    }

    fn note(
        &mut self,
        request: &Request<Bytes>,
        region: Option<usize>,
        status: Option<u16>,
        at: DateTime<Utc>,
    ) {
        self.calls += 1;
        if self.log.len() == LOG_MAX {
            self.log.pop_front();
        }
        let path = request.uri().path_and_query();
        let region = region.and_then(|index| self.regions.get(index));
        let agent = request.headers().get(header::USER_AGENT);
        let agent = agent.and_then(|agent| agent.to_str().ok());
        self.log.push_back(LoggedCall {
            seq: self.calls,
            at,
            region: region.map(|region| region.name.clone()),
            method: request.method().to_string(),
            path: path.map_or("/", |path| path.as_str()).to_owned(),
            status,
            user_agent: agent.map(str::to_owned),
        });
    }

    /// Returns the logged calls with a number greater than `after`, oldest first.
    pub(super) fn log_after(&self, after: u64) -> impl Iterator<Item = &LoggedCall> {
        let first = self.log.partition_point(|call| call.seq <= after);
        self.log.range(first..)
    }

    /// Empties the log and restarts its numbering at 1.
    pub fn clear_log(&mut self) {
        self.log.clear();
        self.calls = 0;
    }
}

const REQUEST_ID: HeaderName = HeaderName::from_static("x-openstack-request-id");

/// Returns the call of a request. `below` is the part of the path that the service receives.
pub(super) fn call_of<'a>(
    request: &'a Request<Bytes>,
    base_url: &str,
    path: &str,
    below: &str,
) -> Call<'a> {
    let decoded = percent_decode_str(below).decode_utf8_lossy();
    let trimmed = decoded.trim_end_matches('/');
    let host = request.headers().get(header::HOST);
    let query = request.uri().query().unwrap_or_default().as_bytes();
    Call {
        method: request.method(),
        path: trimmed.strip_suffix(".json").unwrap_or(trimmed).to_owned(),
        query: url::form_urlencoded::parse(query).into_owned().collect(),
        headers: request.headers(),
        body: request.body(),
        // Links repeat the host that the client used, as Neutron's and Octavia's do.
        url: match host.map(HeaderValue::to_str) {
            Some(Ok(host)) => format!("http://{host}{path}"),
            _ => format!("{base_url}{path}"),
        },
    }
}
