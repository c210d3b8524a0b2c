//! How a verb reaches the cluster, with kubectl's own flags. Names no kind and no object.

use super::error::CliError;
use crate::shell::client::{self, ConnectError, Connection};
use clap::Args;
use kube::{Config, config::KubeConfigOptions};
use numo_cli::files::read;
use numo_core::owners::plan::duration_millis;
use rustls::pki_types::{CertificateDer, pem::PemObject as _};
use secrecy::SecretString;
use std::{
    collections::HashMap,
    path::{Path, PathBuf},
    time::Duration,
};

/// Where the cluster is.
#[derive(Clone, Debug, Default, Args)]
pub struct KubeconfigArgs {
    /// Path to a kubeconfig [default: the pod's own environment, $KUBECONFIG, or ~/.kube/config]
    #[arg(
        long,
        env = "NUMO_KUBECONFIG",
        value_name = "FILE",
        global = true,
        hide = true
    )]
    pub kubeconfig: Option<PathBuf>,
    /// Context of the kubeconfig
    #[arg(long, env = "NUMO_CONTEXT", value_name = "NAME", global = true, hide = true)]
    pub context: Option<String>,
}

/// How long the API server has to say which version it is, unless --request-timeout says otherwise: a verb that hangs says
/// nothing.
const PATIENCE: Duration = Duration::from_secs(15);

/// What the client's own timeout says.
const DEADLINE: &str = "deadline has elapsed";

/// How to reach the cluster: kubectl's global flags, before or after the verb. `numo options` lists them, so no verb does.
#[derive(Clone, Debug, Default, Args)]
pub struct ClusterArgs {
    #[command(flatten)]
    pub(super) kubeconfig: KubeconfigArgs,
    /// Cluster of the kubeconfig
    #[arg(long, value_name = "NAME", global = true, hide = true)]
    pub(super) cluster: Option<String>,
    /// User of the kubeconfig
    #[arg(long, value_name = "NAME", global = true, hide = true)]
    pub(super) user: Option<String>,
    /// Address of the API server, instead of the kubeconfig's: https://HOST:PORT
    #[arg(short, long, value_name = "URL", global = true, hide = true)]
    pub(super) server: Option<String>,
    /// Bearer token, instead of the kubeconfig's credentials
    #[arg(long, value_name = "TOKEN", global = true, hide = true)]
    pub(super) token: Option<String>,
    /// User or ServiceAccount to impersonate in every request
    #[arg(long = "as", value_name = "USER", global = true, hide = true)]
    pub(super) impersonate: Option<String>,
    /// Group to impersonate, with --as; may be repeated
    #[arg(long = "as-group", value_name = "GROUP", global = true, hide = true)]
    pub(super) impersonate_groups: Vec<String>,
    /// UID to impersonate, with --as
    #[arg(long = "as-uid", value_name = "UID", global = true, hide = true)]
    pub(super) impersonate_uid: Option<String>,
    /// Extra attribute of the user to impersonate, with --as: KEY=VALUE; may be repeated, with the same key too
    #[arg(
        long = "as-user-extra",
        value_name = "KEY=VALUE",
        value_parser = extra,
        global = true,
        hide = true
    )]
    pub(super) impersonate_extra: Vec<(String, String)>,
    /// Name for basic authentication, instead of the kubeconfig's credentials
    #[arg(long, value_name = "NAME", requires = "password", global = true, hide = true)]
    pub(super) username: Option<String>,
    /// Password for basic authentication, with --username
    #[arg(
        long,
        value_name = "PASSWORD",
        requires = "username",
        global = true,
        hide = true
    )]
    pub(super) password: Option<String>,
    /// Ask the API server for uncompressed responses
    #[arg(long, global = true, hide = true)]
    pub(super) disable_compression: bool,
    /// Accepted for compatibility with kubectl, and without effect: numo has no aliases or preferences
    #[arg(long, value_name = "FILE", global = true, hide = true)]
    pub(super) kuberc: Option<PathBuf>,
    /// Certificate authorities to verify the API server with, as PEM
    #[arg(long, value_name = "FILE", global = true, hide = true)]
    pub(super) certificate_authority: Option<PathBuf>,
    /// Client certificate, as PEM
    #[arg(long, value_name = "FILE", global = true, hide = true)]
    pub(super) client_certificate: Option<PathBuf>,
    /// Key of the client certificate, as PEM
    #[arg(long, value_name = "FILE", global = true, hide = true)]
    pub(super) client_key: Option<PathBuf>,
    /// Do not verify the API server's certificate: anyone on the network path can read and change everything
    #[arg(long, global = true, hide = true)]
    pub(super) insecure_skip_tls_verify: bool,
    /// Name to verify the API server's certificate against [default: the host of its address]
    #[arg(long, value_name = "NAME", global = true, hide = true)]
    pub(super) tls_server_name: Option<String>,
    /// Longest time for one request: 30s, 1m; 0 is no limit, except 15 s for the first request
    #[arg(long, value_name = "TIME", default_value = "0", global = true, hide = true)]
    pub(super) request_timeout: String,
    /// Log to standard error: from 1 on what numo does, from 6 on each request too
    #[arg(
        short = 'v',
        long = "v",
        value_name = "LEVEL",
        default_value_t = 0,
        global = true,
        hide = true
    )]
    pub(super) verbosity: u8,
}

