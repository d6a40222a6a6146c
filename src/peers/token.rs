//! The secret that two deployments share: sent with each call, and never shown.

use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};

use secrecy::SecretString;
use sha2::{Digest as _, Sha256};

use crate::system::config::secret_in;

/// A token to send. It is kept in memory, and its file is read again after a refusal.
pub(super) struct Token {
    file: PathBuf,
    kept: Mutex<Option<SecretString>>,
}

impl Token {
    pub(super) fn in_file(file: PathBuf) -> Self {
        Self {
            file,
            kept: Mutex::default(),
        }
    }

    /// Returns the token, from memory if it was read before.
    ///
    /// # Errors
    /// The file cannot be read, other users can read or replace it, or it does not contain one line of text.
    pub(super) async fn current(&self) -> Result<SecretString, String> {
        let kept = self.kept().clone();
        match kept {
            Some(secret) => Ok(secret),
            None => self.renewed().await,
        }
    }

    /// Reads the token that the file has now, and keeps it.
    ///
    /// # Errors
    /// Fails like [`Token::current`]. The token that was kept before stays.
    pub(super) async fn renewed(&self) -> Result<SecretString, String> {
        let file = self.file.clone();
        let read = tokio::task::spawn_blocking(move || secret_in(&file));
        let secret = read.await.map_err(|error| error.to_string())??;
        *self.kept() = Some(secret.clone());
        Ok(secret)
    }

    fn kept(&self) -> MutexGuard<'_, Option<SecretString>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Hash of a token. The time of a comparison reveals nothing about either token.
#[derive(Clone, Copy)]
pub(super) struct Fingerprint([u8; 32]);

impl Fingerprint {
    pub(super) fn of(token: &str) -> Self {
        Self(Sha256::digest(token).into())
    }

    pub(super) fn is(self, other: Self) -> bool {
        let differences = self.0.iter().zip(&other.0);
        differences.fold(0, |all, (ours, theirs)| all | (ours ^ theirs)) == 0
    }
}
