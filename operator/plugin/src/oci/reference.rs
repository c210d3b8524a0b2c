//! References to artifacts, as people write them. It reads text only, and asks nobody what a reference leads to.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

use super::{digest::Digest, error::OciError};

impl FromStr for Digest {
    type Err = OciError;

    fn from_str(text: &str) -> Result<Self, OciError> {
        let digits = text.strip_prefix("sha256:").unwrap_or_default();
        if digits.len() == 64
            && digits
                .bytes()
                .all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
        {
            return Ok(Self(text.to_owned()));
        }
        Err(OciError::invalid(
            text,
            "a digest is sha256: and 64 lower-case hexadecimal digits",
        ))
    }
}

impl TryFrom<String> for Digest {
    type Error = OciError;

    fn try_from(text: String) -> Result<Self, OciError> {
        text.parse()
    }
}

/// What a reference ends in.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Version {
    /// A name that the registry may move.
    Tag(String),
    /// The content itself.
    Digest(Digest),
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tag(tag) => f.write_str(tag),
            Self::Digest(digest) => digest.fmt(f),
        }
    }
}

/// `registry.example.com[:5000]/team/rule:1.2` or `…@sha256:…`; with both, the digest counts. The registry is always
/// named: there is no default one, and no default tag.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Reference {
    /// Host and, where there is one, port.
    pub registry: String,
    /// Path in the registry, in lower case.
    pub repository: String,
    /// Tag or digest.
    pub version: Version,
}

impl Reference {
    /// Bytes of a whole reference.
    pub const BYTES: usize = 512;

    /// The same artifact by its digest.
    pub fn pinned(&self, digest: Digest) -> Pinned {
        Pinned {
            registry: self.registry.clone(),
            repository: self.repository.clone(),
            digest,
        }
    }
}

impl FromStr for Reference {
    type Err = OciError;

    fn from_str(text: &str) -> Result<Self, OciError> {
        let wrong = |why| OciError::invalid(text, why);
        if text.len() > Self::BYTES {
            return Err(wrong("a reference has at most 512 bytes"));
        }
        let (registry, rest) = text
            .split_once('/')
            .ok_or_else(|| wrong("it names no registry"))?;
        if !is_registry(registry) {
            return Err(wrong(
                "its first part is no registry like registry.example.com or localhost:5000",
            ));
        }
        let (path, digest) = match rest.split_once('@') {
            Some((path, digest)) => (path, Some(digest.parse::<Digest>()?)),
            None => (rest, None),
        };
        let (repository, tag) = match path.split_once(':') {
            Some((repository, tag)) => (repository, Some(tag)),
            None => (path, None),
        };
        if !is_repository(repository) {
            return Err(wrong(
                "its path is not lower-case parts of a-z, 0-9, '.', '_' and '-'",
            ));
        }
        if !tag.is_none_or(is_tag) {
            return Err(wrong(
                "its tag is not 1 to 128 of A-Z, a-z, 0-9, '_', '.' and '-'",
            ));
        }
        let version = match (digest, tag) {
            (Some(digest), _) => Version::Digest(digest),
            (None, Some(tag)) => Version::Tag(tag.to_owned()),
            (None, None) => return Err(wrong("it has neither a tag nor a digest")),
        };
        Ok(Self {
            registry: registry.to_owned(),
            repository: repository.to_owned(),
            version,
        })
    }
}

impl TryFrom<String> for Reference {
    type Error = OciError;

    fn try_from(text: String) -> Result<Self, OciError> {
        text.parse()
    }
}

impl From<Reference> for String {
    fn from(reference: Reference) -> Self {
        reference.to_string()
    }
}

impl fmt::Display for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let at = if matches!(self.version, Version::Tag(_)) {
            ':'
        } else {
            '@'
        };
        write!(f, "{}/{}{at}{}", self.registry, self.repository, self.version)
    }
}

/// A reference by digest: what is run, verified and cached.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Pinned {
    /// Host and, where there is one, port.
    pub registry: String,
    /// Path in the registry.
    pub repository: String,
    /// Of the manifest.
    pub digest: Digest,
}

impl Pinned {
    /// As a reference.
    pub fn reference(&self) -> Reference {
        Reference {
            registry: self.registry.clone(),
            repository: self.repository.clone(),
            version: Version::Digest(self.digest.clone()),
        }
    }
}

impl fmt::Display for Pinned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}@{}", self.registry, self.repository, self.digest)
    }
}

/// `host`, `host:port` or `[v6]:port`; a name without a dot or port is one of a path, except `localhost`.
pub(super) fn is_registry(text: &str) -> bool {
    let (host, port) = match text.rsplit_once(':') {
        Some((host, port)) if !port.ends_with(']') => (host, Some(port)),
        _ => (text, None),
    };
    let has_port = port.is_some();
    // A number may be written with a sign, a port may not.
    let is_port = |port: &str| port.bytes().all(|byte| byte.is_ascii_digit()) && port.parse::<u16>().is_ok();
    if port.is_some_and(|port| !is_port(port)) {
        return false;
    }
    if let Some(v6) = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')) {
        return v6.parse::<std::net::Ipv6Addr>().is_ok();
    }
    let labels = host.split('.').all(|label| {
        !label.is_empty()
            && !label.starts_with('-')
            && !label.ends_with('-')
            && label
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
    });
    labels && host.len() <= 253 && (has_port || host.contains('.') || host == "localhost")
}

pub(super) fn is_repository(text: &str) -> bool {
    let part = |part: &str| {
        let edge =
            |byte: Option<u8>| byte.is_some_and(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit());
        edge(part.bytes().next())
            && edge(part.bytes().last())
            && part.bytes().all(|byte| {
                byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'.' | b'_' | b'-')
            })
            && !part.contains("..")
    };
    text.len() <= 255 && text.split('/').all(part)
}

fn is_tag(text: &str) -> bool {
    (1..=128).contains(&text.len())
        && !text.starts_with(['.', '-'])
        && text
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'-'))
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEX: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

    #[test]
    fn references_are_read_and_written() {
        for good in [
            "registry.example.com/rule:1".to_owned(),
            "localhost:5000/a/b_c/d.e:v1.2-rc".to_owned(),
            "[::1]:5000/a:b".to_owned(),
            format!("ghcr.io/team/rule@sha256:{HEX}"),
        ] {
            assert_eq!(good.parse::<Reference>().unwrap().to_string(), good);
        }
        let both: Reference = format!("ghcr.io/a/b:1@sha256:{HEX}").parse().unwrap();
        assert_eq!(both.to_string(), format!("ghcr.io/a/b@sha256:{HEX}"));
    }

    #[test]
    fn what_is_no_reference_is_refused_with_a_reason() {
        for bad in [
            "",
            "rule:1",
            "team/rule:1",
            "registry.example.com/rule",
            "registry.example.com/Rule:1",
            "registry.example.com/../rule:1",
            "registry.example.com/a//b:1",
            "registry.example.com:99999/a:1",
            "user@registry.example.com/a:1",
            "https://registry.example.com/a:1",
            "registry.example.com/a:-1",
            "registry.example.com/a@sha256:00",
            "registry.example.com/a@sha512:00",
            "registry.example.com/a?b:1",
            &format!("registry.example.com/{}:1", "a".repeat(600)),
        ] {
            let error = bad.parse::<Reference>().unwrap_err();
            assert_eq!(error.reason(), "InvalidReference", "{bad}: {error}");
        }
    }
}
