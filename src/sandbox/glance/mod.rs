//! Glance v2 of one region.
mod images;
mod lists;
mod members;

use std::sync::LazyLock;

use http::StatusCode;
use serde_json::{Value, json};

pub(super) use images::seed;

use super::api::{Api, Problem};
use super::body::plain;
use super::kind::{self, Hooks, Kind};
use super::resource::refusal;
use super::session::Session;
use super::wire::{Answer, Body, Call, Handled, Refusal, Result, title};

pub(super) static API: Api = Api {
    kind: "image",
    name: "glance",
    roots: &["/v2"],
    kinds: || &KINDS,
    times: "%Y-%m-%dT%H:%M:%SZ",
    folds: true,
    hides: true,
    open: versions,
    own,
    wanted: lists::wanted,
    page: lists::page,
    problem,
    refuse,
};

static KINDS: LazyLock<Vec<Kind>> = LazyLock::new(|| {
    let tables = include_str!("../../../assets/sandbox/image.toml");
    kind::tables(tables, &API, hooks)
});

fn hooks(kind: &str) -> Hooks {
    match kind {
        "image" => images::IMAGE,
        "image_member" => members::MEMBER,
        _ => Hooks::NONE,
    }
}

fn bad(message: impl Into<String>) -> Refusal {
    Refusal::bad_request("", message)
}

fn forbidden(message: impl Into<String>) -> Refusal {
    refusal(403, "", message)
}

fn not_found(message: impl Into<String>) -> Refusal {
    Refusal::not_found("", message)
}

fn problem(problem: Problem<'_>) -> Refusal {
    match problem {
        Problem::NoPage => not_found("The resource could not be found."),
        Problem::NoMethod | Problem::NoId(_) => {
            refusal(405, "", "The method is not allowed for this resource.")
        }
        Problem::NoBody(_) => bad("Body expected in request."),
        Problem::Forbidden(verb, kind) => {
            let action = match (verb, kind.name) {
                ("create", "image") => "add_image",
                ("update", "image") => "modify_image",
                ("delete", "image") => "delete_image",
                ("create", _) => "add_member",
                ("update", _) => "modify_member",
                ("delete", _) => "delete_member",
                (action, _) => action,
            };
            let message = format!("You are not authorized to complete {action} action.");
            forbidden(message)
        }
        Problem::Taken(_, id) => Refusal::conflict("", format!("Image ID {id} already exists!")),
        Problem::NoBulk => bad("Unexpected body type."),
        Problem::Unknown(_, names) => bad(format!("Unknown attributes: {names}")),
        Problem::NotTaken(_, name, _) => forbidden(format!("Attribute '{name}' is read-only.")),
        Problem::Required(name) => bad(format!("Attribute '{name}' is missing.")),
        Problem::Invalid(name, value, _) => bad(format!(
            "Provided object does not match schema 'image': '{}' is not valid for '{name}'",
            plain(value)
        )),
        Problem::AdminOnly(_, name, _) => {
            forbidden(format!("Attribute '{name}' is for admins only."))
        }
        Problem::OtherProject(_, owner) => {
            let owner = plain(owner);
            denied(&format!(
                "You are not permitted to create images owned by '{owner}'"
            ))
        }
    }
}

/// The separator between the common explanation of a refusal and the detail that Glance adds.
const BREAK: &str = "<br /><br />";

/// The answer of the authentication in front of Glance to any missing or invalid token.
const UNAUTHORIZED: &str = "This server could not verify that you are authorized to access the \
    document you requested. Either you supplied the wrong credentials (e.g., bad password), or your \
    browser does not understand how to supply the credentials required.";

/// Returns a 403 with the reason after the common explanation.
fn denied(detail: &str) -> Refusal {
    forbidden(format!(
        "Access was denied to this resource.{BREAK}\n{detail}\n\n"
    ))
}

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
        return Err(bad("Body expected in request."));
    }
    serde_json::from_slice(call.body).map_err(|_| bad("Malformed JSON in request body."))
}
