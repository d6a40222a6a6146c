//! The seal of the audit: the length and the end of its chain, signed with a key that is not in the ledger.
//!
//! The chain alone ([`crate::ledger::audit`]) shows rows that were changed, but not rows that were cut
//! from its end, and whoever writes the whole table anew can compute all its hashes. So the ledger keeps
//! one more row, `audit_seal`: the chain's length, its last hash, and an HMAC-SHA256 over both and the
//! ledger's id. The key lies beside the ledger (`ledger.db.key`, 0600) and not in it.
//!
//! 1. The seal advances in the transaction of each row that is added, so a crash leaves the row and the new seal,
//!    or neither.
//! 2. The seal advances only from a last row that it confirms. After rows were cut from the end, or the last one was
//!    changed, the seal stays as it is, whatever is added later, so the damage is found also after the engine has
//!    written more rows.
//! 3. A ledger is first sealed when its key is made; then the key's file says so. A ledger without a seal beside such a
//!    key has lost the seal.
//!
//! **What the seal shows, and what it does not.** It shows every change by anything that does not use the key: manual
//! SQL, another tool, a file that was cut, a backup that was changed where its key does not lie. It does not show that
//! the whole ledger is an older copy, as a restored backup is; and whoever can read the key (this account, root) can
//! seal anything. Against these, keep the end of the chain elsewhere: the engine logs it with each row, and
//! `gone audit verify --head LENGTH:HASH` compares the audit with it.

use std::fs;
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};

use aws_lc_rs::{hmac, rand};
use rusqlite::Connection;

use super::connection::fault;
use super::lock::beside;
use super::schema;
use super::sql::{Run, Sql};
use crate::domain::canonical;
use crate::ledger::audit::{self, Head};
use crate::ledger::store::LogReads as _;
use crate::ledger::{AuditRow, LedgerError};
use crate::system::private::{self, Trusted};

/// The first version of the tables that has a seal.
const SINCE: i64 = 13;
const KEY_BYTES: usize = 32;
/// The second line of the key file, once its ledger is sealed.
const SEALED: &str = "sealed";

/// The key of the seal of one ledger.
#[derive(Debug)]
pub(super) struct Key {
    path: PathBuf,
    secret: hmac::Key,
    id: String,
    /// Whether the key's file says that its ledger has been sealed.
    has_sealed: bool,
}

/// The row of `audit_seal`.
struct Seal {
    head: Head,
    key: String,
    mac: String,
}

/// Why the seal does not confirm the audit, or cannot be checked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Unsealed {
    #[error(
        "the audit has {found} rows and its seal says {sealed}: rows were cut from its end or added by \
         hand"
    )]
    Length { found: i64, sealed: i64 },
    #[error("the audit's last row is not the one that was sealed: rows were changed by hand")]
    Hash,
    #[error(
        "the audit's seal was not made with the key of this ledger: the seal was changed by hand"
    )]
    Forged,
    #[error(
        "the audit has no seal, although the key file {} says that it was sealed: the seal was removed by hand, or a backup of an older version was restored", .0.display()
    )]
    Lost(PathBuf),
    #[error(
        "the audit's seal cannot be checked: its key ({id}) is not in {}{why}. Put the key of this \
         ledger there; if the key is lost, `gone audit seal` writes a new seal for the rows as they are",
        path.display()
    )]
    NoKey {
        path: PathBuf,
        id: String,
        why: String,
    },
}

/// The file with the key of this ledger's seal.
pub fn key_path(ledger: &Path) -> PathBuf {
    beside(ledger, ".key")
}

impl Key {
    fn new(path: &Path, hexed: &str, has_sealed: bool) -> Self {
        let id = canonical::hash(format!("gone audit key\n{hexed}"));
        Self {
            path: path.to_owned(),
            secret: hmac::Key::new(hmac::HMAC_SHA256, hexed.as_bytes()),
            id: id.chars().take(16).collect(),
            has_sealed,
        }
    }

