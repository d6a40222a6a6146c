//! Faults on demand: rules that say which calls go wrong, and how.
use serde::Deserialize;
use serde_json::Value;

use super::core::{Answer, Api, Call, Content, Course, End, PathMatch, Refusal, title};
use http::{StatusCode, header};

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
    path: Option<String>,
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
    /// The call reports success where it otherwise would, and for a conflict, but changes nothing.
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
        let below = api.and_then(|api| api.below(&segments));
        let matched = api.zip(below).and_then(|(api, path)| api.match_path(path));
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
            rule.action
                .check()
                .map_err(|problem| format!("[{index}].action: {problem}"))?;
        }
        self.rules = rules;
        Ok(())
    }

    /// Returns the action for a call, and counts the hit.
    pub(super) fn hit(&mut self, facts: &CallFacts<'_>) -> Option<Action> {
        let rule = self
            .rules
            .iter_mut()
            .find(|rule| rule.times != Some(0) && rule.condition.fits(facts))?;
        if let Some(times) = &mut rule.times {
            *times -= 1;
        }
        Some(rule.action.clone())
    }
}

impl Match {
    fn fits(&self, facts: &CallFacts<'_>) -> bool {
        fn all(condition: &Option<String>, fits: impl Fn(&str) -> bool) -> bool {
            condition.as_deref().is_none_or(fits)
        }
        let (kinds, ids) = (&facts.kinds, &facts.ids);
        all(&self.region, |region| facts.region == Some(region))
            && all(&self.method, |method| {
                method.eq_ignore_ascii_case(facts.method)
            })
            && all(&self.path, |path| found_in(path, facts.path))
            && all(&self.kind, |kind| {
                kinds.iter().any(|known| plain(known) == plain(kind))
            })
            && all(&self.id, |id| {
                ids.iter().any(|known| known.eq_ignore_ascii_case(id))
            })
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

fn found_in(pattern: &str, path: &str) -> bool {
    let (pattern, to_end) = match pattern.strip_suffix('$') {
        Some(pattern) => (pattern, true),
        None => (pattern, false),
    };
    let mut rest = path;
    let mut parts = pattern.split('*').peekable();
    while let Some(part) = parts.next() {
        if to_end && parts.peek().is_none() {
            return rest.ends_with(part);
        }
        match rest.find(part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    true
}

impl Action {
    fn check(&self) -> Result<(), String> {
        let status = self.status.map(StatusCode::from_u16);
        if status.is_some_and(|status| status.is_err()) {
            return Err("status: not an HTTP status".to_owned());
        }
        let needs_status = [
            (self.kind.is_some(), "type"),
            (self.message.is_some(), "message"),
            (self.retry_after.is_some(), "retry_after"),
            (self.html, "html"),
        ];
        if let Some((_, name)) = needs_status.iter().find(|(given, _)| *given)
            && self.status.is_none()
        {
            return Err(format!("{name}: needs a status"));
        }
        if self.recreate_as.is_some() && self.recreate_after_ms.is_none() {
            return Err("as: needs recreate_after_ms".to_owned());
        }
        if self.for_s.is_some() && self.ends_in.is_none_or(|end| end == Ending::Never) {
            return Err("for_s: needs ends_in, other than never".to_owned());
        }
        let (is_refused, is_revived) = (self.status.is_some(), self.recreate_after_ms.is_some());
        let effects = [is_refused, self.hang, self.keep, is_revived];
        match effects.iter().filter(|given| **given).count() {
            0 | 1 => Ok(()),
            _ => Err("only one of status, hang, keep and recreate_after_ms is allowed".to_owned()),
        }
    }

    /// Returns the course of the changes that the call begins, if it is an unusual one.
    pub(super) fn course(&self) -> Option<Course> {
        let end = self.ends_in?;
        let seconds = self.for_s.unwrap_or(1);
        Some(Course {
            seconds: (end != Ending::Never).then_some(seconds),
            end: match end {
                Ending::Error => End::Error,
                Ending::PutBack => End::PutBack,
                Ending::Done | Ending::Never => End::Done,
            },
        })
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
            && answer.is_success()
            && let Content::Json(Value::Object(body)) = &mut answer.content
        {
            body.retain(|name, value| value.is_array() && !name.ends_with("_links"));
            for value in body.values_mut() {
                *value = Value::Array(Vec::new());
            }
        }
        answer
    }
}
