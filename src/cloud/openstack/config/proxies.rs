//! The proxies that the environment names: `HTTP_PROXY`, `HTTPS_PROXY`, `ALL_PROXY`, `NO_PROXY`, or the same
//! in lower case. Where both spellings are set, upper case wins, as in reqwest.
use std::collections::BTreeMap;

use http::{HeaderValue, Uri};
use hyper_util::client::proxy::matcher::Matcher;
use url::Url;

/// Chooses the proxy of each call, if there is one.
#[derive(Debug, Default)]
pub struct Proxies {
    http: Option<Proxy>,
    https: Option<Proxy>,
    no_proxy: Option<NoProxy>,
}

/// One proxy, and the variable that names it.
#[derive(Clone, Debug)]
pub struct Proxy {
    pub variable: &'static str,
    /// The proxy's URL, without user and password.
    pub url: Url,
    /// `Basic …`, if the variable contains a user.
    pub authorization: Option<HeaderValue>,
}

impl Proxies {
    pub fn of(variables: &BTreeMap<String, String>) -> Self {
        // A web server gives its CGI programs the client's `Proxy` header as HTTP_PROXY.
        if variables.contains_key("REQUEST_METHOD") {
            return Self::default();
        }
        let first = |names: [&'static str; 2]| {
            let mut set = names.into_iter();
            set.find_map(|name| Some((name, variables.get(name)?)))
        };
        let proxy = |names| first(names).and_then(|(name, value)| Proxy::of(name, value));
        let all = || proxy(["ALL_PROXY", "all_proxy"]);
        let no_proxy = first(["NO_PROXY", "no_proxy"]);
        Self {
            http: proxy(["HTTP_PROXY", "http_proxy"]).or_else(all),
            https: proxy(["HTTPS_PROXY", "https_proxy"]).or_else(all),
            no_proxy: no_proxy.map(|(_, list)| NoProxy::of(list)),
        }
    }

    /// Returns the proxy for `http://` and the one for `https://`, as far as they are set.
    pub fn each(&self) -> impl Iterator<Item = &Proxy> {
        self.http.iter().chain(&self.https)
    }

    /// Returns the proxy for a URL; none if the URL is reached directly.
    pub fn of_url(&self, url: &Url) -> Option<&Proxy> {
        let proxy = match url.scheme() {
            "http" => self.http.as_ref(),
            "https" => self.https.as_ref(),
            _ => None,
        };
        let is_direct = self.no_proxy.as_ref().is_some_and(|no| no.contains(url));
        proxy.filter(|_| !is_direct)
    }
}

impl Proxy {
    /// Reads the proxy of a variable; none if the value is not the URL of a proxy.
    fn of(variable: &'static str, value: &str) -> Option<Self> {
        let any = Uri::from_static("http://any.invalid/");
        let proxy = Matcher::builder().all(value).build().intercept(&any)?;
        Some(Self {
            variable,
            url: Url::parse(&proxy.uri().to_string()).ok()?,
            authorization: proxy.basic_auth().cloned(),
        })
    }
}

/// The hosts that are reached without a proxy: names, domains with their subdomains, addresses, networks,
/// `*`. Each applies to every port, or to the port that follows it.
#[derive(Debug)]
struct NoProxy {
    everywhere: Hosts,
    at_port: BTreeMap<u16, Hosts>,
}

impl NoProxy {
    fn of(list: &str) -> Self {
        let mut everywhere = Vec::new();
        let mut at_port: BTreeMap<u16, Vec<&str>> = BTreeMap::new();
        for entry in list.split(',').map(str::trim) {
            match split_port(entry) {
                Some((host, port)) => at_port.entry(port).or_default().push(host),
                None => everywhere.push(entry.trim_matches(['[', ']'])),
            }
        }
        let at_port = at_port.into_iter();
        Self {
            everywhere: Hosts::of(&everywhere),
            at_port: at_port
                .map(|(port, hosts)| (port, Hosts::of(&hosts)))
                .collect(),
        }
    }

    fn contains(&self, url: &Url) -> bool {
        let at_port = url.port_or_known_default();
        let at_port = at_port.and_then(|port| self.at_port.get(&port));
        self.everywhere.contains(url) || at_port.is_some_and(|hosts| hosts.contains(url))
    }
}

/// Returns host and port of an entry that has both. The colons of a bare IPv6 address do not begin a port.
fn split_port(entry: &str) -> Option<(&str, u16)> {
    let (host, port) = entry.rsplit_once(':')?;
    let host = match host.strip_prefix('[') {
        Some(bracketed) => bracketed.strip_suffix(']')?,
        None => Some(host).filter(|host| !host.contains(':'))?,
    };
    Some((host, port.parse().ok()?))
}

/// A matcher that sends everything except these hosts to a proxy, which is the only way to use hyper-util's
/// matching of hosts.
#[derive(Debug)]
struct Hosts(Matcher);

impl Hosts {
    fn of(hosts: &[&str]) -> Self {
        let matcher = Matcher::builder().all("http://any.invalid");
        Self(matcher.no(hosts.join(",")).build())
    }

    fn contains(&self, url: &Url) -> bool {
        let url = url.as_str().parse::<Uri>();
        url.is_ok_and(|url| self.0.intercept(&url).is_none())
    }
}
