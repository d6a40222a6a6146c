//! A [`Control`] that refuses the commands that a read-only engine refuses
//! ([`Command::changes_clouds`](super::Command::changes_clouds)), although its engine would carry them out. A person
//! whose own settings are read-only may attach to a running engine whose settings are not.

use std::sync::Arc;

use async_trait::async_trait;
use tokio::sync::watch;
use tokio_util::task::AbortOnDropHandle;

use super::{Control, ControlError, Envelope, Page, Query, Receipt, Snapshot};
use crate::domain::model::Event;

/// Passes queries to the engine, and the commands for which [`Command::changes_clouds`](super::Command::changes_clouds)
/// is false, such as cancellations, pauses and pruning. Its snapshots say that everything is read-only.
pub struct ReadOnlyControl {
    engine: Arc<dyn Control>,
    snapshots: watch::Receiver<Arc<Snapshot>>,
    _follower: AbortOnDropHandle<()>,
}

impl ReadOnlyControl {
    /// Makes a read-only control of an engine. Must be called on tokio's runtime, because a task follows the engine's
    /// snapshots.
    pub fn over(engine: Arc<dyn Control>) -> Arc<dyn Control> {
        let mut published = engine.snapshot();
        let (sender, snapshots) = watch::channel(read_only_copy(&published.borrow_and_update()));
        let follower = tokio::spawn(async move {
            while published.changed().await.is_ok() {
                let snapshot = read_only_copy(&published.borrow_and_update());
                sender.send_replace(snapshot);
            }
        });
        Arc::new(Self {
            engine,
            snapshots,
            _follower: AbortOnDropHandle::new(follower),
        })
    }
}

/// Returns a copy of the snapshot which says that the engine and its sites are read-only.
fn read_only_copy(snapshot: &Snapshot) -> Arc<Snapshot> {
    let mut snapshot = snapshot.clone();
    snapshot.engine.read_only = true;
    for site in &mut snapshot.sites {
        site.read_only = true;
    }
    Arc::new(snapshot)
}

#[async_trait]
impl Control for ReadOnlyControl {
    async fn submit(&self, envelope: Envelope) -> Result<Receipt, ControlError> {
        if !envelope.command.changes_clouds() {
            return self.engine.submit(envelope).await;
        }
        let message = "nothing was sent: this program is read-only ([guard] read_only in your settings, or \
                       --read-only), and this command may change a cloud, or what gone keeps deleted";
        Err(ControlError::Refused {
            message: message.to_owned(),
            refused: Vec::new(),
        })
    }

    async fn query(&self, query: Query) -> Result<Page, ControlError> {
        let mut page = self.engine.query(query).await?;
        if let Page::Sites(sites) = &mut page {
            for site in sites {
                site.read_only = true;
            }
        }
        Ok(page)
    }

    async fn events(&self, after: i64, wait_ms: u64) -> Result<Vec<Event>, ControlError> {
        self.engine.events(after, wait_ms).await
    }

    fn snapshot(&self) -> watch::Receiver<Arc<Snapshot>> {
        self.snapshots.clone()
    }
}
