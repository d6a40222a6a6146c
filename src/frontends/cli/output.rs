//! Writes results: as a table, or the same rows as JSON, JSON lines, YAML or CSV.
//!
//! 1. Names from clouds are hostile: in tables, CSV and YAML they are escaped visibly
//!    ([`text::escape`]); in JSON they are kept, but characters that a terminal acts on become `\uXXXX`.
//! 2. Columns align by display width, and rows never wrap: a cell that is too wide for the terminal, or for `COLUMNS`,
//!    is cut after a whole word, so never within an id, or its column is left out. With `-o wide`, and without a width,
//!    tables are whole.
//! 3. Colours appear only on a terminal, and are never the only sign.
//! 4. A CSV cell that a spreadsheet would take for a formula gets a leading apostrophe.

use std::borrow::Cow;
use std::io::{self, IsTerminal as _, Write};

use serde::Serialize;
use unicode_width::UnicodeWidthStr as _;

use super::args::{Format, Global};
use crate::domain::text;
use crate::present::{self, Column, Sheet};
use crate::system::config::Surroundings;

/// The properties of the standard streams, and what they can show.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Style {
    pub in_terminal: bool,
    pub out_terminal: bool,
    pub err_terminal: bool,
    /// Columns of the screen that a table must fit; none if nothing is cut.
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
            width,
            colour: out_terminal && !global.no_color && !around.no_color && !dumb,
            ascii: global.ascii || (out_terminal && !utf8),
        }
    }

    /// Escapes a text, so that it is safe to show; with `ascii`, also every character that is not ASCII.
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

    /// A text in quotation marks, for Graphviz.
    pub(super) fn dot(&self, text: &str) -> String {
        let safe = self.safe(text);
        format!("\"{}\"", safe.replace('\\', "\\\\").replace('"', "\\\""))
    }

    /// A text for Mermaid, which takes entity codes between # and ; and knows no other escape.
    pub(super) fn mermaid(&self, text: &str) -> String {
        let safe = self.safe(text);
        let safe = safe.replace('#', "#35;").replace('"', "#quot;");
        safe.replace('<', "#lt;").replace('>', "#gt;")
    }
}

/// A writer whose reader may leave (`gone list | head`): later output is dropped without an error.
pub struct Tolerant<W>(pub W);

fn forgive<T>(written: io::Result<T>, instead: T) -> io::Result<T> {
    match written {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(instead),
        other => other,
    }
}

impl<W: Write> Write for Tolerant<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        forgive(self.0.write(bytes), bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        forgive(self.0.flush(), ())
    }
}

/// Writes to one stream, in the format that was asked for.
pub struct Printer<'a> {
    pub stream: &'a mut dyn Write,
    pub style: Style,
    pub format: Format,
}

/// Every method that writes fails if the stream cannot be written.
impl<'a> Printer<'a> {
    pub fn new(stream: &'a mut dyn Write, style: Style, format: Format) -> Self {
        Self {
            stream,
            style,
            format,
        }
    }

