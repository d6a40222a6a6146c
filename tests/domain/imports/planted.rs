//! Planted sources: allowed imports pass, and each form of a forbidden import is found.

use std::collections::BTreeSet;

use super::check::{Crate, Table};

/// An import table for the planted sources, in the form of the table in `src/lib.rs`.
const PLANTED_TABLE: &str = "
    //! | module | may import |
    //! |---|---|
    //! | `domain` | nothing |
    //! | `ledger` | `domain` |
    //! | `control` | `domain` |
    //! | `engine` | `domain`, `ledger`, `control` |
    //! | `frontends` | nothing |
    //! | `frontends/api` | `domain`, `control`, `ledger/port` |
    //! | `app` | all |
    //! | `main` | `app` |
    //! | `lib` | nothing |
";

/// Returns the violations in a crate of these files.
fn planted(files: &[(&str, &str)]) -> Vec<String> {
    let modules = ["domain", "ledger", "control", "engine", "frontends", "app"];
    let lib: String = modules.map(|name| format!("pub mod {name};")).concat();
    let mut texts = vec![("lib.rs".to_owned(), lib)];
    texts.extend(
        files
            .iter()
            .map(|(file, text)| ((*file).to_owned(), (*text).to_owned())),
    );
    let wrong = Crate::read(&texts).violations(&Table::parse(PLANTED_TABLE));
    wrong.into_iter().collect()
}

#[test]
fn imports_that_the_table_allows_pass() {
    let clean = planted(&[
        (
            "domain/mod.rs",
            "//! See [`crate::engine`].\npub mod text; pub struct Id;\npub(crate) fn f() {}",
        ),
        (
            "domain/text.rs",
            "use super::Id; use std::net::IpAddr; pub fn t(i: Id) -> crate::domain::Id { i }",
        ),
        (
            "control/mod.rs",
            "pub use crate::domain::Id; use std::time::Instant;",
        ),
        ("frontends/mod.rs", "pub mod api;"),
        (
            "frontends/api/mod.rs",
            "use crate::control::Id; use crate::ledger::port::Ledger; use self::x::Y; mod x;",
        ),
        (
            "engine/mod.rs",
            "use crate::{domain::{self, text}, ledger}; fn f() { ledger::g(domain::Id) }",
        ),
        (
            "app.rs",
            "use crate::engine; use crate::frontends::api; // crate::nothing::at_all",
        ),
        ("main.rs", "fn main() { gone::app::main() }"),
    ]);
    assert_eq!(clean, Vec::<String>::new());
}

#[test]
fn each_form_of_a_forbidden_import_is_found() {
    let in_api = [
        "use crate::engine::Handle;",
        "use crate::{domain::Id, engine::Handle};",
        "use crate::{domain::Id, engine};",
        "use {crate::engine as e};",
        "pub(crate) use crate::engine::Handle;",
        "use crate::engine::*;",
        "use super::super::engine::Handle;",
        "use self::super::super::engine::{self, Handle};",
        "use crate as all;",
        "use crate::*;",
        "extern crate self as other;",
        "use gone::engine::Handle;",
        "use ::gone::engine::Handle;",
        "mod inner { use super::super::super::engine::Handle; }",
        "fn f() { crate::engine::start(); }",
        "fn f() { use crate::engine::start; start(); }",
        "fn f(h: &crate::engine::Handle) {}",
        "fn f() -> Vec<Option<crate::engine::Handle>> { vec![] }",
        "fn f() { return ::gone::engine::start(); }",
        "impl crate::engine::Run for X {}",
        "type A = <X as crate::engine::Run>::Out;",
        "fn f() { println!(\"{}\", crate::engine::NAME); }",
        "fn f() { assert!(matches!(x, super::super::engine::State::Idle)); }",
        "macro_rules! m { ($x:expr) => { $crate::engine::run($x) } }",
        "use crate::domain as d; fn f() { d::id(); super::super::engine::run() }",
        "#[serde(with = \"crate::engine::codec\")] struct S;",
        "#[crate::engine::attribute] struct S;",
        "use crate::ledger::sqlite::Store;",
        "use crate::ledger;",
        "use crate::nowhere::X;",
    ];
    for text in in_api {
        let text = format!("//! Documentation.\n{text}");
        let wrong = planted(&[
            ("engine/mod.rs", "pub struct Handle;"),
            ("frontends/mod.rs", "pub mod api;"),
            ("frontends/api/mod.rs", &text),
        ]);
        assert!(!wrong.is_empty(), "not found: {text}");
        assert!(
            wrong[0].starts_with("src/frontends/api/mod.rs:2: "),
            "{wrong:?}"
        );
    }
}

