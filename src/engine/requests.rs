//! Carries out a command with an idempotency key (`Idempotency-Key`) once, and repeats its answer.

use std::collections::HashSet;
use std::sync::{Arc, Mutex};

use super::journal::Journal;
use super::lock;
use crate::control::{Command, ControlError, Envelope, Receipt};
use crate::domain::canonical;
use crate::domain::model::Actor;
use crate::ledger::{Change, KeptRequest, KeyedRequest, Ledger};
use crate::system::clock::Clock;

/// Returns the request to store. None if the command has no key, changes nothing, or is in-process only (such
/// commands cross no socket and cannot be serialized).
pub(super) fn keyed(envelope: &Envelope) -> Option<KeyedRequest> {
    if matches!(envelope.command, Command::Plan { .. }) {
        return None;
    }
    let key = envelope.idempotency_key.clone()?;
    let asked = serde_json::to_vec(&(&envelope.command, &envelope.reason)).ok()?;
    Some(KeyedRequest {
        actor: envelope.actor.clone(),
        key,
        body: canonical::hash(&asked),
    })
}

/// Whether the command asks for a deletion. The ledger then stores the key together with the deletion.
pub(super) fn asks_for_deletion(command: &Command) -> bool {
    matches!(
        command,
        Command::Delete { .. }
            | Command::DeleteResources { .. }
            | Command::DeletePlan { .. }
            | Command::DeletePlanFile { .. }
    )
}

/// Keys of the requests in progress, by actor.
#[derive(Debug, Default)]
pub(super) struct KeysInUse(Mutex<HashSet<(Actor, String)>>);

impl KeysInUse {
    /// Records a key as in use until the returned guard is dropped. None if the key is in use already.
    fn take(self: &Arc<Self>, request: &KeyedRequest) -> Option<KeyInUse> {
        let key = (request.actor.clone(), request.key.clone());
        let is_free = lock(&self.0).insert(key.clone());
        is_free.then(|| KeyInUse {
            of: self.clone(),
            key,
        })
    }
}

struct KeyInUse {
    of: Arc<KeysInUse>,
    key: (Actor, String),
}

impl Drop for KeyInUse {
    fn drop(&mut self) {
        lock(&self.of.0).remove(&self.key);
    }
}

/// Repeats the answers of commands that were already carried out under their keys.
pub(super) struct KeyedRequests {
    pub(super) clock: Clock,
    pub(super) ledger: Arc<dyn Ledger>,
    pub(super) journal: Arc<Journal>,
    pub(super) in_use: Arc<KeysInUse>,
}

impl KeyedRequests {
    /// Returns the stored answer to the request. If there is none, carries out the command, even if its client
    /// disconnects, so that the answer exists when the client asks again. After a crash between the commit of the
    /// command and that of its answer, the command is carried out again. That is harmless: a resource that is created
    /// without an id gets its id from the request, and all other commands set a state.
    pub(super) async fn once(
        self: &Arc<Self>,
        request: KeyedRequest,
        command: impl Future<Output = Result<Receipt, ControlError>> + Send + 'static,
    ) -> Result<Receipt, ControlError> {
        let requests = self.clone();
        let answered = tokio::spawn(async move { requests.answer(request, command).await });
        answered.await.unwrap_or_else(|error| {
            let message = format!("the command did not finish: {error}");
            Err(ControlError::internal(message))
        })
    }

    /// Returns the deletion that an earlier request under the key asked for, even if the resource is gone by now or a
    /// cloud does not answer now.
    pub(super) async fn deletion_asked_for(
        &self,
        request: &KeyedRequest,
    ) -> Result<Option<String>, ControlError> {
        Ok(self.kept(request).await?.map(|kept| kept.deletion))
    }

    /// Returns the request that is stored under the key. It is an error if that is another request.
    async fn kept(&self, request: &KeyedRequest) -> Result<Option<KeptRequest>, ControlError> {
        let (actor, key) = (&request.actor, &request.key);
        match self
            .ledger
            .kept_request(actor, key, self.clock.now())
            .await?
        {
            Some(other) if other.body != request.body => {
                Err(ControlError::usage(other.other_use()))
            }
            kept => Ok(kept),
        }
    }

    async fn answer(
        &self,
        request: KeyedRequest,
        command: impl Future<Output = Result<Receipt, ControlError>>,
    ) -> Result<Receipt, ControlError> {
        let Some(_in_use) = self.in_use.take(&request) else {
            return Err(ControlError::conflict(
                "a request with this idempotency key is still running; send it again for \
                          its answer"
                    .to_owned(),
            ));
        };
        if let Some(kept) = self.kept(&request).await? {
            let answer = kept.answer.map(serde_json::from_value);
            let answer = answer.ok_or("there is none".to_owned());
            let read = answer.and_then(|it| it.map_err(|error| error.to_string()));
            return read.map_err(|why| {
                ControlError::internal(format!(
                    "the request with this idempotency key was carried out, but its stored answer cannot be read \
                     ({why}): list the deletions, or what the request changed, to see the result"
                ))
            });
        }
        let receipt = command.await?;
        let answer = serde_json::to_value(&receipt).map_err(|error| {
            ControlError::internal(format!(
                "the command was carried out, but its answer cannot be stored: {error}"
            ))
        })?;
        let now = self.clock.now();
        self.journal
            .commit(vec![Change::KeepAnswer {
                request,
                answer,
                now,
            }])
            .await?;
        Ok(receipt)
    }
}
