//! What can be made to go wrong, and undone again.

use std::sync::Arc;

use tokio::sync::watch;

/// Something that goes wrong until it is healed.
#[derive(Clone, Debug, PartialEq)]
pub enum Fault {
    /// The node's next reboot does not come back: Ready is Unknown until healed.
    NeverBack {
        /// Which node.
        node: String,
    },
    /// The node's reboots take so many times longer.
    SlowReboot {
        /// Which node.
        node: String,
        /// How many times longer.
        factor: f64,
    },
    /// The node's drains are never acknowledged.
    DrainStuck {
        /// Which node.
        node: String,
    },
    /// The node's daemon says Degraded: at once when idle, else at its next update.
    Degraded {
        /// Which node.
        node: String,
    },
    /// The node's daemon calls its next update Unreconcilable.
    Unreconcilable {
        /// Which node.
        node: String,
    },
    /// The kubelet of the node stops: Ready is Unknown and no pod goes on, until healed.
    NotReady {
        /// Which node.
        node: String,
    },
    /// The node's clock is off: so are the times its kubelet writes, and its lease.
    ///
    /// One that is set back makes the controller-manager take the lease for unrenewed, and after its
    /// grace of a minute the node for Unknown.
    ClockOff {
        /// Which node.
        node: String,
        /// How many seconds of the wall clock it is ahead, or with a minus behind.
        seconds: i64,
    },
    /// The next release's rendered configs have new names but no change: nodes neither drain nor reboot.
    ZeroDiff,
    /// The cluster-version operator does not accept the release that is asked for: ReleaseAccepted is False.
    ReleaseRefused,
    /// The next release renders to the very same content: the same names, only re-annotated.
    EqualRelease,
}

impl Fault {
    /// The node it is about; none for those about the cluster.
    pub fn node(&self) -> Option<&str> {
        match self {
            Self::NeverBack { node }
            | Self::SlowReboot { node, .. }
            | Self::DrainStuck { node }
            | Self::Degraded { node }
            | Self::Unreconcilable { node }
            | Self::NotReady { node }
            | Self::ClockOff { node, .. } => Some(node),
            Self::ZeroDiff | Self::ReleaseRefused | Self::EqualRelease => None,
        }
    }
}

/// The faults that hold now, to be read and waited on.
#[derive(Debug)]
pub(crate) struct Faults(watch::Sender<Arc<Vec<Fault>>>);

impl Faults {
    pub(crate) fn new() -> Self {
        Self(watch::Sender::new(Arc::new(Vec::new())))
    }

    pub(crate) fn inject(&self, fault: Fault) {
        self.0.send_modify(|all| Arc::make_mut(all).push(fault));
    }

    /// Ends all faults of a node, or with none those of the cluster.
    pub(crate) fn heal(&self, node: Option<&str>) {
        self.0
            .send_modify(|all| Arc::make_mut(all).retain(|f| f.node() != node));
    }

    pub(crate) fn any(&self, is: impl Fn(&Fault) -> bool) -> bool {
        self.0.borrow().iter().any(is)
    }

    /// How many times longer the node's reboots take.
    pub(crate) fn slowness(&self, name: &str) -> f64 {
        let all = self.0.borrow();
        let factors = all.iter().filter_map(|f| match f {
            Fault::SlowReboot { node, factor } if node == name => Some(*factor),
            _ => None,
        });
        factors.fold(1.0, |product, factor| product * factor)
    }

    /// How many seconds the node's clock is ahead.
    pub(crate) fn clock_off(&self, name: &str) -> i64 {
        let all = self.0.borrow();
        let offsets = all.iter().filter_map(|f| match f {
            Fault::ClockOff { node, seconds } if node == name => Some(*seconds),
            _ => None,
        });
        offsets.sum()
    }

    pub(crate) fn changes(&self) -> watch::Receiver<Arc<Vec<Fault>>> {
        self.0.subscribe()
    }

    /// Returns once no fault is such a one.
    pub(crate) async fn until_none(&self, is: impl Fn(&Fault) -> bool) {
        let mut changes = self.0.subscribe();
        // An error says that the sender is gone: the world has ended.
        let _ = changes.wait_for(|all| !all.iter().any(&is)).await;
    }
}
