//! The cluster's proxy, from `HTTPS_PROXY`, `HTTP_PROXY` and `NO_PROXY`: one meaning for whatever numo reaches. It only decides;
//! connections are made in `transport.rs`. Why this is not hyper-util's matcher: `adr/0026-no-proxy-is-read-by-numo.md`.

use std::{borrow::Cow, fmt, net::IpAddr};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use percent_encoding::percent_decode_str;
use url::Url;

use super::address::{AddressRange, is_loopback};

/// Which proxy serves which host.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Proxies {
    /// For HTTPS, by a CONNECT tunnel. A user part is sent as basic authorisation.
    pub https: Option<Url>,
    /// For plain HTTP.
    pub http: Option<Url>,
    /// `NO_PROXY`: names (a dot in front or not, all below them too), addresses, ranges, each with a port or not; `*`. IPv6 with a
    /// port is in brackets.
    pub except: Vec<String>,
}

impl fmt::Debug for Proxies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let host = |url: &Option<Url>| url.as_ref().and_then(Url::host_str).map(str::to_owned);
        write!(
            f,
            "Proxies(https: {:?}, http: {:?}, except: {:?})",
            host(&self.https),
            host(&self.http),
            self.except
        )
    }
}

impl Proxies {
    /// From environment variables, upper case first, as OLM and shells set them. `variable` looks one up. What is no URL of
    /// HTTP is an error that names the variable.
    pub fn from_env(variable: impl Fn(&str) -> Option<String>) -> Result<Self, String> {
        let find = |name: &str| {
            let either = variable(name).filter(|value| !value.trim().is_empty());
            either.or_else(|| variable(&name.to_lowercase()).filter(|value| !value.trim().is_empty()))
        };
        let url = |name: &str| -> Result<Option<Url>, String> {
            let Some(value) = find(name) else { return Ok(None) };
            let value = value.trim();
            let text = if value.contains("://") {
                value.to_owned()
            } else {
                format!("http://{value}")
            };
            let url = Url::parse(&text).map_err(|error| format!("{name} is no URL: {error}"))?;
            if !matches!(url.scheme(), "http" | "https") || url.host_str().is_none() {
                return Err(format!(
                    "{name} has scheme {:?}; numo reaches proxies by http and https",
                    url.scheme()
                ));
            }
            Ok(Some(url))
        };
        let except = find("NO_PROXY").unwrap_or_default();
        let except = except
            .split([',', ' '])
            .map(str::trim)
            .filter(|one| !one.is_empty())
            .map(str::to_owned)
            .collect();
        Ok(Self {
            https: url("HTTPS_PROXY")?,
            http: url("HTTP_PROXY")?,
            except,
        })
    }

    /// The proxy for a host, as a URL has it or without the brackets of IPv6, if it has one. Loopback never has.
    pub fn for_host(&self, host: &str, port: u16, secure: bool) -> Option<&Url> {
        let proxy = if secure {
            self.https.as_ref()
        } else {
            self.http.as_ref()
        }?;
        let host = host.trim_matches(['[', ']']);
        let address = host.parse::<IpAddr>().ok();
        let host = plain(host);
        let local = host == "localhost" || address.is_some_and(is_loopback);
        (!local
            && !self
                .except
                .iter()
                .any(|except| excepts(except, &host, address, port)))
        .then_some(proxy)
    }
}

/// The basic authorisation of a URL with a user part.
pub fn authorization(url: &Url) -> Option<String> {
    let password = url.password();
    if url.username().is_empty() && password.is_none() {
        return None;
    }
    Some(basic(
        &decoded(url.username()),
        &decoded(password.unwrap_or_default()),
    ))
}

/// A part of a URL as it is meant: `%2B` is a plus. What is no UTF-8 then is replaced.
pub fn decoded(text: &str) -> Cow<'_, str> {
    percent_decode_str(text).decode_utf8_lossy()
}

/// The value of an authorisation header.
pub(crate) fn basic(username: &str, password: &str) -> String {
    format!("Basic {}", STANDARD.encode(format!("{username}:{password}")))
}

/// A name as others are compared with it: small letters, and without the dot that may end it.
fn plain(name: &str) -> String {
    name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase()
}

