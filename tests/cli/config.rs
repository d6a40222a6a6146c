use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use gone::domain::model::{Origin, Scope};
use gone::system::config::{self, ConfigError, Settings, Surroundings};

fn error(text: &str) -> ConfigError {
    config::parse(text, Path::new("c.toml")).expect_err(text)
}

#[test]
fn the_printed_defaults_are_the_defaults() {
    let settings = config::parse(config::DEFAULTS, Path::new("defaults")).unwrap();
    assert_eq!(settings, Settings::default());
}

/// Whether the printed defaults have a value for this key, or a table of this name; possibly in a comment.
fn is_in_defaults(key: &str) -> bool {
    let is_word = |letter: char| letter.is_alphanumeric() || letter == '_';
    config::DEFAULTS.match_indices(key).any(|(at, _)| {
        let (before, after) = (&config::DEFAULTS[..at], &config::DEFAULTS[at + key.len()..]);
        let is_value = after.starts_with(" = ");
        let is_table = before.ends_with(['[', '.']) && after.starts_with([']', '.']);
        !before.ends_with(is_word) && (is_value || is_table)
    })
}

#[test]
fn the_printed_defaults_name_every_key() {
    let all = "
        [ledger]
        path = '/x'
        [gc.kind.port]
        schedule = ['1m']
        max_attempts = 1
        pending_max = '1m'
        [[guard.protect]]
        kind = 'a'
        tag = 'b'
        name = 'c'
        project = 'd'
        younger_than = '1m'
        older_than = '1m'
        [deployment]
        name = 'd'
        service = 's'
        region = 'r'
        listen = '[::1]:1'
        heartbeat = '1s'
        certificate_file = '/c'
        key_file = '/k'
        client_ca_file = '/ca'
        [[deployment.peers]]
        url = 'https://h'
        service = 't'
        region = 'r'
        token_file = '/t'
        ca_file = '/ca'
        certificate_file = '/c'
        key_file = '/k'
        [notify.webhook]
        url = 'https://h/p'
        token_file = '/t'
        [notify.mail]
        from = 'a@b.example'
        to = ['c@d.example']
        server = 'h'
        port = 26
        tls = 'tls'
        user = 'u'
        password_file = '/p'";
    let settings = config::parse(all, Path::new("all")).unwrap();
    let mut values = vec![toml::Value::try_from(settings).unwrap()];
    while let Some(value) = values.pop() {
        match value {
            toml::Value::Table(table) => {
                for (key, value) in table {
                    assert!(is_in_defaults(&key), "{key} is not in --print-config");
                    values.push(value);
                }
            }
            toml::Value::Array(array) => values.extend(array),
            _ => {}
        }
    }
}

#[test]
fn an_unknown_key_is_reported_with_file_line_path_and_nearest_key() {
    for (text, line, key, near) in [
        (
            "[engine]\nconcurency = 3\n",
            2,
            "engine.concurency",
            "concurrency",
        ),
        ("\n\n[leger]\n", 3, "leger", "ledger"),
        (
            "[gc.kind.port]\n\nmax_atempts = 3",
            3,
            "gc.kind.port.max_atempts",
            "max_attempts",
        ),
        (
            "[[guard.protect]]\nkid = 'port'",
            2,
            "guard.protect[0].kid",
            "kind",
        ),
        ("gc.jiter = 1", 1, "gc.jiter", "jitter"),
    ] {
        let error = error(text);
        assert_eq!(error.key, key, "{error}");
        assert_eq!(error.line, Some(line), "{error}");
        assert!(
            error.message.contains(&format!("did you mean \"{near}\"?")),
            "{error}"
        );
        assert!(error.to_string().starts_with("c.toml, line"), "{error}");
    }
}

