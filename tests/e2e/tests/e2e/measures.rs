//! What the other tests measure by: the memory of processes, and which requests count as writes.

use numo_e2e::{
    NAMESPACE, is_counted,
    memory::{bytes, limit, parsed, resident, together},
};
use std::collections::BTreeMap;

#[test]
fn the_limit_is_the_deployments() {
    let limit = limit().unwrap();
    assert!(limit > 256 << 20, "{limit}");
    assert_eq!(bytes("3584Mi").unwrap(), 3584 << 20);
    assert_eq!(bytes("1Gi").unwrap(), 1 << 30);
    assert_eq!(bytes("512").unwrap(), 512);
    assert!(bytes("much").is_err());
}

#[test]
fn what_a_process_started_counts_and_what_it_did_not_does_not() {
    let all = BTreeMap::from([
        (1, (0, 1)),
        (7, (1, 10)),
        (8, (7, 100)),
        (9, (8, 1000)),
        (10, (1, 5)),
    ]);
    assert_eq!(together(7, &all), 1110);
    assert_eq!(together(11, &all), 0);
    assert_eq!(
        parsed("Name:\tnumo\nPPid:\t3\nVmRSS:\t   20 kB\n"),
        Some((3, 20 << 10))
    );
    // A process that ended has no memory.
    assert_eq!(parsed("Name:\tnumo\nPPid:\t3\n"), Some((3, 0)));
    assert!(resident(std::process::id()) > 0);
}

#[test]
fn only_what_changes_the_cluster_is_counted() {
    let counted = |path: &str, body: &str| is_counted(&path.parse().unwrap(), body.as_bytes());
    let evict = "/api/v1/namespaces/default/pods/web/eviction";
    assert!(counted("/api/v1/nodes/worker-0?fieldManager=numo", ""));
    assert!(counted(evict, r#"{"deleteOptions":{"preconditions":{}}}"#));
    let lease = format!("/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases/numo-leader");
    let review = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
    for (path, body) in [
        (lease.as_str(), ""),
        (review, ""),
        ("/apis/batch/v1/namespaces/default/jobs?&dryRun=All", ""),
        (evict, r#"{"deleteOptions":{"dryRun":["All"]}}"#),
        ("/apis/events.k8s.io/v1/namespaces/default/events", ""),
        ("/api/v1/namespaces/default/events/k3s.1", ""),
    ] {
        assert!(!counted(path, body), "{path} {body}");
    }
}
