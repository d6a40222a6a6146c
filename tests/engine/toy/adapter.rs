//! The toy cloud as a provider: all the code that gone needs for another cloud, besides a kinds file.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use gone::cloud::{
    Acted, Call, Cloud, CloudFailure, Freshness, ListRows, Listed, NameLookup, Row, SignedIn,
};
use gone::domain::kinds::{
    AnswerClass, Kind, KindCalls, Kinds, KindsError, Offer, Provider, Source,
};
use gone::domain::model::{Action, Answer, Identity, KindName, Site, StepError};
use gone::domain::policy::{Outcome, retry_and_class};
use gone::system::clock::Clock;
use serde::Deserialize;
use serde_json::{Value, json};

use super::cloud::ToyServer;

/// The provider of the kinds of the toy cloud.
#[derive(Clone, Copy, Debug)]
pub struct ToyKinds;

/// `[kind.X.call]` of the toy's kinds file.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ToyCalls {
    list: String,
    delete: String,
    not_found: String,
}

#[derive(Deserialize)]
struct File {
    kind: BTreeMap<KindName, OfKind>,
}

#[derive(Deserialize)]
struct OfKind {
    call: ToyCalls,
}

impl Provider for ToyKinds {
    fn name(&self) -> &'static str {
        "toy"
    }

    fn calls(&self, source: &Source) -> Result<BTreeMap<KindName, Arc<dyn KindCalls>>, KindsError> {
        let file: File = source.parse()?;
        let calls = file.kind.into_iter();
        Ok(calls
            .map(|(name, it)| (name, Arc::new(it.call) as Arc<dyn KindCalls>))
            .collect())
    }
}

impl KindCalls for ToyCalls {
    fn validate(&self, _: &Kind) -> Result<(), String> {
        Ok(())
    }

    fn can(&self, action: Action) -> bool {
        action == Action::Delete
    }

    fn values_per_list(&self, _: &str) -> usize {
        100
    }

    fn meaning(&self, error: &StepError) -> Option<AnswerClass> {
        Some(class_of(&error.kind))
    }

    fn line(&self, _: Action, variables: &BTreeMap<String, String>) -> Option<String> {
        Some(format!("{} {}", self.delete, variables.get("id")?))
    }
}

fn class_of(error_type: &str) -> AnswerClass {
    match error_type {
        "DependencyViolation" => AnswerClass::Blocked,
        "Throttling" => AnswerClass::Unavailable,
        "InternalFailure" => AnswerClass::Failed,
        "AccessDenied" => AnswerClass::Auth,
        _ => AnswerClass::Fatal,
    }
}

/// Returns the kind of an id, by its prefix.
fn kind_of(id: &str) -> Option<KindName> {
    let kinds = [
        ("vpc-", "toy.vpc"),
        ("net-", "toy.subnet"),
        ("m-", "toy.machine"),
    ];
    let found = kinds.iter().find(|(prefix, _)| id.starts_with(prefix));
    found.map(|(_, kind)| KindName::new(kind))
}

/// The client of the toy cloud, for one site.
pub struct ToyCloud {
    pub site: Site,
    pub token: &'static str,
    pub server: Arc<Mutex<ToyServer>>,
    pub clock: Clock,
}

impl ToyCloud {
    fn calls<'k>(&self, kind: &'k Kind) -> Option<&'k ToyCalls> {
        kind.calls_of()
    }

    fn ask(&self, request: &Value) -> Result<Value, StepError> {
        let now = self.clock.now();
        let (status, answer) = self.server.lock().unwrap().handle(self.token, request, now);
        if status == 200 {
            return Ok(answer);
        }
        let kind = answer["__type"].as_str().unwrap_or_default();
        Err(StepError {
            class: retry_and_class(class_of(kind)).1,
            status: Some(status),
            kind: kind.to_owned(),
            message: answer["message"].as_str().unwrap_or_default().to_owned(),
            request_id: String::new(),
            at: now,
        })
    }

    fn identity(&self) -> Identity {
        Identity {
            user_id: "root".into(),
            project_id: "acme".into(),
            roles: vec!["owner".into()],
        }
    }
}

