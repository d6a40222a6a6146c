//! The core that all services share; it imports none of them. Each file imports only files before it in this list:
//!
//! | file | what it has |
//! |---|---|
//! | `wire` | calls, the rights of their callers, and answers |
//! | `attribute`, `kind` | services and their kinds, as tables |
//! | `row`, `store` | one resource of any kind; all of them, with indexes, a journal and ids from a seed |
//! | `options` | the options of a world |
//! | `session` | the rights and the changes of a call, and the hooks: rules that no table can express |
//! | `body`, `lists` | the checks of a body; filters, order and pages |
//! | `resource` | the functions of a service; the methods that all kinds share |
//! | `revival`, `region` | how rows are revived; a region with its rows, and how fast its answers leave |
mod attribute;
pub(crate) mod body;
mod kind;
mod lists;
mod options;
mod region;
pub(crate) mod resource;
pub(crate) mod revival;
mod row;
mod session;
mod store;
mod wire;

pub(crate) use attribute::{ADMIN_SEES, REQUIRED, Shape};
pub(crate) use kind::{Body, Kind, Service, Tables};
pub(crate) use lists::{
    Condition, ListQuery, Page, TAG_FILTERS, filters, is_set, linked, newest_first, sorts, values,
};
pub use options::WorldOptions;
pub(crate) use region::{Limits, Region};
pub(crate) use resource::{Api, PathMatch};
pub(crate) use row::{Course, End, Row};
pub(crate) use session::{Hooks, Session, id_in};
pub(crate) use store::{Ids, Store, Undo, number_of};
pub(crate) use wire::{Answer, Call, Caller, Content, Handled, Refusal, Result, refuse_if, title};
