//! The thread that renews an engine's lease, and reads the rows of the other engines.
//!
//! The server wakes the thread (`NOTIFY`) when another engine has committed a transaction. While there are other
//! engines, the thread also reads each second, so that a lost notice costs a second at most.

use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use super::address::Address;
use super::client::Connection;
use super::engines;
use super::failed::{Failed, Sql};
use super::schema;
use crate::ledger::engines::{BEAT_WAIT_MIN, Heartbeat, Member, READ_EVERY};
use crate::ledger::threads::Writer;

/// Time between two attempts to connect.
const CONNECT_EVERY: Duration = Duration::from_secs(1);

/// A handle of the thread, which ends when the handle is dropped.
pub(super) struct LeaseThread {
    member: Arc<Member>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl LeaseThread {
    /// Starts the thread. `writer`: begins each transaction by applying the tombstones of other engines.
    pub(super) fn start(
        address: &Address,
        member: &Arc<Member>,
        writer: Arc<Writer>,
    ) -> std::io::Result<Self> {
        let beating = LeaseLoop {
            address: address.clone(),
            member: member.clone(),
            writer,
            heartbeat: Heartbeat::new(member.clone()),
            db: None,
        };
        let thread = std::thread::Builder::new()
            .name("lease".to_owned())
            .spawn(move || beating.run())?;
        Ok(Self {
            member: member.clone(),
            thread: Mutex::new(Some(thread)),
        })
    }

    /// Ends the lease, and the thread. Blocks for as long as the server does.
    pub(super) fn stop(&self) {
        self.member.close();
        let thread = self.thread.lock();
        if let Some(thread) = thread.unwrap_or_else(PoisonError::into_inner).take() {
            // A thread that panicked has ended, too.
            let _ = thread.join();
        }
    }
}

impl Drop for LeaseThread {
    fn drop(&mut self) {
        self.member.close();
    }
}

struct LeaseLoop {
    address: Address,
    member: Arc<Member>,
    writer: Arc<Writer>,
    heartbeat: Heartbeat,
    db: Option<Connection>,
}

impl LeaseLoop {
    fn run(mut self) {
        while !self.member.is_closing() {
            let wait = match self.beat() {
                Ok(wait) => wait,
                Err(error) => {
                    self.fail(&error);
                    CONNECT_EVERY
                }
            };
            match &self.db {
                Some(db) => db.wait_for_notice(wait),
                None => std::thread::sleep(wait),
            }
            std::thread::sleep(BEAT_WAIT_MIN);
        }
        if let Some(db) = &self.db {
            // If this fails, the lease ends by itself.
            let _ = engines::leave(db, &self.address, self.member.epoch());
        }
    }

    fn fail(&mut self, error: &Failed) {
        if self.member.membership().fault.is_none() {
            tracing::warn!(ledger = %self.address, %error, "the lease cannot be renewed");
        }
        self.db = None;
        self.member
            .fail(&format!("the ledger does not answer: {error}"));
    }

    /// Renews the lease if that is due, and reads the rows of the engines. Returns how long to wait before the next
    /// call.
    fn beat(&mut self) -> Sql<Duration> {
        let Some(beat) = self.heartbeat.begin() else {
            // The writer begins a new epoch before it does anything else.
            self.writer.nudge();
            return Ok(READ_EVERY);
        };
        let db = match self.db.take() {
            Some(db) => db,
            None => self.connect()?,
        };
        let roster = match beat.renews {
            true => engines::renew(&db, &beat)?,
            false => Some(engines::read(&db)?),
        };
        let next = self.heartbeat.conclude(&beat, roster);
        if next.wakes_others {
            engines::notify(&db, &self.address, beat.epoch)?;
        }
        self.db = Some(db);
        if next.is_behind {
            self.writer.nudge();
        }
        Ok(next.wait)
    }

    fn connect(&self) -> Sql<Connection> {
        let failed = |error: crate::ledger::LedgerError| Failed::Impossible(error.to_string());
        let db = schema::connect(&self.address).map_err(failed)?;
        schema::check(&db, &self.address).map_err(failed)?;
        let channel = engines::channel(&self.address);
        db.listen(&channel, self.member.epoch(), self.member.waker())?;
        Ok(db)
    }
}
