//! What the API says of itself (`GET /openapi.json`), held against every answer of these tests.
//!
//! Answers are read more strictly than the document demands of clients: a member that it does not name
//! is an error here, so that none is forgotten in it.

use std::sync::LazyLock;

use gone::frontends::api::description;
use reqwest::{Method, Request};
use serde_json::{Map, Value, json};

use crate::bench::{Bench, content_type};

static DOCUMENT: LazyLock<Value> = LazyLock::new(|| {
    let mut document: Value = serde_json::from_str(description()).expect("it is JSON");
    let schemas = document["components"]["schemas"].clone();
    name_all_members(&mut document, &schemas);
    document
});

fn name_all_members(schema: &mut Value, schemas: &Value) {
    match schema {
        Value::Object(members) => {
            if let Some(Value::Array(parts)) = members.remove("allOf") {
                // Only the whole names all members.
                *schema = whole(parts, schemas);
                return name_all_members(schema, schemas);
            }
            if members.get("properties").is_some_and(Value::is_object) {
                // What says that it has others, has.
                let others = members.entry("additionalProperties");
                others.or_insert(json!(false));
            }
            let members = members.values_mut();
            members.for_each(|member| name_all_members(member, schemas));
        }
        Value::Array(elements) => {
            let elements = elements.iter_mut();
            elements.for_each(|element| name_all_members(element, schemas));
        }
        _ => {}
    }
}

/// One object with the members of several schemas.
fn whole(parts: Vec<Value>, schemas: &Value) -> Value {
    let (mut properties, mut required) = (Map::new(), Vec::new());
    for mut part in parts {
        if let Some(reference) = part["$ref"].as_str() {
            part = schemas[reference.rsplit('/').next().unwrap()].clone();
        }
        if let Some(Value::Array(parts)) = part.get("allOf").cloned() {
            part = whole(parts, schemas);
        }
        properties.extend(part["properties"].as_object().cloned().unwrap_or_default());
        required.extend(part["required"].as_array().cloned().unwrap_or_default());
    }
    json!({"type": "object", "properties": properties, "required": required})
}

/// What is asked for, as the document names it.
pub struct Asked {
    method: Method,
    path: String,
    parameters: Vec<String>,
    body: Option<Value>,
}

impl Asked {
    pub fn by(request: &Request) -> Self {
        let body = request.body().and_then(reqwest::Body::as_bytes);
        let names = request.url().query_pairs();
        Self {
            method: request.method().clone(),
            path: request.url().path().to_owned(),
            parameters: names.map(|(name, _)| name.into_owned()).collect(),
            body: body.and_then(|body| serde_json::from_slice(body).ok()),
        }
    }

    /// The answer is one that the document describes, and so is the question, if it was understood.
    pub fn is_described_with(&self, status: u16, content: &str, body: &Value) {
        if self.path.starts_with("/control/") {
            return;
        }
        let asked = format!("{} {}", self.method, self.path);
        let Some(operation) = self.operation() else {
            assert!([404, 405].contains(&status), "{asked} is not described");
            return;
        };
        let responses = &operation["responses"];
        let response = responses.get(status.to_string());
        assert!(
            response.is_some() || status >= 400,
            "{asked}: {status} is not described"
        );
        let response = resolved(response.unwrap_or(&responses["default"]));
        valid(&asked, &response["content"][content]["schema"], body);
        if status < 400 {
            self.question_is_described(&asked, operation);
        }
    }

    fn question_is_described(&self, asked: &str, operation: &'static Value) {
        let parameters = elements(&operation["parameters"]).map(resolved);
        let parameters: Vec<&Value> = parameters.collect();
        // An object's members are parameters of their own, whatever they are called.
        let any = |it: &&Value| it["explode"] == true && it["schema"]["type"] == "object";
        for name in &self.parameters {
            let mut known = parameters
                .iter()
                .filter(|it| it["name"] == **name || any(it));
            assert!(known.next().is_some(), "{asked}: ?{name}=");
        }
        if let Some(body) = &self.body {
            let content = &operation["requestBody"]["content"]["application/json"];
            valid(asked, &content["schema"], body);
        }
    }

    fn operation(&self) -> Option<&'static Value> {
        let parts: Vec<&str> = self.path.split('/').collect();
        let fits = |template: &str| {
            let template: Vec<&str> = template.split('/').collect();
            let mut pairs = template.iter().zip(&parts);
            template.len() == parts.len()
                && pairs.all(|(wanted, part)| wanted.starts_with('{') || wanted == part)
        };
        let (_, path) = members(&DOCUMENT["paths"]).find(|(template, _)| fits(template))?;
        path.get(self.method.as_str().to_lowercase())
    }
}

