//! What the gates of `admit/gates.rs`, which has their one order, have against a run and against its nodes: pure checks, each naming what
//! keeps a step from happening. That of the run itself has an order of its own, worst first (`run.rs`).

pub mod node;
pub mod run;
pub mod watched;
pub mod written;
