//! A MutexRunConfig for the tests of the command line, and what they read of its text.

use super::live;
use crate::shell::store::Store;
use jiff::Timestamp;
use numo_api::{
    MutexRunConfigSpec, MutexRunConfigStatus,
    hours::{Hours, Opening},
};
use numo_core::observed::{Key, RunConfigView};

/// A cluster with nothing but the run ops/upgrade, with these annotations and this spec.
pub fn store(annotations: &[(&str, &str)], spec: MutexRunConfigSpec) -> Store {
    let mut store = Store::new(live::settings());
    let key = Key::new("ops", "upgrade");
    let annotations = annotations.iter();
    let run = RunConfigView {
        key: key.clone(),
        uid: "uid".to_owned(),
        generation: 1,
        created: Timestamp::UNIX_EPOCH,
        deleting: false,
        finalizers: Vec::new(),
        annotations: annotations
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
            .collect(),
        spec,
        workloads_check: None,
        has_annotations: false,
        pruned: None,
        misread: None,
        keeps_status: false,
        hours: None,
        status: MutexRunConfigStatus::default(),
    };
    store.observed.runs.insert(key, run);
    store
}

/// The same with hours of the run: each night from 22:00 until 02:00.
pub fn with_hours(mut store: Store) -> Store {
    let night = Opening {
        start_time: Some("22:00".to_owned()),
        end_time: Some("02:00".to_owned()),
        ..Opening::default()
    };
    let given = Hours {
        openings: Some(vec![night]),
        ..Hours::default()
    };
    for run in store.observed.runs.values_mut() {
        run.hours = Some(numo_core::admit::hours::Hours::parse(&given, |_| None));
    }
    store
}

/// The text without the marks of its colours.
pub fn plain(text: &str) -> String {
    text.replace(|letter| ('\u{f0000}'..='\u{10ffff}').contains(&letter), "")
}
