//! A gate before Nova or Cinder: it passes calls with their microversion, and refuses in the service's shape.

use gone::system::config::GateSource;
use reqwest::Method;
use serde_json::json;

use crate::support::Stage;

const GATES: &str = "
[[gate]]
listen = '127.0.0.1:0'
upstream = { cloud = 'sandbox', region = 'RegionOne', service = 'compute' }
[[gate]]
listen = '127.0.0.1:0'
upstream = { cloud = 'sandbox', region = 'RegionOne', service = 'volumev3' }
";
const COMPUTE: (GateSource, &str) = (GateSource::User, "compute");
const STORAGE: (GateSource, &str) = (GateSource::User, "volumev3");

/// A path that two servers may read differently is the gate's own refusal.
#[tokio::test(flavor = "multi_thread")]
async fn t22_a_gate_refuses_in_the_shape_of_nova_and_cinder() {
    let stage = Stage::with(GATES).await;
    for (gate, path) in [(COMPUTE, "/servers/a%2Fb"), (STORAGE, "/volumes/a%2Fb")] {
        let answer = stage.call(gate, Method::GET, path, None).await;
        assert_eq!(answer.status, 400, "{}", answer.text);
        let body = answer.json();
        assert_eq!(body["badRequest"]["code"], 400, "{body}");
        assert_eq!(body.as_object().unwrap().len(), 1);
    }
}

/// Nova answers 202 or 204 by the microversion.
#[tokio::test(flavor = "multi_thread")]
async fn a_microversion_reaches_nova_as_it_was_sent() {
    let stage = Stage::with(GATES).await;
    let url = stage.url(GateSource::User, "compute");
    let key = json!({"keypair": {"name": "k", "public_key": "ssh-ed25519 AAAA"}});
    for (version, status) in [
        (None, 202),
        (Some("compute 2.1"), 202),
        (Some("compute 2.96"), 204),
    ] {
        let made = stage
            .call(COMPUTE, Method::POST, "/os-keypairs", Some(key.clone()))
            .await;
        assert_eq!(made.status, 201, "{}", made.text);
        let mut request = stage
            .request(Method::DELETE, &format!("{url}/os-keypairs/k"))
            .header("x-auth-token", &stage.admin);
        if let Some(version) = version {
            request = request.header("openstack-api-version", version);
        }
        assert_eq!(stage.answered(request).await.status, status, "{version:?}");
    }
}
