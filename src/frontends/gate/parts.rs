//! Parts: resources that are deleted along with a parent, and so are shown, hidden and guarded as the parent
//! is (T20).
//!
//! A part has no tombstone. The kinds name the row fields that refer to a part's parent. The gate reads these
//! fields in the row that a client asked for. Where a client names only an id, the gate reads rows, many in one
//! call, with the engine's own rights: only while resources of the part's kind may be deleted along with a
//! resource that is being deleted.

use std::collections::{BTreeMap, BTreeSet};

use http::Method;
use serde_json::Value;

use super::refusal::{Refusal, Result};
use super::route::{Named, path_of};
use super::rules::Operation;
use super::{Call, Gate};
use crate::cloud::openstack::{
    CallError, FilterValues, ListRequest, RestCalls, item_in, service_of,
};
use crate::domain::kinds::{Bond, Kind};
use crate::domain::model::{KindName, Phase};

/// Length of the longest chain of parts, such as a rule of a policy of a listener of a load balancer.
const LEVELS_MAX: usize = 5;
/// Ids in one list: about 4 KB of URL.
const IDS_TOGETHER: usize = 100;
/// Rows in a page: enough for all ids of one list.
const PAGE_ROWS: usize = 500;

/// For each requested resource its parent that is being deleted, if any.
type Wholes = Vec<Option<Named>>;
/// For a resource in the search: the positions of the requested resources whose chain of parents leads to it.
type Places = BTreeSet<usize>;

/// A search for the parents of resources, level by level.
struct Search<'g> {
    gate: &'g Gate,
    bond: Bond,
    wholes: Wholes,
    /// The resources whose rows the next level reads.
    next: BTreeMap<Named, Places>,
}

impl Gate {
    /// Whether resources of this kind may be deleted along with a resource that is being deleted now.
    pub(super) fn may_go_along(&self, kind: &KindName, bond: Bond) -> bool {
        let mut known: BTreeSet<&KindName> = BTreeSet::new();
        let mut next: Vec<&Kind> = self.parts.kinds.get(kind).into_iter().collect();
        while let Some(kind) = next.pop() {
            for reference in kind.bonds(bond) {
                if self
                    .parts
                    .tombstones
                    .is_any_under_way(&self.site, &reference.to)
                {
                    return true;
                }
                if known.insert(&reference.to) {
                    next.extend(self.parts.kinds.get(&reference.to));
                }
            }
        }
        false
    }

    /// Returns for each of these rows the parent, direct or indirect, that is being deleted, if any.
    pub(super) async fn wholes_of_rows(
        &self,
        kind: &Kind,
        rows: impl ExactSizeIterator<Item = Value> + Send,
        bond: Bond,
    ) -> Result<Wholes> {
        let mut search = Search::new(self, bond, rows.len());
        if self.may_go_along(&kind.name, bond) {
            for (place, row) in rows.enumerate() {
                search.follow(kind, &row, &Places::from([place]));
            }
        }
        search.end().await
    }

    /// Works like [`Self::wholes_of_rows`], for resources of which only the ids are known.
    pub(super) async fn wholes_of(&self, named: &[Named], bond: Bond) -> Result<Wholes> {
        let mut search = Search::new(self, bond, named.len());
        for (place, named) in named.iter().enumerate() {
            if self.may_go_along(&named.kind, bond) {
                let places = search.next.entry(named.clone()).or_default();
                places.insert(place);
            }
        }
        search.end().await
    }

    /// Guards the resources in a request that have no tombstone but may be parts: the request is refused as it would be
    /// for their parent (N9, T20). With `cascades`, only if the deletion of the parent cascades: one that waits until
    /// its dependents are gone takes none of them along, and lets a person detach them.
    pub(super) async fn guard_parts(
        &self,
        call: &Call,
        referred: &[Named],
        operation: Operation,
        cascades: bool,
    ) -> Result<()> {
        let may_be_part = |named: &&Named| {
            self.phase(&named.kind, &named.id).is_none()
                && self.may_go_along(&named.kind, Bond::Child)
        };
        let parts: Vec<Named> = referred.iter().filter(may_be_part).cloned().collect();
        if parts.is_empty() {
            return Ok(());
        }
        self.authenticate(&call.head).await?;
        let wholes = self.wholes_of(&parts, Bond::Child).await?;
        for (named, whole) in parts.iter().zip(wholes) {
            let Some(whole) = whole else { continue };
            if cascades && !self.cascades(&whole).await {
                continue;
            }
            self.guard_as(call, named, &whole, operation).await?;
        }
        Ok(())
    }

    /// Whether the deletion of a resource cascades; assumed if it cannot be read.
    async fn cascades(&self, named: &Named) -> bool {
        let Some(id) = self.deletion_of(&self.site, named).await else {
            return true;
        };
        let deletion = self.read_deletion(&id).await;
        deletion.map_or(true, |deletion| deletion.options.cascade)
    }

