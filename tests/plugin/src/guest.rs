//! Components for the tests: core modules as text, made into components of a world of `wit/`; and the Rust guest of
//! `plugins/conformance`, built by cargo for both targets. It judges nothing.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    process::Command,
    sync::Mutex,
};

use anyhow::{Context as _, Result, ensure};
use wit_component::{ComponentEncoder, StringEncoding, embed_component_metadata};
use wit_parser::{Resolve, WorldId};

/// The root of the repository.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// `wit/host` and `wit/rule`, with what else a test adds: packages as WIT text.
pub fn resolve(wit: &Path, more: &str) -> Result<Resolve> {
    let mut resolve = Resolve::default();
    for package in ["host", "rule"] {
        resolve
            .push_dir(wit.join(package))
            .with_context(|| wit.join(package).display().to_string())?;
    }
    if !more.is_empty() {
        resolve.push_str("more.wit", more)?;
    }
    Ok(resolve)
}

/// A core module as text, exporting what `world` exports, as a component.
pub fn component(wat: &str, world: &str, more: &str) -> Result<Vec<u8>> {
    component_of(wat, world, more, &root().join("wit"))
}

/// The same against another copy of `wit/`.
pub fn component_of(wat: &str, world: &str, more: &str, wit: &Path) -> Result<Vec<u8>> {
    let resolve = resolve(wit, more)?;
    let (_, world) = resolve
        .worlds
        .iter()
        .find(|(_, one)| one.name == world)
        .map(|(id, _)| (id, id))
        .context("world")?;
    encode(wat::parse_str(wat)?, &resolve, world)
}

/// A core module as a component of a world.
pub fn encode(mut module: Vec<u8>, resolve: &Resolve, world: WorldId) -> Result<Vec<u8>> {
    embed_component_metadata(&mut module, resolve, world, StringEncoding::UTF8)?;
    ComponentEncoder::default()
        .validate(true)
        .module(&module)?
        .encode()
}

/// A rule as a core module: it describes itself well and passes, but for what a test puts in.
#[derive(Clone, Debug)]
pub struct Core {
    /// Imports of the core module.
    pub imports: String,
    /// More fields of the module: memories, tables, functions.
    pub fields: String,
    /// Instructions before the verdict.
    pub evaluate: String,
    /// Instructions of `validate-config` and `describe`, before their answers.
    pub describe: String,
    /// Version of the package that the exports name.
    pub version: String,
    /// Reason in its report.
    pub reason: String,
    /// Capability and target of its wants, and whether they are optional.
    pub wants: Vec<(String, String, bool)>,
}

impl Default for Core {
    fn default() -> Self {
        Self {
            imports: String::new(),
            fields: String::new(),
            evaluate: String::new(),
            describe: String::new(),
            version: "1.0.0".into(),
            reason: "Fine".into(),
            wants: Vec::new(),
        }
    }
}

impl Core {
    /// The text of the module. Memory: the data at 1024, from 65536 on free; `$new` gives memory of it.
    pub fn wat(&self) -> String {
        let mut data = Data::new(1024);
        let phases: Vec<_> = ["pre", "post", "pre-run"]
            .iter()
            .map(|phase| data.text(phase))
            .collect();
        let phases_at = data.words(&phases.concat());
        let wants: Vec<u32> = self
            .wants
            .iter()
            .flat_map(|(capability, target, optional)| {
                let texts = [data.text(capability), data.text(target), data.text("for a test")].concat();
                texts
                    .into_iter()
                    .chain([u32::from(*optional)])
                    .collect::<Vec<_>>()
            })
            .collect();
        let wants_at = data.words(&wants);
        let (name, version, summary) = (data.text("conformance"), data.text("1.0.0"), data.text("odd"));
        let description = data.words(
            &[
                name,
                version,
                summary,
                vec![
                    phases_at,
                    3,
                    wants_at,
                    u32::try_from(self.wants.len()).unwrap_or(0),
                ],
                vec![0, 0, 0, 0, 0],
            ]
            .concat(),
        );
        let (reason, summary) = (data.text(&self.reason), data.text("as it should be"));
        // result ok, variant pass, report{reason, summary, findings, data-json none, attributes}
        let verdict = data.words(&[vec![0, 0], reason, summary, vec![0; 7]].concat());
        let valid = data.words(&[0; 4]);
        let Self {
            imports,
            fields,
            evaluate,
            describe,
            version,
            ..
        } = self;
        let export = format!("numo:rule/evaluation@{version}");
        let bytes = data.escaped();
        format!(
            r#"(module
              {imports}
              (memory (export "memory") 2)
              (data (i32.const 1024) "{bytes}")
              (global $next (mut i32) (i32.const 65536))
              {fields}
              (func $new (export "cabi_realloc") (param i32 i32 i32 i32) (result i32)
                (local $at i32)
                (local.set $at (i32.and (i32.add (global.get $next) (i32.const 15)) (i32.const -16)))
                (global.set $next (i32.add (local.get $at) (local.get 3)))
                (block $fits
                  (br_if $fits (i32.le_u (global.get $next) (i32.mul (memory.size) (i32.const 65536))))
                  (drop (memory.grow (i32.add (i32.div_u (local.get 3) (i32.const 65536)) (i32.const 1)))))
                (local.get $at))
              (func (export "{export}#describe") (result i32)
                {describe}
                (i32.const {description}))
              (func (export "{export}#validate-config") (param i32 i32) (result i32)
                {describe}
                (i32.const {valid}))
              (func (export "{export}#evaluate") (param i32) (result i32)
                {evaluate}
                (i32.const {verdict})))"#
        )
    }

    /// Of the world `rule`.
    pub fn component(&self) -> Result<Vec<u8>> {
        component(&self.wat(), "rule", "")
    }

    /// With `evaluate` and nothing else of its own.
    pub fn that(evaluate: &str) -> Self {
        Self {
            evaluate: evaluate.into(),
            ..Self::default()
        }
    }
}

