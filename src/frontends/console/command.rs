//! Finds the pane or the kind that a word after `:` names, or suggests the nearest word; and completes lines and
//! filters.

use std::collections::{BTreeMap, BTreeSet, HashSet};

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

/// Finds the pane or the kind that a word names, unless the word quits. As on the command line, case does not matter,
/// and a kind may be written in the plural, by an alias, and with `-` for `_`.
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
        "" => "; ? lists the panes and kinds",
        near => near,
    };
    let typed = typed.trim();
    Destination::Unknown(format!("there is no pane or kind \"{typed}\"{hint}"))
}

fn words<'k>(kinds: &'k [KindInfo]) -> impl Iterator<Item = &'k str> {
    let panes = NAMED_PANES.iter().map(|pane| pane.word);
    let of_kind = |kind: &'k KindInfo| {
        let aliases = kind.aliases.iter().map(String::as_str);
        [kind.name.as_str()].into_iter().chain(aliases)
    };
    let kinds = kinds.iter().flat_map(of_kind);
    panes.chain([QUIT]).chain(BEFORE_NAMES).chain(kinds)
}

/// The names from which the console completes words.
pub(crate) struct Known<'k> {
    pub(crate) kinds: &'k [KindInfo],
    pub(crate) sites: &'k [SiteStatus],
    /// The names of projects by id; empty until an answer has arrived.
    pub(crate) projects: &'k BTreeMap<String, String>,
    pub(crate) views: &'k BTreeMap<String, String>,
    /// The names of the columns of the pane on top that can be chosen.
    pub(crate) columns: Vec<String>,
}

/// Returns the lines that begin with the typed text. The first word is completed to one that has a meaning after `:`, a
/// later word to a name that may follow the words before it, and a filter by [`filter_completions`].
pub(crate) fn completions(typed: &str, known: &Known<'_>) -> Vec<String> {
    let typed = typed.trim_start();
    if let Some((words, filter)) = typed.split_once(" /") {
        let word = words.split_whitespace().next().unwrap_or_default();
        let kind = KindInfo::find(known.kinds, word).ok();
        let columns = kind.into_iter().flat_map(|kind| &kind.columns);
        let columns: Vec<String> = columns.map(|(name, _)| column_name(name)).collect();
        let found = filter_completions(filter, &columns).into_iter();
        return found.map(|filter| format!("{words} /{filter}")).collect();
    }
    let (before, last) = split_before_last_word(typed, &[' ']);
    let projects = || known.projects.values().cloned().collect();
    // The text between `before` and a name, and the names that may complete the last word.
    let (sign, names): (&str, Vec<String>) = match (before.trim(), last) {
        ("", _) => ("", words(known.kinds).map(str::to_owned).collect()),
        ("cloud", _) => ("", sorted(clouds(known.sites))),
        ("region", _) => ("", sorted(regions(known.sites))),
        ("project", _) => ("", projects()),
        ("view", _) => ("", known.views.keys().cloned().collect()),
        (COLUMNS, last) => {
            // The names before the last comma stay.
            let first = last.rfind(',').map_or("", |at| &last[..=at]);
            let names = known.columns.iter().cloned();
            (first, names.chain([DEFAULT.to_owned()]).collect())
        }
        (_, last) if last.starts_with('@') => ("@", site_names(known.sites).into_iter().collect()),
        (_, last) if last.starts_with("project=") => ("project=", projects()),
        _ => ("", Vec::new()),
    };
    let typed = typed.to_lowercase();
    let found = names
        .into_iter()
        .map(|name| format!("{before}{sign}{name}"));
    unique(found.filter(|line| line.to_lowercase().starts_with(&typed)))
}

/// Splits a text before its last word, which begins after the last of these characters.
fn split_before_last_word<'t>(typed: &'t str, signs: &[char]) -> (&'t str, &'t str) {
    typed.split_at(typed.rfind(signs).map_or(0, |at| at + 1))
}

/// Sorts names, and drops duplicates.
fn sorted<'n>(names: impl Iterator<Item = &'n str>) -> Vec<String> {
    let names: BTreeSet<&str> = names.collect();
    names.into_iter().map(str::to_owned).collect()
}

