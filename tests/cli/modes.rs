//! The command line and its help, the choice of the engine, and `doctor`.

use std::path::{Path, PathBuf};

use clap::{Command, CommandFactory as _, Parser as _};
use clap_complete::Shell;
use gone::app::command_line::{Cli, Local, Verb, command, completions, man};
use gone::app::{EngineSource, Mode, Paths, choose_engine, mode, paths};
use gone::cloud::openstack::config::{CloudEntry, Origin};
use gone::domain::mapping::Mapping;
use gone::domain::model::{CopiedBy, ErrorClass, Site};
use gone::frontends::cli::args::{Format, Global};
use gone::frontends::cli::output::{Printer, Style};
use gone::frontends::cli::{EngineVerb, Exit, doctor as view};
use gone::frontends::offline::doctor::{
    EngineFacts, Facts, Health, LedgerFacts, Login, NotifyFacts, PeerFacts, TerminalFacts,
    can_write, examine,
};
use gone::ledger::Location;
use gone::system::config::{self, Settings, Surroundings};

fn parse(line: &str) -> Result<Cli, clap::Error> {
    Cli::try_parse_from(std::iter::once("gone").chain(line.split_whitespace()))
}

#[test]
fn the_command_line_is_consistent() {
    Cli::command().debug_assert();
}

#[test]
fn the_help_of_every_verb_has_examples() {
    let mut command = Cli::command();
    for verb in command.get_subcommands_mut() {
        let name = verb.get_name().to_owned();
        let help = verb.render_long_help().to_string();
        assert!(help.contains("Examples:"), "{name}");
        assert!(help.contains(&format!("gone {name}")), "{name}");
    }
}

#[test]
fn a_wrong_command_line_suggests_the_nearest_word_and_exits_with_2() {
    for (line, near) in [
        ("delet network/x", "'delete'"),
        ("plan network/x --cascad", "'--cascade'"),
        ("list -o jsn", "'json'"),
        ("--sandbo", "'--sandbox'"),
    ] {
        let error = parse(line).unwrap_err();
        assert_eq!(error.exit_code(), 2, "{line}");
        assert!(error.to_string().contains(near), "{error}");
    }
    for line in [
        "delete",
        "plan",
        "retry",
        "show",
        "delete x --plan p",
        "delete --plan p --cascade",
    ] {
        assert_eq!(parse(line).unwrap_err().exit_code(), 2, "{line}");
    }
}

#[test]
fn global_options_may_come_before_or_after_the_verb() {
    for line in [
        "-o json --cloud c --region a --region b --read-only list stuck",
        "list stuck -o json --cloud c --region a --region b --read-only",
    ] {
        let global = parse(line).unwrap().global;
        assert_eq!(global.output, Format::Json);
        assert_eq!(global.region, ["a", "b"]);
        assert!(global.read_only);
    }
}

#[test]
fn wait_and_older_than_are_parsed_as_in_the_contract() {
    let wait = |line: &str| match parse(line).unwrap().verb {
        Some(Verb::Engine(EngineVerb::Delete(args))) => args.wait,
        other => panic!("{other:?}"),
    };
    assert_eq!(wait("delete a/b --yes"), None);
    assert_eq!(wait("delete a/b --yes --wait"), Some(None));
    let half_an_hour = std::time::Duration::from_secs(1800);
    assert_eq!(wait("delete a/b --wait=30m"), Some(Some(half_an_hour)));
    assert_eq!(wait("delete --wait a/b"), Some(None));
    assert!(parse("delete a/b --wait=soon").is_err());
    let Some(Verb::Engine(EngineVerb::List(list))) = parse("list stuck --older-than").unwrap().verb
    else {
        panic!()
    };
    assert_eq!(
        list.older_than,
        Some(std::time::Duration::from_secs(86_400))
    );
}

