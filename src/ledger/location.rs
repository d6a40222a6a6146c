//! Where a ledger is kept, and the process that holds it.

use std::fmt::{self, Display, Formatter};
use std::path::{Path, PathBuf};

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use super::LedgerError;

/// Where a ledger is kept. A path is a URL without a scheme.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Location {
    File(PathBuf),
}

impl Location {
    /// Reads a URL.
    ///
    /// # Errors
    /// No ledger can be kept under a URL with this scheme.
    pub fn parse(url: &Path) -> Result<Self, UnknownScheme> {
        let scheme = url.to_str().and_then(|url| url.split_once("://"));
        match scheme {
            Some((scheme, _)) => Err(UnknownScheme(scheme.to_owned())),
            None => Ok(Self::File(url.to_owned())),
        }
    }
}

impl Display for Location {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => path.display().fmt(f),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a ledger at a URL with {0}:// is not supported by this version")]
pub struct UnknownScheme(String);

/// The process that holds a ledger: no other process can write it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holder {
    pub pid: u32,
    /// Where its API listens; none until it does.
    pub socket: Option<String>,
}

/// The exclusive right of this process to write a ledger that it has opened. It ends with the process.
#[async_trait]
pub trait Hold: Send + Sync {
    /// Publishes where the engine listens, for consoles that look for the ledger's holder.
    fn announce(&self, socket: Option<&str>) -> Result<(), LedgerError>;

    /// Answers the queued requests, and then lets another process open the ledger. Later requests are
    /// answered with [`LedgerError::Closed`].
    async fn release(&self);
}
