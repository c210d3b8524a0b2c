//! What `deploy/monitoring` has, as templates: each part has a switch, and the bounds of alerts are values.

use anyhow::{Context as _, Result, ensure};
use std::fmt::Write as _;

use super::{labelled, not_of_helm, once, only_if, placed};
use crate::{NAMESPACE, RUNBOOKS, objects, read};

/// Bounds in the expressions of alerts, and the value that each is.
const BOUNDS: [(&str, &str, &str); 9] = [
    ("{step=\"Admitted\"} > ", "900", "admittedSeconds"),
    (
        "{step=~\"Changed|Ready|Uncordoned\"} > ",
        "1800",
        "changedSeconds",
    ),
    (
        "{step=~\"Cordoned|Drained|PreRelease\"} > ",
        "3600",
        "drainedSeconds",
    ),
    (
        "{step=~\"PreRules|Released|PostRules\"} > ",
        "7200",
        "rulesSeconds",
    ),
    ("{step=\"Soaked\"} > ", "86400", "soakedSeconds"),
    (
        "(increase(numo_rule_verdicts_total{verdict=\"error\"}[30m])) > ",
        "2",
        "ruleErrors",
    ),
    (
        "sum by (rule) (increase(numo_plugin_failures_total[30m])) > ",
        "2",
        "ruleErrors",
    ),
    (
        "sum by (rule, reason) (increase(numo_plugin_failures_total[30m])) > ",
        "2",
        "ruleErrors",
    ),
    ("sum(changes(numo_leader[1h])) > ", "6", "leaderChanges"),
];

/// The templates by their names.
pub(super) fn templates() -> Result<[(&'static str, String); 3]> {
    Ok([
        (
            "monitoring_service_monitor",
            part("serviceMonitor", &service_monitor()?),
        ),
        ("monitoring_alerts", part("alerts", &alerts()?)),
        ("monitoring_dashboard", part("dashboard", &dashboard()?)),
    ])
}

fn part(name: &str, text: &str) -> String {
    only_if(
        &format!("and .Values.monitoring.enabled .Values.monitoring.{name}.enabled"),
        text,
    )
}

/// Standard labels, and those by which a Prometheus or a Grafana selects.
fn selected(text: &str, part: &str) -> Result<String> {
    let include = "    {{- include \"numo.labels\" (list $ \"monitoring\") | nindent 4 }}\n";
    let more = format!(
        "{include}    {{{{- with merge dict .Values.monitoring.{part}.labels .Values.monitoring.labels }}}}\n    \
         {{{{- toYaml . | nindent 4 }}}}\n    {{{{- end }}}}\n"
    );
    once(&labelled(text), include, &more)
}

fn service_monitor() -> Result<String> {
    let text = placed(&not_of_helm(&read("deploy/monitoring/service_monitor.yaml")?));
    let mut text = selected(&text, "serviceMonitor")?;
    for (key, value) in [("interval", "30s"), ("scrapeTimeout", "10s")] {
        text = once(
            &text,
            &format!("{key}: {value}\n"),
            &format!("{key}: {{{{ .Values.monitoring.serviceMonitor.{key} }}}}\n"),
        )?;
    }
    let mut more = String::new();
    for key in ["relabelings", "metricRelabelings"] {
        let _ = write!(
            more,
            "      {{{{- with .Values.monitoring.serviceMonitor.{key} }}}}\n      {key}:\n        \
             {{{{- toYaml . | nindent 8 }}}}\n      {{{{- end }}}}\n"
        );
    }
    Ok(text + &more)
}

/// The names of all alerts, each once.
pub fn alert_names() -> Result<Vec<String>> {
    let rule = objects(&read("deploy/monitoring/alerts.yaml")?)?;
    let groups = rule.first().and_then(|rule| rule["spec"]["groups"].as_array());
    let rules = groups
        .context("groups")?
        .iter()
        .flat_map(|group| group["rules"].as_array().into_iter().flatten());
    let mut names: Vec<String> = rules
        .filter_map(|one| one["alert"].as_str().map(str::to_owned))
        .collect();
    names.dedup();
    Ok(names)
}

/// Each alert can be left out, and be given another `for` and severity.
fn alerts() -> Result<String> {
    let source = read("deploy/monitoring/alerts.yaml")?;
    let mut text = selected(&placed(&not_of_helm(&source)), "alerts")?;
    for (before, number, value) in BOUNDS {
        text = once(
            &text,
            &format!("{before}{number}\n"),
            &format!("{before}{{{{ int .Values.monitoring.alerts.thresholds.{value} }}}}\n"),
        )?;
    }
    let (mut out, mut name, mut is_told) = (String::new(), String::new(), false);
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        let other = |key: &str, value: &str| {
            format!("{{{{ dig \"{name}\" \"{value}\" .Values.monitoring.alerts.{key} }}}}")
        };
        if let Some(alert) = line.strip_prefix("        - alert: ") {
            ensure!(!is_told, "{name} does not end with runbook_url");
            alert.clone_into(&mut name);
            is_told = true;
            let _ = write!(
                out,
                "        {{{{- if not (has \"{name}\" .Values.monitoring.alerts.disabled) }}}}\n{line}\n"
            );
        } else if let Some(after) = line.strip_prefix("          for: ") {
            let _ = writeln!(out, "          for: {}", other("for", after));
        } else if let Some(severity) = line.strip_prefix("            severity: ") {
            let _ = writeln!(out, "            severity: {}", other("severity", severity));
        } else if let Some(address) = line.strip_prefix("            runbook_url: ") {
            let anchor = address.strip_prefix(RUNBOOKS).context("an address of the docs")?;
            let _ = write!(
                out,
                "            runbook_url: {{{{ .Values.monitoring.alerts.runbooks }}}}{anchor}\n        {{{{- end }}}}\n"
            );
            is_told = false;
        } else {
            let _ = writeln!(out, "{line}");
        }
        // At once, by itself.
        if line.starts_with("          expr: ") && !line.ends_with('|') {
            let next = lines.peek().copied().unwrap_or_default();
            if !next.starts_with("          for: ") {
                let _ = write!(
                    out,
                    "          {{{{- with dig \"{name}\" \"\" .Values.monitoring.alerts.for }}}}\n          for: {{{{ . }}}}\n          {{{{- end }}}}\n"
                );
            }
        }
    }
    Ok(out)
}

fn dashboard() -> Result<String> {
    let dashboard = not_of_helm(&read("deploy/monitoring/dashboard.json")?);
    let lines: Vec<String> = dashboard.lines().map(|line| format!("    {line}\n")).collect();
    let head = format!(
        "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: numo-dashboard\n  namespace: {NAMESPACE}\n  labels:\n    \
         app.kubernetes.io/name: numo\n    app.kubernetes.io/component: monitoring\n    app.kubernetes.io/part-of: numo\n    \
         grafana_dashboard: \"1\"\n  {{{{- with .Values.monitoring.dashboard.annotations }}}}\n  annotations:\n    \
         {{{{- toYaml . | nindent 4 }}}}\n  {{{{- end }}}}\ndata:\n  numo.json: |\n"
    );
    Ok(selected(&placed(&head), "dashboard")? + &lines.concat())
}