#[test]
fn each_command_line_selects_one_mode() {
    let of = |line: &str| {
        let cli = parse(line).unwrap();
        mode(cli.engine, cli.print_config, cli.verb)
    };
    assert!(matches!(of(""), Ok(Mode::Console)));
    assert!(matches!(of("--sandbox=busy"), Ok(Mode::Console)));
    assert!(matches!(of("--engine --sandbox"), Ok(Mode::Engine)));
    assert!(matches!(of("--print-config"), Ok(Mode::PrintConfig)));
    let local = |line: &str| match of(line) {
        Ok(Mode::Verb(Verb::Local(verb))) => verb,
        other => panic!("{line}: {other:?}"),
    };
    assert!(matches!(local("doctor"), Local::Doctor(_)));
    assert!(matches!(local("check kinds"), Local::Check(_)));
    let sandbox = local("sandbox --listen 127.0.0.1:0");
    assert!(matches!(sandbox, Local::Sandbox(_)));
    assert!(matches!(of("list"), Ok(Mode::Verb(Verb::Engine(_)))));
    assert_eq!(of("--engine list").unwrap_err().exit, Exit::Usage);
}

fn around() -> Surroundings {
    Surroundings {
        state_home: Some("/s".into()),
        socket: Some("/env.sock".into()),
        ..Surroundings::default()
    }
}

fn placed(line: &str, settings: &Settings) -> Paths {
    let global = parse(line).unwrap().global;
    paths(&global, settings, &around(), |_| false).unwrap()
}

#[test]
fn the_ledger_and_socket_paths_are_those_of_the_contract() {
    let mut settings = Settings::default();
    let usual = placed("list", &settings);
    assert_eq!(usual.ledger, Location::File("/s/gone/ledger.db".into()));
    assert_eq!(usual.reach, Path::new("/env.sock"));
    settings.ledger.path = Some("/set.db".into());
    assert_eq!(
        placed("list", &settings).ledger,
        Location::File("/set.db".into())
    );
    let named = placed("list --ledger /opt.db --socket /opt.sock", &settings);
    assert_eq!(named.ledger, Location::File("/opt.db".into()));
    assert_eq!(
        (named.serve.as_path(), named.reach.as_path()),
        (Path::new("/opt.sock"), Path::new("/opt.sock"))
    );
    // The practice cloud has a ledger and a socket of its own.
    let sandbox = placed("list --sandbox", &settings);
    assert_eq!(
        sandbox.ledger,
        Location::File("/s/gone/sandbox/ledger.db".into())
    );
    assert_eq!(sandbox.reach, Path::new("/s/gone/sandbox/gone.sock"));

    for refused in [
        "mysql://h/d",
        "postgres://u:secret@h/d",
        "postgres://h/d?sslmode=prefer",
        "postgres://h/d?pooler=statement",
    ] {
        let global = parse(&format!("list --ledger {refused}")).unwrap().global;
        let refused = paths(&global, &settings, &around(), |_| false).unwrap_err();
        assert_eq!(refused.exit, Exit::Usage);
        assert!(!format!("{refused:?}").contains("secret"), "{refused:?}");
    }
    #[cfg(feature = "postgres")]
    {
        let url = "postgres://u@h/d?schema=s";
        let on_server = placed(&format!("list --ledger {url}"), &settings).ledger;
        assert_eq!(
            (on_server.file(), on_server.to_string()),
            (None, url.to_owned())
        );
    }
    let homeless = paths(
        &Global::default(),
        &settings,
        &Surroundings::default(),
        |_| false,
    );
    assert_eq!(homeless.unwrap_err().exit, Exit::Usage);
}