    /// Returns the rows with these ids that the service shows to the engine's own login: the engine deletes no others.
    async fn rows_of(&self, kind: &Kind, ids: Vec<&String>, bond: Bond) -> Result<Vec<Value>> {
        let calls = kind.calls_of::<RestCalls>();
        let call = calls.and_then(|calls| calls.list.as_ref());
        let (Some(list), Some(calls), Some(call)) = (&kind.spec.list, calls, call) else {
            return Ok(Vec::new());
        };
        let together = list.by_id && list.within.is_none() && call.also.is_empty();
        let mut rows = Vec::new();
        if !together || calls.values_of("id") == FilterValues::Single {
            for id in ids {
                rows.extend(self.row_of(kind, id).await?);
            }
            return Ok(rows);
        }
        let fields = kind.bonds(bond).flat_map(|it| it.row_fields());
        let fields = fields.chain(list.id.iter().map(String::as_str));
        let fields: BTreeSet<&str> = fields.filter(|_| !list.fields.is_empty()).collect();
        let path = format!("{}{}", calls.service.prefix, call.path);
        for ids in ids.chunks(IDS_TOGETHER) {
            let mut query = calls.filter(call, "id", ids);
            let fields = fields.iter();
            query.extend(fields.map(|field| ("fields".to_owned(), (*field).to_owned())));
            let listed = self.parts.session.list(ListRequest {
                service: service_of(kind),
                path: &path,
                items_key: &call.items,
                query: &query,
                page_limit: PAGE_ROWS,
                not_found: calls.not_found.first().map(String::as_str),
                rows_max: None,
                paging: call.paging,
                row_id: call.row_id(),
                options: call.options(),
                deadline: self.parts.call_timeout,
            });
            let listing = self.seen(kind, listed.await)?;
            rows.extend(listing.into_iter().flat_map(|listing| listing.items));
        }
        Ok(rows)
    }

    async fn row_of(&self, kind: &Kind, id: &str) -> Result<Option<Value>> {
        let Some(path) = path_of(kind, id) else {
            return Ok(None);
        };
        let (service, timeout) = (service_of(kind), self.parts.call_timeout);
        let read = self
            .parts
            .session
            .request(service, Method::GET, &path, None, timeout);
        let answer = self.seen(kind, read.await)?;
        Ok(answer.and_then(|mut answer| item_in(kind, &mut answer.json).map(Value::take)))
    }

    /// Treats a 403 or 404 as absence; because of any other error, the request is refused.
    fn seen<T>(&self, kind: &Kind, answer: Result<T, CallError>) -> Result<Option<T>> {
        let error = match answer {
            Ok(answer) => return Ok(Some(answer)),
            Err(error) => error,
        };
        if matches!(error.status(), Some(403 | 404)) {
            return Ok(None);
        }
        tracing::warn!(gate = %self.address, kind = kind.name.as_str(), %error, "the resources that a request refers to cannot be looked up");
        Err(Refusal::unavailable(format!(
            "the {} service cannot be asked now whether a {} of this request goes along with a resource \
             that is being deleted; send the request again later",
            kind.service, kind.name
        )))
    }
}

impl<'g> Search<'g> {
    fn new(gate: &'g Gate, bond: Bond, resources: usize) -> Self {
        Self {
            gate,
            bond,
            wholes: vec![None; resources],
            next: BTreeMap::new(),
        }
    }

    /// Reads rows, level by level, until all parents are known, but at most [`LEVELS_MAX`] levels. Returns the parents
    /// that are being deleted.
    async fn end(mut self) -> Result<Wholes> {
        for _ in 0..LEVELS_MAX {
            let mut by_kind: BTreeMap<KindName, BTreeMap<String, Places>> = BTreeMap::new();
            for (named, mut places) in std::mem::take(&mut self.next) {
                places.retain(|place| self.wholes.get(*place).is_some_and(Option::is_none));
                if !places.is_empty() {
                    let ids = by_kind.entry(named.kind).or_default();
                    // The service answers with ids in its own spelling.
                    ids.entry(named.id.to_lowercase())
                        .or_default()
                        .extend(places);
                }
            }
            for (kind, ids) in by_kind {
                let Some(kind) = self.gate.parts.kinds.get(&kind) else {
                    continue;
                };
                let rows = self.gate.rows_of(kind, ids.keys().collect(), self.bond);
                for row in rows.await? {
                    let id = kind.id_of(&row).unwrap_or_default().to_lowercase();
                    if let Some(places) = ids.get(&id) {
                        self.follow(kind, &row, places);
                    }
                }
            }
            if self.next.is_empty() {
                break;
            }
        }
        Ok(self.wholes)
    }

    /// Records the references of a row: parents that are being deleted, and resources that may themselves be
    /// parts.
    fn follow(&mut self, kind: &Kind, row: &Value, places: &Places) {
        for reference in kind.bonds(self.bond) {
            for id in self.gate.parts.kinds.referred_in(reference, row) {
                let whole = Named::new(&reference.to, id);
                match self.gate.phase(&whole.kind, &whole.id) {
                    Some(phase @ (Phase::Checking | Phase::Deleting)) => {
                        for place in places {
                            // A parent in the phase deleting takes precedence over one in the phase checking.
                            if let Some(found) = self.wholes.get_mut(*place)
                                && (found.is_none() || phase == Phase::Deleting)
                            {
                                *found = Some(whole.clone());
                            }
                        }
                    }
                    // No deletion works on the parent any more. The remains of one that is gone must be reachable, so
                    // that they can be removed.
                    Some(Phase::Gone | Phase::Released | Phase::Purged) => {}
                    None if self.gate.may_go_along(&whole.kind, self.bond) => {
                        self.next.entry(whole).or_default().extend(places);
                    }
                    None => {}
                }
            }
        }
    }
}
