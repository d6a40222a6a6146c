//! Builds requests from kinds: paths, queries and bodies from templates and filters.

use std::collections::BTreeMap;

use chrono::{DateTime, NaiveDateTime};
use http::{HeaderMap, Method};
use percent_encoding::utf8_percent_encode;
use serde_json::Value;

use super::catalog::SEGMENT;
use super::identity::Identity;
use super::kinds::{CallTemplate, FilterValues, ListCall, RestCalls, calls_of};
use crate::cloud::{Call, CloudFailure};
use crate::domain::kinds::{
    Kind, ListSpec, NULL, fill, lookup_one, variables as template_variables,
};
use crate::domain::model::Action;
use crate::domain::query::ListFilter;

/// Maximum number of bytes of a URL for the values of a filter (about 140 ids). Proxies allow about 8 KB for
/// a URL.
const FILTER_BYTES_MAX: usize = 6 * 1024;

/// One of the lists that together ask for all values of a filter.
pub(super) struct Part {
    pub(super) path: String,
    pub(super) query: Vec<(String, String)>,
    /// The variables with which the list's path was filled.
    pub(super) variables: BTreeMap<String, String>,
}

impl Part {
    /// Returns the same list with more filters.
    fn with(&self, more: &BTreeMap<String, String>) -> Self {
        let more = more.iter().map(|(key, value)| (key.clone(), value.clone()));
        Self {
            path: self.path.clone(),
            query: self.query.iter().cloned().chain(more).collect(),
            variables: self.variables.clone(),
        }
    }
}

/// How the rows of a kind are read over REST.
pub(super) struct RestList<'k> {
    pub(super) kind: &'k Kind,
    pub(super) spec: &'k ListSpec,
    pub(super) calls: &'k RestCalls,
    pub(super) call: &'k ListCall,
}

impl<'k> RestList<'k> {
    /// # Errors
    /// The kind belongs to another provider, or is not listed.
    pub(super) fn of(kind: &'k Kind) -> Result<Self, CloudFailure> {
        let calls = calls_of(kind)?;
        match (&kind.spec.list, &calls.list) {
            (Some(spec), Some(call)) => Ok(Self {
                kind,
                spec,
                calls,
                call,
            }),
            _ => Err(CloudFailure::configuration(format!(
                "gone cannot list the kind {}",
                kind.name
            ))),
        }
    }

    /// Returns the lists that together ask for all values of a filter; without a filter, for all rows. Each set of
    /// filters under `also` needs these lists once more.
    pub(super) fn parts(
        &self,
        filter: Option<&ListFilter>,
        login: &Identity,
    ) -> Result<Vec<Part>, CloudFailure> {
        let mut always = self.call.always.clone();
        let admin = login.is_admin();
        if admin {
            always.extend(self.call.for_admins.clone());
        }
        let is_needed = |it: &&ListFilter| match &it.key {
            project if self.spec.own_project && project == self.spec.project_filter() => false,
            key => admin || !self.call.admin_filters.contains(key),
        };
        let filter = filter.filter(is_needed);
        let plain = self.plain_parts(filter)?.into_iter();
        let plain: Vec<Part> = plain.map(|part| part.with(&always)).collect();
        let also = self.call.also.iter();
        let also = also.flat_map(|more| plain.iter().map(move |part| part.with(more)));
        let also: Vec<Part> = also.collect();
        Ok(plain.into_iter().chain(also).collect())
    }

    /// Whether the rows are projects themselves.
    pub(super) fn are_projects(&self) -> bool {
        self.spec.id == [self.spec.project.as_str()]
    }

