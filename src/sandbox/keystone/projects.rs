//! Creation and deletion of projects, and the filters of `GET /v3/projects`. An unknown filter (`id` among
//! them) is ignored.
use chrono::{DateTime, Utc};
use http::StatusCode;
use serde_json::{Value, json};

use super::{Keystone, Project, not_found};
use crate::sandbox::wire::{Answer, Call, Refusal, Result};

/// Characters in a project's name.
const NAME_MAX: usize = 64;

const WORDS: [&str; 19] = [
    "True", "TRUE", "true", "False", "FALSE", "false", "", "1", "0", "y", "Y", "n", "N", "on",
    "ON", "off", "OFF", "yes", "no",
];
const NO: [&str; 9] = ["False", "FALSE", "false", "0", "n", "N", "no", "off", "OFF"];

/// The filters of a request for a list of projects.
pub(super) struct Filters(Vec<(Filter, String)>);

#[derive(Clone, Copy, PartialEq, Eq)]
enum Filter {
    Name,
    Domain,
    Parent,
    Enabled,
    IsDomain,
}

impl Filters {
    /// Reads the filters of a request. They are checked before the caller's rights.
    pub(super) fn of(call: &Call<'_>) -> Result<Self> {
        let mut filters = Vec::new();
        for (key, value) in &call.query {
            let filter = match key.as_str() {
                "name" => Filter::Name,
                "domain_id" => Filter::Domain,
                "parent_id" => Filter::Parent,
                "enabled" => Filter::Enabled,
                "is_domain" => Filter::IsDomain,
                _ => continue,
            };
            if let Some(problem) = filter.problem(value) {
                return Err(Refusal::bad_request(
                    "Bad Request",
                    format!("Invalid input for field/attribute {key}. Value: {value}. {problem}"),
                ));
            }
            filters.push((filter, value.clone()));
        }
        Ok(Self(filters))
    }

    /// Whether a project passes. A filter that is given twice must be met twice.
    pub(super) fn fit(&self, project: &Project) -> bool {
        self.wants_domains(false)
            && self.0.iter().all(|(filter, value)| match filter {
                Filter::Name => same(value, &project.name),
                Filter::Domain => same(value, "default"),
                // The parent of all projects is the domain, whose id is not a UUID, so no valid filter names
                // it.
                Filter::Parent => false,
                Filter::Enabled => is_yes(value),
                Filter::IsDomain => true,
            })
    }

    /// Whether the domain, as a project, passes.
    pub(super) fn fit_domain(&self) -> bool {
        self.wants_domains(true)
            && self.0.iter().all(|(filter, value)| match filter {
                Filter::Name => same(value, "Default"),
                Filter::Domain | Filter::Parent => false,
                Filter::Enabled => is_yes(value),
                Filter::IsDomain => true,
            })
    }

    /// Whether the list contains domains (or projects, for `false`). It contains projects unless it asks for
    /// domains.
    fn wants_domains(&self, wanted: bool) -> bool {
        let mut asked = self
            .0
            .iter()
            .filter(|(filter, _)| *filter == Filter::IsDomain)
            .peekable();
        if asked.peek().is_none() {
            return !wanted;
        }
        asked.all(|(_, value)| is_yes(value) == wanted)
    }
}

impl Filter {
    /// Returns what is wrong with a value.
    fn problem(self, value: &str) -> Option<String> {
        let too_long = value.chars().count() > NAME_MAX;
        match self {
            Self::Name | Self::Domain if value.is_empty() => {
                Some("'' should be non-empty".to_owned())
            }
            Self::Name | Self::Domain if too_long => Some(format!("'{value}' is too long")),
            Self::Domain
                if !value
                    .chars()
                    .all(|letter| letter.is_ascii_alphanumeric() || letter == '-') =>
            {
                Some(format!("'{value}' does not match '^[a-zA-Z0-9-]+$'"))
            }
            Self::Parent if value.parse::<uuid::Uuid>().is_err() => {
                Some(format!("'{value}' is not a 'uuid'"))
            }
            Self::Enabled | Self::IsDomain if !WORDS.contains(&value) => Some(format!(
                "'{value}' is not one of [True, 'True', 'TRUE', 'true', False, 'False', 'FALSE', \
                 'false', '', '1', '0', 'y', 'Y', 'n', 'N', 'on', 'ON', 'off', 'OFF', 'yes', 'no']"
            )),
            _ => None,
        }
    }
}

/// Compares as the database does: ignoring case and trailing blanks.
fn same(one: &str, other: &str) -> bool {
    one.trim_end_matches(' ')
        .eq_ignore_ascii_case(other.trim_end_matches(' '))
}

fn is_yes(word: &str) -> bool {
    !NO.contains(&word)
}

/// Returns the domain as a project.
pub(super) fn domain_shown(base_url: &str) -> Value {
    json!({
        "id": "default",
        "name": "Default",
        "domain_id": null,
        "description": "The default domain",
        "enabled": true,
        "parent_id": null,
        "is_domain": true,
        "tags": [],
        "options": {},
        "links": {"self": format!("{base_url}/v3/projects/default")},
    })
}

impl Keystone {
    pub(super) fn create_project(&mut self, call: &Call<'_>, now: DateTime<Utc>) -> Result<Answer> {
        self.admin_only(call, "create_project", now)?;
        let body = call.json();
        let name = body.pointer("/project/name").and_then(Value::as_str);
        let Some(name) = name.filter(|name| (1..=NAME_MAX).contains(&name.chars().count())) else {
            return Err(Refusal::bad_request(
                "Bad Request",
                "'name' is a required property".to_owned(),
            ));
        };
        if self.projects.iter().any(|other| same(&other.name, name)) {
            return Err(Refusal::new(
                StatusCode::CONFLICT,
                "Conflict",
                format!(
                    "Conflict occurred attempting to store project - it is not permitted to have two \
                     projects with the same name in the same domain : {name}."
                ),
            ));
        }
        let description = body.pointer("/project/description");
        let project = Project {
            id: self.ids.hex(),
            name: name.to_owned(),
            description: description
                .and_then(Value::as_str)
                .unwrap_or_default()
                .to_owned(),
        };
        let shown = self.project_shown(&project);
        self.projects.push(project);
        Ok(Answer::created(json!({"project": shown})))
    }

    /// Deletes a project. Its resources in the other services stay, under a project id that no longer exists.
    pub(super) fn delete_project(
        &mut self,
        call: &Call<'_>,
        id: &str,
        now: DateTime<Utc>,
    ) -> Result<Answer> {
        self.admin_only(call, "delete_project", now)?;
        let of = self
            .projects
            .iter()
            .position(|it| it.id.eq_ignore_ascii_case(id));
        let project = self
            .projects
            .remove(of.ok_or_else(|| not_found("project", id))?);
        for user in &mut self.users {
            user.roles.remove(&project.id);
        }
        Ok(Answer::no_content())
    }
}
