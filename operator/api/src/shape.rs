//! What the derived schemas lack, put on all definitions alike: descriptions that `kubectl explain` can print, absent instead of null,
//! list types, bounds, formats of times, and defaults.
//!
//! The tables name fields by kind and path (`.spec.cel.objects[].name`); a path that leads nowhere fails a test.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, JSON, JSONSchemaProps, JSONSchemaPropsOrArray, JSONSchemaPropsOrBool,
};
use serde_json::{Value, json};

use crate::condition_schema;

/// Most requirements of a label selector of numo's own.
const MOST_REQUIREMENTS: i64 = 64;
/// Most values of such a requirement.
const MOST_VALUES: i64 = 1024;
/// Longest label key: a domain, `/` and a name.
const LONGEST_KEY: i64 = 317;
/// Longest label value.
const LONGEST_VALUE: i64 = 63;
/// Most nodes, pools of nodes, and pods that a node may have to lose: beyond what a cluster has.
const MOST_NODES: i64 = 20_000;
/// As many bytes as the API server reads of a request, and each item of a list takes one at least: a bound that refuses nothing. For lists of which
/// the replaced operator bounded none, and manifests of which stay admitted.
pub(crate) const MOST_OF_A_REQUEST: i64 = 3 * 1024 * 1024;
/// Most conditions of a Plan: numo and system-upgrade-controller write six kinds.
const MOST_CONDITIONS: i64 = 32;

/// Kinds of other operators, or as another operator had them: their conditions are plain text there. Those of all other kinds are
/// Kubernetes' own.
const PLAIN_CONDITIONS: [&str; 4] = ["MutexRule", "MutexTarget", "MutexRunConfig", "Plan"];

/// The kind whose fields may be null: manifests for system-upgrade-controller have nulls. Elsewhere what is absent is absent; the API
/// server takes a null out of what is created.
const NULLS: &str = "Plan";

/// The fields of that kind that are numo's own: neither they nor what is below them may be null.
const NEVER_NULL: [&str; 2] = [".spec.mutex", ".status.approval"];

/// Fields that hold a time.
const TIMES: [&str; 6] = ["at", "since", "closedSince", "startedAt", "endedAt", "finishedAt"];

/// Label selectors that are numo's own: what the API server of a cluster takes of others is theirs.
pub(crate) const SELECTORS: [(&str, &str); 16] = [
    ("MutexRunConfig", ".spec.first"),
    ("MutexRunConfig", ".spec.waves[].nodeSelector"),
    ("MutexRunConfig", ".spec.awaitedWorkloads.namespaceSelector"),
    ("MutexRunConfig", ".spec.awaitedWorkloads.podSelector"),
    ("MutexBudget", ".spec.nodeSelector"),
    ("MutexWindow", ".spec.nodeSelector"),
    ("MutexBinding", ".spec.ownerSelector.labels"),
    ("MutexBinding", ".spec.first"),
    ("MutexBinding", ".spec.waves[].nodeSelector"),
    ("MutexBinding", ".spec.drain.podSelector"),
    ("NodeMaintenance", ".spec.drain.podSelector"),
    ("Plan", ".spec.mutex.first"),
    ("Plan", ".spec.mutex.waves[].nodeSelector"),
    ("NodeVersion", ".spec.mutex.first"),
    ("NodeVersion", ".spec.mutex.waves[].nodeSelector"),
    ("NodeVersion", ".spec.drain.podSelector"),
];

/// Keys of labels that are no part of a selector, where an empty one is none.
const KEYS_OR_NONE: [(&str, &str); 8] = [
    ("MutexBudget", ".spec.groupBy"),
    ("MutexRunConfig", ".spec.domains.key"),
    ("MutexBinding", ".spec.domains.key"),
    ("MutexBinding", ".spec.drain.orderLabel"),
    ("NodeMaintenance", ".spec.drain.orderLabel"),
    ("Plan", ".spec.mutex.domains.key"),
    ("NodeVersion", ".spec.mutex.domains.key"),
    ("NodeVersion", ".spec.drain.orderLabel"),
];

