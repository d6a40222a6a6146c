//! gone keeps passwords and tokens in memory: it writes none to a file, a log or an output.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use serde_json::json;

use super::support::{PASSWORD, Stage, files, text};

const TOKEN: &str = "tok-Vb3Xk9";
/// The secret path of a webhook: whoever knows it may post there.
const HOOK: &str = "hook-Wm5Tz2";

/// A proxy that forwards logins, and keeps the tokens of the answers.
struct Tap {
    url: String,
    tokens: Arc<Mutex<Vec<String>>>,
}

impl Tap {
    fn before(cloud: &str) -> Self {
        let cloud = cloud.strip_prefix("http://").unwrap().to_owned();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let tokens = Arc::new(Mutex::new(Vec::new()));
        let kept = tokens.clone();
        std::thread::spawn(move || {
            for client in listener.incoming() {
                let client = client.unwrap();
                let server = TcpStream::connect(&cloud).unwrap();
                let up = (client.try_clone().unwrap(), server.try_clone().unwrap());
                std::thread::spawn(move || forward(up.0, up.1, |_| {}));
                let kept = kept.clone();
                std::thread::spawn(move || {
                    forward(server, client, |answer| {
                        let mut lines = answer.lines();
                        let token = lines.find_map(|line| line.strip_prefix("x-subject-token: "));
                        kept.lock().unwrap().extend(token.map(str::to_owned));
                    });
                });
            }
        });
        Self { url, tokens }
    }
}

fn forward(mut from: TcpStream, mut to: TcpStream, mut inspect: impl FnMut(&str)) {
    let mut buffer = [0; 65_536];
    while let Ok(n @ 1..) = from.read(&mut buffer) {
        inspect(&String::from_utf8_lossy(&buffer[..n]));
        if to.write_all(&buffer[..n]).is_err() {
            return;
        }
    }
}

#[test]
fn no_secret_is_written_anywhere() {
    let stage = Stage::with_web(6);
    let tap = Tap::before(&stage.url);
    stage.clouds_yaml(&tap.url, PASSWORD, "RegionOne");
    // A webhook that does not accept the notifications.
    let token = stage.path("webhook.token");
    std::fs::write(&token, TOKEN).unwrap();
    let owner_only = std::os::unix::fs::PermissionsExt::from_mode(0o600);
    std::fs::set_permissions(&token, owner_only).unwrap();
    stage.settings(&format!(
        "[gc]\nmax_attempts = 1\n[notify]\ngather = \"1ms\"\n[notify.webhook]\n\
         url = \"{}/{HOOK}\"\ntoken_file = \"webhook.token\"\n",
        stage.url
    ));
    // With the most verbose log.
    let engine = stage.engine_by("--engine -vvvv");
    let about = |what: &str| std::fs::read(format!("/proc/{}/{what}", engine.pid())).unwrap();
    let mut outputs = vec![
        ("cmdline".to_owned(), about("cmdline")),
        ("environ".to_owned(), about("environ")),
    ];
    stage.faults(json!([
        {"match": {"method": "DELETE"}, "times": 1, "action": {"status": 401}},
        {"match": {"method": "DELETE"}, "times": 1, "action": {"status": 500, "html": true}},
    ]));
    for (line, code) in [
        ("plan network/web-net-0 --cascade --out plan.json -vvvv", 0),
        ("delete --plan plan.json --yes --wait -o json -vvvv", 5),
        ("notify test -vvvv", 5),
        ("list -o json", 0),
        ("list sites -o yaml", 0),
        ("doctor -vvvv -o json", 0),
        ("plan network/none -vvvv", 2),
    ] {
        let ran = stage.gone(line).ends_with(code);
        outputs.push((line.to_owned(), format!("{}{}", ran.out, ran.err).into()));
    }
    // Plans once more, without an engine and with a login that is refused.
    let log = engine.stop().ok();
    assert!(log.err.len() > 10_000, "the log is long");
    outputs.push((
        "engine".to_owned(),
        format!("{}{}", log.out, log.err).into(),
    ));
    stage.clouds_yaml(&tap.url, "wrong-Qx7", "RegionOne");
    let ran = stage.gone("plan network/web-net-0 -vvvv").ends_with(3);
    outputs.push((
        "refused".to_owned(),
        format!("{}{}", ran.out, ran.err).into(),
    ));
    for (path, bytes) in files(stage.folder.path()) {
        let given = ["clouds.yaml", "config.toml", "webhook.token"];
        if !given.iter().any(|name| path.ends_with(name)) {
            outputs.push((path.display().to_string(), bytes));
        }
    }
    assert!(outputs.iter().any(|(name, _)| name.ends_with("ledger.db")));
    let mut secrets = tap.tokens.lock().unwrap().clone();
    assert!(secrets.len() >= 2, "{secrets:?}");
    assert!(secrets.iter().all(|token| token.len() > 20), "{secrets:?}");
    secrets.extend([PASSWORD, "wrong-Qx7", TOKEN, HOOK].map(str::to_owned));
    for (name, bytes) in &outputs {
        for secret in &secrets {
            let found = bytes
                .windows(secret.len())
                .any(|part| part == secret.as_bytes());
            assert!(!found, "{secret} in {name}");
        }
    }
}

#[test]
fn written_files_are_readable_by_their_owner_only() {
    use std::os::unix::fs::PermissionsExt as _;
    let stage = Stage::with_web(1);
    let engine = stage.engine();
    stage
        .gone("plan network/web-net-0 --cascade --out plan.json")
        .ok();
    let id = text(
        &stage
            .gone("delete --plan plan.json --yes -o json")
            .ok()
            .json()["id"],
    );
    stage.await_state(&id, "gone");
    let state = stage.path("state/gone");
    let mode = |path: &std::path::Path| path.metadata().unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&state), 0o700);
    let mut written = files(&state);
    written.extend([(stage.path("plan.json"), Vec::new())]);
    assert!(written.len() >= 3, "{written:?}");
    for (path, _) in written {
        assert_eq!(mode(&path), 0o600, "{}", path.display());
    }
    engine.stop().ok();
}
