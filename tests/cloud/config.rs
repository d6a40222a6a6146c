//! The configuration of clouds: which file is read, how values are merged, and how mistakes are reported.
use std::os::unix::fs::PermissionsExt;

use gone::cloud::openstack::config::{Credentials, DomainRef, Scope, UserRef};
use gone::cloud::openstack::{CloudsConfig, ConfigError, Environment, Interface, Warning};
use tempfile::TempDir;

use crate::support::{PASSWORD, environment, write};

pub(crate) const AUTH: &str = "{auth_url: 'http://h/identity', username: u, password: pw, \
                    project_name: p, default_domain: default}";

/// An environment whose configuration files are in one folder.
pub(crate) struct ConfigFolder {
    folder: TempDir,
    environment: Environment,
}

impl ConfigFolder {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let environment = environment(folder.path());
        Self {
            folder,
            environment,
        }
    }

    pub(crate) fn with(self, name: &str, text: &str) -> Self {
        write(&self.folder.path().join(name), text);
        self
    }

    pub(crate) fn set(mut self, name: &str, value: &str) -> Self {
        self.environment.variables.insert(name.into(), value.into());
        self
    }

    pub(crate) fn load(&self) -> Result<CloudsConfig, ConfigError> {
        CloudsConfig::load(&self.environment)
    }

    /// Returns an error's text without the path of the folder.
    pub(crate) fn error_text(&self, error: &ConfigError) -> String {
        let folder = format!("{}/", self.folder.path().display());
        error.to_string().replace(&folder, "")
    }

    fn load_error(&self) -> String {
        self.error_text(&self.load().unwrap_err())
    }

    pub(crate) fn cloud_error(&self) -> String {
        let config = self.load().unwrap();
        self.error_text(&config.cloud("c", None).unwrap_err())
    }
}

pub(crate) fn in_cwd(text: &str) -> ConfigFolder {
    ConfigFolder::new().with("cwd/clouds.yaml", text)
}

fn named(name: &str) -> String {
    format!("clouds: {{{name}: {{auth: {AUTH}}}}}")
}

fn names(folder: &ConfigFolder) -> Vec<String> {
    folder.load().unwrap().clouds().map(|c| c.name).collect()
}

