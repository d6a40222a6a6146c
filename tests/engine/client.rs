//! A front end of the engine for tests: commands, queries, and waits on the paused clock.

use futures_util::TryStreamExt as _;
use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, Utc};
use gone::control::{
    Command, Control, ControlError, Envelope, Explanation, NamedOptions, Receipt, SiteStatus,
    TargetSpec, query,
};
use gone::domain::model::{
    Actor, Deletion, DeletionState, Event, Origin, Plan, PlanOptions, Step, StepState, Tombstone,
};
use serde_json::Value;

/// The longest wait of a test. Only the whole schedule of the retry worker takes longer.
const WAIT_MAX: Duration = Duration::from_secs(2 * 24 * 60 * 60);

/// A front end of the running engine.
pub struct Client {
    pub control: Arc<dyn Control>,
}

pub fn cascade() -> PlanOptions {
    PlanOptions {
        cascade: true,
        ..PlanOptions::default()
    }
}

pub fn target(kind: &str, id_or_name: &str) -> TargetSpec {
    TargetSpec::parse(&format!("{kind}/{id_or_name}"), &["envvars"]).unwrap()
}

pub fn delete_command(targets: Vec<TargetSpec>, options: PlanOptions) -> Command {
    Command::Delete {
        targets,
        options,
        named: NamedOptions::default(),
    }
}

impl Client {
    pub async fn submit(&self, command: Command) -> Result<Receipt, ControlError> {
        self.submit_until(command, None).await
    }

    /// Submits a command of a client that waits until the deadline.
    pub async fn submit_until(
        &self,
        command: Command,
        deadline: Option<DateTime<Utc>>,
    ) -> Result<Receipt, ControlError> {
        let actor = Actor {
            name: "tester".into(),
            origin: Origin::Cli,
        };
        self.control
            .submit(Envelope {
                command,
                actor,
                reason: String::new(),
                idempotency_key: None,
                deadline,
            })
            .await
    }

    pub async fn plan(&self, kind: &str, id_or_name: &str) -> Arc<Plan> {
        self.plan_with(kind, id_or_name, cascade()).await
    }

    pub async fn plan_with(&self, kind: &str, id_or_name: &str, options: PlanOptions) -> Arc<Plan> {
        self.plan_of(vec![target(kind, id_or_name)], options).await
    }

    pub async fn plan_of(&self, targets: Vec<TargetSpec>, options: PlanOptions) -> Arc<Plan> {
        match self
            .submit(Command::Plan { targets, options })
            .await
            .unwrap()
        {
            Receipt::Planned { plan } => plan,
            other => panic!("{other:?}"),
        }
    }

    pub async fn delete(&self, kind: &str, id_or_name: &str) -> String {
        self.delete_with(kind, id_or_name, cascade()).await
    }

    pub async fn delete_with(&self, kind: &str, id_or_name: &str, options: PlanOptions) -> String {
        self.try_delete(kind, id_or_name, options).await.unwrap()
    }

    pub async fn try_delete(
        &self,
        kind: &str,
        id_or_name: &str,
        options: PlanOptions,
    ) -> Result<String, ControlError> {
        let targets = vec![target(kind, id_or_name)];
        self.accept(delete_command(targets, options)).await
    }

    /// Repeats the request to delete a network that is being deleted already.
    pub async fn repeat(&self, id: &str, named: NamedOptions) -> Result<String, ControlError> {
        let targets = vec![target("network", id)];
        let options = cascade();
        self.accept(Command::Delete {
            targets,
            options,
            named,
        })
        .await
    }

    /// Deletes exactly what the plan with this hash contains.
    pub async fn delete_plan(&self, hash: &str) -> String {
        let plan_hash = hash.to_owned();
        let named = NamedOptions::default();
        let command = Command::DeletePlan { plan_hash, named };
        self.accept(command).await.unwrap()
    }

