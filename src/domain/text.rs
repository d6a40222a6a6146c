//! Makes text from outside safe to show, and suggests words for mistyped ones.

use std::borrow::Cow;
use std::fmt::Write as _;

/// Makes a text from outside safe for a terminal: control characters, escape sequences, bidirectional overrides and
/// invisible characters become visible escapes (`\n`, `\r`, `\t`, otherwise `\u{…}`), so that neither the terminal nor
/// the reader is misled. Ordinary text of any script passes unchanged.
pub fn escape(text: &str) -> Cow<'_, str> {
    if is_plain(text) || !text.chars().any(is_hostile) {
        return Cow::Borrowed(text);
    }
    let mut safe = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        match c {
            '\n' => safe.push_str("\\n"),
            '\r' => safe.push_str("\\r"),
            '\t' => safe.push_str("\\t"),
            c if is_hostile(c) => {
                // Writing to a String cannot fail.
                let _ = write!(safe, "\\u{{{:x}}}", u32::from(c));
            }
            c => safe.push(c),
        }
    }
    Cow::Owned(safe)
}

/// Writes a number with its noun: `1 step`, `12 steps`.
#[must_use]
pub fn counted(n: u64, one: &str) -> String {
    match n {
        1 => format!("1 {one}"),
        n => format!("{n} {one}s"),
    }
}

/// Returns ` and 3 more`, as the end of a list that names only its first entries; empty if the list names all.
#[must_use]
pub fn and_more(others: usize) -> String {
    match others {
        0 => String::new(),
        others => format!(" and {others} more"),
    }
}

/// Whether the text is printable ASCII alone: nothing to escape, and one column for each byte.
#[must_use]
pub fn is_plain(text: &str) -> bool {
    split_plain(text).0.is_empty()
}

/// Splits off the longest end of a text that is printable ASCII.
#[must_use]
pub fn split_plain(text: &str) -> (&str, &str) {
    let other = text.bytes().rposition(|byte| !matches!(byte, b' '..=b'~'));
    text.split_at(other.map_or(0, |at| at + 1))
}

/// Whether a character must be escaped. These are control characters, and characters that are invisible, reorder
/// others or look like a space, so that different names look alike: Unicode's `Default_Ignorable_Code_Point` and the
/// line separators, letters and marks without a shape of their own, and blanks other than the space and the
/// ideographic space. The zero-width joiner and the variation selectors are among them, so a joined emoji is
/// shown as its parts.
pub fn is_hostile(c: char) -> bool {
    !matches!(c, ' '..='~') && (c.is_control() || is_ignorable(c) || is_blank(c))
}

/// Whether the character is invisible, or changes the order of what is shown.
fn is_ignorable(c: char) -> bool {
    matches!(c,
        '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}'
        | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{ffa0}'
        | '\u{fff0}'..='\u{fffb}' | '\u{13430}'..='\u{1343f}' | '\u{1bca0}'..='\u{1bca3}'
        | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}')
}

/// Whether the character looks like a space without being one.
fn is_blank(c: char) -> bool {
    matches!(
        c,
        '\u{a0}' | '\u{1680}' | '\u{2000}'
            ..='\u{200a}' | '\u{202f}' | '\u{205f}' | '\u{2800}' | '\u{16fe4}' | '\u{1d159}'
    )
}

/// Escapes every hostile character in JSON ([`is_hostile`]), and with `ascii` every character that is not ASCII. Apart
/// from the line feeds of the layout, such characters can only be within a string, so the JSON has the same meaning
/// afterwards.
pub fn inert_json(json: &str, ascii: bool) -> Cow<'_, str> {
    let hostile = |c: char| (is_hostile(c) && c != '\n') || (ascii && !c.is_ascii());
    if !json.chars().any(hostile) {
        return Cow::Borrowed(json);
    }
    let mut safe = String::with_capacity(json.len() + 64);
    for c in json.chars() {
        if hostile(c) {
            for unit in c.encode_utf16(&mut [0; 2]) {
                // Writing to a String cannot fail.
                let _ = write!(safe, "\\u{unit:04x}");
            }
        } else {
            safe.push(c);
        }
    }
    Cow::Owned(safe)
}

