//! The receivers of notifications: a web server and a mail server, each on a free port of this machine.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use serde_json::Value;
use tokio::io::{AsyncBufReadExt as _, AsyncRead, AsyncWrite, AsyncWriteExt as _, BufReader};
use tokio::net::TcpListener;
use tokio::sync::watch;

/// Limit for everything that a test waits for. Even a busy machine needs less.
pub const DEADLINE: Duration = Duration::from_secs(60);

/// The messages that have arrived, in order, and the answers to the next ones.
pub struct Inbox<T> {
    messages: watch::Sender<Vec<T>>,
    answers: Mutex<VecDeque<(u16, &'static str)>>,
}

impl<T: Clone> Inbox<T> {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            messages: watch::Sender::new(Vec::new()),
            answers: Mutex::default(),
        })
    }

    pub fn answer_next_with(&self, status: u16, text: &'static str) {
        self.answers.lock().unwrap().push_back((status, text));
    }

    pub fn all(&self) -> Vec<T> {
        self.messages.borrow().clone()
    }

    /// Waits until at least `count` messages have arrived. Returns all of them.
    pub async fn wait_for(&self, count: usize) -> Vec<T> {
        let mut messages = self.messages.subscribe();
        let enough = messages.wait_for(|all| all.len() >= count);
        let all = tokio::time::timeout(DEADLINE, enough).await;
        all.unwrap_or_else(|_| panic!("{} of {count} messages arrived", self.all().len()))
            .unwrap()
            .clone()
    }

    fn add(&self, message: T) {
        self.messages.send_modify(|all| all.push(message));
    }

    /// Takes the answer to the next message, if a test has set one.
    fn take_answer(&self) -> Option<(u16, &'static str)> {
        self.answers.lock().unwrap().pop_front()
    }
}

/// A POST that the web server received.
#[derive(Clone, Debug)]
pub struct Post {
    pub headers: HeaderMap,
    pub body: Value,
}

impl Post {
    pub fn id(&self) -> String {
        self.body["id"].as_str().unwrap().to_owned()
    }
    pub fn text(&self) -> String {
        self.body["text"].as_str().unwrap().to_owned()
    }
    pub fn header(&self, name: &str) -> Option<&str> {
        Some(self.headers.get(name)?.to_str().unwrap())
    }
}

pub struct WebServer {
    pub url: String,
    pub inbox: Arc<Inbox<Post>>,
    _task: Task,
}

/// A task that ends with the test.
struct Task(tokio::task::JoinHandle<()>);

impl Drop for Task {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl WebServer {
    pub async fn start() -> Self {
        let inbox = Inbox::new();
        let app = Router::new().fallback(post).with_state(inbox.clone());
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!(
            "http://{}/hooks/s3cret-path",
            listener.local_addr().unwrap()
        );
        let task = tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
        Self {
            url,
            inbox,
            _task: Task(task),
        }
    }
}

async fn post(
    State(inbox): State<Arc<Inbox<Post>>>,
    headers: HeaderMap,
    body: Bytes,
) -> (StatusCode, [(&'static str, &'static str); 1], &'static str) {
    let body = serde_json::from_slice(&body).unwrap();
    inbox.add(Post { headers, body });
    let (status, text) = inbox.take_answer().unwrap_or((200, "ok"));
    let location = [("location", "http://127.0.0.1:9/elsewhere")];
    (StatusCode::from_u16(status).unwrap(), location, text)
}

/// A mail as it arrived: the client's lines before it, and its text.
#[derive(Clone, Debug)]
pub struct Mail {
    pub dialogue: Vec<String>,
    /// The head, an empty line and the body; lines end with `\n`.
    pub text: String,
}

impl Mail {
    /// Returns a header, unfolded.
    pub fn header(&self, name: &str) -> String {
        let (head, _) = self.text.split_once("\n\n").unwrap();
        let unfolded = head.replace("\n ", " ");
        let found = unfolded
            .lines()
            .find_map(|line| line.strip_prefix(&format!("{name}: ")));
        found
            .unwrap_or_else(|| panic!("no {name} in {head}"))
            .to_owned()
    }
    pub fn body(&self) -> String {
        self.text.split_once("\n\n").unwrap().1.to_owned()
    }
}

pub struct MailServer {
    pub port: u16,
    pub inbox: Arc<Inbox<Mail>>,
    /// Every line that clients sent, except the text of mails.
    pub lines: Arc<Mutex<Vec<String>>>,
    _task: Task,
}

impl MailServer {
    /// Starts a server without TLS, which offers AUTH PLAIN and no STARTTLS.
    pub async fn start() -> Self {
        Self::with(None).await
    }

