//! The projects of a cloud, by name.
use std::collections::HashMap;
use std::time::Duration;

use http::Method;
use serde_json::Value;

use super::call::CallError;
use super::list::{ListOptions, ListRequest, Paging};
use super::session::Session;

const SERVICE: &str = "identity";
/// Ten calls at most to a Keystone that pages, and one call to an older Keystone, which lists everything at
/// once.
const PROJECTS_MAX: usize = 10_000;
const PAGE_ROWS: usize = 1000;

impl Session {
    /// Returns the names, by id, of the projects that Keystone lists for this login. If there are more than
    /// 10,000, some are missing.
    ///
    /// # Errors
    /// See [`Reason`](super::Reason). A login that is not an admin is refused with a 403.
    pub async fn projects(&self, deadline: Duration) -> Result<HashMap<String, String>, CallError> {
        let request = ListRequest {
            service: SERVICE.into(),
            path: "/v3/projects",
            items_key: "projects",
            query: &[],
            page_limit: PAGE_ROWS,
            not_found: None,
            rows_max: Some(PROJECTS_MAX),
            paging: Paging::Links,
            row_id: "id",
            options: ListOptions::default(),
            deadline,
        };
        let listing = self.list(request).await?;
        Ok(listing.items.iter().filter_map(named).collect())
    }

    /// Returns the name of one project by its id, which must be encoded for a path.
    ///
    /// # Errors
    /// See [`Reason`](super::Reason). A project to which the login has no access is refused, or not found.
    pub async fn project(&self, id: &str, deadline: Duration) -> Result<Option<String>, CallError> {
        let path = format!("/v3/projects/{id}");
        let answer = self
            .request(SERVICE, Method::GET, &path, None, deadline)
            .await?;
        let project = answer.json.get("project").and_then(named);
        Ok(project.map(|(_, name)| name))
    }
}

fn named(project: &Value) -> Option<(String, String)> {
    let text = |field| project.get(field).and_then(Value::as_str);
    Some((text("id")?.to_owned(), text("name")?.to_owned()))
}
