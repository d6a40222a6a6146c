//! A reverse proxy in front of one service of one site. It keeps resources deleted for every client that goes
//! through it (T, N9, P7).
//!
//! ```text
//!            ┌─ route     path → resource, by the kinds
//!  request ──┤  rules     phase × asker × operation → ruling: the table
//!            ├─ read      GET: passed, hidden, or shown as deleting
//!            │  list      lists, each page filled up where rows are hidden
//!            ├─ write     creates and updates: refused if they refer to a resource being deleted
//!            │  parts     resources that are deleted along with their parent
//!            │  key_locks creates under one natural key, one at a time
//!            ├─ delete    passed, answered, or turned into a cascade of the engine
//!            └─ pass      everything else, and all calls to the upstream, unchanged
//! ```
//!
//! The tombstones are in memory, so a request that none of them concerns costs one look-up. Connections are
//! served on the gates' own threads. The gate itself changes nothing except through the engine.
//!
//! **Architecture invariant:** the engine's own calls never go through a gate, and no header grants power:
//! the listener, Keystone and the caller's view of the upstream determine who asks.

pub mod body;
mod budget;
mod delete;
mod deletions;
mod key_locks;
mod list;
mod page;
mod parts;
mod pass;
mod read;
mod refusal;
mod rights;
pub mod route;
mod rows;
pub mod rules;
mod threads;
mod write;

use std::convert::Infallible;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderValue, Method, Request, StatusCode, Uri, header, request};
use http_body_util::{Either, Full};
use hyper::service::service_fn;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::OnceCell;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::cloud::openstack::{
    ConfigError, RestCalls, Session, StreamingClient, root_of, service_type, streaming_client,
};
use crate::control::traffic::{Counter, Counters};
use crate::control::{Control, GateStatus, GateTraffic};
use crate::domain::kinds::{Kind, Kinds};
use crate::domain::mapping::Mapping;
use crate::domain::model::{KindName, Phase, Site};
use crate::ledger::tombstones::Tombstones;
use crate::system::clock::Clock;
use crate::system::config::{GateSettings, GateSource};
use crate::system::listener::{
    self, AdmittedConnection, Arriving, Bounds, ConnectionTable, Http, ListenHandle, accept_each,
};
pub use budget::Budget;
pub use key_locks::KeyLocks;
use refusal::{Refusal, Result};
use rights::TokenCache;
use route::{Named, PathTarget, Routes};
use rules::{Operation, RequestSource, Ruling, ruling};
pub use threads::Threads;

/// A body that is passed on: the upstream's or the client's, or one of ours.
type Out = Either<Arriving, Full<Bytes>>;
/// An answer to a client.
type Response = http::Response<Out>;
/// A request without its body.
type Head = request::Parts;

/// The parts from which [`serve`] builds a gate.
pub struct GateParts {
    pub settings: GateSettings,
    pub kinds: Arc<Kinds>,
    /// The sites that copy resources from other sites.
    pub mapping: Vec<Mapping>,
    pub tombstones: Arc<Tombstones>,
    pub key_locks: Arc<KeyLocks>,
    pub budget: Arc<Budget>,
    pub counters: Arc<Counters>,
    pub control: Arc<dyn Control>,
    /// A session with the engine's own credentials, for reading Keystone and the catalog.
    pub session: Arc<Session>,
    pub clock: Clock,
    /// Time limit of a write that a write guard waits for, and of the gate's own reads of rows.
    pub call_timeout: Duration,
}

/// The reason why a gate cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    #[error("cannot listen on {address}: {source}")]
    Listen {
        address: SocketAddr,
        source: io::Error,
    },
    #[error(transparent)]
    Cloud(#[from] ConfigError),
}

/// A gate as one thread serves it: all threads share everything but the connections to the upstream.
#[derive(Clone)]
struct Gate {
    parts: Arc<GateParts>,
    site: Site,
    service: String,
    address: SocketAddr,
    table: Arc<ConnectionTable<IpAddr>>,
    counter: Arc<Counter>,
    client: StreamingClient<Out>,
    tokens: Arc<TokenCache>,
    upstream: Arc<OnceCell<Upstream>>,
}

/// A request without its body, and its source.
struct Call {
    head: Head,
    asker: RequestSource,
}

/// The address and the routes of the service.
struct Upstream {
    base: Uri,
    routes: Routes,
}