    /// Returns the project that owns the account of a list or a row, from the variables of its path. None for the
    /// login's own project.
    pub(super) fn account<'v>(
        &self,
        variables: &'v BTreeMap<String, String>,
    ) -> Option<&'v String> {
        variables.get(&self.spec.project)
    }

    fn plain_parts(&self, filter: Option<&ListFilter>) -> Result<Vec<Part>, CloudFailure> {
        let at = |query: Vec<(String, String)>| Part {
            path: format!("{}{}", self.calls.service.prefix, self.call.path),
            query,
            variables: BTreeMap::new(),
        };
        if let Some(within) = &self.spec.within {
            let Some(filter) = filter.filter(|filter| filter.key == *within) else {
                let name = &self.kind.name;
                return Err(CloudFailure::configuration(format!(
                    "{name} has no list of its own: name the resource that it belongs to ({within})"
                )));
            };
            let named: Vec<&str> = template_variables(&self.call.path).collect();
            let is_filter = !named.contains(&within.as_str()) && self.call.parent.is_empty();
            let parts = filter.values.iter().map(|value| {
                let variables = BTreeMap::from([(within.clone(), value.clone())]);
                let pair = is_filter.then(|| (within.clone(), value.clone()));
                Ok(Part {
                    path: self.path(&variables)?,
                    query: pair.into_iter().collect(),
                    variables: self.with_parents(variables),
                })
            });
            return parts.collect();
        }
        let Some(filter) = filter else {
            return Ok(vec![at(Vec::new())]);
        };
        if self.calls.service.account && filter.key == self.spec.project_filter() {
            let of_project = |project: &String| Part {
                variables: BTreeMap::from([(self.spec.project.clone(), project.clone())]),
                ..at(Vec::new())
            };
            return Ok(filter.values.iter().map(of_project).collect());
        }
        let runs = match self.calls.values_of(&filter.key) {
            FilterValues::Single => filter.values.chunks(1).collect(),
            FilterValues::Repeated | FilterValues::Listed => {
                runs_of(&filter.values, filter.key.len() + 2)
            }
        };
        let pairs = |values| self.calls.filter(self.call, &filter.key, values);
        Ok(runs.into_iter().map(|run| at(pairs(run))).collect())
    }

    fn path(&self, variables: &BTreeMap<String, String>) -> Result<String, CloudFailure> {
        self.filled(&self.call.path, variables)
    }

    /// Fills a path template, and adds the service's prefix.
    pub(super) fn filled(
        &self,
        template: &str,
        variables: &BTreeMap<String, String>,
    ) -> Result<String, CloudFailure> {
        let variables = self.with_parents(variables.clone());
        let path = fill(template, &escaped(&variables)).map_err(|name| {
            CloudFailure::configuration(format!(
                "{}: the path {template} needs a value for \"{name}\"",
                self.kind.name
            ))
        })?;
        Ok(format!("{}{path}", self.calls.service.prefix))
    }

    /// Adds a variable for each part of the parent's id, because a path names the parts one by one.
    pub(super) fn with_parents(
        &self,
        mut variables: BTreeMap<String, String>,
    ) -> BTreeMap<String, String> {
        let parent = self.spec.within.as_ref().and_then(|it| variables.get(it));
        let parts = parent.map(|id| id.splitn(self.call.parent.len(), ',').map(str::to_owned));
        let parts: Vec<String> = parts.into_iter().flatten().collect();
        variables.extend(self.call.parent.iter().cloned().zip(parts));
        variables
    }

    /// Whether the variables have all parts of an id and of its parent's id, and the account of a service with accounts
    /// is a project's id. A name that a person typed instead of an id lacks some parts.
    pub(super) fn is_whole(&self, variables: &BTreeMap<String, String>) -> bool {
        let parts = self.spec.id.iter().chain(&self.call.parent);
        let of_account = self.calls.service.account;
        parts.into_iter().all(|part| variables.contains_key(part))
            && (!of_account || self.account(variables).is_some_and(|it| is_project_id(it)))
    }

    /// Returns the row that the headers of an answer to HEAD describe.
    pub(super) fn row_of_headers(
        &self,
        variables: &BTreeMap<String, String>,
        headers: &HeaderMap,
    ) -> Value {
        let parts = self.spec.id.iter().chain(&self.call.parent);
        let parts = parts.filter_map(|part| Some((part.clone(), variables.get(part)?.clone())));
        let from_headers = self.call.head.iter().filter_map(|(field, header)| {
            let value = headers.get(header.as_str())?.to_str().ok()?;
            Some((field.clone(), value.to_owned()))
        });
        let fields = parts
            .chain(from_headers)
            .map(|(field, text)| (field, Value::from(text)));
        Value::Object(fields.collect())
    }

    /// Returns the path of one row: the path that the kind names for one row, or the list's path, followed by the row's
    /// id or the last part of a composite id.
    pub(super) fn row_path(
        &self,
        variables: &BTreeMap<String, String>,
    ) -> Result<String, CloudFailure> {
        if let Some(one) = &self.call.one {
            return self.filled(one, variables);
        }
        let last = self.spec.id.last().and_then(|name| variables.get(name));
        let last = utf8_percent_encode(last.map_or("", String::as_str), SEGMENT);
        Ok(format!("{}/{last}", self.path(variables)?))
    }

    /// Completes a row as its kind says: drops secrets, and adds the parts of the id that only the path or a URL
    /// has, fields that are computed from other fields, and a project that the service does not show.
    pub(super) fn complete(
        &self,
        row: &mut Value,
        path: &BTreeMap<String, String>,
        login: &Identity,
    ) {
        self.kind.complete(row, path);
        if let Some(row) = row.as_object_mut() {
            row.retain(|field, _| !self.call.secret.contains(field));
        }
        let url = self
            .call
            .id_in
            .as_ref()
            .and_then(|field| row.get(field)?.as_str());
        if let Some((_, id)) = url.and_then(|url| url.rsplit_once('/')) {
            row["id"] = id.to_owned().into();
        }
        let picked = self.call.picked.iter();
        let picked = picked.map(|(field, picked)| (field, picked.values(row)));
        let split = self.call.split.iter();
        let split = split.map(|(field, of)| {
            let text = lookup_one(row, of).unwrap_or_default();
            let parts = text.split(['/', ':', '=']).filter(|part| !part.is_empty());
            (field, parts.map(Value::from).collect())
        });
        let fields: Vec<(&String, Vec<Value>)> = picked.chain(split).collect();
        for (field, values) in fields {
            if let Some(row) = row.as_object_mut() {
                row.insert(field.clone(), values.into());
            }
        }
        for (field, of) in &self.call.seconds {
            let seconds = lookup_one(row, of).and_then(|text| seconds_of(&text));
            if let (Some(row), Some(seconds)) = (row.as_object_mut(), seconds) {
                row.insert(field.clone(), seconds.to_string().into());
            }
        }
        let account = self.calls.service.account;
        let of_login =
            account || self.spec.own_project || (self.call.project_of_login && !login.is_admin());
        let of_account = self.account(path).filter(|_| account);
        let project = of_account.or(login.project_id.as_ref().filter(|_| of_login));
        if let (Some(row), Some(project)) = (row.as_object_mut(), project) {
            row.entry(&self.spec.project)
                .or_insert_with(|| project.as_str().into());
        }
    }

    pub(super) fn row_in<'j>(&self, answer: &'j Value) -> Option<&'j Value> {
        match &self.call.item {
            Some(item) => answer.get(item),
            None => {
                let id = self.call.id_in.as_ref().or(self.spec.id.last())?;
                answer.get(id).map(|_| answer)
            }
        }
    }
}

