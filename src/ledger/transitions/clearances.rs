//! Importers, and the clearances that steps wait for (G7, G12).

use std::collections::BTreeSet;

use chrono::{DateTime, Utc};

use super::{own_error, refuse};
use crate::domain::model::{ErrorClass, KindName, StepState};
use crate::domain::peers::{AWAITED, ClearanceAnswer, Deployment, awaiting};
use crate::ledger::events;
use crate::ledger::store::{LedgerRows, Stop};
use crate::ledger::working_set::{Changing, WorkingSet};
use crate::ledger::{Applied, AuditEntry};

impl<S: LedgerRows> WorkingSet<S> {
    /// Puts an importer on record from its first watch on (G12). For a kind to which the importer did not refer before,
    /// the importer is notified of all resources of the kind that are being checked or deleted or are gone, and steps
    /// wait for its clearance.
    pub fn record_importer(
        &mut self,
        importer: &Deployment,
        kinds: &BTreeSet<KindName>,
        now: DateTime<Utc>,
    ) -> Changing<S, Applied> {
        let name = &importer.name;
        let on_record = self.searched()?.load_importers()?.into_iter();
        let on_record: Vec<Deployment> = on_record.map(|(importer, _)| importer).collect();
        if !on_record.contains(importer) {
            // Each pair of service and region has one name, so that no peer registers more than once.
            let taken = |other: &&Deployment| {
                (&other.service, &other.region) == (&importer.service, &importer.region)
            };
            if let Some(other) = on_record.iter().find(taken) {
                return refuse(format!(
                    "{}/{} is on record as deployment {other}, not {name}; release {other} first",
                    importer.service,
                    importer.region,
                    other = other.name,
                ));
            }
            self.check_name(importer)?;
            self.store().insert_importer(importer, now)?;
            self.event(None, None, events::importer_recorded(importer), now);
        }
        let recorded = self.store().load_importer_kinds()?.into_iter();
        let recorded = recorded.filter(|(_, importer)| importer == name);
        let recorded: BTreeSet<KindName> = recorded.map(|(kind, _)| kind).collect();
        for kind in recorded.difference(kinds) {
            self.store().remove_importer_kind(kind, name)?;
        }
        for kind in kinds.difference(&recorded) {
            self.store().add_importer_kind(kind, name)?;
        }
        Ok(Applied::Done)
    }

    /// Refuses a name that belongs to a deployment of another service or region, so that no peer takes the name
    /// of another (P13).
    pub(super) fn check_name(&self, wanted: &Deployment) -> Changing<S> {
        let importers = self.store().load_importers()?.into_iter();
        let mut known: Vec<Deployment> = importers.map(|(importer, _)| importer).collect();
        known.extend(self.store().load_watches()?.into_iter().map(|it| it.owner));
        let other = known
            .iter()
            .find(|it| it.name == wanted.name && *it != wanted);
        match other {
            None => Ok(()),
            Some(other) => refuse(format!(
                "deployment {} is on record as {}/{}, not as {}/{}; release the deployment on record first",
                wanted.name, other.service, other.region, wanted.service, wanted.region
            )),
        }
    }

    /// Records an importer's answers about the resources that steps delete. A clearance is final: late or
    /// repeated answers do not change it.
    pub fn answered(
        &mut self,
        importer: &str,
        answers: &[(i64, ClearanceAnswer)],
        now: DateTime<Utc>,
    ) -> Changing<S, Applied> {
        let mut changed = Vec::new();
        for (step, answer) in answers {
            if self.searched()?.save_answer(importer, *step, answer)? {
                changed.push(*step);
            }
        }
        self.follow_answers(&changed, now)?;
        Ok(Applied::Moved(changed.len() as u64))
    }

    /// Releases an importer that no longer exists, at the request of an admin (G12): no step waits for its
    /// clearance any more.
    pub fn release_importer(
        &mut self,
        name: &str,
        audit: &AuditEntry,
        now: DateTime<Utc>,
    ) -> Changing<S, Applied> {
        let Some(waited) = self.searched()?.remove_importer(name)? else {
            return refuse(format!(
                "no importer {name} is on record; `gone list deployments` shows the importers"
            ));
        };
        self.audit(audit, now);
        let draft = events::importer_released(name, &audit.actor.name, waited.len());
        self.event(None, None, draft, now);
        self.follow_answers(&waited, now)?;
        Ok(Applied::Done)
    }

    /// Retries the steps that wait for no clearance any more, and updates the errors of the steps that still wait.
    fn follow_answers(&mut self, steps: &[i64], now: DateTime<Utc>) -> Changing<S> {
        let mut cleared = Vec::new();
        for step in steps {
            match self.searched()?.load_pending(*step)?.is_empty() {
                true => cleared.push(*step),
                false => self.update_awaited(*step, now)?,
            }
        }
        for step in cleared {
            self.retry_if_met(step, AWAITED, now)?;
        }
        Ok(())
    }

    /// Makes a blocked step due at once, and retries a stuck one, if the step's error has this type: the cause of the
    /// error has changed or ended.
    pub(super) fn retry_if_met(&mut self, id: i64, error: &str, now: DateTime<Utc>) -> Changing<S> {
        match self.state_if_met(id, error)? {
            Some(StepState::Blocked) => self.step_mut(id)?.next_attempt_at = Some(now),
            Some(_) => {
                let num = self.step(id)?.deletion;
                match self.retry_deletion(num, Some(&[id]), true, now) {
                    // The step stays as it is, for example in a cancelled deletion.
                    Ok(_) | Err(Stop::Refused(_)) => {}
                    Err(stop) => return Err(stop),
                }
            }
            None => {}
        }
        Ok(())
    }

    /// Returns the state of a blocked or stuck step whose error has this type.
    fn state_if_met(&mut self, id: i64, error: &str) -> Changing<S, Option<StepState>> {
        let found = self.find_step(id)?.filter(|step| {
            matches!(step.state, StepState::Blocked | StepState::Stuck)
                && step.error.as_ref().is_some_and(|it| it.kind == error)
        });
        Ok(found.map(|step| step.state))
    }

    /// Updates the error of a stuck step that waits for clearances. A blocked step is due at once, and its attempt
    /// updates the error.
    fn update_awaited(&mut self, id: i64, now: DateTime<Utc>) -> Changing<S> {
        if self.state_if_met(id, AWAITED)? != Some(StepState::Stuck) {
            return self.retry_if_met(id, AWAITED, now);
        }
        let (message, blockers) = awaiting(&self.store().load_pending(id)?);
        let step = self.step_mut(id)?;
        step.error = Some(own_error(ErrorClass::Blocked, AWAITED, message, now));
        step.blockers = blockers;
        Ok(())
    }
}
