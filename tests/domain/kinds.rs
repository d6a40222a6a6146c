//! Kinds files: which files load, and the errors of those that do not.

use gone::cloud::openstack::RestCalls;
use gone::domain::kinds::Source;

const NETWORK: &str = include_str!("../../assets/kinds/openstack/network.toml");
const BALANCERS: &str = include_str!("../../assets/kinds/openstack/load-balancer.toml");
const SECRETS: &str = include_str!("../../assets/kinds/openstack/key-manager.toml");
const IDENTITY: &str = include_str!("../../assets/kinds/openstack/identity.toml");
const COMPUTE: &str = include_str!("../../assets/kinds/openstack/compute.toml");
const BLOCK_STORAGE: &str = include_str!("../../assets/kinds/openstack/block-storage.toml");
const SHARES: &str = include_str!("../../assets/kinds/openstack/shared-file-system.toml");

fn error_of(text: String) -> String {
    let source = Source {
        file: "mine.toml".into(),
        text,
    };
    gone::cloud::load_kinds(&[source]).unwrap_err().to_string()
}

/// Returns the error of the built-in network kinds with this change.
fn error_of_network(from: &str, to: &str) -> String {
    assert!(NETWORK.contains(from), "{from}");
    let sources = [
        ("load-balancer.toml", BALANCERS),
        ("key-manager.toml", SECRETS),
        ("identity.toml", IDENTITY),
        ("compute.toml", COMPUTE),
        ("block-storage.toml", BLOCK_STORAGE),
        ("shared-file-system.toml", SHARES),
    ];
    let sources = sources.map(|(file, text)| (file, text.to_owned()));
    let changed = ("mine.toml", NETWORK.replacen(from, to, 1));
    let sources = sources
        .into_iter()
        .chain([changed])
        .map(|(file, text)| Source {
            file: file.into(),
            text,
        });
    gone::cloud::read_kinds(sources).unwrap_err().to_string()
}

