//! Measures what peers cost: watches at rest, the time until all importers have a notice, queries of the index of
//! references, and deletions with many dependents or a long chain of them. Engines run in processes of their own, as
//! in use, and with the default heartbeat of 30 s.
//!
//! With `--smoke`, the bench runs briefly and proves only that it works.
#![allow(
    dead_code,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    clippy::print_stderr,
    unreachable_pub
)]

#[path = "support/peer_stubs.rs"]
mod peer_stubs;
#[path = "support/proc_stats.rs"]
mod proc_stats;
#[path = "../peers/processes.rs"]
mod processes;
#[path = "../peers/support.rs"]
mod support;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use chrono::DateTime;
use futures_util::{StreamExt as _, stream};
use gone::domain::model::{Actor, KindName, Origin, ResourceKey, Site};
use gone::domain::native::NativeReference;
use gone::domain::peers::{Deployment, REFERRERS_NAMED_MAX, RESOURCES_PER_QUESTION_MAX, Watch};
use gone::ledger::sqlite::{Options, SqliteLedger, Store};
use gone::ledger::{Applied, AuditEntry, Change, NativeResources as _, NewNative};
use gone::peers::{HttpPeers, Limits, Peer, Peers as _};
use gone::system::config::PeerSettings;
use peer_stubs::PeerStubs;
use processes::{Home, Setup, address, wait_for};
use serde_json::{Value, json};
use tokio::runtime::Runtime;
use tokio::sync::mpsc;

const REST: Duration = Duration::from_secs(30);
const DEADLINE: Duration = Duration::from_secs(900);
/// Pause between two requests that check whether a deletion is gone. Such a request costs the engine little.
const POLL_INTERVAL: Duration = Duration::from_millis(2);
/// Parallel callers that create resources.
const CALLERS: usize = 64;

fn main() {
    let smoke = std::env::args().any(|argument| argument == "--smoke");
    let size = |full: usize, small: usize| if smoke { small } else { full };
    watches_at_rest(size(50, 4), if smoke { REST / 10 } else { REST });
    notices(size(250, 10), size(5, 1));
    index_of_references(size(1_000_000, 20_000));
    many_dependents(size(10_000, 200));
    chain_of_dependents(size(5, 1));
}

// --- watches -------------------------------------------------------------------------------------

const OWNERS: [&str; 5] = ["s1", "s2", "s3", "s4", "s5"];

/// Measures an engine that imports from five services, in `regions` regions each, against one without peers.
fn watches_at_rest(regions: usize, rest: Duration) {
    let mut kinds: Vec<String> = OWNERS
        .iter()
        .map(|service| format!("service = '{service}'\n[kind.{service}_rx.native]\n"))
        .collect();
    let references = OWNERS.iter().map(|service| {
        format!(
            "[[kind.lease.reference]]\nto = '{service}_rx'\nfield = '{service}'\n\
             on_delete = 'cascade'\nsays = 'uses'\n"
        )
    });
    let fields = OWNERS.map(|service| format!("{service} = {{}}\n")).concat();
    let references: String = references.collect();
    kinds.push(format!(
        "service = 's0'\n[kind.lease.native.fields]\n{fields}{references}"
    ));
    let stubs = PeerStubs::start();
    let deployments = OWNERS.iter().flat_map(|service| {
        (0..regions).map(move |region| peer_stubs::deployment(service, &format!("r{region}")))
    });
    let peers: Vec<(Deployment, String)> = deployments
        .map(|deployment| (deployment.clone(), stubs.address_of(&deployment)))
        .collect();
    let count = peers.len();
    let started = |peers| {
        let mut home = engine("s0", &address(), peers, &kinds);
        home.start();
        home
    };
    let memory_of = |home: &Home| {
        std::thread::sleep(Duration::from_secs(1));
        proc_stats::memory_kb(home.pid(), "VmRSS")
    };
    let without = memory_of(&started(Vec::new()));
    let home = started(peers);
    wait_for("all watches to wait", || stubs.waiting_watches() == count);
    let with = memory_of(&home);
    let before = proc_stats::cpu_ms(home.pid());
    std::thread::sleep(rest);
    let cpu = proc_stats::cpu_ms(home.pid()) - before;
    let (with, cpu) = (
        with.max(proc_stats::memory_kb(home.pid(), "VmRSS")),
        cpu as f64,
    );
    println!(
        "{count} watches: {:.1} MB more (goal < 100) than the {:.1} MB without peers; \
         {:.2} % of a core in {} s without events (goal < 1)",
        (with as f64 - without as f64) / 1024.0,
        without as f64 / 1024.0,
        cpu / rest.as_secs_f64() / 10.0,
        rest.as_secs()
    );
}