/// Binds the gate's address, and serves the gate on these threads until [`ListenHandle::stop`].
///
/// # Errors
/// The gate cannot listen on its address, or the cloud's certificates cannot be used.
pub async fn serve(parts: GateParts, threads: Arc<Threads>) -> Result<ListenHandle, ServeError> {
    let address = parts.settings.listen;
    let failed = |source| ServeError::Listen { address, source };
    let listener = TcpListener::bind(address).await.map_err(failed)?;
    let address = listener.local_addr().map_err(failed)?;
    let site = parts.settings.upstream.site();
    // A catalog may call Cinder `volumev3`.
    let service = service_type(&parts.settings.upstream.service);
    let counter = parts.counters.open(GateStatus {
        listen: address.to_string(),
        source: parts.settings.source.as_str().to_owned(),
        site: site.clone(),
        service: service.clone(),
        traffic: GateTraffic::default(),
    });
    let limits = &parts.settings.limits;
    let table = ConnectionTable::new(Bounds {
        all: limits.connections,
        each: limits.connections.div_ceil(2),
        wait: limits.head_timeout,
    });
    let gate = Gate {
        client: streaming_client(parts.session.cloud())?,
        parts: Arc::new(parts),
        site,
        service,
        address,
        table,
        counter,
        tokens: Arc::default(),
        upstream: Arc::default(),
    };
    let mut gates = Vec::new();
    for _ in 1..threads.count() {
        let client = streaming_client(gate.parts.session.cloud())?;
        let other = Gate {
            client,
            ..gate.clone()
        };
        gates.push(Arc::new(other));
    }
    tracing::info!(%address, upstream = %gate.site, service = gate.service, "a gate is open");
    gates.push(Arc::new(gate));
    if let Some(warning) = open_to_others(address) {
        tracing::warn!("{warning}");
    }
    let stop = CancellationToken::new();
    let serving = run(gates, threads, listener, stop.clone());
    Ok(ListenHandle::start(address, stop, serving))
}

/// The warning for a gate whose address other machines can reach (P12).
pub fn open_to_others(listen: SocketAddr) -> Option<String> {
    (!listen.ip().is_loopback()).then(|| {
        format!(
            "the gate at {listen} takes tokens in plain HTTP from other machines: put a proxy with TLS in front of \
             it, and let it listen on loopback"
        )
    })
}

/// Accepts connections and assigns each to one of the threads.
async fn run(
    gates: Vec<Arc<Gate>>,
    threads: Arc<Threads>,
    listener: TcpListener,
    stop: CancellationToken,
) {
    let table = gates[0].table.clone();
    let serve = |connections: &TaskTracker, (stream, peer), _, admitted| {
        let (thread, handle) = threads.next();
        let gate = gates[thread].clone();
        let connection = gate.connection(stream, peer, admitted, stop.clone());
        connections.spawn_on(connection, handle);
    };
    accept_each(listener, table, stop.clone(), serve).await;
}

impl Gate {
    async fn connection(
        self: Arc<Self>,
        stream: TcpStream,
        peer: SocketAddr,
        admitted: AdmittedConnection<IpAddr>,
        stop: CancellationToken,
    ) {
        // Registers the stream with the reactor of this thread.
        let stream = match stream.into_std().and_then(TcpStream::from_std) {
            Ok(stream) => stream,
            Err(error) => {
                tracing::warn!(%peer, %error, "a client's connection is closed: its thread could not register it");
                return;
            }
        };
        let http = Http {
            head_bytes: self.parts.settings.limits.head_bytes,
            http2: true,
        };
        let service = service_fn(move |request| {
            let gate = self.clone();
            async move { Ok::<_, Infallible>(gate.answer(request, peer).await) }
        });
        if let Err(error) = listener::serve(stream, &admitted, http, service, &stop).await {
            tracing::debug!(%peer, %error, "a connection ended");
        }
    }

    async fn answer(self: &Arc<Self>, request: Request<Arriving>, peer: SocketAddr) -> Response {
        let (mut head, body) = request.into_parts();
        head.extensions.insert(peer);
        let accept = text_of(&head, header::ACCEPT.as_str()).to_owned();
        self.counter.request();
        match self.decide(head, body, peer).await {
            Ok(response) => response,
            Err(refusal) => {
                self.counter.count_treatment(refusal.treatment());
                refusal.into_response(&self.service, &accept)
            }
        }
    }

    async fn decide(self: &Arc<Self>, head: Head, body: Arriving, peer: SocketAddr) -> Result {
        let path = head.uri.path();
        if let Some(id) = path.strip_prefix(deletions::DELETIONS) {
            return match head.method {
                Method::GET | Method::HEAD => self.deletion(&head, id).await,
                _ => Err(Refusal::method_not_allowed(&head.method, "GET, HEAD")),
            };
        }
        let routes = &self.upstream().await?.routes;
        if routes.is_unguarded {
            return self.pass(head, Either::Left(body)).await;
        }
        if !routes.takes(&head.method) {
            return Err(Refusal::method_not_allowed(&head.method, routes.allow()));
        }
        let target = routes.target_of(path).map_err(|route::Ambiguous| {
            Refusal::bad_request(
                "this path may be read in more than one way: write an id in its own spelling (lower case, no suffix \
                 such as .json, no percent-encoding)",
            )
        })?;
        let needs_tombstones = target != PathTarget::Elsewhere;
        if needs_tombstones {
            self.knows_tombstones()?;
        }
        let asker = self.asker(&head, peer);
        let call = Call { head, asker };
        match call.head.method {
            Method::GET | Method::HEAD => {
                let answer = self.read(call, Either::Left(body), target).await;
                // The service may have answered late, and the ledger may have been lost meanwhile.
                if needs_tombstones {
                    self.knows_tombstones()?;
                }
                answer
            }
            Method::DELETE => self.delete(call, body, target).await,
            // Any other method may change something.
            _ => self.write(call, body, target).await,
        }
    }

