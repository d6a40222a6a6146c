//! The description of the API, as OpenAPI 3.1: made from the handlers and the types of their requests and answers.
//!
//! [`complete`] adds two properties of every operation: it may answer with a problem, and unless it is a GET, it takes
//! an `Idempotency-Key`. [`complete`] also corrects schemas, and adds missing descriptions of answers.

use std::sync::LazyLock;

use serde_json::{Value, json};
use utoipa::OpenApi;

use super::input::{Age, KEY_BYTES_MAX, Limit};
use super::problem::ProblemDocument;
use crate::domain::model::Event;

#[derive(OpenApi)]
#[openapi(
    info(
        title = "gone",
        version = "1",
        license(name = "MIT", identifier = "MIT"),
        description = "The engine's API for programs, on its unix socket: `curl --unix-socket \
            $XDG_STATE_HOME/gone/gone.sock http://gone/api/v1/stuck`. The uid of the process at the other end is \
            the caller: the engine's own uid and root have all scopes, others have the scope that `[api] uids` \
            gives them: view, operate, force or admin. The engine's own uid and root may name the person behind \
            them in `X-Gone-Actor`, percent-encoded. Times are RFC 3339, UTC. An unknown field or parameter is an \
            error that names the nearest one. Letters and numbers in brackets name the rules of \
            `assets/promises.md`."
    ),
    servers((url = "http://gone", description = "Over the unix socket; the host is ignored.")),
    components(schemas(Age, Event, Limit, ProblemDocument))
)]
struct Document;

/// The description, as `GET /openapi.json` serves it.
pub fn description() -> &'static str {
    static DESCRIPTION: LazyLock<String> = LazyLock::new(|| {
        let mut document = Document::openapi();
        document.merge(super::routes().into_openapi());
        let mut document = json!(document);
        complete(&mut document);
        format!("{document:#}")
    });
    &DESCRIPTION
}

fn complete(document: &mut Value) {
    let components = &mut document["components"];
    components["parameters"] = json!({"idempotency_key": {
        "name": "Idempotency-Key",
        "in": "header",
        "description": "The client's name for this request. For 24 hours, the caller's same request under the same \
            name is carried out once and gets the same answer; another request under it, on whatever path, is \
            422. While the first one is being carried out, the answer is 409. A request that was refused may \
            be sent again.",
        "schema": {"type": "string", "minLength": 1, "maxLength": KEY_BYTES_MAX},
    }});
    components["responses"] = json!({"Problem": {
        "description": "The error.",
        "content": {"application/problem+json": {
            "schema": {"$ref": "#/components/schemas/ProblemDocument"},
        }},
    }});
    let schemas = components["schemas"].as_object_mut();
    for (name, schema) in schemas.into_iter().flatten() {
        // A page refers to the schema of its items, instead of repeating that schema.
        if let Some(listed) = name.strip_prefix("List_") {
            let reference = format!("#/components/schemas/{listed}");
            schema["properties"]["items"]["items"] = json!({"$ref": reference});
        }
        require_nullable(schema);
    }
    let paths = document["paths"].as_object_mut();
    for (_, path) in paths.into_iter().flatten() {
        let operations = path.as_object_mut();
        for (method, operation) in operations.into_iter().flatten() {
            complete_operation(method, operation);
        }
    }
}

fn complete_operation(method: &str, operation: &mut Value) {
    if method != "get" {
        let key = json!({"$ref": "#/components/parameters/idempotency_key"});
        match operation["parameters"].as_array_mut() {
            Some(parameters) => parameters.push(key),
            None => operation["parameters"] = json!([key]),
        }
    }
    // A body that may be left out is still never null.
    if let Some(schema) = operation.pointer_mut("/requestBody/content/application~1json/schema")
        && let Some(given) = schema.pointer("/oneOf/0").cloned()
    {
        *schema = given;
    }
    let responses = operation["responses"].as_object_mut();
    for (status, response) in responses.into_iter().flatten() {
        if response.get("description").is_none() {
            response["description"] = match &**status {
                "200" => json!("The current state."),
                _ => json!("Accepted."),
            };
        }
    }
    operation["responses"]["default"] = json!({"$ref": "#/components/responses/Problem"});
}

/// Marks the nullable members of answers as required, because answers always have them. Requests may leave them out;
/// the types of requests are those that refuse unknown members.
fn require_nullable(schema: &mut Value) {
    for composed in ["allOf", "oneOf"] {
        let parts = schema.get_mut(composed).and_then(Value::as_array_mut);
        parts.into_iter().flatten().for_each(require_nullable);
    }
    if schema.get("additionalProperties") == Some(&json!(false)) {
        return;
    }
    let null = [json!("null"), json!({"type": "null"})];
    let members = schema.get("properties").and_then(Value::as_object);
    let nullable = members.into_iter().flatten().filter(|(_, member)| {
        let types = [&member["type"], &member["oneOf"]].into_iter();
        let mut types = types.filter_map(|it| it.as_array()).flatten();
        types.any(|it| null.contains(it))
    });
    let nullable: Vec<Value> = nullable.map(|(name, _)| json!(name)).collect();
    match schema.get_mut("required").and_then(Value::as_array_mut) {
        Some(required) => required.extend(nullable),
        None if nullable.is_empty() => {}
        None => schema["required"] = json!(nullable),
    }
}