// --- notices -------------------------------------------------------------------------------------

const OWNER: &str = "service = 's1'\n[kind.rx.native]\n";

/// Measures the time from the request of a deletion until the last importer has its notice. The importers watch as
/// engines do, and answer every question with: no resource of mine refers to it.
fn notices(importers: usize, rounds: usize) {
    let stubs = PeerStubs::start();
    let deployments: Vec<Deployment> = (0..importers)
        .map(|n| peer_stubs::deployment("s0", &format!("r{n}")))
        .collect();
    let peers = deployments
        .iter()
        .map(|deployment| (deployment.clone(), stubs.address_of(deployment)));
    let listen = address();
    let mut owner = engine("s1", &listen, peers.collect(), &[OWNER.to_owned()]);
    owner.start();
    let settings = PeerSettings {
        url: format!("http://{listen}"),
        service: "s1".to_owned(),
        region: "r".to_owned(),
        name: None,
        sites: Vec::new(),
        token_file: Some(owner.path("token")),
        ca_file: None,
        certificate_file: None,
        key_file: None,
    };
    let peer = Peer::from(&settings);
    let calls = Arc::new(HttpPeers::new(&[settings], Limits::default()).unwrap());
    let runtime = Runtime::new().unwrap();
    let (sender, mut received) = mpsc::unbounded_channel();
    for deployment in deployments {
        runtime.spawn(importer(
            deployment,
            calls.clone(),
            peer.clone(),
            sender.clone(),
        ));
    }
    let mut ready = BTreeSet::new();
    while ready.len() < importers {
        ready.insert(runtime.block_on(received.recv()).unwrap().0);
    }
    let rounds = (0..rounds).map(|round| {
        let id = format!("r{round}");
        owner.create("rx", &json!({ "id": id }));
        wait_for("all importers to be up to date and to watch again", || {
            let (_, rows) = owner.api("GET", "deployments", &Value::Null);
            let rows = rows["items"].as_array().unwrap();
            rows.iter().all(|row| row["importer"]["lag"] == json!(0))
        });
        let before = Instant::now();
        let deletion = delete(&owner, "rx", &id);
        let accepted = before.elapsed();
        let mut notified = BTreeSet::new();
        while notified.len() < importers {
            let next = async { tokio::time::timeout(DEADLINE, received.recv()).await };
            let (name, resource) = runtime.block_on(next).unwrap().unwrap();
            if resource.as_ref() == Some(&id) {
                notified.insert(name);
            }
        }
        let took = before.elapsed();
        until_gone(&owner, &deletion);
        (took, accepted)
    });
    let mut rounds: Vec<(Duration, Duration)> = rounds.collect();
    rounds.sort();
    let (median, accepted) = rounds[rounds.len() / 2];
    println!(
        "all {importers} importers have the notice of a deletion {:.0} ms after its request, {:.0} ms of which \
         its acceptance took; the slowest of {} rounds {:.0} ms (goal <= 200)",
        ms(median),
        ms(accepted),
        rounds.len(),
        ms(rounds.last().unwrap().0)
    );
}