/// A guest of `plugins/conformance/guests`: what it tries, and what must come of it.
#[derive(Debug)]
pub struct Hostile {
    /// Name of its file, without `.wat`.
    pub name: String,
    /// The reasons one of which it must end with; none if it must pass.
    pub reasons: Vec<String>,
    /// Words that the refusal must have.
    pub says: String,
    /// The component.
    pub component: Vec<u8>,
}

/// WASI, for a guest of the world `chatty`.
const CHATTY: &str = "
    package numo:odd@1.0.0;
    world chatty {
      include numo:rule/rule@1.0.0;
      import wasi:cli/stdout@0.2.6;
      import wasi:random/random@0.2.6;
    }
    package wasi:random@0.2.6 { interface random { get-random-bytes: func(len: u64) -> list<u8>; } }
    package wasi:cli@0.2.6 { interface stdout { use wasi:io/streams@0.2.6.{output-stream}; get-stdout: func() -> output-stream; } }
    package wasi:io@0.2.6 { interface streams { resource output-stream; } }
";

/// The text of a guest's file.
fn hostile_text(name: &str) -> Result<String> {
    let path = root().join(format!("plugins/conformance/guests/{name}.wat"));
    std::fs::read_to_string(&path).with_context(|| path.display().to_string())
}

/// One part of a guest's text: the lines after `;; == NAME`, to the next part.
fn part(text: &str, name: &str) -> String {
    let heading = format!(";; == {name}");
    let lines = text.lines().skip_while(|line| *line != heading).skip(1);
    let lines: Vec<_> = lines.take_while(|line| !line.starts_with(";; == ")).collect();
    lines.join("\n")
}

/// What a guest's head says of `key`.
fn head<'t>(text: &'t str, key: &str) -> &'t str {
    let start = format!(";; {key}: ");
    text.lines()
        .find_map(|line| line.strip_prefix(&start))
        .unwrap_or_default()
}

impl Core {
    /// The core module of a guest's file.
    pub fn hostile(name: &str) -> Result<Self> {
        let text = hostile_text(name)?;
        Ok(Self {
            imports: part(&text, "imports"),
            fields: part(&text, "fields"),
            evaluate: part(&text, "evaluate"),
            describe: part(&text, "describe"),
            ..Self::default()
        })
    }
}

/// A guest by the name of its file.
pub fn hostile(name: &str) -> Result<Hostile> {
    let text = hostile_text(name)?;
    let whole = part(&text, "whole");
    let (bytes, fields) = made(head(&text, "made"))?;
    let more = format!("{}{fields}", part(&text, "component"));
    let component = if !bytes.is_empty() {
        bytes
    } else if whole.is_empty() {
        let core = Core::hostile(name)?;
        let component = match head(&text, "world") {
            "" => core.component()?,
            world => component(&core.wat(), world, CHATTY)?,
        };
        if more.is_empty() {
            component
        } else {
            with_fields(&component, &more)?
        }
    } else {
        wat::parse_str(whole)?
    };
    let reasons = head(&text, "reason")
        .split_whitespace()
        .filter(|reason| *reason != "Pass");
    Ok(Hostile {
        name: name.to_owned(),
        reasons: reasons.map(ToOwned::to_owned).collect(),
        says: head(&text, "says").to_owned(),
        component,
    })
}

