//! An etcd of several members, each at a loopback address of its own, which talk TLS and ask for a certificate: as etcd is on the nodes of a
//! control plane. No API server stands before it.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair,
    KeyUsagePurpose,
};
use tempfile::TempDir;

use crate::binaries::Binaries;
use crate::etcd::Etcd;
use crate::ports::Port;
use crate::process::{Component, Process};

/// How long all of them may take to find each other.
const START_TIMEOUT: Duration = Duration::from_mins(2);

/// The members. All end when this goes.
#[derive(Debug)]
pub struct Members {
    folder: TempDir,
    all: Vec<Member>,
    /// Where one more member may be.
    spare: Ipv4Addr,
    /// Held so that no other cluster gets them.
    ports: (Port, Port),
}

#[derive(Debug)]
struct Member {
    name: String,
    address: Ipv4Addr,
    process: Process,
}

impl Members {
    /// Starts a member of each name, and waits until all of them are one etcd.
    pub async fn start(names: &[&str]) -> Result<Self> {
        // An error says that the process has chosen its provider already.
        let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
        let binaries = tokio::task::spawn_blocking(Binaries::find).await??;
        let folder = tempfile::Builder::new().prefix("numo-etcd-").tempdir()?;
        let mut addresses = (2..).map(|last| Ipv4Addr::new(127, 0, 0, last));
        let named = names.iter().zip(&mut addresses);
        let places: Vec<(String, Ipv4Addr)> = named
            .map(|(name, address)| ((*name).to_owned(), address))
            .collect();
        let spare = addresses.next().context("one more address")?;
        let all = places.iter().map(|(_, address)| *address).chain([spare]);
        certificates(folder.path(), all)?;
        let mut members = Self {
            folder,
            all: Vec::new(),
            spare,
            ports: (Port::take()?, Port::take()?),
        };
        for (name, address) in &places {
            let process = members.launch(&binaries, (name, *address), &places, "new")?;
            members.all.push(Member {
                name: name.clone(),
                address: *address,
                process,
            });
        }
        members.wait().await?;
        Ok(members)
    }

    /// A folder with `ca.crt`, `tls.crt` and `tls.key`.
    pub fn certs(&self) -> PathBuf {
        self.folder.path().to_owned()
    }

    /// Where all of them are asked.
    pub fn endpoints(&self) -> Vec<String> {
        self.all
            .iter()
            .map(|member| format!("https://{}:{}", member.address, self.ports.0.number))
            .collect()
    }

    /// The address of a member.
    pub fn address(&self, name: &str) -> Result<String> {
        let member = self.all.iter().find(|member| member.name == name);
        Ok(member
            .with_context(|| format!("a member {name}"))?
            .address
            .to_string())
    }

    /// The names of the members, as the first that answers has them.
    pub async fn names(&self) -> Result<BTreeSet<String>> {
        let mut last = None;
        for endpoint in self.endpoints() {
            let etcd = Etcd::with_certificate(&endpoint, self.folder.path())?;
            match etcd.members().await {
                Ok(names) => return Ok(names),
                Err(error) => last = Some(error),
            }
        }
        bail!("no member answers: {last:?}")
    }

    /// Where one more member may be: the InternalIP of a node that is to join.
    pub fn spare(&self) -> String {
        self.spare.to_string()
    }

    /// Starts one more member there, and waits until all have it.
    pub async fn join(&mut self, name: &str) -> Result<()> {
        let binaries = tokio::task::spawn_blocking(Binaries::find).await??;
        let endpoints = self.endpoints();
        let endpoint = endpoints.first().context("a member")?;
        let etcd = Etcd::with_certificate(endpoint, self.folder.path())?;
        let peer = format!("https://{}:{}", self.spare, self.ports.1.number);
        etcd.add_member(&peer).await?;
        let known = self
            .all
            .iter()
            .map(|member| (member.name.clone(), member.address));
        let places: Vec<_> = known.chain([(name.to_owned(), self.spare)]).collect();
        let process = self.launch(&binaries, (name, self.spare), &places, "existing")?;
        self.all.push(Member {
            name: name.to_owned(),
            address: self.spare,
            process,
        });
        self.wait().await
    }

