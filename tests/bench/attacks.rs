//! A well-behaved client alone, and beside each attack that a listener must bear (P12): its latency in
//! both, in turns of the same run; how many connections the attack holds, what memory the engine takes,
//! and how soon the next client is answered when it ends.
//!
//! Engine and Keystone (the practice cloud's) are processes of their own. The service behind the gate
//! answers from text that stands ready, or never. Attackers, and the service where it sends a large list, are
//! other machines: here their threads run behind all others, as far as the system lets them.
//!
//! `--smoke` runs small and proves only that everybody is answered.
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
#[path = "support/stage.rs"]
mod stage;

use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use attackers::{AS_STRANGER, Attack, STRANGER, hold_the_socket};
use gone::ledger::sqlite;
use serde_json::json;
use stage::{Ended, command, fill, gate_address, memory_mb, practice_cloud, wait_for};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpSocket, TcpStream};
use tokio::runtime::{Builder, Handle, Runtime};

/// As many as a gate holds by default.
const CONNECTIONS: usize = 1_024;
/// From which they come: so none of them has more than its own share.
const ADDRESSES: usize = 8;
/// More than the engine's socket holds.
const SOCKET_CONNECTIONS: usize = 600;
/// Every tenth request comes by a connection of its own.
const FRESH_EACH: usize = 10;
/// Between an attack and the next client that is alone.
const REST: Duration = Duration::from_secs(1);
/// What the service sends of a list at a time.
const PIECE_BYTES: usize = 16 << 10;
/// What a client waits for its answer, at the very most.
const PATIENCE: Duration = Duration::from_secs(30);

struct Scale {
    rounds: usize,
    /// Of the well-behaved client, in each round: alone, and as many beside.
    requests: usize,
    list_bytes: usize,
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    if let [_, word, socket, count] = &arguments[..]
        && word == AS_STRANGER
    {
        return hold_the_socket(Path::new(socket), count.parse().unwrap());
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
    let attackers = runtime(attackers::stand_behind);
    let (at, gate) = (&attackers, engine.gate);
    let url = |path: &str| format!("http://{gate}/v2.0/{path}");
    let head = |path: &str| format!("GET /v2.0/{path} HTTP/1.1\r\nhost: x\r\n\r\n");
    let silence = |sent: &str| attackers::silence(at, gate, CONNECTIONS, ADDRESSES, sent);
    let list = "ports?fields=name";

    let client = Client::of_gate(&url("networks?limit=1"));
    let compare = |name: &str, attack: &dyn Fn() -> Attack| {
        compare(name, &scale, &engine, &service, &client, attack);
    };
    compare("idle connections", &|| silence(""));
    compare("HTTP/2 prefaces", &|| {
        silence("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
    });
    compare("half heads", &|| silence("GET / HTTP/1.1\r\nhost: x\r\n"));
    compare("bodies that never come", &|| {
        silence("POST /v2.0/networks HTTP/1.1\r\nhost: x\r\ncontent-length: 100\r\n\r\n{")
    });
    compare("8 x 200 streams that hang", &|| {
        attackers::streams(at, &url("routers"), 8, &service.hanging)
    });
    compare("12 large lists at once", &|| {
        attackers::lists(at, &url(list), 12)
    });
    // What the machine alone makes of as many bytes: none of them comes through the gate.
    let past_the_gate = format!("http://{}/v2.0/{list}", service.address);
    compare("12 large lists past the gate", &|| {
        attackers::lists(at, &past_the_gate, 12)
    });
    compare("64 slow readers of a large list", &|| {
        attackers::sips(at, gate, 64, ADDRESSES, &head(list))
    });
    compare("one client with 1,200 requests", &|| {
        attackers::silence(at, gate, 1_200, 1, &head("routers"))
    });

    let client = Client::of_socket(&engine.socket);
    self::compare(
        "silent connections to the socket",
        &scale,
        &engine,
        &service,
        &client,
        &|| attackers::strangers(&engine.socket, SOCKET_CONNECTIONS),
    );
    println!(
        "the engine held {} MB at most",
        memory_mb(engine.process.0.id(), "VmHWM")
    );
}

/// One thread: a client needs no more, and the engine has the rest.
fn runtime(prepare: fn()) -> Runtime {
    Builder::new_multi_thread()
        .worker_threads(1)
        .on_thread_start(prepare)
        .enable_all()
        .build()
        .unwrap()
}

/// The client alone and beside the attack, in turns; prints the medians of the rounds.
fn compare(
    name: &str,
    scale: &Scale,
    engine: &Engine,
    service: &Service,
    client: &Client,
    attack: &dyn Fn() -> Attack,
) {
    let (mut alone, mut beside, mut next) = (Vec::new(), Vec::new(), Vec::new());
    let mut list_mb_a_second = Vec::new();
    let (mut held, mut memory) = (0, 0);
    for _ in 0..scale.rounds {
        alone.push(client.latencies(scale.requests));
        let lists_before = service.list_bytes_sent.load(Ordering::Relaxed);
        let began = Instant::now();
        let attack = attack();
        held = attack.held();
        beside.push(client.latencies(scale.requests));
        let sent = service.list_bytes_sent.load(Ordering::Relaxed) - lists_before;
        list_mb_a_second.push(sent as f64 / 1e6 / began.elapsed().as_secs_f64());
        memory = memory.max(memory_mb(engine.process.0.id(), "VmRSS"));
        drop(attack);
        next.push(client.ask(true));
        std::thread::sleep(REST);
    }
    let p = |rounds: &[Vec<f64>], share: usize| {
        let of_round = |round: &Vec<f64>| round[round.len() * share / 100];
        median(rounds.iter().map(of_round).collect())
    };
    let (alone_99, beside_99) = (p(&alone, 99), p(&beside, 99));
    println!(
        "{name}: {held} connections held, {:.0} MB/s of large lists, {memory} MB; alone p50 {:.2} p99 {alone_99:.2} ms, beside p50 {:.2} p99 {beside_99:.2} ms: ratio {:.2} (goal <= 1.5); next answer {:.1} ms after its end",
        median(list_mb_a_second),
        p(&alone, 50),
        p(&beside, 50),
        beside_99 / alone_99,
        median(next),
    );
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// One who asks for a small list, again and again, and is answered each time.
struct Client {
    runtime: Runtime,
    kept: reqwest::Client,
    fresh: reqwest::Client,
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
        let builder = || builder().timeout(PATIENCE);
        Self {
            runtime: Builder::new_current_thread().enable_all().build().unwrap(),
            kept: builder().build().unwrap(),
            fresh: builder().pool_max_idle_per_host(0).build().unwrap(),
            url: url.to_owned(),
        }
    }

    /// How long it took, in ms.
    fn ask(&self, fresh: bool) -> f64 {
        let client = if fresh { &self.fresh } else { &self.kept };
        self.runtime.block_on(async {
            let began = Instant::now();
            let answer = client.get(&self.url).send().await.unwrap();
            assert_eq!(answer.status(), 200);
            answer.bytes().await.unwrap();
            began.elapsed().as_secs_f64() * 1_000.0
        })
    }

    /// Of so many requests, the quickest first.
    fn latencies(&self, requests: usize) -> Vec<f64> {
        self.ask(false);
        let asked = (0..requests).map(|number| self.ask(number % FRESH_EACH == 0));
        let mut took: Vec<f64> = asked.collect();
        took.sort_by(f64::total_cmp);
        took
    }
}

/// The service behind the gate: a small list of networks, a large one of ports, and nothing for the rest.
struct Service {
    address: SocketAddr,
    /// Requests that were never answered.
    hanging: Arc<AtomicUsize>,
    /// Of large lists.
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
        // Only the thread that sends large lists runs behind all others: small answers come at once.
        let (runtime, behind) = (runtime(|| {}), runtime(attackers::stand_behind));
        let large = behind.handle().clone();
        // It sends no more than is read: what lies ready in the kernel would cost this machine, and not the gate.
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
            _runtimes: [runtime, behind],
        }
    }
}

