//! Native resources as a cloud: one more site, whose reads and changes go to the ledger.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use async_trait::async_trait;

use super::{
    Acted, Call, Cloud, CloudFailure, Freshness, ListRows, Listed, NameLookup, PAGE_ROWS, Row,
    SignedIn,
};
use crate::domain::kinds::{IN_USE, INCARNATION, Kind, Kinds, NOT_FOUND, Offer};
use crate::domain::model::{Action, Answer, ErrorClass, Identity, ResourceKey, Site};
use crate::domain::native::{Native, unset_of};
use crate::domain::policy::{Outcome, Retry};
use crate::domain::query::ListFilter;
use crate::domain::text::escape;
use crate::ledger::{Applied, Change, Cursor, Ledger, LedgerError, NativeBy, NativeFilter};
use crate::system::clock::Clock;

/// The registry of this deployment. The deployment is its only site.
pub struct Registry {
    home: Site,
    kinds: Arc<Kinds>,
    ledger: Arc<dyn Ledger>,
    clock: Clock,
}

impl Registry {
    pub fn new(home: Site, kinds: Arc<Kinds>, ledger: Arc<dyn Ledger>, clock: Clock) -> Self {
        Self {
            home,
            kinds,
            ledger,
            clock,
        }
    }

    fn identity(&self) -> Identity {
        Identity {
            user_id: self.home.to_string(),
            project_id: String::new(),
            roles: Vec::new(),
        }
    }

    fn filter(&self, kind: &Kind, by: NativeBy) -> NativeFilter {
        NativeFilter {
            site: self.home.clone(),
            kind: kind.name.clone(),
            by,
        }
    }

    async fn commit(&self, change: Change) -> Result<Outcome, LedgerError> {
        let applied = self.ledger.commit(vec![change]).await?;
        Ok(match applied.into_iter().next() {
            Some(Applied::Done) => Outcome::Accepted,
            Some(Applied::Stale) => Outcome::Absent,
            other => {
                let message = match other {
                    Some(Applied::Refused(why)) => why,
                    _ => "the ledger gave an unexpected answer".to_owned(),
                };
                let (retry, class) = (Retry::Scheduled, ErrorClass::Blocked);
                let refused = CloudFailure {
                    status: Some(409),
                    ..CloudFailure::unanswered(retry, class, IN_USE, message)
                };
                refused.into_outcome(self.clock.now())
            }
        })
    }
}

#[async_trait]
impl Cloud for Registry {
    fn sites(&self) -> Vec<Site> {
        vec![self.home.clone()]
    }

