//! The search of `/`: words that must all match a row.
//!
//! | word | matches |
//! |---|---|
//! | `web` | a row that contains this text, in any case |
//! | `~wfe` | a row that has these letters in this order, such as `web-frontend` |
//! | `~^web-[0-9]+$` | a row that fits this regular expression; `~` begins one if any of `^$.*+?()[]{}\|` follows |
//! | `name:web` | a row whose column of that name contains this text; the caller says which columns there are |
//! | `state=stuck` | a row whose state (or kind, site, project) contains this text; `state=stuck,blocked`: one of these texts; `state:stuck` means the same as `state=stuck` |
//! | `site==prod/west,prod/east` | a row whose site (or state, kind, project) is exactly one of these texts, in any letter case, or a row without that field; the texts are percent-encoded |
//! | `age>1h`, `age<7d` | a row that is older, or younger, than this |
//! | `!word` | a row that the word does not match |

use std::collections::BTreeMap;

use chrono::{DateTime, TimeDelta, Utc};
use percent_encoding::{AsciiSet, CONTROLS, percent_decode_str, utf8_percent_encode};

use regex::{Regex, RegexBuilder};

use super::{duration, text};

const FIELDS: [&str; 5] = ["state", "kind", "site", "project", "age"];

/// A search: the text as a person typed it, and its meaning.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SearchQuery {
    text: String,
    /// The text with the ids of the projects that it names, for a server that knows no project names.
    resolved_text: String,
    words: Vec<Word>,
    /// The time from which ages are measured.
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
    Fits(Pattern),
    /// The column contains one of the texts. [`SearchQuery::fits_columns`] tests this.
    Column(String, Vec<String>),
    Field(&'static str, Vec<String>),
    /// A line of the field is one of the texts, or the row does not have the field.
    Exactly(&'static str, Vec<String>),
    Older(TimeDelta),
    Younger(TimeDelta),
    /// An age or an expression that is not yet typed to its end. It matches every row.
    Unfinished,
}

/// A regular expression; two are equal if they are written alike.
#[derive(Clone, Debug)]
struct Pattern(Regex);

impl PartialEq for Pattern {
    fn eq(&self, other: &Self) -> bool {
        self.0.as_str() == other.0.as_str()
    }
}

/// The fields of a row. If a field is empty, a word about it, such as `project=demo`, is searched for in all other
/// texts and fields; a word with `==` then matches.
#[derive(Clone, Copy, Debug, Default)]
pub struct Facts<'a> {
    pub texts: &'a [&'a str],
    pub state: &'a str,
    pub kind: &'a str,
    pub site: &'a str,
    pub project: &'a str,
    pub since: Option<DateTime<Utc>>,
}

impl Facts<'_> {
    fn field(&self, field: &str) -> &str {
        match field {
            "state" => self.state,
            "kind" => self.kind,
            "site" => self.site,
            _ => self.project,
        }
    }
}

/// The characters that must be encoded in a word, because they end it, separate its texts or begin an escape.
const ENCODED: &AsciiSet = &CONTROLS.add(b' ').add(b',').add(b'%');

/// Returns the word of a search that demands exactly one of these texts in a field.
pub fn exact_word(field: &str, texts: &[String]) -> String {
    let texts = texts.iter().map(|text| utf8_percent_encode(text, ENCODED));
    let texts: Vec<String> = texts.map(|text| text.to_string()).collect();
    format!("{field}=={}", texts.join(","))
}

impl SearchQuery {
    /// Parses a query. Words that cannot be understood are searched for as text, or match every row.
    pub fn parse(text: &str) -> Self {
        Self {
            text: text.to_owned(),
            resolved_text: text.to_owned(),
            words: text.split_whitespace().map(|word| parsed(word).0).collect(),
            now: DateTime::UNIX_EPOCH,
        }
    }

