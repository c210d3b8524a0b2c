//! The servers that a Secret names for itself, in an annotation: otherwise whoever names the Secret could have it sent anywhere. Nothing is
//! read or sent here.

use super::item::Item;
use url::Url;

/// A server that something of a Secret is to be sent to.
#[derive(Clone, Copy, Debug)]
pub struct Server<'a> {
    /// `https` or `http`.
    pub scheme: &'a str,
    /// Its name or address.
    pub host: &'a str,
    /// Its port.
    pub port: u16,
}

impl<'a> Server<'a> {
    /// The server of a URL.
    pub fn of(url: &'a Url) -> Self {
        Self {
            scheme: url.scheme(),
            host: url.host_str().unwrap_or_default(),
            port: url.port_or_known_default().unwrap_or_default(),
        }
    }

    /// Whether this annotation of a Secret names it: `host` or `host:port` for TLS, `http://host` where it may be sent in the clear.
    pub fn is_named_by(self, secret: &Item, annotation: &str) -> bool {
        let servers: Option<String> = secret.at(&["metadata", "annotations", annotation]);
        let with_port = format!("{}:{}", self.host, self.port);
        let names = |one: &str| {
            let (scheme, server) = one.split_once("://").unwrap_or(("https", one));
            let is_host = server.eq_ignore_ascii_case(self.host) || server.eq_ignore_ascii_case(&with_port);
            scheme == self.scheme && is_host
        };
        servers.is_some_and(|servers| servers.split(',').any(|one| names(one.trim())))
    }

    /// As the annotation has to name it.
    pub fn shown(self) -> String {
        let plain = if self.scheme == "http" { "http://" } else { "" };
        format!("{plain}{}", self.host)
    }
}
