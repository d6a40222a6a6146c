//! What `/` takes: words that must all fit a row.
//!
//! | word | fits |
//! |---|---|
//! | `web` | a row with this text in it, in any case |
//! | `~wfe` | one with these letters in this order, `web-frontend` |
//! | `state=stuck` | by state, kind, site or project: this text is in it |
//! | `age>1h`, `age<7d` | what is so for longer, or shorter |
//! | `!word` | what the word does not fit |

use chrono::{DateTime, TimeDelta, Utc};

use super::{duration, text};

const FIELDS: [&str; 5] = ["state", "kind", "site", "project", "age"];

/// As it was typed, and what it means.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Filter {
    text: String,
    words: Vec<Word>,
    /// What ages are counted from.
    now: DateTime<Utc>,
}

#[derive(Clone, Debug, PartialEq)]
struct Word {
    test: Test,
    inverse: bool,
}

#[derive(Clone, Debug, PartialEq)]
enum Test {
    Contains(String),
    InOrder(Vec<char>),
    Field(&'static str, String),
    Older(TimeDelta),
    Younger(TimeDelta),
    /// Of an age that is not written to its end: fits all.
    Unfinished,
}

/// What a row says of itself. What it does not know is empty: a field is then looked for in its texts.
#[derive(Clone, Copy, Debug, Default)]
pub struct Facts<'a> {
    pub texts: &'a [&'a str],
    pub state: &'a str,
    pub kind: &'a str,
    pub site: &'a str,
    pub project: &'a str,
    pub since: Option<DateTime<Utc>>,
}

impl Filter {
    pub fn parse(text: &str) -> Self {
        Self {
            text: text.to_owned(),
            words: text.split_whitespace().map(|word| parsed(word).0).collect(),
            now: DateTime::UNIX_EPOCH,
        }
    }

    /// What in it cannot be meant, and what might be.
    pub fn complaint(&self) -> Option<String> {
        self.text.split_whitespace().find_map(|word| parsed(word).1)
    }

    pub fn is_empty(&self) -> bool {
        self.words.is_empty()
    }

    pub fn text(&self) -> &str {
        &self.text
    }

    pub fn at(&mut self, now: DateTime<Utc>) {
        self.now = now;
    }

    pub fn fits(&self, facts: &Facts<'_>) -> bool {
        let fits = |word: &Word| self.test(&word.test, facts) != word.inverse;
        self.words.iter().all(fits)
    }

    /// A row that has texts and nothing else.
    pub fn fits_texts(&self, texts: &[&str]) -> bool {
        self.fits(&Facts {
            texts,
            ..Facts::default()
        })
    }

    fn test(&self, test: &Test, facts: &Facts<'_>) -> bool {
        let any = |wanted: &dyn Fn(&str) -> bool| {
            let own = [facts.state, facts.kind, facts.site, facts.project];
            facts.texts.iter().copied().chain(own).any(wanted)
        };
        let age = facts.since.map(|since| self.now - since);
        match test {
            Test::Contains(wanted) => any(&|text| contains(text, wanted)),
            Test::InOrder(letters) => any(&|text| in_order(text, letters)),
            Test::Field(field, wanted) => {
                let own = match *field {
                    "state" => facts.state,
                    "kind" => facts.kind,
                    "site" => facts.site,
                    _ => facts.project,
                };
                match own {
                    "" => any(&|text| contains(text, wanted)),
                    own => contains(own, wanted),
                }
            }
            Test::Older(than) => age.is_some_and(|age| age > *than),
            Test::Younger(than) => age.is_some_and(|age| age < *than),
            Test::Unfinished => true,
        }
    }
}

/// `wanted` is in lower case.
fn contains(text: &str, wanted: &str) -> bool {
    if !text.is_ascii() {
        return text.to_lowercase().contains(wanted);
    }
    // Of a million names none needs a copy.
    let (text, wanted) = (text.as_bytes(), wanted.as_bytes());
    wanted.is_empty()
        || text
            .windows(wanted.len())
            .any(|window| window.eq_ignore_ascii_case(wanted))
}