#[test]
fn only_the_first_clouds_file_in_the_search_order_is_read() {
    let mut folder = ConfigFolder::new();
    assert_eq!(names(&folder), [""; 0]);
    folder = folder.with("etc/clouds.yaml", &named("system"));
    assert_eq!(names(&folder), ["system"]);
    folder = folder.with("home/.config/openstack/clouds.yml", &named("home-yml"));
    assert_eq!(names(&folder), ["home-yml"]);
    folder = folder.with("home/.config/openstack/clouds.yaml", &named("home"));
    assert_eq!(names(&folder), ["home"]);
    folder = folder.with("cwd/clouds.json", r#"{"clouds": {"json": {}}}"#);
    assert_eq!(names(&folder), ["json"]);
    folder = folder.with("cwd/clouds.yaml", &named("cwd"));
    assert_eq!(names(&folder), ["cwd"]);
    folder = folder
        .with("named.yaml", &named("named"))
        .set("OS_CLIENT_CONFIG_FILE", "../named.yaml");
    assert_eq!(names(&folder), ["named"]);
    let file = folder.folder.path().join("cwd/../named.yaml");
    assert_eq!(folder.load().unwrap().files(), [file]);
}

#[test]
fn a_named_file_that_is_missing_is_an_error() {
    let folder = in_cwd(&named("c")).set("OS_CLIENT_CONFIG_FILE", "/nowhere/c.yaml");
    assert_eq!(
        folder.load_error(),
        "OS_CLIENT_CONFIG_FILE names /nowhere/c.yaml, which does not exist"
    );
}

#[test]
fn secure_yaml_overrides_single_values_of_clouds_yaml() {
    let folder = in_cwd(&format!("clouds: {{c: {{region_name: R, auth: {AUTH}}}}}"))
        .with("etc/secure.yaml", "clouds: {c: {auth: {password: better}}}");
    let config = folder.load().unwrap();
    let cloud = config.cloud("c", None).unwrap();
    assert_eq!(cloud.region.as_deref(), Some("R"));
    assert_eq!(cloud.found_in.len(), 2);
    assert!(password_is(&cloud.credentials, "better"));
    let folder = folder
        .with("s.yaml", "clouds: {c: {auth: {password: best}}}")
        .set("OS_CLIENT_SECURE_FILE", "../s.yaml");
    let cloud = folder.load().unwrap().cloud("c", None).unwrap();
    assert!(password_is(&cloud.credentials, "best"));
}

fn password_is(credentials: &Credentials, expected: &str) -> bool {
    use secrecy::ExposeSecret as _;
    matches!(credentials, Credentials::Password { password, .. } if password.expose_secret() == expected)
}

#[test]
fn anchors_and_merge_keys_work() {
    let folder = in_cwd(
        "x-common: &common {region_name: R1, interface: internal}\n\
         clouds:\n  \
           a: &a\n    <<: *common\n    auth: &auth\n      auth_url: https://h:5000\n      \
             username: admin\n      password: 0123\n      project_id: 1e10\n      \
             user_domain_name: D\n  \
           b:\n    <<: *a\n    region_name: R2\n    auth:\n      <<: *auth\n      username: demo\n",
    );
    let config = folder.load().unwrap();
    let cloud = config.cloud("b", None).unwrap();
    assert_eq!(cloud.region.as_deref(), Some("R2"));
    assert_eq!(cloud.interface, Interface::Internal);
    assert_eq!(cloud.auth_url.as_str(), "https://h:5000/v3");
    let Credentials::Password { user, .. } = &cloud.credentials else {
        panic!("{cloud:?}");
    };
    let domain = DomainRef::Name("D".into());
    assert_eq!(
        *user,
        UserRef::Name {
            name: "demo".into(),
            domain
        }
    );
    // Numbers without quotes are read as text, exactly as written.
    assert!(password_is(&cloud.credentials, "0123"));
    assert_eq!(cloud.scope, Scope::ProjectId("1e10".into()));
}

#[test]
fn os_variables_define_a_cloud_and_os_cloud_chooses_one() {
    let folder = in_cwd(&named("file"))
        .set("OS_AUTH_URL", "http://h/v3")
        .set("OS_USER_ID", "1")
        .set("OS_PASSWORD", PASSWORD)
        .set("OS_PROJECT_ID", "2")
        .set("OS_REGION_NAME", "R9")
        .set("OS_IDENTITY_API_VERSION", "3");
    let config = folder.load().unwrap();
    assert_eq!(names(&folder), ["envvars", "file"]);
    assert_eq!(config.default_cloud(), Some("envvars"));
    let cloud = config.cloud("envvars", None).unwrap();
    assert_eq!(cloud.region.as_deref(), Some("R9"));
    assert_eq!(config.cloud("file", None).unwrap().region, None);

    let folder = folder.set("OS_CLOUD", "file");
    assert_eq!(folder.load().unwrap().default_cloud(), Some("file"));
    let folder = folder.set("OS_CLOUD_NAME", "file");
    assert_eq!(
        folder.load_error(),
        "cwd/clouds.yaml: cloud \"file\" has the same name as the cloud of the OS_* variables; rename it, \
         or set OS_CLOUD_NAME"
    );
    assert_eq!(
        in_cwd(&named("only")).load().unwrap().default_cloud(),
        Some("only")
    );
    assert!(!format!("{:?}", folder.environment).contains(PASSWORD));
}

#[test]
fn a_region_is_a_name_or_a_name_with_values() {
    let folder = in_cwd(&format!(
        "clouds: {{c: {{regions: [R1, {{name: R2, values: {{interface: admin, \
         network_endpoint_override: 'http://n/x', project_name: other}}}}], auth: {AUTH}}}}}"
    ));
    let config = folder.load().unwrap();
    let regions = config.clouds().next().unwrap().regions;
    assert_eq!(regions, ["R1", "R2"]);
    let first = config.cloud("c", None).unwrap();
    assert_eq!(
        (first.region.as_deref(), first.interface),
        (Some("R1"), Interface::Public)
    );
    let second = config.cloud("c", Some("R2")).unwrap();
    assert_eq!(second.interface, Interface::Admin);
    assert_eq!(second.endpoint_overrides["network"].as_str(), "http://n/x");
    let domain = DomainRef::Id("default".into());
    assert_eq!(
        second.scope,
        Scope::ProjectName {
            name: "other".into(),
            domain
        }
    );
    assert_eq!(
        folder.error_text(&config.cloud("c", Some("r2")).unwrap_err()),
        "cwd/clouds.yaml: cloud \"c\" has no region \"r2\"; did you mean \"R2\"?; its regions are R1, R2"
    );
}

#[test]
fn a_region_name_that_is_not_the_first_region_is_a_warning() {
    let folder = in_cwd(&format!(
        "clouds: {{c: {{regions: [R1, R2], region_name: R2, auth: {AUTH}}}}}"
    ));
    let config = folder.load().unwrap();
    assert_eq!(
        config.cloud("c", None).unwrap().region.as_deref(),
        Some("R2")
    );
    assert!(
        matches!(config.warnings(), [.., Warning::RegionNotFirst { first, .. }] if first == "R1")
    );
}

#[test]
fn every_login_method_is_read() {
    let cloud = |text: &str| {
        let folder = in_cwd(&format!("clouds: {{c: {text}}}"));
        folder.load().unwrap().cloud("c", None).unwrap()
    };
    let by_id = cloud(
        "{auth_type: v3applicationcredential, auth: {auth_url: 'http://h', \
         application_credential_id: i, application_credential_secret: s, project_name: ignored}}",
    );
    assert!(matches!(
        by_id.credentials,
        Credentials::ApplicationCredentialId { .. }
    ));
    assert_eq!(by_id.scope, Scope::Unscoped);
    let by_name = cloud(
        "{auth: {auth_url: 'http://h', application_credential_name: n, user_id: u, \
         application_credential_secret: s}}",
    );
    assert!(matches!(
        by_name.credentials,
        Credentials::ApplicationCredentialName { .. }
    ));
    let token =
        cloud("{auth_type: v3token, auth: {auth_url: 'http://h', token: t, system_scope: all}}");
    assert!(matches!(token.credentials, Credentials::Token(_)));
    assert_eq!(token.scope, Scope::System);
    let old = cloud(
        "{endpoint_type: internalURL, insecure: yes, auth: {auth-url: 'http://h/v2.0/', \
         username: u, password: p, tenant_name: t, domain_id: d}}",
    );
    assert_eq!(old.auth_url.as_str(), "http://h/v3");
    assert_eq!(
        (old.interface, old.tls.verify),
        (Interface::Internal, false)
    );
    let domain = DomainRef::Id("d".into());
    assert_eq!(
        old.scope,
        Scope::ProjectName {
            name: "t".into(),
            domain
        }
    );
    let home = cloud(&format!("{{cacert: ~/ca.pem, verify: true, auth: {AUTH}}}"));
    assert!(home.tls.cacert.unwrap().ends_with("home/ca.pem"));
}

#[test]
fn an_invalid_field_is_reported_with_file_cloud_field_and_nearest_valid_value() {
    let error_of = |text: &str| in_cwd(&format!("clouds: {{c: {text}}}")).cloud_error();
    assert_eq!(
        error_of(&format!("{{interface: pubic, auth: {AUTH}}}")),
        "cwd/clouds.yaml: cloud \"c\": interface: \"pubic\" is not one of public, internal, admin; \
         did you mean \"public\"?"
    );
    assert_eq!(
        error_of(&format!("{{auth_type: v3pasword, auth: {AUTH}}}")),
        "cwd/clouds.yaml: cloud \"c\": auth_type: \"v3pasword\" is not supported; it may be \
         password, v3password, v3applicationcredential, token, v3token; did you mean \"v3password\"?"
    );
    assert_eq!(
        error_of(&format!("{{verify: flase, auth: {AUTH}}}")),
        "cwd/clouds.yaml: cloud \"c\": verify: \"flase\" is neither true nor false; did you mean \"false\"?"
    );
    assert_eq!(
        error_of("{auth: {auth_url: 'http://h', username: u, pasword: geheim, user_domain_id: d}}"),
        "cwd/clouds.yaml: cloud \"c\": auth.password is missing; there is an unknown key \"pasword\""
    );
    assert_eq!(
        error_of("{auth: {auth_url: 'http://h', username: u, password: p}}"),
        "cwd/clouds.yaml: cloud \"c\": auth.user_domain_id is missing"
    );
    assert_eq!(
        error_of("{auth: {auth_url: 'http://u:geheim@h', user_id: u, password: p}}"),
        "cwd/clouds.yaml: cloud \"c\": auth.auth_url: must be an http:// or https:// URL without \
         a user or password"
    );
    assert_eq!(
        error_of(&format!("{{profile: vexxhost, auth: {AUTH}}}")),
        "cwd/clouds.yaml: cloud \"c\": profile \"vexxhost\" is in no file (searched: \
         cwd/clouds-public.yaml, cwd/clouds-public.yml, cwd/clouds-public.json, \
         home/.config/openstack/clouds-public.yaml, home/.config/openstack/clouds-public.yml, \
         home/.config/openstack/clouds-public.json, etc/clouds-public.yaml, \
         etc/clouds-public.yml, etc/clouds-public.json); write its auth_url, regions and other \
         settings into the cloud"
    );
}

#[test]
fn an_unknown_cloud_is_reported_with_the_known_clouds() {
    let folder = in_cwd(&named("testbed"));
    let error = folder.load().unwrap().cloud("tesbed", None).unwrap_err();
    assert_eq!(
        error.to_string(),
        "no cloud \"tesbed\"; did you mean \"testbed\"?; configured clouds: testbed"
    );
    let error = ConfigFolder::new()
        .load()
        .unwrap()
        .cloud("x", None)
        .unwrap_err();
    let message = error.to_string();
    assert!(
        message.starts_with("no cloud \"x\"; no clouds are configured (searched: "),
        "{message}"
    );
    assert!(
        message.contains("cwd/clouds.yaml") && message.contains("etc/clouds.yaml"),
        "{message}"
    );
}

#[test]
fn a_malformed_file_is_reported_without_its_text() {
    for (text, expected) in [
        (
            "clouds:\n  c:\n    auth: geheim\n",
            "cwd/clouds.yaml: line 3: clouds.c.auth must be a mapping, such as {auth_url: …, username: …}",
        ),
        (
            "clouds:\n  c: geheim\n",
            "cwd/clouds.yaml: line 2: clouds.c must be a mapping of settings",
        ),
        (
            "clouds: [geheim]\n",
            "cwd/clouds.yaml: line 1: clouds must be a mapping of cloud names",
        ),
        (
            "geheim\n",
            "cwd/clouds.yaml: line 1: the file must be a mapping with the key \"clouds\"",
        ),
        (
            "clouds:\n  c:\n    auth:\n      password: [geheim]\n",
            "cwd/clouds.yaml: line 4: clouds.c.auth.password must be a single value",
        ),
        (
            "clouds:\n  c:\n    regions: [{nme: geheim}]\n",
            "cwd/clouds.yaml: line 3: clouds.c.regions[0] must be a list of names, or of {name, values}",
        ),
    ] {
        let folder = in_cwd(text);
        let message = match folder.load() {
            Err(error) => folder.error_text(&error),
            Ok(_) => folder.cloud_error(),
        };
        assert_eq!(message, expected);
    }
    for text in [
        "clouds:\n  c:\n    auth:\n      password: *geheim\n",
        "clouds:\n  c:\n    auth:\n      password: @geheim\n",
        "clouds:\n  c:\n    auth:\n      password: \"geheim\n",
        "clouds:\n  c:\n    auth:\n      password: ge: heim\n",
    ] {
        let message = in_cwd(text).load_error();
        assert!(
            message.contains("clouds.yaml: not valid YAML at line "),
            "{message}"
        );
        assert!(
            !message.contains("geheim") && !message.contains("heim\n"),
            "{message}"
        );
    }
}

#[test]
fn a_file_that_others_may_read_is_a_warning() {
    let folder = in_cwd(&named("c"));
    let path = folder.environment.current_dir.join("clouds.yaml");
    let set = |mode| std::fs::set_permissions(&path, PermissionsExt::from_mode(mode)).unwrap();
    set(0o640);
    let config = folder.load().unwrap();
    let expected = Warning::ReadableByOthers {
        path: path.clone(),
        mode: 0o640,
    };
    assert_eq!(config.warnings(), [expected]);
    let p = path.display();
    assert_eq!(
        config.warnings()[0].to_string(),
        format!("{p} may be read by others (mode 640): chmod 600 {p}")
    );
    set(0o600);
    assert_eq!(folder.load().unwrap().warnings(), []);
}

#[test]
fn a_misspelled_key_is_a_warning_and_keys_of_other_clients_are_not() {
    let folder = in_cwd(&format!(
        "clouds: {{c: {{regoin_name: R, volume_api_version: 3, floating_ip_source: neutron, \
         networks: [{{name: x}}], auth: {AUTH}}}}}"
    ));
    let config = folder.load().unwrap();
    let misspelled: Vec<_> = config
        .warnings()
        .iter()
        .filter_map(|warning| match warning {
            Warning::UnknownField { field, nearest, .. } => Some((&**field, &**nearest)),
            _ => None,
        })
        .collect();
    assert_eq!(misspelled, [("regoin_name", "region_name")]);
}

#[test]
fn a_mistake_in_one_cloud_does_not_affect_the_others() {
    for (mistake, expected) in [
        ("auth: geheim", "clouds.c.auth must be a mapping"),
        (
            "auth: {password: [geheim]}",
            "clouds.c.auth.password must be a single value",
        ),
        (
            "regions: geheim",
            "clouds.c.regions must be a list of names",
        ),
        (
            "regions: [{nme: geheim}]",
            "clouds.c.regions[0] must be a list of names",
        ),
        (
            "auth: {auth_url: 'http://h', username: u, password: !vault geheim}",
            "has a tag",
        ),
        (
            "interface: {geheim: 1}",
            "clouds.c.interface must be a single value",
        ),
    ] {
        let folder = in_cwd(&format!(
            "clouds:\n  a: {{auth: {AUTH}}}\n  c:\n    {mistake}\n  z.1: {{auth: {AUTH}}}\n"
        ));
        let config = folder.load().unwrap();
        assert_eq!(names(&folder), ["a", "c", "z.1"], "{mistake}");
        config.cloud("a", None).unwrap();
        config.cloud("z.1", None).unwrap();
        let message = folder.cloud_error();
        assert!(
            message.starts_with("cwd/clouds.yaml: line 4: clouds.c") && message.contains(expected),
            "{message}"
        );
        assert!(!message.contains("geheim"), "{message}");
        let warned = config.warnings().iter().any(
            |warning| matches!(warning, Warning::Broken { error } if error.contains(expected)),
        );
        assert!(warned, "{mistake}");
    }
}

#[test]
fn a_yaml_tag_is_refused_and_never_part_of_a_password() {
    let folder = in_cwd(&format!(
        "clouds:\n  c: {{auth: {{auth_url: 'http://h', user_id: u, password: !secret pw}}}}\n  \
         d: {{auth: {{auth_url: 'http://h', user_id: u, password: '!secret pw'}}}}\n  e: {{auth: {AUTH}}}\n"
    ));
    assert_eq!(
        folder.cloud_error(),
        "cwd/clouds.yaml: line 2: clouds.c.auth has a tag (!…), and tags are not read; \
         write the value itself, in quotes if it begins with !"
    );
    let quoted = folder.load().unwrap().cloud("d", None).unwrap();
    assert!(password_is(&quoted.credentials, "!secret pw"));
}

#[test]
fn interface_is_one_or_a_list_and_verify_may_be_a_path() {
    let folder = in_cwd(&format!(
        "clouds: {{c: {{interface: [internal, public], verify: /etc/ca.pem, auth: {AUTH}}}}}"
    ));
    let cloud = folder.load().unwrap().cloud("c", None).unwrap();
    assert_eq!(cloud.interface, Interface::Internal);
    assert_eq!(cloud.fallback_interfaces, [Interface::Public]);
    assert!(cloud.tls.verify);
    assert_eq!(cloud.tls.cacert.as_deref(), Some("/etc/ca.pem".as_ref()));
}

#[test]
fn an_unsupported_auth_type_is_reported_with_an_alternative() {
    for kind in [
        "v3oidcpassword",
        "v3totp",
        "v2password",
        "v3kerberos",
        "v3multifactor",
    ] {
        let folder = in_cwd(&format!(
            "clouds: {{c: {{auth_type: {kind}, auth: {AUTH}}}}}"
        ));
        let message = folder.cloud_error();
        assert!(
            message.contains(&format!("{kind:?} is not supported"))
                && message.contains("create an application credential"),
            "{message}"
        );
    }
}

#[test]
fn variables_choose_region_and_project_in_the_cloud_that_os_cloud_names() {
    let text = format!(
        "clouds: {{c: {{regions: [R1, R2], auth: {AUTH}}}, d: {{auth: {{auth_url: 'http://h', \
         user_id: u, password: pw, project_id: files}}}}}}"
    );
    let variables = |cloud: &str| {
        in_cwd(&text)
            .set("OS_REGION_NAME", "R2")
            .set("OS_PROJECT_NAME", "other")
            .set("OS_PROJECT_DOMAIN_ID", "pd")
            .set("OS_CLOUD", cloud)
    };
    let config = variables("c").load().unwrap();
    let c = config.cloud("c", None).unwrap();
    let domain = DomainRef::Id("pd".into());
    let other = Scope::ProjectName {
        name: "other".into(),
        domain,
    };
    assert_eq!((c.region.as_deref(), c.scope), (Some("R2"), other));
    let d = config.cloud("d", None).unwrap();
    assert_eq!(
        d.region, None,
        "the variables changed a cloud that OS_CLOUD does not name"
    );

    // The project id of the file takes precedence over the name in the variable, as in openstackclient, and there is a
    // warning.
    let config = variables("d").load().unwrap();
    let d = config.cloud("d", None).unwrap();
    assert_eq!(d.scope, Scope::ProjectId("files".into()));
    assert_eq!(
        config.warnings().last().unwrap().to_string(),
        "OS_PROJECT_NAME is ignored: the project_id of cloud \"d\" takes precedence, as in \
         openstackclient"
    );

    // An unknown region is refused, as in openstackclient.
    let folder = in_cwd(&text)
        .set("OS_REGION_NAME", "R3")
        .set("OS_CLOUD", "c");
    assert!(folder.cloud_error().contains("has no region \"R3\""));

    let config = in_cwd(&text).set("OS_REGION_NAME", "R2").load().unwrap();
    assert_eq!(
        config.warnings().last().unwrap().to_string(),
        "OS_CLOUD is not set, so gone ignores OS_REGION_NAME; set OS_CLOUD to the cloud that these \
         variables are for"
    );
}