#[test]
fn a_verb_attaches_to_the_engine_that_owns_the_ledger_or_embeds_one() {
    let settings = Settings::default();
    let usual = placed("list", &settings);
    let named = placed("list --ledger /l", &settings);
    let at = |path: &str| EngineSource::Attach(PathBuf::from(path));
    assert_eq!(
        choose_engine(&named, Some(Some("/own.sock".into())), |_| true),
        at("/own.sock")
    );
    assert_eq!(
        choose_engine(&usual, Some(None), |_| false),
        at("/env.sock")
    );
    assert_eq!(choose_engine(&usual, None, |_| true), at("/env.sock"));
    assert_eq!(choose_engine(&usual, None, |_| false), EngineSource::Embed);
    // An engine that listens on the usual socket does not own the ledger of the option.
    assert_eq!(choose_engine(&named, None, |_| true), EngineSource::Embed);
    assert_eq!(
        choose_engine(&named, Some(None), |_| true),
        EngineSource::Embed
    );
}

fn healthy_facts() -> Facts {
    Facts {
        settings: Ok(None),
        clouds: Ok(vec![CloudEntry {
            name: "prod".into(),
            regions: vec!["one".into()],
            found_in: vec![Origin::File("/etc/openstack/clouds.yaml".into())],
        }]),
        named_clouds: vec![],
        mapping: vec![],
        warnings: vec![],
        logins: vec![Login {
            site: Site::region("prod", "one"),
            result: Ok("admin in project admin".into()),
        }],
        ledger: LedgerFacts {
            name: "/s/ledger.db".into(),
            writable: Ok(()),
            readable: Some(Ok(())),
        },
        engine: EngineFacts {
            socket: "/s/gone.sock".into(),
            owner_pid: None,
            answer: Err("no such file".into()),
        },
        notify: vec![NotifyFacts {
            channel: "mail to ops".into(),
            failing: String::new(),
        }],
        deployment: None,
        peers: vec![PeerFacts {
            peer: "orders/eu-1".into(),
            url: "https://o.example".into(),
            known_by: "/etc/gone/o.token (mode 600)".into(),
            answer: Ok(()),
        }],
        terminal: TerminalFacts {
            name: Some("xterm".into()),
            is_terminal: true,
            size: Some((80, 24)),
            colour: true,
            utf8: true,
        },
    }
}

type Change = fn(&mut Facts);

fn mapping(cloud: &str, region: &str) -> Mapping {
    Mapping {
        central: Site::region("prod", "one"),
        locals: vec![Site::region(cloud, region)],
        by: CopiedBy::Tag,
    }
}