    /// Starts one deletion of several targets of one kind.
    pub async fn delete_all(&self, kind: &str, ids_or_names: &[String]) -> String {
        let targets = ids_or_names.iter();
        let targets = targets.map(|id_or_name| target(kind, id_or_name));
        self.delete_each(targets.collect()).await
    }

    pub async fn delete_each(&self, targets: Vec<TargetSpec>) -> String {
        let command = delete_command(targets, cascade());
        self.accept(command).await.unwrap()
    }

    /// Submits a command that deletes. Returns the id of the deletion.
    async fn accept(&self, command: Command) -> Result<String, ControlError> {
        let accepted = self.submit(command).await?.into_accepted()?;
        Ok(accepted.deletion_id)
    }

    pub async fn delete_until_gone(&self, kind: &str, id_or_name: &str) -> Deletion {
        self.until_gone(&self.delete(kind, id_or_name).await).await
    }

    pub async fn try_create(&self, kind: &str, body: Value) -> Result<Receipt, ControlError> {
        let kind = kind.to_owned();
        self.submit(Command::Create { kind, body }).await
    }

    /// Returns the rows of a native kind.
    pub async fn native_rows(&self, kind: &str) -> Vec<Value> {
        let native = query::Native {
            kind: kind.to_owned(),
            limit: 500,
            ..query::Native::default()
        };
        self.control.ask(native).await.unwrap().rows
    }

    /// Returns the deletions that another deletion caused.
    pub async fn caused_by(&self, id: &str) -> Vec<Deletion> {
        let mut rows = self.deletions(Vec::new(), None).await;
        rows.retain(|row| row.cause.as_deref() == Some(id));
        rows
    }

    pub async fn deletion(&self, id: &str) -> Deletion {
        let id = id.to_owned();
        *self.control.ask(query::Deletion { id }).await.unwrap()
    }

    pub async fn steps(&self, id: &str) -> Vec<Step> {
        let steps = query::Steps {
            deletion_id: Some(id.to_owned()),
            limit: 500,
            ..query::Steps::default()
        };
        let pages: Vec<Vec<Step>> = self.control.pages(steps).try_collect().await.unwrap();
        pages.concat()
    }

    /// Waits on the paused clock until `fits` is true. Panics if it is still false after two days.
    pub async fn until(&self, id: &str, fits: impl Fn(&Deletion) -> bool) -> Deletion {
        match self.until_or_timeout(id, fits).await {
            Ok(deletion) => deletion,
            Err(timed_out) => panic!("{timed_out}"),
        }
    }

    /// Waits like [`Client::until`], but does not panic: if `fits` is still false after two days, returns an error that
    /// shows the deletion and its steps.
    pub async fn until_or_timeout(
        &self,
        id: &str,
        fits: impl Fn(&Deletion) -> bool,
    ) -> Result<Deletion, String> {
        let deadline = tokio::time::Instant::now() + WAIT_MAX;
        let mut last_seq = 0;
        loop {
            let deletion = self.deletion(id).await;
            if fits(&deletion) {
                return Ok(deletion);
            }
            if tokio::time::Instant::now() > deadline {
                return Err(format!(
                    "after two days the deletion is not as expected: {deletion:#?}\n{:#?}",
                    self.steps(id).await
                ));
            }
            // Each change of a deletion is an event.
            last_seq = match self.control.events(last_seq, 60 * 60 * 1000).await {
                Ok(events) => events.last().map_or(last_seq, |event| event.seq),
                Err(ControlError::Expired { oldest, .. }) => oldest - 1,
                Err(error) => panic!("{error}"),
            };
        }
    }

    pub async fn until_state(&self, id: &str, state: DeletionState) -> Deletion {
        self.until(id, |it| it.state == state).await
    }

    /// Waits until the deletion has ended, and asserts that it has this state.
    async fn until_ended_as(&self, id: &str, state: DeletionState) -> Deletion {
        let deletion = self.until_terminal(id).await;
        assert_eq!(
            deletion.state,
            state,
            "{deletion:#?}\n{:#?}",
            self.steps(id).await
        );
        deletion
    }

