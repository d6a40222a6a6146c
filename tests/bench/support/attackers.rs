//! Attacks on a listener, from addresses and under a uid of their own. An attack goes on until it is dropped.
use std::io::{BufRead as _, BufReader, ErrorKind, Write as _};
use std::net::SocketAddr;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpSocket, TcpStream};
use tokio::runtime::Runtime;
use tokio::task::JoinSet;

use crate::fixture::ChildGuard;

/// The user `nobody`. If the bench runs as root, it opens the connections to the socket under this uid.
pub const OTHER_UID: u32 = 65_534;
/// With this argument, the bench opens the connections to the socket and does nothing else.
pub const AS_OTHER_UID: &str = "--hold-socket-connections";
/// Bytes that a slow reader reads at a time.
const SLOW_READ_BYTES: usize = 1 << 10;
const SLOW_READ_PAUSE: Duration = Duration::from_millis(100);

/// Gives this thread the scheduling policy `idle`: it runs only while no other thread wants to, and is preempted at
/// once. With a low priority alone, it would run on for some milliseconds while another thread waits.
pub fn run_when_idle() {
    // On Linux, policy and priority belong to a thread; elsewhere they belong to the process.
    if !cfg!(target_os = "linux") {
        return;
    }
    const LOWEST_PRIORITY: i32 = 19;
    let _ = rustix::process::setpriority_process(None, LOWEST_PRIORITY);
    let thread = std::fs::read_link("/proc/thread-self").unwrap();
    let thread = thread.file_name().unwrap();
    let mut idle = Command::new("chrt");
    let ended = idle.args(["--idle", "--pid", "0"]).arg(thread).status();
    if !ended.is_ok_and(|status| status.success()) {
        println!(
            "chrt is missing or failed: the attackers' threads take processor time from the engine and the client"
        );
    }
}

/// An attack under way.
#[derive(Default)]
pub struct Attack {
    /// Connections that send nothing more.
    silent: Vec<TcpStream>,
    /// Number of the connections that are not in `silent`.
    other_connections: usize,
    tasks: JoinSet<()>,
    /// The process that holds the connections to the socket.
    socket_holder: Option<ChildGuard>,
}

impl Attack {
    /// Returns how many silent connections are open now, plus the number of all other connections.
    pub fn held(&self) -> usize {
        self.silent.iter().filter(|stream| is_open(stream)).count() + self.other_connections
    }
}

/// Whether a connection is open; skips the bytes that the listener has sent.
fn is_open(stream: &TcpStream) -> bool {
    let mut sent = [0; 1024];
    loop {
        match stream.try_read(&mut sent) {
            Ok(0) => return false,
            Ok(_) => {}
            Err(error) => return error.kind() == ErrorKind::WouldBlock,
        }
    }
}

/// Connects from the address 127.0.NET.HOST.
async fn connect(gate: SocketAddr, net: u8, host: usize) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    let host = u8::try_from(host).unwrap();
    socket.bind(([127, 0, net, host], 0).into()).unwrap();
    socket.connect(gate).await.unwrap()
}

/// Opens `count` connections from `addresses` addresses. Each connection sends `sent` and nothing more.
pub fn silent_connections(
    runtime: &Runtime,
    gate: SocketAddr,
    count: usize,
    addresses: usize,
    sent: &str,
) -> Attack {
    let silent = runtime.block_on(async {
        let mut silent = Vec::with_capacity(count);
        for number in 0..count {
            let mut stream = connect(gate, 1, number % addresses + 1).await;
            // The listener may close the connection before all is written.
            let _ = stream.write_all(sent.as_bytes()).await;
            silent.push(stream);
        }
        silent
    });
    Attack {
        silent,
        ..Attack::default()
    }
}

/// Opens HTTP/2 connections, each with many requests that the upstream does not answer. `received` counts the
/// requests that reach the upstream; returns once that number has stopped growing.
pub fn hanging_streams(
    runtime: &Runtime,
    url: &str,
    connections: usize,
    received: &Arc<AtomicUsize>,
) -> Attack {
    const STREAMS: usize = 200;
    let before = received.load(Ordering::Relaxed);
    let mut attack = Attack {
        other_connections: connections,
        ..Attack::default()
    };
    for number in 0..connections {
        let host = u8::try_from(number + 1).unwrap();
        let client = reqwest::Client::builder()
            .http2_prior_knowledge()
            .local_address(Some([127, 0, 2, host].into()))
            .build()
            .unwrap();
        for _ in 0..STREAMS {
            let request = client.get(url);
            let sends = async move {
                let _ = request.send().await;
            };
            attack.tasks.spawn_on(sends, runtime.handle());
        }
    }
    let mut last = before;
    loop {
        std::thread::sleep(Duration::from_millis(200));
        let now = received.load(Ordering::Relaxed);
        if now > before && now == last {
            return attack;
        }
        last = now;
    }
}

/// Starts clients that read the whole list again and again.
pub fn list_readers(runtime: &Runtime, url: &str, clients: usize) -> Attack {
    let mut attack = Attack {
        other_connections: clients,
        ..Attack::default()
    };
    for number in 0..clients {
        let host = u8::try_from(number + 1).unwrap();
        let client = reqwest::Client::builder()
            .local_address(Some([127, 0, 3, host].into()))
            .build()
            .unwrap();
        let url = url.to_owned();
        let reads = async move {
            loop {
                let mut answer = client.get(&url).send().await.unwrap();
                while answer.chunk().await.unwrap().is_some() {}
            }
        };
        attack.tasks.spawn_on(reads, runtime.handle());
    }
    attack
}

/// Starts clients that send `head`, and read the answer a kilobyte at a time.
pub fn slow_readers(
    runtime: &Runtime,
    gate: SocketAddr,
    clients: usize,
    addresses: usize,
    head: &str,
) -> Attack {
    let mut attack = Attack {
        other_connections: clients,
        ..Attack::default()
    };
    for number in 0..clients {
        let head = head.to_owned();
        let reads = async move {
            let mut stream = connect(gate, 4, number % addresses + 1).await;
            stream.write_all(head.as_bytes()).await.unwrap();
            let mut bytes = [0; SLOW_READ_BYTES];
            while stream.read(&mut bytes).await.is_ok_and(|read| read > 0) {
                tokio::time::sleep(SLOW_READ_PAUSE).await;
            }
        };
        attack.tasks.spawn_on(reads, runtime.handle());
    }
    attack
}

/// Opens silent connections to the engine's socket, from a process under another uid if this process may change its
/// uid.
pub fn socket_connections(socket: &Path, count: usize) -> Attack {
    // The other user may not be allowed to read the folders of the bench's own path.
    let mut command = Command::new("/proc/self/exe");
    command.arg(AS_OTHER_UID).arg(socket).arg(count.to_string());
    if rustix::process::geteuid().is_root() {
        command.uid(OTHER_UID);
    }
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut holder = command.spawn().unwrap();
    let mut line = String::new();
    let mut out = BufReader::new(holder.stdout.take().unwrap());
    out.read_line(&mut line).unwrap();
    Attack {
        other_connections: line.trim().parse().unwrap(),
        socket_holder: Some(ChildGuard(holder)),
        ..Attack::default()
    }
}

/// Opens connections to the socket, prints their number, and holds them until standard input ends.
pub fn hold_socket_connections(socket: &Path, count: usize) {
    let connect = |_| UnixStream::connect(socket);
    let held: Vec<UnixStream> = (0..count).map_while(|it| connect(it).ok()).collect();
    println!("{}", held.len());
    std::io::stdout().flush().unwrap();
    let _ = std::io::stdin().read_line(&mut String::new());
}
