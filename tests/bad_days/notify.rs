//! I7 by the program itself: a webhook is told once, whatever becomes of the engine.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncRead, AsyncWrite, AsyncWriteExt as _};

use super::support::{Running, Stage, text, wait_for};
use super::tls;

/// Takes every POST with 200, and keeps its body.
struct Receiver {
    url: String,
    bodies: Arc<Mutex<Vec<Value>>>,
}

impl Receiver {
    fn new() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/hook", listener.local_addr().unwrap());
        let bodies = Arc::new(Mutex::new(Vec::new()));
        let kept = bodies.clone();
        std::thread::spawn(move || {
            for client in listener.incoming() {
                kept.lock().unwrap().extend(take(client.unwrap()));
            }
        });
        Self { url, bodies }
    }

    fn told(&self) -> Vec<Value> {
        self.bodies.lock().unwrap().clone()
    }

    fn await_told(&self, count: usize) -> Vec<Value> {
        wait_for(&format!("{count} messages"), || self.told().len() >= count);
        self.told()
    }
}

fn take(mut client: TcpStream) -> Option<Value> {
    let mut reader = BufReader::new(client.try_clone().unwrap());
    let mut length = 0;
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).unwrap() == 0 {
            return None;
        }
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length: ") {
            length = value.trim().parse().unwrap();
        }
        if line == "\r\n" {
            break;
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).unwrap();
    let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\nok";
    client.write_all(answer).unwrap();
    Some(serde_json::from_slice(&body).unwrap())
}

fn settings(url: &str) -> String {
    format!(
        "[gc]\nschedule = [\"250ms\"]\nmax_attempts = 2\n\
         [notify]\ngather = \"250ms\"\nagain = \"250ms\"\n[notify.webhook]\nurl = \"{url}\"\n"
    )
}

/// Deletes a network with one port that will not go; waits until it is stuck.
fn stuck(stage: &Stage, name: &str) -> String {
    let network = stage.network(name, 1);
    let line = format!("delete network/{network} --cascade --yes -o json");
    let id = text(&stage.gone(&line).ok().json()["id"]);
    stage.await_state(&id, "stuck");
    id
}

#[test]
fn i07_a_stuck_deletion_is_notified_once_despite_kills_and_restarts() {
    let (stage, receiver) = (Stage::new(), Receiver::new());
    stage.settings(&settings(&receiver.url));
    let refuse = json!({"status": 409, "type": "PortInUse", "message": "a server holds it"});
    stage.faults(json!([{"match": {"method": "DELETE", "kind": "port"}, "action": refuse}]));
    let engine = stage.engine();
    let first = stuck(&stage, "one");
    let told = receiver.await_told(1);
    assert_eq!(told[0]["news"][0]["deletion_id"], first.as_str());
    let said = text(&told[0]["text"]);
    assert!(said.contains("a server holds it"), "{said}");
    assert!(
        said.contains(&format!("gone retry {}", &first[28..])),
        "{said}"
    );
    // Its own advice is understood.
    let explain = text(&told[0]["news"][0]["next"][0]);
    let explained = stage.gone(explain.strip_prefix("gone ").unwrap()).ok();
    assert!(explained.out.contains("a server holds it"), "{explained:?}");

    engine.kill();
    stage.engine().kill();
    let engine = stage.engine();
    let second = stuck(&stage, "two");
    let told = receiver.await_told(2);
    assert_eq!(told[1]["news"].as_array().unwrap().len(), 1, "{told:?}");
    assert_eq!(told[1]["news"][0]["deletion_id"], second.as_str());
    assert_ne!(told[0]["id"], told[1]["id"]);
    engine.stop().ok();
    assert_eq!(receiver.told().len(), 2);
}

