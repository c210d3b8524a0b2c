//! The file of cases that `numo plugin test` reads: fixtures and the verdict that is wanted. It reads files and says
//! where they are wrong; it asks no component.

use super::{
    expect::Expect,
    fixtures::{Cluster, Fault, Gaps, HttpAnswer, Metrics, QueryAnswer, Servers, prometheus},
    recording::{Earlier, Recording, history},
    trial::{self, Trial},
    yaml,
};
use jiff::Timestamp;
use numo_cli::CliError;
use numo_plugin::{Grants, Input, ObjectRef, Rule, RuleLimits, Services, Terms, services::Prometheus};
use serde::Deserialize;
use serde_json::Value;
use serde_saphyr::Spanned;
use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::Arc,
};

/// The moment of a case that names none.
const NOW: &str = "2026-01-01T00:00:00Z";

/// A file of cases.
#[derive(Debug)]
pub(crate) struct CaseFile {
    path: PathBuf,
    content: Content,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Content {
    /// The component, relative to this file.
    #[serde(default)]
    component: Option<String>,
    /// What a case has that does not say otherwise.
    #[serde(default)]
    defaults: Option<Spanned<Case>>,
    cases: Spanned<Vec<Spanned<Case>>>,
}

/// One case, or what all of them share.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct Case {
    name: Option<Spanned<String>>,
    /// Default: Pre.
    phase: Option<Spanned<String>>,
    /// A Node, or the name of a file with one.
    node: Option<Spanned<Value>>,
    /// Objects, or names of files with some; added to those of `defaults`.
    objects: Vec<Spanned<Value>>,
    /// Reads that fail; before those of `defaults`.
    faults: Vec<Spanned<Fault>>,
    /// By URL; added to those of `defaults`.
    http: BTreeMap<String, Spanned<HttpAnswer>>,
    /// By query; added to those of `defaults`.
    prometheus: BTreeMap<String, Spanned<QueryAnswer>>,
    /// The newest first.
    history: Option<Vec<Earlier>>,
    config: Option<Value>,
    /// Default: all that the component wants.
    grants: Option<Grants>,
    limits: Option<Spanned<Limits>>,
    now: Option<Timestamp>,
    run: Option<String>,
    owner: Option<ObjectRef>,
    attempt: Option<u32>,
    pool: Option<String>,
    from_version: Option<String>,
    to_version: Option<String>,
    /// A recording of `numo plugin run --record` instead of fixtures.
    replay: Option<Spanned<String>>,
    expect: Option<Spanned<Expect>>,
}

/// As in a MutexRule.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct Limits {
    evaluation_seconds: Option<i32>,
    memory: Option<String>,
    host_calls: Option<i32>,
    host_bytes: Option<String>,
}

/// One case, ready to be asked.
pub(crate) struct Prepared {
    /// What is asked.
    pub(crate) trial: Trial,
    /// What is asked and not answered.
    pub(crate) gaps: Gaps,
    /// What is wanted.
    pub(crate) wanted: Wanted,
}

/// What a case wants.
pub(crate) enum Wanted {
    /// These fields.
    Expect(Expect),
    /// What was recorded.
    Recorded(Box<Recording>),
    /// Nothing.
    Anything,
}

impl CaseFile {
    /// Reads one. Each case has a name of its own.
    pub(crate) fn read(path: &Path) -> Result<Self, CliError> {
        let content: Content = yaml::read(path)?;
        let file = Self {
            path: path.to_owned(),
            content,
        };
        if let Some(defaults) = &file.content.defaults {
            let of_one = [
                ("name", defaults.value.name.as_ref().map(|one| one.referenced)),
                ("replay", defaults.value.replay.as_ref().map(|one| one.referenced)),
                ("expect", defaults.value.expect.as_ref().map(|one| one.referenced)),
            ];
            for (field, place) in of_one {
                if let Some(place) = place {
                    return Err(file.fault(place, &format!("defaults.{field}: each case has its own")));
                }
            }
        }
        if file.content.cases.value.is_empty() {
            return Err(file.fault(
                file.content.cases.referenced,
                "cases: found none, wanted at least one",
            ));
        }
        let mut names: Vec<&str> = Vec::new();
        for (index, case) in file.content.cases.value.iter().enumerate() {
            let Some(name) = &case.value.name else {
                return Err(file.fault(case.referenced, &format!("cases[{index}].name: found none")));
            };
            if names.contains(&name.value.as_str()) {
                let words = format!("cases[{index}].name: found {:?} a second time", name.value);
                return Err(file.fault(name.referenced, &words));
            }
            names.push(&name.value);
            let expects = case.value.expect.as_ref();
            if let Some((expect, why)) = expects.and_then(|one| Some((one, one.value.fault()?))) {
                return Err(file.fault(expect.referenced, &format!("cases[{index}].expect.{why}")));
            }
            if expects.is_none() && case.value.replay.is_none() {
                return Err(file.fault(case.referenced, &format!("cases[{index}].expect: found none")));
            }
        }
        Ok(file)
    }

