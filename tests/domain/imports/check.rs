//! The rules of the import table, and how a path is resolved to the row of its module.

use std::collections::{BTreeMap, BTreeSet};

use super::source::{Import, Source, Written};

/// The allowed imports of each row. A row has the name of its module, such as `frontends/api`.
pub struct Table(pub BTreeMap<String, BTreeSet<String>>);

impl Table {
    /// Reads the table with the heading `| module | may import |` from a crate's documentation.
    pub fn parse(text: &str) -> Self {
        let rows = text
            .lines()
            .map(|line| line.trim().trim_start_matches("//!").trim())
            .skip_while(|line| *line != "| module | may import |")
            .skip(2)
            .take_while(|line| line.starts_with('|'));
        let table: BTreeMap<_, _> = rows
            .map(|row| {
                let cells: Vec<&str> = row.trim_matches('|').split('|').map(str::trim).collect();
                let [module, imports] = cells[..] else {
                    panic!("a row of the import table has two cells: {row}");
                };
                let imports = imports
                    .split(',')
                    .map(plain)
                    .filter(|word| word != "nothing");
                (plain(module), imports.collect())
            })
            .collect();
        assert!(!table.is_empty(), "src/lib.rs has no import table");
        Self(table)
    }

    /// Returns the row of a module or item: the one that names the longest part of its path; none if it has no row.
    fn row_of(&self, path: &[String], modules: &BTreeSet<Vec<String>>) -> Option<String> {
        let [first, rest @ ..] = path else {
            return Some("lib".to_owned());
        };
        let parts = format!("{first}/");
        if self.0.keys().any(|row| row.starts_with(&parts))
            && let [second, ..] = rest
            && modules.contains(&path[..2])
        {
            let row = format!("{first}/{second}");
            return self.0.contains_key(&row).then_some(row);
        }
        self.0.contains_key(first).then(|| first.clone())
    }

    fn allows(&self, row: &str, path: &[String]) -> bool {
        let within = |entry: &String| {
            let entry: Vec<&str> = entry.split('/').collect();
            path.len() >= entry.len() && entry.iter().zip(path).all(|(part, name)| part == name)
        };
        let imports = &self.0[row];
        imports.contains("all") || imports.iter().any(within)
    }
}

fn plain(cell: &str) -> String {
    cell.trim().trim_matches('`').to_owned()
}

/// The source of the crate.
pub struct Crate {
    /// The path below `src/`, the module and the content of each file.
    files: Vec<(String, Vec<String>, Source)>,
    pub modules: BTreeSet<Vec<String>>,
    imports: BTreeMap<Vec<String>, Vec<Import>>,
}

impl Crate {
    pub fn read(texts: &[(String, String)]) -> Self {
        let mut all = Self {
            files: Vec::new(),
            modules: BTreeSet::from([Vec::new()]),
            imports: BTreeMap::new(),
        };
        for (file, text) in texts {
            let module = module_of(file);
            let source = Source::read(&module, text);
            all.modules.insert(module.clone());
            all.modules.extend(source.modules.iter().cloned());
            for import in &source.imports {
                let module = import.written.module.clone();
                all.imports.entry(module).or_default().push(import.clone());
            }
            all.files.push((file.clone(), module, source));
        }
        all
    }

    fn imports_of(&self, module: &[String]) -> &[Import] {
        self.imports.get(module).map_or(&[], Vec::as_slice)
    }

    /// Returns a written path from its root: `crate`, or the name of an external crate.
    fn absolute(&self, written: &Written) -> Vec<String> {
        let mut module = written.module.clone();
        let mut path = written.path.as_slice();
        let mut relative = false;
        while let [first, rest @ ..] = path {
            match first.as_str() {
                "self" => {}
                "super" => {
                    module.pop();
                }
                _ => break,
            }
            (relative, path) = (true, rest);
        }
        let root = || vec!["crate".to_owned()];
        match path {
            _ if relative => [root(), module, path.to_vec()].concat(),
            [first, rest @ ..] if first == "crate" => [root(), rest.to_vec()].concat(),
            [global, first, rest @ ..] if global.is_empty() && first == "gone" => {
                [root(), rest.to_vec()].concat()
            }
            [global, rest @ ..] if global.is_empty() => rest.to_vec(),
            [first, rest @ ..] => {
                let child = [module.clone(), vec![first.clone()]].concat();
                let imported = self
                    .imports_of(&module)
                    .iter()
                    .any(|import| import.name == *first && import.written.path[0] != *first);
                if self.modules.contains(&child) || imported {
                    [root(), child, rest.to_vec()].concat()
                } else if first == "gone" {
                    [root(), rest.to_vec()].concat()
                } else {
                    path.to_vec()
                }
            }
            [] => root(),
        }
    }

