//! Faults on demand: rules that say which calls go wrong, and how.
use http::{StatusCode, header};
use regex::Regex;
use serde::{Deserialize, Deserializer, de::Error};
use serde_json::{Value, json};

use super::core::{Answer, Api, Call, Content, Course, End, PathMatch, Refusal, title};

/// One rule of `PUT /sandbox/v1/faults`. The first rule that matches a call wins.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Rule {
    #[serde(default, rename = "match")]
    condition: Match,
    /// Number of calls that the rule applies to; all when missing.
    #[serde(default)]
    times: Option<u64>,
    pub(super) action: Action,
}

/// The condition of a rule. A missing key matches everything.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Match {
    region: Option<String>,
    method: Option<String>,
    /// A pattern that may match anywhere in the path; `*` stands for any run of characters, `$` at the end
    /// for the end of the path.
    #[serde(deserialize_with = "path_pattern")]
    path: Option<Regex>,
    /// `network`, `port`, `router_interface`, `subport`, `static_route`, …, or `token` for Keystone's tokens.
    /// Case, `_`, `-` and a plural's `s` do not matter.
    kind: Option<String>,
    /// An id in the path, in the body of a call that changes an edge (`subnet_id`, `port_id`), or the project of a
    /// new image member.
    id: Option<String>,
}

/// The effect of a fault, in place of the ordinary answer or in addition to it. Only one of `status`, `hang`, `keep`
/// and `recreate_after_ms` is allowed.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Action {
    /// Refuses the call with this status, without effect.
    pub(super) status: Option<u16>,
    #[serde(rename = "type")]
    kind: Option<String>,
    message: Option<String>,
    /// Value of `Retry-After`: seconds, or an HTTP date.
    retry_after: Option<Value>,
    /// With `status`: a proxy's HTML page instead of the service's own error body.
    html: bool,
    /// Milliseconds by which the answer is later.
    pub(super) delay_ms: u64,
    /// The call has no effect, and is never answered.
    pub(super) hang: bool,
    /// The call takes effect, but the connection closes without an answer.
    pub(super) drop_after_effect: bool,
    /// The call changes nothing. It reports success if it otherwise would, or would be refused for a conflict.
    pub(super) keep: bool,
    /// How the change that the call begins ends, for rows whose changes take time.
    ends_in: Option<Ending>,
    /// Seconds that the change of `ends_in` takes; 1 when missing.
    for_s: Option<u32>,
    /// The list in the answer is empty.
    pub(super) empty_list: bool,
    /// The body is cut in the middle, so it is no longer valid JSON.
    pub(super) truncate: bool,
    /// The resources that the call deleted are revived after this many milliseconds.
    pub(super) recreate_after_ms: Option<u64>,
    #[serde(rename = "as")]
    recreate_as: Option<RecreateAs>,
}

/// How an accepted change ends: for example `error` if a hypervisor refuses it, `never` if the hypervisor hangs,
/// `put_back` if the storage is busy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Ending {
    Done,
    Error,
    /// The row is usable again, without the change. A load balancer, which has no such end, is in ERROR.
    PutBack,
    Never,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum RecreateAs {
    /// Revives a resource under the same id.
    Same,
    /// Revives a resource under a new id.
    New,
}

/// The properties of a call that rules match.
pub(super) struct CallFacts<'a> {
    region: Option<&'a str>,
    method: &'a str,
    /// The path as it was sent, without the query.
    path: &'a str,
    /// The names of the kind, the most specific first.
    kinds: Vec<String>,
    ids: Vec<String>,
}

/// Relations that calls change as if they were resources, and the ends of the calls' paths.
const EDGES: [(&str, &str); 5] = [
    ("router_interface", "_router_interface"),
    ("static_route", "_extraroutes"),
    ("subport", "_subports"),
    ("volume_attachment", "os-volume_attachments"),
    ("server_interface", "os-interface"),
];