/// What no file is to hold, by the words after `made:` in its head: the bytes of a component, or fields of one.
fn made(words: &str) -> Result<(Vec<u8>, String)> {
    let mut words = words.split_whitespace();
    let kind = words.next().unwrap_or_default();
    let mut number = || {
        words
            .next()
            .and_then(|word| word.parse::<usize>().ok())
            .unwrap_or(1)
    };
    let many = |times: usize, each: &dyn Fn(usize) -> String| (0..times).map(each).collect::<String>();
    let instances = |of: usize| "(core instance (instantiate $wide))".repeat(of);
    Ok(match kind {
        "" => Default::default(),
        // Types in types, three bytes a level.
        "deep-types" => (deep(number(), 0x42), String::new()),
        "deep-component-types" => (deep(number(), 0x41), String::new()),
        "export-clones" => {
            let exports = many(number(), &|at| format!("(export \"e{at}\" (type $t))"));
            let instances = "(instance (instantiate $many))".repeat(number());
            let text = format!("(component (component $many (type $t u32) {exports}) {instances})");
            (wat::parse_str(text)?, String::new())
        }
        "many-globals" => {
            let globals = "(global i32 (i32.const 0))".repeat(number());
            (
                Vec::new(),
                format!("(core module $wide {globals}) {}", instances(number())),
            )
        }
        "wide-imports" => {
            let of_one = number();
            let imports = many(of_one, &|at| format!("(import \"a\" \"f{at}\" (func))"));
            let exports = many(of_one, &|at| format!("(export \"f{at}\" (func 0))"));
            let given =
                "(core instance (instantiate $wide (with \"a\" (instance $of-one))))".repeat(number());
            let fields = format!(
                "(core module $one (func) {exports}) (core instance $of-one (instantiate $one)) \
                 (core module $wide {imports}) {given}"
            );
            (Vec::new(), fields)
        }
        other => anyhow::bail!("made: found {other}, wanted one of guest.rs"),
    })
}

/// A component with one type of so many types in types.
pub fn deep(levels: usize, opening: u8) -> Vec<u8> {
    let mut body = vec![1];
    for _ in 0..levels {
        body.extend([opening, 1, 1]);
    }
    body.extend([opening, 0]);
    of_section(7, &body)
}

/// An empty component in so many components.
pub fn within(levels: usize) -> Vec<u8> {
    let empty = COMPONENT.to_vec();
    (0..levels).fold(empty, |inner, _| of_section(4, &inner))
}

/// The first bytes of every component.
const COMPONENT: [u8; 8] = [0x00, 0x61, 0x73, 0x6d, 0x0d, 0x00, 0x01, 0x00];

/// A component of one section.
fn of_section(id: u8, body: &[u8]) -> Vec<u8> {
    let mut bytes = COMPONENT.to_vec();
    bytes.push(id);
    let mut length = body.len();
    while length > 0x7f {
        bytes.push(u8::try_from(length & 0x7f).unwrap_or_default() | 0x80);
        length >>= 7;
    }
    bytes.push(u8::try_from(length).unwrap_or_default());
    bytes.extend(body);
    bytes
}

/// Functions of many instructions: megabytes of code, quick to parse, slow or large to compile.
pub fn bomb(functions: usize, instructions: usize) -> Result<Vec<u8>> {
    let step = part(&hostile_text("bomb")?, "instruction").repeat(instructions);
    let function = format!("(func (param i64) (result i64) {step} (local.get 0))");
    let core = Core {
        fields: function.repeat(functions),
        ..Core::default()
    };
    core.component()
}

/// The names of all guests but the bomb, which is no guest by itself.
pub fn all_hostile() -> Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in std::fs::read_dir(root().join("plugins/conformance/guests"))? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        names.extend(
            name.strip_suffix(".wat")
                .filter(|name| *name != "bomb")
                .map(ToOwned::to_owned),
        );
    }
    names.sort();
    Ok(names)
}

/// Bytes of a data segment, laid out by the canonical ABI.
struct Data {
    base: u32,
    bytes: Vec<u8>,
}

impl Data {
    fn new(base: u32) -> Self {
        Self {
            base,
            bytes: Vec::new(),
        }
    }

    fn at(&self) -> u32 {
        self.base + u32::try_from(self.bytes.len()).unwrap_or(u32::MAX)
    }

