//! Connects the engine's parts: each gets the parts that it uses, and knows nothing of the others.

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};

use tokio::sync::watch;

use super::accept::Accepting;
use super::activity::Activities;
use super::bulk::BulkRetry;
use super::commands::Commands;
use super::confirm::Confirming;
use super::control_service::ControlService;
use super::copies::CopySearch;
use super::diagnose::Diagnosis;
use super::dispatch::Dispatching;
use super::drift::DriftAnswers;
use super::explain::Explaining;
use super::guards::Guards;
use super::journal::Journal;
use super::listings::Listings;
use super::logins::Logins;
use super::observe::Observing;
use super::orphans::Orphans;
use super::peers::Federation;
use super::plan_queue::PlanQueue;
use super::planning::Planning;
use super::prune::Pruning;
use super::purge::Purging;
use super::queries::Queries;
use super::reads::Reads;
use super::registry::NativeResources;
use super::removal::Removal;
use super::requests::KeyedRequests;
use super::resolve::Resolver;
use super::schedules::Schedules;
use super::sites::Sites;
use super::snapshot::Publishing;
use super::sweep::Sweep;
use super::sweep_copies::CopySweep;
use super::verify::Verifying;
use super::{Engine, EngineParts, Neighbours, Reconcilers};
use crate::control::{EngineStatus, Snapshot};
use crate::domain::activity::Reconciler;

/// The parts that several other parts use.
struct Common {
    reads: Arc<Reads>,
    copies: Arc<CopySearch>,
    resolver: Arc<Resolver>,
    planning: Arc<Planning>,
    schedules: Arc<Schedules>,
    guards: Arc<Guards>,
    logins: Arc<Logins>,
    confirming: Arc<Confirming>,
    pruning: Arc<Pruning>,
    publishing: Arc<Publishing>,
    federation: Option<Arc<Federation>>,
    works: Arc<AtomicBool>,
    activities: Arc<Activities>,
}

pub(super) fn engine(mut parts: EngineParts) -> Engine {
    let neighbours = parts.neighbours.take();
    let common = common(&parts, neighbours);
    Engine {
        service: Arc::new(service(&parts, &common)),
        reconcilers: reconcilers(&parts, &common),
    }
}

fn common(parts: &EngineParts, neighbours: Option<Neighbours>) -> Common {
    let status = status(parts);
    let sites = Arc::new(Sites::new(parts.cloud.sites(), &parts.settings));
    let first = Snapshot {
        engine: status.clone(),
        sites: sites.statuses(),
        ..Snapshot::default()
    };
    let journal = Arc::new(Journal::new(parts.ledger.clone(), status));
    let reads = Arc::new(Reads {
        cloud: parts.cloud.clone(),
        kinds: parts.kinds.clone(),
        sites,
        journal: journal.clone(),
        patience_max: parts.settings.engine.read_patience,
    });
    let copies = Arc::new(CopySearch {
        ledger: parts.ledger.clone(),
        reads: reads.clone(),
        mapping: parts.settings.mapping.clone(),
    });
    let resolver = Arc::new(Resolver {
        reads: reads.clone(),
        copies: copies.clone(),
    });
    let schedules = Arc::new(Schedules {
        kinds: parts.kinds.clone(),
        gc: parts.settings.gc.clone(),
        verify_max: parts.settings.engine.verify_timeout,
    });
    let activities = Arc::new(Activities::new(parts.clock.clone()));
    let (clock, ledger) = (&parts.clock, &parts.ledger);
    let federation = neighbours.map(|found| {
        let federation = Federation::new(found, clock, ledger, &journal, &schedules, &activities);
        Arc::new(federation)
    });
    let planning = Arc::new(Planning {
        clock: parts.clock.clone(),
        reads: reads.clone(),
        resolver: resolver.clone(),
        copies: copies.clone(),
        protect: parts.settings.guard.protect.clone(),
        owner: federation.as_ref().map(|it| it.owner.clone()),
    });
    let logins = Arc::new(logins(parts, &reads, &activities));
    Common {
        guards: Arc::new(guards(parts, &reads, &resolver)),
        confirming: Arc::new(confirming(parts, &reads, &logins)),
        pruning: Arc::new(pruning(parts, &journal, &activities)),
        publishing: Arc::new(publishing(parts, &reads, first, &activities)),
        reads,
        copies,
        resolver,
        planning,
        schedules,
        logins,
        federation,
        works: Arc::new(AtomicBool::new(true)),
        activities,
    }
}

