//! Who owns a ledger: a lock of the operating system, which ends with the process that holds it,
//! on a file that says who that is.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{Read, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::ledger::LedgerError;

/// What the lock file says; consoles find the engine by it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Owner {
    pub pid: u32,
    /// Where its API listens; none until it does.
    pub socket: Option<String>,
}

/// A console that asks whether the lock is held takes it, shared, for an instant: one refusal is no
/// proof of an owner, and while it can be shared there is none, on a busy machine for longer.
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
        let failed = |error: std::io::Error| LedgerError::Io {
            path: path.display().to_string(),
            detail: error.to_string(),
        };
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(&path)
            .map_err(failed)?;
        let since = Instant::now();
        let mut tries = 0;
        while tries < TRIES {
            match file.try_lock() {
                Ok(()) => {
                    let lock = Self { file };
                    lock.say(None).map_err(failed)?;
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
        let owner = read(&path);
        Err(LedgerError::Held {
            path: ledger.display().to_string(),
            pid: owner.as_ref().map_or(0, |owner| owner.pid),
            socket: owner.and_then(|owner| owner.socket),
        })
    }

    pub(super) fn say(&self, socket: Option<&str>) -> std::io::Result<()> {
        let text = serde_json::to_vec(&Owner {
            pid: std::process::id(),
            socket: socket.map(str::to_owned),
        })?;
        // Written over, then cut: a reader meets the old text or the new one, at worst with a tail.
        self.file.write_all_at(&text, 0)?;
        self.file.set_len(text.len() as u64)
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        // The lock goes with the file; an empty file only says so sooner.
        let _ = self.file.set_len(0);
        let _ = self.file.flush();
    }
}

/// The engine that owns this ledger now; none if none does, whatever the file says.
pub fn owner(ledger: &Path) -> Option<Owner> {
    let path = lock_path(ledger);
    match File::open(&path).ok()?.try_lock_shared() {
        Err(TryLockError::WouldBlock) => read(&path),
        Ok(()) | Err(TryLockError::Error(_)) => None,
    }
}

fn read(path: &Path) -> Option<Owner> {
    let mut text = String::new();
    File::open(path).ok()?.read_to_string(&mut text).ok()?;
    serde_json::Deserializer::from_str(&text)
        .into_iter()
        .next()?
        .ok()
}

fn lock_path(ledger: &Path) -> PathBuf {
    let mut path = ledger.as_os_str().to_owned();
    path.push(".lock");
    path.into()
}

/// Ledgers name what people delete: the folder is made private, the file too (0700, 0600).
pub(super) fn make_private(ledger: &Path) -> std::io::Result<()> {
    use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
    if let Some(folder) = ledger
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty())
    {
        // A folder that stands already (`/tmp`) is not ours to close.
        fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(folder)?;
    }
    let file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(ledger)?;
    // SQLite gives the log and the index beside it the same mode.
    file.set_permissions(fs::Permissions::from_mode(0o600))
}