impl ClusterArgs {
    /// Connects, and asks the API server whether it is there and knows who asks; the second part is the namespace of the
    /// kubeconfig's context.
    pub async fn connect(&self, verb: &str) -> Result<(Connection, String), CliError> {
        let timeout = self.longest_request()?;
        let (connection, namespace, server) = self.reach(verb, timeout).await?;
        let patience = timeout.unwrap_or(PATIENCE);
        let late = || {
            CliError::Wrong(format!(
                "the API server {server} has not answered within {} s; --request-timeout waits longer",
                patience.as_secs()
            ))
        };
        let Ok(version) = tokio::time::timeout(patience, connection.read.apiserver_version()).await else {
            return Err(late());
        };
        match version {
            Err(kube::Error::Api(status)) if status.code == 401 => Err(CliError::Wrong(format!(
                "the API server {server} does not know who asks (401 Unauthorized): the credentials of the kubeconfig are \
                 wrong or have expired; log in again, or name others with --user or --context"
            ))),
            // Who may not ask for the version may still ask for what the verb needs.
            Ok(_) | Err(kube::Error::Api(_)) => Ok((connection, namespace)),
            Err(error) if root(&error) == DEADLINE => Err(late()),
            Err(error) => Err(CliError::Wrong(format!(
                "the API server {server} is not reached: {}; its address is that of the kubeconfig (--kubeconfig, \
                 --context, --cluster) or of --server",
                root(&error)
            ))),
        }
    }

    /// How long one request may take, as --request-timeout says; none where it sets no limit.
    pub(super) fn longest_request(&self) -> Result<Option<Duration>, CliError> {
        timeout("--request-timeout", "30s or 1m", &self.request_timeout)
    }

