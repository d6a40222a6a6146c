//! A gate serves everybody or nobody (P12): a client that keeps connections, request bodies or answers open does not
//! keep the gate from serving other clients.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use gone::domain::model::{DeletionState, Phase};
use gone::system::config::GateSource;
use reqwest::Method;
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpSocket, TcpStream};

use crate::scopes::Keystone;
use crate::support::{DEADLINE, Stage, until};

/// Number of connections that the gate accepts.
const CONNECTIONS_MAX: usize = 64;
/// Number of connections that a test opens.
const CONNECTIONS_OPENED: usize = 4 * CONNECTIONS_MAX;

/// Settings of a gate with few connections. A connection ends by itself only after an hour, which is longer than any
/// test: until then, a new client is served only if the gate closes another connection.
fn gate_with_few_connections() -> String {
    format!(
        "[[gate]]\nlisten = '127.0.0.1:0'\nupstream = {{ cloud = 'sandbox', region = 'RegionOne', \
         service = 'network' }}\nlimits = {{ connections = {CONNECTIONS_MAX}, head_timeout = '1h' }}\n"
    )
}

fn address(stage: &Stage) -> String {
    let origin = stage.origin(GateSource::User, "network");
    origin.strip_prefix("http://").unwrap().to_owned()
}

/// Opens connections that send these bytes and then nothing. They come from several addresses, because one address
/// may have only a share of the gate's connections.
async fn open_connections(address: &str, count: usize, sent: &str) -> Vec<TcpStream> {
    let address = address.parse().unwrap();
    let mut connections = Vec::new();
    for from in (2..=5).cycle().take(count) {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind(([127, 0, 0, from], 0).into()).unwrap();
        let mut stream = socket.connect(address).await.unwrap();
        // The gate may close the connection before all bytes are written.
        let _ = stream.write_all(sent.as_bytes()).await;
        connections.push(stream);
    }
    connections
}

