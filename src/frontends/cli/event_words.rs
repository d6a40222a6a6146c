//! Events in words, with the resources of their steps: an event has only the number of its step.

use std::collections::{BTreeMap, BTreeSet};

use super::{Failure, Session};
use crate::control::{ControlError, query};
use crate::domain::model::{Event, StepResource};
use crate::present::resource_words;

/// Returns the resources of the steps of these events, by step. A step that was pruned is left out.
pub(super) async fn resources(
    session: &Session<'_>,
    events: &[Event],
) -> Result<Result<BTreeMap<i64, String>, ControlError>, Failure> {
    let steps: BTreeSet<i64> = events.iter().filter_map(|event| event.step_id).collect();
    let mut resources = BTreeMap::new();
    for id in steps {
        let step = session.control.find(query::Step { id });
        match session.or_interrupted("", step).await? {
            Ok(Some(step)) => {
                let StepResource { key, name } = &step.resource;
                resources.insert(id, resource_words(&key.kind, name, &key.id));
            }
            Ok(None) => {}
            Err(error) => return Ok(Err(error)),
        }
    }
    Ok(Ok(resources))
}

/// `port web-12: DELETE /v2.0/ports/3f1c 204`
pub(super) fn event_words(event: &Event, resources: &BTreeMap<i64, String>) -> String {
    let resource = event.step_id.and_then(|id| resources.get(&id));
    // Some events name their resource themselves.
    let resource = resource.filter(|resource| !event.message.contains(resource.as_str()));
    let resource = resource.map_or_else(String::new, |resource| format!("{resource}: "));
    format!("{resource}{}", event.message)
}
