//! Each event that needs a person reaches each channel. A message is repeated only after a crash or a failed delivery,
//! under the same id (I7).

use std::sync::atomic::Ordering;
use std::time::Duration;

use gone::domain::model::Origin;
use gone::ledger::Change;
use serde_json::json;

use super::harness::{Harness, id};
use super::receivers::{MailServer, WebServer};

#[tokio::test]
async fn i07_a_stuck_deletion_is_notified_once_by_each_channel() {
    let (web, mail) = (WebServer::start().await, MailServer::start().await);
    let harness = Harness::new().with_webhook(&web).with_mail(&mail);
    // Nobody is notified of events from before the first start.
    harness.stuck("before").await;
    let notifier = harness.start().await;
    harness.stuck("one").await;
    let posted = web.inbox.wait_for(1).await;
    assert_eq!(posted[0].body["news"][0]["deletion_id"], json!(id("one")));
    let mailed = mail.inbox.wait_for(1).await;
    assert_eq!(
        mailed[0].header("Message-ID"),
        format!("<{}@cloud.example>", posted[0].id())
    );
    // The next message is about the next deletion: nobody is notified of the first deletion again.
    harness.stuck("two").await;
    let posted = web.inbox.wait_for(2).await;
    assert_eq!(posted[1].body["news"][0]["deletion_id"], json!(id("two")));
    assert_eq!(posted[1].body["news"].as_array().unwrap().len(), 1);
    assert_ne!(posted[0].id(), posted[1].id());
    mail.inbox.wait_for(2).await;
    notifier.stop().await;
    assert_eq!((web.inbox.all().len(), mail.inbox.all().len()), (2, 2));
}

#[tokio::test]
async fn i07_a_crash_between_sending_and_recording_repeats_one_message_under_its_id() {
    let web = WebServer::start().await;
    let harness = Harness::new().with_webhook(&web);
    let notifier = harness.start().await;
    harness
        .control
        .hangs_when_recording
        .store(true, Ordering::SeqCst);
    harness.stuck("one").await;
    web.inbox.wait_for(1).await;
    drop(notifier);
    // An event between the crash and the next start is in another message.
    harness.stuck("two").await;
    harness
        .control
        .hangs_when_recording
        .store(false, Ordering::SeqCst);
    let notifier = harness.start().await;
    let posted = web.inbox.wait_for(3).await;
    assert_eq!(posted[0].id(), posted[1].id());
    assert_eq!(posted[0].header("idempotency-key"), Some(&*posted[0].id()));
    assert_eq!(posted[0].body["news"], posted[1].body["news"]);
    assert_ne!(posted[1].id(), posted[2].id());
    assert_eq!(posted[2].body["news"][0]["deletion_id"], json!(id("two")));
    notifier.stop().await;
    // All deliveries are recorded, so the third notifier notifies only about new events.
    harness
        .wait_for_cursor("webhook", |position| position.sending_through.is_none())
        .await;
    let notifier = harness.start().await;
    harness.stuck("three").await;
    let posted = web.inbox.wait_for(4).await;
    assert_eq!(posted[3].body["news"][0]["deletion_id"], json!(id("three")));
    notifier.stop().await;
}

#[tokio::test]
async fn i07_an_engine_that_shuts_down_normally_repeats_no_notification() {
    let web = WebServer::start().await;
    let harness = Harness::new().with_webhook(&web);
    for name in ["one", "two", "three"] {
        let notifier = harness.start().await;
        harness.stuck(name).await;
        harness
            .wait_for_cursor("webhook", |position| position.sending_through.is_some())
            .await;
        notifier.stop().await;
    }
    let posted = web.inbox.all();
    let notified: Vec<_> = posted
        .iter()
        .map(|posted| posted.body["news"][0]["deletion_id"].clone())
        .collect();
    assert_eq!(
        notified,
        ["one", "two", "three"].map(|name| json!(id(name)))
    );
}

#[tokio::test]
async fn i07_a_failing_channel_gets_its_notification_later_and_delays_no_other() {
    let (web, mail) = (WebServer::start().await, MailServer::start().await);
    let harness = Harness::new().with_webhook(&web).with_mail(&mail);
    let notifier = harness.start().await;
    web.inbox.answer_next_with(503, "later");
    harness.stuck("one").await;
    mail.inbox.wait_for(1).await;
    let cursor = harness
        .wait_for_cursor("webhook", |position| !position.last_error.is_empty())
        .await;
    assert!(cursor.last_error.contains("503"), "{cursor:?}");
    // While the webhook fails, mail gets the next event at once.
    harness.stuck("two").await;
    mail.inbox.wait_for(2).await;
    let posted = web.inbox.wait_for(3).await;
    assert_eq!(posted[0].id(), posted[1].id());
    assert_eq!(posted[2].body["news"][0]["deletion_id"], json!(id("two")));
    notifier.stop().await;
    let cursor = harness.control.cursor("webhook").await.unwrap();
    assert_eq!(
        (cursor.last_error.as_str(), cursor.sending_through),
        ("", None)
    );
    assert_eq!(mail.inbox.all().len(), 2);
}

