//! Certificates of the webhook: given in a folder, or made by numo and kept in a Secret that all replicas share.
//!
//! What is made: an authority and one serving certificate, both for five years, made anew a year before they end. The
//! authority's key is thrown away at once: nobody can make another certificate that the API server would take for
//! the webhook's.

use jiff::{Timestamp, ToSpan, tz::TimeZone};
use k8s_openapi::{ByteString, api::core::v1::Secret};
use kube::{
    Api, Client,
    api::{ObjectMeta, PostParams},
};
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair,
    KeyUsagePurpose,
};
use rustls::{
    ServerConfig,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
};
use std::{collections::BTreeMap, path::Path, sync::Arc};

/// Name of the Secret, of the Service and of the ValidatingWebhookConfiguration's Service.
pub const NAME: &str = "numo-webhook";
/// How long what is made holds, and how long before its end it is made anew (years).
const YEARS: (i16, i16) = (5, 1);
/// Annotation of the Secret: until when its certificates hold.
const UNTIL: &str = "numo.openshift-optional.skrzypek.io/not-after";
/// Names of the files of a folder, as Secrets of type `kubernetes.io/tls` and as OLM have them.
const FILES: [(&str, &str); 2] = [("tls.crt", "tls.key"), ("apiserver.crt", "apiserver.key")];

/// Why there is no certificate.
#[derive(Debug, thiserror::Error)]
pub enum CertificateError {
    /// The folder has none.
    #[error(
        "--webhook-certs {folder}: found neither tls.crt and tls.key nor apiserver.crt and apiserver.key"
    )]
    Missing {
        /// The folder.
        folder: String,
    },
    /// It cannot be read as what it should be.
    #[error("{about}: {problem}")]
    Malformed {
        /// File, or Secret.
        about: String,
        /// What is wrong.
        problem: String,
    },
    /// It could not be made.
    #[error("the webhook's certificate cannot be made: {0}")]
    Make(#[from] rcgen::Error),
    /// The Secret cannot be read or written.
    #[error("Secret {NAME}: {0}")]
    Secret(#[source] kube::Error),
}

/// A serving certificate, and who vouches for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Certificate {
    /// The chain (PEM).
    pub chain: Vec<u8>,
    /// The key (PEM).
    pub key: Vec<u8>,
    /// The authority (PEM), where numo made it.
    pub authority: Option<Vec<u8>>,
}

impl Certificate {
    /// Reads a folder.
    pub fn from_folder(folder: &Path) -> Result<Self, CertificateError> {
        let missing = || CertificateError::Missing {
            folder: folder.display().to_string(),
        };
        let found = FILES.iter().find_map(|(chain, key)| {
            let chain = std::fs::read(folder.join(chain)).ok()?;
            Some((chain, std::fs::read(folder.join(key)).ok()?))
        });
        let (chain, key) = found.ok_or_else(missing)?;
        Ok(Self {
            chain,
            key,
            authority: None,
        })
    }

    /// What the Secret holds. It ships empty and is filled; what ends soon is made anew; a Secret that is not there is made, where numo may
    /// create one, which no role that ships lets it. Whoever comes second takes what the first made.
    pub async fn shared(client: &Client, namespace: &str, now: Timestamp) -> Result<Self, CertificateError> {
        let secrets: Api<Secret> = Api::namespaced(client.clone(), namespace);
        let known = secrets.get_opt(NAME).await.map_err(CertificateError::Secret)?;
        if let Some(kept) = known.as_ref().and_then(|secret| Self::kept(secret, now)) {
            return Ok(kept);
        }
        let (mut made, until) = Self::make(namespace, now)?;
        // Replicas that still serve the one before are believed until they have looked.
        let before = known
            .as_ref()
            .and_then(|secret| secret.data.as_ref()?.get("ca.crt").cloned());
        if let (Some(authority), Some(before)) = (&mut made.authority, before) {
            let first = String::from_utf8_lossy(&before.0);
            let end = "-----END CERTIFICATE-----";
            if let Some((first, _)) = first.split_once(end) {
                authority.extend_from_slice(format!("{first}{end}\n").as_bytes());
            }
        }
        let mut secret = known.clone().unwrap_or_default();
        secret.metadata.name = Some(NAME.to_owned());
        let annotations = secret.metadata.annotations.get_or_insert_default();
        annotations.insert(UNTIL.to_owned(), until.to_string());
        // The type of a Secret cannot be changed.
        secret.type_.get_or_insert_with(|| "kubernetes.io/tls".to_owned());
        secret.data = Some(made.data());
        let params = PostParams::default();
        let written = match known {
            None => {
                secret.metadata = ObjectMeta {
                    name: secret.metadata.name,
                    annotations: secret.metadata.annotations,
                    ..ObjectMeta::default()
                };
                secrets.create(&params, &secret).await
            }
            Some(_) => secrets.replace(NAME, &params, &secret).await,
        };
        match written {
            Ok(_) => Ok(made),
            Err(kube::Error::Api(status)) if status.code == 409 => {
                let other = secrets.get(NAME).await.map_err(CertificateError::Secret)?;
                Self::kept(&other, now).ok_or_else(|| CertificateError::Malformed {
                    about: format!("Secret {namespace}/{NAME}"),
                    problem: "found one without ca.crt, tls.crt and tls.key".to_owned(),
                })
            }
            Err(error) => Err(CertificateError::Secret(error)),
        }
    }