/// Keys of labels that are no part of a selector.
const KEYS: [(&str, &str); 4] = [
    ("MutexRunConfig", ".spec.mutexKeys[]"),
    ("MutexBinding", ".spec.mutexKeys[]"),
    ("Plan", ".spec.mutex.mutexKeys[]"),
    ("NodeVersion", ".spec.mutex.mutexKeys[]"),
];

/// Names of namespaces.
const NAMESPACES: [(&str, &str); 2] = [
    ("MutexBinding", ".spec.ownerSelector.namespaces[]"),
    ("MutexNotifier", ".spec.namespaces[]"),
];

/// Lists in which a value counts once.
const SETS: [(&str, &str); 15] = [
    ("MutexRule", ".spec.phases"),
    ("MutexRule", ".spec.wasm.grants.kubernetes[].namespaces"),
    ("MutexRule", ".spec.wasm.grants.kubernetes[].names"),
    ("MutexRunConfig", ".spec.mutexKeys"),
    ("MutexRunConfig", ".spec.domains.order"),
    ("MutexBinding", ".spec.mutexKeys"),
    ("MutexBinding", ".spec.domains.order"),
    ("Plan", ".spec.mutex.domains.order"),
    ("MutexBinding", ".spec.ownerSelector.namespaces"),
    ("Plan", ".spec.mutex.mutexKeys"),
    ("NodeVersion", ".spec.mutex.domains.order"),
    ("NodeVersion", ".spec.mutex.mutexKeys"),
    ("MutexNotifier", ".spec.ownerKinds"),
    ("MutexNotifier", ".spec.namespaces"),
    ("MutexNotifier", ".spec.transitions"),
];

/// Lists whose items are told apart by their `name`: several writers may each have theirs.
const MAPS: [(&str, &str); 8] = [
    ("MutexRule", ".spec.cel.objects"),
    ("MutexRunConfig", ".spec.rules"),
    ("MutexRunConfig", ".spec.window.freezes"),
    ("MutexBinding", ".spec.window.freezes"),
    ("MutexWindow", ".spec.freezes"),
    ("Plan", ".spec.mutex.window.freezes"),
    ("NodeVersion", ".spec.mutex.window.freezes"),
    ("MutexNotifier", ".spec.alertmanager.silences.matchers"),
];

/// Most items of lists that the types bound by nothing.
const MOST: [(&str, &str, i64); 9] = [
    ("MutexTarget", ".spec.machineConfigPools", MOST_NODES),
    ("MutexTarget", ".status.nodes", MOST_NODES),
    ("MutexRunConfig", ".spec.mutexTargets", MOST_NODES),
    ("MutexRunConfig", ".status.run.pools", MOST_NODES),
    ("MutexRunConfig", ".status.settled.pools", MOST_NODES),
    ("NodeMaintenance", ".status.pendingPods", MOST_NODES),
    ("NodeMaintenance", ".status.pendingPodsRefs", MOST_NODES),
    ("Plan", ".status.applying", MOST_NODES),
    ("Plan", ".status.conditions", MOST_CONDITIONS),
];

