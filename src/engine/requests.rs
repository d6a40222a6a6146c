//! Carries out a command with an idempotency key (`Idempotency-Key`) once, and repeats its answer.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::errors::ledger_error;
use super::journal::Journal;
use crate::control::{Command, ControlError, Envelope, Receipt};
use crate::domain::canonical;
use crate::domain::model::Actor;
use crate::ledger::{Change, KeyedRequest, Ledger};
use crate::system::clock::Clock;

/// Returns the request to store. None if the command has no key, is in-process only (such commands cross no
/// socket and cannot be serialized), or asks for a deletion: the ledger stores that key with the deletion.
pub(super) fn keyed(envelope: &Envelope) -> Option<KeyedRequest> {
    match &envelope.command {
        Command::Plan { .. }
        | Command::Delete { .. }
        | Command::DeleteSeen { .. }
        | Command::DeletePlan { .. }
        | Command::DeletePlanFile { .. } => return None,
        _ => {}
    }
    let key = envelope.idempotency_key.clone()?;
    let asked = serde_json::to_vec(&(&envelope.command, &envelope.reason)).ok()?;
    Some(KeyedRequest {
        actor: envelope.actor.clone(),
        key,
        body: canonical::hash(&asked),
    })
}

/// Keys of the requests in progress, by actor.
#[derive(Debug, Default)]
pub(super) struct KeysInUse(Mutex<HashSet<(Actor, String)>>);

impl KeysInUse {
    /// Marks a key as in use until the returned guard is dropped. None if it is already in use.
    fn take(self: &Arc<Self>, request: &KeyedRequest) -> Option<KeyInUse> {
        let key = (request.actor.clone(), request.key.clone());
        let is_free = self.lock().insert(key.clone());
        is_free.then(|| KeyInUse {
            of: self.clone(),
            key,
        })
    }

    fn lock(&self) -> MutexGuard<'_, HashSet<(Actor, String)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct KeyInUse {
    of: Arc<KeysInUse>,
    key: (Actor, String),
}

impl Drop for KeyInUse {
    fn drop(&mut self) {
        self.of.lock().remove(&self.key);
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
    /// Carries out the command even if its client disconnects, so that the answer exists when the client asks
    /// again. After a crash between the two commits the command is carried out again. That is harmless, since
    /// every command with a key here sets a state.
    pub(super) async fn once(
        self: &Arc<Self>,
        request: KeyedRequest,
        command: impl Future<Output = Result<Receipt, ControlError>> + Send + 'static,
    ) -> Result<Receipt, ControlError> {
        let requests = self.clone();
        let answered = tokio::spawn(async move { requests.answer(request, command).await });
        answered.await.unwrap_or_else(|error| {
            let message = format!("the command did not finish: {error}");
            Err(ControlError::Internal { message })
        })
    }

    async fn answer(
        &self,
        request: KeyedRequest,
        command: impl Future<Output = Result<Receipt, ControlError>>,
    ) -> Result<Receipt, ControlError> {
        let Some(_in_use) = self.in_use.take(&request) else {
            return Err(ControlError::Conflict {
                message: "a request with this idempotency key is still running; send it again for \
                          its answer"
                    .to_owned(),
            });
        };
        let (actor, key) = (&request.actor, &request.key);
        let kept = self.ledger.kept_request(actor, key, self.clock.now()).await;
        if let Some(kept) = kept.map_err(ledger_error)? {
            let answer = kept.answer.clone().filter(|_| kept.body == request.body);
            return match answer.map(serde_json::from_value) {
                Some(Ok(receipt)) => Ok(receipt),
                Some(Err(error)) => Err(ControlError::Internal {
                    message: format!("the stored answer cannot be read: {error}"),
                }),
                None => Err(ControlError::Usage {
                    message: kept.other_use(),
                }),
            };
        }
        let receipt = command.await?;
        let answer = serde_json::to_value(&receipt).map_err(|error| ControlError::Internal {
            message: format!("the answer cannot be stored: {error}"),
        })?;
        let now = self.clock.now();
        self.journal
            .commit(vec![Change::KeepAnswer {
                request,
                answer,
                now,
            }])
            .await
            .map_err(ledger_error)?;
        Ok(receipt)
    }
}
