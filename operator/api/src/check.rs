//! What a definition refuses, one thing at a time, and the things that several kinds refuse alike. Which kind refuses what is said in
//! `validations.rs`.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::ValidationRule;

/// One thing that is refused.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Check {
    /// The field that the rule sees as `self`.
    pub(crate) at: &'static str,
    /// CEL that is true for what can work.
    pub(crate) rule: &'static str,
    /// What is said: found, wanted.
    pub(crate) message: &'static str,
    /// CEL whose value is said instead, with what was found.
    pub(crate) says: Option<&'static str>,
    /// The field under `at` that the message is about.
    pub(crate) field: Option<&'static str>,
    /// Whether the rule looks at the object before, where there is one.
    pub(crate) sees_old: bool,
}

/// What must hold of the field `at`.
pub(crate) const fn check(at: &'static str, rule: &'static str, message: &'static str) -> Check {
    Check {
        at,
        rule,
        message,
        says: None,
        field: None,
        sees_old: false,
    }
}

impl Check {
    /// The message is about this field.
    pub(crate) const fn of(self, field: &'static str) -> Self {
        Self {
            field: Some(field),
            ..self
        }
    }

    /// This is said instead, an expression.
    pub(crate) const fn says(self, expression: &'static str) -> Self {
        Self {
            says: Some(expression),
            ..self
        }
    }

    /// The rule has `oldSelf`, also where there was no object before.
    pub(crate) const fn sees_old(self) -> Self {
        Self {
            sees_old: true,
            ..self
        }
    }

    pub(crate) fn rule(self) -> ValidationRule {
        ValidationRule {
            rule: self.rule.to_owned(),
            message: Some(self.message.to_owned()),
            message_expression: self.says.map(str::to_owned),
            field_path: self.field.map(str::to_owned),
            optional_old_self: self.sees_old.then_some(true),
            ..ValidationRule::default()
        }
    }
}

/// A number of nodes or a percentage, as `IntOrPercent::parse` of the core reads it.
pub(crate) const fn limit(at: &'static str) -> Check {
    check(
        at,
        "type(self) == int ? self >= 0 : self.matches('^[+]?0*([0-9]{1,18}|([0-9]{1,2}|100)%)$')",
        "found no limit, wanted a whole number such as 2 or a percentage such as \"25%\"",
    )
    .says("'found ' + string(self) + ', wanted a whole number such as 2 or a percentage such as \"25%\"'")
}

/// A number from 1 or a percentage: a wave of no node would be no wave.
pub(crate) const fn some(at: &'static str) -> Check {
    check(
        at,
        "type(self) == int ? self >= 1 : self.matches('^[+]?0*([1-9][0-9]{0,17}|([1-9][0-9]?|100)%)$')",
        "found no number, wanted a whole number from 1, such as 2, or a percentage such as \"25%\"",
    )
    .says("'found ' + string(self) + ', wanted a whole number from 1, such as 2, or a percentage such as \"25%\"'")
}

/// So many failures as end a run: none would end it before it begins.
pub(crate) const fn failures(at: &'static str) -> Check {
    Check {
        message: "found no budget, wanted a whole number from 1, such as 2, or a percentage such as \"25%\"",
        ..some(at)
    }
}

/// A reference that names nobody refers to nothing.
pub(crate) const fn reference(at: &'static str) -> Check {
    check(
        at,
        "has(self.name) && self.name != ''",
        "found no name, wanted the name of an object",
    )
    .of(".name")
}

/// `first` is one wave already.
pub(crate) const fn first_or_waves(at: &'static str) -> Check {
    check(
        at,
        "!has(self.first) || !has(self.waves)",
        "found waves beside first, wanted one of them",
    )
    .of(".waves")
}

/// Waves are told apart by their names.
pub(crate) const fn wave_names(at: &'static str) -> Check {
    check(
        at,
        "self.all(wave, !has(wave.name) || self.exists_one(other, has(other.name) && other.name == wave.name))",
        "found two waves of one name, wanted names that differ",
    )
}