/// Watches the owner as this importer. Once the watch is up to date, sends the importer's name to `sender`, without a
/// resource. Then sends the name again for each notice that the importer gets, with the id of the resource.
async fn importer(
    from: Deployment,
    calls: Arc<HttpPeers>,
    peer: Peer,
    sender: mpsc::UnboundedSender<(String, Option<String>)>,
) {
    let mut watch = Watch {
        kinds: [KindName::new("rx")].into(),
        ledger: String::new(),
        after: 0,
        wait_ms: 0,
        from,
    };
    loop {
        let notices = calls.watch(&peer, watch.clone()).await.unwrap();
        let name = &watch.from.name;
        if watch.wait_ms == 0 && sender.send((name.clone(), None)).is_err() {
            return;
        }
        // The phase does not matter: a notice has the phase at the time when the owner reads the tombstone, and the
        // resource may be gone by then.
        for changed in &notices.changes {
            if sender
                .send((name.clone(), Some(changed.key.id.clone())))
                .is_err()
            {
                return;
            }
        }
        (watch.ledger, watch.after, watch.wait_ms) = (notices.ledger, notices.seq, 30_000);
    }
}

// --- the index of references ---------------------------------------------------------------------

/// The number of resources that refer to each target.
const REFERRERS: usize = 10;
const BATCH: usize = 1_000;

/// Measures one query about many resources, with this many references on record.
fn index_of_references(references: usize) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ledger.db");
    let mut store = Store::open(&path, Options::default()).unwrap();
    let targets = references / REFERRERS;
    let adds: Vec<usize> = (0..references / REFERRERS).collect();
    for batch in adds.chunks(BATCH) {
        // The targets of one resource are far from each other, so that no page of the index holds all rows of a
        // query.
        let lease = |n: &usize| {
            let to = (0..REFERRERS).map(|nth| (n + nth * (targets / REFERRERS)) % targets);
            Change::Add(lease(*n, to))
        };
        let applied = store.apply(batch.iter().map(lease).collect()).unwrap();
        assert!(applied.iter().all(|applied| *applied == Applied::Done));
    }
    drop(store);
    let runtime = Runtime::new().unwrap();
    let ledger = SqliteLedger::open_reader(&path).unwrap();
    let fields: Arc<[(KindName, String)]> = [(KindName::new("lease"), "rx".to_owned())].into();
    let mut dice = fastrand::Rng::with_seed(7);
    let mut query = |first: usize, each: usize| {
        let keys = (0..RESOURCES_PER_QUESTION_MAX).map(|_| rx(first + dice.usize(0..targets)));
        let keys: Vec<ResourceKey> = keys.collect();
        let before = Instant::now();
        let pointed = ledger.referrers(keys, fields.clone(), REFERRERS_NAMED_MAX + 1);
        let pointed = runtime.block_on(pointed).unwrap();
        let took = before.elapsed();
        assert!(pointed.iter().all(|it| it.count == each as u64));
        took
    };
    let mut median = |first: usize, each: usize| {
        let mut times: Vec<Duration> = (0..21).map(|_| query(first, each)).collect();
        times.sort();
        ms(times[times.len() / 2])
    };
    println!(
        "{references} references: a query about {RESOURCES_PER_QUESTION_MAX} resources with {REFERRERS} referrers each takes \
         {:.1} ms (goal < 50), one about as many resources without referrers {:.1} ms",
        median(0, REFERRERS),
        median(targets, 0)
    );
}

fn rx(n: usize) -> ResourceKey {
    key("d1", "rx", format!("rx-{n}"))
}

fn key(deployment: &str, kind: &str, id: String) -> ResourceKey {
    ResourceKey {
        site: Site::Deployment {
            name: deployment.into(),
        },
        kind: KindName::new(kind),
        id,
    }
}

