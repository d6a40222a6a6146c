//! The HTTP API on the engine's unix socket.
//!
//! Two families of paths. `/api/v1/…`, `/healthz`, `/readyz` and `/metrics` are for programs and stay stable;
//! `/openapi.json` describes them ([`described`]). `/control/v1/…` carries the four calls of [`Control`] verbatim
//! for our own consoles and verbs ([`crate::control::remote`]).
//!
//! Shapes. A single item is one object. Lists are `{"items": […], "next": CURSOR or null}`; give `next`
//! back as `?cursor=`. Errors are RFC 9457 problem documents. An unknown field or parameter is an
//! error that names the nearest valid one.
//!
//! **Architecture invariant:** nothing here decides. A handler parses, calls [`Control`], and
//! renders the answer.

mod caller;
mod deletions;
mod described;
mod events;
mod health;
mod input;
mod passthrough;
mod problem;
mod report;
mod resources;
mod socket;
mod steering;
mod views;

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::{DefaultBodyLimit, FromRequestParts};
use axum::http::StatusCode;
use axum::http::request::Parts;
use axum::routing::{get, post};
use axum::{Extension, Json, Router, middleware};
use hyper_util::service::TowerToHyperService;
use serde::Serialize;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::control::{Command, Control, Receipt, Request};
use crate::domain::model::{Paged, Scope};
use crate::system::clock::Clock;
use crate::system::listener::{
    self, AdmittedConnection, Bounds, ConnectionTable, Http, accept_each,
};
use caller::{Admission, Caller, Peer};
pub use described::description;
use problem::Problem;
pub use socket::ServeError;
use socket::SocketListener;

/// Largest body of a request that contains no plan: ids and options, or the fields of one resource.
const BODY_BYTES_MAX: usize = 1 << 20;
/// Largest body of a request that may contain a plan: 100,000 steps take about 40 MiB.
const PLAN_BYTES_MAX: usize = 64 << 20;
/// Most connections at a time. A console has about four: snapshots, events and queries.
pub const CONNECTIONS_MAX: usize = 512;
const BOUNDS: Bounds = Bounds {
    all: CONNECTIONS_MAX,
    each: 256,
    // Longer than our own clients keep a connection for their next call.
    wait: Duration::from_secs(120),
};
const HTTP: Http = Http {
    head_bytes: 64 << 10,
    http2: false,
};
/// How long answers in progress may take at shutdown. An engine that hands over to the next one has 2 s in all.
const DRAIN: Duration = Duration::from_millis(500);

/// The socket of the API, and the uids that it serves.
#[derive(Clone, Debug)]
pub struct ServeOptions {
    pub socket: PathBuf,
    /// The scope of each uid other than our own and root. If there is any, the socket's file lets everyone
    /// connect, and the engine decides by the uid.
    pub uids: BTreeMap<u32, Scope>,
    pub clock: Clock,
    /// How often the socket's file is checked, and bound again if it was removed.
    pub socket_check: Duration,
    /// Ends the service when cancelled.
    pub shutdown: CancellationToken,
}

impl ServeOptions {
    pub fn new(socket: PathBuf) -> Self {
        Self {
            socket,
            uids: BTreeMap::new(),
            clock: Clock::system(),
            socket_check: Duration::from_secs(5),
            shutdown: CancellationToken::new(),
        }
    }
}

/// The handle of the running API. Dropping the handle leaves the API running.
#[derive(Debug)]
pub struct ApiHandle {
    shutdown: CancellationToken,
    task: JoinHandle<()>,
}

impl ApiHandle {
    /// Stops the API: takes no more requests, removes the socket and ends the streams. Waits at most half a second for
    /// answers in progress.
    pub async fn stop(mut self) {
        self.shutdown.cancel();
        if tokio::time::timeout(DRAIN, &mut self.task).await.is_err() {
            self.task.abort();
            // The task's listener is dropped, and the socket's file removed, only when the task has ended.
            let _ = self.task.await;
        }
    }
}

/// Starts a task that serves the API until it is shut down. When this function returns, the socket accepts
/// connections.
///
/// # Errors
/// The socket cannot be bound: see [`ServeError`].
pub async fn serve(
    control: Arc<dyn Control>,
    options: ServeOptions,
) -> Result<ApiHandle, ServeError> {
    let admission = Arc::new(Admission::new(options.uids));
    let listener =
        SocketListener::bind(options.socket, admission.clone(), options.socket_check).await?;
    let shutdown = options.shutdown;
    let api = Api {
        control,
        clock: options.clock,
        shutdown: shutdown.clone(),
        caller: None,
    };
    let router = router(api, admission);
    let task = tokio::spawn(run(listener, router, shutdown.clone()));
    Ok(ApiHandle { shutdown, task })
}

