//! Bodies that know whose turn it is.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use hyper::body::{Body, Frame, Incoming, SizeHint};

/// What is told whether the next part of a body is awaited of its client.
pub(super) type Turn = Box<dyn Fn(bool) + Send + Sync>;

/// A body that comes in: a client's, or an upstream's.
pub struct Arriving {
    body: Incoming,
    turn: Option<Turn>,
    /// Nothing has come yet of what was asked for.
    awaits: bool,
}

impl Arriving {
    pub(super) fn of_client(body: Incoming, turn: Turn) -> Self {
        Self {
            body,
            turn: Some(turn),
            awaits: false,
        }
    }

    fn tell(&mut self, awaits: bool) {
        if awaits != self.awaits {
            self.awaits = awaits;
            if let Some(turn) = &self.turn {
                turn(awaits);
            }
        }
    }
}

/// What no client sends: an upstream's answer.
impl From<Incoming> for Arriving {
    fn from(body: Incoming) -> Self {
        Self {
            body,
            turn: None,
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
        self.tell(polled.is_pending());
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
        self.tell(false);
    }
}

/// An answer's body; what it holds is given back when it was sent, or dropped.
#[derive(Debug)]
pub struct Answering<B, H> {
    pub(super) body: B,
    pub(super) _held: H,
}

impl<B: Body + Unpin, H: Unpin> Body for Answering<B, H> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