fn row() -> serde_json::Value {
    json!({"id": "00000000-0000-4000-8000-000000000000", "name": "p", "fixed_ips": [
        {"subnet_id": "00000000-0000-4000-8000-000000000001", "ip_address": "10.0.0.1"}],
        "tags": [], "status": "ACTIVE", "device_owner": "compute:nova", "description": "x".repeat(100)})
}

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

/// The engine with a gate, and its socket.
struct Engine {
    gate: SocketAddr,
    socket: PathBuf,
    process: Ended,
    _keystone: Ended,
    _home: tempfile::TempDir,
}

impl Engine {
    fn start(service: &Service) -> Self {
        let home = tempfile::tempdir().unwrap();
        // A stranger may come as far as the socket's folder.
        fs::set_permissions(home.path(), fs::Permissions::from_mode(0o711)).unwrap();
        let (cloud, keystone) = practice_cloud(&home);
        let clouds = format!(
            "clouds:\n  bench:\n    auth: {{auth_url: '{keystone}/v3', username: admin, password: secret, \
             project_name: admin, user_domain_id: default, project_domain_id: default}}\n    \
             region_name: RegionOne\n    network_endpoint_override: 'http://{}'\n",
            service.address
        );
        fs::write(home.path().join("clouds.yaml"), clouds).unwrap();
        fs::create_dir_all(home.path().join("config/gone")).unwrap();
        let settings = format!(
            "[engine]\nsweep = '1h'\n[api]\nuids = {{ {STRANGER} = 'view' }}\n[[gate]]\n\
             listen = '127.0.0.1:0'\nupstream = {{ cloud = 'bench', region = 'RegionOne', service = 'network' }}\n"
        );
        fs::write(home.path().join("config/gone/config.toml"), settings).unwrap();
        let ledger = home.path().join("state/gone/ledger.db");
        // Something of each kind is gone: so every list is read and filtered.
        fill(&ledger, "network", 1);
        fill(&ledger, "port", 1);
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
            process: Ended(process),
            _keystone: cloud,
            _home: home,
        }
    }
}