/// A wave that grows leaves no node to those after it.
pub(crate) const fn growth_is_last(at: &'static str) -> Check {
    check(
        at,
        "size(self) == 0 || self.filter(wave, has(wave.growth)).size() <= (has(self[size(self) - 1].growth) ? 1 : 0)",
        "found growth in a wave before the last, wanted it in the last: it leaves no node to another",
    )
}

/// A node that is waited for is never left out.
pub(crate) const fn left_out_or_waited_for(at: &'static str) -> Check {
    check(
        at,
        "!has(self.leaveOutAfterSeconds) || !has(self.notReadyPolicy) || self.notReadyPolicy != 'Wait'",
        "found leaveOutAfterSeconds beside notReadyPolicy: Wait, wanted one of them",
    )
    .of(".leaveOutAfterSeconds")
}

/// Only a MutexRunConfig has pools.
pub(crate) const fn no_pools(at: &'static str) -> Check {
    check(
        at,
        "!has(self.pools)",
        "found pools, wanted nodeSelector or nodes: only a MutexRunConfig has MachineConfigPools",
    )
    .of(".pools")
}

/// Domains are the values of a label.
pub(crate) const fn domains(at: &'static str) -> Check {
    check(
        at,
        "has(self.key) && self.key != ''",
        "found no key, wanted the key of a label, such as topology.kubernetes.io/zone",
    )
    .of(".key")
}

/// A matcher of alerts, as the operator reads it: a label, an operator, and a text in double quotes.
pub(crate) const fn matcher(at: &'static str) -> Check {
    check(
        at,
        r#"self.matches(r'^[a-zA-Z_][a-zA-Z0-9_]*(=|!=|=~|!~)"([^"\\\n]|\\[\s\S])*"$')"#,
        "found no matcher, wanted one such as severity=\"critical\"",
    )
    .says("'found ' + self + ', wanted a matcher such as severity=\"critical\"'")
}

/// How the pods of a drain are ordered.
pub(crate) const fn drain(at: &'static str) -> Check {
    check(
        at,
        "(has(self.order) && self.order == 'Label') == (has(self.orderLabel) && self.orderLabel != '')",
        "found one of order: Label and orderLabel, wanted both or neither",
    )
    .of(".orderLabel")
}

/// An object without a spec says nothing. One that is stored without may stay so.
pub(crate) const SPEC: Check = check(
    "",
    "has(self.spec) || (oldSelf.hasValue() && !has(oldSelf.value().spec))",
    "found no spec, wanted one",
)
.sees_old();

/// A requirement of a label selector.
pub(crate) const REQUIREMENT: Check = check(
    "",
    "self.operator in ['In', 'NotIn'] ? has(self.values) && size(self.values) > 0 : self.operator in ['Exists', 'DoesNotExist'] && (!has(self.values) || size(self.values) == 0)",
    "found an operator that selects nothing, wanted In or NotIn with values, or Exists or DoesNotExist without",
)
.says(
    "'found operator ' + self.operator + (has(self.values) && size(self.values) > 0 ? ' with' : ' without') + ' values, wanted In or NotIn with values, or Exists or DoesNotExist without'",
)
.of(".operator");

/// Keys of the labels that a selector wants. No object has one that Kubernetes takes for none, so nothing would be selected.
pub(crate) const LABELS: Check = check(
    "",
    "self.all(key, size(key) <= 317 && key.matches('^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]$'))",
    "found a key that no label has, wanted label keys: a domain and '/' or neither, and letters, digits, '-', '_' and '.'",
)
.says(
    "'found ' + self.filter(key, size(key) > 317 || !key.matches('^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]$'))[0] + ', wanted a label key: a domain and \"/\" or neither, and letters, digits, \"-\", \"_\" and \".\"'",
);
