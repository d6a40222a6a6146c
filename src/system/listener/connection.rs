//! One connection, from its first byte to its last.

use std::error::Error;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use hyper::body::{Body, Incoming};
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_util::sync::CancellationToken;

use super::Client;
use super::body::{Answering, Arriving};
use super::table::{AdmittedConnection, Slot};

/// How often a silent HTTP/2 client is pinged, and how long it has to answer.
const PING_EVERY: Duration = Duration::from_secs(20);
const PING_TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum number of requests at a time on one HTTP/2 connection.
const STREAMS_MAX: u32 = 64;

/// The protocol of a listener.
#[derive(Clone, Copy, Debug)]
pub struct Http {
    /// Maximum size of a request's line and headers, in bytes.
    pub head_bytes: usize,
    /// Whether the listener speaks HTTP/2 in addition to HTTP/1.
    pub http2: bool,
}

/// Serves a connection until the client or the table ends it ([`AdmittedConnection::gives_way`]), or until `stop`. At
/// `stop`, answers in progress are finished first.
///
/// # Errors
/// The connection broke, or the client broke the protocol.
pub async fn serve<S, C, H, B>(
    stream: S,
    admitted: &AdmittedConnection<C>,
    http: Http,
    service: H,
    stop: &CancellationToken,
) -> Result<(), Box<dyn Error + Send + Sync>>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    C: Client,
    H: Service<Request<Arriving>, Response = Response<B>> + Send + Sync + 'static,
    H::Future: Send,
    H::Error: Into<Box<dyn Error + Send + Sync>> + Send,
    B: Body<Data = Bytes> + Unpin + Send + 'static,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    let slot = admitted.slot();
    let service = Arc::new(service);
    let watched = Watched {
        stream,
        slot: slot.clone(),
        is_stalled: false,
    };
    let service = service_fn(move |request: Request<Incoming>| {
        let (service, slot) = (service.clone(), slot.clone());
        async move {
            let held = slot.clone().begin().await;
            let on_wait = Box::new(move |awaits| slot.awaits_body(awaits));
            let request = request.map(|body| Arriving::of_client(body, on_wait));
            let mut response = service.call(request).await?;
            // The extensions (a share of the memory) are kept until the client has taken the body.
            let kept = std::mem::take(response.extensions_mut());
            Ok::<_, H::Error>(response.map(|body| Answering::new(body, (held, kept))))
        }
    });
    let mut server = auto::Builder::new(TokioExecutor::new());
    // The table limits how long a connection waits for a head, so hyper does not.
    server
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(None)
        .max_buf_size(http.head_bytes);
    server
        .http2()
        .timer(TokioTimer::new())
        .keep_alive_interval(PING_EVERY)
        .keep_alive_timeout(PING_TIMEOUT)
        .max_concurrent_streams(STREAMS_MAX)
        .max_header_list_size(u32::try_from(http.head_bytes).unwrap_or(u32::MAX));
    let server = match http.http2 {
        true => server,
        false => server.http1_only(),
    };
    let connection = server.serve_connection(TokioIo::new(watched), service);
    tokio::pin!(connection);
    tokio::select! {
        ended = connection.as_mut() => ended,
        () = admitted.gives_way() => Ok(()),
        () = stop.cancelled() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    }
}

/// A stream that reports when its client takes nothing of an answer.
struct Watched<S, C: Client> {
    stream: S,
    slot: Arc<Slot<C>>,
    is_stalled: bool,
}

impl<S, C: Client> Watched<S, C> {
    fn record_stall<T>(&mut self, polled: Poll<T>) -> Poll<T> {
        if polled.is_pending() != self.is_stalled {
            self.is_stalled = polled.is_pending();
            self.slot.set_stalled(self.is_stalled);
        }
        polled
    }
}

impl<S: AsyncRead + Unpin, C: Client> AsyncRead for Watched<S, C> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin, C: Client> AsyncWrite for Watched<S, C> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.record_stall(polled)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffers: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write_vectored(context, buffers);
        self.record_stall(polled)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
