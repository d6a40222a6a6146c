//! The services and extensions that a site offers, including those for which there is no kind (N19).
use std::sync::Arc;
use std::time::Duration;

use gone::cloud::openstack::{HttpTransport, Transport};
use gone::cloud::{Cloud as _, CloudFailure, OpenStack};
use gone::domain::kinds::Offer;
use gone::domain::model::Site;
use gone::system::clock::Clock;
use serde_json::json;
use wiremock::matchers::{method, path};
use wiremock::{Mock, MockServer, ResponseTemplate};

use crate::support::{TOKEN, password_cloud, token_answer};

/// Requests the offer of region R1 twice. The network service there gives this answer to a request for its extensions.
/// Returns the second offer, and the number of calls for extensions.
async fn offered(extensions: ResponseTemplate) -> (Result<Offer, CloudFailure>, usize) {
    let server = MockServer::start().await;
    Mock::given(method("POST"))
        .and(path("/v3/auth/tokens"))
        .respond_with(token_answer(&server.uri(), TOKEN))
        .mount(&server)
        .await;
    Mock::given(method("GET"))
        .and(path("/v2.0/extensions"))
        .respond_with(extensions)
        .mount(&server)
        .await;
    let site = Site::region("c", "R1");
    let cloud = OpenStack::new(
        vec![(site.clone(), password_cloud(&server.uri()))],
        Box::new(|cloud| {
            let transport = HttpTransport::new(cloud).map_err(|error| error.to_string())?;
            Ok(Arc::new(transport) as Arc<dyn Transport>)
        }),
        Clock::system(),
        Duration::from_secs(20),
    );
    let kinds = gone::cloud::load_kinds(&[]).unwrap();
    let _ = cloud.offer(&site, &kinds).await;
    let offer = cloud.offer(&site, &kinds).await;
    let requests = server.received_requests().await.unwrap();
    let calls = requests
        .iter()
        .filter(|it| it.url.path() == "/v2.0/extensions");
    (offer, calls.count())
}

#[tokio::test]
async fn n19_an_offer_names_extensions_and_services_without_kinds_and_is_cached() {
    let extensions = json!({"extensions": [{"alias": "metering"}, {"alias": "logging"}]});
    let (offer, calls) = offered(ResponseTemplate::new(200).set_body_json(extensions)).await;
    let offer = offer.unwrap();
    let services: Vec<&String> = offer.covered.keys().collect();
    // The catalog has block storage as volumev3.
    assert_eq!(services, ["block-storage", "compute", "network"]);
    let extensions: Vec<&String> = offer.covered["network"].iter().collect();
    assert_eq!(extensions, ["logging", "metering"]);
    let others: Vec<&String> = offer.others.iter().collect();
    assert_eq!(others, ["reservation"]);
    assert_eq!(calls, 1);
}

#[tokio::test]
async fn n19_an_offer_that_cannot_be_read_is_an_error_and_not_an_empty_one() {
    let (offer, _) = offered(ResponseTemplate::new(503)).await;
    let failed = offer.unwrap_err();
    assert_eq!(failed.status, Some(503));
}
