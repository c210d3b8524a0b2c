//! Pushes components, and manifests that refer to them. Equal bytes and parameters give an equal digest: there is no
//! clock in here.

use std::collections::BTreeMap;

use bytes::Bytes;
use http::{HeaderName, HeaderValue, Method, header};
use jiff::Timestamp;

use super::{
    credentials::Credentials,
    digest::Digest,
    error::OciError,
    layout::{CONFIG, ComponentSurface, Descriptor, INDEX, Index, LAYER, MANIFEST, Manifest, WasmConfig},
    reference::{Pinned, Reference, Version},
    registry::{Call, Expect, Fetched, Registry, Session},
};

/// Bytes of a registry's answer to a push.
const ANSWER_BYTES: u64 = 64 * 1024;

/// A component and what is said about it.
#[derive(Clone, Debug, Default)]
pub struct Push {
    /// The bytes of the component.
    pub component: Vec<u8>,
    /// What it imports and exports.
    pub surface: ComponentSurface,
    /// When it was made; see [`created_from_epoch`].
    pub created: Timestamp,
    /// Who made it.
    pub author: Option<String>,
    /// Annotations of the manifest: `org.opencontainers.image.version`…
    pub annotations: BTreeMap<String, String>,
}

/// The moment that `SOURCE_DATE_EPOCH` names (seconds since 1970), and 1970 itself where there is none.
pub fn created_from_epoch(source_date_epoch: Option<&str>) -> Result<Timestamp, String> {
    let Some(text) = source_date_epoch.map(str::trim).filter(|text| !text.is_empty()) else {
        return Ok(Timestamp::UNIX_EPOCH);
    };
    let seconds = text
        .parse::<i64>()
        .map_err(|_| format!("SOURCE_DATE_EPOCH is {text:?}, not a number of seconds"))?;
    Timestamp::from_second(seconds).map_err(|error| format!("SOURCE_DATE_EPOCH: {error}"))
}

/// What a registry is given of a component: its manifest and the blobs that the manifest names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packed {
    /// The manifest as it is hashed.
    pub manifest: Vec<u8>,
    /// The config's bytes.
    pub config: Vec<u8>,
}

impl Push {
    /// The manifest and the config, as [`Registry::push`] puts them; `of` is named in errors.
    pub fn packed(&self, of: &impl ToString) -> Result<Packed, OciError> {
        let config = json(of, "config", &self.config())?;
        let mut layer = Descriptor::new(LAYER, &self.component);
        layer.annotations = self
            .annotations
            .get("org.opencontainers.image.title")
            .map_or_else(BTreeMap::new, |title| {
                BTreeMap::from([("org.opencontainers.image.title".to_owned(), title.clone())])
            });
        let mut manifest = Manifest::new(Descriptor::new(CONFIG, &config), vec![layer]);
        manifest.annotations.clone_from(&self.annotations);
        let manifest = json(of, "manifest", &manifest)?;
        Ok(Packed { manifest, config })
    }

    /// The config's bytes.
    fn config(&self) -> WasmConfig {
        WasmConfig {
            created: Some(self.created.to_string()),
            author: self.author.clone(),
            architecture: "wasm".to_owned(),
            os: "wasip2".to_owned(),
            layer_digests: vec![Digest::of(&self.component).to_string()],
            component: Some(self.surface.clone()),
        }
    }
}

impl Registry {
    /// Pushes in the CNCF layout; returns the digest under which it is found. Tagged too, if `to` has a tag; a digest
    /// in `to` must be the one that results.
    pub async fn push(
        &self,
        to: &Reference,
        credentials: &Credentials,
        push: &Push,
    ) -> Result<Pinned, OciError> {
        let mut session = self.pusher(to.to_string(), (&to.registry, &to.repository), credentials);
        let Packed {
            manifest: bytes,
            config,
        } = push.packed(to)?;
        let pinned = to.pinned(Digest::of(&bytes));
        if let Version::Digest(wanted) = &to.version
            && *wanted != pinned.digest
        {
            return Err(OciError::mismatch(to, "manifest", &pinned.digest, wanted));
        }
        session.put_blob(push.component.clone().into(), "layer").await?;
        session.put_blob(config.into(), "config").await?;
        session.put_manifest(&to.version, MANIFEST, bytes).await?;
        Ok(pinned)
    }

