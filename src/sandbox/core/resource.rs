//! The functions of a service, and the methods that all kinds share: lists, GET, POST, PUT and DELETE.
use std::sync::LazyLock;

use http::StatusCode;
use serde_json::{Value, json};
use uuid::Uuid;

use super::attribute::{POST, Reference, Shape};
use super::body;
use super::kind::{Kind, Tables};
use super::lists::{self, ListQuery, Page};
use super::row::Row;
use super::session::{Hooks, Session};
use super::wire::{Answer, Call, Handled, Refusal, Result, refuse_if, status};

pub(crate) struct Api {
    /// The service's file in `assets/sandbox`.
    pub(crate) tables: LazyLock<Tables>,
    /// The hooks of the kinds that have some.
    pub(crate) hooks: &'static [(&'static str, Hooks)],
    /// Handles calls that no kind's table describes, or that differ from the common ones; returns no answer to other
    /// calls. The path is the part below the service's root.
    pub(crate) own: fn(&mut Session<'_>, &Call<'_>, &[&str]) -> Handled,
    /// Reads the parameters of a list.
    pub(crate) list_query: fn(&Session<'_>, &'static Kind, &Call<'_>) -> Result<ListQuery>,
    /// Returns the body of a list.
    pub(crate) page: fn(&'static Kind, &Call<'_>, Page) -> Value,
    /// Puts a refusal into the service's own shape.
    pub(crate) refuse: fn(Refusal, &Call<'_>) -> Answer,
}

/// The collection or resource that a path leads to.
pub(crate) struct PathMatch<'p> {
    pub(crate) kind: &'static Kind,
    /// The parent's id in the path.
    pub(crate) parent: Option<&'p str>,
    /// The segments after the collection.
    pub(crate) rest: &'p [&'p str],
}

impl Api {
    /// Returns the service's type in the catalog, which follows the region in the paths of its calls.
    pub(crate) fn kind(&self) -> &'static str {
        self.tables.service.kind
    }

    /// Answers a call for the service's versions, which needs no token.
    pub(crate) fn versions(&self, call: &Call<'_>) -> Option<Answer> {
        let service = self.tables.service;
        let status = match (call.method.as_str(), call.segments().as_slice()) {
            ("GET", []) => StatusCode::from_u16(service.versions_status).ok()?,
            ("GET", ["versions"]) => StatusCode::OK,
            ("GET", [one]) if service.catalog.strip_prefix('/') == Some(*one) => StatusCode::OK,
            _ => return None,
        };
        let root = call.url.trim_end_matches('/').trim_end_matches("/versions");
        let root = root.trim_end_matches(service.catalog);
        let links = json!([{"rel": "self", "href": format!("{root}{}", service.endpoint)}]);
        let version = |version: &&str| {
            let mut words = version.split(' ');
            let mut next = || words.next();
            let mut shown = json!({"id": next(), "status": next(), "links": links});
            if let (Some(first), Some(last)) = (next(), next()) {
                shown["min_version"] = first.into();
                shown["version"] = last.into();
            }
            shown
        };
        let versions: Value = service.versions.iter().map(version).collect();
        Some(Answer::json(status, json!({"versions": versions})))
    }

    /// Returns the part of a path below a root of the service; `None` if the path has no such root.
    pub(crate) fn below<'p>(&self, path: &'p [&'p str]) -> Option<&'p [&'p str]> {
        let mut roots = self.tables.service.roots.iter();
        roots.find_map(|root| Some(strip(root, path)?.1))
    }

    /// Returns the collection or resource of a path below the root; the longest path of a kind wins.
    pub(crate) fn match_path<'p>(&'static self, path: &'p [&'p str]) -> Option<PathMatch<'p>> {
        let matches = self.tables.kinds.iter().filter_map(|kind| {
            let (parent, rest) = strip(kind.path, path)?;
            Some(PathMatch { kind, parent, rest })
        });
        matches.min_by_key(|matched| matched.rest.len())
    }
}

/// Returns the segment of a path that stands for `*` in a pattern, and the rest after the pattern; `None` if the path
/// does not begin with the pattern.
fn strip<'p>(pattern: &str, path: &'p [&'p str]) -> Option<(Option<&'p str>, &'p [&'p str])> {
    let (mut parent, mut rest) = (None, path);
    for word in pattern.split('/').filter(|word| !word.is_empty()) {
        let (first, below) = rest.split_first()?;
        match word {
            "*" => parent = Some(*first),
            word if word != *first => return None,
            _ => {}
        }
        rest = below;
    }
    Some((parent, rest))
}

/// Answers a call of a service.
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
    let PathMatch { kind, parent, rest } = api.match_path(path).ok_or_else(no_page)?;
    let parent = match (parent, kind.parent) {
        (Some(text), Some(parent)) => match session.named(parent.kind, text) {
            // A parent that does not exist counts as one without children if the kind's table says so.
            Err(_) if kind.parent_may_be_gone && call.method != http::Method::POST => {
                Some((parent, text.parse().unwrap_or_default()))
            }
            found => Some((parent, found?.id)),
        },
        _ => None,
    };
    let refuse = |name| Err(kind.refusal(name, &[]));
    match (call.method.as_str(), rest) {
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
            session.revise_parent(&row, "delete");
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
type Above = Option<(Reference, Uuid)>;

/// Returns the row that a path names.
fn find(session: &Session<'_>, kind: &'static Kind, above: Above, text: &str) -> Result<Row> {
    let Some((parent, id)) = above else {
        return session.named(kind.name, text);
    };
    let is_it = |row: &&Row| match kind.key {
        "id" => row.id.to_string() == text,
        key => row.text(key) == text,
    };
    let mut rows = session.store.of(kind.name, parent.attribute, id);
    let row = rows.find(is_it).filter(|row| session.sees(row));
    row.cloned().ok_or_else(|| kind.missing_in(id, text))
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
    let is_contents = |shape: &Shape| matches!(shape, Shape::Children(_));
    let mut attributes = kind.attributes.iter();
    session.with_contents = attributes.any(|it| it.is(POST) && is_contents(&it.shape));
    let shown = match body.get(kind.plural).and_then(Value::as_array) {
        Some(items) => {
            refuse_if(!kind.has_bulk, || kind.refusal("no_bulk", &[]))?;
            let made = items.iter().map(|it| create_one(session, kind, above, it));
            json!({kind.plural: made.collect::<Result<Value>>()?})
        }
        None => {
            let made = create_one(session, kind, above, inner(kind, &body)?)?;
            wrapped(kind, made)
        }
    };
    Ok(Answer::json(status(kind.created), shown))
}

/// Creates a row, and returns the attributes that the answer shows.
fn create_one(
    session: &mut Session<'_>,
    kind: &'static Kind,
    above: Above,
    given: &Value,
) -> Result<Value> {
    let mut given = given.as_object().cloned().unwrap_or_default();
    if let Some((parent, id)) = above {
        given.insert(parent.attribute.to_owned(), id.to_string().into());
    }
    let body = body::check(session, kind, &given, true)?;
    let id = session.create_in(kind, &body)?;
    let row = session.get(kind.name, id);
    Ok(row.map_or(Value::Null, |row| session.part(row, kind.new)))
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
    let given = body.get(kind.singular).and_then(Value::as_object).cloned();
    let checked = body::check(session, kind, &given.unwrap_or_default(), false)?;
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
