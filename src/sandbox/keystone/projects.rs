//! Creation and deletion of projects, and the filters of `GET /v3/projects`. An unknown filter (`id` among
//! them) is ignored.
use chrono::{DateTime, Utc};
use http::StatusCode;
use serde_json::{Value, json};

use super::{Keystone, Project, not_found};
use crate::sandbox::wire::{Answer, Call, Refusal, Result};

/// Characters in a project's name.
const NAME_MAX: usize = 64;

const NO: [&str; 9] = ["False", "FALSE", "false", "0", "n", "N", "no", "off", "OFF"];

/// Whether a project passes the filters of a request. A filter that is given twice must be met twice.
pub(super) fn passes(call: &Call<'_>, project: &Project) -> bool {
    call.query.iter().all(|(key, value)| match key.as_str() {
        "name" => same(value, &project.name),
        "domain_id" => same(value, "default"),
        // The parent of all projects is the domain, which is no project here.
        "parent_id" => false,
        "enabled" => is_yes(value),
        "is_domain" => !is_yes(value),
        _ => true,
    })
}

/// Compares as the database does: ignoring case and trailing blanks.
fn same(one: &str, other: &str) -> bool {
    one.trim_end_matches(' ')
        .eq_ignore_ascii_case(other.trim_end_matches(' '))
}

fn is_yes(word: &str) -> bool {
    !NO.contains(&word)
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