#[test]
fn doctor_rates_each_finding_and_derives_the_exit_code() {
    let table: [(&str, Change, Health, Exit, &str); 20] = [
        (
            "guard.read_only_clouds",
            |f| f.named_clouds = vec![("guard.read_only_clouds", "prdo".to_owned())],
            Health::Warn,
            Exit::Done,
            "there is no cloud \"prdo\"; did you mean \"prod\"?",
        ),
        (
            "peer orders/eu-1",
            |_| {},
            Health::Ok,
            Exit::Done,
            "https://o.example answers; recognized by /etc/gone/o.token (mode 600)",
        ),
        (
            "peer orders/eu-1",
            |facts| facts.peers[0].answer = Err("GET https://o.example/peer/v1: refused".into()),
            Health::Fail,
            Exit::Unreachable,
            "/peer/v1: refused",
        ),
        ("terminal", |_| {}, Health::Ok, Exit::Done, "xterm, 80x24"),
        ("notify", |_| {}, Health::Ok, Exit::Done, "mail to ops"),
        (
            "notify",
            |f| f.notify = vec![],
            Health::Ok,
            Exit::Done,
            "nobody is notified",
        ),
        (
            "notify",
            |f| f.notify[0].failing = "answered 503".into(),
            Health::Warn,
            Exit::Done,
            "answered 503",
        ),
        (
            "cloud prod",
            |_| {},
            Health::Ok,
            Exit::Done,
            "/etc/openstack/clouds.yaml",
        ),
        (
            "clouds",
            |f| f.clouds = Ok(vec![]),
            Health::Fail,
            Exit::Usage,
            "no cloud",
        ),
        (
            "clouds",
            |f| f.clouds = Err("line 3".into()),
            Health::Fail,
            Exit::Usage,
            "line 3",
        ),
        (
            "mapping of prod/one",
            |f| f.mapping = vec![mapping("prod", "one")],
            Health::Ok,
            Exit::Done,
            "copies at prod/one",
        ),
        (
            "mapping of prod/one",
            |f| f.mapping = vec![mapping("prod", "two")],
            Health::Fail,
            Exit::Usage,
            "prod/two is not a region of a configured cloud",
        ),
        (
            "settings",
            |f| f.settings = Err("line 9".into()),
            Health::Fail,
            Exit::Usage,
            "line 9",
        ),
        (
            "files",
            |f| f.warnings = vec!["mode 644".into()],
            Health::Warn,
            Exit::Done,
            "644",
        ),
        (
            "login prod/one",
            |f| f.logins[0].result = Err((ErrorClass::Auth, "401".into())),
            Health::Fail,
            Exit::Auth,
            "401",
        ),
        (
            "login prod/one",
            |f| f.logins[0].result = Err((ErrorClass::Unavailable, "refused".into())),
            Health::Fail,
            Exit::Unreachable,
            "refused",
        ),
        (
            "ledger",
            |f| f.ledger.writable = Err("denied".into()),
            Health::Fail,
            Exit::Usage,
            "denied",
        ),
        (
            "ledger content",
            |f| f.ledger.readable = Some(Err("newer".into())),
            Health::Fail,
            Exit::Usage,
            "newer",
        ),
        (
            "engine",
            |f| f.engine.owner_pid = Some(7),
            Health::Fail,
            Exit::Unreachable,
            "process 7",
        ),
        (
            "terminal",
            |f| f.terminal.size = Some((20, 5)),
            Health::Warn,
            Exit::Done,
            "20x5",
        ),
    ];
    for (name, change, health, exit, word) in table {
        let mut facts = healthy_facts();
        change(&mut facts);
        let checks = examine(&facts);
        let check = checks.iter().find(|check| check.name == name).expect(name);
        assert_eq!(check.health, health, "{name}");
        assert!(check.found.contains(word), "{name}: {}", check.found);
        assert_eq!(view::exit(&checks), exit, "{name}");
        assert_eq!(check.failure.is_some(), health == Health::Fail, "{name}");
        if health == Health::Fail {
            assert!(!check.advice.is_empty(), "{name}");
        }
    }
}

#[test]
fn doctor_prints_the_next_step_only_if_nothing_fails() {
    let show = |facts: &Facts, format| {
        let mut out = Vec::new();
        let checks = examine(facts);
        let mut to = Printer::new(&mut out, Style::default(), format);
        let exit = view::report(&mut to, &checks, "Next: `gone`").unwrap();
        (exit, String::from_utf8(out).unwrap())
    };
    let (exit, text) = show(&healthy_facts(), Format::Table);
    assert_eq!(exit, Exit::Done);
    assert!(text.contains("Next: `gone`"), "{text}");
    let mut facts = healthy_facts();
    facts.clouds = Ok(vec![]);
    let (exit, text) = show(&facts, Format::Table);
    assert_eq!(exit, Exit::Usage);
    assert!(
        text.contains("clouds.yaml") && !text.contains("Next:"),
        "{text}"
    );
    let (_, text) = show(&facts, Format::Json);
    let checks: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert!(
        checks
            .as_array()
            .unwrap()
            .iter()
            .any(|check| check["trouble"] == "configuration")
    );
}

#[test]
fn a_ledger_is_writable_if_its_folder_can_be_created() {
    let base = tempfile::tempdir().unwrap();
    assert_eq!(can_write(&base.path().join("a/b/ledger.db")), Ok(()));
    assert!(!base.path().join("a").exists(), "doctor creates no folder");
    let file = base.path().join("file");
    std::fs::write(&file, "").unwrap();
    assert_eq!(can_write(&file), Ok(()));
    assert!(can_write(&file.join("ledger.db")).is_err());
}