async fn run(listener: SocketListener, router: Router, shutdown: CancellationToken) {
    let stop = shutdown.clone();
    let serve = |connections: &TaskTracker, stream, uid, admitted: AdmittedConnection<u32>| {
        let service = router.clone().layer(Extension(Peer { uid }));
        let service = TowerToHyperService::new(service);
        let shutdown = shutdown.clone();
        connections.spawn(async move {
            if let Err(error) = listener::serve(stream, &admitted, HTTP, service, &shutdown).await {
                tracing::debug!(uid, %error, "a connection to the API ended");
            }
        });
    };
    accept_each(listener, ConnectionTable::new(BOUNDS), stop, serve).await;
}

/// The state that every handler shares, with the caller of the handler's request.
#[derive(Clone)]
struct Api {
    control: Arc<dyn Control>,
    clock: Clock,
    /// Ends the streams when cancelled.
    shutdown: CancellationToken,
    /// None outside of a request. [`caller::admit`] runs before every handler.
    caller: Option<Caller>,
}

/// Gives a handler the state, with the caller of its request.
impl FromRequestParts<Self> for Api {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, api: &Self) -> Result<Self, Infallible> {
        let mut api = api.clone();
        api.caller = parts.extensions.get().cloned();
        Ok(api)
    }
}

impl Api {
    async fn ask<R: Request>(&self, request: R) -> Result<R::Answer, Problem> {
        self.control.ask(request).await.map_err(Problem::of_query)
    }

    /// Submits a command in the caller's name.
    async fn submit(&self, command: Command, reason: String) -> Result<Receipt, Problem> {
        let envelope = self.caller()?.authorize_command(command, reason)?;
        Ok(self.control.submit(envelope).await?)
    }
}

/// The answer of a handler: 200 and its JSON.
type Answer<T> = Result<Json<T>, Problem>;
/// The answer to a call that the engine has accepted: 202 and its JSON.
type Taken<T> = Result<(StatusCode, Json<T>), Problem>;

fn taken<T>(shown: T) -> Taken<T> {
    Ok((StatusCode::ACCEPTED, Json(shown)))
}

/// One page of a list.
#[derive(Serialize, ToSchema)]
struct List<T> {
    items: Vec<T>,
    /// The `?cursor=` of the next page; null on the last page.
    next: Option<String>,
}

impl<T> List<T> {
    fn json(Paged { rows, next }: Paged<T>) -> Json<Self> {
        Json(Self { items: rows, next })
    }

    /// Returns all rows on one page.
    fn whole(items: Vec<T>) -> Json<Self> {
        Json(Self { items, next: None })
    }
}

fn router(api: Api, admission: Arc<Admission>) -> Router {
    let control = Router::new()
        .route("/hello", get(passthrough::hello))
        .route("/submit", post(passthrough::submit))
        .route("/query", post(passthrough::query))
        .route("/events", get(passthrough::events))
        .route("/snapshots", get(passthrough::snapshots))
        .layer(DefaultBodyLimit::max(PLAN_BYTES_MAX));
    Router::from(routes())
        .nest("/control/v1", control)
        .layer(DefaultBodyLimit::max(BODY_BYTES_MAX))
        .layer(middleware::from_fn_with_state(admission, caller::admit))
        .layer(middleware::from_fn(problem::for_every_error))
        .with_state(api)
}

/// The paths for programs, with their description.
fn routes() -> OpenApiRouter<Api> {
    let v1 = OpenApiRouter::default()
        .routes(routes!(deletions::create_plan))
        .routes(routes!(deletions::one_plan))
        .routes(routes!(deletions::list, deletions::create))
        .routes(routes!(deletions::one))
        .routes(routes!(deletions::steps))
        .routes(routes!(deletions::sites))
        .routes(routes!(report::tree))
        .routes(routes!(report::report))
        .routes(routes!(steering::retry))
        .routes(routes!(steering::cancel))
        .routes(routes!(steering::pause))
        .routes(routes!(steering::resume))
        .routes(routes!(steering::drift))
        .routes(routes!(steering::ladder, steering::purge))
        .routes(routes!(deletions::step))
        .routes(routes!(steering::retry_step))
        .routes(routes!(steering::step_ladder, steering::purge_step))
        .routes(routes!(steering::retry_matching))
        .routes(routes!(views::stuck))
        .routes(routes!(views::retry_queue))
        .routes(routes!(steering::orphans))
        .routes(routes!(views::causes))
        .routes(routes!(views::gates))
        .routes(routes!(views::deployments))
        .routes(routes!(views::engines))
        .routes(routes!(views::reconcilers))
        .routes(routes!(views::release_importer))
        .routes(routes!(views::sites))
        .routes(routes!(views::pause_site))
        .routes(routes!(views::resume_site))
        .routes(routes!(views::audit))
        .routes(routes!(views::tombstones))
        .routes(routes!(views::tombstone))
        .routes(routes!(views::release))
        .routes(routes!(resources::list, resources::create))
        .routes(routes!(
            resources::one,
            resources::update,
            resources::delete
        ))
        .routes(routes!(events::stream));
    OpenApiRouter::default()
        .nest("/api/v1", v1)
        .routes(routes!(health::live))
        .routes(routes!(health::ready))
        .routes(routes!(health::metrics))
        .routes(routes!(health::description))
}