fn lease(n: usize, to: impl Iterator<Item = usize>) -> Box<NewNative> {
    let references: Vec<NativeReference> = to
        .map(|to| NativeReference {
            field: "rx".to_owned(),
            to: rx(to),
            here: false,
        })
        .collect();
    let words = references.iter().map(|it| format!("{}@d1", it.to.id));
    let words: Vec<String> = words.collect();
    let fields = json!({ "rx": words }).as_object().cloned().unwrap();
    let key = key("d0", "lease", format!("lease-{n}"));
    Box::new(NewNative {
        audit: AuditEntry {
            actor: Actor {
                name: "bench".to_owned(),
                origin: Origin::Cli,
            },
            action: "create".to_owned(),
            target: key.to_string(),
            reason: String::new(),
            detail: Value::Null,
        },
        key,
        fields,
        references,
        now: DateTime::from_timestamp(1_800_000_000, 0).unwrap(),
    })
}

// --- deletions across deployments -----------------------------------------------------------------

const IMPORTER: &str = "
service = 's0'
[kind.rack.native]
[kind.lease.native.fields]
rx = {}
rack = {}
[[kind.lease.reference]]
to = 'rx'
field = 'rx'
on_delete = 'cascade'
says = 'uses'
[[kind.lease.reference]]
to = 'rack'
field = 'rack'
on_delete = 'cascade'
says = 'is in'
";

/// Measures the deletion of a resource with `width` dependents in another deployment, against that of a resource with
/// as many dependents in its own deployment.
fn many_dependents(width: usize) {
    let kinds = [OWNER.to_owned(), IMPORTER.to_owned()];
    let alone = {
        let mut home = engine("s0", &address(), Vec::new(), &kinds);
        home.start();
        home.create("rack", &json!({"id": "root"}));
        create_all(
            &home,
            "lease",
            width,
            |n| json!({"id": format!("l{n}"), "rack": "root"}),
        );
        time_to_delete(&home, "rack", "root")
    };
    let homes = engines(2, &kinds);
    homes[1].create("rx", &json!({"id": "root"}));
    homes[0].create("lease", &json!({"id": "first", "rx": "root@d1"}));
    create_all(
        &homes[0],
        "lease",
        width - 1,
        |n| json!({"id": format!("l{n}"), "rx": "root@d1"}),
    );
    let before = Instant::now();
    let deletion = delete(&homes[1], "rx", "root");
    until_gone(&homes[1], &deletion);
    let owner = before.elapsed();
    let (_, left) = homes[0].api("GET", "resources/lease?limit=1", &Value::Null);
    assert_eq!(
        left["items"],
        json!([]),
        "the owner's deletion ended before its dependents were gone"
    );
    // The importer's own deletion ends once each of the dependents is confirmed gone.
    let (_, chained) = homes[0].api("GET", "deletions", &Value::Null);
    for chained in chained["items"].as_array().unwrap() {
        until_gone(&homes[0], chained["id"].as_str().unwrap());
    }
    let across = before.elapsed();
    let rate = |took: Duration| width as f64 / took.as_secs_f64();
    println!(
        "{width} dependents in an importer: gone after {:.2} s, {:.0} deletes/s, the owner's resource \
         after {:.2} s; in one deployment {:.2} s, {:.0} deletes/s: {:.2} times that time",
        across.as_secs_f64(),
        rate(across),
        owner.as_secs_f64(),
        alone.as_secs_f64(),
        rate(alone),
        across.as_secs_f64() / alone.as_secs_f64()
    );
}

const LEVELS: usize = 6;
const DEPLOYMENTS: usize = 5;

