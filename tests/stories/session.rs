//! The program on a terminal. The variation sets the size of the terminal and the speed of the user.

use std::time::Duration;

use portable_pty::CommandBuilder;
use unicode_width::UnicodeWidthStr as _;

use super::home::{DEADLINE, GONE, Home, until};
use super::terminal::Terminal;
use super::variation::Variation;

/// How long the program must write nothing to count as silent.
const REST: Duration = Duration::from_millis(600);

/// A program that runs on a terminal, and its user.
pub struct Session {
    terminal: Terminal,
    variation: Variation,
}

impl Session {
    pub fn start(home: &Home, arguments: &[&str]) -> Self {
        Self::start_with_env(home, arguments, &[])
    }

    /// Starts the program with more environment variables.
    pub fn start_with_env(home: &Home, arguments: &[&str], more: &[(&str, &str)]) -> Self {
        let Variation { columns, rows, .. } = home.variation;
        let mut command = CommandBuilder::new(GONE);
        command.args(home.arguments(arguments));
        command.env_clear();
        for (name, value) in home.environment() {
            command.env(name, value);
        }
        for (name, value) in more {
            command.env(name, value);
        }
        command.cwd(home.path(""));
        Self {
            terminal: Terminal::start(command, columns, rows),
            variation: home.variation,
        }
    }

    pub fn resize(&mut self, columns: u16, rows: u16) {
        self.terminal.resize(columns, rows);
    }

