//! What numo's own providers of machines share. It decides nothing, and may neither read nor write anything by itself:
//! whatever a provider learns or changes goes through the traits in [`host`].
//!
//! A provider is a type that implements [`Provider`]. [`component!`] makes a component of it; natively it is plain functions, tested
//! against [`fake::World`]. A component imports only the interfaces whose trait its functions call, because the linker drops the rest:
//! never hold a host as `dyn`.

pub mod bindings;
pub mod failure;
#[cfg(feature = "fake")]
pub mod fake;
pub mod host;
pub mod names;
pub mod objects;
pub mod settings;

pub use bindings::exports::numo::provider::machines::{
    CreatedNode, Creation, Description, Failure, FailureCode, NodeRole, NodeState, Pending, ScalingGroup,
};
pub use bindings::numo::host::types::{Error, ErrorCode, ObjectRef};
pub use serde_json;

use host::Host;

/// The operations of a provider, as `wit/provider` has them word by word. Every call gets a fresh instance: what must be known in the
/// next stands in the cloud.
pub trait Provider {
    /// What the provider is. May call nothing.
    fn describe() -> Description;
    /// Image of the machine.
    fn node_image(host: &impl Host, provider_id: &str) -> Result<String, Failure>;
    /// Group of the machine.
    fn scaling_group_id(host: &impl Host, provider_id: &str) -> Result<String, Failure>;
    /// Adds one machine to the group, or finds the one that was made for this request.
    fn create_node(
        host: &impl Host,
        group_id: &str,
        request_id: &str,
        token: Option<&str>,
    ) -> Result<Creation, Failure>;
    /// The machine that was made for a request, or none.
    fn find_node(host: &impl Host, group_id: &str, request_id: &str) -> Result<Option<CreatedNode>, Failure>;
    /// Deletes the machine and lowers the group's size with it.
    fn delete_node(host: &impl Host, provider_id: &str) -> Result<(), Failure>;
    /// State of the machine.
    fn node_state(host: &impl Host, provider_id: &str) -> Result<NodeState, Failure>;
    /// Image that new machines of the group get.
    fn group_image(host: &impl Host, group_id: &str) -> Result<String, Failure>;
    /// Sets it.
    fn set_group_image(
        host: &impl Host,
        group_id: &str,
        image: &str,
        token: Option<&str>,
    ) -> Result<Option<Pending>, Failure>;
    /// Name for the ScalingGroup object. Calls nothing.
    fn group_name(group_id: &str) -> Result<String, Failure>;
    /// Name that cluster-autoscaler knows the group by. Calls nothing.
    fn autoscaling_group_name(group_id: &str) -> Result<String, Failure>;
    /// All groups of the cluster with this uid.
    fn groups(host: &impl Host, uid: &str) -> Result<Vec<ScalingGroup>, Failure>;
    /// `--cloud-provider` of cluster-autoscaler.
    fn autoscaling_cloud_provider() -> String;
}

/// Makes the component of a provider: `component!(Gcp)`. On other targets than wasm it is nothing.
#[macro_export]
macro_rules! component {
    ($provider:ty) => {
        #[cfg(target_family = "wasm")]
        #[allow(unsafe_code, reason = "the exported functions are generated")]
        mod component {
            use super::*;
            use $crate::{Provider, bindings::exports::numo::provider::machines as contract, host::Component};

            struct Exported;

            impl contract::Guest for Exported {
                fn describe() -> contract::Description {
                    <$provider>::describe()
                }

                fn get_node_image(provider_id: String) -> Result<String, contract::Failure> {
                    <$provider>::node_image(&Component, &provider_id)
                }

                fn get_scaling_group_id(provider_id: String) -> Result<String, contract::Failure> {
                    <$provider>::scaling_group_id(&Component, &provider_id)
                }

                fn create_node(
                    group_id: String,
                    request_id: String,
                    token: Option<String>,
                ) -> Result<contract::Creation, contract::Failure> {
                    <$provider>::create_node(&Component, &group_id, &request_id, token.as_deref())
                }

                fn find_node(
                    group_id: String,
                    request_id: String,
                ) -> Result<Option<contract::CreatedNode>, contract::Failure> {
                    <$provider>::find_node(&Component, &group_id, &request_id)
                }

                fn delete_node(provider_id: String) -> Result<(), contract::Failure> {
                    <$provider>::delete_node(&Component, &provider_id)
                }

                fn get_node_state(provider_id: String) -> Result<contract::NodeState, contract::Failure> {
                    <$provider>::node_state(&Component, &provider_id)
                }

                fn get_scaling_group_image(group_id: String) -> Result<String, contract::Failure> {
                    <$provider>::group_image(&Component, &group_id)
                }

                fn set_scaling_group_image(
                    group_id: String,
                    image: String,
                    token: Option<String>,
                ) -> Result<Option<contract::Pending>, contract::Failure> {
                    <$provider>::set_group_image(&Component, &group_id, &image, token.as_deref())
                }

                fn get_scaling_group_name(group_id: String) -> Result<String, contract::Failure> {
                    <$provider>::group_name(&group_id)
                }

                fn get_autoscaling_group_name(group_id: String) -> Result<String, contract::Failure> {
                    <$provider>::autoscaling_group_name(&group_id)
                }

                fn list_scaling_groups(
                    uid: String,
                ) -> Result<Vec<contract::ScalingGroup>, contract::Failure> {
                    <$provider>::groups(&Component, &uid)
                }

                fn autoscaling_cloud_provider() -> String {
                    <$provider>::autoscaling_cloud_provider()
                }
            }

            $crate::bindings::export!(Exported with_types_in $crate::bindings);
        }
    };
}
