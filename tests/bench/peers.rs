//! What it costs that deployments know each other: watches at rest, how soon all have heard, what is asked
//! of the index of references, and deletions that reach wide and deep. Engines are processes of their own,
//! as in use, and as they are configured by themselves: a heartbeat each 30 s.
//!
//! `--smoke` runs small and proves only that all of it works.
#![allow(
    dead_code,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    clippy::print_stderr,
    unreachable_pub
)]

#[path = "support/others.rs"]
mod others;
#[path = "support/process.rs"]
mod process;
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
use gone::domain::peers::{ASKED_TOGETHER, Deployment, HOLDERS_MAX, Watch};
use gone::ledger::sqlite::{Options, SqliteLedger, Store};
use gone::ledger::{Applied, AuditEntry, Change, NativeResources as _, NewNative};
use gone::peers::{HttpPeers, Limits, Peer, Peers as _};
use gone::system::config::PeerSettings;
use others::Others;
use processes::{Home, Setup, address, wait_for};
use serde_json::{Value, json};
use tokio::runtime::Runtime;
use tokio::sync::mpsc;

const REST: Duration = Duration::from_secs(30);
const DEADLINE: Duration = Duration::from_secs(900);
/// What is looked at again and again meanwhile costs little.
const LOOK_EVERY: Duration = Duration::from_millis(2);
/// Callers at once that keep resources.
const CALLERS: usize = 64;

fn main() {
    let smoke = std::env::args().any(|argument| argument == "--smoke");
    let size = |full: usize, small: usize| if smoke { small } else { full };
    watches_at_rest(size(50, 4), if smoke { REST / 10 } else { REST });
    heard_by_all(size(250, 10), size(5, 1));
    asked_of_the_index(size(1_000_000, 20_000));
    wide(size(10_000, 200));
    deep(size(5, 1));
}

// --- watches -------------------------------------------------------------------------------------

const OWNERS: [&str; 5] = ["s1", "s2", "s3", "s4", "s5"];

/// One engine that imports from five services in so many regions each, beside the same without peers.
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
    let others = Others::start();
    let places = OWNERS.iter().flat_map(|service| {
        (0..regions).map(move |region| others::deployment(service, &format!("r{region}")))
    });
    let peers: Vec<(Deployment, String)> = places
        .map(|place| (place.clone(), others.at(&place)))
        .collect();
    let count = peers.len();
    let started = |peers| {
        let mut home = engine("s0", &address(), peers, &kinds);
        home.start();
        home
    };
    let memory_of = |home: &Home| {
        std::thread::sleep(Duration::from_secs(1));
        process::memory_kb(home.pid(), "VmRSS")
    };
    let without = memory_of(&started(Vec::new()));
    let home = started(peers);
    wait_for("all watches to wait", || others.waiting() == count);
    let with = memory_of(&home);
    let before = process::cpu_ms(home.pid());
    std::thread::sleep(rest);
    let cpu = process::cpu_ms(home.pid()) - before;
    let (with, cpu) = (
        with.max(process::memory_kb(home.pid(), "VmRSS")),
        cpu as f64,
    );
    println!(
        "{count} watches: {:.1} MB more (goal < 100) than the {:.1} MB without peers; \
         {:.2} % of a core in {} s of quiet (goal < 1)",
        (with as f64 - without as f64) / 1024.0,
        without as f64 / 1024.0,
        cpu / rest.as_secs_f64() / 10.0,
        rest.as_secs()
    );
}

// --- how soon all have heard ---------------------------------------------------------------------

const OWNER: &str = "service = 's1'\n[kind.rx.native]\n";