/// Whether a text has the form of a project's id: a UUID, usually without hyphens.
fn is_project_id(text: &str) -> bool {
    uuid::Uuid::try_parse(text).is_ok()
}

/// Reads a time, in seconds since 1970 or in ISO 8601 (in UTC if it names no zone), and returns its whole seconds since
/// 1970.
fn seconds_of(text: &str) -> Option<i64> {
    let whole = text.split('.').next().unwrap_or(text);
    if let Ok(seconds) = whole.parse() {
        return Some(seconds);
    }
    let zoned = DateTime::parse_from_rfc3339(text).map(|time| time.timestamp());
    let plain = || {
        text.parse::<NaiveDateTime>()
            .map(|time| time.and_utc().timestamp())
    };
    zoned.or_else(|_| plain()).ok()
}

/// Splits the values into as many runs as the length of a URL requires. Each value needs `more` bytes in
/// addition to its own.
fn runs_of(values: &[String], more: usize) -> Vec<&[String]> {
    let mut runs = Vec::new();
    let mut start = 0;
    let mut bytes = 0;
    for (at, value) in values.iter().enumerate() {
        bytes += value.len() + more;
        if bytes > FILTER_BYTES_MAX && at > start {
            runs.extend(values.get(start..at));
            start = at;
            bytes = value.len() + more;
        }
    }
    runs.extend(values.get(start..).filter(|rest| !rest.is_empty()));
    runs
}

