//! The session of a verb: control, streams and actor, and the queries that several verbs need.

use futures_util::TryStreamExt as _;
use std::io::{self, Write};
use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, Utc};
use tokio_util::sync::CancellationToken;

use super::args::Global;
use super::columns;
use super::exit::Exit;
use super::failure::Failure;
use super::output::{Column, ListContext, Sheet, Style, write_rows, write_value};
use crate::control::{
    Command, Control, Envelope, Pages, Receipt, Request, SiteSpec, SiteStatus, TargetSpec, query,
};
use crate::domain::model::{Actor, Deletion, DeletionState, Site, Step, StepState};
use crate::domain::text::did_you_mean;
use crate::system::clock::Clock;

/// Number of rows per page; the control returns no more at once.
pub(super) const PAGE_ROWS: usize = 500;

/// Time after which a command that a cloud did not answer is sent again, if the deadline is later.
const ASK_AGAIN: Duration = Duration::from_secs(10);

/// Advice for a word that is no target: it may be the id of a deletion.
const NO_TARGET: &str =
    "`gone show ID` shows a deletion; `gone list KIND` shows the resources of a kind.";

/// Blocks until a line is typed.
pub type ReadLine = Arc<dyn Fn() -> io::Result<String> + Send + Sync>;

pub struct Session<'a> {
    pub control: Arc<dyn Control>,
    /// Whether the engine lives only as long as this call, so that the call waits for deletions.
    pub embedded: bool,
    pub actor: Actor,
    pub global: &'a Global,
    pub clock: Clock,
    pub out: &'a mut dyn Write,
    pub err: &'a mut dyn Write,
    pub style: Style,
    pub read_line: ReadLine,
    /// Cancelled by ctrl-c.
    pub interrupt: CancellationToken,
}

