//! Reads the files of a crate, from its root along the modules they declare.

use crate::{
    function::Function,
    scan::{self, Mention},
};
use anyhow::{Context, Result, bail};
use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
};
use syn::{
    Attribute, Item, Macro, UseTree,
    spanned::Spanned,
    visit::{self, Visit},
};

/// A module: a file, or a part of one.
#[derive(Debug, Default)]
pub struct Module {
    /// Its file.
    pub file: usize,
    /// The module that declares it; none of a root.
    pub parent: Option<usize>,
    /// The modules it declares.
    pub children: BTreeMap<String, usize>,
    /// What it defines.
    pub items: BTreeSet<String>,
    /// What it imports, by the name it goes by here.
    pub imports: BTreeMap<String, Vec<Mention>>,
    /// The names of `imports` that others find here.
    pub published: BTreeSet<String>,
    /// What it imports all names of.
    pub globs: Vec<Mention>,
    /// The paths in its code.
    pub mentions: Vec<Mention>,
}

/// Everything that was read of a crate.
#[derive(Debug, Default)]
pub struct Source {
    /// Files and their lines without tests.
    pub files: Vec<(PathBuf, usize)>,
    /// Modules; roots have no parent.
    pub modules: Vec<Module>,
    /// Functions with a body.
    pub functions: Vec<Function>,
    /// Places that panic.
    pub panics: usize,
}

impl Source {
    /// Reads a root and all that it declares.
    pub fn read_root(&mut self, file: &Path) -> Result<()> {
        let folder = file.parent().context("a file lies in a folder")?;
        self.read_file(file, folder, None).map(|_| ())
    }

    /// Reads one file; the modules it declares lie in `folder`.
    fn read_file(&mut self, path: &Path, folder: &Path, parent: Option<usize>) -> Result<usize> {
        let text = std::fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))?;
        let parsed = syn::parse_file(&text).with_context(|| format!("parsing {}", path.display()))?;
        let file = self.files.len();
        self.files.push((path.to_owned(), 0));
        let module = self.modules.len();
        self.modules.push(Module {
            file,
            parent,
            ..Module::default()
        });
        let mut reader = Reader {
            source: self,
            file,
            module,
            folder: folder.to_owned(),
            tested: BTreeSet::new(),
            declared: Vec::new(),
            is_published: false,
        };
        reader.visit_file(&parsed);
        let Reader { tested, declared, .. } = reader;
        self.files[file].1 = text.lines().count() - tested.len();
        for Declared { name, parent, folder } in declared {
            let (path, below) = file_of(&folder, &name)?;
            let child = self.read_file(&path, &below, Some(parent))?;
            self.modules[parent].children.insert(name, child);
        }
        Ok(module)
    }
}

/// The file of a module declared in `folder`, and where its own modules lie.
fn file_of(folder: &Path, name: &str) -> Result<(PathBuf, PathBuf)> {
    let below = folder.join(name);
    let candidates = [folder.join(format!("{name}.rs")), below.join("mod.rs")];
    match candidates.into_iter().find(|path| path.is_file()) {
        Some(path) => Ok((path, below)),
        None => bail!("no file for the module {name} in {}", folder.display()),
    }
}

/// A module that lies in a file of its own.
struct Declared {
    name: String,
    parent: usize,
    folder: PathBuf,
}

/// Walks over one file.
struct Reader<'a> {
    source: &'a mut Source,
    file: usize,
    module: usize,
    folder: PathBuf,
    /// The lines of tests.
    tested: BTreeSet<usize>,
    declared: Vec<Declared>,
    /// Whether the import at hand is one for others.
    is_published: bool,
}

impl Reader<'_> {
    fn here(&mut self) -> &mut Module {
        &mut self.source.modules[self.module]
    }

    /// Notes the lines of a test; says whether it was one.
    fn skip_test(&mut self, attributes: &[Attribute], whole: &impl Spanned) -> bool {
        let test = attributes.iter().any(is_test);
        if test {
            let span = whole.span();
            self.tested.extend(span.start().line..=span.end().line);
        }
        test
    }

    fn read_use(&mut self, tree: &UseTree, prefix: &[String]) {
        let joined = |name: &syn::Ident| {
            let mut segments = prefix.to_vec();
            if name != "self" || prefix.is_empty() {
                segments.push(name.to_string());
            }
            let line = name.span().start().line;
            Mention { segments, line }
        };
        match tree {
            UseTree::Path(path) => {
                let mut longer = prefix.to_vec();
                longer.push(path.ident.to_string());
                self.read_use(&path.tree, &longer);
            }
            UseTree::Name(name) => self.import(None, joined(&name.ident)),
            UseTree::Rename(rename) => {
                self.import(Some(rename.rename.to_string()), joined(&rename.ident));
            }
            UseTree::Glob(glob) => {
                let mention = Mention {
                    segments: prefix.to_vec(),
                    line: glob.span().start().line,
                };
                self.here().globs.push(mention);
            }
            UseTree::Group(group) => group.items.iter().for_each(|tree| self.read_use(tree, prefix)),
        }
    }

    fn import(&mut self, name: Option<String>, mention: Mention) {
        let name = name
            .or_else(|| mention.segments.last().cloned())
            .unwrap_or_default();
        if self.is_published {
            self.here().published.insert(name.clone());
        }
        self.here().imports.entry(name).or_default().push(mention);
    }

    fn function(&mut self, signature: &syn::Signature, body: &syn::Block) {
        let last = body.span().end().line;
        let function = Function::of(self.file, signature, last);
        self.source.functions.push(function);
    }
}

