//! The sandbox: gone's built-in practice cloud, an imitation of OpenStack in this process.
//!
//! `World` is the cloud without I/O; `serve` serves it over HTTP. The sandbox imports nothing of gone's own
//! model, because it would repeat gone's mistakes: its answers were copied from real services, and the
//! conformance table in `tests/sandbox` runs against the sandbox and against those services. The sandbox imitates what
//! gone, its gate, the scenarios and the tables of `tests/testbed/BEHAVIOUR.md` need. It imitates only the status and
//! the error type of other refusals.
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
//! id or by an indexed attribute, with a journal of the changes of a call. So the same code rolls back a refused
//! call, undoes a call with the fault `keep`, and revives deleted resources. A service can also act on the rows of
//! another: a balancer has a port, and a server has ports and volumes, which are deleted or freed with it.
//!
//! A *kind* is data: the tables in `assets/sandbox` have its names, its attributes, the calls that only admins may
//! make, which rows are deleted with a row of it, and which rows block the deletion. A *service* is data too: its
//! paths, its versions, and its words for each reason to refuse a call. A rule that no table can express is a *hook*:
//! addresses, router interfaces, trunks, VIPs, changes that take time. A session finds the hooks by the name of their
//! kind, so the core imports no service. Keystone is a service like the other ones, but all regions share it.
//!
//! # Time
//! A row may be pending until it is *due*. `World::handle` first ends the changes that are due by then, in the
//! order of their times; the `settle` hook of the kind says how a change ends. A fault can set the *course* of a
//! change: how long it takes, and whether it fails or puts the row back.
//!
//! # To add a service
//! 1. A file in `assets/sandbox`: its `[service]`, its `[refusals]` (those that all services have are in small
//!    letters), and a `[[kind]]` for each kind, parents first. `core/kind.rs` and `core/attribute.rs` explain
//!    the fields.
//! 2. A folder with an `Api`: the file, the hooks of its kinds, how it reads the parameters of a list, what it
//!    adds to a page, and the shape of its errors. `own` handles the calls that are not methods of a kind.
//! 3. A file of hooks for each group of kinds that the tables do not describe completely. A value of `Hooks` has
//!    only the hooks that differ, and takes the other hooks from `Hooks::NONE`. The files do not import each other in
//!    a circle: code that several files share is in a file of its own, such as `devices.rs` in Neutron.
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

pub use self::core::WorldOptions;
pub use keystone::{CREDENTIAL_ID, CREDENTIAL_SECRET};
pub use scenario::{
    DEFAULT_SCENARIO, PastDeletion, Scenario, ScenarioError, SceneDeployment, SceneResource,
    SceneService,
};
pub use server::{ServeError, ServeOptions, ServerHandle, serve};
pub use world::{Fate, Reply, World};
