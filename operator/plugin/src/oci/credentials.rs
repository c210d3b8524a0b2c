//! Credentials from `.dockerconfigjson`, chosen as the kubelet chooses them. It reads no file, runs no credential
//! helper, and prints no secret.

use std::{collections::BTreeMap, fmt};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde::Deserialize;

/// How to log in at one registry.
#[derive(Clone, PartialEq, Eq)]
pub enum Login {
    /// Name and password.
    Password {
        /// The user's name.
        username: String,
        /// A secret.
        password: String,
    },
    /// A refresh token that is exchanged for an access token.
    IdentityToken(String),
}

impl fmt::Debug for Login {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.shown())
    }
}

impl Login {
    /// Whose it is, for errors.
    pub(super) fn shown(&self) -> String {
        match self {
            Self::Password { username, .. } => {
                format!("the password of {}", crate::text::clean(username, 64))
            }
            Self::IdentityToken(_) => "an identity token".to_owned(),
        }
    }
}

/// The logins of one pull secret, or of several in the order in which they count.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Credentials {
    logins: Vec<(Scope, Login)>,
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list()
            .entries(
                self.logins
                    .iter()
                    .map(|(scope, login)| (&scope.host, &scope.path, login)),
            )
            .finish()
    }
}

/// `.dockerconfigjson` that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CredentialsError {
    /// No JSON of that form, or larger than [`Credentials::BYTES`].
    #[error("the pull secret is no .dockerconfigjson: {0}")]
    Malformed(String),
    /// An entry has nothing to log in with.
    #[error("the pull secret's entry {entry:?}: {why}")]
    Entry {
        /// Its key under `auths`.
        entry: String,
        /// What is wrong.
        why: &'static str,
    },
}

#[derive(Deserialize)]
struct File {
    #[serde(default)]
    auths: BTreeMap<String, Entry>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Entry {
    auth: String,
    username: String,
    password: String,
    identitytoken: String,
}

impl Entry {
    fn is_empty(&self) -> bool {
        let Self {
            auth,
            username,
            password,
            identitytoken,
        } = self;
        [auth, username, password, identitytoken]
            .iter()
            .all(|text| text.is_empty())
    }
}

/// What a login is for: a host, which may have `*` as whole labels or parts of them, and a path below it.
#[derive(Clone, PartialEq, Eq)]
struct Scope {
    host: String,
    path: String,
}

impl Credentials {
    /// Bytes of one `.dockerconfigjson`; a Secret has at most 1 MiB.
    pub const BYTES: usize = 1024 * 1024;

    /// Without any.
    pub fn none() -> Self {
        Self::default()
    }

    /// One login for one registry or a path in it: `registry.example.com:5000/team`.
    pub fn login(at: &str, login: Login) -> Self {
        Self {
            logins: vec![(scope(at), login)],
        }
    }

    /// From the `.dockerconfigjson` of a Secret.
    pub fn parse(json: &[u8]) -> Result<Self, CredentialsError> {
        if json.len() > Self::BYTES {
            return Err(CredentialsError::Malformed("it has more than 1 MiB".to_owned()));
        }
        // serde's own words can quote the secret.
        let file: File = serde_json::from_slice(json).map_err(|error| {
            CredentialsError::Malformed(format!("line {}, column {}", error.line(), error.column()))
        })?;
        // Where a credential helper has them, docker writes an empty entry.
        let given = file.auths.into_iter().filter(|(_, entry)| !entry.is_empty());
        let logins = given.map(|(key, entry)| {
            let login = login(entry).map_err(|why| CredentialsError::Entry {
                entry: crate::text::clean(&key, 253),
                why,
            })?;
            Ok((scope(&key), login))
        });
        Ok(Self {
            logins: logins.collect::<Result<_, _>>()?,
        })
    }

    /// These, then others: of two entries for the same place the first counts.
    #[must_use]
    pub fn and(mut self, others: Self) -> Self {
        self.logins.extend(others.logins);
        self
    }

    /// The login for a repository: the entry with the longest path, then the host without `*`.
    pub(super) fn for_repository(&self, registry: &str, repository: &str) -> Option<&Login> {
        let registry = alias(&registry.to_ascii_lowercase()).to_owned();
        let mut best: Option<(usize, bool, &Login)> = None;
        for (scope, login) in &self.logins {
            if !scope.covers(&registry, repository) {
                continue;
            }
            let rank = (scope.path.len(), !scope.host.contains('*'));
            if best.is_none_or(|(length, exact, _)| rank > (length, exact)) {
                best = Some((rank.0, rank.1, login));
            }
        }
        best.map(|(_, _, login)| login)
    }
}

fn login(entry: Entry) -> Result<Login, &'static str> {
    if !entry.identitytoken.is_empty() {
        return Ok(Login::IdentityToken(entry.identitytoken));
    }
    if !entry.username.is_empty() {
        return Ok(Login::Password {
            username: entry.username,
            password: entry.password,
        });
    }
    if entry.auth.is_empty() {
        return Err("neither auth, username nor identitytoken");
    }
    let decoded = STANDARD
        .decode(entry.auth.trim())
        .map_err(|_| "auth is not base64")?;
    let decoded = String::from_utf8(decoded).map_err(|_| "auth is not UTF-8")?;
    let (username, password) = decoded
        .split_once(':')
        .ok_or("auth is not user:password in base64")?;
    let password = password.trim_end_matches('\0');
    Ok(Login::Password {
        username: username.to_owned(),
        password: password.to_owned(),
    })
}

