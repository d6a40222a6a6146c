//! Finds the pane or the kind that a word after `:` names, completes words, and suggests the nearest one.

use std::collections::{BTreeMap, HashSet};

use super::panes::kit::column_name;
use super::panes::{NAMED_PANES, NamedPane};
use super::scope::{clouds, regions, site_names};
use crate::control::{KindInfo, SiteStatus};
use crate::domain::text;

const QUIT: &str = "quit";
/// The word that chooses columns.
pub(crate) const COLUMNS: &str = "columns";
/// The word that drops a choice of columns.
pub(crate) const DEFAULT: &str = "default";
/// Words that are followed by a name.
const BEFORE_NAMES: [&str; 5] = ["cloud", "region", "project", "view", COLUMNS];

/// The meaning of a word typed after `:`.
pub(crate) enum Destination {
    Pane(&'static NamedPane),
    Kind(KindInfo),
    Quit,
    /// No pane or kind has this name; the message to show.
    Unknown(String),
}

/// Finds the pane or the kind that a word names. As on the command line, case does not matter, and a kind may be written with `-` for `_`.
pub(crate) fn find_destination(typed: &str, kinds: &[KindInfo]) -> Destination {
    let lower = typed.trim().to_lowercase();
    let word = match lower.as_str() {
        "q" | QUIT => return Destination::Quit,
        "gc" => "retrying",
        word => word,
    };
    if let Some(pane) = NAMED_PANES.iter().find(|pane| pane.word == word) {
        return Destination::Pane(pane);
    }
    if let Ok(kind) = KindInfo::find(kinds, word) {
        return Destination::Kind(kind.clone());
    }
    let near = text::did_you_mean(word, words(kinds));
    let hint = match near.as_str() {
        _ if kinds.is_empty() => "; the kinds are not known yet",
        "" => "; ? lists them",
        near => near,
    };
    let typed = typed.trim();
    Destination::Unknown(format!("there is no pane or kind \"{typed}\"{hint}"))
}

fn words(kinds: &[KindInfo]) -> impl Iterator<Item = &str> {
    let panes = NAMED_PANES.iter().map(|pane| pane.word);
    panes
        .chain([QUIT])
        .chain(BEFORE_NAMES)
        .chain(kinds.iter().flat_map(|kind| {
            let aliases = kind.aliases.iter().map(String::as_str);
            std::iter::once(kind.name.as_str()).chain(aliases)
        }))
}

/// The names from which the console completes words.
pub(crate) struct Known<'k> {
    pub(crate) kinds: &'k [KindInfo],
    pub(crate) sites: &'k [SiteStatus],
    /// The names of projects by id; empty until they are queried.
    pub(crate) projects: &'k BTreeMap<String, String>,
    pub(crate) views: &'k BTreeMap<String, String>,
    /// The names of the columns of the pane on top that can be chosen.
    pub(crate) columns: Vec<String>,
}

/// Returns the lines that begin with the typed text. The first word is completed to a pane or a kind, and each
/// later word to one of the names that may follow it.
pub(crate) fn completions(typed: &str, known: &Known<'_>) -> Vec<String> {
    let typed = typed.trim_start();
    if let Some((words, filter)) = typed.split_once(" /") {
        let word = words.split_whitespace().next().unwrap_or_default();
        let columns = match find_destination(word, known.kinds) {
            Destination::Kind(kind) => kind
                .columns
                .iter()
                .map(|(name, _)| column_name(name))
                .collect(),
            _ => Vec::new(),
        };
        let found = filter_completions(filter, &columns).into_iter();
        return found.map(|filter| format!("{words} /{filter}")).collect();
    }
    let (before, last) = match typed.rfind(' ') {
        Some(at) => typed.split_at(at + 1),
        None => ("", typed),
    };
    let named = |name: &str| format!("{before}{name}");
    let found: Vec<String> = match (before.trim(), last) {
        ("", _) => words(known.kinds).map(named).collect(),
        ("cloud", _) => clouds(known.sites).iter().map(|name| named(name)).collect(),
        ("region", _) => regions(known.sites)
            .iter()
            .map(|name| named(name))
            .collect(),
        ("project", _) => known.projects.values().map(|name| named(name)).collect(),
        ("view", _) => known.views.keys().map(|name| named(name)).collect(),
        (COLUMNS, last) => {
            // The names before the last comma stay.
            let first = last.rfind(',').map_or("", |at| &last[..=at]);
            let names = known.columns.iter().map(String::as_str).chain([DEFAULT]);
            names.map(|name| named(&format!("{first}{name}"))).collect()
        }
        (_, last) if last.starts_with('@') => {
            let names = site_names(known.sites).into_iter();
            names.map(|name| named(&format!("@{name}"))).collect()
        }
        (_, last) if last.starts_with("project=") => {
            let names = known.projects.values();
            names
                .map(|name| named(&format!("project={name}")))
                .collect()
        }
        _ => Vec::new(),
    };
    let mut seen = HashSet::new();
    let typed = typed.to_lowercase();
    let fits = |line: &String| line.to_lowercase().starts_with(&typed) && seen.insert(line.clone());
    found.into_iter().filter(fits).collect()
}

/// Whether the name of a project is being typed, for which the projects must be known.
pub(crate) fn names_project(typed: &str) -> bool {
    let last = typed.rsplit(' ').next().unwrap_or_default();
    typed.trim_start().starts_with("project ") || last.starts_with("project=")
}

