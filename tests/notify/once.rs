//! I7: told, and told once.

use std::sync::atomic::Ordering;
use std::time::Duration;

use gone::domain::model::Origin;
use serde_json::json;

use super::bench::{Bench, id};
use super::receivers::{MailServer, WebServer};

#[tokio::test]
async fn i07_what_is_stuck_is_told_once_by_each_channel() {
    let (web, mail) = (WebServer::start().await, MailServer::start().await);
    let bench = Bench::new().by_web(&web).by_mail(&mail);
    // What was before the first start is history.
    bench.stuck("before").await;
    let notifier = bench.start().await;
    bench.stuck("one").await;
    let posted = web.taken.until(1).await;
    assert_eq!(posted[0].body["news"][0]["deletion_id"], json!(id("one")));
    let mailed = mail.taken.until(1).await;
    assert_eq!(
        mailed[0].header("Message-ID"),
        format!("<{}@cloud.example>", posted[0].id())
    );
    // The next message is the next news: nothing was told between.
    bench.stuck("two").await;
    let posted = web.taken.until(2).await;
    assert_eq!(posted[1].body["news"][0]["deletion_id"], json!(id("two")));
    assert_eq!(posted[1].body["news"].as_array().unwrap().len(), 1);
    assert_ne!(posted[0].id(), posted[1].id());
    mail.taken.until(2).await;
    notifier.stop().await;
    assert_eq!((web.taken.all().len(), mail.taken.all().len()), (2, 2));
}

#[tokio::test]
async fn i07_a_crash_between_sending_and_recording_repeats_one_message_under_its_id() {
    let web = WebServer::start().await;
    let bench = Bench::new().by_web(&web);
    let notifier = bench.start().await;
    bench.control.dies.store(true, Ordering::SeqCst);
    bench.stuck("one").await;
    web.taken.until(1).await;
    drop(notifier);
    // More came before the next engine: it is another message.
    bench.stuck("two").await;
    bench.control.dies.store(false, Ordering::SeqCst);
    let notifier = bench.start().await;
    let posted = web.taken.until(3).await;
    assert_eq!(posted[0].id(), posted[1].id());
    assert_eq!(posted[0].header("idempotency-key"), Some(&*posted[0].id()));
    assert_eq!(posted[0].body["news"], posted[1].body["news"]);
    assert_ne!(posted[1].id(), posted[2].id());
    assert_eq!(posted[2].body["news"][0]["deletion_id"], json!(id("two")));
    notifier.stop().await;
    // Recorded: a third engine has nothing to tell but what is new.
    bench
        .until_mark("webhook", |mark| mark.telling.is_none())
        .await;
    let notifier = bench.start().await;
    bench.stuck("three").await;
    let posted = web.taken.until(4).await;
    assert_eq!(posted[3].body["news"][0]["deletion_id"], json!(id("three")));
    notifier.stop().await;
}

#[tokio::test]
async fn i07_an_engine_that_ends_in_peace_repeats_nothing() {
    let web = WebServer::start().await;
    let bench = Bench::new().by_web(&web);
    for name in ["one", "two", "three"] {
        let notifier = bench.start().await;
        bench.stuck(name).await;
        bench
            .until_mark("webhook", |mark| mark.telling.is_some())
            .await;
        notifier.stop().await;
    }
    let posted = web.taken.all();
    let told: Vec<_> = posted
        .iter()
        .map(|posted| posted.body["news"][0]["deletion_id"].clone())
        .collect();
    assert_eq!(told, ["one", "two", "three"].map(|name| json!(id(name))));
}

#[tokio::test]
async fn i07_a_channel_that_is_down_is_told_later_and_the_other_at_once() {
    let (web, mail) = (WebServer::start().await, MailServer::start().await);
    let bench = Bench::new().by_web(&web).by_mail(&mail);
    let notifier = bench.start().await;
    web.taken.will_answer(503, "later");
    bench.stuck("one").await;
    mail.taken.until(1).await;
    let failing = bench
        .until_mark("webhook", |mark| !mark.failing.is_empty())
        .await;
    assert!(failing.failing.contains("503"), "{failing:?}");
    // More comes while it is down; mail has it at once.
    bench.stuck("two").await;
    mail.taken.until(2).await;
    let posted = web.taken.until(3).await;
    assert_eq!(posted[0].id(), posted[1].id());
    assert_eq!(posted[2].body["news"][0]["deletion_id"], json!(id("two")));
    notifier.stop().await;
    let well = bench.control.mark("webhook").await.unwrap();
    assert_eq!((well.failing.as_str(), well.telling), ("", None));
    assert_eq!(mail.taken.all().len(), 2);
}

