//! The words after `:`: finds the pane or kind that a word names, completes words, and suggests the nearest.

use super::panes::{NAMED_PANES, NamedPane};
use crate::control::KindInfo;
use crate::domain::text;

const QUIT: &str = "quit";
/// Words that a name follows.
const BEFORE_NAMES: [&str; 3] = ["cloud", "region", "view"];

/// The meaning of a word typed after `:`.
pub(crate) enum Place {
    Pane(&'static NamedPane),
    Kind(KindInfo),
    Quit,
    /// No pane or kind has this name; the message to show.
    Unknown(String),
}

pub(crate) fn place(word: &str, kinds: &[KindInfo]) -> Place {
    let word = match word.trim() {
        "q" | QUIT => return Place::Quit,
        "gc" => "retrying",
        word => word,
    };
    if let Some(pane) = NAMED_PANES.iter().find(|pane| pane.word == word) {
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
    let hint = match near.as_str() {
        _ if kinds.is_empty() => "; the kinds are not known yet",
        "" => "; ? lists them",
        near => near,
    };
    Place::Unknown(format!("there is no pane or kind \"{word}\"{hint}"))
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

/// Returns the known words that begin with what is typed, panes first.
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
    use crate::domain::kinds::FieldMeanings;
    use crate::domain::model::KindName;

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
            assert!(matches!(place(word, &kinds()), Place::Pane(pane) if pane.word == meant));
        }
        for word in ["q", "quit"] {
            assert!(matches!(place(word, &kinds()), Place::Quit));
        }
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
