//! Creates and updates: refused if they refer to a resource that is being or was deleted, or would create a copy of it
//! (T12, T14, T17, N9).

use std::collections::BTreeSet;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::{HeaderName, HeaderValue, StatusCode, header};
use http_body_util::{BodyExt as _, Either, Full};
use serde_json::{Map, Value};

use super::budget::{Read, Share};
use super::refusal::{Refusal, Result};
use super::route::{Creates, Named, PathTarget};
use super::rules::{Operation, RequestSource, Ruling, ruling};
use super::{Call, Gate, Head, Out, body, text_of};
use crate::cloud::openstack::{item_in, service_of};
use crate::control::{Command, Request, query};
use crate::domain::mapping::{COPY_TAG, Mapping};
use crate::domain::model::{CopiedBy, KindName, Phase, ResourceKey, Site, Tombstone};
use crate::domain::text::escape;
use crate::system::listener::Arriving;

/// Largest body that is read: bodies that name resources are small.
const BODY_BYTES_MAX: usize = 1 << 20;
/// Longest time for a body to arrive: slower clients are refused.
const BODY_TIMEOUT: Duration = Duration::from_secs(30);

impl Gate {
    pub(super) async fn write(&self, call: Call, body: Arriving, target: PathTarget) -> Result {
        let mut referred = target.names();
        if self.is_upload(&call.head, &target) {
            // An upload refers to no resource and may take long, so no write guard waits for it.
            self.guard(&call, &referred).await?;
            return self.pass(call.head, Either::Left(body)).await;
        }
        let routes = &self.upstream().await?.routes;
        let creates = routes.creates(&call.head.method, call.head.uri.path());
        // The body is read before a write guard can wait for the write: a client that stalls delays no deletion (P12).
        let (bytes, _share) = self.whole(body).await?;
        if creates.is_empty() {
            // The write begins before the tombstones are checked: a write guard that is set in between waits
            // for it (T14).
            let _write = self.parts.tombstones.begin_write(&self.site);
            let mut sites = self.copied_from();
            if !sites.any(|site| self.parts.tombstones.any_at(site)) {
                let body = Either::Right(Full::new(bytes));
                return self.pass_soon(call.head, body).await;
            }
        }
        let parsed = match bytes.is_empty() {
            true => Value::Null,
            false => body::parse(&bytes).map_err(|error| {
                let message =
                    format!("the body is not JSON that can be read in one way only: {error}");
                Refusal::bad_request(message)
            })?,
        };
        referred.extend(body::referred(routes, &parsed));
        let made: Vec<Named> = creates.iter().flat_map(|it| it.named(&parsed)).collect();
        let _lock = self.parts.key_locks.take(self.keys_of(&made)).await;
        let _write = self.parts.tombstones.begin_write(&self.site);
        if let PathTarget::Collection { kind, .. } = &target {
            self.guard_copies(&call, kind, &parsed).await?;
            self.guard_namesakes(&call, kind, &parsed).await?;
        }
        for named in &made {
            let phase = self
                .parts
                .tombstones
                .phase(&self.site, &named.kind, &named.id);
            self.guard_create(&call, &self.site, named, phase).await?;
        }
        self.guard(&call, &referred).await?;
        let detaches = routes.detaches(&call.head.method, call.head.uri.path());
        self.guard_parts(&call, &referred, Operation::Refer, detaches)
            .await?;
        let body = Either::Right(Full::new(bytes));
        self.create(call.head, body, creates, made).await
    }

