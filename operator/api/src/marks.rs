//! Every key numo writes on an object that is not its own.
//!
//! A mark is written in the same patch as the change it explains and holds the owner's uid and the
//! value that was there before; it is the only source for restoring.

/// Prefix of all of numo's own labels, annotations and finalizers.
pub const PREFIX: &str = "numo.openshift-optional.skrzypek.io/";

/// Name under which the API server manages the fields that numo writes.
pub const FIELD_MANAGER: &str = "numo";

/// Annotation on a MachineConfigPool numo paused: JSON `PausedBy`.
pub const PAUSED_BY: &str = "numo.openshift-optional.skrzypek.io/paused-by";
/// Annotation on a MachineConfigPool whose node selector numo changed: JSON `PriorSelector`.
pub const PRIOR_NODE_SELECTOR: &str = "numo.openshift-optional.skrzypek.io/prior-node-selector";
/// Annotation on the Deployment of a cluster autoscaler that numo stopped: the replicas that it had before.
pub const PRIOR_REPLICAS: &str = "numo.openshift-optional.skrzypek.io/prior-replicas";
/// Label on a Node that was released into the canary pool; its value is the run id.
pub const RELEASE: &str = "numo.openshift-optional.skrzypek.io/release";
/// Annotation on a Node whose cordon numo is to put back after the MCO took it away.
pub const CORDONED_BY: &str = "numo.openshift-optional.skrzypek.io/cordoned-by";
/// Annotation on a Node that carries rule labels: the owner's uid.
pub const LABELLED_BY: &str = "numo.openshift-optional.skrzypek.io/labelled-by";
/// Annotation on a Node that numo keeps remediation and autoscalers off: JSON with the prior values.
pub const SHIELDED_BY: &str = "numo.openshift-optional.skrzypek.io/shielded-by";
/// Taint (NoSchedule) on a Node that failed after it was released, with `spec.quarantine: Taint`; its value is a
/// hash of the owner's uid.
pub const QUARANTINE: &str = "numo.openshift-optional.skrzypek.io/quarantine";
/// Annotation on an owner: its run must not begin anything new. Any value.
pub const SUSPEND: &str = "numo.openshift-optional.skrzypek.io/suspend";
/// Annotation on an owner: the run with this id is given up.
pub const ABORT: &str = "numo.openshift-optional.skrzypek.io/abort";
/// Annotation on a NodeChange: numo made it, for a turn. One that a person made, to say something about a node that waits, has
/// none.
pub const TURN: &str = "numo.openshift-optional.skrzypek.io/turn";

/// Annotation on an owner: id of the run of which a person has acknowledged that it left nodes out, or that nodes changed
/// without rules. Ready is True again.
pub const ACKNOWLEDGED: &str = "numo.openshift-optional.skrzypek.io/acknowledged";
/// Annotation on an owner: `<run id>/<round>`, the rules that are asked once per run are asked again in this
/// round (from 2).
pub const RETRY: &str = "numo.openshift-optional.skrzypek.io/retry";
/// Annotation on what a person spoke of by the command line: JSON list of who said what, when and why, the latest ten.
pub const SAID: &str = "numo.openshift-optional.skrzypek.io/said";
/// Finalizer on an owner while a mark of it exists.
pub const FINALIZER: &str = "numo.openshift-optional.skrzypek.io/restore";

/// Label on a Job: the id of the run it belongs to.
pub const JOB_RUN: &str = "numo.openshift-optional.skrzypek.io/run";
/// Label on a Job and its pods: hash of the node it is about.
pub const JOB_NODE: &str = "numo.openshift-optional.skrzypek.io/node";
/// Label on a Job and its pods: the phase of the rule.
pub const JOB_PHASE: &str = "numo.openshift-optional.skrzypek.io/phase";
/// Annotation on a Job: full name of the node it is about (labels end at 63 characters).
pub const JOB_NODE_NAME: &str = "numo.openshift-optional.skrzypek.io/node-name";
/// Annotation on a Job: `namespace/name` of the rule.
pub const JOB_RULE: &str = "numo.openshift-optional.skrzypek.io/rule";
/// Annotation on a Job: the number of the attempt, from 1.
pub const JOB_ATTEMPT: &str = "numo.openshift-optional.skrzypek.io/attempt";
/// Job annotation: uid and generation of the rule that the Job was made from, as `uid/generation`.
pub const JOB_EDITION: &str = "numo.openshift-optional.skrzypek.io/rule-edition";
/// Annotation on a Job: `ttlSecondsAfterFinished` that the user's jobSpec asked for; numo sets it only
/// after the verdict is in the journal.
pub const JOB_TTL: &str = "numo.openshift-optional.skrzypek.io/ttl-seconds-after-verdict";
/// Label on a NodeChange: hash of the node's name.
pub const CHANGE_NODE: &str = "numo.openshift-optional.skrzypek.io/node";
/// Label on a NodeChange: the owner's uid.
pub const CHANGE_OWNER: &str = "numo.openshift-optional.skrzypek.io/owner-uid";

