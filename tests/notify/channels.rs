//! Each way to tell people: what it sends, whom it trusts, and what it keeps to itself.

use gone::control::Command;
use gone::domain::notification::Mark;
use gone::frontends::notify::{self, DeliveryErrorKind, Notifier, StartError, Tried};
use gone::system::clock::Clock;
use gone::system::config::{MailTls, NotifySettings};

use super::bench::Bench;
use super::receivers::{MailServer, WebServer};

async fn test(settings: &NotifySettings) -> Vec<Tried> {
    notify::test(settings, &Clock::system()).await
}

async fn fails(settings: &NotifySettings) -> (DeliveryErrorKind, String) {
    let error = test(settings).await.remove(0).answer.unwrap_err();
    (error.trouble, error.why)
}

#[tokio::test]
async fn a_test_goes_by_each_channel_and_says_what_was_answered() {
    let (web, mail) = (WebServer::start().await, MailServer::start().await);
    let bench = Bench::new().by_web(&web).by_mail(&mail);
    let tried = test(&bench.settings).await;
    let said: Vec<_> = tried
        .iter()
        .map(|one| one.answer.as_ref().unwrap())
        .collect();
    assert_eq!(said, ["answered 200 OK: ok", "answered 250 queued as 1"]);
    assert!(tried[0].channel.starts_with("webhook http://127.0.0.1:"));
    assert!(!tried[0].channel.contains("s3cret"), "{}", tried[0].channel);
    assert!(tried[1].channel.contains("ops@cloud.example"));
    assert_eq!(web.taken.all()[0].body["news"], serde_json::json!([]));
    assert_eq!(mail.taken.all()[0].header("Subject"), "[gone] a test");
    assert!(test(&NotifySettings::default()).await.is_empty());
}

#[tokio::test]
async fn a_token_is_sent_as_a_bearer_and_never_shown() {
    let web = WebServer::start().await;
    let mut bench = Bench::new().by_web(&web);
    let file = bench.secret("token", "tok-9Zx\n");
    bench.settings.webhook.as_mut().unwrap().token_file = Some(file);
    assert!(test(&bench.settings).await[0].answer.is_ok());
    let posted = web.taken.all().remove(0);
    assert_eq!(posted.header("authorization"), Some("Bearer tok-9Zx"));
    for (status, trouble) in [
        (401, DeliveryErrorKind::Auth),
        (403, DeliveryErrorKind::Auth),
        (500, DeliveryErrorKind::Unreachable),
        (302, DeliveryErrorKind::Unreachable),
    ] {
        web.taken.will_answer(status, "bad token tok-9Zx");
        let (found, why) = fails(&bench.settings).await;
        assert_eq!(found, trouble, "{why}");
        assert!(why.contains(&status.to_string()), "{why}");
        assert!(!why.contains("tok-9Zx") && !why.contains("s3cret"), "{why}");
    }
    assert_eq!(web.taken.all().len(), 5, "no redirect was followed");
}

#[tokio::test]
async fn what_does_not_answer_is_named_without_its_path() {
    let web = WebServer::start().await;
    let mut bench = Bench::new().by_web(&web);
    bench.settings.webhook.as_mut().unwrap().url = "http://127.0.0.1:9/hooks/s3cret".to_owned();
    let (trouble, why) = fails(&bench.settings).await;
    assert_eq!(trouble, DeliveryErrorKind::Unreachable);
    assert!(!why.contains("s3cret") && !why.is_empty(), "{why}");
}

#[tokio::test]
async fn a_mail_server_is_signed_in_to_and_the_password_never_shown() {
    let mail = MailServer::start().await;
    let mut bench = Bench::new().by_mail(&mail);
    let file = bench.secret("password", "pw-7Qa");
    let settings = bench.settings.mail.as_mut().unwrap();
    settings.user = Some("gone".to_owned());
    settings.password_file = Some(file);
    assert!(test(&bench.settings).await[0].answer.is_ok());
    let signed_in = mail.taken.all()[0]
        .said
        .iter()
        .any(|line| line.starts_with("AUTH PLAIN "));
    assert!(signed_in);
    mail.taken.will_answer(535, "no: pw-7Qa is wrong");
    let (trouble, why) = fails(&bench.settings).await;
    assert_eq!(trouble, DeliveryErrorKind::Auth);
    assert!(why.contains("535") && !why.contains("pw-7Qa"), "{why}");
}

