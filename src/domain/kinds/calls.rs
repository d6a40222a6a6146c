//! The port between kinds and providers. A kinds file has a `call` section for each kind, which only the
//! kind's provider understands. All other modules know the calls of a kind only by the trait [`KindCalls`].

use std::any::Any;
use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::Arc;

use serde::Deserialize;

use super::Kind;
use super::source::{KindsError, Source};
use crate::domain::model::{Action, KindName, StepError};

/// A type of cloud, under the name that kinds files use: `provider = "openstack"`.
pub trait Provider: Sync {
    /// Returns the provider's name, as kinds files write it.
    fn name(&self) -> &'static str;

    /// Reads the `call` sections of a file: one for each kind that is not native.
    ///
    /// # Errors
    /// A key is unknown or its value has the wrong type; the error has the key's line.
    fn calls(&self, source: &Source) -> Result<BTreeMap<KindName, Arc<dyn KindCalls>>, KindsError>;
}

/// The calls of one kind.
pub trait KindCalls: Any + Debug + Send + Sync {
    /// Checks that the calls fit the other fields of their kind.
    ///
    /// # Errors
    /// The calls do not fit the kind, for example because one is missing or names a variable that the kind does not
    /// have.
    fn validate(&self, kind: &Kind) -> Result<(), String>;

    /// Returns the kinds that the calls name.
    fn kinds(&self) -> Vec<&KindName> {
        Vec::new()
    }

    /// Whether there is a call for this action. No other call is ever sent instead (P1).
    fn can(&self, action: Action) -> bool;

    /// Whether there is a call that takes one resource out of a row that contains several of its kind (N17).
    fn removes_one_of_row(&self) -> bool {
        false
    }

    /// Whether the delete call has the variable `cascade`, by which the cloud deletes the dependents itself.
    fn cascades_by_itself(&self) -> bool {
        false
    }

    /// Whether a deleted resource's id may be used again by a create call (M6).
    fn creates_by_id(&self) -> bool {
        false
    }

    /// Returns how many values of this filter one list takes, at least 1.
    fn values_per_list(&self, filter: &str) -> usize;

    /// Whether one list finds the resources with any of several values of this filter.
    fn takes_several(&self, filter: &str) -> bool {
        self.values_per_list(filter) > 1
    }

    /// Whether one list shows all rows, so that a row that the list lacks does not exist.
    fn lists_all_at_once(&self) -> bool {
        true
    }

    /// Whether a list without a filter shows the rows of all projects, to a login that may see them.
    fn lists_all_projects(&self) -> bool {
        true
    }

    /// Returns the extension without which a cloud has no resources of the kind.
    fn extension(&self) -> Option<&str> {
        None
    }

    /// Returns the meaning of an error with which the cloud answered; none if no rule matches it.
    fn meaning(&self, error: &StepError) -> Option<AnswerClass>;

    /// Returns the call of an action as a line, `DELETE /v2.0/ports/4fdb…`; none if the kind has no call for the
    /// action, or a variable is missing.
    fn line(&self, action: Action, variables: &BTreeMap<String, String>) -> Option<String>;
}

/// What an answer of a cloud means.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AnswerClass {
    /// A blocker exists: the step goes to the retry queue (I1).
    Blocked,
    /// An operation is in progress: the step is snoozed, and uses no attempt (I6).
    Pending,
    /// The service throttles calls or is down: the engine waits for it, and uses no attempt.
    Unavailable,
    /// The service failed on this call: the retry schedule decides when to repeat it.
    Failed,
    /// The login has lost its rights; the site is paused (N13).
    Auth,
    /// The cloud will never carry out the call: the step is stuck at once.
    Fatal,
    /// The resource differs from the planned one.
    Drift,
}

impl Kind {
    /// Returns the kind's calls in their provider's own type; none if they have another type than `C`.
    pub fn calls_of<C: KindCalls>(&self) -> Option<&C> {
        let calls: &dyn Any = &*self.calls;
        calls.downcast_ref()
    }
}