fn service(parts: &EngineParts, common: &Common) -> ControlService {
    let purging = Arc::new(purging(parts, common));
    let orphans = Arc::new(orphans(parts, common));
    let native = Arc::new(NativeResources {
        clock: parts.clock.clone(),
        ledger: parts.ledger.clone(),
        reads: common.reads.clone(),
        guards: common.guards.clone(),
        importer: common.federation.as_ref().map(|it| it.importer.clone()),
    });
    let journal = common.reads.journal.clone();
    ControlService {
        ledger: parts.ledger.clone(),
        publishing: common.publishing.clone(),
        requests: Arc::new(KeyedRequests {
            clock: parts.clock.clone(),
            ledger: parts.ledger.clone(),
            journal: journal.clone(),
            in_use: Arc::default(),
        }),
        journal,
        queries: Queries {
            clock: parts.clock.clone(),
            ledger: parts.ledger.clone(),
            kinds: parts.kinds.clone(),
            sites: common.reads.sites.clone(),
            gates: parts.gates.clone(),
            copies: common.copies.clone(),
            listings: Listings {
                clock: parts.clock.clone(),
                ledger: parts.ledger.clone(),
                reads: common.reads.clone(),
                resolver: common.resolver.clone(),
            },
            explaining: Explaining {
                kinds: parts.kinds.clone(),
                ledger: parts.ledger.clone(),
                resolver: common.resolver.clone(),
                planning: common.planning.clone(),
            },
            purging: purging.clone(),
            orphans: orphans.clone(),
            native: native.clone(),
            activities: common.activities.clone(),
            federation: common.federation.clone(),
        },
        commands: Arc::new(commands(parts, common, purging, orphans, native)),
    }
}

fn commands(
    parts: &EngineParts,
    common: &Common,
    purging: Arc<Purging>,
    orphans: Arc<Orphans>,
    native: Arc<NativeResources>,
) -> Commands {
    let drift = Arc::new(drift(parts, common));
    Commands {
        clock: parts.clock.clone(),
        ledger: parts.ledger.clone(),
        journal: common.reads.journal.clone(),
        sites: common.reads.sites.clone(),
        resolver: common.resolver.clone(),
        planning: common.planning.clone(),
        guards: common.guards.clone(),
        accepting: Accepting {
            clock: parts.clock.clone(),
            ledger: parts.ledger.clone(),
            journal: common.reads.journal.clone(),
            copies: common.copies.clone(),
            guards: common.guards.clone(),
            drift: drift.clone(),
        },
        bulk: BulkRetry {
            clock: parts.clock.clone(),
            ledger: parts.ledger.clone(),
            sites: common.reads.sites.clone(),
            journal: common.reads.journal.clone(),
            guards: common.guards.clone(),
        },
        drift,
        purging,
        orphans,
        native,
        pruning: common.pruning.clone(),
        logins: common.logins.clone(),
        federation: common.federation.clone(),
        works: common.works.clone(),
    }
}

fn reconcilers(parts: &EngineParts, common: &Common) -> Reconcilers {
    let owner = common.federation.as_ref().map(|it| it.owner.clone());
    Reconcilers {
        clock: parts.clock.clone(),
        ledger: parts.ledger.clone(),
        journal: common.reads.journal.clone(),
        sites: common.reads.sites.clone(),
        works: common.works.clone(),
        retrying: common.activities.add(Reconciler::Retry),
        plan_queue: Arc::new(PlanQueue {
            clock: parts.clock.clone(),
            ledger: parts.ledger.clone(),
            journal: common.reads.journal.clone(),
            schedules: common.schedules.clone(),
            planning: common.planning.clone(),
            tombstones: parts.tombstones.clone(),
            mapping: parts.settings.mapping.clone(),
            owner: owner.clone(),
            activity: common.activities.add(Reconciler::Planning),
            queued: Mutex::default(),
        }),
        dispatching: Arc::new(Dispatching {
            clock: parts.clock.clone(),
            ledger: parts.ledger.clone(),
            reads: common.reads.clone(),
            schedules: common.schedules.clone(),
            logins: common.logins.clone(),
            diagnosis: Arc::new(diagnosis(parts, common)),
            call_timeout: parts.settings.engine.call_timeout,
            owner,
            activity: common.activities.add(Reconciler::Dispatch),
        }),
        verifying: Arc::new(verifying(parts, common)),
        sweep: Arc::new(sweep(parts, common)),
        pruning: common.pruning.clone(),
        publishing: common.publishing.clone(),
        logins: common.logins.clone(),
        federation: common.federation.clone(),
    }
}

fn purging(parts: &EngineParts, common: &Common) -> Purging {
    Purging {
        clock: parts.clock.clone(),
        ledger: parts.ledger.clone(),
        reads: common.reads.clone(),
        schedules: common.schedules.clone(),
        planning: common.planning.clone(),
        guards: common.guards.clone(),
        protect: parts.settings.guard.protect.clone(),
    }
}

fn orphans(parts: &EngineParts, common: &Common) -> Orphans {
    Orphans {
        clock: parts.clock.clone(),
        ledger: parts.ledger.clone(),
        reads: common.reads.clone(),
        resolver: common.resolver.clone(),
        confirming: common.confirming.clone(),
        guards: common.guards.clone(),
    }
}

