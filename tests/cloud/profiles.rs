//! A vendor's profile below a cloud's own values.
use gone::cloud::openstack::Interface;

use crate::config::{AUTH, Place, in_cwd};

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
fn a_cloud_is_laid_over_its_profile() {
    let place = in_cwd(OF_ACME).with("etc/clouds-public.yaml", VENDOR);
    let config = place.load().unwrap();
    let cloud = config.cloud("c", None).unwrap();
    assert_eq!(cloud.auth_url.as_str(), "https://keystone.acme.example/v3");
    assert_eq!(
        (cloud.regions.len(), cloud.region.as_deref()),
        (2, Some("East"))
    );
    assert_eq!(cloud.interface, Interface::Internal);
    let west = config.cloud("c", Some("West")).unwrap();
    assert_eq!(west.interface, Interface::Admin);
    let places: Vec<String> = cloud.found_in.iter().map(ToString::to_string).collect();
    assert!(places[0].ends_with("cwd/clouds.yaml"), "{places:?}");
    assert!(places[1].ends_with("etc/clouds-public.yaml"), "{places:?}");

    // The cloud's own values win, one by one; its regions as a whole. `cloud` is the old word.
    let own = "clouds: {c: {cloud: acme, interface: public, regions: [North],
               auth: {auth_url: 'https://mine.example', username: u, password: p, project_name: q}}}";
    let place = in_cwd(own).with("cwd/clouds-public.yaml", VENDOR);
    let cloud = place.load().unwrap().cloud("c", None).unwrap();
    assert_eq!(cloud.auth_url.as_str(), "https://mine.example/v3");
    assert_eq!(
        (cloud.interface, cloud.regions),
        (Interface::Public, vec!["North".into()])
    );
}

#[test]
fn the_variable_names_the_file_of_profiles() {
    let place = in_cwd(OF_ACME)
        .with("cwd/clouds-public.yaml", "public-clouds: {}")
        .with("vendors.yaml", VENDOR)
        .set("OS_CLIENT_VENDOR_FILE", "../vendors.yaml");
    let cloud = place.load().unwrap().cloud("c", None).unwrap();
    assert_eq!(cloud.auth_url.as_str(), "https://keystone.acme.example/v3");
    let place = in_cwd(OF_ACME).set("OS_CLIENT_VENDOR_FILE", "/nowhere/v.yaml");
    let told = place.cloud_error();
    assert_eq!(
        told,
        "OS_CLIENT_VENDOR_FILE names /nowhere/v.yaml, which does not exist"
    );
}

#[test]
fn a_profile_that_cannot_be_had_is_an_error_of_its_cloud_alone() {
    let what_to_do = "; write its auth_url, regions and other settings into the cloud";
    let error = |profile: &str, vendor: &str| {
        let clouds = format!(
            "clouds: {{c: {{profile: '{profile}', auth: {AUTH}}}, well: {{auth: {AUTH}}}}}"
        );
        let place = in_cwd(&clouds).with("etc/clouds-public.yaml", vendor);
        let config = place.load().unwrap();
        config.cloud("well", None).unwrap();
        place.told(&config.cloud("c", None).unwrap_err())
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

/// It holds no password, and is nothing to clouds that name no profile.
#[test]
fn a_file_of_profiles_is_read_for_who_names_one() {
    let place: Place = in_cwd(&format!("clouds: {{c: {{auth: {AUTH}}}}}"))
        .set("OS_CLIENT_VENDOR_FILE", "/nowhere/v.yaml");
    place.load().unwrap().cloud("c", None).unwrap();
    let place = in_cwd(OF_ACME).with("etc/clouds-public.yaml", VENDOR);
    let of_vendor = |warning: &String| warning.contains("clouds-public");
    let config = place.load().unwrap();
    let warnings: Vec<String> = config.warnings().iter().map(ToString::to_string).collect();
    assert!(!warnings.iter().any(of_vendor), "{warnings:?}");
}
