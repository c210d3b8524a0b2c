//! What a reason means, wherever it was seen.

use super::explanation::{Explanation, NAMED};
use crate::cli::{error::CliError, named::Named, remedy};
use numo_api::Reason;

/// What a reason means, wherever it was seen.
pub(super) fn reason(name: &str) -> Result<Explanation, CliError> {
    let known = Reason::ALL
        .iter()
        .find(|reason| reason.name().eq_ignore_ascii_case(name));
    if let Some(reason) = known {
        let mut one = Explanation::of(named(reason.name()), (Some(*reason), reason.meaning().to_owned()));
        one.means = None;
        one.commands = remedy::of_reason(*reason);
        return Ok(one);
    }
    let mut others = numo_api::words::WORDS.iter();
    match others.find(|(word, ..)| word.eq_ignore_ascii_case(name)) {
        Some((word, seen, meaning)) => Ok(Explanation {
            phase: Some(format!("of a {}", seen.name())),
            ..Explanation::of(named(word), (None, (*meaning).to_owned()))
        }),
        None => Err(CliError::Usage(format!(
            "found no reason {name}{}",
            nearest(name)
        ))),
    }
}

fn named(reason: &str) -> Named {
    Named {
        kind: "Reason",
        name: reason.to_owned(),
        ..Named::default()
    }
}

/// Reasons that could have been meant.
fn nearest(name: &str) -> String {
    let given = name.to_lowercase();
    let reasons = Reason::ALL.iter().map(|reason| reason.name());
    let words = numo_api::words::WORDS.iter().map(|(word, ..)| *word);
    let alike = |word: &&str| {
        let word = word.to_lowercase();
        let part = given.len() > 2 && (word.contains(&given) || given.contains(&word));
        part || strsim::normalized_damerau_levenshtein(&word, &given) > 0.6
    };
    let mut near: Vec<&str> = reasons.chain(words).filter(alike).collect();
    near.sort_unstable();
    near.dedup();
    near.truncate(NAMED);
    if near.is_empty() {
        "; a reason is what `numo status` shows under REASON, such as RuleWaits; completion lists them"
            .to_owned()
    } else {
        format!("; there are {}", near.join(", "))
    }
}
