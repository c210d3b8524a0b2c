//! The flags of `numo preview`.

use crate::cli::{
    cluster::ClusterArgs, completion, object::ObjectArg, output::OutputArgs, place::REGISTRIES_ON_LOOPBACK,
};
use clap::Args;
use std::path::PathBuf;

/// Nodes whose pods are looked at, at most, unless more are asked for.
const DRAINED: usize = 50;

/// Arguments of `numo preview`.
#[derive(Debug, Args)]
pub struct PreviewArgs {
    #[command(flatten)]
    pub(super) cluster: ClusterArgs,
    #[command(flatten)]
    pub(super) output: OutputArgs,
    /// Manifests to treat as applied; - is standard input
    #[arg(short = 'f', long, value_name = "FILE")]
    pub(super) filename: Option<PathBuf>,
    /// Use this file of `numo snapshot` instead of a cluster; rules are not evaluated
    #[arg(long, value_name = "FILE")]
    pub(super) snapshot: Option<PathBuf>,
    /// Namespace of the owner [default: that of the kubeconfig's context]
    #[arg(short, long, value_name = "NS")]
    pub(super) namespace: Option<String>,
    /// Assume that a MutexRunConfig goes to this version
    #[arg(long, value_name = "VERSION")]
    pub(super) to_version: Option<String>,
    /// For how many nodes to check the drain
    #[arg(long, value_name = "NUMBER", default_value_t = DRAINED)]
    pub(super) drains: usize,
    /// Node to evaluate a MutexRule for [default: the first worker]
    #[arg(long, value_name = "NODE", add = clap_complete::ArgValueCompleter::new(completion::nodes))]
    pub(super) node: Option<String>,
    /// Do not evaluate rules
    #[arg(long)]
    pub(super) without_rules: bool,
    /// As numo run takes it
    #[arg(
        long,
        env = REGISTRIES_ON_LOOPBACK,
        hide = true,
        value_parser = clap::builder::BoolishValueParser::new(),
        action = clap::ArgAction::SetTrue
    )]
    pub(super) registries_on_loopback: bool,
    /// The owner, or mutexrule/NAME to evaluate a rule by itself [default: every owner in the manifests, else their rules]
    #[arg(value_parser = ObjectArg::of_preview, value_name = "KIND/NAME", required_unless_present = "filename", add = clap_complete::ArgValueCompleter::new(completion::previewed))]
    pub(super) object: Option<ObjectArg>,
}
