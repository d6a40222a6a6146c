//! Faults on demand: rules that say which calls go wrong, and how.
use serde::Deserialize;
use serde_json::Value;

use super::wire::{Answer, Body, Refusal, title};
use http::{StatusCode, header};

/// One rule of `PUT /sandbox/v1/faults`. The first rule that matches a call wins.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Rule {
    #[serde(default, rename = "match")]
    wanted: Match,
    /// Number of calls that it hits; missing: all.
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
    /// An id in the path, or in the body of a call that changes an edge (`subnet_id`, `port_id`).
    id: Option<String>,
}

/// The effect of a fault, in place of the ordinary answer or in addition to it. Keys can be combined where
/// that makes sense; `delay_ms` goes with all of them.
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
    /// Delays the answer.
    pub(super) delay_ms: u64,
    /// No effect, and no answer ever.
    pub(super) hang: bool,
    /// The call takes effect, but the connection closes without an answer.
    pub(super) drop_after_effect: bool,
    /// The call answers 2xx, but changes nothing.
    pub(super) keep: bool,
    /// A list comes back empty.
    pub(super) empty_list: bool,
    /// The body is cut in the middle, so it is no longer valid JSON.
    pub(super) truncate: bool,
    /// The resources that the call deleted are revived after this time.
    pub(super) recreate_after_ms: Option<u64>,
    #[serde(rename = "as")]
    recreate_as: Option<RecreateAs>,
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
pub(super) struct Subject<'a> {
    pub(super) region: Option<&'a str>,
    pub(super) method: &'a str,
    /// As sent, without the query.
    pub(super) path: &'a str,
    /// The most specific first.
    pub(super) kinds: Vec<String>,
    pub(super) ids: Vec<String>,
}

#[derive(Default)]
pub(super) struct Faults {
    rules: Vec<Rule>,
}

impl Faults {
    /// Replaces the rules. Rejects actions that make no sense, and names the rule.
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
    pub(super) fn hit(&mut self, subject: &Subject<'_>) -> Option<Action> {
        let rule = self
            .rules
            .iter_mut()
            .find(|rule| rule.times != Some(0) && rule.wanted.fits(subject))?;
        if let Some(times) = &mut rule.times {
            *times -= 1;
        }
        Some(rule.action.clone())
    }
}

impl Match {
    fn fits(&self, subject: &Subject<'_>) -> bool {
        let same = |wanted: &Option<String>, is: Option<&str>| {
            wanted.as_deref().is_none_or(|wanted| Some(wanted) == is)
        };
        same(&self.region, subject.region)
            && self
                .method
                .as_ref()
                .is_none_or(|method| method.eq_ignore_ascii_case(subject.method))
            && self
                .path
                .as_ref()
                .is_none_or(|path| found_in(path, subject.path))
            && self.kind.as_ref().is_none_or(|kind| {
                subject
                    .kinds
                    .iter()
                    .any(|known| plain(known) == plain(kind))
            })
            && self.id.as_ref().is_none_or(|id| {
                subject
                    .ids
                    .iter()
                    .any(|known| known.eq_ignore_ascii_case(id))
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
        if self
            .status
            .is_some_and(|status| StatusCode::from_u16(status).is_err())
        {
            return Err("status: not an HTTP status".to_owned());
        }
        let needs_status = [
            (self.kind.is_some(), "type"),
            (self.message.is_some(), "message"),
            (self.retry_after.is_some(), "retry_after"),
            (self.html, "html"),
        ];
        if let Some((_, name)) = needs_status
            .iter()
            .find(|(given, _)| *given && self.status.is_none())
        {
            return Err(format!("{name}: needs a status"));
        }
        if self.recreate_as.is_some() && self.recreate_after_ms.is_none() {
            return Err("as: needs recreate_after_ms".to_owned());
        }
        let chosen = [
            self.status.is_some(),
            self.hang,
            self.keep,
            self.recreate_after_ms.is_some(),
        ];
        if chosen.iter().filter(|given| **given).count() > 1 {
            return Err("only one of status, hang, keep, recreate_after_ms".to_owned());
        }
        Ok(())
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
            let kind = self.kind.clone().unwrap_or_else(|| usual_type(status));
            let message = self
                .message
                .clone()
                .unwrap_or_else(|| title(status).to_owned());
            render(Refusal::new(status, &kind, message))
        };
        if let Some(after) = &self.retry_after {
            let text = after
                .as_str()
                .map_or_else(|| after.to_string(), str::to_owned);
            answer = answer.with(header::RETRY_AFTER, text);
        }
        Some(answer)
    }

    /// Applies the fault to an ordinary answer.
    pub(super) fn apply_to(&self, mut answer: Answer) -> Answer {
        if self.empty_list
            && answer.is_success()
            && let Body::Json(Value::Object(body)) = &mut answer.body
        {
            body.retain(|name, value| value.is_array() && !name.ends_with("_links"));
            for value in body.values_mut() {
                *value = Value::Array(Vec::new());
            }
        }
        answer
    }
}

/// Returns webob's name for a status.
fn usual_type(status: StatusCode) -> String {
    let words: String = title(status).split(' ').collect();
    format!("HTTP{words}")
}

#[cfg(test)]
mod tests {
    use super::{found_in, plain};

    #[test]
    fn a_path_pattern_is_found_anywhere_with_stars_and_an_end() {
        let path = "/RegionOne/network/v2.0/ports/123";
        for (pattern, fits) in [
            ("/v2.0/ports", true),
            ("/v2.0/ports$", false),
            ("/ports/*$", true),
            ("RegionOne*ports", true),
            ("ports*RegionOne", false),
            ("/123$", true),
        ] {
            assert_eq!(found_in(pattern, path), fits, "{pattern}");
        }
    }

    #[test]
    fn a_kind_has_one_plain_name() {
        assert_eq!(plain("floatingips"), plain("floating_ip"));
        assert_eq!(plain("security-groups"), plain("security_group"));
        assert_eq!(plain("rbac-policies"), plain("rbac_policy"));
        assert_ne!(plain("port"), plain("subport"));
    }
}
