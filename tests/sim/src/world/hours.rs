//! Hours that people set on owners and MutexBindings, and in MutexWindows, with time zones whose clocks change while a simulation goes on.

use super::{Object, World, is_before_leap_day, timestamp};
use jiff::tz::TimeZone;
use numo_api::{MutexWindowSpec, MutexWindowStatus, hours, marks::openshift};
use numo_core::{
    admit::hours::Hours,
    observed::{Key, WindowView},
};
use rand::{Rng, rngs::SmallRng};
use serde_json::{Value, json};

/// When the clocks of these worlds change (seconds since the beginning): 10:00 UTC.
pub const CLOCKS_CHANGE: i64 = 7200;
/// A time zone whose clocks go from 10:00 to 11:00 then.
pub const FORWARD: &str = "Sim/Forward";
/// A time zone whose clocks go from 11:00 to 10:00 then.
pub const BACK: &str = "Sim/Back";

/// A time zone that no database has: nothing begins where people wrote it.
pub const NOWHERE: &str = "Sim/Nowhere";

/// The MutexWindows that there may be, and the zone whose nodes each selects; none are all.
const WINDOWS: [(&str, Option<&str>); 3] = [("all", None), ("zone-a", Some("a")), ("every", None)];

/// A MutexWindow with these hours.
fn mutex_window(name: &str, given: &hours::Hours) -> WindowView {
    let zone = WINDOWS.iter().find(|(known, _)| *known == name);
    let selector = match zone.and_then(|(_, zone)| *zone) {
        None => json!({}),
        Some(zone) => json!({"matchLabels": {openshift::ZONE: zone}}),
    };
    window_of(name, selector, given)
}

/// A MutexWindow with these hours, of the nodes of this selector.
pub fn window_of(name: &str, selector: Value, given: &hours::Hours) -> WindowView {
    WindowView {
        name: name.to_owned(),
        spec: MutexWindowSpec {
            node_selector: serde_json::from_value(selector.clone()).ok(),
            hours: given.clone(),
        },
        selector,
        hours: read(given),
        uid: format!("{name}-uid"),
        generation: 1,
        status: MutexWindowStatus::default(),
    }
}

/// Where hours stand.
#[derive(Clone, Debug)]
pub enum HoursOf {
    /// On a MutexRunConfig.
    Run(Key),
    /// In `spec.mutex` of a Plan.
    Plan(Key),
    /// On a MutexBinding.
    Binding(String),
    /// A MutexWindow.
    Window(String),
}

/// `window` and `startAfter`.
#[derive(Clone, Debug, Default)]
pub struct MeantHours {
    /// `window`.
    pub window: Option<hours::Hours>,
    /// `startAfter`.
    pub start_after: Option<String>,
}

impl MeantHours {
    /// From 20:00 to 21:00: closed when a simulation begins, and for long.
    pub fn of_the_evening() -> Self {
        let opening = hours::Opening {
            start_time: Some("20:00".to_owned()),
            end_time: Some("21:00".to_owned()),
            ..hours::Opening::default()
        };
        Self {
            window: Some(hours::Hours {
                openings: Some(vec![opening]),
                ..hours::Hours::default()
            }),
            start_after: None,
        }
    }

    /// Hours that close and open again within the hours that a simulation takes, mostly.
    pub fn drawn(rng: &mut SmallRng) -> Self {
        let text = |second: i64| format!("{:02}:{:02}", second / 3600 % 24, second / 60 % 60);
        let mut window = json!({});
        let opening = |rng: &mut SmallRng| -> Value {
            let half_hours = |rng: &mut SmallRng, from: i64, to: i64| rng.random_range(from..to) * 1800;
            match rng.random_range(0..10) {
                // Shorter than most nodes take.
                8 => {
                    let from = half_hours(rng, 16, 28);
                    let to = from + rng.random_range(1..4) * 300;
                    json!({"startTime": text(from), "endTime": text(to)})
                }
                // Of one date: that of the beginning, the next one, or a leap day.
                9 => {
                    let date = ["5 1", "6 1", "29 2"][rng.random_range(0..3)];
                    let lasts = half_hours(rng, 1, 4);
                    json!({"cron": format!("0 */2 {date} *"), "durationSeconds": lasts})
                }
                0 => {
                    let minute = rng.random_range(0..4) * 15;
                    let each = rng.random_range(1..4);
                    // Shorter than the time to the next one.
                    let lasts = half_hours(rng, 1, 2 * each);
                    json!({"cron": format!("{minute} */{each} * * *"), "durationSeconds": lasts})
                }
                1 | 2 => {
                    let (from, to) = (half_hours(rng, 38, 47), half_hours(rng, 16, 26));
                    let mut opening = json!({"startTime": text(from), "endTime": text(to)});
                    if rng.random_bool(0.5) {
                        let days = [json!(["sun"]), json!(["mon"]), json!(["sun", "mon", "tue"])];
                        opening["days"] = days[rng.random_range(0..days.len())].clone();
                    }
                    opening
                }
                _ => {
                    let from = half_hours(rng, 16, 28);
                    let to = from + half_hours(rng, 1, 8);
                    json!({"startTime": text(from), "endTime": text(to)})
                }
            }
        };
        let only_freezes = rng.random_bool(0.2);
        if !only_freezes {
            let all: Vec<Value> = (0..rng.random_range(1..3)).map(|_| opening(rng)).collect();
            window["openings"] = Value::Array(all);
        }
        if only_freezes || rng.random_bool(0.2) {
            let from = rng.random_range(-3600..12_000);
            let to = from + rng.random_range(600..7200);
            window["freezes"] = json!([{"name": "audit", "from": timestamp(from).to_string(),
                "to": timestamp(to).to_string()}]);
        }
        let zones = ["UTC", FORWARD, BACK];
        if rng.random_bool(0.6) {
            window["timeZone"] = json!(zones[rng.random_range(0..zones.len())]);
        }
        if rng.random_bool(0.06) {
            window["timeZone"] = json!(NOWHERE);
        }
        if rng.random_bool(0.4) {
            window["minRemainingSeconds"] = json!([0, 300, 1200][rng.random_range(0..3)]);
        }
        let start = rng.random_bool(0.2).then(|| rng.random_range(600..8000));
        let has_window = start.is_none() || rng.random_bool(0.5);
        Self {
            window: serde_json::from_value(window).ok().filter(|_| has_window),
            start_after: start.map(|at| timestamp(at).to_string()),
        }
    }
}