/// What holds where nothing is given, of fields that no manifest of a replaced operator knows the like of. What `kubectl get -o yaml`
/// shows is then what numo does. Defaults of the fields of replaced kinds stay in the code and the docs: what was applied is
/// kept as it was given.
fn defaults() -> Vec<(&'static str, &'static str, Value)> {
    vec![
        ("MutexBudget", ".spec.maxUnavailable", json!(1)),
        ("MutexBudget", ".spec.paused", json!(false)),
        ("MutexRule", ".spec.cel.validations[].otherwise", json!("Wait")),
        (
            "MutexRule",
            ".spec.cel.validations[].retryAfterSeconds",
            json!(30),
        ),
        ("MutexRule", ".spec.cel.evaluationSeconds", json!(5)),
        ("MutexRule", ".spec.cel.serviceAccountName", json!("default")),
        ("MutexRule", ".spec.prometheus.forSeconds", json!(0)),
        ("MutexRule", ".spec.prometheus.maxGapSeconds", json!(300)),
        ("MutexRule", ".spec.prometheus.retryAfterSeconds", json!(30)),
        ("MutexRule", ".spec.prometheus.unmet", json!("Wait")),
        ("MutexRule", ".spec.prometheus.warnings", json!("Wait")),
        ("MutexRule", ".spec.wasm.grants.http[].scheme", json!("https")),
        ("MutexRule", ".spec.wasm.limits.evaluationSeconds", json!(5)),
        ("MutexRule", ".spec.wasm.limits.hostBytes", json!("16Mi")),
        ("MutexRule", ".spec.wasm.limits.hostCalls", json!(500)),
        ("MutexRule", ".spec.wasm.limits.memory", json!("64Mi")),
        ("MutexRule", ".spec.wasm.serviceAccountName", json!("default")),
        ("MutexRule", ".spec.wasm.signature.mode", json!("Enforce")),
        (
            "MutexRunConfig",
            ".spec.awaitedWorkloads.failurePolicy",
            json!("Continue"),
        ),
        (
            "MutexRunConfig",
            ".spec.awaitedWorkloads.timeoutSeconds",
            json!(600),
        ),
        ("MutexRunConfig", ".spec.window.timeZone", json!("UTC")),
        ("MutexBinding", ".spec.window.timeZone", json!("UTC")),
        ("MutexWindow", ".spec.timeZone", json!("UTC")),
        ("MutexNotifier", ".spec.maxPerMinute", json!(30)),
        ("MutexNotifier", ".spec.tls.caConfigMap.key", json!("ca.crt")),
        (
            "MutexNotifier",
            ".spec.alertmanager.silences.nodeLabel",
            json!("node"),
        ),
        (
            "MutexNotifier",
            ".spec.alertmanager.silences.durationSeconds",
            json!(300),
        ),
        ("Plan", ".spec.mutex.window.timeZone", json!("UTC")),
        ("NodeVersion", ".spec.mutex.window.timeZone", json!("UTC")),
    ]
}

/// The schemas of a definition, one for each version.
pub(crate) fn schemas(crd: &mut CustomResourceDefinition) -> impl Iterator<Item = &mut JSONSchemaProps> {
    let versions = crd.spec.versions.iter_mut();
    versions.filter_map(|version| version.schema.as_mut()?.open_api_v3_schema.as_mut())
}

/// The schema at a path such as `.spec.cel.objects[].name`; the empty path is the object itself.
pub(crate) fn at<'a>(schema: &'a mut JSONSchemaProps, path: &str) -> Option<&'a mut JSONSchemaProps> {
    let mut schema = schema;
    for part in path.split('.').filter(|part| !part.is_empty()) {
        let (name, items) = match part.strip_suffix("[]") {
            Some(name) => (name, true),
            None => (part, false),
        };
        schema = schema.properties.as_mut()?.get_mut(name)?;
        if items {
            schema = match schema.items.as_mut()? {
                JSONSchemaPropsOrArray::Schema(items) => items,
                JSONSchemaPropsOrArray::Schemas(_) => return None,
            };
        }
    }
    Some(schema)
}

/// Where MutexRules stand that are no objects of their own.
pub(crate) const INLINE: (&str, &str) = ("MutexRunConfig", ".spec.rules[]");

/// Where a field of the spec of a MutexRule is in one that stands in another object.
pub(crate) fn inline(path: &str) -> String {
    path.replacen(".spec", INLINE.1, 1)
}