/// Annotation on the leader Lease: JSON of what only the numo that leads knows and decisions depend on, for the command line.
pub const SETTINGS: &str = "numo.openshift-optional.skrzypek.io/settings";

/// Prefix of the replaced operator's rule labels on Nodes:
/// `mutexrule.openshift-optional.skrzypek.io/<rule>.<namespace>`.
pub const RULE_LABEL_PREFIX: &str = "mutexrule.openshift-optional.skrzypek.io/";

/// Annotation of a Secret: the servers, separated by commas, to whose requests rules may have it attached.
pub const RULE_HOSTS: &str = "numo.openshift-optional.skrzypek.io/rule-hosts";

/// Annotation of a Secret in numo's own namespace: the servers, separated by commas, to which a MutexNotifier may send its token.
pub const NOTIFIER_HOSTS: &str = "numo.openshift-optional.skrzypek.io/notifier-hosts";

/// Label on a Namespace, set by a cluster administrator: its rules may be granted what is inside the cluster.
pub const RULE_NETWORK: &str = "numo.openshift-optional.skrzypek.io/rule-network";
/// The value of that label.
pub const RULE_NETWORK_CLUSTER: &str = "cluster";

/// Annotation of a Namespace, set by its administrator: the namespaces, separated by commas, whose rules may run their Jobs in it.
pub const RULE_JOBS_FROM: &str = "numo.openshift-optional.skrzypek.io/rule-jobs-from";

/// Annotation of a Node: its Machine of OpenShift, `<namespace>/<name>`, as the machine-api's nodelink controller writes it.
pub const OPENSHIFT_MACHINE: &str = "machine.openshift.io/machine";
/// Annotation of a Node: its Machine of Cluster API.
pub const CLUSTER_API_MACHINE: &str = "cluster.x-k8s.io/machine";
/// Annotation of a Node: the namespace of its Cluster, and so of its Machine, of Cluster API.
pub const CLUSTER_API_NAMESPACE: &str = "cluster.x-k8s.io/cluster-namespace";

/// Label key that parks the page's canary pool: no node carries it.
pub const IS_CANARY: &str = "isCanary";

/// Finalizer of node-maintenance-operator on a NodeMaintenance (without a domain).
pub const MAINTENANCE_FINALIZER: &str = "foregroundDeleteNodeMaintenance";
/// Taint (NoSchedule) on a node in maintenance, group `nodemaintenance.medik8s.io`.
pub const MEDIK8S_DRAIN: &str = "medik8s.io/drain";
/// Taint (NoSchedule) on a node in maintenance, group `nodemaintenance.kubevirt.io`.
pub const KUBEVIRT_DRAIN: &str = "kubevirt.io/drain";
/// Taint (NoSchedule) that goes with `spec.unschedulable`.
pub const UNSCHEDULABLE: &str = "node.kubernetes.io/unschedulable";
/// Who holds the lease of a node in maintenance, as node-maintenance-operator writes it.
pub const MAINTENANCE_HOLDER: &str = "node-maintenance";
/// Label of a Plan's Jobs and their pods, whose value is the controller's name: those pods are never evicted.
pub const PLAN_CONTROLLER: &str = "upgrade.cattle.io/controller";
/// Label of a Plan's Jobs and pods: whether the Plan is exclusive.
pub const PLAN_EXCLUSIVE: &str = "upgrade.cattle.io/exclusive";
/// Label of a Plan's Jobs and pods: the node.
pub const PLAN_NODE: &str = "upgrade.cattle.io/node";
/// Label of a Plan's Jobs and pods: the Plan.
pub const PLAN: &str = "upgrade.cattle.io/plan";
/// Label of a Plan's Jobs and pods: the version.
pub const PLAN_VERSION: &str = "upgrade.cattle.io/version";
/// Prefix of the label of nodes, Jobs and pods that says which hash of a Plan they are at:
/// `plan.upgrade.cattle.io/<plan>`.
pub const PLAN_HASH_PREFIX: &str = "plan.upgrade.cattle.io/";
/// The value of that label by which a node is left out.
pub const PLAN_DISABLED: &str = "disabled";
/// Annotation of a Plan: paths of fields, separated by commas, whose values go into the hash.
pub const PLAN_DIGEST: &str = "upgrade.cattle.io/digest";
/// Annotation of a Plan's Jobs, for clusters that drop the field of that name.
pub const PLAN_JOB_TTL: &str = "upgrade.cattle.io/ttl-seconds-after-finished";
/// Annotation of an owner: whose mark it is, the generation of the spec, and which fields of it gate the owner, so that they are missed when
/// they are lost.
pub const GATE: &str = "numo.openshift-optional.skrzypek.io/gate-fields";
/// The same by an earlier numo, which may be back and writes a hash over what stands there: it is read and never written.
pub const EARLIER_GATE: &str = "numo.openshift-optional.skrzypek.io/gate";
/// Annotation by which `kubectl apply` remembers a manifest.
pub const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";
/// Annotation of a Job that only prepares a node which numo drains.
pub const PLAN_PREPARES: &str = "numo.openshift-optional.skrzypek.io/prepares";
/// Label of a Namespace in which Plans are watched, if its value is `true`. Only those may set it who may write
/// Namespaces; editors of what is in a namespace may not.
pub const PLANS_NAMESPACE: &str = "numo.openshift-optional.skrzypek.io/plans";

