//! `gone list`: lists deletions, stuck and retrying steps with the reasons, the causes because of which steps need a
//! person, tombstones, orphans, sites, gates, deployments, the engine's reconcilers, the engines of the ledger, and
//! the resources of a kind.

use std::time::Duration;

use chrono::{DateTime, Utc};
use clap::Args;
use strum::{Display, EnumString, VariantNames};

use super::{Exit, Failure, Session, Verb, columns};
use crate::control::{KindInfo, SiteStatus, query};
use crate::domain::model::{Deletion, DeletionState, Orphan, Step, StepState, Tombstone};
use crate::domain::text::{did_you_mean, escape};
use crate::domain::{attention, duration};

/// List deletions, steps that need a person, sites, or the resources of a kind
#[derive(Clone, Debug, Args)]
#[command(after_long_help = "\
Examples:
  gone list                             deletions
  gone list stuck --older-than 24h      steps and deletions that have needed a person for a day
  gone list causes                      the causes, the most frequent first: gone retry --all --type ...
  gone list retrying                    blocked steps, and when each is attempted next
  gone list network --cloud prod        the networks of a cloud, listed now
  gone list orphans                     abandoned resources, and whether they still exist
  gone list deployments                 other deployments, and how many steps wait for their clearance
  gone list engine                      what the engine does, did last and does next
  gone list engines                     the engines that share the ledger, and which one leads
  gone list tombstones -o jsonl")]
pub struct List {
    /// The list: deletions, stuck, causes, retrying, tombstones, orphans, sites, gates, deployments, engine, engines, or a kind
    #[arg(default_value = "deletions", value_name = "WHAT")]
    pub what: What,
    /// Only rows that are older than this [24h without a value]
    ///
    /// A deletion counts from its request, a step or tombstone from when it got its state. Applies to deletions, stuck,
    /// retrying and tombstones.
    #[arg(long, value_name = "DURATION", num_args = 0..=1, default_missing_value = "24h", value_parser = duration::parse)]
    pub older_than: Option<Duration>,
}

/// The lists of `gone list`.
#[derive(Clone, Debug, Display, EnumString, VariantNames)]
#[strum(serialize_all = "lowercase")]
pub enum What {
    Deletions,
    Stuck,
    Causes,
    /// Blocked steps.
    #[strum(to_string = "retrying", serialize = "gc")]
    Retrying,
    Tombstones,
    Orphans,
    Sites,
    Gates,
    Deployments,
    /// The engine's reconcilers.
    Engine,
    /// The engines that share the ledger.
    Engines,
    /// The resources of a kind, by its name or an alias.
    #[strum(default)]
    Kind(String),
}

impl What {
    /// The words for all lists except the list of a kind's resources.
    pub const LISTS: &'static [&'static str] = match Self::VARIANTS.split_last() {
        Some((_kind, lists)) => lists,
        None => &[],
    };
}

impl Verb for List {
    const READS: bool = true;

    async fn run(self, session: &mut Session<'_>) -> Result<Exit, Failure> {
        session.action_words = format!("list {}", self.what);
        let now = session.clock.now();
        let before = self.older_than.map(|age| now - age);
        let names_sites = session.global.cloud.is_some() || !session.global.region.is_empty();
        let mut sites = session.sites().await?;
        if !matches!(self.what, What::Deployments | What::Engine | What::Engines) {
            // Otherwise the list of a mistyped site would be empty.
            session.chosen_sites(&sites)?;
        }
        sites.retain(|row| session.chooses(&row.site));
        match self.what {
            What::Deletions => {
                let rows = deletions(session, Vec::new(), before).await?;
                session.out.rows(&columns::deletions(&rows), &rows)?;
            }
            What::Stuck => {
                let rows = stuck(session, before).await?;
                session.out.list(columns::WAITING_STEPS, &rows)?;
            }
            What::Retrying => {
                let rows = waiting(session, &[StepState::Blocked], before).await?;
                session.out.list(columns::WAITING_STEPS, &rows)?;
            }
            What::Tombstones => {
                let rows = tombstones(session, before).await?;
                session.out.list(columns::TOMBSTONES, &rows)?;
            }
            what if before.is_some() => {
                let message = format!("--older-than does not apply to {what}");
                let advice = "It applies to deletions, stuck, retrying and tombstones.";
                return Err(Failure::wrong(message, advice));
            }
            What::Orphans => {
                let is_chosen = |row: &Orphan| session.chooses(&row.resource.key.site);
                let all = query::Orphans::default();
                let rows = session.ask_all(all, is_chosen).await?;
                session.out.list(columns::ORPHANS, &rows)?;
            }
            What::Sites => session.out.list(columns::SITES, &sites)?,
            What::Causes => {
                if !names_sites {
                    // An empty list means all sites, also those that are no longer served.
                    sites.clear();
                }
                let sites = sites.into_iter().map(|row| row.site).collect();
                let rows = session.ask(query::Causes { sites }).await?;
                session.out.list(columns::CAUSES, &rows)?;
            }
            What::Gates => {
                let mut rows = session.ask(query::Gates {}).await?;
                rows.retain(|row| session.chooses(&row.site));
                session.out.list(columns::GATES, &rows)?;
            }
            What::Deployments => {
                if session.global.cloud.is_some() {
                    let message = "--cloud does not apply to deployments: they belong to no cloud";
                    return Err(Failure::wrong(message, "Choose them with --region."));
                }
                let mut rows = session.ask(query::Deployments {}).await?;
                let regions = &session.global.region;
                rows.retain(|row| regions.is_empty() || regions.contains(&row.region));
                let sheet = columns::with(now, columns::DEPLOYMENTS, &rows);
                session.out.rows(&sheet, &rows)?;
            }
            What::Engine | What::Engines if names_sites => {
                let message =
                    "--cloud and --region do not apply to the engine: it works for all its sites";
                return Err(Failure::wrong(message, "`gone list sites` takes them."));
            }
            What::Engines => {
                let rows = session.ask(query::Engines {}).await?;
                let sheet = columns::with(now, columns::ENGINES, &rows);
                session.out.rows(&sheet, &rows)?;
            }
            What::Engine => {
                let rows = session.ask(query::Reconcilers {}).await?;
                session.out.list(columns::RECONCILERS, &rows)?;
            }
            What::Kind(kind) => return resources(session, kind, &sites).await,
        }
        Ok(Exit::Done)
    }
}

