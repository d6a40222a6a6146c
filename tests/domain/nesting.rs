//! A TOML file that is nested too deeply is refused with its line, before a parser reads it.

use gone::domain::kinds::Source;
use gone::domain::nesting::{first_too_deep, line_of};

fn line(text: &str) -> Option<usize> {
    first_too_deep(text).map(|at| line_of(text, at.start))
}

#[test]
fn up_to_64_levels_are_not_too_deep() {
    let lists = format!("a = {}{}", "[".repeat(64), "]".repeat(64));
    let many = "[a.b.c]\nx = [[1.5, 2.5], {y.z = 1}] # [[[\ns = '[[[[{{{{'\n".repeat(1000);
    let text = "m = '''\n".to_owned() + &"[[{{.\n".repeat(1000) + "'''\n";
    for text in [lists, many, text, "[".repeat(64)] {
        assert_eq!(line(&text), None, "{text:.80}");
    }
}

#[test]
fn the_line_is_that_of_the_first_level_too_deep() {
    let lists = format!("a = 1\nb = {}{}\n", "[".repeat(65), "]".repeat(65));
    let tables = "x = 1\n".to_owned() + &"a = {".repeat(65);
    let key = format!("# key\n[{}]\n", ["k"; 66].join("."));
    // A dotted key in each of nine nested tables: together too deep.
    let both = format!("\n{}", format!("{} = {{", ["k"; 8].join(".")).repeat(9));
    for text in [lists, tables, key, both] {
        assert_eq!(line(&text), Some(2), "{text:.80}");
    }
}

/// Brackets that close nothing must not lower the counted depth.
#[test]
fn surplus_closing_brackets_allow_no_deeper_nesting() {
    let text = format!("a = {}\n{}", "]".repeat(1000), "[\n".repeat(65));
    assert_eq!(line(&text), Some(66));
    let crossed = "[ } ".repeat(1000);
    assert!(first_too_deep(&crossed).is_some());
}

/// The parser recovers from an error within an inline table and loses count of its depth. Without the check its
/// recursion would overflow the stack and end the process.
#[test]
fn a_file_that_would_overflow_the_parser_is_an_error_with_its_line() {
    let text = "a = {\n".to_owned() + &"[[a]]\n".repeat(20_000) + "b =\n" + &"[\n".repeat(20_000);
    let file = "deep.toml".to_owned();
    let error = gone::cloud::read_kinds([Source { file, text }]).unwrap_err();
    let shown = error.to_string();
    assert!(shown.contains("deep.toml"), "{shown}");
    assert!(shown.contains("nested too deeply"), "{shown}");
    assert_eq!(error.line, 2 + 20_000 + 64);
}
