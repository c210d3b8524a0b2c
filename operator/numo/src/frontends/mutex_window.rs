//! MutexWindow: its view, and its status: whether the spec can be understood, whether the window is open by itself, and until when. Pure.

use super::{conditions::Conditions, hours::zone};
use jiff::Timestamp;
use numo_api::{MutexWindow, MutexWindowStatus, Reason};
use numo_core::{
    admit::{hours::Hours, union::State, windows},
    observed::{NodeView, WindowView},
    selector,
};
use serde_json::{Value, json};

/// What decisions read of a window. One whose selector cannot be understood speaks of all nodes, and is understood no more than that.
pub fn view(window: MutexWindow) -> WindowView {
    let spec = &window.spec;
    let given = spec.node_selector.as_ref();
    let (selector, hours) = match selector::problem("nodeSelector", given) {
        Some(problem) => (json!({}), Err(problem)),
        None => (
            given.map_or(Value::Null, |given| json!(given)),
            Hours::parse(&spec.hours, zone),
        ),
    };
    WindowView {
        name: window.metadata.name.unwrap_or_default(),
        selector,
        hours,
        spec: window.spec,
        uid: window.metadata.uid.unwrap_or_default(),
        generation: window.metadata.generation.unwrap_or(1),
        status: window.status.unwrap_or_default(),
    }
}

/// The status. `nodes` are all nodes.
pub fn status<'n>(
    window: &WindowView,
    nodes: impl IntoIterator<Item = &'n NodeView>,
    now: Timestamp,
) -> MutexWindowStatus {
    let state = windows::state(window, now);
    let mut conditions = Conditions::over(&window.status.conditions, window.generation, now);
    let selected = nodes
        .into_iter()
        .filter(|node| windows::covers(window, node))
        .count();
    match (&window.hours, &state) {
        (Err(problem), _) => {
            let message = format!("spec.{problem}; no node begins that the window selects");
            conditions.kstatus(false, false, true, Reason::InvalidField.name(), &message);
        }
        _ if window.selector.is_null() => {
            let message = "spec.nodeSelector is absent and selects no node; {} selects all";
            conditions.kstatus(true, false, false, Reason::NoNodes.name(), message);
        }
        (Ok(_), Some(State::Shut { opens: None, .. })) => {
            let message = "The window has no opening ahead: it lets no node begin any more.";
            conditions.kstatus(false, false, true, Reason::NeverOpens.name(), message);
        }
        _ if selected == 0 => {
            let message = "spec.nodeSelector selects no node; nodes that come later keep to the window";
            conditions.kstatus(true, false, false, Reason::NoNodes.name(), message);
        }
        (Ok(_), _) => {
            let message = "Nodes that spec.nodeSelector selects begin while the window is open.";
            conditions.kstatus(true, false, false, Reason::ValidConfig.name(), message);
        }
    }
    let freeze = state.as_ref().and_then(State::freeze);
    MutexWindowStatus {
        observed_generation: Some(window.generation),
        open: state.as_ref().map(State::is_open),
        closes_at: state.as_ref().and_then(State::closes_at).map(|at| at.to_string()),
        opens_at: state.as_ref().and_then(State::opens_at).map(|at| at.to_string()),
        // kubectl prints it as it stands.
        freeze: freeze.map(|freeze| numo_api::text::line(&freeze.name).into_owned()),
        nodes: i64::try_from(selected).ok(),
        conditions: conditions.done(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[allow(clippy::needless_pass_by_value, reason = "a table of literals")]
    fn read(spec: Value) -> WindowView {
        let window = json!({"apiVersion": "numo.openshift-optional.skrzypek.io/v1alpha1", "kind": "MutexWindow",
            "metadata": {"name": "nights", "generation": 3}, "spec": spec});
        view(serde_json::from_value(window).unwrap())
    }

    fn ready(status: &MutexWindowStatus) -> (&str, Option<&str>) {
        let ready = status.conditions.iter().find(|one| one.type_ == "Ready").unwrap();
        (&ready.status, ready.reason.as_deref())
    }

    /// 2027-01-15 is a Friday.
    fn now() -> Timestamp {
        "2027-01-15T08:00:00Z".parse().unwrap()
    }

    #[test]
    fn a_window_says_when_it_opens_and_closes() {
        let nights =
            read(json!({"nodeSelector": {}, "openings": [{"startTime": "22:00", "endTime": "04:00"}]}));
        let shut = status(&nights, [], now());
        assert_eq!((shut.open, shut.closes_at), (Some(false), None));
        assert_eq!(shut.opens_at.as_deref(), Some("2027-01-15T22:00:00Z"));
        let open = status(&nights, [], "2027-01-15T23:00:00Z".parse().unwrap());
        assert_eq!((open.open, open.opens_at), (Some(true), None));
        assert_eq!(open.closes_at.as_deref(), Some("2027-01-16T04:00:00Z"));
        assert_eq!(open.observed_generation, Some(3));
    }

    #[test]
    fn a_window_that_nobody_can_read_or_that_never_opens_is_not_ready() {
        let mars = read(
            json!({"nodeSelector": {"matchLabels": {"a": "b"}}, "timeZone": "Mars/Base", "openings": [{"days": ["mon"]}]}),
        );
        let said = status(&mars, [], now());
        assert_eq!(ready(&said), ("False", Some("InvalidField")));
        assert_eq!((said.open, said.opens_at), (None, None));
        let words = said.conditions[0].message.clone().unwrap_or_default();
        assert!(words.contains("spec.timeZone: found \"Mars/Base\""), "{words}");

        let wrong = read(
            json!({"nodeSelector": {"matchExpressions": [{"key": "a", "operator": "Like"}]}, "openings": [{"days": ["mon"]}]}),
        );
        assert_eq!(wrong.selector, json!({}), "it speaks of all nodes");
        assert_eq!(ready(&status(&wrong, [], now())), ("False", Some("InvalidField")));

        let never =
            read(json!({"nodeSelector": {}, "openings": [{"cron": "0 0 30 2 *", "durationSeconds": 60}]}));
        assert_eq!(ready(&status(&never, [], now())), ("False", Some("NeverOpens")));
    }
}
