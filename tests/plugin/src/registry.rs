//! Two real registries on loopback, with TLS and a user, and where their programs come from: Debian's `docker-registry`
//! (distribution 2.8, no referrers API) and go-containerregistry's (has it), built from the Go module in `registry/`.
//! It judges nothing.

use std::{
    fs::{self, File},
    io::{Read as _, Write as _},
    net::TcpListener,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail, ensure};
use base64::{Engine as _, prelude::BASE64_STANDARD as STANDARD};
use numo_plugin::oci::{Bounds, Credentials, Digest, Login, Setup};

use crate::programs;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair, KeyUsagePurpose};
use serde_json::{Value, json};

/// Who may push and pull.
pub const USER: &str = "team";
/// Of the user.
pub const PASSWORD: &str = "let-me-in";
const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
/// The line of htpasswd for both; distribution takes bcrypt only.
const HTPASSWD: &str = "team:$2a$04$FwT.Wn594ju/NYr/zlXLLuHgp9Yxh69gY6yrXPsgvG7I9f25vXLLW\n";

/// A program that is a registry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Debian's `docker-registry`.
    Distribution,
    /// go-containerregistry's, as in `crane registry serve`.
    GoContainerRegistry,
}

impl Kind {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Distribution, Self::GoContainerRegistry];

    /// Where its program is. The first call fetches or builds it (seconds), into the cache outside `target`; it needs
    /// apt on Debian for the one and Go for the other. Blocks.
    pub fn program(self) -> Result<PathBuf> {
        match self {
            Self::Distribution => programs::debian("docker-registry"),
            Self::GoContainerRegistry => go_containerregistry(),
        }
    }
}

fn go_containerregistry() -> Result<PathBuf> {
    let module = Path::new(env!("CARGO_MANIFEST_DIR")).join("registry");
    let files = ["main.go", "go.mod", "go.sum"];
    programs::go_program(&module, &files, ".", "go-containerregistry")
}

/// A running registry; it ends with this value, and with this process.
#[derive(Debug)]
pub struct Running {
    /// `127.0.0.1:20000`
    pub address: String,
    /// The authority that its certificate is by, as PEM; empty for plain HTTP.
    pub authority: Vec<u8>,
    child: Child,
    dir: tempfile::TempDir,
}

impl Running {
    /// With TLS.
    pub fn start(kind: Kind) -> Result<Self> {
        Self::start_with(kind, true)
    }

    /// With TLS or in plain HTTP, empty, for [`USER`] alone.
    pub fn start_with(kind: Kind, secure: bool) -> Result<Self> {
        let program = kind.program()?;
        let mut tries = 0;
        loop {
            tries += 1;
            match Self::try_start(kind, &program, secure) {
                Ok(running) => return Ok(running),
                // Somebody else may have taken the port meanwhile.
                Err(error) if tries >= 5 => return Err(error),
                Err(_) => {}
            }
        }
    }