fn valid(asked: &str, schema: &Value, instance: &Value) {
    assert!(schema.is_object(), "{asked}: this form is not described");
    // References count from the document's root.
    let root = json!({"allOf": [schema], "components": DOCUMENT["components"]});
    let options = jsonschema::options().should_validate_formats(true);
    let validator = options.build(&root).expect("it is a schema");
    let errors: Vec<String> = validator
        .iter_errors(instance)
        .map(|error| format!("{} at {}", error, error.instance_path()))
        .collect();
    assert!(errors.is_empty(), "{asked}: {errors:#?}\n{instance:#}");
}

fn resolved(value: &'static Value) -> &'static Value {
    match value["$ref"].as_str() {
        Some(reference) => DOCUMENT
            .pointer(reference.trim_start_matches('#'))
            .unwrap_or_else(|| panic!("{reference} is nowhere")),
        None => value,
    }
}

fn members(value: &'static Value) -> impl Iterator<Item = (&'static String, &'static Value)> {
    value.as_object().into_iter().flat_map(Map::iter)
}

fn elements(value: &'static Value) -> impl Iterator<Item = &'static Value> {
    value.as_array().into_iter().flatten()
}

/// Every value of an object in the document, with the path that leads to it.
fn each_object(at: String, value: &'static Value, look: &mut impl FnMut(&str, &'static Value)) {
    look(&at, value);
    for (name, value) in members(value) {
        each_object(format!("{at}/{name}"), value, look);
    }
    for (number, value) in elements(value).enumerate() {
        each_object(format!("{at}/{number}"), value, look);
    }
}

#[test]
fn every_described_operation_has_texts_and_every_reference_resolves() {
    let mut names = Vec::new();
    for (template, operations) in members(&DOCUMENT["paths"]) {
        for (method, operation) in members(operations) {
            let at = format!("{method} {template}");
            assert!(!operation["summary"].as_str().unwrap().is_empty(), "{at}");
            assert_eq!(operation["tags"].as_array().unwrap().len(), 1, "{at}");
            names.push(operation["operationId"].as_str().unwrap());
            let in_template = template.matches('{').count();
            let parameters = elements(&operation["parameters"]).map(resolved);
            let in_path = parameters.filter(|it| it["in"] == "path");
            assert_eq!(in_path.count(), in_template, "{at}");
            for it in elements(&operation["parameters"]).map(resolved) {
                let described = [it, resolved(&it["schema"])];
                let words = described.map(|it| it["description"].is_string());
                assert!(
                    words.contains(&true) || it["schema"]["oneOf"].is_array(),
                    "{at}: {it}"
                );
            }
        }
    }
    let operations = names.len();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), operations, "{names:?}");
    each_object(String::new(), &DOCUMENT, &mut |at, value| {
        if let Some(reference) = value["$ref"].as_str() {
            let there = DOCUMENT.pointer(reference.trim_start_matches('#'));
            assert!(there.is_some(), "{at}: {reference} is nowhere");
        }
    });
}

#[tokio::test]
async fn the_openapi_document_is_served() {
    let bench = Bench::new().await;
    let (status, document) = bench.get("/openapi.json").await;
    assert_eq!((status, &document["openapi"]), (200, &json!("3.1.0")));
}

#[tokio::test]
async fn every_described_path_is_served_with_exactly_its_methods() {
    let bench = Bench::new().await;
    for (template, operations) in members(&DOCUMENT["paths"]) {
        let part = |part: &str| if part.starts_with('{') { "x" } else { part }.to_owned();
        let path: Vec<String> = template.split('/').map(part).collect();
        let request = bench.request(Method::PUT, &path.join("/"));
        let response = request.send().await.unwrap();
        assert_eq!(response.status(), 405, "{template}");
        let allowed = response.headers()["allow"].to_str().unwrap();
        let mut allowed: Vec<String> = allowed.split(',').map(str::to_lowercase).collect();
        allowed.retain(|method| method != "head");
        allowed.sort();
        let mut described: Vec<String> = members(operations)
            .map(|(method, _)| method.clone())
            .collect();
        described.sort();
        assert_eq!(allowed, described, "{template}");
    }
}

#[tokio::test]
async fn routes_without_json_are_described_with_their_content_type() {
    let bench = Bench::new().await;
    for (path, content) in [
        ("/metrics", "text/plain"),
        ("/api/v1/events", "text/event-stream"),
    ] {
        let response = bench.request(Method::GET, path).send().await.unwrap();
        let said = content_type(&response);
        assert_eq!(said.split(';').next(), Some(content));
        let described = &DOCUMENT["paths"][path]["get"]["responses"]["200"]["content"];
        assert!(described[content].is_object(), "{path}: {described}");
    }
}