#[tokio::test]
async fn i07_an_outage_of_fifteen_hundred_steps_is_one_message() {
    let web = WebServer::start().await;
    let mut bench = Bench::new().by_web(&web);
    bench.settings.gather = Duration::from_secs(1);
    let notifier = bench.start().await;
    bench.running("one", 1_500).await;
    bench.all_stuck("the service is away").await;
    let posted = web.taken.until(1).await;
    let news = &posted[0].body["news"];
    assert_eq!(news.as_array().unwrap().len(), 1);
    assert_eq!(news[0]["count"], 1_500);
    assert_eq!(news[0]["steps"].as_array().unwrap().len(), 5);
    assert!(posted[0].text().contains("1500 steps are stuck"));
    bench.stuck("two").await;
    let posted = web.taken.until(2).await;
    assert_eq!(posted[1].body["news"][0]["deletion_id"], json!(id("two")));
    notifier.stop().await;
}

#[tokio::test]
async fn i07_a_refusal_is_told_when_nobody_waits_for_it() {
    let web = WebServer::start().await;
    let bench = Bench::new().by_web(&web);
    let notifier = bench.start().await;
    bench.refused("looked", Origin::Cli, 5).await;
    bench.refused("left", Origin::Cli, 120).await;
    let posted = web.taken.until(1).await;
    let news = &posted[0].body["news"];
    assert_eq!(
        (&news[0]["type"], news.as_array().unwrap().len()),
        (&json!("refused"), 1)
    );
    assert_eq!(news[0]["deletion_id"], json!(id("left")));
    assert_eq!(news[0]["reasons"], json!(["net-left is used by a router"]));
    bench.refused("api", Origin::Api, 0).await;
    let posted = web.taken.until(2).await;
    assert_eq!(posted[1].body["news"][0]["deletion_id"], json!(id("api")));
    notifier.stop().await;
}

#[tokio::test]
async fn i07_a_paused_site_is_told_once_until_it_works_again() {
    let web = WebServer::start().await;
    let bench = Bench::new().by_web(&web);
    let notifier = bench.start().await;
    bench.site("prod/RegionOne", "paused").await;
    let posted = web.taken.until(1).await;
    assert_eq!(posted[0].body["news"][0]["type"], "paused");
    assert_eq!(
        posted[0].body["news"][0]["sites"],
        json!(["prod/RegionOne"])
    );
    bench
        .until_mark("webhook", |mark| mark.telling.is_none())
        .await;
    notifier.stop().await;
    // The next engine meets the same site, and another.
    let notifier = bench.start().await;
    bench.site("prod/RegionOne", "paused").await;
    bench.site("prod/RegionTwo", "paused").await;
    let posted = web.taken.until(2).await;
    assert_eq!(
        posted[1].body["news"][0]["sites"],
        json!(["prod/RegionTwo"])
    );
    bench.site("prod/RegionOne", "reachable").await;
    bench.site("prod/RegionOne", "paused").await;
    let posted = web.taken.until(3).await;
    assert_eq!(
        posted[2].body["news"][0]["sites"],
        json!(["prod/RegionOne"])
    );
    notifier.stop().await;
}

#[tokio::test]
async fn i07_a_channel_that_comes_back_does_not_tell_what_was_meanwhile() {
    let web = WebServer::start().await;
    let mut bench = Bench::new().by_web(&web);
    bench.start().await.stop().await;
    let webhook = bench.settings.webhook.take();
    bench.start().await.stop().await;
    assert_eq!(bench.control.mark("webhook").await, None);
    bench.stuck("meanwhile").await;
    bench.settings.webhook = webhook;
    let notifier = bench.start().await;
    bench.stuck("after").await;
    let posted = web.taken.until(1).await;
    let news = posted[0].body["news"].as_array().unwrap();
    assert_eq!(news.len(), 1);
    assert_eq!(news[0]["deletion_id"], json!(id("after")));
    notifier.stop().await;
}
