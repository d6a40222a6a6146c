//! Checks that the rule numbers in the names of tests exist in `assets/promises.md`.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use super::files_of;
use super::source::Source;

/// Returns the numbers in the first cells of tables: `| T5 | … |`.
fn promised(text: &str) -> BTreeSet<String> {
    let first_cell =
        |line: &str| Some(line.strip_prefix('|')?.split('|').next()?.trim().to_owned());
    text.lines()
        .filter_map(first_cell)
        .filter(|cell| is_number(cell))
        .collect()
}

fn is_number(cell: &str) -> bool {
    let digits = cell.strip_prefix(|first: char| first.is_ascii_uppercase());
    digits.is_some_and(|digits| !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit()))
}

/// Returns the first rule that a test's name claims to prove: T5 for `t05_local_get` and `testbed_t05_…`, and I13 for
/// `i13a_…`.
fn claimed(function: &str) -> Option<String> {
    let (head, _) = function.trim_start_matches("testbed_").split_once('_')?;
    let letter = head.chars().next().filter(char::is_ascii_lowercase)?;
    let digits = head[1..].trim_end_matches(|last: char| last.is_ascii_lowercase());
    let number: u32 = digits.parse().ok()?;
    Some(format!("{}{number}", letter.to_ascii_uppercase()))
}

#[test]
fn each_rule_that_a_test_names_is_promised() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("assets/promises.md");
    let promised = promised(&fs::read_to_string(file).unwrap());
    assert!(
        promised.contains("T5") && promised.contains("P8"),
        "{promised:?}"
    );
    let mut unknown = Vec::new();
    let mut named = 0;
    for folder in ["src", "tests"] {
        for (file, text) in files_of(folder) {
            for (function, line) in Source::read(&[], &text).functions {
                let Some(rule) = claimed(&function) else {
                    continue;
                };
                named += 1;
                if !promised.contains(&rule) {
                    unknown.push(format!(
                        "{folder}/{file}:{line}: {function}: assets/promises.md has no rule {rule}"
                    ));
                }
            }
        }
    }
    assert!(unknown.is_empty(), "\n{}", unknown.join("\n"));
    assert!(
        named > 50,
        "only {named} tests with a rule number were found"
    );
}

#[test]
fn a_rule_is_read_out_of_a_tests_name() {
    assert_eq!(claimed("t05_local_get").as_deref(), Some("T5"));
    assert_eq!(claimed("i13a_a_look").as_deref(), Some("I13"));
    assert_eq!(claimed("testbed_n15_deep").as_deref(), Some("N15"));
    assert_eq!(claimed("a_plain_name"), None);
    assert_eq!(claimed("utf8_names"), None);
}