    /// Returns a printer that writes to the same stream in another format.
    pub(super) fn formatted(&mut self, format: Format) -> Printer<'_> {
        Printer::new(self.stream, self.style, format)
    }

    /// Writes one line of text, escaped.
    pub fn say(&mut self, line: impl AsRef<str>) -> io::Result<()> {
        writeln!(self.stream, "{}", self.style.safe(line.as_ref()))
    }

    /// Writes lines of text below a title, after an empty line; nothing if there are none.
    pub fn section<L: AsRef<str>>(
        &mut self,
        title: &str,
        lines: impl IntoIterator<Item = L>,
    ) -> io::Result<()> {
        for (at, line) in lines.into_iter().enumerate() {
            if at == 0 {
                self.title(title)?;
            }
            self.say(format!("  {}", line.as_ref()))?;
        }
        Ok(())
    }

    /// Writes an empty line, and a title unless it is empty.
    pub fn title(&mut self, title: &str) -> io::Result<()> {
        self.say("")?;
        match title {
            "" => Ok(()),
            title => self.say(title),
        }
    }

    /// Writes rows, of which these columns are shown in tables and CSV.
    pub fn list<R: Serialize>(&mut self, columns: &[Column<R>], rows: &[R]) -> io::Result<()> {
        self.rows(&Sheet::of(columns, rows), rows)
    }

    /// Writes rows: `sheet` for tables and CSV, `values` for JSON and YAML. Fails for the formats that draw.
    pub fn rows<T: Serialize>(&mut self, sheet: &Sheet, values: &[T]) -> io::Result<()> {
        match self.format {
            Format::Table | Format::Wide => self.table(sheet),
            Format::Csv => self.csv(sheet),
            Format::Jsonl => values.iter().try_for_each(|value| self.json(value, false)),
            Format::Json | Format::Yaml => self.value(&values).map(drop),
            Format::Dot | Format::Mermaid | Format::Svg => {
                Err(io::Error::other("this format draws plans and trees only"))
            }
        }
    }

    /// Writes one value as JSON (`jsonl`: on one line) or YAML; false for the other formats.
    pub fn value<T: Serialize>(&mut self, value: &T) -> io::Result<bool> {
        match self.format {
            Format::Json => self.json(value, true)?,
            Format::Jsonl => self.json(value, false)?,
            Format::Yaml => self.yaml(value)?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Writes one value as JSON or YAML. Calls `csv` to write CSV, and `people` for any other format.
    pub(super) fn report<T: Serialize>(
        &mut self,
        value: &T,
        csv: impl FnOnce(&mut Self) -> io::Result<()>,
        people: impl FnOnce(&mut Self) -> io::Result<()>,
    ) -> io::Result<()> {
        match self.value(value)? {
            true => Ok(()),
            false if self.format == Format::Csv => csv(self),
            false => people(self),
        }
    }

    /// Writes a table: headings, columns two spaces apart, `-` for an empty cell. If it does not fit the
    /// screen, cells are cut after a whole word; if that is not enough, the lightest columns are left out.
    pub fn table(&mut self, sheet: &Sheet) -> io::Result<()> {
        let style = self.style;
        let cell = |text: &String| match text.as_str() {
            "" => "-".to_owned(),
            text => style.safe(text).into_owned(),
        };
        let headings = sheet.headings().map(str::to_owned).collect();
        let rows = sheet.rows().iter();
        let rows = rows.map(|row| row.iter().map(cell).collect());
        let rows: Vec<Vec<String>> = std::iter::once(headings).chain(rows).collect();
        let screen = style.width.filter(|_| self.format != Format::Wide);
        let widths = widths(sheet, &rows, screen);
        for (line, row) in rows.iter().enumerate() {
            // The last cell of a line is not padded.
            let mut padding = 0;
            for ((text, width), heading) in row.iter().zip(&widths).zip(sheet.headings()) {
                let Some(width) = *width else { continue };
                let text = cut(text, width, style.ascii);
                let paint = match (style.colour, line, heading) {
                    (true, 0, _) => "1",
                    (true, _, "STATE") => tone(&text),
                    _ => "",
                };
                write!(self.stream, "{:padding$}", "")?;
                match paint {
                    "" => write!(self.stream, "{text}")?,
                    sgr => write!(self.stream, "\u{1b}[{sgr}m{text}\u{1b}[0m")?,
                }
                padding = width.saturating_sub(text.width()) + GAP;
            }
            writeln!(self.stream)?;
        }
        Ok(())
    }

    fn csv(&mut self, sheet: &Sheet) -> io::Result<()> {
        let mut writer = csv::Writer::from_writer(&mut *self.stream);
        writer.write_record(sheet.headings())?;
        for row in sheet.rows() {
            writer.write_record(row.iter().map(|cell| neutral(cell, self.style)))?;
        }
        writer.flush()
    }

    /// Writes one value as JSON, on several lines or on one.
    pub fn json<T: Serialize>(&mut self, value: &T, pretty: bool) -> io::Result<()> {
        let json = match pretty {
            true => serde_json::to_string_pretty(value)?,
            false => serde_json::to_string(value)?,
        };
        writeln!(self.stream, "{}", text::inert_json(&json, self.style.ascii))
    }

    fn yaml<T: Serialize>(&mut self, value: &T) -> io::Result<()> {
        let yaml = present::yaml(value, |text| self.style.safe(text)).map_err(io::Error::other)?;
        writeln!(self.stream, "{}", yaml.trim_end())
    }
}

/// Smallest width to which a cell of several words is cut.
const WORDS_WIDTH_MIN: usize = 20;
/// A column of this weight or less is shown only if no heavier column must be cut below [`WORDS_WIDTH`] to make room
/// for it.
const LIGHT: u8 = 4;
/// Width up to which a cell of several words is worth more than a light column.
const WORDS_WIDTH: usize = 50;
/// Number of blanks between two columns.
const GAP: usize = 2;

/// Returns the width of each column on a screen of this width; none for those that are left out.
fn widths(sheet: &Sheet, rows: &[Vec<String>], screen: Option<usize>) -> Vec<Option<usize>> {
    // Each column's index, its whole width, and its least width.
    let columns = sheet.headings().enumerate().map(|(column, _)| {
        let cells = || rows.iter().filter_map(|row| row.get(column));
        let whole = cells().map(|text| text.width()).max();
        let least = cells().map(|text| least_width(text)).max();
        (column, whole.unwrap_or_default(), least.unwrap_or_default())
    });
    let mut columns: Vec<(usize, usize, usize)> = columns.collect();
    let Some(screen) = screen.map(|screen| screen + GAP) else {
        return columns.into_iter().map(|column| Some(column.1)).collect();
    };
    let mut widths = vec![None; columns.len()];
    // The heaviest columns come first; among columns of equal weight, the leftmost. One column is always kept.
    columns.sort_by_key(|(column, ..)| std::cmp::Reverse(sheet.weight(*column)));
    let (mut needed, mut readable) = (0, 0);
    columns.retain(|(column, whole, least)| {
        let taken = match sheet.weight(*column) <= LIGHT {
            true => readable,
            false => needed,
        };
        let fits = needed == 0 || taken + least + GAP <= screen;
        if fits {
            needed += least + GAP;
            readable += least.max(whole.min(&WORDS_WIDTH)) + GAP;
        }
        fits
    });
    for (column, whole, least) in columns {
        let width = whole.min(least + screen.saturating_sub(needed));
        needed += width - least;
        widths[column] = Some(width);
    }
    widths
}

/// Returns the width below which a cell is not cut: that of its first word with the mark of a cut, but at least
/// [`WORDS_WIDTH_MIN`], and at most its own width.
fn least_width(text: &str) -> usize {
    let width = text.width();
    let first = text.split(' ').next().unwrap_or_default().width();
    width.min(WORDS_WIDTH_MIN.max(first + 4))
}

/// Cuts a text to a display width, after a whole word, and adds a mark that something is missing.
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

fn neutral(cell: &str, style: Style) -> String {
    let safe = style.safe(cell);
    match cell.starts_with(['=', '+', '-', '@', '\t', '\r']) {
        true => format!("'{safe}"),
        false => safe.into_owned(),
    }
}
