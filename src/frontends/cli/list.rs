//! `gone list`: lists deletions, stuck and retrying steps with the reasons, tombstones, orphans, sites,
//! gates, deployments, and the resources of a kind.

use chrono::{DateTime, TimeDelta, Utc};

use super::args::{ListArgs, ListWhat};
use super::columns;
use super::exit::Exit;
use super::failure::Failure;
use super::session::{PAGE_ROWS, Session};
use crate::control::query;
use crate::domain::attention;
use crate::domain::model::{Deletion, DeletionState, Orphan, Step, StepState, Tombstone};

pub(super) async fn run(session: &mut Session<'_>, args: ListArgs) -> Result<Exit, Failure> {
    let tried = format!("list {}", args.what);
    let now = session.clock.now();
    let before = args
        .older_than
        .and_then(|age| now.checked_sub_signed(TimeDelta::from_std(age).ok()?));
    let by_site = args.what != ListWhat::Deployments;
    if by_site && (session.global.cloud.is_some() || !session.global.region.is_empty()) {
        // A mistyped site would otherwise look empty.
        let sites = session.sites(&tried).await?;
        session.chosen_sites(&tried, &sites)?;
    }
    match args.what {
        ListWhat::Deletions => {
            let rows = deletions(session, &tried, Vec::new(), before).await?;
            session.print_deletions(&rows)?;
        }
        ListWhat::Stuck => {
            let rows = stuck(session, &tried, before).await?;
            session.print_rows(columns::WAITING_STEPS, &rows)?;
        }
        ListWhat::Retrying => {
            let rows = waiting(session, &tried, &[StepState::Blocked], before).await?;
            session.print_rows(columns::WAITING_STEPS, &rows)?;
        }
        ListWhat::Tombstones => {
            let mut rows = tombstones(session, &tried).await?;
            // A record without a time has no age, as while a re-created resource lives (M1).
            rows.retain(|row| {
                before.is_none_or(|time| in_phase_since(row).is_some_and(|since| since < time))
            });
            session.print_rows(columns::TOMBSTONES, &rows)?;
        }
        what if before.is_some() => {
            let message = format!("--older-than does not apply to {what}");
            let advice = "It applies to deletions, stuck, retrying and tombstones.";
            return Err(Failure::usage(tried, message, advice));
        }
        ListWhat::Orphans => {
            let rows = orphans(session, &tried).await?;
            session.print_rows(columns::ORPHANS, &rows)?;
        }
        ListWhat::Sites => {
            let mut rows = session.sites(&tried).await?;
            rows.retain(|row| session.chooses(&row.site));
            session.print_rows(columns::SITES, &rows)?;
        }
        ListWhat::Causes => {
            let mut sites = Vec::new();
            if session.global.cloud.is_some() || !session.global.region.is_empty() {
                let known = session.sites(&tried).await?.into_iter().map(|row| row.site);
                sites.extend(known.filter(|site| session.chooses(site)));
            }
            let rows = session.ask(&tried, query::Causes { sites }).await?;
            session.print_rows(columns::CAUSES, &rows)?;
        }
        ListWhat::Gates => {
            let mut rows = session.ask(&tried, query::Gates {}).await?;
            rows.retain(|row| session.chooses(&row.site));
            session.print_rows(columns::GATES, &rows)?;
        }
        ListWhat::Deployments => {
            if session.global.cloud.is_some() {
                let message = "--cloud does not apply to deployments: they belong to no cloud";
                let advice = "Choose them with --region.";
                return Err(Failure::usage(tried, message, advice));
            }
            let mut rows = session.ask(&tried, query::Deployments {}).await?;
            let regions = &session.global.region;
            rows.retain(|row| regions.is_empty() || regions.contains(&row.region));
            session.print_rows(columns::DEPLOYMENTS, &rows)?;
        }
        ListWhat::Kind(kind) => return resources(session, &tried, &kind).await,
    }
    Ok(Exit::Done)
}

