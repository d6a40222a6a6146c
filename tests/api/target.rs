//! How targets are parsed and printed.

use gone::control::{SiteSpec, TargetSpec};
use gone::domain::model::Site;
use proptest::prelude::*;

const CLOUDS: &[&str] = &["prod", "lab", "a/b", "x@y"];

fn parse(text: &str) -> (String, String, SiteSpec) {
    let spec = TargetSpec::parse(text, CLOUDS).unwrap();
    (spec.kind, spec.id_or_name, spec.site)
}

fn region(cloud: &str, region: &str) -> SiteSpec {
    SiteSpec::Region(Site::region(cloud, region))
}

#[test]
fn the_kind_ends_at_the_first_slash_and_the_site_starts_at_the_last_at() {
    let all = SiteSpec::All;
    let cloud = |name: &str| SiteSpec::Cloud(name.into());
    for (text, kind, id, site) in [
        ("network/web", "network", "web", all.clone()),
        ("network/web@prod", "network", "web", cloud("prod")),
        (
            "network/web@prod/RegionOne",
            "network",
            "web",
            region("prod", "RegionOne"),
        ),
        ("network/me@home", "network", "me@home", all.clone()),
        (
            "network/me@home@lab/R",
            "network",
            "me@home",
            region("lab", "R"),
        ),
        (
            "network/me@prod@home",
            "network",
            "me@prod@home",
            all.clone(),
        ),
        ("network/me%40prod", "network", "me@prod", all.clone()),
        ("network/a%2Fb%25", "network", "a/b%", all.clone()),
        ("network/w@a%2Fb/R", "network", "w", region("a/b", "R")),
        ("network/w@x%40y", "network", "w", cloud("x@y")),
        ("network/m%C3%BCll", "network", "müll", all.clone()),
        (
            "static_route/r,10.0.0.0/8,10.1.0.1@prod/RegionOne",
            "static_route",
            "r,10.0.0.0/8,10.1.0.1",
            region("prod", "RegionOne"),
        ),
        (
            "router_interface/r,s",
            "router_interface",
            "r,s",
            all.clone(),
        ),
    ] {
        assert_eq!(parse(text), (kind.into(), id.into(), site), "{text}");
    }
}

#[test]
fn an_invalid_target_is_refused_with_a_hint() {
    for (text, says) in [
        ("network", "write KIND/ID-or-NAME"),
        ("/web", "names no kind"),
        ("network/", "names no resource"),
        ("network/@prod", "names no resource"),
        ("network/w@prod/", "names no region"),
        ("network/100% pure", "%25"),
        ("network/a%2", "%25"),
        ("network/%FF", "not UTF-8"),
    ] {
        let error = TargetSpec::parse(text, CLOUDS).unwrap_err();
        assert!(error.contains(says), "{text}: {error}");
    }
}

#[test]
fn a_cloud_without_a_region_means_all_of_its_regions() {
    let spec = TargetSpec::parse("network/web@prod", CLOUDS).unwrap();
    assert!(spec.site.matches(&Site::region("prod", "One")));
    assert!(spec.site.matches(&Site::region("prod", "Two")));
    assert!(!spec.site.matches(&Site::region("lab", "One")));
    assert!(SiteSpec::All.matches(&Site::region("lab", "One")));
    assert!(!region("prod", "One").matches(&Site::region("prod", "Two")));
}

proptest! {
    #[test]
    fn a_printed_target_parses_as_the_same_target(
        kind in "[a-z%/@_]{1,8}",
        id in "\\PC{1,12}|[@/%,a\u{7f}\n]{1,8}",
        cloud in prop::sample::select(CLOUDS),
        regional in prop::option::of("[A-Za-z/@%]{1,6}"),
        sited: bool,
    ) {
        let site = match (sited, regional) {
            (false, _) => SiteSpec::All,
            (true, None) => SiteSpec::Cloud(cloud.into()),
            (true, Some(name)) => region(cloud, &name),
        };
        let spec = TargetSpec { kind, id_or_name: id, site };
        prop_assert_eq!(TargetSpec::parse(&spec.to_string(), CLOUDS), Ok(spec));
    }
}
