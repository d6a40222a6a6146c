//! Sends a message by webhook: one POST of JSON.

use std::error::Error as _;
use std::iter::successors;
use std::time::Duration;

use reqwest::header::{CONTENT_TYPE, HeaderValue};
use secrecy::{ExposeSecret as _, SecretString};

use super::DeliveryError;
use super::message::{Message, cut};
use crate::domain::model::ErrorClass;
use crate::domain::text::escape;
use crate::system::config::{WebhookSettings, secret_in};

/// A receiver that has not answered within this time counts as down.
const ANSWER_MAX: Duration = Duration::from_secs(30);
const CONNECT_MAX: Duration = Duration::from_secs(10);
/// Largest part of an answer's body that is read: enough for a reason.
const BODY_BYTES_MAX: usize = 1024;
const ANSWER_CHARS_MAX: usize = 200;

/// Sends a message and returns the receiver's answer.
///
/// # Errors
/// The token or its file cannot be used, there was no answer, or it was not 2xx. The error contains neither the
/// token nor the path of the address, which often is a secret too.
pub(super) async fn send(
    settings: &WebhookSettings,
    message: &Message,
) -> Result<String, DeliveryError> {
    let token = settings.token_file.as_deref().map(secret_in).transpose();
    let token = token.map_err(DeliveryError::configuration)?;
    let mut builder = reqwest::Client::builder()
        .user_agent(concat!("gone/", env!("CARGO_PKG_VERSION")))
        .timeout(ANSWER_MAX)
        .connect_timeout(CONNECT_MAX)
        // A token must not go to another host, and a redirected POST becomes a GET.
        .redirect(reqwest::redirect::Policy::none());
    if settings.is_local() {
        builder = builder.no_proxy();
    }
    let client = builder.build().map_err(|error| unsent(&error))?;
    let mut request = client
        .post(&settings.url)
        .header("idempotency-key", &message.id)
        .header(CONTENT_TYPE, "application/json")
        .body(message.json.to_string());
    if let Some(token) = &token {
        let bearer = HeaderValue::try_from(format!("Bearer {}", token.expose_secret()));
        let why = "the token has a character that is not allowed in a header";
        let mut bearer = bearer.map_err(|_| DeliveryError::configuration(why))?;
        bearer.set_sensitive(true);
        request = request.header(reqwest::header::AUTHORIZATION, bearer);
    }
    let answer = request.send().await.map_err(|error| unsent(&error))?;
    let status = answer.status();
    let body = excerpt(answer, token.as_ref()).await;
    let said = match body.as_str() {
        "" => format!("answered {status}"),
        body => format!("answered {status}: {body}"),
    };
    match status.as_u16() {
        200..=299 => Ok(said),
        300..=399 => Err(DeliveryError::unreachable(format!(
            "{said}; redirects are not followed: set [notify.webhook] url to the redirect's address"
        ))),
        401 | 403 | 407 => Err(DeliveryError::new(ErrorClass::Auth, said)),
        _ => Err(DeliveryError::unreachable(said)),
    }
}

/// Returns the beginning of the answer's body, safe to show.
async fn excerpt(mut answer: reqwest::Response, token: Option<&SecretString>) -> String {
    let mut body = Vec::new();
    // The rest is not needed: the status has arrived.
    while let Ok(Some(chunk)) = answer.chunk().await {
        body.extend_from_slice(&chunk);
        if body.len() >= BODY_BYTES_MAX {
            body.truncate(BODY_BYTES_MAX);
            break;
        }
    }
    quoted(String::from_utf8_lossy(&body).trim(), token)
}

/// Cuts and escapes an answer, and removes the secret that it may repeat.
pub(super) fn quoted(answer: &str, secret: Option<&SecretString>) -> String {
    let answer = match secret {
        Some(secret) => answer.replace(secret.expose_secret(), "…"),
        None => answer.to_owned(),
    };
    escape(&cut(&answer, ANSWER_CHARS_MAX)).into_owned()
}

/// Reports the innermost cause: the outer ones repeat the address.
fn unsent(error: &reqwest::Error) -> DeliveryError {
    match successors(error.source(), |cause| (*cause).source()).last() {
        _ if error.is_timeout() => DeliveryError::unreachable("no answer in time"),
        None => DeliveryError::unreachable("the request cannot be sent"),
        Some(innermost) => DeliveryError::unreachable(escape(&innermost.to_string())),
    }
}