async fn deletions(
    session: &Session<'_>,
    tried: &str,
    states: Vec<DeletionState>,
    older_than: Option<DateTime<Utc>>,
) -> Result<Vec<Deletion>, Failure> {
    let deletions = query::Deletions {
        states,
        older_than,
        limit: PAGE_ROWS,
        ..query::Deletions::default()
    };
    let is_chosen = |row: &Deletion| {
        let mut sites = row.targets.iter().map(|target| &target.key.site);
        row.targets.is_empty() || sites.any(|site| session.chooses(site))
    };
    session.ask_all(tried, deletions, is_chosen).await
}

/// Lists what needs a person: stuck steps, then steps that are still retried, steps that a cloud works on
/// for long, and refused deletions.
async fn stuck(
    session: &Session<'_>,
    tried: &str,
    older_than: Option<DateTime<Utc>>,
) -> Result<Vec<Step>, Failure> {
    let mut all = waiting(session, tried, &attention::STEP_STATES, older_than).await?;
    all.retain(attention::needs_person);
    all.sort_by_key(|step| step.state != StepState::Stuck);
    let snapshot = session.control.snapshot().borrow().clone();
    let slow = snapshot.attention.iter().filter(|step| {
        let long_enough = older_than.is_none_or(|time| step.blocked_since < Some(time));
        step.state == StepState::Verifying
            && long_enough
            && session.chooses(&step.resource.key.site)
    });
    all.extend(slow.cloned());
    let refused = deletions(session, tried, vec![DeletionState::Refused], older_than).await?;
    all.extend(refused.iter().filter_map(attention::refused_step));
    Ok(all)
}

async fn waiting(
    session: &Session<'_>,
    tried: &str,
    states: &[StepState],
    older_than: Option<DateTime<Utc>>,
) -> Result<Vec<Step>, Failure> {
    let steps = query::Steps {
        states: states.to_vec(),
        older_than,
        limit: PAGE_ROWS,
        ..query::Steps::default()
    };
    let is_chosen = |step: &Step| session.chooses(&step.resource.key.site);
    session.ask_all(tried, steps, is_chosen).await
}

async fn tombstones(session: &Session<'_>, tried: &str) -> Result<Vec<Tombstone>, Failure> {
    let tombstones = query::Tombstones {
        limit: PAGE_ROWS,
        ..query::Tombstones::default()
    };
    let is_chosen = |row: &Tombstone| session.chooses(&row.key.site);
    session.ask_all(tried, tombstones, is_chosen).await
}

/// Returns the time when the tombstone's phase began, if it is on record.
fn in_phase_since(row: &Tombstone) -> Option<DateTime<Utc>> {
    row.gone_at.or(row.deleted_at)
}

async fn orphans(session: &Session<'_>, tried: &str) -> Result<Vec<Orphan>, Failure> {
    let orphans = query::Orphans {
        limit: PAGE_ROWS,
        ..query::Orphans::default()
    };
    let is_chosen = |row: &Orphan| session.chooses(&row.resource.key.site);
    session.ask_all(tried, orphans, is_chosen).await
}

/// Lists resources afresh. A site that could not be listed is named, and never looks empty.
async fn resources(session: &mut Session<'_>, tried: &str, kind: &str) -> Result<Exit, Failure> {
    let kinds = session.ask(tried, query::Kinds {}).await?;
    let info = kinds
        .iter()
        .find(|info| info.name.as_str() == kind || info.aliases.iter().any(|alias| alias == kind));
    let sites = session.sites(tried).await?;
    let mut chosen = sites.iter().filter(|row| session.chooses(&row.site));
    // A single chosen site is queried alone; otherwise all are, and the rest is left out.
    let site = match (chosen.next(), chosen.next()) {
        (Some(only), None) => Some(only.site.clone()),
        _ => None,
    };
    let kind = kind.to_owned();
    let listings = session.ask(tried, query::Resources { kind, site }).await?;
    let mut resources = Vec::new();
    let mut exit = Exit::Done;
    for listing in listings {
        if !session.chooses(&listing.site) {
            continue;
        }
        if let Some(error) = &listing.error {
            let line = format!("gone: cannot {tried} at {}: {error}", listing.site);
            writeln!(session.err, "{}", session.style.safe(&line))?;
            exit = Exit::first_of([exit, Exit::of_listing(listing.class)]);
        }
        resources.extend(listing.rows);
    }
    session.print_sheet(&columns::resources(info, &resources), &resources)?;
    Ok(exit)
}
