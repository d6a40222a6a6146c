//! Notifications by the program itself: a webhook gets each once, even when engines are killed (I7), and mail goes
//! only to a trusted server.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncRead, AsyncWrite, AsyncWriteExt as _};

use super::support::{Running, Stage, text, wait_for};
use super::tls;

/// The receiver of a webhook: it answers every POST with 200, and keeps the body.
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
                kept.lock().unwrap().extend(read_post(client.unwrap()));
            }
        });
        Self { url, bodies }
    }

    fn messages(&self) -> Vec<Value> {
        self.bodies.lock().unwrap().clone()
    }

    fn await_messages(&self, count: usize) -> Vec<Value> {
        wait_for(&format!("{count} messages"), || {
            self.messages().len() >= count
        });
        self.messages()
    }
}

/// Reads a request, and answers it. Returns the body, or None if the client closed the connection without a request.
fn read_post(mut client: TcpStream) -> Option<Value> {
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

/// Deletes a network with one port whose delete the cloud refuses. Waits until the deletion is stuck, and returns
/// its id.
fn start_stuck_deletion(stage: &Stage, name: &str) -> String {
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
    let first = start_stuck_deletion(&stage, "one");
    let messages = receiver.await_messages(1);
    assert_eq!(messages[0]["news"][0]["deletion_id"], first.as_str());
    let message = text(&messages[0]["text"]);
    assert!(message.contains("a server holds it"), "{message}");
    assert!(
        message.contains(&format!("gone retry {}", &first[28..])),
        "{message}"
    );
    // The command that the message advises works.
    let explain = text(&messages[0]["news"][0]["next"][0]);
    let explained = stage.gone(explain.strip_prefix("gone ").unwrap()).ok();
    assert!(explained.out.contains("a server holds it"), "{explained:?}");

    engine.kill();
    stage.engine().kill();
    let engine = stage.engine();
    let second = start_stuck_deletion(&stage, "two");
    let messages = receiver.await_messages(2);
    assert_eq!(
        messages[1]["news"].as_array().unwrap().len(),
        1,
        "{messages:?}"
    );
    assert_eq!(messages[1]["news"][0]["deletion_id"], second.as_str());
    assert_ne!(messages[0]["id"], messages[1]["id"]);
    engine.stop().ok();
    assert_eq!(receiver.messages().len(), 2);
}

#[test]
fn notify_test_prints_each_answer_and_exits_with_its_code() {
    let (stage, receiver) = (Stage::new(), Receiver::new());
    stage
        .gone("notify test")
        .ends_with(2)
        .stderr_has(&["neither a webhook nor mail is configured", "notify.webhook"]);
    stage.settings(&settings(&receiver.url));
    let ran = stage.gone("notify test -o json").ok();
    assert_eq!(ran.json()[0]["health"], "ok");
    assert!(text(&ran.json()[0]["found"]).contains("200 OK"), "{ran:?}");
    assert!(text(&receiver.messages()[0]["text"]).contains("a test"));
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
        .stderr_has(&["notify.webhook.url", "must be https://"]);
}

/// Starts a mail server that takes mail by STARTTLS only. Returns its port, its certificate, and the lines that it
/// receives within TLS.
fn mail_server() -> (u16, String, Arc<Mutex<Vec<String>>>) {
    let (acceptor, pem) = tls::acceptor();
    let received = Arc::new(Mutex::new(Vec::new()));
    let (send, receive) = std::sync::mpsc::channel();
    let kept = received.clone();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(async {
            let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
            send.send(listener.local_addr().unwrap().port()).unwrap();
            while let Ok((stream, _)) = listener.accept().await {
                // A client that breaks off the handshake reports the reason, which the test checks.
                let plain = converse(stream, "220 here\r\n", None).await.unwrap();
                if let Ok(stream) = acceptor.accept(plain).await {
                    let _ = converse(stream, "", Some(&*kept)).await;
                }
            }
        });
    });
    (receive.recv().unwrap(), pem, received)
}

/// Answers mail commands until QUIT, STARTTLS or the end of the stream, and then returns the stream.
async fn converse<S: AsyncRead + AsyncWrite + Unpin>(
    stream: S,
    greeting: &str,
    received: Option<&Mutex<Vec<String>>>,
) -> std::io::Result<S> {
    let mut stream = tokio::io::BufReader::new(stream);
    stream.write_all(greeting.as_bytes()).await?;
    let mut in_data = false;
    loop {
        let mut line = String::new();
        stream.read_line(&mut line).await?;
        let line = line.trim_end();
        if let Some(received) = received {
            received.lock().unwrap().push(line.to_owned());
        }
        let word = line.get(..4).unwrap_or(line);
        in_data = (in_data || word == "DATA") && line != ".";
        let answer = match word {
            "EHLO" if received.is_none() => "250-here\r\n250 STARTTLS\r\n",
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
    let (port, pem, received) = mail_server();
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
    assert!(received.lock().unwrap().is_empty());
    let trusted = stage.path("trusted.pem");
    std::fs::write(&trusted, pem).unwrap();
    let mut command = stage.command(["notify", "test"]);
    let ran = Running::start(command.env("SSL_CERT_FILE", &trusted))
        .end()
        .ok();
    assert!(ran.out.contains("answered 250"), "{ran:?}");
    let received = received.lock().unwrap().join("\n");
    for words in [
        "AUTH PLAIN",
        "RCPT TO:<ops@cloud.example>",
        "Subject: [gone] a test",
    ] {
        assert!(received.contains(words), "no {words} in {received}");
    }
}
