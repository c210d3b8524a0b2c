//! What a registry asks for when it says 401, and the token that answers it. It keeps nothing and sends credentials
//! only to the registry itself and to the token server that the registry names, over TLS or loopback.

use http::HeaderMap;
use serde::Deserialize;

/// Bytes of a token server's answer.
pub(super) const TOKEN_BYTES: u64 = 64 * 1024;

/// What a registry asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Challenge {
    Basic,
    Bearer { realm: String, service: Option<String> },
}

impl Challenge {
    /// The strongest of what is offered.
    pub(super) fn of(headers: &HeaderMap) -> Option<Self> {
        let offered = headers.get_all(http::header::WWW_AUTHENTICATE).iter().take(8);
        let offered: Vec<Self> = offered
            .filter_map(|value| Self::parse(value.to_str().ok()?))
            .collect();
        offered
            .iter()
            .find(|one| **one != Self::Basic)
            .or(offered.first())
            .cloned()
    }

    fn parse(text: &str) -> Option<Self> {
        let (scheme, rest) = text.split_once(' ').unwrap_or((text, ""));
        if scheme.eq_ignore_ascii_case("basic") {
            return Some(Self::Basic);
        }
        if !scheme.eq_ignore_ascii_case("bearer") {
            return None;
        }
        let parameters = parameters(rest);
        let find = |name: &str| {
            let found = parameters.iter().find(|(key, _)| key.eq_ignore_ascii_case(name));
            found.map(|(_, value)| value.clone())
        };
        Some(Self::Bearer {
            realm: find("realm")?,
            service: find("service"),
        })
    }

    /// For errors.
    pub(super) fn shown(&self) -> &'static str {
        match self {
            Self::Basic => "a user and password",
            Self::Bearer { .. } => "a token",
        }
    }
}

/// `key="value",key=value`, quoted values may hold commas.
fn parameters(text: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut rest = text.trim();
    while let Some((key, after)) = rest.split_once('=') {
        let (value, next) = match after.strip_prefix('"') {
            Some(quoted) => match quoted.split_once('"') {
                Some((value, next)) => (value, next),
                None => break,
            },
            None => after.split_at(after.find(',').unwrap_or(after.len())),
        };
        found.push((key.trim().to_owned(), value.to_owned()));
        rest = next.trim_start().trim_start_matches(',').trim_start();
    }
    found
}

/// A token server's answer.
#[derive(Deserialize)]
struct Token {
    #[serde(default)]
    token: Option<String>,
    #[serde(default)]
    access_token: Option<String>,
}

/// The token in a token server's answer.
pub(super) fn token(answer: &[u8]) -> Option<String> {
    let token: Token = serde_json::from_slice(answer).ok()?;
    let of = |token: Option<String>| token.filter(|token| !token.is_empty());
    of(token.token).or(of(token.access_token))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn challenges_of_registries_are_read() {
        let check = |values: &[&str], expect: Option<Challenge>| {
            let mut headers = HeaderMap::new();
            for value in values {
                headers.append("www-authenticate", value.parse().unwrap());
            }
            assert_eq!(Challenge::of(&headers), expect, "{values:?}");
        };
        let bearer = |realm: &str, service: Option<&str>| {
            Some(Challenge::Bearer {
                realm: realm.into(),
                service: service.map(Into::into),
            })
        };
        check(&[], None);
        check(&["Negotiate"], None);
        check(&[r#"Basic realm="a, b""#], Some(Challenge::Basic));
        check(&["basic"], Some(Challenge::Basic));
        check(
            &[
                r#"Bearer realm="https://auth.io/token?a=b",service="reg.io",scope="repository:a/b:pull,push""#,
            ],
            bearer("https://auth.io/token?a=b", Some("reg.io")),
        );
        check(
            &["Basic", r#"bearer Realm="https://a""#],
            bearer("https://a", None),
        );
        check(&[r#"Bearer service="x""#], None);
        check(&[r#"Bearer realm="unclosed"#], None);
    }

    #[test]
    fn either_name_of_a_token_is_taken() {
        assert_eq!(
            token(br#"{"token":"a","access_token":"b"}"#).as_deref(),
            Some("a")
        );
        assert_eq!(token(br#"{"token":"","access_token":"b"}"#).as_deref(), Some("b"));
        assert_eq!(token(b"{}"), None);
        assert_eq!(token(b"<html>"), None);
    }
}