    /// A flag that is about one cluster only, if any is given.
    pub(super) fn of_one_cluster(&self) -> Option<&'static str> {
        let given = [
            ("--context (or NUMO_CONTEXT)", self.kubeconfig.context.is_some()),
            ("--cluster", self.cluster.is_some()),
            ("--user", self.user.is_some()),
            ("--server", self.server.is_some()),
            ("--token", self.token.is_some()),
            ("--username", self.username.is_some()),
            ("--password", self.password.is_some()),
            ("--certificate-authority", self.certificate_authority.is_some()),
            ("--client-certificate", self.client_certificate.is_some()),
            ("--client-key", self.client_key.is_some()),
            ("--tls-server-name", self.tls_server_name.is_some()),
        ];
        let mut given = given.into_iter().filter(|(_, is_given)| *is_given);
        given.next().map(|(flag, _)| flag)
    }

    async fn reach(
        &self,
        verb: &str,
        timeout: Option<Duration>,
    ) -> Result<(Connection, String, String), CliError> {
        let mut config = self.configuration().await?;
        if timeout.is_some() {
            config.read_timeout = timeout;
            config.write_timeout = timeout;
            config.connect_timeout = timeout;
        }
        let namespace = config.default_namespace.clone();
        let server = config.cluster_url.to_string().trim_end_matches('/').to_owned();
        let agent = format!("numo/{} {verb}", env!("CARGO_PKG_VERSION"));
        Ok((client::connect(config, &agent)?, namespace, server))
    }

    /// What the kubeconfig says, with what the flags say instead.
    pub async fn configuration(&self) -> Result<Config, CliError> {
        let options = KubeConfigOptions {
            context: self.kubeconfig.context.clone(),
            cluster: self.cluster.clone(),
            user: self.user.clone(),
        };
        let server = self.server.as_deref().map(address).transpose()?;
        let found = client::configuration(self.kubeconfig.kubeconfig.as_deref(), &options).await;
        let mut config = match (found, &server) {
            // Without a kubeconfig the flags are enough.
            (Err(ConnectError::Infer(_)), Some(server)) => Config::new(server.clone()),
            (found, _) => found?,
        };
        if let Some(server) = server {
            config.cluster_url = server;
        }
        config.disable_compression |= self.disable_compression;
        self.trust(&mut config)?;
        self.identify(&mut config)?;
        Ok(config)
    }

    /// Whose certificates are taken for the API server's.
    fn trust(&self, config: &mut Config) -> Result<(), CliError> {
        if let Some(path) = &self.certificate_authority {
            if self.insecure_skip_tls_verify {
                return Err(CliError::Usage(
                    "--certificate-authority says which certificates count, and --insecure-skip-tls-verify that none does: \
                     give one of them"
                        .to_owned(),
                ));
            }
            config.root_cert = Some(certificates("--certificate-authority", path)?);
            config.root_cert_file = None;
        }
        if self.insecure_skip_tls_verify {
            config.accept_invalid_certs = true;
            config.root_cert = None;
            config.root_cert_file = None;
        }
        if let Some(name) = &self.tls_server_name {
            config.tls_server_name = Some(name.clone());
        }
        Ok(())
    }

    /// As whom requests are made.
    fn identify(&self, config: &mut Config) -> Result<(), CliError> {
        let who = &mut config.auth_info;
        if let Some(token) = &self.token {
            who.token = Some(SecretString::from(token.clone()));
            who.token_file = None;
            who.exec = None;
            who.auth_provider = None;
            who.username = None;
            who.password = None;
        }
        if let (Some(name), Some(password)) = (&self.username, &self.password) {
            who.username = Some(name.clone());
            who.password = Some(SecretString::from(password.clone()));
            who.exec = None;
            who.auth_provider = None;
        }
        if let Some(path) = &self.client_certificate {
            read("--client-certificate", path)?;
            who.client_certificate = Some(path.display().to_string());
            who.client_certificate_data = None;
        }
        if let Some(path) = &self.client_key {
            read("--client-key", path)?;
            who.client_key = Some(path.display().to_string());
            who.client_key_data = None;
        }
        if let Some(user) = &self.impersonate {
            who.impersonate = Some(user.clone());
            who.impersonate_groups = Some(self.impersonate_groups.clone());
            who.impersonate_uid.clone_from(&self.impersonate_uid);
            who.impersonate_user_extra = self.extras();
        } else if let Some(flag) = self.of_impersonation() {
            return Err(CliError::Usage(format!(
                "--as: found none beside {flag}, wanted the user to whom {flag} belongs"
            )));
        }
        Ok(())
    }

    /// A flag that says more of the user whom --as names, if any is given.
    fn of_impersonation(&self) -> Option<&'static str> {
        let given = [
            ("--as-group", !self.impersonate_groups.is_empty()),
            ("--as-uid", self.impersonate_uid.is_some()),
            ("--as-user-extra", !self.impersonate_extra.is_empty()),
        ];
        let mut given = given.into_iter().filter(|(_, is_given)| *is_given);
        given.next().map(|(flag, _)| flag)
    }

    /// Each extra attribute with its values, in the order in which they were given.
    fn extras(&self) -> Option<HashMap<String, Vec<String>>> {
        let mut all: HashMap<String, Vec<String>> = HashMap::new();
        for (key, value) in &self.impersonate_extra {
            all.entry(key.clone()).or_default().push(value.clone());
        }
        Some(all).filter(|all| !all.is_empty())
    }
}

