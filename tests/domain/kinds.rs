//! Kinds files: what loads, and what is said of what does not.

use gone::domain::kinds::{Kinds, Source};

const NETWORK: &str = include_str!("../../assets/kinds/openstack/network.toml");

fn error_of(text: String) -> String {
    let source = Source {
        file: "mine.toml".into(),
        text,
    };
    Kinds::load(&[source]).unwrap_err().to_string()
}

#[test]
fn the_embedded_kinds_are_valid_and_resolve_by_alias() {
    let kinds = Kinds::load(&[]).unwrap();
    for (word, name) in [
        ("net", "network"),
        ("router-interface", "router_interface"),
        ("FIP", "floating_ip"),
        ("sg", "security_group"),
    ] {
        assert_eq!(kinds.resolve(word).unwrap().name.as_str(), name);
    }
}

#[test]
fn t02_an_unknown_kind_is_refused_with_the_nearest() {
    let kinds = Kinds::load(&[]).unwrap();
    let message = kinds.resolve("netwrok").unwrap_err();
    assert!(
        message.starts_with("unknown kind \"netwrok\"; did you mean \"network\"?"),
        "{message}"
    );
}

#[test]
fn a_mistyped_key_names_file_line_and_the_nearest_word() {
    let message = error_of(NETWORK.replacen(
        "not_found = [\"NetworkNotFound\"]",
        "not_fund = [\"NetworkNotFound\"]",
        1,
    ));
    let line = NETWORK
        .lines()
        .position(|line| line.starts_with("not_found"))
        .unwrap()
        + 1;
    assert!(
        message.starts_with(&format!("mine.toml:{line}: unknown field `not_fund`")),
        "{message}"
    );
    assert!(
        message.ends_with("did you mean \"not_found\"?"),
        "{message}"
    );
}

#[test]
fn an_unknown_kind_in_a_reference_names_the_kind_it_stands_in() {
    let message =
        error_of(NETWORK.replacen("to = \"router_interface\"", "to = \"router_interfac\"", 1));
    assert!(
        message.contains(
            "reference.to: unknown kind \"router_interfac\"; did you mean \"router_interface\"?"
        ),
        "{message}"
    );
}

#[test]
fn a_variable_that_no_one_sets_is_an_error() {
    let message = error_of(NETWORK.replacen(
        "/routers/{router_id}/remove_router_interface",
        "/routers/{rooter_id}/remove_router_interface",
        1,
    ));
    assert!(message.contains("kind \"router_interface\": delete: no variable \"{rooter_id}\"; did you mean \"router_id\"?"), "{message}");
}

#[test]
fn a_users_file_replaces_a_kind_by_its_name() {
    let text = "service = \"network\"\nprefix = \"/v2.0\"\n[kind.subnet]\nnot_found = [\"Mine\"]\ndelete = { method = \"DELETE\", path = \"/subnets/{id}\" }\n[kind.subnet.list]\npath = \"/subnets\"\nitems = \"subnets\"\nitem = \"subnet\"\nfields = [\"id\"]\n";
    let kinds = Kinds::load(&[Source {
        file: "mine.toml".into(),
        text: text.into(),
    }])
    .unwrap();
    assert_eq!(kinds.resolve("subnet").unwrap().spec.not_found, ["Mine"]);
    assert!(kinds.resolve("port").is_ok());
}