    /// Returns the query for rows that contain this text, whatever its characters.
    pub fn containing(text: &str) -> Self {
        let word = Word {
            test: Test::Contains(text.to_lowercase()),
            inverse: false,
        };
        Self {
            words: vec![word],
            ..Self::parse("")
        }
    }

    /// Parses a query in which projects may also be given by name; `projects` maps ids to names. Rows carry
    /// ids, and each is compared with all ids of a name, so a name that matches more than `PROJECTS_MAX`
    /// projects is compared as it is. [`Self::fits_columns`] tests the words about one of `columns` (`name:web`).
    pub fn parse_with_names(
        text: &str,
        projects: &BTreeMap<String, String>,
        columns: &[String],
    ) -> Self {
        let (of_columns, others): (Vec<&str>, Vec<&str>) = text
            .split_whitespace()
            .partition(|word| of_column(word, columns).is_some());
        let resolved: Vec<String> = others
            .into_iter()
            .map(|word| named(word, projects))
            .collect();
        let mut query = Self {
            text: text.to_owned(),
            ..Self::parse(&resolved.join(" "))
        };
        let of_columns = of_columns.into_iter();
        query
            .words
            .extend(of_columns.filter_map(|word| of_column(word, columns)));
        query
    }

    /// Whether the query searches by project, so that it needs the names of projects.
    pub fn asks_for_projects(&self) -> bool {
        let asks = |word: &Word| matches!(&word.test, Test::Field("project", _));
        self.words.iter().any(asks)
    }

    /// Returns the query for a server that knows no project names, without the words about columns.
    pub fn resolved_text(&self) -> &str {
        &self.resolved_text
    }

    /// Returns a message about the first word of the query that is not valid; none if all words are valid.
    pub fn complaint(&self) -> Option<String> {
        let columns = self.words.iter().filter_map(|word| match &word.test {
            Test::Column(name, _) => Some(name.clone()),
            _ => None,
        });
        let columns: Vec<String> = columns.collect();
        let words = self.text.split_whitespace();
        let mut of_facts = words.filter(|word| of_column(word, &columns).is_none());
        of_facts.find_map(|word| parsed(word).1)
    }

    pub fn is_empty(&self) -> bool {
        self.words.is_empty()
    }

    pub fn text(&self) -> &str {
        &self.text
    }

    /// Sets the time from which ages are measured.
    pub fn set_now(&mut self, now: DateTime<Utc>) {
        self.now = now;
    }

    /// The time from which ages are measured.
    pub fn now(&self) -> DateTime<Utc> {
        self.now
    }

    /// Whether a row fits all words but those about columns.
    pub fn fits(&self, facts: &Facts<'_>) -> bool {
        let is_of_facts = |word: &&Word| !matches!(word.test, Test::Column(..));
        let fits = |word: &Word| self.test(&word.test, facts) != word.inverse;
        self.words.iter().filter(is_of_facts).all(fits)
    }

    /// Whether some word of the query is about a column.
    pub fn has_columns(&self) -> bool {
        let mut words = self.words.iter();
        words.any(|word| matches!(word.test, Test::Column(..)))
    }

    /// Whether a row fits the words about columns. `text` returns the row's text in the column of a name.
    pub fn fits_columns(&self, text: impl Fn(&str) -> String) -> bool {
        self.words.iter().all(|word| match &word.test {
            Test::Column(name, wanted) => {
                let text = text(name);
                wanted.iter().any(|wanted| contains(&text, wanted)) != word.inverse
            }
            _ => true,
        })
    }

