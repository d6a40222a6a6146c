//! Where a ledger is kept, and the process that holds it.

use std::fmt::{self, Display, Formatter};
use std::path::{Path, PathBuf};

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use super::LedgerError;
#[cfg(feature = "postgres")]
use super::postgres::Address;

/// Where a ledger is kept: a URL, or a path, which is a URL without a scheme.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Location {
    File(PathBuf),
    #[cfg(feature = "postgres")]
    Postgres(Box<Address>),
}

impl Location {
    /// Parses a URL. `passfile`: the password file for a server's URL that names none.
    ///
    /// # Errors
    /// No ledger can be kept under this URL.
    pub fn parse(url: &Path, passfile: Option<PathBuf>) -> Result<Self, NoLocation> {
        let text = url.to_str().unwrap_or_default();
        match text.split_once("://") {
            None => Ok(Self::File(url.to_owned())),
            Some(("postgres" | "postgresql", _)) => Self::on_server(text, passfile),
            Some((scheme, _)) => Err(NoLocation(format!(
                "a ledger at a URL with {scheme}:// is not supported by this version"
            ))),
        }
    }

    #[cfg(feature = "postgres")]
    fn on_server(url: &str, passfile: Option<PathBuf>) -> Result<Self, NoLocation> {
        let address = Address::parse(url)
            .map_err(|why| NoLocation(format!("the ledger's URL cannot be used: {why}")))?;
        Ok(Self::Postgres(Box::new(address.or_passfile(passfile))))
    }

    #[cfg(not(feature = "postgres"))]
    fn on_server(_: &str, _: Option<PathBuf>) -> Result<Self, NoLocation> {
        let why = "this program was built without PostgreSQL (the feature `postgres`)";
        Err(NoLocation(why.to_owned()))
    }

    /// The ledger's file; none if it is on a server.
    pub fn file(&self) -> Option<&Path> {
        match self {
            Self::File(path) => Some(path),
            #[cfg(feature = "postgres")]
            Self::Postgres(_) => None,
        }
    }
}

impl Display for Location {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => path.display().fmt(f),
            #[cfg(feature = "postgres")]
            Self::Postgres(address) => address.fmt(f),
        }
    }
}

/// Why no ledger can be kept under a URL.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct NoLocation(String);

/// A process that has a ledger open as its engine. No other process can write a file that it holds; engines may
/// share a ledger on a server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holder {
    pub pid: u32,
    /// The path of the API's socket; none until the process listens there.
    pub socket: Option<String>,
}

/// The right of this process to write a ledger that it has opened, exclusive for a file. It ends when it is released,
/// or with the process.
#[async_trait]
pub trait Hold: Send + Sync {
    /// Publishes where the engine's API listens, so that consoles find it ([`Holder::socket`]). None: the API listens
    /// nowhere.
    fn announce(&self, socket: Option<&str>) -> Result<(), LedgerError>;

    /// Answers the queued requests, and closes the ledger, so that another process may open it. Later requests
    /// are answered with [`LedgerError::Closed`].
    async fn release(&self);
}
