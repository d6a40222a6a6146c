//! The channels, webhook and mail: what each sends, which servers it trusts, and which secrets it never shows.

use gone::control::Command;
use gone::domain::model::ErrorClass;
use gone::domain::notification::CursorPosition;
use gone::frontends::notify::{self, ChannelTest, Notifier, StartError};
use gone::system::clock::Clock;
use gone::system::config::{MailTls, NotifySettings};
use serde_json::json;

use super::harness::Harness;
use super::receivers::{MailServer, WebServer};

async fn test(settings: &NotifySettings) -> Vec<ChannelTest> {
    notify::test(settings, &Clock::system()).await
}

/// Sends a test message by the first channel. Returns why it failed.
async fn failure(settings: &NotifySettings) -> (ErrorClass, String) {
    let error = test(settings).await.remove(0).answer.unwrap_err();
    (error.class, error.why)
}

#[tokio::test]
async fn a_test_message_goes_to_each_channel_and_reports_the_receivers_answer() {
    let (web, mail) = (WebServer::start().await, MailServer::start().await);
    let harness = Harness::new().with_webhook(&web).with_mail(&mail);
    let tests = test(&harness.settings).await;
    let answers: Vec<_> = tests
        .iter()
        .map(|one| one.answer.as_ref().unwrap())
        .collect();
    assert_eq!(answers, ["answered 200 OK: ok", "answered 250 queued as 1"]);
    assert!(tests[0].channel.starts_with("webhook http://127.0.0.1:"));
    assert!(!tests[0].channel.contains("s3cret"), "{}", tests[0].channel);
    assert!(tests[1].channel.contains("ops@cloud.example"));
    assert_eq!(web.inbox.all()[0].body["news"], json!([]));
    assert_eq!(mail.inbox.all()[0].header("Subject"), "[gone] a test");
    assert!(test(&NotifySettings::default()).await.is_empty());
}

#[tokio::test]
async fn a_webhook_token_is_sent_as_a_bearer_token_and_never_shown() {
    let web = WebServer::start().await;
    let mut harness = Harness::new().with_webhook(&web);
    let file = harness.secret("token", "tok-9Zx\n");
    harness.settings.webhook.as_mut().unwrap().token_file = Some(file);
    assert!(test(&harness.settings).await[0].answer.is_ok());
    let posted = web.inbox.all().remove(0);
    assert_eq!(posted.header("authorization"), Some("Bearer tok-9Zx"));
    for (status, expected) in [
        (401, ErrorClass::Auth),
        (403, ErrorClass::Auth),
        (500, ErrorClass::Unavailable),
        (302, ErrorClass::Unavailable),
    ] {
        web.inbox.answer_next_with(status, "bad token tok-9Zx");
        let (found, why) = failure(&harness.settings).await;
        assert_eq!(found, expected, "{why}");
        assert!(why.contains(&status.to_string()), "{why}");
        assert!(!why.contains("tok-9Zx") && !why.contains("s3cret"), "{why}");
    }
    assert_eq!(web.inbox.all().len(), 5, "a redirect was followed");
}

#[tokio::test]
async fn an_unreachable_webhook_is_reported_without_its_path() {
    let web = WebServer::start().await;
    let mut harness = Harness::new().with_webhook(&web);
    harness.settings.webhook.as_mut().unwrap().url = "http://127.0.0.1:9/hooks/s3cret".to_owned();
    let (class, why) = failure(&harness.settings).await;
    assert_eq!(class, ErrorClass::Unavailable);
    assert!(!why.contains("s3cret") && !why.is_empty(), "{why}");
}

#[tokio::test]
async fn the_mail_password_is_used_to_log_in_and_never_shown() {
    let mail = MailServer::start().await;
    let mut harness = Harness::new().with_mail(&mail);
    let file = harness.secret("password", "pw-7Qa");
    let settings = harness.settings.mail.as_mut().unwrap();
    settings.user = Some("gone".to_owned());
    settings.password_file = Some(file);
    assert!(test(&harness.settings).await[0].answer.is_ok());
    let signed_in = mail.inbox.all()[0]
        .dialogue
        .iter()
        .any(|line| line.starts_with("AUTH PLAIN "));
    assert!(signed_in);
    mail.inbox.answer_next_with(535, "no: pw-7Qa is wrong");
    let (class, why) = failure(&harness.settings).await;
    assert_eq!(class, ErrorClass::Auth);
    assert!(why.contains("535") && !why.contains("pw-7Qa"), "{why}");
}