    /// Whether a row that has these texts and no other fields fits all words but those about columns.
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
            Test::Fits(Pattern(pattern)) => any(&|text| pattern.is_match(text)),
            Test::Exactly(field, wanted) => {
                let own = facts.field(field);
                let is_wanted = |own: &str| wanted.iter().any(|it| it.eq_ignore_ascii_case(own));
                own.is_empty() || own.lines().any(is_wanted)
            }
            Test::Field(field, wanted) => {
                let own = facts.field(field);
                let mut wanted = wanted.iter();
                match own {
                    "" => wanted.any(|wanted| any(&|text| contains(text, wanted))),
                    own => wanted.any(|wanted| contains(own, wanted)),
                }
            }
            Test::Older(than) => age.is_some_and(|age| age > *than),
            Test::Younger(than) => age.is_some_and(|age| age < *than),
            Test::Unfinished | Test::Column(..) => true,
        }
    }
}

/// Whether a text contains `wanted` in any letter case; `wanted` is in lower case.
fn contains(text: &str, wanted: &str) -> bool {
    if !text.is_ascii() {
        return text.to_lowercase().contains(wanted);
    }
    // An ASCII text is compared without a copy, and only where the first letter occurs: a search may read a million
    // texts.
    let (text, wanted) = (text.as_bytes(), wanted.as_bytes());
    let Some(first) = wanted.first() else {
        return true;
    };
    memchr::memchr2_iter(*first, first.to_ascii_uppercase(), text).any(|at| {
        let found = text.get(at..at + wanted.len());
        found.is_some_and(|found| found.eq_ignore_ascii_case(wanted))
    })
}

fn in_order(text: &str, letters: &[char]) -> bool {
    let mut of_text = text.chars().flat_map(char::to_lowercase);
    letters.iter().all(|letter| of_text.any(|it| it == *letter))
}

/// Parses a word about one of these columns, such as `name:web`.
fn of_column(word: &str, columns: &[String]) -> Option<Word> {
    let (bare, inverse) = match word.strip_prefix('!') {
        Some(rest) => (rest, true),
        None => (word, false),
    };
    let (name, wanted) = bare.split_once(':')?;
    let name = name.to_lowercase();
    columns.contains(&name).then(|| Word {
        test: Test::Column(name, alternatives(wanted)),
        inverse,
    })
}

/// Parses a word. The second value says what is wrong with the word; none if it is valid.
fn parsed(word: &str) -> (Word, Option<String>) {
    let (word, inverse) = match word.strip_prefix('!') {
        Some(rest) if !rest.is_empty() => (rest, true),
        _ => (word, false),
    };
    let (test, complaint) = test_of(word);
    // An unfinished word hides no row, inverse or not.
    let inverse = inverse && test != Test::Unfinished;
    (Word { test, inverse }, complaint)
}

/// If the text after `~` has one of these characters, it is a regular expression.
const SIGNS: &[char] = &[
    '^', '$', '.', '*', '+', '?', '(', ')', '[', ']', '{', '}', '|', '\\',
];
/// Maximum size of a compiled regular expression, in bytes.
const PATTERN_BYTES_MAX: usize = 1 << 20;

fn test_of(word: &str) -> (Test, Option<String>) {
    let plain = || Test::Contains(word.to_lowercase());
    if let Some(pattern) = word.strip_prefix('~').filter(|it| it.contains(SIGNS)) {
        let parsed = RegexBuilder::new(pattern)
            .case_insensitive(true)
            .size_limit(PATTERN_BYTES_MAX)
            .build();
        return match parsed {
            Ok(pattern) => (Test::Fits(Pattern(pattern)), None),
            Err(regex::Error::CompiledTooBig(_)) => {
                let why = format!("{word}: this regular expression is too large");
                (Test::Unfinished, Some(why))
            }
            Err(_) => {
                let why = format!("{word}: this regular expression is not complete");
                (Test::Unfinished, Some(why))
            }
        };
    }
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
    let colon = word
        .split_once(':')
        .filter(|(field, _)| FIELDS.contains(field));
    let equals = word.split_once('=').filter(|(field, _)| !field.is_empty());
    let Some((field, wanted)) = colon.or(equals) else {
        return (plain(), None);
    };
    match FIELDS.into_iter().find(|known| *known == field) {
        Some("age") => {
            let age = wanted.trim_start_matches('=');
            let hint = format!("{word}: write age>{age} or age<{age}");
            (Test::Unfinished, Some(hint))
        }
        Some(field) if wanted.starts_with('=') => {
            let texts = wanted.trim_start_matches('=').split(',');
            let texts = texts.map(|it| percent_decode_str(it).decode_utf8_lossy().into_owned());
            (Test::Exactly(field, texts.collect()), None)
        }
        Some(field) => (Test::Field(field, alternatives(wanted)), None),
        None => {
            let near = text::did_you_mean(field, FIELDS);
            let hint =
                format!("there is no field \"{field}\"{near}; the word is searched for as text");
            (plain(), Some(hint))
        }
    }
}

