//! Checks the import table of `src/lib.rs` against the code in `src/`.
//!
//! 1. Each path and `use` is resolved: `crate::`, `self::`, `super::`, `gone::`, imported names, and re-exports. Each
//!    step of a re-export is checked.
//! 2. A module with a row may name itself and what its row allows. An entry may be a submodule.
//! 3. If one submodule has a row (as in `frontends`), each submodule there must have one.
//! 4. A module may not re-export all of another row's module with `*`, which would hide what is re-exported.
//! 5. The module `domain` has no asynchronous code, does no I/O and reads no clock.
//! 6. Files of one row's module do not import each other in a cycle.
mod check;
mod planted;
mod rule_numbers;
mod source;

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use check::{Crate, Table};

/// Adds the Rust files below a folder, each with its path below `root` and its text.
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

/// Returns the path and the text of each Rust file below a folder of the project.
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
fn each_module_imports_only_what_the_table_allows() {
    let files = files_of("src");
    let lib = files.iter().find(|(file, _)| file == "lib.rs").unwrap();
    let table = Table::parse(&lib.1);
    let all = Crate::read(&files);
    let wrong = all.violations(&table);
    assert!(wrong.is_empty(), "\n{}", report(&wrong));
    // A row without a module would look like a rule that is checked.
    for row in table.0.keys().filter(|row| *row != "lib") {
        let module: Vec<String> = row.split('/').map(str::to_owned).collect();
        assert!(
            all.modules.contains(&module),
            "the row {row} has no module in src"
        );
    }
}

/// The modules whose files must not import each other in a cycle.
const WITHOUT_CYCLES: [&str; 11] = [
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
fn no_files_of_a_module_import_each_other_in_a_cycle() {
    let all = Crate::read(&files_of("src"));
    let cycles = all.cycles(&WITHOUT_CYCLES);
    assert!(cycles.is_empty(), "\n{}", report(&cycles));
}
