//! Names of projects, for people: fetched from Keystone for a whole cloud at once, and cached.
//!
//! 1. One listing serves all regions of a cloud. A few projects are read by id: those that the listing lacks, or that
//!    are asked for by a login that may not list.
//! 2. An answer, also a refusal, is cached for an hour, and a failure for ten minutes. So a deletion with
//!    thousands of blockers costs one listing, or a few reads (N14).
//! 3. One task asks Keystone while other tasks wait for the answer, each for `WAIT_MAX` at most, because a name is not
//!    worth a longer delay.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use http::Method;
use percent_encoding::utf8_percent_encode;
use serde_json::Value;
use tokio::sync::Mutex;
use tokio::time::timeout;

use super::catalog::SEGMENT;
use super::list::{ListOptions, ListRequest, Paging};
use super::{CallError, Reason, Session};
use crate::cloud::NameLookup;

/// How long a caller waits for the names that it wants to show.
const WAIT_MAX: Duration = Duration::from_secs(3);
const KEPT: TimeDelta = TimeDelta::hours(1);
const KEPT_FAILURE: TimeDelta = TimeDelta::minutes(10);
/// Maximum number of reads by id while an answer is cached. A login may read its own projects.
const BY_ID_MAX: usize = 5;
/// Number of characters to which a name is cut: Keystone's own limit. A longer name must not be stored with every
/// blocker.
const NAME_CHARS_MAX: usize = 64;

const SERVICE: &str = "identity";
/// Maximum number of projects that are listed: in ten calls to a Keystone that gives pages of [`PAGE_ROWS`], and in one
/// call to an older Keystone, which lists everything at once.
const PROJECTS_MAX: usize = 10_000;
const PAGE_ROWS: usize = 1000;

/// The known names, by the name of the cloud.
#[derive(Default)]
pub(super) struct ProjectNames {
    clouds: Mutex<HashMap<String, Arc<Mutex<Known>>>>,
}

#[derive(Default)]
struct Known {
    names: HashMap<String, String>,
    /// The time until which the names are used without another listing; none if Keystone has not been asked yet.
    good_until: Option<DateTime<Utc>>,
    /// Ids that were read one by one since the last listing, whatever the answer was.
    by_id: HashSet<String>,
    by_id_left: usize,
}

impl ProjectNames {
    pub(super) async fn of(
        &self,
        session: &Session,
        ids: &BTreeSet<String>,
        lookup: NameLookup,
        now: DateTime<Utc>,
    ) -> BTreeMap<String, String> {
        let cloud = session.cloud().name.clone();
        let known = self.clouds.lock().await.entry(cloud).or_default().clone();
        let at_once = |ids: &BTreeSet<String>| match known.try_lock() {
            Ok(known) => known.of(ids),
            Err(_) => BTreeMap::new(),
        };
        let asked = async {
            // Keystone's answer to the login names the login's own project.
            let own = own_project(session).await;
            let is_own = |id: &String| own.as_ref().is_some_and(|(own, _)| own == id);
            let mut ids = ids.clone();
            ids.retain(|id| !id.is_empty() && !is_own(id));
            let mut found = match lookup {
                NameLookup::Listed if !ids.is_empty() => {
                    let mut known = known.lock().await;
                    known.ask(session, &ids, now).await;
                    known.of(&ids)
                }
                _ => at_once(&ids),
            };
            found.extend(own);
            found
        };
        // If this future is dropped midway, the names that were found are kept, and the next caller does not
        // ask at once.
        let found = timeout(WAIT_MAX, asked).await;
        found.unwrap_or_else(|_| at_once(ids))
    }
}

async fn own_project(session: &Session) -> Option<(String, String)> {
    let identity = session.identity().await.ok()?;
    let (id, name) = (&identity.project_id, &identity.project_name);
    Some((id.clone()?, shortened(name.as_ref()?)))
}

impl Known {
    fn of(&self, ids: &BTreeSet<String>) -> BTreeMap<String, String> {
        let named = ids
            .iter()
            .filter_map(|id| Some((id.clone(), self.names.get(id)?.clone())));
        named.collect()
    }

    async fn ask(&mut self, session: &Session, ids: &BTreeSet<String>, now: DateTime<Utc>) {
        if self.good_until.is_none_or(|until| until <= now) {
            self.list(session, now).await;
        }
        for id in ids {
            let known = self.names.contains_key(id);
            if known || self.by_id_left == 0 || !self.by_id.insert(id.clone()) {
                continue;
            }
            self.by_id_left -= 1;
            let segment = utf8_percent_encode(id, SEGMENT).to_string();
            match session.project(&segment, WAIT_MAX).await {
                Ok(Some(name)) => {
                    self.names.insert(id.clone(), shortened(&name));
                }
                Ok(None) => {}
                Err(error) if refused(&error) => {}
                Err(_) => return,
            }
        }
    }

    /// Lists the projects again. If Keystone refuses, all names are dropped, and projects may be read by id. If the
    /// listing fails in another way, the known names stay, and no project is read by id.
    async fn list(&mut self, session: &Session, now: DateTime<Utc>) {
        self.good_until = Some(now + KEPT_FAILURE);
        self.by_id.clear();
        self.by_id_left = 0;
        self.names = match session.projects(WAIT_MAX).await {
            Ok(names) => names
                .into_iter()
                .map(|(id, name)| (id, shortened(&name)))
                .collect(),
            Err(error) if refused(&error) => HashMap::new(),
            Err(error) => {
                tracing::debug!(%error, "the projects were not listed");
                return;
            }
        };
        self.good_until = Some(now + KEPT);
        self.by_id_left = BY_ID_MAX;
    }
}

/// Whether Keystone answered, but does not show the projects or the project to this login.
fn refused(error: &CallError) -> bool {
    let remote = error.remote();
    let by_rules = matches!(error.reason, Reason::AccessRules { .. });
    by_rules || remote.is_some_and(|remote| matches!(remote.status, 403 | 404))
}

fn shortened(name: &str) -> String {
    name.chars().take(NAME_CHARS_MAX).collect()
}

impl Session {
    /// Returns the names, by id, of the projects that Keystone lists for this login. If there are more than
    /// 10,000, some are missing.
    ///
    /// # Errors
    /// See [`Reason`](super::Reason). Keystone usually refuses a login that is not an admin with a 403.
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

    /// Returns the name of one project by its id, which must be encoded for a path; none if the answer has no name.
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
