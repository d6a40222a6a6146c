//! The text of a message, written for a person at two in the morning: which deletion, of which resources, at
//! which sites, why, since when, and which command to type next.
//!
//! Names and error messages from clouds are hostile: they are escaped everywhere, and in the line for chat
//! systems they can neither mention anybody, nor format, nor link.

use std::borrow::Cow;

use chrono::{DateTime, Utc};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Value, json};

use crate::domain::model::{Deletion, Left, ResourceKey, Site, Step, StepState, Target, short_id};
use crate::domain::notification::{Subject, Topic};
use crate::domain::text::escape;
use crate::present::{and_more, answer_words, blocker_words, count, joined, kind_words, time};

/// Maximum number of topics in a message; the others are only counted.
pub(super) const TOPICS_MAX: usize = 10;
/// Maximum number of entries in each of these lists of a message: a deletion's targets, its refusals, the resources
/// that it leaves, and a step's blockers.
const NAMED_MAX: usize = 3;
/// Maximum number of characters of one text from a cloud, in a line and in the JSON.
const SHOWN_CHARS_MAX: usize = 200;
const KEPT_CHARS_MAX: usize = 500;
/// Longer subjects are cut by the programs that show them.
const SUBJECT_CHARS_MAX: usize = 150;

/// One message, for every kind of channel.
#[derive(Clone, Debug)]
pub(super) struct Message {
    /// Unique, and the same when the message is repeated after a crash.
    pub(super) id: String,
    pub(super) at: DateTime<Utc>,
    /// One line, for a mail.
    pub(super) subject: String,
    pub(super) body: String,
    /// The body for a webhook; the documentation of [`super`] describes it.
    pub(super) json: Value,
}

/// A topic, with the current data of the ledger.
pub(super) struct TopicDetails {
    pub(super) subject: Subject,
    pub(super) topic: Topic,
    pub(super) deletion: Option<Box<Deletion>>,
    pub(super) steps: Vec<Step>,
    /// The resources that stay by the plan, whatever becomes of the steps.
    pub(super) left: Vec<Left>,
}

/// Makes hostile text harmless where it is shown.
type Show = fn(&str) -> String;

impl Message {
    pub(super) fn write(
        host: &str,
        id: String,
        parts: &[TopicDetails],
        more: usize,
        at: DateTime<Utc>,
    ) -> Self {
        let rest = match more {
            0 => String::new(),
            more => format!("and {more} more; to see all: gone list stuck; gone list"),
        };
        let chat_lines = parts.iter().map(|part| part.chat_line());
        let text = lines(chat_lines.chain([rest.clone()]));
        let paragraphs = parts.iter().map(|part| part.paragraph() + "\n");
        let body = lines(paragraphs.chain([rest]));
        let first = parts.first().map(|part| part.headline(plain));
        let first = first.unwrap_or_default();
        let subject = match parts.len() + more {
            0 | 1 => format!("[gone] {first}"),
            all => format!("[gone] {all} deletions or sites need a person: {first}"),
        };
        let news: Vec<Value> = parts.iter().map(TopicDetails::json).collect();
        Self::new(host, id, at, &subject, (&body, &text), &news, more)
    }

    /// Returns a test message, which only shows that the channel works.
    pub(super) fn test(host: &str, unique: &str, at: DateTime<Utc>) -> Self {
        let id = format!("gone-test-{unique}");
        let line = "a test: notifications about deletions and sites that need a person arrive here";
        let body = format!("{line}\n");
        Self::new(host, id, at, "[gone] a test", (&body, line), &[], 0)
    }

    /// `body` is for a mail, `text` for a chat system.
    fn new(
        host: &str,
        id: String,
        at: DateTime<Utc>,
        subject: &str,
        (body, text): (&str, &str),
        news: &[Value],
        more: usize,
    ) -> Self {
        let json = json!({
            "id": id,
            "text": format!("gone on {}: {text}", chat(host)),
            "at": time(at),
            "host": host,
            "news": news,
            "more": more,
        });
        Self {
            id,
            at,
            subject: cut(subject, SUBJECT_CHARS_MAX).into_owned(),
            body: format!("{body}\n-- \ngone on {}\n", plain(host)),
            json,
        }
    }
}

impl TopicDetails {
    fn headline(&self, show: Show) -> String {
        let sites = self.sites(show);
        match &self.subject {
            Subject::Paused(site) => format!("{} is paused", show(&site.to_string())),
            Subject::Refused(id) => format!("{} was refused at {sites}", self.named(id, show)),
            Subject::Stuck(id) => {
                let steps = match self.topic.count {
                    1 => "1 step is".to_owned(),
                    n => format!("{n} steps are"),
                };
                format!("{}: {steps} stuck at {sites}", self.named(id, show))
            }
        }
    }

