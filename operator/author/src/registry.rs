//! `numo plugin push` and `sign`: components in registries.

use super::{
    engine::{engine, load},
    output::OutputArgs,
};
use clap::{Args, ValueEnum};
use numo_cli::CliError;
use numo_plugin::{
    oci::{
        ComponentSurface, Credentials, OciError, Pinned, Proxies, Push, Reference, Registry, Setup, Version,
        created_from_epoch,
    },
    signature::{Layout, SigningKey},
};
use serde_json::json;
use std::{collections::BTreeMap, path::PathBuf};

/// How a registry is reached.
#[derive(Debug, Args)]
pub(crate) struct RegistryArgs {
    /// Credentials as docker, podman and buildah write them [default: $REGISTRY_AUTH_FILE,
    /// $DOCKER_CONFIG/config.json or ~/.docker/config.json]
    #[arg(long, value_name = "FILE")]
    registry_config: Option<PathBuf>,
    /// File with the certificate authorities to trust for the registry, as PEM, besides the system's
    #[arg(long, env = "NUMO_REGISTRY_CA", value_name = "FILE")]
    registry_ca: Option<PathBuf>,
    /// Registries to reach by plain HTTP; loopback addresses need not be named
    #[arg(long, value_name = "HOST:PORT", value_delimiter = ',')]
    plain_registries: Vec<String>,
}

/// Arguments of `numo plugin push`.
#[derive(Debug, Args)]
pub(crate) struct PushArgs {
    /// The component
    #[arg(value_name = "FILE")]
    component: PathBuf,
    /// Where to push it, such as registry.example.com/team/rule:1.0
    #[arg(value_name = "IMAGE")]
    image: String,
    /// Annotation of the manifest, KEY=VALUE; may be given more than once
    #[arg(long, value_name = "KEY=VALUE")]
    annotation: Vec<String>,
    #[command(flatten)]
    output: OutputArgs,
    #[command(flatten)]
    registry: RegistryArgs,
}

/// Arguments of `numo plugin sign`.
#[derive(Debug, Args)]
pub(crate) struct SignArgs {
    /// What to sign, by digest as `push` prints it
    #[arg(value_name = "IMAGE@DIGEST")]
    image: String,
    /// Private key, ECDSA P-256 or Ed25519, as unencrypted PKCS #8 PEM
    #[arg(long, value_name = "FILE")]
    key: PathBuf,
    /// Where the signature is put
    #[arg(long, value_enum, default_value = "bundle")]
    layout: LayoutArg,
    #[command(flatten)]
    output: OutputArgs,
    #[command(flatten)]
    registry: RegistryArgs,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum LayoutArg {
    /// A Sigstore bundle that refers to the component
    Bundle,
    /// The .sig tag of older cosign
    Tag,
}

impl RegistryArgs {
    /// A client, and what to log in with.
    pub(crate) fn client(&self) -> Result<(Registry, Credentials), CliError> {
        let read = |path: &PathBuf| {
            std::fs::read(path).map_err(|source| CliError::File {
                path: path.clone(),
                source,
            })
        };
        let setup = Setup {
            authorities: self
                .registry_ca
                .as_ref()
                .map(read)
                .transpose()?
                .unwrap_or_default(),
            proxies: Proxies::from_env(|name| std::env::var(name).ok()).map_err(CliError::Wrong)?,
            plain: self.plain_registries.clone(),
            ..Setup::default()
        };
        let registry = Registry::new(setup)
            .map_err(|error| CliError::Wrong(format!("registries cannot be reached: {error}")))?;
        let credentials = match (&self.registry_config, usual()) {
            (Some(path), _) => Some((path.clone(), read(path)?)),
            // Nobody named it: it need not be there.
            (None, Some(path)) => std::fs::read(&path).ok().map(|bytes| (path, bytes)),
            (None, None) => None,
        };
        let credentials = match credentials {
            None => Credentials::none(),
            Some((path, bytes)) => Credentials::parse(&bytes)
                .map_err(|error| CliError::Wrong(format!("{}: {error}", path.display())))?,
        };
        Ok((registry, credentials))
    }
}

/// Where other tools keep their credentials.
fn usual() -> Option<PathBuf> {
    let variable = |name: &str| {
        std::env::var_os(name)
            .filter(|value| !value.is_empty())
            .map(PathBuf::from)
    };
    variable("REGISTRY_AUTH_FILE")
        .or_else(|| variable("DOCKER_CONFIG").map(|folder| folder.join("config.json")))
        .or_else(|| std::env::home_dir().map(|home| home.join(".docker/config.json")))
}

/// Checks a component as numo would, pushes it, and prints what it is by digest.
pub(crate) async fn push(args: &PushArgs) -> Result<(), CliError> {
    let wrong = |error: OciError| CliError::Wrong(error.to_string());
    let reference: Reference = args.image.parse().map_err(wrong)?;
    let mut annotations = BTreeMap::new();
    for given in &args.annotation {
        let Some((key, value)) = given.split_once('=').filter(|(key, _)| !key.is_empty()) else {
            return Err(CliError::Wrong(format!(
                "--annotation: found {given:?}, wanted KEY=VALUE"
            )));
        };
        annotations.insert(key.to_owned(), value.to_owned());
    }
    let component = std::fs::read(&args.component).map_err(|source| CliError::File {
        path: args.component.clone(),
        source,
    })?;
    let loaded = load(&engine()?, &args.component.display().to_string(), &component).await?;
    let epoch = std::env::var("SOURCE_DATE_EPOCH").ok();
    let push = Push {
        component,
        surface: ComponentSurface::from(loaded.inspection()),
        created: created_from_epoch(epoch.as_deref()).map_err(CliError::Wrong)?,
        annotations,
        ..Push::default()
    };
    let (registry, credentials) = args.registry.client()?;
    let pinned = registry
        .push(&reference, &credentials, &push)
        .await
        .map_err(wrong)?;
    let pushed = json!({"image": pinned.to_string(), "digest": pinned.digest.to_string()});
    args.output.say(&pinned.to_string(), &pushed)
}

/// Signs what has this digest.
pub(crate) async fn sign(args: &SignArgs) -> Result<(), CliError> {
    let wrong = |error: OciError| CliError::Wrong(error.to_string());
    let reference: Reference = args.image.parse().map_err(wrong)?;
    let Version::Digest(digest) = &reference.version else {
        return Err(CliError::Wrong(format!(
            "{}: found a tag, wanted a digest: a tag may be moved between signing and use",
            args.image
        )));
    };
    let pinned: Pinned = reference.pinned(digest.clone());
    let pem = std::fs::read_to_string(&args.key).map_err(|source| CliError::File {
        path: args.key.clone(),
        source,
    })?;
    let key = SigningKey::from_pem(&pem)
        .map_err(|error| CliError::Wrong(format!("{}: {error}", args.key.display())))?;
    let layout = match args.layout {
        LayoutArg::Bundle => Layout::Bundle,
        LayoutArg::Tag => Layout::SimpleSigning,
    };
    let (registry, credentials) = args.registry.client()?;
    let signed = registry
        .sign(&pinned, &credentials, &key, layout)
        .await
        .map_err(|error| CliError::Wrong(error.to_string()))?;
    let told = json!({"image": pinned.to_string(), "signature": signed.at.to_string()});
    args.output.say(&signed.at.to_string(), &told)
}
