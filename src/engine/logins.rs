//! The logins at the sites: signs in, pauses a site while its login lacks rights, and repeats refused logins (I13, I15,
//! N13). Also sets and ends the pauses that people request.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::activity::{Activity, Run};
use super::audit::audit;
use super::journal::Journal;
use super::sites::Sites;
use crate::cloud::{Cloud, Freshness};
use crate::control::{ControlError, Envelope, Receipt, SiteState};
use crate::domain::model::{ErrorClass, EventKind, Identity, Site};
use crate::domain::text::escape;
use crate::ledger::{Change, NewEvent, Views};
use crate::system::clock::Clock;

/// How often a refused login is checked for a change.
const LOGIN_CHECK_EVERY: Duration = Duration::from_secs(5);
/// The longest pause before a refused login is repeated (I15), unless `every` is longer.
const SIGN_IN_PAUSE_MAX: Duration = Duration::from_secs(60 * 60);

/// Signs in to the sites, and pauses those whose login has lost its rights.
pub(super) struct Logins {
    pub(super) clock: Clock,
    pub(super) cloud: Arc<dyn Cloud>,
    pub(super) ledger: Arc<dyn Views>,
    pub(super) sites: Arc<Sites>,
    pub(super) journal: Arc<Journal>,
    /// The pause between two sign-ins to a site, before refusals double it.
    pub(super) every: Duration,
    pub(super) activity: Arc<Activity>,
}

impl Logins {
    /// Pauses a site: nothing more is sent there until its login has its rights again (N13, I13).
    pub(super) async fn pause_site(&self, site: &Site, reason: &str, expected: Option<Identity>) {
        let now = self.clock.now();
        if self.sites.pause(site, reason, expected) {
            tracing::warn!(%site, reason, "site paused");
            let message = format!("{site} paused: {reason}");
            self.note_site(site, SiteState::Paused, message, now).await;
        }
    }

    async fn note_site(&self, site: &Site, state: SiteState, message: String, now: DateTime<Utc>) {
        let event = NewEvent {
            deletion_id: None,
            step_id: None,
            kind: EventKind::Site,
            message,
            data: serde_json::json!({ "site": site, "state": state }),
        };
        if let Err(error) = self.journal.commit(vec![Change::Note { event, now }]).await {
            tracing::warn!(%error, "an event was not written");
        }
    }

    /// Signs in to sites that are new, paused or unreachable. Returns the time until the next sign-in is due.
    pub(super) fn start(self: &Arc<Self>, tasks: &mut JoinSet<()>) -> Duration {
        let every = self.every;
        let only_named = self.sites.only_named.load(Ordering::Relaxed);
        let mut next = Duration::MAX;
        let mut due = Vec::new();
        let changed = self.logins_changed();
        for (name, site) in self.sites.lock().iter_mut() {
            let wait = match (site.status.state, site.asked_at) {
                (SiteState::Reachable, _) => continue,
                (SiteState::Unknown, None) if only_named => continue,
                (_, None) => Duration::ZERO,
                (_, Some(_)) if changed.contains(name) => {
                    site.refusals = 0;
                    Duration::ZERO
                }
                (_, Some(asked)) => {
                    let pause = sign_in_pause(every, site.refusals);
                    let wait = pause.saturating_sub(asked.elapsed());
                    match site.refusals {
                        0 => wait,
                        _ => wait.min(LOGIN_CHECK_EVERY),
                    }
                }
            };
            if wait.is_zero() {
                due.push(name.clone());
            } else {
                next = next.min(wait);
            }
        }
        self.activity.runs_in(next);
        if due.is_empty() || self.activity.is_running() {
            return next;
        }
        let begin = |site: Site| (self.activity.begin(site.to_string()), site);
        let due: Vec<(Run, Site)> = due.into_iter().map(begin).collect();
        let logins = self.clone();
        tasks.spawn(async move {
            let each = due.into_iter();
            let each = each.map(|(run, site)| logins.sign_in_to(site, run));
            futures_util::future::join_all(each).await;
        });
        next
    }

    /// Returns the sites whose refused login has changed in the file from which it was read. Each is checked at most
    /// every [`LOGIN_CHECK_EVERY`] (I15). The files are read here, while nothing is locked.
    fn logins_changed(&self) -> HashSet<Site> {
        let mut refused = Vec::new();
        for (name, site) in self.sites.lock().iter_mut() {
            let checked = site.login_checked_at.map(|at| at.elapsed());
            if site.refusals > 0 && checked.is_none_or(|passed| passed >= LOGIN_CHECK_EVERY) {
                site.login_checked_at = Some(Instant::now());
                refused.push(name.clone());
            }
        }
        let changed = refused.into_iter();
        changed
            .filter(|site| self.cloud.has_other_login(site))
            .collect()
    }

