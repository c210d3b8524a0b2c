//! Gates: pure checks before a step, each naming what keeps the step from happening. The order of the
//! lists is the documentation; the first that applies is what a user reads.

pub mod node;
pub mod run;
pub mod watched;
pub mod written;