#[test]
fn a_kind_is_found_by_alias_and_an_unknown_kind_names_its_field_and_the_nearest_kind() {
    let kinds = gone::cloud::load_kinds(&[]).unwrap();
    let resolve = |text: &str| {
        let mut settings = config::parse(text, Path::new("c.toml")).unwrap();
        config::resolve_kinds(&mut settings, &kinds).map(|()| settings)
    };
    let text = "[[guard.protect]]\nkind = 'Networks'\n[gc.kind.load-balancer]\nmax_attempts = 1";
    let settings = resolve(text).unwrap();
    assert_eq!(settings.guard.protect[0].kind.as_deref(), Some("network"));
    assert_eq!(settings.gc.kind["load_balancer"].max_attempts, Some(1));
    for (text, key, word) in [
        (
            "[[guard.protect]]\nname = 'x'\n[[guard.protect]]\nkind = 'netwrok'",
            "guard.protect[1].kind",
            "did you mean \"network\"?",
        ),
        (
            "[gc.kind.prot]\nmax_attempts = 1",
            "gc.kind.prot",
            "did you mean \"port\"?",
        ),
        (
            "[gc.kind.port]\nmax_attempts = 1\n[gc.kind.ports]\nmax_attempts = 2",
            "gc.kind.ports",
            "names the kind port",
        ),
    ] {
        let (found, why) = resolve(text).unwrap_err();
        assert_eq!(found, key);
        assert!(why.contains(word), "{why}");
    }
}

#[test]
fn a_bad_value_names_its_field() {
    for (text, line, key, word) in [
        (
            "[engine]\nsweep = '3 weeks'",
            2,
            "engine.sweep",
            "not a duration",
        ),
        ("[engine]\n\nsweep = '0s'", 3, "engine.sweep", "longer"),
        (
            "[ledger]\nhold_down = '99999999999d'",
            2,
            "ledger.hold_down",
            "36500d at most",
        ),
        (
            "[engine]\nsign_in_every = '0s'",
            2,
            "engine.sign_in_every",
            "longer",
        ),
        (
            "[engine]\nconcurrency = 'many'",
            2,
            "engine.concurrency",
            "whole number",
        ),
        (
            "[engine]\nconcurrency = 0",
            2,
            "engine.concurrency",
            "at least 1",
        ),
        (
            "[engine]\nconcurrency_max = 2",
            2,
            "engine.concurrency_max",
            "less",
        ),
        ("[gc]\njitter = 2.0", 2, "gc.jitter", "between"),
        ("[gc]\nschedule = []", 2, "gc.schedule", "at least one"),
        (
            "[gc.kind.port]\nmax_attempts = 0",
            2,
            "gc.kind.port.max_attempts",
            "at least 1",
        ),
        (
            "[[mapping]]\ncentral = 'prod'\nlocals = ['prod/B']",
            2,
            "mapping[0].central",
            "CLOUD/REGION",
        ),
        (
            "[[mapping]]\ncentral = 'prod/A'\nlocals = []",
            3,
            "mapping[0].locals",
            "at least one",
        ),
        (
            "[[mapping]]\ncentral = 'prod/A'\nlocals = ['prod/B', 'prod/A']",
            3,
            "mapping[0].locals",
            "central site itself",
        ),
        (
            "[[mapping]]\ncentral = 'prod/A'\nlocals = ['prod/B', 'prod/B']",
            3,
            "mapping[0].locals",
            "twice",
        ),
        (
            "[[mapping]]\ncentral = 'prod/A'\nlocals = ['prod/B']\nmatch = 'tags'",
            4,
            "mapping[0].match",
            "tag",
        ),
        (
            "[[gate]]\nlisten = 'here'\nupstream = { cloud = 'a', region = 'b', service = 'network' }",
            2,
            "gate[0].listen",
            "socket address",
        ),
        (
            "[[gate]]\nlisten = '[::1]:1'\nupstream = { cloud = 'a', region = '', service = 'network' }",
            3,
            "gate[0].upstream.region",
            "empty",
        ),
        (
            "[[gate]]\nlisten = '[::1]:1'\nsauce = 'user'\nupstream = { cloud = 'a', region = 'b', service = 'c' }",
            3,
            "gate[0].sauce",
            "did you mean \"source\"?",
        ),
        (
            "[[gate]]\nlisten = '[::1]:1'\nsource = 'engine'\nupstream = { cloud = 'a', region = 'b', service = 'c' }",
            3,
            "gate[0].source",
            "user",
        ),
        (
            "[[gate]]\nlisten = '[::1]:1'\nsource = 'local'\nupstream = { cloud = 'a', region = 'b', service = 'c' }\n\
             trust = { header = 'x', from = ['::1/128'] }",
            5,
            "gate[0].trust",
            "only if source is \"user\"",
        ),
        (
            "[[gate]]\nlisten = '[::1]:1'\nupstream = { cloud = 'a', region = 'b', service = 'c' }\n\
             trust = { header = 'x', from = [] }",
            4,
            "gate[0].trust.from",
            "at least one network",
        ),
        (
            "[[gate]]\nlisten = '[::1]:1'\nupstream = { cloud = 'a', region = 'b', service = 'c' }\n\
             [[gate]]\nlisten = '[::1]:1'\nupstream = { cloud = 'a', region = 'b', service = 'd' }",
            5,
            "gate[1].listen",
            "another gate's",
        ),
        (
            "[[gate]]\nlisten = '[::1]:1'\nupstream = { cloud = 'a', region = 'b', service = 'c' }\n\
             limits = { head_bytes = 100 }",
            4,
            "gate[0].limits.head_bytes",
            "from 8192 to 1048576",
        ),
        (
            "[[gate]]\nlisten = '[::1]:1'\nupstream = { cloud = 'a', region = 'b', service = 'c' }\n\
             limits = { conections = 9 }",
            4,
            "gate[0].limits.conections",
            "connections",
        ),
        (
            "[console]\non_hangup = 'explode'",
            2,
            "console.on_hangup",
            "explode",
        ),
        (
            "[guard]\nreason = { prod = '' }",
            2,
            "guard.reason.prod",
            "OPS-*",
        ),
        ("[console]\ntheme = 'drak'", 2, "console.theme", "drak"),
        (
            "[console]\naccent = { prod = 'pink' }",
            2,
            "console.accent.prod",
            "magenta",
        ),
        (
            "[ledger]\npath = 'mysql://h/d'",
            2,
            "ledger.path",
            "not supported",
        ),
    ] {
        let error = error(text);
        assert_eq!(error.key, key, "{error}");
        assert_eq!(error.line, Some(line), "{error}");
        assert!(error.message.contains(word), "{error}");
    }
}

