//! The thread that renews an engine's lease, and sees what the other engines do.
//!
//! It is woken by the server (`NOTIFY`) when another engine has committed something, and looks by itself often enough
//! that a notice which is lost costs a second.

use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::address::Address;
use super::client::Connection;
use super::engines::{self, Beat};
use super::failed::{Failed, Sql};
use super::member::{GATE_LEASE, Member};
use super::schema;
use crate::ledger::threads::Writer;
use crate::ledger::tombstones::WriteMarks;

/// Between two looks at the engines while there are others.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Between two looks while a gate's writes are waited for.
const WRITES_EVERY: Duration = Duration::from_millis(50);
/// Between two looks at least, however often this thread is woken.
const REST: Duration = Duration::from_millis(10);
/// Between two tries to connect.
const CONNECT_EVERY: Duration = Duration::from_secs(1);

/// Ends its thread when it is dropped.
pub(super) struct Heart {
    member: Arc<Member>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Heart {
    /// Starts the thread. `writer`: follows the tombstones of others before each of its transactions.
    pub(super) fn start(
        address: &Address,
        member: &Arc<Member>,
        writer: Arc<Writer>,
    ) -> std::io::Result<Self> {
        let beating = Beating {
            address: address.clone(),
            member: member.clone(),
            writer,
            db: None,
            renewed: None,
            published: (0, 0),
            event: 0,
            writes: None,
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

impl Drop for Heart {
    fn drop(&mut self) {
        self.member.close();
    }
}

struct Beating {
    address: Address,
    member: Arc<Member>,
    writer: Arc<Writer>,
    db: Option<Connection>,
    /// When the lease was last renewed.
    renewed: Option<Instant>,
    /// The positions of our gates that the others know.
    published: (i64, i64),
    event: i64,
    /// The writes that our gates let through before they had this change.
    writes: Option<(i64, WriteMarks)>,
}

impl Beating {
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
            std::thread::sleep(REST);
        }
        if let Some(db) = &self.db {
            // Otherwise the lease ends by itself.
            let _ = engines::leave(db, &self.address, self.member.epoch());
        }
    }

    fn fail(&mut self, error: &Failed) {
        if self.member.standing().fault.is_none() {
            tracing::warn!(ledger = %self.address, %error, "the lease cannot be renewed");
        }
        self.db = None;
        self.member
            .fail(&format!("the ledger does not answer: {error}"));
    }

    /// Looks at the engines, and renews the lease if it is time. Returns how long until the next time.
    fn beat(&mut self) -> Sql<Duration> {
        if self.member.must_join() {
            // The writer joins, before it does anything else.
            self.writer.nudge();
            return Ok(LOOK_EVERY);
        }
        self.see_writes_end();
        let db = match self.db.take() {
            Some(db) => db,
            None => self.connect()?,
        };
        let every = self.renew_every();
        let positions = (self.member.applied(), self.member.passed());
        let is_due = self
            .renewed
            .is_none_or(|renewed| renewed.elapsed() >= every)
            || self.member.standing().fault.is_some()
            || self.published != positions;
        let (epoch, look) = (self.member.epoch(), self.member.looks_asked());
        let began = Instant::now();
        let beat = match is_due {
            true => engines::renew(&db, &self.member)?,
            false => engines::look_around(&db, &self.member)?,
        };
        let Some(beat) = beat else {
            self.db = Some(db);
            self.renewed = None;
            self.member.lose_epoch(epoch);
            return Ok(Duration::ZERO);
        };
        if is_due {
            self.renewed = Some(began);
            if self.published != positions && beat.is_shared {
                engines::notify(&db, &self.address, epoch)?;
            }
            self.published = positions;
            self.trust(&beat, began, positions.0);
        }
        self.db = Some(db);
        let is_shared = beat.is_shared;
        self.take_in(beat, look);
        let waits_for_writes = self.writes.is_some();
        let next_renewal = every.saturating_sub(self.renewed.map_or(every, |at| at.elapsed()));
        Ok(match (waits_for_writes, is_shared) {
            (true, _) => WRITES_EVERY,
            (false, true) => LOOK_EVERY.min(next_renewal),
            (false, false) => next_renewal,
        })
    }

    fn connect(&self) -> Sql<Connection> {
        let failed = |error: crate::ledger::LedgerError| Failed::Impossible(error.to_string());
        let db = schema::connect(&self.address).map_err(failed)?;
        schema::check(&db, &self.address).map_err(failed)?;
        let channel = engines::channel(&self.address);
        db.listen(&channel, self.member.epoch(), self.member.waker())?;
        Ok(db)
    }

    /// A third of what a lease is longer than a call, so that one renewal may fail and calls are still sent.
    fn renew_every(&self) -> Duration {
        let terms = &self.member.terms;
        let spare = terms.lease.saturating_sub(terms.call_timeout);
        let every = (spare / 3).max(REST);
        match self.member.index {
            Some(_) => every.min(GATE_LEASE / 3),
            None => every,
        }
    }

    /// Lets our gates answer until their lease ends: if the lease did not end in between, when others no longer waited
    /// for them, or if they have everything.
    fn trust(&self, beat: &Beat, renewed: Instant, applied: i64) {
        if let Some(index) = &self.member.index
            && (beat.was_trusted || applied >= beat.tombstone)
        {
            index.trust_until(renewed + GATE_LEASE);
        }
    }

    fn take_in(&mut self, beat: Beat, look: u64) {
        let member = &self.member;
        member.see_gates(look, beat.gates);
        member.stand(beat.standing);
        if beat.is_shared && beat.event != self.event {
            member.others_moved();
        }
        self.event = beat.event;
        if member.index.is_some() && beat.tombstone > member.applied() {
            self.writer.nudge();
        }
    }

    /// Notes when the writes have ended that our gates let through before they had the latest changes (T14).
    fn see_writes_end(&mut self) {
        let Some(index) = &self.member.index else {
            return;
        };
        if let Some((applied, marks)) = &self.writes
            && index.have_ended(marks)
        {
            self.member.pass(*applied);
            self.writes = None;
        }
        let applied = self.member.applied();
        if self.writes.is_none() && applied > self.member.passed() {
            let marks = index.writes_under_way();
            match index.have_ended(&marks) {
                true => self.member.pass(applied),
                false => self.writes = Some((applied, marks)),
            }
        }
    }
}
