//! The HTTP server: passes each request to `World::handle` and sends its reply.
use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use chrono::Utc;
use http::{Request, Response};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use thiserror::Error;
use tokio::net::{TcpListener, TcpStream};
use tokio::time::Instant;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::core::WorldOptions;
use super::keystone::PASSWORD;
use super::scenario::{Scenario, ScenarioError};
use super::world::{Fate, World};
use crate::system::private;

/// Maximum size of a request's body, in bytes: enough for a bulk POST of some thousand ports.
const BODY_MAX: usize = 16 << 20;
/// How late a timer fires on average: its tick is rounded up to a millisecond, and so is the poll that waits
/// for it.
const TIMER_LATE: Duration = Duration::from_millis(1);

/// The address to listen on and the world to serve.
#[derive(Clone, Debug)]
pub struct ServeOptions {
    /// The address of the listener. Port 0 takes any free port.
    pub listen: SocketAddr,
    /// The options of the world. The URL of the listener replaces `base_url`.
    pub world: WorldOptions,
    /// The scenario with the initial content; without one, the world is empty.
    pub scenario: Option<Scenario>,
}

/// The reason why the server could not start.
#[derive(Debug, Error)]
pub enum ServeError {
    #[error("cannot listen on {listen}: {error}")]
    Listen {
        listen: SocketAddr,
        error: io::Error,
    },
    #[error(transparent)]
    Scenario(#[from] ScenarioError),
}

/// A running server; dropping the handle stops it.
pub struct ServerHandle {
    url: String,
    regions: Vec<String>,
    world: Arc<Mutex<World>>,
    _stop: DropGuard,
}

/// Starts to serve a new world at the address, inside the current tokio runtime.
pub async fn serve(options: ServeOptions) -> Result<ServerHandle, ServeError> {
    let listen = options.listen;
    let failed = |error| ServeError::Listen { listen, error };
    let listener = TcpListener::bind(listen).await.map_err(failed)?;
    let url = format!("http://{}", listener.local_addr().map_err(failed)?);
    let regions = options.world.regions.clone();
    let mut world = World::new(options.world);
    world.set_base_url(&url);
    if let Some(scenario) = &options.scenario {
        world.apply(scenario, Utc::now() - scenario.age())?;
    }
    let world = Arc::new(Mutex::new(world));
    let stop = CancellationToken::new();
    tokio::spawn(accept(listener, Arc::clone(&world), stop.clone()));
    Ok(ServerHandle {
        url,
        regions,
        world,
        _stop: stop.drop_guard(),
    })
}

impl ServerHandle {
    /// Returns the URL of the server, without a path.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Returns the world, for a client in this process.
    pub fn world(&self) -> Arc<Mutex<World>> {
        Arc::clone(&self.world)
    }

    /// Returns the line that `gone sandbox` prints when it is ready.
    pub fn ready_line(&self, clouds_yaml: Option<&Path>) -> Value {
        json!({
            "url": self.url,
            "clouds_yaml": clouds_yaml.map(|path| path.display().to_string()),
            "regions": self.regions,
        })
    }

    /// Returns a `clouds.yaml` with the clouds `sandbox` (admin) and `sandbox-demo` (a member).
    pub fn clouds_yaml(&self) -> String {
        let regions = self.regions.join(", ");
        let first = self.regions.first().map_or("", String::as_str);
        let cloud = |name: &str, user: &str| {
            format!(
                "  {name}:\n    auth:\n      auth_url: {url}/v3\n      username: {user}\n      password: {PASSWORD}\n      \
                 project_name: {user}\n      user_domain_id: default\n      project_domain_id: default\n    \
                 identity_api_version: 3\n    region_name: {first}\n    regions: [{regions}]\n",
                url = self.url,
            )
        };
        format!(
            "clouds:\n{}{}",
            cloud("sandbox", "admin"),
            cloud("sandbox-demo", "demo")
        )
    }

    /// Writes `clouds.yaml`, readable by its owner only, in place of an existing file.
    pub fn write_clouds_yaml(&self, path: &Path) -> io::Result<()> {
        private::replace(path, self.clouds_yaml().as_bytes())
    }
}

async fn accept(listener: TcpListener, world: Arc<Mutex<World>>, stop: CancellationToken) {
    while let Some(accepted) = stop.run_until_cancelled(listener.accept()).await {
        // A connection that failed before it was accepted is the client's problem.
        if let Ok((stream, _)) = accepted {
            tokio::spawn(connection(stream, Arc::clone(&world), stop.clone()));
        }
    }
}

async fn connection(stream: TcpStream, world: Arc<Mutex<World>>, stop: CancellationToken) {
    let service = service_fn(|request| answer(request, Arc::clone(&world)));
    let served = http1::Builder::new().serve_connection(TokioIo::new(stream), service);
    // An error here means that the client left, or that a fault closed the connection.
    let _ = stop.run_until_cancelled(served).await;
}

/// Answers a request after the delay of its reply. An error closes the connection without an answer.
async fn answer(
    request: Request<Incoming>,
    world: Arc<Mutex<World>>,
) -> Result<Response<Full<Bytes>>, Box<dyn std::error::Error + Send + Sync>> {
    let (head, body) = request.into_parts();
    let body = Limited::new(body, BODY_MAX).collect().await?.to_bytes();
    let request = Request::from_parts(head, body);
    // The delay counts from here: the time that the client takes to send the body is not part of it.
    let arrived = Instant::now();
    let reply = world
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .handle(request, Utc::now());
    if !reply.delay.is_zero() {
        tokio::time::sleep_until(arrived + reply.delay.saturating_sub(TIMER_LATE)).await;
    }
    match reply.fate {
        Fate::Answer => Ok(reply.response.map(Full::new)),
        Fate::DropWithoutAnswer => Err("a fault drops the answer".into()),
        Fate::Hang => match std::future::pending::<Infallible>().await {},
    }
}
