//! What a gate does, by the phase of a tombstone: the table of T, as one function.

use crate::domain::model::Phase;
use crate::system::config::GateSource;

/// What a request wants of a resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// To see it, by itself or in a list.
    Read,
    Delete,
    /// To create a child of it, update it, or newly refer to it.
    Refer,
    /// To create it anew, under its natural key, or a copy of it.
    Create,
}

/// Who asks: the listener's source, or a service by its own token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asker {
    User,
    Local,
    Central,
    /// A user's request that carries a valid service token: a service changes and deletes what is its
    /// own (N9).
    Service,
}

impl From<GateSource> for Asker {
    fn from(source: GateSource) -> Self {
        match source {
            GateSource::User => Self::User,
            GateSource::Local => Self::Local,
            GateSource::Central => Self::Central,
        }
    }
}

/// What the gate does with the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ruling {
    /// As if there were no gate.
    Pass,
    /// 404.
    NotFound,
    /// The resource, its state shown as deleting.
    ShowDeleting,
    /// 204: it is under way (T6).
    UnderWay,
    /// 202: the deletion that is being checked.
    BeingChecked,
    /// 409.
    Conflict,
}

/// One cell of the table; no tombstone, or a released one, is no phase.
pub fn ruling(phase: Option<Phase>, asker: Asker, wish: Operation) -> Ruling {
    use Asker::{Central, Local, Service, User};
    use Operation::{Create, Delete, Read, Refer};
    use Ruling::{BeingChecked, Conflict, NotFound, Pass, ShowDeleting, UnderWay};
    match (phase, wish, asker) {
        (None | Some(Phase::Released), _, _) => Pass,
        // Who creates it anew after its end means it; a copy is made by one that has not heard (M).
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
