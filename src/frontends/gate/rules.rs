//! The table of rules T as one function: what a gate does, by the phase of a tombstone, the source of a request and its
//! operation.

use crate::domain::model::Phase;

/// The operation that a request asks for on a resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Read the resource, alone or in a list.
    Read,
    Delete,
    /// Create a child of the resource, update it, or add a reference to it.
    Refer,
    /// Re-create the resource under its natural key, or create a copy of it.
    Create,
}

/// The source of a request: the kind of clients that the listener is for, or a service with its own token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestSource {
    User,
    Local,
    Central,
    /// A user's request that carries a valid service token: a service may change and delete its own resources
    /// (N9).
    Service,
}

/// What the gate does with a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ruling {
    /// Passes the request as if there were no gate.
    Pass,
    /// Answers 404.
    NotFound,
    /// Shows the resource with its state as deleting.
    ShowDeleting,
    /// Answers 204: the deletion is in progress (T6).
    UnderWay,
    /// Answers 202: the deletion is being checked.
    BeingChecked,
    /// Answers 409.
    Conflict,
}

/// Returns one cell of the table. A released tombstone counts as none.
pub fn ruling(phase: Option<Phase>, asker: RequestSource, operation: Operation) -> Ruling {
    use Operation::{Create, Delete, Read, Refer};
    use RequestSource::{Central, Local, Service, User};
    use Ruling::{BeingChecked, Conflict, NotFound, Pass, ShowDeleting, UnderWay};
    match (phase, operation, asker) {
        (None | Some(Phase::Released), _, _) => Pass,
        // Users and services re-create the resource on purpose; a copy comes from a site that does not know of
        // the deletion (M).
        (Some(Phase::Gone | Phase::Purged), Create, User | Service) => Pass,
        (Some(_), Create, _) => Conflict,
        (Some(_), Delete, Central | Service) => Pass,

        (Some(Phase::Checking), Read, _) => Pass,
        (Some(Phase::Checking), Delete, User) => BeingChecked,
        (Some(Phase::Checking), Delete, Local) => Pass,
        (Some(Phase::Checking | Phase::Deleting), Refer, Service) => Pass,
        (Some(Phase::Checking | Phase::Deleting), Refer, _) => Conflict,

        (Some(Phase::Deleting), Read | Delete, Local) => NotFound,
        (Some(Phase::Deleting), Read, User | Service) => ShowDeleting,
        (Some(Phase::Deleting), Read, Central) => Pass,
        (Some(Phase::Deleting), Delete, User) => UnderWay,

        (Some(Phase::Gone), _, _) => NotFound,

        (Some(Phase::Purged), Read | Delete, Local) => NotFound,
        (Some(Phase::Purged), _, _) => Pass,
    }
}