/// From the call of a delete until the last of so many importers has heard of it. They watch as engines
/// do, and say at the accept and after it that nothing of theirs points there.
fn heard_by_all(importers: usize, rounds: usize) {
    let others = Others::start();
    let places: Vec<Deployment> = (0..importers)
        .map(|n| others::deployment("s0", &format!("r{n}")))
        .collect();
    let peers = places.iter().map(|place| (place.clone(), others.at(place)));
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
    let (heard, mut all) = mpsc::unbounded_channel();
    for place in places {
        runtime.spawn(importer(place, calls.clone(), peer.clone(), heard.clone()));
    }
    let mut ready = BTreeSet::new();
    while ready.len() < importers {
        ready.insert(runtime.block_on(all.recv()).unwrap().0);
    }
    let rounds = (0..rounds).map(|round| {
        let id = format!("r{round}");
        owner.create("rx", &json!({ "id": id }));
        wait_for("all to have heard so much, and to wait again", || {
            let (_, rows) = owner.api("GET", "deployments", &Value::Null);
            let rows = rows["items"].as_array().unwrap();
            rows.iter().all(|row| row["importer"]["lag"] == json!(0))
        });
        let before = Instant::now();
        let deletion = delete(&owner, "rx", &id);
        let accepted = before.elapsed();
        let mut told = BTreeSet::new();
        while told.len() < importers {
            let heard = async { tokio::time::timeout(DEADLINE, all.recv()).await };
            let (name, what) = runtime.block_on(heard).unwrap().unwrap();
            if what.as_ref() == Some(&id) {
                told.insert(name);
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
        "{importers} importers have heard of a deletion {:.0} ms after its call, {:.0} ms of these its \
         accept; the slowest of {} rounds {:.0} ms (goal <= 200)",
        ms(median),
        ms(accepted),
        rounds.len(),
        ms(rounds.last().unwrap().0)
    );
}

/// Says its name when it is up to date, and again with each resource that it hears of.
async fn importer(
    from: Deployment,
    calls: Arc<HttpPeers>,
    peer: Peer,
    heard: mpsc::UnboundedSender<(String, Option<String>)>,
) {
    let mut watch = Watch {
        kinds: [KindName::new("rx")].into(),
        ledger: String::new(),
        after: 0,
        wait_ms: 0,
        from,
    };
    loop {
        let news = calls.watch(&peer, watch.clone()).await.unwrap();
        let name = &watch.from.name;
        if watch.wait_ms == 0 && heard.send((name.clone(), None)).is_err() {
            return;
        }
        // However far it is: news are what stands now, and by then it may be gone.
        for changed in &news.changes {
            if heard
                .send((name.clone(), Some(changed.key.id.clone())))
                .is_err()
            {
                return;
            }
        }
        (watch.ledger, watch.after, watch.wait_ms) = (news.ledger, news.seq, 30_000);
    }
}

// --- the index of references ---------------------------------------------------------------------

/// How many point at each.
const POINTING: usize = 10;
const BATCH: usize = 1_000;

/// One question about a thousand resources, with so many references on record.
fn asked_of_the_index(references: usize) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ledger.db");
    let mut store = Store::open(&path, Options::default()).unwrap();
    let targets = references / POINTING;
    let adds: Vec<usize> = (0..references / POINTING).collect();
    for batch in adds.chunks(BATCH) {
        // Ten that are far from each other: no page has what is asked together.
        let lease = |n: &usize| {
            let to = (0..POINTING).map(|nth| (n + nth * (targets / POINTING)) % targets);
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
    let mut ask = |first: usize, each: usize| {
        let asked = (0..ASKED_TOGETHER).map(|_| rx(first + dice.usize(0..targets)));
        let asked: Vec<ResourceKey> = asked.collect();
        let before = Instant::now();
        let pointed = ledger.pointed_at(asked, fields.clone(), HOLDERS_MAX + 1);
        let pointed = runtime.block_on(pointed).unwrap();
        let took = before.elapsed();
        assert!(pointed.iter().all(|it| it.count == each as u64));
        took
    };
    let mut median = |first: usize, each: usize| {
        let mut asked: Vec<Duration> = (0..21).map(|_| ask(first, each)).collect();
        asked.sort();
        ms(asked[asked.len() / 2])
    };
    println!(
        "{references} references: asked about {ASKED_TOGETHER} resources at which {POINTING} point each \
         {:.1} ms (goal < 50), and at which none points {:.1} ms",
        median(0, POINTING),
        median(targets, 0)
    );
}

fn rx(n: usize) -> ResourceKey {
    own("d1", "rx", format!("rx-{n}"))
}

fn own(place: &str, kind: &str, id: String) -> ResourceKey {
    ResourceKey {
        site: Site::Deployment { name: place.into() },
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
    let key = own("d0", "lease", format!("lease-{n}"));
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

// --- wide and deep -------------------------------------------------------------------------------

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

/// So many resources that go with one of another deployment, and as many that go with one of their own.
fn wide(width: usize) {
    let kinds = [OWNER.to_owned(), IMPORTER.to_owned()];
    let alone = {
        let mut home = engine("s0", &address(), Vec::new(), &kinds);
        home.start();
        home.create("rack", &json!({"id": "root"}));
        keep(
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
    keep(
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
    assert_eq!(left["items"], json!([]), "all went before what they use");
    // Its own deletion ends when it has confirmed each of them.
    let (_, chained) = homes[0].api("GET", "deletions", &Value::Null);
    for chained in chained["items"].as_array().unwrap() {
        until_gone(&homes[0], chained["id"].as_str().unwrap());
    }
    let across = before.elapsed();
    let rate = |took: Duration| width as f64 / took.as_secs_f64();
    println!(
        "{width} resources of an importer go with one of an owner: {:.2} s, {:.0} deletes/s, the owner's \
         after {:.2} s; alone {:.2} s, {:.0} deletes/s: {:.2} of that time",
        across.as_secs_f64(),
        rate(across),
        owner.as_secs_f64(),
        alone.as_secs_f64(),
        rate(alone),
        across.as_secs_f64() / alone.as_secs_f64()
    );
}

const LEVELS: usize = 6;
const PLACES: usize = 5;

/// Each level is at the next deployment and points at the one before; the last is where the first is.
fn deep(rounds: usize) {
    let kinds: Vec<String> = (0..PLACES)
        .map(|n| {
            let before = (n + PLACES - 1) % PLACES;
            format!(
                "service = 's{n}'\n[kind.link{n}.native.fields]\nat = {{}}\n\
                 [[kind.link{n}.reference]]\nto = 'link{before}'\nfield = 'at'\n\
                 on_delete = 'cascade'\nsays = 'hangs on'\n"
            )
        })
        .collect();
    let homes = engines(PLACES, &kinds);
    let rounds = (0..rounds).map(|round| {
        for level in 0..LEVELS {
            let place = level % PLACES;
            let mut body = json!({"id": format!("{round}-{level}")});
            if level > 0 {
                let before = homes[(level - 1) % PLACES].name.as_str();
                body["at"] = json!(format!("{round}-{}@{before}", level - 1));
            }
            homes[place].create(&format!("link{place}"), &body);
        }
        time_to_delete(&homes[0], "link0", &format!("{round}-0"))
    });
    let mut rounds: Vec<Duration> = rounds.collect();
    rounds.sort();
    println!(
        "a chain of {LEVELS} over {PLACES} deployments is gone {:.0} ms after its call, the slowest of {} \
         {:.0} ms",
        ms(rounds[rounds.len() / 2]),
        rounds.len(),
        ms(rounds[rounds.len() - 1])
    );
}

/// Each knows all others; all run.
fn engines(count: usize, kinds: &[String]) -> Vec<Home> {
    let addresses: Vec<String> = (0..count).map(|_| address()).collect();
    let services: Vec<String> = (0..count).map(|n| format!("s{n}")).collect();
    let all = services.iter().map(|service| support::deployment(service));
    let all: Vec<(Deployment, String)> = all.zip(addresses.clone()).collect();
    let homes = services.iter().zip(&addresses).map(|(service, listen)| {
        let others = all.iter().filter(|(it, _)| it.service != *service);
        let mut home = engine(service, listen, others.cloned().collect(), kinds);
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

/// Keeps so many, by many callers at once.
fn keep(home: &Home, kind: &str, count: usize, body: impl Fn(usize) -> Value) {
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

fn delete(home: &Home, kind: &str, id: &str) -> String {
    let (status, said) = home.api("DELETE", &format!("resources/{kind}/{id}"), &Value::Null);
    assert_eq!(status, 202, "{said}");
    said["id"].as_str().unwrap().to_owned()
}

fn until_gone(home: &Home, deletion: &str) {
    let since = Instant::now();
    loop {
        let (_, said) = home.api("GET", &format!("deletions/{deletion}"), &Value::Null);
        match said["state"].as_str().unwrap() {
            "gone" => return,
            "planning" | "running" => {}
            other => panic!("{other}: {said}"),
        }
        assert!(since.elapsed() < DEADLINE, "never gone: {said}");
        std::thread::sleep(LOOK_EVERY);
    }
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}
