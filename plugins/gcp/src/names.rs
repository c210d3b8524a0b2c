//! Names that this provider gives: of the machine of a request, and of the next instance template. No calls. The same input always has the
//! same name: this is how a repeated call finds what an earlier one made.

/// Bytes of a name, as RFC 1035 and the API have it.
const NAME_BYTES: usize = 63;
/// Characters of the hash that stands for a request id where the name has no room for it.
const HASH_DIGITS: usize = 10;
/// Digits of a template's number. More of them are no number but a date.
const NUMBER_DIGITS: usize = 9;

/// Name of the machine of a request: base name, hyphen, request id. Where that is no name or too long, a hash of both stands for the id, and the
/// base name is cut.
pub fn machine(base: &str, request: &str) -> String {
    let base = stem(base);
    let plain = format!("{base}-{request}");
    if crate::ids::is_name(&plain) {
        return plain;
    }
    let cut: String = base.chars().take(NAME_BYTES - 1 - HASH_DIGITS).collect();
    format!(
        "{}-{}",
        cut.trim_end_matches('-'),
        hash(&format!("{base}/{request}"))
    )
}

/// The part of a base name that can start a name; a group without one has machines named `node`.
fn stem(base: &str) -> String {
    let fits = |letter: &char| letter.is_ascii_lowercase() || letter.is_ascii_digit() || *letter == '-';
    let stem: String = base.chars().take_while(fits).take(NAME_BYTES).collect();
    let stem = stem.trim_end_matches('-');
    if crate::ids::is_name(stem) {
        stem.to_owned()
    } else {
        "node".to_owned()
    }
}

/// Ten letters and digits of a text (FNV-1a, its bits mixed once more).
fn hash(text: &str) -> String {
    const DIGITS: &[u8; 36] = b"0123456789abcdefghijklmnopqrstuvwxyz";
    let mut sum: u64 = 0xcbf2_9ce4_8422_2325;
    for byte in text.bytes() {
        sum = (sum ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    }
    sum = (sum ^ (sum >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    sum ^= sum >> 33;
    let mut digits = String::with_capacity(HASH_DIGITS);
    for _ in 0..HASH_DIGITS {
        let digit = usize::try_from(sum % 36).unwrap_or_default();
        digits.push(DIGITS.get(digit).copied().map_or('0', char::from));
        sum /= 36;
    }
    digits
}

/// Names of templates that follow one: `node-3` is followed by `node-4`, `node` by `node-1`.
pub fn next_templates(name: &str) -> impl Iterator<Item = String> {
    let numbered = name.rsplit_once('-').and_then(|(stem, digits)| {
        let is_number = digits.len() <= NUMBER_DIGITS && digits.bytes().all(|digit| digit.is_ascii_digit());
        let number: u64 = digits.parse().ok().filter(|_| is_number)?;
        Some((stem.to_owned(), number))
    });
    let (stem, last) = numbered.unwrap_or_else(|| (name.to_owned(), 0));
    (1..).map(move |step| {
        let number = last.saturating_add(step).to_string();
        let cut: String = stem.chars().take(NAME_BYTES - 1 - number.len()).collect();
        format!("{}-{number}", cut.trim_end_matches('-'))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::is_name;

    #[test]
    fn a_machine_is_named_after_its_request_and_fits() {
        let request = "numo-0123456789abcdefghij";
        assert_eq!(machine("workers", request), format!("workers-{request}"));
        for base in [
            "w",
            "workers-",
            &"w".repeat(37),
            &"w".repeat(38),
            &"w".repeat(58),
            "",
            "###",
            "vm-###",
        ] {
            for request in ["a", "1-", "-", request, &"x".repeat(32)] {
                let name = machine(base, request);
                assert!(is_name(&name), "{name}");
                assert_eq!(name, machine(base, request));
            }
        }
    }

    #[test]
    fn long_base_names_keep_requests_apart() {
        let base = "w".repeat(58);
        let names: std::collections::BTreeSet<String> = (0..2000)
            .map(|number| machine(&base, &format!("numo-{number}")))
            .collect();
        assert_eq!(names.len(), 2000);
        assert!(names.iter().all(|name| name.starts_with(&base[..50])));
    }

    #[test]
    fn the_next_template_has_the_next_number() {
        let next = |name: &str| next_templates(name).take(2).collect::<Vec<_>>();
        assert_eq!(next("node"), ["node-1", "node-2"]);
        assert_eq!(next("node-9"), ["node-10", "node-11"]);
        assert_eq!(
            next("node-20240817085222513400000001")[0],
            "node-20240817085222513400000001-1"
        );
        assert_eq!(next("node-")[0], "node-1");
        for name in next(&"n".repeat(63))
            .iter()
            .chain(&next(&format!("{}-999999999", "n".repeat(53))))
        {
            assert!(is_name(name), "{name}");
        }
    }
}
