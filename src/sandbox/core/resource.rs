//! The methods that all kinds share: lists, GET, POST, PUT and DELETE.
use serde_json::{Value, json};
use uuid::Uuid;

use super::api::{Api, PathMatch};
use super::body;
use super::kind::{Body, Kind, Reference};
use super::lists;
use super::row::Row;
use super::session::Session;
use super::wire::{Answer, Call, Result, refuse_if, status};

pub(crate) fn route(
    session: &mut Session<'_>,
    api: &'static Api,
    call: &Call<'_>,
) -> Result<Answer> {
    let segments = call.segments();
    let no_page = || api.tables.service.refusal("no_page", &[]);
    let path = api.below(&segments).ok_or_else(no_page)?;
    if let Some(answer) = (api.own)(session, call, path)? {
        return Ok(answer);
    }
    let matched = api.match_path(path).ok_or_else(no_page)?;
    answer(session, api, call, &matched)
}

fn answer(
    session: &mut Session<'_>,
    api: &Api,
    call: &Call<'_>,
    matched: &PathMatch<'_>,
) -> Result<Answer> {
    let kind = matched.kind;
    let refuse = |name| Err(kind.refusal(name, &[]));
    let parent = match (matched.parent, &kind.parent) {
        (Some(text), Some(parent)) => Some((parent, parent_id(session, call, kind, text)?)),
        _ => None,
    };
    match (call.method.as_str(), matched.rest) {
        ("GET", rest @ ([] | ["detail"])) if rest.is_empty() || !kind.brief.is_empty() => {
            let mut query = (api.list_query)(session, kind, call)?;
            if rest.is_empty() && query.fields.is_empty() {
                query.fields = kind.brief.split_whitespace().map(str::to_owned).collect();
            }
            let page = lists::page(session, kind, parent.map(|(_, id)| id), query);
            Ok(Answer::ok((api.page)(kind, call, page)))
        }
        ("POST", []) => create(session, call, kind, parent),
        ("PUT" | "DELETE", []) => Err(kind.no_id()),
        ("GET", [id]) => {
            let row = find(session, kind, parent, id)?;
            let query = (api.list_query)(session, kind, call)?;
            let shown = session.shown(&row, &query.fields());
            Ok(Answer::ok(wrapped(kind, shown)))
        }
        ("PUT", [id]) => update(session, call, kind, parent, id),
        ("DELETE", [id]) => {
            let row = find(session, kind, parent, id)?;
            session.may_change(&row, "delete")?;
            (session.hooks(kind).deletable)(session, &row)?;
            session.check_revision(&row)?;
            (session.hooks(kind).delete)(session, &row, call)?;
            Ok(Answer::empty(kind.deleted))
        }
        (_, [] | [_]) => refuse("no_method"),
        (_, [id, path @ ..]) => {
            let row = find(session, kind, parent, id)?;
            let answer = (session.hooks(kind).act)(session, call, &row, path)?;
            answer.map_or_else(|| refuse("no_page"), Ok)
        }
    }
}

/// A kind's reference to its parent, and the parent's id; `None` if the path names no parent.
type Above = Option<(&'static Reference, Uuid)>;

/// Returns the id of the parent in a path. A parent that does not exist is refused, unless the kind's table says
/// that it counts as one without children.
fn parent_id(session: &Session<'_>, call: &Call<'_>, kind: &Kind, text: &str) -> Result<Uuid> {
    let found = session.named(kind.parent.map_or("", |parent| parent.kind), text);
    match found {
        Err(_) if kind.parent_may_be_gone && call.method != http::Method::POST => {
            Ok(text.parse().unwrap_or_default())
        }
        found => found.map(|row| row.id),
    }
}

/// Returns the row that a path names.
fn find(session: &Session<'_>, kind: &'static Kind, above: Above, text: &str) -> Result<Row> {
    match above {
        None => session.named(kind.name, text),
        Some((parent, id)) => session
            .store
            .of(kind.name, parent.attribute, id)
            .find(|row| match kind.key {
                "id" => row.id.to_string() == text,
                key => row.text(key) == text,
            })
            .filter(|row| session.sees(row))
            .cloned()
            .ok_or_else(|| kind.missing_in(id, text)),
    }
}

fn wrapped(kind: &Kind, shown: Value) -> Value {
    match kind.is_bare {
        true => shown,
        false => json!({kind.singular: shown}),
    }
}

/// Returns the resource in a body.
fn inner<'b>(kind: &'static Kind, body: &'b Value) -> Result<&'b Value> {
    let inner = match kind.is_bare {
        true => body.as_object().map(|_| body),
        false => body.get(kind.singular),
    };
    inner.ok_or_else(|| kind.refusal("no_body", &[]))
}

fn create(
    session: &mut Session<'_>,
    call: &Call<'_>,
    kind: &'static Kind,
    above: Above,
) -> Result<Answer> {
    let body = call.json();
    refuse_if(!session.caller.writes(), || kind.forbidden("create"))?;
    session.with_contents = kind.has_contents();
    let shown = |session: &Session<'_>, id| {
        let row = session.get(kind.name, id);
        let fields: Vec<&str> = kind.new.split_whitespace().collect();
        row.map_or(Value::Null, |row| session.shown(row, &fields))
    };
    let answer = |body| Answer::json(status(kind.created), body);
    if let Some(items) = body.get(kind.plural).and_then(Value::as_array) {
        refuse_if(!kind.has_bulk, || kind.refusal("no_bulk", &[]))?;
        let mut made = Vec::new();
        for item in items {
            let id = create_one(session, kind, above, item)?;
            made.push(shown(session, id));
        }
        return Ok(answer(json!({kind.plural: made})));
    }
    let id = create_one(session, kind, above, inner(kind, &body)?)?;
    Ok(answer(wrapped(kind, shown(session, id))))
}

fn create_one(
    session: &mut Session<'_>,
    kind: &'static Kind,
    above: Above,
    given: &Value,
) -> Result<Uuid> {
    let empty = Body::new();
    let mut given = given.as_object().unwrap_or(&empty).clone();
    if let Some((parent, id)) = above {
        given.insert(parent.attribute.to_owned(), id.to_string().into());
    }
    let body = body::check(session, kind, &given, true)?;
    session.create_in(kind, &body)
}

fn update(
    session: &mut Session<'_>,
    call: &Call<'_>,
    kind: &'static Kind,
    above: Above,
    id: &str,
) -> Result<Answer> {
    let body = call.json();
    // An invalid body is refused before the row is read, a missing body after it.
    let empty = Body::new();
    let given = body.get(kind.singular).and_then(Value::as_object);
    let checked = body::check(session, kind, given.unwrap_or(&empty), false)?;
    let mut row = find(session, kind, above, id)?;
    session.may_change(&row, "update")?;
    inner(kind, &body)?;
    session.check_revision(&row)?;
    row.apply(&checked);
    let id = row.id;
    (session.hooks(kind).update)(session, row, &checked)?;
    session.raise_revision(kind.name, id);
    Ok(Answer::ok(wrapped(kind, session.shown_now(kind.name, id))))
}
