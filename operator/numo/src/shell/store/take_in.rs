//! How the store takes in a message: this file hands each to the part of the store that it is for, and says whom it concerns. It keeps
//! nothing itself.

use super::{Listing, Reach, Seen, Store};
use crate::shell::{
    kind::Kind,
    watched::{self, Object, Place},
};
use std::collections::BTreeSet;
use tokio::time::Instant;

impl Store {
    /// Takes in what a watch says: whose decision could change by it.
    pub fn take_in(&mut self, seen: Seen) -> Reach {
        let is_of_a_turn = self.is_of_a_turn(&seen);
        match (self.see(seen), is_of_a_turn) {
            (false, _) => Reach::Nobody,
            (true, true) => Reach::Busy,
            (true, false) => Reach::Everyone,
        }
    }

    /// Whether a message is of a turn that is under way, and changes no other.
    fn is_of_a_turn(&self, seen: &Seen) -> bool {
        match seen {
            Seen::Applied(_, _, object) => watched::is_of_a_turn(self, object),
            Seen::Deleted(kind, ..) => matches!(kind.watched().place, Place::RuleJobs | Place::PlanJobs),
            Seen::Evaluated(..) | Seen::Stirred(..) => true,
            Seen::Missing(..)
            | Seen::Listing(..)
            | Seen::Listed(..)
            | Seen::ListedAgain(..)
            | Seen::Judged(..)
            | Seen::Claim(..)
            | Seen::Kured(..)
            | Seen::Forgotten(..)
            | Seen::PolicyChanged
            | Seen::Dealt
            | Seen::Evicted(..)
            | Seen::Unseen(..)
            | Seen::Absent(..)
            | Seen::ListFailed(..)
            | Seen::Channel(..)
            | Seen::Provider(..)
            | Seen::Called(..)
            | Seen::Examined(..) => false,
        }
    }

    /// Takes in what a watch says; true if a decision could change by it.
    pub fn see(&mut self, seen: Seen) -> bool {
        match seen {
            Seen::Applied(_, number, Object::NodePod(node, pod)) => self.put_pod(&node, number, *pod),
            Seen::Deleted(Kind::NodePod, key, number) => self.remove_pod(&key, number),
            Seen::Listing(Kind::NodePod, node) => self.listing_pods(&node),
            Seen::Listed(Kind::NodePod, node) => {
                self.lists_again(Kind::NodePod, &node) | self.listed_pods(&node)
            }
            Seen::Applied(kind, number, object) => self.put(kind, number, object, false),
            Seen::Deleted(kind, key, number) => self.remove(kind, &key, number),
            Seen::Missing(kind, key) => self.note_missing(kind, key),
            Seen::Listing(kind, scope) => {
                let listing = Listing {
                    since: Instant::now(),
                    mentioned: BTreeSet::new(),
                };
                self.listing.insert((kind, scope), listing);
                false
            }
            Seen::Listed(kind, scope) => self.listed(kind, scope),
            Seen::ListedAgain(kind, namespace) => {
                self.crowd.listed(kind, &namespace);
                self.waiting_for.remove(&(kind, namespace))
            }
            Seen::Judged(rule, edition, validity) => self.judge(&rule, edition, validity),
            Seen::Examined(rule, edition, examined, validity) => {
                self.take_examined(&rule, edition, examined, validity)
            }
            Seen::Evaluated(key, at, answer) => self.evaluated(&key, at, answer),
            Seen::Stirred(key) => self.stirred(&key),
            Seen::Claim(key, asked, judged) => self.judged_claim(key, asked, judged),
            Seen::Kured(key, account, may) => self.judged_kured(&key, &account, may),
            Seen::Forgotten(rule) => {
                self.forget_judgement(&rule);
                self.refresh_rule(&rule)
            }
            Seen::PolicyChanged => self.forget_components(),
            Seen::Dealt => true,
            Seen::ListFailed(kind, scope, words) => self.list_failed(kind, scope, &words),
            Seen::Absent(kind, words) => self.absent(kind, &words),
            Seen::Unseen(kind, scope, words) => self.unseen(kind, scope, words),
            Seen::Provider(question, at, answer) => self.provider_answered(&question, at, answer),
            Seen::Called(what, at, called) => self.called(&what, at, called),
            Seen::Channel(plan, url, at, answer) => self.answered(&plan, &url, at, answer),
            Seen::Evicted(node, eviction, said, at) => {
                self.touched.insert(node.clone());
                self.evicted(&node, &eviction, said, at);
                false
            }
        }
    }
}
