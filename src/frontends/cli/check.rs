//! Shows the result of `gone check kinds`: each finding with a drawing of its example.

use std::io;

use super::exit::Exit;
use super::output::{Printer, Style};
use crate::domain::check::{Edge, Example, Fate, Finding, Severity};
use crate::present::{Sheet, columns, count, joined};

columns! {
    /// The columns for people, who also see a drawing of each example.
    BRIEF: Finding, |row|
    "STATE" 9 => row.severity.as_str();
    "FINDING" 9 => row.category.as_str();
    "KINDS" 9 => joined(&row.kinds, " ");

    FULL: Finding, |row|
    "SEVERITY" 9 => row.severity.as_str();
    "FINDING" 9 => row.category.as_str();
    "KINDS" 9 => joined(&row.kinds, " ");
    "EXAMPLE" 9 => references_of(row);
    "HAPPENS" 9 => row.happens;
    "FIX" 9 => row.fix;
}

/// Writes the findings; returns the exit code of a wrong configuration if one of them is an error.
pub fn report(out: &mut Printer<'_>, kinds: usize, findings: &[Finding]) -> io::Result<Exit> {
    match out.format.is_table() {
        true => write_for_people(out, kinds, findings)?,
        false => out.list(FULL, findings)?,
    }
    Ok(match number_of(findings, Severity::Error) {
        0 => Exit::Done,
        _ => Exit::Usage,
    })
}

fn number_of(findings: &[Finding], severity: Severity) -> usize {
    findings.iter().filter(|it| it.severity == severity).count()
}

fn references_of(finding: &Finding) -> String {
    let references = finding.example.references.iter();
    let references = references.map(|it| format!("{} -> {} ({})", it.from, it.to, rule(it)));
    joined(references, ", ")
}

fn write_for_people(out: &mut Printer<'_>, kinds: usize, findings: &[Finding]) -> io::Result<()> {
    if !findings.is_empty() {
        out.table(&Sheet::of(BRIEF, findings))?;
        out.say("")?;
    }
    for finding in findings {
        let (severity, category) = (finding.severity.as_str(), finding.category.as_str());
        out.say(format!("{severity} {category}: {}", finding.happens))?;
        write!(out.stream, "\n{}\n", drawing(&finding.example, out.style))?;
        out.say(format!("  {}", finding.fix))?;
        out.say("")?;
    }
    let errors = count(number_of(findings, Severity::Error), "error");
    let notes = count(number_of(findings, Severity::Note), "note");
    let kinds = count(kinds, "kind");
    out.say(format!("{kinds} checked: {errors}, {notes}."))
}

/// Draws an example: each resource is below the one that it refers to.
///
/// ```text
///     customer   its deletion is asked for
///        ▲ customer: cascade, asynchronous
///     invoice    is blocked for ever
///        ▲ invoice: block
///     payment    stays
/// ```
fn drawing(example: &Example, style: Style) -> String {
    let arrow = if style.ascii { '^' } else { '▲' };
    let width = example.resources.iter().map(|it| it.name.len());
    let width = width.max().unwrap_or_default();
    let mut drawn = String::new();
    let mut references = example.references.iter();
    for resource in &example.resources {
        let name = style.safe(&resource.name);
        drawn += &format!("    {name:width$}   {}\n", fate(resource.fate));
        if let Some(edge) = references.next() {
            drawn += &format!("       {arrow} {}\n", style.safe(&rule(edge)));
        }
    }
    // In a cycle the first resource refers to the last.
    if let Some(first) = example.resources.first()
        && example.references.len() == example.resources.len()
    {
        drawn += &format!("    {:width$}   the same\n", style.safe(&first.name));
    }
    drawn
}

fn rule(edge: &Edge) -> String {
    let later = match edge.asynchronous {
        true => ", asynchronous",
        false => "",
    };
    format!("{}: {}{later}", edge.field, edge.on_delete.as_str())
}

fn fate(fate: Fate) -> &'static str {
    match fate {
        Fate::Asked => "its deletion is asked for",
        Fate::Goes => "is deleted too",
        Fate::Held => "is blocked for ever",
        Fate::Stays => "stays",
    }
}