    /// Passes a write. If it creates resources under natural keys and succeeds, their records in the ledger are revived
    /// before the client gets its answer (M1).
    async fn create(
        &self,
        head: Head,
        body: Out,
        creates: Vec<Creates<'_>>,
        mut made: Vec<Named>,
    ) -> Result {
        let asked = head.clone();
        let mut response = self.pass_soon(head, body).await?;
        if creates.is_empty() || !response.status().is_success() {
            return Ok(response);
        }
        if made.is_empty() {
            let answered = self.read_whole(response, Read::Tree).await?;
            match answered.json().await {
                Some(said) => made = creates.iter().flat_map(|it| it.named(&said)).collect(),
                None => {
                    tracing::warn!(gate = %self.address, "the service's answer to a create is not JSON: the tombstones of the created resources stay as they are");
                }
            }
            response = answered.relay();
        }
        let mut keys = self.keys_of(&made);
        keys.retain(|key| {
            let phase = self.parts.tombstones.phase(&key.site, &key.kind, &key.id);
            matches!(phase, Some(Phase::Gone | Phase::Purged))
        });
        if keys.is_empty() {
            return Ok(response);
        }
        let keys = keys.into_iter().collect();
        let revived = async {
            let caller = self.caller(&asked).await?;
            self.submit(&caller, Command::Revive { keys }).await
        };
        if let Err(refusal) = revived.await {
            // The resource exists all the same, and the gate shows it. The next create under its key that succeeds
            // revives its record.
            let made = made.iter().map(|it| escape(&it.id)).collect::<Vec<_>>();
            tracing::warn!(gate = %self.address, made = made.join(" "), ?refusal, "the ledger still records re-created resources as gone");
        }
        Ok(response)
    }

    fn keys_of(&self, named: &[Named]) -> BTreeSet<ResourceKey> {
        named.iter().map(|named| named.at(&self.site)).collect()
    }

    /// Reads the body of a request, and reserves memory for it. While no memory is free, connections of stalled
    /// clients are closed to free theirs.
    async fn whole(&self, mut body: Arriving) -> Result<(Bytes, Vec<Share>)> {
        let read = async {
            let mut read = BytesMut::new();
            let mut shares = Vec::new();
            while let Some(frame) = body.frame().await {
                let frame = frame.map_err(|error| {
                    Refusal::bad_request(format!("the body was not read: {error}"))
                })?;
                let Ok(data) = frame.into_data() else {
                    continue;
                };
                if read.len() + data.len() > BODY_BYTES_MAX {
                    return Err(Refusal::new(
                        StatusCode::PAYLOAD_TOO_LARGE,
                        "HTTPRequestEntityTooLarge",
                        "the body is larger than 1 MiB",
                    ));
                }
                let relieve = || self.table.relieve_of_bodies();
                shares.extend(self.parts.budget.body(data.len(), relieve).await);
                read.extend_from_slice(&data);
            }
            Ok((read.freeze(), shares))
        };
        let read = tokio::time::timeout(BODY_TIMEOUT, read).await;
        read.unwrap_or_else(|_| {
            let message = "the body of the request did not arrive within 30 seconds";
            Err(Refusal::of(StatusCode::REQUEST_TIMEOUT, message))
        })
    }

    /// Refuses the request if one of the resources is being deleted (409) or is gone (404).
    async fn guard(&self, call: &Call, referred: &[Named]) -> Result<()> {
        for named in referred {
            self.guard_as(call, named, named, Operation::Refer).await?;
        }
        Ok(())
    }

    /// Refuses an operation on a resource as the tombstone of `whole` decides. `whole` is the resource itself, or its
    /// parent.
    pub(super) async fn guard_as(
        &self,
        call: &Call,
        named: &Named,
        whole: &Named,
        operation: Operation,
    ) -> Result<()> {
        match self.ruled(call, whole, operation).await? {
            Ruling::Pass => Ok(()),
            Ruling::NotFound => {
                // A local site learns at once that the resource is gone, without a check of its token (P7).
                if call.asker != RequestSource::Local {
                    self.caller(&call.head).await?;
                }
                Err(self.not_found(named).await)
            }
            Ruling::Conflict | Ruling::UnderWay | Ruling::BeingChecked | Ruling::ShowDeleting => {
                self.caller(&call.head).await?;
                // The service itself refuses a resource that the caller does not see.
                match self.sees(&call.head, named).await? {
                    true => Err(self.being_deleted(&self.site, named, whole).await),
                    false => Ok(()),
                }
            }
        }
    }

    /// Refuses to create a resource that is being deleted, or was deleted and is not re-created on purpose (M), or a
    /// copy of such a resource (T12, T14). `phase` is that of the resource's tombstone at this site.
    async fn guard_create(
        &self,
        call: &Call,
        site: &Site,
        named: &Named,
        phase: Option<Phase>,
    ) -> Result<()> {
        if ruling(phase, call.asker, Operation::Create) != Ruling::Conflict {
            return Ok(());
        }
        self.caller(&call.head).await?;
        Err(self.being_deleted(site, named, named).await)
    }

