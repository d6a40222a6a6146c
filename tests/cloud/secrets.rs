//! Passwords and tokens are shown nowhere: not in Debug output, not in errors, not in the log.
use std::time::Duration;

use gone::cloud::openstack::{CloudsConfig, Session};
use http::Method;
use serde_json::json;
use wiremock::matchers::method;
use wiremock::{Mock, MockServer, ResponseTemplate};

use crate::log::Log;
use crate::support::{
    DEADLINE, PASSWORD, TOKEN, environment, password_cloud, session_of, token_answer, write,
};

fn assert_clean(text: &str) {
    for secret in [PASSWORD, TOKEN] {
        assert!(!text.contains(secret), "{secret} is shown in {text}");
    }
}

/// Makes logins and calls fail in many ways. Returns each error, as `Display` and as `Debug` show it.
async fn failures() -> Vec<String> {
    let echo = json!({"error": {"code": 400, "title": "Bad Request",
        "message": format!("{PASSWORD} and {TOKEN} are not allowed")}});
    let keystones = [
        ResponseTemplate::new(401).set_body_json(&echo),
        ResponseTemplate::new(400).set_body_string(format!("<html>{PASSWORD}")),
        ResponseTemplate::new(201).set_body_json(&echo),
        ResponseTemplate::new(201)
            .insert_header("X-Subject-Token", TOKEN)
            .set_body_string(format!("{{\"token\": \"{TOKEN}\"}}")),
    ];
    let first = u32::from(TOKEN.chars().next().unwrap());
    let spelled = format!("\\u{first:04x}{}", &TOKEN[1..]);
    let services = [
        ResponseTemplate::new(401).set_body_json(&echo),
        ResponseTemplate::new(400).set_body_json(&echo),
        ResponseTemplate::new(200).set_body_string(format!("<{TOKEN}>")),
        ResponseTemplate::new(200).set_body_string(format!("{{\"{TOKEN}")),
        ResponseTemplate::new(200).set_delay(Duration::from_secs(60)),
        // Three answers have the token in a header, and one spells it with an escape.
        ResponseTemplate::new(409)
            .insert_header("x-openstack-request-id", TOKEN)
            .set_body_json(json!({"NeutronError": {"type": "X", "message": "no"}})),
        ResponseTemplate::new(409)
            .insert_header("x-openstack-request-id", format!("req-{TOKEN}"))
            .set_body_string("<html>"),
        ResponseTemplate::new(302).insert_header("location", format!("http://h/?{TOKEN}")),
        ResponseTemplate::new(409).set_body_string(format!(
            "{{\"NeutronError\": {{\"type\": \"{spelled}\", \"message\": \"{spelled}\"}}, \"more\": \"{spelled}\"}}"
        )),
    ];
    let mut errors = Vec::new();
    for keystone in keystones {
        // A login sends only the password, so the token in its answer is not redacted.
        let server = MockServer::start().await;
        Mock::given(method("POST"))
            .respond_with(keystone)
            .mount(&server)
            .await;
        let session = session_of(password_cloud(&server.uri()));
        let error = call(&session, DEADLINE).await;
        errors.push(format!("{error} {error:?}").replace(&format!("and {TOKEN}"), ""));
    }
    for service in services {
        let server = MockServer::start().await;
        let login = token_answer(&server.uri(), TOKEN);
        Mock::given(method("POST"))
            .respond_with(login)
            .mount(&server)
            .await;
        Mock::given(method("GET"))
            .respond_with(service)
            .mount(&server)
            .await;
        let session = session_of(password_cloud(&server.uri()));
        session.identity().await.unwrap();
        let error = call(&session, Duration::from_secs(2)).await;
        let text = format!("{error} {error:?} {session:?} {:?}", session.cloud());
        // A call sends only the token, so the password in its answer is not redacted.
        errors.push(text.replace(&format!("{PASSWORD} and"), ""));
    }
    errors
}

async fn call(session: &Session, deadline: Duration) -> gone::cloud::openstack::CallError {
    let call = session.request("network", Method::GET, "/v2.0/ports", None, deadline);
    call.await.unwrap_err()
}

#[test]
fn no_error_debug_or_log_shows_a_password_or_a_token() {
    let log = Log::start();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let errors = runtime.block_on(failures());
    assert_eq!(errors.len(), 13);
    for text in &errors {
        assert_clean(text);
        assert!(
            !text.contains(&TOKEN[1..]),
            "the escaped token is shown in {text}"
        );
    }
    assert!(errors[0].contains("[redacted]"), "{}", errors[0]);
    // The stub logs the requests that it receives.
    let mut ours = log.lines();
    ours.retain(|line| !line.contains("wiremock"));
    assert!(ours.iter().any(|line| line.contains("login refused")));
    assert!(ours.iter().any(|line| line.contains("called")));
    assert_clean(&ours.join("\n"));
}

#[test]
fn no_debug_of_the_configuration_shows_a_password() {
    let folder = tempfile::tempdir().unwrap();
    let environment = environment(folder.path());
    let yaml = format!(
        "clouds: {{c: {{password: {PASSWORD}, auth: {{auth_url: 'http://h', user_id: u}}}}, \
         d: {{auth: {{auth_url: 'x{PASSWORD}', user_id: u, password: {PASSWORD}}}}}}}"
    );
    write(&environment.current_dir.join("clouds.yaml"), &yaml);
    let config = CloudsConfig::load(&environment).unwrap();
    assert_clean(&format!(
        "{config:?} {:?} {environment:?}",
        config.cloud("c", None)
    ));
    let error = config.cloud("d", None).unwrap_err();
    assert_clean(&format!("{error} {error:?}"));
}