    /// Its component, by its own word.
    pub(crate) fn component(&self) -> Option<PathBuf> {
        self.content
            .component
            .as_ref()
            .map(|component| self.beside(component))
    }

    /// Names of its cases.
    pub(crate) fn names(&self) -> Vec<&str> {
        let cases = self.content.cases.value.iter();
        cases
            .filter_map(|case| case.value.name.as_ref().map(|name| name.value.as_str()))
            .collect()
    }

    /// What the case of this place asks the component.
    pub(crate) fn prepare(&self, index: usize, rule: &Rule) -> Result<Prepared, CliError> {
        let empty = Case::default();
        let cases = &self.content.cases.value;
        let Some(case) = cases.get(index) else {
            return Err(CliError::Wrong(format!(
                "{}: found no case {index}",
                self.path.display()
            )));
        };
        let reading = Reading {
            file: self,
            field: format!("cases[{index}]"),
            case: &case.value,
            place: case.referenced,
            defaults: self
                .content
                .defaults
                .as_ref()
                .map_or(&empty, |defaults| &defaults.value),
        };
        match &case.value.replay {
            Some(replay) => reading.replayed(replay),
            None => reading.fixed(rule),
        }
    }

    fn beside(&self, name: &str) -> PathBuf {
        self.path.parent().unwrap_or_else(|| Path::new("")).join(name)
    }

    fn fault(&self, place: serde_saphyr::Location, what: &str) -> CliError {
        yaml::at(&self.path, place, what)
    }
}

/// One case with its defaults, while it is made into a question.
struct Reading<'a> {
    file: &'a CaseFile,
    /// Where it stands, in words.
    field: String,
    case: &'a Case,
    place: serde_saphyr::Location,
    defaults: &'a Case,
}

impl<'a> Reading<'a> {
    /// The case's own, or that of all.
    fn own_or<T>(&self, of: impl Fn(&'a Case) -> Option<&'a T>) -> Option<&'a T> {
        of(self.case).or_else(|| of(self.defaults))
    }

    fn fault(&self, place: serde_saphyr::Location, field: &str, what: &str) -> CliError {
        self.file.fault(place, &format!("{}.{field}: {what}", self.field))
    }

    fn wanted(&self) -> Option<Expect> {
        self.case.expect.as_ref().map(|expect| expect.value.clone())
    }

    /// Of fixtures.
    fn fixed(&self, rule: &Rule) -> Result<Prepared, CliError> {
        let phase = match self.own_or(|case| case.phase.as_ref()) {
            Some(phase) => {
                trial::phase(&phase.value).map_err(|why| self.fault(phase.referenced, "phase", &why))?
            }
            None => "pre".to_owned(),
        };
        let node = self.node(&phase)?;
        let now = match self.own_or(|case| case.now.as_ref()) {
            Some(now) => *now,
            None => NOW.parse().unwrap_or_default(),
        };
        let gaps = Gaps::default();
        let servers = self.servers(&gaps)?;
        let run = self
            .own_or(|case| case.run.as_ref())
            .map_or("run-1", String::as_str)
            .to_owned();
        let entries = self.own_or(|case| case.history.as_ref());
        let history = history(entries.map_or(&[], Vec::as_slice), &run, now);
        let input = self.input(run, phase, node.clone())?;
        let cluster = Cluster::new(self.objects(node)?, self.faults());
        let services = Services {
            reader: Some(Arc::new(cluster)),
            prometheus: Some(self.prometheus(now, &gaps)?),
            fetch: Some(Arc::new(servers)),
            history,
            // They are the author's own fixtures.
            secrets: true,
            ..Services::none(now)
        };
        let Some(wanted) = self.wanted() else {
            return Err(self.fault(self.place, "expect", "found none"));
        };
        Ok(Prepared {
            trial: Trial {
                input,
                terms: self.terms(rule)?,
                services,
            },
            gaps,
            wanted: Wanted::Expect(wanted),
        })
    }

