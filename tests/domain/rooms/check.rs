//! The rules of the import table, and how a path is followed to its room.

use std::collections::{BTreeMap, BTreeSet};

use super::source::{Import, Source, Written};

/// What each room may import, by the room's name: `frontends/api`.
pub struct Table(pub BTreeMap<String, BTreeSet<String>>);

impl Table {
    /// Reads `| room | may import |` and the rows below it out of a crate's documentation.
    pub fn parse(text: &str) -> Self {
        let rows = text
            .lines()
            .map(|line| line.trim().trim_start_matches("//!").trim())
            .skip_while(|line| *line != "| room | may import |")
            .skip(2)
            .take_while(|line| line.starts_with('|'));
        let table: BTreeMap<_, _> = rows
            .map(|row| {
                let cells: Vec<&str> = row.trim_matches('|').split('|').map(str::trim).collect();
                let [room, imports] = cells[..] else {
                    panic!("a row of the import table has two cells: {row}");
                };
                let imports = imports
                    .split(',')
                    .map(plain)
                    .filter(|word| word != "nothing");
                (plain(room), imports.collect())
            })
            .collect();
        assert!(!table.is_empty(), "src/lib.rs has no import table");
        Self(table)
    }

    /// The room that a module or item is in: that of the row which names the longest part of it.
    fn room(&self, path: &[String], modules: &BTreeSet<Vec<String>>) -> Option<String> {
        let [first, rest @ ..] = path else {
            return Some("lib".to_owned());
        };
        let parts = format!("{first}/");
        if self.0.keys().any(|room| room.starts_with(&parts))
            && let [second, ..] = rest
            && modules.contains(&path[..2])
        {
            let room = format!("{first}/{second}");
            return self.0.contains_key(&room).then_some(room);
        }
        self.0.contains_key(first).then(|| first.clone())
    }

    fn allows(&self, room: &str, path: &[String]) -> bool {
        let within = |place: &String| {
            let place: Vec<&str> = place.split('/').collect();
            path.len() >= place.len() && place.iter().zip(path).all(|(part, name)| part == name)
        };
        let imports = &self.0[room];
        imports.contains("all") || imports.iter().any(within)
    }
}

fn plain(cell: &str) -> String {
    cell.trim().trim_matches('`').to_owned()
}

/// All of the crate's source, by the path below `src/`.
pub struct Crate {
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

    /// The written path from its root: `crate`, or the name of an outside crate.
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

    /// All places that a path leads through, the last outside of the crate if it leaves it.
    fn trace(&self, path: Vec<String>, seen: &mut BTreeSet<Vec<String>>) {
        if !seen.insert(path.clone()) || path[0] != "crate" {
            return;
        }
        let inner = &path[1..];
        for at in 0..inner.len() {
            let (module, name, rest) = (&inner[..at], &inner[at], &inner[at + 1..]);
            let child = self.modules.contains(&inner[..=at]);
            for import in self.imports_of(module) {
                let target = self.absolute(&import.written);
                // A module and a function may share a name: what is followed further is the module.
                if import.name == *name && (!child || rest.is_empty()) {
                    self.trace([&target, rest].concat(), seen);
                } else if import.name == "*" && import.public && !child {
                    self.trace([&target, &inner[at..]].concat(), seen);
                }
            }
        }
    }

    /// The same for all that a module shows, as `use module::*` takes it.
    fn trace_all(&self, module: &[String], seen: &mut BTreeSet<Vec<String>>) {
        for import in self.imports_of(&module[1..]).iter().filter(|it| it.public) {
            let target = self.absolute(&import.written);
            if import.name != "*" {
                self.trace(target, seen);
            } else if !seen.contains(&target) {
                self.trace(target.clone(), seen);
                self.trace_all(&target, seen);
            }
        }
    }

    /// Each `file:line: what is wrong` by the table.
    pub fn violations(&self, table: &Table) -> BTreeSet<String> {
        let mut wrong = BTreeSet::new();
        for (file, module, source) in &self.files {
            let Some(room) = table.room(module, &self.modules) else {
                wrong.insert(format!("src/{file}:1: the table has no row for this room"));
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
                        self.fault(table, &room, place, import)
                            .map(|fault| format!("{at}: {fault}")),
                    );
                }
            }
            if room == "domain" {
                let lines = source.asynchronous.iter();
                wrong.extend(lines.map(|line| format!("src/{file}:{line}: domain may not wait")));
            }
        }
        wrong
    }

    /// Files below these folders that import each other in a circle, each with one that it imports and that leads
    /// back to it. A module and those in its own folder belong together, so they do not count.
    pub fn circles(&self, folders: &[&str]) -> BTreeSet<String> {
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
        let mut circles = BTreeSet::new();
        for (from, targets) in &imports {
            for to in targets.iter().filter(|to| leads_to(&imports, to, from)) {
                circles.insert(format!(
                    "src/{}: imports src/{}, which leads back",
                    files[from], files[to]
                ));
            }
        }
        circles
    }

    /// What is wrong with one place that `room` names.
    fn fault(
        &self,
        table: &Table,
        room: &str,
        place: &[String],
        import: Option<&Import>,
    ) -> Option<String> {
        let shown = place.join("::");
        let [root, inner @ ..] = place else {
            return None;
        };
        if root != "crate" {
            let impure = room == "domain" && is_impure(&shown);
            return impure.then(|| format!("domain may not use {shown}"));
        }
        // What the crate's root re-exports is judged by where it leads.
        let root_import = |name: &String| self.imports_of(&[]).iter().any(|it| it.name == *name);
        if inner.first().is_some_and(root_import) && !self.modules.contains(&inner[..1]) {
            return None;
        }
        let Some(target) = table.room(inner, &self.modules) else {
            return Some(format!("the table has no row for the room of {shown}"));
        };
        if target == room {
            return None;
        }
        if !table.allows(room, inner) {
            return Some(format!("{room} may not import {shown}"));
        }
        let all_at_once = import.is_some_and(|import| import.public && import.name == "*");
        all_at_once.then(|| format!("{room} may not re-export all of {shown}"))
    }
}

/// Whether a file belongs to this room: it is below its folder, or the file of that name.
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
    let (mut open, mut seen) = (vec![from], BTreeSet::new());
    while let Some(at) = open.pop() {
        if at == to {
            return true;
        }
        if seen.insert(at) {
            open.extend(imports.get(at).into_iter().flatten());
        }
    }
    false
}

/// The module of a file below `src/`. The program's own root counts as a module `main`.
fn module_of(file: &str) -> Vec<String> {
    let path = file.trim_end_matches(".rs").trim_end_matches("/mod");
    if path == "lib" {
        return Vec::new();
    }
    path.split('/').map(str::to_owned).collect()
}

/// I/O, clocks and waiting. An address of `std::net` is only a value, so those are named one by one.
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
