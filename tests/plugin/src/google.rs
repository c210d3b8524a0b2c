//! A service account of Google Cloud with a key of its own.

use anyhow::{Context as _, Result};
use aws_lc_rs::{
    encoding::{AsDer as _, Pkcs8V1Der},
    rsa::{KeyPair, KeySize},
    signature::{KeyPair as _, RSA_PKCS1_2048_8192_SHA256, UnparsedPublicKey},
};
use base64::{
    Engine as _,
    engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD},
};
use serde_json::{Value, json};

/// The account.
pub struct Account {
    pair: KeyPair,
    body: String,
}

impl std::fmt::Debug for Account {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Account").finish_non_exhaustive()
    }
}

impl Account {
    /// One with a new key.
    pub fn new() -> Result<Self> {
        let pair = KeyPair::generate(KeySize::Rsa2048)?;
        let body = {
            let der: Pkcs8V1Der<'_> = pair.as_der()?;
            STANDARD.encode(der.as_ref())
        };
        Ok(Self { pair, body })
    }

    /// The file with its key, as Google hands it out.
    pub fn key(&self) -> Value {
        json!({
            "type": "service_account",
            "private_key_id": "id-1",
            "private_key": format!("-----BEGIN PRIVATE KEY-----\n{}\n-----END PRIVATE KEY-----\n", self.body),
            "client_email": "numo@numo-test.iam.gserviceaccount.com",
            "token_uri": "https://oauth2.googleapis.com/token",
        })
    }

    /// Parts of its key that nobody else has, past what is the same in every one.
    pub fn secrets(&self) -> Result<Vec<String>> {
        let part = |range: std::ops::Range<usize>| self.body.get(range).map(str::to_owned);
        let parts: Option<Vec<String>> = [200..240, 900..940].into_iter().map(part).collect();
        parts.context("a key of that length")
    }

    /// Whether it has signed an assertion.
    pub fn has_signed(&self, assertion: &str) -> bool {
        let Some((text, signature)) = assertion.rsplit_once('.') else {
            return false;
        };
        let signature = URL_SAFE_NO_PAD.decode(signature).unwrap_or_default();
        UnparsedPublicKey::new(&RSA_PKCS1_2048_8192_SHA256, self.pair.public_key())
            .verify(text.as_bytes(), &signature)
            .is_ok()
    }
}