/// What the tables say of the fields of a kind, where `place` says that they are.
fn shape_fields(kind: &str, schema: &mut JSONSchemaProps, place: fn(&str) -> String) {
    let is_of = |of: &str| of == kind;
    for (_, path) in SELECTORS.into_iter().filter(|(of, _)| is_of(of)) {
        if let Some(selector) = at(schema, &place(path)) {
            bound_selector(selector);
        }
    }
    let keys = KEYS.into_iter().map(|of| (of, LABEL_KEY.to_owned()));
    let or_none = KEYS_OR_NONE.into_iter().map(|of| (of, format!("^$|{LABEL_KEY}")));
    for ((_, path), pattern) in keys.chain(or_none).filter(|((of, _), _)| is_of(of)) {
        if let Some(key) = at(schema, &place(path)) {
            key.pattern = Some(pattern);
            key.max_length = Some(LONGEST_KEY);
        }
    }
    for (_, path) in NAMESPACES.into_iter().filter(|(of, _)| is_of(of)) {
        if let Some(name) = at(schema, &place(path)) {
            name.pattern = Some(NAMESPACE.to_owned());
            name.max_length = Some(LONGEST_VALUE);
        }
    }
    for (_, path, most) in MOST.into_iter().filter(|(of, ..)| is_of(of)) {
        if let Some(list) = at(schema, &place(path)) {
            list.max_items = Some(most);
        }
    }
    for (_, path) in SETS.into_iter().filter(|(of, _)| is_of(of)) {
        if let Some(list) = at(schema, &place(path)) {
            list.x_kubernetes_list_type = Some("set".to_owned());
        }
    }
    for (_, path) in MAPS.into_iter().filter(|(of, _)| is_of(of)) {
        if let Some(list) = at(schema, &place(path)) {
            list.x_kubernetes_list_type = Some("map".to_owned());
            list.x_kubernetes_list_map_keys = Some(vec!["name".to_owned()]);
        }
    }
    for (_, path, default) in defaults().into_iter().filter(|(of, ..)| is_of(of)) {
        if let Some(field) = at(schema, &place(path)) {
            field.default = Some(JSON(default));
        }
    }
}

/// The definition with all of that.
pub(crate) fn shaped(mut crd: CustomResourceDefinition) -> CustomResourceDefinition {
    let kind = crd.spec.names.kind.clone();
    for schema in schemas(&mut crd) {
        shape_fields(&kind, schema, str::to_owned);
        if kind == INLINE.0 {
            shape_fields("MutexRule", schema, inline);
        }
        let plain = PLAIN_CONDITIONS.contains(&kind.as_str());
        each("", schema, &mut |name, field| shape(name, field, plain));
        if let Some(spec) = at(schema, ".spec").filter(|_| kind == NULLS) {
            each("", spec, &mut |_, field| bound_by_requests(field));
        }
        if let Some(condition) = at(schema, ".status.conditions[]").filter(|_| !plain) {
            condition_schema::bound(condition);
        }
        let mut absent = |_: &str, field: &mut JSONSchemaProps| field.nullable = None;
        let never_null: &[&str] = if kind == NULLS { &NEVER_NULL } else { &[""] };
        for path in never_null {
            if let Some(field) = at(schema, path) {
                each("", field, &mut absent);
            }
        }
    }
    crd
}

/// Calls `shape` with every schema and the name of its field; that of an item is empty.
fn each(name: &str, schema: &mut JSONSchemaProps, shape: &mut impl FnMut(&str, &mut JSONSchemaProps)) {
    shape(name, schema);
    for (name, field) in schema.properties.iter_mut().flatten() {
        each(name, field, shape);
    }
    if let Some(JSONSchemaPropsOrArray::Schema(items)) = &mut schema.items {
        each("", items, shape);
    }
    if let Some(JSONSchemaPropsOrBool::Schema(values)) = &mut schema.additional_properties {
        each("", values, shape);
    }
}

