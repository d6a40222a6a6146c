//! What attackers do to a listener, from addresses and under a uid of their own. Each goes on until it is
//! dropped.
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

use crate::stage::Ended;

/// `nobody`: who runs as root takes the socket's connections under this uid.
pub const STRANGER: u32 = 65_534;
/// By this argument the bench itself is the stranger.
pub const AS_STRANGER: &str = "--hold-the-socket";
/// What a slow reader takes at a time.
const SIP: usize = 1 << 10;
const BETWEEN_SIPS: Duration = Duration::from_millis(100);

/// This thread runs when no other would, and gives way at once: a low priority alone lets it run on for some
/// milliseconds while another waits.
pub fn stand_behind() {
    // On Linux a thread's policy and priority are its own; elsewhere they would be the whole process's.
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
            "chrt is missing or refused: attackers take more of this machine than they should"
        );
    }
}

/// An attack under way.
#[derive(Default)]
pub struct Attack {
    /// Connections that say nothing more.
    silent: Vec<TcpStream>,
    /// Connections that are used.
    used: usize,
    tasks: JoinSet<()>,
    stranger: Option<Ended>,
}

impl Attack {
    /// Connections that the listener holds now.
    pub fn held(&self) -> usize {
        self.silent.iter().filter(|stream| is_open(stream)).count() + self.used
    }
}

/// Past whatever the listener has sent.
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

/// From 127.0.NET.HOST.
async fn connect(gate: SocketAddr, net: u8, host: usize) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    let host = u8::try_from(host).unwrap();
    socket.bind(([127, 0, net, host], 0).into()).unwrap();
    socket.connect(gate).await.unwrap()
}

/// So many connections that have sent this, and send nothing more; from so many addresses.
pub fn silence(
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
            // It may have been let go before all was written.
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

/// HTTP/2 connections, each with many requests that the upstream does not answer. Returns when no more of
/// them reach it.
pub fn streams(
    runtime: &Runtime,
    url: &str,
    connections: usize,
    asked: &Arc<AtomicUsize>,
) -> Attack {
    const STREAMS: usize = 200;
    let before = asked.load(Ordering::Relaxed);
    let mut attack = Attack {
        used: connections,
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
            let asks = async move {
                let _ = request.send().await;
            };
            attack.tasks.spawn_on(asks, runtime.handle());
        }
    }
    let mut last = before;
    loop {
        std::thread::sleep(Duration::from_millis(200));
        let now = asked.load(Ordering::Relaxed);
        if now > before && now == last {
            return attack;
        }
        last = now;
    }
}

/// Clients that read the whole list, again and again.
pub fn lists(runtime: &Runtime, url: &str, clients: usize) -> Attack {
    let mut attack = Attack {
        used: clients,
        ..Attack::default()
    };
    for number in 0..clients {
        let host = u8::try_from(number + 1).unwrap();
        let client = reqwest::Client::builder()
            .local_address(Some([127, 0, 3, host].into()))
            .build()
            .unwrap();
        let url = url.to_owned();
        let asks = async move {
            loop {
                let mut answer = client.get(&url).send().await.unwrap();
                while answer.chunk().await.unwrap().is_some() {}
            }
        };
        attack.tasks.spawn_on(asks, runtime.handle());
    }
    attack
}

/// Clients that take the list a kilobyte at a time.
pub fn sips(
    runtime: &Runtime,
    gate: SocketAddr,
    clients: usize,
    addresses: usize,
    asked: &str,
) -> Attack {
    let mut attack = Attack {
        used: clients,
        ..Attack::default()
    };
    for number in 0..clients {
        let asked = asked.to_owned();
        let sips = async move {
            let mut stream = connect(gate, 4, number % addresses + 1).await;
            stream.write_all(asked.as_bytes()).await.unwrap();
            let mut sip = [0; SIP];
            while stream.read(&mut sip).await.is_ok_and(|read| read > 0) {
                tokio::time::sleep(BETWEEN_SIPS).await;
            }
        };
        attack.tasks.spawn_on(sips, runtime.handle());
    }
    attack
}

/// Silent connections to the engine's socket: another uid's, where this process may take one.
pub fn strangers(socket: &Path, count: usize) -> Attack {
    // By this name it is found also where the other uid may not read the folders above.
    let mut command = Command::new("/proc/self/exe");
    command.arg(AS_STRANGER).arg(socket).arg(count.to_string());
    if rustix::process::geteuid().is_root() {
        command.uid(STRANGER);
    }
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut stranger = command.spawn().unwrap();
    let mut line = String::new();
    let mut out = BufReader::new(stranger.stdout.take().unwrap());
    out.read_line(&mut line).unwrap();
    Attack {
        used: line.trim().parse().unwrap(),
        stranger: Some(Ended(stranger)),
        ..Attack::default()
    }
}

/// Holds the connections, says how many, and ends when its input does.
pub fn hold_the_socket(socket: &Path, count: usize) {
    let connect = |_| UnixStream::connect(socket);
    let held: Vec<UnixStream> = (0..count).map_while(|it| connect(it).ok()).collect();
    println!("{}", held.len());
    std::io::stdout().flush().unwrap();
    let _ = std::io::stdin().read_line(&mut String::new());
}