    /// Starts a server with TLS from the first byte and a self-signed certificate.
    pub async fn untrusted() -> Self {
        let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
        let key = made.signing_key.serialize_der().try_into().unwrap();
        let config = tokio_rustls::rustls::ServerConfig::builder()
            .with_no_client_auth()
            .with_single_cert(vec![made.cert.der().clone()], key)
            .unwrap();
        Self::with(Some(tokio_rustls::TlsAcceptor::from(Arc::new(config)))).await
    }

    async fn with(tls: Option<tokio_rustls::TlsAcceptor>) -> Self {
        let inbox = Inbox::new();
        let lines = Arc::new(Mutex::new(Vec::new()));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let (mails, all_lines) = (inbox.clone(), lines.clone());
        let task = tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let (mails, lines, tls) = (mails.clone(), all_lines.clone(), tls.clone());
                tokio::spawn(async move {
                    // A client may hang up at any time.
                    match tls {
                        None => _ = converse(stream, &mails, &lines).await,
                        Some(tls) => {
                            if let Ok(stream) = tls.accept(stream).await {
                                _ = converse(stream, &mails, &lines).await;
                            }
                        }
                    }
                });
            }
        });
        Self {
            port,
            inbox,
            lines,
            _task: Task(task),
        }
    }
}

async fn converse(
    stream: impl AsyncRead + AsyncWrite + Unpin,
    inbox: &Inbox<Mail>,
    lines: &Mutex<Vec<String>>,
) -> std::io::Result<()> {
    let mut stream = BufReader::new(stream);
    stream.write_all(b"220 here\r\n").await?;
    let mut dialogue: Vec<String> = Vec::new();
    loop {
        let mut line = String::new();
        if stream.read_line(&mut line).await? == 0 {
            return Ok(());
        }
        let line = line.trim_end().to_owned();
        lines.lock().unwrap().push(line.clone());
        dialogue.push(line.clone());
        let word = line.split(' ').next().unwrap().to_ascii_uppercase();
        let answer = match word.as_str() {
            "EHLO" => "250-here\r\n250-8BITMIME\r\n250 AUTH PLAIN\r\n".to_owned(),
            "AUTH" => match inbox.take_answer() {
                Some((code, text)) => format!("{code} {text}\r\n"),
                None => "235 welcome\r\n".to_owned(),
            },
            "DATA" => {
                stream.write_all(b"354 go on\r\n").await?;
                let text = mail(&mut stream).await?;
                inbox.add(Mail {
                    dialogue: dialogue.clone(),
                    text,
                });
                let (code, text) = inbox.take_answer().unwrap_or((250, "queued as 1"));
                format!("{code} {text}\r\n")
            }
            "RCPT" if line.contains("left@") => "550 no such person\r\n".to_owned(),
            "RCPT" if line.contains("grey@") && !is_second_try(lines) => "450 later\r\n".to_owned(),
            "QUIT" => {
                stream.write_all(b"221 bye\r\n").await?;
                return Ok(());
            }
            _ => "250 ok\r\n".to_owned(),
        };
        stream.write_all(answer.as_bytes()).await?;
    }
}

/// Whether a client has named the greylisted address before: the server accepts it from the second time on.
fn is_second_try(lines: &Mutex<Vec<String>>) -> bool {
    let lines = lines.lock().unwrap();
    lines.iter().filter(|line| line.contains("grey@")).count() > 1
}

async fn mail(
    stream: &mut BufReader<impl AsyncRead + AsyncWrite + Unpin>,
) -> std::io::Result<String> {
    let mut text = String::new();
    loop {
        let mut line = String::new();
        stream.read_line(&mut line).await?;
        let line = line.trim_end_matches(['\r', '\n']);
        if line == "." {
            return Ok(text);
        }
        text.push_str(line.strip_prefix('.').unwrap_or(line));
        text.push('\n');
    }
}
