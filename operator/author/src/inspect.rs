//! `numo plugin check` and `inspect`: a component in words.

use super::{output::OutputArgs, source::SourceArgs};
use clap::Args;
use numo_cli::{CliError, files::read_text};
use numo_core::rules::clip;
use numo_plugin::{
    Rule,
    oci::Pinned,
    signature::{Candidate, PublicKey, TrustRoot, Verifier},
};
use serde_json::json;
use std::{
    fmt::Write as _,
    path::{Path, PathBuf},
};

/// Arguments of `numo plugin check`.
#[derive(Debug, Args)]
pub(crate) struct CheckArgs {
    #[command(flatten)]
    source: SourceArgs,
    #[command(flatten)]
    output: OutputArgs,
}

/// Arguments of `numo plugin inspect`.
#[derive(Debug, Args)]
pub(crate) struct InspectArgs {
    #[command(flatten)]
    source: SourceArgs,
    /// Public keys as PEM, to say which of its signatures are by one of them
    #[arg(long, value_name = "FILE")]
    keys: Option<PathBuf>,
    /// Sigstore's trusted_root.json, to say which of its signatures are by an identity, and by whom
    #[arg(long, env = "NUMO_SIGSTORE_TRUSTED_ROOT", value_name = "FILE")]
    sigstore_trusted_root: Option<PathBuf>,
    #[command(flatten)]
    output: OutputArgs,
    /// The older way to ask for -o json
    #[arg(long, hide = true)]
    json: bool,
}

/// Who vouches for keyless signers.
fn trust_root(path: &Path) -> Result<TrustRoot, CliError> {
    TrustRoot::from_json(&read_text("--sigstore-trusted-root", path)?)
        .map_err(|error| CliError::Wrong(format!("--sigstore-trusted-root {}: {error}", path.display())))
}

/// A signature that a registry has for it.
struct Found {
    layout: &'static str,
    /// Who signed, or why nobody who is trusted here did.
    signer: Result<String, String>,
}

impl InspectArgs {
    /// The signatures of an image.
    async fn signatures(&self, pinned: &Pinned) -> Result<Result<Vec<Found>, String>, CliError> {
        let keys = match &self.keys {
            None => Vec::new(),
            Some(path) => PublicKey::all_from_pem(&read_text("--keys", path)?)
                .map_err(|error| CliError::Wrong(format!("--keys {}: {error}", path.display())))?,
        };
        let root = self
            .sigstore_trusted_root
            .as_deref()
            .map(trust_root)
            .transpose()?;
        let verifiers: Vec<&dyn Verifier> = keys
            .iter()
            .map(|key| key as &dyn Verifier)
            .chain(root.iter().map(|root| root as &dyn Verifier))
            .collect();
        let (registry, credentials) = self.source.registry.client()?;
        let candidates = match registry.signatures(pinned, &credentials).await {
            Ok(candidates) => candidates,
            // The rest can be told all the same.
            Err(error) => return Ok(Err(error.to_string())),
        };
        let found = candidates.iter().map(|candidate| Found {
            layout: candidate.layout(),
            signer: signer(&verifiers, pinned, candidate),
        });
        Ok(Ok(found.collect()))
    }
}

fn signer(verifiers: &[&dyn Verifier], pinned: &Pinned, candidate: &Candidate) -> Result<String, String> {
    let mut why = Vec::new();
    for verifier in verifiers {
        match verifier.verify(&pinned.digest, candidate) {
            Ok(signer) => return Ok(clip(&signer.to_string(), usize::MAX)),
            Err(wrong) => why.push(clip(&wrong, usize::MAX)),
        }
    }
    Err(if why.is_empty() {
        "not checked: neither --keys nor --sigstore-trusted-root is given".to_owned()
    } else {
        why.join("; ")
    })
}

/// Says in a line whether numo would run it.
pub(crate) async fn check(args: &CheckArgs) -> Result<(), CliError> {
    let (rule, _) = args.source.load().await?;
    args.output.say(&summary(&rule), &summary_json(&rule))
}

/// The same for programs.
pub(crate) fn summary_json(rule: &Rule) -> serde_json::Value {
    let about = rule.description();
    json!({
        "name": about.name,
        "version": about.version,
        "contract": rule.inspection().contract.to_string(),
        "phases": about.phases,
        "digest": rule.digest().to_string(),
    })
}

/// A component that numo would run, in a line.
pub(crate) fn summary(rule: &Rule) -> String {
    let about = rule.description();
    format!(
        "{} {} speaks contract {} and can be evaluated in {}",
        about.name,
        about.version,
        rule.inspection().contract,
        about.phases.join(", ")
    )
}

/// Shows all there is to know without asking it.
pub(crate) async fn inspect(args: &InspectArgs) -> Result<(), CliError> {
    let (rule, pinned) = args.source.load().await?;
    let signatures = match &pinned {
        None => None,
        Some(pinned) => Some(args.signatures(pinned).await?),
    };
    if args.json || !args.output.is_text() {
        let found = |found: &Found| {
            serde_json::json!({
                "layout": found.layout,
                "signer": found.signer.as_ref().ok(),
                "problem": found.signer.as_ref().err(),
            })
        };
        // null where nobody can have signed: a file.
        let signatures = signatures.map(|signatures| match signatures {
            Ok(all) => all.iter().map(found).collect(),
            Err(problem) => serde_json::json!({"problem": problem}),
        });
        let value = serde_json::json!({
            "image": pinned.map(|pinned| pinned.to_string()),
            "digest": rule.digest(),
            "inspection": rule.inspection(),
            "description": rule.description(),
            "signatures": signatures,
        });
        args.output.print(&value)?;
    } else {
        print!("{}", words(&rule, pinned.as_ref(), signatures.as_ref()));
    }
    Ok(())
}

fn words(rule: &Rule, pinned: Option<&Pinned>, signatures: Option<&Result<Vec<Found>, String>>) -> String {
    let (about, inspection) = (rule.description(), rule.inspection());
    let mut text = String::new();
    let _ = writeln!(text, "{} {}", about.name, about.version);
    let _ = writeln!(text, "{}", about.summary);
    text.push('\n');
    let mut line = |name: &str, value: &str| {
        let _ = writeln!(text, "{name:<11}{value}");
    };
    if let Some(pinned) = pinned {
        line("image", &pinned.to_string());
    }
    line("digest", rule.digest());
    line("size", &format!("{} bytes", inspection.size));
    line("contract", &inspection.contract.to_string());
    line("phases", &about.phases.join(", "));
    for import in &inspection.imports {
        let functions = import.functions.join(", ");
        line(
            "imports",
            &format!(
                "{}/{}@{} {functions}",
                import.package, import.name, import.version
            ),
        );
    }
    for want in &about.wants {
        let optional = if want.optional { " (optional)" } else { "" };
        line(
            "wants",
            &format!("{} {}{optional}: {}", want.capability, want.target, want.purpose),
        );
    }
    match signatures {
        None => {}
        Some(Err(problem)) => line("signature", problem),
        Some(Ok(signatures)) if signatures.is_empty() => line("signature", "none"),
        Some(Ok(signatures)) => {
            for found in signatures {
                let who = match &found.signer {
                    Ok(signer) => format!("by {signer}"),
                    Err(why) => why.clone(),
                };
                line("signature", &format!("{}, {who}", found.layout));
            }
        }
    }
    text
}
