//! Connects the engine's parts: each gets what it needs, and knows nothing of the rest.

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};

use tokio::sync::watch;

use super::bulk::BulkRetry;
use super::confirm::Confirming;
use super::copies::CopySearch;
use super::diagnose::Diagnosis;
use super::drift::DriftAnswers;
use super::guards::Guards;
use super::journal::Journal;
use super::logins::Logins;
use super::observe::Observing;
use super::orphans::Orphans;
use super::peers::Deployments;
use super::planning::Planning;
use super::prune::Pruning;
use super::purge::Purging;
use super::reads::Reads;
use super::removal::Removal;
use super::resolve::Resolver;
use super::schedules::Schedules;
use super::sites::Sites;
use super::snapshot::Publishing;
use super::sweep::Sweep;
use super::sweep_copies::CopySweep;
use super::verify::Verifying;
use super::{Parts, Shared};
use crate::control::{EngineStatus, Snapshot};

pub(super) fn shared(parts: Parts) -> Shared {
    let status = status(&parts);
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
        sites: sites.clone(),
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
    let planning = Arc::new(Planning {
        clock: parts.clock.clone(),
        reads: reads.clone(),
        resolver: resolver.clone(),
        copies: copies.clone(),
        protect: parts.settings.guard.protect.clone(),
    });
    let logins = Arc::new(logins(&parts, &reads));
    let schedules = Arc::new(Schedules {
        kinds: parts.kinds.clone(),
        gc: parts.settings.gc.clone(),
        verify_max: parts.settings.engine.verify_timeout,
    });
    let confirming = Arc::new(confirming(&parts, &reads, &logins));
    let guards = Arc::new(guards(&parts, &reads, &resolver));
    Shared {
        sweep: Arc::new(sweep(&parts, &reads, &copies)),
        pruning: Arc::new(pruning(&parts, &journal)),
        publishing: Arc::new(publishing(&parts, &reads, first)),
        verifying: Arc::new(verifying(&parts, &reads, &schedules, &confirming)),
        diagnosis: Arc::new(diagnosis(&parts, &reads, &planning)),
        bulk: bulk(&parts, &reads, &guards),
        drift: drift(&parts, &reads, &planning, &guards),
        purging: Purging {
            clock: parts.clock.clone(),
            ledger: parts.ledger.clone(),
            reads: reads.clone(),
            schedules: schedules.clone(),
            planning: planning.clone(),
            guards: guards.clone(),
            protect: parts.settings.guard.protect.clone(),
        },
        orphans: Orphans {
            clock: parts.clock.clone(),
            ledger: parts.ledger.clone(),
            reads: reads.clone(),
            resolver: resolver.clone(),
            confirming: confirming.clone(),
            guards: guards.clone(),
        },
        guards,
        ledger: parts.ledger,
        cloud: parts.cloud,
        kinds: parts.kinds,
        clock: parts.clock,
        settings: parts.settings,
        tombstones: parts.tombstones,
        gates: parts.gates,
        deployments: parts.neighbours.map(Deployments::new),
        sites,
        reads,
        copies,
        resolver,
        planning,
        logins,
        schedules,
        works: AtomicBool::new(true),
        journal,
        keys_in_use: Arc::default(),
    }
}

fn status(parts: &Parts) -> EngineStatus {
    EngineStatus {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        pid: std::process::id(),
        epoch: parts.epoch,
        started_at: Some(parts.clock.now()),
        read_only: parts.settings.guard.read_only,
        fault: None,
        ledger: parts.ledger_name.clone(),
    }
}

fn logins(parts: &Parts, reads: &Reads) -> Logins {
    Logins {
        clock: parts.clock.clone(),
        cloud: parts.cloud.clone(),
        ledger: parts.ledger.clone(),
        sites: reads.sites.clone(),
        journal: reads.journal.clone(),
        every: parts.settings.engine.sign_in_every,
    }
}

fn confirming(parts: &Parts, reads: &Arc<Reads>, logins: &Arc<Logins>) -> Confirming {
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

fn verifying(
    parts: &Parts,
    reads: &Reads,
    schedules: &Arc<Schedules>,
    confirming: &Arc<Confirming>,
) -> Verifying {
    Verifying {
        clock: parts.clock.clone(),
        ledger: parts.ledger.clone(),
        kinds: parts.kinds.clone(),
        sites: reads.sites.clone(),
        journal: reads.journal.clone(),
        schedules: schedules.clone(),
        confirming: confirming.clone(),
    }
}

fn diagnosis(parts: &Parts, reads: &Arc<Reads>, planning: &Arc<Planning>) -> Diagnosis {
    Diagnosis {
        clock: parts.clock.clone(),
        ledger: parts.ledger.clone(),
        journal: reads.journal.clone(),
        reads: reads.clone(),
        planning: planning.clone(),
    }
}

fn guards(parts: &Parts, reads: &Reads, resolver: &Arc<Resolver>) -> Guards {
    Guards {
        clock: parts.clock.clone(),
        kinds: parts.kinds.clone(),
        sites: reads.sites.clone(),
        journal: reads.journal.clone(),
        resolver: resolver.clone(),
        protect: parts.settings.guard.protect.clone(),
    }
}

fn bulk(parts: &Parts, reads: &Reads, guards: &Arc<Guards>) -> BulkRetry {
    BulkRetry {
        clock: parts.clock.clone(),
        ledger: parts.ledger.clone(),
        sites: reads.sites.clone(),
        journal: reads.journal.clone(),
        guards: guards.clone(),
    }
}

fn drift(
    parts: &Parts,
    reads: &Reads,
    planning: &Arc<Planning>,
    guards: &Arc<Guards>,
) -> DriftAnswers {
    DriftAnswers {
        clock: parts.clock.clone(),
        ledger: parts.ledger.clone(),
        kinds: parts.kinds.clone(),
        sites: reads.sites.clone(),
        journal: reads.journal.clone(),
        guards: guards.clone(),
        planning: planning.clone(),
    }
}

fn sweep(parts: &Parts, reads: &Arc<Reads>, copies: &Arc<CopySearch>) -> Sweep {
    let removal = Arc::new(Removal {
        clock: parts.clock.clone(),
        journal: reads.journal.clone(),
        recreate_max: parts.settings.gc.recreate_max,
    });
    Sweep {
        clock: parts.clock.clone(),
        ledger: parts.ledger.clone(),
        reads: reads.clone(),
        removal: removal.clone(),
        copies: CopySweep {
            clock: parts.clock.clone(),
            ledger: parts.ledger.clone(),
            journal: reads.journal.clone(),
            reads: reads.clone(),
            copies: copies.clone(),
            removal,
        },
        every: parts.settings.engine.sweep,
        hold_down: parts.settings.ledger.hold_down,
    }
}

fn pruning(parts: &Parts, journal: &Arc<Journal>) -> Pruning {
    Pruning {
        clock: parts.clock.clone(),
        journal: journal.clone(),
        retention: parts.settings.ledger.retention,
        hold_down: parts.settings.ledger.hold_down,
        never_again: parts.kinds.never_again(),
    }
}

fn publishing(parts: &Parts, reads: &Reads, first: Snapshot) -> Publishing {
    Publishing {
        clock: parts.clock.clone(),
        ledger: parts.ledger.clone(),
        kinds: parts.kinds.clone(),
        sites: reads.sites.clone(),
        journal: reads.journal.clone(),
        snapshot: watch::Sender::new(Arc::new(first)),
    }
}
