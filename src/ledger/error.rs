//! Why a ledger cannot be opened, read or written.

#[derive(Clone, Debug, thiserror::Error)]
pub enum LedgerError {
    #[error(
        "the ledger {path} is held by another engine (pid {pid}); attach to it, or stop it first"
    )]
    Held {
        path: String,
        pid: u32,
        socket: Option<String>,
    },
    #[error(
        "the ledger {path} was written by a newer gone (schema {found}, this one knows {known}); use that version"
    )]
    Newer {
        path: String,
        found: i64,
        known: i64,
    },
    #[error("the ledger {path} is damaged: {detail}; restore a backup, or move it away")]
    Corrupt { path: String, detail: String },
    #[error(
        "the ledger {path} is an empty file: it was cut, or never written; restore a backup, or remove \
         it to begin anew"
    )]
    Empty { path: String },
    #[error(
        "{path} is not a ledger of gone; name the ledger's file with --ledger, or move this one \
         away"
    )]
    Foreign { path: String },
    /// Nothing of the batch was written. The engine takes no new work and retries every 5 s.
    #[error("cannot write the ledger {path}: {detail}")]
    Io { path: String, detail: String },
    #[error("the ledger {path} is open for reading only: another engine writes it")]
    ReadOnly { path: String },
    #[error("the cursor \"{cursor}\" is not one that a page gave; start again without it")]
    Cursor { cursor: String },
    #[error("the ledger's writer has ended")]
    Closed,
}
