//! Who must have signed components.

use crate::{cli::error::CliError, shell::eval::signers::SignerFiles};
use numo_cli::files::read;
use numo_plugin::signature::Identity;
use std::path::PathBuf;

/// Keyless signers. What is set and names nobody is a slip, and no wish that anything may run.
fn identities(given: &[String]) -> Result<Vec<Identity>, CliError> {
    let wrong = |words: &str| CliError::Wrong(format!("--rule-identities: {words}"));
    let named = given.iter().filter(|one| !one.trim().is_empty());
    let all = named
        .map(|one| one.parse::<Identity>())
        .collect::<Result<Vec<_>, _>>()
        .map_err(|error| wrong(&error))?;
    if all.is_empty() && !given.is_empty() {
        return Err(wrong(
            "found nobody, wanted ISSUER,SUBJECT, or the flag and its variable left out",
        ));
    }
    Ok(all)
}

/// Whether anybody is named who must have signed a component.
pub(super) fn asks_for_signatures(signers: &SignerFiles) -> Result<(), CliError> {
    if signers.ask() {
        return Ok(());
    }
    let words =
        "--require-signatures: found neither --rule-keys nor --rule-identities, wanted one of them at least";
    Err(CliError::Usage(words.to_owned()))
}

/// Who must have signed components. What is wrong with the files is said at once; later they are read again.
pub(super) fn signers(
    keys: Option<PathBuf>,
    given: &[String],
    trust_root: Option<PathBuf>,
) -> Result<SignerFiles, CliError> {
    let trust_root = trust_root.filter(|path| !path.as_os_str().is_empty());
    for (flag, path) in [("--rule-keys", &keys), ("--sigstore-trusted-root", &trust_root)] {
        if let Some(path) = path {
            read(flag, path)?;
        }
    }
    let signers = SignerFiles {
        keys,
        identities: identities(given)?,
        trust_root,
    };
    signers.read().map_err(CliError::Wrong)?;
    Ok(signers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identities_that_name_nobody_are_a_slip() {
        let of = |given: &[&str]| {
            let given: Vec<String> = given.iter().map(|one| (*one).to_owned()).collect();
            identities(&given)
                .map(|all| all.len())
                .map_err(|error| error.to_string())
        };
        assert_eq!(of(&[]), Ok(0));
        assert_eq!(of(&["https://a,b", " "]), Ok(1));
        for nobody in [&[""][..], &[" ", ""]] {
            let why = of(nobody).unwrap_err();
            assert!(why.contains("--rule-identities: found nobody"), "{why}");
        }
        assert!(of(&["nobody"]).unwrap_err().contains("wanted ISSUER,SUBJECT"));
    }

    #[test]
    fn signatures_that_are_required_are_asked_of_somebody() {
        let of = |keys: Option<PathBuf>, given: &[String]| SignerFiles {
            keys,
            identities: identities(given).unwrap(),
            trust_root: Some("root.json".into()),
        };
        assert!(asks_for_signatures(&of(None, &["https://a,b".to_owned()])).is_ok());
        assert!(asks_for_signatures(&of(Some("keys.pem".into()), &[])).is_ok());
        let why = asks_for_signatures(&of(None, &[])).unwrap_err().to_string();
        assert!(
            why.contains("--rule-keys") && why.contains("--rule-identities"),
            "{why}"
        );
    }
}
