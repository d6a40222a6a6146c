//! Measures the latency of a well-behaved client without an attack and during each attack that a listener must
//! withstand (P12), alternating within one run. Also measures how many connections the attack holds, how much memory
//! the engine takes, and how soon the client is answered after the attack has ended.
//!
//! The engine and Keystone (the practice cloud's) run in processes of their own. The service behind the gate answers
//! with prepared text, or never. In use, attackers and the service would be other machines. Here the threads of the
//! attackers, and the thread of the service that sends large lists, run only while no other thread wants to, as far
//! as the system allows it.
//!
//! With `--smoke`, the bench runs briefly and proves only that the client is always answered.
#![allow(
    dead_code,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    clippy::print_stderr,
    unreachable_pub
)]

#[path = "../testbed/api.rs"]
mod api;
#[path = "support/attackers.rs"]
mod attackers;
#[path = "support/fixture.rs"]
mod fixture;

use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use attackers::{AS_OTHER_UID, Attack, OTHER_UID, hold_socket_connections};
use fixture::{
    ChildGuard, add_tombstones, command, gate_address, median, memory_mb, practice_cloud, wait_for,
    write_settings,
};
use gone::ledger::sqlite;
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpSocket, TcpStream};
use tokio::runtime::{Builder, Handle, Runtime};

/// Connections of an attack: as many as a gate accepts by default.
const CONNECTIONS: usize = 1_024;
/// Addresses from which the connections of an attack come, so that no address exceeds its own limit.
const ADDRESSES: usize = 8;
/// Connections to the engine's socket: more than it accepts.
const SOCKET_CONNECTIONS: usize = 600;
/// One in this many requests opens a new connection.
const FRESH_EACH: usize = 10;
/// Pause between an attack and the next measurement without one.
const REST: Duration = Duration::from_secs(1);
/// Bytes of a large list that the service sends at a time.
const PIECE_BYTES: usize = 16 << 10;
/// Timeout of the client's requests.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);

struct Scale {
    rounds: usize,
    /// Requests of the well-behaved client in each round: as many without the attack as during it.
    requests: usize,
    list_bytes: usize,
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    if let [_, word, socket, count] = &arguments[..]
        && word == AS_OTHER_UID
    {
        return hold_socket_connections(Path::new(socket), count.parse().unwrap());
    }
    let scale = match arguments.iter().any(|argument| argument == "--smoke") {
        true => Scale {
            rounds: 1,
            requests: 20,
            list_bytes: 2 << 20,
        },
        false => Scale {
            rounds: 7,
            requests: 4_000,
            list_bytes: 11 << 20,
        },
    };
    let service = Service::start(scale.list_bytes);
    let engine = Engine::start(&service);
    let attackers = runtime(attackers::run_when_idle);
    let (at, gate) = (&attackers, engine.gate);
    let url = |path: &str| format!("http://{gate}/v2.0/{path}");
    let head = |path: &str| format!("GET /v2.0/{path} HTTP/1.1\r\nhost: x\r\n\r\n");
    let silent = |sent: &str| attackers::silent_connections(at, gate, CONNECTIONS, ADDRESSES, sent);
    let list = "ports?fields=name";

