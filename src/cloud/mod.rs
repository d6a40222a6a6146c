//! The port to clouds: lists and reads resources, and sends calls, as the kinds describe. Each answer is classified
//! once, here.
//!
//! **Architecture invariant:** the meaning of an answer is an [`Outcome`] or a [`CloudFailure`], by the kind's own
//! rules. Modules above this one show the status code, and read it only to tell apart failures of one class: whether a
//! failed read may succeed later (`engine::reads`), whether a delete was refused or failed later (`engine::diagnose`),
//! whether a login lacks rights (`explain`, `doctor`), and whether a gate's login can see a resource (`gate::parts`).

pub mod openstack;
mod registry;
mod router;

use std::collections::{BTreeMap, BTreeSet};

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use serde_json::Value;

pub use openstack::{MakeTransport, OpenStack, OpenStackKinds, RereadConfig};
pub use registry::Registry;
pub use router::CloudRouter;

use crate::domain::kinds::{Kind, Kinds, KindsError, Offer, Provider, Source};
use crate::domain::model::{Action, Answer, ErrorClass, Identity, KindName, Site, StepError};
use crate::domain::policy::{Failure, Outcome, Retry};
use crate::domain::query::ListFilter;

/// Maximum number of rows that one call of a list asks for (N14).
pub const PAGE_ROWS: usize = 500;

/// The providers that gone has. A kinds file that names no provider belongs to the first.
const PROVIDERS: &[&dyn Provider] = &[&OpenStackKinds];

/// Loads the built-in kinds and the user's kinds. A later file replaces a kind of the same name only if it
/// says `override = true`.
///
/// # Errors
/// A file is not valid; see [`KindsError`].
pub fn load_kinds(more: &[Source]) -> Result<Kinds, KindsError> {
    let embedded = openstack::EMBEDDED.iter().map(|(file, text)| Source {
        file: (*file).to_owned(),
        text: (*text).to_owned(),
    });
    read_kinds(embedded.chain(more.iter().cloned()))
}

/// Reads these kinds files, without the built-in ones.
///
/// # Errors
/// A file is not valid; see [`KindsError`].
pub fn read_kinds(sources: impl IntoIterator<Item = Source>) -> Result<Kinds, KindsError> {
    Kinds::read(sources, PROVIDERS)
}

/// The clouds, addressed by site.
#[async_trait]
pub trait Cloud: Send + Sync {
    /// Returns the configured sites, in a fixed order.
    fn sites(&self) -> Vec<Site>;

    /// Returns the provider of a site's kinds; none for a deployment, and from a router also for a site that is not
    /// configured.
    fn provider(&self, site: &Site) -> Option<&'static str>;

    /// Whether the configured login of a site differs from the login that was used last (I15). The call reads files.
    fn has_other_login(&self, site: &Site) -> bool;

    /// Returns the identity under which requests to the site are made.
    async fn identity(&self, site: &Site, freshness: Freshness) -> Result<SignedIn, CloudFailure>;

    /// Returns the URL of the service that a kind belongs to: part of a plan's hash.
    async fn endpoint(&self, site: &Site, kind: &Kind) -> Result<String, CloudFailure>;

    /// Returns the services and extensions of the site, compared with the kinds that gone has.
    async fn offer(&self, site: &Site, kinds: &Kinds) -> Result<Offer, CloudFailure>;

    /// Lists all rows of a listed kind, or the rows that the filter finds, as they arrive. Returns the
    /// identity under which they were read; none if the cloud lacks the kind's service, API version or extension,
    /// so that nothing was listed. An error is never hidden by an incomplete or empty list.
    async fn list_by_page(
        &self,
        request: ListRows<'_>,
        listed: &mut (dyn FnMut(Listed) + Send),
    ) -> Result<Option<Identity>, CloudFailure>;

    /// Lists the same rows as [`Cloud::list_by_page`], and returns all of them at once.
    async fn list(&self, request: ListRows<'_>) -> Result<Rows, CloudFailure> {
        let mut rows = Vec::new();
        let mut part = 0;
        let mut collect = |listed| match listed {
            Listed::Part => part = rows.len(),
            Listed::PartAgain => rows.truncate(part),
            Listed::Rows(page) => rows.extend(page),
        };
        let identity = self.list_by_page(request, &mut collect).await?;
        Ok(Rows { rows, identity })
    }

    /// Reads one row of a listed kind by id. Only the kind's own not-found answer means that the row is
    /// absent (I13a).
    async fn read(&self, site: &Site, kind: &Kind, id: &str) -> Result<Row, CloudFailure>;

    /// Sends the call of a step.
    async fn act(&self, call: Call<'_>) -> Acted;

    /// Returns the names of the accounts to which resources belong (OpenStack's projects), by id, for people only.
    /// The call never fails, and takes some seconds at most. An account whose name is not known is left out, and the
    /// login's own account may be added.
    async fn account_names(
        &self,
        site: &Site,
        ids: &BTreeSet<String>,
        lookup: NameLookup,
    ) -> BTreeMap<String, String>;
}

/// How the names of accounts are looked up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameLookup {
    /// The names that are in memory. No account is listed or read for them.
    Cached,
    /// The cloud lists the names of all accounts, unless an answer of the last hour is known (N14).
    Listed,
}

/// How fresh an identity must be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Freshness {
    /// The identity of the last login.
    AtLogin,
    /// The identity that the cloud describes now: a token that is still valid may have lost roles (I13).
    Now,
    /// The identity of a new login, which also shows rights that were given again.
    ByLoggingIn,
}