/// An extra attribute, as kubectl takes it.
pub(super) fn extra(given: &str) -> Result<(String, String), String> {
    let parts = given.split_once('=').filter(|(key, _)| !key.is_empty());
    let (key, value) = parts.ok_or_else(|| format!("found {given:?}, wanted KEY=VALUE"))?;
    if http::HeaderValue::from_str(value).is_err() {
        return Err(format!(
            "found {given:?}, wanted a value of visible ASCII characters: it goes into a header"
        ));
    }
    Ok((key.to_owned(), value.to_owned()))
}

/// An address of an API server.
fn address(given: &str) -> Result<http::Uri, CliError> {
    let parsed: Option<http::Uri> = given.parse().ok();
    let is_whole =
        |uri: &http::Uri| matches!(uri.scheme_str(), Some("https" | "http")) && uri.host().is_some();
    parsed.filter(is_whole).ok_or_else(|| {
        CliError::Usage(format!(
            "--server: found {given:?}, wanted an address such as https://host:6443"
        ))
    })
}

/// Certificates of a file, as DER.
fn certificates(flag: &str, path: &Path) -> Result<Vec<Vec<u8>>, CliError> {
    let pem = read(flag, path)?;
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&pem).collect();
    let found = found.map_err(|error| CliError::Usage(format!("{flag} {}: {error}", path.display())))?;
    if found.is_empty() {
        return Err(CliError::Usage(format!(
            "{flag} {}: found no certificate",
            path.display()
        )));
    }
    Ok(found.into_iter().map(|one| one.to_vec()).collect())
}

/// What an error comes from in the end.
fn root(error: &dyn std::error::Error) -> String {
    let mut last = error;
    while let Some(source) = last.source() {
        last = source;
    }
    last.to_string()
}