    fn read(path: &Path) -> io::Result<Self> {
        let mut text = String::new();
        let mut file = private::open(path, Trusted::us())?;
        file.read_to_string(&mut text)?;
        let mut lines = text.lines();
        let hexed = lines.next().unwrap_or_default();
        if hexed.len() != 2 * KEY_BYTES || !hexed.chars().all(|c| c.is_ascii_hexdigit()) {
            let why = "the file does not contain a key";
            return Err(io::Error::new(io::ErrorKind::InvalidData, why));
        }
        Ok(Self::new(path, hexed, lines.next() == Some(SEALED)))
    }

    fn make(path: &Path) -> io::Result<Self> {
        let mut bytes = [0; KEY_BYTES];
        rand::fill(&mut bytes)
            .map_err(|_| io::Error::other("the system gave no random bytes for a new key"))?;
        let hexed = hex::encode(bytes);
        // Written in one step: a crash leaves a whole key or none.
        private::replace(path, format!("{hexed}\n").as_bytes())?;
        Ok(Self::new(path, &hexed, false))
    }

    /// Notes in the key's file that the ledger is sealed. Called after the seal is durable: a crash in between
    /// leaves a seal whose key file does not say so yet.
    pub(super) fn mark_sealed(&mut self) -> io::Result<()> {
        if self.has_sealed {
            return Ok(());
        }
        let mut file = private::append(&self.path)?;
        file.write_all(format!("{SEALED}\n").as_bytes())?;
        file.sync_all()?;
        self.has_sealed = true;
        Ok(())
    }

    fn mac(&self, ledger: &str, head: &Head) -> String {
        let signed = hmac::sign(&self.secret, covered(ledger, head).as_bytes());
        hex::encode(signed)
    }

    fn vouches(&self, ledger: &str, seal: &Seal) -> bool {
        let mac = hex::decode(&seal.mac).unwrap_or_default();
        seal.key == self.id
            && hmac::verify(&self.secret, covered(ledger, &seal.head).as_bytes(), &mac).is_ok()
    }

    /// Finds the key of this seal, beside the ledger or in one of these files; without a seal, the key beside the
    /// ledger. None if there is no such key.
    fn find(ledger: &Path, elsewhere: &[PathBuf], seal: Option<&Seal>) -> io::Result<Option<Self>> {
        let beside = key_path(ledger);
        let own = match Self::read(&beside) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            own => Some(own?),
        };
        let fits = |key: &Self| seal.is_none_or(|seal| seal.key == key.id);
        if seal.is_none() || own.as_ref().is_some_and(fits) {
            return Ok(own);
        }
        let mut others = elsewhere.iter().filter(|path| **path != beside);
        Ok(others.find_map(|path| Self::read(path).ok().filter(fits)))
    }
}

fn covered(ledger: &str, head: &Head) -> String {
    format!("gone audit seal 1\n{ledger}\n{head}")
}

/// Finds the key of a ledger whose tables have this version, or makes one, and seals a ledger that was never sealed,
/// unless its chain is broken. None if the seal's key was not found: then rows that are added stay without a seal.
pub(super) fn prepare(
    db: &mut Connection,
    ledger: &Path,
    elsewhere: &[PathBuf],
) -> Result<Option<Key>, LedgerError> {
    let name = ledger.display().to_string();
    let failed = |error: rusqlite::Error| fault(&name, &error);
    let no_key = |error: io::Error| no_key(ledger, &error);
    let seal = seal(db).map_err(failed)?;
    let mut key = match Key::find(ledger, elsewhere, seal.as_ref()).map_err(no_key)? {
        Some(key) => key,
        None if seal.is_none() => own_key(ledger)?,
        None => {
            let why = "the key of the audit's seal was not found, so new rows are not sealed: \
                 `gone audit verify` says more";
            tracing::warn!(ledger = name, "{why}");
            return Ok(None);
        }
    };
    if seal.is_none() && !key.has_sealed {
        let tx = db.transaction().map_err(failed)?;
        let first = reseal(&tx, &key).map_err(failed)?;
        tx.commit().map_err(failed)?;
        if let Err(broken) = first {
            tracing::error!(ledger = name, %broken, "the audit was not sealed, because its chain is broken");
            return Ok(Some(key));
        }
    }
    if seal.is_some() || !key.has_sealed {
        key.mark_sealed().map_err(no_key)?;
    }
    Ok(Some(key))
}