#[tokio::test]
async fn i07_a_refused_address_keeps_no_mail_from_the_other_addresses() {
    let mail = MailServer::start().await;
    let mut harness = Harness::new().with_mail(&mail);
    let addresses = [
        "left@cloud.example",
        "grey@cloud.example",
        "ops@cloud.example",
    ];
    harness.settings.mail.as_mut().unwrap().to = addresses.map(str::to_owned).to_vec();
    let notifier = harness.start().await;
    harness.stuck("one").await;
    mail.inbox.wait_for(1).await;
    // `grey@`, which was refused temporarily, gets the mail later; `ops@` gets each mail once.
    harness.stuck("two").await;
    let mailed = mail.inbox.wait_for(4).await;
    notifier.stop().await;
    let recipients: Vec<Vec<&str>> = mailed
        .iter()
        .map(|mail| {
            addresses
                .into_iter()
                .filter(|to| {
                    mail.dialogue
                        .iter()
                        .any(|line| line.starts_with("RCPT") && line.contains(to))
                })
                .collect()
        })
        .collect();
    let (grey, ops) = ([addresses[1]], [addresses[2]]);
    assert_eq!(recipients, [ops, grey, grey, ops]);
    let ids: Vec<String> = mailed
        .iter()
        .map(|mail| mail.header("Message-ID"))
        .collect();
    assert!(
        ids[0] == ids[1] && ids[1] != ids[2] && ids[2] == ids[3],
        "{ids:?}"
    );
    // If every address is refused, the delivery has failed.
    harness.settings.mail.as_mut().unwrap().to.truncate(1);
    let (class, why) = failure(&harness.settings).await;
    assert_eq!(class, ErrorClass::Unavailable);
    assert!(why.contains("550"), "{why}");
}

#[tokio::test]
async fn a_mail_server_without_starttls_gets_neither_login_nor_mail() {
    let mail = MailServer::start().await;
    let mut harness = Harness::new().with_mail(&mail);
    harness.settings.mail.as_mut().unwrap().tls = MailTls::Starttls;
    let (class, why) = failure(&harness.settings).await;
    assert_eq!(class, ErrorClass::Unavailable, "{why}");
    let lines = mail.lines.lock().unwrap().clone();
    let is_secret = |line: &String| line.starts_with("MAIL") || line.starts_with("AUTH");
    assert!(!lines.iter().any(is_secret), "{lines:?}");
}

#[tokio::test]
async fn a_self_signed_certificate_is_not_trusted() {
    let mail = MailServer::untrusted().await;
    let mut harness = Harness::new().with_mail(&mail);
    let settings = harness.settings.mail.as_mut().unwrap();
    settings.tls = MailTls::Tls;
    settings.server = "localhost".to_owned();
    let (_, why) = failure(&harness.settings).await;
    assert!(why.contains("certificate"), "{why}");
    assert!(mail.lines.lock().unwrap().is_empty());
    // A webhook to the same server fails before it sends a byte of HTTP.
    harness.settings.mail = None;
    harness.settings.webhook = Some(gone::system::config::WebhookSettings {
        url: format!("https://localhost:{}/", mail.port),
        token_file: None,
    });
    let (_, why) = failure(&harness.settings).await;
    assert!(why.contains("certificate"), "{why}");
    assert!(mail.lines.lock().unwrap().is_empty());
}

#[tokio::test]
async fn an_empty_secret_file_prevents_the_start() {
    let web = WebServer::start().await;
    let mut harness = Harness::new().with_webhook(&web);
    let file = harness.secret("token", "");
    harness.settings.webhook.as_mut().unwrap().token_file = Some(file);
    let control = harness.control.clone();
    let started = Notifier::start(control, &harness.settings, Clock::system()).await;
    let Err(StartError::Secret { why, .. }) = started else {
        panic!("the notifier started without a secret");
    };
    assert!(why.contains("one line"), "{why}");
}

#[test]
fn a_command_that_moves_a_notification_cursor_cannot_be_serialized() {
    let command = Command::MoveNotificationCursor {
        channel: "mail".to_owned(),
        position: Some(CursorPosition::default()),
    };
    assert!(serde_json::to_string(&command).is_err());
    let parse = |name: &str| {
        let fields = json!({"do": name, "channel": "mail", "mark": null, "deletion_id": "one"});
        serde_json::from_value::<Command>(fields)
    };
    assert!(parse("resume").is_ok());
    let error = parse("move_notification_cursor").unwrap_err().to_string();
    assert!(error.contains("unknown variant"), "{error}");
}
