//! The gate that stands in an owner's own spec, and its loss. The definition of another operator, or of an older numo, has not all of its
//! fields, and drops those without a word; the spec that is left asks for less. So numo remembers on the owner which of them there were, and
//! an owner that lacks one begins nothing until a person says that it was meant. One rule for every owner.

use crate::{
    action::{Action, Change, Planned},
    decision::Decision,
    observed::OwnerView,
    owner::Owner,
    report::RunPhase,
    why::Why,
};
use numo_api::{
    Reason,
    gate::{GateOf, TAKEN_AWAY},
    marks,
};
use std::collections::BTreeSet;

/// Generation of what was lost: it is missed whatever else is edited.
const LOST: &str = "-";

/// What the mark on an owner remembers.
struct Remembered {
    /// The generation of the spec that had these fields; none once one of them was lost.
    generation: Option<i64>,
    fields: BTreeSet<String>,
}

impl Remembered {
    fn of(view: OwnerView<'_>) -> Option<Self> {
        let found = view.annotations.get(marks::GATE)?;
        let Some((generation, fields)) = found.split_once(' ') else {
            // An earlier numo marked Plans by a hash.
            return Some(Self {
                generation: Some(i64::MIN),
                fields: BTreeSet::from(["mutex".to_owned()]),
            });
        };
        Some(Self {
            generation: generation.parse().ok(),
            fields: fields.split(',').map(ToOwned::to_owned).collect(),
        })
    }

    /// The fields that are lost. What goes without an edit was dropped by a definition; an edit may take some of them away, but not all.
    fn lost(&self, generation: i64, there: &BTreeSet<String>) -> Vec<&str> {
        let lasts = |field: &&String| !TAKEN_AWAY.contains(&field.as_str());
        let is_same = self.generation.is_none_or(|marked| marked == generation);
        let gone = self.fields.iter().filter(|field| !there.contains(*field));
        if is_same {
            return gone.map(String::as_str).collect();
        }
        let is_all = !there.iter().any(|field| lasts(&field));
        gone.filter(lasts)
            .filter(|_| is_all)
            .map(String::as_str)
            .collect()
    }
}

/// Why an owner begins nothing: it had a gate of its own, and somebody has dropped it.
pub fn lost(owner: &Owner, view: OwnerView<'_>) -> Option<Why> {
    if let Some(field) = view.pruned {
        let message = format!(
            "spec.{field} is in the manifest that kubectl apply remembers and not in the object: the definition of another operator, or of an \
             older numo, drops it, or somebody took it away; put it back, or apply the manifest without it (a MutexBinding gates as well)"
        );
        return Some(Why::new(Reason::GateLost, message));
    }
    let remembered = Remembered::of(view)?;
    let there = view.gate.fields();
    let lost = remembered.lost(view.generation, &there);
    let first = lost.first()?;
    let more = match lost.len() {
        1 => String::new(),
        many => format!(" and {} more fields that gate it", many - 1),
    };
    let message = format!(
        "spec.{first}{more}: found none, wanted it, as annotation {} remembers it: it was dropped by the definition of another operator or of an older \
         numo, or by a writer, or taken away; put it back, or, if that was meant, `{} {}-`",
        marks::GATE,
        owner.kubectl("annotate"),
        marks::GATE
    );
    Some(Why::new(Reason::GateLost, message))
}

/// Ends a decision: remembers on the owner which gate it has of itself, before all else that is written.
pub(crate) fn finish(out: &mut Decision, owner: &Owner, view: OwnerView<'_>) {
    let (phase, hold) = (out.report.phase, &out.report.hold);
    let leaves = view.deleting || phase == RunPhase::Leaving;
    // What cannot be understood begins nothing, and is not written to.
    let is_invalid = |why: &Why| why.reason == Reason::InvalidField;
    let is_refused = phase == RunPhase::Refused || hold.as_ref().is_some_and(is_invalid);
    let Some(change) = change(view).filter(|_| !leaves && !is_refused) else {
        return;
    };
    let action = Action::MarkGate {
        owner: owner.clone(),
        uid: view.uid.to_owned(),
        change,
        has_annotations: view.has_annotations,
    };
    out.actions.insert(0, Planned::of("gate", action));
}

/// The mark that an owner is to have, where it has another one.
pub fn change(view: OwnerView<'_>) -> Option<Change> {
    if matches!(view.gate, GateOf::Run(spec) if spec.dry_run == Some(true)) {
        return None;
    }
    let there = view.gate.fields();
    let remembered = Remembered::of(view);
    let lost = remembered.as_ref().map(|one| one.lost(view.generation, &there));
    let (generation, fields) = match &remembered {
        Some(one) if lost.is_some_and(|lost| !lost.is_empty()) => {
            if one.generation != Some(view.generation) {
                return None;
            }
            (LOST.to_owned(), &one.fields)
        }
        _ if there.is_empty() => return None,
        _ => (view.generation.to_string(), &there),
    };
    let fields: Vec<&str> = fields.iter().map(String::as_str).collect();
    let wanted = format!("{generation} {}", fields.join(","));
    let change = Change::of(view.annotations, marks::GATE, Some(wanted));
    (change.from != change.to).then_some(change)
}
