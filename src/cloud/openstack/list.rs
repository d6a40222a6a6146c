//! Reads whole lists, page by page.
use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use http::Method;
use serde::Deserialize;
use serde_json::Value;
use url::form_urlencoded;

use super::call::{Answer, CallError, Reason};
use super::identity::Identity;
use super::paging::{marker, onward};
use super::session::{Service, Session};

/// Maximum number of pages that are requested for one list, restarts included: 10 million rows at 500 a page. A
/// server that sends more does not end its list.
const PAGES_MAX: usize = 20_000;
/// Maximum number of restarts of one list. Rows are deleted while gone reads pages, by gone too, but more
/// restarts than this mean another fault.
const RESTARTS_MAX: u32 = 5;
/// The status of an answer without a body.
const NO_CONTENT: u16 = 204;

/// How the rows after a page are requested.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Paging {
    /// By the link of the page. A page without one is the last.
    #[default]
    Links,
    /// By the id of the page's last row, or by the fields that the list names, until a page is empty.
    Marker,
    /// By the number of rows so far, until a page has no more rows. Rows that are created or deleted meanwhile move the
    /// other rows, so each page begins with the last row of the page before; if it does not, the list is read again.
    Offset,
    /// All rows are on one page, and the list is requested without a limit, which the service would refuse or
    /// misunderstand.
    Whole,
}

/// The list to read.
#[derive(Clone, Debug)]
pub struct ListRequest<'a> {
    pub service: Service<'a>,
    /// The path with its version, such as `/v2.0/ports`.
    pub path: &'a str,
    /// The key of the array in the answer, such as `ports`. Empty if the answer is the array.
    pub items_key: &'a str,
    /// Filters and fields, not encoded.
    pub query: &'a [(String, String)],
    /// Number of rows that a page should have. The server may give fewer.
    pub page_limit: usize,
    /// The type of the 404 for a marker that has vanished (`PortNotFound`). If not set, any 404 in the service's
    /// own words counts, except the one for an unknown path.
    pub not_found: Option<&'a str>,
    /// The list ends after this number of rows, even if the service has more.
    pub rows_max: Option<usize>,
    pub paging: Paging,
    /// The field that identifies a row.
    pub row_id: &'a str,
    pub options: ListOptions<'a>,
    /// How long the call for each page may take.
    pub deadline: Duration,
}

/// Options that the lists of few services need.
#[derive(Clone, Copy, Debug, Default)]
pub struct ListOptions<'a> {
    /// The parameters that ask for the page after a row, each with the row's field, if `marker` with the row's id
    /// does not.
    pub markers: Option<&'a BTreeMap<String, String>>,
    /// Fields that a row gets if the service leaves them out.
    pub otherwise: Option<&'a BTreeMap<String, String>>,
    /// Whether a list that the service answers with 404 has no rows, because its parent is gone.
    pub none_if_absent: bool,
}

/// A list that was read.
#[derive(Clone, Debug)]
pub struct Listing {
    pub items: Vec<Value>,
    /// Number of pages requested, including those before a restart.
    pub pages: usize,
    /// Whether the end of the list was reached. False if `rows_max` ended it.
    pub complete: bool,
    /// The identity under which the list was read.
    pub identity: Arc<Identity>,
}

/// A page of a list.
#[derive(Clone, Debug)]
pub struct Page {
    pub items: Vec<Value>,
    /// Whether the list begins with this page. It begins again if a marker vanished or rows moved, and then all
    /// earlier pages must be discarded.
    pub first: bool,
    /// Whether this is the last page.
    pub last: bool,
    /// Whether the end of the list was reached. False before that, and if `rows_max` ended it.
    pub complete: bool,
    pub identity: Arc<Identity>,
}

/// A list that is being read, with one page in memory at a time.
pub struct Pages<'a> {
    session: &'a Session,
    request: ListRequest<'a>,
    start: String,
    /// The path of the next page; none before the first.
    next: Option<String>,
    done: bool,
    /// The paths of further pages since the last start, to notice a page that leads back to one of them.
    seen: HashSet<String>,
    identity: Option<Arc<Identity>>,
    restarts: u32,
    asked: usize,
    /// Number of rows returned since the last start.
    given: usize,
    /// The id of the last row that was returned since the last start.
    last_id: Option<Value>,
}

