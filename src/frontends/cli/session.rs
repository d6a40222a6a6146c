//! The session of a verb: control, streams and actor, and the functions on these that several verbs use.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, Utc};
use futures_util::TryStreamExt as _;
use tokio_util::sync::CancellationToken;

use super::args::Global;
use super::exit::Exit;
use super::failure::Failure;
use super::output::Printer;
use crate::control::{
    Command, Control, ControlError, Envelope, KindInfo, Pages, Receipt, Request, SiteSpec,
    SiteStatus, TargetSpec, query,
};
use crate::domain::ladder::PurgeScope;
use crate::domain::model::{Actor, Deletion, KindName, Site, Step, StepState};
use crate::domain::text::did_you_mean;
use crate::system::clock::Clock;

/// Time after which a command that the engine or a cloud did not answer is sent again, if the deadline is later.
const ASK_AGAIN: Duration = Duration::from_secs(10);

/// Reads a line; blocks until a person has typed it.
pub type ReadLine = Arc<dyn Fn() -> io::Result<String> + Send + Sync>;

pub struct Session<'a> {
    /// The action that runs, and its object, for messages: `plan network/web`.
    pub action_words: String,
    pub control: Arc<dyn Control>,
    /// Whether the engine lives only as long as this call, so that the call waits for deletions.
    pub embedded: bool,
    pub actor: Actor,
    pub global: &'a Global,
    /// Whether `--read-only` was given, or this person's settings say so.
    pub read_only: bool,
    pub clock: Clock,
    /// Standard output, for the result.
    pub out: Printer<'a>,
    /// Standard error, for progress, questions and errors.
    pub err: Printer<'a>,
    pub read_line: ReadLine,
    /// The token that ctrl-c cancels.
    pub interrupt: CancellationToken,
}