#[test]
fn notify_test_prints_each_answer_and_exits_with_its_code() {
    let (stage, receiver) = (Stage::new(), Receiver::new());
    stage
        .gone("notify test")
        .ends_with(2)
        .complains(&["neither a webhook nor mail is configured", "notify.webhook"]);
    stage.settings(&settings(&receiver.url));
    let ran = stage.gone("notify test -o json").ok();
    assert_eq!(ran.json()[0]["health"], "ok");
    assert!(text(&ran.json()[0]["found"]).contains("200 OK"), "{ran:?}");
    assert!(text(&receiver.told()[0]["text"]).contains("a test"));
    assert!(
        stage
            .gone("doctor")
            .out
            .contains(&format!("webhook {}", &receiver.url[..20]))
    );
    stage.settings(&settings("http://127.0.0.1:9/s3cret"));
    let ran = stage.gone("notify test").ends_with(5);
    assert!(
        ran.out.contains("fail") && !ran.out.contains("s3cret"),
        "{ran:?}"
    );
    stage.settings("[notify.webhook]\nurl = 'http://chat.example/x'\n");
    stage
        .gone("notify test")
        .ends_with(2)
        .complains(&["notify.webhook.url", "must be https://"]);
}

/// A mail server that takes mail by STARTTLS only. Its port, what it trusts by, and all that it hears
/// within TLS.
fn mail_server() -> (u16, String, Arc<Mutex<Vec<String>>>) {
    let (acceptor, pem) = tls::acceptor();
    let heard = Arc::new(Mutex::new(Vec::new()));
    let (send, receive) = std::sync::mpsc::channel();
    let kept = heard.clone();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(async {
            let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
            send.send(listener.local_addr().unwrap().port()).unwrap();
            while let Ok((stream, _)) = listener.accept().await {
                // Who breaks the handshake off has said why to the test.
                let plain = converse(stream, "220 here\r\n", None).await.unwrap();
                if let Ok(stream) = acceptor.accept(plain).await {
                    let _ = converse(stream, "", Some(&*kept)).await;
                }
            }
        });
    });
    (receive.recv().unwrap(), pem, heard)
}

/// Until QUIT, or STARTTLS, which gives the stream back.
async fn converse<S: AsyncRead + AsyncWrite + Unpin>(
    stream: S,
    greeting: &str,
    heard: Option<&Mutex<Vec<String>>>,
) -> std::io::Result<S> {
    let mut stream = tokio::io::BufReader::new(stream);
    stream.write_all(greeting.as_bytes()).await?;
    let mut in_data = false;
    loop {
        let mut line = String::new();
        stream.read_line(&mut line).await?;
        let line = line.trim_end();
        if let Some(heard) = heard {
            heard.lock().unwrap().push(line.to_owned());
        }
        let word = line.get(..4).unwrap_or(line);
        in_data = (in_data || word == "DATA") && line != ".";
        let answer = match word {
            "EHLO" if heard.is_none() => "250-here\r\n250 STARTTLS\r\n",
            "EHLO" => "250-here\r\n250 AUTH PLAIN\r\n",
            "STAR" => "220 go on\r\n",
            "AUTH" => "235 welcome\r\n",
            "DATA" => "354 go on\r\n",
            _ if in_data => "",
            _ => "250 ok\r\n",
        };
        stream.write_all(answer.as_bytes()).await?;
        if matches!(word, "QUIT" | "STAR" | "") && !in_data {
            return Ok(stream.into_inner());
        }
    }
}

#[test]
fn mail_is_sent_by_starttls_only_to_a_trusted_server() {
    let stage = Stage::new();
    let (port, pem, heard) = mail_server();
    let password = stage.path("password");
    std::fs::write(&password, "pw-Rt6\n").unwrap();
    std::fs::set_permissions(&password, PermissionsExt::from_mode(0o600)).unwrap();
    stage.settings(&format!(
        "[notify.mail]\nfrom = 'gone@cloud.example'\nto = ['ops@cloud.example']\n\
         server = 'localhost'\nport = {port}\nuser = 'gone'\npassword_file = '{}'\n",
        password.display()
    ));
    let ran = stage.gone("notify test").ends_with(5);
    assert!(ran.out.contains("certificate"), "{ran:?}");
    assert!(heard.lock().unwrap().is_empty());
    let trusted = stage.path("trusted.pem");
    std::fs::write(&trusted, pem).unwrap();
    let mut command = stage.command(["notify", "test"]);
    let ran = Running::start(command.env("SSL_CERT_FILE", &trusted))
        .end()
        .ok();
    assert!(ran.out.contains("answered 250"), "{ran:?}");
    let heard = heard.lock().unwrap().join("\n");
    for words in [
        "AUTH PLAIN",
        "RCPT TO:<ops@cloud.example>",
        "Subject: [gone] a test",
    ] {
        assert!(heard.contains(words), "no {words} in {heard}");
    }
}