impl Session {
    /// Reads a whole list. An error is never hidden by an incomplete or empty list.
    ///
    /// # Errors
    /// See [`Reason`].
    pub async fn list(&self, request: ListRequest<'_>) -> Result<Listing, CallError> {
        let mut pages = self.pages(request);
        let mut items: Vec<Value> = Vec::new();
        loop {
            let page = pages.advance().await?;
            if page.first {
                items.clear();
            }
            items.extend(page.items);
            if page.last {
                return Ok(Listing {
                    items,
                    pages: pages.asked,
                    complete: page.complete,
                    identity: page.identity,
                });
            }
        }
    }

    /// Starts to read a list page by page.
    pub fn pages<'a>(&'a self, request: ListRequest<'a>) -> Pages<'a> {
        let mut query = form_urlencoded::Serializer::new(String::new());
        query.extend_pairs(request.query);
        let has_limit = request.query.iter().any(|(key, _)| key == "limit");
        if request.paging != Paging::Whole && !has_limit {
            query.append_pair("limit", &request.page_limit.to_string());
        }
        Pages {
            start: format!("{}?{}", request.path, query.finish()),
            session: self,
            request,
            next: None,
            done: false,
            seen: HashSet::new(),
            identity: None,
            restarts: 0,
            asked: 0,
            given: 0,
            last_id: None,
        }
    }
}

