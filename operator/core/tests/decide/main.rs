//! What is decided for a tiny cluster, one table a subject. A cluster is text (see `cluster.rs`), and so
//! is the decision (see `words.rs`).

mod admission;
mod arming;
mod canary;
mod cluster;
mod journal;
mod leaving;
mod order;
mod preflight;
mod release;
mod rules;
mod words;