impl Session<'_> {
    /// Submits a command, and repeats it while a cloud does not answer, until the deadline (N16).
    pub(super) async fn submit_until(
        &mut self,
        tried: &str,
        command: Command,
        reason: &str,
        deadline: Option<DateTime<Utc>>,
    ) -> Result<Receipt, Failure> {
        loop {
            let envelope = Envelope {
                deadline,
                ..self.envelope(command.clone(), reason)
            };
            let failure = match self.send(tried, envelope).await {
                Err(failure) if failure.exit == Exit::Unreachable => failure,
                answer => return answer,
            };
            let left = deadline.and_then(|deadline| (deadline - self.clock.now()).to_std().ok());
            let Some(left) = left.filter(|left| !left.is_zero()) else {
                return Err(failure);
            };
            let line = format!("{tried}: {}; it is asked again", failure.message);
            writeln!(self.err, "{}", self.style.safe(&line))?;
            tokio::select! {
                biased;
                () = self.interrupt.cancelled() => return Err(Failure::interrupted(tried, "")),
                () = tokio::time::sleep(left.min(ASK_AGAIN)) => {}
            }
        }
    }

    pub(super) async fn submit(
        &self,
        tried: &str,
        command: Command,
        reason: &str,
    ) -> Result<Receipt, Failure> {
        self.send(tried, self.envelope(command, reason)).await
    }

    fn envelope(&self, command: Command, reason: &str) -> Envelope {
        Envelope {
            command,
            actor: self.actor.clone(),
            reason: reason.to_owned(),
            idempotency_key: None,
            deadline: None,
        }
    }

    async fn send(&self, tried: &str, envelope: Envelope) -> Result<Receipt, Failure> {
        let advice = "It may have been accepted: `gone list` shows.";
        tokio::select! {
            biased;
            () = self.interrupt.cancelled() => Err(Failure::interrupted(tried, advice)),
            receipt = self.control.submit(envelope) => {
                receipt.map_err(|error| Failure::of(tried, error))
            }
        }
    }

    pub(super) async fn ask<R: Request>(
        &self,
        tried: &str,
        request: R,
    ) -> Result<R::Answer, Failure> {
        tokio::select! {
            biased;
            () = self.interrupt.cancelled() => Err(Failure::interrupted(tried, "")),
            answer = self.control.ask(request) => answer.map_err(|error| Failure::of(tried, error)),
        }
    }

    /// Returns the chosen rows of all pages.
    pub(super) async fn ask_all<R: Pages>(
        &self,
        tried: &str,
        request: R,
        is_chosen: impl Fn(&R::Row) -> bool,
    ) -> Result<Vec<R::Row>, Failure> {
        let mut pages = std::pin::pin!(self.control.pages(request));
        let mut all = Vec::new();
        loop {
            let page = tokio::select! {
                biased;
                () = self.interrupt.cancelled() => return Err(Failure::interrupted(tried, "")),
                page = pages.try_next() => page.map_err(|error| Failure::of(tried, error))?,
            };
            match page {
                Some(rows) => all.extend(rows.into_iter().filter(&is_chosen)),
                None => return Ok(all),
            }
        }
    }

    /// Queries a deletion by its full or short id.
    pub(super) async fn deletion(&self, tried: &str, id: &str) -> Result<Deletion, Failure> {
        let id = id.to_owned();
        self.ask(tried, query::Deletion { id })
            .await
            .map(|row| *row)
    }

    /// Returns the deletions that are being planned or run, oldest first.
    pub(super) async fn live_deletions(&self, tried: &str) -> Result<Vec<Deletion>, Failure> {
        let live = query::Deletions {
            states: vec![DeletionState::Planning, DeletionState::Running],
            limit: PAGE_ROWS,
            ..query::Deletions::default()
        };
        let mut all = self.ask_all(tried, live, |_| true).await?;
        all.reverse();
        Ok(all)
    }

    pub(super) async fn sites(&self, tried: &str) -> Result<Vec<SiteStatus>, Failure> {
        self.ask(tried, query::Sites {}).await
    }

    /// Returns all steps of a deletion in these states; an empty list means any state.
    pub(super) async fn steps(
        &self,
        tried: &str,
        deletion_id: &str,
        states: &[StepState],
    ) -> Result<Vec<Step>, Failure> {
        let steps = query::Steps {
            deletion_id: Some(deletion_id.to_owned()),
            states: states.to_vec(),
            limit: PAGE_ROWS,
            ..query::Steps::default()
        };
        self.ask_all(tried, steps, |_| true).await
    }

    /// Parses the typed targets; those without a site are at the sites that the global options choose.
    pub(super) async fn targets(
        &self,
        tried: &str,
        words: &[String],
    ) -> Result<Vec<TargetSpec>, Failure> {
        let sites = self.sites(tried).await?;
        let clouds: Vec<&str> = sites.iter().map(|row| cloud_of(&row.site)).collect();
        let chosen = self.chosen_sites(tried, &sites)?;
        let mut targets = Vec::new();
        for word in words {
            let target = TargetSpec::parse(word, &clouds)
                .map_err(|message| Failure::usage(tried, message, NO_TARGET))?;
            if target.site == SiteSpec::All {
                targets.extend(chosen.iter().map(|site| TargetSpec {
                    site: site.clone(),
                    ..target.clone()
                }));
            } else {
                targets.push(target);
            }
        }
        Ok(targets)
    }

    /// Enforces `--read-only` in this process too: the running engine may not have been given it.
    ///
    /// # Errors
    /// `--read-only` was given.
    pub(super) fn refuse_if_read_only(&self, tried: &str) -> Result<(), Failure> {
        if !self.global.read_only {
            return Ok(());
        }
        let message = "--read-only was given, and this changes a cloud";
        let advice = "Nothing was sent. `gone plan` shows what would be.";
        Err(Failure::new(
            Exit::Refused,
            "refused",
            tried,
            message,
            advice,
        ))
    }

    /// Returns the sites that `--cloud` and `--region` choose.
    pub(super) fn chosen_sites(
        &self,
        tried: &str,
        sites: &[SiteStatus],
    ) -> Result<Vec<SiteSpec>, Failure> {
        let cloud = self.global.cloud.as_deref();
        if let Some(cloud) = cloud
            && !sites.iter().any(|row| cloud_of(&row.site) == cloud)
        {
            let near = did_you_mean(cloud, sites.iter().map(|row| cloud_of(&row.site)));
            let message = format!("the engine knows no cloud \"{cloud}\"{near}");
            return Err(Failure::usage(
                tried,
                message,
                "`gone list sites` shows them.",
            ));
        }
        if self.global.region.is_empty() {
            return Ok(vec![
                cloud.map_or(SiteSpec::All, |cloud| SiteSpec::Cloud(cloud.into())),
            ]);
        }
        let mut chosen = Vec::new();
        for wanted in &self.global.region {
            let before = chosen.len();
            let fitting = sites
                .iter()
                .map(|row| &row.site)
                .filter(|site| self.chooses_cloud(site) && region_of(site) == Some(wanted));
            chosen.extend(fitting.cloned().map(SiteSpec::Region));
            if chosen.len() == before {
                let near = did_you_mean(wanted, sites.iter().filter_map(|r| region_of(&r.site)));
                let message = format!("the engine knows no region \"{wanted}\"{near}");
                return Err(Failure::usage(
                    tried,
                    message,
                    "`gone list sites` shows them.",
                ));
            }
        }
        Ok(chosen)
    }

    fn chooses_cloud(&self, site: &Site) -> bool {
        let cloud = self.global.cloud.as_deref();
        cloud.is_none_or(|cloud| cloud_of(site) == cloud)
    }

    /// Whether the global options include this site.
    pub(super) fn chooses(&self, site: &Site) -> bool {
        let regions = &self.global.region;
        let region = region_of(site);
        self.chooses_cloud(site)
            && (regions.is_empty() || regions.iter().any(|wanted| region == Some(wanted)))
    }

    /// Reads a line on its own thread, so that ctrl-c works meanwhile; the thread ends with the process.
    pub(super) async fn typed_line(&self, tried: &str) -> Result<String, Failure> {
        let (send, receive) = tokio::sync::oneshot::channel();
        let read_line = self.read_line.clone();
        std::thread::spawn(move || {
            // After ctrl-c nobody receives the line.
            let _ = send.send(read_line());
        });
        let interrupt = self.interrupt.clone();
        let typed = tokio::select! {
            biased;
            () = interrupt.cancelled() => {
                return Err(Failure::interrupted(tried, "Nothing was sent."));
            }
            typed = receive => typed,
        };
        Ok(typed.map_err(io::Error::other)??)
    }

    /// Writes rows in the format that was asked for.
    pub(super) fn print_rows<R: serde::Serialize>(
        &mut self,
        columns: &[Column<R>],
        rows: &[R],
    ) -> Result<(), Failure> {
        let context = ListContext {
            now: self.clock.now(),
            id_length: 0,
        };
        self.print_sheet(&Sheet::of(columns, rows, &context), rows)
    }

    pub(super) fn print_deletions(&mut self, rows: &[Deletion]) -> Result<(), Failure> {
        let context = ListContext {
            now: self.clock.now(),
            id_length: columns::unique_length(rows.iter().map(|row| row.id.as_str())),
        };
        self.print_sheet(&Sheet::of(columns::DELETIONS, rows, &context), rows)
    }

    pub(super) fn print_sheet<R: serde::Serialize>(
        &mut self,
        sheet: &Sheet,
        rows: &[R],
    ) -> Result<(), Failure> {
        let format = self.global.output;
        Ok(write_rows(self.out, self.style, format, sheet, rows)?)
    }

    /// Writes one value as JSON or YAML; false if a table or CSV was asked for.
    pub(super) fn print_value<T: serde::Serialize>(&mut self, value: &T) -> Result<bool, Failure> {
        let format = self.global.output;
        Ok(write_value(self.out, self.style, format, value)?)
    }
}

fn cloud_of(site: &Site) -> &str {
    match site {
        Site::Region { cloud, .. } => cloud,
        Site::Deployment { name } => name,
    }
}

fn region_of(site: &Site) -> Option<&str> {
    match site {
        Site::Region { region, .. } => Some(region),
        Site::Deployment { .. } => None,
    }
}
