//! Runs the program on a pseudo terminal: types keys, reads the screen, and checks the terminal's state afterwards.

use std::io::{Read as _, Write};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use portable_pty::{Child, CommandBuilder, MasterPty, PtySize, native_pty_system};
use rustix::process::{Pid, Signal, kill_process};

pub type Program = Box<dyn Child + Send + Sync>;

/// A program and its pseudo terminal. The program is killed when this value is dropped.
pub struct Terminal {
    /// The master side of the terminal and its writer; None after [`Self::close`].
    master: Option<(Box<dyn MasterPty + Send>, Box<dyn Write + Send>)>,
    pub program: Program,
    drawn: Arc<Mutex<Drawn>>,
    /// The modes of the terminal before the program started.
    modes: String,
}

/// The output of the program so far.
pub struct Drawn {
    parser: vt100::Parser,
    pub raw: Vec<u8>,
    /// Time of the program's last output.
    pub at: Instant,
}

impl Drawn {
    pub fn screen(&self) -> &vt100::Screen {
        self.parser.screen()
    }
}

fn size(columns: u16, rows: u16) -> PtySize {
    PtySize {
        rows,
        cols: columns,
        pixel_width: 0,
        pixel_height: 0,
    }
}

impl Terminal {
    pub fn start(command: CommandBuilder, columns: u16, rows: u16) -> Self {
        let pair = native_pty_system().openpty(size(columns, rows)).unwrap();
        let modes = format!("{:?}", pair.master.get_termios().unwrap());
        let program = pair.slave.spawn_command(command).unwrap();
        drop(pair.slave);
        let drawn = Arc::new(Mutex::new(Drawn {
            parser: vt100::Parser::new(rows, columns, 0),
            raw: Vec::new(),
            at: Instant::now(),
        }));
        let mut reader = pair.master.try_clone_reader().unwrap();
        let written = drawn.clone();
        std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(n @ 1..) = reader.read(&mut buffer) {
                let mut written = written.lock().unwrap();
                written.parser.process(&buffer[..n]);
                written.raw.extend_from_slice(&buffer[..n]);
                written.at = Instant::now();
            }
        });
        let keys = pair.master.take_writer().unwrap();
        Self {
            master: Some((pair.master, keys)),
            program,
            drawn,
            modes,
        }
    }

    pub fn press(&mut self, keys: &str) {
        let (_, writer) = self.master.as_mut().unwrap();
        writer.write_all(keys.as_bytes()).unwrap();
        writer.flush().unwrap();
    }

    pub fn read<T>(&self, read: impl FnOnce(&Drawn) -> T) -> T {
        read(&self.drawn.lock().unwrap())
    }

    /// Returns the text of the screen, without empty cells at the ends of its lines, and without empty lines at its end.
    pub fn text(&self) -> String {
        self.read(|drawn| drawn.screen().contents())
    }

    pub fn resize(&mut self, columns: u16, rows: u16) {
        let mut drawn = self.drawn.lock().unwrap();
        drawn.parser.screen_mut().set_size(rows, columns);
        self.report_size(columns, rows);
    }

    /// Reports this size to the program, and leaves the size of the screen here unchanged.
    pub fn report_size(&self, columns: u16, rows: u16) {
        let (master, _) = self.master.as_ref().unwrap();
        master.resize(size(columns, rows)).unwrap();
    }

    /// Sends SIGHUP, as sshd does when the line drops. The terminal stays open, because its reader is not closed.
    pub fn hang_up(&mut self) {
        hang_up(&mut self.program);
    }

    /// Closes the master side and its writer, but not the reader. The writer types a line feed and ctrl-d when it
    /// is dropped.
    pub fn close(&mut self) {
        self.master = None;
    }

    /// Waits until the program has ended, and returns its exit code.
    #[track_caller]
    pub fn wait_for_exit(&mut self, limit: Duration) -> u32 {
        let since = Instant::now();
        loop {
            if let Some(status) = self.program.try_wait().unwrap() {
                return status.exit_code();
            }
            assert!(
                since.elapsed() < limit,
                "the program does not end:\n{}",
                self.text()
            );
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Whether the shell's screen is shown again, with its cursor, without bracketed paste and without the mouse.
    pub fn is_given_back(&self) -> bool {
        self.read(|drawn| {
            let screen = drawn.screen();
            let mouse = screen.mouse_protocol_mode();
            !screen.alternate_screen()
                && !screen.hide_cursor()
                && !screen.bracketed_paste()
                && mouse == vt100::MouseProtocolMode::None
        })
    }

    /// Asserts that the terminal has the modes from before the start, and that its title was never set.
    #[track_caller]
    pub fn assert_untouched(&self) {
        let (master, _) = self.master.as_ref().unwrap();
        assert_eq!(format!("{:?}", master.get_termios().unwrap()), self.modes);
        let titles: [&[u8]; 3] = [b"\x1b]0", b"\x1b]1", b"\x1b]2"];
        let is_titled = |drawn: &Drawn| drawn.raw.windows(3).any(|bytes| titles.contains(&bytes));
        assert!(!self.read(is_titled), "the title was set");
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        end(&mut self.program);
    }
}

/// Sends SIGHUP to a program, as sshd does when the line drops.
pub fn hang_up(program: &mut Program) {
    send(program, Signal::HUP);
}

/// Kills a program and waits until it has ended. `Child::kill` is not used, because it sends SIGHUP first: on SIGHUP a
/// console leaves an engine behind.
pub fn end(program: &mut Program) {
    send(program, Signal::KILL);
    let _ = program.wait();
}

/// Sends a signal, unless the program has ended: another process may have its process id then.
fn send(program: &mut Program, signal: Signal) {
    let pid = program.process_id().and_then(|pid| i32::try_from(pid).ok());
    if let (Ok(None), Some(pid)) = (program.try_wait(), pid.and_then(Pid::from_raw)) {
        let _ = kill_process(pid, signal);
    }
}
