//! Keys of an AWS role for the token of a ServiceAccount: `AssumeRoleWithWebIdentity` of AWS's Security Token Service.

use crate::{
    ask::post,
    file::token_in,
    keys::check_id,
    proof::{Call, Keys, LONGEST, Obtained, Proof},
    refusal::Refusal,
    source::AwsWebIdentity,
};
use roxmltree::{Document, Node, ParsingOptions};
use secrecy::zeroize::Zeroizing;
use url::{Url, form_urlencoded};

/// How long the keys are to count (seconds): what every role allows.
const SESSION: &str = "3600";
/// Elements and texts that an answer may have.
const NODES: u32 = 1000;

/// Asks for keys with the token in `text`.
pub(crate) async fn obtain(
    call: Call<'_>,
    source: &AwsWebIdentity,
    url: &Url,
    text: &str,
) -> Result<Obtained, Refusal> {
    let token = token_in(call.name, &source.token_file, text)?;
    let form = form_urlencoded::Serializer::new(String::new())
        .append_pair("Action", "AssumeRoleWithWebIdentity")
        .append_pair("Version", "2011-06-15")
        .append_pair("DurationSeconds", SESSION)
        .append_pair("RoleArn", &source.role_arn)
        .append_pair("RoleSessionName", &source.session_name)
        .append_pair("WebIdentityToken", token)
        .finish();
    let body = Zeroizing::new(post(&call, url, &Zeroizing::new(form), &[token], said).await?);
    read(&call, url, &body)
}

/// The words of a refusal.
fn said(body: &[u8]) -> Option<String> {
    with_tree(body, |root| {
        let code = text(root, "Code")?;
        let message = text(root, "Message").unwrap_or_default();
        Some(format!("{code}: {message}"))
    })
    .flatten()
}

fn read(call: &Call<'_>, url: &Url, body: &[u8]) -> Result<Obtained, Refusal> {
    let read = with_tree(body, |root| keys(call, url, root));
    read.unwrap_or_else(|| {
        let found = format!("{} bytes that are none", body.len());
        Err(Refusal::malformed(call.name, url, "answer", found, "XML"))
    })
}

fn keys(call: &Call<'_>, url: &Url, root: Node<'_, '_>) -> Result<Obtained, Refusal> {
    let wrong = |field: &str, found: &str, wanted: &str| {
        Err(Refusal::malformed(call.name, url, field, found, wanted))
    };
    let Some(all) = element(root, "Credentials") else {
        return wrong("Credentials", "nothing", "keys");
    };
    let word = |field: &str| {
        let value = text(all, field).unwrap_or_default();
        call.word(url, field, value, "printable ASCII without blanks")
    };
    let wanted = "a time to come, like 2026-11-29T12:00:00Z";
    let ends = match text(all, "Expiration").map(str::parse::<jiff::Timestamp>) {
        Some(Ok(ends)) => ends,
        Some(Err(_)) => return wrong("Expiration", "no time", wanted),
        None => return wrong("Expiration", "nothing", wanted),
    };
    let lifetime = ends.as_second().saturating_sub(call.now.as_second());
    if lifetime <= 0 {
        return wrong("Expiration", &ends.to_string(), wanted);
    }
    Ok(Obtained {
        proof: Proof::Keys(Keys {
            id: check_id(call, url, "AccessKeyId", text(all, "AccessKeyId"))?,
            secret: word("SecretAccessKey")?,
            token: Some(word("SessionToken")?),
        }),
        lifetime: lifetime.min(LONGEST),
    })
}

/// Looks into XML; none if it is none. It may have no DTD, and so no entities of its own.
fn with_tree<T>(body: &[u8], look: impl FnOnce(Node<'_, '_>) -> T) -> Option<T> {
    let options = ParsingOptions {
        allow_dtd: false,
        nodes_limit: NODES,
        ..ParsingOptions::default()
    };
    let text = std::str::from_utf8(body).ok()?;
    let tree = Document::parse_with_options(text, options).ok()?;
    Some(look(tree.root()))
}

fn element<'a, 'i>(under: Node<'a, 'i>, name: &str) -> Option<Node<'a, 'i>> {
    under.descendants().find(|node| node.tag_name().name() == name)
}

fn text<'a>(under: Node<'a, '_>, name: &str) -> Option<&'a str> {
    Some(element(under, name)?.text()?.trim())
}
