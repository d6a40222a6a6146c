//! Glance v2 of one region.
mod images;
mod lists;
mod members;

use std::fmt::Display;
use std::sync::LazyLock;

use http::StatusCode;
use serde_json::{Value, json};

use super::api::Api;
use super::kind::Tables;
use super::session::{Hooks, Session};
use super::wire::{Answer, Body, Call, Handled, Refusal, Result, title};

pub(super) static API: Api = Api {
    tables: &TABLES,
    hooks,
    open: versions,
    own,
    wanted: lists::wanted,
    page: lists::page,
    refuse,
};

static TABLES: LazyLock<Tables> =
    LazyLock::new(|| Tables::read(include_str!("../../../assets/sandbox/image.toml")));

fn hooks(kind: &str) -> Option<Hooks> {
    Some(match kind {
        "image" => images::IMAGE,
        "image_member" => members::MEMBER,
        _ => return None,
    })
}

/// Returns the refusal with a name, from the service's file.
fn refused(name: &str, parts: &[&dyn Display]) -> Refusal {
    TABLES.service.refusal(name, parts)
}

/// The separator between the common explanation of a refusal and the detail that Glance adds.
const BREAK: &str = "<br /><br />";

/// The answer of the authentication in front of Glance to any missing or invalid token.
const UNAUTHORIZED: &str = "This server could not verify that you are authorized to access the \
    document you requested. Either you supplied the wrong credentials (e.g., bad password), or your \
    browser does not understand how to supply the credentials required.";

/// Returns a refusal as JSON, or as HTML for a request that does not accept JSON.
fn refuse(refusal: Refusal, call: &Call<'_>) -> Answer {
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
    let accept = call.header("accept").unwrap_or_default();
    if accept.contains("application/json") {
        let body = json!({"message": text, "code": code, "title": title});
        return Answer::json(status, body);
    }
    let escape = |part: &str| {
        part.replace('&', "&amp;")
            .replace('<', "&lt;")
            .replace('>', "&gt;")
    };
    let parts: Vec<String> = text.split(BREAK).map(escape).collect();
    Answer {
        status,
        body: Body::Html(format!(
            "<html>\n <head>\n  <title>{code}</title>\n </head>\n <body>\n  <h1>{code}</h1>\n  {}\n \
             </body>\n</html>",
            parts.join(BREAK)
        )),
        headers: Vec::new(),
    }
}

const CURRENT: &str = "v2.17";

/// Answers `GET /` with 300 (multiple choices) and `GET /versions` with 200; neither needs a token.
fn versions(call: &Call<'_>) -> Option<Answer> {
    let status = match (call.method.as_str(), call.segments().as_slice()) {
        ("GET", []) => StatusCode::MULTIPLE_CHOICES,
        ("GET", ["versions"]) => StatusCode::OK,
        _ => return None,
    };
    let root = call.url.trim_end_matches('/').trim_end_matches("/versions");
    let links = json!([{"rel": "self", "href": format!("{root}/v2/")}]);
    let version = |id: &str, status: &str| json!({"id": id, "status": status, "links": links});
    let listed = json!([version(CURRENT, "CURRENT"), version("v2.0", "SUPPORTED")]);
    Some(Answer::json(status, json!({"versions": listed})))
}

fn own(session: &mut Session<'_>, call: &Call<'_>, path: Option<&[&str]>) -> Handled {
    match path? {
        ["images", id] => images::own(session, call, id),
        ["images", id, "members", rest @ ..] => members::own(session, call, id, rest),
        ["images", id, rest @ ..] => Some(images::below(session, call, id, rest)),
        _ => None,
    }
}

/// Returns the body of a call, which must be JSON.
fn json_body(call: &Call<'_>) -> Result<Value> {
    if call.body.is_empty() {
        return Err(refused("no_body", &[]));
    }
    serde_json::from_slice(call.body).map_err(|_| refused("InvalidBody", &[]))
}
