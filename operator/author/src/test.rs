//! `numo plugin test`: asks a component the cases of a file, in the sandbox and under the limits of the operator.

use super::{
    case::{CaseFile, Prepared, Wanted},
    engine::{engine, load_rule},
    expect::{self, Difference},
    outcome::EvaluationOutcome,
    output::OutputArgs,
};
use clap::Args;
use numo_cli::CliError;
use numo_plugin::{Engine, Rule};
use serde::Serialize;
use serde_json::json;
use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    time::Instant,
};

/// Arguments of `numo plugin test`.
#[derive(Debug, Args)]
pub(crate) struct TestArgs {
    /// Files of cases [default: tests/cases.yaml]
    #[arg(value_name = "CASES.yaml")]
    files: Vec<PathBuf>,
    /// The component, instead of the one that the files name
    #[arg(long, value_name = "FILE")]
    component: Option<PathBuf>,
    /// Only cases whose name contains this
    #[arg(long, value_name = "WORDS")]
    case: Option<String>,
    #[command(flatten)]
    output: OutputArgs,
}

/// What came of one case.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Tried {
    file: String,
    name: String,
    passed: bool,
    milliseconds: f64,
    /// What it said.
    found: EvaluationOutcome,
    differences: Vec<Difference>,
    /// What it asked and the case does not answer.
    unanswered: Vec<String>,
    log: Vec<String>,
}

/// Tries all cases. Fails if one did.
pub(crate) async fn test(args: &TestArgs) -> Result<(), CliError> {
    let usual = [PathBuf::from("tests/cases.yaml")];
    let paths = if args.files.is_empty() {
        &usual[..]
    } else {
        &args.files
    };
    // A file that is wrong is said before anything is asked.
    let files = paths
        .iter()
        .map(|path| Ok((path.as_path(), CaseFile::read(path)?)))
        .collect::<Result<Vec<_>, CliError>>()?;
    let engine = engine()?;
    let (mut rules, mut all) = (BTreeMap::new(), Vec::new());
    for (path, file) in &files {
        let component = args
            .component
            .clone()
            .or_else(|| file.component())
            .ok_or_else(|| {
                let place = path.display();
                CliError::Wrong(format!(
                    "{place}: component: found none, wanted a file here or by --component"
                ))
            })?;
        let rule = loaded(&engine, &mut rules, component).await?;
        try_file(args, path, file, &rule, &mut all).await?;
    }
    let failed = all.iter().filter(|tried: &&Tried| !tried.passed).count();
    let passed = all.len() - failed;
    if args.output.is_text() {
        println!("{passed} passed, {failed} failed");
    } else {
        args.output
            .print(&json!({"passed": passed, "failed": failed, "cases": all}))?;
    }
    match (failed, passed) {
        (0, 0) => Err(CliError::Wrong("no case has such a name".to_owned())),
        (0, _) => Ok(()),
        _ => Err(CliError::Wrong(format!("{failed} of {} cases failed", all.len()))),
    }
}

/// The component of a path, compiled once.
async fn loaded(
    engine: &Engine,
    rules: &mut BTreeMap<PathBuf, Rule>,
    path: PathBuf,
) -> Result<Rule, CliError> {
    if let Some(rule) = rules.get(&path) {
        return Ok(rule.clone());
    }
    let bytes = std::fs::read(&path).map_err(|source| CliError::File {
        path: path.clone(),
        source,
    })?;
    let rule = load_rule(engine, &path.display().to_string(), &bytes).await?;
    rules.insert(path, rule.clone());
    Ok(rule)
}

async fn try_file(
    args: &TestArgs,
    path: &Path,
    file: &CaseFile,
    rule: &Rule,
    all: &mut Vec<Tried>,
) -> Result<(), CliError> {
    let is_asked = |name: &str| args.case.as_ref().is_none_or(|words| name.contains(words));
    let mut prepared = Vec::new();
    for (index, name) in file.names().into_iter().enumerate() {
        if is_asked(name) {
            prepared.push((name, file.prepare(index, rule)?));
        }
    }
    let about = rule.description();
    if args.output.is_text() && !prepared.is_empty() {
        println!(
            "{}: {} {} {}",
            path.display(),
            about.name,
            about.version,
            rule.digest()
        );
    }
    for (name, case) in prepared {
        let tried = try_case(path, name, case, rule).await;
        if args.output.is_text() {
            for line in lines(&tried) {
                println!("{line}");
            }
        }
        all.push(tried);
    }
    Ok(())
}

async fn try_case(path: &Path, name: &str, case: Prepared, rule: &Rule) -> Tried {
    let begin = Instant::now();
    let (outcome, log) = case.trial.ask_aloud(rule).await;
    let milliseconds = begin.elapsed().as_secs_f64() * 1000.0;
    let found = EvaluationOutcome::of(&outcome);
    let differences = match &case.wanted {
        Wanted::Expect(expect) => expect.differences(&found),
        Wanted::Recorded(recording) => expect::from_recorded(&found, &recording.said),
        Wanted::Anything => Vec::new(),
    };
    let unanswered = case.gaps.all();
    Tried {
        file: path.display().to_string(),
        name: name.to_owned(),
        passed: differences.is_empty() && unanswered.is_empty(),
        milliseconds,
        found,
        differences,
        unanswered,
        log,
    }
}

fn lines(tried: &Tried) -> Vec<String> {
    if tried.passed {
        return vec![format!("  ok    {}", tried.name)];
    }
    let mut lines = vec![format!("  FAIL  {}", tried.name)];
    lines.extend(tried.differences.iter().map(|one| format!("          {one}")));
    let unanswered = tried.unanswered.iter();
    lines.extend(unanswered.map(|asked| format!("          asked, and not in the case: {asked}")));
    lines.extend(
        tried
            .found
            .lines()
            .iter()
            .map(|line| format!("          | {line}")),
    );
    lines.extend(tried.log.iter().map(|line| format!("          log {line}")));
    lines
}