/// Returns the key beside the ledger, and makes one if there is none.
pub(super) fn own_key(ledger: &Path) -> Result<Key, LedgerError> {
    let path = key_path(ledger);
    let key = match Key::read(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Key::make(&path),
        read => read,
    };
    key.map_err(|error| no_key(ledger, &error))
}

/// Renames the key of an earlier ledger: a new ledger has a new key, and the old backups still need the old one.
pub(super) fn rename_old_key(ledger: &Path) -> io::Result<()> {
    let key = key_path(ledger);
    match fs::rename(&key, beside(&key, ".old")) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Seals the audit as it is, if its chain is whole.
pub(super) fn reseal(db: &Connection, key: &Key) -> Sql<Result<Head, audit::Broken>> {
    let chain = audit::chain(db)?;
    if let Ok(head) = &chain {
        write(db, key, head)?;
    }
    Ok(chain)
}

pub(super) fn no_key(ledger: &Path, error: &io::Error) -> LedgerError {
    LedgerError::io(key_path(ledger).display(), error)
}

/// Moves the seal from the previous row to this one, if it confirms the previous one.
pub(super) fn advance(db: &Connection, key: &Key, before: &Head, row: &AuditRow) -> Sql<()> {
    let Some(seal) = seal(db)? else {
        return Ok(());
    };
    match seal.head == *before && key.vouches(&db.ledger_id()?, &seal) {
        true => write(db, key, &Head::of(row)),
        false => Ok(()),
    }
}

fn write(db: &Connection, key: &Key, head: &Head) -> Sql<()> {
    let mac = key.mac(&db.ledger_id()?, head);
    db.run(
        "INSERT INTO audit_seal(one, length, hash, key, mac) VALUES(1, ?1, ?2, ?3, ?4)
         ON CONFLICT(one) DO UPDATE SET length = excluded.length, hash = excluded.hash,
             key = excluded.key, mac = excluded.mac",
        (head.length, &head.hash, &key.id, mac),
    )
    .map(drop)
}

fn seal(db: &Connection) -> Sql<Option<Seal>> {
    if schema::version(db)? < SINCE {
        return Ok(None);
    }
    db.first("SELECT length, hash, key, mac FROM audit_seal", (), |row| {
        Ok(Seal {
            head: Head {
                length: row.get(0)?,
                hash: row.get(1)?,
            },
            key: row.get(2)?,
            mac: row.get(3)?,
        })
    })
}

/// Checks that the seal confirms a chain with this end.
pub(super) fn check(
    db: &Connection,
    ledger: &Path,
    elsewhere: &[PathBuf],
    found: &Head,
) -> Sql<Result<(), Unsealed>> {
    let seal = seal(db)?;
    let (key, why) = match Key::find(ledger, elsewhere, seal.as_ref()) {
        Ok(key) => (key, String::new()),
        Err(error) => (None, format!(" ({error})")),
    };
    let path = key_path(ledger);
    let no_key = |id: &str| {
        Err(Unsealed::NoKey {
            path: path.clone(),
            id: id.to_owned(),
            why,
        })
    };
    let sealed_since = schema::version(db)? >= SINCE;
    Ok(match (seal, key) {
        (None, Some(key)) if key.has_sealed => Err(Unsealed::Lost(key.path)),
        // An engine makes a key for each ledger whose tables have a seal, so the key was removed.
        (None, None) if sealed_since => no_key("unknown"),
        // The ledger is not sealed yet: the next engine seals it.
        (None, _) => Ok(()),
        (Some(seal), None) => no_key(&seal.key),
        (Some(seal), Some(key)) => match (key.vouches(&db.ledger_id()?, &seal), seal.head) {
            (false, _) => Err(Unsealed::Forged),
            (true, sealed) if sealed == *found => Ok(()),
            (true, sealed) if sealed.length == found.length => Err(Unsealed::Hash),
            (true, sealed) => Err(Unsealed::Length {
                found: found.length,
                sealed: sealed.length,
            }),
        },
    })
}