/// The beginnings of filter words about facts that every row has.
const FACTS: [&str; 6] = ["state=", "kind=", "site=", "project=", "age>", "age<"];

/// Returns the completions of a filter, in which its last word becomes the name of a column or of a fact that every
/// row has. Returns none before the first letter of that word is typed, because most filters are names of resources.
pub(crate) fn filter_completions(typed: &str, columns: &[String]) -> Vec<String> {
    let (before, last) = match typed.rfind([' ', '!']) {
        Some(at) => typed.split_at(at + 1),
        None => ("", typed),
    };
    if last.is_empty() {
        return Vec::new();
    }
    let columns = columns.iter().map(|name| format!("{name}:"));
    let facts = FACTS.into_iter().map(str::to_owned);
    let mut seen = HashSet::new();
    let all = facts.chain(columns).filter(|name| name.starts_with(last));
    let all = all.filter(|name| seen.insert(name.clone()));
    all.map(|name| format!("{before}{name}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::SiteState;
    use crate::domain::kinds::FieldMeanings;
    use crate::domain::model::{KindName, Site};

    fn kinds() -> Vec<KindInfo> {
        let kind = |name: &str, alias: &str| KindInfo {
            name: KindName::new(name),
            aliases: vec![alias.to_owned()],
            columns: Vec::new(),
            fields: FieldMeanings::default(),
            has_dependents: true,
            is_counted: true,
        };
        vec![kind("network", "net"), kind("floating_ip", "fip")]
    }

    #[test]
    fn a_word_means_a_pane_a_kind_or_its_alias() {
        for (word, meant) in [("stuck", "stuck"), ("gc", "retrying")] {
            assert!(
                matches!(find_destination(word, &kinds()), Destination::Pane(pane) if pane.word == meant)
            );
        }
        for word in ["q", "quit"] {
            assert!(matches!(
                find_destination(word, &kinds()),
                Destination::Quit
            ));
        }
        for word in ["network", "networks", "net", " network ", "Network", "NET"] {
            assert!(
                matches!(find_destination(word, &kinds()), Destination::Kind(k) if k.name.as_str() == "network")
            );
        }
    }

    #[test]
    fn words_match_regardless_of_case_hyphens_and_plural() {
        for word in ["Floating_IP", "floating-ip", "Floating-IPs", "FIP"] {
            let found = find_destination(word, &kinds());
            assert!(
                matches!(found, Destination::Kind(kind) if kind.name.as_str() == "floating_ip")
            );
        }
        assert!(
            matches!(find_destination("Stuck", &kinds()), Destination::Pane(pane) if pane.word == "stuck")
        );
        assert!(matches!(
            find_destination("QUIT", &kinds()),
            Destination::Quit
        ));
    }

    #[test]
    fn an_unknown_word_gets_a_suggestion() {
        for typed in ["netwrok", "NETWROK"] {
            let Destination::Unknown(text) = find_destination(typed, &kinds()) else {
                panic!("{typed} is known");
            };
            assert_eq!(
                text,
                format!("there is no pane or kind \"{typed}\"; did you mean \"network\"?")
            );
        }
    }

    #[test]
    fn completions_begin_with_what_is_typed() {
        let site = |cloud: &str, region: &str| SiteStatus {
            site: Site::region(cloud, region),
            state: SiteState::Reachable,
            reason: String::new(),
            latency_ms: None,
            error_percent: None,
            in_flight: 0,
            concurrency_limit: 8,
            read_only: false,
            as_user: String::new(),
            reason_wanted: None,
            paused_by: None,
        };
        let mut kinds = kinds();
        kinds[0].columns = vec![("STATUS".to_owned(), "status".to_owned())];
        let sites = [
            site("prod", "west"),
            site("prod", "east"),
            site("lab", "west"),
        ];
        let names = |names: &[&str]| -> BTreeMap<String, String> {
            let pairs = names
                .iter()
                .map(|name| (format!("id-{name}"), (*name).to_owned()));
            pairs.collect()
        };
        let views = BTreeMap::from([("night".to_owned(), "stuck".to_owned())]);
        let known = Known {
            kinds: &kinds,
            sites: &sites,
            projects: &names(&["demo", "shop"]),
            views: &views,
            columns: vec!["name".to_owned(), "status".to_owned()],
        };
        let found = |typed: &str| completions(typed, &known);
        assert_eq!(found("s"), ["stuck", "sites"]);
        assert_eq!(found("f"), ["floating_ip", "fip"]);
        assert_eq!(found("F"), ["floating_ip", "fip"]);
        assert_eq!(found("cloud "), ["cloud lab", "cloud prod"]);
        assert_eq!(found("region w"), ["region west"]);
        assert_eq!(found("project d"), ["project demo"]);
        assert_eq!(found("view "), ["view night"]);
        assert_eq!(found("columns n"), ["columns name"]);
        let after = ["name", "status", "default"].map(|it| format!("columns name,{it}"));
        assert_eq!(found("columns name,"), after);
        assert_eq!(
            found("network @pr"),
            ["network @prod", "network @prod/east", "network @prod/west"]
        );
        assert_eq!(found("network project=s"), ["network project=shop"]);
        assert_eq!(
            found("network /sta"),
            ["network /state=", "network /status:"]
        );
        assert_eq!(
            found("network /web !sta"),
            ["network /web !state=", "network /web !status:"]
        );
        assert!(found("network w").is_empty());
        assert!(found("network /").is_empty());
    }
}
