//! Checks how deeply a TOML text nests, before the text is parsed.
//!
//! The parser limits nesting in valid text, but not while it recovers from an error inside an inline table:
//! there its recursion overflows the stack and ends the process. The parser also refuses a key of too many
//! parts without saying where.

use std::ops::Range;

use toml_parser::Source;
use toml_parser::lexer::TokenKind;

/// Maximum depth: far more than settings or kinds need, and less than the parser's own bound.
const MOST: usize = 64;

/// The error for a text that nests deeper than `MOST`.
pub const TOO_DEEP: &str = "nested too deeply: at most 64 lists, tables and parts of keys";

/// Returns the bytes of the first list, table or part of a key that nests too deeply. Unclosed brackets count
/// too, because the parser may recurse at each of them.
pub fn first_too_deep(text: &str) -> Option<Range<usize>> {
    // The open brackets: the token that closes each, and the dots of the current key in it. The first entry
    // stands for the whole text.
    let mut open = vec![(TokenKind::Eof, 0_usize)];
    let mut depth = 0;
    for token in Source::new(text).lex() {
        let is_bottom = open.len() == 1;
        let (closes, dots) = open.last_mut()?;
        match token.kind() {
            TokenKind::LeftSquareBracket => {
                open.push((TokenKind::RightSquareBracket, 0));
                depth += 1;
            }
            TokenKind::LeftCurlyBracket => {
                open.push((TokenKind::RightCurlyBracket, 0));
                depth += 1;
            }
            TokenKind::Dot => {
                *dots += 1;
                depth += 1;
            }
            kind if kind == *closes && !is_bottom => {
                depth -= *dots + 1;
                open.pop();
            }
            kind if kind == TokenKind::Comma || kind == TokenKind::Newline && is_bottom => {
                depth -= std::mem::take(dots);
            }
            _ => {}
        }
        if depth > MOST {
            return Some(token.span().start()..token.span().end());
        }
    }
    None
}

/// Returns the line of a byte offset, counted from 1.
pub fn line_of(text: &str, offset: usize) -> usize {
    let before = text.bytes().take(offset);
    before.filter(|byte| *byte == b'\n').count() + 1
}
