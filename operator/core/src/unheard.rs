//! What became of a MutexApproval: whether its owner goes on by it, and if not, why it approves nothing. The operator (status and events),
//! `numo approve` and `numo doctor` ask here. Nothing here decides.

use crate::{
    admit::approval::PART,
    observed::ApprovalView,
    report::{Heard, Report},
    text::clip,
};
use jiff::{SignedDuration, Timestamp};
use numo_api::{ApprovedOwner, MutexApprovalSpec, Reason, conditions::types};

/// Longest words of a person in a sentence (characters).
const WORDS: usize = 200;

/// Up to this age an approval that its owner does not ask for is known to have approved nothing that is over.
pub const NEW: SignedDuration = SignedDuration::from_mins(5);

/// How an approval stands with its owner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Standing {
    /// Whether the owner goes on by it, or went on.
    pub holds: bool,
    /// Why.
    pub reason: Reason,
    /// In a sentence.
    pub message: String,
}

impl Standing {
    fn new(holds: bool, reason: Reason, message: String) -> Self {
        Self {
            holds,
            reason,
            message,
        }
    }

    /// What the status of an approval says; none if it says nothing yet, or nothing that this version knows.
    pub fn told(view: &ApprovalView) -> Option<Self> {
        let mut conditions = view.status.conditions.iter();
        let told = conditions.find(|one| one.type_ == types::HOLDS)?;
        let mut known = Reason::ALL.iter();
        let reason = known.find(|reason| told.reason.as_deref() == Some(reason.name()))?;
        let message = told.message.clone().unwrap_or_default();
        Some(Self::new(told.status == "True", *reason, message))
    }
}

/// How an approval stands. `report` is the word of its owner, decided with this approval; none if the owner is not there. `before` is how
/// it stood when it was looked at last: of what is over the last word stays.
pub fn standing(
    view: &ApprovalView,
    report: Option<&Report>,
    before: Option<&Standing>,
    now: Timestamp,
) -> Standing {
    let owner = words_of(&view.spec.owner);
    let Some(report) = report else {
        // A NodeMaintenance is gone when it is over.
        if before.is_some_and(|before| before.holds) {
            let message = format!("it held, and {owner} is not there any more");
            return Standing::new(true, Reason::ApprovalOver, message);
        }
        let message = format!("{owner} is not there, or is none that numo looks after");
        return Standing::new(false, Reason::OwnerNotFound, message);
    };
    match report.heard.get(&view.name) {
        Some(Heard::Holds(point)) => {
            let message = format!("{owner} goes on by it: {point} is approved");
            return Standing::new(true, Reason::ApprovalHolds, message);
        }
        Some(Heard::Expired(point, why)) => {
            let message = format!("it no longer holds for {point} of {owner}: {why}");
            return Standing::new(false, Reason::ApprovalExpired, message);
        }
        None => {}
    }
    match before {
        Some(before) if before.holds => {
            let message = format!("it held, and {owner} does not ask for that any more");
            return Standing::new(true, Reason::ApprovalOver, message);
        }
        Some(before) if before.reason == Reason::ApprovalExpired => return before.clone(),
        _ => {}
    }
    let (reason, why) = match &report.approval {
        None => (Reason::NothingWaits, format!("{owner} waits for no approval")),
        Some(waits) => {
            let what = waits.point.to_string();
            (
                Reason::ApprovesOther,
                other(&view.spec, &owner, &what, &waits.digest),
            )
        }
    };
    if let Some(same) = before.filter(|before| before.reason == reason && before.message.starts_with(&why)) {
        return same.clone();
    }
    let is_new = now.duration_since(view.created) <= NEW;
    let may_be_over = before.is_none() && !is_new && is_digest(&view.spec.digest);
    let over = if may_be_over {
        "; if it approved anything, that is over"
    } else {
        ""
    };
    Standing::new(false, reason, format!("{why}{over}"))
}

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
            let is_told = if spec.digest == digest {
                is_expired
            } else {
                is_of_run(&spec.digest, digest)
            };
            (!is_told).then(|| other(spec, &owner, what, digest))
        }
    }
}

/// Why an approval is not of what waits: of that and of no other the digest is given.
fn other(spec: &MutexApprovalSpec, owner: &str, what: &str, digest: &str) -> String {
    let what = clip(what, WORDS);
    let why = if spec.digest == digest || is_of_run(&spec.digest, digest) {
        "this is of something else"
    } else {
        "spec.digest is not that of its status.approval"
    };
    format!("{owner} waits for the approval of {what}, and {why}")
}

/// Whether both digests are of the same run of the owner.
fn is_of_run(one: &str, other: &str) -> bool {
    let run = |text: &str| text.split('-').nth(1).map(ToOwned::to_owned);
    run(one).is_some() && run(one) == run(other)
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