    /// Collects all paths that a path is resolved through. The last one is outside of the crate if the path leaves it.
    fn trace(&self, path: Vec<String>, visited: &mut BTreeSet<Vec<String>>) {
        if !visited.insert(path.clone()) || path[0] != "crate" {
            return;
        }
        let inner = &path[1..];
        for at in 0..inner.len() {
            let (module, name, rest) = (&inner[..at], &inner[at], &inner[at + 1..]);
            let child = self.modules.contains(&inner[..=at]);
            for import in self.imports_of(module) {
                let target = self.absolute(&import.written);
                // A module and a function may share a name; a longer path continues in the module.
                if import.name == *name && (!child || rest.is_empty()) {
                    self.trace([&target, rest].concat(), visited);
                } else if import.name == "*" && import.public && !child {
                    self.trace([&target, &inner[at..]].concat(), visited);
                }
            }
        }
    }

    /// Traces all public imports of a module, as for `use module::*`.
    fn trace_all(&self, module: &[String], visited: &mut BTreeSet<Vec<String>>) {
        for import in self.imports_of(&module[1..]).iter().filter(|it| it.public) {
            let target = self.absolute(&import.written);
            if import.name != "*" {
                self.trace(target, visited);
            } else if !visited.contains(&target) {
                self.trace(target.clone(), visited);
                self.trace_all(&target, visited);
            }
        }
    }

    /// Returns each violation of the table, and of the stricter rules for `domain` and for re-exports, as `file:line:
    /// message`.
    pub fn violations(&self, table: &Table) -> BTreeSet<String> {
        let mut wrong = BTreeSet::new();
        for (file, module, source) in &self.files {
            let Some(row) = table.row_of(module, &self.modules) else {
                wrong.insert(format!(
                    "src/{file}:1: the table has no row for this module"
                ));
                continue;
            };
            let imports = source.imports.iter();
            let named = imports.map(|import| (&import.written, Some(import)));
            for (written, import) in named.chain(source.paths.iter().map(|path| (path, None))) {
                let mut places = BTreeSet::new();
                let path = self.absolute(written);
                self.trace(path.clone(), &mut places);
                if import.is_some_and(|import| import.name == "*") && path[0] == "crate" {
                    self.trace_all(&path, &mut places);
                }
                let at = format!("src/{file}:{}", written.line);
                for place in &places {
                    wrong.extend(
                        self.violation(table, &row, place, import)
                            .map(|message| format!("{at}: {message}")),
                    );
                }
            }
            if row == "domain" {
                let lines = source.asynchronous.iter();
                wrong.extend(
                    lines.map(|line| format!("src/{file}:{line}: domain may not be asynchronous")),
                );
            }
        }
        wrong
    }

    /// Returns the files below these folders that import each other in a cycle, each with an imported file that leads
    /// back to it. A module and the files in its own folder count as one.
    pub fn cycles(&self, folders: &[&str]) -> BTreeSet<String> {
        let files: BTreeMap<&[String], &str> = (self.files.iter())
            .filter(|(file, ..)| folders.iter().any(|folder| is_below(file, folder)))
            .map(|(file, module, _)| (module.as_slice(), file.as_str()))
            .collect();
        let mut imports: BTreeMap<&[String], BTreeSet<&[String]>> = BTreeMap::new();
        for (_, module, source) in &self.files {
            let Some((from, _)) = files.get_key_value(module.as_slice()) else {
                continue;
            };
            let named = source.imports.iter().map(|import| &import.written);
            let mut places = BTreeSet::new();
            for written in named.chain(&source.paths) {
                self.trace(self.absolute(written), &mut places);
            }
            let targets = imports.entry(from).or_default();
            for place in places.iter().filter(|place| place[0] == "crate") {
                let inner = &place[1..];
                let file = (0..=inner.len())
                    .rev()
                    .find_map(|end| files.get_key_value(&inner[..end]));
                let Some((to, _)) = file else { continue };
                if !from.starts_with(to) && !to.starts_with(from) {
                    targets.insert(to);
                }
            }
        }
        let mut cycles = BTreeSet::new();
        for (from, targets) in &imports {
            for to in targets.iter().filter(|to| leads_to(&imports, to, from)) {
                cycles.insert(format!(
                    "src/{}: imports src/{}, which leads back",
                    files[from], files[to]
                ));
            }
        }
        cycles
    }