/// Docker Hub is written in several ways, with its API's version as if it were a path.
fn alias(host: &str) -> &str {
    match host {
        "index.docker.io" | "registry-1.docker.io" | "docker.io" => "docker.io",
        other => other,
    }
}

fn scope(key: &str) -> Scope {
    let key = key.trim();
    let key = key
        .strip_prefix("https://")
        .or_else(|| key.strip_prefix("http://"))
        .unwrap_or(key);
    let (host, path) = key.split_once('/').unwrap_or((key, ""));
    let path = path.trim_matches('/');
    let path = if matches!(path, "v1" | "v2") { "" } else { path };
    Scope {
        host: alias(&host.to_ascii_lowercase()).to_owned(),
        path: path.to_owned(),
    }
}

impl Scope {
    fn covers(&self, registry: &str, repository: &str) -> bool {
        let path = self.path.is_empty()
            || repository
                .strip_prefix(&self.path)
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
        path && host_covers(&self.host, registry)
    }
}

/// As the kubelet: the same number of labels, `*` within a label, the port exactly.
fn host_covers(pattern: &str, registry: &str) -> bool {
    if !pattern.contains('*') {
        return pattern == registry;
    }
    let split = |text: &str| -> (Vec<String>, Option<String>) {
        let (host, port) = match text.rsplit_once(':') {
            Some((host, port)) => (host, Some(port.to_owned())),
            None => (text, None),
        };
        (host.split('.').map(str::to_owned).collect(), port)
    };
    let ((pattern, pattern_port), (host, port)) = (split(pattern), split(registry));
    pattern.len() == host.len()
        && pattern_port == port
        && pattern
            .iter()
            .zip(&host)
            .all(|(one, other)| label_covers(one, other))
}

fn label_covers(pattern: &str, label: &str) -> bool {
    let Some((first, rest)) = pattern.split_once('*') else {
        return pattern == label;
    };
    let Some(mut left) = label.strip_prefix(first) else {
        return false;
    };
    let mut parts = rest.split('*').peekable();
    while let Some(part) = parts.next() {
        if parts.peek().is_none() {
            return left.ends_with(part);
        }
        match left.find(part) {
            Some(at) => left = &left[at + part.len()..],
            None => return false,
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    fn user(credentials: &Credentials, registry: &str, repository: &str) -> Option<String> {
        credentials.for_repository(registry, repository).map(Login::shown)
    }

    #[test]
    fn the_longest_path_wins_and_globs_stay_within_a_label() {
        let secret = br#"{"auths":{
            "registry.example.com":{"username":"host","password":"p"},
            "https://registry.example.com/team/":{"auth":"dGVhbTpwOnE="},
            "*.example.com":{"username":"glob","password":"p"},
            "r*.example.org:5000":{"identitytoken":"t"},
            "https://index.docker.io/v1/":{"username":"hub","password":"p"}}}"#;
        let credentials = Credentials::parse(secret).unwrap();
        let check = |registry: &str, repository: &str, expect: Option<&str>| {
            let expect = expect.map(|name| match name {
                "token" => "an identity token".to_owned(),
                name => format!("the password of {name}"),
            });
            assert_eq!(
                user(&credentials, registry, repository),
                expect,
                "{registry}/{repository}"
            );
        };
        check("registry.example.com", "rule", Some("host"));
        check("registry.example.com", "team/rule", Some("team"));
        check("registry.example.com", "teams/rule", Some("host"));
        check("other.example.com", "rule", Some("glob"));
        check("a.other.example.com", "rule", None);
        check("registry.example.com:5000", "rule", None);
        check("r1.example.org:5000", "rule", Some("token"));
        check("r1.example.org", "rule", None);
        check("docker.io", "library/rule", Some("hub"));
        let team = credentials.for_repository("registry.example.com", "team/rule");
        assert_eq!(
            team,
            Some(&Login::Password {
                username: "team".into(),
                password: "p:q".into()
            })
        );
    }

    #[test]
    fn a_broken_secret_is_told_without_quoting_it() {
        let check = |json: &str, expect: &str| {
            let error = Credentials::parse(json.as_bytes()).unwrap_err().to_string();
            assert!(error.contains(expect) && !error.contains("hunter2"), "{error}");
        };
        check("{", "line 1");
        check(r#"{"auths":{"a":"hunter2"}}"#, "line 1");
        check(r#"{"auths":{"a":{"password":"hunter2"}}}"#, r#""a""#);
        check(r#"{"auths":{"a":{"auth":"hunter2!"}}}"#, "base64");
        check(r#"{"auths":{"a":{"auth":"aHVudGVyMg=="}}}"#, "user:password");
        // What `docker login` leaves where a credential helper keeps the rest.
        let helped = Credentials::parse(br#"{"auths":{"a":{}}, "credsStore": "desktop"}"#).unwrap();
        assert_eq!(helped, Credentials::none());
        let credentials = Credentials::login(
            "a",
            Login::Password {
                username: "u".into(),
                password: "hunter2".into(),
            },
        );
        assert!(!format!("{credentials:?}").contains("hunter2"));
    }
}
