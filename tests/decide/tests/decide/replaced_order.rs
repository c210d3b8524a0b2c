//! NodeVersions that are changed, deleted, or given back in the middle: who goes first then, who waits for whom, and who has the cluster
//! autoscaler run again.

use crate::words::check;

/// A NodeVersion that is deleted before its first turn would leave the cluster without its autoscaler for good.
#[test]
fn the_autoscaler_is_stopped_under_a_finalizer_and_the_finalizer_stays_until_it_runs() {
    let waits = "node cp1 master v0\n node cp2 master v0 NotReady\n node cp3 master v0
         version img2
         host cp1 img1 group:cp\n host cp2 img2 group:cp\n host cp3 img2 group:cp
         group cp image:img2 role:ControlPlane\n groups cp";
    check(
        &format!("{waits}\n strategy on"),
        "node cp1 Selected EtcdQuorum
         > finalizer on",
    );
    check(
        &format!("{waits}\n strategy on").replace("version img2", "version img2 finalizer"),
        "> autoscaler off
         > autoscaler 0 of 1 with ./cluster-autoscaler",
    );
    check(&format!("{waits}\n strategy"), "> nothing");
    let done = "node a worker v0\n version img2 finalizer\n host a img2\n group w image:img2\n groups w";
    check(
        &format!("{done}\n strategy"),
        "> autoscaler on
         > autoscaler 1 of 0 with ./cluster-autoscaler",
    );
    check(
        &format!("{done}\n strategy on"),
        "result Succeeded\n > finalizer 0 off",
    );
}
