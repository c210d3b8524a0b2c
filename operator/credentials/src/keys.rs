//! Access keys of AWS, from a shared credentials file.

use crate::{
    proof::{Call, Keys},
    refusal::Refusal,
    source::AwsKeys,
};

/// The keys of the source's section in `text`.
pub(crate) fn read(call: &Call<'_>, source: &AwsKeys, text: &str) -> Result<Keys, Refusal> {
    let place = format!("{} [{}]", source.file.display(), source.profile);
    let section = section(call, source, text)?;
    let value = |wanted: &str| {
        let of_name = section
            .iter()
            .rev()
            .find(|(name, _)| name.eq_ignore_ascii_case(wanted));
        of_name.map(|(_, value)| *value)
    };
    let word = |field: &str, wanted: &str| call.word(&place, field, value(field).unwrap_or_default(), wanted);
    let token = match value("aws_session_token") {
        Some(_) => Some(word("aws_session_token", "a session token, or no such line")?),
        None => None,
    };
    Ok(Keys {
        id: check_id(call, &place, "aws_access_key_id", value("aws_access_key_id"))?,
        secret: word("aws_secret_access_key", "a secret access key")?,
        token,
    })
}

/// An id of keys: it goes between slashes and commas of a header.
pub(crate) fn check_id(
    call: &Call<'_>,
    place: &(impl ToString + ?Sized),
    field: &str,
    id: Option<&str>,
) -> Result<String, Refusal> {
    let id = id.unwrap_or_default();
    if (1..=128).contains(&id.len()) && id.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
        return Ok(id.to_owned());
    }
    // Somebody may have changed places of id and secret.
    let found = if id.is_empty() {
        "nothing"
    } else {
        "other characters, or a longer one"
    };
    let wanted = "at most 128 letters and digits";
    Err(Refusal::malformed(call.name, place, field, found, wanted))
}

/// Names and values of the source's section.
fn section<'t>(call: &Call<'_>, source: &AwsKeys, text: &'t str) -> Result<Vec<(&'t str, &'t str)>, Refusal> {
    let wrong = |field: &str, found: &str, wanted: &str| {
        Err(Refusal::malformed(
            call.name,
            &source.file.display(),
            field,
            found,
            wanted,
        ))
    };
    let (mut inside, mut seen) = (false, false);
    let mut found = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let line = line.trim();
        let field = format!("line {}", number + 1);
        if line.is_empty() || line.starts_with(['#', ';']) {
            continue;
        }
        if let Some(header) = line.strip_prefix('[') {
            let Some((header, _)) = header.split_once(']') else {
                return wrong(&field, "a section without an end", "[SECTION]");
            };
            inside = header.trim() == source.profile;
            seen |= inside;
            continue;
        }
        let Some((name, value)) = line.split_once('=') else {
            return wrong(&field, "a line without =", "NAME = VALUE, or [SECTION]");
        };
        if inside {
            found.push((name.trim(), value.trim()));
        }
    }
    if !seen {
        return wrong("profile", "no such section", &format!("[{}]", source.profile));
    }
    Ok(found)
}