fn shape(name: &str, field: &mut JSONSchemaProps, plain_conditions: bool) {
    field.description = field.description.take().map(|text| paragraphs(&text));
    if let Some(values) = &mut field.enum_ {
        values.retain(|value| !value.0.is_null());
    }
    let type_ = field.type_.as_deref();
    if type_ == Some("array") && field.x_kubernetes_list_type.is_none() {
        field.x_kubernetes_list_type = Some("atomic".to_owned());
    }
    let is_time = TIMES.contains(&name) || name == "lastTransitionTime" && !plain_conditions;
    if type_ == Some("string") && is_time {
        field.format = Some("date-time".to_owned());
    }
}

fn bound_by_requests(field: &mut JSONSchemaProps) {
    if field.type_.as_deref() == Some("array") {
        field.max_items.get_or_insert(MOST_OF_A_REQUEST);
    }
}

/// What Kubernetes takes for a value of a label; its length is bounded beside it.
const LABEL_VALUE: &str = "^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?$";
/// What it takes for a key: a name, and a DNS name with a slash before it or none.
const LABEL_KEY: &str = "^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]$";

/// What it takes for the name of a namespace.
const NAMESPACE: &str = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$";

fn bound_selector(selector: &mut JSONSchemaProps) {
    let Some(expressions) = at(selector, ".matchExpressions") else {
        return;
    };
    expressions.max_items = Some(MOST_REQUIREMENTS);
    if let Some(values) = at(selector, ".matchExpressions[].values") {
        values.max_items = Some(MOST_VALUES);
    }
    for (path, pattern) in [
        (".matchExpressions[].values[]", LABEL_VALUE),
        (".matchExpressions[].key", LABEL_KEY),
    ] {
        if let Some(text) = at(selector, path) {
            text.pattern = Some(pattern.to_owned());
        }
    }
    // The keys of the map, for which a schema has no pattern, are judged by `validations.rs`.
    if let Some(labels) = at(selector, ".matchLabels") {
        labels.max_properties = Some(MOST_REQUIREMENTS);
        if let Some(JSONSchemaPropsOrBool::Schema(value)) = labels.additional_properties.as_mut() {
            value.pattern = Some(LABEL_VALUE.to_owned());
            value.max_length = Some(LONGEST_VALUE);
        }
    }
    for (path, longest) in [
        (".matchExpressions[].values[]", LONGEST_VALUE),
        (".matchExpressions[].key", LONGEST_KEY),
        (".matchExpressions[].operator", LONGEST_VALUE),
    ] {
        if let Some(text) = at(selector, path) {
            text.max_length = Some(longest);
        }
    }
}

