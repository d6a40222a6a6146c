//! Why a ledger cannot be opened, read or written.

/// `name`: how the ledger is called, that is, its path or URL.
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
        "the ledger {name} was written by an older gone (schema {found}, this one has {known}); an engine of this \
         version brings it up when it opens it"
    )]
    Older {
        name: String,
        found: i64,
        known: i64,
    },
    #[error(
        "the ledger {name} is a copy that is not whole yet; run the same `gone ledger migrate` again, with the \
         version that began it, or remove it"
    )]
    Unfinished { name: String },
    #[error("the ledger {name} is damaged: {detail}; restore a backup, or move it away")]
    Corrupt { name: String, detail: String },
    #[error(
        "the ledger {name} is an empty file: it was cut, or never written; restore a backup, or remove \
         it to begin anew"
    )]
    Empty { name: String },
    #[error(
        "{name} is not a ledger of gone; name the ledger's file with --ledger, or move this one \
         away"
    )]
    Foreign { name: String },
    /// Nothing of the batch was written. The engine takes no new work and retries every 5 s.
    #[error("cannot write the ledger {name}: {detail}")]
    Io { name: String, detail: String },
    #[error("the ledger {name} is open for reading only: another engine writes it")]
    ReadOnly { name: String },
    #[error("the cursor \"{cursor}\" is not one that a page gave; start again without it")]
    Cursor { cursor: String },
    #[error("the ledger's writer has ended")]
    Closed,
}