#[test]
fn p04_a_protect_rule_without_a_field_is_an_error() {
    let error = error("[[guard.protect]]\nkind = 'port'\n\n[[guard.protect]]\n");
    assert_eq!(error.key, "guard.protect[1]");
    assert_eq!(error.line, Some(4));
}

#[test]
fn settings_of_later_versions_are_refused_and_not_ignored() {
    for (text, key) in [
        ("[api]\nlisten = 'x'", "api.listen"),
        ("[guard]\nblast_limit = 3", "guard.blast_limit"),
    ] {
        let error = error(text);
        assert_eq!(error.key, key);
        assert!(
            error.message.contains("not supported by this version"),
            "{error}"
        );
        assert!(error.line.is_some());
    }
}

#[test]
fn a_deployment_name_with_a_slash_or_an_empty_service_is_an_error() {
    let text = "[deployment]\nname = 'billing/1'\nservice = 'billing'";
    let wrong = error(text);
    assert_eq!(
        (wrong.key.as_str(), wrong.line),
        ("deployment.name", Some(2))
    );
    let wrong = error("[deployment]\nname = 'billing-1'\nservice = ''");
    assert_eq!(wrong.key, "deployment.service");
}

/// The settings of a deployment with two peers. Each change, a text and its replacement, is made once.
fn peered(changes: &[(&str, &str)]) -> String {
    let text = "[deployment]
name = 'billing-1'
service = 'billing'
region = 'eu-1'
peers = [
  { url = 'https://n.example', service = 'network', region = 'eu-1', token_file = '/n' },
  { url = 'http://127.0.0.1:7662', service = 'orders', region = 'eu-1', token_file = '/o' },
]
";
    let replace = |text: String, (from, to): &(&str, &str)| text.replacen(from, to, 1);
    changes.iter().fold(text.to_owned(), replace)
}

#[test]
fn g01_a_deployment_has_defaults_and_peers() {
    let settings = config::parse(&peered(&[]), Path::new("c.toml")).unwrap();
    let deployment = settings.deployment.unwrap();
    assert_eq!(deployment.listen.to_string(), "127.0.0.1:7661");
    assert_eq!(deployment.heartbeat.as_secs(), 30);
    assert_eq!(deployment.deployment().region, "eu-1");
    let local: Vec<bool> = deployment.peers.iter().map(|it| it.is_local()).collect();
    assert_eq!(local, [false, true]);
    let alone = "[deployment]\nname = 'b'\nservice = 'b'";
    let settings = config::parse(alone, Path::new("c.toml")).unwrap();
    assert!(settings.deployment.unwrap().peers.is_empty());
    let tls = "region = 'eu-1'\nlisten = '0.0.0.0:7661'\ncertificate_file = '/c'\nkey_file = '/k'\n\
               client_ca_file = '/a'";
    let by_certificate = peered(&[("region = 'eu-1'", tls), (", token_file = '/n'", "")]);
    config::parse(&by_certificate, Path::new("c.toml")).unwrap();
}