    let client = Client::of_gate(&url("networks?limit=1"));
    let compare = |name: &str, attack: &dyn Fn() -> Attack| {
        compare(name, &scale, &engine, &service, &client, attack);
    };
    compare("idle connections", &|| silent(""));
    compare("HTTP/2 prefaces", &|| {
        silent("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
    });
    compare("incomplete request heads", &|| {
        silent("GET / HTTP/1.1\r\nhost: x\r\n")
    });
    compare("request bodies that never arrive", &|| {
        silent("POST /v2.0/networks HTTP/1.1\r\nhost: x\r\ncontent-length: 100\r\n\r\n{")
    });
    compare("8 connections with 200 hanging streams each", &|| {
        attackers::hanging_streams(at, &url("routers"), 8, &service.hanging)
    });
    compare("12 large lists at once", &|| {
        attackers::list_readers(at, &url(list), 12)
    });
    // The same lists without the gate, to show what sending so many bytes costs this machine.
    let without_gate = format!("http://{}/v2.0/{list}", service.address);
    compare("12 large lists without the gate", &|| {
        attackers::list_readers(at, &without_gate, 12)
    });
    compare("64 slow readers of a large list", &|| {
        attackers::slow_readers(at, gate, 64, ADDRESSES, &head(list))
    });
    compare("1,200 hanging requests from one address", &|| {
        attackers::silent_connections(at, gate, 1_200, 1, &head("routers"))
    });

    let client = Client::of_socket(&engine.socket);
    self::compare(
        "silent connections to the socket",
        &scale,
        &engine,
        &service,
        &client,
        &|| attackers::socket_connections(&engine.socket, SOCKET_CONNECTIONS),
    );
    println!(
        "the engine took at most {} MB",
        memory_mb(engine.process.0.id(), "VmHWM")
    );
}

/// A runtime of one thread, which is enough for a client and leaves the other cores to the engine.
fn runtime(prepare: fn()) -> Runtime {
    Builder::new_multi_thread()
        .worker_threads(1)
        .on_thread_start(prepare)
        .enable_all()
        .build()
        .unwrap()
}

/// Measures the client in turn without the attack and during it; prints the medians of the rounds.
fn compare(
    name: &str,
    scale: &Scale,
    engine: &Engine,
    service: &Service,
    client: &Client,
    attack: &dyn Fn() -> Attack,
) {
    let (mut without, mut during, mut next) = (Vec::new(), Vec::new(), Vec::new());
    let mut list_mb_a_second = Vec::new();
    let (mut held, mut memory) = (0, 0);
    for _ in 0..scale.rounds {
        without.push(client.latencies(scale.requests));
        let lists_before = service.list_bytes_sent.load(Ordering::Relaxed);
        let began = Instant::now();
        let attack = attack();
        held = attack.held();
        during.push(client.latencies(scale.requests));
        let sent = service.list_bytes_sent.load(Ordering::Relaxed) - lists_before;
        list_mb_a_second.push(sent as f64 / 1e6 / began.elapsed().as_secs_f64());
        memory = memory.max(memory_mb(engine.process.0.id(), "VmRSS"));
        drop(attack);
        next.push(client.request(true));
        std::thread::sleep(REST);
    }
    let percentile = |rounds: &[Vec<f64>], share: usize| {
        let of_round = |round: &Vec<f64>| round[round.len() * share / 100];
        median(rounds.iter().map(of_round).collect())
    };
    let (without_99, during_99) = (percentile(&without, 99), percentile(&during, 99));
    println!(
        "{name}: {held} connections held, {:.0} MB/s of large lists, engine {memory} MB; without the attack p50 {:.2} p99 {without_99:.2} ms, during it p50 {:.2} p99 {during_99:.2} ms: p99 ratio {:.2} (goal <= 1.5); after it an answer in {:.1} ms",
        median(list_mb_a_second),
        percentile(&without, 50),
        percentile(&during, 50),
        during_99 / without_99,
        median(next),
    );
}

/// A well-behaved client, which requests one small list again and again.
struct Client {
    runtime: Runtime,
    /// A client that reuses its connections.
    reusing: reqwest::Client,
    /// A client that opens a connection for each request.
    connecting: reqwest::Client,
    url: String,
}

impl Client {
    fn of_gate(url: &str) -> Self {
        Self::new(reqwest::Client::builder, url)
    }

    fn of_socket(socket: &Path) -> Self {
        let builder = || reqwest::Client::builder().unix_socket(socket);
        Self::new(builder, "http://gone/api/v1/deletions")
    }

    fn new(builder: impl Fn() -> reqwest::ClientBuilder, url: &str) -> Self {
        let builder = || builder().timeout(REQUEST_TIMEOUT);
        Self {
            runtime: Builder::new_current_thread().enable_all().build().unwrap(),
            reusing: builder().build().unwrap(),
            connecting: builder().pool_max_idle_per_host(0).build().unwrap(),
            url: url.to_owned(),
        }
    }

    /// Sends a request, on a new connection or not, and asserts that it succeeds. Returns its latency in ms.
    fn request(&self, on_new_connection: bool) -> f64 {
        let client = match on_new_connection {
            true => &self.connecting,
            false => &self.reusing,
        };
        self.runtime.block_on(async {
            let began = Instant::now();
            let answer = client.get(&self.url).send().await.unwrap();
            assert_eq!(answer.status(), 200);
            answer.bytes().await.unwrap();
            began.elapsed().as_secs_f64() * 1_000.0
        })
    }

