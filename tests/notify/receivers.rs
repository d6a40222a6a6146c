//! Who takes messages: a web server and a mail server, each on a free port of this machine.

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

/// Nothing here takes longer on a busy machine, unless it hangs.
pub const DEADLINE: Duration = Duration::from_secs(60);

/// What came, in order, and what is answered to what comes next.
pub struct Taken<T> {
    got: watch::Sender<Vec<T>>,
    answers: Mutex<VecDeque<(u16, &'static str)>>,
}

impl<T: Clone> Taken<T> {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            got: watch::Sender::new(Vec::new()),
            answers: Mutex::default(),
        })
    }

    pub fn will_answer(&self, status: u16, text: &'static str) {
        self.answers.lock().unwrap().push_back((status, text));
    }

    pub fn all(&self) -> Vec<T> {
        self.got.borrow().clone()
    }

    /// Waits until so many have come.
    pub async fn until(&self, count: usize) -> Vec<T> {
        let mut got = self.got.subscribe();
        let enough = got.wait_for(|all| all.len() >= count);
        let all = tokio::time::timeout(DEADLINE, enough).await;
        all.unwrap_or_else(|_| panic!("{} came, not {count}", self.all().len()))
            .unwrap()
            .clone()
    }

    fn take(&self, what: T) {
        self.got.send_modify(|all| all.push(what));
    }

    fn answer(&self) -> Option<(u16, &'static str)> {
        self.answers.lock().unwrap().pop_front()
    }
}

/// One POST.
#[derive(Clone, Debug)]
pub struct Posted {
    pub headers: HeaderMap,
    pub body: Value,
}

impl Posted {
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
    pub taken: Arc<Taken<Posted>>,
    _task: Task,
}

/// Ends with the test.
struct Task(tokio::task::JoinHandle<()>);

impl Drop for Task {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl WebServer {
    pub async fn start() -> Self {
        let taken = Taken::new();
        let app = Router::new().fallback(post).with_state(taken.clone());
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!(
            "http://{}/hooks/s3cret-path",
            listener.local_addr().unwrap()
        );
        let task = tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
        Self {
            url,
            taken,
            _task: Task(task),
        }
    }
}

async fn post(
    State(taken): State<Arc<Taken<Posted>>>,
    headers: HeaderMap,
    body: Bytes,
) -> (StatusCode, [(&'static str, &'static str); 1], &'static str) {
    let body = serde_json::from_slice(&body).unwrap();
    taken.take(Posted { headers, body });
    let (status, text) = taken.answer().unwrap_or((200, "ok"));
    let location = [("location", "http://127.0.0.1:9/elsewhere")];
    (StatusCode::from_u16(status).unwrap(), location, text)
}

/// One mail as it came: the lines of the dialogue before it, and its text.
#[derive(Clone, Debug)]
pub struct Mailed {
    pub said: Vec<String>,
    /// Whole: head, empty line, body; lines end with `\n`.
    pub text: String,
}

impl Mailed {
    /// Unfolded.
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
    pub taken: Arc<Taken<Mailed>>,
    /// Every line that a client said, also without a mail.
    pub heard: Arc<Mutex<Vec<String>>>,
    _task: Task,
}

impl MailServer {
    /// In the clear; it knows AUTH PLAIN and no STARTTLS.
    pub async fn start() -> Self {
        Self::with(None).await
    }

    /// By TLS from the first byte, with a certificate that nobody has signed.
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
        let taken = Taken::new();
        let heard = Arc::new(Mutex::new(Vec::new()));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let (mails, lines) = (taken.clone(), heard.clone());
        let task = tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let (mails, lines, tls) = (mails.clone(), lines.clone(), tls.clone());
                tokio::spawn(async move {
                    // A client that goes away in the middle is its own affair.
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
            taken,
            heard,
            _task: Task(task),
        }
    }
}

async fn converse(
    stream: impl AsyncRead + AsyncWrite + Unpin,
    taken: &Taken<Mailed>,
    heard: &Mutex<Vec<String>>,
) -> std::io::Result<()> {
    let mut stream = BufReader::new(stream);
    stream.write_all(b"220 here\r\n").await?;
    let mut said: Vec<String> = Vec::new();
    loop {
        let mut line = String::new();
        if stream.read_line(&mut line).await? == 0 {
            return Ok(());
        }
        let line = line.trim_end().to_owned();
        heard.lock().unwrap().push(line.clone());
        said.push(line.clone());
        let word = line.split(' ').next().unwrap().to_ascii_uppercase();
        let answer = match word.as_str() {
            "EHLO" => "250-here\r\n250-8BITMIME\r\n250 AUTH PLAIN\r\n".to_owned(),
            "AUTH" => match taken.answer() {
                Some((code, text)) => format!("{code} {text}\r\n"),
                None => "235 welcome\r\n".to_owned(),
            },
            "DATA" => {
                stream.write_all(b"354 go on\r\n").await?;
                let text = mail(&mut stream).await?;
                taken.take(Mailed {
                    said: said.clone(),
                    text,
                });
                let (code, text) = taken.answer().unwrap_or((250, "queued as 1"));
                format!("{code} {text}\r\n")
            }
            "RCPT" if line.contains("left@") => "550 no such person\r\n".to_owned(),
            "RCPT" if line.contains("grey@") && !greeted(heard) => "450 later\r\n".to_owned(),
            "QUIT" => {
                stream.write_all(b"221 bye\r\n").await?;
                return Ok(());
            }
            _ => "250 ok\r\n".to_owned(),
        };
        stream.write_all(answer.as_bytes()).await?;
    }
}

/// Whether this is not the first time: a server that greylists takes the second try.
fn greeted(heard: &Mutex<Vec<String>>) -> bool {
    let heard = heard.lock().unwrap();
    heard.iter().filter(|line| line.contains("grey@")).count() > 1
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