#[tokio::test]
async fn i07_an_outage_of_fifteen_hundred_steps_is_one_message() {
    let web = WebServer::start().await;
    let mut harness = Harness::new().with_webhook(&web);
    harness.settings.gather = Duration::from_secs(1);
    let notifier = harness.start().await;
    harness.running("one", 1_500).await;
    harness.all_stuck("the service is away").await;
    let posted = web.inbox.wait_for(1).await;
    let news = &posted[0].body["news"];
    assert_eq!(news.as_array().unwrap().len(), 1);
    assert_eq!(news[0]["count"], 1_500);
    assert_eq!(news[0]["steps"].as_array().unwrap().len(), 5);
    assert!(posted[0].text().contains("1500 steps are stuck"));
    harness.stuck("two").await;
    let posted = web.inbox.wait_for(2).await;
    assert_eq!(posted[1].body["news"][0]["deletion_id"], json!(id("two")));
    notifier.stop().await;
}

#[tokio::test]
async fn i07_a_refusal_is_notified_when_nobody_waits_for_it() {
    let web = WebServer::start().await;
    let harness = Harness::new().with_webhook(&web);
    let notifier = harness.start().await;
    // A person who requested the deletion seconds ago still waits for the answer.
    harness.refused("waiting", Origin::Cli, 5).await;
    harness.refused("left", Origin::Cli, 120).await;
    let posted = web.inbox.wait_for(1).await;
    let news = &posted[0].body["news"];
    assert_eq!(
        (&news[0]["type"], news.as_array().unwrap().len()),
        (&json!("refused"), 1)
    );
    assert_eq!(news[0]["deletion_id"], json!(id("left")));
    assert_eq!(news[0]["reasons"], json!(["net-left is used by a router"]));
    harness.refused("api", Origin::Api, 0).await;
    let posted = web.inbox.wait_for(2).await;
    assert_eq!(posted[1].body["news"][0]["deletion_id"], json!(id("api")));
    notifier.stop().await;
}

#[tokio::test]
async fn i07_a_paused_site_is_notified_once_until_it_works_again() {
    let web = WebServer::start().await;
    let harness = Harness::new().with_webhook(&web);
    let notifier = harness.start().await;
    harness.site_event("prod/RegionOne", "paused").await;
    let posted = web.inbox.wait_for(1).await;
    assert_eq!(posted[0].body["news"][0]["type"], "paused");
    assert_eq!(
        posted[0].body["news"][0]["sites"],
        json!(["prod/RegionOne"])
    );
    harness
        .wait_for_cursor("webhook", |position| position.sending_through.is_none())
        .await;
    notifier.stop().await;
    // The next engine finds that the same site and another site are paused.
    let notifier = harness.start().await;
    harness.site_event("prod/RegionOne", "paused").await;
    harness.site_event("prod/RegionTwo", "paused").await;
    let posted = web.inbox.wait_for(2).await;
    assert_eq!(
        posted[1].body["news"][0]["sites"],
        json!(["prod/RegionTwo"])
    );
    harness.site_event("prod/RegionOne", "reachable").await;
    harness.site_event("prod/RegionOne", "paused").await;
    let posted = web.inbox.wait_for(3).await;
    assert_eq!(
        posted[2].body["news"][0]["sites"],
        json!(["prod/RegionOne"])
    );
    notifier.stop().await;
}

#[tokio::test]
async fn i07_a_channel_that_is_configured_again_skips_events_from_the_time_between() {
    let web = WebServer::start().await;
    let mut harness = Harness::new().with_webhook(&web);
    harness.start().await.stop().await;
    let webhook = harness.settings.webhook.take();
    harness.start().await.stop().await;
    assert_eq!(harness.control.cursor("webhook").await, None);
    harness.stuck("meanwhile").await;
    harness.settings.webhook = webhook;
    let notifier = harness.start().await;
    harness.stuck("after").await;
    let posted = web.inbox.wait_for(1).await;
    let news = posted[0].body["news"].as_array().unwrap();
    assert_eq!(news.len(), 1);
    assert_eq!(news[0]["deletion_id"], json!(id("after")));
    notifier.stop().await;
}

#[tokio::test]
async fn i07_an_engine_sends_no_old_notification_after_another_one_removed_the_cursor() {
    let web = WebServer::start().await;
    let harness = Harness::new().with_webhook(&web);
    let notifier = harness.start().await;
    harness.stuck("old").await;
    harness
        .wait_for_cursor("webhook", |position| position.sending_through.is_some())
        .await;
    notifier.stop().await;
    // The settings of the engine that leads meanwhile lack the channel.
    harness.control.set_follows(true);
    let notifier = harness.start().await;
    let removed = Change::MoveNotificationCursor {
        channel: "webhook".to_owned(),
        position: None,
    };
    harness.control.commit(vec![removed]).await;
    harness.control.set_follows(false);
    harness.stuck("new").await;
    let posted = web.inbox.wait_for(2).await;
    let news = posted[1].body["news"].as_array().unwrap();
    assert_eq!(news.len(), 1, "{news:?}");
    assert_eq!(news[0]["deletion_id"], json!(id("new")));
    notifier.stop().await;
}