fn in_order(text: &str, letters: &[char]) -> bool {
    let mut of_text = text.chars().flat_map(char::to_lowercase);
    letters.iter().all(|letter| of_text.any(|it| it == *letter))
}

/// A word, and what is wrong with it.
fn parsed(word: &str) -> (Word, Option<String>) {
    let (word, inverse) = match word.strip_prefix('!') {
        Some(rest) if !rest.is_empty() => (rest, true),
        _ => (word, false),
    };
    let (test, complaint) = test_of(word);
    // What is not known yet takes no row away, inverse or not.
    let inverse = inverse && test != Test::Unfinished;
    (Word { test, inverse }, complaint)
}

fn test_of(word: &str) -> (Test, Option<String>) {
    let plain = || Test::Contains(word.to_lowercase());
    if let Some(letters) = word.strip_prefix('~').filter(|it| !it.is_empty()) {
        let letters = letters.chars().flat_map(char::to_lowercase).collect();
        return (Test::InOrder(letters), None);
    }
    if let Some(at) = word.find(['>', '<'])
        && word.get(..at) == Some("age")
    {
        let (sign, age) = word.split_at(at + 1);
        let parsed = duration::parse(age).map(TimeDelta::from_std);
        return match parsed {
            Ok(Ok(duration)) if sign.ends_with('>') => (Test::Older(duration), None),
            Ok(Ok(duration)) => (Test::Younger(duration), None),
            Ok(Err(_)) => (Test::Unfinished, Some(format!("{word}: too long"))),
            Err(why) => (Test::Unfinished, Some(format!("{word}: {why}"))),
        };
    }
    let Some((field, wanted)) = word.split_once('=').filter(|(field, _)| !field.is_empty()) else {
        return (plain(), None);
    };
    match FIELDS.into_iter().find(|known| *known == field) {
        Some("age") => {
            let hint = format!("{word}: write age>{wanted} or age<{wanted}");
            (Test::Unfinished, Some(hint))
        }
        Some(field) => (Test::Field(field, wanted.to_lowercase()), None),
        None => {
            let near = text::did_you_mean(field, FIELDS);
            let hint = format!("there is no field \"{field}\"{near}; looked for as a text");
            (plain(), Some(hint))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fits(text: &str) -> bool {
        let now = DateTime::UNIX_EPOCH + TimeDelta::hours(10);
        let mut filter = Filter::parse(text);
        filter.at(now);
        filter.fits(&Facts {
            texts: &["web-Frontend", "4fdb1c2e"],
            state: "stuck",
            kind: "port",
            site: "prod/RegionOne",
            project: "",
            since: Some(now - TimeDelta::hours(2)),
        })
    }

    #[test]
    fn every_word_must_fit() {
        for (text, wanted) in [
            ("", true),
            ("WEB", true),
            ("web 4fdb", true),
            ("web db", true),
            ("web lab", false),
            ("!lab", true),
            ("!web", false),
            ("!", false),
            ("~wfe", true),
            ("~wef", true),
            ("~wff", false),
            ("!~wff", true),
            ("state=stuck", true),
            ("state=STU", true),
            ("state=blocked", false),
            ("!state=blocked kind=port", true),
            ("site=regionone", true),
            ("site=two", false),
            ("age>1h", true),
            ("age>3h", false),
            ("age<3h", true),
            ("age<1h", false),
            ("!age>3h", true),
            // What a row does not know is looked for in its texts.
            ("project=front", true),
            ("project=demo", false),
            // Not written to its end: nothing vanishes meanwhile.
            ("age>", true),
            ("!age>", true),
        ] {
            assert_eq!(fits(text), wanted, "{text:?}");
        }
    }

    #[test]
    fn what_cannot_be_meant_is_said_with_what_might_be() {
        let complaint = |text: &str| Filter::parse(text).complaint().unwrap_or_default();
        assert_eq!(complaint("web state=stuck age>1h"), "");
        let misspelt = complaint("stat=stuck");
        assert!(misspelt.contains("did you mean \"state\""), "{misspelt}");
        let unit = complaint("age>1");
        assert!(unit.contains("write a whole number and a unit"), "{unit}");
        assert_eq!(complaint("age=1h"), "age=1h: write age>1h or age<1h");
    }
}
