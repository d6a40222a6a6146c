//! gone: deletes that finish, and stay finished.
//!
//! ```text
//!  console ─┐                         ┌─ plan (pure): resources + references → a graph, frozen, hashed
//!  cli ─────┼─▶ control ──▶ engine ───┼─ policy (pure): step + outcome + now → what next
//!  api ─────┤  submit        ▲  │     └─ cloud (port): list, look, act, driven by kinds (data)
//!  gate ────┘  query         │  │
//!   │          events        │  ▼
//!   │          snapshot     ledger: intent before effect, outcome after; the only truth
//!   └────────▶ tombstones (memory) ◀─┘
//! ```
//!
//! Other deployments ask through `control` what is going here and what points at theirs; the engine asks them
//! the same through a port ([`peers`]).
//!
//! A command is acknowledged when its intent is durable, not before. The engine is a set of
//! reconcilers over the ledger ([`engine`]); restart after a crash is the same path as running. What a
//! cloud is and how its resources hang together is data ([`domain::kinds`]); what goes in which order
//! ([`domain::plan`]) and what comes next after an answer ([`domain::policy`]) are pure functions.
//! `gone` is what a fresh look confirmed, never what a 2xx promised.
//!
//! The numbered rules that the program keeps are in `assets/promises.md`; tests carry their numbers.
//!
//! # Rooms
//! What stands in one room knows of the others what its row allows. A row names a folder or file of
//! `src`; an entry may be a part of a room (`ledger/tombstones`). A test (`tests/domain/rooms.rs`)
//! resolves every path and `use` below `src`, through re-exports too, and fails on what is not here.
//!
//! | room | may import |
//! |---|---|
//! | `domain` | nothing |
//! | `system` | `domain` |
//! | `ledger` | `domain`, `system` |
//! | `cloud` | `domain`, `system`, `ledger` |
//! | `control` | `domain` |
//! | `peers` | `domain`, `system`, `control` |
//! | `engine` | `domain`, `system`, `ledger`, `cloud`, `control`, `peers` |
//! | `present` | `domain` |
//! | `frontends` | nothing |
//! | `frontends/api` | `domain`, `system`, `control`, `present` |
//! | `frontends/cli` | `domain`, `system`, `control`, `present`, `frontends/offline` |
//! | `frontends/console` | `domain`, `system`, `control`, `present` |
//! | `frontends/gate` | `domain`, `system`, `control`, `present`, `ledger/tombstones`, `cloud/openstack` |
//! | `frontends/notify` | `domain`, `system`, `control`, `present` |
//! | `frontends/offline` | `domain`, `system`, `control`, `ledger`, `cloud` |
//! | `sandbox` | nothing |
//! | `app` | all |
//! | `main` | `app` |
//! | `lib` | nothing |
//!
//! Files of `control`, `present`, `frontends` and `app` do not import each other in a circle; a module and the files
//! in its own folder count as one. A pane of the console names the next one by a route
//! (`frontends/console/route.rs`), so no pane imports another.
//!
//! `domain` also waits for nothing, does no I/O and reads no clock. Of `cloud` only the registry, whose
//! resources are kept in the ledger, knows that. `sandbox` knows nothing of our
//! model, or it would agree with our mistakes.
//!
//! # Decisions
//!
//! **A trunk's subports go with it, also those on other networks.** Rule N3 removes them and keeps
//! their networks; the plan lists each port before anything is sent. `takes` in the kinds file says so;
//! without that line only the edge goes.
//!
//! **A recovered step is a step whose answer was lost.** At start `running` becomes `verifying` with
//! `outcome_unknown`: a look tells whether the call is sent again. A second path for crashes would be
//! the one that is never tried. Only a cloud without reads by id would change that.
//!
//! **Looks gather for up to ten seconds while calls of their kind are in flight.** One listing answers
//! for 139 resources and a witness, so verifying costs about as many listings as planning (N14). A
//! kind whose deletes take minutes would want its own period.
//!
//! **A refused deletion can be retried.** Its blockers are listed where stuck steps are, and a retry
//! plans anew behind a new fence, so that who clears a blocker need not type the target again.
//!
//! **Looks wait for each other (`look_wait`).** While a deletion has more to send, what was accepted is
//! looked for together and at most every 30 s: else N14 does not hold, and looks take from the deletes
//! (a real Neutron spends as much on a list of 139 ids as on some of them). What more waits for than for
//! all that can be sent is looked at at once: the longest path goes first. So a step of a short path may
//! start later than what it waits for has gone.
//!
//! **Where a step stands in its deletion's tree is written with it ([`domain::outline`]).** Equal siblings
//! are a branch, counted from one index; so a console reads of a million steps what it shows, and an
//! engine pays one more index entry a transition. Steps that join a running deletion would need a place
//! found beside those that stand.
//!
//! **A project is a kind that stays.** What belongs to it refers to it as a port does to its network, so
//! scope, order, guards and refusals are the planner's as ever; only its own step and tombstone are
//! missing. A scope that is no resource of a cloud (a tag) would want a word of its own.
//!
//! **A delete that a cloud only begins is looked for at even seconds, by one list of its project.**
//! Octavia takes one id a call, and balancers settle at different times: so one list answers for all
//! (N14). A filter that takes many ids would bring back the list with a witness.
//!
//! **An original goes after its copies.** Its tombstone is what readers are told by, so it must stand until
//! the last copy is gone (T9, T12); all else runs side by side. Copies of copies are not followed: a chain
//! of sites would want that.
//!
//! **Calls at a time begin with 8 for a site, and double only for a gain seen in turns.** A Neutron on two
//! cores serves with 16 between a tenth less and a quarter more than with 8, and swings by as much within
//! a minute. A cloud that says how much it takes would want no search.
//!
//! **A call that hangs lends its place.** Eight that hang would else stop a site for the length of a
//! time-out (I12). As many as the limit may, so that a cloud that slows down gets twice as many at most.
//!
//! **What has long been gone is swept for more rarely.** A hold-down of a week over 100,000 tombstones
//! would cost 720 lists twice a minute. Copies that come back late would want a steady pace again.
//!
//! **Projects are named only where another project's resource stands in the way.** A blocker keeps
//! its owner's id for programs and takes the name for people: one listing by Keystone for a cloud and
//! hour, outside of plans and their hashes. Names in every list would want a cache of their own.
//!
//! **A step that waits for a stuck one is stuck too, and says for which.** Otherwise a deletion would
//! stay `running` for ever with nothing to run (N12). A retry of the root frees what it holds.
//!
//! **How far a message reaches is written before it is sent.** So what a crash makes repeat is the same
//! message under the same id (I7), also if more has happened since. A receiver that takes the whole news
//! in parts would want a mark for each event.
//!
//! **Of a step a person is told once, until a person retries it.** Not of a deletion when all of it is
//! stuck, which may be days later; and not again for a repeated DELETE (T6), which wakes it for an
//! attempt. A rung of a ladder that fails would want to be told anew.
//!
//! **A rung of the ladder has no way of its own to a cloud.** `unpin` is a deletion of the pinning edges
//! beside a retry, so guards, fence, calls, looks and crashes are those of any deletion (P3). A service
//! with a call that resets or forces would want a rung, as an action of a step.
//!
//! **Forgetting sends nothing, now or later.** What waited for a forgotten step stays stuck and names
//! it: the order that was planned is broken, and a port may be an orphan's. A person's retry sends it.
//! An orphan that is seen to be gone stays on the list as absent: given up is not gone (I13).
//!
//! **Gates live in the engine's process, and ask memory.** What a commit has changed is there before the
//! commit returns, by SQLite's own hook, so a gate never lags and nothing must be told to it; if a row
//! cannot be read again, gates stop (503). Gates on other machines would want a stream, and a fence that
//! waits for each.
//!
//! **A gate lets the cloud itself say what a caller sees.** Before it tells anyone of a deletion it asks
//! the service with the caller's token; only what is left of a resource that the service no longer has is
//! shown by its project. A policy language of our own would disagree with the cloud's some day.
//!
//! **What a body refers to is found by the names of its fields, at any depth.** The kinds name them; bulk
//! bodies, trees of a balancer and actions need no rules of their own. A service that calls two things by
//! one name would be refused more than it should.
//!
//! **A gate finds what takes a part along in the part's own row.** Parts have no tombstone: the kinds name
//! the fields by which a row tells what it goes with, so a part that came after planning is known too, and
//! nothing is kept in memory for parts. A request that refers to ids alone costs one list of them for each
//! level, by the engine's own login, while something of such a kind is being deleted. Clients that refer to
//! much while much is deleted would want an index of parts, kept beside the tombstones.
//!
//! **Gates have threads of their own, and a connection stays on one.** On the engine's runtime tasks moved
//! between cores, which cost a third of a gate's time; connections to the upstream belong to the thread.
//! One client with a connection that is busier than a core would want its requests spread.
//!
//! **What is stuck is grouped by the last answer's class, status and type, not by its words.** These name
//! ids, so each would be a cause of its own. A cloud that says the why in words alone would want patterns.
//!
//! **Over a slow line the painter decides what goes out, not the panes.** A frame is written by rows as far
//! as the line carries, the cursor's first; so no pane knows of it, but that its strip is short. A line
//! that is slow but quick to answer would want larger parts.
//!
//! **A replay is an engine that never runs, over a copy that is set to a time.** So one code answers for
//! now and for then ([`engine::replay`]), and the console knows no other ledger. What stood then is worked
//! out from the events by SQL ([`ledger::sqlite::rewind`]), not kept: it costs a normal ledger nothing, and
//! what has no event is not told apart. A ledger of many millions of steps would want marks on the way.
//!
//! **What other deployments must say is a row for each step and importer, and their word is final.** So it
//! survives crashes on either side, and late or doubled answers change nothing; a step that lacks one is
//! blocked, not polled. Many importers of a kind of many resources would want a word for a whole deletion.
//!
//! **An importer hears by asking.** A watch is a question that waits for news: resuming it is its only way,
//! and both sides are plain servers. A million importers of one owner would want a stream.
//!
//! **Who waits for whom travels with the answers.** Each deployment adds what it knows, the nearest wins, and
//! who sees a closed circle lets the asked one go first; so nobody calls in the midst of a call. Circles of
//! more than 200 resources would want a smaller sign.
//!
//! **A deployment imports from itself.** An asynchronous reference within one registry is heard, seen to and
//! waited for by the same code. It costs a watch that nobody needs a network for.
//!
//! **A reason is asked for where something begins to go.** A retry, a pause or a cancellation belongs to what
//! was approved with one. Clients of a gate have no way to say why, and are not asked.
//!
//! **What kinds allow is decided by walks over kinds, and tried out only in a test.** So forty kinds take no
//! time, and the examples are the smallest; that the walks are right a test shows by all small instances
//! ([`domain::check`]). References of which a cloud has only some together would want their conditions read.
//!
//! **A peer is known by a token that both sides hold, or by a certificate for its host.** Who it says it
//! is only names the entry that must fit, so no peer speaks for another. More deployments than people want to
//! share files between would want an issuer of tokens.
//!
//! **The simulation drives everything but the sockets.** Auth, paging and error code are the real
//! client over a `Transport` that calls the sandbox's core, on a paused clock. Its ledger is the real
//! store called inline, so a crash is a dropped future and a reopened file.
pub mod app;
pub mod cloud;
pub mod control;
pub mod domain;
pub mod engine;
pub mod frontends;
pub mod ledger;
pub mod peers;
pub mod present;
pub mod sandbox;
pub mod system;
