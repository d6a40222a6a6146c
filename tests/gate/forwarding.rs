//! Which requests and answers the gate forwards unchanged, and which it refuses.

use std::io::ErrorKind;

use futures_util::StreamExt as _;
use gone::control::{GateTraffic, query};
use gone::domain::model::Phase;
use gone::system::config::GateSource;
use reqwest::Method;
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use crate::scopes::Keystone;
use crate::support::Stage;

#[tokio::test(flavor = "multi_thread")]
async fn an_image_passes_the_gate_unchanged_in_both_directions() {
    let stage = Stage::new().await;
    let formats = json!({"name": "i", "disk_format": "raw", "container_format": "bare"});
    let id = stage.make("image", "/v2/images", formats).await;
    let url = stage.url(GateSource::User, "image");
    let data: Vec<u8> = (0..3_000_000u32).map(|n| (n % 251) as u8).collect();
    let put = stage
        .request(Method::PUT, &format!("{url}/v2/images/{id}/file"))
        .header("x-auth-token", &stage.admin)
        .header("content-type", "application/octet-stream")
        .body(data.clone());
    assert_eq!(stage.send_request(put).await.status, 204);
    let get = stage
        .request(Method::GET, &format!("{url}/v2/images/{id}/file"))
        .header("x-auth-token", &stage.admin);
    let answer = get.send().await.unwrap();
    assert_eq!(answer.status(), 200);
    assert_eq!(answer.bytes().await.unwrap(), data);
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_without_tombstones_are_exactly_those_of_the_service() {
    let stage = Stage::new().await;
    stage.network("n").await;
    let gate = stage.url(GateSource::User, "network");
    let upstream = stage.upstream("network");
    for path in [
        "/",
        "/v2.0",
        "/v2.0/extensions",
        "/v2.0/networks",
        "/v2.0/networks?name=n&fields=id",
        "/v2.0/networks/no-such",
        "/v2.0/quotas",
        "/nowhere",
    ] {
        let here = stage
            .send(Method::GET, &format!("{gate}{path}"), &stage.admin, None)
            .await;
        // The service writes links with the host that the request names.
        let there = stage
            .request(Method::GET, &format!("{upstream}{path}"))
            .header("x-auth-token", &stage.admin)
            .header("host", url::Url::parse(&gate).unwrap().authority());
        let there = stage.send_request(there).await;
        assert_eq!(
            (here.status, &here.text),
            (there.status, &there.text),
            "{path}"
        );
        for name in ["content-type", "content-length"] {
            assert_eq!(here.header(name), there.header(name), "{name} of {path}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn links_to_the_next_page_lead_through_the_gate() {
    let stage = Stage::new().await;
    for name in ["a", "b"] {
        let body = json!({"network": {"name": name}});
        stage.make("network", "/v2.0/networks", body).await;
    }
    let gate = stage.url(GateSource::User, "network");
    let page = stage.user_get("/v2.0/networks?limit=1").await;
    let next = page.json()["networks_links"][0]["href"]
        .as_str()
        .unwrap()
        .to_owned();
    assert!(next.starts_with(&gate), "{next}");
    let second = stage.send(Method::GET, &next, &stage.admin, None).await;
    assert_ne!(second.json()["networks"], page.json()["networks"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn http_2_and_absolute_request_targets_are_served() {
    let stage = Stage::new().await;
    let gate = stage.url(GateSource::User, "network");
    let client = reqwest::Client::builder()
        .http2_prior_knowledge()
        .build()
        .unwrap();
    let list = client
        .get(format!("{gate}/v2.0/networks?limit=1"))
        .header("x-auth-token", &stage.admin);
    stage.send_request(list).await.with_status(200);
    let url = url::Url::parse(&gate).unwrap();
    let absolute = format!("GET {gate}/ HTTP/1.1\r\nhost: elsewhere\r\nconnection: close\r\n\r\n");
    let version = send_raw(&stage, &absolute).await;
    assert!(version.starts_with("HTTP/1.1 200"), "{version}");
    assert!(!version.contains("elsewhere"), "{version}");
    assert!(version.contains(url.authority()), "{version}");
}

/// Sends these bytes to the user gate of the network service. Returns all that the gate sends until it closes the
/// connection.
async fn send_raw(stage: &Stage, request: &str) -> String {
    let url = stage.url(GateSource::User, "network");
    let address = url
        .strip_prefix("http://")
        .unwrap()
        .split('/')
        .next()
        .unwrap();
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    answer
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_with_two_readings_is_refused() {
    let stage = Stage::new().await;
    let path = url::Url::parse(&stage.url(GateSource::User, "network")).unwrap();
    let path = path.path();
    let before = network_calls(&stage).await;
    for request in [
        format!(
            "GET {path}/v2.0/ports HTTP/1.1\r\nhost: x\r\nx-a: b\r\n c\r\nconnection: close\r\n\r\n"
        ),
        format!(
            "POST {path}/v2.0/ports HTTP/1.1\r\nhost: x\r\ncontent-length: 1\r\ncontent-length: 2\r\nconnection: close\r\n\r\nab"
        ),
        format!("GET {path}//v2.0/ports HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n"),
        format!("GET {path}/v2.0/x/../ports HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n"),
    ] {
        let answer = send_raw(&stage, &request).await;
        assert!(answer.starts_with("HTTP/1.1 400"), "{request}: {answer}");
    }
    assert_eq!(network_calls(&stage).await, before);
}

/// Returns the number of calls that the network service has received.
async fn network_calls(stage: &Stage) -> usize {
    let calls = stage
        .sandbox(Method::GET, "calls?after=0", json!(null))
        .await;
    let paths = calls["calls"].as_array().unwrap().iter();
    let paths = paths.filter_map(|call| call["path"].as_str());
    paths.filter(|path| path.contains("/network/")).count()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_with_a_length_and_chunks_is_forwarded_at_most_once() {
    let stage = Stage::new().await;
    let url = url::Url::parse(&stage.url(GateSource::User, "network")).unwrap();
    let path = url.path();
    let before = network_calls(&stage).await;
    // A server that reads by the length takes the hidden request for a part of the first request's body; a server
    // that reads by chunks takes it for a second request.
    let hidden = format!("DELETE {path}/v2.0/networks/n HTTP/1.1\r\nhost: x\r\n\r\n");
    let length = hidden.len() + 5;
    let request = format!(
        "POST {path}/v2.0/ports HTTP/1.1\r\nhost: x\r\ncontent-length: {length}\r\n\
         transfer-encoding: chunked\r\nconnection: close\r\n\r\n0\r\n\r\n{hidden}"
    );
    let answer = send_raw(&stage, &request).await;
    assert!(answer.starts_with("HTTP/1.1 4"), "{answer}");
    assert_eq!(answer.matches("HTTP/1.1").count(), 1, "{answer}");
    assert!(network_calls(&stage).await <= before + 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_waiting_client_gets_a_connection_when_a_slow_one_is_closed() {
    let one_connection = "[[gate]]\nlisten = '127.0.0.1:0'\nlimits = { connections = 1, head_timeout = '1h' }\n\
                  upstream = { cloud = 'sandbox', region = 'RegionOne', service = 'network' }\n";
    let stage = Stage::with(one_connection).await;
    let origin = stage.origin(GateSource::User, "network");
    let address = origin.strip_prefix("http://").unwrap();
    let root = url::Url::parse(&stage.url(GateSource::User, "network")).unwrap();
    let whole = format!("GET {}/ HTTP/1.1\r\nhost: x\r\n\r\n", root.path());
    let half = "GET / HTTP/1.1\r\nhost: x\r\n";
    for sent in [half, whole.as_str()] {
        let mut slow = TcpStream::connect(address).await.unwrap();
        slow.write_all(sent.as_bytes()).await.unwrap();
        if sent == whole {
            // The slow client has its answer, and keeps the connection open.
            let mut first = [0; 12];
            slow.read_exact(&mut first).await.unwrap();
            assert_eq!(&first, b"HTTP/1.1 200");
        }
        let answer = send_raw(
            &stage,
            &whole.replace("\r\n\r\n", "\r\nconnection: close\r\n\r\n"),
        )
        .await;
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        // The gate has closed the slow connection, long before `head_timeout`.
        if let Err(error) = slow.read_to_end(&mut Vec::new()).await {
            assert_eq!(error.kind(), ErrorKind::ConnectionReset);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_head_of_100_kb_is_refused_and_one_of_30_kb_passes() {
    let stage = Stage::new().await;
    let url = format!(
        "{}/v2.0/networks?limit=1",
        stage.url(GateSource::User, "network")
    );
    for (length, expected) in [(30_000, 200), (100_000, 431)] {
        let request = stage
            .request(Method::GET, &url)
            .header("x-auth-token", &stage.admin)
            .header("x-padding", "a".repeat(length));
        stage.send_request(request).await.with_status(expected);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn each_gate_counts_its_requests_by_outcome() {
    let stage = Stage::new().await;
    let status = async |source: &str| {
        let rows = stage.control.ask(query::Gates {}).await.unwrap();
        assert_eq!(rows.len(), 15);
        let mut of = rows
            .into_iter()
            .filter(|it| it.service == "network" && it.source == source);
        of.next().unwrap()
    };
    let network = stage.network("web").await;
    let path = format!("/v2.0/networks/{network}");
    stage.user_get(&path).await;
    let failing = json!([{"match": {"method": "DELETE"}, "action": {"status": 409, "type": "Held", "message": "held"}}]);
    stage.faults(failing).await;
    stage
        .user_delete(&format!("{path}?cascade=true"))
        .await
        .with_status(202);
    stage
        .until_phase("network", &network, Some(Phase::Deleting))
        .await;
    stage.user_get(&path).await;
    stage.user_get("/v2.0/networks").await;
    let port = json!({"port": {"network_id": network}});
    stage.user_post("/v2.0/ports", port).await;
    let local = (GateSource::Local, "network");
    stage.call(local, Method::GET, &path, None).await;
    stage.call(local, Method::GET, "/v2.0/networks", None).await;
    let user = status("user").await;
    assert_eq!(
        user.listen,
        stage
            .origin(GateSource::User, "network")
            .replace("http://", "")
    );
    let counted = GateTraffic {
        requests: 5,
        hidden: 0,
        deleting: 2,
        refused: 1,
        accepted: 1,
        failed: 0,
    };
    assert_eq!(user.traffic, counted);
    let counted = GateTraffic {
        requests: 2,
        hidden: 2,
        ..GateTraffic::default()
    };
    assert_eq!(status("local").await.traffic, counted);
    assert_eq!(status("central").await.traffic, GateTraffic::default());
}

#[tokio::test(flavor = "multi_thread")]
async fn p12_a_body_with_invalid_chunks_is_answered_400() {
    let stage = Stage::new().await;
    let url = url::Url::parse(&stage.url(GateSource::User, "network")).unwrap();
    let list = format!("{url}/v2.0/networks");
    for chunks in [
        "no-size\r\n",
        "5\r\n{}\r\n0\r\n\r\n",
        "ffffffffffffffffff\r\n{}",
    ] {
        for (verb, path) in [
            ("POST", "/v2.0/networks"),
            ("PUT", "/v2.0/networks/no-such"),
            ("DELETE", "/v2.0/networks/no-such"),
        ] {
            let address = url.socket_addrs(|| None).unwrap()[0];
            let mut stream = TcpStream::connect(address).await.unwrap();
            let request = format!(
                "{verb} {}{path} HTTP/1.1\r\nhost: x\r\nx-auth-token: {}\r\ntransfer-encoding: \
                 chunked\r\n\r\n{chunks}",
                url.path(),
                stage.admin
            );
            stream.write_all(request.as_bytes()).await.unwrap();
            stream.shutdown().await.unwrap();
            let mut answer = String::new();
            stream.read_to_string(&mut answer).await.unwrap();
            assert!(
                answer.starts_with("HTTP/1.1 400 "),
                "{verb} {chunks:?}: {answer}"
            );
        }
    }
    let networks = stage.send(Method::GET, &list, &stage.admin, None).await;
    assert_eq!(networks.json()["networks"], json!([]));
}

/// Starts a service that answers each request with its method, its URI and the number of bytes in its body. Returns
/// the service's URL.
async fn echo() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let at = format!("http://{}", listener.local_addr().unwrap());
    let answered = |request: axum::extract::Request| async move {
        let (head, body) = request.into_parts();
        let mut bytes = 0;
        let mut body = body.into_data_stream();
        while let Some(data) = body.next().await {
            bytes += data.unwrap().len();
        }
        format!("{} {} {bytes}", head.method, head.uri)
    };
    tokio::spawn(
        async move { axum::serve(listener, axum::Router::new().fallback(answered)).await },
    );
    at
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_to_an_object_store_pass_with_any_name_method_and_size() {
    let stage = Stage::new().await;
    let account = "/v1/AUTH_p";
    let keystone =
        Keystone::with_service("object-store", format!("{}{account}", echo().await)).await;
    let auth = format!("{}/v3", keystone.server.uri());
    let gate = stage.gate_for_service("object-store", &auth, "").await;
    // Larger than the bodies that a gate reads, and without a content type.
    let large = vec![b'x'; 20_000_000];
    for (method, path, body) in [
        ("PUT", "/c/a%2Fb//%1B%5B31m", &large[..]),
        ("PUT", "/c/%2E%2E%2F", b"{not json"),
        ("POST", "/c", b""),
        ("COPY", "/c/o", b""),
        ("GET", "/c?versions=true&marker=%00", b""),
        ("DELETE", "/c/o?cascade=true&version-id=1", b""),
        ("DELETE", "/?bulk-delete", b"c/o\nc"),
    ] {
        let url = format!("http://{}{account}{path}", gate.address());
        let method = Method::from_bytes(method.as_bytes()).unwrap();
        let request = stage.request(method.clone(), &url).body(body.to_vec());
        let answer = stage.send_request(request).await;
        let received = format!("{method} {account}{path} {}", body.len());
        assert_eq!((answer.status, answer.text), (200, received));
    }
}

/// Starts a service that answers every request with these bytes. Returns the service's URL.
async fn serve_answer(answer: String) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let at = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            let answer = answer.clone();
            tokio::spawn(async move {
                let mut head = [0; 4096];
                while stream.read(&mut head).await.is_ok_and(|read| read > 0) {
                    let _ = stream.write_all(answer.as_bytes()).await;
                }
            });
        }
    });
    at
}

#[tokio::test(flavor = "multi_thread")]
async fn t13_a_list_page_that_cannot_be_parsed_is_answered_502() {
    let stage = Stage::new().await;
    let hidden = "00000000-0000-4000-8000-00000000ffff";
    stage.set_phase("network", hidden, Some(Phase::Gone));
    let row = json!({ "id": hidden, "name": "n" });
    for (status, body, shown) in [
        ("200 OK", format!("{{\"networks\": [{row}]}}"), 200),
        ("200 OK", format!("{{\"networks\": [{row}]"), 502),
        ("200 OK", format!("{{\"networks\": {row}}}"), 502),
        ("200 OK", format!("{{\"nets\": [{row}]}}"), 502),
        // Half of a surrogate pair is not valid text.
        (
            "200 OK",
            format!("{{\"networks\": [{row}, {{\"id\": \"\\ud800\"}}]}}"),
            502,
        ),
        ("200 OK", format!("[{row}]"), 502),
        (
            "203 Non-Authoritative",
            format!("{{\"networks\": [{row}]}}"),
            502,
        ),
        // Refusals are forwarded unchanged.
        ("403 Forbidden", "{".to_owned(), 403),
    ] {
        let head =
            format!("HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: ");
        let keystone = Keystone::with_network_service(
            serve_answer(format!("{head}{}\r\n\r\n{body}", body.len())).await,
        )
        .await;
        let auth = format!("{}/v3", keystone.server.uri());
        let gate = stage.gate_with_keystone(&auth, "").await;
        let url = format!("http://{}/v2.0/networks", gate.address());
        let answer = stage.send(Method::GET, &url, "t", None).await;
        assert_eq!(answer.status, shown, "{body}: {}", answer.text);
        assert!(!answer.text.contains(hidden), "{body}: {}", answer.text);
        gate.stop().await;
    }
}