/// Splits the text at commas and lowers its case. A comma at the end is ignored, because the next text is
/// still being typed.
fn alternatives(wanted: &str) -> Vec<String> {
    let all = wanted.split(',').map(str::to_lowercase);
    let some: Vec<String> = all.filter(|it| !it.is_empty()).collect();
    match some.is_empty() {
        true => vec![String::new()],
        false => some,
    }
}

/// A text that matches more project names than this is not meant as a name.
const PROJECTS_MAX: usize = 100;

/// Adds to a word such as `project=demo` the ids of the projects whose names contain `demo`. A word that is not about
/// projects stays as it is.
fn named(word: &str, projects: &BTreeMap<String, String>) -> String {
    let bare = word.strip_prefix('!').unwrap_or(word);
    let wanted = bare.strip_prefix("project=");
    let Some(wanted) = wanted.filter(|it| !it.is_empty() && !it.starts_with('=')) else {
        return word.to_owned();
    };
    let wanted = alternatives(wanted);
    let fits = |name: &str| wanted.iter().any(|wanted| contains(name, wanted));
    let ids = projects.iter().filter(|(_, name)| fits(name));
    let ids: Vec<&str> = ids
        .map(|(id, _)| id.as_str())
        .take(PROJECTS_MAX + 1)
        .collect();
    match ids.len() {
        0 => word.to_owned(),
        n if n > PROJECTS_MAX => word.to_owned(),
        _ => format!("{word},{}", ids.join(",")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fits(text: &str) -> bool {
        let now = DateTime::UNIX_EPOCH + TimeDelta::hours(10);
        let mut filter = SearchQuery::parse(text);
        filter.set_now(now);
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
    fn a_row_must_match_every_word() {
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
            ("~^WEB-.*d$", true),
            ("~^front", false),
            ("!~^front", true),
            ("state:stuck", true),
            ("state:gone", false),
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
            // If the row lacks the field, the word's text is searched for in the row's texts.
            ("project=front", true),
            ("project=demo", false),
            ("state=blocked,stuck", true),
            ("state=blocked,gone", false),
            ("state=gone,", false),
            ("!state=blocked,gone", true),
            // A word that is not typed to its end hides no row.
            ("age>", true),
            ("!age>", true),
            ("~^web-[", true),
            ("!~^web-[", true),
        ] {
            assert_eq!(fits(text), wanted, "{text:?}");
        }
    }

    #[test]
    fn a_word_about_a_column_is_matched_against_the_text_of_that_column() {
        let columns = ["name".to_owned(), "blocked_by".to_owned()];
        let text = |column: &str| match column {
            "name" => "Web-1".to_owned(),
            _ => "floating IP".to_owned(),
        };
        for (word, wanted) in [
            ("name:web", true),
            ("name:db", false),
            ("!name:db", true),
            ("name:db,web", true),
            ("blocked_by:float name:1", true),
        ] {
            let query = SearchQuery::parse_with_names(word, &BTreeMap::new(), &columns);
            assert_eq!(query.fits_columns(text), wanted, "{word}");
            assert!(
                query.fits(&Facts::default()) && query.resolved_text().is_empty(),
                "{word}"
            );
        }
        // A word about a column that does not exist is a text.
        let mac = SearchQuery::parse_with_names("fa:16:3e", &BTreeMap::new(), &columns);
        assert!(mac.fits_texts(&["fa:16:3e:00"]) && !mac.has_columns());
    }

    #[test]
    fn an_exact_word_matches_rows_with_one_of_its_texts_and_rows_without_the_field() {
        let word = exact_word("site", &["prod/West 1".to_owned(), "prod/a,b%".to_owned()]);
        assert_eq!(word.split_whitespace().count(), 1);
        let fits = |site: &str| {
            SearchQuery::parse(&word).fits(&Facts {
                site,
                ..Facts::default()
            })
        };
        for (site, wanted) in [
            ("prod/West 1", true),
            ("prod/west 1", true),
            ("prod/a,b%", true),
            ("preprod/West 1", false),
            ("prod/West 12", false),
            // The site field of a deletion has a line for each target; that of a line of help is empty.
            ("prod/East\nprod/West 1", true),
            ("", true),
        ] {
            assert_eq!(fits(site), wanted, "{site:?}");
        }
    }

    #[test]
    fn a_project_is_also_matched_by_its_name() {
        let mut projects = BTreeMap::from([
            ("a1b2".to_owned(), "Demo".to_owned()),
            ("c3d4".to_owned(), "demo-lab".to_owned()),
            ("e5f6".to_owned(), "shop".to_owned()),
        ]);
        let fits = |text: &str, project: &str, projects: &BTreeMap<String, String>| {
            SearchQuery::parse_with_names(text, projects, &[]).fits(&Facts {
                project,
                ..Facts::default()
            })
        };
        for (text, own, wanted) in [
            ("project=demo", "a1b2", true),
            ("project=demo", "c3d4", true),
            ("project=demo", "e5f6", false),
            ("!project=demo", "a1b2", false),
            ("!project=demo", "e5f6", true),
            ("project=lab,shop", "e5f6", true),
            ("project=a1", "a1b2", true),
            ("project=nobody", "a1b2", false),
        ] {
            assert_eq!(fits(text, own, &projects), wanted, "{text} {own}");
        }
        let filter = SearchQuery::parse_with_names("web project=lab", &projects, &[]);
        assert_eq!(filter.text(), "web project=lab");
        assert_eq!(filter.resolved_text(), "web project=lab,c3d4");
        assert!(filter.asks_for_projects());
        assert!(!SearchQuery::parse("web").asks_for_projects());
        // A letter that occurs in hundreds of names stands for none of them.
        projects.extend((0..200).map(|n| (format!("id{n}"), format!("x{n}"))));
        assert_eq!(
            SearchQuery::parse_with_names("project=x", &projects, &[]).resolved_text(),
            "project=x"
        );
    }

    #[test]
    fn an_invalid_query_gets_a_complaint_with_the_reason() {
        let complaint = |text: &str| SearchQuery::parse(text).complaint().unwrap_or_default();
        assert_eq!(complaint("web state=stuck age>1h"), "");
        let misspelt = complaint("stat=stuck");
        assert!(misspelt.contains("did you mean \"state\""), "{misspelt}");
        let unit = complaint("age>1");
        assert!(unit.contains("write a whole number and a unit"), "{unit}");
        let open = complaint("~^web-[");
        assert!(
            open.contains("regular expression is not complete"),
            "{open}"
        );
        assert_eq!(complaint("age=1h"), "age=1h: write age>1h or age<1h");
        assert_eq!(complaint("age==1h"), "age==1h: write age>1h or age<1h");
        let large = "~(a{1000}){1000}";
        let expected = format!("{large}: this regular expression is too large");
        assert_eq!(complaint(large), expected);
        let columns = ["name".to_owned()];
        let of_column = SearchQuery::parse_with_names("name:a=b", &BTreeMap::new(), &columns);
        assert_eq!(of_column.complaint(), None);
    }
}
