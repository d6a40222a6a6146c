//! Sends a message by mail: the same plain text to each recipient, by SMTP.

use std::collections::BTreeSet;
use std::time::{Duration, SystemTime};

use lettre::address::Envelope;
use lettre::message::header::{ContentType, HeaderName, HeaderValue};
use lettre::message::{Mailbox, MessageBuilder};
use lettre::transport::smtp::authentication::Credentials;
use lettre::transport::smtp::client::{Tls, TlsParameters};
use lettre::transport::smtp::extension::ClientId;
use lettre::transport::smtp::response::Response;
use lettre::transport::smtp::{AsyncSmtpTransport, Error};
use lettre::{Address, AsyncTransport as _, Tokio1Executor};
use secrecy::{ExposeSecret as _, SecretString};

use super::DeliveryError;
use super::message::Message;
use super::webhook::quoted;
use crate::domain::model::ErrorClass;
use crate::domain::text::escape;
use crate::present::joined;
use crate::system::config::{MailSettings, MailTls, secret_in};

/// Time limit of one SMTP command, and of all commands for one recipient.
const COMMAND_MAX: Duration = Duration::from_secs(30);
const ANSWER_MAX: Duration = Duration::from_secs(60);

/// Sends a mail to each recipient separately, and returns the server's answer for the last one that it accepted. `had`
/// are the recipients who got the mail in an earlier attempt. An address that the server refuses for good does not keep
/// the other recipients from getting the mail.
///
/// # Errors
/// The password's file cannot be used, the server does not answer, its certificate is not trusted, or it refuses the
/// login, refuses the mail for everybody, or defers the mail for somebody. The error does not contain the password.
pub(super) async fn send(
    settings: &MailSettings,
    message: &Message,
    host: &str,
    had: &mut BTreeSet<String>,
) -> Result<String, DeliveryError> {
    let password = settings.password_file.as_deref().map(secret_in);
    let password = password.transpose().map_err(DeliveryError::configuration)?;
    let mail = mail(settings, message)?;
    let transport = transport(settings, password.as_ref(), host)
        .map_err(|error| delivery_error(&error, password.as_ref()))?;
    let mut said = None;
    let (mut refused, mut later) = (None, None);
    for to in &settings.to {
        if had.contains(to) {
            continue;
        }
        match send_to(&transport, to, &mail).await {
            Ok(answer) => {
                let text = quoted(&joined(answer.message(), " "), password.as_ref());
                said = Some(format!("answered {} {text}", answer.code()));
                had.insert(to.clone());
            }
            Err(Some(error)) => {
                let why = delivery_error(&error, password.as_ref());
                match why.class {
                    ErrorClass::Unavailable if error.is_permanent() => {
                        tracing::warn!(to = %escape(to), error = %why, "a mail server refuses this address");
                        refused = Some(why);
                    }
                    ErrorClass::Unavailable if error.is_transient() => later = Some(why),
                    _ => return Err(why),
                }
            }
            Err(None) => return Err(DeliveryError::unreachable("no answer in time")),
        }
    }
    match (later, refused) {
        (Some(why), _) => Err(why),
        (None, Some(why)) if had.is_empty() => Err(why),
        (None, Some(why)) => {
            let refused = format!("another recipient was refused: {why}");
            Ok(joined(said.into_iter().chain([refused]), "; "))
        }
        (None, None) => Ok(said.unwrap_or_default()),
    }
}

/// Sends the mail to one recipient. The error is None if there was no answer in time.
async fn send_to(
    transport: &AsyncSmtpTransport<Tokio1Executor>,
    to: &str,
    mail: &lettre::Message,
) -> Result<Response, Option<Error>> {
    let to = to.parse::<Mailbox>().map(|to| to.email);
    let to: Vec<Address> = to.into_iter().collect();
    let from = mail.envelope().from().cloned();
    // The settings were checked, so there is an address.
    let envelope = Envelope::new(from, to).unwrap_or_else(|_| mail.envelope().clone());
    let text = mail.formatted();
    let sent = transport.send_raw(&envelope, &text);
    let sent = tokio::time::timeout(ANSWER_MAX, sent).await;
    sent.map_err(|_| None)?.map_err(Some)
}

/// Builds the mail. Its subject is one line without control characters, whatever a cloud calls its resources.
fn mail(settings: &MailSettings, message: &Message) -> Result<lettre::Message, DeliveryError> {
    let from = settings.from.parse::<Mailbox>();
    let from = from.map_err(DeliveryError::configuration)?;
    let id = format!("<{}@{}>", message.id, from.email.domain());
    // Suppresses automatic replies (RFC 3834).
    let submitted = HeaderName::new_from_ascii_str("Auto-Submitted");
    let submitted = HeaderValue::new(submitted, "auto-generated".to_owned());
    let mut mail: MessageBuilder = lettre::Message::builder()
        .from(from)
        .subject(message.subject.clone())
        .message_id(Some(id))
        .date(SystemTime::from(message.at))
        .raw_header(submitted)
        .header(ContentType::TEXT_PLAIN);
    for to in &settings.to {
        mail = mail.to(to.parse().map_err(DeliveryError::configuration)?);
    }
    let mail = mail.body(message.body.clone());
    mail.map_err(DeliveryError::configuration)
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

fn delivery_error(error: &Error, password: Option<&SecretString>) -> DeliveryError {
    let class = match error.status().map(u16::from) {
        // Credentials are invalid, missing or too weak, or the mechanism is refused.
        Some(530 | 534 | 535 | 538) => ErrorClass::Auth,
        _ => ErrorClass::Unavailable,
    };
    DeliveryError::new(class, quoted(&error.to_string(), password))
}
