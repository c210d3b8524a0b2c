//! Telling people: what the planner has seen of its owners goes to a task of its own, which hands it to the task of each MutexNotifier.
//! No decision waits for any of them, and none reads what they say.

#[cfg(test)]
mod double;
mod episode;
mod outbox;
mod pace;
mod silencer;
mod sink;
mod worker;

pub use {pace::Pace, sink::Reach};

use self::{
    outbox::Outbox,
    worker::{Post, Worker},
};
use super::{events::Events, leader::Fence, metrics::Metrics};
use crate::frontends::{mutex_notifier::NotifierView, notification::Notification, silence::Turns};
use std::{collections::BTreeMap, sync::Arc};
use tokio::{
    sync::mpsc,
    task::{AbortHandle, JoinSet},
    time::Instant,
};

/// Pictures that may wait; the planner makes another when there is room.
const PICTURES: usize = 64;

/// What there is to be told, and to whom.
#[derive(Clone, Debug, Default)]
pub struct Picture {
    /// Every notifier.
    pub notifiers: Vec<NotifierView>,
    /// What has happened to every owner, and goes on.
    pub notifications: Vec<Arc<Notification>>,
    /// The nodes that are out of service, if some notifier wants them silenced.
    pub turns: Arc<Turns>,
}

/// Where pictures go. What is told ends with it.
#[derive(Clone, Debug)]
pub struct Notifiers(mpsc::Sender<Picture>);

impl Notifiers {
    /// Begins to tell. A sink that takes nothing is told by `events`.
    pub fn start(reach: Reach, fence: Fence, (metrics, events): (Metrics, Events)) -> Self {
        let (pictures, seen) = mpsc::channel(PICTURES);
        tokio::spawn(dispatch(seen, reach, fence, (metrics, events)));
        Self(pictures)
    }

    /// Shows a picture; false if there is no room for it now.
    pub fn show(&self, picture: Picture) -> bool {
        self.0.try_send(picture).is_ok()
    }
}

/// The task of a notifier, and what it shares.
struct Open {
    uid: String,
    post: Arc<Post>,
    task: AbortHandle,
}

/// Hands each picture to the task of every notifier, until nobody shows any. The tasks end with this one.
async fn dispatch(
    mut seen: mpsc::Receiver<Picture>,
    reach: Reach,
    fence: Fence,
    (metrics, events): (Metrics, Events),
) {
    let mut tasks = JoinSet::new();
    let mut open: BTreeMap<String, Open> = BTreeMap::new();
    while let Some(picture) = seen.recv().await {
        let is_there = |name: &String, one: &Open| {
            let mut all = picture.notifiers.iter();
            all.any(|view| view.name == *name && view.uid == one.uid)
        };
        open.retain(|name, one| {
            let stays = is_there(name, one);
            if !stays {
                one.task.abort();
                metrics.forget_notifier(name);
            }
            stays
        });
        for view in &picture.notifiers {
            let one = open.entry(view.name.clone()).or_insert_with(|| {
                let post = Arc::new(Post::new(Outbox::new(view.clone())));
                let worker = Worker {
                    name: view.name.clone(),
                    uid: view.uid.clone(),
                    post: post.clone(),
                    reach: reach.clone(),
                    fence: fence.clone(),
                    metrics: metrics.clone(),
                    events: events.clone(),
                };
                Open {
                    uid: view.uid.clone(),
                    post,
                    task: tasks.spawn(worker.work()),
                }
            });
            let mut outbox = one.post.outbox();
            let is_edited = outbox.edit(view, reach.connection.clock.now());
            let (dropped, is_new) = outbox.see(&picture.notifications, Instant::now());
            let is_new = outbox.see_turns(&picture.turns) || is_new;
            drop(outbox);
            metrics.notified(&view.name, "dropped", dropped);
            if is_edited || is_new {
                one.post.wake();
            }
        }
        // Those that were ended.
        while tasks.try_join_next().is_some() {}
    }
}
