//! Runners turn a rule into something that runs, and never write it themselves.

pub mod job;
