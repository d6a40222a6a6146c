//! Retries many steps at once: the triage after an outage.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::PAGE_MAX;
use super::audit::audit;
use super::guards::Guards;
use super::journal::Journal;
use super::records::deletion;
use super::sites::Sites;
use crate::control::{ControlError, Envelope, NotEligible, Receipt, Retried, RetryFilter};
use crate::domain::attention;
use crate::domain::ladder::LEFT_TO;
use crate::domain::model::Step;
use crate::domain::text::counted;
use crate::ledger::{Applied, Change, Cursor, Ledger, RetryBy, Selection, StepFilter};
use crate::system::clock::Clock;

/// Maximum number of steps that one transaction retries, chosen so that outcomes need not wait for long.
const STEPS_PER_RETRY_MAX: usize = 10_000;

/// Retries the steps that match a filter.
pub(super) struct BulkRetry {
    pub(super) clock: Clock,
    pub(super) ledger: Arc<dyn Ledger>,
    pub(super) sites: Arc<Sites>,
    pub(super) journal: Arc<Journal>,
    pub(super) guards: Arc<Guards>,
}

impl BulkRetry {
    /// Retries the steps that match the filter and may be retried, and counts those that may not, by reason. With
    /// `dry_run`, nothing is retried.
    pub(super) async fn retry_matching(
        &self,
        envelope: &Envelope,
        filter: &RetryFilter,
        dry_run: bool,
    ) -> Result<Receipt, ControlError> {
        self.guards.writable(&[])?;
        let mut eligible = Vec::new();
        let mut others: BTreeMap<String, u64> = BTreeMap::new();
        let wanted = self.step_filter(filter).await?;
        let mut after = None;
        loop {
            let cursor = Cursor {
                after,
                limit: PAGE_MAX,
            };
            let page = self.ledger.steps(wanted.clone(), cursor).await?;
            let rows = page.rows.into_iter();
            let rows: Vec<Step> = rows.filter(|step| filter.fits(step)).collect();
            for (step, reason) in self.why_not_retried(&rows).await {
                match reason {
                    Some(reason) => *others.entry(reason).or_default() += 1,
                    None => eligible.push(step.id),
                }
            }
            match page.next {
                Some(next) => after = Some(next),
                None => break,
            }
        }
        let mut moved = 0;
        let chunks = eligible.chunks(STEPS_PER_RETRY_MAX).filter(|_| !dry_run);
        for ids in chunks {
            let what = counted(ids.len() as u64, "step");
            let mut audit = audit(envelope, "retry", &what);
            audit.detail = serde_json::json!({ "filter": filter });
            let change = Change::Retry {
                selection: Selection::Steps(ids.to_vec()),
                by: RetryBy::Person,
                audit,
                now: self.clock.now(),
            };
            if let Some(Applied::Moved(number)) = self.journal.commit_one(change).await? {
                moved += number;
            }
        }
        let not_eligible = others.into_iter();
        Ok(Receipt::Bulk(Retried {
            eligible: eligible.len() as u64,
            not_eligible: not_eligible
                .map(|(reason, steps)| NotEligible { reason, steps })
                .collect(),
            moved,
        }))
    }

    async fn step_filter(&self, filter: &RetryFilter) -> Result<StepFilter, ControlError> {
        let deletion_id = match &filter.deletion_id {
            Some(id) => Some(deletion(&*self.ledger, id).await?.id),
            None => None,
        };
        Ok(StepFilter {
            deletion_id,
            states: match filter.state {
                Some(state) => vec![state],
                None => attention::STEP_STATES.to_vec(),
            },
            site: filter.site.clone(),
            kind: filter.kind.clone(),
            older_than: filter.older_than,
            // The ledger filters by one cause. Several causes are compared with each step that it returns.
            cause: match filter.causes.as_slice() {
                [one] => Some(one.clone()),
                _ => None,
            },
            ..StepFilter::default()
        })
    }

    /// Returns each step with the reason why it must not be retried; none if it may be retried.
    async fn why_not_retried<'s>(&self, steps: &'s [Step]) -> Vec<(&'s Step, Option<String>)> {
        let without_asking = |step: &Step| {
            let site = &step.resource.key.site;
            if self.sites.read_only(site) {
                return Some(format!("{site} is read-only"));
            }
            let error = step.last_error.as_ref();
            let is_left = error.is_some_and(|error| error.kind == LEFT_TO);
            let is_waiting = step.held_by.is_some() || is_left;
            is_waiting.then(|| "waits for another step that is stuck".to_owned())
        };
        let asked = steps.iter().filter(|step| without_asking(step).is_none());
        let guards = self.guards.guarding(asked).await;
        let reason =
            |step: &Step| without_asking(step).or_else(|| guards.get(&step.resource.key).cloned());
        steps.iter().map(|step| (step, reason(step))).collect()
    }
}
