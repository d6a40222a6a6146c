//! Escapes texts for Graphviz and Mermaid, in drawings of plans and of trees.

use super::output::Style;

/// A text in quotation marks, for Graphviz.
pub(super) fn dot_text(style: Style, text: &str) -> String {
    let safe = style.safe(text);
    format!("\"{}\"", safe.replace('\\', "\\\\").replace('"', "\\\""))
}

/// A text for Mermaid, which takes entity codes between # and ; and knows no other escape.
pub(super) fn mermaid_text(style: Style, text: &str) -> String {
    let safe = style.safe(text);
    safe.replace('#', "#35;")
        .replace('"', "#quot;")
        .replace('<', "#lt;")
        .replace('>', "#gt;")
}