    /// Works like [`Self::guard_create`], for an original whose tombstone the engine finds.
    async fn guard_copy(
        &self,
        call: &Call,
        original: impl Request<Answer = Option<Tombstone>>,
    ) -> Result<()> {
        let found = self.parts.control.ask(original).await.map_err(|_| {
            Refusal::unavailable(
                "the engine does not answer now, so the gate cannot tell whether this is a copy of a resource that \
                 is being deleted; send the request again later",
            )
        })?;
        let Some(Tombstone { key, phase, .. }) = found else {
            return Ok(());
        };
        let named = Named::new(&key.kind, key.id);
        self.guard_create(call, &key.site, &named, Some(phase))
            .await
    }

    /// Returns the mappings that copy resources of another site to this one.
    fn centrals(&self) -> impl Iterator<Item = &Mapping> {
        let mapping = self.parts.mapping.iter();
        mapping.filter(|mapping| mapping.locals.contains(&self.site))
    }

    /// Returns the sites whose resources have copies here, and this site itself.
    fn copied_from(&self) -> impl Iterator<Item = &Site> {
        let centrals = self.centrals().map(|mapping| &mapping.central);
        centrals.chain([&self.site])
    }

    /// Refuses copies of resources that are being or were deleted, and copies of the parts of such resources. A part
    /// has no tombstone of its own (T20).
    async fn guard_copies(&self, call: &Call, kind: &KindName, body: &Value) -> Result<()> {
        for id in copied(body) {
            let named = Named::new(kind, id);
            for site in self.copied_from() {
                let phase = self.parts.tombstones.phase(site, kind, &named.id);
                self.guard_create(call, site, &named, phase).await?;
                if phase.is_none() && self.parts.tombstones.any_at(site) {
                    let part = named.at(site);
                    self.guard_copy(call, query::WholeOf { part }).await?;
                }
            }
        }
        Ok(())
    }

    /// Refuses resources that would be copies, by name and project alone, of resources that are being or were deleted.
    async fn guard_namesakes(&self, call: &Call, kind: &KindName, body: &Value) -> Result<()> {
        let kind = self.kind(kind)?;
        let mut by_name = self.centrals().filter(|it| it.by == CopiedBy::Name);
        if !by_name.any(|it| self.parts.tombstones.any(&it.central, &kind.name)) {
            return Ok(());
        }
        for row in created_rows(body) {
            let name = row.get("name").and_then(Value::as_str).unwrap_or_default();
            if name.is_empty() {
                continue;
            }
            let caller = self.caller(&call.head).await?;
            let project = match kind.project_of(&Value::Object(row.clone())) {
                project if project.is_empty() => caller.identity.project_id.unwrap_or_default(),
                project => project,
            };
            let namesake = query::Namesake {
                site: self.site.clone(),
                kind: kind.name.clone(),
                name: name.to_owned(),
                project_id: project,
            };
            self.guard_copy(call, namesake).await?;
        }
        Ok(())
    }

    /// Whether the service shows the resource to the caller. Resources of other services count as shown, since
    /// this service cannot be asked: a balancer on a network that is being deleted is just as wrong.
    async fn sees(&self, head: &Head, named: &Named) -> Result<bool> {
        let is_ours = self.kind(&named.kind)?.service == self.service;
        Ok(!is_ours || self.row_for(head, named).await?.is_some())
    }