    /// Refuses to answer from tombstones that may differ from the ledger's.
    fn knows_tombstones(&self) -> Result<()> {
        if !self.parts.tombstones.is_lost() {
            return Ok(());
        }
        let message = "the gate does not know which resources are being deleted, because its ledger does not answer; \
                       send the request again later";
        Err(Refusal::unavailable(message))
    }

    /// Returns the source of a request: that of the listener, which a trusted header can only narrow from user to local
    /// (T4, T18).
    fn asker(&self, head: &Head, peer: SocketAddr) -> RequestSource {
        let narrowed = self.parts.settings.trust.as_ref().is_some_and(|trust| {
            trust.from.iter().any(|net| net.contains(&peer.ip()))
                && text_of(head, &trust.header).eq_ignore_ascii_case("local")
        });
        match self.parts.settings.source {
            GateSource::User if !narrowed => RequestSource::User,
            GateSource::User | GateSource::Local => RequestSource::Local,
            GateSource::Central => RequestSource::Central,
        }
    }

    /// Returns a kind. A request names only kinds that exist, since the routes are made of them.
    fn kind(&self, name: &KindName) -> Result<&Kind> {
        let kind = self.parts.kinds.get(name);
        kind.ok_or_else(|| Refusal::of(StatusCode::NOT_FOUND, "not found"))
    }

    fn calls_of(&self, kind: &KindName) -> Option<&RestCalls> {
        self.parts.kinds.get(kind)?.calls_of()
    }

    /// Returns the phase of a resource's tombstone. Under a natural key, a resource that exists after the
    /// deletion is another incarnation, without a tombstone (I10).
    fn phase(&self, kind: &KindName, id: &str) -> Option<Phase> {
        let phase = self.parts.tombstones.phase(&self.site, kind, id)?;
        let has_ended = matches!(phase, Phase::Gone | Phase::Purged);
        let natural = || {
            self.parts
                .kinds
                .get(kind)
                .is_some_and(Kind::has_natural_key)
        };
        (!has_ended || !natural()).then_some(phase)
    }

    fn ruling(&self, named: &Named, asker: RequestSource, operation: Operation) -> Ruling {
        ruling(self.phase(&named.kind, &named.id), asker, operation)
    }

    /// Returns the ruling on an operation, taking a valid service token into account where that changes it.
    async fn ruled(&self, call: &Call, named: &Named, operation: Operation) -> Result<Ruling> {
        let ruling = self.ruling(named, call.asker, operation);
        let may_be_service = ruling != Ruling::Pass && call.asker == RequestSource::User;
        if !may_be_service || !self.is_service(&call.head).await? {
            return Ok(ruling);
        }
        Ok(self.ruling(named, RequestSource::Service, operation))
    }

    /// Returns the upstream. The first request reads its address in the catalog, or the next one if that fails.
    async fn upstream(&self) -> Result<&Upstream> {
        let found = self.upstream.get_or_try_init(|| async {
            let url = self.parts.session.endpoint(&self.service, None, None).await;
            let url = url.map_err(|error| {
                tracing::warn!(gate = %self.address, %error, "the address of the upstream is not known");
                Refusal::unavailable(format!(
                    "the address of {} is not known yet: Keystone does not answer, or its catalog does not name the \
                     service; send the request again later",
                    self.name()
                ))
            })?;
            let authority = url.authority().rsplit('@').next().unwrap_or_default();
            let base = Uri::builder().scheme(url.scheme()).authority(authority);
            let Ok(base) = base.path_and_query("/").build() else {
                return Err(Refusal::unavailable(format!(
                    "the catalog of Keystone names {url} as the address of {}, but that URL is not usable",
                    self.name()
                )));
            };
            Ok(Upstream {
                base,
                routes: Routes::new(&self.parts.kinds, &self.service, root_of(url.path())),
            })
        });
        found.await
    }
}

fn text_of<'h>(head: &'h Head, name: &str) -> &'h str {
    let value = head.headers.get(name).map(HeaderValue::to_str);
    value.and_then(Result::ok).unwrap_or_default()
}