/// Questions and commands.
impl Session<'_> {
    /// Awaits the work, unless ctrl-c comes first.
    pub(super) async fn or_interrupted<T>(
        &self,
        advice: &str,
        work: impl Future<Output = T>,
    ) -> Result<T, Failure> {
        tokio::select! {
            biased;
            () = self.interrupt.cancelled() => Err(Failure::interrupted("", advice)),
            done = work => Ok(done),
        }
    }

    /// Submits a command, and submits it again while the engine or a cloud does not answer, until the deadline (N16).
    /// Returns the part of the receipt that `take` extracts.
    pub(super) async fn submit<T>(
        &mut self,
        command: Command,
        reason: &str,
        deadline: Option<DateTime<Utc>>,
        take: impl FnOnce(Receipt) -> Result<T, ControlError>,
    ) -> Result<T, Failure> {
        let advice = "The command may have been accepted: `gone audit list` shows whether.";
        loop {
            let submitted = self.control.submit(Envelope {
                reason: reason.to_owned(),
                deadline,
                ..Envelope::new(command.clone(), self.actor.clone())
            });
            let error = match self.or_interrupted(advice, submitted).await? {
                Err(error @ ControlError::Unreachable { .. }) => error,
                answer => return Ok(take(answer?)?),
            };
            let left = deadline.and_then(|deadline| (deadline - self.clock.now()).to_std().ok());
            let Some(left) = left.filter(|left| !left.is_zero()) else {
                return Err(error.into());
            };
            let action_words = &self.action_words;
            self.err
                .say(format!("{action_words}: {error}; the request is repeated"))?;
            let pause = tokio::time::sleep(left.min(ASK_AGAIN));
            self.or_interrupted("", pause).await?;
        }
    }

    pub(super) async fn ask<R: Request>(&self, request: R) -> Result<R::Answer, Failure> {
        Ok(self.or_interrupted("", self.control.ask(request)).await??)
    }

    /// Returns the chosen rows of all pages.
    pub(super) async fn ask_all<R: Pages>(
        &self,
        request: R,
        is_chosen: impl Fn(&R::Row) -> bool,
    ) -> Result<Vec<R::Row>, Failure> {
        let mut pages = std::pin::pin!(self.control.pages(request));
        let mut all = Vec::new();
        while let Some(rows) = self.or_interrupted("", pages.try_next()).await?? {
            all.extend(rows.into_iter().filter(&is_chosen));
        }
        Ok(all)
    }

    /// Queries a deletion by its full or short id.
    pub(super) async fn deletion(&self, id: &str) -> Result<Deletion, Failure> {
        let id = id.to_owned();
        Ok(*self.ask(query::Deletion { id }).await?)
    }

    /// Resolves the id of a deletion, or the number of a step if no deletion's id ends with it.
    pub(super) async fn deletion_or_step(&self, id: &str) -> Result<PurgeScope, Failure> {
        match (self.deletion(id).await, id.parse()) {
            (Err(failure), Ok(step)) if failure.error == "not_found" => Ok(PurgeScope::Step(step)),
            (found, _) => Ok(PurgeScope::Deletion(found?.id)),
        }
    }

    /// Returns all steps of a deletion in these states; an empty list means any state.
    pub(super) async fn steps(
        &self,
        deletion_id: &str,
        states: &[StepState],
    ) -> Result<Vec<Step>, Failure> {
        let steps = query::Steps {
            states: states.to_vec(),
            ..query::Steps::of(deletion_id)
        };
        self.ask_all(steps, |_| true).await
    }

    /// Handles each word, also after one that fails, until ctrl-c. A failure is reported at once. Returns the results,
    /// and the exit code that counts.
    pub(super) async fn each<T>(
        &mut self,
        words: &[String],
        handle: impl AsyncFn(&mut Self, &str) -> Result<T, Failure>,
    ) -> Result<(Vec<T>, Exit), Failure> {
        let (mut done, mut exits) = (Vec::new(), Vec::new());
        for word in words {
            match handle(self, word).await {
                Ok(row) => done.push(row),
                Err(failure) => {
                    let failure = failure.with_action(format!("{} {word}", self.action_words));
                    failure.write(&mut self.err)?;
                    exits.push(failure.exit);
                    if failure.exit == Exit::Interrupted {
                        break;
                    }
                }
            }
        }
        Ok((done, Exit::first_of(exits)))
    }

    /// Enforces `--read-only` and `[guard] read_only` in this process too: the running engine may not have them.
    ///
    /// # Errors
    /// This process is read-only.
    pub(super) fn refuse_if_read_only(&self) -> Result<(), Failure> {
        let why = match (self.global.read_only, self.read_only) {
            (false, false) => return Ok(()),
            (true, _) => "--read-only was given, and this command changes a cloud",
            (false, true) => {
                "your settings are read-only ([guard] read_only), and this command changes a cloud"
            }
        };
        let advice = "Nothing was sent. `gone plan` shows what a deletion would do.";
        Err(Failure::refused(why, advice))
    }
}