/// The hours as the operator reads them.
pub fn read(window: &hours::Hours) -> Result<Hours, String> {
    Hours::parse(window, |name| {
        // The first Monday of January, or the last one of February.
        let rule = match (name, is_before_leap_day()) {
            (FORWARD, false) => "AAA0BBB,M1.1.1/10,M10.5.0/3",
            (BACK, false) => "AAA0BBB,M10.1.0/3,M1.1.1/11",
            (FORWARD, true) => "AAA0BBB,M2.5.1/10,M10.5.0/3",
            (BACK, true) => "AAA0BBB,M10.1.0/3,M2.5.1/11",
            _ => return None,
        };
        TimeZone::posix(rule).ok()
    })
}

impl World {
    /// Everything that may have hours.
    pub fn places_of_hours(&self) -> Vec<HoursOf> {
        let truth = &self.truth;
        let runs = truth.runs.keys().cloned().map(HoursOf::Run);
        let plans = truth.plans.keys().cloned().map(HoursOf::Plan);
        let bindings = truth.bindings.keys().cloned().map(HoursOf::Binding);
        let windows = WINDOWS.map(|(name, _)| HoursOf::Window(name.to_owned()));
        runs.chain(plans).chain(bindings).chain(windows).collect()
    }

    /// Someone sets hours, or takes them away.
    pub fn set_hours(&mut self, place: &HoursOf, meant: MeantHours) {
        let MeantHours { window, start_after } = meant;
        let hours = window.as_ref().map(read);
        match place {
            HoursOf::Run(key) => self.edit_run(key, |run| {
                (run.spec.window, run.hours, run.spec.start_after) = (window, hours, start_after);
            }),
            HoursOf::Plan(key) => self.edit_plan(key, |plan| {
                plan.hours = hours;
                let settings = plan.spec.mutex.get_or_insert_default();
                (settings.window, settings.start_after) = (window, start_after);
            }),
            HoursOf::Binding(name) => {
                let Some(binding) = self.truth.bindings.get_mut(name) else {
                    return;
                };
                binding.hours = hours;
                let settings = &mut binding.spec.settings;
                (settings.window, settings.start_after) = (window, start_after);
                binding.generation += 1;
                self.touch(Object::Binding(name.clone()));
            }
            HoursOf::Window(name) => {
                match window {
                    None => self.truth.windows.remove(name),
                    Some(window) => self
                        .truth
                        .windows
                        .insert(name.clone(), mutex_window(name, &window)),
                };
                self.touch(Object::Window(name.clone()));
            }
        }
    }

    /// People take all hours away. Whether there were any.
    pub fn open_hours(&mut self) -> bool {
        let truth = &self.truth;
        let of_runs = truth.runs.values();
        let of_runs = of_runs.filter(|run| run.hours.is_some() || run.spec.start_after.is_some());
        let of_runs = of_runs.map(|run| HoursOf::Run(run.key.clone()));
        let has =
            |settings: &numo_api::MutexSettings| settings.window.is_some() || settings.start_after.is_some();
        let of_plans = truth.plans.values();
        let of_plans = of_plans.filter(|plan| plan.spec.mutex.as_ref().is_some_and(has));
        let of_plans = of_plans.map(|plan| HoursOf::Plan(plan.key.clone()));
        let of_bindings = truth.bindings.iter();
        let of_bindings = of_bindings.filter(|(_, binding)| has(&binding.spec.settings));
        let of_bindings = of_bindings.map(|(name, _)| HoursOf::Binding(name.clone()));
        let windows = truth.windows.keys().cloned().map(HoursOf::Window);
        let all: Vec<HoursOf> = of_runs
            .chain(of_plans)
            .chain(of_bindings)
            .chain(windows)
            .collect();
        for place in &all {
            self.set_hours(place, MeantHours::default());
        }
        let plans: Vec<Key> = self.truth.plans.keys().cloned().collect();
        for plan in &plans {
            self.set_window(plan, None);
        }
        !all.is_empty() || !plans.is_empty()
    }
}
