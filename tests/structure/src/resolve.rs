//! Finds the files that a path needs: the one that defines what it names, and each whose imports or re-exports it passes
//! through. The files of modules that only declare the next one on the way (`crate`, `super`) are not needed.

use crate::{
    graph::{Graph, Import},
    module::Source,
    scan::Mention,
};
use std::collections::BTreeSet;

/// Re-exports of re-exports are followed so far.
const MAX_DEPTH: usize = 16;

/// The imports between the files of a crate.
pub fn graph(source: &Source) -> Graph {
    let mut graph = Graph::default();
    for (number, module) in source.modules.iter().enumerate() {
        let mut add = |mention: &Mention, to: usize| {
            graph.add(Import {
                from: module.file,
                to,
                line: mention.line,
                name: mention.segments.join("::"),
            });
        };
        for mention in module.imports.values().flatten().chain(&module.mentions) {
            let found = resolve(source, number, &mention.segments, MAX_DEPTH);
            found.files.iter().for_each(|&to| add(mention, to));
        }
        for mention in &module.globs {
            let found = resolve(source, number, &mention.segments, MAX_DEPTH);
            let whole = found.module.map(|module| source.modules[module].file);
            found
                .files
                .iter()
                .copied()
                .chain(whole)
                .for_each(|to| add(mention, to));
        }
    }
    graph
}

/// What a path names: a module, a definition, or both, as `decide` may be a module and a function.
#[derive(Debug, Default)]
struct Found {
    module: Option<usize>,
    /// The files it needs.
    files: BTreeSet<usize>,
}

/// Resolves a path as it is written in `module`; nothing for what lies in other crates.
fn resolve(source: &Source, module: usize, path: &[String], depth: usize) -> Found {
    let Some((first, rest)) = path.split_first() else {
        return Found::default();
    };
    let start = match first.as_str() {
        "crate" => Some(root(source, module)),
        "self" => Some(module),
        "super" => source.modules[module].parent,
        _ => return walk(source, module, path, depth),
    };
    match (start, rest) {
        (None, _) => Found::default(),
        (Some(start), []) => Found {
            module: Some(start),
            files: BTreeSet::new(),
        },
        (Some(start), rest) if rest[0] == "super" => resolve(source, start, rest, depth),
        (Some(start), rest) => walk(source, start, rest, depth),
    }
}

/// Follows names from a module on.
fn walk(source: &Source, module: usize, path: &[String], depth: usize) -> Found {
    let Some((first, rest)) = path.split_first() else {
        return Found::default();
    };
    let found = named(source, module, first, depth);
    match found.module {
        Some(below) if !rest.is_empty() => {
            let further = walk(source, below, rest, depth);
            if further.module.is_none() && further.files.is_empty() {
                Found {
                    module: None,
                    ..found
                }
            } else {
                further
            }
        }
        // The rest belongs to the definition: a variant, a function of a type.
        _ if !rest.is_empty() => Found {
            module: None,
            ..found
        },
        _ => found,
    }
}

/// What one name stands for in a module.
fn named(source: &Source, number: usize, name: &str, depth: usize) -> Found {
    let module = &source.modules[number];
    let mut found = Found {
        module: module.children.get(name).copied(),
        files: BTreeSet::new(),
    };
    if module.items.contains(name) {
        found.files.insert(module.file);
    }
    // A function of a module's own name, which a re-export may put beside it, is not what the path means.
    let Some(depth) = depth.checked_sub(1).filter(|_| found.module.is_none()) else {
        return found;
    };
    let imports = module.imports.get(name).into_iter().flatten();
    for mention in imports.filter(|mention| mention.segments.as_slice() != [name]) {
        let other = resolve(source, number, &mention.segments, depth);
        if other.module.is_some() || !other.files.is_empty() {
            found.files.insert(module.file);
        }
        found.module = found.module.or(other.module);
        found.files.extend(other.files);
    }
    // What is another crate's is defined nowhere here, and whoever takes it from this module needs this file.
    if found.module.is_none() && module.published.contains(name) {
        found.files.insert(module.file);
    }
    if found.module.is_none() && found.files.is_empty() {
        for mention in &module.globs {
            let of = resolve(source, number, &mention.segments, depth);
            if let Some(of) = of.module.filter(|of| *of != number) {
                let other = named(source, of, name, depth);
                found.module = found.module.or(other.module);
                found.files.extend(other.files);
            }
        }
    }
    found
}

fn root(source: &Source, mut module: usize) -> usize {
    while let Some(parent) = source.modules[module].parent {
        module = parent;
    }
    module
}