impl<'ast> Visit<'ast> for Reader<'_> {
    fn visit_item(&mut self, item: &'ast Item) {
        if self.skip_test(attributes(item), item) {
            return;
        }
        if let Some(name) = defined(item) {
            self.here().items.insert(name);
        }
        visit::visit_item(self, item);
    }

    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        let name = item.ident.to_string();
        let Some((_, items)) = &item.content else {
            self.declared.push(Declared {
                name,
                parent: self.module,
                folder: self.folder.clone(),
            });
            return;
        };
        let outer = self.module;
        let module = self.source.modules.len();
        self.source.modules.push(Module {
            file: self.file,
            parent: Some(outer),
            ..Module::default()
        });
        self.here().children.insert(name.clone(), module);
        self.module = module;
        self.folder.push(&name);
        for item in items {
            self.visit_item(item);
        }
        self.folder.pop();
        self.module = outer;
    }

    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        self.is_published = !matches!(item.vis, syn::Visibility::Inherited);
        self.read_use(&item.tree, &[]);
    }

    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        self.function(&item.sig, &item.block);
        visit::visit_item_fn(self, item);
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        if !self.skip_test(&item.attrs, item) {
            self.function(&item.sig, &item.block);
            visit::visit_impl_item_fn(self, item);
        }
    }

    fn visit_trait_item_fn(&mut self, item: &'ast syn::TraitItemFn) {
        if let Some(body) = &item.default {
            self.function(&item.sig, body);
        }
        visit::visit_trait_item_fn(self, item);
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let segments: Vec<String> = path
            .segments
            .iter()
            .map(|segment| segment.ident.to_string())
            .collect();
        if segments.len() > 1 && path.leading_colon.is_none() {
            let line = path.span().start().line;
            self.here().mentions.push(Mention { segments, line });
        }
        visit::visit_path(self, path);
    }

    fn visit_expr_method_call(&mut self, call: &'ast syn::ExprMethodCall) {
        self.source.panics += usize::from(scan::is_panic(&call.method.to_string()));
        visit::visit_expr_method_call(self, call);
    }

    fn visit_macro(&mut self, mac: &'ast Macro) {
        let name = mac.path.segments.last().map(|segment| segment.ident.to_string());
        self.source.panics += usize::from(name.is_some_and(|name| scan::is_panic(&name)));
        self.source.panics += scan::panics(mac.tokens.clone());
        self.here()
            .mentions
            .extend(scan::mentions(mac.tokens.clone(), false));
        visit::visit_macro(self, mac);
    }

    fn visit_attribute(&mut self, attribute: &'ast Attribute) {
        if let syn::Meta::List(list) = &attribute.meta {
            let strings = list.path.is_ident("serde");
            let mentions = scan::mentions(list.tokens.clone(), strings);
            self.here().mentions.extend(mentions);
        }
    }
}

/// Whether an attribute leaves the item out of what ships.
fn is_test(attribute: &Attribute) -> bool {
    let path = attribute.path();
    match &attribute.meta {
        syn::Meta::List(list) => path.is_ident("cfg") && list.tokens.to_string() == "test",
        _ => path.is_ident("test"),
    }
}

fn attributes(item: &Item) -> &[Attribute] {
    match item {
        Item::Const(item) => &item.attrs,
        Item::Enum(item) => &item.attrs,
        Item::Fn(item) => &item.attrs,
        Item::Impl(item) => &item.attrs,
        Item::Macro(item) => &item.attrs,
        Item::Mod(item) => &item.attrs,
        Item::Static(item) => &item.attrs,
        Item::Struct(item) => &item.attrs,
        Item::Trait(item) => &item.attrs,
        Item::Type(item) => &item.attrs,
        Item::Use(item) => &item.attrs,
        _ => &[],
    }
}

/// The name that an item gives to its module, if it is no module itself.
fn defined(item: &Item) -> Option<String> {
    let name = match item {
        Item::Const(item) => &item.ident,
        Item::Enum(item) => &item.ident,
        Item::Fn(item) => &item.sig.ident,
        Item::Macro(item) => item.ident.as_ref()?,
        Item::Static(item) => &item.ident,
        Item::Struct(item) => &item.ident,
        Item::Trait(item) => &item.ident,
        Item::TraitAlias(item) => &item.ident,
        Item::Type(item) => &item.ident,
        Item::Union(item) => &item.ident,
        _ => return None,
    };
    Some(name.to_string())
}
