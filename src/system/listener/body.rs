//! Bodies of requests, which report whether they wait for the client, and bodies of answers, which are sent in
//! pieces.

use std::fmt;
use std::pin::{Pin, pin};
use std::task::{Context, Poll};

use bytes::Bytes;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use tokio::task::yield_now;

/// Called with true when the connection begins to wait for the client's next part of a body, and with false when that
/// wait ends.
pub(super) type OnWait = Box<dyn Fn(bool) + Send + Sync>;

/// An incoming body, from a client or an upstream.
pub struct Arriving {
    body: Incoming,
    on_wait: Option<OnWait>,
    /// Whether a part was requested and nothing of it has come yet.
    awaits: bool,
}

impl Arriving {
    pub(super) fn of_client(body: Incoming, on_wait: OnWait) -> Self {
        Self {
            body,
            on_wait: Some(on_wait),
            awaits: false,
        }
    }

    fn report(&mut self, awaits: bool) {
        if awaits != self.awaits {
            self.awaits = awaits;
            if let Some(on_wait) = &self.on_wait {
                on_wait(awaits);
            }
        }
    }
}

/// An upstream's answer, whose sender is not a client of the listener.
impl From<Incoming> for Arriving {
    fn from(body: Incoming) -> Self {
        Self {
            body,
            on_wait: None,
            awaits: false,
        }
    }
}

impl fmt::Debug for Arriving {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Arriving").field(&self.body).finish()
    }
}

impl Body for Arriving {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let polled = Pin::new(&mut self.body).poll_frame(context);
        self.report(polled.is_pending());
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Drop for Arriving {
    fn drop(&mut self) {
        self.report(false);
    }
}

/// Maximum number of bytes that are sent before other connections of the thread run.
const PIECE_BYTES: usize = 16 << 10;

/// An answer's body, sent in pieces. It keeps values, such as permits, until the body was sent or dropped.
#[derive(Debug)]
pub struct Answering<B, H> {
    body: B,
    /// The bytes of the body's current frame that are not sent yet.
    rest: Bytes,
    /// Whether other connections have had a chance to run since the last piece.
    has_yielded: bool,
    _held: H,
}

impl<B, H> Answering<B, H> {
    pub(super) fn new(body: B, held: H) -> Self {
        Self {
            body,
            rest: Bytes::new(),
            has_yielded: false,
            _held: held,
        }
    }
}

impl<B: Body<Data = Bytes> + Unpin, H: Unpin> Body for Answering<B, H> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        if self.rest.is_empty() {
            let frame = match Pin::new(&mut self.body).poll_frame(context) {
                Poll::Ready(Some(Ok(frame))) => frame,
                other => return other,
            };
            match frame.into_data() {
                Ok(data) => self.rest = data,
                Err(trailers) => return Poll::Ready(Some(Ok(trailers))),
            }
        } else if !self.has_yielded {
            self.has_yielded = true;
            // `yield_now` wakes the task only after the thread has polled for input of other connections. A task
            // that wakes itself would run dozens of times before that.
            let _ = pin!(yield_now()).poll(context);
            return Poll::Pending;
        }
        self.has_yielded = false;
        let bytes = self.rest.len().min(PIECE_BYTES);
        Poll::Ready(Some(Ok(Frame::data(self.rest.split_to(bytes)))))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let (of_body, rest) = (self.body.size_hint(), self.rest.len() as u64);
        let mut hint = SizeHint::new();
        if let Some(upper) = of_body.upper() {
            hint.set_upper(upper + rest);
        }
        hint.set_lower(of_body.lower() + rest);
        hint
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::io::Write as _;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use http_body_util::{BodyExt as _, Full};
    use tokio::io::AsyncReadExt as _;
    use tokio::net::UnixStream;

    use super::*;

    #[tokio::test]
    async fn p12_another_connection_is_served_between_two_pieces_of_a_large_response() {
        let (mut other, client) = UnixStream::pair().unwrap();
        let pieces = Arc::new(AtomicUsize::new(0));
        let counted = pieces.clone();
        let served = tokio::spawn(async move {
            other.read_u8().await.unwrap();
            counted.load(Ordering::Relaxed)
        });
        // The other connection waits for its input now.
        yield_now().await;
        client.into_std().unwrap().write_all(b"x").unwrap();
        let mut body = Answering::new(Full::new(Bytes::from(vec![0; 50 * PIECE_BYTES])), ());
        tokio::spawn(async move {
            while body.frame().await.is_some() {
                pieces.fetch_add(1, Ordering::Relaxed);
            }
        });
        let before = served.await.unwrap();
        assert!(
            before <= 2,
            "the other connection was served after {before} pieces"
        );
    }
}