    /// What the Secret holds, if it holds for long enough.
    fn kept(secret: &Secret, now: Timestamp) -> Option<Self> {
        let until = secret.metadata.annotations.as_ref()?.get(UNTIL)?;
        let until: Timestamp = until.parse().ok()?;
        let soon = now
            .to_zoned(TimeZone::UTC)
            .checked_add(YEARS.1.years())
            .ok()?
            .timestamp();
        let data = secret.data.as_ref()?;
        let part = |name: &str| data.get(name).map(|bytes| bytes.0.clone());
        (until > soon).then_some(())?;
        let kept = Self {
            chain: part("tls.crt")?,
            key: part("tls.key")?,
            authority: Some(part("ca.crt")?),
        };
        // What somebody damaged is made anew.
        kept.server().is_ok().then_some(kept)
    }

    fn data(&self) -> BTreeMap<String, ByteString> {
        [
            ("tls.crt", self.chain.clone()),
            ("tls.key", self.key.clone()),
            ("ca.crt", self.authority.clone().unwrap_or_default()),
        ]
        .map(|(name, bytes)| (name.to_owned(), ByteString(bytes)))
        .into()
    }

    /// Makes an authority and a certificate for the Service, and for this machine.
    fn make(namespace: &str, now: Timestamp) -> Result<(Self, Timestamp), CertificateError> {
        let today = now.to_zoned(TimeZone::UTC).date();
        let date = |years: i16| {
            let day = u8::try_from(today.day()).unwrap_or(1).min(28);
            let month = u8::try_from(today.month()).unwrap_or(1);
            rcgen::date_time_ymd(i32::from(today.year() + years), month, day)
        };
        // A day back, for clocks that are behind.
        let (from, to) = (date(0), date(YEARS.0));
        let until = jiff::civil::date(today.year() + YEARS.0, today.month(), today.day().min(28))
            .to_zoned(TimeZone::UTC)
            .map_or(now, |zoned| zoned.timestamp());
        let mut authority = CertificateParams::default();
        authority
            .distinguished_name
            .push(DnType::CommonName, "numo webhook authority");
        authority.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        authority.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
        (authority.not_before, authority.not_after) = (from, to);
        let authority = CertifiedIssuer::self_signed(authority, KeyPair::generate()?)?;
        let names = vec![
            format!("{NAME}.{namespace}.svc"),
            format!("{NAME}.{namespace}.svc.cluster.local"),
            "localhost".to_owned(),
            "127.0.0.1".to_owned(),
        ];
        let mut serving = CertificateParams::new(names)?;
        serving.distinguished_name.push(DnType::CommonName, NAME);
        serving.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        (serving.not_before, serving.not_after) = (from, to);
        let key = KeyPair::generate()?;
        let serving = serving.signed_by(&key, &authority)?;
        let made = Self {
            chain: serving.pem().into_bytes(),
            key: key.serialize_pem().into_bytes(),
            authority: Some(authority.as_ref().pem().into_bytes()),
        };
        Ok((made, until))
    }

    /// As a TLS server wants it.
    pub fn server(&self) -> Result<Arc<ServerConfig>, CertificateError> {
        let malformed = |problem: String| CertificateError::Malformed {
            about: "the webhook's certificate".to_owned(),
            problem,
        };
        let chain: Vec<CertificateDer<'static>> = CertificateDer::pem_slice_iter(&self.chain)
            .collect::<Result<_, _>>()
            .map_err(|error| malformed(error.to_string()))?;
        let key = PrivateKeyDer::from_pem_slice(&self.key).map_err(|error| malformed(error.to_string()))?;
        ServerConfig::builder()
            .with_no_client_auth()
            .with_single_cert(chain, key)
            .map(Arc::new)
            .map_err(|error| malformed(error.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_made_can_be_served_and_is_kept_until_a_year_before_its_end() {
        let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
        let now: Timestamp = "2028-02-29T12:00:00Z".parse().unwrap();
        let (made, until) = Certificate::make("numo", now).unwrap();
        made.server().unwrap();
        assert_eq!(until.to_string(), "2033-02-28T00:00:00Z");
        let mut secret = Secret {
            data: Some(made.data()),
            ..Secret::default()
        };
        secret.metadata.annotations = Some([(UNTIL.to_owned(), until.to_string())].into());
        assert_eq!(Certificate::kept(&secret, now), Some(made));
        let late: Timestamp = "2032-03-01T00:00:00Z".parse().unwrap();
        assert_eq!(Certificate::kept(&secret, late), None);
        secret.data = None;
        assert_eq!(Certificate::kept(&secret, now), None);
        // As it ships.
        assert_eq!(Certificate::kept(&Secret::default(), now), None);
    }

    #[test]
    fn a_folder_without_a_certificate_is_named() {
        let error = Certificate::from_folder(Path::new("/nowhere"))
            .unwrap_err()
            .to_string();
        assert!(error.contains("/nowhere") && error.contains("tls.crt"), "{error}");
    }
}
