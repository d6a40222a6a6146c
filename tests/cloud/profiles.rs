//! Profiles of vendors, whose values a cloud's own values override.
use gone::cloud::openstack::Interface;

use crate::config::{AUTH, ConfigFolder, in_cwd};

const VENDOR: &str = "public-clouds:
  acme:
    auth: {auth_url: 'https://keystone.acme.example/v3', user_domain_name: Acme, project_domain_name: Acme}
    regions: [East, {name: West, values: {interface: admin}}]
    interface: internal
  \"other\": {auth: {auth_url: 'https://other.example'}}
";
const OF_ACME: &str =
    "clouds: {c: {profile: acme, auth: {username: u, password: p, project_name: q}}}";

#[test]
fn the_values_of_a_cloud_override_those_of_its_profile() {
    let folder = in_cwd(OF_ACME).with("etc/clouds-public.yaml", VENDOR);
    let config = folder.load().unwrap();
    let cloud = config.cloud("c", None).unwrap();
    assert_eq!(cloud.auth_url.as_str(), "https://keystone.acme.example/v3");
    assert_eq!(
        (cloud.regions.len(), cloud.region.as_deref()),
        (2, Some("East"))
    );
    assert_eq!(cloud.interface, Interface::Internal);
    let west = config.cloud("c", Some("West")).unwrap();
    assert_eq!(west.interface, Interface::Admin);
    let files: Vec<String> = cloud.found_in.iter().map(ToString::to_string).collect();
    assert!(files[0].ends_with("cwd/clouds.yaml"), "{files:?}");
    assert!(files[1].ends_with("etc/clouds-public.yaml"), "{files:?}");

    // Each of the cloud's own values overrides one value of the profile, but the cloud's regions override all
    // regions of the profile. `cloud` is an older key for `profile`.
    let own = "clouds: {c: {cloud: acme, interface: public, regions: [North],
               auth: {auth_url: 'https://mine.example', username: u, password: p, project_name: q}}}";
    let folder = in_cwd(own).with("cwd/clouds-public.yaml", VENDOR);
    let cloud = folder.load().unwrap().cloud("c", None).unwrap();
    assert_eq!(cloud.auth_url.as_str(), "https://mine.example/v3");
    assert_eq!(
        (cloud.interface, cloud.regions),
        (Interface::Public, vec!["North".into()])
    );
}

#[test]
fn os_client_vendor_file_names_the_file_of_profiles() {
    let folder = in_cwd(OF_ACME)
        .with("cwd/clouds-public.yaml", "public-clouds: {}")
        .with("vendors.yaml", VENDOR)
        .set("OS_CLIENT_VENDOR_FILE", "../vendors.yaml");
    let cloud = folder.load().unwrap().cloud("c", None).unwrap();
    assert_eq!(cloud.auth_url.as_str(), "https://keystone.acme.example/v3");
    let folder = in_cwd(OF_ACME).set("OS_CLIENT_VENDOR_FILE", "/nowhere/v.yaml");
    assert_eq!(
        folder.cloud_error(),
        "OS_CLIENT_VENDOR_FILE names /nowhere/v.yaml, which does not exist"
    );
}

#[test]
fn a_missing_or_invalid_profile_is_an_error_of_its_cloud_only() {
    let what_to_do = "; write its auth_url, regions and other settings into the cloud";
    let error = |profile: &str, vendor: &str| {
        let clouds = format!(
            "clouds: {{c: {{profile: '{profile}', auth: {AUTH}}}, well: {{auth: {AUTH}}}}}"
        );
        let folder = in_cwd(&clouds).with("etc/clouds-public.yaml", vendor);
        let config = folder.load().unwrap();
        config.cloud("well", None).unwrap();
        folder.error_text(&config.cloud("c", None).unwrap_err())
    };
    assert_eq!(
        error("acne", VENDOR),
        format!(
            "cwd/clouds.yaml: cloud \"c\": profile \"acne\" is not in etc/clouds-public.yaml; did you mean \
             \"acme\"?{what_to_do}"
        )
    );
    assert_eq!(
        error("https://acme.example/profile.json", VENDOR),
        format!(
            "cwd/clouds.yaml: cloud \"c\": profile \"https://acme.example/profile.json\" is a URL, and profiles \
             are not fetched{what_to_do}"
        )
    );
    assert_eq!(
        error("acme", "public-clouds: {acme: {auth: [geheim]}}"),
        "etc/clouds-public.yaml: line 1: public-clouds.acme.auth must be a mapping, such as {auth_url: …, \
         username: …}"
    );
    assert_eq!(
        error("acme", "public-clouds: {acme: {auth: 'geheim"),
        "etc/clouds-public.yaml: not valid YAML at line 1, column 30; values that begin with one of * & ! % @ ` \
         or that hold \": \" or \" #\" need quotes"
    );
}

/// A file of profiles contains no password, so there is no warning about its permissions. A cloud without a profile
/// does not need the file.
#[test]
fn a_file_of_profiles_is_read_only_when_needed_and_causes_no_warning() {
    let folder: ConfigFolder = in_cwd(&format!("clouds: {{c: {{auth: {AUTH}}}}}"))
        .set("OS_CLIENT_VENDOR_FILE", "/nowhere/v.yaml");
    folder.load().unwrap().cloud("c", None).unwrap();
    let folder = in_cwd(OF_ACME).with("etc/clouds-public.yaml", VENDOR);
    let of_vendor = |warning: &String| warning.contains("clouds-public");
    let config = folder.load().unwrap();
    let warnings: Vec<String> = config.warnings().iter().map(ToString::to_string).collect();
    assert!(!warnings.iter().any(of_vendor), "{warnings:?}");
}