/// Drops duplicates; the first of equal lines stays.
fn unique(lines: impl Iterator<Item = String>) -> Vec<String> {
    let mut seen = HashSet::new();
    lines.filter(|line| seen.insert(line.clone())).collect()
}

/// Whether the name of a project is being typed. To complete it, the projects must be known.
pub(crate) fn names_project(typed: &str) -> bool {
    let last = typed.rsplit(' ').next().unwrap_or_default();
    typed.trim_start().starts_with("project ") || last.starts_with("project=")
}

/// The beginnings of filter words about the facts that rows have besides their texts and columns.
const FACTS: [&str; 6] = ["state=", "kind=", "site=", "project=", "age>", "age<"];

/// Returns the completions of a filter, in which its last word becomes one of [`FACTS`] or the name of a column.
/// Returns none before the first letter of that word is typed, because most filters are names of resources.
pub(crate) fn filter_completions(typed: &str, columns: &[String]) -> Vec<String> {
    let (before, last) = split_before_last_word(typed, &[' ', '!']);
    if last.is_empty() {
        return Vec::new();
    }
    let columns = columns.iter().map(|name| format!("{name}:"));
    let facts = FACTS.into_iter().map(str::to_owned);
    let found = facts.chain(columns).filter(|name| name.starts_with(last));
    unique(found.map(|name| format!("{before}{name}")))
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

    /// Words, and the meaning of each.
    #[rustfmt::skip]
    const WORDS: &[(&[&str], &str)] = &[
        (&["stuck", "Stuck"], "pane stuck"),
        (&["gc"], "pane retrying"),
        (&["q", "quit", "QUIT"], "quit"),
        (&["network", "networks", "net", " network ", "Network", "NET"], "kind network"),
        (&["Floating_IP", "floating-ip", "Floating-IPs", "FIP"], "kind floating_ip"),
        (&["netwrok"], "there is no pane or kind \"netwrok\"; did you mean \"network\"?"),
        (&["NETWROK"], "there is no pane or kind \"NETWROK\"; did you mean \"network\"?"),
    ];

    #[test]
    fn a_word_means_a_pane_a_kind_or_its_alias_regardless_of_case_hyphens_and_plural() {
        for (words, meaning) in WORDS {
            for word in *words {
                let found = match find_destination(word, &kinds()) {
                    Destination::Pane(pane) => format!("pane {}", pane.word),
                    Destination::Kind(kind) => format!("kind {}", kind.name),
                    Destination::Quit => "quit".to_owned(),
                    Destination::Unknown(text) => text,
                };
                assert_eq!(found, *meaning, "{word}");
            }
        }
    }

    /// Typed text, and its completions.
    #[rustfmt::skip]
    const COMPLETIONS: &[(&str, &[&str])] = &[
        ("s", &["stuck", "sites"]),
        ("f", &["floating_ip", "fip"]),
        ("F", &["floating_ip", "fip"]),
        ("cloud ", &["cloud lab", "cloud prod"]),
        ("region w", &["region west"]),
        ("project d", &["project demo"]),
        ("view ", &["view night"]),
        ("columns n", &["columns name"]),
        ("columns name,", &["columns name,name", "columns name,status", "columns name,default"]),
        ("network @pr", &["network @prod", "network @prod/east", "network @prod/west"]),
        ("network project=s", &["network project=shop"]),
        ("network /sta", &["network /state=", "network /status:"]),
        ("network /web !sta", &["network /web !state=", "network /web !status:"]),
        ("network w", &[]),
        ("network /", &[]),
    ];

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
        let sites = [("prod", "west"), ("prod", "east"), ("lab", "west")];
        let sites = sites.map(|(cloud, region)| site(cloud, region));
        let projects = ["demo", "shop"].map(|name| (format!("id-{name}"), name.to_owned()));
        let known = Known {
            kinds: &kinds,
            sites: &sites,
            projects: &projects.into(),
            views: &[("night".to_owned(), "stuck".to_owned())].into(),
            columns: vec!["name".to_owned(), "status".to_owned()],
        };
        for (typed, expected) in COMPLETIONS {
            assert_eq!(completions(typed, &known), *expected, "{typed}");
        }
    }
}
