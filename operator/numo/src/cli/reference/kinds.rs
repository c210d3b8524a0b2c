//! Pages of the kinds: a manifest with every field, what each field is, what the API server refuses.
//!
//! Made of the definitions alone. What differs from the operators that numo replaces is told in the pages of each owner.

use super::{
    lines::{MADE, wrapped},
    schema,
};
use serde_json::Value;
use std::fmt::Write as _;

/// One served version of a kind.
#[derive(Debug)]
pub(super) struct Kind {
    /// Name of its page, without a folder.
    pub(super) page: String,
    name: String,
    group: String,
    version: String,
    plural: String,
    short: Vec<String>,
    scope: String,
    schema: Value,
    /// Whether another group serves a kind of this name: kubectl asks one of them, unless it is told which.
    is_shared: bool,
}

/// Every kind, in the order in which the definitions are installed. Those of machines that are replaced come last: they are installed where
/// they are asked for.
pub(super) fn all() -> Vec<Kind> {
    let mut found: Vec<Kind> = Vec::new();
    let definitions = numo_api::crds::all().into_iter();
    for definition in definitions.chain(numo_api::crds::machines()) {
        let value = serde_json::to_value(&definition).unwrap_or_default();
        let text = |pointer: &str| {
            let text = value.pointer(pointer).and_then(Value::as_str);
            text.unwrap_or_default().to_owned()
        };
        let name = text("/spec/names/kind");
        let group = text("/spec/group");
        let stem = name.to_lowercase();
        // Two groups serve NodeMaintenance: the second is named after its group.
        let page = if found.iter().any(|kind| kind.name == name) {
            let of = group.rsplit('.').nth(1).unwrap_or_default();
            format!("{stem}-{of}.md")
        } else {
            format!("{stem}.md")
        };
        let version = value.pointer("/spec/versions/0").unwrap_or(&Value::Null);
        found.push(Kind {
            page,
            plural: text("/spec/names/plural"),
            short: schema::texts(value.pointer("/spec/names/shortNames")),
            scope: text("/spec/scope"),
            version: schema::text(version, "name").to_owned(),
            schema: version
                .pointer("/schema/openAPIV3Schema")
                .cloned()
                .unwrap_or_default(),
            is_shared: false,
            name,
            group,
        });
    }
    let names: Vec<String> = found.iter().map(|kind| kind.name.clone()).collect();
    for kind in &mut found {
        kind.is_shared = names.iter().filter(|name| **name == kind.name).count() > 1;
    }
    found
}

/// The page that lists the kinds.
pub(super) fn index(kinds: &[Kind]) -> String {
    let mut page = format!(
        "{MADE}\n# Kinds\n\nEach page has a manifest with every field, what each field is, its bounds and default, and what the \
         API server refuses. In a terminal: `kubectl explain mutexrunconfig.spec`. What `kubectl get` shows: [the kinds](../api.md).\n\n\
         Kinds of the group `update.edgeless.systems` are installed where [machines are replaced](../node-versions.md).\n\n\
         | kind | group and version | short name |\n|---|---|---|\n"
    );
    for kind in kinds {
        let _ = std::writeln!(
            page,
            "| [{}](kinds/{}) | `{}/{}` | {} |",
            kind.name,
            kind.page,
            kind.group,
            kind.version,
            codes(&kind.short)
        );
    }
    page
}

fn codes(all: &[String]) -> String {
    let all: Vec<String> = all.iter().map(|one| format!("`{one}`")).collect();
    all.join(", ")
}

/// The names by which kubectl gets objects of this kind and of no other.
fn got(kind: &Kind) -> Vec<String> {
    let plural = if kind.is_shared {
        format!("{}.{}", kind.plural, kind.group)
    } else {
        kind.plural.clone()
    };
    let short = kind.short.iter().cloned();
    [plural].into_iter().chain(short).collect()
}

/// The page of a kind.
pub(super) fn page(kind: &Kind) -> String {
    let mut page = format!("{MADE}\n# {}\n\n", kind.name);
    let _ = std::writeln!(
        page,
        "`{}/{}`, {}; `kubectl get {}`.\n",
        kind.group,
        kind.version,
        kind.scope.to_lowercase(),
        got(kind).join("`, or `kubectl get ")
    );
    let description = schema::described(&kind.schema);
    if !description.is_empty() {
        page += &wrapped(&description, "", "");
        page.push('\n');
    }
    page += "## Every field\n\nA value that is shown is the default; `<string>` and the like stand for a value of yours. All fields are \
             shown,\nalso those that exclude each other.\n\n";
    page += "```yaml\n";
    let _ = std::writeln!(
        page,
        "apiVersion: {}/{}\nkind: {}",
        kind.group,
        kind.version,
        kind.name
    );
    page += "metadata: {name: …}\n";
    schema::yaml(&mut page, &kind.schema, "spec");
    page += "```\n";
    for part in ["spec", "status"] {
        part_page(&mut page, kind, part);
    }
    refusals(&mut page, &kind.schema);
    page
}

