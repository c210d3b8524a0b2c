//! `numo plugin check` and `inspect`: a component in words.

use super::{output::OutputArgs, source::SourceArgs};
use clap::Args;
use numo_cli::{CliError, files::read_text};
use numo_core::rules::clip;
use numo_plugin::{
    Component,
    description::Want,
    oci::Pinned,
    provider,
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
    let (component, _) = args.source.load().await?;
    args.output.say(&summary(&component), &summary_json(&component))
}

/// The same for programs.
pub(crate) fn summary_json(component: &Component) -> serde_json::Value {
    let inspection = component.inspection();
    let mut summary = json!({
        "name": component.name(),
        "version": component.version(),
        "world": inspection.world,
        "contract": inspection.contract.to_string(),
        "digest": component.digest(),
    });
    match component {
        Component::Rule(rule) => summary["phases"] = json!(rule.description().phases),
        Component::Provider(provider) => summary["hosts"] = json!(provider.description().hosts),
    }
    summary
}

/// A component that numo would run, in a line.
pub(crate) fn summary(component: &Component) -> String {
    let does = match component {
        Component::Rule(rule) => format!("can be evaluated in {}", rule.description().phases.join(", ")),
        Component::Provider(_) => "makes and deletes machines".to_owned(),
    };
    format!(
        "{} {} speaks contract {} and {does}",
        component.name(),
        component.version(),
        component.inspection().contract,
    )
}

/// Shows all there is to know without asking it.
pub(crate) async fn inspect(args: &InspectArgs) -> Result<(), CliError> {
    let (component, pinned) = args.source.load().await?;
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
            "digest": component.digest(),
            "inspection": component.inspection(),
            "description": description(&component),
            "signatures": signatures,
        });
        args.output.print(&value)?;
    } else {
        print!("{}", words(&component, pinned.as_ref(), signatures.as_ref()));
    }
    Ok(())
}

/// What it says of itself.
fn description(component: &Component) -> serde_json::Value {
    match component {
        Component::Rule(rule) => json!(rule.description()),
        Component::Provider(provider) => json!(provider.description()),
    }
}

/// A name and what is to be told below it.
type Line = (&'static str, String);

fn words(
    component: &Component,
    pinned: Option<&Pinned>,
    signatures: Option<&Result<Vec<Found>, String>>,
) -> String {
    let inspection = component.inspection();
    let mut lines: Vec<Line> = Vec::new();
    lines.extend(pinned.map(|pinned| ("image", pinned.to_string())));
    lines.push(("digest", component.digest().to_owned()));
    lines.push(("size", format!("{} bytes", inspection.size)));
    lines.push(("contract", inspection.contract.to_string()));
    lines.push(match component {
        Component::Rule(rule) => ("phases", rule.description().phases.join(", ")),
        Component::Provider(provider) => ("hosts", hosts(provider.description())),
    });
    for import in &inspection.imports {
        let functions = import.functions.join(", ");
        let words = format!(
            "{}/{}@{} {functions}",
            import.package, import.name, import.version
        );
        lines.push(("imports", words));
    }
    if let Component::Rule(rule) = component {
        lines.extend(rule.description().wants.iter().map(want));
    }
    lines.extend(signatures.into_iter().flat_map(signed));
    let mut text = format!(
        "{} {}\n{}\n\n",
        component.name(),
        component.version(),
        component.summary()
    );
    for (name, value) in lines {
        let _ = writeln!(text, "{name:<11}{value}");
    }
    text
}

/// The servers that a provider calls; one that only writes objects calls none.
fn hosts(about: &provider::Description) -> String {
    if about.hosts.is_empty() {
        return "none".to_owned();
    }
    about.hosts.join(", ")
}

fn want(want: &Want) -> Line {
    let optional = if want.optional { " (optional)" } else { "" };
    let words = format!("{} {}{optional}: {}", want.capability, want.target, want.purpose);
    ("wants", words)
}

fn signed(signatures: &Result<Vec<Found>, String>) -> Vec<Line> {
    let found = match signatures {
        Err(problem) => return vec![("signature", problem.clone())],
        Ok(found) if found.is_empty() => return vec![("signature", "none".to_owned())],
        Ok(found) => found,
    };
    let line = |found: &Found| {
        let who = match &found.signer {
            Ok(signer) => format!("by {signer}"),
            Err(why) => why.clone(),
        };
        ("signature", format!("{}, {who}", found.layout))
    };
    found.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_provider_is_shown_with_the_servers_that_it_calls() {
        let calls = |all: &[&str]| provider::Description {
            name: "gcp".to_owned(),
            version: "0.1.0".to_owned(),
            summary: "managed instance groups".to_owned(),
            hosts: all.iter().map(|host| (*host).to_owned()).collect(),
        };
        assert_eq!(hosts(&calls(&[])), "none");
        assert_eq!(
            hosts(&calls(&["a.example:443", "b.example:443"])),
            "a.example:443, b.example:443"
        );
        assert_eq!(
            json!(calls(&["a.example:443"])),
            json!({"name": "gcp", "version": "0.1.0", "summary": "managed instance groups", "hosts": ["a.example:443"]})
        );
    }

    #[test]
    fn a_want_says_whether_the_rule_can_do_without_it() {
        let wanted = |optional: bool| Want {
            capability: "numo:host/http".to_owned(),
            target: "status.example.com:443".to_owned(),
            purpose: "asks".to_owned(),
            optional,
        };
        let line = |words: &str| ("wants", words.to_owned());
        assert_eq!(
            want(&wanted(false)),
            line("numo:host/http status.example.com:443: asks")
        );
        assert_eq!(
            want(&wanted(true)),
            line("numo:host/http status.example.com:443 (optional): asks")
        );
    }

    #[test]
    fn no_signature_is_said_and_so_is_one_by_nobody_known() {
        let line = |words: &str| ("signature", words.to_owned());
        assert_eq!(signed(&Ok(Vec::new())), [line("none")]);
        assert_eq!(
            signed(&Err("the registry is away".to_owned())),
            [line("the registry is away")]
        );
        let found = |signer: Result<&str, &str>| Found {
            layout: "bundle",
            signer: signer.map(str::to_owned).map_err(str::to_owned),
        };
        let both = Ok(vec![found(Ok("key a")), found(Err("no key given"))]);
        assert_eq!(
            signed(&both),
            [line("bundle, by key a"), line("bundle, no key given")]
        );
    }
}
