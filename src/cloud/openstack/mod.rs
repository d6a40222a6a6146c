//! The OpenStack provider: a thin client (configuration as openstacksdk reads it, Keystone v3, calls and
//! paging), and `adapter`, which turns kinds into calls and answers into outcomes.
//!
//! ```text
//!  CloudsConfig ──cloud(name, region)──▶ CloudConfig ──┐
//!                                                      ├──▶ Session ──request──▶ Answer | CallError
//!  Transport (reqwest, or in process) ─────────────────┘       └──────list─────▶ Listing | CallError
//! ```
//!
//! This client deliberately has no retries (the engine decides; only a 401 leads to one new login), no caches
//! on disk (a token is kept in memory only) and no redirects (a DELETE must not become a GET). Only `adapter`,
//! `answers`, `kinds` and `requests` know kinds. To all other modules an answer is its status, type and message, and
//! the kinds file classifies it.
//!
//! Every answer of a service, also a refusal, names the [`Identity`] to which it was given, because a cloud also
//! answers 404 to a login that has lost its rights (rule I13).
mod adapter;
mod answers;
mod call;
mod catalog;
pub mod config;
mod http;
mod identity;
mod keystone;
mod kinds;
mod list;
mod paging;
mod project_names;
mod remote;
mod requests;
mod session;
mod tls;
mod transport;

pub use adapter::{MakeTransport, OpenStack, RereadConfig};
pub use call::{Answer, Attempt, CallError, Reason};
pub use catalog::{Catalog, CatalogError, Endpoint, root_of, service_type};
pub use config::{CloudConfig, CloudsConfig, ConfigError, Environment, Interface, Warning};
pub use http::{HttpTransport, StreamingClient, streaming_client};
pub use identity::Identity;
pub use keystone::{AuthError, TokenDescription, TokenScope};
pub use kinds::{Created, EMBEDDED, FilterValues, OpenStackKinds, RestCalls, item_in, service_of};
pub use list::{ListOptions, ListRequest, Listing, Page, Pages, Paging};
pub use remote::RemoteError;
pub use session::{Clock, Service, Session};
pub use transport::{Transport, TransportError};
