//! Glance v2 of one region.
mod images;
mod lists;
mod members;

use std::fmt::Display;
use std::sync::LazyLock;

use http::StatusCode;
use serde_json::{Value, json};

use super::core::{
    Answer, Api, Call, Content, Handled, Refusal, Result, Session, Tables, refuse_if, title,
};

pub(super) static API: Api = Api {
    tables: LazyLock::new(|| Tables::read(include_str!("../../../assets/sandbox/image.toml"))),
    hooks: &[("image", images::IMAGE), ("image_member", members::MEMBER)],
    own,
    list_query: lists::list_query,
    page: lists::page,
    refuse,
};

/// Returns the refusal with a name, from the service's file.
fn refused(name: &str, parts: &[&dyn Display]) -> Refusal {
    API.tables.service.refusal(name, parts)
}

/// The separator between the common explanation of a refusal and the detail that Glance adds.
const BREAK: &str = "<br /><br />";

/// Returns a refusal as JSON, or as HTML for a request that does not accept JSON.
fn refuse(refusal: Refusal, call: &Call<'_>) -> Answer {
    let status = refusal.status;
    let title = title(status);
    let code = format!("{} {title}", status.as_u16());
    // The authentication in front of Glance gives one answer to any missing or invalid token.
    let refusal = match status {
        StatusCode::UNAUTHORIZED => refused("Unauthorized", &[]),
        _ => refusal,
    };
    let text = match refusal.message {
        text if text.contains(BREAK) => text,
        text => format!("{text}{BREAK}\n\n\n"),
    };
    let accept = call.header("accept").unwrap_or_default();
    if accept.contains("application/json") {
        let body = json!({"message": text, "code": code, "title": title});
        return Answer::json(status, body);
    }
    let escaped = text.replace('&', "&amp;").replace('<', "&lt;");
    let escaped = escaped.replace('>', "&gt;");
    let text = escaped.replace("&lt;br /&gt;&lt;br /&gt;", BREAK);
    let page = format!(
        "<html>\n <head>\n  <title>{code}</title>\n </head>\n <body>\n  <h1>{code}</h1>\n  {text}\n \
         </body>\n</html>"
    );
    Answer::new(status, Content::Html(page))
}

fn own(session: &mut Session<'_>, call: &Call<'_>, path: &[&str]) -> Handled {
    match path {
        ["images", id] => images::own(session, call, id),
        ["images", id, "members", rest @ ..] => members::own(session, call, id, rest),
        ["images", id, rest @ ..] => images::act(session, call, id, rest),
        _ => Ok(None),
    }
}

/// Returns the body of a call, which must be JSON.
fn json_body(call: &Call<'_>) -> Result<Value> {
    refuse_if(call.body.is_empty(), || refused("no_body", &[]))?;
    serde_json::from_slice(call.body).map_err(|_| refused("InvalidBody", &[]))
}
