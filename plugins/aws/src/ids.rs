//! Ids of machines, images and groups: taken apart, checked, made. Calls nothing.

use crate::settings::Config;
use numo_provider_sdk::{Failure, failure::invalid};

/// Bytes of a Kubernetes name.
const NAME_BYTES: usize = 253;

/// The part of a text that may stand in a message.
pub fn shown(text: &str) -> String {
    shown_to(text, 128)
}

/// The same, to so many characters.
pub fn shown_to(text: &str, most: usize) -> String {
    let cut = text.chars().take(most);
    cut.map(|letter| if letter.is_control() { ' ' } else { letter })
        .collect()
}

/// Whether a text has another in it. `str::contains` is faster on long texts, and much larger in a component.
pub fn has(text: &str, part: &str) -> bool {
    let mut windows = text.as_bytes().windows(part.len().max(1));
    windows.any(|window| window == part.as_bytes())
}

/// The instance of a providerID, `aws:///ZONE/INSTANCE`.
///
/// Errors: it has another form, or its zone lies in another region, where this provider would not find it and would take it for gone.
pub fn instance(config: &Config, provider_id: &str) -> Result<String, Failure> {
    let lower = provider_id.to_ascii_lowercase();
    let parts: Vec<&str> = lower.split('/').collect();
    let wrong = |what: &str| {
        invalid(format!(
            "providerID: found {:?}, wanted aws:///ZONE/i-… ({what})",
            shown(provider_id)
        ))
    };
    let ["aws:", "", "", zone, id] = parts.as_slice() else {
        return Err(wrong("5 parts between slashes"));
    };
    if !zone.starts_with(config.region.as_str()) {
        return Err(wrong(&format!("a zone of region {}", config.region)));
    }
    if !is_id(id, "i-") {
        return Err(wrong("an instance id of i- and 8 to 17 hexadecimal digits"));
    }
    Ok((*id).to_owned())
}

/// Whether a text is an id of this kind: its prefix, and 8 to 17 hexadecimal digits.
pub fn is_id(text: &str, prefix: &str) -> bool {
    let digits = text.strip_prefix(prefix);
    digits.is_some_and(|digits| {
        (8..=17).contains(&digits.len()) && digits.bytes().all(|byte| byte.is_ascii_hexdigit())
    })
}

/// An image, in the case that AWS has.
///
/// Errors: it is no id of one.
pub fn image(text: &str) -> Result<String, Failure> {
    let lower = text.to_ascii_lowercase();
    if !is_id(&lower, "ami-") {
        return Err(invalid(format!(
            "image: found {:?}, wanted an AMI id of ami- and 8 to 17 hexadecimal digits",
            shown(text)
        )));
    }
    Ok(lower)
}

/// The name of an auto scaling group.
///
/// Errors: no group can be called so.
pub fn group(text: &str) -> Result<&str, Failure> {
    let fits = |letter: char| !letter.is_control() && letter != ':';
    if text.is_empty() || text.chars().count() > 255 || !text.chars().all(fits) {
        return Err(invalid(format!(
            "group: found {:?}, wanted the name of an auto scaling group (1 to 255 characters, no colon)",
            shown(text)
        )));
    }
    Ok(text)
}

/// A name for the ScalingGroup: that of the group in lower case. Where letters have to be replaced, a few digits keep two groups apart.
pub fn object_name(group: &str) -> String {
    let lower = group.to_ascii_lowercase();
    let fits = |letter: char| letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == '-';
    let made: String = lower
        .chars()
        .map(|letter| if fits(letter) { letter } else { '-' })
        .collect();
    let ends = |letter: char| letter == '-';
    if made == lower && made.len() <= NAME_BYTES && !made.starts_with(ends) && !made.ends_with(ends) {
        return made;
    }
    let cut: String = made.trim_matches(ends).chars().take(NAME_BYTES - 20).collect();
    let cut = cut.trim_end_matches(ends);
    format!(
        "{}-{:016x}",
        if cut.is_empty() { "group" } else { cut },
        hash(&[group])
    )
}

/// A number of texts that is the same everywhere and always (FNV-1a, 64 bits). No secret may depend on it.
pub fn hash(texts: &[&str]) -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for text in texts {
        for byte in text.bytes().chain([0]) {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
    // FNV leaves the last bytes in the low bits; this spreads them.
    hash ^= hash >> 32;
    hash.wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// Orders a short list; equals stay as they are. The standard library's sorts are faster, and ten times as large in a component.
pub fn order<T>(list: &mut [T], goes_before: impl Fn(&T, &T) -> bool) {
    for end in 1..list.len() {
        let mut at = end;
        while let Some([before, this]) = list.get(at.saturating_sub(1)..=at) {
            if at == 0 || !goes_before(this, before) {
                break;
            }
            list.swap(at - 1, at);
            at -= 1;
        }
    }
}
