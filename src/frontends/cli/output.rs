//! Writes results: as a table, or the same rows as JSON, JSON lines, YAML or CSV.
//!
//! 1. Names from clouds are hostile: in tables, CSV and YAML they are escaped visibly
//!    ([`text::escape`]); in JSON they are kept, but characters that a terminal acts on become `\uXXXX`.
//! 2. Columns align by display width, and rows never wrap: what is too wide for the terminal is cut after a
//!    whole word, so never within an id, or left out. Elsewhere, and with `-o wide`, tables are whole.
//! 3. Colours appear only on a terminal, and are never the only sign.
//! 4. A CSV cell that a spreadsheet would take for a formula gets a leading apostrophe.

use std::borrow::Cow;
use std::io::{self, IsTerminal as _, Write};

use chrono::{DateTime, Utc};
use serde::Serialize;
use serde_json::Value;
use unicode_width::UnicodeWidthStr as _;

use super::args::{Format, Global};
use crate::domain::text;
use crate::system::config::Surroundings;

/// The properties of the standard streams, and what they can show.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Style {
    pub in_terminal: bool,
    pub out_terminal: bool,
    pub err_terminal: bool,
    /// Columns of the screen that a table must fit; none if nothing is to be cut.
    pub width: Option<usize>,
    pub colour: bool,
    pub ascii: bool,
}

impl Style {
    pub fn of_process(around: &Surroundings, global: &Global) -> Self {
        let out_terminal = io::stdout().is_terminal();
        let terminal = || {
            let size = rustix::termios::tcgetwinsize(io::stdout()).ok()?;
            out_terminal.then_some(usize::from(size.ws_col))
        };
        let width = around.columns.or_else(terminal).filter(|width| *width > 0);
        let dumb = around.term.as_deref() == Some("dumb");
        let utf8 = around.locale.as_deref().is_some_and(|locale| {
            let locale = locale.to_ascii_lowercase();
            locale.contains("utf-8") || locale.contains("utf8")
        });
        Self {
            in_terminal: io::stdin().is_terminal(),
            out_terminal,
            err_terminal: io::stderr().is_terminal(),
            width: width.filter(|_| global.output != Format::Wide),
            colour: out_terminal && !global.no_color && !around.no_color && !dumb,
            ascii: global.ascii || (out_terminal && !utf8),
        }
    }

    /// For tables of which nothing is cut, however narrow the screen is.
    #[must_use]
    pub fn whole(self) -> Self {
        Self {
            width: None,
            ..self
        }
    }

    /// Escapes a text of a cloud, so that it is safe to show.
    pub fn safe<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let safe = text::escape(text);
        if !self.ascii || safe.is_ascii() {
            return safe;
        }
        let ascii = |c: char| match c.is_ascii() {
            true => c.to_string(),
            false => c.escape_unicode().to_string(),
        };
        Cow::Owned(safe.chars().map(ascii).collect())
    }
}

