//! The answers of a cloud: lists, rows and refusals, with any status and header.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use gone::cloud::openstack::config::{CloudsConfig, Environment};
use gone::cloud::openstack::{Transport, TransportError};
use gone::cloud::{Call, Cloud as _, Fields, ListRows, OpenStack};
use gone::domain::kinds::Kinds;
use gone::domain::model::{Action, KindName, Site};
use gone::domain::policy::{Schedule, StepFacts, after_call};
use gone::sandbox::{World, WorldOptions};
use gone::system::clock::Clock;
use proptest::prelude::*;

use super::mutate::{Case, fuzz, mutants};

static KINDS: LazyLock<Kinds> = LazyLock::new(|| gone::cloud::load_kinds(&[]).unwrap());

const STATUSES: [u16; 16] = [
    200, 201, 202, 204, 206, 301, 400, 401, 403, 404, 409, 413, 429, 500, 503, 599,
];
const HEADERS: [&str; 5] = [
    "retry-after",
    "location",
    "x-openstack-request-id",
    "content-type",
    "link",
];
/// More calls than a list needs, unless its pages form a cycle.
const CALLS_MAX: usize = 200;

const BODIES: [&str; 9] = [
    r#"{"NeutronError": {"type": "NetworkInUse", "message": "Unable to complete operation on network 7d444840-9dc0-11d1-b245-5ffdce74fad2. There are one or more ports still in use on the network, id for these ports is: 11111111-9dc0-11d1-b245-5ffdce74fad2.", "detail": ""}}"#,
    r#"{"faultcode": "Client", "faultstring": "Load Balancer 7d44 is immutable and cannot be updated.", "debuginfo": null}"#,
    r#"{"message": "Image is protected.<br /><br />\n", "code": "403 Forbidden", "title": "Forbidden"}"#,
    r#"{"error": {"code": 401, "message": "The request you have made requires authentication.", "title": "Unauthorized"}}"#,
    "<html><body><h1>503 Service Unavailable</h1></body></html>",
    r#"{"ports": [{"id": "p1", "name": "a", "network_id": "n", "device_owner": "network:dhcp", "device_id": "d", "fixed_ips": [{"subnet_id": "s", "ip_address": "10.0.0.1"}], "tags": [], "revision_number": 3}, {"id": "p2"}], "ports_links": [{"rel": "next", "href": "http://sandbox.invalid/RegionOne/network/v2.0/ports?limit=2&marker=p2"}]}"#,
    r#"{"port": {"id": "p1", "name": "a", "binding:host_id": "h"}}"#,
    r#"{"loadbalancers": [{"id": "l1", "name": "b", "provisioning_status": "PENDING_DELETE", "vip_port_id": "p"}], "loadbalancers_links": []}"#,
    r#"{"images": [{"id": "i1", "status": "pending_delete", "protected": true}], "first": "/v2/images", "next": "/v2/images?marker=i1"}"#,
];

#[derive(Clone, Debug)]
struct Answer {
    status: u16,
    header: &'static str,
    value: Case,
    body: Case,
}

fn answer() -> impl Strategy<Value = Answer> {
    let values = [
        "120",
        "Wed, 21 Oct 2099 07:28:00 GMT",
        "http://x/y",
        "application/json",
        "req-1",
    ];
    let values = values.map(|text| text.as_bytes().to_vec()).to_vec();
    let bodies = BODIES.map(|text| text.as_bytes().to_vec()).to_vec();
    let words = &[
        "\"id\": null,",
        "\"id\": 1,",
        "\"message\": ",
        "\"code\": ",
        "[]",
        "{}",
        "next",
    ];
    (
        prop::sample::select(STATUSES.to_vec()),
        prop::sample::select(HEADERS.to_vec()),
        mutants(
            values,
            &["9999999999999", "18446744073709551615", "-1", "1e9"],
        ),
        mutants(bodies, words),
    )
        .prop_map(|(status, header, value, body)| Answer {
            status,
            header,
            value,
            body,
        })
}

/// A transport that logs in at the sandbox, and gives every other call the same answer.
struct FixedAnswer {
    world: Mutex<World>,
    clock: Clock,
    answer: Mutex<Option<Answer>>,
    calls: AtomicUsize,
}

