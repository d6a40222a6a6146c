//! How deep a TOML text may nest, before it is parsed.
//!
//! The parser bounds nesting where a text is valid. Where it recovers from an error inside an inline
//! table it does not, and its recursion then ends the process; a key of too many parts it refuses
//! without a place.

use std::ops::Range;

use toml_parser::Source;
use toml_parser::lexer::TokenKind;

/// Far more than settings or kinds need, and less than the parser's own bound.
const MOST: usize = 64;

pub const TOO_DEEP: &str = "nested too deeply: at most 64 lists, tables and parts of keys";

/// The first list, table or part of a key that is deeper than is parsed, in bytes. Brackets that
/// nothing closes count too: each may be recursion.
pub fn first_too_deep(text: &str) -> Option<Range<usize>> {
    // What is open, by what closes it, with the dots of the key that stands there; the whole text at
    // the bottom.
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

/// From 1.
pub fn line_of(text: &str, offset: usize) -> usize {
    let before = text.bytes().take(offset);
    before.filter(|byte| *byte == b'\n').count() + 1
}