/// Writes one line of text, escaped.
///
/// # Errors
/// The output cannot be written.
pub fn say(out: &mut dyn Write, style: Style, line: impl AsRef<str>) -> io::Result<()> {
    writeln!(out, "{}", style.safe(line.as_ref()))
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

/// A column of a list: its heading; its weight, by which the lightest are left out where the screen is too
/// narrow; and the text that a row shows below it, empty if there is nothing to say.
pub type Column<R> = (&'static str, u8, fn(&R, &ListContext) -> String);

/// Describes the columns of a list: for each its heading, its weight, and what it shows of a row.
macro_rules! columns {
    ($(#[$doc:meta])* $vis:vis $name:ident: $row:ty, |$it:ident, $list:ident|
     $($heading:literal $weight:literal => $cell:expr;)*) => {
        $(#[$doc])*
        $vis const $name: &[Column<$row>] = &[$(($heading, $weight, |$it, $list| {
            let _ = $list;
            ($cell).to_string()
        })),*];
    };
}
pub(super) use columns;

/// The facts that a cell may depend on beside its row.
#[derive(Clone, Copy, Debug, Default)]
pub struct ListContext {
    pub now: DateTime<Utc>,
    /// Number of last characters that tell the ids of the rows apart.
    pub id_length: usize,
}

/// Headings with their weights, and cells, as text. An empty cell means that there is nothing to say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sheet {
    headings: Vec<(String, u8)>,
    rows: Vec<Vec<String>>,
}

impl Sheet {
    pub fn new<H: Into<String>>(headings: impl IntoIterator<Item = (H, u8)>) -> Self {
        let headings = headings.into_iter();
        Self {
            headings: headings
                .map(|(heading, weight)| (heading.into(), weight))
                .collect(),
            rows: Vec::new(),
        }
    }

    pub fn of<'a, R: 'a>(
        columns: &[Column<R>],
        rows: impl IntoIterator<Item = &'a R>,
        context: &ListContext,
    ) -> Self {
        let mut sheet = Self::new(
            columns
                .iter()
                .map(|(heading, weight, _)| (*heading, *weight)),
        );
        for row in rows {
            sheet.push(columns.iter().map(|(_, _, cell)| cell(row, context)));
        }
        sheet
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
        Format::Table | Format::Wide => write_table(out, style, sheet),
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
        Format::Table | Format::Wide | Format::Csv | Format::Dot | Format::Mermaid => {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Columns of the screen that a cell of several words gets at least, if it has as many.
const WORDS_WIDTH_MIN: usize = 20;
/// Between two columns.
const GAP: usize = 2;

/// Writes a table: headings, columns two spaces apart, `-` for an empty cell. If it does not fit the screen,
/// cells are cut after a whole word; if that is not enough, the lightest columns are left out.
///
/// # Errors
/// The output cannot be written.
pub fn write_table(out: &mut dyn Write, style: Style, sheet: &Sheet) -> io::Result<()> {
    let cell = |text: &String| match text.as_str() {
        "" => "-".to_owned(),
        text => style.safe(text).into_owned(),
    };
    let headings = sheet
        .headings
        .iter()
        .map(|(heading, _)| heading.clone())
        .collect();
    let rows = sheet.rows.iter().map(|row| row.iter().map(cell).collect());
    let rows: Vec<Vec<String>> = std::iter::once(headings).chain(rows).collect();
    let widths = widths(sheet, &rows, style);
    for (line, row) in rows.iter().enumerate() {
        // The last cell of a line is not padded.
        let mut padding = 0;
        for ((text, width), (heading, _)) in row.iter().zip(&widths).zip(&sheet.headings) {
            let Some(width) = *width else { continue };
            let text = cut(text, width, style.ascii);
            let paint = match (style.colour, line, heading.as_str()) {
                (true, 0, _) => "1",
                (true, _, "STATE") => tone(&text),
                _ => "",
            };
            write!(out, "{:padding$}", "")?;
            match paint {
                "" => write!(out, "{text}")?,
                sgr => write!(out, "\u{1b}[{sgr}m{text}\u{1b}[0m")?,
            }
            padding = width.saturating_sub(text.width()) + GAP;
        }
        writeln!(out)?;
    }
    Ok(())
}

/// Returns the width of each column; none for those that are left out.
fn widths(sheet: &Sheet, rows: &[Vec<String>], style: Style) -> Vec<Option<usize>> {
    let widest = |column: usize, width: &dyn Fn(&str) -> usize| {
        let cells = rows.iter().filter_map(|row| row.get(column));
        cells.map(|text| width(text)).max().unwrap_or_default()
    };
    let columns = 0..sheet.headings.len();
    let whole: Vec<usize> = columns
        .clone()
        .map(|it| widest(it, &|text| text.width()))
        .collect();
    let Some(screen) = style.width else {
        return whole.into_iter().map(Some).collect();
    };
    let least: Vec<usize> = columns.clone().map(|it| widest(it, &least_width)).collect();
    let weight = |column: &usize| sheet.headings.get(*column).map(|(_, weight)| *weight);
    // The heaviest first; of equal ones the first.
    let mut kept: Vec<usize> = columns.clone().collect();
    kept.sort_by_key(|column| std::cmp::Reverse(weight(column)));
    let needed = |kept: &[usize]| {
        kept.iter()
            .map(|column| least[*column] + GAP)
            .sum::<usize>()
    };
    while kept.len() > 1 && needed(&kept) > screen + GAP {
        kept.pop();
    }
    let mut left = (screen + GAP).saturating_sub(needed(&kept));
    let mut widths = vec![None; columns.len()];
    for column in kept {
        let more = left.min(whole[column] - least[column]);
        left -= more;
        widths[column] = Some(least[column] + more);
    }
    widths
}

/// Returns the width below which a cell is not cut: that of its first word, with a mark behind it.
fn least_width(text: &str) -> usize {
    let width = text.width();
    let first = text.split(' ').next().unwrap_or_default().width();
    width.min(WORDS_WIDTH_MIN.max(first + 4))
}

/// Cuts to a display width, after a whole word, with a mark that something is missing.
fn cut(text: &str, width: usize, ascii: bool) -> Cow<'_, str> {
    if text.width() <= width {
        return Cow::Borrowed(text);
    }
    let mark = if ascii { " ..." } else { " …" };
    let ends = text.match_indices(' ').map(|(end, _)| &text[..end]);
    let fitting = ends.take_while(|start| start.width() + mark.width() <= width);
    Cow::Owned(fitting.last().unwrap_or_default().to_owned() + mark)
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
    writer.write_record(sheet.headings.iter().map(|(heading, _)| heading))?;
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

/// Writes one value as JSON, on several lines or on one.
///
/// # Errors
/// The output cannot be written.
pub fn write_json<T: Serialize>(
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