    fn launch(
        &self,
        binaries: &Binaries,
        (name, address): (&str, Ipv4Addr),
        places: &[(String, Ipv4Addr)],
        state: &str,
    ) -> Result<Process> {
        let folder = self.folder.path();
        let logs = folder.join(format!("logs-{name}"));
        std::fs::create_dir_all(&logs)?;
        let path = |name: &str| folder.join(name).display().to_string();
        let (client, peer) = (self.ports.0.number, self.ports.1.number);
        let initial = places
            .iter()
            .map(|(name, address)| format!("{name}=https://{address}:{peer}"));
        let initial: Vec<String> = initial.collect();
        let mut command = binaries.command(Component::Etcd);
        command.current_dir(folder).args([
            format!("--name={name}"),
            format!("--data-dir={}", path(&format!("data-{name}"))),
            format!("--listen-client-urls=https://{address}:{client}"),
            format!("--advertise-client-urls=https://{address}:{client}"),
            format!("--listen-peer-urls=https://{address}:{peer}"),
            format!("--initial-advertise-peer-urls=https://{address}:{peer}"),
            format!("--initial-cluster={}", initial.join(",")),
            format!("--initial-cluster-state={state}"),
            format!("--trusted-ca-file={}", path("ca.crt")),
            format!("--cert-file={}", path("tls.crt")),
            format!("--key-file={}", path("tls.key")),
            "--client-cert-auth".to_owned(),
            format!("--peer-trusted-ca-file={}", path("ca.crt")),
            format!("--peer-cert-file={}", path("tls.crt")),
            format!("--peer-key-file={}", path("tls.key")),
            "--peer-client-cert-auth".to_owned(),
            "--unsafe-no-fsync".to_owned(),
            "--log-level=warn".to_owned(),
        ]);
        Process::spawn(Component::Etcd, command, &logs, false)
    }

    /// Waits until every member answers, with all others.
    async fn wait(&mut self) -> Result<()> {
        let until = Instant::now() + START_TIMEOUT;
        for endpoint in self.endpoints() {
            let etcd = Etcd::with_certificate(&endpoint, self.folder.path())?;
            loop {
                let answer = etcd.members().await;
                // One that has not started has no name.
                if answer
                    .as_ref()
                    .is_ok_and(|names| names.len() == self.all.len() && !names.contains(""))
                {
                    break;
                }
                for member in &mut self.all {
                    let (exited, tail) = (member.process.exited(), member.process.log_tail());
                    ensure!(exited.is_none(), "member {} has ended:\n{tail}", member.name);
                }
                ensure!(
                    Instant::now() < until,
                    "the members do not find each other: {answer:?}"
                );
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
        Ok(())
    }
}

/// An authority, and one certificate that serves at every address and is shown to others.
fn certificates(folder: &Path, addresses: impl Iterator<Item = Ipv4Addr>) -> Result<()> {
    let mut authority = CertificateParams::default();
    authority
        .distinguished_name
        .push(DnType::CommonName, "numo test authority of etcd");
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    authority.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
    let authority = CertifiedIssuer::self_signed(authority, KeyPair::generate()?)?;
    // A member calls another from 127.0.0.1, and is known by where it calls from.
    let names = addresses
        .chain([Ipv4Addr::LOCALHOST])
        .map(|address| address.to_string());
    let mut both = CertificateParams::new(names.collect::<Vec<_>>())?;
    both.distinguished_name.push(DnType::CommonName, "etcd");
    // etcd's own gateway is a client of etcd.
    both.extended_key_usages = vec![
        ExtendedKeyUsagePurpose::ServerAuth,
        ExtendedKeyUsagePurpose::ClientAuth,
    ];
    both.use_authority_key_identifier_extension = true;
    let key = KeyPair::generate()?;
    let certificate = both.signed_by(&key, &authority)?;
    std::fs::write(folder.join("ca.crt"), authority.pem())?;
    std::fs::write(folder.join("tls.crt"), certificate.pem())?;
    std::fs::write(folder.join("tls.key"), key.serialize_pem())?;
    Ok(())
}
