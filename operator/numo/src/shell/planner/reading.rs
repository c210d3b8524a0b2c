//! Objects that are read again by themselves: rules that have room now, and what was turned away and is needed. What is read comes back
//! like what a watch sees; nothing here waits for it.

use super::context::{Context, PATIENCE};
use crate::shell::{kind::Kind, notice::Notice, store::Seen, watch};
use numo_core::{observed::Key, referred::Referral};
use std::collections::BTreeMap;

/// Kinds and namespaces of which not everything is kept that are told by name.
const NOT_KEPT_NAMED: usize = 8;

/// Deals out the room for rules, and has those read again that have some now, and whatever else is needed.
pub fn give_room(context: &mut Context, referred: BTreeMap<Key, Referral>) {
    let dealt = context.store.give_room(referred);
    if dealt.has_moved {
        let _ = context.inbox.answered().send(Seen::Dealt);
    }
    for key in dealt.to_read {
        read_again(context, Kind::MutexRule, key);
    }
    read_missed(context);
}

/// Reads what was turned away and is needed now, or for which there is a place.
fn read_missed(context: &mut Context) {
    for (kind, key) in context.store.take_missed() {
        read_again(context, kind, key);
    }
    tell_turned_away(context);
    for (kind, namespace) in context.store.take_lists() {
        let (client, to) = (context.connection.read.clone(), context.inbox.watched());
        tokio::spawn(watch::list_again(client, kind, namespace, to));
    }
}

/// Has the leader Lease tell of which namespaces not everything is kept: nobody else can know.
fn tell_turned_away(context: &Context) {
    let away = context.store.turned_away();
    let named = away.iter().take(NOT_KEPT_NAMED);
    let not_kept: Vec<String> = named
        .map(|(kind, namespace)| format!("{} of namespace {namespace}", kind.resource().3))
        .collect();
    let known = context.board.read();
    if known.not_kept != not_kept {
        context.board.write(Notice { not_kept, ..known });
    }
}

/// Reads one object by itself.
fn read_again(context: &Context, kind: Kind, key: Key) {
    let (client, sender) = (context.connection.read.clone(), context.inbox.answered());
    tokio::spawn(async move {
        match tokio::time::timeout(PATIENCE, watch::read_one(&client, kind, &key)).await {
            Ok(Ok(Some((number, object)))) => {
                let _ = sender.send(Seen::Applied(kind, number, object));
            }
            // The watch tells that it is gone, once it has listed.
            Ok(Ok(None)) => {
                let _ = sender.send(Seen::Missing(kind, key));
            }
            Ok(Err(error)) => tracing::warn!(?kind, %key, %error, "an object is not read again"),
            Err(_) => tracing::warn!(?kind, %key, "an object is not read again in time"),
        }
    });
}
