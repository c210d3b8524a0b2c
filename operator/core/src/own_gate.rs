//! The gate that stands in an owner's own spec, and its loss. The definition of another operator, or of an older numo, has not all of its
//! fields, and drops those without a word; the spec that is left asks for less. So numo remembers on the owner which of them there were, and
//! an owner that lacks one begins nothing until a person says that it was meant. One rule for every owner.

use crate::{
    action::{Action, Change, Planned},
    decision::Decision,
    names,
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
        if let Some(found) = view.annotations.get(marks::GATE) {
            let (whose, rest) = found.split_once(' ').unwrap_or_default();
            if let Some(found) = Self::parse(rest) {
                if whose == of_uid(view.uid) {
                    return Some(found);
                }
                // Who makes an object of another one copies its annotations; that none of the gate is left is asked about all the same.
                let is_bare = view.gate.fields().is_some_and(|there| there.is_empty());
                return is_bare.then_some(Self {
                    generation: None,
                    ..found
                });
            }
        }
        let found = view.annotations.get(marks::EARLIER_GATE)?;
        // The first numo that marked an owner marked Plans, by a hash.
        let hashed = || Self {
            generation: Some(i64::MIN),
            fields: BTreeSet::from(["mutex".to_owned()]),
        };
        let is_plan = matches!(view.gate, GateOf::Settings(_));
        Self::parse(found).or_else(|| is_plan.then(hashed))
    }

    fn parse(text: &str) -> Option<Self> {
        let (generation, fields) = text.split_once(' ')?;
        Some(Self {
            generation: generation.parse().ok(),
            fields: fields.split(',').map(ToOwned::to_owned).collect(),
        })
    }

    /// The fields that are lost. What goes without an edit was dropped by a definition; an edit may take some of them away, but not all.
    fn lost(&self, generation: i64, there: &BTreeSet<String>) -> Vec<&str> {
        // An empty `spec.mutex` is left of one that had fields.
        let is_rest =
            |field: &str| field == "mutex" && self.fields.iter().any(|one| one.starts_with("mutex."));
        let lasts = |field: &&String| !TAKEN_AWAY.contains(&field.as_str());
        let is_same = self.generation.is_none_or(|marked| marked == generation);
        let gone = self.fields.iter().filter(|field| !there.contains(*field));
        if is_same {
            return gone.map(String::as_str).collect();
        }
        let is_all = !there.iter().any(|field| lasts(&field) && !is_rest(field));
        // Taken away of `spec.mutex`, they are no more missed than of a spec itself.
        let is_missed = |field: &&String| !TAKEN_AWAY.contains(&field.trim_start_matches("mutex."));
        gone.filter(is_missed)
            .filter(|_| is_all)
            .map(String::as_str)
            .collect()
    }
}

/// What a mark says of whose it is.
fn of_uid(uid: &str) -> String {
    names::hash(&["gate", uid], 8)
}

/// Why an owner begins nothing: it had a gate of its own, and somebody has dropped it.
pub fn lost(owner: &Owner, view: OwnerView<'_>) -> Option<Why> {
    let there = view.gate.fields()?;
    let remembered = Remembered::of(view);
    let said = match (view.pruned, &remembered) {
        (Some(field), _) => format!(
            "spec.{field} is in the manifest that kubectl apply remembers and not in the object: the definition of another operator, or of an \
             older numo, drops it, or somebody took it away (a MutexBinding gates as well)"
        ),
        (None, Some(remembered)) => {
            let lost = remembered.lost(view.generation, &there);
            let first = lost.first()?;
            let more = match lost.len() {
                1 => String::new(),
                many => format!(" and {} more fields that gate it", many - 1),
            };
            format!(
                "spec.{first}{more}: found none, wanted it, as numo remembers it in an annotation: it was dropped by the definition of another \
                 operator or of an older numo, or by a writer, or taken away"
            )
        }
        (None, None) => return None,
    };
    let applied = view.pruned.map(|_| marks::LAST_APPLIED);
    let ours = [marks::GATE, marks::EARLIER_GATE].into_iter();
    let ours = ours.filter(|key| view.annotations.contains_key(*key));
    let all: Vec<String> = ours.chain(applied).map(|key| format!("{key}-")).collect();
    let message = format!(
        "{said}; put it back, or, if that was meant, take it out of the manifest and `{} {}`",
        owner.kubectl("annotate"),
        all.join(" ")
    );
    Some(Why::new(Reason::GateLost, message))
}

/// Ends a decision: remembers on the owner which gate it has of itself, before all else that is written. Of a dry run and of what is refused as
/// well: whoever drops the gate may drop the dry run, or what is wrong, with it.
pub(crate) fn finish(out: &mut Decision, owner: &Owner, view: OwnerView<'_>) {
    let leaves = view.deleting || out.report.phase == RunPhase::Leaving;
    let Some(change) = change(view).filter(|_| !leaves) else {
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
    let there = view.gate.fields()?;
    let remembered = Remembered::of(view);
    // A mark of what is left would say that nothing is missed.
    if view.pruned.is_some() {
        return None;
    }
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
    let wanted = format!("{} {generation} {}", of_uid(view.uid), fields.join(","));
    let change = Change::of(view.annotations, marks::GATE, Some(wanted));
    (change.from != change.to).then_some(change)
}
