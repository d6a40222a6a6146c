//! The sandbox: gone's built-in practice cloud, an imitation of OpenStack in this process.
//!
//! `World` is the cloud without I/O; `serve` puts it on a listener. It knows nothing of gone's own model, or
//! it would repeat gone's mistakes: its answers were read off real services, and the conformance table in
//! `tests/sandbox` runs against it and against those services. It imitates what gone, its gate, the scenarios
//! and the recorded tables of deletions need; elsewhere status and error type are enough.
//!
//! ```text
//!  client ──▶ server ──▶ World::handle ─▶ faults ─┬▶ keystone ────────────────────┐
//!  simulation ──────────▶   (request, now)        └▶ region ─▶ resource ─▶ hooks ─┴▶ Reply{response, delay, fate}
//!                                                       │         │          │
//!                                                     pace     tables ──▶  store (rows, index, journal)
//! ```
//!
//! # One core
//! All services of a region share one `store`: rows of any kind with their attributes as JSON, found by id
//! or by an indexed attribute, with a journal of what a call changed. So one piece of code rolls a refused call
//! back, undoes a deletion that a fault keeps, and revives what was deleted (`revival`).
//!
//! A *kind* (`kind`) is data: `assets/sandbox` has the tables with its names, its attributes, which rows it
//! takes along when it is deleted, and which rows hold it. `resource` has the methods of all kinds, `body`
//! the checks of a body, `lists` filters, order and pages, `session` the rights and the changes of a call.
//! What no table can express is a *hook*: addresses, router interfaces, trunks, VIPs, changes that take time.
//!
//! A *service* (`api`) is data too: its paths, its tables, how it reads the parameters of a list, and its words
//! for each reason to refuse a call.
//!
//! # Time
//! A row may be pending until it is *due*. `World::handle` first ends whatever is due by then, in the order of
//! the times; the `settle` hook of the kind says how a change ends. A scenario can set the *course* of a row's
//! next change: how long it takes, and whether it fails.
//!
//! # To add a service
//! Its tables in `assets/sandbox`, a folder with an `Api` and the hooks of its kinds, and a line in
//! `SERVICES` of `region`.
mod api;
mod attribute;
mod body;
mod caller;
mod control;
mod faults;
mod glance;
mod ids;
mod keystone;
mod kind;
mod lists;
mod neutron;
mod octavia;
mod pace;
mod region;
mod resource;
mod revival;
mod row;
mod scenario;
mod seed;
mod server;
mod session;
mod store;
mod template;
mod wire;
mod world;

pub use keystone::{CREDENTIAL_ID, CREDENTIAL_SECRET};
pub use scenario::{
    DEFAULT_SCENARIO, Scenario, ScenarioError, SceneDeployment, SceneResource, SceneService,
};
pub use server::{ServeError, ServeOptions, ServerHandle, serve};
pub use world::{Fate, Reply, World, WorldOptions};