#[test]
fn the_embedded_kinds_are_valid_and_resolve_by_alias() {
    let kinds = gone::cloud::load_kinds(&[]).unwrap();
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
fn t02_an_unknown_kind_is_refused_with_the_nearest_name() {
    let kinds = gone::cloud::load_kinds(&[]).unwrap();
    let message = kinds.resolve("netwrok").unwrap_err();
    assert!(
        message.starts_with("unknown kind \"netwrok\"; did you mean \"network\"?"),
        "{message}"
    );
}

#[test]
fn the_error_for_a_mistyped_key_names_the_file_the_line_and_the_nearest_key() {
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
fn an_unknown_kind_in_a_reference_is_answered_with_the_nearest_name() {
    let message = error_of_network("to = \"router_interface\"", "to = \"router_interfac\"");
    assert!(
        message.contains(
            "reference.to: unknown kind \"router_interfac\"; did you mean \"router_interface\"?"
        ),
        "{message}"
    );
}

#[test]
fn a_call_with_an_unknown_variable_is_an_error() {
    let message = error_of_network(
        "/routers/{router_id}/remove_router_interface",
        "/routers/{rooter_id}/remove_router_interface",
    );
    assert!(message.contains("kind \"router_interface\": call.delete: no variable \"{rooter_id}\"; did you mean \"router_id\"?"), "{message}");
}

#[test]
fn a_users_file_with_override_replaces_a_kind() {
    let text = another_subnet("override = true");
    let kinds = gone::cloud::load_kinds(&[Source {
        file: "mine.toml".into(),
        text,
    }])
    .unwrap();
    let calls: Option<&RestCalls> = kinds.resolve("subnet").unwrap().calls_of();
    assert_eq!(calls.unwrap().not_found, ["Mine"]);
    assert!(kinds.resolve("port").is_ok());
}

/// A kinds file with one kind, `thing`, and these lines.
fn with_a_thing(kind: &str, list: &str) -> String {
    format!(
        "service = \"things\"\n[kind.thing]\ncall.not_found = [\"ThingNotFound\"]\ncall.list = {{ path = \"/things\", items = \"things\" }}\n{kind}\n[kind.thing.list]\n{list}\n"
    )
}

const DELETE: &str = "call.delete = { method = \"DELETE\", path = \"/things/{id}\" }";

#[test]
fn m06_a_create_call_of_a_kind_with_a_natural_key_names_the_whole_key() {
    let call = "method = \"POST\", path = \"/groups/{group}/things\", id = ";
    let list = "id = [\"group\", \"member\"]";
    for (call, expected) in [
        (
            format!("{call}[\"{{group}}\"]"),
            "call.created.id must name all 2 parts of the kind's id",
        ),
        (
            format!("{call}[\"{{grop}}\", \"member\"]"),
            "call.created.id: no variable \"{grop}\" in its path; did you mean \"group\"?",
        ),
        (
            format!("{call}[\"{{group}}\", \"member\"]").replace("POST", "POTS"),
            "call.created.method: \"POTS\" is not one of DELETE, PUT, POST, PATCH; did you mean \"POST\"?",
        ),
    ] {
        let message = error_of(with_a_thing(
            &format!("{DELETE}\ncall.created = [{{ {call} }}]"),
            list,
        ));
        assert!(message.ends_with(expected), "{message}");
    }
}

#[test]
fn t14_kinds_with_a_natural_key_are_not_swept() {
    let kinds = gone::cloud::load_kinds(&[]).unwrap();
    let swept = |name: &str| kinds.resolve(name).unwrap().is_swept();
    for name in ["network", "port", "router", "image", "load_balancer"] {
        assert!(swept(name), "{name}");
    }
    for name in ["router_interface", "static_route", "image_member"] {
        assert!(!swept(name), "{name}");
    }
    let natural = kinds.iter().filter(|kind| kind.has_natural_key());
    for kind in natural {
        assert!(!kind.is_swept(), "{}", kind.name);
    }
}

#[test]
fn a_kind_has_either_a_delete_call_or_stays() {
    let both = format!("{DELETE}\nstays = \"it is an heirloom\"");
    for kind in ["", &both] {
        let message = error_of(with_a_thing(kind, ""));
        assert!(
            message.ends_with("kind \"thing\": needs either a delete call or \"stays\""),
            "{message}"
        );
    }
}

#[test]
fn i13_a_kind_with_a_delete_call_says_how_its_not_found_is_recognised() {
    let text = with_a_thing(DELETE, "").replace("call.not_found = [\"ThingNotFound\"]", "");
    let message = error_of(text);
    assert!(
        message.contains("needs \"call.not_found\" or \"call.not_found_says\""),
        "{message}"
    );
    let says = format!("{DELETE}\ncall.not_found_says = [\"no thing {{idd}}\"]");
    let message = error_of(with_a_thing(&says, ""));
    assert!(
        message.ends_with("call.not_found_says: no variable \"{idd}\"; did you mean \"id\"?"),
        "{message}"
    );
}

#[test]
fn a_kind_that_requires_a_version_names_it() {
    let requires = "call.requires_api_version = true";
    for version in [
        "",
        "call.api_version = \"thing\"",
        "call.api_version = \"thing 2.x\"",
    ] {
        let message = error_of(with_a_thing(
            &format!("{DELETE}\n{requires}\n{version}"),
            "",
        ));
        let expected = "\"call.requires_api_version\" requires \"call.api_version\", which ends with a version such as 2.81";
        assert!(message.ends_with(expected), "{message}");
    }
}

#[test]
fn a_call_uses_only_variables_that_its_kind_passes_from_listed_fields() {
    let delete = DELETE.replace("{id}", "{id}?group={group_id}");
    let message = error_of(with_a_thing(&delete, ""));
    assert!(message.contains("no variable \"{group_id}\""), "{message}");
    let message = error_of(with_a_thing(
        &format!("passes = [\"groupid\"]\n{delete}"),
        "fields = [\"id\", \"group_id\"]",
    ));
    assert!(
        message.contains("passes: \"groupid\" is not among list.fields"),
        "{message}"
    );
}

#[test]
fn a_kind_listed_within_its_parent_is_found_by_that_parent_only() {
    let list = "within = \"box_id\"\nid = [\"id\", \"box_id\"]";
    let message = error_of(with_a_thing(DELETE, list));
    assert!(
        message.ends_with("list.within: \"box_id\" must be the first field of list.id"),
        "{message}"
    );
    let list = "within = \"box_id\"\nid = [\"box_id\", \"id\"]\n[[kind.thing.reference]]\nto = \"network\"\nfield = \"network_id\"\nfind = { key = \"network_id\" }\non_delete = \"cascade\"\nsays = \"on\"";
    let message = error_of(with_a_thing(DELETE, list));
    assert!(
        message
            .ends_with("\"find.key\" must be \"box_id\", without which this kind cannot be listed"),
        "{message}"
    );
}

#[test]
fn the_field_of_settles_must_be_among_the_listed_fields() {
    let settles = format!(
        "{DELETE}\nsettles = {{ field = \"statu\", pending = [\"GOING\"], failed = [], minutes_warn = 1, warning = \"slow\", minutes_max = 1 }}"
    );
    let message = error_of(with_a_thing(&settles, "fields = [\"id\", \"status\"]"));
    assert!(
        message.ends_with(
            "settles.field: \"statu\" is not among list.fields; did you mean \"status\"?"
        ),
        "{message}"
    );
}

#[test]
fn unpinned_by_must_name_an_edge_that_is_detached_from_its_kind() {
    let with = |edge: &str| {
        let from = "unpinned_by = \"floating_ip_association\"";
        error_of_network(from, &format!("unpinned_by = \"{edge}\""))
    };
    let message = with("floating_ip_asociation");
    assert!(
        message.ends_with("did you mean \"floating_ip_association\"?"),
        "{message}"
    );
    for edge in ["subport", "port_forwarding", "network"] {
        let message = with(edge);
        assert!(
            message.contains(&format!(
                "reference.unpinned_by: \"{edge}\" is not an edge that is detached from a floating_ip"
            )),
            "{message}"
        );
    }
}

const BILLING: &str = r#"
service = "billing"
imports = ["inventory"]
[kind.invoice.native.fields]
network = {}
customer = { required = true }
[kind.customer.native]
[[kind.invoice.reference]]
to = "network"
field = "network"
on_delete = "unset"
says = "for"
[[kind.invoice.reference]]
to = "customer"
field = "customer"
on_delete = "cascade"
asynchronous = true
says = "of"
"#;

#[test]
fn g06_native_kinds_are_loaded_with_their_required_fields_and_imports() {
    let source = Source {
        file: "billing.toml".into(),
        text: BILLING.into(),
    };
    let kinds = gone::cloud::load_kinds(&[source]).unwrap();
    let native: Vec<_> = kinds.native_of("billing").collect();
    assert_eq!(native.len(), 2);
    let invoice = kinds.resolve("invoice").unwrap();
    assert!(invoice.is_native() && invoice.has_natural_key() && !invoice.is_swept());
    assert_eq!(invoice.id_filter(), Some("id"));
    let required = |nth: usize| invoice.spec.requires(&invoice.spec.references[nth]);
    assert_eq!((required(0), required(1)), (false, true));
    assert_eq!(invoice.imports, ["inventory"]);
    assert!(kinds.native_of("network").next().is_none());
}

#[test]
fn settings_that_conflict_with_native_are_refused() {
    let cases = [
        (
            "[kind.customer.native]",
            "[kind.customer]\nstays = \"x\"\n[kind.customer.native]",
            "billing.toml:7: kind \"customer\": \"stays\" cannot be combined with \"native\"",
        ),
        (
            "field = \"network\"",
            "field = \"netwrok\"",
            "\"netwrok\" is not among native.fields; did you mean \"network\"?",
        ),
        (
            "\"unset\"",
            "\"automatic\"",
            "on_delete is one of block, unset, cascade, dangling",
        ),
        (
            "\"cascade\"",
            "\"block\"",
            "\"asynchronous\" requires on_delete = \"cascade\" or \"unset\"",
        ),
        (
            "network = {}",
            "network = {}\nstatus = {}",
            "every native resource already has the field \"status\"",
        ),
    ];
    for (from, to, expected) in cases {
        assert!(BILLING.contains(from));
        let source = Source {
            file: "billing.toml".into(),
            text: BILLING.replacen(from, to, 1),
        };
        let message = gone::cloud::load_kinds(&[source]).unwrap_err().to_string();
        assert!(message.contains(expected), "{message}");
    }
    let message = error_of_network(
        "on_delete = \"block\"",
        "on_delete = \"block\"\nasynchronous = true",
    );
    assert!(
        message.contains("\"asynchronous\" requires \"native\""),
        "{message}"
    );
    let message = error_of(format!(
        "{}\n[kind.customer.native]\n",
        with_a_thing(
            DELETE,
            "[[kind.thing.reference]]\nto = \"customer\"\nfield = \"customer\"\non_delete = \"block\"\nsays = \"of\""
        )
    ));
    assert!(
        message.contains(
            "reference to \"customer\": that kind is native, so a cloud's kind cannot refer to it"
        ),
        "{message}"
    );
}

/// A kinds file that defines the built-in kind `subnet`, with one more line.
fn another_subnet(more: &str) -> String {
    format!(
        "service = \"network\"\ndefaults.call.prefix = \"/v2.0\"\n[kind.subnet]\n{more}\n[kind.subnet.call]\nnot_found = [\"Mine\"]\nlist = {{ path = \"/subnets\", items = \"subnets\", item = \"subnet\" }}\ndelete = {{ method = \"DELETE\", path = \"/subnets/{{id}}\" }}\n[kind.subnet.list]\nfields = [\"id\", \"cidr\", \"network_id\", \"segment_id\", \"subnetpool_id\", \"ipv6_address_mode\", \"ipv6_ra_mode\"]\n"
    )
}

#[test]
fn a_users_file_replaces_a_built_in_kind_only_with_override() {
    let message = error_of(another_subnet(""));
    assert!(
        message.starts_with(
            "mine.toml:3: kind \"subnet\": is already defined in kinds/openstack/network.toml:"
        ) && message.contains("write \"override = true\""),
        "{message}"
    );
    let message = error_of(
        another_subnet("override = true")
            .replace("subnet]", "subnett]")
            .replace("subnet.list", "subnett.list")
            .replace("subnet.call", "subnett.call"),
    );
    assert!(
        message.ends_with("override: no earlier file defines this kind; did you mean \"subnet\"?"),
        "{message}"
    );
}

#[test]
fn a_line_of_a_kinds_file_that_could_never_take_effect_is_an_error() {
    let reference = |lines: &str| {
        format!(
            "[[kind.thing.reference]]\nto = \"network\"\non_delete = \"block\"\nsays = \"on\"\n{lines}"
        )
    };
    let fields = "fields = [\"id\", \"name\", \"net_id\", \"state\", \"address\"]\n";
    let list = |more: &str| with_a_thing(DELETE, &format!("{fields}{more}"));
    let of_list = " is not among list.fields of \"thing\", so it would never be read";
    for (text, expected) in [
        (
            list(&reference(
                "match = [{ field = \"address\", in_cidr = \"id\" }]",
            )),
            "\"match\" needs at least one rule with \"equals\"".to_owned(),
        ),
        (
            list(&reference("field = \"nett_id\"")),
            format!("field: \"nett_id\"{of_list}; did you mean \"net_id\"?"),
        ),
        (
            list(&reference("field = \"net_id\"\nwhen = { stat = \"up\" }")),
            format!("when: \"stat\"{of_list}; did you mean \"state\"?"),
        ),
        (
            list(&reference("field = \"net_id\"\nwhen = { state = [] }")),
            "\"state\" has an empty list of values, and never matches".to_owned(),
        ),
        (
            list(&reference(
                "match = [{ field = \"net_id\", equals = \"nam\" }]",
            )),
            "match.equals: \"nam\" is not among list.fields of \"network\"".to_owned(),
        ),
        (
            list(&reference(
                "field = \"net_id\"\nfind = { key = \"net\", of = \"statuss\" }",
            )),
            "find.of: \"statuss\" is not among list.fields of \"network\"".to_owned(),
        ),
        (
            list("[[kind.thing.guard]]\nwhen = { sttate = \"kept\" }\nreason = \"it is kept\""),
            format!("guard.when: \"sttate\"{of_list}; did you mean \"state\"?"),
        ),
        (
            list(
                "[[kind.thing.guard]]\nwhen = { state = \"kept\" }\nreason = \"it is kept\"\nleft_in = \"project\"",
            ),
            "guard.left_in: this kind has no reference to \"project\"".to_owned(),
        ),
        (
            list(
                "[[kind.thing.guard]]\nwhen = { state = \"kept\" }\nreason = \"it is kept\"\nonly_left = true",
            ),
            "\"only_left\" and \"left_while\" require \"left_in\"".to_owned(),
        ),
        (
            list(&reference("field = \"net_id\"\nshown_by = \"prot\"")),
            "shown_by: \"prot\" has no reference to this kind".to_owned(),
        ),
        (
            list(&reference("field = \"net_id\"\nshown_by = \"trunk\"")),
            "shown_by: \"trunk\" has no reference to this kind".to_owned(),
        ),
        (
            with_a_thing(
                &format!(
                    "{DELETE}\ncall.answer = [{{ class = \"blocked\", status = 409 }}, {{ class = \"fatal\", status = 409, type = \"ThingKept\" }}]"
                ),
                "",
            ),
            "the rule for status 409, type ThingKept, text any is never read".to_owned(),
        ),
        (
            with_a_thing(&format!("{DELETE}\naliases = [\"net\"]"), ""),
            "aliases: \"net\" is already a name of the kind \"".to_owned(),
        ),
        (
            with_a_thing("stays = \"it is an heirloom\"\naction = \"detach\"", ""),
            "\"action\" requires \"delete\", which a kind with \"stays\" does not have".to_owned(),
        ),
        (
            with_a_thing(
                &format!("{DELETE}\nowner = \"ownr\""),
                "fields = [\"id\", \"owner\"]",
            ),
            format!("owner: \"ownr\"{of_list}; did you mean \"owner\"?"),
        ),
        (
            with_a_thing(&format!("{DELETE}\nnames = {{ net = [\"netwrok\"] }}"), ""),
            "names: unknown kind \"netwrok\"; did you mean \"network\"?".to_owned(),
        ),
    ] {
        let message = error_of(text);
        assert!(
            message.contains(&expected) && message.contains("kind \""),
            "{expected}\n{message}"
        );
    }
}

#[test]
fn a_kind_names_its_fields_for_project_state_and_references() {
    let kinds = gone::cloud::load_kinds(&[]).unwrap();
    for (kind, project, state, refers_to) in [
        (
            "network",
            "project_id",
            "status",
            &[("subnets[]", "subnet")][..],
        ),
        (
            "subnet",
            "project_id",
            "status",
            &[("network_id", "network")],
        ),
        ("port", "project_id", "status", &[("network_id", "network")]),
        (
            "router",
            "project_id",
            "status",
            &[("external_gateway_info.network_id", "network")],
        ),
        (
            "router_interface",
            "project_id",
            "status",
            &[("router_id", "router"), ("subnet_id", "subnet")],
        ),
        (
            "static_route",
            "project_id",
            "status",
            &[("router_id", "router")],
        ),
        (
            "segment",
            "project_id",
            "status",
            &[("network_id", "network")],
        ),
        ("volume", "os-vol-tenant-attr:tenant_id", "status", &[]),
        ("server", "tenant_id", "status", &[]),
        ("image", "owner", "status", &[]),
        ("load_balancer", "project_id", "provisioning_status", &[]),
    ] {
        let fields = kinds.fields_of(kinds.resolve(kind).unwrap());
        assert_eq!(fields.state.as_deref(), Some(state), "{kind}");
        // A derived kind has no list of its own; the kind that lists it has the project field.
        if let Some(known) = &fields.project {
            assert_eq!(known, project, "{kind}");
        }
        for (path, to) in refers_to {
            let found = fields.refers_to.get(*path).map(|to| to.as_str());
            assert_eq!(found, Some(*to), "{kind} {path}");
        }
        // Ports, servers and volumes are too many to list only to show a name.
        let few = ["network", "subnet", "router", "volume_group"];
        for to in fields.refers_to.values() {
            assert!(few.contains(&to.as_str()), "{kind} {to}");
        }
    }
}

#[test]
fn a_users_kind_names_its_project_field_and_the_kind_that_a_field_refers_to() {
    let text = "provider = \"openstack\"\nservice = \"network\"\n\
        [kind.tap]\ncolumns = [[\"ON\", \"where.lan\"]]\nshows = { \"where.lan\" = \"network\" }\n\
        list = { project = \"team\", created = \"made\" }\n\
        call = { list = { path = \"/taps\", items = \"taps\", item = \"tap\" }, not_found = [\"TapNotFound\"], delete = { method = \"DELETE\", path = \"/taps/{id}\" } }\n";
    let load = |text: &str| {
        gone::cloud::load_kinds(&[Source {
            file: "mine.toml".into(),
            text: text.to_owned(),
        }])
    };
    let kinds = load(text).unwrap();
    let fields = kinds.fields_of(kinds.resolve("tap").unwrap());
    assert_eq!(fields.project.as_deref(), Some("team"));
    assert_eq!(fields.created.as_deref(), Some("made"));
    assert_eq!(fields.refers_to["where.lan"].as_str(), "network");
    let wrong = error_of(text.replace("= \"network\" }", "= \"lan\" }"));
    assert!(wrong.contains("shows") && wrong.contains("lan"), "{wrong}");
}
