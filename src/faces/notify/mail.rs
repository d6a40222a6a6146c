//! A message by mail: one mail to all, in plain text, by SMTP.

use std::time::{Duration, SystemTime};

use lettre::message::header::{ContentType, Header, HeaderName, HeaderValue};
use lettre::message::{Mailbox, MessageBuilder};
use lettre::transport::smtp::authentication::Credentials;
use lettre::transport::smtp::client::{Tls, TlsParameters};
use lettre::transport::smtp::extension::ClientId;
use lettre::transport::smtp::{AsyncSmtpTransport, Error};
use lettre::{AsyncTransport as _, Tokio1Executor};
use secrecy::{ExposeSecret as _, SecretString};

use super::message::{Message, cut};
use super::webhook::without;
use super::{NotTaken, Trouble};
use crate::domain::text::escape;
use crate::system::config::{MailSettings, MailTls, secret_in};

/// For one command of SMTP, and for all together.
const COMMAND_MAX: Duration = Duration::from_secs(30);
const ANSWER_MAX: Duration = Duration::from_secs(60);
const ANSWER_CHARS_MAX: usize = 200;

/// Answers what the server said when it took the mail.
///
/// # Errors
/// The password's file cannot be used, the server does not answer, its certificate is not trusted, or
/// it does not take the mail. The password is not in the error.
pub(super) async fn send(
    settings: &MailSettings,
    message: &Message,
    host: &str,
) -> Result<String, NotTaken> {
    let password = settings.password_file.as_deref().map(secret_in);
    let password = password.transpose().map_err(bad_settings)?;
    let mail = mail(settings, message)?;
    let transport = transport(settings, password.as_ref(), host)
        .map_err(|error| not_taken(&error, password.as_ref()))?;
    let sent = tokio::time::timeout(ANSWER_MAX, transport.send(mail)).await;
    let Ok(sent) = sent else {
        return Err(NotTaken::new(Trouble::Unreachable, "no answer in time"));
    };
    let answer = sent.map_err(|error| not_taken(&error, password.as_ref()))?;
    let said: Vec<&str> = answer.message().collect();
    let said = without(&said.join(" "), password.as_ref());
    let said = cut(&said, ANSWER_CHARS_MAX);
    Ok(format!("answered {} {}", answer.code(), escape(&said)))
}

fn bad_settings(why: impl ToString) -> NotTaken {
    NotTaken::new(Trouble::Configuration, why.to_string())
}

/// The subject is one line without control characters, whatever a cloud calls its resources.
fn mail(settings: &MailSettings, message: &Message) -> Result<lettre::Message, NotTaken> {
    let from: Mailbox = settings.from.parse().map_err(bad_settings)?;
    let id = format!("<{}@{}>", message.id, from.email.domain());
    let mut mail: MessageBuilder = lettre::Message::builder()
        .from(from)
        .subject(message.subject.clone())
        .message_id(Some(id))
        .date(SystemTime::from(message.at))
        .header(AutoSubmitted)
        .header(ContentType::TEXT_PLAIN);
    for to in &settings.to {
        mail = mail.to(to.parse().map_err(bad_settings)?);
    }
    mail.body(message.body.clone()).map_err(bad_settings)
}

fn transport(
    settings: &MailSettings,
    password: Option<&SecretString>,
    host: &str,
) -> Result<AsyncSmtpTransport<Tokio1Executor>, Error> {
    let server = settings.server.as_str();
    let tls = match settings.tls {
        MailTls::Starttls => Tls::Required(TlsParameters::new(server.to_owned())?),
        MailTls::Tls => Tls::Wrapper(TlsParameters::new(server.to_owned())?),
        MailTls::None => Tls::None,
    };
    let mut builder = AsyncSmtpTransport::<Tokio1Executor>::builder_dangerous(server)
        .port(settings.port())
        .tls(tls)
        .timeout(Some(COMMAND_MAX));
    if !host.is_empty() {
        builder = builder.hello_name(ClientId::Domain(host.to_owned()));
    }
    if let (Some(user), Some(password)) = (&settings.user, password) {
        let password = password.expose_secret().to_owned();
        builder = builder.credentials(Credentials::new(user.clone(), password));
    }
    Ok(builder.build())
}

fn not_taken(error: &Error, password: Option<&SecretString>) -> NotTaken {
    let trouble = match error.status().map(u16::from) {
        // Credentials invalid, needed, too weak; the mechanism refused.
        Some(530 | 534 | 535 | 538) => Trouble::Auth,
        _ => Trouble::Unreachable,
    };
    let why = without(&error.to_string(), password);
    NotTaken::new(trouble, escape(&cut(&why, ANSWER_CHARS_MAX)))
}

/// So that no holiday answers (RFC 3834).
#[derive(Clone)]
struct AutoSubmitted;

impl Header for AutoSubmitted {
    fn name() -> HeaderName {
        HeaderName::new_from_ascii_str("Auto-Submitted")
    }

    fn parse(_: &str) -> Result<Self, Box<dyn std::error::Error + Send + Sync>> {
        Ok(Self)
    }

    fn display(&self) -> HeaderValue {
        HeaderValue::new(Self::name(), "auto-generated".to_owned())
    }
}
