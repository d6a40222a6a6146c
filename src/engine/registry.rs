//! Native resources: created and changed at once, in the ledger, and deleted like all other resources.

use std::sync::Arc;

use serde_json::Value;
use uuid::Uuid;

use super::audit::audit;
use super::guards::Guards;
use super::peers::ImporterSide;
use super::reads::Reads;
use super::requests;
use crate::control::{ControlError, Envelope, Receipt, query};
use crate::domain::kinds::{Home, Kind};
use crate::domain::model::{Paged, ResourceKey, Site, Target};
use crate::domain::native::{self, Native, NativeReference};
use crate::domain::query::BY_ID;
use crate::domain::text::escape;
use crate::ledger::{Applied, Change, Cursor, Ledger, NativeBy, NativeFilter, NewNative};
use crate::system::clock::Clock;

/// Creates, changes and lists the resources that this deployment keeps itself.
pub(super) struct NativeResources {
    pub(super) clock: Clock,
    pub(super) ledger: Arc<dyn Ledger>,
    pub(super) reads: Arc<Reads>,
    pub(super) guards: Arc<Guards>,
    /// Knows which other deployments may be referred to; none for an engine without `[deployment]`.
    pub(super) importer: Option<Arc<ImporterSide>>,
}

impl NativeResources {
    /// Creates a resource. The resources to which it refers must exist, and no deletion may work on any of them.
    pub(super) async fn create(
        &self,
        envelope: &Envelope,
        kind: &str,
        body: &Value,
    ) -> Result<Receipt, ControlError> {
        let (kind, home) = self.own_kind(kind)?;
        let (id, fields) = native::read(kind, body).map_err(ControlError::usage)?;
        let repeated = id.is_none().then(|| self.id_of_request(envelope)).flatten();
        let may_exist = repeated.is_some();
        let id = id.or(repeated).unwrap_or_else(|| self.clock.new_id());
        let key = ResourceKey::new(&home.site, &kind.name, id);
        self.guards.writable(&[Target::of(&key, "")])?;
        if may_exist {
            match self.shown(kind, &key).await {
                Err(ControlError::NotFound { .. }) => {}
                answer => return answer,
            }
        }
        let references = native::references(kind, &fields, &home.site);
        self.check_references(&references).await?;
        let change = Change::Add(Box::new(NewNative {
            audit: audit(envelope, "create", &key.to_string()),
            key: key.clone(),
            fields,
            references,
            now: self.clock.now(),
        }));
        self.write_own(change, &key).await?;
        self.shown(kind, &key).await
    }

    /// Returns the id of a resource that is created under an idempotency key: the same for the same request on the
    /// same day. A crash may come after the resource is stored and before its answer is; the repeated request then
    /// finds the resource, and does not create a second one. None without a key.
    fn id_of_request(&self, envelope: &Envelope) -> Option<String> {
        let request = requests::keyed(envelope)?;
        let day = self.clock.now().date_naive();
        let named = (&request.actor, &request.key, &request.body, day);
        let named = serde_json::to_vec(&named).ok()?;
        Some(Uuid::new_v5(&Uuid::NAMESPACE_OID, &named).to_string())
    }

    /// Changes those fields of a resource that `body` names.
    pub(super) async fn update(
        &self,
        envelope: &Envelope,
        kind: &str,
        id: &str,
        body: &Value,
    ) -> Result<Receipt, ControlError> {
        let (kind, home) = self.own_kind(kind)?;
        let key = ResourceKey::new(&home.site, &kind.name, id);
        self.guards.writable(&[Target::of(&key, "")])?;
        let before = self.own(kind, &key).await?;
        let fields = native::amend(kind, &before.fields, body).map_err(ControlError::usage)?;
        let references = native::references(kind, &fields, &home.site);
        let pointed = native::references(kind, &before.fields, &home.site);
        let added: Vec<NativeReference> = references
            .iter()
            .filter(|it| !pointed.contains(it))
            .cloned()
            .collect();
        self.check_references(&added).await?;
        let new = Box::new(NewNative {
            audit: audit(envelope, "update", &key.to_string()),
            key: key.clone(),
            fields,
            references,
            now: self.clock.now(),
        });
        let read_at = before.updated_at;
        self.write_own(Change::Amend { new, read_at }, &key).await?;
        self.shown(kind, &key).await
    }