#[tokio::test]
async fn i07_an_address_that_is_refused_keeps_nobody_from_being_told() {
    let mail = MailServer::start().await;
    let mut bench = Bench::new().by_mail(&mail);
    let everybody = [
        "left@cloud.example",
        "grey@cloud.example",
        "ops@cloud.example",
    ];
    bench.settings.mail.as_mut().unwrap().to = everybody.map(str::to_owned).to_vec();
    let notifier = bench.start().await;
    bench.stuck("one").await;
    mail.taken.until(1).await;
    // Who is to be tried again is; who has it has it once.
    bench.stuck("two").await;
    let mailed = mail.taken.until(4).await;
    notifier.stop().await;
    let recipients: Vec<Vec<&str>> = mailed
        .iter()
        .map(|mail| {
            everybody
                .into_iter()
                .filter(|to| {
                    mail.said
                        .iter()
                        .any(|line| line.starts_with("RCPT") && line.contains(to))
                })
                .collect()
        })
        .collect();
    let (grey, ops) = ([everybody[1]], [everybody[2]]);
    assert_eq!(recipients, [ops, grey, grey, ops]);
    let ids: Vec<String> = mailed
        .iter()
        .map(|mail| mail.header("Message-ID"))
        .collect();
    assert!(
        ids[0] == ids[1] && ids[1] != ids[2] && ids[2] == ids[3],
        "{ids:?}"
    );
    // Nobody at all is no success.
    bench.settings.mail.as_mut().unwrap().to.truncate(1);
    let (trouble, why) = fails(&bench.settings).await;
    assert_eq!(trouble, DeliveryErrorKind::Unreachable);
    assert!(why.contains("550"), "{why}");
}

#[tokio::test]
async fn a_mail_server_without_starttls_hears_nothing() {
    let mail = MailServer::start().await;
    let mut bench = Bench::new().by_mail(&mail);
    bench.settings.mail.as_mut().unwrap().tls = MailTls::Starttls;
    let (trouble, why) = fails(&bench.settings).await;
    assert_eq!(trouble, DeliveryErrorKind::Unreachable, "{why}");
    let heard = mail.heard.lock().unwrap().clone();
    let told = |line: &String| line.starts_with("MAIL") || line.starts_with("AUTH");
    assert!(!heard.iter().any(told), "{heard:?}");
}

#[tokio::test]
async fn a_certificate_that_nobody_signed_is_not_trusted() {
    let mail = MailServer::untrusted().await;
    let mut bench = Bench::new().by_mail(&mail);
    let settings = bench.settings.mail.as_mut().unwrap();
    settings.tls = MailTls::Tls;
    settings.server = "localhost".to_owned();
    let (_, why) = fails(&bench.settings).await;
    assert!(why.contains("certificate"), "{why}");
    assert!(mail.heard.lock().unwrap().is_empty());
    // The same server for a webhook: it ends before a byte of HTTP.
    bench.settings.mail = None;
    bench.settings.webhook = Some(gone::system::config::WebhookSettings {
        url: format!("https://localhost:{}/", mail.port),
        token_file: None,
    });
    let (_, why) = fails(&bench.settings).await;
    assert!(why.contains("certificate"), "{why}");
    assert!(mail.heard.lock().unwrap().is_empty());
}

#[tokio::test]
async fn a_secret_that_cannot_be_read_ends_the_start() {
    let web = WebServer::start().await;
    let mut bench = Bench::new().by_web(&web);
    let file = bench.secret("token", "");
    bench.settings.webhook.as_mut().unwrap().token_file = Some(file);
    let control = bench.control.clone();
    let started = Notifier::start(control, &bench.settings, Clock::system()).await;
    let Err(StartError::Secret { why, .. }) = started else {
        panic!("it started");
    };
    assert!(why.contains("one line"), "{why}");
}

#[test]
fn a_mark_crosses_no_socket() {
    let command = Command::MoveNotificationCursor {
        channel: "mail".to_owned(),
        mark: Some(Mark::default()),
    };
    assert!(serde_json::to_string(&command).is_err());
    let text = r#"{"do": "told", "channel": "mail", "mark": null}"#;
    assert!(serde_json::from_str::<Command>(text).is_err());
}