#[test]
fn g01_an_error_in_the_deployment_settings_names_the_exact_field() {
    for (from, to, key, line, word) in [
        ("region = 'eu-1'\n", "", "region", None, "is missing"),
        (
            "region = 'eu-1'\n",
            "region = 'eu-1'\nlisten = '192.0.2.1:7661'\n",
            "listen",
            Some(5),
            "certificate_file",
        ),
        (
            "peers",
            "heartbeat = '0s'\npeers",
            "heartbeat",
            Some(5),
            "longer than 0s",
        ),
        (
            "peers",
            "certificate_file = '/c'\npeers",
            "key_file",
            None,
            "is missing",
        ),
        (
            "peers",
            "key_file = '/k'\npeers",
            "certificate_file",
            None,
            "is missing",
        ),
        (
            "peers",
            "client_ca_file = '/a'\npeers",
            "client_ca_file",
            Some(5),
            "needs certificate_file",
        ),
        (
            "https://n",
            "http://n",
            "peers[0].url",
            Some(6),
            "must be https://",
        ),
        (
            "https://n",
            "https://ada:pw@n",
            "peers[0].url",
            Some(6),
            "token_file",
        ),
        ("https://n.example", "", "peers[0].url", Some(6), "missing"),
        (
            "n.example",
            "n.example/?a=b",
            "peers[0].url",
            Some(6),
            "paths are appended",
        ),
        (
            "'network'",
            "''",
            "peers[0].service",
            Some(6),
            "must not be empty",
        ),
        (
            "'orders'",
            "'network'",
            "peers[1].region",
            Some(7),
            "peers[0] already",
        ),
        (
            "'orders'",
            "'billing'",
            "peers[1].region",
            Some(7),
            "this deployment itself",
        ),
        (
            ", token_file = '/o'",
            "",
            "peers[1].token_file",
            None,
            "anyone could claim",
        ),
        (
            "'/o'",
            "'/o', ca_file = '/a'",
            "peers[1].ca_file",
            Some(7),
            "http://",
        ),
        (
            "'/n'",
            "'/n', key_file = '/k'",
            "peers[0].certificate_file",
            None,
            "is missing",
        ),
        (
            "token_file = '/n'",
            "tokn_file = '/n'",
            "peers[0].tokn_file",
            Some(6),
            "did you mean \"token_file\"?",
        ),
        (
            "peers",
            "hartbeat = '1s'\npeers",
            "hartbeat",
            Some(5),
            "did you mean \"heartbeat\"?",
        ),
    ] {
        let error = error(&peered(&[(from, to)]));
        assert_eq!(error.key, format!("deployment.{key}"), "{error}");
        assert!(line.is_none_or(|line| error.line == Some(line)), "{error}");
        assert!(error.message.contains(word), "{error}");
        assert!(!error.to_string().contains("pw@"), "{error}");
    }
}

#[test]
fn g01_a_token_file_that_others_can_read_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let token = |name: &str, mode| {
        std::fs::write(path(name), "tok-9Zx").unwrap();
        let mode = std::fs::Permissions::from_mode(mode);
        std::fs::set_permissions(path(name), mode).unwrap();
    };
    let named = |name: &str| format!("'{}'", path(name).display());
    let text = peered(&[("'/n'", &named("n")), ("'/o'", &named("o"))]);
    std::fs::write(path("config.toml"), text).unwrap();
    let load = || config::load(Some(&path("config.toml")), &Surroundings::default());
    token("n", 0o600);
    token("o", 0o640);
    let error = load().unwrap_err();
    assert_eq!(error.key, "deployment.peers[1].token_file");
    assert!(error.message.contains("chmod 600"), "{error}");
    token("o", 0o600);
    load().unwrap();
}