    /// Returns none: native kinds belong to no provider.
    fn provider(&self, _: &Site) -> Option<&'static str> {
        None
    }

    fn has_other_login(&self, _: &Site) -> bool {
        false
    }

    async fn identity(&self, _: &Site, _: Freshness) -> Result<SignedIn, CloudFailure> {
        Ok(SignedIn {
            identity: self.identity(),
            shown: "this deployment".to_owned(),
        })
    }

    async fn endpoint(&self, site: &Site, kind: &Kind) -> Result<String, CloudFailure> {
        Ok(format!("registry:{site}/{}", kind.service))
    }

    /// Returns an empty offer: a deployment's own service is covered by its own kinds.
    async fn offer(&self, _: &Site, _: &Kinds) -> Result<Offer, CloudFailure> {
        Ok(Offer::default())
    }

    async fn list_by_page(
        &self,
        request: ListRows<'_>,
        listed: &mut (dyn FnMut(Listed) + Send),
    ) -> Result<Option<Identity>, CloudFailure> {
        let by = match request.filter {
            None => NativeBy::All,
            Some(filter) => by(filter, request.kind, &self.home),
        };
        let mut page = Cursor {
            after: None,
            limit: request.rows_max.map_or(PAGE_ROWS, |max| max.min(PAGE_ROWS)),
        };
        let mut left = request.rows_max.unwrap_or(usize::MAX);
        listed(Listed::Part);
        loop {
            let filter = self.filter(request.kind, by.clone());
            let found = self.ledger.native(filter, page.clone()).await;
            let found = found.map_err(|error| unavailable(&error))?;
            left = left.saturating_sub(found.rows.len());
            listed(Listed::Rows(found.rows.iter().map(Native::row).collect()));
            match found.next {
                Some(next) if left > 0 => page.after = Some(next),
                _ => return Ok(Some(self.identity())),
            }
        }
    }

    async fn read(&self, _: &Site, kind: &Kind, id: &str) -> Result<Row, CloudFailure> {
        let filter = self.filter(kind, NativeBy::Ids(vec![id.to_owned()]));
        let found = self.ledger.native(filter, Cursor::default()).await;
        let found = found.map_err(|error| unavailable(&error))?;
        let row = found.rows.first().map(Native::row);
        Ok(Row::answered(row, Some(self.identity())))
    }

    async fn act(&self, call: Call<'_>) -> Acted {
        let key = ResourceKey::new(call.site, &call.kind.name, call.id);
        let now = self.clock.now();
        let tried = call.action.as_str();
        let line = |came: &str| format!("{tried} {}/{} {came}", call.kind.name, call.id);
        let change = match call.action {
            Action::Unset => unset_of(call.vars).map(|references| Change::Unset {
                references,
                key,
                now,
            }),
            Action::Delete => incarnation(call.vars).map(|incarnation| Change::DeleteNative {
                unless: self.kinds.blocking_fields(&key.kind),
                key,
                incarnation,
                now,
            }),
            // Native kinds have no calls for these actions: a kind that declares one is refused when it is loaded.
            Action::Detach | Action::Enable | Action::Reset | Action::Force => {
                let kind = &call.kind.name;
                let said = format!("this deployment's registry cannot {tried} a {kind}");
                let message = line(&said);
                return Acted::not_sent(CloudFailure::configuration(said), message, now);
            }
        };
        let change = match change {
            Ok(change) => change,
            Err(why) => {
                let why = format!("{why}: the plan is wrong; plan the deletion again");
                return Acted::not_sent(CloudFailure::configuration(why.clone()), line(&why), now);
            }
        };
        match self.commit(change).await {
            Ok(outcome) => {
                // These are the statuses of the registry's HTTP interface.
                let (status, came) = match &outcome {
                    Outcome::Accepted | Outcome::Prepared => (Some(204), "204".to_owned()),
                    Outcome::Absent => (Some(404), format!("404 {NOT_FOUND}")),
                    Outcome::Failed(failure) | Outcome::Unclear(failure) => {
                        (failure.error.status, failure.error.message.clone())
                    }
                };
                Acted {
                    outcome,
                    named: Vec::new(),
                    line: line(&came),
                    answer: Answer {
                        status,
                        request_id: None,
                    },
                }
            }
            Err(error) => {
                let line = line(&error.to_string());
                Acted::not_sent(unavailable(&error), line, self.clock.now())
            }
        }
    }

    async fn account_names(
        &self,
        _: &Site,
        _: &BTreeSet<String>,
        _: NameLookup,
    ) -> BTreeMap<String, String> {
        BTreeMap::new()
    }
}

fn by(filter: &ListFilter, kind: &Kind, home: &Site) -> NativeBy {
    let values = filter.values.clone();
    match filter.key.as_str() {
        "id" => NativeBy::Ids(values),
        field => NativeBy::of(kind, field, values, home),
    }
}

/// Returns the incarnation that was planned for deletion (I10). A missing one is an error, because a guess
/// could delete a re-created resource.
fn incarnation(vars: &BTreeMap<String, String>) -> Result<u32, String> {
    let planned = vars.get(INCARNATION).ok_or("the step has no incarnation")?;
    let read = planned.parse();
    let shown = escape(planned);
    read.map_err(|_| format!("the step's incarnation \"{shown}\" is not a number"))
}

/// Returns the failure for a ledger that cannot be used now. The step waits until the ledger is available again.
fn unavailable(error: &LedgerError) -> CloudFailure {
    let message = format!("the ledger of this deployment's registry: {error}");
    CloudFailure::unanswered(
        Retry::Unavailable,
        ErrorClass::Unavailable,
        "Registry",
        message,
    )
}