    /// Returns a page of the resources of a kind: all of them, one by its id, or those with this value in a
    /// field.
    pub(super) async fn list(&self, request: query::Native) -> Result<Paged<Value>, ControlError> {
        let (kind, home) = self.own_kind(&request.kind)?;
        let by = match request.by.as_slice() {
            [] => NativeBy::All,
            [(field, value)] if field == BY_ID => NativeBy::Ids(vec![value.clone()]),
            [(field, value)] => NativeBy::of(kind, field, vec![value.clone()], &home.site),
            [(first, _), (second, _), ..] => {
                return Err(ControlError::usage(format!(
                    "filter by one field, not by {first} and {second}"
                )));
            }
        };
        let filter = NativeFilter {
            site: home.site.clone(),
            kind: kind.name.clone(),
            by,
        };
        let page = Cursor {
            after: request.cursor,
            limit: request.limit,
        };
        let found = self.ledger.native(filter, page).await?;
        Ok(Paged {
            rows: found.rows.iter().map(Native::row).collect(),
            next: found.next,
        })
    }

    /// Resolves a word to a kind whose resources this deployment keeps.
    fn own_kind(&self, word: &str) -> Result<(&Kind, &Home), ControlError> {
        let kind = self
            .reads
            .kinds
            .resolve(word)
            .map_err(ControlError::not_found)?;
        let home = self.reads.kinds.home();
        match home.filter(|home| kind.is_native() && kind.service == home.service) {
            Some(home) => Ok((kind, home)),
            None => Err(ControlError::not_found(format!(
                "this engine keeps no resources of the kind {}: that is not a kind of its [deployment]",
                kind.name
            ))),
        }
    }

    async fn own(&self, kind: &Kind, key: &ResourceKey) -> Result<Native, ControlError> {
        let filter = NativeFilter {
            site: key.site.clone(),
            kind: kind.name.clone(),
            by: NativeBy::Ids(vec![key.id.clone()]),
        };
        let found = self
            .ledger
            .native(filter, Cursor::default())
            .await?
            .rows
            .into_iter()
            .next();
        found.ok_or_else(|| {
            ControlError::not_found(format!("there is no {} {}", key.kind, escape(&key.id)))
        })
    }

    async fn shown(&self, kind: &Kind, key: &ResourceKey) -> Result<Receipt, ControlError> {
        let row = self.own(kind, key).await?.row();
        Ok(Receipt::Resource { row })
    }

    async fn write_own(&self, change: Change, key: &ResourceKey) -> Result<(), ControlError> {
        match self.reads.journal.commit_one(change).await? {
            Some(Applied::Done) => Ok(()),
            Some(Applied::Refused(message)) => Err(ControlError::conflict(message)),
            _ => Err(ControlError::conflict(format!(
                "{key} was changed or deleted meanwhile; read it again"
            ))),
        }
    }

    /// Refuses references to resources that do not exist, as far as this deployment can read their sites, and
    /// to deployments whose watch is not fresh (G10).
    async fn check_references(&self, references: &[NativeReference]) -> Result<(), ControlError> {
        for reference in references {
            if let Some(importer) = &self.importer {
                importer.may_refer_to(reference)?;
            }
            let NativeReference { field, to, .. } = reference;
            let Some(kind) = self.reads.kinds.get(&to.kind) else {
                continue;
            };
            if kind.is_native() || kind.spec.list.is_none() {
                continue;
            }
            let ours: Vec<Site> = self.reads.cloud.sites();
            if !ours.contains(&to.site) {
                if to.site.cloud().is_none() {
                    return Err(ControlError::usage(format!(
                        "{field}: a {} belongs to a region of a cloud: write ID@CLOUD/REGION",
                        to.kind
                    )));
                }
                continue;
            }
            let read = self.reads.read(&to.site, kind, &to.id).await?;
            if read.row.is_none() {
                return Err(ControlError::conflict(format!("{field}: there is no {to}")));
            }
        }
        Ok(())
    }
}
