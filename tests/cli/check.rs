//! `gone check kinds`: what it prints, and its exit code.

use std::path::Path;
use std::process::{Command, Output};

use gone::domain::check::check;
use gone::domain::kinds::Source;
use gone::frontends::cli::Exit;
use gone::frontends::cli::args::Format;
use gone::frontends::cli::check::report;
use gone::frontends::cli::output::{Printer, Style};

const BILLING: &str = r#"
service = "billing"
[kind.customer.native]
[kind.invoice.native.fields]
customer = {}
[[kind.invoice.reference]]
to = "customer"
field = "customer"
on_delete = "cascade"
asynchronous = true
says = "of"
[kind.payment.native.fields]
invoice = {}
[[kind.payment.reference]]
to = "invoice"
field = "invoice"
on_delete = "block"
says = "of"
"#;

fn shown(text: &str, format: Format, ascii: bool) -> (Exit, String) {
    let source = Source {
        file: "billing.toml".into(),
        text: text.into(),
    };
    let kinds = gone::cloud::read_kinds([source]).unwrap();
    let style = Style {
        ascii,
        ..Style::default()
    };
    let mut out = Vec::new();
    let count = kinds.iter().count();
    let mut to = Printer::new(&mut out, style, format);
    let exit = report(&mut to, count, &check(&kinds)).unwrap();
    (exit, String::from_utf8(out).unwrap())
}

#[test]
fn g11_a_stuck_cascade_is_drawn_with_its_resources_and_its_fix() {
    let (exit, text) = shown(BILLING, Format::Table, true);
    assert_eq!(exit, Exit::Usage);
    assert!(text.is_ascii());
    assert_eq!(
        text,
        "\
STATE  FINDING        KINDS
error  stuck_cascade  customer invoice payment

error stuck_cascade: Deleting customer is accepted: invoice refers to it asynchronously, and is deleted after that. invoice is blocked by payment, which this deletion will not remove.

    customer   its deletion is asked for
       ^ customer: cascade, asynchronous
    invoice    is blocked for ever
       ^ invoice: block
    payment    stays

  Remove asynchronous from invoice.customer: then the deletion is refused before anything is sent. Or let payment.invoice cascade, be unset or dangle.

3 kinds checked: 1 error, 0 notes.
"
    );
    let (_, text) = shown(BILLING, Format::Table, false);
    assert!(text.contains("       ▲ invoice: block"), "{text}");
}

#[test]
fn a_cycle_is_drawn_to_where_it_closes_and_an_asynchronous_one_is_no_finding() {
    let tree = "service = \"files\"\n[kind.folder.native.fields]\nparent = {}\n[[kind.folder.reference]]\nto = \"folder\"\nfield = \"parent\"\non_delete = \"cascade\"\nsays = \"in\"\n";
    let (exit, text) = shown(tree, Format::Table, true);
    assert_eq!(exit, Exit::Usage);
    let drawn = "
    folder-1   is blocked for ever
       ^ parent: cascade
    folder-2   is blocked for ever
       ^ parent: cascade
    folder-1   the same
";
    assert!(text.contains(drawn), "{text}");
    let later = tree.replace("\"cascade\"", "\"cascade\"\nasynchronous = true");
    let (exit, text) = shown(&later, Format::Table, true);
    assert_eq!(exit, Exit::Done);
    assert_eq!(text, "1 kind checked: 0 errors, 0 notes.\n");
}

#[test]
fn notes_do_not_fail_the_check() {
    let text = BILLING.replace("\"block\"", "\"dangling\"");
    let (exit, text) = shown(&text, Format::Csv, false);
    assert_eq!(exit, Exit::Done);
    assert!(
        text.contains("note,dangling,invoice payment,payment -> invoice (invoice: dangling),"),
        "{text}"
    );
}

