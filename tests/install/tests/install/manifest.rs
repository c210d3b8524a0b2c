//! The rendered manifests, applied as their users do, twice, by the real kubectl: the second time nothing changes.

use std::process::Command;

use anyhow::Result;
use k8s_openapi::{
    api::apps::v1::Deployment,
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{Api, ResourceExt, api::ListParams};
use numo_cluster::{Cluster, Options, User};
use numo_install::{NAMESPACE, rendered, root, said};

#[tokio::test(flavor = "multi_thread")]
async fn each_manifest_is_applied_by_kubectl_and_applied_again() -> Result<()> {
    for (platform, definitions) in rendered::PLATFORMS.into_iter().zip([12, 11]) {
        let cluster = Cluster::start(Options::default()).await?;
        let client = cluster.client(User::Admin).await?;
        let (kubectl, kubeconfig) = cluster.kubectl(User::Admin);
        let file = root().join("deploy").join(format!("{platform}.yaml"));
        let run = |verb: &[&str]| {
            let mut command = Command::new(&kubectl[0]);
            command.args(&kubectl[1..]).arg("--kubeconfig").arg(&kubeconfig);
            said(command.args(verb).arg("-f").arg(&file))
        };
        run(&["apply"])?;
        let again = run(&["apply"])?;
        // kubectl always replaces the selector of a PodDisruptionBudget, and says so.
        let changed = again
            .lines()
            .filter(|line| !line.ends_with(" unchanged") && !line.starts_with("poddisruptionbudget"));
        assert_eq!(changed.collect::<Vec<_>>(), Vec::<&str>::new(), "{platform}");
        Api::<Deployment>::namespaced(client.clone(), NAMESPACE)
            .get("numo")
            .await?;
        let all = Api::<CustomResourceDefinition>::all(client.clone())
            .list(&ListParams::default())
            .await?;
        let ours = all.iter().filter(|crd| {
            let name = crd.name_any();
            ["skrzypek.io", "nodemaintenance", "cattle.io"]
                .iter()
                .any(|of| name.contains(of))
        });
        assert_eq!(ours.count(), definitions, "{platform}");
        cluster.stop().await;
    }
    Ok(())
}
