//! Reads refusals, in the shapes that OpenStack's services write.
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use chrono::{DateTime, Utc};
use http::{HeaderMap, StatusCode};
use secrecy::{ExposeSecret as _, SecretString};
use serde_json::Value;

use super::identity::Identity;
use crate::domain::text::is_hostile;

/// Maximum number of bytes that are kept of a body. A proxy's page says nothing useful after its first lines.
const BODY_BYTES_MAX: usize = 64 << 10;
/// The text that replaces a secret that gone sent.
const REDACTED: &str = "[redacted]";
/// Maximum length of the part of a request id after `req-` or `tx`.
const UUID_CHARS: usize = 36;
/// Maximum number of characters of a text that are shown. The fields of [`RemoteError`] are not cut to this length.
const SHOWN_CHARS_MAX: usize = 400;

/// A status other than 2xx, with the values by which it is classified: status, type and message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemoteError {
    pub status: u16,
    /// Neutron's and Heat's `type`, Keystone's and Glance's `title`, Octavia's `faultcode`, Nova's and Cinder's key,
    /// the reason phrase of Swift's status.
    pub kind: Option<String>,
    /// The whole message, because Neutron lists blocking ids in it. If the service did not write the answer, the
    /// text of the body.
    pub message: String,
    /// At most 64 KB of the body, as it came, except that `[redacted]` replaces the secret, or the whole body if it
    /// spells the secret with escapes.
    pub body: String,
    /// False for an answer that the service did not write itself, such as a proxy's page.
    pub own: bool,
    pub request_id: Option<String>,
    pub retry_after: Option<Duration>,
    /// The target of a 3xx, which is not followed.
    pub location: Option<String>,
    /// The identity under which the call was made; none for a login, or for a question about a token.
    pub identity: Option<Arc<Identity>>,
}

impl RemoteError {
    pub(super) fn of(
        response: &http::Response<Bytes>,
        secret: &SecretString,
        identity: Option<Arc<Identity>>,
        now: DateTime<Utc>,
    ) -> Self {
        let text = scrub(&String::from_utf8_lossy(response.body()), secret);
        let parsed: Option<Value> = serde_json::from_str(&text).ok();
        // JSON can spell the secret with escapes, so it can only be found after parsing.
        let spelled = parsed.as_ref().map(Value::to_string).unwrap_or_default();
        let text = match scrub(&spelled, secret) == spelled {
            true => text,
            false => REDACTED.to_owned(),
        };
        let said = parsed.as_ref().and_then(said);
        let said = said.or_else(|| said_in_text(response, &text));
        let own = said.is_some();
        let (kind, message) = said.unwrap_or_else(|| (None, cut(&text).to_owned()));
        let kind = kind.map(|kind| scrub(&kind, secret));
        let message = scrub(&message, secret).replace('\0', "\u{fffd}");
        let headers = response.headers();
        Self {
            status: response.status().as_u16(),
            kind,
            message,
            body: cut(&text).to_owned(),
            own,
            request_id: request_id(headers, secret),
            retry_after: retry_after(headers, now),
            location: header(headers, "location").map(|to| scrub(&to, secret)),
            identity,
        }
    }
}

impl fmt::Display for RemoteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.status)?;
        match (&self.kind, self.own) {
            (Some(kind), _) => write!(f, " {}: {}", shown(kind), shown(&self.message))?,
            (None, true) => write!(f, ": {}", shown(&self.message))?,
            (None, false) => {
                let reason = StatusCode::from_u16(self.status).ok();
                let reason = reason.and_then(|s| s.canonical_reason()).unwrap_or("");
                write!(f, " {reason}, but not in the service's error format")?;
                if let Some(location) = &self.location {
                    write!(
                        f,
                        "; it redirects to {}, which gone does not follow: set the endpoint \
                         override",
                        shown(location)
                    )?;
                }
            }
        }
        if let Some(after) = self.retry_after {
            write!(f, "; retry after {} s", after.as_secs())?;
        }
        if let Some(id) = &self.request_id {
            write!(f, " ({})", shown(id))?;
        }
        Ok(())
    }
}

/// Returns type and message of Swift's refusals, whose bodies are a small page, a text or nothing. Swift's answers
/// are recognized by the id of a transaction, which each of them has.
fn said_in_text(response: &http::Response<Bytes>, text: &str) -> Option<(Option<String>, String)> {
    let headers = response.headers();
    let transaction =
        header(headers, "x-trans-id").or_else(|| header(headers, "x-openstack-request-id"))?;
    let reason = response.status().canonical_reason()?;
    let is_page = text.trim_start().starts_with('<');
    let said = match text.split_once("<p>").filter(|_| is_page) {
        Some((_, rest)) => rest.split("</p>").next().unwrap_or(rest),
        None if is_page => "",
        None => text.trim(),
    };
    let said = match said {
        "" => reason,
        said => said,
    };
    let own = transaction
        .strip_prefix("tx")
        .is_some_and(|id| !id.is_empty());
    own.then(|| (Some(reason.to_owned()), said.to_owned()))
}