#[test]
fn findings_are_printed_as_fields_in_json_jsonl_and_yaml() {
    let (exit, text) = shown(BILLING, Format::Json, false);
    assert_eq!(exit, Exit::Usage);
    let findings: serde_json::Value = serde_json::from_str(&text).unwrap();
    let finding = &findings[0];
    assert_eq!(finding["severity"], "error");
    assert_eq!(finding["category"], "stuck_cascade");
    assert_eq!(
        finding["kinds"],
        serde_json::json!(["customer", "invoice", "payment"])
    );
    assert_eq!(finding["example"]["resources"][1]["fate"], "held");
    assert_eq!(
        finding["example"]["references"][0],
        serde_json::json!({"from": "invoice", "to": "customer", "field": "customer", "on_delete": "cascade", "asynchronous": true})
    );
    let (_, text) = shown(BILLING, Format::Jsonl, false);
    assert_eq!(text.lines().count(), 1);
    let (_, text) = shown(BILLING, Format::Yaml, false);
    assert!(text.contains("category: stuck_cascade"), "{text}");
}

fn gone(config: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_gone"));
    command.args(arguments).env_clear();
    command.env("XDG_CONFIG_HOME", config).env("HOME", config);
    command.output().unwrap()
}

#[test]
fn g11_check_kinds_checks_the_built_in_kinds_and_those_of_the_user() {
    let config = tempfile::tempdir().unwrap();
    let check = |more: &[&str]| gone(config.path(), &[&["check", "kinds"], more].concat());
    let done = check(&[]);
    assert_eq!(done.status.code(), Some(0), "{done:?}");
    let folder = config.path().join("gone/kinds");
    std::fs::create_dir_all(&folder).unwrap();
    let file = folder.join("billing.toml");
    std::fs::write(&file, BILLING).unwrap();
    let wrong = check(&["-o", "json"]);
    assert_eq!(wrong.status.code(), Some(2), "{wrong:?}");
    let findings: serde_json::Value = serde_json::from_slice(&wrong.stdout).unwrap();
    assert_eq!(findings[0]["category"], "stuck_cascade");
    std::fs::write(
        &file,
        BILLING.replace("to = \"invoice\"", "to = \"invoce\""),
    )
    .unwrap();
    let unread = check(&[]);
    assert_eq!(unread.status.code(), Some(2));
    let stderr = String::from_utf8(unread.stderr).unwrap();
    assert!(stderr.contains("billing.toml:"), "{stderr}");
    assert!(stderr.contains("did you mean \"invoice\"?"), "{stderr}");
    std::fs::remove_file(&file).unwrap();
    let drawn = check(&["-o", "dot"]);
    assert_eq!(drawn.status.code(), Some(2), "{drawn:?}");
    assert!(drawn.stdout.is_empty(), "{drawn:?}");
}

#[test]
fn verbs_without_an_engine_refuse_formats_that_draw() {
    let config = tempfile::tempdir().unwrap();
    for verb in [&["doctor"][..], &["ledger", "check"], &["notify", "test"]] {
        let drawn = gone(config.path(), &[verb, &["-o", "dot"]].concat());
        assert_eq!(drawn.status.code(), Some(2), "{drawn:?}");
        let stderr = String::from_utf8(drawn.stderr).unwrap();
        let why = "dot, mermaid and svg draw plans and trees only";
        assert!(stderr.contains(why), "{verb:?}: {stderr}");
    }
}

#[test]
fn an_unreadable_kinds_folder_is_an_error_and_not_an_empty_folder() {
    let config = tempfile::tempdir().unwrap();
    let folder = config.path().join("gone/kinds");
    std::fs::create_dir_all(config.path().join("gone")).unwrap();
    std::fs::write(&folder, "").unwrap();
    let unread = gone(config.path(), &["check", "kinds"]);
    assert_eq!(unread.status.code(), Some(2), "{unread:?}");
    let stderr = String::from_utf8(unread.stderr).unwrap();
    assert!(stderr.contains(&folder.display().to_string()), "{stderr}");
    assert!(stderr.contains("Not a directory"), "{stderr}");
}
