//! The shape of numo's own code, read from its source: sizes of files and functions, panics, imports between the files of
//! a crate and the cycles they form, and predicates that write.
//!
//! Code under `#[cfg(test)]` counts nowhere: neither its lines, nor its functions, nor its imports.

mod function;
mod graph;
mod module;
mod resolve;
mod scan;
pub mod table;

pub use function::{Function, MAX_LINES};
pub use graph::{Graph, Import};

use anyhow::{Context, Result};
use std::path::{Path, PathBuf};

/// One crate as it stands in the source.
#[derive(Debug)]
pub struct Crate {
    /// Its folder, without the path to it: `core`.
    pub name: String,
    /// Its files, in the order in which modules declare them.
    pub files: Vec<File>,
    /// Its functions that have a body.
    pub functions: Vec<Function>,
    /// How many places panic: `unwrap`, `expect`, `panic!`, `todo!`, `unreachable!`, `unimplemented!`.
    pub panics: usize,
    /// Which file imports which, by their numbers in `files`.
    pub graph: Graph,
}

/// One file of a crate.
#[derive(Debug)]
pub struct File {
    /// Its path from the crate's `src`.
    pub path: PathBuf,
    /// Its lines without those of tests.
    pub lines: usize,
}

impl Crate {
    /// Reads the crate in `folder`: `src/lib.rs` and `src/main.rs`, and all that they declare.
    pub fn read(folder: &Path) -> Result<Self> {
        let name = folder
            .file_name()
            .context("the folder of a crate has a name")?
            .to_string_lossy()
            .into_owned();
        let source = folder.join("src");
        let roots: Vec<PathBuf> = ["lib.rs", "main.rs"]
            .iter()
            .map(|root| source.join(root))
            .collect();
        let mut read = module::Source::default();
        for root in roots.iter().filter(|root| root.is_file()) {
            read.read_root(root)
                .with_context(|| format!("reading the crate {name}"))?;
        }
        anyhow::ensure!(
            !read.files.is_empty(),
            "{} holds no lib.rs and no main.rs",
            source.display()
        );
        let graph = resolve::graph(&read);
        let files = read
            .files
            .into_iter()
            .map(|(path, lines)| File {
                path: path.strip_prefix(&source).unwrap_or(&path).to_owned(),
                lines,
            })
            .collect();
        Ok(Self {
            name,
            files,
            functions: read.functions,
            panics: read.panics,
            graph,
        })
    }

    /// The path of a file from the crate's folder, as compilers print it.
    pub fn place(&self, file: usize, line: usize) -> String {
        format!("{}/src/{}:{line}", self.name, self.files[file].path.display())
    }

    /// Import cycles: each the paths of its files in alphabetical order, the largest first.
    pub fn cycles(&self) -> Vec<Vec<String>> {
        let path = |file: &usize| self.files[*file].path.display().to_string();
        let mut cycles: Vec<Vec<String>> = self
            .graph
            .cycles()
            .iter()
            .map(|cycle| {
                let mut paths: Vec<String> = cycle.iter().map(path).collect();
                paths.sort();
                paths
            })
            .collect();
        cycles.sort_by(|a, b| b.len().cmp(&a.len()).then_with(|| a.cmp(b)));
        cycles
    }

    /// The imports that hold cycles together, one a line: `from:line -> to: name`.
    pub fn imports_in_cycles(&self) -> Vec<String> {
        let mut lines = Vec::new();
        for cycle in self.graph.cycles() {
            for import in self.graph.within(&cycle) {
                let to = self.files[import.to].path.display();
                let from = self.place(import.from, import.line);
                lines.push(format!("{from} -> {to}: {}", import.name));
            }
        }
        lines
    }

    /// Functions whose names promise an answer (`is_`, `has_`, `can_`, `holds_`) and that can write through `&mut`.
    pub fn writing_predicates(&self) -> impl Iterator<Item = &Function> {
        self.functions
            .iter()
            .filter(|function| function.is_writing_predicate())
    }
}