/// Returns the candidate that a mistyped word most likely meant; none if nothing is near.
pub fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    candidates
        .into_iter()
        .map(|candidate| (strsim::damerau_levenshtein(word, candidate), candidate))
        .filter(|(distance, candidate)| *distance <= 2.max(candidate.len() / 3))
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// Returns `; did you mean "x"?` as the end of an error about a word; empty if no candidate is near.
pub fn did_you_mean<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> String {
    nearest(word, candidates).map_or_else(String::new, |near| format!("; did you mean \"{near}\"?"))
}

/// Whether the whole text matches the pattern, in which `*` stands for any text.
pub fn fits_pattern(text: &str, pattern: &str) -> bool {
    let mut parts = pattern.split('*');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = text.strip_prefix(first) else {
        return false;
    };
    let mut parts: Vec<&str> = parts.collect();
    let Some(last) = parts.pop() else {
        return rest.is_empty();
    };
    for part in parts {
        match rest.find(part) {
            Some(at) => rest = rest.get(at + part.len()..).unwrap_or_default(),
            None => return false,
        }
    }
    rest.ends_with(last)
}

/// Whether a word of the text matches the pattern, as `OPS-*` does in `see OPS-4711, please`.
pub fn word_fits(text: &str, pattern: &str) -> bool {
    let is_between = |c: char| c.is_whitespace() || matches!(c, ',' | ';' | '(' | ')');
    let words = text
        .split(is_between)
        .map(|word| word.trim_end_matches(['.', ':']));
    words
        .filter(|word| !word.is_empty())
        .any(|word| fits_pattern(word, pattern))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invisible_and_space_like_characters_are_escaped() {
        for hidden in [
            "\u{3164}",
            "\u{115f}",
            "\u{1160}",
            "\u{ffa0}",
            "\u{2800}",
            "\u{34f}",
            "\u{fe0f}",
            "\u{fe00}",
            "\u{e0100}",
            "\u{17b4}",
            "\u{180b}",
            "\u{2065}",
            "\u{a0}",
            "\u{2003}",
            "\u{202f}",
            "\u{9b}",
            "\u{1d159}",
        ] {
            let shown = escape(hidden).into_owned();
            assert!(
                shown.starts_with("\\u{"),
                "{hidden:?} is shown as {shown:?}"
            );
            assert_ne!(escape(&format!("web{hidden}")), "web");
        }
        for ordinary in [
            "prod web-1",
            "Größe",
            "сеть",
            "网络",
            "ネット\u{3000}ワーク",
            "네트워크",
            "شبكة",
            "नेटवर्क",
            "🚀",
        ] {
            assert_eq!(escape(ordinary), ordinary);
        }
    }

    #[test]
    fn a_pattern_matches_whole_texts_and_single_words() {
        for (text, pattern, fits) in [
            ("prod-web", "prod-*", true),
            ("my-prod-web", "prod-*", false),
            ("prod", "prod", true),
            ("prod-web", "prod", false),
            ("a-b-c", "a*b*c", true),
            ("a-c", "a*b*c", false),
            ("", "*", true),
        ] {
            assert_eq!(fits_pattern(text, pattern), fits, "{text} {pattern}");
        }
        for (text, pattern, fits) in [
            ("see OPS-4711, please", "OPS-*", true),
            ("done (OPS-4711).", "OPS-*", true),
            ("no ticket", "OPS-*", false),
            ("XOPS-1", "OPS-*", false),
            ("because", "*", true),
            (" \t ", "*", false),
            ("", "*", false),
        ] {
            assert_eq!(word_fits(text, pattern), fits, "{text:?} {pattern}");
        }
    }
}