    /// Returns, for example, `deletion 9f86d081 of network web`.
    fn named(&self, id: &str, show: Show) -> String {
        let named = format!("deletion {}", short_id(id));
        let targets = self.deletion.as_ref().map(|deletion| &deletion.targets);
        let Some(targets) = targets.filter(|targets| !targets.is_empty()) else {
            return named;
        };
        let names = targets.iter().take(NAMED_MAX).map(|Target { key, name }| {
            let name = if name.is_empty() { &key.id } else { name };
            format!("{} {}", show(&kind_words(&key.kind)), show(name))
        });
        let more = and_more(targets.len().saturating_sub(NAMED_MAX));
        format!("{named} of {}{more}", joined(names, ", "))
    }

    fn sites(&self, show: Show) -> String {
        let sites = self.topic.sites.iter().map(Site::to_string);
        joined(sites.map(|site| show(&site)), ", ")
    }

    /// Returns the reasons, one for each line.
    fn reasons(&self, show: Show) -> Vec<String> {
        let steps = self.steps.iter();
        match &self.subject {
            Subject::Stuck(_) => steps.map(|step| why_stuck(step, show)).collect(),
            Subject::Refused(_) | Subject::Paused(_) => {
                self.refusals().iter().map(|reason| show(reason)).collect()
            }
        }
    }

    /// Returns why the deletion was refused, or why the site was paused.
    fn refusals(&self) -> Vec<String> {
        let refused = self.deletion.iter().flat_map(|deletion| &deletion.refused);
        let reasons = refused.take(NAMED_MAX).map(|it| it.reason.clone());
        let reasons: Vec<String> = reasons.collect();
        match reasons.is_empty() {
            true => vec![self.topic.line.clone()],
            false => reasons,
        }
    }

    /// Returns the commands to type next. They contain only letters, digits, blanks and `-_.,:/@%`, since
    /// they are pasted into a shell.
    fn next(&self) -> Vec<String> {
        let step = self.steps.first().map(|step| &step.resource.key);
        let target = || Some(&self.deletion.as_ref()?.targets.first()?.key);
        let explained = step.or_else(target);
        let mut next: Vec<String> = explained.map(explain).into_iter().collect();
        match &self.subject {
            Subject::Paused(_) => next.push("gone doctor".to_owned()),
            Subject::Stuck(id) | Subject::Refused(id) => {
                next.push(format!("gone retry {}", short_id(id)));
            }
        }
        next
    }

    fn chat_line(&self) -> String {
        let reason = self.reasons(chat).into_iter().next();
        let head = joined([self.headline(chat)].into_iter().chain(reason), ": ");
        let next = self.next().join("; ");
        format!("{head}; since {}. Next: {next}", time(self.topic.since))
    }

    fn paragraph(&self) -> String {
        let since = time(self.topic.since);
        let mut lines = vec![format!("{}, since {since}", self.headline(plain))];
        lines.extend(self.reasons(plain));
        let named = self.steps.len() as u64;
        if self.topic.count > named && named > 0 {
            lines.push(format!("and {} more", self.topic.count - named));
        }
        let left = self.left.iter().take(NAMED_MAX);
        lines.extend(left.map(|left| stays(left, plain)));
        if let more @ 1.. = self.left.len().saturating_sub(NAMED_MAX) {
            lines.push(format!("and {more} more stay"));
        }
        if let Some(deletion) = self.deletion.as_ref().filter(|it| !it.reason.is_empty()) {
            let (by, why) = (&deletion.requested_by.name, &deletion.reason);
            lines.push(format!("asked for by {}: {}", plain(by), plain(why)));
        }
        lines.push(format!("Next: {}", self.next().join("\n        ")));
        lines.join("\n  ")
    }