/// kubectl's times: a number is seconds, 0 is none. `flag` and two times that it takes are named in the error.
pub(super) fn timeout(flag: &str, such: &str, given: &str) -> Result<Option<Duration>, CliError> {
    let wrong = || {
        CliError::Usage(format!(
            "{flag}: found {given:?}, wanted a time such as {such}, or 0"
        ))
    };
    let milliseconds = match given.parse::<u64>() {
        Ok(seconds) => seconds.checked_mul(1000),
        Err(_) => duration_millis(given).and_then(|found| u64::try_from(found).ok()),
    };
    match milliseconds.ok_or_else(wrong)? {
        0 => Ok(None),
        milliseconds => Ok(Some(Duration::from_millis(milliseconds))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_kubectls() {
        let timeout = |given: &str| timeout("--request-timeout", "30s or 1m", given);
        assert_eq!(timeout("0").unwrap(), None);
        assert_eq!(timeout("5").unwrap(), Some(Duration::from_secs(5)));
        assert_eq!(timeout("1m30s").unwrap(), Some(Duration::from_secs(90)));
        assert_eq!(timeout("10m").unwrap(), Some(Duration::from_mins(10)));
        assert!(timeout("-1s").is_err());
        let said = timeout("soon").unwrap_err().to_string();
        assert!(
            said.contains("--request-timeout") && said.contains("30s or 1m"),
            "{said}"
        );
        assert!(timeout(&u64::MAX.to_string()).is_err());
    }

    #[test]
    fn flags_count_before_the_kubeconfig() {
        let folder = std::env::temp_dir().join(format!("numo-flags-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let pem = folder.join("pem");
        std::fs::write(&pem, "no certificate").unwrap();
        let mut config = Config::new("https://other".parse().unwrap());
        config.auth_info.username = Some("ada".to_owned());
        let given = ClusterArgs {
            token: Some("t0k".to_owned()),
            impersonate: Some("grace".to_owned()),
            impersonate_uid: Some("7".to_owned()),
            client_key: Some(pem.clone()),
            tls_server_name: Some("inside".to_owned()),
            insecure_skip_tls_verify: true,
            ..ClusterArgs::default()
        };
        given.trust(&mut config).unwrap();
        given.identify(&mut config).unwrap();
        assert!(config.accept_invalid_certs);
        assert_eq!(config.tls_server_name.as_deref(), Some("inside"));
        assert_eq!(config.auth_info.username, None);
        assert!(config.auth_info.token.is_some() && config.auth_info.client_key.is_some());
        assert_eq!(config.auth_info.impersonate_uid.as_deref(), Some("7"));

        // What contradicts itself, or is no such file, is a wrong call.
        let both = ClusterArgs {
            certificate_authority: Some(pem.clone()),
            ..given.clone()
        };
        assert!(matches!(both.trust(&mut config), Err(CliError::Usage(_))));
        let none = ClusterArgs {
            certificate_authority: Some(pem),
            ..ClusterArgs::default()
        };
        let why = none.trust(&mut config).unwrap_err().to_string();
        assert!(why.contains("found no certificate"), "{why}");
        let nobody = ClusterArgs {
            impersonate_groups: vec!["team".to_owned()],
            ..ClusterArgs::default()
        };
        let why = nobody.identify(&mut config).unwrap_err();
        assert!(matches!(why, CliError::Usage(_)));
        assert!(why.to_string().contains("beside --as-group"), "{why}");
        assert!(address("host:6443").is_err() && address("https://[::1]:6443").is_ok());
        std::fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn extra_attributes_are_kubectls() {
        let asked = |words: &[&str]| {
            let words = [&["numo", "version"], words].concat();
            crate::cli::command().try_get_matches_from(words)
        };
        assert!(asked(&["--as", "ada", "--as-user-extra", "team.example/scopes=view"]).is_ok());
        for wrong in ["scopes", "=view", "scopes=a\nb"] {
            let why = asked(&["--as", "ada", "--as-user-extra", wrong])
                .unwrap_err()
                .to_string();
            assert!(why.contains("--as-user-extra") && why.contains("wanted"), "{why}");
        }

        let given = ClusterArgs {
            impersonate: Some("ada".to_owned()),
            impersonate_extra: ["scopes=view", "scopes=a=b", "Reason="]
                .iter()
                .map(|one| extra(one).unwrap())
                .collect(),
            ..ClusterArgs::default()
        };
        let mut config = Config::new("https://other".parse().unwrap());
        given.identify(&mut config).unwrap();
        let found = config.auth_info.impersonate_user_extra.unwrap();
        assert_eq!(found.get("scopes").unwrap(), &["view", "a=b"]);
        assert_eq!(found.get("Reason").unwrap(), &[""]);

        // Of nobody, they are a wrong call, and without any nothing is said of them.
        let nobody = ClusterArgs {
            impersonate: None,
            ..given.clone()
        };
        let mut config = Config::new("https://other".parse().unwrap());
        let why = nobody.identify(&mut config).unwrap_err().to_string();
        assert!(why.contains("--as: found none beside --as-user-extra"), "{why}");
        let plain = ClusterArgs {
            impersonate_extra: Vec::new(),
            ..given
        };
        plain.identify(&mut config).unwrap();
        assert_eq!(config.auth_info.impersonate_user_extra, None);
    }
}