impl<'a> CallFacts<'a> {
    /// `path` is that of the request; `api` is `None` for Keystone.
    pub(super) fn of(
        call: &'a Call<'_>,
        path: &'a str,
        region: Option<&'a str>,
        api: Option<&'static Api>,
    ) -> Self {
        let segments = call.segments();
        let matched = api.and_then(|api| api.match_path(api.below(&segments)?));
        let mut kinds: Vec<String> = Vec::new();
        let mut ids: Vec<String> = Vec::new();
        // The ids of an edge's ends are in the body, and so is the project of a new member.
        let body = call.json();
        ids.extend(body["member"].as_str().map(str::to_owned));
        if let Some(PathMatch { kind, parent, rest }) = matched {
            let action = rest.get(1).unwrap_or(&"");
            if let Some((edge, _)) = EDGES.iter().find(|(_, end)| action.ends_with(end)) {
                kinds.push((*edge).to_owned());
                gather_ids(&body, &mut ids);
            }
            kinds.extend([kind.name, kind.plural].map(str::to_owned));
            let named = rest.iter().copied().chain(parent);
            ids.extend(named.map(str::to_owned));
        } else {
            let mut words = segments.iter().map(|word| (*word).to_owned());
            kinds.extend(words.find(|word| !matches!(word.as_str(), "v3" | "auth")));
            ids.extend(words.next());
        }
        Self {
            region,
            method: call.method.as_str(),
            path,
            kinds,
            ids,
        }
    }
}

fn gather_ids(body: &Value, ids: &mut Vec<String>) {
    match body {
        Value::Object(map) => {
            for (name, value) in map {
                match value.as_str() {
                    Some(id) if name.ends_with("_id") => ids.push(id.to_owned()),
                    _ => gather_ids(value, ids),
                }
            }
        }
        Value::Array(items) => items.iter().for_each(|item| gather_ids(item, ids)),
        _ => {}
    }
}

#[derive(Default)]
pub(super) struct Faults {
    rules: Vec<Rule>,
}

impl Faults {
    /// Replaces the rules. Refuses an action whose keys do not fit together; the error names the rule.
    pub(super) fn replace(&mut self, rules: Vec<Rule>) -> Result<(), String> {
        for (index, rule) in rules.iter().enumerate() {
            let checked = rule.action.check();
            checked.map_err(|problem| format!("[{index}].action: {problem}"))?;
        }
        self.rules = rules;
        Ok(())
    }

    /// Returns the action for a call, and counts the hit.
    pub(super) fn hit(&mut self, facts: &CallFacts<'_>) -> Option<Action> {
        let mut rules = self.rules.iter_mut().filter(|rule| rule.times != Some(0));
        let rule = rules.find(|rule| rule.condition.fits(facts))?;
        if let Some(times) = &mut rule.times {
            *times -= 1;
        }
        Some(rule.action.clone())
    }
}

impl Match {
    fn fits(&self, facts: &CallFacts<'_>) -> bool {
        let region = |name: &String| facts.region == Some(name.as_str());
        let method = |name: &String| facts.method.eq_ignore_ascii_case(name);
        let path = |pattern: &Regex| pattern.is_match(facts.path);
        let kind = |name: &String| facts.kinds.iter().any(|known| plain(known) == plain(name));
        let id = |id: &String| facts.ids.iter().any(|known| known.eq_ignore_ascii_case(id));
        self.region.as_ref().is_none_or(region)
            && self.method.as_ref().is_none_or(method)
            && self.path.as_ref().is_none_or(path)
            && self.kind.as_ref().is_none_or(kind)
            && self.id.as_ref().is_none_or(id)
    }
}

/// Reduces a kind to one spelling: `floating_ips`, `floatingip` and `floating-ip` are the same kind.
fn plain(kind: &str) -> String {
    let mut plain: String = kind
        .chars()
        .filter(|letter| letter.is_alphanumeric())
        .flat_map(char::to_lowercase)
        .collect();
    if plain.ends_with("policies") {
        plain.truncate(plain.len() - "ies".len());
        plain.push('y');
    } else if plain.ends_with('s') {
        plain.pop();
    }
    plain
}