    fn json(&self) -> Value {
        let (word, id) = match &self.subject {
            Subject::Paused(_) => ("paused", None),
            Subject::Stuck(id) => ("stuck", Some(id.as_str())),
            Subject::Refused(id) => ("refused", Some(id.as_str())),
        };
        let targets = self.deletion.iter().flat_map(|deletion| &deletion.targets);
        let mut json = json!({
            "type": word,
            "deletion_id": id,
            "short_id": id.map(short_id),
            "since": time(self.topic.since),
            "targets": targets.take(NAMED_MAX).collect::<Vec<_>>(),
            "sites": self.topic.sites,
            "count": self.topic.count,
            "steps": self.steps.iter().map(|step| json!({
                "id": step.id,
                "resource": step.resource,
                "attempts": step.attempts,
                "blocked_since": step.blocked_since,
                "last_error": step.last_error,
                "blockers": step.blockers,
            })).collect::<Vec<_>>(),
            "reasons": match &self.subject {
                Subject::Stuck(_) => Vec::new(),
                Subject::Refused(_) | Subject::Paused(_) => self.refusals(),
            },
            "left": self.left.iter().take(NAMED_MAX).collect::<Vec<_>>(),
            "left_count": self.left.len(),
            "next": self.next(),
        });
        escape_all(&mut json);
        json
    }
}

/// Returns, for example, `image golden (id) at prod/RegionOne stays: other projects may use it`.
fn stays(left: &Left, show: Show) -> String {
    let words = resource(&left.resource.key, &left.resource.name, show);
    format!("{words} stays: {}", show(&left.reason))
}

/// Returns, for example, `port server-0 (id) at prod/RegionOne`.
fn resource(key: &ResourceKey, name: &str, show: Show) -> String {
    let (kind, id) = (show(&kind_words(&key.kind)), show(&key.id));
    let site = show(&key.site.to_string());
    match name {
        "" => format!("{kind} {id} at {site}"),
        name => format!("{kind} {} ({id}) at {site}", show(name)),
    }
}

/// Returns, for example, `port server-0 (id) at prod/RegionOne: 409 PortInUse: a server holds it; blocked by
/// …; 8 attempts`.
fn why_stuck(step: &Step, show: Show) -> String {
    let mut facts = vec![resource(&step.resource.key, &step.resource.name, show)];
    if let Some(error) = &step.last_error {
        facts[0] += &format!(": {}", show(&answer_words(error)));
    }
    let blockers = step.blockers.iter().take(NAMED_MAX).map(blocker_words);
    facts.extend(blockers.map(|words| format!("blocked by {}", show(&words))));
    let since = step.blocked_since.map(time);
    facts.extend(since.map(|since| format!("blocked since {since}")));
    facts.push(count(step.attempts, "attempt"));
    // A step that is not stuck any more was handled before this message was written.
    let is_stuck = step.state == StepState::Stuck;
    facts.extend((!is_stuck).then(|| format!("now {}", step.state.as_str())));
    facts.join("; ")
}

/// The characters that are escaped in each part of a command's target: those that end the part, and those that a shell
/// interprets.
const KEPT: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'_')
    .remove(b'.')
    .remove(b',')
    .remove(b':');

fn explain(key: &ResourceKey) -> String {
    let part = |text| utf8_percent_encode(text, KEPT).to_string();
    let site = match &key.site {
        Site::Region { cloud, region } => format!("{}/{}", part(cloud), part(region)),
        Site::Deployment { name } => part(name),
    };
    let (kind, id) = (part(key.kind.as_str()), part(&key.id));
    format!("gone explain {kind}/{id}@{site}")
}

/// Makes text safe for a mail: no control characters, nothing that reorders or hides text.
fn plain(text: &str) -> String {
    escape(&cut(text, SHOWN_CHARS_MAX)).into_owned()
}

/// Makes text safe for chat systems: in addition, nothing that mentions somebody, formats or links.
fn chat(text: &str) -> String {
    let text = plain(text).replace("://", ": //");
    let harmless = text.chars().map(|c| match c {
        '<' => '‹',
        '>' => '›',
        '@' => '＠',
        '`' => '\'',
        '[' => '(',
        ']' => ')',
        '*' => '∗',
        '_' => '＿',
        '~' => '∼',
        c => c,
    });
    harmless.collect()
}

/// Cuts a text to this many characters, and marks the cut.
pub(super) fn cut(text: &str, chars_max: usize) -> Cow<'_, str> {
    match text.char_indices().nth(chars_max) {
        None => Cow::Borrowed(text),
        Some((end, _)) => Cow::Owned(format!("{}…", &text[..end])),
    }
}

/// Cuts and escapes every text value; the names of the fields are ours.
fn escape_all(value: &mut Value) {
    match value {
        Value::String(text) => *text = escape(&cut(text, KEPT_CHARS_MAX)).into_owned(),
        Value::Array(values) => values.iter_mut().for_each(escape_all),
        Value::Object(fields) => fields.values_mut().for_each(escape_all),
        _ => {}
    }
}

fn lines(lines: impl Iterator<Item = String>) -> String {
    joined(lines.filter(|line| !line.is_empty()), "\n")
}