    /// Returns why a module with this row may not name this path; none if it may.
    fn violation(
        &self,
        table: &Table,
        row: &str,
        place: &[String],
        import: Option<&Import>,
    ) -> Option<String> {
        let shown = place.join("::");
        let [root, inner @ ..] = place else {
            return None;
        };
        if root != "crate" {
            let impure = row == "domain" && is_impure(&shown);
            return impure.then(|| format!("domain may not use {shown}"));
        }
        // A re-export of the crate's root is checked by the path that it leads to.
        let root_import = |name: &String| self.imports_of(&[]).iter().any(|it| it.name == *name);
        if inner.first().is_some_and(root_import) && !self.modules.contains(&inner[..1]) {
            return None;
        }
        let Some(target) = table.row_of(inner, &self.modules) else {
            return Some(format!("the table has no row for the module of {shown}"));
        };
        if target == row {
            return None;
        }
        if !table.allows(row, inner) {
            return Some(format!("{row} may not import {shown}"));
        }
        let all_at_once = import.is_some_and(|import| import.public && import.name == "*");
        all_at_once.then(|| format!("{row} may not re-export all of {shown}"))
    }
}

/// Whether a file belongs to this top-level module: it is in the folder or is the file of that name.
fn is_below(file: &str, folder: &str) -> bool {
    let rest = file.strip_prefix(folder);
    rest.is_some_and(|rest| rest.starts_with('/') || rest == ".rs")
}

/// Whether imports lead from one file to another.
fn leads_to(
    imports: &BTreeMap<&[String], BTreeSet<&[String]>>,
    from: &[String],
    to: &[String],
) -> bool {
    let (mut open, mut visited) = (vec![from], BTreeSet::new());
    while let Some(at) = open.pop() {
        if at == to {
            return true;
        }
        if visited.insert(at) {
            open.extend(imports.get(at).into_iter().flatten());
        }
    }
    false
}

/// Returns the module of a file below `src/`. The root of the program counts as the module `main`.
fn module_of(file: &str) -> Vec<String> {
    let path = file.trim_end_matches(".rs").trim_end_matches("/mod");
    if path == "lib" {
        return Vec::new();
    }
    path.split('/').map(str::to_owned).collect()
}

/// Whether a path leads to I/O, clocks or asynchronous code. The items of `std::net` are listed one by one, because an
/// address is only a value.
fn is_impure(path: &str) -> bool {
    const IMPURE: [&str; 28] = [
        "async_trait",
        "chrono::Local",
        "chrono::Utc::now",
        "fastrand",
        "futures_util",
        "hyper",
        "reqwest",
        "rusqlite",
        "rustix",
        "std::env",
        "std::fs",
        "std::future",
        "std::io",
        "std::net::TcpListener",
        "std::net::TcpStream",
        "std::net::ToSocketAddrs",
        "std::net::UdpSocket",
        "std::os",
        "std::process",
        "std::sync::mpsc",
        "std::thread",
        "std::time::Instant",
        "std::time::SystemTime",
        "tokio",
        "tokio_stream",
        "tokio_util",
        "tracing",
        "uuid::Uuid::now_v7",
    ];
    let below = |rest: &str| rest.is_empty() || rest.starts_with("::");
    IMPURE
        .iter()
        .any(|impure| path.strip_prefix(impure).is_some_and(below))
        || path == "uuid::Uuid::new_v4"
}
