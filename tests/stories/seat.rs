//! A person at a terminal, as large and as quick as the story is told.

use std::time::Duration;

use portable_pty::CommandBuilder;
use unicode_width::UnicodeWidthStr as _;

use super::stage::{DEADLINE, GONE, Stage, until};
use super::telling::Telling;
use super::terminal::Terminal;

/// How long "at rest" is looked at.
const REST: Duration = Duration::from_millis(600);

pub struct Seat {
    terminal: Terminal,
    telling: Telling,
}

impl Seat {
    pub fn take(stage: &Stage, arguments: &[&str]) -> Self {
        Self::take_with(stage, arguments, &[])
    }

    /// With more in the environment.
    pub fn take_with(stage: &Stage, arguments: &[&str], more: &[(&str, &str)]) -> Self {
        let Telling { columns, rows, .. } = stage.telling;
        let mut command = CommandBuilder::new(GONE);
        command.args(stage.arguments(arguments));
        command.env_clear();
        for (name, value) in stage.environment() {
            command.env(name, value);
        }
        for (name, value) in more {
            command.env(name, value);
        }
        command.cwd(stage.path(""));
        Self {
            terminal: Terminal::start(command, columns, rows),
            telling: stage.telling,
        }
    }

    pub fn resize(&mut self, columns: u16, rows: u16) {
        self.terminal.resize(columns, rows);
    }

    /// Until nothing has been written for a while: "at rest" is a length of time.
    pub fn quiet(&self) {
        until(
            "silence",
            || self.text(),
            || {
                let before = self.raw().len();
                std::thread::sleep(REST);
                (self.raw().len() == before).then_some(())
            },
        );
    }

    /// How many rows of the screen begin reversed.
    pub fn reversed_rows(&self) -> usize {
        self.terminal.read(|drawn| {
            let cell = |row| drawn.screen().cell(row, 0);
            let reversed = |row: &u16| cell(*row).is_some_and(vt100::Cell::inverse);
            (0..self.telling.rows).filter(reversed).count()
        })
    }

    pub fn press(&mut self, keys: &str) {
        std::thread::sleep(self.telling.pause);
        self.terminal.press(keys);
    }

    /// The screen, without the blanks at the ends of lines.
    pub fn text(&self) -> String {
        self.terminal.text()
    }

    /// The rows of the screen from the one that contains `heading` to the next rule, without it, and without the
    /// detail that a wide screen has beside them.
    pub fn rows_below(&self, heading: &str) -> Vec<String> {
        let text = self.text();
        let mut rows = text.lines().skip_while(|row| !row.contains(heading));
        let has_detail = rows.next().is_some_and(|row| row.contains('│'));
        // Where the detail is beside the rows, no rule is below them.
        let is_row = |row: &&str| match has_detail {
            true => row.contains('│'),
            false => !row.starts_with("────"),
        };
        let rows = rows.take_while(is_row);
        // A tree has such strokes, too, and the detail has none.
        let rows = rows.map(|row| match row.rsplit_once('│') {
            Some((list, _)) if has_detail => list,
            _ => row,
        });
        rows.filter(|row| !row.trim().is_empty())
            .map(str::to_owned)
            .collect()
    }

    /// In which column of the screen a text begins, for every row that has it.
    pub fn columns_of(&self, text: &str) -> Vec<u16> {
        let screen = self.terminal.read(|drawn| drawn.screen().clone());
        let cell = |row, column| screen.cell(row, column).map_or("", vt100::Cell::contents);
        let begins = |row: u16, column: u16| {
            (column..)
                .zip(text.chars())
                .all(|(column, c)| cell(row, column) == c.to_string())
        };
        let Telling { columns, rows, .. } = self.telling;
        (0..rows)
            .filter_map(|row| (0..columns).find(|column| begins(row, *column)))
            .collect()
    }

    pub fn wait(&self, what: &str, condition: impl Fn(&str) -> bool) {
        until(
            what,
            || self.text(),
            || condition(&self.text()).then_some(()),
        );
    }