#[test]
fn invalid_toml_is_reported_with_its_line() {
    assert_eq!(error("[engine]\nsweep =\n").line, Some(2));
    let deep = error(&format!("\n[{}]\n", ["a"; 100].join(".")));
    assert_eq!(deep.line, Some(2), "{deep}");
    assert!(deep.message.contains("nested too deeply"), "{deep}");
}

#[test]
fn a_named_settings_file_must_exist_and_the_default_one_is_optional() {
    let home = tempfile::tempdir().unwrap();
    let around = Surroundings {
        home: Some(home.path().to_path_buf()),
        ..Surroundings::default()
    };
    assert_eq!(config::load(None, &around), Ok((Settings::default(), None)));
    let named = home.path().join("none.toml");
    let error = config::load(Some(&named), &around).unwrap_err();
    assert!(
        error.to_string().contains("none.toml: cannot be read"),
        "{error}"
    );

    let usual = home.path().join(".config/gone/config.toml");
    std::fs::create_dir_all(usual.parent().unwrap()).unwrap();
    std::fs::write(&usual, "[guard]\nread_only = true").unwrap();
    let (settings, file) = config::load(None, &around).unwrap();
    assert!(settings.guard.read_only);
    assert_eq!(file, Some(usual));
}

#[test]
fn the_state_folder_and_the_socket_follow_the_order_of_precedence() {
    let mut around = Surroundings {
        home: Some("/h".into()),
        ..Surroundings::default()
    };
    let at = |path: &str| Some(PathBuf::from(path));
    let none = |_: &Path| false;
    assert_eq!(around.state_folder(), at("/h/.local/state/gone"));
    assert_eq!(
        around.socket_to_serve(None),
        at("/h/.local/state/gone/gone.sock")
    );
    assert_eq!(
        around.socket_to_reach(None, none),
        at("/h/.local/state/gone/gone.sock")
    );
    assert_eq!(
        around.socket_to_reach(None, |_| true),
        at("/run/gone/gone.sock")
    );
    around.state_home = at("/s");
    assert_eq!(around.socket_to_serve(None), at("/s/gone/gone.sock"));
    around.runtime_folder = at("/run/gone");
    assert_eq!(around.socket_to_serve(None), at("/run/gone/gone.sock"));
    around.socket = at("/e.sock");
    assert_eq!(around.socket_to_serve(None), at("/e.sock"));
    assert_eq!(around.socket_to_reach(None, |_| true), at("/e.sock"));
    assert_eq!(
        around.socket_to_reach(Some(Path::new("/o.sock")), none),
        at("/o.sock")
    );
    assert_eq!(Surroundings::default().state_folder(), None);
}

#[test]
fn p06_the_actor_is_the_person_behind_sudo_and_ssh() {
    let mut around = Surroundings {
        uid: 7,
        ..Surroundings::default()
    };
    assert_eq!(around.actor(Origin::Cli).name, "uid 7");
    around.user = Some("root".into());
    assert_eq!(around.actor(Origin::Cli).name, "root");
    around.sudo_user = Some("ada".into());
    assert_eq!(around.actor(Origin::Cli).name, "ada");
    around.ssh_connection = Some("203.0.113.9 50000 10.0.0.1 22".into());
    assert_eq!(around.actor(Origin::Console).name, "ada@203.0.113.9");
}

#[test]
fn the_state_folder_is_created_private_and_made_private_again() {
    let base = tempfile::tempdir().unwrap();
    let folder = base.path().join("a/gone");
    gone::system::private::folder(&folder).unwrap();
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&folder), 0o700);
    std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(0o755)).unwrap();
    gone::system::private::folder(&folder).unwrap();
    assert_eq!(mode(&folder), 0o700);
}

