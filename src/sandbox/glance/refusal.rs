//! Glance's refusals: webob's pages, in the form that a request accepts.
use http::{StatusCode, header};
use serde_json::json;

use crate::sandbox::wire::{Answer, Body, Call, Refusal, title};

/// The separator between webob's own explanation and the detail that a service adds.
const BREAK: &str = "<br /><br />";

/// The answer of the authentication in front of Glance to any missing or invalid token.
const UNAUTHORIZED: &str = "This server could not verify that you are authorized to access the \
    document you requested. Either you supplied the wrong credentials (e.g., bad password), or your \
    browser does not understand how to supply the credentials required.";

#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    Html,
    Json,
    Text,
}

/// Renders a refusal as a page.
pub(in crate::sandbox) fn page(refusal: Refusal, call: &Call<'_>) -> Answer {
    let status = refusal.status;
    let title = title(status);
    let code = format!("{} {title}", status.as_u16());
    let message = match status {
        StatusCode::UNAUTHORIZED => UNAUTHORIZED.to_owned(),
        _ => refusal.message,
    };
    let text = if message.contains(BREAK) {
        message
    } else {
        format!("{message}{BREAK}\n\n\n")
    };
    let body = match form(call.header("accept").unwrap_or_default()) {
        Form::Json => Body::Json(json!({"message": text, "code": code, "title": title})),
        Form::Html => Body::Html(format!(
            "<html>\n <head>\n  <title>{code}</title>\n </head>\n <body>\n  <h1>{code}</h1>\n  {}\n \
             </body>\n</html>",
            escaped(&text)
        )),
        Form::Text => Body::Text(format!("{code}\n\n{}", plain(&text))),
    };
    Answer {
        status,
        body,
        headers: Vec::new(),
    }
}

/// Returns a 405 that names the methods of the path.
pub(super) fn not_allowed(call: &Call<'_>, allowed: &str) -> Answer {
    let message = format!(
        "The method {} is not allowed for this resource. {BREAK}\n",
        call.method
    );
    let refusal = Refusal::new(StatusCode::METHOD_NOT_ALLOWED, "", message);
    page(refusal, call).with(header::ALLOW, allowed.to_owned())
}

/// Returns a 415. For a request without a content type, the message shows webob's unfilled template.
pub(super) fn unsupported_media(call: &Call<'_>, detail: &str) -> Refusal {
    let media = call.header("content-type").unwrap_or("${CONTENT_TYPE}");
    Refusal::new(
        StatusCode::UNSUPPORTED_MEDIA_TYPE,
        "",
        format!(
            "The request media type {media} is not supported by this server.\n{BREAK}\n{detail}"
        ),
    )
}

pub(super) fn bad(message: impl Into<String>) -> Refusal {
    Refusal::bad_request("", message)
}

pub(super) fn forbidden(message: impl Into<String>) -> Refusal {
    Refusal::new(StatusCode::FORBIDDEN, "", message)
}

/// Returns the refusal of a policy rule.
pub(super) fn unauthorized_action(rule: &str) -> Refusal {
    forbidden(format!("You are not authorized to complete {rule} action."))
}

/// Returns a 403 with the reason after webob's explanation.
pub(super) fn denied(detail: &str) -> Refusal {
    forbidden(format!(
        "Access was denied to this resource.{BREAK}\n{detail}\n\n"
    ))
}

/// Returns a 409 with the reason after webob's explanation.
pub(super) fn conflicting(detail: &str) -> Refusal {
    Refusal::conflict(
        "",
        format!("There was a conflict when trying to complete your request.{BREAK}\n{detail}\n\n"),
    )
}

pub(super) fn not_found(message: impl Into<String>) -> Refusal {
    Refusal::not_found("", message)
}

pub(super) fn no_image(id: &str) -> Refusal {
    not_found(format!("No image found with ID {id}"))
}

pub(super) fn no_such_path() -> Refusal {
    not_found("The resource could not be found.")
}

/// Returns the 500 of a request on which Glance's own code fails.
pub(super) fn internal_error() -> Refusal {
    Refusal::new(
        StatusCode::INTERNAL_SERVER_ERROR,
        "",
        "The server has either erred or is incapable of performing the requested operation.",
    )
}

/// A media range of an `Accept` header.
struct Range<'a> {
    kind: &'a str,
    subtype: &'a str,
    quality: f64,
}

impl Range<'_> {
    /// Returns how specifically it matches a media type; `None` if it does not.
    fn fits(&self, kind: &str, subtype: &str) -> Option<u8> {
        match (self.kind, self.subtype) {
            ("*", "*") => Some(0),
            (own, "*") if own == kind => Some(1),
            (own, narrow) if own == kind && narrow == subtype => Some(2),
            _ => None,
        }
    }
}

/// Chooses the form of a page: HTML, unless JSON is preferred; plain text if neither is accepted or the
/// header is missing.
fn form(accept: &str) -> Form {
    // A malformed header counts as `*/*`.
    let Some(ranges) = ranges(accept) else {
        return Form::Html;
    };
    let quality = |kind: &str, subtype: &str| {
        ranges
            .iter()
            .filter_map(|range| Some((range.fits(kind, subtype)?, range.quality)))
            .max_by_key(|(narrow, _)| *narrow)
            .map_or(0.0, |(_, quality)| quality)
    };
    let (html, json) = (quality("text", "html"), quality("application", "json"));
    if html > 0.0 && html >= json {
        Form::Html
    } else if json > 0.0 {
        Form::Json
    } else {
        Form::Text
    }
}

/// Parses an `Accept` header; `None` if it is malformed. A range with parameters fits none of Glance's forms.
fn ranges(accept: &str) -> Option<Vec<Range<'_>>> {
    let mut ranges = Vec::new();
    let items = accept.split(',').map(str::trim);
    for item in items.filter(|item| !item.is_empty()) {
        let mut parts = item.split(';').map(str::trim);
        let (kind, subtype) = parts.next()?.split_once('/')?;
        let mut range = Range {
            kind,
            subtype,
            quality: 1.0,
        };
        let mut bare = true;
        for parameter in parts {
            match parameter.split_once('=')? {
                ("q" | "Q", quality) => range.quality = quality.parse().ok()?,
                _ => bare = false,
            }
        }
        if bare {
            ranges.push(range);
        }
    }
    Some(ranges)
}

fn escaped(text: &str) -> String {
    let parts: Vec<String> = text
        .split(BREAK)
        .map(|part| {
            part.replace('&', "&amp;")
                .replace('<', "&lt;")
                .replace('>', "&gt;")
                .replace('"', "&quot;")
                .replace('\'', "&#x27;")
        })
        .collect();
    parts.join(BREAK)
}

/// Converts a text to webob's plain text: breaks become line ends, and anything that looks like a tag is
/// removed.
fn plain(text: &str) -> String {
    let spaced = text.replace('\n', " ").replace("<br />", "\n");
    let mut plain = String::new();
    let mut rest = spaced.as_str();
    while let Some((before, tag)) = rest.split_once('<') {
        let Some((_, after)) = tag.split_once('>') else {
            break;
        };
        plain.push_str(before);
        rest = after;
    }
    plain + rest
}
