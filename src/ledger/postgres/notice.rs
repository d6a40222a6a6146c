//! Notices between the engines of a ledger (`NOTIFY`), and how they wake the engine that listens.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{Instant, timeout_at};

/// After a notice that is not urgent, an engine waits this long for more notices before it reads the ledger.
const GATHER: Duration = Duration::from_millis(50);

/// The notice by which an engine wakes the other engines: it has committed a transaction, joined, left, or applied
/// changes of tombstones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Notice {
    /// The epoch of the engine that sends the notice.
    pub(super) epoch: i64,
    /// Whether the other engines must read the ledger at once: a request may wait until they have.
    pub(super) is_urgent: bool,
}

const URGENT: &str = " now";

impl Notice {
    pub(super) fn text(self) -> String {
        let urgent = if self.is_urgent { URGENT } else { "" };
        format!("{}{urgent}", self.epoch)
    }

    /// Parses the text of a notice. A text in another form, as another version may write, counts as urgent.
    fn parse(text: &str) -> Self {
        let epoch = text.strip_suffix(URGENT).unwrap_or(text).parse();
        Self {
            is_urgent: text.ends_with(URGENT) || epoch.is_err(),
            epoch: epoch.unwrap_or_default(),
        }
    }
}

/// Wakes this engine when notices of other engines arrive.
pub(super) struct Listener {
    /// Notified of urgent notices: wakes at once.
    pub(super) waker: Arc<Notify>,
    /// Notified of other notices: wakes after [`GATHER`].
    unhurried: Arc<Notify>,
    /// The epoch of this engine, whose own notices wake nobody.
    epoch: i64,
}

impl Listener {
    pub(super) fn new(waker: Arc<Notify>, epoch: i64) -> Self {
        Self {
            waker,
            unhurried: Arc::default(),
            epoch,
        }
    }

    pub(super) fn receive(&self, text: &str) {
        match Notice::parse(text) {
            Notice { epoch, .. } if epoch == self.epoch => {}
            Notice {
                is_urgent: true, ..
            } => self.waker.notify_one(),
            _ => self.unhurried.notify_one(),
        }
    }

    /// Waits until `waker` is notified, until [`GATHER`] after another notice, or until this time has passed.
    pub(super) fn wait(&self, at_most: Duration) -> impl Future<Output = ()> + use<> {
        let (waker, unhurried) = (self.waker.clone(), self.unhurried.clone());
        async move {
            let end = Instant::now() + at_most;
            let gathered = async {
                unhurried.notified().await;
                tokio::time::sleep(GATHER).await;
            };
            // The caller reads the ledger in any case, so the reason why the wait ended does not matter.
            let _ = timeout_at(end, async {
                tokio::select! {
                    // Polled first, so that a notice that has arrived already is consumed, even if `waker` ends the
                    // wait.
                    biased;
                    () = gathered => {}
                    () = waker.notified() => {}
                }
            })
            .await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_notice_parses_back_and_an_unknown_text_is_urgent() {
        for is_urgent in [false, true] {
            let notice = Notice {
                epoch: 17,
                is_urgent,
            };
            assert_eq!(Notice::parse(&notice.text()), notice);
        }
        assert!(Notice::parse("soon 17").is_urgent);
    }

    #[tokio::test(start_paused = true)]
    async fn notices_are_gathered_unless_they_are_urgent() {
        let listener = Listener::new(Arc::default(), 17);
        let waited = async |notices: &[&str]| {
            let began = Instant::now();
            for text in notices {
                listener.receive(text);
            }
            listener.wait(Duration::from_secs(1)).await;
            began.elapsed()
        };
        assert_eq!(waited(&["18", "18", "19"]).await, GATHER);
        assert_eq!(waited(&["18", "19 now"]).await, Duration::ZERO);
        assert_eq!(waited(&["17", "17 now"]).await, Duration::from_secs(1));
    }
}
