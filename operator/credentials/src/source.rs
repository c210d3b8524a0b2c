//! Where credentials come from, as the operator's configuration has it. There is no secret here, only names of files.

use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use url::Url;

/// Token endpoints that the key of a Google service account may name by itself.
pub(crate) const GOOGLE_HOSTS: [&str; 2] = ["oauth2.googleapis.com", "www.googleapis.com"];
/// How long names, ids and scopes may be (bytes).
const TEXT_BYTES: usize = 2048;

/// One entry of the operator's `credentials`: a name, and one source.
///
/// ```yaml
/// credentials:
/// - name: gcp
///   googleServiceAccount: {file: /etc/numo/gcp/key.json}
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "Entry")]
pub struct NamedSource {
    /// What a grant and a component call it.
    pub name: String,
    /// Where it comes from.
    pub source: Source,
}

/// Where a credential comes from. Read from `{SOURCE: {...}}`, one key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Source {
    /// A token as somebody else keeps it in a file.
    BearerFile(BearerFile),
    /// The key of a service account of Google Cloud, exchanged for a token.
    GoogleServiceAccount(GoogleServiceAccount),
    /// The secret of an application of Microsoft Entra ID, exchanged for a token.
    AzureClientSecret(AzureClientSecret),
    /// A ServiceAccount token that Microsoft Entra ID trusts, exchanged for a token.
    AzureWorkloadIdentity(AzureWorkloadIdentity),
    /// Access keys of AWS.
    AwsKeys(AwsKeys),
    /// A ServiceAccount token that AWS trusts, exchanged for keys of a role.
    AwsWebIdentity(AwsWebIdentity),
}

/// [`Source::BearerFile`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct BearerFile {
    /// The token alone.
    pub file: PathBuf,
}

/// [`Source::GoogleServiceAccount`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct GoogleServiceAccount {
    /// The key, JSON, as Google hands it out.
    pub file: PathBuf,
    /// Scopes of the token.
    #[serde(default = "cloud_platform")]
    pub scopes: Vec<String>,
    /// Where the token is asked for, instead of the key's own `token_uri`. That one has to be at googleapis.com.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token_uri: Option<String>,
}

/// [`Source::AzureClientSecret`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AzureClientSecret {
    /// The tenant: a GUID or a domain.
    pub tenant_id: String,
    /// The application.
    pub client_id: String,
    /// The secret alone.
    pub file: PathBuf,
    /// Where the token is asked for.
    #[serde(default = "azure_authority")]
    pub authority: String,
    /// Scope of the token.
    #[serde(default = "azure_scope")]
    pub scope: String,
}

/// [`Source::AzureWorkloadIdentity`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AzureWorkloadIdentity {
    /// The tenant: a GUID or a domain.
    pub tenant_id: String,
    /// The application or the managed identity.
    pub client_id: String,
    /// The projected token of the ServiceAccount.
    pub token_file: PathBuf,
    /// Where the token is asked for.
    #[serde(default = "azure_authority")]
    pub authority: String,
    /// Scope of the token.
    #[serde(default = "azure_scope")]
    pub scope: String,
}

/// [`Source::AwsKeys`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AwsKeys {
    /// A shared credentials file: INI.
    pub file: PathBuf,
    /// The section of it.
    #[serde(default = "default_profile")]
    pub profile: String,
}

/// [`Source::AwsWebIdentity`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AwsWebIdentity {
    /// The role.
    pub role_arn: String,
    /// The projected token of the ServiceAccount.
    pub token_file: PathBuf,
    /// Region whose STS is asked.
    pub region: String,
    /// How the session is called in AWS's own logs.
    #[serde(default = "numo")]
    pub session_name: String,
    /// Where STS is, instead of `https://sts.REGION.amazonaws.com`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub endpoint: Option<String>,
}

fn cloud_platform() -> Vec<String> {
    vec!["https://www.googleapis.com/auth/cloud-platform".to_owned()]
}

fn azure_authority() -> String {
    "login.microsoftonline.com".to_owned()
}

fn azure_scope() -> String {
    "https://management.azure.com/.default".to_owned()
}

fn default_profile() -> String {
    "default".to_owned()
}

fn numo() -> String {
    "numo".to_owned()
}