    pub fn see(&self, text: &str) {
        self.wait(text, |screen| screen.contains(text));
    }

    /// The line of a question to type into: keys that come before it are dropped.
    pub fn see_asked(&self) {
        self.see("│ >");
    }

    /// All of these, on one screen. A sentence may be broken over lines, also in a box, and in the detail beside a
    /// list.
    pub fn see_all(&self, texts: &[&str]) {
        self.wait(&format!("{texts:?}"), |screen| {
            let flat = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
            let (rows, beside): (Vec<&str>, Vec<&str>) = screen
                .lines()
                .map(|line| line.split_once('│').unwrap_or((line, "")))
                .unzip();
            let seen = [
                flat(screen),
                flat(&self.boxed()),
                flat(&rows.join("\n")),
                flat(&beside.join("\n")),
            ];
            let is_seen = |text: &&str| seen.iter().any(|seen| seen.contains(text));
            texts.iter().all(is_seen)
        });
    }

    /// What stands in the box over the screen.
    fn boxed(&self) -> String {
        let screen = self.terminal.read(|drawn| drawn.screen().clone());
        let column_of = |row: &str, corner: &str| {
            let (before, _) = row.split_once(corner)?;
            u16::try_from(before.width()).ok()
        };
        let mut rows = screen.rows(0, self.telling.columns).zip(0u16..);
        let top = rows.find_map(|(row, y)| Some((y, column_of(&row, "┌")?, column_of(&row, "┐")?)));
        let Some((top, left, right)) = top else {
            return String::new();
        };
        let inside = screen.rows(left + 1, right - left - 1);
        let inside = inside.skip(usize::from(top) + 1);
        inside
            .take_while(|row| !row.starts_with('─'))
            .collect::<Vec<_>>()
            .join("\n")
    }

    /// Pages down until the text is seen. What is under the cursor stands below all rows, and so is
    /// written last.
    pub fn page_to(&mut self, text: &str) {
        let last = |screen: &str| {
            let strip = screen.rsplit_once("────").map(|(_, strip)| strip);
            strip.unwrap_or_default().to_owned()
        };
        while !self.text().contains(text) {
            let before = last(&self.text());
            self.press("\x1b[6~");
            self.wait(text, |screen| last(screen) != before);
        }
    }

    /// From a plan on to its typed confirmation. What is typed before keys are offered does not count.
    pub fn go_on(&mut self) {
        self.see("enter confirm…");
        self.press("\r");
        self.see_asked();
    }

    /// Goes to a pane or a kind by its word, and waits for its title.
    pub fn go(&mut self, word: &str, title: &str) {
        self.press(&format!(":{word}"));
        self.see(&format!(":{word}"));
        self.press("\r");
        self.see(&format!("── {title}"));
    }

    pub fn raw(&self) -> Vec<u8> {
        self.terminal.read(|drawn| drawn.raw.clone())
    }

    /// What was put into the clipboard last (OSC 52).
    pub fn clipboard(&self) -> Option<String> {
        use base64::Engine as _;
        let raw = String::from_utf8_lossy(&self.raw()).into_owned();
        let (_, last) = raw.rsplit_once("\x1b]52;c;")?;
        let (encoded, _) = last.split_once('\x07')?;
        let bytes = base64::engine::general_purpose::STANDARD.decode(encoded);
        Some(String::from_utf8(bytes.unwrap()).unwrap())
    }

    /// The line drops; returns when the program has ended.
    pub fn hang_up(&mut self) {
        self.terminal.hang_up();
        assert_eq!(self.ended(), 0);
    }

    /// The exit code, once the program has ended.
    pub fn ended(&mut self) -> u32 {
        self.terminal.ended(DEADLINE)
    }

    /// The program has ended well, and the terminal is as it was.
    pub fn left(&mut self) {
        assert_eq!(self.ended(), 0, "{}", self.text());
        let shown = || format!("{:?}", String::from_utf8_lossy(&self.raw()));
        until("terminal as it was", shown, || {
            self.terminal.is_given_back().then_some(())
        });
        self.terminal.assert_untouched();
    }
}
