//! The panes, each in its own file. Besides that file, a new pane needs only its `mod` line and its line in the table
//! below. (The table does not declare the modules, because rustfmt finds only `mod` lines that are written out.)

mod attention;
mod blockers;
mod browse;
mod causes;
mod census;
mod chart;
mod columns;
mod deletions;
mod deployments;
mod details;
mod drift;
mod engine;
mod engines;
mod events;
mod explain;
mod forest;
mod gates;
mod heat;
mod help;
mod home;
mod inspect;
pub(crate) mod kit;
mod ladder;
mod names;
mod orphans;
mod plan;
mod search;
mod sites;
mod step_names;
mod tombstones;
mod tour;
mod tree;
mod yaml;

use std::collections::VecDeque;

use chrono::{DateTime, Utc};

use self::kit::{ColumnOffer, Keymap, Pane, Scope};
use super::render_context::ConsoleMessage;
use crate::control::KindInfo;
use crate::domain::attention::Cause;
use crate::domain::ladder::PurgeScope;
use crate::domain::model::{Deletion, Refusal, Resource, ResourceKey, Target};

/// A new pane, or a message that says why the console cannot open it.
pub(crate) type Opened = Result<Box<dyn Pane>, &'static str>;

/// A pane that a word after `:` opens.
pub(crate) struct NamedPane {
    pub(crate) word: &'static str,
    /// Describes what the pane shows.
    pub(crate) about: &'static str,
    pub(crate) open: fn(&Around<'_>) -> Opened,
}

/// The state of the console that a new pane may need.
pub(crate) struct Around<'a> {
    pub(crate) keys: &'a Keymap,
    pub(crate) kinds: &'a [KindInfo],
    /// The scope of the pane on top.
    pub(crate) scope: Scope,
    pub(crate) messages: &'a VecDeque<ConsoleMessage>,
    /// Whether the console shows a replay.
    pub(crate) replays: bool,
    /// Whether the console shows the practice cloud with the scenario that `:tour` is about.
    pub(crate) practices: bool,
}

/// A record that can be shown as YAML.
pub(crate) enum Record {
    /// A resource, as it was listed at that time.
    Resource(Box<Resource>, DateTime<Utc>),
    /// A step or a deletion, as it is now.
    Work(PurgeScope),
}

fn named(word: &str, opened: Opened) -> Opened {
    opened.map(|mut pane| {
        pane.list_mut().word = Some(word.to_owned());
        pane
    })
}

macro_rules! panes {
    (words { $($word:literal, $about:literal => $named:expr;)* }
     routes { $($route:ident($($part:ident: $type:ty),*) => $routed:expr;)* }) => {
        /// The panes that have a word after `:`.
        pub(crate) static NAMED_PANES: &[NamedPane] = &[
            $(NamedPane {
                word: $word,
                about: $about,
                open: |around| named($word, $named(around)),
            },)*
        ];

        /// A pane, and what it shows. A pane names the next one by its route, so that no pane imports another.
        pub(crate) enum Route { $($route($($type),*),)* }

        pub(crate) fn open(route: Route) -> Box<dyn Pane> {
            match route { $(Route::$route($($part),*) => $routed,)* }
        }
    };
}

panes! {
    words {
        "home", "the steps and deletions that need you or run, when blocked steps are retried, and the sites" => home::open;
        "deletions", "all deletions, with their progress" => deletions::open;
        "stuck", "the steps and refused deletions that need a person, and why" => attention::open_stuck;
        "causes", "the steps that need a person, by cause: many steps can be retried at once" => causes::open;
        "retrying", "blocked steps, with their next attempt" => attention::open_retrying;
        "orphans", "the resources of abandoned steps, and whether they still exist" => orphans::open;
        "drift", "deletions that wait for your answer about resources that appeared after their plan" => drift::open;
        "tombstones", "the tombstones that keep deleted resources deleted, until they are released" => tombstones::open;
        "events", "the events of the ledger, and all messages of this console" => events::open;
        "sites", "the regions, whether they answer and how fast" => sites::open;
        "gates", "the gates, and how many requests each of them passed on, changed or refused" => gates::open;
        "deployments", "other deployments: how far each watch is, and how many steps wait for their clearance" => deployments::open;
        "engine", "the tasks of the engine: under way, last and next" => engine::open;
        "engines", "the engines that share the ledger: which one leads, and what each works on" => engines::open;
        "tour", "things to try in the practice cloud" => tour::open;
        "help", "all keys" => help::open;
    }
    routes {
        Cause(cause: Cause) => attention::of(cause);
        Browse(kind: KindInfo) => browse::of(kind);
        Details(resource: Box<Resource>, listed_at: DateTime<Utc>) => details::of(resource, listed_at);
        Yaml(record: Record, words: String) => yaml::of(record, words);
        Columns(owner: String, offers: Vec<ColumnOffer>) => columns::of(owner, offers);
        Explain(key: ResourceKey, words: String) => explain::of(key, words);
        Blockers(of: PurgeScope, words: String) => blockers::of(of, words);
        PlanBlockers(refused: Vec<Refusal>, words: String) => blockers::of_plan(&refused, words);
        Plan(targets: Vec<Target>, cascade: bool) => plan::of(targets, cascade);
        Tree(deletion_id: String) => tree::of(deletion_id);
        Chart(deletion: Box<Deletion>) => chart::of(&deletion);
        InspectDeletion(deletion: Box<Deletion>) => inspect::of_deletion(*deletion);
        InspectStep(id: i64, deletion_id: String) => inspect::of_step(id, deletion_id);
        Ladder(of: PurgeScope, words: String) => ladder::of(of, words);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_word_opens_the_pane_of_this_word() {
        let around = Around {
            keys: &Keymap::default(),
            kinds: &[],
            scope: Scope::Everywhere,
            messages: &VecDeque::new(),
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
