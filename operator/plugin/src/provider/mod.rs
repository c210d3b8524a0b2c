//! Providers of machines: components that make, delete and look up the machines of one cloud (`wit/provider`). They run under the limits
//! of rules, and are lent other things: their settings, the cloud's API by grants, and Kubernetes objects of kinds that a grant names.
//! Which machine is made or deleted is decided elsewhere.

pub mod answer;
pub(crate) mod bindings;
pub mod call;
pub mod cloud;
pub mod grants;
pub mod lent;
pub(crate) mod load;

pub use answer::{Creation, Failed, Failure, FailureCode, Group, MachineState, Made, Pending, Said};
pub use call::{Ask, Place};
pub use cloud::{Signed, signed_headers};
pub use grants::{CloudGrant, ObjectGrant, ProviderGrants, Write};
pub use lent::{Cloud, CloudRequest, Lent, Signing, Writer};
pub use load::{Description, MachineProvider};
