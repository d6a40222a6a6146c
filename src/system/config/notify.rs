//! `[notify]`: whom gone notifies of sites and deletions that need a person, and how (I7).

use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use lettre::message::Mailbox;
use serde::{Deserialize, Serialize};
use url::{Host, Url};

use super::checks::{is_this_machine, nonsense, wrong_url};
use super::duration;
use super::secret::exposed;
use crate::domain::duration::{HOUR, MINUTE};

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct NotifySettings {
    /// Time for which sites and deletions that need a person are gathered into one message.
    #[serde(with = "duration")]
    pub gather: Duration,
    /// Minimum time between two messages about the same site or deletion.
    #[serde(with = "duration")]
    pub again: Duration,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub webhook: Option<WebhookSettings>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mail: Option<MailSettings>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct WebhookSettings {
    /// The URL: https, or http to this machine only.
    pub url: String,
    /// The file of the token, which is sent as `Authorization: Bearer`.
    pub token_file: Option<PathBuf>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct MailSettings {
    /// `gone@example.org`, or `Name <gone@example.org>`.
    pub from: String,
    pub to: Vec<String>,
    /// Name or address of the SMTP server.
    pub server: String,
    /// The port. If not set: 587 with `starttls`, 465 with `tls`, 25 with `none`.
    pub port: Option<u16>,
    pub tls: MailTls,
    pub user: Option<String>,
    pub password_file: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MailTls {
    /// The connection begins in the clear, and must be upgraded before anything else is sent.
    #[default]
    Starttls,
    /// TLS from the first byte.
    Tls,
    /// No TLS, to a relay on this machine only.
    None,
}

impl Default for NotifySettings {
    fn default() -> Self {
        Self {
            gather: Duration::from_secs(MINUTE),
            again: Duration::from_secs(HOUR),
            webhook: None,
            mail: None,
        }
    }
}

impl MailSettings {
    pub fn port(&self) -> u16 {
        self.port.unwrap_or(match self.tls {
            MailTls::Starttls => 587,
            MailTls::Tls => 465,
            MailTls::None => 25,
        })
    }
}

impl WebhookSettings {
    /// Returns scheme, host and port, the only parts that may be shown. The path of many chat systems'
    /// webhooks is a secret.
    pub fn shown(&self) -> String {
        Url::parse(&self.url).map_or_else(
            |_| "an invalid URL".to_owned(),
            |url| url.origin().ascii_serialization(),
        )
    }

    /// Whether the traffic stays on this machine.
    pub fn is_local(&self) -> bool {
        Url::parse(&self.url).is_ok_and(|url| url.host().is_some_and(|host| is_this_machine(&host)))
    }
}

/// Finds the first value that makes no sense. Returns its key, and which values would make sense.
pub(super) fn first_nonsense(notify: &NotifySettings) -> Option<(String, String)> {
    if notify.again < notify.gather {
        return nonsense("notify.again", "must not be less than notify.gather");
    }
    let webhook = notify.webhook.as_ref();
    if let Some(why) = webhook.and_then(|webhook| wrong_url(&webhook.url)) {
        return nonsense("notify.webhook.url", &why);
    }
    let (key, why) = wrong_mail(notify.mail.as_ref()?)?;
    nonsense(&format!("notify.mail.{key}"), &why)
}

fn wrong_mail(mail: &MailSettings) -> Option<(String, String)> {
    let wrong = |key: &str, why: String| Some((key.to_owned(), why));
    if let Some(why) = wrong_address(&mail.from) {
        return wrong("from", why);
    }
    if mail.to.is_empty() {
        let why = "is missing; name the recipients: to = [\"ops@example.org\"]";
        return wrong("to", why.to_owned());
    }
    for (position, to) in mail.to.iter().enumerate() {
        if let Some(why) = wrong_address(to) {
            return wrong(&format!("to[{position}]"), why);
        }
    }
    let server = mail.server.as_str();
    if server.is_empty() {
        let why = "is missing; write the SMTP server's name";
        return wrong("server", why.to_owned());
    }
    if server.parse::<IpAddr>().is_err() && Host::parse(server).is_err() {
        return wrong(
            "server",
            format!("\"{server}\" is not a host name; write the SMTP server's name or address"),
        );
    }
    let local = match server.parse::<IpAddr>() {
        Ok(address) => address.is_loopback(),
        Err(_) => server == "localhost",
    };
    if mail.tls == MailTls::None && !local {
        let why = "\"none\" is for a relay on this machine (127.0.0.1, ::1 or localhost); \
                   write \"starttls\" or \"tls\"";
        return wrong("tls", why.to_owned());
    }
    if mail.port == Some(0) {
        return wrong("port", "must be at least 1".to_owned());
    }
    match (&mail.user, &mail.password_file) {
        (Some(_), None) => wrong("password_file", "is missing, although notify.mail.user is set: name the file with the password of that user, or remove user".to_owned()),
        (None, Some(_)) => wrong("user", "is missing, although notify.mail.password_file is set: name the user, or remove password_file".to_owned()),
        _ => None,
    }
}

fn wrong_address(text: &str) -> Option<String> {
    match text.parse::<Mailbox>() {
        _ if text.is_empty() => Some("is missing; write an address: user@example.org".to_owned()),
        Ok(_) => None,
        Err(_) => Some(format!(
            "\"{text}\" is not an address; write user@example.org, or Name <user@example.org>"
        )),
    }
}

/// Finds the first secret file that is missing, or that other users can read. Returns the key of the setting that
/// names the file, and the reason.
pub(super) fn exposed_secret(notify: &NotifySettings) -> Option<(String, String)> {
    let webhook = notify.webhook.as_ref();
    let mail = notify.mail.as_ref();
    let token = webhook.and_then(|webhook| webhook.token_file.as_deref());
    let password = mail.and_then(|mail| mail.password_file.as_deref());
    let files = [
        ("notify.webhook.token_file", token),
        ("notify.mail.password_file", password),
    ];
    files.into_iter().find_map(|(key, file)| {
        let why = exposed(file?).err()?;
        nonsense(key, &why)
    })
}