#[tokio::test(flavor = "multi_thread")]
async fn p12_a_client_that_holds_many_connections_does_not_block_others() {
    let stage = Stage::with(&gate_with_few_connections()).await;
    let address = address(&stage);
    let url = stage.url(GateSource::User, "network");
    let path = url::Url::parse(&url).unwrap().path().to_owned();
    for (what, sent) in [
        ("no byte", String::new()),
        ("half a preface", "PRI * HT".to_owned()),
        ("a preface", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_owned()),
        ("half a head", "GET / HTTP/1.1\r\nhost: x\r\n".to_owned()),
        (
            "half a body",
            format!(
                "POST {path}/v2.0/networks HTTP/1.1\r\nhost: x\r\ncontent-length: 100\r\n\r\n{{"
            ),
        ),
        (
            "an idle connection",
            "GET / HTTP/1.1\r\nhost: x\r\n\r\n".to_owned(),
        ),
    ] {
        let held = open_connections(&address, CONNECTIONS_OPENED, &sent).await;
        for _ in 0..20 {
            // Each client opens a new connection.
            let client = reqwest::Client::new();
            let list = client
                .get(format!("{url}/v2.0/networks?limit=1"))
                .header("x-auth-token", &stage.admin)
                .timeout(DEADLINE);
            let answer = stage.send_request(list).await;
            assert_eq!(answer.status, 200, "{what}: {}", answer.text);
        }
        println!(
            "{what}: {} connections opened, {CONNECTIONS_MAX} allowed, 20 of 20 requests answered",
            held.len()
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn p12_clients_that_do_not_read_their_answers_do_not_block_others() {
    let stage = Stage::with(&gate_with_few_connections()).await;
    let seed = json!({"region": "RegionOne", "networks": 1, "ports_per_network": 2_000});
    stage.sandbox(Method::POST, "seed", seed).await;
    let url = stage.url(GateSource::User, "network");
    let path = url::Url::parse(&url).unwrap().path().to_owned();
    let token = &stage.admin;
    let request =
        format!("GET {path}/v2.0/ports HTTP/1.1\r\nhost: x\r\nx-auth-token: {token}\r\n\r\n");
    // Each connection costs a large answer, so the test opens only one and a half times as many as the gate accepts.
    let _held = open_connections(
        &address(&stage),
        CONNECTIONS_MAX + CONNECTIONS_MAX / 2,
        &request,
    )
    .await;
    for _ in 0..5 {
        let list = reqwest::Client::new()
            .get(format!("{url}/v2.0/networks?limit=1"))
            .header("x-auth-token", token)
            .timeout(DEADLINE);
        assert_eq!(stage.send_request(list).await.status, 200);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn p12_a_request_body_that_never_arrives_delays_no_deletion() {
    let stage = Stage::new().await;
    let url = stage.url(GateSource::User, "network");
    let path = url::Url::parse(&url).unwrap().path().to_owned();
    let network = stage.network("n").await;
    let silent =
        format!("POST {path}/v2.0/networks HTTP/1.1\r\nhost: x\r\ncontent-length: 100\r\n\r\n{{");
    let mut held = TcpStream::connect(address(&stage)).await.unwrap();
    held.write_all(silent.as_bytes()).await.unwrap();
    // When the gate has answered a later request, it has read the head of this request.
    stage.user_get("/v2.0/networks").await.with_status(200);
    let id = stage.delete("network", &network, Default::default()).await;
    stage.until(&id, DeletionState::Gone).await;
    let mut byte = [0];
    let answered = held.try_read(&mut byte);
    assert!(
        answered.is_err(),
        "the gate no longer waits for the body: {answered:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn p12_one_client_opens_at_most_its_share_of_the_upstream_connections() {
    let upstream = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let at = format!("http://{}", upstream.local_addr().unwrap());
    let opened = Arc::new(AtomicUsize::new(0));
    let counted = opened.clone();
    tokio::spawn(async move {
        let mut held = Vec::new();
        loop {
            held.push(upstream.accept().await.unwrap());
            counted.fetch_add(1, Ordering::SeqCst);
        }
    });
    let stage = Stage::new().await;
    let keystone = Keystone::with_network_service(at).await;
    let auth = format!("{}/v3", keystone.server.uri());
    let gate = stage.gate_with_keystone(&auth, "connections = 64").await;
    let url = format!("http://{}/v2.0/networks", gate.address());
    let mut requests = Vec::new();
    for _ in 0..8 {
        let client = reqwest::Client::builder()
            .http2_prior_knowledge()
            .build()
            .unwrap();
        for _ in 0..200 {
            let (client, url) = (client.clone(), url.clone());
            requests.push(tokio::spawn(async move { client.get(url).send().await }));
        }
    }
    until(
        "the client's share of the connections is open",
        async || opened.load(Ordering::SeqCst) == 32,
    )
    .await;
    let more = until("more connections are open", async || {
        opened.load(Ordering::SeqCst) > 32
    });
    let more = tokio::time::timeout(std::time::Duration::from_secs(2), more).await;
    assert!(more.is_err(), "{} are open", opened.load(Ordering::SeqCst));
    for request in requests {
        request.abort();
    }
    gate.stop().await;
}

/// Returns the largest resident memory that this process has had, in MiB.
fn peak_mib() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status
        .lines()
        .find(|line| line.starts_with("VmHWM:"))
        .unwrap();
    let kib: usize = line.split_whitespace().nth(1).unwrap().parse().unwrap();
    kib >> 10
}

#[tokio::test(flavor = "multi_thread")]
async fn p12_large_lists_share_one_memory_limit() {
    let row = json!({"id": "00000000-0000-4000-8000-000000000000", "name": "p", "fixed_ips": [
        {"subnet_id": "00000000-0000-4000-8000-000000000001", "ip_address": "10.0.0.1"}],
        "tags": [], "status": "ACTIVE", "device_owner": "compute:nova", "description": "x".repeat(100)});
    let row = row.to_string();
    let rows = vec![row.as_str(); (11 << 20) / row.len()];
    let list: Arc<str> = format!("{{\"ports\": [{}]}}", rows.join(",")).into();
    drop(rows);
    let upstream = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let at = format!("http://{}", upstream.local_addr().unwrap());
    tokio::spawn(async move {
        loop {
            let (mut stream, _) = upstream.accept().await.unwrap();
            let list = list.clone();
            tokio::spawn(async move {
                let mut head = [0; 4096];
                while stream.read(&mut head).await.is_ok_and(|read| read > 0) {
                    let answer = format!(
                        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
                        list.len()
                    );
                    let _ = stream.write_all(answer.as_bytes()).await;
                    let _ = stream.write_all(list.as_bytes()).await;
                }
            });
        }
    });
    let stage = Stage::new().await;
    // A port is being deleted, so the gate has to parse and rewrite every list of ports.
    stage.set_phase(
        "port",
        "00000000-0000-4000-8000-00000000ffff",
        Some(Phase::Deleting),
    );
    let keystone = Keystone::with_network_service(at).await;
    let auth = format!("{}/v3", keystone.server.uri());
    let gate = stage.gate_with_keystone(&auth, "").await;
    let before = peak_mib();
    let lists = (0..12).map(|_| async {
        let url = format!("http://{}/v2.0/ports?fields=name", gate.address());
        let mut answer = reqwest::Client::new().get(url).send().await.unwrap();
        assert_eq!(answer.status(), 200);
        let mut bytes = 0;
        while let Some(part) = answer.chunk().await.unwrap() {
            bytes += part.len();
        }
        bytes
    });
    for bytes in futures_util::future::join_all(lists).await {
        assert!(bytes > 7 << 20, "{bytes}");
    }
    let more = peak_mib() - before;
    println!("12 lists of 11 MiB at once took {more} MiB");
    assert!(more < 768, "{more} MiB");
    gate.stop().await;
}
