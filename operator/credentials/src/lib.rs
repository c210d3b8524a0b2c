//! Signs requests to the APIs of clouds with credentials from mounted files. A component names a credential and never sees a secret. This
//! crate opens no connection: who asks for a token does so through a trait, [`Exchange`].
//!
//! [`Credentials::new`] takes what an operator wrote ([`NamedSource`]), [`Credentials::sign`] adds the headers to one request.
//!
//! ```yaml
//! credentials:
//! - name: kept-elsewhere          # a token that somebody else renews
//!   bearerFile: {file: /etc/numo/token}
//! - name: gcp                     # the key of a service account
//!   googleServiceAccount: {file: /etc/numo/gcp/key.json}
//! - name: azure                   # the secret of an application
//!   azureClientSecret: {tenantId: 72f9..., clientId: 1c2d..., file: /etc/numo/azure/secret}
//! - name: azure-identity          # workload identity
//!   azureWorkloadIdentity: {tenantId: 72f9..., clientId: 1c2d..., tokenFile: /var/run/secrets/azure/token}
//! - name: aws                     # a shared credentials file
//!   awsKeys: {file: /etc/numo/aws/credentials, profile: numo}
//! - name: aws-role                # IAM roles for service accounts
//!   awsWebIdentity: {roleArn: "arn:aws:iam::123456789012:role/numo", tokenFile: /var/run/secrets/aws/token, region: eu-central-1}
//! ```
//!
//! # What happens when
//!
//! | case | what happens |
//! |---|---|
//! | a file is replaced | it is read for each request, and a token is obtained with it at once; the one before is used only if nobody answers |
//! | a file is replaced by one that is refused | `CredentialRefused`: the token of the one before does not stand in for it |
//! | a file is gone, longer than 64 KiB, or no regular file | `CredentialUnreadable`, whatever was obtained before |
//! | a file is not what it should be | `CredentialMalformed`, with field, found and wanted, never with the value |
//! | a token ends | five minutes before, or after half of its time, one request obtains the next; the others go on with the old one |
//! | that fails | the old one is used until ten seconds before its end; it is tried again after 30 seconds, or when the file changes |
//! | there is no token yet, and many sign | one asks; the others wait, and have its token or its refusal |
//! | the one who asks is cancelled | the next one asks |
//! | `expires_in` is a year | a day |
//! | `expires_in` is 0, negative, a fraction or missing; the token has a blank or a line end; the answer is long or no JSON | `CredentialMalformed` |
//! | a status of 4xx; of 408, 429 or 5xx; no answer | `CredentialRefused` with bounded words; the others `CredentialUnavailable` |
//! | an answer repeats the secret | it is masked, as it is and as a form has it, and so is every word of more than 64 characters |
//! | the cloud says 401 | [`Credentials::forget`]: obtained anew, but for a token of less than a minute: a component may ask for what it may not do |
//! | the clock goes back by more than five minutes | what was obtained counts no more |
//! | a key names a `token_uri` elsewhere | refused; `tokenUri` of the configuration may name any https URL |
//! | a component brings `authorization`, plain http, or a `host` that is not the URL's | `CredentialRequestInvalid` |
//!
//! # What it does not do
//!
//! **It does not know where a request may go.** A credential is sent to the host of the request. The grant says which hosts these are, and an
//! administrator names none there that is not the cloud's: a host that gives back what it is sent gives the component the token.
//!
//! **No metadata service is asked**, of any cloud: link-local addresses are never reached, by nobody in numo. Who uses a node's own identity
//! mounts a projected token instead (workload identity, IAM roles for service accounts). There is no search for credentials in
//! environment variables or home folders, no program that is called, no chain of roles.
//!
//! # What it is made of
//!
//! aws-lc, which numo has for TLS, signs: RSA for Google's assertions, SHA-256 and HMAC for AWS. What is left is text: a JWT of two JSON
//! objects, two forms, and the canonical form of a request. The libraries for that were weighed by the crates that they add to numo, second
//! versions included: `aws-sigv4` 21, `reqsign-aws-v4` 25, both with RustCrypto once more; `reqsign-google` 45, with an RSA that is known not
//! to be constant in time (RUSTSEC-2023-0071); `jsonwebtoken` 4, for one call. This crate adds one, `roxmltree`, for the one answer in
//! XML. Its signatures are compared with AWS's published test suite (`tests/vectors/sigv4.json`).
//!
//! Secrets are wiped from memory where they are this crate's (files, forms, tokens); a copy that a parser, a header or the host's connection
//! makes is not.

mod ask;
mod azure;
mod credentials;
mod exchange;
mod file;
mod google;
mod keys;
mod oauth;
mod proof;
mod refusal;
mod sigv4;
mod slot;
mod source;
mod sts;
mod words;

pub use credentials::Credentials;
pub use exchange::{ANSWER_BYTES, Answer, Exchange, FORM};
pub use file::FILE_BYTES;
pub use refusal::Refusal;
pub use source::{
    AwsKeys, AwsWebIdentity, AzureClientSecret, AzureWorkloadIdentity, BearerFile, GoogleServiceAccount,
    NamedSource, Source,
};
