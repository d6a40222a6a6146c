//! The lock of a ledger: an operating-system lock on a file that names the process which holds it. The lock ends
//! with that process.

use std::fs::{self, File, TryLockError};
use std::io::{Read, Write};
use std::os::unix::fs::{FileExt, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::ledger::{Holder, LedgerError};
use crate::system::private::{self, Trusted};

/// Number of refusals after which the lock counts as held. A process that only checks the lock takes it, shared, for an
/// instant, so one refusal does not prove that an engine holds the lock. Before [`ASKED_MAX`] has passed, a refusal
/// counts only if the lock cannot be shared either.
const TRIES: u32 = 5;
const BETWEEN_TRIES: Duration = Duration::from_millis(10);
const ASKED_MAX: Duration = Duration::from_secs(5);

#[derive(Debug)]
pub(super) struct Lock {
    file: File,
}

impl Lock {
    pub(super) fn acquire(ledger: &Path) -> Result<Self, LedgerError> {
        let path = lock_path(ledger);
        let failed = |error: std::io::Error| LedgerError::io(path.display(), error);
        let file = private::open_or_create(&path).map_err(failed)?;
        let since = Instant::now();
        let mut tries = 0;
        while tries < TRIES {
            match file.try_lock() {
                Ok(()) => {
                    let lock = Self { file };
                    lock.write_holder(None).map_err(failed)?;
                    return Ok(lock);
                }
                Err(TryLockError::WouldBlock) => {
                    let only_asked = file.try_lock_shared().is_ok();
                    if only_asked {
                        file.unlock().map_err(failed)?;
                    }
                    if !only_asked || since.elapsed() >= ASKED_MAX {
                        tries += 1;
                    }
                    std::thread::sleep(BETWEEN_TRIES);
                }
                Err(TryLockError::Error(error)) => return Err(failed(error)),
            }
        }
        let holder = read(&file);
        Err(LedgerError::Held {
            name: ledger.display().to_string(),
            pid: holder.as_ref().map_or(0, |holder| holder.pid),
            socket: holder.and_then(|holder| holder.socket),
        })
    }

    pub(super) fn write_holder(&self, socket: Option<&str>) -> std::io::Result<()> {
        let text = serde_json::to_vec(&Holder {
            pid: std::process::id(),
            socket: socket.map(str::to_owned),
        })?;
        // The file is overwritten, then truncated: a reader sees the old text, or the new one, at worst with the
        // end of the old one behind it.
        self.file.write_all_at(&text, 0)?;
        self.file.set_len(text.len() as u64)
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        // Closing the file releases the lock. The file is emptied before, so that it no longer names this process.
        let _ = self.file.set_len(0);
        let _ = self.file.flush();
    }
}

/// Returns the process that holds this ledger now. None if no process has the lock, whatever the lock's file says. Also
/// none if the file cannot be read or names no process, or if somebody other than root, this user and the ledger's
/// owner could have written it: the socket in it could lead to a stranger.
pub fn holder(ledger: &Path) -> Option<Holder> {
    let trusted = match fs::metadata(ledger) {
        Ok(found) => Trusted::us().and(found.uid()),
        Err(_) => Trusted::us(),
    };
    let path = lock_path(ledger);
    private::check_way(&path, trusted).ok()?;
    let file = private::open(&path, trusted).ok()?;
    is_locked(&file).then(|| read(&file)).flatten()
}

/// Whether any process holds this ledger now.
pub(super) fn is_held(ledger: &Path) -> bool {
    File::open(lock_path(ledger)).is_ok_and(|file| is_locked(&file))
}

fn is_locked(file: &File) -> bool {
    match file.try_lock_shared() {
        Err(TryLockError::WouldBlock) => true,
        Ok(()) | Err(TryLockError::Error(_)) => false,
    }
}

fn read(file: &File) -> Option<Holder> {
    let mut text = String::new();
    let mut file = file;
    file.read_to_string(&mut text).ok()?;
    serde_json::Deserializer::from_str(&text)
        .into_iter()
        .next()?
        .ok()
}

/// Removes a ledger's file, its log with the log's index, and its key, unless a process holds the ledger. The lock file
/// stays. No engine can open the ledger meanwhile.
pub(in crate::ledger) fn remove_if_unused(ledger: &Path) -> Result<(), LedgerError> {
    let failed = |error: std::io::Error| LedgerError::io(ledger.display(), error);
    prepare_folder(ledger).map_err(failed)?;
    let _lock = match Lock::acquire(ledger) {
        Err(LedgerError::Held { .. }) => return Ok(()),
        lock => lock?,
    };
    for suffix in ["", "-wal", "-shm", ".key"] {
        remove(&beside(ledger, suffix)).map_err(failed)?;
    }
    Ok(())
}

fn lock_path(ledger: &Path) -> PathBuf {
    beside(ledger, ".lock")
}

/// Returns the path beside a file that has the file's name and this suffix.
pub(super) fn beside(ledger: &Path, suffix: &str) -> PathBuf {
    let mut path = ledger.as_os_str().to_owned();
    path.push(suffix);
    path.into()
}

/// Removes a file if there is one.
pub(super) fn remove(file: &Path) -> std::io::Result<()> {
    match fs::remove_file(file) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Creates the folder of a ledger if it is missing. The folder is private (0700), because a ledger names the
/// resources that people delete. A folder that exists already (`/tmp`) keeps its mode, but is refused if others
/// could replace our files in it.
pub(super) fn prepare_folder(ledger: &Path) -> std::io::Result<()> {
    use std::os::unix::fs::DirBuilderExt as _;
    private::check_way(ledger, Trusted::us())?;
    if let Some(folder) = ledger
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty())
    {
        fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(folder)?;
    }
    private::check_way(ledger, Trusted::us())
}

/// Makes the file of a ledger private. SQLite gives the ledger's log and the log's index the same mode.
pub(super) fn make_private(ledger: &Path) -> std::io::Result<()> {
    private::open_or_create(ledger).map(drop)
}