/// Measures the deletion of a chain of dependents. The resource of each level is in the next deployment and refers to
/// the resource of the level before; the last resource is in the deployment of the first.
fn chain_of_dependents(rounds: usize) {
    let kinds: Vec<String> = (0..DEPLOYMENTS)
        .map(|n| {
            let before = (n + DEPLOYMENTS - 1) % DEPLOYMENTS;
            format!(
                "service = 's{n}'\n[kind.link{n}.native.fields]\nat = {{}}\n\
                 [[kind.link{n}.reference]]\nto = 'link{before}'\nfield = 'at'\n\
                 on_delete = 'cascade'\nsays = 'hangs on'\n"
            )
        })
        .collect();
    let homes = engines(DEPLOYMENTS, &kinds);
    let rounds = (0..rounds).map(|round| {
        for level in 0..LEVELS {
            let deployment = level % DEPLOYMENTS;
            let mut body = json!({"id": format!("{round}-{level}")});
            if level > 0 {
                let before = homes[(level - 1) % DEPLOYMENTS].name.as_str();
                body["at"] = json!(format!("{round}-{}@{before}", level - 1));
            }
            homes[deployment].create(&format!("link{deployment}"), &body);
        }
        time_to_delete(&homes[0], "link0", &format!("{round}-0"))
    });
    let mut rounds: Vec<Duration> = rounds.collect();
    rounds.sort();
    println!(
        "a chain of {LEVELS} resources in {DEPLOYMENTS} deployments is gone {:.0} ms after its request, the slowest of {} \
         rounds {:.0} ms",
        ms(rounds[rounds.len() / 2]),
        rounds.len(),
        ms(rounds[rounds.len() - 1])
    );
}

/// Starts engines, each of which has all others as peers.
fn engines(count: usize, kinds: &[String]) -> Vec<Home> {
    let addresses: Vec<String> = (0..count).map(|_| address()).collect();
    let services: Vec<String> = (0..count).map(|n| format!("s{n}")).collect();
    let all = services.iter().map(|service| support::deployment(service));
    let all: Vec<(Deployment, String)> = all.zip(addresses.clone()).collect();
    let homes = services.iter().zip(&addresses).map(|(service, listen)| {
        let peers = all.iter().filter(|(it, _)| it.service != *service);
        let mut home = engine(service, listen, peers.cloned().collect(), kinds);
        home.start();
        home
    });
    homes.collect()
}

fn engine(service: &str, listen: &str, peers: Vec<(Deployment, String)>, kinds: &[String]) -> Home {
    let kinds: Vec<&str> = kinds.iter().map(String::as_str).collect();
    Home::new(&Setup {
        deployment: support::deployment(service),
        listen: listen.to_owned(),
        heartbeat: "30s",
        peers,
        settings: "",
        kinds: &kinds,
    })
}

/// Creates this many resources by many callers at once.
fn create_all(home: &Home, kind: &str, count: usize, body: impl Fn(usize) -> Value) {
    let client = reqwest::Client::builder()
        .unix_socket(home.path("state/gone/gone.sock"))
        .build()
        .unwrap();
    let url = format!("http://localhost/api/v1/resources/{kind}");
    let calls = (0..count).map(|n| client.post(&url).json(&body(n)).send());
    let all = stream::iter(calls)
        .buffer_unordered(CALLERS)
        .for_each(async |answer| assert_eq!(answer.unwrap().status(), 201));
    Runtime::new().unwrap().block_on(all);
}

fn time_to_delete(home: &Home, kind: &str, id: &str) -> Duration {
    let before = Instant::now();
    let deletion = delete(home, kind, id);
    until_gone(home, &deletion);
    before.elapsed()
}

/// Requests a deletion, and returns its id.
fn delete(home: &Home, kind: &str, id: &str) -> String {
    let (status, body) = home.api("DELETE", &format!("resources/{kind}/{id}"), &Value::Null);
    assert_eq!(status, 202, "{body}");
    body["id"].as_str().unwrap().to_owned()
}

fn until_gone(home: &Home, deletion: &str) {
    let since = Instant::now();
    loop {
        let (_, body) = home.api("GET", &format!("deletions/{deletion}"), &Value::Null);
        match body["state"].as_str().unwrap() {
            "gone" => return,
            "planning" | "running" => {}
            other => panic!("the deletion is {other}: {body}"),
        }
        assert!(
            since.elapsed() < DEADLINE,
            "timed out waiting for the deletion to be gone: {body}"
        );
        std::thread::sleep(POLL_INTERVAL);
    }
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}
