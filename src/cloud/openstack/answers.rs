//! Interprets answers by the rules of the kinds: absence, refusals with the resources that they name, and
//! failures.

use std::collections::{BTreeMap, BTreeSet};

use chrono::{DateTime, Utc};

use super::kinds::{AnswerRule, calls_of};
use super::{AuthError, CallError, Identity as TokenIdentity, Reason, RemoteError};
use crate::cloud::{Call, CloudFailure};
use crate::domain::kinds::Kind;
use crate::domain::model::{ErrorClass, Identity, KindName, Site};
use crate::domain::policy::{Outcome, Retry, retry_and_class};

/// Maximum length of the message of a failed call, in bytes; a longer one is cut.
const MESSAGE_BYTES_MAX: usize = 4 * 1024;
/// Maximum number of ids that are taken from a refusal. The other ids appear in later refusals, when these resources
/// are gone.
const NAMED_MAX: usize = 200;

/// If the error is the kind's own not-found answer, in the service's own words (I13a), returns the answer's status,
/// and the identity to which the answer was given.
pub(super) fn absent(
    error: &CallError,
    kind: &Kind,
    variables: &BTreeMap<String, String>,
) -> Option<(u16, Option<Identity>)> {
    let Reason::Refused(remote) = &error.reason else {
        return None;
    };
    let error_type = remote.kind.as_deref().unwrap_or_default();
    let said = (remote.status, error_type, remote.message.as_str());
    let calls = calls_of(kind).ok()?;
    let known = remote.own && calls.is_not_found(said, variables);
    known.then(|| (remote.status, remote.identity.as_deref().map(plan_identity)))
}

/// Returns the ids that a refusal names, each with the kind that the matching rule names; none if no rule matches, or
/// the rule names no kind. The ids are the UUIDs in the message that are not part of the call, at most [`NAMED_MAX`] of
/// them.
pub(super) fn named(error: &CallError, call: &Call<'_>) -> Vec<(KindName, String)> {
    let Some(remote) = error.remote() else {
        return Vec::new();
    };
    let rule = rule_for(remote, call.kind);
    let Some(kind) = rule.and_then(|rule| rule.ids.clone()) else {
        return Vec::new();
    };
    let vars = call.vars.values().map(String::as_str);
    let own: BTreeSet<&str> = call.id.split(',').chain(vars).collect();
    let is_id = |word: &&str| {
        word.len() == 36 && uuid::Uuid::try_parse(word).is_ok() && !own.contains(word)
    };
    let words = (remote.message).split(|c: char| !c.is_ascii_hexdigit() && c != '-');
    let found: BTreeSet<&str> = words.filter(is_id).collect();
    let found = found.into_iter().take(NAMED_MAX);
    found.map(|id| (kind.clone(), id.to_owned())).collect()
}

/// Returns the failure for a login without a project, for which a service's empty list means nothing.
pub(super) fn shown_nothing(site: &Site, kind: &Kind, identity: &TokenIdentity) -> CloudFailure {
    let message = format!(
        "{site}: the login of {} has no project, so the {} service shows it no resources: log \
         in to a project (project_name, OS_PROJECT_NAME)",
        identity.user_name, kind.service
    );
    CloudFailure::unanswered(Retry::SitePaused, ErrorClass::Auth, "NoProject", message)
}

/// Returns the failure for a list of another project's resources, which the service shows only to that project.
pub(super) fn other_project(site: &Site, kind: &Kind, login: &TokenIdentity) -> CloudFailure {
    let project = login.project_name.as_ref().or(login.project_id.as_ref());
    let message = format!(
        "{site}: the {} service shows a login only the resources of its own project, and the project of {} is \
         {}: log in to the project whose resources you want",
        kind.service,
        login.user_name,
        project.map_or("none", String::as_str)
    );
    CloudFailure {
        forbidden: true,
        ..CloudFailure::unanswered(Retry::Never, ErrorClass::Fatal, "OtherProject", message)
    }
}

/// Returns the failure for a list that the service refuses, with the roles that it requires, if the kinds file names
/// them.
pub(super) fn not_shown(site: &Site, kind: &Kind, failed: CloudFailure) -> CloudFailure {
    let shown_to = calls_of(kind).map(|calls| calls.service.shown_to.as_str());
    let wants = match shown_to.unwrap_or_default() {
        "" => String::new(),
        roles => format!("; it requires {roles}"),
    };
    CloudFailure {
        message: format!(
            "{site}: the {} service does not show resources of the kind {} to this login ({}){wants}",
            kind.service, kind.name, failed.message
        ),
        ..failed
    }
}

/// Returns the failure for a 2xx without the requested content.
pub(super) fn unread(answer: &super::Answer, message: String) -> CloudFailure {
    CloudFailure {
        status: Some(answer.status),
        request_id: answer.request_id.clone().unwrap_or_default(),
        ..CloudFailure::unanswered(Retry::Scheduled, ErrorClass::Unavailable, "", message)
    }
}

/// Returns the outcome of a failed write. If the server died while it worked on the write, or a proxy timed out, the
/// write may have taken effect (N13).
pub(super) fn write_outcome(error: &CallError, failed: CloudFailure, at: DateTime<Utc>) -> Outcome {
    let is_away = failed.class == ErrorClass::Unavailable;
    match failed.into_outcome(at) {
        Outcome::Failed(failure) if is_away && error.outcome_unknown() => Outcome::Unclear(failure),
        outcome => outcome,
    }
}