/// An entry as it is written.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Entry {
    name: String,
    bearer_file: Option<BearerFile>,
    google_service_account: Option<GoogleServiceAccount>,
    azure_client_secret: Option<AzureClientSecret>,
    azure_workload_identity: Option<AzureWorkloadIdentity>,
    aws_keys: Option<AwsKeys>,
    aws_web_identity: Option<AwsWebIdentity>,
}

impl TryFrom<Entry> for NamedSource {
    type Error = String;

    fn try_from(entry: Entry) -> Result<Self, String> {
        let sources = [
            entry.bearer_file.map(Source::BearerFile),
            entry.google_service_account.map(Source::GoogleServiceAccount),
            entry.azure_client_secret.map(Source::AzureClientSecret),
            entry.azure_workload_identity.map(Source::AzureWorkloadIdentity),
            entry.aws_keys.map(Source::AwsKeys),
            entry.aws_web_identity.map(Source::AwsWebIdentity),
        ];
        let mut sources = sources.into_iter().flatten();
        let name = entry.name;
        match (sources.next(), sources.next()) {
            (Some(source), None) => Ok(Self { name, source }),
            (None, _) => Err(format!(
                "credential {name:?}: found no source, wanted one of bearerFile, googleServiceAccount, azureClientSecret, \
                 azureWorkloadIdentity, awsKeys, awsWebIdentity"
            )),
            (Some(one), Some(other)) => Err(format!(
                "credential {name:?}: found {} and {}, wanted one source",
                one.kind(),
                other.kind()
            )),
        }
    }
}

impl Source {
    /// The key that it is written under.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::BearerFile(_) => "bearerFile",
            Self::GoogleServiceAccount(_) => "googleServiceAccount",
            Self::AzureClientSecret(_) => "azureClientSecret",
            Self::AzureWorkloadIdentity(_) => "azureWorkloadIdentity",
            Self::AwsKeys(_) => "awsKeys",
            Self::AwsWebIdentity(_) => "awsWebIdentity",
        }
    }

    /// The scheme by which it signs: `bearer` or `aws-sigv4`.
    pub fn scheme(&self) -> &'static str {
        match self {
            Self::AwsKeys(_) | Self::AwsWebIdentity(_) => "aws-sigv4",
            _ => "bearer",
        }
    }

    /// The file that it is read from.
    pub fn file(&self) -> &Path {
        match self {
            Self::BearerFile(source) => &source.file,
            Self::GoogleServiceAccount(source) => &source.file,
            Self::AzureClientSecret(source) => &source.file,
            Self::AzureWorkloadIdentity(source) => &source.token_file,
            Self::AwsKeys(source) => &source.file,
            Self::AwsWebIdentity(source) => &source.token_file,
        }
    }

    /// The token endpoint, where the configuration says it.
    ///
    /// Errors: it says none that is fit; field, what was found, what is wanted.
    pub(crate) fn endpoint(&self) -> Result<Option<Url>, String> {
        let found = match self {
            Self::BearerFile(_) | Self::AwsKeys(_) => return Ok(None),
            Self::GoogleServiceAccount(source) => match &source.token_uri {
                Some(url) => endpoint("tokenUri", url),
                None => return Ok(None),
            },
            Self::AzureClientSecret(source) => entra(&source.authority, &source.tenant_id),
            Self::AzureWorkloadIdentity(source) => entra(&source.authority, &source.tenant_id),
            Self::AwsWebIdentity(source) => match &source.endpoint {
                Some(url) => endpoint("endpoint", url),
                None => endpoint("region", &regional(&source.region)),
            },
        };
        found.map(Some)
    }

    /// Checks what the configuration says. Files are read when something is signed.
    pub(crate) fn check(&self) -> Result<(), String> {
        if self.file().as_os_str().is_empty() {
            return Err("file: found nothing, wanted the path of a file".to_owned());
        }
        match self {
            Self::BearerFile(_) => {}
            Self::GoogleServiceAccount(source) => {
                if source.scopes.is_empty() {
                    return Err("scopes: found none, wanted at least one".to_owned());
                }
                for scope in &source.scopes {
                    check_text("scopes", scope, "a scope without blanks", |byte| {
                        byte.is_ascii_graphic()
                    })?;
                }
            }
            Self::AzureClientSecret(source) => {
                check_entra(&source.tenant_id, &source.client_id, &source.scope)?;
            }
            Self::AzureWorkloadIdentity(source) => {
                check_entra(&source.tenant_id, &source.client_id, &source.scope)?;
            }
            Self::AwsKeys(source) => {
                let wanted = "the name of a section";
                check_text("profile", &source.profile, wanted, |byte| {
                    !byte.is_ascii_control() && byte != b']'
                })?;
            }
            Self::AwsWebIdentity(source) => check_role(source)?,
        }
        self.endpoint().map(drop)
    }

    /// The hosts and ports that are asked for tokens.
    pub(crate) fn hosts(&self) -> Vec<(String, u16)> {
        match (self, self.endpoint()) {
            (Self::GoogleServiceAccount(_), Ok(None)) => GOOGLE_HOSTS
                .iter()
                .map(|host| ((*host).to_owned(), 443))
                .collect(),
            (_, Ok(Some(url))) => {
                let port = url.port_or_known_default().unwrap_or(443);
                url.host_str()
                    .map(|host| (host.to_owned(), port))
                    .into_iter()
                    .collect()
            }
            _ => Vec::new(),
        }
    }
}