    /// Puts a manifest or an index of any kind as it is, after the blobs that it names; what of them is there already is not sent again.
    /// Returns the digest under which it is found. What an index names must be there.
    pub async fn put(
        &self,
        to: &Reference,
        credentials: &Credentials,
        media_type: &str,
        manifest: Vec<u8>,
        blobs: Vec<Vec<u8>>,
    ) -> Result<Pinned, OciError> {
        let mut session = self.pusher(to.to_string(), (&to.registry, &to.repository), credentials);
        let pinned = to.pinned(Digest::of(&manifest));
        for blob in blobs {
            session.put_blob(blob.into(), "blob").await?;
        }
        session.put_manifest(&to.version, media_type, manifest).await?;
        Ok(pinned)
    }
}

/// As JSON, fields in the order of the struct.
pub(crate) fn json(
    of: &impl ToString,
    what: &str,
    value: &impl serde::Serialize,
) -> Result<Vec<u8>, OciError> {
    serde_json::to_vec(value).map_err(|error| OciError::malformed(of, what, error.to_string()))
}

impl Session<'_> {
    /// Uploads a blob, unless it is there.
    pub(crate) async fn put_blob(&mut self, bytes: Bytes, what: &str) -> Result<(), OciError> {
        let digest = Digest::of(&bytes);
        let at = format!("blobs/{digest}");
        match self.write(Method::HEAD, &at, what, None, Bytes::new()).await {
            Ok(_) => return Ok(()),
            Err(OciError::NotFound { .. }) => {}
            Err(error) => return Err(error),
        }
        let begun = self
            .write(Method::POST, "blobs/uploads/", what, None, Bytes::new())
            .await?;
        let location = begun.text("location").ok_or_else(|| {
            OciError::malformed(
                self.shown(),
                "upload",
                "the registry does not say where to upload to",
            )
        })?;
        let mut url = self.redirected(&begun.url, location)?;
        url.query_pairs_mut().append_pair("digest", digest.as_str());
        self.write(
            Method::PUT,
            url.as_str(),
            what,
            Some("application/octet-stream"),
            bytes,
        )
        .await?;
        Ok(())
    }

    /// Puts a manifest; returns whether the registry itself lists it as a referrer of its subject.
    pub(crate) async fn put_manifest(
        &mut self,
        version: &Version,
        media_type: &str,
        bytes: Vec<u8>,
    ) -> Result<bool, OciError> {
        let at = format!("manifests/{version}");
        let answer = self
            .write(Method::PUT, &at, "manifest", Some(media_type), bytes.into())
            .await?;
        Ok(answer.text("oci-subject").is_some())
    }

    /// Puts an index.
    pub(crate) async fn put_index(&mut self, tag: &str, index: &Index) -> Result<(), OciError> {
        let bytes = json(self.shown(), "index", index)?;
        self.put_manifest(&Version::Tag(tag.to_owned()), INDEX, bytes)
            .await
            .map(|_| ())
    }

    async fn write(
        &mut self,
        method: Method,
        at: &str,
        what: &str,
        content_type: Option<&str>,
        body: Bytes,
    ) -> Result<Fetched, OciError> {
        let content_type = content_type.and_then(|value| HeaderValue::from_str(value).ok());
        let headers: Vec<(HeaderName, HeaderValue)> = content_type
            .map(|value| (header::CONTENT_TYPE, value))
            .into_iter()
            .collect();
        self.call(Call {
            method,
            at,
            what,
            headers,
            body,
            expect: Expect::AtMost(ANSWER_BYTES),
        })
        .await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_input_gives_equal_bytes_and_the_epoch_is_read() {
        let push = Push {
            component: b"wasm".to_vec(),
            ..Push::default()
        };
        let bytes = || json(&"r", "config", &push.config()).unwrap();
        assert_eq!(bytes(), bytes());
        let text = String::from_utf8(bytes()).unwrap();
        assert!(
            text.starts_with(r#"{"created":"1970-01-01T00:00:00Z","architecture":"wasm","os":"wasip2""#),
            "{text}"
        );
        assert_eq!(
            created_from_epoch(Some("1700000000")).unwrap().to_string(),
            "2023-11-14T22:13:20Z"
        );
        assert_eq!(created_from_epoch(None).unwrap(), Timestamp::UNIX_EPOCH);
        assert!(created_from_epoch(Some("yesterday")).is_err());
    }
}
