//! The texts of notifications; hostile names inject nothing into them.

use gone::domain::model::{Left, Target};
use serde_json::json;

use super::harness::{FRIDAY, Harness, id, key};
use super::receivers::{MailServer, WebServer};

#[tokio::test]
async fn i07_a_notification_names_the_resource_error_blocker_and_next_commands() {
    let (web, mail) = (WebServer::start().await, MailServer::start().await);
    let harness = Harness::new().with_webhook(&web).with_mail(&mail);
    let notifier = harness.start().await;
    harness.stuck("one").await;
    let posted = web.inbox.wait_for(1).await.remove(0);
    let next = [
        "gone explain port/port-one-0@prod/RegionOne",
        "gone retry 00000one",
    ];
    let news = &posted.body["news"][0];
    assert_eq!(news["short_id"], "00000one");
    assert_eq!(news["targets"][0]["name"], "net-one");
    assert_eq!(news["steps"][0]["resource"]["name"], "server-0");
    assert_eq!(news["steps"][0]["last_error"]["type"], "PortInUse");
    assert_eq!(news["steps"][0]["blockers"][0]["name"], "web-1");
    assert_eq!(news["steps"][0]["blocked_since"], json!(FRIDAY));
    assert_eq!(news["next"], json!(next));
    let mailed = mail.inbox.wait_for(1).await.remove(0);
    let expected = [
        "deletion 00000one of network net-one: 1 step is stuck at prod/RegionOne",
        "port server-0 (port-one-0) at prod/RegionOne: 409 PortInUse: a server holds it (req-1)",
        "blocked by server web-1 (project demo, not in this plan); blocked since 2026-01-02T02:00:00Z; 8 attempts",
        next[0],
        next[1],
    ];
    let body = mailed.body().replace("=\n", "");
    for words in expected {
        assert!(
            posted.text().contains(words),
            "no {words} in {}",
            posted.text()
        );
        assert!(body.contains(words), "no {words} in {body}");
    }
    assert!(body.contains("asked for by ada: ticket 4711"), "{body}");
    assert_eq!(
        mailed.header("Subject"),
        "[gone] deletion 00000one of network net-one: 1 step is stuck at prod/RegionOne"
    );
    assert_eq!(mailed.header("Auto-Submitted"), "auto-generated");
    assert_eq!(mailed.header("To"), "ops@cloud.example");
    notifier.stop().await;
}

#[tokio::test]
async fn n19_a_notification_lists_the_resources_that_the_plan_leaves_and_why() {
    let (web, mail) = (WebServer::start().await, MailServer::start().await);
    let mut harness = Harness::new().with_webhook(&web).with_mail(&mail);
    harness.left = (0..5)
        .map(|at| Left {
            resource: Target {
                key: key("image", &format!("image-{at}")),
                name: format!("golden-{at}"),
            },
            project_id: "p-1".to_owned(),
            reason: "it is public: other projects may use it".to_owned(),
        })
        .collect();
    let notifier = harness.start().await;
    harness.stuck("one").await;
    let news = &web.inbox.wait_for(1).await.remove(0).body["news"][0];
    assert_eq!(news["left_count"], 5);
    assert_eq!(news["left"].as_array().unwrap().len(), 3);
    assert_eq!(news["left"][0]["resource"]["name"], "golden-0");
    let mailed = mail.inbox.wait_for(1).await.remove(0);
    let body = mailed.body().replace("=\n", "");
    let left = "image golden-0 (image-0) at prod/RegionOne stays: it is public: other projects may \
        use it";
    for words in [left, "and 2 more stay"] {
        assert!(body.contains(words), "no {words} in {body}");
    }
    notifier.stop().await;
}

const HOSTILE: &str = "x\r\nBcc: all@evil.example\r\n\r\n\u{1b}[2J\u{202e}<!channel> @here \
    [pay](http://evil.example) *now* `rm`";

#[tokio::test]
async fn i07_hostile_names_inject_nothing() {
    let (web, mail) = (WebServer::start().await, MailServer::start().await);
    let harness = Harness::new().with_webhook(&web).with_mail(&mail);
    let notifier = harness.start().await;
    let port = ("$(reboot);'\"\n&@/%".to_owned(), HOSTILE.to_owned());
    harness.running_with("one", HOSTILE, vec![port]).await;
    harness.all_stuck(HOSTILE).await;
    let mailed = mail.inbox.wait_for(1).await.remove(0);
    let (head, _) = mailed.text.split_once("\n\n").unwrap();
    assert!(!head.contains("\nBcc"), "{head}");
    let subject = mailed.header("Subject");
    assert!(!subject.contains(['\r', '\n', '\u{1b}']), "{subject:?}");
    let recipients = mailed
        .dialogue
        .iter()
        .filter(|line| line.starts_with("RCPT"));
    assert_eq!(recipients.count(), 1);
    assert!(!mailed.text.contains(['\u{1b}', '\u{202e}']), "{mailed:?}");

    let posted = web.inbox.wait_for(1).await.remove(0);
    let text = posted.text();
    for word in [
        "\n", "\r", "\u{1b}", "\u{202e}", "<", ">", "@here", "://", "](", "`", "*",
    ] {
        assert!(!text.contains(word), "{word:?} in {text}");
    }
    let raw = posted.body["news"].to_string();
    assert!(!raw.contains(['\u{202e}', '\u{1b}']), "{raw}");
    assert!(!raw.contains("\\u001b"), "{raw}");
    // The commands have no character that a shell would interpret.
    assert_eq!(
        posted.body["news"][0]["next"],
        json!([
            "gone explain port/%24%28reboot%29%3B%27%22%0A%26%40%2F%25@prod/RegionOne",
            format!("gone retry {}", &id("one")[28..])
        ])
    );
    notifier.stop().await;
}

#[tokio::test]
async fn fourteen_stuck_deletions_are_one_notification_that_lists_ten_and_counts_the_others() {
    let web = WebServer::start().await;
    let mut harness = Harness::new().with_webhook(&web);
    harness.settings.gather = std::time::Duration::from_secs(1);
    let notifier = harness.start().await;
    for at in 0..14 {
        harness.running(&format!("d{at}"), 1).await;
    }
    harness.all_stuck("long ".repeat(2_000).as_str()).await;
    let posted = web.inbox.wait_for(1).await.remove(0);
    assert_eq!(posted.body["news"].as_array().unwrap().len(), 10);
    assert_eq!(posted.body["more"], 4);
    assert!(posted.text().contains("and 4 more"), "{}", posted.text());
    assert!(posted.body.to_string().len() < 64_000);
    notifier.stop().await;
}
