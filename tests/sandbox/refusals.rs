//! The refusals in the services' files, and those that the code names.
use std::fs;
use std::path::Path;

/// Names that the core refuses with, whatever the service.
const CORE: &str = "no_page no_method no_body no_bulk forbidden admin_only other_project taken unknown \
                    not_in_post not_in_put required invalid not_a_flag";

/// The code of a service.
fn code_of(folder: &str) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/sandbox");
    let files = fs::read_dir(root.join(folder)).unwrap();
    files
        .map(|file| fs::read_to_string(file.unwrap().path()).unwrap())
        .collect()
}

#[test]
fn a_service_refuses_with_what_its_file_has_and_with_all_of_it() {
    for (folder, file) in [
        ("neutron", "network"),
        ("octavia", "load-balancer"),
        ("glance", "image"),
        ("keystone", "identity"),
        ("nova", "compute"),
        ("cinder", "block-storage"),
    ] {
        let path = format!("{}/assets/sandbox/{file}.toml", env!("CARGO_MANIFEST_DIR"));
        let tables: toml::Table = fs::read_to_string(path).unwrap().parse().unwrap();
        let refusals = tables["refusals"].as_table().unwrap();
        for name in CORE.split_whitespace() {
            assert!(refusals.contains_key(name), "{file}: {name} is missing");
        }
        let code = code_of(folder);
        for (name, text) in refusals {
            let status = text.as_str().unwrap().split(' ').next().unwrap();
            assert!(status.parse::<u16>().is_ok_and(|it| it >= 400), "{name}");
            // The names of the core are in small letters.
            let is_own = name.starts_with(|letter: char| letter.is_uppercase());
            let is_used = code.contains(&format!("\"{name}\""));
            assert!(!is_own || is_used, "{file}: nothing uses {name}");
        }
        for call in code.split("refused(").skip(1) {
            let Some(rest) = call.trim_start().strip_prefix('"') else {
                continue;
            };
            let name = rest.split('"').next().unwrap();
            assert!(refusals.contains_key(name), "{file}: {name} is not there");
        }
    }
}
