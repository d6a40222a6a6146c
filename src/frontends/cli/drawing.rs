//! What drawings of plans and of trees have in common: texts that Graphviz and Mermaid take as they are.

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
