//! The answer of a token endpoint of OAuth 2.0 (RFC 6749 §5): Google's and Microsoft's.

use crate::{
    ask::post,
    proof::{Call, LONGEST, Obtained, Proof},
    refusal::Refusal,
};
use serde_json::{Map, Value};
use url::Url;

/// The words of a refusal: `error` and `error_description`, or the `message` of Google's APIs.
pub(crate) fn said(body: &[u8]) -> Option<String> {
    let answer: Value = serde_json::from_slice(body).ok()?;
    let error = answer.get("error")?;
    let code = match error {
        Value::String(code) => code,
        other => other.get("message")?.as_str()?,
    };
    match answer.get("error_description").and_then(Value::as_str) {
        Some(description) => Some(format!("{code}: {description}")),
        None => Some(code.to_owned()),
    }
}

/// Posts a form, and reads the token in the answer.
pub(crate) async fn token(
    call: &Call<'_>,
    url: &Url,
    form: &str,
    secrets: &[&str],
) -> Result<Obtained, Refusal> {
    let body = post(call, url, form, secrets, said).await?;
    read(call, url, &body)
}

fn read(call: &Call<'_>, url: &Url, body: &[u8]) -> Result<Obtained, Refusal> {
    let wrong =
        |field: &str, found: &str, wanted: &str| Refusal::malformed(call.name, url, field, found, wanted);
    // What serde says may be a part of the answer.
    let Ok(Value::Object(answer)) = serde_json::from_slice(body) else {
        let found = format!("{} bytes that are none", body.len());
        return Err(wrong("answer", &found, "a JSON object"));
    };
    match answer.get("token_type") {
        None => {}
        Some(Value::String(kind)) if kind.eq_ignore_ascii_case("bearer") => {}
        Some(_) => return Err(wrong("token_type", "another", "Bearer")),
    }
    let lifetime = lifetime(&answer).map_err(|found| wrong("expires_in", &found, "seconds above 0"))?;
    let wanted = "a token in printable ASCII";
    let token = match answer.get("access_token") {
        Some(Value::String(token)) => call.word(url, "access_token", token, wanted)?,
        other => return Err(wrong("access_token", kind(other), wanted)),
    };
    Ok(Obtained {
        proof: Proof::Bearer(token),
        lifetime,
    })
}

/// Seconds that a token counts, a day at the most.
fn lifetime(answer: &Map<String, Value>) -> Result<i64, String> {
    match answer.get("expires_in") {
        Some(Value::Number(number)) => match number.as_i64() {
            Some(seconds) if seconds > 0 => Ok(seconds.min(LONGEST)),
            None if number.is_u64() => Ok(LONGEST),
            _ => Err(number.to_string()),
        },
        other => Err(kind(other).to_owned()),
    }
}

/// What a value is, without showing it.
pub(crate) fn kind(value: Option<&Value>) -> &'static str {
    match value {
        None => "nothing",
        Some(Value::Null) => "null",
        Some(Value::Bool(_)) => "a boolean",
        Some(Value::Number(_)) => "a number",
        Some(Value::String(_)) => "a text",
        Some(Value::Array(_)) => "an array",
        Some(Value::Object(_)) => "an object",
    }
}
