//! Tokens for the key of a service account of Google Cloud: a signed assertion is exchanged for one (RFC 7523).

use crate::{
    oauth::{kind, token},
    proof::{Call, Obtained},
    refusal::Refusal,
    source::{GOOGLE_HOSTS, GoogleServiceAccount, endpoint},
};
use aws_lc_rs::{rand::SystemRandom, rsa::KeyPair, signature::RSA_PKCS1_SHA256};
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use rustls_pki_types::{PrivatePkcs8KeyDer, pem::PemObject as _};
use secrecy::zeroize::Zeroizing;
use serde_json::{Map, Value, json};
use url::{Url, form_urlencoded};

/// How long an assertion counts (seconds): the longest that Google takes, so that a clock that is behind does no harm.
const ASSERTION: i64 = 3600;
/// `grant_type` of an assertion.
const GRANT: &str = "urn:ietf:params:oauth:grant-type:jwt-bearer";

/// Asks for a token with the key in `text`.
pub(crate) async fn obtain(
    call: Call<'_>,
    source: &GoogleServiceAccount,
    text: &str,
) -> Result<Obtained, Refusal> {
    let (url, assertion) = assertion(&call, source, text)?;
    let form = form_urlencoded::Serializer::new(String::new())
        .append_pair("grant_type", GRANT)
        .append_pair("assertion", &assertion)
        .finish();
    token(&call, &url, &Zeroizing::new(form), &[&assertion]).await
}

/// The endpoint, and the assertion for it. The key itself ends here.
fn assertion(
    call: &Call<'_>,
    source: &GoogleServiceAccount,
    text: &str,
) -> Result<(Url, Zeroizing<String>), Refusal> {
    let key = Key {
        call,
        source,
        fields: fields(call, source, text)?,
    };
    let url = key.endpoint()?;
    let header = match key.fields.get("private_key_id") {
        Some(Value::String(id)) => json!({"alg": "RS256", "typ": "JWT", "kid": id}),
        _ => json!({"alg": "RS256", "typ": "JWT"}),
    };
    let issued = call.now.as_second();
    let claims = json!({
        "iss": key.text("client_email", "the name of the service account")?,
        "scope": source.scopes.join(" "),
        "aud": url.as_str(),
        "iat": issued,
        "exp": issued.saturating_add(ASSERTION),
    });
    let encode = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
    let signed = format!("{}.{}", encode(&header), encode(&claims));
    let pair = key.pair()?;
    let mut signature = vec![0; pair.public_modulus_len()];
    pair.sign(
        &RSA_PKCS1_SHA256,
        &SystemRandom::new(),
        signed.as_bytes(),
        &mut signature,
    )
    .map_err(|_| key.wrong("private_key", "one that does not sign", WANTED_KEY))?;
    let assertion = format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature));
    Ok((url, Zeroizing::new(assertion)))
}

const WANTED_KEY: &str = "an RSA key of 2048 to 8192 bits, PKCS #8 in PEM";

/// The JSON of a key.
fn fields(call: &Call<'_>, source: &GoogleServiceAccount, text: &str) -> Result<Map<String, Value>, Refusal> {
    let wrong = |found: String| {
        let place = &source.file.display();
        Refusal::malformed(
            call.name,
            place,
            "key",
            found,
            "the JSON object of a service account's key",
        )
    };
    // serde's own words may have a part of the key.
    let value = serde_json::from_str(text).map_err(|error| {
        wrong(format!(
            "no JSON at line {} column {}",
            error.line(),
            error.column()
        ))
    })?;
    match value {
        Value::Object(fields) => Ok(fields),
        other => Err(wrong(kind(Some(&other)).to_owned())),
    }
}

/// A key, and what to say where it is none.
struct Key<'a> {
    call: &'a Call<'a>,
    source: &'a GoogleServiceAccount,
    fields: Map<String, Value>,
}

impl Drop for Key<'_> {
    fn drop(&mut self) {
        if let Some(Value::String(key)) = self.fields.get_mut("private_key") {
            drop(Zeroizing::new(std::mem::take(key)));
        }
    }
}

impl Key<'_> {
    fn wrong(&self, field: &str, found: &str, wanted: &str) -> Refusal {
        Refusal::malformed(self.call.name, &self.source.file.display(), field, found, wanted)
    }

    fn text(&self, field: &str, wanted: &str) -> Result<&str, Refusal> {
        match self.fields.get(field) {
            Some(Value::String(text)) if !text.is_empty() => Ok(text),
            Some(Value::String(_)) => Err(self.wrong(field, "an empty text", wanted)),
            other => Err(self.wrong(field, kind(other), wanted)),
        }
    }

    fn pair(&self) -> Result<KeyPair, Refusal> {
        let pem = self.text("private_key", WANTED_KEY)?;
        let der = PrivatePkcs8KeyDer::from_pem_slice(pem.as_bytes())
            .map_err(|_| self.wrong("private_key", "no such PEM", WANTED_KEY))?;
        KeyPair::from_pkcs8(der.secret_pkcs8_der())
            .map_err(|_| self.wrong("private_key", "another key", WANTED_KEY))
    }

    /// Where the configuration says; else where the key says, if that is Google: who writes the file does not say where assertions go.
    fn endpoint(&self) -> Result<Url, Refusal> {
        let wanted = "https://oauth2.googleapis.com/token, or tokenUri in the operator's configuration";
        if let Some(url) = &self.source.token_uri {
            return endpoint("tokenUri", url)
                .map_err(|_| self.wrong("token_uri", "an unfit tokenUri in the configuration", wanted));
        }
        let text = self.text("token_uri", wanted)?;
        let url = endpoint("token_uri", text).map_err(|_| self.wrong("token_uri", "no such URL", wanted))?;
        let is_google = url.host_str().is_some_and(|host| GOOGLE_HOSTS.contains(&host));
        if !is_google || url.port_or_known_default() != Some(443) {
            return Err(self.wrong("token_uri", "another host or port", wanted));
        }
        Ok(url)
    }
}
