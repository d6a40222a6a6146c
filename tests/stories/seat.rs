//! A person at a terminal, as large and as quick as the story is told.

use std::io::{Read, Write};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use portable_pty::{Child, CommandBuilder, MasterPty, PtySize, native_pty_system};
use unicode_width::UnicodeWidthStr as _;

use super::stage::{GONE, Stage, until};
use super::telling::Telling;
use super::terminal;

/// How long "at rest" is looked at.
const REST: Duration = Duration::from_millis(600);

pub struct Seat {
    master: Box<dyn MasterPty + Send>,
    keys: Box<dyn Write + Send>,
    child: Box<dyn Child + Send + Sync>,
    screen: Arc<Mutex<vt100::Parser>>,
    raw: Arc<Mutex<Vec<u8>>>,
    before: String,
    telling: Telling,
}

impl Seat {
    pub fn take(stage: &Stage, arguments: &[&str]) -> Self {
        Self::take_with(stage, arguments, &[])
    }

    /// With more in the environment.
    pub fn take_with(stage: &Stage, arguments: &[&str], more: &[(&str, &str)]) -> Self {
        let Telling { columns, rows, .. } = stage.telling;
        let size = PtySize {
            rows,
            cols: columns,
            pixel_width: 0,
            pixel_height: 0,
        };
        let pair = native_pty_system().openpty(size).unwrap();
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
        let before = format!("{:?}", pair.master.get_termios().unwrap());
        let child = pair.slave.spawn_command(command).unwrap();
        drop(pair.slave);
        let screen = Arc::new(Mutex::new(vt100::Parser::new(rows, columns, 0)));
        let raw = Arc::new(Mutex::new(Vec::new()));
        let mut reader = pair.master.try_clone_reader().unwrap();
        let (to_screen, to_raw) = (screen.clone(), raw.clone());
        std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(n @ 1..) = reader.read(&mut buffer) {
                to_screen.lock().unwrap().process(&buffer[..n]);
                to_raw.lock().unwrap().extend_from_slice(&buffer[..n]);
            }
        });
        let keys = pair.master.take_writer().unwrap();
        Self {
            master: pair.master,
            keys,
            child,
            screen,
            raw,
            before,
            telling: stage.telling,
        }
    }

    pub fn resize(&mut self, columns: u16, rows: u16) {
        let size = PtySize {
            rows,
            cols: columns,
            pixel_width: 0,
            pixel_height: 0,
        };
        self.screen
            .lock()
            .unwrap()
            .screen_mut()
            .set_size(rows, columns);
        self.master.resize(size).unwrap();
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
        let parser = self.screen.lock().unwrap();
        let cell = |row| parser.screen().cell(row, 0);
        let reversed = |row: &u16| cell(*row).is_some_and(vt100::Cell::inverse);
        (0..self.telling.rows).filter(reversed).count()
    }

    pub fn press(&mut self, keys: &str) {
        std::thread::sleep(self.telling.pause);
        self.keys.write_all(keys.as_bytes()).unwrap();
        self.keys.flush().unwrap();
    }

    /// The screen, without the blanks at the ends of lines.
    pub fn text(&self) -> String {
        self.screen.lock().unwrap().screen().contents()
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
        let parser = self.screen.lock().unwrap();
        let screen = parser.screen();
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
        let parser = self.screen.lock().unwrap();
        let screen = parser.screen();
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
        self.raw.lock().unwrap().clone()
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

    pub fn assert_title_untouched(&self) {
        let raw = self.raw();
        for start in [b"\x1b]0", b"\x1b]1", b"\x1b]2"] {
            assert!(!raw.windows(3).any(|bytes| bytes == start));
        }
    }

    /// The line drops; returns when the program has ended. As sshd does it: this end of the terminal is
    /// still held by its reader.
    pub fn hang_up(&mut self) {
        terminal::hang_up(&mut self.child);
        assert_eq!(self.ended(), 0);
    }

    /// The exit code, once the program has ended.
    pub fn ended(&mut self) -> u32 {
        let child = std::cell::RefCell::new(&mut self.child);
        let screen = &self.screen;
        let told = || screen.lock().unwrap().screen().contents();
        let status = until("end of the program", told, || {
            child.borrow_mut().try_wait().unwrap()
        });
        status.exit_code()
    }

    /// The program has ended well, and the terminal is as it was.
    pub fn left(&mut self) {
        assert_eq!(self.ended(), 0, "{}", self.text());
        let screen = self.screen.clone();
        let shown = || format!("{:?}", String::from_utf8_lossy(&self.raw()));
        until("terminal as it was", shown, || {
            let parser = screen.lock().unwrap();
            let screen = parser.screen();
            let is_back =
                !screen.alternate_screen() && !screen.hide_cursor() && !screen.bracketed_paste();
            is_back.then_some(())
        });
        let after = format!("{:?}", self.master.get_termios().unwrap());
        assert_eq!(after, self.before);
        self.assert_title_untouched();
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        terminal::end(&mut self.child);
    }
}
