//! What is decided for a tiny cluster, one table a subject. A cluster is text (see `cluster.rs`), and so
//! is the decision (see `words.rs`).

#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::format_push_string,
    reason = "a failed step of a test is its failure"
)]

mod abandoned;
mod admission;
mod ahead;
mod also;
mod approvals;
mod arming;
mod away;
mod believed;
mod bound;
mod canary;
mod capabilities;
mod cause;
mod chaos;
mod clock;
mod closed;
mod cluster;
mod configs;
mod contradiction;
mod domains;
mod earlier;
mod edited;
mod evaluations;
mod failure_budget;
mod found;
mod groups;
mod handover;
mod held;
mod hours;
mod inline;
mod journal;
mod last_look;
mod leaving;
mod left;
mod lost;
mod machines;
mod maintained;
mod maintenance;
mod maintenance_waves;
mod mangled;
mod odd;
mod opened;
mod order;
mod other_operator;
mod own_gate;
mod plan;
mod planned;
mod preflight;
mod put_back;
mod quarantine;
mod release;
mod replaced;
mod replaced_across;
mod replaced_again;
mod replaced_bad;
mod replaced_gone;
mod replaced_lost;
mod replaced_order;
mod replaced_returned;
mod replaced_silence;
mod replaced_unknown;
mod replaced_waves;
mod replacement;
mod replacing;
mod rules;
mod sentences;
mod spelling;
mod standoff;
mod stepped;
mod stop;
mod targets;
mod toy;
mod unknown_kind;
mod untold;
mod wave_rules;
mod waves;
mod windows;
mod words;