    /// Pointer and length.
    fn text(&mut self, text: &str) -> Vec<u32> {
        let at = self.at();
        self.bytes.extend(text.as_bytes());
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
        vec![at, u32::try_from(text.len()).unwrap_or(u32::MAX)]
    }

    fn words(&mut self, words: &[u32]) -> u32 {
        let at = self.at();
        self.bytes
            .extend(words.iter().flat_map(|word| word.to_le_bytes()));
        at
    }

    fn escaped(&self) -> String {
        use std::fmt::Write as _;
        self.bytes.iter().fold(String::new(), |mut text, byte| {
            let _ = write!(text, "\\{byte:02x}");
            text
        })
    }
}

/// A component as text with `more` fields at its end.
pub fn with_fields(component: &[u8], more: &str) -> Result<Vec<u8>> {
    let text = wasmprinter::print_bytes(component)?;
    let text = text
        .trim_end()
        .strip_suffix(')')
        .context("a component ends with )")?;
    Ok(wat::parse_str(format!("{text}\n{more})"))?)
}

/// How the guest of `plugins/conformance` is built.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// With WASI, as `cargo build --target wasm32-wasip2` makes it.
    Wasip2,
    /// Without, made a component of afterwards.
    Unknown,
}

/// The Rust guest of `plugins/conformance`; cargo says whether it has to be built.
pub fn rust(target: Target) -> Result<Vec<u8>> {
    static BUILT: Mutex<BTreeMap<&'static str, Vec<u8>>> = Mutex::new(BTreeMap::new());
    let mut known = BUILT.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let triple = match target {
        Target::Wasip2 => "wasm32-wasip2",
        Target::Unknown => "wasm32-unknown-unknown",
    };
    if let Some(bytes) = known.get(triple) {
        return Ok(bytes.clone());
    }
    let bytes = build(triple)?;
    let component = match target {
        Target::Wasip2 => bytes,
        Target::Unknown => ComponentEncoder::default()
            .validate(true)
            .module(&bytes)?
            .encode()?,
    };
    known.insert(triple, component.clone());
    Ok(component)
}

/// The provider of machines of `plugins/conformance/provider` as a component. Blocks: builds it the first time.
pub fn provider() -> Result<Vec<u8>> {
    static BUILT: Mutex<Option<Vec<u8>>> = Mutex::new(None);
    let mut known = BUILT.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    if let Some(bytes) = &*known {
        return Ok(bytes.clone());
    }
    let module = build_in("provider", "numo_conformance_provider", "wasm32-unknown-unknown")?;
    let component = ComponentEncoder::default()
        .validate(true)
        .module(&module)?
        .encode()?;
    Ok(known.insert(component).clone())
}

/// Where the components of these rules and providers of `plugins/` are: in the folder `NUMO_RULES`, or built now; cargo says whether they have
/// to be.
pub async fn components(names: &[&str]) -> Result<PathBuf> {
    if let Some(folder) = std::env::var_os("NUMO_RULES") {
        return Ok(folder.into());
    }
    let target = root().join("target/plugins");
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let status = tokio::process::Command::new(cargo)
        .args(["run", "--quiet", "--package", "components", "--"])
        .args(names)
        .current_dir(root().join("plugins"))
        .env("CARGO_TARGET_DIR", &target)
        .stdout(std::process::Stdio::null())
        .status()
        .await?;
    ensure!(status.success(), "cargo components: {status}");
    Ok(target.join("wasm32-unknown-unknown/release/components"))
}

fn build(triple: &str) -> Result<Vec<u8>> {
    build_in("", "numo_conformance", triple)
}

fn build_in(folder: &str, name: &str, triple: &str) -> Result<Vec<u8>> {
    let folder = root().join("plugins/conformance").join(folder);
    let built = std::env::var_os("CARGO_TARGET_DIR")
        .map_or_else(|| root().join("target"), PathBuf::from)
        .join("guests");
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    // Flags of the host's build are not for a component.
    for variable in [
        "RUSTFLAGS",
        "CARGO_ENCODED_RUSTFLAGS",
        "CARGO_BUILD_TARGET",
        "RUSTC_WRAPPER",
    ] {
        cargo.env_remove(variable);
    }
    let status = cargo
        .args([
            "build",
            "--quiet",
            "--release",
            "--locked",
            "--target",
            triple,
            "--target-dir",
        ])
        .arg(&built)
        .current_dir(&folder)
        .status()?;
    ensure!(
        status.success(),
        "{} does not build for {triple}; is the target installed?",
        folder.display()
    );
    let module = built.join(triple).join(format!("release/{name}.wasm"));
    Ok(std::fs::read(module)?)
}
