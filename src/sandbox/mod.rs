//! The sandbox: gone's built-in practice cloud, an imitation of OpenStack in this process.
//!
//! `World` is the cloud without I/O; `serve` puts it on a listener. It knows nothing of gone's own model, or
//! it would repeat gone's mistakes: its answers were read off real services, and the conformance table in
//! `tests/sandbox` runs against it and against those services. It imitates what gone, its gate, the scenarios
//! and the recorded tables of deletions need; elsewhere status and error type are enough.
//!
//! ```text
//!  client ──▶ server ──▶ World::handle ─┬▶ control, seed      (below /sandbox/v1)
//!  simulation ──────────▶ (request, now)│                              ┌▶ body, lists
//!                                       └▶ faults ─▶ region ─▶ resource ┼▶ hooks of neutron, octavia, glance,
//!                                                    │   of a service   │   nova, cinder, keystone
//!                          Reply {response, delay, fate} ◀── pace       └▶ session ─▶ store
//! ```
//!
//! # One core
//! All services of a region share one store (`core`): rows of any kind with their attributes as JSON, found by
//! id or by an indexed attribute, with a journal of what a call changed. So one piece of code rolls a refused
//! call back, undoes a deletion that a fault keeps, and revives what was deleted. And one service acts on the rows
//! of another: a balancer has a port, a server has ports and volumes, which go or are free when it goes.
//!
//! A *kind* is data: `assets/sandbox` has the tables with its names, its attributes, which rows it takes along
//! when it is deleted, and which rows block that. A *service* is data too: its paths, its versions, and its words
//! for each reason to refuse a call. What no table can express is a *hook*: addresses, router interfaces,
//! trunks, VIPs, changes that take time. Hooks are handed to a session by the name of their kind, so the core
//! imports no service. Keystone is a service like the others, but all regions share it.
//!
//! # Time
//! A row may be pending until it is *due*. `World::handle` first ends whatever is due by then, in the order of
//! the times; the `settle` hook of the kind says how a change ends. A fault can set the *course* of a change:
//! how long it takes, and whether it fails or puts the row back.
//!
//! # To add a service
//! 1. A file in `assets/sandbox`: its `[service]`, its `[refusals]` (those that all services have are in small
//!    letters), and a `[[kind]]` for each kind, parents first. `core/kind.rs` and `core/attribute.rs` explain
//!    the fields.
//! 2. A folder with an `Api`: the file, the hooks of its kinds, how it reads the parameters of a list, what it
//!    adds to a page, and the shape of its errors. `own` takes the calls that are no method of a kind.
//! 3. A file of hooks for each group of kinds that the tables do not describe completely. A hook begins with
//!    `..Hooks::NONE`, which is the common way; a file imports only files below it, `devices.rs` in Neutron.
//! 4. A line in `SERVICES` of `world.rs`; the catalog, the paths and the faults follow from it.
//! 5. Scenes in `tests/sandbox/conformance`, which run against the real service too, and a line in
//!    `tests/sandbox/refusals.rs`. If a seed creates its rows: steps in `assets/sandbox/seed.toml`.
mod cinder;
mod control;
mod core;
mod faults;
mod glance;
mod keystone;
mod neutron;
mod nova;
mod octavia;
mod scenario;
mod seed;
mod server;
mod template;
mod world;

pub use keystone::{CREDENTIAL_ID, CREDENTIAL_SECRET};
pub use scenario::{
    DEFAULT_SCENARIO, PastDeletion, Scenario, ScenarioError, SceneDeployment, SceneResource,
    SceneService,
};
pub use server::{ServeError, ServeOptions, ServerHandle, serve};
pub use world::{Fate, Reply, World, WorldOptions};