fn path_pattern<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Regex>, D::Error> {
    let text = Option::<String>::deserialize(from)?;
    let pattern = |text: String| {
        let (text, end) = match text.strip_suffix('$') {
            Some(text) => (text, "$"),
            None => (text.as_str(), ""),
        };
        let pattern = regex::escape(text).replace(r"\*", ".*");
        Regex::new(&(pattern + end)).map_err(D::Error::custom)
    };
    text.map(pattern).transpose()
}

impl Action {
    /// Refuses keys that do not fit together.
    fn check(&self) -> Result<(), String> {
        let needs_status = [
            (self.kind.is_some(), "type"),
            (self.message.is_some(), "message"),
            (self.retry_after.is_some(), "retry_after"),
            (self.html, "html"),
        ];
        let given = needs_status.into_iter().find(|(given, _)| *given);
        if let (Some((_, name)), None) = (given, self.status) {
            return Err(format!("{name}: needs a status"));
        }
        let (is_refused, is_revived) = (self.status.is_some(), self.recreate_after_ms.is_some());
        let effects = [is_refused, self.hang, self.keep, is_revived];
        let status = self.status.map(StatusCode::from_u16);
        let problem = if status.is_some_and(|status| status.is_err()) {
            "status: not an HTTP status"
        } else if self.recreate_as.is_some() && !is_revived {
            "as: needs recreate_after_ms"
        } else if self.for_s.is_some() && self.ends_in.is_none_or(|end| end == Ending::Never) {
            "for_s: needs ends_in, other than never"
        } else if effects.iter().filter(|given| **given).count() > 1 {
            "only one of status, hang, keep and recreate_after_ms is allowed"
        } else {
            return Ok(());
        };
        Err(problem.to_owned())
    }

    /// Returns the course of the changes that the call begins, if it is an unusual one.
    pub(super) fn course(&self) -> Option<Course> {
        let seconds = Some(self.for_s.unwrap_or(1));
        let (seconds, end) = match self.ends_in? {
            Ending::Done => (seconds, End::Done),
            Ending::Error => (seconds, End::Error),
            Ending::PutBack => (seconds, End::PutBack),
            Ending::Never => (None, End::Done),
        };
        Some(Course { seconds, end })
    }

    pub(super) fn as_new(&self) -> bool {
        self.recreate_as == Some(RecreateAs::New)
    }

    /// Returns the refusal that the rule names; `render` gives it the shape of the service.
    pub(super) fn refusal(&self, render: impl FnOnce(Refusal) -> Answer) -> Option<Answer> {
        let status = StatusCode::from_u16(self.status?).ok()?;
        let mut answer = if self.html {
            Answer::html(status)
        } else if status.is_success() {
            Answer::json(status, Value::Null)
        } else {
            // Without a type: webob's name for the status.
            let webob = || format!("HTTP{}", title(status).replace(' ', ""));
            let kind = self.kind.clone().unwrap_or_else(webob);
            let message = self.message.as_deref().unwrap_or(title(status));
            render(Refusal::new(status.as_u16(), &kind, message))
        };
        if let Some(after) = &self.retry_after {
            let text = after.as_str();
            let text = text.map_or_else(|| after.to_string(), str::to_owned);
            answer = answer.with(header::RETRY_AFTER, text);
        }
        Some(answer)
    }

    /// Empties the list in a successful answer, if the fault says so.
    pub(super) fn apply_to(&self, mut answer: Answer) -> Answer {
        if self.empty_list
            && answer.status.is_success()
            && let Content::Json(Value::Object(body)) = &mut answer.content
        {
            body.retain(|name, value| value.is_array() && !name.ends_with("_links"));
            body.values_mut().for_each(|list| *list = json!([]));
        }
        answer
    }
}