/// Returns the failure for a failed login, or for a failed request to Keystone for the login's identity.
pub(super) fn not_logged_in(site: &Site, error: &AuthError) -> CloudFailure {
    let answer = error.answer();
    let (retry, class) = match answer {
        _ if error.rejected() => (Retry::SitePaused, ErrorClass::Auth),
        Some(answer) if is_throttled(answer) => (Retry::Throttled, ErrorClass::Unavailable),
        _ => (Retry::Unavailable, ErrorClass::Unavailable),
    };
    CloudFailure {
        status: answer.map(|answer| answer.status),
        retry_after: answer.and_then(|answer| answer.retry_after),
        ..CloudFailure::unanswered(retry, class, "", format!("{site}: {error}"))
    }
}

/// Classifies a failed call. If the service answered, the kind's rules decide, unless the answer concerns the login or
/// is that of a rate limiter. Otherwise the call counts as not carried out only if nothing was sent (N13).
pub(super) fn failure(error: &CallError, kind: Option<&Kind>) -> CloudFailure {
    let (retry, class) = match &error.reason {
        _ if error.is_auth() => (Retry::SitePaused, ErrorClass::Auth),
        Reason::IdentityChanged => (Retry::SitePaused, ErrorClass::Auth),
        Reason::AccessRules { .. } => (Retry::Never, ErrorClass::Fatal),
        Reason::Refused(remote) if !remote.own => match remote.status {
            // A proxy answered. Its 5xx means that the service is unavailable. Any other status is unclear.
            500.. => (Retry::Unavailable, ErrorClass::Unavailable),
            _ => (Retry::Scheduled, ErrorClass::Unavailable),
        },
        Reason::Refused(remote) => refused(remote, kind),
        Reason::Login(_) => (Retry::Unavailable, ErrorClass::Unavailable),
        Reason::Catalog(error) if matches!(**error, super::CatalogError::Empty) => {
            (Retry::SitePaused, ErrorClass::Auth)
        }
        Reason::Catalog(_) => (Retry::Never, ErrorClass::Fatal),
        Reason::Transport(transport) if transport.nothing_sent() => {
            (Retry::Unavailable, ErrorClass::Unavailable)
        }
        // An answer came and cannot be read, or none came: the call may have taken effect.
        Reason::Transport(_) | Reason::CutOff { .. } | Reason::NotTheService { .. } => {
            (Retry::Unknown, ErrorClass::OutcomeUnknown)
        }
        _ => (Retry::Scheduled, ErrorClass::Unavailable),
    };
    let remote = error.remote();
    let (retry, class) = match remote {
        // A rate limiter answered: that of the service, of a proxy before it, or of Keystone. The message does not
        // matter.
        Some(remote) if is_throttled(remote) => (Retry::Throttled, ErrorClass::Unavailable),
        _ => (retry, class),
    };
    let by_rules = matches!(error.reason, Reason::AccessRules { .. });
    // The cloud's own words if it answered. Otherwise what was attempted, and why it failed.
    let message = match remote {
        Some(remote) if remote.own && class != ErrorClass::Auth && !by_rules => {
            remote.message.clone()
        }
        _ => error.to_string(),
    };
    CloudFailure {
        retry,
        class,
        forbidden: by_rules || remote.is_some_and(|remote| remote.status == 403),
        status: match by_rules {
            // The login is good, but this call is forbidden: in effect a 403.
            true => Some(403),
            false => remote.map(|remote| remote.status),
        },
        kind: remote
            .and_then(|remote| remote.kind.clone())
            .unwrap_or_default(),
        message: capped(&message),
        request_id: error.request_id().unwrap_or_default().to_owned(),
        retry_after: remote.and_then(|remote| remote.retry_after),
    }
}

/// Whether an answer says that there were too many calls. This is 429 or, from older limiters, 413 with the header
/// `Retry-After` (N16).
fn is_throttled(remote: &RemoteError) -> bool {
    remote.status == 429 || (remote.status == 413 && remote.retry_after.is_some())
}

/// Returns the kind's first rule that the answer matches.
fn rule_for<'k>(remote: &RemoteError, kind: &'k Kind) -> Option<&'k AnswerRule> {
    let error_type = remote.kind.as_deref().unwrap_or_default();
    let calls = calls_of(kind).ok()?;
    calls.classify(remote.status, error_type, &remote.message)
}

fn refused(remote: &RemoteError, kind: Option<&Kind>) -> (Retry, ErrorClass) {
    match kind.and_then(|kind| rule_for(remote, kind)) {
        Some(rule) => retry_and_class(rule.class),
        None if remote.status >= 500 => (Retry::Unavailable, ErrorClass::Unavailable),
        None => (Retry::Never, ErrorClass::Fatal),
    }
}

fn capped(message: &str) -> String {
    let mut end = message.len().min(MESSAGE_BYTES_MAX);
    while !message.is_char_boundary(end) {
        end -= 1;
    }
    message.get(..end).unwrap_or_default().to_owned()
}

pub(super) fn plan_identity(identity: &TokenIdentity) -> Identity {
    Identity {
        user_id: identity.user_id.clone(),
        project_id: identity.project_id.clone().unwrap_or_default(),
        roles: identity.roles.clone(),
    }
}
