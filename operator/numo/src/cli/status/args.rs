//! Arguments of `numo status`, and which owners they ask for. It prints nothing.

use super::picture::Selection;
use crate::cli::{
    cluster::ClusterArgs,
    completion,
    error::{self, CliError},
    object::{ObjectArg, What},
    output::OutputArgs,
};
use crate::shell::{client::Connection, watch as watched};
use clap::Args;
use kube::api::ListParams;
use std::collections::BTreeSet;

/// Arguments of `numo status`.
#[derive(Debug, Args)]
pub struct StatusArgs {
    #[command(flatten)]
    pub(super) cluster: ClusterArgs,
    #[command(flatten)]
    pub(super) output: OutputArgs,
    /// Namespace of the owners [default: that of the kubeconfig's context]; NodeMaintenances, MutexBindings, MutexBudgets and MutexWindows have none
    #[arg(short, long, value_name = "NS")]
    pub(super) namespace: Option<String>,
    /// Owners of all namespaces
    #[arg(short = 'A', long, conflicts_with = "namespace")]
    pub(super) all_namespaces: bool,
    /// Only owners with these labels, as kubectl selects them
    #[arg(short = 'l', long, value_name = "SELECTOR", conflicts_with = "object")]
    pub(super) selector: Option<String>,
    /// Keep running and show changes, full-screen on a terminal (q quits)
    #[arg(short, long)]
    pub(super) watch: bool,
    /// Contexts of the kubeconfig, 32 at most: the owners of all these clusters as one table, or one list with -o json. A
    /// cluster that does not answer within a minute (or --request-timeout, if that is longer) has a row that says why,
    /// and the exit code is 1. Not with an owner, --watch, -o name, or flags about one cluster (--context, --server, --token)
    #[arg(
        long,
        value_name = "NAME,NAME",
        value_delimiter = ',',
        conflicts_with_all = ["watch", "object"]
    )]
    pub(super) contexts: Vec<String>,
    /// Only this owner: KIND/NAME or NAME
    #[arg(value_parser = ObjectArg::of_owner, value_name = "KIND/NAME", add = clap_complete::ArgValueCompleter::new(completion::owners))]
    pub(super) object: Option<ObjectArg>,
}

impl StatusArgs {
    /// What is asked for, in a cluster whose context is in the namespace `default`.
    pub(super) async fn selection<'a>(
        &'a self,
        connection: &Connection,
        default: &'a str,
    ) -> Result<Selection<'a>, CliError> {
        Ok(Selection {
            namespace: Some(self.namespace.as_deref().unwrap_or(default)).filter(|_| !self.all_namespaces),
            what: self.object.as_ref().and_then(|object| object.what),
            name: self.object.as_ref().map(|object| object.name.as_str()),
            labelled: match &self.selector {
                Some(given) => Some(owners_with(connection, given).await?),
                None => None,
            },
        })
    }
}

/// The uids of the owners that have these labels. Kinds that are not served, or may not be seen, have none.
async fn owners_with(connection: &Connection, labels: &str) -> Result<BTreeSet<String>, CliError> {
    let params = ListParams::default().labels(labels);
    let mut found = BTreeSet::new();
    let owners = What::ALL.into_iter().filter(|what| what.is_owner());
    for kind in owners.flat_map(What::kinds) {
        match watched::api(&connection.read, *kind, "")
            .list_metadata(&params)
            .await
        {
            Ok(list) => found.extend(list.items.into_iter().filter_map(|one| one.metadata.uid)),
            Err(kube::Error::Api(status)) if matches!(status.code, 403 | 404) => {}
            Err(error) => return Err(error::api("owners with these labels")(error)),
        }
    }
    Ok(found)
}
