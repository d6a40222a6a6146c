//! Checks the import table of `src/lib.rs` against the code in `src/`.
//!
//! 1. Each path and `use` is resolved to where it leads: `crate::`, `self::`, `super::`, `gone::`, a
//!    name that was imported, and on through re-exports, of which each hop counts.
//! 2. A room may name itself and what its row allows; an entry may be a part of a room.
//! 3. A folder with a row of its own for each part (`frontends`) has no parts without a row.
//! 4. All of another room may not be re-exported at once: nobody could see what passes.
//! 5. The room `domain` waits for nothing, does no I/O and reads no clock.
//! 6. Files of one room do not import each other in a circle.
mod check;
mod numbers;
mod planted;
mod source;

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use check::{Crate, Table};

fn rust_files(folder: &Path, files: &mut Vec<(String, String)>, root: &Path) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            rust_files(&path, files, root);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let name = path
                .strip_prefix(root)
                .unwrap()
                .to_str()
                .unwrap()
                .to_owned();
            files.push((name, fs::read_to_string(&path).unwrap()));
        }
    }
}

fn files_of(folder: &str) -> Vec<(String, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
    let mut files = Vec::new();
    rust_files(&root, &mut files, &root);
    files.sort();
    files
}

fn report(wrong: &BTreeSet<String>) -> String {
    wrong.iter().cloned().collect::<Vec<_>>().join("\n")
}

#[test]
fn each_room_imports_what_the_table_allows() {
    let files = files_of("src");
    let lib = files.iter().find(|(file, _)| file == "lib.rs").unwrap();
    let table = Table::parse(&lib.1);
    let all = Crate::read(&files);
    let wrong = all.violations(&table);
    assert!(wrong.is_empty(), "\n{}", report(&wrong));
    // A row for what is not there would be taken for a rule that holds.
    for room in table.0.keys().filter(|room| *room != "lib") {
        let module: Vec<String> = room.split('/').map(str::to_owned).collect();
        assert!(
            all.modules.contains(&module),
            "{room} has a row and no source"
        );
    }
}

/// The rooms whose files must not import each other in a circle.
const WITHOUT_CIRCLES: [&str; 11] = [
    "app",
    "cloud",
    "control",
    "domain",
    "engine",
    "frontends",
    "ledger",
    "peers",
    "present",
    "sandbox",
    "system",
];

#[test]
fn no_files_of_a_room_import_each_other_in_a_circle() {
    let all = Crate::read(&files_of("src"));
    let circles = all.circles(&WITHOUT_CIRCLES);
    assert!(circles.is_empty(), "\n{}", report(&circles));
}