/// The identity of a site's login.
#[derive(Clone, Debug)]
pub struct SignedIn {
    pub identity: Identity,
    /// For people, the user and the project (the domain if there is no project): `alice in demo`.
    pub shown: String,
}

/// A list to read.
#[derive(Clone, Copy, Debug)]
pub struct ListRows<'r> {
    pub site: &'r Site,
    /// A listed kind.
    pub kind: &'r Kind,
    pub filter: Option<&'r ListFilter>,
    pub fields: Fields,
    /// Each part of the list ends after this number of rows, so the list may be incomplete.
    pub rows_max: Option<usize>,
}

/// The fields that the rows of a list must have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fields {
    /// All fields that the cloud shows, for people.
    All,
    /// The fields that planning needs, as the kind names them.
    Planning,
    /// The fields that form the id.
    Id,
}

/// The parts of a list, as they are read.
#[derive(Clone, Debug)]
pub enum Listed {
    /// A part of the list begins. A filter with many values, or a kind whose rows no single list shows, needs several
    /// lists, which are the parts.
    Part,
    /// The current part begins with its first page, or is listed again because a page's marker was deleted or rows
    /// moved. The part's rows so far must be discarded.
    PartAgain,
    Rows(Vec<Value>),
}

/// A list that was read.
#[derive(Clone, Debug)]
pub struct Rows {
    pub rows: Vec<Value>,
    /// The value that [`Cloud::list_by_page`] returns.
    pub identity: Option<Identity>,
}

/// The answer to a read of one resource.
#[derive(Clone, Debug)]
pub struct Row {
    /// None if the resource is absent, or if nothing was read ([`Row::offered`]).
    pub row: Option<Value>,
    /// The identity under which the resource was read; none if no call was made.
    pub identity: Option<Identity>,
    /// False if the cloud lacks the kind's service, API version or extension, so that nothing was read. A plan may
    /// conclude that there are no resources of the kind. But a missing service does not prove that a resource which
    /// existed is gone (I13).
    pub offered: bool,
    /// Whether the absent resource is the project of the login itself. Then the login's identity cannot be read
    /// again, and need not be: to a login that only lost its rights in a project, the cloud gives another answer.
    pub own_project_gone: bool,
}

impl Row {
    /// Makes the result of a call that was answered, with no row if the resource is absent.
    pub fn answered(row: Option<Value>, identity: Option<Identity>) -> Self {
        Self {
            row,
            identity,
            offered: true,
            own_project_gone: false,
        }
    }

    /// Makes the result for a kind that the cloud lacks, for which no call was made.
    pub fn not_offered() -> Self {
        Self {
            offered: false,
            ..Self::answered(None, None)
        }
    }
}

/// A step's call, from its kind's template.
#[derive(Clone, Copy, Debug)]
pub struct Call<'c> {
    pub site: &'c Site,
    pub kind: &'c Kind,
    pub action: Action,
    pub id: &'c str,
    pub vars: &'c BTreeMap<String, String>,
}

/// The result of a step's call.
#[derive(Clone, Debug)]
pub struct Acted {
    pub outcome: Outcome,
    /// Ids that the refusal names, with their kind.
    pub named: Vec<(KindName, String)>,
    /// One line for the timeline: `DELETE /v2.0/ports/… 409 PortInUse (req-…)`.
    pub line: String,
    /// Status and request id of the answer, for programs, whatever the outcome.
    pub answer: Answer,
}

impl Acted {
    /// Makes the result of a call that was not sent. Its answer is the answer to the login or to the read before the
    /// call, if there was one.
    pub fn not_sent(failed: CloudFailure, line: String, at: DateTime<Utc>) -> Self {
        Self {
            answer: Answer {
                status: failed.status,
                request_id: Some(failed.request_id.clone()).filter(|id| !id.is_empty()),
            },
            outcome: failed.into_outcome(at),
            named: Vec::new(),
            line,
        }
    }
}

/// Why a call to a cloud failed, classified.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{message}")]
pub struct CloudFailure {
    pub retry: Retry,
    pub class: ErrorClass,
    /// Whether the only reason is that this login may not make the call.
    pub forbidden: bool,
    /// The HTTP status, for people and programs. The documentation of this module lists the decisions that depend
    /// on it.
    pub status: Option<u16>,
    pub kind: String,
    /// The cloud's own words if it answered; otherwise what was attempted, on what, and why it failed.
    pub message: String,
    pub request_id: String,
    pub retry_after: Option<std::time::Duration>,
}

impl CloudFailure {
    /// Makes a failure without an answer of the cloud: it has no status and no request id.
    fn unanswered(retry: Retry, class: ErrorClass, kind: &str, message: String) -> Self {
        Self {
            retry,
            class,
            forbidden: false,
            status: None,
            kind: kind.to_owned(),
            message,
            request_id: String::new(),
            retry_after: None,
        }
    }

    /// Returns the failure of a call that the configuration or a kinds file makes impossible. Nothing was
    /// sent.
    pub(super) fn configuration(message: String) -> Self {
        Self::unanswered(Retry::Never, ErrorClass::Fatal, "Configuration", message)
    }

    fn into_outcome(self, at: DateTime<Utc>) -> Outcome {
        Outcome::Failed(Failure {
            retry: self.retry,
            retry_after: self.retry_after,
            blockers: Vec::new(),
            error: self.to_step_error(at),
        })
    }

    pub fn to_step_error(&self, at: DateTime<Utc>) -> StepError {
        StepError {
            class: self.class,
            status: self.status,
            kind: self.kind.clone(),
            message: self.message.clone(),
            request_id: self.request_id.clone(),
            at,
        }
    }
}
