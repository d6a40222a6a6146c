//! The sandbox: gone's built-in practice cloud.
//!
//! `World` is the cloud without I/O; `serve` puts it on a listener. It knows nothing of gone's own model, or
//! it would repeat gone's mistakes: its answers were read off real services, and the conformance table in
//! `tests/sandbox` runs against it and against those services.
//!
//! ```text
//!  client ──▶ server ──▶ World::handle ─▶ faults ─┬▶ keystone ──────────────────┐
//!  simulation ──────────▶   (request, now)        └▶ region ─┬▶ neutron ◀─┐     ├▶ Reply{response, delay, fate}
//!                                                            ├▶ octavia ──┴▶ pace ┘
//!                                                            └▶ glance
//! ```
mod control;
mod faults;
mod glance;
mod ids;
mod keystone;
mod neutron;
mod octavia;
mod pace;
mod region;
mod scenario;
mod server;
mod unset;
mod wire;
mod world;

use keystone::Caller;
pub use keystone::{CREDENTIAL_ID, CREDENTIAL_SECRET};
pub use scenario::{
    DEFAULT_SCENARIO, Scenario, ScenarioError, SceneDeployment, SceneResource, SceneService,
};
pub use server::{ServeError, ServeOptions, ServerHandle, serve};
pub use world::{Fate, Reply, World, WorldOptions};