/// Returns type and message, if the body has the shape of an error of one of OpenStack's services.
fn said(body: &Value) -> Option<(Option<String>, String)> {
    let text = |value: &Value, key: &str| value.get(key)?.as_str().map(str::to_owned);
    if let Some(fault) = text(body, "faultstring") {
        return Some((text(body, "faultcode"), fault));
    }
    if let (Some(message), true) = (text(body, "message"), body.get("code").is_some()) {
        // Glance writes HTML line breaks into its JSON.
        let message = message.replace("<br />", " ");
        let kind = text(body, "title").or_else(|| text(body, "type"));
        return Some((kind, message.trim().to_owned()));
    }
    // Octavia's own shape for a parent that does not exist.
    if let (Some(said), true) = (text(body, "description"), body.get("code").is_some()) {
        return Some((text(body, "title"), said));
    }
    if let Some(error) = body.get("error").filter(|e| e.get("message").is_some()) {
        let kind = text(error, "type").or_else(|| text(error, "title"));
        return Some((kind, text(error, "message")?));
    }
    // Heat's shape for errors that it did not expect.
    if let (Some(said), Some(error)) = (text(body, "explanation"), body.get("error")) {
        return Some((text(error, "type"), said));
    }
    let (key, inner) = body.as_object().filter(|o| o.len() == 1)?.iter().next()?;
    if let (Some(message), true) = (inner.as_str(), key.ends_with("Error")) {
        return Some((None, message.to_owned()));
    }
    let kind = text(inner, "type").unwrap_or_else(|| key.clone());
    Some((Some(kind), text(inner, "message")?))
}

/// Returns the id under which the service has logged the request: `req-` and a UUID, or Swift's `tx` and digits.
/// The id is stored and shown without further checks, so an id of another shape is dropped: a service could return a
/// secret there that it was sent.
pub(super) fn request_id(headers: &HeaderMap, secret: &SecretString) -> Option<String> {
    let said = header(headers, "x-openstack-request-id")
        .or_else(|| header(headers, "x-compute-request-id"))?;
    let uuid = said
        .strip_prefix("req-")
        .or_else(|| said.strip_prefix("tx"))?;
    let fits = |c: char| c.is_ascii_hexdigit() || c == '-';
    let is_id = (1..=UUID_CHARS).contains(&uuid.len()) && uuid.chars().all(fits);
    // Tokens of older Keystones have 32 such digits.
    let digits = |text: &str| text.replace('-', "").to_lowercase();
    let token = digits(secret.expose_secret());
    (is_id && (token.is_empty() || digits(uuid) != token)).then_some(said)
}

/// Reads the header `Retry-After`: seconds, or an HTTP date. A date that has passed is zero.
pub(super) fn retry_after(headers: &HeaderMap, now: DateTime<Utc>) -> Option<Duration> {
    let value = header(headers, "retry-after")?;
    if let Ok(seconds) = value.trim().parse() {
        return Some(Duration::from_secs(seconds));
    }
    let at = DateTime::parse_from_rfc2822(value.trim()).ok()?;
    Some((at.to_utc() - now).to_std().unwrap_or_default())
}

fn header(headers: &HeaderMap, name: &str) -> Option<String> {
    Some(headers.get(name)?.to_str().ok()?.to_owned())
}

/// Replaces the secret, because services quote the values that they refuse, such as a password that is too long.
fn scrub(text: &str, secret: &SecretString) -> String {
    match secret.expose_secret() {
        "" => text.to_owned(),
        secret => text.replace(secret, REDACTED),
    }
}

fn cut(text: &str) -> &str {
    let end = (0..=BODY_BYTES_MAX.min(text.len()))
        .rev()
        .find(|at| text.is_char_boundary(*at));
    &text[..end.unwrap_or(0)]
}

/// Returns a text as one line of at most [`SHOWN_CHARS_MAX`] characters. Characters that are invisible or that a
/// terminal interprets become spaces, because strangers choose the names in the text.
pub(super) fn shown(text: &str) -> String {
    let line = text.chars().map(|c| if is_hostile(c) { ' ' } else { c });
    let mut line: String = line.take(SHOWN_CHARS_MAX).collect();
    if text.chars().nth(SHOWN_CHARS_MAX).is_some() {
        line.push('…');
    }
    line
}