    /// The question; what the case leaves out has a default.
    fn input(&self, run: String, phase: String, node: Option<Value>) -> Result<Input, CliError> {
        let config = self
            .own_or(|case| case.config.as_ref())
            .filter(|config| !config.is_null());
        Ok(Input {
            owner: self
                .own_or(|case| case.owner.as_ref())
                .cloned()
                .unwrap_or_else(|| trial::owner("numo")),
            run,
            attempt: self.own_or(|case| case.attempt.as_ref()).copied().unwrap_or(1),
            pool: self.own_or(|case| case.pool.as_ref()).cloned(),
            from_version: self.own_or(|case| case.from_version.as_ref()).cloned(),
            to_version: self.own_or(|case| case.to_version.as_ref()).cloned(),
            config_json: config.map_or_else(|| "{}".to_owned(), Value::to_string),
            node: node.map(trial::node).transpose().map_err(CliError::Wrong)?,
            phase,
            attributes: Vec::new(),
        })
    }

    /// Of a recording; what the case says itself goes before it.
    fn replayed(&self, replay: &Spanned<String>) -> Result<Prepared, CliError> {
        let fixtures = [
            ("node", self.case.node.is_some()),
            ("objects", !self.case.objects.is_empty()),
            ("faults", !self.case.faults.is_empty()),
            ("http", !self.case.http.is_empty()),
            ("prometheus", !self.case.prometheus.is_empty()),
            ("history", self.case.history.is_some()),
            ("now", self.case.now.is_some()),
        ];
        if let Some((field, _)) = fixtures.iter().find(|(_, given)| *given) {
            return Err(self.fault(replay.referenced, field, "found beside replay, which has its own"));
        }
        let recording = Recording::read(&self.file.beside(&replay.value))?;
        let gaps = Gaps::default();
        let mut trial = recording.trial(&gaps)?;
        if let Some(config) = &self.case.config {
            trial.input.config_json = config.to_string();
        }
        if let Some(grants) = &self.case.grants {
            trial.terms.grants = Arc::new(grants.clone());
        }
        if let Some(limits) = &self.case.limits {
            trial.terms.limits = self.limits(limits)?;
        }
        let wanted = self.wanted();
        Ok(Prepared {
            trial,
            gaps,
            wanted: wanted.map_or_else(|| Wanted::Recorded(Box::new(recording)), Wanted::Expect),
        })
    }

    fn terms(&self, rule: &Rule) -> Result<Terms, CliError> {
        let grants = match self.own_or(|case| case.grants.as_ref()) {
            Some(grants) => grants.clone(),
            None => trial::all_wanted(&rule.description().wants, &self.urls()?)?,
        };
        let limits = self.own_or(|case| case.limits.as_ref());
        Ok(Terms {
            tenant: String::new(),
            grants: Arc::new(grants),
            limits: limits.map_or_else(|| Ok(RuleLimits::default()), |limits| self.limits(limits))?,
        })
    }

    fn limits(&self, limits: &Spanned<Limits>) -> Result<RuleLimits, CliError> {
        let asked = numo_api::RuleLimits {
            evaluation_seconds: limits.value.evaluation_seconds,
            memory: limits.value.memory.clone(),
            host_calls: limits.value.host_calls,
            host_bytes: limits.value.host_bytes.clone(),
        };
        numo_plugin::spec::limits(&asked).map_err(|why| self.fault(limits.referenced, "limits", &why))
    }

    /// The Node, if the phase has one.
    fn node(&self, phase: &str) -> Result<Option<Value>, CliError> {
        if !trial::needs_node(phase) {
            return Ok(None);
        }
        let Some(node) = self.own_or(|case| case.node.as_ref()) else {
            let why = format!("found none, wanted a Node or a file: phase {phase} is about one");
            return Err(self.fault(self.place, "node", &why));
        };
        let wrong = |why: &str| self.fault(node.referenced, "node", why);
        let mut found = self.whole(node, "node")?;
        if found.len() != 1 {
            return Err(wrong(&format!("found {} objects, wanted one", found.len())));
        }
        let mut object = found.remove(0);
        trial::node(object.clone()).map_err(|why| wrong(&why))?;
        object["apiVersion"] = "v1".into();
        object["kind"] = "Node".into();
        Ok(Some(object))
    }