/// Annotation of a PendingNode: name of the NodeChange whose node the machine is to take the place of.
pub const PENDING_FOR: &str = "numo.openshift-optional.skrzypek.io/for-change";
/// Annotation of a PendingNode: uid of the NodeVersion it is of. That is no owner reference, as Constellation's operator sets one: the garbage
/// collector deletes what has one before its owner, when the owner is deleted in the foreground, and the machine would be known to nobody.
pub const PENDING_OF: &str = "numo.openshift-optional.skrzypek.io/node-version";
/// Annotation of a NodeMaintenance that numo made for another operator to drain a node by: whose turn of which node it is for.
pub const DRAINS_FOR: &str = "numo.openshift-optional.skrzypek.io/drains-for";
/// Annotation of a PendingNode: why the provider refuses to make or delete its machine, in the provider's words.
pub const PROVIDER_SAID: &str = "numo.openshift-optional.skrzypek.io/provider-said";

/// Shield: medik8s remediation leaves a node with this label alone.
pub const EXCLUDE_FROM_REMEDIATION: &str = "remediation.medik8s.io/exclude-from-remediation";
/// Shield: the cluster autoscaler does not scale down a node with this annotation set to `true`.
pub const SCALE_DOWN_DISABLED: &str = "cluster-autoscaler.kubernetes.io/scale-down-disabled";
/// Shield: Karpenter does not disrupt a node with this annotation set to `true`.
pub const DO_NOT_DISRUPT: &str = "karpenter.sh/do-not-disrupt";

/// Shield: a MachineHealthCheck of Cluster API leaves a Machine with this annotation alone.
pub const SKIP_REMEDIATION: &str = "cluster.x-k8s.io/skip-remediation";
/// Annotation on a MachineHealthCheck: it does nothing while the key is there, whatever the value.
pub const HEALTH_CHECK_PAUSED: &str = "cluster.x-k8s.io/paused";
/// Annotation on kured's DaemonSet: who holds the reboot lock.
pub const KURED_LOCK: &str = "weave.works/kured-node-lock";

/// Namespace of the node leases that operators share so as not to disrupt one node at a time.
pub const LEASE_NAMESPACE: &str = "medik8s-leases";

/// OpenShift's own keys.
pub mod openshift {
    /// Annotation: rendered config a node runs.
    pub const CURRENT_CONFIG: &str = "machineconfiguration.openshift.io/currentConfig";
    /// Annotation: rendered config a node shall run.
    pub const DESIRED_CONFIG: &str = "machineconfiguration.openshift.io/desiredConfig";
    /// Annotation: layered image a node runs.
    pub const CURRENT_IMAGE: &str = "machineconfiguration.openshift.io/currentImage";
    /// Annotation: layered image a node shall run.
    pub const DESIRED_IMAGE: &str = "machineconfiguration.openshift.io/desiredImage";
    /// Annotation: Done, Working, Degraded or Unreconcilable.
    pub const STATE: &str = "machineconfiguration.openshift.io/state";
    /// Annotation: why the state is Degraded or Unreconcilable.
    pub const REASON: &str = "machineconfiguration.openshift.io/reason";
    /// Annotation: `drain-<config>` or `uncordon-<config>`, asked by the daemon.
    pub const DESIRED_DRAIN: &str = "machineconfiguration.openshift.io/desiredDrain";
    /// Annotation: the last `desiredDrain` the drain controller finished.
    pub const LAST_APPLIED_DRAIN: &str = "machineconfiguration.openshift.io/lastAppliedDrain";
    /// Annotation on a MachineConfig, label on a Node with NFD: the OpenShift version.
    pub const RELEASE_VERSION: &str = "machineconfiguration.openshift.io/release-image-version";
    /// Node label of workers.
    pub const WORKER: &str = "node-role.kubernetes.io/worker";
    /// Node label of masters.
    pub const MASTER: &str = "node-role.kubernetes.io/master";
    /// Node label of zones.
    pub const ZONE: &str = "topology.kubernetes.io/zone";
    /// Node label of the operating system.
    pub const OS: &str = "kubernetes.io/os";
    /// Node label of the host name.
    pub const HOSTNAME: &str = "kubernetes.io/hostname";
}
