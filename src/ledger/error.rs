//! Why a ledger cannot be opened, read or written.

use std::fmt::Display;

/// Why a request to a ledger failed. `name`: the ledger's path or URL.
#[derive(Clone, Debug, thiserror::Error)]
pub enum LedgerError {
    #[error(
        "the ledger {name} is held by another engine (pid {pid}); attach to it, or stop it first"
    )]
    Held {
        name: String,
        pid: u32,
        socket: Option<String>,
    },
    #[error(
        "the ledger {name} was written by a newer gone (schema {found}, this one knows {known}); use that version"
    )]
    Newer {
        name: String,
        found: i64,
        known: i64,
    },
    #[error(
        "the ledger {name} was written by an older gone (schema {found}, this one has {known}); start an engine of this version, which upgrades the ledger"
    )]
    Older {
        name: String,
        found: i64,
        known: i64,
    },
    #[error(
        "the ledger {name} is an unfinished copy; run the same `gone ledger migrate` again, with the version that \
         began it, or remove the copy"
    )]
    Unfinished { name: String },
    #[error("the ledger {name} is damaged: {detail}; restore a backup, or move the ledger away")]
    Corrupt { name: String, detail: String },
    #[error(
        "the ledger {name} is an empty file: it was cut, or never written; restore a backup, or remove the file to begin a new ledger"
    )]
    Empty { name: String },
    #[error(
        "{name} is not a ledger of gone; name the ledger's file with --ledger, or move this one \
         away"
    )]
    Foreign { name: String },
    /// Reading or writing failed, mostly because the disk or the server did. Nothing of a batch was written: the engine
    /// takes no new work, and retries every 5 s.
    #[error("cannot read or write the ledger {name}: {detail}")]
    Io { name: String, detail: String },
    #[error("cannot write the rows of the ledger to the output: {detail}")]
    Output { detail: String },
    #[error(
        "this program has opened the ledger {name} for reading only, so the change was not written"
    )]
    ReadOnly { name: String },
    #[error(
        "the cursor \"{cursor}\" was not returned by an earlier page; start again without a cursor"
    )]
    Cursor { cursor: String },
    #[error(
        "the ledger is closed: the engine is shutting down, or its writer failed (see the log)"
    )]
    Closed,
}

impl LedgerError {
    pub(super) fn io(name: impl Display, detail: impl Display) -> Self {
        Self::Io {
            name: name.to_string(),
            detail: detail.to_string(),
        }
    }
}
