//! Addresses to which secrets are sent: over TLS, or to this machine.

use url::{Host, Url};

/// Returns what is wrong with a URL. The URL may contain a secret, so the text does not repeat it.
pub(super) fn wrong_url(text: &str) -> Option<String> {
    if text.is_empty() {
        return Some("is missing; write url = \"https://HOST/PATH\"".to_owned());
    }
    let Ok(url) = Url::parse(text) else {
        return Some("is not a URL; write https://HOST/PATH".to_owned());
    };
    if !url.username().is_empty() || url.password().is_some() {
        return Some(
            "must not contain a user or a password; put a token into a file and name it as token_file"
                .to_owned(),
        );
    }
    match (url.scheme(), url.host()) {
        ("https", Some(_)) => None,
        ("http", Some(host)) if is_this_machine(&host) => None,
        ("http", Some(_)) => Some(
            "must be https:// (http:// only to this machine: 127.0.0.1, [::1] or localhost)"
                .to_owned(),
        ),
        (scheme, _) => Some(format!("must be https://HOST/PATH, not {scheme}:")),
    }
}

pub(super) fn is_this_machine(host: &Host<&str>) -> bool {
    match host {
        Host::Domain(name) => *name == "localhost",
        Host::Ipv4(address) => address.is_loopback(),
        Host::Ipv6(address) => address.is_loopback(),
    }
}
