//! In which map of what was seen the owners of a kind are: everybody else asks here for what every owner has.

use super::{Observed, OwnerView};
use crate::{
    key::Map,
    owner::{Owner, OwnerKind},
};

impl Observed {
    /// What every owner has, if it was seen.
    pub fn owner(&self, owner: &Owner) -> Option<OwnerView<'_>> {
        Some(match owner.kind {
            OwnerKind::MutexRunConfig => self.runs.get(&owner.key)?.into(),
            OwnerKind::NodeMaintenance(_) => self.maintenances.get(owner)?.into(),
            OwnerKind::Plan => self.plans.get(&owner.key)?.into(),
            OwnerKind::NodeVersion => self.fleet.versions.get(&owner.key.name)?.into(),
        })
    }

    /// All owners that were seen.
    pub fn owners(&self) -> impl Iterator<Item = (Owner, OwnerView<'_>)> {
        let runs = self.runs.iter();
        let runs = runs.map(|(key, run)| (Owner::run(key.clone()), OwnerView::from(run)));
        let maintenances = self.maintenances.iter();
        let maintenances = maintenances.map(|(owner, view)| (owner.clone(), OwnerView::from(view)));
        let plans = self.plans.iter();
        let plans = plans.map(|(key, view)| (Owner::plan(key.clone()), OwnerView::from(view)));
        let versions = self.fleet.versions.iter();
        let versions =
            versions.map(|(name, view)| (Owner::node_version(name.as_str()), OwnerView::from(view)));
        plans.chain(maintenances).chain(versions).chain(runs)
    }

    /// uid of an owner, if it was seen.
    pub fn uid_of(&self, owner: &Owner) -> Option<&str> {
        Some(self.owner(owner)?.uid)
    }

    /// The annotations of an owner that was seen, to be changed.
    pub fn annotations_mut(&mut self, owner: &Owner) -> Option<&mut Map> {
        Some(match owner.kind {
            OwnerKind::MutexRunConfig => &mut self.runs.get_mut(&owner.key)?.annotations,
            OwnerKind::NodeMaintenance(_) => &mut self.maintenances.get_mut(owner)?.annotations,
            OwnerKind::Plan => &mut self.plans.get_mut(&owner.key)?.annotations,
            OwnerKind::NodeVersion => &mut self.fleet.versions.get_mut(&owner.key.name)?.annotations,
        })
    }

    /// The finalizers of an owner that was seen, to be changed.
    pub(crate) fn finalizers_mut(&mut self, owner: &Owner) -> Option<&mut Vec<String>> {
        Some(match owner.kind {
            OwnerKind::MutexRunConfig => &mut self.runs.get_mut(&owner.key)?.finalizers,
            OwnerKind::NodeMaintenance(_) => &mut self.maintenances.get_mut(owner)?.finalizers,
            OwnerKind::Plan => &mut self.plans.get_mut(&owner.key)?.finalizers,
            OwnerKind::NodeVersion => &mut self.fleet.versions.get_mut(&owner.key.name)?.finalizers,
        })
    }
}
