//! One question to a token endpoint.

use crate::{
    exchange::{ANSWER_BYTES, Answer},
    proof::Call,
    refusal::Refusal,
    words::words,
};
use url::Url;

/// Posts a form, and gives back the body of a good answer. `secrets` are told to nobody.
///
/// Errors: there is no answer, or a refusal, whose words `said` finds in it.
pub(crate) async fn post(
    call: &Call<'_>,
    url: &Url,
    form: &str,
    secrets: &[&str],
    said: fn(&[u8]) -> Option<String>,
) -> Result<Vec<u8>, Refusal> {
    let unavailable = |text: &str| Refusal::Unavailable {
        name: call.name.to_owned(),
        endpoint: url.to_string(),
        words: words(text, secrets),
    };
    let answer = call.exchange.post(url, form).await;
    let Answer { status, body } = answer.map_err(|text| unavailable(&text))?;
    if body.len() > ANSWER_BYTES {
        let found = format!("more than {ANSWER_BYTES} bytes");
        return Err(Refusal::malformed(
            call.name,
            url,
            "answer",
            found,
            "at most that many",
        ));
    }
    if status == 200 {
        return Ok(body);
    }
    let text = said(&body).unwrap_or_default();
    if status == 429 || status == 408 || status >= 500 {
        return Err(unavailable(&format!("{text} (status {status})")));
    }
    Err(Refusal::Refused {
        name: call.name.to_owned(),
        endpoint: url.to_string(),
        status,
        words: words(&text, secrets),
    })
}