fn written(by: impl FnOnce(&mut Vec<u8>)) -> String {
    let mut text = Vec::new();
    by(&mut text);
    String::from_utf8(text).unwrap()
}

#[test]
fn shell_completions_contain_every_verb() {
    for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
        let script = written(|out| completions(shell, out).unwrap());
        for verb in Cli::command().get_subcommands() {
            assert!(
                script.contains(verb.get_name()),
                "{shell}: {}",
                verb.get_name()
            );
        }
    }
}

#[test]
fn the_brief_help_of_each_verb_fits_80x24_and_has_an_example() {
    fn check(command: &Command) {
        let name = command.get_name().to_owned();
        let help = command.clone().term_width(80).render_help().to_string();
        assert!(help.lines().count() <= 24, "{name}:\n{help}");
        assert!(help.lines().all(|line| line.len() <= 80), "{name}:\n{help}");
        let verbs = command.get_subcommands();
        verbs
            .filter(|verb| verb.get_name() != "help")
            .for_each(check);
    }
    let mut program = command();
    program.build();
    for verb in program
        .get_subcommands()
        .filter(|verb| verb.get_name() != "help")
    {
        let help = verb.clone().render_help().to_string();
        assert!(help.contains("Examples:\n  gone "), "{help}");
        check(verb);
    }
}

#[test]
fn every_verb_has_a_man_page_with_examples() {
    let program = written(|out| man(None, out).unwrap());
    for verb in Cli::command().get_subcommands() {
        let name = verb.get_name();
        assert!(
            program.contains(&format!("gone\\-{name}(1)")),
            "{name}: {program}"
        );
        let page = written(|out| man(Some(name), out).unwrap());
        assert!(page.contains("Examples:"), "{name}");
    }
    let failure = man(Some("delte"), &mut Vec::new()).unwrap_err();
    assert_eq!(failure.exit, Exit::Usage);
    assert!(
        failure.message.contains("did you mean \"delete\"?"),
        "{failure:?}"
    );
}

/// The name and the text of each task page.
const TASKS: [(&str, &str); 7] = [
    (
        "free-what-is-stuck",
        include_str!("../../assets/tasks/free-what-is-stuck.md"),
    ),
    (
        "clean-up-every-night",
        include_str!("../../assets/tasks/clean-up-every-night.md"),
    ),
    (
        "keep-it-deleted",
        include_str!("../../assets/tasks/keep-it-deleted.md"),
    ),
    (
        "run-it-as-a-service",
        include_str!("../../assets/tasks/run-it-as-a-service.md"),
    ),
    (
        "look-after-the-ledger",
        include_str!("../../assets/tasks/look-after-the-ledger.md"),
    ),
    (
        "find-out-what-happened",
        include_str!("../../assets/tasks/find-out-what-happened.md"),
    ),
    (
        "delete-across-deployments",
        include_str!("../../assets/tasks/delete-across-deployments.md"),
    ),
];

#[test]
fn every_command_and_setting_on_the_task_pages_parses() {
    for (page, text) in TASKS {
        let commands = text.lines().filter(|line| line.starts_with("    gone"));
        let mut parsed_commands = 0;
        for line in commands {
            // As in a shell, quoted text is one word.
            let mut words: Vec<String> = Vec::new();
            for (at, part) in line.trim().split('\'').enumerate() {
                match at % 2 {
                    0 => words.extend(part.split_whitespace().map(str::to_owned)),
                    _ => words.push(part.to_owned()),
                }
            }
            let parsed = Cli::try_parse_from(&words);
            assert!(parsed.is_ok(), "{page}: {line}: {}", parsed.err().unwrap());
            parsed_commands += 1;
        }
        assert!(parsed_commands > 0, "{page} has no command");
        for block in text.split("```toml\n").skip(1) {
            let (settings, _) = block.split_once("```").unwrap();
            let parsed = config::parse(settings, Path::new(page));
            assert!(parsed.is_ok(), "{page}: {}", parsed.unwrap_err());
        }
    }
}

