//! What the component `node-version` has, as templates: only where `machines.provider` names one. Its patches become conditions in the
//! templates of what they patch. What a provider that is a component has beside it is written by hand (`machine_provider.yaml`): in an overlay it
//! is the user's.

use anyhow::{Context as _, Result, ensure};
use std::fmt::Write as _;

use super::{component, definition, once, only_if};
use crate::read;

/// The component.
const FOLDER: &str = "deploy/kustomize/components/node-version";
/// Whether machines are replaced.
const ASKED: &str = r#"include "numo.machines" ."#;
/// What the policy of Nodes has without the component, and what comes after it.
const PLAIN: [&str; 2] = [
    "    - expression: >-\n        variables.annotations.all(key, ",
    "    - expression: >-\n        dyn(object.spec).all(key, ",
];
/// Variables of the policy that an administrator lists, as the component and as the chart have them.
const LISTED: [(&str, &str); 2] = [
    ("listedAnnotations", "copiedAnnotations"),
    ("listedTaints", "copiedTaints"),
];

/// The templates by their names, without the definitions.
pub(super) fn templates() -> Result<[(&'static str, String); 2]> {
    let rights = [
        component("node-version/cluster_role")?,
        component("node-version/cluster_role_binding")?,
    ];
    Ok([
        ("node_version", only_if(ASKED, &rights.join("---\n"))),
        (
            "node_version_sim",
            only_if(
                r#"eq (include "numo.machineProvider" .) "sim""#,
                &component("node-version-sim/role")?,
            ),
        ),
    ])
}

/// The definitions by their names. The operator of the reference has them, too.
pub(super) fn definitions() -> Result<Vec<(String, String)>> {
    let list = read(&format!("{FOLDER}/kustomization.yaml"))?;
    let names = list.lines().filter_map(|line| line.trim().strip_prefix("- "));
    let names: Vec<&str> = names
        .filter(|name| name.starts_with("update.edgeless.systems_"))
        .collect();
    ensure!(
        names.len() == 5,
        "{FOLDER}: found {names:?}, wanted five definitions"
    );
    let of = |file: &&str| {
        definition(FOLDER, file, |object| {
            format!(
                "and ({ASKED}) (include \"numo.shared\" (list (dig \"nodeVersions\" \"auto\" .Values.crds) {object}))"
            )
        })
    };
    names.iter().map(of).collect()
}

/// A role of people, with the rules that a patch of the component adds to it. It ends where the next object of its file begins.
pub(super) fn role(text: &str, name: &str, file: &str) -> Result<String> {
    let begin = text.find(&format!("kind: ClusterRole\nmetadata:\n  name: {name}\n"));
    let begin = begin.with_context(|| format!("no ClusterRole {name}"))?;
    let end = text[begin..].find("\n---\n").map(|at| begin + at + 1);
    let (role, others) = text.split_at(end.unwrap_or(text.len()));
    let mut rules = String::new();
    for (path, rule) in patch(file)? {
        ensure!(
            path == "/rules/-",
            "{FOLDER}/{file}.yaml: found {path}, wanted /rules/-"
        );
        rules += &item(&rule, 2)?;
    }
    ensure!(
        !rules.is_empty(),
        "{FOLDER}/{file}.yaml: found no rule, wanted one"
    );
    Ok(format!("{role}{}{others}", only_if(ASKED, &rules)))
}

/// The policies, where that of Nodes has what the component patches.
pub(super) fn policies(text: &str) -> Result<String> {
    let operations = patch("admission_policy")?;
    let paths: Vec<&str> = operations.iter().map(|(path, _)| path.as_str()).collect();
    let wanted = [
        "/spec/variables/1",
        "/spec/variables/2",
        "/spec/variables/-",
        "/spec/variables/-",
        "/spec/validations/1",
        "/spec/validations/2",
    ];
    ensure!(
        paths == wanted,
        "{FOLDER}/admission_policy.yaml: found {paths:?}, wanted {wanted:?}"
    );
    let items: Vec<String> = operations
        .iter()
        .map(|(_, value)| item(value, 4))
        .collect::<Result<_>>()?;
    let [one, two, three, four, annotations, taints] = items.as_slice() else {
        anyhow::bail!("six operations");
    };
    let mut listed = format!("{one}{two}");
    for (name, of) in LISTED {
        listed = once(
            &listed,
            &format!("- name: {name}\n      expression: \"[]\"\n"),
            &format!(
                "- name: {name}\n      expression: {{{{ (include \"numo.machineValues\" . | fromYaml).{of} | default list | toJson | quote }}}}\n"
            ),
        )?;
    }
    let text = after(text, "- name: listed\n", &only_if(ASKED, &listed))?;
    let text = after(
        &text,
        "- name: oldTaints\n",
        &only_if(ASKED, &format!("{three}{four}")),
    )?;
    let (begin, end) = (text.find(PLAIN[0]), text.find(PLAIN[1]));
    let (begin, end) = begin
        .zip(end)
        .context("the checks of annotations, of taints and of fields")?;
    let (before, after) = text.split_at(end);
    let (before, plain) = before
        .split_at_checked(begin)
        .context("annotations before fields")?;
    ensure!(
        plain.matches("- expression: ").count() == 2,
        "wanted the checks of annotations and of taints, found:\n{plain}"
    );
    Ok(format!(
        "{before}{{{{- if {ASKED} }}}}\n{annotations}{taints}{{{{- else }}}}\n{plain}{{{{- end }}}}\n{after}"
    ))
}

/// The text with more after the variable of the policy of Nodes that begins so; its expression is one line.
fn after(text: &str, name: &str, more: &str) -> Result<String> {
    let begin = text.find(name).with_context(|| format!("no {name}"))?;
    let mut lines = text[begin..].match_indices('\n').map(|(at, _)| at);
    let end = lines
        .nth(1)
        .with_context(|| format!("{name} has no expression"))?;
    let (before, rest) = text.split_at(begin + end + 1);
    Ok(format!("{before}{more}{rest}"))
}

/// The operations of a patch of the component: path, and the lines of the value.
fn patch(name: &str) -> Result<Vec<(String, String)>> {
    let text = read(&format!("{FOLDER}/{name}.yaml"))?;
    let mut operations = Vec::new();
    for operation in text.split("- op: ").skip(1) {
        let (head, value) = operation
            .split_once("  value:\n")
            .context("an operation has a value")?;
        let (_, path) = head.split_once("  path: ").context("an operation has a path")?;
        operations.push((path.trim().to_owned(), value.to_owned()));
    }
    Ok(operations)
}

/// The value of an operation, whose lines stand at four blanks, as an item of a list at so many.
fn item(value: &str, indent: usize) -> Result<String> {
    let (space, mut is_first) = (" ".repeat(indent), true);
    let mut out = String::new();
    for line in value.lines() {
        let bare = line
            .strip_prefix("    ")
            .with_context(|| format!("wanted a line at four blanks: {line}"))?;
        let lead = match (bare.starts_with('#'), is_first) {
            (true, true) => "",
            (false, true) => "- ",
            (_, false) => "  ",
        };
        is_first = is_first && bare.starts_with('#');
        let _ = writeln!(out, "{space}{lead}{bare}");
    }
    Ok(out)
}
