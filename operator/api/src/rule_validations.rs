//! What the API server refuses of MutexRules, and of rules that stand in the object that they gate.

use crate::check::{Check, SPEC, check, matcher};

pub(crate) const MUTEX_RULE: &[Check] = &[
    SPEC,
    check(
        ".spec",
        "!has(self.jobSpec) || !has(self.type) || self.type == 'kubernetes'",
        "found jobSpec beside another type, wanted type: kubernetes with it",
    )
    .says("'found jobSpec beside type ' + self.type + ', wanted type: kubernetes with it'")
    .of(".jobSpec"),
    check(
        ".spec",
        "!has(self.cleanUpJobSpec) || !has(self.type) || self.type == 'kubernetes'",
        "found cleanUpJobSpec beside another type, wanted type: kubernetes with it",
    )
    .says("'found cleanUpJobSpec beside type ' + self.type + ', wanted type: kubernetes with it'")
    .of(".cleanUpJobSpec"),
    check(
        ".spec",
        "!has(self.wasm) || (has(self.type) && self.type == 'wasm')",
        "found wasm beside another type, wanted type: wasm with it",
    )
    .says("'found wasm beside ' + (has(self.type) ? 'type ' + self.type : 'no type') + ', wanted type: wasm with it'")
    .of(".wasm"),
    check(
        ".spec",
        "!has(self.cel) || (has(self.type) && self.type == 'cel')",
        "found cel beside another type, wanted type: cel with it",
    )
    .says("'found cel beside ' + (has(self.type) ? 'type ' + self.type : 'no type') + ', wanted type: cel with it'")
    .of(".cel"),
    check(
        ".spec",
        "!has(self.prometheus) || (has(self.type) && self.type == 'prometheus')",
        "found prometheus beside another type, wanted type: prometheus with it",
    )
    .says("'found prometheus beside ' + (has(self.type) ? 'type ' + self.type : 'no type') + ', wanted type: prometheus with it'")
    .of(".prometheus"),
    check(
        ".spec",
        "(has(self.type) && self.type != 'kubernetes') || has(self.jobSpec) || has(self.cleanUpJobSpec) || has(self.wasm) || has(self.cel) || has(self.prometheus)",
        "found neither jobSpec nor cleanUpJobSpec, wanted a batch/v1 JobSpec, or another type with its field",
    )
    .of(".jobSpec"),
    check(
        ".spec",
        "!has(self.type) || self.type != 'wasm' || has(self.wasm)",
        "found no wasm, wanted a component (type wasm)",
    )
    .of(".wasm"),
    check(
        ".spec",
        "!has(self.type) || self.type != 'cel' || has(self.cel)",
        "found no cel, wanted validations (type cel)",
    )
    .of(".cel"),
    check(
        ".spec",
        "!has(self.type) || self.type != 'prometheus' || has(self.prometheus)",
        "found no prometheus, wanted a query or alerts (type prometheus)",
    )
    .of(".prometheus"),
    check(
        ".spec",
        "!has(self.phases) || size(self.phases) > 0 || has(self.cleanUpJobSpec)",
        "found no phase, wanted one at least, such as Pre",
    )
    .of(".phases"),
    check(
        ".spec",
        "!has(self.phases) || !('Admit' in self.phases) || (has(self.type) && self.type != 'kubernetes')",
        "found Admit for a rule of type kubernetes, wanted another phase: a Job would do its work for a node that may go much later",
    )
    .of(".phases"),
    check(
        ".spec",
        "!has(self.phases) || !('Post' in self.phases) || !has(self.jobSpec) || !has(self.cleanUpJobSpec)",
        "found Post beside cleanUpJobSpec, wanted only one of them to say what runs in Post",
    )
    .of(".phases"),
    check(
        ".spec",
        "!has(self.failurePolicy) || self.failurePolicy != 'Continue' || has(self.cleanUpJobSpec) || (has(self.phases) && self.phases.exists(phase, phase in ['BeforeUncordon', 'Post', 'OnFailure', 'PostRun']))",
        "found Continue without a phase after the release, wanted BeforeUncordon, Post, OnFailure or PostRun among phases, or another policy: before the release Continue would mean Hold",
    )
    .of(".failurePolicy"),
    check(
        ".spec.wasm.image",
        "self.matches('^[^/@]+/[a-z0-9._/-]+(:[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}(@sha256:[0-9a-f]{64})?|@sha256:[0-9a-f]{64})$')",
        "found no reference, wanted REGISTRY/PATH:TAG or REGISTRY/PATH@sha256:DIGEST",
    )
    .says("'found ' + self + ', wanted REGISTRY/PATH:TAG or REGISTRY/PATH@sha256:DIGEST'"),
    check(
        ".spec",
        "!has(self.jobNamespace) || self.jobNamespace.matches('^([a-z0-9]([-a-z0-9]*[a-z0-9])?)?$')",
        "found no name of a namespace, wanted lower-case letters, digits and '-'",
    )
    .says("'found ' + self.jobNamespace + ', wanted the name of a namespace: lower-case letters, digits and \"-\"'")
    .of(".jobNamespace"),
    check(
        ".spec",
        "!has(self.prometheus) || !has(self.prometheus.forSeconds) || self.prometheus.forSeconds < (has(self.timeoutSeconds) ? self.timeoutSeconds : 3600)",
        "found forSeconds that is not less than timeoutSeconds (default: 3600), wanted less",
    )
    .of(".prometheus.forSeconds"),
    check(
        ".spec.wasm",
        "has(self.image) != has(self.configMap)",
        "found both or neither of image and configMap, wanted one of them",
    )
    .says("(has(self.image) ? 'found image and configMap' : 'found neither image nor configMap') + ', wanted one of them'"),
    check(
        ".spec.wasm",
        "!has(self.configMap) || (!has(self.pullSecretName) && !has(self.signature))",
        "found pullSecretName or signature beside configMap, wanted them with image only",
    )
    .of(".configMap"),
    check(
        ".spec.wasm.signature",
        "(has(self.keys) && size(self.keys) > 0) || (has(self.identities) && size(self.identities) > 0)",
        "found neither keys nor identities, wanted one at least",
    ),
    check(
        ".spec.wasm.limits.memory",
        "self.endsWith('Gi') ? false : self.endsWith('Mi') ? int(self.substring(0, size(self) - 2)) <= 256 : self.endsWith('Ki') ? int(self.substring(0, size(self) - 2)) <= 262144 : int(self) <= 268435456",
        "found more than an evaluation may have, wanted 256Mi at most",
    )
    .says("'found ' + self + ', wanted 256Mi at most'"),
    check(
        ".spec.wasm.limits.hostBytes",
        "self.endsWith('Gi') ? false : self.endsWith('Mi') ? int(self.substring(0, size(self) - 2)) <= 128 : self.endsWith('Ki') ? int(self.substring(0, size(self) - 2)) <= 131072 : int(self) <= 134217728",
        "found more than the host hands over, wanted 128Mi at most",
    )
    .says("'found ' + self + ', wanted 128Mi at most'"),
    check(
        ".spec.cel.objects[]",
        "!has(self.objectName) || (!has(self.labelSelector) && !has(self.fieldSelector))",
        "found a selector beside objectName, wanted one of them",
    )
    .of(".objectName"),
    check(
        ".spec.cel.objects[]",
        r"!has(self.labelSelector) || self.labelSelector.matches(r'^(\s*(!?\s*[A-Za-z0-9./_{}$-]*|[A-Za-z0-9./_{}$-]*\s*(==?|!=|<|>)\s*[A-Za-z0-9./_{}$-]*|[A-Za-z0-9./_{}$-]*\s+(in|notin)\s*\([A-Za-z0-9./_{}$,\s-]*\))\s*(,|$))*$')",
        "found no label selector, wanted one as kubectl --selector takes it, such as app=db,tier in (a, b)",
    )
    .of(".labelSelector"),
    check(
        ".spec.cel.objects[]",
        r"!has(self.fieldSelector) || self.fieldSelector.matches(r'^([^,=\\]*=([^,\\]|\\.)*)?(,([^,=\\]*=([^,\\]|\\.)*)?)*$')",
        "found no field selector, wanted one as kubectl --field-selector takes it, such as spec.nodeName=a",
    )
    .of(".fieldSelector"),
    matcher(".spec.prometheus.alerts.matchers[]"),
    matcher(".spec.prometheus.alerts.watchdog[]"),
    check(
        ".spec",
        "!has(self.failurePolicy) || self.failurePolicy != 'Skip' || has(self.cleanUpJobSpec) || !has(self.phases) || self.phases.exists(phase, !(phase in ['PreRun', 'PostRun']))",
        "found Skip with phases of a whole run only, wanted Hold, Abort or Continue: such a rule is asked about no node that could be left out",
    )
    .of(".failurePolicy"),
    check(
        ".spec",
        "!has(self.placement) || self.placement != 'OnTarget' || has(self.cleanUpJobSpec) || !has(self.phases) || self.phases.exists(phase, !(phase in ['PreRun', 'PostRun']))",
        "found OnTarget with phases of a whole run only, wanted Anywhere or none: such a rule has no node that it could run on",
    )
    .of(".placement"),
    check(
        ".spec.prometheus",
        "has(self.query) != has(self.alerts)",
        "found both or neither of query and alerts, wanted one of them",
    )
    .says("(has(self.query) ? 'found query and alerts' : 'found neither query nor alerts') + ', wanted one of them'"),
    check(
        ".spec.prometheus",
        "!has(self.query) || (has(self.operator) && has(self.threshold))",
        "found query without operator or threshold, wanted both beside it",
    )
    .of(".query"),
    check(
        ".spec.prometheus",
        "!has(self.alerts) || (!has(self.operator) && !has(self.threshold) && !has(self.match) && !has(self.noData) && !has(self.nan))",
        "found operator, threshold, match, noData or nan beside alerts, wanted them with query only",
    )
    .of(".alerts"),
];