pub(super) fn escaped(variables: &BTreeMap<String, String>) -> BTreeMap<String, String> {
    let escape = |value: &str| utf8_percent_encode(value, SEGMENT).to_string();
    let escaped = variables.iter();
    escaped
        .map(|(name, value)| (name.clone(), escape(value)))
        .collect()
}

/// Returns the variables that the call's templates may name.
pub(super) fn variables(call: &Call<'_>) -> BTreeMap<String, String> {
    let mut variables = call.vars.clone();
    variables.extend(call.kind.id_variables(call.id));
    match RestList::of(call.kind) {
        Ok(list) => list.with_parents(variables),
        Err(_) => variables,
    }
}

/// Returns the project whose account a call changes. None for the login's own project.
pub(super) fn account_of<'v>(
    kind: &Kind,
    variables: &'v BTreeMap<String, String>,
) -> Option<&'v String> {
    variables.get(&kind.spec.list.as_ref()?.project)
}

/// Returns method, path and body of a step's call.
///
/// # Errors
/// The kind has no call for the action, a template names a variable that the step does not have, or the method is not
/// one of HTTP's.
pub(super) fn rendered(
    call: &Call<'_>,
    plain: &BTreeMap<String, String>,
) -> Result<(Method, String, Option<Value>), CloudFailure> {
    let calls = calls_of(call.kind)?;
    let name = &call.kind.name;
    // A kind without a call for the action is an error, and no other call is sent instead (P1).
    let template: Option<&CallTemplate> = match call.action {
        // A call that would take more than the planned resource is never sent (N17).
        Action::Delete | Action::Detach if call.kind.removes_one_of_row(call.vars) => {
            calls.delete_one.as_ref()
        }
        action => calls.call_for(action),
    };
    let Some(template) = template else {
        return Err(CloudFailure::configuration(format!(
            "the kinds file has no call with which to {} a {name}",
            call.action.as_str()
        )));
    };
    let escaped = escaped(plain);
    let missing = |variable: String| {
        let message = format!("{name} {}: the step has no \"{variable}\"", call.id);
        CloudFailure::configuration(message)
    };
    let path = fill(&template.path, &escaped).map_err(missing)?;
    let body = template.body.as_ref().map(|body| fill_body(body, plain));
    let body = body.transpose().map_err(missing)?;
    let method = Method::from_bytes(template.method.as_bytes()).map_err(|_| {
        CloudFailure::configuration(format!(
            "{}: the kinds file names {}, which is not an HTTP method",
            call.kind.name, template.method
        ))
    })?;
    Ok((method, format!("{}{path}", calls.service.prefix), body))
}

fn fill_body(body: &Value, variables: &BTreeMap<String, String>) -> Result<Value, String> {
    Ok(match body {
        Value::String(template) if template == NULL => Value::Null,
        Value::String(template) => Value::String(fill(template, variables)?),
        Value::Array(elements) => {
            let filled = elements.iter().map(|it| fill_body(it, variables));
            filled.collect::<Result<_, _>>()?
        }
        Value::Object(fields) => {
            let filled = fields
                .iter()
                .map(|(key, value)| Ok((key.clone(), fill_body(value, variables)?)));
            Value::Object(filled.collect::<Result<_, String>>()?)
        }
        other => other.clone(),
    })
}
