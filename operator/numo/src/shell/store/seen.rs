//! The messages that the store takes in, and whom a message can concern. This file keeps nothing.

use crate::{
    runners::wasm::Examined,
    shell::{
        claim::Judged,
        project::{Edition, Kind},
        provider::answer::{Called, ProviderAnswer},
        watched::object::Object,
    },
};
use jiff::Timestamp;
use numo_core::{
    drain::Eviction,
    observed::{FleetQuestion, Key, MadeMachine, RuleAnswer, Said, Validity},
};

/// What a watch says.
#[derive(Debug)]
pub enum Seen {
    /// An object is there, at this version.
    Applied(Kind, u64, Object),
    /// An object is gone.
    Deleted(Kind, Key, u64),
    /// An object that was to be read by itself is not there.
    Missing(Kind, Key),
    /// A watch begins its list anew: what it does not mention by the end is gone. The scope is the
    /// namespace, empty for all.
    Listing(Kind, String),
    /// The list is complete.
    Listed(Kind, String),
    /// Objects of a namespace that were turned away before have been listed once more.
    ListedAgain(Kind, String),
    /// The API server judged a rule of this generation.
    Judged(Key, Edition, Validity),
    /// The component of a rule of this generation was looked at.
    Examined(Key, Edition, Option<Box<Examined>>, Validity),
    /// An evaluation, by its key, came to this.
    Evaluated(String, Timestamp, RuleAnswer),
    /// Something has changed that a rule read, by the key of its evaluation.
    Stirred(String),
    /// A kind that was listed once cannot be listed now: the API server's words.
    ListFailed(Kind, String, String),
    /// A kind is not served, and never was since numo began: the API server's words.
    Absent(Kind, String),
    /// A kind may not be seen in a namespace: the API server's words.
    Unseen(Kind, String, String),
    /// What a Plan's channel answered, by the URL that was asked.
    Channel(Key, String, Timestamp, Result<String, String>),
    /// What the provider of machines said to a question, and when.
    Provider(FleetQuestion, Timestamp, ProviderAnswer),
    /// What came of a call of the provider, by what it was about, and when; of one that made a machine, which.
    Called(String, Timestamp, Called<Option<MadeMachine>>),
    /// What was found out about a Deployment with the name of an operator that numo replaces, and by which question.
    Claim(Key, u64, Judged),
    /// What was found out about a rule is to be found out again.
    Forgotten(Key),
    /// Components are judged by another policy of signatures: what was found out about any is to be found out again.
    PolicyChanged,
    /// What the account of a DaemonSet by the name of kured may.
    Kured(Key, String, bool),
    /// What came of asking a pod of a node to go, and when.
    Evicted(String, Box<Eviction>, Said, Timestamp),
    /// Rules have lost or got their room: what is said of them has changed.
    Dealt,
}

/// Whose decisions something new can change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reach {
    /// Nobody's: nothing that is read has changed.
    #[default]
    Nobody,
    /// Those that have something under way or wait for something; runs with nothing to do are left alone.
    Busy,
    /// Everyone's.
    Everyone,
}