    async fn sign_in_to(&self, site: Site, run: Run) {
        let site = &site;
        let paused = self
            .sites
            .lock()
            .get(site)
            .is_some_and(|site| site.status.state == SiteState::Paused);
        let signed_in = self
            .cloud
            .identity(
                site,
                if paused {
                    Freshness::ByLoggingIn
                } else {
                    Freshness::AtLogin
                },
            )
            .await;
        let now = self.clock.now();
        let mut resumed = false;
        let mut lost = None;
        {
            let mut sites = self.sites.lock();
            let Some(runtime) = sites.get_mut(site) else {
                return;
            };
            let before = runtime.status.state;
            if (before == SiteState::Paused) != paused {
                // The site was paused or resumed meanwhile, so this answer is out of date.
                return;
            }
            runtime.asked_at = Some(Instant::now());
            match signed_in {
                Ok(signed_in) => {
                    runtime.refusals = 0;
                    runtime.status.as_user = signed_in.shown;
                    let back = runtime
                        .expected
                        .as_ref()
                        .is_none_or(|expected| signed_in.identity.covers(expected));
                    if back {
                        // A first sign-in also counts as a resumption, because an earlier engine may have paused the
                        // site.
                        resumed = paused || before == SiteState::Unknown;
                        runtime.status.state = SiteState::Reachable;
                        runtime.status.reason.clear();
                        runtime.expected = None;
                    }
                }
                Err(mut failure) => {
                    run.failed(format!("{site}: {}", failure.message));
                    if failure.class == ErrorClass::Auth {
                        runtime.refusals = runtime.refusals.saturating_add(1);
                        let pause = sign_in_pause(self.every, runtime.refusals);
                        failure.message.push_str(&next_sign_in(site, now, pause));
                    }
                    if !paused {
                        runtime.status.state = match failure.class {
                            ErrorClass::Auth => SiteState::Paused,
                            _ => SiteState::Unreachable,
                        };
                        lost = (failure.class == ErrorClass::Auth)
                            .then(|| format!("{site} paused: {}", failure.message));
                    }
                    runtime.status.reason = failure.message;
                }
            }
        }
        if resumed {
            let message = format!("{site} resumed: the login has its rights");
            self.note_site(site, SiteState::Reachable, message, now)
                .await;
        }
        if let Some(message) = lost {
            self.note_site(site, SiteState::Paused, message, now).await;
        }
        self.journal.show_soon();
        self.journal.wake_loop();
    }

    /// Pauses a site until a person resumes it; if `paused` is false, resumes the site.
    pub(super) async fn pause_site_by_hand(
        &self,
        envelope: &Envelope,
        site: Site,
        paused: bool,
    ) -> Result<Receipt, ControlError> {
        if !self.cloud.sites().contains(&site) {
            let known: Vec<String> = self.cloud.sites().iter().map(Site::to_string).collect();
            return Err(ControlError::not_found(format!(
                "there is no site {}; configured: {}",
                escape(&site.to_string()),
                known.join(", ")
            )));
        }
        let now = self.clock.now();
        let action = if paused { "pause site" } else { "resume site" };
        let receipt = self
            .journal
            .commit_command(Change::PauseSite {
                site: site.clone(),
                paused,
                audit: audit(envelope, action, &site.to_string()),
                now,
            })
            .await;
        // Resuming a site also repeats its refused login, whoever paused the site.
        let asked = !paused && self.sites.ask_site_again(&site);
        let receipt = match receipt {
            Err(ControlError::Conflict { .. }) if asked => Receipt::Done { moved: 1 },
            receipt => receipt?,
        };
        // The pause is read from the ledger, because another command may have changed it since.
        let pauses = self.ledger.site_pauses().await?;
        let pause = pauses.into_iter().find(|pause| pause.site == site);
        self.sites.set_pause(&site, pause);
        self.journal.show_soon();
        self.journal.wake_loop();
        Ok(receipt)
    }
}

/// Returns a clause that says when a refused login is repeated, to be appended to a sentence.
fn next_sign_in(site: &Site, now: DateTime<Utc>, pause: Duration) -> String {
    let at = TimeDelta::from_std(pause)
        .ok()
        .and_then(|pause| now.checked_add_signed(pause));
    let at = at.map_or_else(String::new, |at| format!(" at {} UTC,", at.format("%T")));
    format!("; the login is retried{at} as soon as it is changed, or with `gone resume {site}`")
}

/// Returns the pause between two sign-ins: each refusal after the first doubles it, up to an hour (I15).
fn sign_in_pause(every: Duration, refusals: u32) -> Duration {
    let doubled = every.saturating_mul(1 << refusals.saturating_sub(1).min(16));
    doubled.min(SIGN_IN_PAUSE_MAX.max(every))
}
