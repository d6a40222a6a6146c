//! Notices between the engines of a ledger (`NOTIFY`), and how they wake the engine that listens.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{Instant, timeout_at};

/// An engine that hears that others have committed something waits this long for more such news before it looks.
const GATHER: Duration = Duration::from_millis(50);

/// Says that an engine has committed a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Notice {
    /// The epoch of the engine that committed.
    pub(super) epoch: i64,
    /// Whether somebody waits until the others have seen it.
    pub(super) is_urgent: bool,
}

const URGENT: &str = " now";

impl Notice {
    pub(super) fn text(self) -> String {
        let urgent = if self.is_urgent { URGENT } else { "" };
        format!("{}{urgent}", self.epoch)
    }

    /// A text in another form, as another version may write, counts as urgent.
    fn parse(text: &str) -> Self {
        let epoch = text.strip_suffix(URGENT).unwrap_or(text).parse();
        Self {
            is_urgent: text.ends_with(URGENT) || epoch.is_err(),
            epoch: epoch.unwrap_or_default(),
        }
    }
}

/// Who is woken by the notices of other engines.
pub(super) struct Listener {
    /// Wakes at once.
    pub(super) waker: Arc<Notify>,
    news: Arc<Notify>,
    /// Its own notices wake nobody.
    epoch: i64,
}

impl Listener {
    pub(super) fn new(waker: Arc<Notify>, epoch: i64) -> Self {
        Self {
            waker,
            news: Arc::default(),
            epoch,
        }
    }

    pub(super) fn hear(&self, text: &str) {
        match Notice::parse(text) {
            Notice { epoch, .. } if epoch == self.epoch => {}
            Notice {
                is_urgent: true, ..
            } => self.waker.notify_one(),
            _ => self.news.notify_one(),
        }
    }

    /// Waits until it is woken, or there is news that was gathered for a while, or this time has passed.
    pub(super) fn wait(&self, at_most: Duration) -> impl Future<Output = ()> + use<> {
        let (waker, news) = (self.waker.clone(), self.news.clone());
        async move {
            let end = Instant::now() + at_most;
            let gathered = async {
                news.notified().await;
                tokio::time::sleep(GATHER).await;
            };
            // Whether anything came is of no interest: the caller looks.
            let _ = timeout_at(end, async {
                tokio::select! {
                    // First, so that news which is there already is not looked for once more.
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
    fn a_notice_is_read_as_it_was_told_and_an_unknown_one_is_urgent() {
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
    async fn news_is_gathered_and_what_somebody_waits_for_is_not() {
        let listener = Listener::new(Arc::default(), 17);
        let waited = async |heard: &[&str]| {
            let began = Instant::now();
            for text in heard {
                listener.hear(text);
            }
            listener.wait(Duration::from_secs(1)).await;
            began.elapsed()
        };
        assert_eq!(waited(&["18", "18", "19"]).await, GATHER);
        assert_eq!(waited(&["18", "19 now"]).await, Duration::ZERO);
        assert_eq!(waited(&["17", "17 now"]).await, Duration::from_secs(1));
    }
}