fn drift(parts: &EngineParts, common: &Common) -> DriftAnswers {
    DriftAnswers {
        clock: parts.clock.clone(),
        ledger: parts.ledger.clone(),
        kinds: parts.kinds.clone(),
        sites: common.reads.sites.clone(),
        journal: common.reads.journal.clone(),
        guards: common.guards.clone(),
        planning: common.planning.clone(),
    }
}

fn status(parts: &EngineParts) -> EngineStatus {
    EngineStatus {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        pid: std::process::id(),
        epoch: parts.epoch,
        started_at: Some(parts.clock.now()),
        read_only: parts.settings.guard.read_only,
        follows: !parts.ledger.membership().leads,
        fault: None,
        unreachable_since: None,
        ledger: parts.ledger_name.clone(),
    }
}

fn logins(parts: &EngineParts, reads: &Reads, activities: &Activities) -> Logins {
    Logins {
        clock: parts.clock.clone(),
        cloud: parts.cloud.clone(),
        ledger: parts.ledger.clone(),
        sites: reads.sites.clone(),
        journal: reads.journal.clone(),
        every: parts.settings.engine.sign_in_every,
        activity: activities.add(Reconciler::SignIn),
    }
}

fn confirming(parts: &EngineParts, reads: &Arc<Reads>, logins: &Arc<Logins>) -> Confirming {
    Confirming {
        clock: parts.clock.clone(),
        ledger: parts.ledger.clone(),
        reads: reads.clone(),
        observing: Observing {
            ledger: parts.ledger.clone(),
            reads: reads.clone(),
        },
        logins: logins.clone(),
        rights: Mutex::default(),
    }
}

fn verifying(parts: &EngineParts, common: &Common) -> Verifying {
    Verifying {
        clock: parts.clock.clone(),
        ledger: parts.ledger.clone(),
        kinds: parts.kinds.clone(),
        sites: common.reads.sites.clone(),
        journal: common.reads.journal.clone(),
        schedules: common.schedules.clone(),
        confirming: common.confirming.clone(),
        diagnosis: diagnosis(parts, common),
        activity: common.activities.add(Reconciler::Verify),
        observations: Mutex::default(),
    }
}

fn diagnosis(parts: &EngineParts, common: &Common) -> Diagnosis {
    Diagnosis {
        clock: parts.clock.clone(),
        ledger: parts.ledger.clone(),
        journal: common.reads.journal.clone(),
        reads: common.reads.clone(),
        planning: common.planning.clone(),
    }
}

fn guards(parts: &EngineParts, reads: &Reads, resolver: &Arc<Resolver>) -> Guards {
    Guards {
        clock: parts.clock.clone(),
        kinds: parts.kinds.clone(),
        sites: reads.sites.clone(),
        journal: reads.journal.clone(),
        resolver: resolver.clone(),
        protect: parts.settings.guard.protect.clone(),
    }
}

fn sweep(parts: &EngineParts, common: &Common) -> Sweep {
    let removal = Arc::new(Removal {
        clock: parts.clock.clone(),
        journal: common.reads.journal.clone(),
        recreate_max: parts.settings.gc.recreate_max,
    });
    Sweep {
        clock: parts.clock.clone(),
        ledger: parts.ledger.clone(),
        reads: common.reads.clone(),
        removal: removal.clone(),
        copies: CopySweep {
            clock: parts.clock.clone(),
            ledger: parts.ledger.clone(),
            journal: common.reads.journal.clone(),
            reads: common.reads.clone(),
            copies: common.copies.clone(),
            removal,
        },
        every: parts.settings.engine.sweep,
        hold_down: parts.settings.ledger.hold_down,
        activity: common.activities.add(Reconciler::Sweep),
    }
}

fn pruning(parts: &EngineParts, journal: &Arc<Journal>, activities: &Activities) -> Pruning {
    Pruning {
        clock: parts.clock.clone(),
        journal: journal.clone(),
        retention: parts.settings.ledger.retention,
        hold_down: parts.settings.ledger.hold_down,
        unique_id_kinds: parts.kinds.unique_id_kinds(),
        activity: activities.add(Reconciler::Prune),
    }
}

fn publishing(
    parts: &EngineParts,
    reads: &Reads,
    first: Snapshot,
    activities: &Activities,
) -> Publishing {
    Publishing {
        clock: parts.clock.clone(),
        ledger: parts.ledger.clone(),
        kinds: parts.kinds.clone(),
        sites: reads.sites.clone(),
        journal: reads.journal.clone(),
        snapshot: watch::Sender::new(Arc::new(first)),
        activity: activities.add(Reconciler::Publish),
        is_busy: AtomicBool::new(false),
    }
}
