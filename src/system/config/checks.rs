//! Checks that several tables of the settings share.

use url::{Host, Url};

pub(super) const EMPTY: &str = "must not be empty";
pub(super) const ZERO: &str = "must be longer than 0s";

/// Returns the key of a setting, and the message about its value.
pub(super) fn nonsense(key: &str, message: &str) -> Option<(String, String)> {
    Some((key.to_owned(), message.to_owned()))
}

/// Returns the key of the first of these settings that is wrong, and the reason. Each setting is given by three values:
/// whether it is wrong, its key (without the prefix `below`), and the reason.
pub(super) fn first_wrong<const N: usize>(
    below: &str,
    settings: [(bool, &str, &str); N],
) -> Option<(String, String)> {
    let (_, key, why) = settings.into_iter().find(|(is_wrong, ..)| *is_wrong)?;
    nonsense(&format!("{below}{key}"), why)
}

/// Returns the error in a URL to which secrets are sent: such a URL must use TLS, or lead to this machine, and
/// must not contain a user or a password. The URL may contain a secret, so the text does not repeat the URL.
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
