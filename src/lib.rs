//! gone: deletes cloud resources reliably.
//!
//! gone plans the whole cascade of a deletion before it changes anything, and deletes exactly what a person
//! approved. It keeps working through blockers, crashes and lost connections until every resource is
//! confirmed gone, or says what needs a person and why. Afterwards it keeps the deleted resources deleted: it
//! refuses re-creations at a reverse proxy, and deletes again each resource that was re-created without passing the
//! proxy.
//!
//! # The picture
//! ```text
//!  console ─┐ submit, query                      ┌─▶ domain   planner and policy: pure functions
//!  cli ─────┤                                    │
//!  api ─────┼──────────────▶ control ──▶ engine ─┼─▶ cloud ──▶ OpenStack, or our own registry
//!  notify ──┤                    │          ▲    │
//!  gate ────┘◀─ events, snapshot ┘          │    └─▶ peers ──▶ other deployments
//!   ▲                                       ▼
//!   └──────── tombstones (memory) ─────── ledger   SQLite or PostgreSQL: intent before effect, outcome after
//!
//!  other deployments ──▶ peers ──▶ control
//! ```
//!
//! - **submit**: a front end hands over a command. The command is acknowledged when its intent is durable, not
//!   before.
//! - **query**: pages through rows of the ledger and listings of the clouds.
//! - **events**: the ledger's log of everything that happened, followed without gaps by its numbers.
//! - **snapshot**: the bounded summary that a screen needs at once. A slow reader skips versions and never
//!   delays the engine.
//! - **engine → ledger**: the engine is a set of reconcilers over the ledger ([`engine`]). It writes the
//!   intent before each effect and the outcome after it, so the ledger is the only truth, and a restart after
//!   a crash is the same path as running.
//! - **engine → domain**: the engine passes in rows, answers and the time. [`domain::plan`] decides the order
//!   in which resources are deleted, [`domain::policy`] the next state of a step after an answer.
//! - **engine → cloud**: lists, reads and deletes. A provider implements this port; *kinds*, which are data
//!   ([`domain::kinds`]), describe the calls, the references between resources and the meaning of answers.
//!   `gone` means that a fresh observation confirmed the absence, never that a call was answered 2xx.
//! - **engine → peers → other deployments**: the engine asks other deployments which of their resources refer
//!   to ours, and watches their deletions. Their calls arrive at the listener of `peers`, which passes them
//!   to `control`, as a front end does.
//! - **tombstones (memory)**: each commit of the ledger updates an index in memory before it returns. The
//!   gate reads that index first, so a request that concerns no deletion costs one look-up, and usually
//!   no query (see *A gate finds a part by the part's own row*).
//!
//! Not in the picture: `app` chooses what this process does and connects the parts; `system` provides the
//! clock, settings, logs and listeners; `present` holds the texts that all front ends share;
//! `frontends/offline` makes reports without an engine; `sandbox` is a practice cloud, which the engine calls
//! like a real one.
//!
//! # Words
//! - *Site*: a region of a cloud (`prod/RegionOne`), or a deployment. *Deployment*: one ledger with the engine,
//!   or the engines, that use it.
//! - *Deletion*: one accepted request. *Step*: one resource inside a deletion. *Blocker*: what prevents the
//!   deletion of a step's resource.
//! - *Tombstone*: the durable record that a resource is being deleted or was deleted. It outlives the
//!   resource by the *hold-down* (7 days by default).
//! - *Write guard* (fence): what a tombstone enforces while its deletion is only being planned (phase
//!   `checking`): the gate refuses writes that change or refer to the resource, and passes reads.
//! - *Observation*: the result of asking a cloud. *Witness*: a living resource for which a list was also asked; the
//!   witness's row proves that the list is complete, so that a missing row means absence.
//! - *Lease*: how long an engine counts as alive, where several engines share a ledger. One of these engines *leads*.
//! - *Permit*: the right to have one call or read in flight at a site.
//! - *Stuck*: needs a person. *Rung*: one action of the purge ladder, which a person takes for a stuck or blocked
//!   step (`retry`, `unpin`, `reset`, `force`, `runbook`, `forget`). *Orphan*: a resource that an abandoned step
//!   (`forget`) left behind.
//! - *Importer*: a deployment whose resources refer to those of another one, the *owner*. *Clearance*: the
//!   importer's statement that none of its resources refers to the deleted resource any more.
//!
//! `assets/promises.md` has the rules by number (T1, N14, …); tests carry the numbers in their names.
//!
//! # Modules
//!
//! | module | what it does | main types |
//! |---|---|---|
//! | [`domain`] | pure: model, kinds, planner, decisions | `model::Plan`, `kinds::Kinds`, `plan::Planner` |
//! | [`system`] | clock, settings, logs, private files, listeners | `clock::Clock`, `config::Settings` |
//! | [`ledger`] | the durable record in SQLite or PostgreSQL; tombstones in memory | `Ledger`, `Change`, `Applied` |
//! | [`cloud`] | the port to clouds: OpenStack, and our own registry | `Cloud`, `OpenStack`, `Registry` |
//! | [`control`] | the interface between front ends and the engine | `Control`, `Command`, `Query` |
//! | [`peers`] | the port to other deployments, and their HTTP protocol | `Peers`, `HttpPeers` |
//! | [`engine`] | reconcilers: planning, dispatch, verify, retry, sweep … | `Engine`, `EngineParts` |
//! | [`present`] | texts for people, shared by all front ends | `Sheet`; otherwise functions |
//! | `frontends/api` | the HTTP API on the engine's socket | `ServeOptions`, `ApiHandle` |
//! | `frontends/cli` | the verbs of the command line | `Verb`, `EngineVerb`, `Session` |
//! | `frontends/console` | the terminal console | `State`, `Event`, `Effect` |
//! | `frontends/gate` | the reverse proxy in front of one service of a site | `GateParts`, `Threads` |
//! | `frontends/notify` | webhooks and mail about what needs a person | `Notifier` |
//! | `frontends/offline` | reports of `gone doctor` and `gone ledger check` | `doctor::Check` |
//! | `frontends/report` | the report of a deletion, also as a web page | `Report` |
//! | [`sandbox`] | the practice cloud: Keystone, Neutron, Octavia, Glance, Nova, Cinder | `World` |
//! | [`app`] | chooses the mode of the process, connects the parts | `Mode`, `EngineSource` |
//!
//! # Imports
//! A module may import only what its row lists; `tests/domain/imports.rs` fails otherwise. A row names a module of
//! `src`, as a folder or a file: a top-level one, or one of `frontends`. An entry may be a submodule
//! (`ledger/tombstones`). The test resolves every path and `use` below `src`, through re-exports too.
//!
//! | module | may import |
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
//! | `frontends/cli` | `domain`, `system`, `control`, `present`, `frontends/offline`, `frontends/report` |
//! | `frontends/console` | `domain`, `system`, `control`, `present`, `frontends/report` |
//! | `frontends/gate` | `domain`, `system`, `control`, `present`, `ledger/tombstones`, `cloud/openstack` |
//! | `frontends/notify` | `domain`, `system`, `control`, `present` |
//! | `frontends/offline` | `domain`, `system`, `control`, `cloud` |
//! | `frontends/report` | `domain`, `control`, `present` |
//! | `sandbox` | `system/private` |
//! | `app` | all |
//! | `main` | `app` |
//! | `lib` | nothing |
//!
//! Two modules are stricter than their rows:
//! - `domain` also has no asynchronous code, does no I/O and reads no clock. The test checks this too.
//! - In `cloud`, only the registry (`cloud/registry.rs`, a site whose resources this deployment keeps itself)
//!   uses the ledger, because its resources are kept there.
//!
//! `sandbox` imports nothing of gone's model, so that it does not repeat gone's mistakes.
//!
//! Files of one row's module do not import each other in a cycle; a submodule and the files in its own folder count as
//! one. The test checks this too. A pane of the console names the next one by a route
//! (`frontends/console/panes/mod.rs`), so no pane imports another.
//!
//! # To add …, go to …
//! Paths are below `src`, unless they begin with `assets` or `tests`.
//!
//! - **a kind**: one `[kind.NAME]` section with its `call` in `assets/kinds/openstack/*.toml`, and a resource
//!   of it in `tests/testbed/estate.rs`. For a new service also its file in `EMBEDDED` of
//!   `cloud/openstack/kinds.rs`; its service type in `cloud/openstack/catalog.rs`, if it is missing; and the
//!   shape of its errors in `frontends/gate/refusal.rs`, if a gate serves it.
//! - **a store of ledgers**: a folder of `ledger` with the traits of `ledger/store/mod.rs`, which explains it, and
//!   its arms in `location.rs`, `open.rs`, `upkeep.rs` and `migrate.rs`; its name in `tests/ledger/stores.rs`, or in
//!   a test target of its own if it needs a server (`tests/postgres`).
//! - **a table or column of the ledger**: a migration of each store (`sqlite/schema.rs`, `postgres/schema.rs`), its
//!   line in `ledger/store/tables.rs`, by which ledgers are copied between stores, its decoding in
//!   `ledger/store/decode.rs`, by which both stores read rows, and its value in `ledger/store/sql_saved.rs` or
//!   `sql_plans.rs`, by which both write them.
//! - **a rule that holds in every ledger at any time**: a line of `RULES` in `ledger/invariants.rs`.
//! - **a provider**: its `Provider`, `KindCalls` and `Cloud` in a folder of `cloud`, its entry in `PROVIDERS`
//!   of `cloud/mod.rs`, its files in `assets/kinds`, and its sites in `app/embedded.rs`. `tests/engine/toy`
//!   is a whole provider, and `assets/docs/developers.md` explains it.
//! - **an operator of the kinds file**: `domain/kinds/spec.rs`, and its line in the docs of
//!   `domain/kinds/mod.rs`.
//! - **a pane**: a file in `frontends/console/panes`, and in `panes/mod.rs` its `mod` and its line in the
//!   table `panes!`: with the word after `:` that opens it, or the route by which other panes open it.
//! - **a reconciler**: a file of `engine` with a struct of the parts that the reconciler uses; the struct is put
//!   together in `engine/assemble.rs`, and started by the pass in `engine/mod.rs`; its name in `domain/activity.rs`,
//!   and its words in `present/activity.rs`.
//! - **a question to the engine** (for new data of a pane or verb): a struct and a line of the table in
//!   `control/query.rs`, and its `Handler` in `engine/queries.rs`.
//! - **a verb**: a file in `frontends/cli` with its arguments and its `Verb`, and a line of `verbs!` in
//!   `cli/mod.rs`. A verb without an engine: a file in `app` with its arguments and its `LocalVerb`, and a
//!   line of `local_verbs!` in `app/command_line.rs`.
//! - **a list of `gone list`**: a variant of `What` and its arm in `cli/list.rs`, and its columns in
//!   `cli/columns.rs`.
//! - **a column**: command line: one line of a table, most of them in `frontends/cli/columns.rs`. Console: one
//!   line in the pane's `columns!`.
//! - **a rung**: `Rung` in `domain/ladder.rs`, `PurgeAction` in `ledger/changes.rs`,
//!   `ledger/transitions/rungs.rs`, `engine/purge.rs`, `Purged` in `control/mod.rs` if it returns something new,
//!   `purged_words` in `present/sentences.rs`, and the help in `cli/purge.rs`.
//! - **a message about a blocker**: `present/sentences.rs`.
//! - **a move of a step or deletion**: a `Trigger` and its arm in `ledger/transitions`, and its row in
//!   `tests/ledger/transitions.rs`. **An event**: a function in `ledger/events.rs`.
//! - **a setting**: its field in `system/config.rs` or `system/config/*.rs`, its default in
//!   `assets/config.toml`, and the module that uses it.
//! - **an HTTP endpoint**: a handler in `frontends/api` with its `#[utoipa::path]`, and a line of `routes` in
//!   `api/mod.rs`. The API's description follows from them and from the types.
//! - **a service or a kind of the practice cloud**: its tables in `assets/sandbox`, its rules in a folder of
//!   `sandbox`, and for a service a line in `SERVICES` of `sandbox/world.rs`; `sandbox/mod.rs` explains it.
//! - **a rule**: a row in `assets/promises.md`, and a test whose name begins with its number (`t05_…` for
//!   T5).
//!
//! # Decisions
//! Each says what was decided, why, and when to revisit it.
//!
//! ## Planning and kinds
//!
//! **A cascade deletes a trunk's subports too, even those on other networks.** N3 (trunks are deleted with their
//! subports) requires this, and keeps the other networks. The plan lists each port before anything is sent. The trunk's
//! `takes` in the kinds file causes this; without that line only the edge to the port is removed.
//!
//! **A project is a kind, and a target that stays.** A resource refers to its project as a port does to its
//! network, so the planner handles scope, order, guards and refusals as for any target. But the project itself has no
//! step and no tombstone, unless `with_project` deletes it too. Revisit when: a scope is not a resource of a cloud (a
//! tag); that scope needs a term of its own.
//!
//! **The original is deleted after its copies.** Readers learn from its tombstone that it is being deleted,
//! so the tombstone must exist until the last copy is gone (T9: tombstone and resource end together; T12: a
//! fast site does not get the resource back from a slow one). All other steps run in parallel. Copies of
//! copies are not followed. Revisit when: sites copy from each other in a chain.
//!
//! **A deletion's tree is written with its steps ([`domain::outline`]).** Equal siblings form a branch, which
//! is counted from one index. So a console reads only the visible part of a million steps, and the engine
//! pays one more index entry for each transition. Revisit when: steps join a running deletion; they need a
//! position among the existing ones.
//!
//! **A refused deletion can be retried.** Its blockers are listed with the stuck steps. A retry plans again
//! behind a new write guard, so a person who removes a blocker need not type the target again.
//!
//! **`gone check kinds` follows the references between kinds; only a test enumerates resources.** So a check of
//! seventy kinds takes no time, and the examples that it gives are the smallest possible. The test shows that the check
//! is right for all small sets of resources ([`domain::check`]). Revisit when: a cloud has only some combinations of
//! references; the check must then read their conditions.
//!
//! ## Engine: calls and observations
//!
//! **Recovery treats an interrupted step as one whose answer was lost.** At the start of an engine, `running`
//! becomes `verifying` with the error `outcome_unknown`, and an observation decides whether the call is sent
//! again. A second code path for crashes would hardly ever run, and so would be wrong. Revisit when: a cloud
//! has no reads by id.
//!
//! **Observations are gathered (`observation_wait` in [`domain::policy`]).** One list answers for 139 resources
//! and a witness, because its URL of 6 KB holds no more ids. So verifying costs about as many lists as planning
//! (N14: one list per kind and filter, no query for each resource).
//! - While calls of equal or higher rank are in flight and nothing more is ready, accepted deletes wait for
//!   each other for up to 10 s. A step's rank is the longest path from it to the deletion's end, on which a delete
//!   that the cloud completes later counts as ten.
//! - While the deletion has more to send, accepted deletes wait at least 30 s, and longer in a long deletion: otherwise
//!   N14 does not hold, and observations compete with deletes (a real Neutron spends as much on a list of 139 ids as on
//!   several deletes).
//! - Steps are observed at once if nothing of their rank or higher can be sent or is in flight: the longest
//!   path has priority. So a step on a short path may start some time after its dependencies are gone.
//!   `observation_wait` has the exact conditions.
//!
//! Revisit when: plain deletes of a kind take minutes; the kind needs its own period.
//!
//! **Deletes that a cloud completes later are observed at even seconds, by one list of their project.**
//! Octavia's filter takes one id a call, and deletes of load balancers end at different times; one list answers for
//! all of them (N14). The first list is due at the even second at which the first of them can have ended. Calls of
//! other kinds do not delay this list, because they say nothing about when the deletes end. In a deletion that takes
//! minutes the lists become rarer, so that their number grows with the logarithm of its duration. A resource that no
//! list proves gone (a server that may be soft-deleted) is read by id, once the list lacks it. Revisit when: a filter
//! takes many ids; then the list with a witness works again.
//!
//! **The concurrency limit of a site starts at 8, and doubles only for a gain that alternating periods show.**
//! With 16 calls in flight, a Neutron on two cores answers between a tenth less and a quarter more calls a
//! second than with 8, and its speed varies as much within a minute. Revisit when: a cloud says how much it
//! takes; then no search is needed.
//!
//! **A hanging call lends its permit to another call.** Otherwise eight hanging calls would block a site until
//! they time out (I12: one hanging resource never delays another). At most as many permits are
//! lent as the limit allows, so a cloud that slows down gets at most twice as many calls.
//!
//! **The sweep observes older tombstones more rarely.** A hold-down of a week over 100,000 tombstones would
//! otherwise cost 720 lists twice a minute. Revisit when: resources are re-created late; the sweep then needs a
//! steady pace.
//!
//! **Owner projects are named only where another project's resource blocks.** A blocker has its owner's id
//! for programs and the name for people. The names come from one listing by Keystone per cloud and hour,
//! outside of plans and their hashes. Revisit when: every list shows names; the names then need a cache of
//! their own.
//!
//! **Stuck and blocked steps are grouped by state, kind, and the class, status and type of their last error, not by its
//! text.** The text names ids, so every step would have a cause of its own. Revisit when: a cloud gives the reason in
//! the text alone; grouping then needs patterns.
//!
//! **A rung calls a cloud only through a step.** `unpin` is a deletion of the blocking edges, followed by a
//! retry, so guards, write guard, calls, observations and recovery are those of any deletion (P3: the
//! rungs of the ladder). `reset` and `force` are retries of the step with another action in place of its delete.
//!
//! **A replay is an engine that never runs, over a copy of a ledger that is set to a time.** So the same code
//! answers for the present and for the past ([`engine::replay`]), and the console needs no other source. SQL
//! derives the past state from the events ([`ledger::sqlite::rewind`]) instead of keeping it: a normal ledger
//! pays nothing, and a replay does not show changes that have no event. Revisit when: a ledger has many millions
//! of steps; the replay needs checkpoints.
//!
//! **The simulation runs everything but the sockets.** Authentication, paging and error handling are the real
//! client's, over a `Transport` that calls the sandbox's core on a paused clock. The ledger is the real
//! store, called inline, so a crash is a dropped future and a reopened file; for some seeds it is the store in
//! memory (`tests/memory`), so a crash leaves the rows. Days of several engines run on the store in memory, with the
//! leases and heartbeats of engines that share a server; only the server and the network to it are simulated.
//!
//! **An engine plays the past of a practice scenario, on a simulated clock (`app/past.rs`).** So the ledger that a
//! console opens on agrees with the practice cloud in everything, down to the request ids and the faults that are
//! used up, and a scenario names only the deletions that were requested, and when. Three days with nothing due take
//! no time. Revisit when: a past has many thousand steps; playing it then takes longer than people wait for a
//! console.
//!
//! ## Ledger: what is durable
//!
//! **A step that waits for a stuck step is stuck too, and names it.** Otherwise a deletion would stay
//! `running` for ever with nothing to run (N12: never silently active). A retry of the named step releases
//! its dependents.
//!
//! **Abandoning a step (`forget`) sends nothing, now or later.** A step that waited for it stays stuck and
//! names it, since the planned order is broken and a port may belong to the orphan; only a person's retry
//! sends the stuck step. An orphan that is confirmed gone stays on the list as absent: abandoned is not gone
//! (I13: `gone` only after confirmed absence).
//!
//! **A reason is required where something begins to be deleted, purged or released, if the settings ask for
//! one.** This includes newcomers that a person accepts. A retry, a pause or a cancellation belongs to a deletion that
//! was approved with a reason. Clients of a gate cannot give a reason, and are not asked for one.
//!
//! **A ledger in PostgreSQL has the same rows as one in SQLite, and its transactions run one after the other.** Each
//! transaction that writes holds a lock until it ends. So a decision from the rows that it has read still holds when it
//! commits, whichever engine made the decision, and the state machine above the stores needs no second proof. Numbers
//! of events come from a row that the transaction itself changes, not from a sequence: they have no gaps, and are in
//! the order of commits. Several requests share a transaction, so the lock costs little: claims that skip each other's
//! rows would still wait for that number. Revisit when: engines are so far from the server that a transaction takes
//! tens of milliseconds.
//!
//! **Several engines: one leads, all send.** Only the calls of a deletion take long; planning, observing, retrying and
//! sweeping are cheap, and would be done twice. The engine that leads is the one with the lowest epoch among those that
//! are alive and claim steps. Each engine reads from the ledger, at each renewal of its lease, whether it leads, so
//! there is no election.
//!
//! **No call is sent whose deadline is after the end of its engine's lease (I11).** The server's clock says when a lease
//! has ended for other engines; an engine itself counts from before it asked for the renewal, so it stops earlier. The
//! engine that takes over marks the lost engine as ended in the transaction that takes the steps of the lost engine.
//! From then on, the lost engine's outcomes are fenced by its epoch, and that engine must begin a new epoch.
//!
//! **A gate of another engine has a write guard before the deletion is acknowledged (T3).** The argument, step by step:
//! 1. The transaction that raises the guard gives this change a number. Each engine with gates applies all changes of
//!    tombstones in the order of their numbers, and publishes the last number that it has applied.
//! 2. The engine that committed waits until each engine with gates has applied this number, or the lease of its gates
//!    (10 s) has ended by the server's clock. It reads the list of engines after the commit. No engine starts during a
//!    transaction, so the list has each engine that started before, and each one that starts later loads the guard.
//! 3. A gate stops answering 10 s after its last renewal, counted from before the renewal was requested. So at the end
//!    of step 2 the gate has the guard, or does not answer.
//! 4. A renewal reads the last number. After its lease has ended, a gate answers again only once it has applied that
//!    number, which is at least that of the guard.
//!
//! The engine that plans also waits for its own gates, and for the end of the writes that any gate had let through
//! before it had the guard (T14). After a gate's lease has ended, its last write may take as long as a call, so an
//! engine with gates has a lease of at least the gates' lease plus the time limit of a call. Clocks must run equally
//! fast, not show the same time. Revisit when: a deletion must be accepted in less than the time of a round trip.
//!
//! **A ledger moves by a copy that no engine opens until it is whole.** The tables are described once, as data, and both
//! stores read and write them in the order of their keys: so an interrupted copy can be continued, and both sides can
//! be compared by a hash. Until the copy is whole, its schema version is newer than any other, so that older programs
//! refuse it too. Revisit when: an engine may not pause for as long as a copy takes; then later changes must be copied
//! too.
//!
//! ## Gate
//!
//! **Gates run in the engine's process, and read tombstones from memory.** The store reports the rows that a commit
//! changed, and they are in memory before the commit returns; so a gate of the same engine never lags. A gate of
//! another engine is waited for (see *A gate of another engine has a write guard before the deletion is
//! acknowledged*). If a changed row cannot be read, the gates answer 503. Revisit when: gates run without an
//! engine; they need a stream.
//!
//! **A gate lets the cloud itself decide what a caller sees.** Before it mentions a deletion, it asks the
//! service with the caller's token. For a resource that the service no longer has, the gate compares the
//! resource's project with the caller's. A policy language of our own would one day disagree with the
//! cloud's.
//!
//! **A gate finds the resources that a body refers to by field names, at any depth.** The kinds name the
//! fields, so bulk bodies, load balancer trees and actions need no rules of their own. Revisit when: a
//! service uses one name for two things; more would be refused than necessary.
//!
//! **A gate finds a part by the part's own row.** A *part* is a resource that the cloud removes along with
//! its parent (T20), and it has no tombstone. The kinds name the fields by which a row refers to its parent.
//! So parts that were created after planning are found too, and memory holds nothing for parts. A request
//! that refers to ids alone costs one list for each level, under the engine's own login, and only while a
//! resource of a kind with parts is being deleted. Revisit when: many requests refer to parts while many
//! resources are deleted; that needs an index of parts, kept with the tombstones.
//!
//! **Gates have their own threads, and a connection stays on one of them.** On the engine's runtime, tasks
//! moved between cores, which cost a third of a gate's time; connections to the upstream belong to the
//! thread. Revisit when: one client's connection is busier than a core; its requests must be spread.
//!
//! ## Peers
//!
//! **A clearance is one row for each step and importer, and it is final.** So it survives crashes on either
//! side, and late or repeated answers change nothing. A step without its clearances is blocked; it is not
//! polled: the engine asks an importer about many steps at once, on a hint and at each heartbeat (G5).
//! Revisit when: a kind with many resources has many importers; then one clearance covers a whole
//! deletion.
//!
//! **An importer learns of deletions by asking.** A watch is a question that waits for notices. Resuming it
//! is the only way to catch up, and both sides are plain servers. Revisit when: one owner has a million
//! importers; that needs a stream.
//!
//! **Answers say which resource waits for which.** Each deployment adds what it knows, and the nearest
//! report wins. A deployment that finds a closed cycle lets the resource that was asked about be deleted
//! first. So no deployment makes a call while it answers one (G13: cycles of cascade end). Revisit when:
//! cycles have more than 200 resources; they need a more compact form.
//!
//! **A deployment imports from itself.** The same code delivers, handles and waits for an asynchronous
//! reference within one registry. The cost is a watch that needs no network.
//!
//! **A peer is identified by a token that both sides hold, or by a certificate for its host.** The name in a
//! message only selects the entry of the settings that must match, so no peer speaks for another. Revisit
//! when: there are more deployments than people want to share files between; they need an issuer of tokens.
//!
//! ## Console
//!
//! **Over a slow line, the painter decides what is written, not the panes.** It writes a frame by rows, as
//! many as the line carries, the cursor's row first. Panes know nothing of this, except that they keep
//! their detail lines short. Revisit when: a line is slow but answers quickly; larger parts would suit it.
//!
//! ## Notifications
//!
//! **The last event that a message covers is recorded before the message is sent.** So a message that a crash
//! repeats is the same, under the same id, even if more has happened since (I7: a person is notified once).
//! Revisit when: a receiver takes a message in parts; it needs a cursor for each event.
//!
//! **A person is notified of a stuck step once, until a person retries it.** A notification only when a whole
//! deletion is stuck could come days late. A repeated DELETE (T6) wakes the step for an attempt, and does not
//! notify again. Revisit when: a rung can fail by itself; that should notify again.
pub mod app;
pub mod cloud;
pub mod control;
pub mod domain;
pub mod engine;
pub mod frontends;
pub mod ledger;
pub mod peers;
pub mod present;
#[cfg(feature = "sandbox")]
pub mod sandbox;
pub mod system;
