//! Authenticates callers: decides which of the peers a caller may speak as.

use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use http::{HeaderMap, header};
use rustls::pki_types::CertificateDer;
use secrecy::ExposeSecret as _;
use tokio::time::Instant;
use url::Url;

use super::Peer;
use super::tls::is_for_host;
use super::token::Fingerprint;
use crate::system::config::{PeerSettings, secret_in};

/// How long a token that was read from its file may still be accepted. Whoever replaces a leaked token waits
/// no longer than this.
const READ_EVERY: Duration = Duration::from_secs(2);
/// A token that fits no peer causes a new read of the files only this long after the last read: the files may have just
/// changed, but strangers must not cause reads without limit.
const READ_AGAIN: Duration = Duration::from_millis(500);

/// The configured peers, and how each of them is recognised.
pub(super) struct Admission {
    entries: Arc<[Entry]>,
    tokens: Mutex<Tokens>,
}

struct Entry {
    peer: Peer,
    /// None if the peer is recognised by its certificate.
    token_file: Option<PathBuf>,
    /// The host of the peer's URL. A peer without a token file must present a certificate for this host.
    host: String,
}

/// The tokens in the files, in the order of the entries.
#[derive(Default)]
struct Tokens {
    fingerprints: Vec<Option<Fingerprint>>,
    read_at: Option<Instant>,
}

impl Admission {
    pub(super) fn of(peers: &[PeerSettings]) -> Self {
        let entries = peers.iter().map(|settings| Entry {
            peer: Peer::from(settings),
            token_file: settings.token_file.clone(),
            host: host_of(&settings.url),
        });
        Self {
            entries: entries.collect(),
            tokens: Mutex::default(),
        }
    }

    /// Returns the peers that a caller with these credentials may speak as: usually one, or none. The peers are known
    /// before the body is read, so that strangers cannot send a body.
    pub(super) async fn of_caller(
        &self,
        headers: &HeaderMap,
        certificate: Option<&CertificateDer<'_>>,
    ) -> HashSet<&Peer> {
        let bearer = bearer(headers);
        self.read_older_than(READ_EVERY).await;
        let mut known = self.fitting(bearer, certificate);
        if known.is_empty() && bearer.is_some() && self.read_older_than(READ_AGAIN).await {
            known = self.fitting(bearer, certificate);
        }
        known
    }

    fn fitting(
        &self,
        bearer: Option<Fingerprint>,
        certificate: Option<&CertificateDer<'_>>,
    ) -> HashSet<&Peer> {
        let tokens = self.tokens.lock().unwrap_or_else(PoisonError::into_inner);
        let each = self.entries.iter().zip(&tokens.fingerprints);
        let fits = |(entry, token): &(&Entry, &Option<Fingerprint>)| match entry.token_file {
            Some(_) => bearer
                .zip(**token)
                .is_some_and(|(sent, ours)| sent.is(ours)),
            None => certificate.is_some_and(|shown| is_for_host(shown, &entry.host)),
        };
        each.filter(fits).map(|(entry, _)| &entry.peer).collect()
    }

    /// Reads the files again if they were read longer ago than this. Returns whether they were read.
    async fn read_older_than(&self, age: Duration) -> bool {
        let read_at = {
            let mut tokens = self.tokens.lock().unwrap_or_else(PoisonError::into_inner);
            let now = Instant::now();
            if tokens.read_at.is_some_and(|at| now - at < age) {
                return false;
            }
            // Other callers need not read the files as well. The first time, however, there are no tokens to
            // compare with.
            if tokens.read_at.is_some() {
                tokens.read_at = Some(now);
            }
            now
        };
        let entries = self.entries.clone();
        let read = tokio::task::spawn_blocking(move || {
            let read = entries.iter().map(Entry::fingerprint);
            read.collect::<Vec<_>>()
        });
        let Ok(fingerprints) = read.await else {
            return false;
        };
        *self.tokens.lock().unwrap_or_else(PoisonError::into_inner) = Tokens {
            fingerprints,
            read_at: Some(read_at),
        };
        true
    }
}

impl Entry {
    fn fingerprint(&self) -> Option<Fingerprint> {
        let read = secret_in(self.token_file.as_deref()?);
        match read {
            Ok(secret) => Some(Fingerprint::of(secret.expose_secret())),
            Err(why) => {
                tracing::warn!(peer = %self.peer, why, "the token of a peer cannot be read; the \
                                                        peer is refused");
                None
            }
        }
    }
}

fn bearer(headers: &HeaderMap) -> Option<Fingerprint> {
    let value = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    let (scheme, token) = value.split_once(' ')?;
    scheme
        .eq_ignore_ascii_case("bearer")
        .then(|| Fingerprint::of(token.trim()))
}

fn host_of(url: &str) -> String {
    let url = Url::parse(url).ok();
    let host = url.as_ref().and_then(Url::host_str);
    host.unwrap_or_default().to_owned()
}