    /// All objects. Of two with one identity the case's own counts.
    fn objects(&self, node: Option<Value>) -> Result<Vec<Value>, CliError> {
        let mut all: BTreeMap<[String; 4], Value> = BTreeMap::new();
        let mut add = |object: Value| -> Result<(), String> {
            let key = ["/apiVersion", "/kind", "/metadata/namespace", "/metadata/name"];
            let key = key.map(|pointer| {
                object
                    .pointer(pointer)
                    .and_then(Value::as_str)
                    .unwrap_or_default()
                    .to_owned()
            });
            for (field, value) in [
                ("apiVersion", &key[0]),
                ("kind", &key[1]),
                ("metadata.name", &key[3]),
            ] {
                if value.is_empty() {
                    return Err(format!("found no {field}"));
                }
            }
            all.insert(key, object);
            Ok(())
        };
        for (of, objects) in [("defaults", &self.defaults.objects), ("", &self.case.objects)] {
            for (index, given) in objects.iter().enumerate() {
                for object in self.whole(given, "objects")? {
                    add(object).map_err(|why| match of {
                        "" => self.fault(given.referenced, &format!("objects[{index}]"), &why),
                        of => self
                            .file
                            .fault(given.referenced, &format!("{of}.objects[{index}]: {why}")),
                    })?;
                }
            }
        }
        if let Some(node) = node {
            add(node).map_err(CliError::Wrong)?;
        }
        Ok(all.into_values().collect())
    }

    /// An object that stands there, or those in the file that is named there.
    fn whole(&self, given: &Spanned<Value>, field: &str) -> Result<Vec<Value>, CliError> {
        let documents = match &given.value {
            Value::String(name) => yaml::read_all(&self.file.beside(name)).map_err(|error| {
                let CliError::File { path, source } = error else {
                    return error;
                };
                self.fault(given.referenced, field, &format!("{}: {source}", path.display()))
            })?,
            object => vec![object.clone()],
        };
        let mut objects = Vec::new();
        for document in documents {
            match document {
                Value::Null => {}
                Value::Object(mut map) if map.get("kind").is_some_and(|kind| kind == "List") => {
                    match map.remove("items") {
                        Some(Value::Array(items)) => objects.extend(items),
                        _ => return Err(self.fault(given.referenced, field, "found a List without items")),
                    }
                }
                object @ Value::Object(_) => objects.push(object),
                other => {
                    let why = format!("found {other}, wanted an object or the name of a file");
                    return Err(self.fault(given.referenced, field, &why));
                }
            }
        }
        Ok(objects)
    }

    fn faults(&self) -> Vec<Fault> {
        let own = self.case.faults.iter().chain(&self.defaults.faults);
        own.map(|fault| fault.value.clone()).collect()
    }

    fn http(&self) -> impl Iterator<Item = (&'a String, &'a Spanned<HttpAnswer>)> {
        self.defaults.http.iter().chain(&self.case.http)
    }

    fn url(&self, text: &str, place: serde_saphyr::Location) -> Result<url::Url, CliError> {
        let wrong = |why: &str| self.fault(place, "http", &format!("{text:?}: {why}"));
        let mut url = url::Url::parse(text).map_err(|error| wrong(&error.to_string()))?;
        if !matches!(url.scheme(), "http" | "https") || url.host_str().is_none() {
            return Err(wrong("wanted a URL with https or http and a host"));
        }
        url.set_fragment(None);
        Ok(url)
    }

    fn urls(&self) -> Result<Vec<url::Url>, CliError> {
        self.http()
            .map(|(text, answer)| self.url(text, answer.referenced))
            .collect()
    }

    fn servers(&self, gaps: &Gaps) -> Result<Servers, CliError> {
        let mut answers = BTreeMap::new();
        for (text, answer) in self.http() {
            answers.insert(
                self.url(text, answer.referenced)?.to_string(),
                answer.value.clone(),
            );
        }
        Ok(Servers {
            answers,
            gaps: gaps.clone(),
        })
    }

    fn prometheus(&self, now: Timestamp, gaps: &Gaps) -> Result<Prometheus, CliError> {
        let mut answers = BTreeMap::new();
        for (query, answer) in self.defaults.prometheus.iter().chain(&self.case.prometheus) {
            if let Some(why) = answer.value.fault() {
                return Err(self.fault(answer.referenced, "prometheus", &format!("{query}: {why}")));
            }
            answers.insert(query.trim().to_owned(), answer.value.clone());
        }
        let metrics = Metrics {
            answers,
            now,
            gaps: gaps.clone(),
        };
        prometheus(Arc::new(metrics))
    }
}
