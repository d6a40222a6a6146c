//! `gone release`: releases a tombstone, or a deployment, so that no step waits for its clearance any longer (G12).

use clap::Args;

use super::args::Why;
use super::columns::ago;
use super::{Exit, Failure, Needs, Session, Verb};
use crate::control::{Command, DeploymentStatus, ImporterStatus, query};
use crate::domain::model::{KindName, Phase};
use crate::domain::text::did_you_mean;
use crate::present::{time, waiting_words};

/// Release the tombstone of a resource that still exists, or a dead deployment
#[derive(Clone, Debug, Args)]
#[command(after_long_help = "\
A tombstone is released only if its resource is confirmed to exist and no deletion works on it.

`gone list deployments` shows the deployments that refer to resources here. After the release of one,
no deletion waits for its clearance any more, and references that it still has may lead to nothing. So its name
must be typed, unless --yes is given.

Examples:
  gone release port/4fdb...@prod/RegionOne
  gone release load_balancer/0c1a... --reason 'restored by its owner'
  gone release billing-1 --reason 'switched off for good, ticket 4711'")]
pub struct Release {
    /// Tombstones: KIND/ID[@CLOUD[/REGION]]; or names of deployments
    #[arg(required = true, value_name = "TOMBSTONE|PEER")]
    pub words: Vec<String>,
    /// Do not ask before a deployment is released
    #[arg(short, long)]
    pub yes: bool,
    #[command(flatten)]
    pub why: Why,
}

impl Verb for Release {
    fn needs(&self) -> Needs<'_> {
        Needs::reading(false).of_targets(&self.words)
    }

    async fn run(self, session: &mut Session<'_>) -> Result<Exit, Failure> {
        session.action_words = "release".to_owned();
        let release = async |session: &mut Session<'_>, word: &str| {
            // A tombstone is written KIND/ID, and no deployment's name has a slash.
            let (what, command) = match word.contains('/') {
                true => tombstone(session, word).await?,
                false => {
                    let released = deployment(session, word, self.yes).await;
                    released.map_err(|it| it.with_action(format!("release deployment {word}")))?
                }
            };
            session.submit(command, &self.why.reason, None, Ok).await?;
            Ok(session.out.say(format!("{what}: released"))?)
        };
        let (_, exit) = session.each(&self.words, release).await?;
        Ok(exit)
    }
}

/// Finds the tombstone that this argument names. Returns its key, and the command that releases it.
async fn tombstone(session: &Session<'_>, word: &str) -> Result<(String, Command), Failure> {
    let mut keys = Vec::new();
    for spec in session.targets(&[word.to_owned()]).await? {
        let kind = session.kind(&spec.kind).await;
        let tombstones = query::Tombstones {
            // A tombstone may be of a kind that gone no longer has.
            kind: Some(kind.clone().unwrap_or_else(|_| KindName::new(&spec.kind))),
            id: Some(spec.id_or_name.clone()),
            ..query::Tombstones::default()
        };
        let mut rows = session.ask(tombstones).await?.rows;
        rows.retain(|row| row.phase != Phase::Released && spec.site.matches(&row.key.site));
        if rows.is_empty() {
            kind?;
        }
        keys.extend(rows.into_iter().map(|row| row.key));
    }
    let message = match keys.as_slice() {
        [key] => return Ok((key.to_string(), Command::Release { key: key.clone() })),
        [] => "no such tombstone".to_owned(),
        several => format!("{} tombstones match", several.len()),
    };
    let advice = "Write KIND/ID@CLOUD/REGION; `gone list tombstones` shows the tombstones.";
    Err(Failure::wrong(message, advice))
}

/// Finds the deployment of this name. Returns the words `deployment NAME`, and the command that releases it, which a
/// person has confirmed unless `yes` is set.
async fn deployment(
    session: &mut Session<'_>,
    name: &str,
    yes: bool,
) -> Result<(String, Command), Failure> {
    // After the release, steps that waited for this deployment's clearance delete their resources.
    session.refuse_if_read_only()?;
    let rows = session.ask(query::Deployments {}).await?;
    let (row, importer) = on_record(name, &rows)?;
    if !yes {
        session.needs_terminal("Add --yes to release it without being asked.")?;
        let since = importer.since.map(time);
        let since = since.map(|at| format!("on record since {at}, "));
        let contact = match importer.last_contact_at {
            Some(at) => format!("last contact {}", ago(at, session.clock.now())),
            None => "no contact since the engine started".to_owned(),
        };
        let waiting = waiting_words(importer.pending_clearances);
        let (region, since) = (row.service_and_region(), since.unwrap_or_default());
        let lines = [
            &format!("Deployment {name} ({region}): {since}{contact}, {waiting} for its clearance"),
            "After the release, no deletion waits for this deployment's clearance. Its resources may keep references that \
             lead to nothing.",
            "If the deployment still exists, it is put on record again at its next watch.",
        ];
        lines.iter().try_for_each(|line| session.err.say(line))?;
        let question = format!("To release it, type its name, {name}");
        let (words, wanted) = ([name.to_owned()], format!("the name of deployment {name}"));
        let confirmed = session.confirm(&question, &words, &wanted, "released");
        confirmed.await?;
    }
    let command = Command::ReleaseImporter {
        name: name.to_owned(),
    };
    Ok((format!("deployment {name}"), command))
}

/// Finds the deployment of this name, and checks that steps may wait for its clearance.
fn on_record<'a>(
    name: &str,
    rows: &'a [DeploymentStatus],
) -> Result<(&'a DeploymentStatus, &'a ImporterStatus), Failure> {
    let named = |row: &&DeploymentStatus| row.name.as_deref() == Some(name);
    let found = rows.iter().find(named);
    let message = match found.map(|row| (row, &row.importer)) {
        Some((row, Some(importer))) => return Ok((row, importer)),
        Some((_, None)) => {
            format!("no step waits for the clearance of {name}: it refers to no resource here")
        }
        None => {
            let importers = rows.iter().filter(|row| row.importer.is_some());
            let near = did_you_mean(name, importers.filter_map(|row| row.name.as_deref()));
            format!("no deployment \"{name}\" is on record{near}")
        }
    };
    let advice = "`gone list deployments` shows the deployments; a tombstone is written KIND/ID@CLOUD/REGION.";
    Err(Failure::wrong(message, advice))
}
