//! Which file imports which, and the cycles of it.

use std::collections::{BTreeMap, BTreeSet};

/// One file names what another defines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Import {
    /// The file that names it.
    pub from: usize,
    /// The file that defines it.
    pub to: usize,
    /// Where it is named.
    pub line: usize,
    /// As it is written there.
    pub name: String,
}

/// The imports between the files of a crate.
#[derive(Clone, Debug, Default)]
pub struct Graph {
    imports: BTreeMap<(usize, usize), Vec<Import>>,
}

impl Graph {
    /// Adds an import. A file that names its own definitions imports nothing.
    pub fn add(&mut self, import: Import) {
        if import.from != import.to {
            let known = self.imports.entry((import.from, import.to)).or_default();
            if !known.contains(&import) {
                known.push(import);
            }
        }
    }

    /// Whether `from` names something of `to`.
    pub fn imports(&self, from: usize, to: usize) -> bool {
        self.imports.contains_key(&(from, to))
    }

    /// The cycles: sets of at least two files in which each reaches each.
    pub fn cycles(&self) -> Vec<BTreeSet<usize>> {
        let mut next: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for &(from, to) in self.imports.keys() {
            next.entry(from).or_default().push(to);
        }
        let reached: BTreeMap<usize, BTreeSet<usize>> =
            next.keys().map(|&file| (file, reached(file, &next))).collect();
        let mut cycles: Vec<BTreeSet<usize>> = Vec::new();
        for (&file, all) in &reached {
            if !all.contains(&file) || cycles.iter().any(|cycle| cycle.contains(&file)) {
                continue;
            }
            let back = |other: &&usize| reached.get(other).is_some_and(|of| of.contains(&file));
            cycles.push(all.iter().filter(back).copied().collect());
        }
        cycles
    }

    /// The imports that stay within a set of files.
    pub fn within<'a>(&'a self, files: &'a BTreeSet<usize>) -> impl Iterator<Item = &'a Import> {
        self.imports
            .iter()
            .filter(|((from, to), _)| files.contains(from) && files.contains(to))
            .flat_map(|(_, imports)| imports)
    }
}

/// All files that one can come to from `file`.
fn reached(file: usize, next: &BTreeMap<usize, Vec<usize>>) -> BTreeSet<usize> {
    let mut all = BTreeSet::new();
    let mut open = vec![file];
    while let Some(file) = open.pop() {
        for &to in next.get(&file).into_iter().flatten() {
            if all.insert(to) {
                open.push(to);
            }
        }
    }
    all
}
