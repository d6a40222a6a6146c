//! Where `:` goes: panes and kinds by name, completed and forgiven.

use crate::control::KindInfo;
use crate::domain::text;

/// The panes that a word opens, and what they show.
pub(crate) const PANES: &[(&str, &str)] = &[
    ("deletions", "all deletions, with how far they are"),
    ("stuck", "what needs a person, and why it does not go"),
    (
        "causes",
        "what needs a person, by why: many are tried again at once",
    ),
    ("retrying", "blocked steps, with their next attempt"),
    ("orphans", "what was abandoned, and whether it still exists"),
    ("events", "what happened, and all messages of this console"),
    ("sites", "the regions, whether they answer and how fast"),
    (
        "gates",
        "what clients do through each gate, and what it refused",
    ),
    (
        "deployments",
        "other deployments: what is heard of them, and what waits for their clearance",
    ),
    ("tour", "what there is to try in the practice cloud"),
    ("help", "all keys"),
    ("quit", "leave the console"),
];

/// What a typed word means.
#[derive(Debug, PartialEq)]
pub(crate) enum Place {
    Pane(&'static str),
    Kind(KindInfo),
    /// What to say instead.
    Unknown(String),
}

pub(crate) fn place(word: &str, kinds: &[KindInfo]) -> Place {
    let word = word.trim();
    match word {
        "q" => return Place::Pane("quit"),
        "gc" => return Place::Pane("retrying"),
        _ => {}
    }
    if let Some((pane, _)) = PANES.iter().find(|(pane, _)| *pane == word) {
        return Place::Pane(pane);
    }
    let is_named = |kind: &&KindInfo| {
        let plural = format!("{}s", kind.name);
        kind.name.as_str() == word || plural == word || kind.aliases.iter().any(|a| a == word)
    };
    if let Some(kind) = kinds.iter().find(is_named) {
        return Place::Kind(kind.clone());
    }
    let near = text::did_you_mean(word, words(kinds));
    let hint = if kinds.is_empty() {
        "; the kinds are not known yet".to_owned()
    } else if near.is_empty() {
        "; ? lists them".to_owned()
    } else {
        near
    };
    Place::Unknown(format!("there is no pane or kind \"{word}\"{hint}"))
}

fn words(kinds: &[KindInfo]) -> impl Iterator<Item = &str> {
    let panes = PANES.iter().map(|(word, _)| *word);
    panes.chain(kinds.iter().flat_map(|kind| {
        let aliases = kind.aliases.iter().map(String::as_str);
        std::iter::once(kind.name.as_str()).chain(aliases)
    }))
}

/// Words that begin with what is typed; panes first.
pub(crate) fn completions<'a>(typed: &str, kinds: &'a [KindInfo]) -> Vec<&'a str> {
    let mut found: Vec<&str> = words(kinds)
        .filter(|word| word.starts_with(typed))
        .collect();
    let mut seen = std::collections::HashSet::new();
    found.retain(|word| seen.insert(*word));
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::model::KindName;

    fn kinds() -> Vec<KindInfo> {
        let kind = |name: &str, alias: &str| KindInfo {
            name: KindName::new(name),
            aliases: vec![alias.to_owned()],
            columns: Vec::new(),
            has_dependents: true,
        };
        vec![kind("network", "net"), kind("floating_ip", "fip")]
    }

    #[test]
    fn a_word_means_a_pane_a_kind_or_its_alias() {
        assert_eq!(place("stuck", &kinds()), Place::Pane("stuck"));
        assert_eq!(place("q", &kinds()), Place::Pane("quit"));
        for word in ["network", "networks", "net", " network "] {
            assert!(
                matches!(place(word, &kinds()), Place::Kind(k) if k.name.as_str() == "network")
            );
        }
    }

    #[test]
    fn an_unknown_word_is_answered_with_the_nearest() {
        let Place::Unknown(text) = place("netwrok", &kinds()) else {
            panic!("a known place");
        };
        assert_eq!(
            text,
            "there is no pane or kind \"netwrok\"; did you mean \"network\"?"
        );
    }

    #[test]
    fn completions_begin_with_what_is_typed() {
        assert_eq!(completions("s", &kinds()), ["stuck", "sites"]);
        assert_eq!(completions("f", &kinds()), ["floating_ip", "fip"]);
    }
}
