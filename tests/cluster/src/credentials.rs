//! Who may talk to the cluster: certificates, keys, tokens, kubeconfig files.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow};
use k8s_openapi::ByteString;
use numo_control_plane::hex;
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair,
    KeyUsagePurpose,
};
use serde_json::json;

/// Someone with every right (`system:masters`). They are several so that
/// managedFields and the audit log tell who did what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum User {
    /// The test itself.
    Admin,
    /// The simulated nodes, kubelets, MCO and clouds.
    World,
    /// A person with kubectl, by the name that kubeadm gives the first of them.
    Person,
    /// A GitOps tool that re-applies what is in git.
    GitOps,
}

impl User {
    const ALL: [Self; 4] = [Self::Admin, Self::World, Self::Person, Self::GitOps];

    /// The user name, as in the audit log; also the user agent of
    /// [`Cluster::client`](crate::Cluster::client) and so the default field manager.
    pub fn name(self) -> &'static str {
        match self {
            Self::Admin => "admin",
            Self::World => "world",
            Self::Person => "kubernetes-admin",
            Self::GitOps => "gitops",
        }
    }
}

/// The control plane's own users; upstream's bootstrap RBAC names them.
pub(crate) const CONTROLLER_MANAGER: &str = "system:kube-controller-manager";
pub(crate) const SCHEDULER: &str = "system:kube-scheduler";

/// All secrets of one cluster, as files in one folder that only this user reads.
#[derive(Debug)]
pub(crate) struct Credentials {
    dir: PathBuf,
    server: String,
    ca_pem: String,
}

impl Credentials {
    /// Makes all of them for an API server at `server` (a URL).
    pub(crate) fn create(dir: PathBuf, server: String) -> Result<Self> {
        let ca_pem = certificates(&dir)?;
        let signing = KeyPair::generate()?;
        secret(&dir.join("service-account.key"), &signing.serialize_pem())?;
        secret(&dir.join("service-account.pub"), &signing.public_key_pem())?;

        let this = Self { dir, server, ca_pem };
        let mut tokens = Vec::new();
        for user in User::ALL {
            let token = random_token()?;
            tokens.push(format!(
                "{token},{name},{name},system:masters",
                name = user.name()
            ));
            this.write_kubeconfig(user.name(), &token)?;
        }
        for name in [CONTROLLER_MANAGER, SCHEDULER] {
            let token = random_token()?;
            tokens.push(format!("{token},{name},{name}"));
            this.write_kubeconfig(name, &token)?;
        }
        secret(&this.tokens(), &tokens.join("\n"))?;
        Ok(this)
    }

    pub(crate) fn tokens(&self) -> PathBuf {
        self.dir.join("tokens.csv")
    }
    pub(crate) fn ca(&self) -> PathBuf {
        self.dir.join("ca.crt")
    }
    pub(crate) fn serving_certificate(&self) -> PathBuf {
        self.dir.join("serving.crt")
    }
    pub(crate) fn serving_key(&self) -> PathBuf {
        self.dir.join("serving.key")
    }
    pub(crate) fn service_account_key(&self) -> PathBuf {
        self.dir.join("service-account.key")
    }
    pub(crate) fn service_account_public_key(&self) -> PathBuf {
        self.dir.join("service-account.pub")
    }
    pub(crate) fn kubeconfig(&self, user: &str) -> PathBuf {
        self.dir.join(format!("{}.kubeconfig", user.replace(':', "-")))
    }

    /// Writes a kubeconfig in JSON, which every reader of YAML takes.
    pub(crate) fn write_kubeconfig(&self, user: &str, token: &str) -> Result<PathBuf> {
        let path = self.kubeconfig(user);
        let ca = ByteString(self.ca_pem.clone().into_bytes());
        let content = json!({
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "numo", "cluster": {"server": self.server, "certificate-authority-data": ca}}],
            "users": [{"name": user, "user": {"token": token}}],
            "contexts": [{"name": "numo", "context": {"cluster": "numo", "user": user, "namespace": "default"}}],
            "current-context": "numo",
        });
        secret(&path, &serde_json::to_string_pretty(&content)?)?;
        Ok(path)
    }
}

/// A certificate authority and the API server's certificate from it. Returns the
/// authority's certificate, in PEM. Its key is forgotten: nothing else is signed.
fn certificates(dir: &Path) -> Result<String> {
    let mut authority = CertificateParams::default();
    authority
        .distinguished_name
        .push(DnType::CommonName, "numo test authority");
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    authority.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
    let authority = CertifiedIssuer::self_signed(authority, KeyPair::generate()?)?;

    let names = ["127.0.0.1", "localhost", "kubernetes.default.svc", "10.96.0.1"].map(str::to_owned);
    let mut serving = CertificateParams::new(names)?;
    serving
        .distinguished_name
        .push(DnType::CommonName, "kube-apiserver");
    serving.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    serving.use_authority_key_identifier_extension = true;
    let key = KeyPair::generate()?;
    let certificate = serving.signed_by(&key, &authority)?;

    secret(&dir.join("ca.crt"), &authority.pem())?;
    secret(&dir.join("serving.crt"), &certificate.pem())?;
    secret(&dir.join("serving.key"), &key.serialize_pem())?;
    Ok(authority.pem())
}

fn random_token() -> Result<String> {
    let mut bytes = [0; 16];
    rustls::crypto::aws_lc_rs::default_provider()
        .secure_random
        .fill(&mut bytes)
        .map_err(|_| anyhow!("no randomness to be had"))?;
    Ok(hex(&bytes))
}

fn secret(path: &Path, content: &str) -> Result<()> {
    let mut file = fs::OpenOptions::new()
        .create(true)
        .truncate(true)
        .write(true)
        .mode(0o600)
        .open(path)
        .with_context(|| format!("create {}", path.display()))?;
    file.write_all(content.as_bytes())
        .with_context(|| format!("write {}", path.display()))
}