#[test]
fn i07_an_error_in_the_notification_settings_names_the_exact_field() {
    let mail = "[notify.mail]\nfrom = 'a@b.example'\nto = ['c@d.example']\nserver = 'h'\n";
    let with = |more: &str| format!("{mail}{more}");
    for (text, key, word) in [
        (
            "[notify.webhook]".to_owned(),
            "notify.webhook.url",
            "is missing",
        ),
        (
            "notify.webhook.url = 'http://chat.example/x'".to_owned(),
            "notify.webhook.url",
            "must be https://",
        ),
        (
            "notify.webhook.url = 'https://ada:pw@chat.example/x'".to_owned(),
            "notify.webhook.url",
            "token_file",
        ),
        (
            "notify.webhook.url = 'chat.example/x'".to_owned(),
            "notify.webhook.url",
            "https://HOST",
        ),
        (
            "notify.webhok.url = 'https://h/x'".to_owned(),
            "notify.webhok",
            "did you mean \"webhook\"?",
        ),
        (
            "[notify]\ngather = '2h'".to_owned(),
            "notify.again",
            "notify.gather",
        ),
        (mail.replace("to = ", "# "), "notify.mail.to", "is missing"),
        (
            mail.replace("c@d", "c d"),
            "notify.mail.to[0]",
            "user@example.org",
        ),
        (
            mail.replace("a@b.example", "gone"),
            "notify.mail.from",
            "not an address",
        ),
        (
            mail.replace("server", "# "),
            "notify.mail.server",
            "is missing",
        ),
        (
            with("tls = 'none'"),
            "notify.mail.tls",
            "\"starttls\" or \"tls\"",
        ),
        (
            with("tls = 'startls'"),
            "notify.mail.tls",
            "did you mean \"starttls\"?",
        ),
        (with("port = 0"), "notify.mail.port", "at least 1"),
        (
            with("user = 'u'"),
            "notify.mail.password_file",
            "is missing",
        ),
        (
            with("password_file = '/p'"),
            "notify.mail.user",
            "is missing",
        ),
    ] {
        let error = error(&text);
        assert_eq!(error.key, key, "{error}");
        assert!(error.message.contains(word), "{error}");
        assert!(!error.to_string().contains("pw@"), "{error}");
    }
    let local = mail.replace("'h'", "'::1'") + "tls = 'none'";
    let settings = config::parse(&local, Path::new("c.toml")).unwrap();
    assert_eq!(settings.notify.mail.unwrap().port(), 25);
    let settings = config::parse(mail, Path::new("c.toml")).unwrap();
    assert_eq!(settings.notify.mail.unwrap().port(), 587);
}

#[test]
fn i07_a_webhook_token_file_that_others_can_read_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let secret = folder.path().join("token");
    let file = folder.path().join("config.toml");
    let text = format!(
        "[notify.webhook]\nurl = 'https://h/p'\ntoken_file = '{}'\n",
        secret.display()
    );
    std::fs::write(&file, text).unwrap();
    let load = || config::load(Some(&file), &Surroundings::default());
    let error = load().unwrap_err();
    assert_eq!(error.key, "notify.webhook.token_file");
    assert_eq!(error.line, Some(3));
    assert!(error.message.contains("cannot be read"), "{error}");
    std::fs::write(&secret, "tok-9Zx").unwrap();
    for (mode, is_accepted) in [(0o644, false), (0o640, false), (0o600, true), (0o400, true)] {
        std::fs::set_permissions(&secret, std::fs::Permissions::from_mode(mode)).unwrap();
        match load() {
            Ok(_) => assert!(is_accepted, "{mode:o}"),
            Err(error) => {
                assert!(!is_accepted, "{error}");
                assert!(error.message.contains("chmod 600"), "{error}");
                assert!(!error.to_string().contains("tok-9Zx"), "{error}");
            }
        }
    }
}

#[test]
fn api_uids_are_a_list_or_a_table_of_scopes() {
    let uids = |text: &str| {
        let settings = config::parse(&format!("[api]\nuids = {text}"), Path::new("c"));
        settings.unwrap().api.uids
    };
    assert_eq!(
        uids("[7, 8]"),
        [(7, Scope::Operate), (8, Scope::Operate)].into()
    );
    let scopes = [(7, Scope::View), (8, Scope::Force)].into();
    assert_eq!(uids("{ 7 = 'view', 8 = 'force' }"), scopes);
    for (text, says) in [
        ("{ 7 = 'operat' }", "did you mean \"operate\"?"),
        ("{ ops = 'view' }", "\"ops\" is not a uid"),
        ("'all'", "a list of uids, or a table"),
    ] {
        let error = error(&format!("[api]\nuids = {text}"));
        assert_eq!(error.line, Some(2), "{error}");
        assert!(error.key.starts_with("api.uids"), "{error}");
        assert!(error.message.contains(says), "{error}");
    }
}
