//! Writes results: as a table, or the same rows as JSON, JSON lines, YAML or CSV.
//!
//! 1. Names from clouds are hostile: in tables, CSV and YAML they are escaped visibly
//!    ([`text::escape`]); in JSON they are kept, but characters that a terminal acts on become `\uXXXX`.
//! 2. Columns align by display width. On a terminal the last column is cut to the screen; elsewhere
//!    nothing is cut.
//! 3. Colours appear only on a terminal, and are never the only sign.
//! 4. A CSV cell that a spreadsheet would take for a formula gets a leading apostrophe.

use std::borrow::Cow;
use std::io::{self, IsTerminal as _, Write};

use chrono::{DateTime, Utc};
use serde::Serialize;
use serde_json::Value;
use unicode_width::UnicodeWidthStr as _;

use super::args::Format;
use crate::domain::text;
use crate::system::config::Surroundings;

/// The properties of the standard streams, and what they can show.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Style {
    pub in_terminal: bool,
    pub out_terminal: bool,
    pub err_terminal: bool,
    /// Columns of the terminal at standard output.
    pub width: Option<usize>,
    pub colour: bool,
    pub ascii: bool,
}

impl Style {
    pub fn of_process(around: &Surroundings, no_color: bool, ascii: bool) -> Self {
        let out_terminal = io::stdout().is_terminal();
        let width = rustix::termios::tcgetwinsize(io::stdout())
            .ok()
            .map(|size| usize::from(size.ws_col));
        let dumb = around.term.as_deref() == Some("dumb");
        let utf8 = around.locale.as_deref().is_some_and(|locale| {
            let locale = locale.to_ascii_lowercase();
            locale.contains("utf-8") || locale.contains("utf8")
        });
        Self {
            in_terminal: io::stdin().is_terminal(),
            out_terminal,
            err_terminal: io::stderr().is_terminal(),
            width: width.filter(|width| out_terminal && *width > 0),
            colour: out_terminal && !no_color && !around.no_color && !dumb,
            ascii: ascii || (out_terminal && !utf8),
        }
    }

    /// Escapes a text of a cloud, so that it is safe to show.
    pub fn safe<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let safe = text::escape(text);
        if self.ascii && !safe.is_ascii() {
            return Cow::Owned(safe.chars().map(ascii).collect());
        }
        safe
    }
}

fn ascii(c: char) -> String {
    if c.is_ascii() {
        c.to_string()
    } else {
        c.escape_unicode().to_string()
    }
}

/// A writer whose reader may leave (`gone list | head`): later output is dropped without an error.
pub struct Tolerant<W> {
    inner: W,
    left: bool,
}

impl<W: Write> Tolerant<W> {
    pub fn new(inner: W) -> Self {
        Self { inner, left: false }
    }

    fn forgive<T>(&mut self, result: io::Result<T>, instead: T) -> io::Result<T> {
        match result {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {
                self.left = true;
                Ok(instead)
            }
            other => other,
        }
    }
}

impl<W: Write> Write for Tolerant<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.left {
            return Ok(bytes.len());
        }
        let written = self.inner.write(bytes);
        self.forgive(written, bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.left {
            return Ok(());
        }
        let flushed = self.inner.flush();
        self.forgive(flushed, ())
    }
}

/// A column of a list: its heading, and the text that a row shows below it; empty if there is nothing to say.
pub type Column<R> = (&'static str, fn(&R, &ListContext) -> String);

/// The facts that a cell may depend on beside its row.
#[derive(Clone, Copy, Debug)]
pub struct ListContext {
    pub now: DateTime<Utc>,
    /// Number of last characters that tell the ids of the rows apart.
    pub id_length: usize,
}

/// Headings and cells, as text. An empty cell means that there is nothing to say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sheet {
    headings: Vec<String>,
    rows: Vec<Vec<String>>,
}

impl Sheet {
    pub fn new<H: Into<String>>(headings: impl IntoIterator<Item = H>) -> Self {
        Self {
            headings: headings.into_iter().map(Into::into).collect(),
            rows: Vec::new(),
        }
    }

    pub fn of<R>(columns: &[Column<R>], rows: &[R], context: &ListContext) -> Self {
        let cells = |row| columns.iter().map(|(_, cell)| cell(row, context)).collect();
        Self {
            headings: columns
                .iter()
                .map(|(heading, _)| (*heading).to_owned())
                .collect(),
            rows: rows.iter().map(cells).collect(),
        }
    }

    /// Adds a row, with its cells in the order of the headings.
    pub fn push(&mut self, row: impl IntoIterator<Item = String>) {
        self.rows.push(row.into_iter().collect());
    }

    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }
}

/// Writes rows in the format that was asked for: `sheet` for tables and CSV, `values` for the others.
///
/// # Errors
/// The output cannot be written, or the format is one for plans.
pub fn write_rows<T: Serialize>(
    out: &mut dyn Write,
    style: Style,
    format: Format,
    sheet: &Sheet,
    values: &[T],
) -> io::Result<()> {
    match format {
        Format::Table => write_table(out, style, sheet),
        Format::Csv => write_csv(out, style, sheet),
        Format::Jsonl => values
            .iter()
            .try_for_each(|value| write_json(out, style, value, false)),
        Format::Json => write_json(out, style, &values, true),
        Format::Yaml => write_yaml(out, style, &values),
        Format::Dot | Format::Mermaid => Err(io::Error::other("this format draws plans only")),
    }
}