impl Pages<'_> {
    /// Returns the next page; none after the last.
    ///
    /// # Errors
    /// See [`Reason`]. After an error the list cannot be used.
    pub async fn next(&mut self) -> Result<Option<Page>, CallError> {
        if self.done {
            return Ok(None);
        }
        self.advance().await.map(Some)
    }

    async fn advance(&mut self) -> Result<Page, CallError> {
        let answer = loop {
            if self.asked == PAGES_MAX {
                return Err(self.fail(Reason::TooManyPages { pages: PAGES_MAX }));
            }
            self.asked += 1;
            let path = self.next.as_ref().unwrap_or(&self.start);
            let (service, deadline) = (self.request.service, self.request.deadline);
            let call = self
                .session
                .request(service, Method::GET, path, None, deadline);
            match call.await {
                Ok(answer) if self.rows_moved(&answer) => {
                    if self.restarts == RESTARTS_MAX {
                        return Err(self.fail(Reason::RowsMove {
                            lists: self.restarts + 1,
                        }));
                    }
                    self.restart();
                }
                Ok(answer) => break answer,
                Err(error) if self.marker_vanished(&error) => self.restart(),
                Err(error) if self.request.options.none_if_absent && is_absent(&error) => {
                    return self.nothing(error);
                }
                Err(error) => return Err(error),
            }
        };
        self.page(answer)
    }

    fn restart(&mut self) {
        self.restarts += 1;
        self.next = None;
        self.seen.clear();
        self.given = 0;
        self.last_id = None;
    }

    /// Whether a page of a list by offset does not begin with the last row of the page before.
    fn rows_moved(&self, answer: &Answer) -> bool {
        let request = &self.request;
        let first = answer.json.get(request.items_key);
        let first = first.and_then(|rows| rows.get(0)?.get(request.row_id));
        let is_by_offset = request.paging == Paging::Offset;
        is_by_offset && self.last_id.is_some() && first != self.last_id.as_ref()
    }

    fn page(&mut self, mut answer: Answer) -> Result<Page, CallError> {
        let first = self.next.is_none();
        match &self.identity {
            Some(before) if *before != answer.identity => {
                return Err(self.fail(Reason::IdentityChanged));
            }
            _ => self.identity = Some(answer.identity.clone()),
        }
        let key = self.request.items_key;
        let array = match key {
            "" => Some(answer.json.take()),
            key => answer.json.get_mut(key).map(Value::take),
        };
        let mut items = match array {
            Some(Value::Array(items)) => items,
            Some(Value::Null) if key.is_empty() && answer.status == NO_CONTENT => Vec::new(),
            _ => {
                return Err(self.fail(Reason::NoItems {
                    items_key: key.to_owned(),
                    request_id: answer.request_id,
                }));
            }
        };
        if self.request.paging == Paging::Offset && self.last_id.is_some() {
            items.remove(0);
        }
        for row in items.iter_mut().filter_map(Value::as_object_mut) {
            for (field, value) in self.request.options.otherwise.into_iter().flatten() {
                row.entry(field).or_insert_with(|| value.as_str().into());
            }
        }
        let next = self.next_page(&answer, &items)?;
        let left = self.request.rows_max.unwrap_or(usize::MAX) - self.given;
        let complete = next.is_none() && items.len() <= left;
        self.done = complete || items.len() >= left;
        items.truncate(left);
        self.given += items.len();
        let last = items.last();
        self.last_id = last.and_then(|row| row.get(self.request.row_id).cloned());
        if let Some(path) = next {
            if !self.seen.insert(path.clone()) {
                return Err(self.fail(Reason::EndlessList { page: self.asked }));
            }
            self.next = Some(path);
        }
        Ok(Page {
            items,
            first,
            last: self.done,
            complete,
            identity: answer.identity,
        })
    }

    /// Returns the path of the page after this one; none if this page is the last.
    fn next_page(&self, answer: &Answer, items: &[Value]) -> Result<Option<String>, CallError> {
        let (paging, row_id) = (self.request.paging, self.request.row_id);
        if matches!(paging, Paging::Links | Paging::Whole) {
            let key = self.request.items_key;
            let next = onward(&answer.json, &answer.headers, key, &self.start);
            return next.map_err(|reason| self.fail(reason));
        }
        let Some(last) = items.last() else {
            return Ok(None);
        };
        let text_of = |field: &str| {
            let text = last.get(field).and_then(Value::as_str);
            text.ok_or_else(|| {
                let field = field.to_owned();
                self.fail(Reason::NoRowId { field })
            })
        };
        let mut query = form_urlencoded::Serializer::new(String::new());
        if paging == Paging::Marker
            && let Some(markers) = self.request.options.markers
        {
            for (parameter, field) in markers {
                query.append_pair(parameter, text_of(field)?);
            }
        } else if paging == Paging::Marker {
            query.append_pair("marker", text_of(row_id)?);
        } else {
            text_of(row_id)?;
            let overlap = (self.given + items.len()).saturating_sub(1);
            query.append_pair("offset", &overlap.to_string());
        }
        Ok(Some(format!("{}&{}", self.start, query.finish())))
    }

    /// Whether the row that the request for a later page names was deleted, so that the list must be read again.
    /// Neutron then answers 404 with the kind's type, and Glance and Octavia answer 400.
    fn marker_vanished(&self, error: &CallError) -> bool {
        let (Some(path), Reason::Refused(remote)) = (&self.next, &error.reason) else {
            return false;
        };
        let (kind, message) = (remote.kind.as_deref(), remote.message.as_str());
        let vanished = match (remote.status, self.request.not_found) {
            (404, Some(not_found)) => kind == Some(not_found),
            // Neutron answers HTTPNotFound for a path that it does not know.
            (404, None) => kind != Some("HTTPNotFound"),
            (400, _) => {
                let marker = marker(path);
                message.to_lowercase().contains("marker")
                    || marker.is_some_and(|marker| message.contains(&marker))
            }
            _ => false,
        };
        remote.own && vanished && self.restarts < RESTARTS_MAX
    }

    /// Returns an empty last page for a list whose parent is gone, or the error if the error names no identity.
    fn nothing(&mut self, error: CallError) -> Result<Page, CallError> {
        let Some(identity) = error.remote().and_then(|remote| remote.identity.clone()) else {
            return Err(error);
        };
        let first = self.next.is_none();
        self.done = true;
        Ok(Page {
            items: Vec::new(),
            first,
            last: true,
            complete: true,
            identity,
        })
    }

    fn fail(&self, reason: Reason) -> CallError {
        let url = format!("{} {}", self.request.service.name, self.start);
        self.session.error(&Method::GET, url, reason)
    }
}

/// Whether the service itself says that there is no such resource.
fn is_absent(error: &CallError) -> bool {
    let remote = error.remote();
    remote.is_some_and(|remote| remote.own && remote.status == 404)
}