#[async_trait]
impl Transport for FixedAnswer {
    async fn send(
        &self,
        request: http::Request<Bytes>,
        _: Duration,
    ) -> Result<http::Response<Bytes>, TransportError> {
        let calls = self.calls.fetch_add(1, Ordering::SeqCst);
        assert!(calls < CALLS_MAX, "the calls do not end: {}", request.uri());
        if request.uri().path().starts_with("/v3") {
            let now = self.clock.now();
            return Ok(self.world.lock().unwrap().handle(request, now).response);
        }
        let answer = self.answer.lock().unwrap().clone().unwrap();
        let mut response = http::Response::new(Bytes::from(answer.body.0));
        *response.status_mut() = http::StatusCode::from_u16(answer.status).unwrap();
        if let Ok(value) = http::HeaderValue::from_bytes(&answer.value.0) {
            response.headers_mut().insert(answer.header, value);
        }
        Ok(response)
    }
}

fn cloud(transport: &Arc<FixedAnswer>) -> OpenStack {
    let variables = [
        ("OS_AUTH_URL", "http://sandbox.invalid/v3"),
        ("OS_USERNAME", "admin"),
        ("OS_PASSWORD", "secret"),
        ("OS_PROJECT_NAME", "admin"),
        ("OS_USER_DOMAIN_ID", "default"),
        ("OS_PROJECT_DOMAIN_ID", "default"),
        ("OS_REGION_NAME", "RegionOne"),
    ];
    let nowhere = std::path::Path::new("/nonexistent");
    let environment = Environment {
        variables: variables
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .into_iter()
            .collect(),
        current_dir: nowhere.to_owned(),
        home: None,
        system_dir: nowhere.to_owned(),
    };
    let config = CloudsConfig::load(&environment).unwrap();
    let shared: Arc<dyn Transport> = transport.clone();
    OpenStack::new(
        vec![(site(), config.cloud("envvars", None).unwrap())],
        Box::new(move |_| Ok(shared.clone())),
        transport.clock.clone(),
        Duration::from_secs(60),
    )
}

fn site() -> Site {
    Site::region("envvars", "RegionOne")
}

fn schedule() -> Schedule {
    Schedule {
        waits: vec![Duration::from_secs(60)],
        jitter: 0.1,
        pending_max: Duration::from_secs(600),
        verify_max: Duration::from_secs(60),
        settles: false,
        repeats: None,
    }
}

/// Lists a kind, reads one row, deletes one resource, and decides the next attempt by the answer.
async fn exercise(cloud: &OpenStack, transport: &FixedAnswer, kind: &str) {
    let kind = KINDS.get(&KindName::new(kind)).unwrap();
    let site = site();
    transport.calls.store(0, Ordering::SeqCst);
    let request = ListRows {
        site: &site,
        kind,
        filter: None,
        fields: Fields::All,
        rows_max: None,
    };
    if let Ok(rows) = cloud.list(request).await {
        for row in &rows.rows {
            KINDS.resources_in(&site, kind, row);
        }
    }
    transport.calls.store(0, Ordering::SeqCst);
    drop(cloud.read(&site, kind, "p1").await);
    transport.calls.store(0, Ordering::SeqCst);
    let vars = BTreeMap::new();
    let acted = cloud
        .act(Call {
            site: &site,
            kind,
            action: Action::Delete,
            id: "p1",
            vars: &vars,
        })
        .await;
    assert!(!acted.line.is_empty());
    let now = transport.clock.now();
    let facts = StepFacts {
        attempts: 0,
        max_attempts: 8,
        blocked_since: None,
        last_error: None,
        observations: 0,
        own_attempt_at: None,
        cancelled: false,
    };
    let decision = after_call(facts, acted.outcome, now, &schedule(), 1.0);
    let next = decision.next_attempt_at.unwrap_or(now);
    assert!(
        next - now <= chrono::TimeDelta::days(2),
        "the step waits until {next}"
    );
}

#[test]
fn answers() {
    fuzz("answers", &answer(), |answer| {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .unwrap();
        runtime.block_on(async {
            let clock = Clock::simulated("2026-01-02T03:04:05Z".parse().unwrap(), 1);
            let transport = Arc::new(FixedAnswer {
                world: Mutex::new(World::new(WorldOptions::default())),
                clock,
                answer: Mutex::new(Some(answer.clone())),
                calls: AtomicUsize::new(0),
            });
            let cloud = cloud(&transport);
            for kind in ["port", "load_balancer", "image"] {
                exercise(&cloud, &transport, kind).await;
            }
        });
    });
}