#[test]
fn the_commands_of_the_service_and_authorized_keys_examples_parse() {
    let service = include_str!("../../assets/examples/gone.service");
    let keys = include_str!("../../assets/examples/authorized_keys");
    let of_service = service
        .lines()
        .filter_map(|line| line.strip_prefix("ExecStart="));
    let of_users = keys.lines().filter_map(|line| {
        let (_, command) = line.split_once("command=\"env USER=")?;
        let (command, _) = command.split_once('"')?;
        Some(command.split_once(' ')?.1)
    });
    let lines: Vec<&str> = of_service.chain(of_users).collect();
    assert_eq!(lines.len(), 4, "{lines:?}");
    for line in &lines {
        let cli = Cli::try_parse_from(line.split_whitespace());
        let global = cli.unwrap_or_else(|error| panic!("{line}: {error}")).global;
        let (ledger, socket) = (global.ledger.unwrap(), global.socket.unwrap());
        assert_eq!(ledger.to_str(), Some("/var/lib/gone/ledger.db"), "{line}");
        assert_eq!(socket.to_str(), Some("/run/gone/engine.sock"), "{line}");
    }
}

/// Opens the console in plain mode with this home, types a command at the first pane, and quits at the next.
/// Returns the titles of the panes that were shown.
fn visit(home: &Path, typed_first: &str) -> Vec<String> {
    use std::io::{BufRead as _, BufReader, Write as _};

    use portable_pty::{CommandBuilder, PtySize, native_pty_system};

    let pair = native_pty_system().openpty(PtySize::default()).unwrap();
    let mut gone = CommandBuilder::new(env!("CARGO_BIN_EXE_gone"));
    gone.arg("--plain");
    gone.env_clear();
    gone.env("HOME", home);
    gone.env("XDG_CONFIG_HOME", home.join("config"));
    gone.env("XDG_STATE_HOME", home.join("state"));
    gone.cwd(home);
    let mut console = pair.slave.spawn_command(gone).unwrap();
    drop(pair.slave);
    let mut keys = pair.master.take_writer().unwrap();
    let lines = BufReader::new(pair.master.try_clone_reader().unwrap()).lines();
    let mut titles: Vec<String> = Vec::new();
    for line in lines.map_while(Result::ok) {
        // The last line of a screen names the keys: then the screen is complete.
        if line.starts_with("== ") {
            titles.push(line.trim_end().to_owned());
        } else if line.starts_with("keys: ") {
            let typed = if titles.len() == 1 { typed_first } else { "q" };
            write!(keys, "{typed}\r").unwrap();
        }
    }
    assert!(console.wait().unwrap().success());
    titles
}

#[test]
fn a_second_console_starts_on_the_last_view() {
    let home = tempfile::tempdir().unwrap();
    let clouds = home.path().join("config/openstack");
    std::fs::create_dir_all(&clouds).unwrap();
    // No service listens at this address.
    let cloud = "clouds: {prod: {region_name: one, auth: {auth_url: 'http://127.0.0.1:1/v3', username: u, \
                 password: p, project_name: p, user_domain_id: default, project_domain_id: default}}}";
    std::fs::write(clouds.join("clouds.yaml"), cloud).unwrap();
    let first = visit(home.path(), ":tombstones /port");
    assert!(first[0].starts_with("== home"), "{first:?}");
    assert!(first[1].starts_with("== tombstones"), "{first:?}");
    let second = visit(home.path(), ":sites");
    assert!(second[0].starts_with("== tombstones"), "{second:?}");
    assert!(second[0].ends_with("filter port"), "{second:?}");
    let third = visit(home.path(), ":help");
    assert!(third[0].starts_with("== sites"), "{third:?}");
}
