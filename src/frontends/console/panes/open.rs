//! The only module that knows every pane: it creates the pane that a route or a word after `:` names.

use std::collections::VecDeque;

use super::Pane;
use super::attention::{AttentionPane, QueueKind};
use super::blockers::BlockersPane;
use super::causes::CausesPane;
use super::chart::ChartPane;
use super::deletions::DeletionsPane;
use super::deployments::DeploymentsPane;
use super::details::DetailsPane;
use super::events::EventsPane;
use super::explain::ExplainPane;
use super::gates::GatesPane;
use super::help::HelpPane;
use super::inspect::InspectPane;
use super::ladder::LadderPane;
use super::orphans::OrphansPane;
use super::plan::PlanPane;
use super::sites::SitesPane;
use super::tour::TourPane;
use super::tree::TreePane;
use crate::control::{KindInfo, Snapshot};
use crate::frontends::console::keys::{Keymap, Scope};
use crate::frontends::console::notice::Notice;
use crate::frontends::console::route::Route;

/// A pane that a word after `:` opens.
pub(crate) struct NamedPane {
    pub(crate) word: &'static str,
    /// Describes what the pane shows.
    pub(crate) about: &'static str,
    /// Creates the pane, or says why it cannot.
    pub(crate) open: fn(&Around<'_>) -> Result<Box<dyn Pane>, &'static str>,
}

/// The state of the console that a new pane may need.
pub(crate) struct Around<'a> {
    pub(crate) snapshot: &'a Snapshot,
    pub(crate) keys: &'a Keymap,
    pub(crate) kinds: &'a [KindInfo],
    /// The scope of the pane on top.
    pub(crate) scope: Scope,
    pub(crate) notices: &'a VecDeque<Notice>,
    /// Whether the console shows a replay.
    pub(crate) replays: bool,
    /// Whether the console shows the practice cloud.
    pub(crate) practices: bool,
}

pub(crate) static NAMED_PANES: &[NamedPane] = &[
    NamedPane {
        word: "deletions",
        about: "all deletions, with how far they are",
        open: |_| Ok(Box::new(DeletionsPane::new())),
    },
    NamedPane {
        word: "stuck",
        about: "what needs a person, and why it does not go",
        open: |_| Ok(Box::new(AttentionPane::new(QueueKind::Stuck))),
    },
    NamedPane {
        word: "causes",
        about: "what needs a person, by why: many are retried at once",
        open: |_| Ok(Box::new(CausesPane::new())),
    },
    NamedPane {
        word: "retrying",
        about: "blocked steps, with their next attempt",
        open: |_| Ok(Box::new(AttentionPane::new(QueueKind::Retrying))),
    },
    NamedPane {
        word: "orphans",
        about: "what was abandoned, and whether it still exists",
        open: |_| Ok(Box::new(OrphansPane::new())),
    },
    NamedPane {
        word: "events",
        about: "what happened, and all messages of this console",
        open: |around| Ok(Box::new(EventsPane::new(around.notices.iter()))),
    },
    NamedPane {
        word: "sites",
        about: "the regions, whether they answer and how fast",
        open: |around| Ok(Box::new(SitesPane::new(around.snapshot))),
    },
    NamedPane {
        word: "gates",
        about: "what clients do through each gate, and what it refused",
        open: |_| Ok(Box::new(GatesPane::new())),
    },
    NamedPane {
        word: "deployments",
        about: "other deployments: what is heard of them, and what waits for their clearance",
        open: |_| Ok(Box::new(DeploymentsPane::new())),
    },
    NamedPane {
        word: "tour",
        about: "what there is to try in the practice cloud",
        open: |around| match around.practices {
            true => Ok(Box::new(TourPane::new())),
            false => Err("the tour is through the practice cloud: gone --sandbox"),
        },
    },
    NamedPane {
        word: "help",
        about: "all keys",
        open: |around| {
            let words = NAMED_PANES.iter().map(|pane| (pane.word, pane.about));
            let words = words.chain([("quit", "leave the console")]);
            let Around {
                scope, keys, kinds, ..
            } = around;
            Ok(Box::new(HelpPane::new(
                *scope,
                keys,
                words,
                kinds,
                around.replays,
            )))
        },
    },
];

pub(crate) fn open(route: Route) -> Box<dyn Pane> {
    match route {
        Route::Blockers {
            subject,
            rows,
            source,
        } => Box::new(BlockersPane::new(subject, rows, source)),
        Route::Causes => Box::new(CausesPane::new()),
        Route::Cause(cause) => Box::new(AttentionPane::of(cause)),
        Route::Chart(deletion) => Box::new(ChartPane::new(&deletion)),
        Route::Details(resource) => Box::new(DetailsPane::of(&resource)),
        Route::Explain { key, words } => Box::new(ExplainPane::new(key, words)),
        Route::InspectDeletion(deletion) => Box::new(InspectPane::of_deletion(&deletion)),
        Route::InspectStep { id, deletion_id } => Box::new(InspectPane::of_step(id, &deletion_id)),
        Route::Ladder { what, words } => Box::new(LadderPane::new(what, words)),
        Route::Plan { subjects, cascade } => Box::new(PlanPane::new(subjects, cascade)),
        Route::Tree(id) => Box::new(TreePane::new(id)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_word_opens_the_pane_of_this_word() {
        let around = Around {
            snapshot: &Snapshot::default(),
            keys: &Keymap::default(),
            kinds: &[],
            scope: Scope::Everywhere,
            notices: &VecDeque::new(),
            replays: false,
            practices: true,
        };
        for named in NAMED_PANES {
            let pane = (named.open)(&around);
            let word = pane.as_ref().map(|pane| pane.word());
            assert_eq!(word.ok(), Some(Some(named.word)));
        }
    }
}