    pub async fn until_terminal(&self, id: &str) -> Deletion {
        self.until(id, |it| it.state.is_terminal()).await
    }

    pub async fn until_gone(&self, id: &str) -> Deletion {
        self.until_ended_as(id, DeletionState::Gone).await
    }

    pub async fn step(&self, id: &str, kind: &str) -> Step {
        let mut steps = self.steps(id).await.into_iter();
        let of_kind = |step: &Step| step.resource.key.kind.as_str() == kind;
        steps.find(of_kind).unwrap()
    }

    pub async fn until_step(&self, id: &str, kind: &str, state: StepState) -> Step {
        self.until_any_step(id, |step| {
            step.resource.key.kind.as_str() == kind && step.state == state
        })
        .await
    }

    pub async fn until_blocked(&self, id: &str, kind: &str) -> Step {
        self.until_step(id, kind, StepState::Blocked).await
    }

    pub async fn until_any_step(&self, id: &str, fits: impl Fn(&Step) -> bool) -> Step {
        let deadline = tokio::time::Instant::now() + WAIT_MAX;
        let mut last_seq = 0;
        loop {
            let steps = self.steps(id).await;
            if let Some(step) = steps.into_iter().find(|step| fits(step)) {
                return step;
            }
            assert!(
                tokio::time::Instant::now() < deadline,
                "after two days no step is as expected: {:#?}",
                self.steps(id).await
            );
            let events = self.control.events(last_seq, 60 * 60 * 1000).await.unwrap();
            last_seq = events.last().map_or(last_seq, |event| event.seq);
        }
    }

    /// Returns the last step of the resource with this id: the one that removes the resource.
    pub async fn step_of(&self, id: &str, resource: &str) -> Step {
        let steps = self.steps(id).await;
        let mut found = steps
            .into_iter()
            .filter(|step| step.resource.key.id == resource);
        found.next_back().unwrap()
    }

    pub async fn until_refused(&self, id: &str) -> Deletion {
        self.until_ended_as(id, DeletionState::Refused).await
    }

    pub async fn until_stuck(&self, id: &str) -> Deletion {
        self.until_ended_as(id, DeletionState::Stuck).await
    }

    pub async fn retry(&self, id: &str) {
        let deletion_id = id.to_owned();
        self.submit(Command::Retry { deletion_id }).await.unwrap();
    }

    pub async fn timeline(&self, deletion_id: Option<&str>, step_id: Option<i64>) -> Vec<Event> {
        let events = query::Timeline {
            deletion_id: deletion_id.map(str::to_owned),
            step_id,
            after: 0,
        };
        self.control.ask(events).await.unwrap()
    }

    pub async fn frozen_plan(&self, id: &str) -> Arc<Plan> {
        let deletion_id = id.to_owned();
        let plan = query::FrozenPlan {
            deletion_id,
            without_steps: false,
        };
        self.control.ask(plan).await.unwrap()
    }

    pub async fn tombstone(&self, id: &str) -> Option<Tombstone> {
        let tombstones = query::Tombstones {
            id: Some(id.to_owned()),
            limit: 10,
            ..query::Tombstones::default()
        };
        let page = self.control.ask(tombstones).await.unwrap();
        page.rows.into_iter().next()
    }

    pub async fn site_status(&self) -> SiteStatus {
        self.control.ask(query::Sites {}).await.unwrap().remove(0)
    }

    pub async fn explain(&self, kind: &str, id_or_name: &str) -> Explanation {
        let target = target(kind, id_or_name);
        *self.control.ask(query::Explain { target }).await.unwrap()
    }

    /// Returns the deletions in these states (in any state, if the list is empty). With `older_than`, returns only
    /// those that were requested before that time.
    pub async fn deletions(
        &self,
        states: Vec<DeletionState>,
        older_than: Option<DateTime<Utc>>,
    ) -> Vec<Deletion> {
        let deletions = query::Deletions {
            states,
            older_than,
            limit: 500,
            ..query::Deletions::default()
        };
        self.control.ask(deletions).await.unwrap().rows
    }
}