fn part_page(page: &mut String, kind: &Kind, part: &str) {
    let field = kind.schema.pointer(&format!("/properties/{part}"));
    // A JoiningNode has a status without fields.
    let Some(field) = field.filter(|field| schema::has_children(field)) else {
        return;
    };
    let _ = std::writeln!(page, "\n## {part}\n");
    if part == "status" {
        *page += "What numo writes. Do not write it by hand.\n\n";
    }
    let mut plain = String::new();
    let mut sections = String::new();
    for (name, child, is_required) in schema::children(field) {
        let path = format!("{part}.{name}");
        if schema::has_children(child) {
            let _ = std::writeln!(sections, "\n### {path}\n");
            sections += &entry(&path, child, is_required);
            below(&mut sections, &path, child, 1);
        } else {
            plain += &entry(&path, child, is_required);
        }
    }
    *page += &plain;
    *page += if plain.is_empty() {
        sections.trim_start_matches('\n')
    } else {
        &sections
    };
}

/// The fields of a field, as far down as they are shown.
fn below(page: &mut String, path: &str, field: &Value, depth: usize) {
    if depth >= schema::DEEPEST {
        return;
    }
    let of = schema::inner(field);
    let path = if schema::is_list(field) {
        format!("{path}[]")
    } else {
        path.to_owned()
    };
    for (name, child, is_required) in schema::children(of) {
        let path = format!("{path}.{name}");
        *page += &entry(&path, child, is_required);
        below(page, &path, child, depth + 1);
    }
}

/// One field: a line of a list, with an anchor.
fn entry(path: &str, field: &Value, is_required: bool) -> String {
    let mut facts = vec![schema::kind_of(field)];
    facts.extend(schema::bounds(field));
    if is_required {
        facts.push("required".to_owned());
    }
    if let Some(default) = field.get("default") {
        facts.push(format!("default `{default}`"));
    }
    let anchor = path.replace("[]", "");
    let description = schema::without_default(&schema::described(field), field.get("default"));
    let text = format!("**`{path}`** ({}). {description}", facts.join(", "));
    wrapped(&text, &format!("- <a id=\"{anchor}\"></a>"), "  ")
}

fn refusals(page: &mut String, schema: &Value) {
    let found = schema::refusals(schema);
    if found.is_empty() {
        return;
    }
    *page += "\n## What is refused\n\nBeside types and bounds. The API server names the field and says:\n\n";
    for (path, message) in found {
        let place = if path.is_empty() {
            "the object".to_owned()
        } else {
            format!("`{path}`")
        };
        *page += &wrapped(&format!("{place}: {message}"), "- ", "  ");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    /// Paths of a manifest; lists are their first item.
    fn paths(value: &Value, path: &str, found: &mut BTreeSet<String>) {
        match value {
            Value::Object(fields) => {
                for (name, field) in fields {
                    let path = format!("{path}.{name}");
                    paths(field, &path, found);
                    found.insert(path);
                }
            }
            Value::Array(items) => items.iter().for_each(|item| paths(item, path, found)),
            _ => {}
        }
    }

    fn of_schema(field: &Value, path: &str, depth: usize, found: &mut BTreeSet<String>) {
        for (name, child, _) in schema::children(schema::inner(field)) {
            let path = format!("{path}.{name}");
            if depth < schema::DEEPEST {
                of_schema(child, &path, depth + 1, found);
            }
            found.insert(path);
        }
    }

    #[test]
    fn the_manifest_of_a_page_is_yaml_and_has_every_field() {
        for kind in all() {
            let page = page(&kind);
            let block = page.split("```").nth(1).unwrap_or_default();
            let text = block.trim_start_matches("yaml\n");
            let value: Value =
                serde_saphyr::from_str(text).unwrap_or_else(|error| panic!("{}: {error}\n{text}", kind.page));
            let (mut found, mut wanted) = (BTreeSet::new(), BTreeSet::new());
            paths(&value["spec"], "", &mut found);
            of_schema(&kind.schema["properties"]["spec"], "", 1, &mut wanted);
            assert!(!wanted.is_empty(), "{}", kind.page);
            assert_eq!(found, wanted, "{}", kind.page);
        }
    }

    /// By the name alone kubectl asks the older group.
    #[test]
    fn of_a_kind_of_two_groups_the_page_says_which_is_meant() {
        let line = |page: &str| {
            let all = all();
            let kind = all.iter().find(|kind| kind.page == page).unwrap();
            super::page(kind).lines().nth(4).unwrap_or_default().to_owned()
        };
        assert_eq!(
            line("nodemaintenance.md"),
            "`nodemaintenance.medik8s.io/v1beta1`, cluster; `kubectl get nodemaintenances.nodemaintenance.medik8s.io`, or `kubectl get nm`."
        );
        assert_eq!(
            line("nodemaintenance-kubevirt.md"),
            "`nodemaintenance.kubevirt.io/v1beta1`, cluster; `kubectl get nodemaintenances.nodemaintenance.kubevirt.io`."
        );
        assert_eq!(
            line("plan.md"),
            "`upgrade.cattle.io/v1`, namespaced; `kubectl get plans`."
        );
    }

    #[test]
    fn every_field_has_one_anchor() {
        for kind in all() {
            let page = page(&kind);
            let anchors: Vec<&str> = page
                .split("<a id=\"")
                .skip(1)
                .filter_map(|rest| rest.split('"').next())
                .collect();
            let once: BTreeSet<&str> = anchors.iter().copied().collect();
            assert_eq!(once.len(), anchors.len(), "{}", kind.page);
            assert!(
                anchors.iter().any(|anchor| anchor.starts_with("spec.")),
                "{}",
                kind.page
            );
        }
    }
}
