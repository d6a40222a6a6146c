//! The connections of one listener: how many each client may have, and which ones give way to new
//! connections.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use super::Client;

/// Maximum number of connections that are ended at a time to free file descriptors or memory.
const ENDED_PER_RELIEF_MAX: usize = 16;

/// The limits of a listener.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Maximum number of connections, and of requests that are being served.
    pub all: usize,
    /// Maximum number of connections, and of requests that are being served, of a single client.
    pub each: usize,
    /// How long a connection may wait for its client: for a complete head, the next part of a body or the next request,
    /// or until the client takes more of an answer.
    pub wait: Duration,
}

/// The connections of one listener.
#[derive(Debug)]
pub struct ConnectionTable<C> {
    bounds: Bounds,
    members: Mutex<OpenConnections<C>>,
    requests: Arc<Semaphore>,
    /// Notified when a connection has ended, or begins to wait for its client.
    freed: Notify,
}

#[derive(Debug)]
struct OpenConnections<C> {
    next: u64,
    by_number: HashMap<u64, OpenConnection<C>>,
    clients: HashMap<C, ClientCount>,
}

#[derive(Debug)]
struct ClientCount {
    connections: usize,
    requests: Arc<Semaphore>,
}

#[derive(Debug)]
struct OpenConnection<C> {
    client: C,
    /// Number of requests whose answer the server owes.
    answering: usize,
    /// Number of the requests in `answering` for which the client has not sent the next part of the body.
    awaited: usize,
    /// Whether the client takes nothing of an answer.
    is_stalled: bool,
    /// Since when the connection has waited for its client; none while it waits for the server.
    waits_since: Option<Instant>,
    /// Whether the client has ever sent a complete head.
    has_asked: bool,
    end: CancellationToken,
}

impl<C> OpenConnection<C> {
    /// Updates whether the connection waits for its client. Returns whether that wait begins now.
    fn begins_to_wait(&mut self) -> bool {
        let waits = self.answering <= self.awaited || self.is_stalled;
        match (waits, self.waits_since) {
            (true, None) => {
                self.waits_since = Some(Instant::now());
                true
            }
            (false, Some(_)) => {
                self.waits_since = None;
                false
            }
            (true, Some(_)) | (false, None) => false,
        }
    }
}

impl<C: Client> ConnectionTable<C> {
    pub fn new(bounds: Bounds) -> Arc<Self> {
        Arc::new(Self {
            bounds,
            members: Mutex::new(OpenConnections {
                next: 0,
                by_number: HashMap::new(),
                clients: HashMap::new(),
            }),
            requests: Arc::new(Semaphore::new(bounds.all)),
            freed: Notify::new(),
        })
    }

    /// Admits a connection of this client. If the listener is full, or if the client has all connections that it may
    /// have, a connection that waits for its client gives way. If all connections of the listener are being served,
    /// this function waits until one ends or begins to wait for its client. None means that the client has all
    /// connections that it may have, and that all of them are being served.
    pub(super) async fn admit(self: &Arc<Self>, client: C) -> Option<AdmittedConnection<C>> {
        loop {
            let freed = self.freed.notified();
            tokio::pin!(freed);
            // From here on no notification is missed.
            freed.as_mut().enable();
            if let Some(admitted) = self.try_admit(client) {
                return admitted;
            }
            freed.await;
        }
    }

    /// Admits a connection if the limits allow it, or if a waiting connection can give way. None: the listener is full,
    /// and the caller must wait. `Some(None)`: the client has reached its own limit.
    fn try_admit(self: &Arc<Self>, client: C) -> Option<Option<AdmittedConnection<C>>> {
        let mut members = self.lock();
        let own = members.clients.get(&client);
        let own = own.map_or(0, |counted| counted.connections);
        if own >= self.bounds.each && !members.end_longest_waiting(|member| member.client == client)
        {
            return Some(None);
        }
        if members.by_number.len() >= self.bounds.all && !members.end_longest_waiting(|_| true) {
            return None;
        }
        let each = self.bounds.each;
        let counted = members
            .clients
            .entry(client)
            .or_insert_with(|| ClientCount {
                connections: 0,
                requests: Arc::new(Semaphore::new(each)),
            });
        counted.connections += 1;
        let own_requests = counted.requests.clone();
        let end = CancellationToken::new();
        let number = members.next;
        members.next += 1;
        let member = OpenConnection {
            client,
            answering: 0,
            awaited: 0,
            is_stalled: false,
            waits_since: Some(Instant::now()),
            has_asked: false,
            end: end.clone(),
        };
        members.by_number.insert(number, member);
        let slot = Slot {
            table: self.clone(),
            number,
            own_requests,
        };
        Some(Some(AdmittedConnection {
            slot: Arc::new(slot),
            end,
        }))
    }

    /// Ends some waiting connections when no file descriptor is left, and returns their number.
    pub(super) fn relieve(&self) -> usize {
        self.end_some(|_| true)
    }