    /// Waits until the program has written nothing for [`REST`].
    pub fn wait_for_silence(&self) {
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

    /// Number of screen rows whose first cell is in reverse video.
    pub fn reversed_rows(&self) -> usize {
        self.terminal.read(|drawn| {
            let cell = |row| drawn.screen().cell(row, 0);
            let reversed = |row: &u16| cell(*row).is_some_and(vt100::Cell::inverse);
            (0..self.variation.rows).filter(reversed).count()
        })
    }

    /// Types these keys, after the pause of the variation.
    pub fn press(&mut self, keys: &str) {
        std::thread::sleep(self.variation.pause);
        self.terminal.press(keys);
    }

    /// The text of the screen, without empty cells at the ends of its lines, and without empty lines at its end.
    pub fn text(&self) -> String {
        self.terminal.text()
    }

    /// The rows of the screen between the one that contains `heading` and the next horizontal line, without the details
    /// that a wide screen shows beside them.
    pub fn rows_below(&self, heading: &str) -> Vec<String> {
        let text = self.text();
        let mut rows = text.lines().skip_while(|row| !row.contains(heading));
        let has_detail = rows.next().is_some_and(|row| row.contains('│'));
        // If the details are beside the rows, no horizontal line is below the rows.
        let is_row = |row: &&str| match has_detail {
            true => row.contains('│'),
            false => !row.starts_with("────"),
        };
        let rows = rows.take_while(is_row);
        // The details contain no `│`, but a tree among the rows may, so the last `│` of a line ends its row.
        let rows = rows.map(|row| match row.rsplit_once('│') {
            Some((list, _)) if has_detail => list,
            _ => row,
        });
        rows.filter(|row| !row.trim().is_empty())
            .map(str::to_owned)
            .collect()
    }

    /// For every row that contains the text, the column of the screen at which the text begins.
    pub fn columns_of(&self, text: &str) -> Vec<u16> {
        let screen = self.terminal.read(|drawn| drawn.screen().clone());
        let cell = |row, column| screen.cell(row, column).map_or("", vt100::Cell::contents);
        let begins = |row: u16, column: u16| {
            (column..)
                .zip(text.chars())
                .all(|(column, c)| cell(row, column) == c.to_string())
        };
        let Variation { columns, rows, .. } = self.variation;
        (0..rows)
            .filter_map(|row| (0..columns).find(|column| begins(row, *column)))
            .collect()
    }

    /// Waits until the text of the screen meets the condition. `what` names the awaited event in the failure.
    pub fn wait_until(&self, what: &str, condition: impl Fn(&str) -> bool) {
        until(
            what,
            || self.text(),
            || condition(&self.text()).then_some(()),
        );
    }

    /// Waits until the screen contains this text.
    pub fn wait_for(&self, text: &str) {
        self.wait_until(text, |screen| screen.contains(text));
    }

    /// Waits for the input line of a question. The console drops keys that are typed before it is shown.
    pub fn wait_for_prompt(&self) {
        self.wait_for("│ >");
    }

    /// Waits until one screen contains all these texts. A text may be broken over several lines, also in a dialog and
    /// in the details beside a list.
    pub fn wait_for_all(&self, texts: &[&str]) {
        self.wait_until(&format!("{texts:?}"), |screen| {
            let flat = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
            let (rows, beside): (Vec<&str>, Vec<&str>) = screen
                .lines()
                .map(|line| line.split_once('│').unwrap_or((line, "")))
                .unzip();
            let shown = [
                flat(screen),
                flat(&self.dialog_text()),
                flat(&rows.join("\n")),
                flat(&beside.join("\n")),
            ];
            let is_shown = |text: &&str| shown.iter().any(|part| part.contains(text));
            texts.iter().all(is_shown)
        });
    }

    /// The text of the dialog over the screen; empty without a dialog.
    fn dialog_text(&self) -> String {
        let screen = self.terminal.read(|drawn| drawn.screen().clone());
        let column_of = |row: &str, corner: &str| {
            let (before, _) = row.split_once(corner)?;
            u16::try_from(before.width()).ok()
        };
        let mut rows = screen.rows(0, self.variation.columns).zip(0u16..);
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

    /// Pages down until the screen contains the text. The details of the row under the cursor are written last, so
    /// their change shows that a page is complete.
    pub fn page_down_to(&mut self, text: &str) {
        let details = |screen: &str| {
            let below = screen.rsplit_once("────").map(|(_, below)| below);
            below.unwrap_or_default().to_owned()
        };
        while !self.text().contains(text) {
            let before = details(&self.text());
            self.press("\x1b[6~");
            self.wait_until(text, |screen| details(screen) != before);
        }
    }

    /// From a plan, opens the dialog for the typed confirmation. The console drops keys that are typed before it is
    /// shown.
    pub fn open_confirmation(&mut self) {
        self.wait_for("enter confirm…");
        self.press("\r");
        self.wait_for_prompt();
    }

    /// Opens a pane or the list of a kind by its command, and waits for its title.
    pub fn open(&mut self, word: &str, title: &str) {
        self.press(&format!(":{word}"));
        self.wait_for(&format!(":{word}"));
        self.press("\r");
        self.wait_for(&format!("── {title}"));
    }

    /// All bytes that the program has written.
    pub fn raw(&self) -> Vec<u8> {
        self.terminal.read(|drawn| drawn.raw.clone())
    }

    /// The text that the program put into the clipboard last (OSC 52).
    pub fn clipboard(&self) -> Option<String> {
        use base64::Engine as _;
        let raw = String::from_utf8_lossy(&self.raw()).into_owned();
        let (_, last) = raw.rsplit_once("\x1b]52;c;")?;
        let (encoded, _) = last.split_once('\x07')?;
        let bytes = base64::engine::general_purpose::STANDARD.decode(encoded);
        Some(String::from_utf8(bytes.unwrap()).unwrap())
    }

    /// Sends SIGHUP, as a dropped line does, and waits until the program has ended with exit code 0.
    pub fn hang_up(&mut self) {
        self.terminal.hang_up();
        assert_eq!(self.exit_code(), 0);
    }

    /// Waits until the program has ended, and returns its exit code.
    pub fn exit_code(&mut self) -> u32 {
        self.terminal.wait_for_exit(DEADLINE)
    }

    /// Quits the console, and asserts that it ends well.
    pub fn quit(&mut self) {
        self.press("q");
        self.assert_clean_exit();
    }

    /// Waits until the program has ended with exit code 0, and asserts that the terminal is in its initial state.
    pub fn assert_clean_exit(&mut self) {
        assert_eq!(self.exit_code(), 0, "{}", self.text());
        let shown = || format!("{:?}", String::from_utf8_lossy(&self.raw()));
        until("terminal in its initial state", shown, || {
            self.terminal.is_given_back().then_some(())
        });
        self.terminal.assert_untouched();
    }
}