/// A comment of several lines as text: its lines are joined to paragraphs; empty lines part them, and lines of a list stay.
fn paragraphs(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut joins = false;
    for line in text.lines() {
        let is_own = line.is_empty() || line.starts_with(['-', '*', ' ', '\t']);
        if !out.is_empty() {
            out.push(if joins && !is_own { ' ' } else { '\n' });
        }
        out.push_str(line.trim_end());
        joins = !line.is_empty();
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::crds;

    /// Every CRD, those that are installed where they are asked for too.
    fn every() -> impl Iterator<Item = CustomResourceDefinition> {
        crds::all().into_iter().chain(crds::machines())
    }

    fn of(kind: &str) -> CustomResourceDefinition {
        let found = every().find(|crd| crd.spec.names.kind == kind);
        found.unwrap_or_else(|| panic!("there is no {kind}"))
    }

    #[test]
    fn every_path_of_the_tables_leads_to_a_field() {
        let keys = KEYS.into_iter().chain(KEYS_OR_NONE).chain(NAMESPACES);
        let paths = SELECTORS.into_iter().chain(keys).chain(SETS).chain(MAPS);
        let most = MOST.into_iter().map(|(kind, path, _)| (kind, path));
        let defaults = defaults().into_iter().map(|(kind, path, _)| (kind, path));
        let never_null = NEVER_NULL.into_iter().map(|path| (NULLS, path));
        for (kind, path) in paths.chain(most).chain(defaults).chain(never_null) {
            let mut crd = of(kind);
            let found = schemas(&mut crd).all(|schema| at(schema, path).is_some());
            assert!(found, "{kind} has no {path}");
        }
    }

    /// The fields of a Plan that are system-upgrade-controller's: what is below them may be null too.
    const MAY_BE_NULL: [&str; 22] = [
        ".spec.channel",
        ".spec.concurrency",
        ".spec.cordon",
        ".spec.drain",
        ".spec.exclusive",
        ".spec.imagePullSecrets",
        ".spec.jobActiveDeadlineSecs",
        ".spec.nodeSelector",
        ".spec.postCompleteDelay",
        ".spec.postCompleteLabels",
        ".spec.prepare",
        ".spec.priorityClassName",
        ".spec.secrets",
        ".spec.serviceAccountName",
        ".spec.tolerations",
        ".spec.upgrade",
        ".spec.version",
        ".spec.window",
        ".status.applying",
        ".status.conditions",
        ".status.latestHash",
        ".status.latestVersion",
    ];

    /// The fields under `path` that may be null, with their paths.
    fn nullable(path: &str, schema: &JSONSchemaProps, into: &mut Vec<String>) {
        if schema.nullable == Some(true) {
            into.push(path.to_owned());
        }
        for (name, field) in schema.properties.iter().flatten() {
            nullable(&format!("{path}.{name}"), field, into);
        }
        if let Some(JSONSchemaPropsOrArray::Schema(items)) = &schema.items {
            nullable(&format!("{path}[]"), items, into);
        }
        if let Some(JSONSchemaPropsOrBool::Schema(values)) = &schema.additional_properties {
            nullable(&format!("{path}{{}}"), values, into);
        }
    }

    #[test]
    fn nothing_is_null_but_the_fields_of_a_plan_that_are_not_numos_own() {
        let is_under = |path: &str, field: &str| {
            let rest = path.strip_prefix(field);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[', '{']))
        };
        for mut crd in every() {
            let kind = crd.spec.names.kind.clone();
            for schema in schemas(&mut crd) {
                let mut found = Vec::new();
                nullable("", schema, &mut found);
                for path in &found {
                    let of_reference = MAY_BE_NULL.iter().any(|field| is_under(path, field));
                    let may = kind == NULLS && (path == ".status" || of_reference);
                    assert!(may, "{kind}{path} may be null");
                }
                for field in MAY_BE_NULL.iter().filter(|_| kind == NULLS) {
                    assert!(found.iter().any(|path| is_under(path, field)), "{field}");
                }
            }
        }
    }

    #[test]
    fn no_enum_has_a_null_and_every_list_has_a_type_and_a_bound() {
        for mut crd in every() {
            let kind = crd.spec.names.kind.clone();
            for schema in schemas(&mut crd) {
                each("", schema, &mut |name, field| {
                    let has_null = field.enum_.iter().flatten().any(|value| value.0.is_null());
                    assert!(!has_null, "{kind} {name}");
                    if field.type_.as_deref() == Some("array") {
                        assert!(field.x_kubernetes_list_type.is_some(), "{kind} {name}");
                        assert!(field.max_items.is_some(), "{kind} {name} has no bound");
                    }
                });
            }
        }
    }

    /// A list of numo's own has a bound that means something.
    #[test]
    fn only_lists_of_a_replaced_operator_may_be_as_long_as_a_request() {
        for mut crd in every() {
            let kind = crd.spec.names.kind.clone();
            for schema in schemas(&mut crd) {
                if let Some(spec) = at(schema, ".spec").filter(|_| kind == NULLS) {
                    let fields = spec.properties.iter_mut().flatten();
                    fields.for_each(|(name, field)| {
                        if name != "mutex" {
                            *field = JSONSchemaProps::default();
                        }
                    });
                }
                each("", schema, &mut |name, field| {
                    let most = field.max_items.unwrap_or_default();
                    assert!(most <= MOST_NODES, "{kind} {name}: {most}");
                });
            }
        }
    }

    /// `adr/0052-one-spelling.md`: two names of before 0.1.0 stand beside theirs, for versions on both sides of an upgrade.
    #[test]
    fn acronyms_are_written_in_capitals_and_two_other_names_are_deprecated() {
        const ACRONYMS: [&str; 8] = ["Id", "Uid", "Url", "Tls", "Dns", "Http", "Pdb", "Ca"];
        let mut odd = std::collections::BTreeSet::new();
        let is_own = |crd: &CustomResourceDefinition| crd.spec.group.ends_with("skrzypek.io");
        for mut crd in crds::all().into_iter().filter(is_own) {
            for schema in schemas(&mut crd) {
                each("", schema, &mut |name, field| {
                    let mut words = ACRONYMS
                        .into_iter()
                        .flat_map(|word| name.match_indices(word).map(move |(at, _)| at + word.len()));
                    // A word that goes on in small letters is another one.
                    let ends =
                        |at: usize| !name[at..].starts_with(|letter: char| letter.is_ascii_lowercase());
                    if words.any(ends) {
                        let said = field.description.as_deref().unwrap_or_default();
                        assert!(said.starts_with("Deprecated: "), "{name}: {said}");
                        odd.insert(name.to_owned());
                    }
                });
            }
        }
        assert_eq!(odd, ["bootId", "ruleUid"].map(str::to_owned).into());
    }

    /// What of a schema is Kubernetes' own: its descriptions are its.
    const OF_KUBERNETES: [&str; 5] = [
        "envFrom",
        "envs",
        "imagePullSecrets",
        "securityContext",
        "tolerations",
    ];

    fn descriptions(path: &str, schema: &JSONSchemaProps, into: &mut Vec<(String, String)>) {
        if let Some(said) = &schema.description {
            into.push((path.to_owned(), said.clone()));
        }
        for (name, field) in schema.properties.iter().flatten() {
            if !OF_KUBERNETES.contains(&name.as_str()) {
                descriptions(&format!("{path}.{name}"), field, into);
            }
        }
        if let Some(JSONSchemaPropsOrArray::Schema(items)) = &schema.items {
            descriptions(&format!("{path}[]"), items, into);
        }
    }

    /// `kubectl explain` sorts the fields, and prints one alone: a description names what it is about, and does not point at another.
    #[test]
    fn every_description_can_be_read_alone() {
        const POINTS: [&str; 3] = ["those", "them", "such"];
        const BEGINS: [&str; 5] = [
            "See ",
            "Of how many ",
            "Which one ",
            "How many are",
            "How many there ",
        ];
        let mut wrong = Vec::new();
        for mut crd in every() {
            let kind = crd.spec.names.kind.clone();
            for schema in schemas(&mut crd) {
                let mut all = Vec::new();
                descriptions("", schema, &mut all);
                for (path, said) in all {
                    let of_whom = said.to_lowercase().replace("such as", "like");
                    let mut words = of_whom.split_whitespace().take(4);
                    let points = words.any(|word| {
                        let word = word.trim_matches(|c: char| !c.is_alphanumeric());
                        POINTS.contains(&word)
                    });
                    let begins = BEGINS.iter().any(|begin| said.starts_with(begin));
                    let ends = ["there are.", "these are.", "they are."]
                        .iter()
                        .any(|end| said.ends_with(end));
                    if points || begins || ends {
                        wrong.push(format!("{kind}{path}: {said}"));
                    }
                }
            }
        }
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    }

    #[test]
    fn lines_of_a_comment_are_joined_and_paragraphs_and_lists_stay() {
        assert_eq!(paragraphs("One\ntwo.\n\nThree\nfour."), "One two.\n\nThree four.");
        assert_eq!(
            paragraphs("One of\n- a\n- b\nand so on"),
            "One of\n- a\n- b and so on"
        );
        let mut crd = of("MutexRule");
        for schema in schemas(&mut crd) {
            each("", schema, &mut |name, field| {
                let text = field.description.as_deref().unwrap_or_default();
                assert!(!text.contains('\n'), "{name}: {text}");
            });
        }
    }
}