/// Whether one word of `NO_PROXY` is about a host; `host` is as [`plain`] has it, `address` is what it is if it is one.
fn excepts(except: &str, host: &str, address: Option<IpAddr>, port: u16) -> bool {
    let (place, only) = with_port(except);
    if only.is_some_and(|only| only != port) {
        return false;
    }
    if place == "*" {
        return true;
    }
    if let Ok(range) = place.trim_matches(['[', ']']).parse::<AddressRange>() {
        return address.is_some_and(|address| range.contains(address));
    }
    let name = plain(place.trim_start_matches("*.").trim_start_matches('.'));
    let below = |rest: &str| rest.ends_with('.');
    host == name || (address.is_none() && host.strip_suffix(&name).is_some_and(below))
}

/// A word of `NO_PROXY` and the port in it. What is an address or a range as a whole has none, however many colons it has.
fn with_port(except: &str) -> (&str, Option<u16>) {
    let split = except
        .rsplit_once(':')
        .filter(|_| except.parse::<AddressRange>().is_err());
    match split.and_then(|(place, digits)| Some((place, digits.parse().ok()?))) {
        Some((place, port)) => (place, Some(port)),
        None => (except, None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_proxy_knows_names_addresses_ranges_and_ports() {
        let except = ".svc, example.org,10.0.0.0/8 , a.com:5000,fd00::/8,dot.net.,[2001:db8::1]:8443,[2001:db8::2],\
                      172.16.0.0/12:443,192.0.2.7:80,[2001:db8:1::/48]:443,*.wild.net:80";
        let env = |name: &str| match name {
            "HTTPS_PROXY" => Some("http://proxy.example.com:3128".to_owned()),
            "no_proxy" => Some(except.to_owned()),
            _ => None,
        };
        let proxies = Proxies::from_env(env).unwrap();
        let check = |host: &str, port: u16, expect: bool| {
            assert_eq!(
                proxies.for_host(host, port, true).is_some(),
                expect,
                "{host}:{port}"
            );
        };
        check("ghcr.io", 443, true);
        check("registry.image.svc", 5000, false);
        check("example.org", 443, false);
        check("a.example.org", 443, false);
        check("badexample.org", 443, true);
        check("10.1.2.3", 443, false);
        check("11.1.2.3", 443, true);
        check("a.com", 5000, false);
        check("a.com", 443, true);
        check("fd00::1", 443, false);
        check("127.0.0.1", 443, false);
        check("localhost", 443, false);
        check("LOCALHOST", 443, false);
        check("localhost.", 443, false);
        check("::ffff:127.0.0.1", 443, false);
        check("[::1]", 443, false);
        // A name that ends in a dot is the same name.
        check("kubernetes.default.svc.", 443, false);
        check("example.org.", 443, false);
        check("a.com.", 5000, false);
        check("a.com.", 443, true);
        check("dot.net", 443, false);
        check("a.dot.net", 443, false);
        check(".", 443, true);
        // Brackets are how a URL writes IPv6.
        check("[fd00::1]", 443, false);
        check("2001:db8::1", 8443, false);
        check("[2001:db8::1]", 8443, false);
        check("2001:db8::1", 443, true);
        check("2001:db8::2", 1, false);
        check("2001:db8:1::5", 443, false);
        check("2001:db8:1::5", 80, true);
        check("::ffff:10.1.2.3", 443, false);
        check("172.16.3.4", 443, false);
        check("172.16.3.4", 80, true);
        check("192.0.2.7", 80, false);
        check("192.0.2.7", 443, true);
        check("a.wild.net", 80, false);
        check("a.wild.net", 443, true);
        let all = Proxies {
            except: vec!["*".to_owned()],
            ..proxies.clone()
        };
        assert!(all.for_host("ghcr.io", 443, true).is_none());
        assert!(proxies.for_host("ghcr.io", 80, false).is_none());
    }

    #[test]
    fn a_user_part_is_sent_as_it_is_meant() {
        for (url, expect) in [
            ("http://u%40x:p%2Bq@proxy:3128", Some(("u@x", "p+q"))),
            ("http://u:a&b+c%26=d@proxy", Some(("u", "a&b+c&=d"))),
            ("http://u@proxy", Some(("u", ""))),
            ("http://:token@proxy", Some(("", "token"))),
            ("http://proxy", None),
        ] {
            let found = authorization(&url.parse().unwrap());
            assert_eq!(
                found,
                expect.map(|(user, password)| basic(user, password)),
                "{url}"
            );
        }
    }

    #[test]
    fn a_proxy_that_is_no_http_url_is_named() {
        let error =
            Proxies::from_env(|name| (name == "HTTP_PROXY").then(|| "socks5://a".to_owned())).unwrap_err();
        assert!(
            error.contains("HTTP_PROXY") && error.contains("socks5"),
            "{error}"
        );
    }
}
