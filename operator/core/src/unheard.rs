//! Why a MutexApproval approves nothing: its owner is not there, waits for no approval, or waits for another. The operator (events) and
//! `numo doctor` ask here. Nothing here decides.

use crate::{admit::approval::PART, text::clip};
use numo_api::{ApprovedOwner, MutexApprovalSpec};

/// Longest words of a person in a sentence (characters).
const WORDS: usize = 200;

/// What the owner that an approval names waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waits<'a> {
    /// It is not there.
    Nowhere,
    /// No approval.
    Nothing,
    /// This one.
    For {
        /// What is to be approved, in words.
        what: &'a str,
        /// Its digest.
        digest: &'a str,
        /// The owner says that an approval of this holds no more.
        is_expired: bool,
    },
}

/// Why an approval that its owner does not go by approves nothing; none if the owner says that itself, or if it was made of the same run:
/// what it approved is over, or has changed.
pub fn why(spec: &MutexApprovalSpec, waits: &Waits<'_>) -> Option<String> {
    let owner = words_of(&spec.owner);
    match *waits {
        Waits::Nowhere => Some(format!("{owner} is not there, or is none that numo looks after")),
        Waits::Nothing => Some(format!("{owner} waits for no approval")),
        Waits::For {
            what,
            digest,
            is_expired,
        } => {
            let what = clip(what, WORDS);
            if spec.digest == digest {
                let message =
                    format!("{owner} waits for the approval of {what}, and this is of something else");
                return (!is_expired).then_some(message);
            }
            let is_of_run = |text: &str| text.split('-').nth(1).map(ToOwned::to_owned);
            let is_same_run = is_of_run(digest).is_some() && is_of_run(digest) == is_of_run(&spec.digest);
            let message = format!(
                "{owner} waits for the approval of {what}, and spec.digest is not that of its status.approval"
            );
            (!is_same_run).then_some(message)
        }
    }
}

/// Whether this has the form of a digest: one that has not was never that of anything.
pub fn is_digest(text: &str) -> bool {
    let is_part = |part: &str| part.len() == PART && part.chars().all(|digit| digit.is_ascii_hexdigit());
    text.split('-').count() == 4 && text.split('-').all(is_part)
}

/// Kind and name of an owner, as somebody has written them.
fn words_of(owner: &ApprovedOwner) -> String {
    let namespace = owner.namespace.as_deref().filter(|name| !name.is_empty());
    let place = namespace.map_or_else(String::new, |namespace| format!("{namespace}/"));
    clip(&format!("{} {place}{}", owner.kind, owner.name.trim()), WORDS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digest_has_four_parts_of_hex_digits() {
        let part = "0123456789abcdef0123456789abcdef";
        let of = |parts: &[&str]| is_digest(&parts.join("-"));
        assert!(of(&[part; 4]));
        for bad in [
            &[part; 3][..],
            &[part; 5],
            &[],
            &["d"],
            &[part, part, part, "g"],
            &[part, part, part, &part[1..]],
        ] {
            assert!(!of(bad), "{bad:?}");
        }
    }

    #[test]
    fn an_approval_that_approves_nothing_says_why_unless_its_owner_does() {
        let spec = |digest: &str, wave: Option<&str>| MutexApprovalSpec {
            owner: ApprovedOwner {
                api_group: "g".to_owned(),
                kind: "Plan".to_owned(),
                namespace: Some("upgrades".to_owned()),
                name: "os\n".to_owned(),
            },
            digest: digest.to_owned(),
            wave: wave.map(ToOwned::to_owned),
            ..MutexApprovalSpec::default()
        };
        let wave = |is_expired| Waits::For {
            what: "wave 2 of 3",
            digest: "s-run-n-r",
            is_expired,
        };
        let other = "Plan upgrades/os waits for the approval of wave 2 of 3, and";
        for (digest, waits, wanted) in [
            (
                "d",
                Waits::Nowhere,
                Some("Plan upgrades/os is not there".to_owned()),
            ),
            (
                "d",
                Waits::Nothing,
                Some("Plan upgrades/os waits for no approval".to_owned()),
            ),
            ("s-run-n-r", wave(false), Some(format!("{other} this is of"))),
            ("s-run-n-r", wave(true), None),
            ("s-run-before-r", wave(false), None),
            ("s-gone-n-r", wave(false), Some(format!("{other} spec.digest"))),
            ("d", wave(true), Some(format!("{other} spec.digest"))),
        ] {
            let found = why(&spec(digest, Some("3")), &waits);
            let is_it = match (&found, &wanted) {
                (Some(found), Some(wanted)) => found.starts_with(wanted),
                (found, wanted) => found == wanted,
            };
            assert!(is_it, "{digest} {waits:?}: {found:?}");
        }
    }
}
