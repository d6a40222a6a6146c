//! The refusals in the files of the services (`assets/sandbox`), compared with those that the code names.
use std::fs;
use std::path::Path;

/// Names of the refusals that the core needs from every service.
const CORE: &str = "no_page no_method no_body no_bulk forbidden admin_only other_project taken unknown \
                    not_in_post not_in_put required invalid not_a_flag";

/// The source text of a service.
fn code_of(folder: &str) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/sandbox");
    let files = fs::read_dir(root.join(folder)).unwrap();
    files
        .map(|file| fs::read_to_string(file.unwrap().path()).unwrap())
        .collect()
}

#[test]
fn a_service_uses_every_refusal_of_its_file_and_no_other() {
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
            // Names in small letters are the core's; the other names are the service's own.
            let is_own = name.starts_with(|letter: char| letter.is_uppercase());
            let is_used = code.contains(&format!("\"{name}\""));
            assert!(
                !is_own || is_used,
                "{file}: no code uses the refusal {name}"
            );
        }
        for call in code.split("refused(").skip(1) {
            let Some(rest) = call.trim_start().strip_prefix('"') else {
                continue;
            };
            let name = rest.split('"').next().unwrap();
            assert!(
                refusals.contains_key(name),
                "{file}: the code uses {name}, which the file does not define"
            );
        }
    }
}
