//! Shows the result of `gone check kinds`: each finding with a drawing of its example.

use std::io::{self, Write};

use super::args::Format;
use super::exit::Exit;
use super::output::{Sheet, Style, write_rows, write_table};
use crate::domain::check::{Edge, Example, Fate, Finding, Severity};
use crate::present::count;

/// Writes the findings; returns the exit code of a wrong configuration if one of them is an error.
///
/// # Errors
/// The output cannot be written.
pub fn report(
    out: &mut dyn Write,
    style: Style,
    format: Format,
    kinds: usize,
    findings: &[Finding],
) -> io::Result<Exit> {
    match format {
        Format::Table => write_for_people(out, style, kinds, findings)?,
        _ => write_rows(out, style, format, &flat(findings), findings)?,
    }
    Ok(match number_of(findings, Severity::Error) {
        0 => Exit::Done,
        _ => Exit::Usage,
    })
}

fn number_of(findings: &[Finding], severity: Severity) -> usize {
    let of_it = findings.iter().filter(|it| it.severity == severity);
    of_it.count()
}

/// One row for each finding, for CSV.
fn flat(findings: &[Finding]) -> Sheet {
    let mut sheet = Sheet::new(["SEVERITY", "FINDING", "KINDS", "EXAMPLE", "HAPPENS", "FIX"]);
    for finding in findings {
        let references = finding.example.references.iter();
        let references = references.map(|it| format!("{} -> {} ({})", it.from, it.to, rule(it)));
        sheet.push([
            finding.severity.as_str().to_owned(),
            finding.category.as_str().to_owned(),
            kinds_of(finding),
            references.collect::<Vec<_>>().join(", "),
            finding.happens.clone(),
            finding.fix.clone(),
        ]);
    }
    sheet
}

fn kinds_of(finding: &Finding) -> String {
    let kinds = finding.kinds.iter().map(ToString::to_string);
    kinds.collect::<Vec<_>>().join(" ")
}

fn write_for_people(
    out: &mut dyn Write,
    style: Style,
    kinds: usize,
    findings: &[Finding],
) -> io::Result<()> {
    let mut sheet = Sheet::new(["STATE", "FINDING", "KINDS"]);
    for finding in findings {
        let [severity, category] = [finding.severity.as_str(), finding.category.as_str()];
        sheet.push([severity.into(), category.into(), kinds_of(finding)]);
    }
    if !findings.is_empty() {
        write_table(out, style, &sheet)?;
        writeln!(out)?;
    }
    for finding in findings {
        let head = format!(
            "{} {}",
            finding.severity.as_str(),
            finding.category.as_str()
        );
        writeln!(out, "{head}: {}", style.safe(&finding.happens))?;
        write!(out, "\n{}\n", drawing(&finding.example, style))?;
        writeln!(out, "  {}\n", style.safe(&finding.fix))?;
    }
    let errors = count(number_of(findings, Severity::Error), "error");
    let notes = count(number_of(findings, Severity::Note), "note");
    writeln!(out, "{} checked: {errors}, {notes}.", count(kinds, "kind"))
}

/// Draws an example: each resource is below the one that it refers to.
///
/// ```text
///     customer   its deletion is asked for
///        ▲ customer: cascade, asynchronous
///     invoice    is held for ever
///        ▲ invoice: block
///     payment    stays
/// ```
pub fn drawing(example: &Example, style: Style) -> String {
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
    let later = if edge.asynchronous {
        ", asynchronous"
    } else {
        ""
    };
    format!("{}: {}{later}", edge.field, edge.on_delete.as_str())
}

fn fate(fate: Fate) -> &'static str {
    match fate {
        Fate::Asked => "its deletion is asked for",
        Fate::Goes => "goes too",
        Fate::Held => "is held for ever",
        Fate::Stays => "stays",
    }
}