    /// Returns the resource as the service shows it to the caller; None for 403 and 404, and for an edge, which has no
    /// path.
    pub(super) async fn row_for(&self, head: &Head, named: &Named) -> Result<Option<Value>> {
        let upstream = self.upstream().await?;
        let kind = self.kind(&named.kind)?;
        let Some(path) = upstream.routes.path_of(kind, &named.id) else {
            return Ok(None);
        };
        let mut head = head.clone();
        // The fields of the kinds are those of this API version, which may differ from the caller's.
        let service = service_of(kind);
        let name = HeaderName::try_from(service.version_header());
        if let (Ok(name), Some(Ok(version))) =
            (name, service.api_version.map(HeaderValue::from_str))
        {
            head.headers.insert(name, version);
        }
        let response = self.send_to(&head, &path).await?;
        let answered = self.read_whole(response, Read::Tree).await?;
        match answered.head.status {
            StatusCode::OK => {
                let mut json = answered.json().await;
                let item = json.as_mut().and_then(|json| item_in(kind, json));
                match item.filter(|item| item.is_object()) {
                    Some(item) => Ok(Some(item.take())),
                    // An answer that cannot be read does not mean that the resource is absent (P7).
                    None => Err(Refusal::unavailable(format!(
                        "the gate had to read {path} first, and could not read the service's answer; send the \
                         request again"
                    ))),
                }
            }
            StatusCode::FORBIDDEN | StatusCode::NOT_FOUND => Ok(None),
            status @ StatusCode::UNAUTHORIZED => Err(Refusal::of(
                status,
                "the request needs a token that the service accepts",
            )),
            status => Err(Refusal::unavailable(format!(
                "the service answered {status} to a read that the gate needed; send the request again"
            ))),
        }
    }

    /// Returns the refusal for a resource that is being deleted, by itself or along with `whole`, or that was deleted.
    async fn being_deleted(&self, site: &Site, named: &Named, whole: &Named) -> Refusal {
        let deletion = self.deletion_of(site, whole).await;
        let by = deletion.as_deref().unwrap_or("(unknown)");
        let resource = format!("{} {}", named.kind, escape(&named.id));
        let message = match self.parts.tombstones.phase(site, &whole.kind, &whole.id) {
            _ if named != whole => format!(
                "{resource} goes along with {} {}, which is being deleted by deletion {by}; nothing may change it or \
                 refer to it any more.",
                whole.kind,
                escape(&whole.id),
            ),
            Some(Phase::Gone | Phase::Purged) => format!(
                "{resource} was deleted, by deletion {by}; this request may not create it or a copy of it."
            ),
            _ => format!(
                "{resource} is being deleted, by deletion {by}; nothing may refer to it any more."
            ),
        };
        Refusal::new(StatusCode::CONFLICT, "ResourceBeingDeleted", message).by(deletion)
    }

    /// Returns the id of the deletion that a resource's tombstone names in the ledger. None without a tombstone, or if
    /// the ledger cannot be read.
    pub(super) async fn deletion_of(&self, site: &Site, named: &Named) -> Option<String> {
        let tombstone = query::Tombstones::of(named.at(site));
        let found = self.parts.control.ask(tombstone).await.ok()?;
        found.rows.into_iter().next().map(|it| it.deletion_id)
    }

    /// Whether the body is data of any size, and not JSON.
    fn is_upload(&self, head: &Head, target: &PathTarget) -> bool {
        let PathTarget::Below(named) = target else {
            return false;
        };
        let calls = self.calls_of(&named.kind);
        let uploads = calls.and_then(|calls| calls.service.uploads.as_deref());
        let media = text_of(head, header::CONTENT_TYPE.as_str());
        uploads.is_some_and(|uploads| media.starts_with(uploads))
    }
}

/// Returns the ids of the originals of the resources to be created, one or many: those that their tags name,
/// or whose id they request. Setting such a tag later is allowed: otherwise a finished copy would stay
/// without it, and the sweep could not recognize it (T14).
fn copied(body: &Value) -> Vec<String> {
    let mut originals = Vec::new();
    for row in created_rows(body) {
        originals.extend(row.get("id").and_then(Value::as_str).map(str::to_owned));
        let tags = row.get("tags").and_then(Value::as_array);
        let tags = tags.into_iter().flatten().filter_map(Value::as_str);
        originals.extend(tags.filter_map(|tag| tag.strip_prefix(COPY_TAG).map(str::to_owned)));
    }
    originals
}

/// Returns the resources that a body creates, one or many.
fn created_rows(body: &Value) -> Vec<&Map<String, Value>> {
    let objects: Vec<&Value> = match body {
        Value::Object(fields) => fields.values().chain([body]).collect(),
        _ => return Vec::new(),
    };
    let rows = objects.into_iter().flat_map(|value| match value {
        Value::Array(rows) => rows.as_slice(),
        one => std::slice::from_ref(one),
    });
    rows.filter_map(Value::as_object).collect()
}
