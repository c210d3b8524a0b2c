//! What numo is made of, as CycloneDX 1.5 in JSON, and the licences of it all as text.

use std::{collections::BTreeMap, fmt::Write as _, fs};

use anyhow::Result;
use numo_plugin::oci::Digest;
use serde_json::{Value, json};

use super::{
    Facts,
    crates::{Crate, Crates},
};

/// How the names of files begin that hold a licence or what must be passed on with it.
const LEGAL: [&str; 6] = [
    "license",
    "licence",
    "copying",
    "notice",
    "copyright",
    "unlicense",
];

fn purl(one: &Crate) -> String {
    format!("pkg:cargo/{}@{}", one.name, one.version.replace('+', "%2B"))
}

/// The bill of materials of a program or of a set of them.
pub fn bill(facts: &Facts, name: &str, description: &str, crates: &Crates) -> Result<Value> {
    let components: Vec<Value> = crates.values().map(component).collect();
    let mut dependencies: Vec<Value> = crates
        .values()
        .map(|one| {
            let needs: Vec<String> = one
                .needs
                .iter()
                .filter_map(|key| crates.get(key))
                .map(purl)
                .collect();
            json!({"ref": purl(one), "dependsOn": needs})
        })
        .collect();
    let ours: Vec<String> = crates.values().filter(|one| !one.is_foreign).map(purl).collect();
    let root = format!("{name}@{}", facts.version);
    dependencies.push(json!({"ref": root, "dependsOn": ours}));
    let mut bill = json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {
            "timestamp": jiff::Timestamp::from_second(facts.when)?.to_string(),
            "tools": {"components": [{"type": "application", "name": "cargo xtask release", "version": facts.version}]},
            "supplier": {"name": facts.publisher.get("organisation"), "url": [facts.publisher.get("website")]},
            "component": {
                "type": "application", "bom-ref": root, "name": name, "version": facts.version, "description": description,
                "licenses": [{"expression": "Apache-2.0"}],
                "externalReferences": [{"type": "vcs", "url": facts.publisher.get("source")}],
            },
        },
        "components": components,
        "dependencies": dependencies,
    });
    bill["serialNumber"] = json!(serial(&bill));
    Ok(bill)
}

fn component(one: &Crate) -> Value {
    let mut component = json!({
        "type": "library", "bom-ref": purl(one), "name": one.name, "version": one.version, "purl": purl(one),
    });
    if let Some(license) = &one.license {
        component["licenses"] = json!([{"expression": license}]);
    }
    if let Some(checksum) = &one.checksum {
        component["hashes"] = json!([{"alg": "SHA-256", "content": checksum}]);
    }
    if let Some(repository) = &one.repository {
        component["externalReferences"] = json!([{"type": "vcs", "url": repository}]);
    }
    component
}

/// A UUID (version 8, RFC 9562) of what is in it: equal bills have an equal one.
fn serial(bill: &Value) -> String {
    let mut hex: Vec<char> = Digest::of(bill.to_string().as_bytes())
        .hex()
        .chars()
        .take(32)
        .collect();
    for (at, digit) in [(12, '8'), (16, '8')] {
        if let Some(place) = hex.get_mut(at) {
            *place = digit;
        }
    }
    let part = |from: usize, to: usize| hex.iter().skip(from).take(to - from).collect::<String>();
    format!(
        "urn:uuid:{}-{}-{}-{}-{}",
        part(0, 8),
        part(8, 12),
        part(12, 16),
        part(16, 20),
        part(20, 32)
    )
}

/// The licences of others' code that is in the programs, each text once, with the crates that it is of.
pub fn licences(crates: &Crates) -> Result<String> {
    let mut texts: BTreeMap<String, (String, Vec<String>)> = BTreeMap::new();
    let mut page = String::from(
        "numo is licensed under the Apache License 2.0. Its programs hold the code of others, each crate with its licence. A crate\n\
         that brings no text of its own names its authors instead; the text of its licence stands below, as others bring it.\n\n",
    );
    for one in crates.values().filter(|one| one.is_foreign) {
        let license = one.license.as_deref().unwrap_or("see the text");
        let repository = one.repository.as_deref().unwrap_or("no repository named");
        let _ = writeln!(page, "{} {}: {license} ({repository})", one.name, one.version);
        let found = legal(one)?;
        if found.is_empty() {
            let authors = if one.authors.is_empty() {
                "its authors".to_owned()
            } else {
                one.authors.join(", ")
            };
            let _ = writeln!(page, "  by {authors}");
        }
        for text in found {
            let digest = Digest::of(text.as_bytes()).to_string();
            let entry = texts.entry(digest).or_insert_with(|| (text, Vec::new()));
            entry.1.push(format!("{} {}", one.name, one.version));
        }
    }
    let mut all: Vec<&(String, Vec<String>)> = texts.values().collect();
    all.sort_by(|one, other| one.1.cmp(&other.1));
    for (text, of) in all {
        let line = "=".repeat(80);
        let _ = write!(
            page,
            "\n{line}\n{}\n{line}\n\n{}\n",
            of.join(", "),
            text.trim_end()
        );
    }
    Ok(page)
}

/// The texts that a crate brings.
fn legal(one: &Crate) -> Result<Vec<String>> {
    let mut paths: Vec<_> = fs::read_dir(&one.folder)?
        .map(|entry| Ok(entry?.path()))
        .collect::<Result<_>>()?;
    paths.sort();
    let is_legal = |path: &std::path::Path| {
        let name = path
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .to_lowercase();
        path.is_file() && LEGAL.iter().any(|word| name.starts_with(word))
    };
    let texts = paths.into_iter().filter(|path| is_legal(path));
    texts
        .map(|path| Ok(String::from_utf8_lossy(&fs::read(path)?).replace("\r\n", "\n")))
        .collect()
}