    /// Returns the latencies of this many requests in ms, in ascending order.
    fn latencies(&self, requests: usize) -> Vec<f64> {
        self.request(false);
        let sent = (0..requests).map(|number| self.request(number % FRESH_EACH == 0));
        let mut took: Vec<f64> = sent.collect();
        took.sort_by(f64::total_cmp);
        took
    }
}

/// The service behind the gate. It answers with a small list of networks and a large list of ports, and never answers
/// other requests.
struct Service {
    address: SocketAddr,
    /// Number of requests that the service left unanswered.
    hanging: Arc<AtomicUsize>,
    /// Bytes of large lists that the service sent.
    list_bytes_sent: Arc<AtomicUsize>,
    _runtimes: [Runtime; 2],
}

impl Service {
    fn start(list_bytes: usize) -> Self {
        let networks: Arc<str> = answer(json!({"networks": [row()]}).to_string());
        let row = row().to_string();
        let rows = vec![row.as_str(); list_bytes / row.len()].join(",");
        let ports = answer(format!("{{\"ports\": [{rows}]}}"));
        let hanging = Arc::<AtomicUsize>::default();
        // Only the thread that sends large lists has the lowest priority; small answers are sent at once.
        let (runtime, idle) = (runtime(|| {}), runtime(attackers::run_when_idle));
        let large = idle.handle().clone();
        // A small buffer, so that a large list is sent only as fast as it is read. To fill the kernel's buffers would
        // cost this machine time that the gate needs.
        let socket = TcpSocket::new_v4().unwrap();
        socket.set_send_buffer_size(PIECE_BYTES as u32).unwrap();
        socket.bind(([127, 0, 0, 1], 0).into()).unwrap();
        let listener = runtime.block_on(async { socket.listen(1_024) }).unwrap();
        let address = listener.local_addr().unwrap();
        let list_bytes_sent = Arc::<AtomicUsize>::default();
        let counted = (hanging.clone(), list_bytes_sent.clone());
        runtime.spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let lists = [networks.clone(), ports.clone()];
                tokio::spawn(serve(stream, lists, counted.clone(), large.clone()));
            }
        });
        Self {
            address,
            hanging,
            list_bytes_sent,
            _runtimes: [runtime, idle],
        }
    }
}

/// One row of a list.
fn row() -> serde_json::Value {
    json!({"id": "00000000-0000-4000-8000-000000000000", "name": "p", "fixed_ips": [
        {"subnet_id": "00000000-0000-4000-8000-000000000001", "ip_address": "10.0.0.1"}],
        "tags": [], "status": "ACTIVE", "device_owner": "compute:nova", "description": "x".repeat(100)})
}

/// A complete HTTP answer with this body.
fn answer(body: String) -> Arc<str> {
    let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length:";
    format!("{head} {}\r\n\r\n{body}", body.len()).into()
}

async fn serve(
    mut stream: TcpStream,
    [networks, ports]: [Arc<str>; 2],
    (hanging, list_bytes_sent): (Arc<AtomicUsize>, Arc<AtomicUsize>),
    large: Handle,
) {
    let _ = stream.set_nodelay(true);
    let mut head = [0; 4096];
    while let Ok(read @ 1..) = stream.read(&mut head).await {
        let sent = match head[..read].split(|byte| *byte == b' ').nth(1) {
            Some(path) if path.starts_with(b"/v2.0/networks") => {
                stream.write_all(networks.as_bytes()).await.map(|()| stream)
            }
            Some(path) if path.starts_with(b"/v2.0/ports") => {
                let ports = ports.clone();
                let sent = list_bytes_sent.clone();
                let send = async move {
                    for piece in ports.as_bytes().chunks(PIECE_BYTES) {
                        stream.write_all(piece).await?;
                        sent.fetch_add(piece.len(), Ordering::Relaxed);
                    }
                    Ok(stream)
                };
                large.spawn(send).await.unwrap()
            }
            _ => {
                hanging.fetch_add(1, Ordering::Relaxed);
                continue;
            }
        };
        match sent {
            Ok(back) => stream = back,
            Err(_) => return,
        }
    }
}

/// An engine with a gate and a socket, and its Keystone.
struct Engine {
    gate: SocketAddr,
    socket: PathBuf,
    process: ChildGuard,
    _keystone: ChildGuard,
    _home: tempfile::TempDir,
}

impl Engine {
    fn start(service: &Service) -> Self {
        let home = tempfile::tempdir().unwrap();
        // Another user must be able to reach the socket.
        fs::set_permissions(home.path(), fs::Permissions::from_mode(0o711)).unwrap();
        let (cloud, keystone) = practice_cloud(&home);
        let settings = format!(
            "[engine]\nsweep = '1h'\n[api]\nuids = {{ {OTHER_UID} = 'view' }}\n[[gate]]\n\
             listen = '127.0.0.1:0'\nupstream = {{ cloud = 'bench', region = 'RegionOne', service = 'network' }}\n"
        );
        write_settings(&home, &keystone, &service.address.to_string(), &settings);
        let ledger = home.path().join("state/gone/ledger.db");
        // With a tombstone of each kind, the gate must read and filter every list.
        add_tombstones(&ledger, "network", 1);
        add_tombstones(&ledger, "port", 1);
        let log = home.path().join("engine.log");
        let process = command(&home, "--cloud bench --engine")
            .stderr(fs::File::create(&log).unwrap())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let gate = gate_address(&log);
        let mut socket = None;
        wait_for("the socket", || {
            socket = sqlite::holder(&ledger).and_then(|owner| owner.socket);
            socket.is_some()
        });
        Self {
            gate,
            socket: socket.unwrap().into(),
            process: ChildGuard(process),
            _keystone: cloud,
            _home: home,
        }
    }
}
