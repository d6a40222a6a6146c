//! `gone release`: releases a tombstone, or a deployment whose clearance steps wait for (G12).

use chrono::{DateTime, Utc};

use super::args::ReleaseArgs;
use super::exit::Exit;
use super::failure::Failure;
use super::session::Session;
use crate::control::{Command, DeploymentStatus, ImporterStatus, query};
use crate::domain::duration::rough;
use crate::domain::model::{KindName, Phase};
use crate::domain::text::did_you_mean;
use crate::present::time;

/// A word with a `/` names a tombstone, any other a deployment.
pub(super) async fn run(session: &mut Session<'_>, args: ReleaseArgs) -> Result<Exit, Failure> {
    let mut exits = Vec::new();
    for word in &args.words {
        let released = match word.contains('/') {
            true => tombstone(session, word, &args.why.reason).await,
            false => deployment(session, word, &args).await,
        };
        match released {
            Ok(released) => {
                let line = format!("{released}: released");
                writeln!(session.out, "{}", session.style.safe(&line))?;
            }
            Err(failure) => {
                failure.write(session.err, session.style, session.global.output)?;
                exits.push(failure.exit);
            }
        }
    }
    Ok(Exit::first_of(exits))
}

async fn tombstone(session: &Session<'_>, word: &str, reason: &str) -> Result<String, Failure> {
    let tried = format!("release {word}");
    let mut keys = Vec::new();
    for spec in session.targets(&tried, &[word.to_owned()]).await? {
        let tombstones = query::Tombstones {
            kind: Some(KindName::new(&spec.kind)),
            id: Some(spec.id_or_name.clone()),
            ..query::Tombstones::default()
        };
        let found = session.ask(&tried, tombstones).await?;
        let fits = found
            .rows
            .into_iter()
            .filter(|row| row.phase != Phase::Released && spec.site.matches(&row.key.site));
        keys.extend(fits.map(|row| row.key));
    }
    let advice = "Write KIND/ID@CLOUD/REGION; `gone list tombstones` shows them.";
    match keys.as_slice() {
        [key] => {
            let command = Command::Release { key: key.clone() };
            session.submit(&tried, command, reason).await?;
            Ok(key.to_string())
        }
        [] => Err(Failure::usage(tried, "no such tombstone", advice)),
        several => {
            let message = format!("{} tombstones fit", several.len());
            Err(Failure::usage(tried, message, advice))
        }
    }
}

async fn deployment(
    session: &mut Session<'_>,
    name: &str,
    args: &ReleaseArgs,
) -> Result<String, Failure> {
    let tried = format!("release deployment {name}");
    // Steps that wait for its clearance delete their resources then.
    session.refuse_if_read_only(&tried)?;
    let rows = session.ask(&tried, query::Deployments {}).await?;
    let (row, importer) = on_record(&tried, name, &rows)?;
    if !args.yes {
        confirm(session, &tried, name, row, importer).await?;
    }
    let command = Command::ReleaseImporter {
        name: name.to_owned(),
    };
    session.submit(&tried, command, &args.why.reason).await?;
    Ok(format!("deployment {name}"))
}

/// Finds the deployment among those whose clearance steps may wait for.
fn on_record<'a>(
    tried: &str,
    name: &str,
    rows: &'a [DeploymentStatus],
) -> Result<(&'a DeploymentStatus, &'a ImporterStatus), Failure> {
    let named = |row: &&DeploymentStatus| row.name.as_deref() == Some(name);
    let found = rows.iter().find(named);
    if let Some((row, importer)) = found.and_then(|row| Some((row, row.importer.as_ref()?))) {
        return Ok((row, importer));
    }
    let message = match found {
        Some(_) => {
            format!("nothing waits for the word of {name}: it does not refer to what is here")
        }
        None => {
            let importers = rows.iter().filter(|row| row.importer.is_some());
            let near = did_you_mean(name, importers.filter_map(|row| row.name.as_deref()));
            format!("no deployment \"{name}\" is on record{near}")
        }
    };
    let advice = "`gone list deployments` shows them; a tombstone is KIND/ID@CLOUD/REGION.";
    Err(Failure::usage(tried, message, advice))
}

/// Tells what the release means, and asks the person to type the name.
async fn confirm(
    session: &mut Session<'_>,
    tried: &str,
    name: &str,
    row: &DeploymentStatus,
    importer: &ImporterStatus,
) -> Result<(), Failure> {
    let style = session.style;
    if !style.in_terminal {
        return Err(Failure::usage(
            tried,
            "there is no terminal to confirm it on",
            "Add --yes to release it without being asked.",
        ));
    }
    let what = describe(name, row, importer, session.clock.now());
    writeln!(session.err, "{}", style.safe(&what))?;
    writeln!(
        session.err,
        "Once released, nothing waits for its clearance any more: references that it still has may dangle.\n\
         If it is not gone for good, it comes on record again when it watches again."
    )?;
    write!(
        session.err,
        "\nTo release it, type its name, {}: ",
        style.safe(name)
    )?;
    session.err.flush()?;
    if session.typed_line(tried).await?.trim() == name {
        return Ok(());
    }
    let message = "what was typed is not that; nothing was released";
    Err(Failure::usage(tried, message, ""))
}

/// `Deployment d0-1 (s0/r1): on record since …, seen 12s ago, 3 steps wait for its clearance`
fn describe(
    name: &str,
    row: &DeploymentStatus,
    importer: &ImporterStatus,
    now: DateTime<Utc>,
) -> String {
    let mut facts = Vec::new();
    if let Some(since) = importer.since {
        facts.push(format!("on record since {}", time(since)));
    }
    facts.push(match importer.seen_at {
        Some(at) => format!("seen {} ago", rough((now - at).num_seconds())),
        None => "not seen since the engine began".to_owned(),
    });
    facts.push(match importer.awaited {
        0 => "no step waits for its clearance".to_owned(),
        1 => "1 step waits for its clearance".to_owned(),
        n => format!("{n} steps wait for its clearance"),
    });
    format!("Deployment {name} ({}): {}", row.place(), facts.join(", "))
}