async fn deletions(
    session: &Session<'_>,
    states: Vec<DeletionState>,
    older_than: Option<DateTime<Utc>>,
) -> Result<Vec<Deletion>, Failure> {
    let deletions = query::Deletions {
        states,
        older_than,
        ..query::Deletions::default()
    };
    let is_chosen = |row: &Deletion| {
        let mut sites = row.targets.iter().map(|target| &target.key.site);
        row.targets.is_empty() || sites.any(|site| session.chooses(site))
    };
    session.ask_all(deletions, is_chosen).await
}

/// Lists the steps and deletions that need a person: stuck steps, then steps that are still retried, steps that a cloud
/// has been working on for a long time, and refused deletions.
async fn stuck(
    session: &Session<'_>,
    older_than: Option<DateTime<Utc>>,
) -> Result<Vec<Step>, Failure> {
    let mut all = waiting(session, &attention::STEP_STATES, older_than).await?;
    all.retain(attention::needs_person);
    all.sort_by_key(|step| step.state != StepState::Stuck);
    let snapshot = session.control.snapshot().borrow().clone();
    let slow = snapshot.attention.iter().filter(|step| {
        let long_enough = older_than.is_none_or(|time| step.blocked_since < Some(time));
        let is_chosen = session.chooses(&step.resource.key.site);
        step.state == StepState::Verifying && long_enough && is_chosen
    });
    all.extend(slow.cloned());
    let refused = deletions(session, vec![DeletionState::Refused], older_than).await?;
    all.extend(refused.iter().filter_map(attention::refused_step));
    Ok(all)
}

async fn waiting(
    session: &Session<'_>,
    states: &[StepState],
    older_than: Option<DateTime<Utc>>,
) -> Result<Vec<Step>, Failure> {
    let steps = query::Steps {
        states: states.to_vec(),
        older_than,
        ..query::Steps::default()
    };
    let is_chosen = |step: &Step| session.chooses(&step.resource.key.site);
    session.ask_all(steps, is_chosen).await
}

async fn tombstones(
    session: &Session<'_>,
    older_than: Option<DateTime<Utc>>,
) -> Result<Vec<Tombstone>, Failure> {
    let is_chosen = |row: &Tombstone| {
        // A record without a time, such as that of a re-created resource that exists (M1), has no age.
        let in_phase_since = row.gone_at.or(row.deleted_at);
        let is_older = |time| in_phase_since.is_some_and(|since| since < time);
        session.chooses(&row.key.site) && older_than.is_none_or(is_older)
    };
    let all = query::Tombstones::default();
    session.ask_all(all, is_chosen).await
}

/// The failure for a word that is neither a list nor a kind.
fn unknown(word: &str, kinds: &[KindInfo]) -> Failure {
    let kinds: Vec<&str> = kinds.iter().map(|kind| kind.name.as_str()).collect();
    let known = [What::LISTS, kinds.as_slice()].concat();
    let near = did_you_mean(&word.to_lowercase(), known);
    let word = escape(word);
    let message = format!("there is no list and no kind \"{word}\"{near}");
    let (lists, kinds) = (What::LISTS.join(", "), kinds.join(", "));
    Failure::wrong(message, format!("The lists: {lists}. The kinds: {kinds}."))
}

/// Lists resources afresh. Names each site that could not be listed, so that the site does not look empty.
async fn resources(
    session: &mut Session<'_>,
    kind: String,
    sites: &[SiteStatus],
) -> Result<Exit, Failure> {
    let kinds = session.ask(query::Kinds {}).await?;
    let info = KindInfo::find(&kinds, &kind).map_err(|_| unknown(&kind, &kinds))?;
    // A single chosen site is queried alone; otherwise all sites are queried, and the lists of those that were not
    // chosen are left out.
    let site = match sites {
        [only] => Some(only.site.clone()),
        _ => None,
    };
    let resources = query::Resources {
        kind,
        site,
        ..query::Resources::default()
    };
    let mut listings = session.ask(resources).await?;
    listings.retain(|listing| session.chooses(&listing.site));
    let mut exits = Vec::new();
    for listing in &listings {
        if let Some(error) = &listing.error {
            let (action_words, site) = (&session.action_words, &listing.site);
            let line = format!("gone: cannot {action_words} at {site}: {error}");
            session.err.say(line)?;
            exits.push(Exit::of_listing(listing.class));
        }
    }
    let rows: Vec<_> = listings.into_iter().flat_map(|it| it.rows).collect();
    session.out.rows(&columns::resources(info, &rows), &rows)?;
    Ok(Exit::first_of(exits))
}
