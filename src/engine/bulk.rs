//! Many steps tried again at once: the triage after an outage.

use std::collections::BTreeMap;

use super::handle::{audit, ledger_error};
use super::planning::protected;
use super::{PAGE_MAX, Shared};
use crate::control::{ControlError, Envelope, NotEligible, Receipt, Retried, RetryFilter};
use crate::domain::attention;
use crate::domain::model::{Resource, Step, StepState};
use crate::ledger::{Applied, Change, Cursor, RetryBy, Selection, StepFilter};
use crate::system::config::ProtectRule;

/// Steps that one transaction puts to work, so that outcomes need not wait for long.
const TOGETHER: usize = 10_000;

impl Shared {
    /// Puts to work what fits and may be; says how many may not, and why. `dry_run`: only says.
    pub(super) async fn retry_matching(
        &self,
        envelope: &Envelope,
        filter: &RetryFilter,
        dry_run: bool,
    ) -> Result<Receipt, ControlError> {
        self.writable(&[])?;
        let mut eligible = Vec::new();
        let mut others: BTreeMap<String, u64> = BTreeMap::new();
        for step in self.matching(filter).await? {
            match self.not_eligible(&step) {
                Some(reason) => *others.entry(reason).or_default() += 1,
                None => eligible.push(step.id),
            }
        }
        let mut moved = 0;
        let chunks = eligible.chunks(TOGETHER).filter(|_| !dry_run);
        for ids in chunks {
            let mut audit = audit(envelope, "retry", &format!("{} steps", ids.len()));
            audit.detail = serde_json::json!({ "filter": filter });
            let change = Change::Retry {
                selection: Selection::Steps(ids.to_vec()),
                by: RetryBy::Person,
                audit,
                now: self.clock.now(),
            };
            let applied = self.commit(vec![change]).await.map_err(ledger_error)?;
            if let Some(Applied::Moved(number)) = applied.into_iter().next() {
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

    async fn matching(&self, filter: &RetryFilter) -> Result<Vec<Step>, ControlError> {
        let deletion_id = match &filter.deletion_id {
            Some(id) => Some(self.deletion(id).await?.id),
            None => None,
        };
        let wanted = StepFilter {
            deletion_id,
            states: match filter.state {
                Some(state) => vec![state],
                None => attention::STEP_STATES.to_vec(),
            },
            site: filter.site.clone(),
            kind: filter.kind.clone(),
            older_than: filter.older_than,
        };
        let mut found = Vec::new();
        let mut after = None;
        loop {
            let page = Cursor {
                after,
                limit: PAGE_MAX,
            };
            let page = self.ledger.steps(wanted.clone(), page).await;
            let page = page.map_err(ledger_error)?;
            found.extend(page.rows.into_iter().filter(|step| filter.fits(step)));
            match page.next {
                Some(next) => after = Some(next),
                None => return Ok(found),
            }
        }
    }

    fn not_eligible(&self, step: &Step) -> Option<String> {
        let key = &step.resource.key;
        if self.sites.read_only(&key.site) {
            return Some(format!("{} is read-only", key.site));
        }
        let held = |step: &Step| {
            let error = step.last_error.as_ref();
            step.state == StepState::Stuck && error.is_some_and(|it| it.kind == "DependencyStuck")
        };
        if held(step) {
            return Some("waits for another that is stuck".to_owned());
        }
        let resource = Resource {
            key: key.clone(),
            name: step.resource.name.clone(),
            project_id: step.project_id.clone(),
            tags: Vec::new(),
            attributes: serde_json::Value::Null,
        };
        // A step does not keep tags and age: those were judged when it was planned.
        let rules = self.settings.guard.protect.iter();
        let told = |rule: &&ProtectRule| {
            rule.tag.is_none() && rule.younger_than.is_none() && rule.older_than.is_none()
        };
        let rules: Vec<ProtectRule> = rules.filter(told).cloned().collect();
        protected(&rules, &resource, self.clock.now()).map(|rule| format!("protected: {rule}"))
    }
}