#[test]
fn a_forbidden_import_through_a_re_export_is_found() {
    let ledger = ("ledger/mod.rs", "pub mod port; pub struct Row;");
    let frontends = ("frontends/mod.rs", "pub mod api;");
    let names = |control: &str, ledger_port: &str, api: &str| {
        planted(&[
            ledger,
            frontends,
            ("ledger/port.rs", ledger_port),
            ("control/mod.rs", control),
            ("frontends/api/mod.rs", api),
        ])
    };
    let hidden = "pub use super::Row as Line;";
    let found = |wrong: &[String]| {
        let by_api = |line: &&String| line.starts_with("src/frontends/api/mod.rs:1: ");
        wrong.iter().filter(by_api).count()
    };
    // The import is by name, by an alias of the module, by `*`, or through a submodule of the other module.
    assert_eq!(
        found(&names("", hidden, "use crate::ledger::port::Line;")),
        1
    );
    assert_eq!(
        found(&names(
            "",
            hidden,
            "use crate::ledger::port as p; fn f(l: p::Line) {}"
        )),
        1
    );
    assert_eq!(found(&names("", hidden, "use crate::ledger::port::*;")), 1);
    let deeper = "pub use deep::*; mod deep { pub use super::super::Row; }";
    assert_eq!(
        found(&names("", deeper, "use crate::ledger::port::Row;")),
        1
    );
    assert_eq!(found(&names("", deeper, "use crate::ledger::port::*;")), 1);
    assert_eq!(
        found(&names(
            "",
            "pub struct Row;",
            "use crate::ledger::port::Row;"
        )),
        0
    );
    // The re-export has all items of another module at once, by `*`.
    let wrong = names("pub use crate::domain::*;", "", "");
    assert!(wrong[0].contains("may not re-export all"), "{wrong:?}");
    // The import is through the crate's root.
    let wrong = planted(&[
        frontends,
        (
            "lib.rs",
            "pub use engine::Handle; pub mod engine; pub mod frontends;",
        ),
        ("engine/mod.rs", "pub struct Handle;"),
        ("frontends/api/mod.rs", "use crate::Handle;"),
    ]);
    assert!(
        wrong
            .iter()
            .any(|line| line.starts_with("src/frontends/api/mod.rs:1: ")),
        "{wrong:?}"
    );
}

#[test]
fn a_module_without_a_row_is_found() {
    let wrong = planted(&[("shed/mod.rs", "")]);
    assert_eq!(
        wrong,
        ["src/shed/mod.rs:1: the table has no row for this module"]
    );
    let wrong = planted(&[
        ("frontends/mod.rs", "pub mod gate;"),
        ("frontends/gate/mod.rs", ""),
    ]);
    assert_eq!(
        wrong,
        ["src/frontends/gate/mod.rs:1: the table has no row for this module"]
    );
}

#[test]
fn async_code_clocks_and_io_are_found_in_domain() {
    let impure = [
        "async fn f() {}",
        "fn f() { x.await }",
        "use std::fs;",
        "use std::{fmt, fs::File};",
        "use std::time::{Duration, Instant};",
        "use std::time; fn f() { time::SystemTime::now() }",
        "fn f() { std::thread::sleep(d) }",
        "use chrono::Utc; fn f() { Utc::now() }",
        "use tokio::sync::watch;",
        "use std::net::TcpStream;",
        "fn f() { log!(::std::env::var(\"HOME\")) }",
    ];
    for text in impure {
        let wrong = planted(&[("domain/mod.rs", text)]);
        assert!(!wrong.is_empty(), "not found: {text}");
        assert!(
            wrong[0].starts_with("src/domain/mod.rs:1: domain may not"),
            "{wrong:?}"
        );
    }
}

#[test]
fn a_cycle_between_files_is_found() {
    let files = |second: &str| {
        let file = |name: &str, text: &str| (format!("app/{name}.rs"), text.to_owned());
        let parent = file("mod", "pub mod one; pub mod two; pub mod three;");
        // A module may name its parent, which declares it.
        let one = file("one", "use super::two::Two; use super::Name;");
        let two = file("two", "use super::three::Three;");
        let all = [parent, one, two, file("three", second)];
        Crate::read(&all).cycles(&["app"])
    };
    assert_eq!(files("pub struct Three;"), BTreeSet::new());
    let cycle = files("use crate::app::one;");
    assert_eq!(cycle.len(), 3, "{cycle:?}");
}