/// Writes one value as JSON (`jsonl`: on one line) or YAML; false if the format is for rows.
///
/// # Errors
/// The output cannot be written.
pub fn write_value<T: Serialize>(
    out: &mut dyn Write,
    style: Style,
    format: Format,
    value: &T,
) -> io::Result<bool> {
    match format {
        Format::Json => write_json(out, style, value, true)?,
        Format::Jsonl => write_json(out, style, value, false)?,
        Format::Yaml => write_yaml(out, style, value)?,
        Format::Table | Format::Csv | Format::Dot | Format::Mermaid => return Ok(false),
    }
    Ok(true)
}

/// Writes a table: headings, columns two spaces apart, `-` for an empty cell.
///
/// # Errors
/// The output cannot be written.
pub fn write_table(out: &mut dyn Write, style: Style, sheet: &Sheet) -> io::Result<()> {
    let cell = |text: &str| match text {
        "" => "-".to_owned(),
        text => style.safe(text).into_owned(),
    };
    let rows: Vec<Vec<String>> = sheet
        .rows
        .iter()
        .map(|row| row.iter().map(|text| cell(text)).collect())
        .collect();
    let widths: Vec<usize> = (0..sheet.headings.len())
        .map(|column| {
            std::iter::once(&sheet.headings)
                .chain(&rows)
                .filter_map(|row| row.get(column))
                .map(|text| text.width())
                .max()
                .unwrap_or_default()
        })
        .collect();
    let bold = if style.colour { "1" } else { "" };
    write_line(out, style, &sheet.headings, &widths, |_, _| bold)?;
    for row in &rows {
        write_line(out, style, row, &widths, |column, text| {
            let is_state = sheet.headings.get(column).is_some_and(|h| h == "STATE");
            if style.colour && is_state {
                tone(text)
            } else {
                ""
            }
        })?;
    }
    Ok(())
}

/// Writes one line; `paint` returns the SGR parameters of a cell, or nothing.
fn write_line(
    out: &mut dyn Write,
    style: Style,
    cells: &[String],
    widths: &[usize],
    paint: impl Fn(usize, &str) -> &'static str,
) -> io::Result<()> {
    let mut used = 0;
    for (column, (text, width)) in cells.iter().zip(widths).enumerate() {
        let last = column + 1 == cells.len();
        let text = match style.width {
            // A last column narrower than 10 would say nothing: the terminal wraps it instead.
            Some(screen) if last && screen >= used + 10 => cut(text, screen - used, style.ascii),
            _ => Cow::Borrowed(text.as_str()),
        };
        match paint(column, &text) {
            "" => write!(out, "{text}")?,
            sgr => write!(out, "\u{1b}[{sgr}m{text}\u{1b}[0m")?,
        }
        if !last {
            let padding = width.saturating_sub(text.width()) + 2;
            write!(out, "{:padding$}", "")?;
        }
        used += width + 2;
    }
    writeln!(out)
}

/// Cuts to a display width, with a mark that something is missing.
pub(super) fn cut(text: &str, width: usize, ascii: bool) -> Cow<'_, str> {
    if text.width() <= width {
        return Cow::Borrowed(text);
    }
    let mark = if ascii { "..." } else { "…" };
    let room = width.saturating_sub(mark.width());
    let mut kept = String::new();
    for c in text.chars() {
        kept.push(c);
        if kept.width() > room {
            kept.pop();
            break;
        }
    }
    Cow::Owned(kept + mark)
}

/// Returns the SGR colour of a state: red if it needs a person, yellow if it waits, green if it is good.
fn tone(state: &str) -> &'static str {
    match state {
        "stuck" | "refused" | "unreachable" | "fail" | "error" => "31",
        "blocked" | "paused" | "purged" | "cancelled" | "awaiting_approval" | "warn" | "note" => {
            "33"
        }
        "gone" | "reachable" | "ok" => "32",
        _ => "",
    }
}

fn write_csv(out: &mut dyn Write, style: Style, sheet: &Sheet) -> io::Result<()> {
    let mut writer = csv::Writer::from_writer(out);
    writer.write_record(&sheet.headings)?;
    for row in &sheet.rows {
        writer.write_record(row.iter().map(|cell| neutral(cell, style)))?;
    }
    writer.flush()
}

fn neutral(cell: &str, style: Style) -> String {
    let safe = style.safe(cell);
    if cell.starts_with(['=', '+', '-', '@', '\t', '\r']) {
        format!("'{safe}")
    } else {
        safe.into_owned()
    }
}

pub(super) fn write_json<T: Serialize>(
    out: &mut dyn Write,
    style: Style,
    value: &T,
    pretty: bool,
) -> io::Result<()> {
    let json = if pretty {
        serde_json::to_string_pretty(value)?
    } else {
        serde_json::to_string(value)?
    };
    writeln!(out, "{}", text::inert_json(&json, style.ascii))
}

fn write_yaml<T: Serialize>(out: &mut dyn Write, style: Style, value: &T) -> io::Result<()> {
    let mut value = serde_json::to_value(value)?;
    make_safe(&mut value, style);
    let yaml = serde_saphyr::to_string(&value).map_err(io::Error::other)?;
    writeln!(out, "{}", yaml.trim_end())
}

fn make_safe(value: &mut Value, style: Style) {
    match value {
        Value::String(text) => {
            if let Cow::Owned(safe) = style.safe(text) {
                *text = safe;
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| make_safe(item, style)),
        Value::Object(members) => {
            let old = std::mem::take(members);
            for (key, mut member) in old {
                make_safe(&mut member, style);
                members.insert(style.safe(&key).into_owned(), member);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}
