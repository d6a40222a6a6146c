//! Reads whole lists, page by page.
use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use http::Method;
use serde_json::Value;
use url::form_urlencoded;

use super::call::{Answer, CallError, Reason};
use super::identity::Identity;
use super::paging::{Onward, marker, onward};
use super::remote::RemoteError;
use super::session::{Service, Session};

/// 10 million rows at 500 a page. A server that sends more does not end its list.
const PAGES_MAX: usize = 20_000;
/// Maximum number of restarts of one list. Rows are deleted while gone reads pages, by gone too, but more
/// restarts than this mean another fault.
const RESTARTS_MAX: u32 = 5;

/// The list to read.
#[derive(Clone, Debug)]
pub struct ListRequest<'a> {
    pub service: Service<'a>,
    /// The path with its version, such as `/v2.0/ports`.
    pub path: &'a str,
    /// The key of the array in the answer, such as `ports`.
    pub items_key: &'a str,
    /// Filters and fields, not encoded.
    pub query: &'a [(String, String)],
    /// Number of rows that a page should have. The server may give fewer.
    pub page_limit: usize,
    /// The type of the 404 for a marker that has vanished (`PortNotFound`). Without a type, any 404 in the
    /// service's own words counts, except the one for an unknown path.
    pub not_found: Option<&'a str>,
    /// Stop after this number of rows.
    pub rows_max: Option<usize>,
    /// The deadline of each page.
    pub deadline: Duration,
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
    /// Whether the list begins with this page. It begins again if a marker vanished, and then all earlier
    /// pages must be discarded.
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
    /// The paths that were read since the last start, to notice a list that leads back.
    seen: HashSet<String>,
    identity: Option<Arc<Identity>>,
    restarts: u32,
    asked: usize,
    /// Number of rows returned since the last start.
    given: usize,
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
    #[must_use]
    pub fn pages<'a>(&'a self, request: ListRequest<'a>) -> Pages<'a> {
        let mut query = form_urlencoded::Serializer::new(String::new());
        query.extend_pairs(request.query);
        if !request.query.iter().any(|(key, _)| key == "limit") {
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
            let ListRequest {
                service, deadline, ..
            } = self.request;
            let call = self
                .session
                .request(service, Method::GET, path, None, deadline);
            match call.await {
                Ok(answer) => break answer,
                Err(error) if self.marker_vanished(&error) => {
                    self.restarts += 1;
                    self.next = None;
                    self.seen.clear();
                    self.given = 0;
                }
                Err(error) => return Err(error),
            }
        };
        self.page(answer)
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
        let mut items = match answer.json.get_mut(key).map(Value::take) {
            Some(Value::Array(items)) => items,
            _ => {
                return Err(self.fail(Reason::NoItems {
                    items_key: key.to_owned(),
                    request_id: answer.request_id,
                }));
            }
        };
        let next = onward(&answer.json, &answer.headers, key, &self.start);
        let next = match next.map_err(|reason| self.fail(reason))? {
            Onward::End => None,
            Onward::At(path) => Some(path),
        };
        let left = self.request.rows_max.unwrap_or(usize::MAX) - self.given;
        let complete = next.is_none() && items.len() <= left;
        self.done = complete || items.len() >= left;
        items.truncate(left);
        self.given += items.len();
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

    /// Whether the row that the link names was deleted, so that the list must be read again. Neutron then
    /// answers 404 with the kind's type, and Glance and Octavia answer 400.
    fn marker_vanished(&self, error: &CallError) -> bool {
        let (Some(path), Reason::Refused(remote)) = (&self.next, &error.reason) else {
            return false;
        };
        let RemoteError {
            status,
            kind,
            message,
            own: true,
            ..
        } = &**remote
        else {
            return false;
        };
        let vanished = match (*status, self.request.not_found) {
            (404, Some(not_found)) => kind.as_deref() == Some(not_found),
            // Neutron answers HTTPNotFound for a path that it does not know.
            (404, None) => kind.as_deref() != Some("HTTPNotFound"),
            (400, _) => {
                let marker = marker(path);
                message.to_lowercase().contains("marker")
                    || marker.is_some_and(|marker| message.contains(&marker))
            }
            _ => false,
        };
        vanished && self.restarts < RESTARTS_MAX
    }

    fn fail(&self, reason: Reason) -> CallError {
        let url = format!("{} {}", self.request.service.name, self.start);
        self.session.error(&Method::GET, url, reason)
    }
}