fn failure(error: StepError) -> CloudFailure {
    CloudFailure {
        retry: retry_and_class(class_of(&error.kind)).0,
        class: error.class,
        forbidden: false,
        status: error.status,
        kind: error.kind,
        message: error.message,
        request_id: error.request_id,
        retry_after: None,
    }
}

#[async_trait]
impl Cloud for ToyCloud {
    fn sites(&self) -> Vec<Site> {
        vec![self.site.clone()]
    }

    fn provider(&self, _: &Site) -> Option<&'static str> {
        Some(ToyKinds.name())
    }

    fn has_other_login(&self, _: &Site) -> bool {
        false
    }

    async fn identity(&self, _: &Site, _: Freshness) -> Result<SignedIn, CloudFailure> {
        Ok(SignedIn {
            identity: self.identity(),
            shown: "root of acme".into(),
        })
    }

    async fn endpoint(&self, _: &Site, _: &Kind) -> Result<String, CloudFailure> {
        Ok("toy://yard".into())
    }

    async fn offer(&self, _: &Site, _: &Kinds) -> Result<Offer, CloudFailure> {
        Ok(Offer::default())
    }

    async fn list_by_page(
        &self,
        request: ListRows<'_>,
        listed: &mut (dyn FnMut(Listed) + Send),
    ) -> Result<Option<Identity>, CloudFailure> {
        let Some(calls) = self.calls(request.kind) else {
            return Ok(None);
        };
        let filter = request.filter;
        let filter = filter.map(|it| json!({ "key": it.key, "values": it.values }));
        let mut next = Value::Null;
        listed(Listed::Part);
        loop {
            let request_body = json!({ "action": calls.list, "filter": filter, "nextToken": next });
            let mut page = self.ask(&request_body).map_err(failure)?;
            let items = page["items"].as_array_mut().map(std::mem::take);
            listed(Listed::Rows(items.unwrap_or_default()));
            next = page["nextToken"].take();
            if next.is_null() {
                return Ok(Some(self.identity()));
            }
        }
    }

    async fn read(&self, _: &Site, kind: &Kind, id: &str) -> Result<Row, CloudFailure> {
        let Some(calls) = self.calls(kind) else {
            return Ok(Row::not_offered());
        };
        let request_body =
            json!({ "action": calls.list, "filter": { "key": "id", "values": [id] } });
        let mut answer = self.ask(&request_body).map_err(failure)?;
        let row = answer["items"].get_mut(0).map(Value::take);
        Ok(Row::answered(row, Some(self.identity())))
    }

    async fn act(&self, call: Call<'_>) -> Acted {
        let calls = self
            .calls(call.kind)
            .expect("the kind belongs to the toy cloud");
        let answer = self.ask(&json!({ "action": calls.delete, "id": call.id }));
        let line = |answered: &str| format!("{} {} {answered}", calls.delete, call.id);
        match answer {
            Ok(_) => Acted {
                outcome: Outcome::Accepted,
                named: Vec::new(),
                line: line("200"),
                answer: Answer {
                    status: Some(200),
                    request_id: None,
                },
            },
            Err(error) => {
                let named = error.message.split_whitespace().filter(|id| *id != call.id);
                let named = named.filter_map(|id| Some((kind_of(id)?, id.to_owned())));
                let named: Vec<_> = named.collect();
                let line = line(&error.kind);
                if error.kind == calls.not_found {
                    return Acted {
                        outcome: Outcome::Absent,
                        named: Vec::new(),
                        line,
                        answer: Answer {
                            status: Some(400),
                            request_id: None,
                        },
                    };
                }
                Acted {
                    named,
                    ..Acted::not_sent(failure(error), line, self.clock.now())
                }
            }
        }
    }

    async fn account_names(
        &self,
        _: &Site,
        _: &BTreeSet<String>,
        _: NameLookup,
    ) -> BTreeMap<String, String> {
        BTreeMap::new()
    }
}
