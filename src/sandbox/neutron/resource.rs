//! The methods of all kinds: lists, POST, PUT, DELETE and tags.
use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::groups::{self, Rule};
use super::kind::{self, Row};
use super::session::{Session, keep, tag_set};
use super::{body, lists};
use crate::sandbox::wire::{Answer, Call, Refusal, Result};

/// Handles the methods that all kinds share.
pub(super) fn resource<R: Row>(
    session: &mut Session<'_>,
    call: &Call<'_>,
    path: &[&str],
) -> Result<Answer> {
    let method = call.method.as_str();
    match (method, path) {
        ("GET", []) => {
            lists::list::<R>(call, &session.scope(), session.neutron.page_max).map(Answer::ok)
        }
        ("POST", []) => create::<R>(session, call),
        // There is no bulk DELETE or PUT: Neutron reports a missing id.
        ("PUT" | "DELETE", []) => Err(R::KIND.missing("None")),
        ("GET", [id]) => {
            let row = session.named::<R>(id)?;
            let fields = lists::fields_of(R::KIND, call)?;
            Ok(Answer::ok(
                json!({R::KIND.singular: kind::view(row, &fields, &session.scope())}),
            ))
        }
        ("PUT", [id]) => update::<R>(session, call, id),
        ("DELETE", [id]) => {
            let id = session.changeable::<R>(id, "delete")?;
            let row = session.row::<R>(id)?.clone();
            row.deletable(session)?;
            session.constrain::<R>(id)?;
            R::delete(session, id);
            Ok(Answer::no_content())
        }
        (_, [_] | []) => Err(session.unsupported()),
        (_, [id, "tags", rest @ ..]) if R::KIND.attribute("tags").is_some() => {
            tags::<R>(session, call, id, rest)
        }
        _ => Err(session.no_such_path()),
    }
}

/// Returns the body of `GET` on a collection below a parent: all its rows that the caller sees.
pub(super) fn rows_below<R: Row>(
    session: &Session<'_>,
    call: &Call<'_>,
    is_below: impl Fn(&R) -> bool,
) -> Result<Value> {
    let fields = lists::fields_of(R::KIND, call)?;
    let scope = session.scope();
    let rows = scope.store.all::<R>().values();
    let rows = rows.filter(|row| is_below(row) && row.visible(&scope));
    let shown: Value = rows.map(|row| kind::view(row, &fields, &scope)).collect();
    Ok(json!({R::KIND.plural: shown}))
}

fn create<R: Row>(session: &mut Session<'_>, call: &Call<'_>) -> Result<Answer> {
    let kind = R::KIND;
    let body = call.json();
    if !session.caller.writes() {
        return Err(session.forbidden(&format!("create_{}", kind.singular)));
    }
    if let Some(items) = body.get(kind.plural).and_then(Value::as_array) {
        if !kind.bulk {
            return Err(Refusal::bad_request(
                "HTTPBadRequest",
                "Bulk operation not supported",
            ));
        }
        if kind.plural == Rule::KIND.plural {
            groups::one_group(items)?;
        }
        let made: Vec<Value> = items
            .iter()
            .map(|item| {
                let id = create_one::<R>(session, item)?;
                Ok(session.shown::<R>(id))
            })
            .collect::<Result<_>>()?;
        return Ok(Answer::created(json!({kind.plural: made})));
    }
    let id = create_one::<R>(session, attributes_in::<R>(&body)?)?;
    Ok(Answer::created(
        json!({kind.singular: session.shown::<R>(id)}),
    ))
}

pub(super) fn attributes_in<R: Row>(body: &Value) -> Result<&Value> {
    body.get(R::KIND.singular).ok_or_else(|| {
        Refusal::bad_request(
            "HTTPBadRequest",
            format!("Unable to find '{}' in request body", R::KIND.singular),
        )
    })
}

fn create_one<R: Row>(session: &mut Session<'_>, attributes: &Value) -> Result<Uuid> {
    let empty = Map::new();
    let attributes = attributes.as_object().unwrap_or(&empty);
    body::checked(
        R::KIND,
        attributes,
        true,
        session.neutron.keep_ids,
        session.caller,
    )?;
    R::create(session, attributes)
}

fn update<R: Row>(session: &mut Session<'_>, call: &Call<'_>, id: &str) -> Result<Answer> {
    let body = call.json();
    let empty = Map::new();
    let attributes = body.get(R::KIND.singular).and_then(Value::as_object);
    // An invalid body is refused before the id is looked up; a missing one after it.
    body::checked(
        R::KIND,
        attributes.unwrap_or(&empty),
        false,
        false,
        session.caller,
    )?;
    let id = session.changeable::<R>(id, "update")?;
    attributes_in::<R>(&body)?;
    let attributes = attributes.unwrap_or(&empty);
    session.constrain::<R>(id)?;
    let name = body::text(attributes, "name")?.map(str::to_owned);
    let description = body::text(attributes, "description")?.map(str::to_owned);
    session.edit(id, |row: &mut R| {
        let meta = row.meta_mut();
        if let Some(name) = name {
            meta.name = name;
        }
        if let Some(description) = description {
            meta.description = description;
        }
        keep::<R>(meta, attributes);
    });
    R::update(session, id, attributes)?;
    session.bump::<R>(id);
    Ok(Answer::ok(
        json!({R::KIND.singular: session.shown::<R>(id)}),
    ))
}

/// Handles `/{collection}/{id}/tags` and `/tags/{tag}`.
fn tags<R: Row>(
    session: &mut Session<'_>,
    call: &Call<'_>,
    id: &str,
    path: &[&str],
) -> Result<Answer> {
    let method = call.method.as_str();
    if method == "GET" {
        let tags = &session.named::<R>(id)?.meta().tags;
        return match path {
            [] => Ok(Answer::ok(json!({"tags": tags}))),
            [tag] if tags.contains(*tag) => Ok(Answer::no_content()),
            [tag] => Err(no_such_tag(tag)),
            _ => Err(session.no_such_path()),
        };
    }
    let id = session.changeable::<R>(id, "update")?;
    let mut tags = session.row::<R>(id)?.meta().tags.clone();
    let answer = match (method, path) {
        ("PUT", []) => {
            tags = tag_set(call.json().get("tags").unwrap_or(&Value::Null))?;
            Answer::ok(json!({"tags": tags}))
        }
        ("PUT", [tag]) => {
            tags.insert((*tag).to_owned());
            Answer::created(Value::Null)
        }
        ("DELETE", []) => {
            tags.clear();
            Answer::no_content()
        }
        ("DELETE", [tag]) => {
            if !tags.remove(*tag) {
                return Err(no_such_tag(tag));
            }
            Answer::no_content()
        }
        _ => return Err(session.no_such_path()),
    };
    session.edit(id, |row: &mut R| row.meta_mut().tags = tags);
    session.bump::<R>(id);
    Ok(answer)
}

fn no_such_tag(tag: &str) -> Refusal {
    Refusal::not_found("TagNotFound", format!("Tag {tag} could not be found."))
}
