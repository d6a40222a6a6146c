//! The warning about services and extensions that no kind covers (N19).

use std::collections::{BTreeMap, BTreeSet};

use gone::domain::kinds::{Offer, Source, unlisted_warning};

fn texts(words: &[&str]) -> BTreeSet<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

fn offer(extensions: &[&str], others: &[&str]) -> Offer {
    Offer {
        covered: BTreeMap::from([("network".to_owned(), texts(extensions))]),
        others: texts(others),
    }
}

fn not_covered(extensions: &[&str], others: &[&str]) -> Vec<String> {
    gone::cloud::load_kinds(&[])
        .unwrap()
        .not_covered(&offer(extensions, others))
}

#[test]
fn n19_a_service_and_an_extension_without_kinds_are_named_with_their_resources() {
    assert_eq!(
        not_covered(&["trunk", "logging"], &["messaging", "placement"]),
        [
            "messaging (queues)",
            "extension logging of network (logs of network resources)"
        ]
    );
}

#[test]
fn n19_unknown_services_and_extensions_are_named_too() {
    let found = not_covered(&["x-cloud-teapot"], &["teapot"]);
    assert_eq!(
        found,
        [
            "teapot (a service that gone does not know)",
            "extension x-cloud-teapot of network (gone does not know whether it has resources)"
        ]
    );
}

#[test]
fn n19_services_and_extensions_with_kinds_or_without_resources_are_not_named() {
    let extensions = [
        "metering",
        "local_ip",
        "l3-ndp-proxy",
        "bgp",
        "vpnaas",
        "sorting",
        "quotas",
    ];
    assert_eq!(
        not_covered(&extensions, &["placement"]),
        Vec::<String>::new()
    );
    assert_eq!(unlisted_warning(&[], "prod/R1"), None);
}

#[test]
fn n19_uncovered_resources_that_need_no_extension_are_named() {
    let offer = Offer {
        covered: BTreeMap::from([("image".to_owned(), BTreeSet::new())]),
        others: BTreeSet::new(),
    };
    let found = gone::cloud::load_kinds(&[]).unwrap().not_covered(&offer);
    assert_eq!(found, ["image (metadata definition namespaces)"]);
}

#[test]
fn n19_a_users_kind_covers_the_extension_that_it_requires() {
    let mine = Source {
        file: "mine.toml".to_owned(),
        text: r#"
            service = "network"
            defaults.call.prefix = "/v2.0"
            [kind.log.list]
            [kind.log.call]
            requires_extension = "logging"
            not_found = ["LogResourceNotFound"]
            delete = { method = "DELETE", path = "/log/logs/{id}" }
            list = { path = "/log/logs", items = "logs", item = "log" }
        "#
        .to_owned(),
    };
    let kinds = gone::cloud::load_kinds(&[mine]).unwrap();
    assert_eq!(
        kinds.not_covered(&offer(&["logging"], &[])),
        Vec::<String>::new()
    );
}

#[test]
fn n19_the_warning_is_one_short_line_without_control_characters() {
    let many: Vec<String> = (0..500).map(|nth| format!("service-{nth:03}")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    let line = unlisted_warning(&not_covered(&[], &many), "prod/R1").unwrap();
    assert!(line.starts_with("not looked at: service-000 ("), "{line}");
    let end = "and 480 more; gone has no kinds for these, so those of the project at prod/R1 are not deleted";
    assert!(line.ends_with(end), "{line}");
    assert!(line.len() < 2_000, "{}", line.len());

    let hostile = format!("evil\u{1b}[2J\n{}", "x".repeat(10_000));
    let line = unlisted_warning(&not_covered(&[], &[&hostile]), "prod/R1").unwrap();
    assert!(
        line.len() < 300 && !line.contains(['\u{1b}', '\n']),
        "{line:?}"
    );
}