    /// Ends some connections that wait for the next part of a request's body, and returns their number.
    pub fn relieve_of_bodies(&self) -> usize {
        self.end_some(|member| member.awaited > 0)
    }

    fn end_some(&self, may: impl Fn(&OpenConnection<C>) -> bool) -> usize {
        let mut members = self.lock();
        (0..ENDED_PER_RELIEF_MAX)
            .filter(|_| members.end_longest_waiting(&may))
            .count()
    }

    fn lock(&self) -> MutexGuard<'_, OpenConnections<C>> {
        self.members.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<C: Client> OpenConnections<C> {
    /// Ends one waiting connection that `may` allows. The first choice is one that never sent a request, then one of
    /// the client with the most connections, then the one that has waited longest. Returns whether there was one.
    fn end_longest_waiting(&mut self, may: impl Fn(&OpenConnection<C>) -> bool) -> bool {
        let clients = &self.clients;
        let waiting = self.by_number.iter().filter_map(|(number, member)| {
            let since = member.waits_since.filter(|_| may(member))?;
            let held = clients.get(&member.client).map_or(0, |it| it.connections);
            Some(((member.has_asked, usize::MAX - held, since), *number))
        });
        let Some((_, number)) = waiting.min() else {
            return false;
        };
        if let Some(member) = self.remove(number) {
            member.end.cancel();
        }
        true
    }

    fn remove(&mut self, number: u64) -> Option<OpenConnection<C>> {
        let member = self.by_number.remove(&number)?;
        if let Some(counted) = self.clients.get_mut(&member.client) {
            counted.connections -= 1;
            if counted.connections == 0 {
                self.clients.remove(&member.client);
            }
        }
        Some(member)
    }
}

/// An admitted connection. It counts against the limits until the table ends it, or until this value, all references
/// to its slot and all its requests are dropped.
#[derive(Debug)]
pub struct AdmittedConnection<C: Client> {
    slot: Arc<Slot<C>>,
    end: CancellationToken,
}

#[derive(Debug)]
pub(super) struct Slot<C: Client> {
    table: Arc<ConnectionTable<C>>,
    number: u64,
    own_requests: Arc<Semaphore>,
}

impl<C: Client> AdmittedConnection<C> {
    pub(super) fn slot(&self) -> Arc<Slot<C>> {
        self.slot.clone()
    }

    /// Completes when the connection must end, because it has waited for its client too long, gives way to another
    /// connection, or is ended to free file descriptors or memory.
    pub async fn gives_way(&self) {
        let wait = self.slot.table.bounds.wait;
        loop {
            let since = self.slot.with(|member| member.waits_since).flatten();
            let until = since.unwrap_or_else(Instant::now) + wait;
            if since.is_some() && until <= Instant::now() {
                return;
            }
            tokio::select! {
                () = self.end.cancelled() => return,
                () = sleep_until(until) => {}
            }
        }
    }
}

impl<C: Client> Slot<C> {
    fn with<T>(&self, act: impl FnOnce(&mut OpenConnection<C>) -> T) -> Option<T> {
        self.table.lock().by_number.get_mut(&self.number).map(act)
    }

    fn change(&self, change: impl FnOnce(&mut OpenConnection<C>)) {
        let begins = self.with(|member| {
            change(member);
            member.begins_to_wait()
        });
        if begins == Some(true) {
            self.table.freed.notify_one();
        }
    }

    /// Records that a complete head has come, and waits for the permits of its request. From then until the
    /// result is dropped, the server owes the answer.
    pub(super) async fn begin(self: Arc<Self>) -> Request<C> {
        self.change(|member| {
            member.has_asked = true;
            member.waits_since = member.waits_since.map(|_| Instant::now());
        });
        // The client's own permit comes first, so that one client's requests do not fill the queue for the
        // shared permits. Neither semaphore is ever closed.
        let own = self.own_requests.clone().acquire_owned().await;
        let all = self.table.requests.clone().acquire_owned().await;
        self.change(|member| member.answering += 1);
        Request {
            slot: self,
            _permits: own.ok().zip(all.ok()),
        }
    }

    /// Records whether the connection waits for the client's next part of a body.
    pub(super) fn awaits_body(&self, awaits: bool) {
        self.change(|member| match awaits {
            true => member.awaited += 1,
            false => member.awaited = member.awaited.saturating_sub(1),
        });
    }

    /// Records whether the client takes nothing of an answer.
    pub(super) fn set_stalled(&self, is_stalled: bool) {
        self.change(|member| member.is_stalled = is_stalled);
    }
}

impl<C: Client> Drop for Slot<C> {
    fn drop(&mut self) {
        self.table.lock().remove(self.number);
        self.table.freed.notify_one();
    }
}

/// A request that is being served.
#[derive(Debug)]
pub(super) struct Request<C: Client> {
    slot: Arc<Slot<C>>,
    _permits: Option<(OwnedSemaphorePermit, OwnedSemaphorePermit)>,
}

impl<C: Client> Drop for Request<C> {
    fn drop(&mut self) {
        self.slot
            .change(|member| member.answering = member.answering.saturating_sub(1));
    }
}