/// Sites and targets.
impl Session<'_> {
    pub(super) async fn sites(&self) -> Result<Vec<SiteStatus>, Failure> {
        self.ask(query::Sites {}).await
    }

    /// Returns the full name of the kind that was typed, by name or alias.
    ///
    /// # Errors
    /// There is no such kind. A filter by it would find nothing, as if all were well.
    pub(super) async fn kind(&self, word: &str) -> Result<KindName, Failure> {
        let kinds = self.ask(query::Kinds {}).await?;
        let found = KindInfo::find(&kinds, word).map_err(|why| Failure::wrong(why, ""))?;
        Ok(found.name.clone())
    }

    /// Checks a site that was typed.
    ///
    /// # Errors
    /// The engine does not serve it.
    pub(super) async fn known_site(&self, site: &Site) -> Result<(), Failure> {
        let sites = self.sites().await?;
        if sites.iter().any(|row| row.site == *site) {
            return Ok(());
        }
        let names: Vec<String> = sites.iter().map(|row| row.site.to_string()).collect();
        let names = names.iter().map(String::as_str);
        Err(not_served("site", &site.to_string(), names))
    }

    /// Parses the typed targets; those without a site are at the sites that the global options choose.
    pub(super) async fn targets(&self, words: &[String]) -> Result<Vec<TargetSpec>, Failure> {
        let sites = self.sites().await?;
        let clouds: Vec<&str> = sites.iter().map(|row| row.site.parts().0).collect();
        let chosen = self.chosen_sites(&sites)?;
        let mut targets = Vec::new();
        for word in words {
            // A word that is not a target may be the id of a deletion.
            let advice =
                "`gone show ID` shows a deletion; `gone list KIND` shows the resources of a kind.";
            let target = TargetSpec::parse(word, &clouds);
            let target = target.map_err(|message| Failure::wrong(message, advice))?;
            match target.site {
                SiteSpec::All => targets.extend(chosen.iter().map(|site| TargetSpec {
                    site: site.clone(),
                    ..target.clone()
                })),
                _ => targets.push(target),
            }
        }
        Ok(targets)
    }

    /// Returns the sites that `--cloud` and `--region` choose.
    pub(super) fn chosen_sites(&self, sites: &[SiteStatus]) -> Result<Vec<SiteSpec>, Failure> {
        let cloud = self.global.cloud.as_deref();
        let clouds = sites.iter().map(|row| row.site.parts().0);
        if let Some(cloud) = cloud.filter(|cloud| !clouds.clone().any(|it| it == *cloud)) {
            return Err(not_served("cloud", cloud, clouds));
        }
        if self.global.region.is_empty() {
            let all = cloud.map_or(SiteSpec::All, |cloud| SiteSpec::Cloud(cloud.into()));
            return Ok(vec![all]);
        }
        let mut chosen = Vec::new();
        for wanted in &self.global.region {
            let before = chosen.len();
            let sites = sites.iter().map(|row| &row.site);
            let fits = |site: &&Site| self.chooses_cloud(site) && site.parts().1 == Some(wanted);
            chosen.extend(sites.clone().filter(fits).cloned().map(SiteSpec::Region));
            if chosen.len() == before {
                let regions = sites.filter_map(|site| site.parts().1);
                return Err(not_served("region", wanted, regions));
            }
        }
        Ok(chosen)
    }

    fn chooses_cloud(&self, site: &Site) -> bool {
        let cloud = self.global.cloud.as_deref();
        cloud.is_none_or(|cloud| site.parts().0 == cloud)
    }

    /// Whether the global options include this site.
    pub(super) fn chooses(&self, site: &Site) -> bool {
        let regions = &self.global.region;
        let wanted = |region: &str| regions.iter().any(|wanted| wanted == region);
        self.chooses_cloud(site) && (regions.is_empty() || site.parts().1.is_some_and(wanted))
    }
}

/// Returns the failure for a site, cloud or region that the engine does not serve.
fn not_served<'s>(what: &str, word: &str, served: impl Iterator<Item = &'s str>) -> Failure {
    let near = did_you_mean(word, served);
    let message = format!("the engine serves no {what} \"{word}\"{near}");
    Failure::wrong(message, "`gone list sites` shows the sites that it serves.")
}

/// Confirmations.
impl Session<'_> {
    /// Checks that a person can confirm what the verb does.
    ///
    /// # Errors
    /// There is no terminal: `advice` says how to confirm without one.
    pub(super) fn needs_terminal(&self, advice: &str) -> Result<(), Failure> {
        let message = "there is no terminal on which a person could confirm this command";
        match self.err.style.in_terminal {
            true => Ok(()),
            false => Err(Failure::wrong(message, advice)),
        }
    }

    /// Asks the person to type one of these words. `wanted` says what they are: `the name of deployment d0-1`.
    ///
    /// # Errors
    /// Another word was typed. `effect` ends the message `nothing was …`: `sent`, `released`.
    pub(super) async fn confirm(
        &mut self,
        question: &str,
        words: &[String],
        wanted: &str,
        effect: &str,
    ) -> Result<(), Failure> {
        write!(self.err.stream, "\n{}: ", self.err.style.safe(question))?;
        self.err.stream.flush()?;
        // The line is read on a thread of its own, which ends with the process, so that ctrl-c works meanwhile.
        let (send, receive) = tokio::sync::oneshot::channel();
        let read_line = self.read_line.clone();
        std::thread::spawn(move || {
            // After ctrl-c nobody receives the line.
            let _ = send.send(read_line());
        });
        let typed = self.or_interrupted("Nothing was sent.", receive).await?;
        let typed = typed.map_err(io::Error::other)??;
        if words.iter().any(|word| word == typed.trim()) {
            return Ok(());
        }
        let message = format!("the typed text is not {wanted}; nothing was {effect}");
        Err(Failure::wrong(message, ""))
    }
}
