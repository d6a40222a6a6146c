//! Which calls go through the proxies of the environment's variables, and how failures of a proxy are reported.
use std::collections::BTreeMap;
use std::sync::Arc;

use gone::cloud::openstack::config::Proxies;
use gone::cloud::openstack::{
    AuthError, CloudConfig, CloudsConfig, HttpTransport, Session, TransportError,
};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::sync::mpsc;

use crate::support::{environment, token_body, wall_clock, write};

fn proxies(variables: &[(&str, &str)]) -> Proxies {
    let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
    Proxies::of(&variables.iter().map(owned).collect::<BTreeMap<_, _>>())
}

/// Returns the proxy for a URL as `variable url`, or `direct`.
fn proxy_for(variables: &[(&str, &str)], url: &str) -> String {
    let proxies = proxies(variables);
    let found = proxies.of_url(&url.parse().unwrap());
    found.map_or("direct".into(), |it| format!("{} {}", it.variable, it.url))
}

#[test]
fn hosts_in_no_proxy_are_reached_directly_at_the_ports_that_it_names() {
    let https = "https://keystone.cloud.example:5000/v3";
    let cases = [
        (https, "", false),
        (https, "keystone.cloud.example", true),
        (https, "KEYSTONE.cloud.example", true),
        (https, "other.example , keystone.cloud.example", true),
        (https, "keystone.cloud.example:5000", true),
        (https, "keystone.cloud.example:5001", false),
        (https, "other.example,keystone.cloud.example:5000", true),
        (https, "cloud.example", true),
        (https, ".cloud.example", true),
        (https, "cloud.example:5000", true),
        (https, ".cloud.example:5000", true),
        (https, ".cloud.example:443", false),
        (https, "loud.example", false),
        (https, "loud.example:5000", false),
        (https, "*", true),
        (https, "*:5000", true),
        (https, "*:9696", false),
        // A URL without a port has the default port of its scheme.
        (
            "https://keystone.cloud.example/v3",
            "cloud.example:443",
            true,
        ),
        ("http://keystone.cloud.example/v3", "cloud.example:80", true),
        (
            "http://keystone.cloud.example/v3",
            "cloud.example:443",
            false,
        ),
        ("https://10.1.2.3:5000/v3", "10.1.2.3", true),
        ("https://10.1.2.3:5000/v3", "10.1.2.3:5000", true),
        ("https://10.1.2.3:5000/v3", "10.1.2.3:9696", false),
        ("https://10.1.2.3:5000/v3", "10.1.0.0/16", true),
        ("https://10.2.2.3:5000/v3", "10.1.0.0/16", false),
        ("https://[fd00::7]:5000/v3", "fd00::7", true),
        ("https://[fd00::7]:5000/v3", "[fd00::7]", true),
        ("https://[fd00::7]:5000/v3", "[fd00::7]:5000", true),
        ("https://[fd00::7]:5000/v3", "[fd00::7]:9696", false),
        ("https://[fd00::7]:5000/v3", "fd00::/8", true),
        ("https://[fe00::7]:5000/v3", "fd00::/8", false),
    ];
    for (url, no_proxy, is_direct) in cases {
        for name in ["NO_PROXY", "no_proxy"] {
            let found = proxy_for(&[("ALL_PROXY", "http://p:3128"), (name, no_proxy)], url);
            assert_eq!(
                found == "direct",
                is_direct,
                "{name}={no_proxy:?} for {url}"
            );
        }
    }
}

#[test]
fn each_scheme_has_the_proxy_of_its_own_variable() {
    let (http, https) = ("http://h/", "https://h/");
    let plain = ("HTTP_PROXY", "http://a:1");
    let secure = ("HTTPS_PROXY", "b:2");
    let all = ("all_proxy", "http://user:secret@c:3");
    let cases = [
        (vec![], http, "direct"),
        (vec![plain], http, "HTTP_PROXY http://a:1/"),
        (vec![plain], https, "direct"),
        (vec![plain, secure], https, "HTTPS_PROXY http://b:2/"),
        (vec![plain, all], http, "HTTP_PROXY http://a:1/"),
        (vec![plain, all], https, "all_proxy http://c:3/"),
        (
            vec![("http_proxy", "http://a:1")],
            http,
            "http_proxy http://a:1/",
        ),
        (
            vec![plain, ("http_proxy", "http://z:9")],
            http,
            "HTTP_PROXY http://a:1/",
        ),
        (
            vec![("HTTPS_PROXY", ""), ("https_proxy", "http://z:9")],
            https,
            "direct",
        ),
        (vec![plain, ("REQUEST_METHOD", "GET")], http, "direct"),
    ];
    for (variables, url, expected) in cases {
        assert_eq!(
            proxy_for(&variables, url),
            expected,
            "{variables:?} for {url}"
        );
    }
    assert!(!format!("{:?}", proxies(&[all])).contains("secret"));
}

/// Starts a proxy that gives this answer to every request. Returns its address, and a channel with the head of each
/// request, in lower case.
async fn proxy_answering(answer: String) -> (String, mpsc::UnboundedReceiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (sender, requests) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut head = vec![0; 4096];
            let length = stream.read(&mut head).await.unwrap_or(0);
            let head = String::from_utf8_lossy(&head[..length]).into_owned();
            let _ = sender.send(head.to_lowercase());
            let _ = stream.write_all(answer.as_bytes()).await;
            let _ = stream.shutdown().await;
        }
    });
    (address.to_string(), requests)
}

fn refusal(status: &str) -> String {
    format!("HTTP/1.1 {status}\r\nconnection: close\r\ncontent-length: 0\r\n\r\n")
}