    fn try_start(kind: Kind, program: &Path, secure: bool) -> Result<Self> {
        let dir = tempfile::tempdir()?;
        let address = TcpListener::bind("127.0.0.1:0")?.local_addr()?.to_string();
        let authority = if secure {
            certificates(dir.path())?
        } else {
            String::new()
        };
        let (certificate, key) = (dir.path().join("tls.crt"), dir.path().join("tls.key"));
        let mut command = match kind {
            Kind::Distribution => {
                fs::write(dir.path().join("htpasswd"), HTPASSWD)?;
                let tls = json!({"certificate": certificate, "key": key});
                let mut http = json!({"addr": address, "secret": "test"});
                if secure {
                    http["tls"] = tls;
                }
                let config = json!({
                    "version": 0.1,
                    "log": {"level": "error", "accesslog": {"disabled": true}},
                    "storage": {"filesystem": {"rootdirectory": dir.path().join("data")}},
                    "http": http,
                    "auth": {"htpasswd": {"realm": "test", "path": dir.path().join("htpasswd")}},
                });
                // JSON is YAML too.
                fs::write(dir.path().join("config.yml"), config.to_string())?;
                // It does not notice that its starter is gone: the shell does, by its standard input.
                let mut command = Command::new("sh");
                command.args(["-c", r#""$0" serve "$1" & p=$!; cat >/dev/null; kill -9 $p"#]);
                command.arg(program).arg(dir.path().join("config.yml"));
                command
            }
            Kind::GoContainerRegistry => {
                let mut command = Command::new(program);
                command.args(["-address", &address, "-user", USER, "-password", PASSWORD]);
                if secure {
                    command
                        .arg("-certificate")
                        .arg(&certificate)
                        .arg("-key")
                        .arg(&key);
                }
                command
            }
        };
        let log = File::create(dir.path().join("log"))?;
        let child = command
            .stdin(Stdio::piped())
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()
            .context("start the registry")?;
        let mut running = Self {
            address,
            authority: authority.into_bytes(),
            child,
            dir,
        };
        running.wait()?;
        Ok(running)
    }

    fn wait(&mut self) -> Result<()> {
        let until = Instant::now() + Duration::from_secs(10);
        while std::net::TcpStream::connect(&self.address).is_err() {
            if Instant::now() > until || self.child.try_wait()?.is_some() {
                bail!(
                    "{}",
                    fs::read_to_string(self.dir.path().join("log")).unwrap_or_default()
                );
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(())
    }

    /// Ends it; its address then refuses connections.
    pub fn stop(&mut self) {
        drop(self.child.stdin.take());
        // Fails only where it is gone already.
        let _ = self.child.wait();
        let until = Instant::now() + Duration::from_secs(5);
        while std::net::TcpStream::connect(&self.address).is_ok() && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// `<address>/<path>`
    pub fn at(&self, path: &str) -> String {
        format!("{}/{path}", self.address)
    }

    /// Trusts it, and gives up soon.
    pub fn setup(&self) -> Setup {
        Setup {
            authorities: self.authority.clone(),
            bounds: soon(),
            ..Setup::default()
        }
    }

    /// Puts a Sigstore bundle beside an artifact (`<address>/<repository>@sha256:…`), as `cosign sign` does where there is
    /// a referrers API. Of plain HTTP only.
    pub fn attach(&self, pinned: &str, bundle: &Value) -> Result<()> {
        const BUNDLE: &str = "application/vnd.dev.sigstore.bundle.v0.3+json";
        let (place, digest) = pinned.split_once('@').context("an artifact by digest")?;
        let repository = place
            .strip_prefix(&format!("{}/", self.address))
            .context("an artifact of this registry")?;
        let described = |media_type: &str, bytes: &[u8]| json!({"mediaType": media_type, "digest": Digest::of(bytes), "size": bytes.len()});
        let bundle = serde_json::to_vec(bundle)?;
        for blob in [b"{}", bundle.as_slice()] {
            let path = format!("/v2/{repository}/blobs/uploads/?digest={}", Digest::of(blob));
            self.send("POST", &path, "application/octet-stream", blob)?;
        }
        let manifest = serde_json::to_vec(&json!({
            "schemaVersion": 2, "mediaType": MANIFEST, "artifactType": BUNDLE,
            "config": described("application/vnd.oci.empty.v1+json", b"{}"),
            "layers": [described(BUNDLE, &bundle)],
            // What is referred to is named by its digest; nobody compares the size.
            "subject": {"mediaType": MANIFEST, "digest": digest, "size": 1},
        }))?;
        let path = format!("/v2/{repository}/manifests/{}", Digest::of(&manifest));
        self.send("PUT", &path, MANIFEST, &manifest)
    }

    fn send(&self, method: &str, path: &str, media_type: &str, body: &[u8]) -> Result<()> {
        let mut stream = std::net::TcpStream::connect(&self.address)?;
        let login = STANDARD.encode(format!("{USER}:{PASSWORD}"));
        write!(
            stream,
            "{method} {path} HTTP/1.1\r\nHost: {}\r\nAuthorization: Basic {login}\r\nContent-Type: {media_type}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
            self.address,
            body.len()
        )?;
        stream.write_all(body)?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        let is_made = answer.split(' ').nth(1) == Some("201");
        ensure!(is_made, "{method} {path}: {answer}");
        Ok(())
    }

    /// Those of [`USER`].
    pub fn credentials(&self) -> Credentials {
        let login = Login::Password {
            username: USER.to_owned(),
            password: PASSWORD.to_owned(),
        };
        Credentials::login(&self.address, login)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Bounds for tests that wait for a failure.
pub fn soon() -> Bounds {
    Bounds {
        attempts: 3,
        pause: Duration::from_millis(10),
        idle: Duration::from_secs(5),
        total: Duration::from_secs(20),
    }
}

/// An authority and a certificate for loopback by it, as files; returns the authority as PEM.
fn certificates(dir: &Path) -> Result<String> {
    let mut authority = CertificateParams::new(Vec::new())?;
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    authority.key_usages = vec![KeyUsagePurpose::KeyCertSign];
    let authority = CertifiedIssuer::self_signed(authority, KeyPair::generate()?)?;
    let key = KeyPair::generate()?;
    let names = vec!["localhost".to_owned(), "127.0.0.1".to_owned()];
    let certificate = CertificateParams::new(names)?.signed_by(&key, &authority)?;
    fs::write(dir.join("tls.crt"), certificate.pem())?;
    fs::write(dir.join("tls.key"), key.serialize_pem())?;
    Ok(authority.pem())
}