/// A URL that secrets may be sent to.
///
/// Errors: it is none; never with its text, which may have a password.
pub(crate) fn endpoint(field: &str, text: &str) -> Result<Url, String> {
    let wrong =
        |found: &str| format!("{field}: found {found}, wanted an https URL without user, query and fragment");
    let url = Url::parse(text).map_err(|error| wrong(&format!("no URL ({error})")))?;
    if url.scheme() != "https" {
        return Err(wrong("another scheme"));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(wrong("one with a user"));
    }
    if url.query().is_some() || url.fragment().is_some() {
        return Err(wrong("one with a query or a fragment"));
    }
    Ok(url)
}

/// Where Entra ID gives tokens for a tenant. The authority is a host, or a URL.
fn entra(authority: &str, tenant: &str) -> Result<Url, String> {
    let base = if authority.contains("://") {
        authority.trim_end_matches('/').to_owned()
    } else {
        format!("https://{authority}")
    };
    let mut url = endpoint("authority", &base)?;
    let path = format!("{}/{tenant}/oauth2/v2.0/token", url.path().trim_end_matches('/'));
    url.set_path(&path);
    Ok(url)
}

/// Where the STS of a region is.
fn regional(region: &str) -> String {
    let domain = if region.starts_with("cn-") {
        "amazonaws.com.cn"
    } else {
        "amazonaws.com"
    };
    format!("https://sts.{region}.{domain}/")
}

fn check_entra(tenant: &str, client: &str, scope: &str) -> Result<(), String> {
    let is_id = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'.';
    check_text("tenantId", tenant, "a GUID or a domain", is_id)?;
    check_text("clientId", client, "a GUID", is_id)?;
    check_text("scope", scope, "a scope without blanks", |byte| {
        byte.is_ascii_graphic()
    })
}

fn check_role(source: &AwsWebIdentity) -> Result<(), String> {
    let wanted = "arn:aws:iam::ACCOUNT:role/NAME";
    check_text("roleArn", &source.role_arn, wanted, |byte| {
        byte.is_ascii_graphic()
    })?;
    if !source.role_arn.starts_with("arn:") {
        return Err(format!("roleArn: found {:?}, wanted {wanted}", source.role_arn));
    }
    check_text("region", &source.region, "a region like eu-central-1", is_region)?;
    let session = &source.session_name;
    let wanted = "2 to 64 letters, digits and characters of +=,.@_-";
    check_text("sessionName", session, wanted, |byte| {
        byte.is_ascii_alphanumeric() || b"+=,.@_-".contains(&byte)
    })?;
    if !(2..=64).contains(&session.len()) {
        return Err(format!("sessionName: found {session:?}, wanted {wanted}"));
    }
    Ok(())
}

/// Whether a byte may stand in the name of a region or a service.
pub(crate) fn is_region(byte: u8) -> bool {
    byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-'
}

/// Checks a text of the configuration byte by byte.
fn check_text(field: &str, text: &str, wanted: &str, may: impl Fn(u8) -> bool) -> Result<(), String> {
    if text.len() > TEXT_BYTES {
        return Err(format!("{field}: found {} bytes, wanted {wanted}", text.len()));
    }
    if text.is_empty() || !text.bytes().all(may) {
        return Err(format!("{field}: found {text:?}, wanted {wanted}"));
    }
    Ok(())
}