fn cloud(auth_url: &str, variables: &[(&str, String)]) -> CloudConfig {
    let folder = tempfile::tempdir().unwrap();
    let mut environment = environment(folder.path());
    let yaml =
        format!("clouds: {{c: {{auth: {{auth_url: '{auth_url}', user_id: u, password: p}}}}}}");
    write(&environment.current_dir.join("clouds.yaml"), &yaml);
    let owned = |(name, value): &(&str, String)| ((*name).to_owned(), value.clone());
    environment.variables.extend(variables.iter().map(owned));
    let config = CloudsConfig::load(&environment).unwrap();
    config.cloud("c", None).unwrap()
}

async fn login(auth_url: &str, variables: &[(&str, String)]) -> Result<(), AuthError> {
    let cloud = cloud(auth_url, variables);
    let transport = Arc::new(HttpTransport::new(&cloud).unwrap());
    let session = Session::new(cloud, transport, wall_clock());
    session.identity().await.map(drop)
}

/// Asserts that the login failed at the proxy and not for a wrong password, and that the error names the proxy without
/// its password.
fn assert_proxy_error(login: Result<(), AuthError>, proxy: &str, variable: &str, reason: &str) {
    let error = login.unwrap_err();
    assert!(!error.rejected() && error.answer().is_none(), "{error:?}");
    let AuthError::Transport { source, .. } = &error else {
        panic!("{error}");
    };
    assert!(matches!(source, TransportError::Proxy { .. }), "{error}");
    assert!(source.nothing_sent());
    let message = error.to_string();
    let beginning = format!("the proxy http://{proxy}/ of the variable {variable} did not pass");
    for part in [&*beginning, reason, "nothing was sent to the cloud"] {
        assert!(message.contains(part), "{message}");
    }
    assert!(
        !message.contains("secret") && !message.contains("refused:"),
        "{message}"
    );
}

#[tokio::test]
async fn a_login_that_a_proxy_refuses_to_forward_is_reported_as_the_proxys_error() {
    let wants_a_login = "it requires a user and a password";
    let refuses = "it refuses to connect to the cloud's host and port";
    let cases = [
        (
            "http://cloud.invalid:5000",
            "407 Proxy Authentication Required",
            wants_a_login,
        ),
        (
            "https://cloud.invalid:5000",
            "407 Proxy Authentication Required",
            wants_a_login,
        ),
        ("https://cloud.invalid:5000", "403 Forbidden", refuses),
        (
            "https://cloud.invalid:5000",
            "503 Service Unavailable",
            refuses,
        ),
    ];
    for (auth_url, status, reason) in cases {
        let (proxy, _) = proxy_answering(refusal(status)).await;
        let variable = ("ALL_PROXY", format!("http://user:secret@{proxy}"));
        assert_proxy_error(
            login(auth_url, &[variable]).await,
            &proxy,
            "ALL_PROXY",
            reason,
        );
    }
}

#[tokio::test]
async fn an_unreachable_proxy_is_reported_as_the_proxys_error() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let proxy = listener.local_addr().unwrap().to_string();
    drop(listener);
    for (variable, auth_url) in [
        ("http_proxy", "http://cloud.invalid:5000"),
        ("HTTPS_PROXY", "https://cloud.invalid:5000"),
    ] {
        let login = login(
            auth_url,
            &[(variable, format!("http://user:secret@{proxy}"))],
        )
        .await;
        assert_proxy_error(login, &proxy, variable, "no connection: ");
    }
}

/// The proxy gets the user and password of the variable, and the answer that it forwards counts as the cloud's.
#[tokio::test]
async fn a_proxy_gets_its_user_and_forwards_the_login() {
    let body = token_body("http://n").to_string();
    let answer = format!(
        "HTTP/1.1 201 Created\r\nx-subject-token: t\r\nconnection: close\r\n\
         content-length: {}\r\n\r\n{body}",
        body.len()
    );
    let (proxy, mut requests) = proxy_answering(answer).await;
    let variable = ("HTTP_PROXY", format!("http://user:secret@{proxy}"));
    login("http://cloud.invalid:5000", &[variable])
        .await
        .unwrap();
    let head = requests.recv().await.unwrap();
    assert!(
        head.starts_with("post http://cloud.invalid:5000/v3/auth/tokens "),
        "{head}"
    );
    assert!(
        head.contains("proxy-authorization: basic dxnlcjpzzwnyzxq="),
        "{head}"
    );
}

#[tokio::test]
async fn a_cloud_in_no_proxy_is_called_directly() {
    let (cloud, mut requests) = proxy_answering(refusal("407 Proxy Authentication Required")).await;
    let (proxy, _) = proxy_answering(refusal("503 Service Unavailable")).await;
    let variables = [
        ("HTTP_PROXY", format!("http://{proxy}")),
        ("NO_PROXY", cloud.clone()),
    ];
    let error = login(&format!("http://{cloud}"), &variables)
        .await
        .unwrap_err();
    // The answer looks like a proxy's, but the cloud gave it.
    assert_eq!(error.answer().map(|answer| answer.status), Some(407));
    assert!(
        requests
            .recv()
            .await
            .unwrap()
            .starts_with("post /v3/auth/tokens ")
    );
}

#[tokio::test]
async fn a_proxys_error_page_is_not_reported_as_a_wrong_password() {
    for status in ["400 Bad Request", "403 Forbidden", "404 Not Found"] {
        let (proxy, _) = proxy_answering(refusal(status)).await;
        let variable = ("HTTP_PROXY", format!("http://{proxy}"));
        let error = login("http://cloud.invalid:5000", &[variable])
            .await
            .unwrap_err();
        assert!(!error.rejected(), "{error}");
        let message = error.to_string();
        assert!(
            message.contains("check the network, the proxies") && !message.contains("secret"),
            "{message}"
        );
    }
}
