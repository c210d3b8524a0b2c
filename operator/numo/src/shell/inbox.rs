//! What is seen, on its way to whoever takes it in. Watches wait while there is much that was not taken in yet, so that what strangers
//! write is held by the API server and not here; answers to numo's own questions do not wait, as their number is bounded where they are
//! asked. It looks at nothing that passes.

use super::store::Seen;
use tokio::sync::mpsc::{self, Receiver, Sender, UnboundedReceiver, UnboundedSender};

/// What watches have seen and nobody has taken in. Each is one object, of up to [`super::item`]'s bounds.
const WATCHED: usize = 64;

/// The end at which things come out.
#[derive(Debug)]
pub struct Inbox {
    watched: Receiver<Seen>,
    answered: UnboundedReceiver<Seen>,
    to_watched: Sender<Seen>,
    to_answered: UnboundedSender<Seen>,
}

impl Default for Inbox {
    fn default() -> Self {
        Self::new()
    }
}

impl Inbox {
    /// Nothing is in it.
    pub fn new() -> Self {
        let (to_watched, watched) = mpsc::channel(WATCHED);
        let (to_answered, answered) = mpsc::unbounded_channel();
        Self {
            watched,
            answered,
            to_watched,
            to_answered,
        }
    }

    /// Where watches send.
    pub fn watched(&self) -> Sender<Seen> {
        self.to_watched.clone()
    }

    /// Where answers are sent.
    pub fn answered(&self) -> UnboundedSender<Seen> {
        self.to_answered.clone()
    }

    /// The next, as soon as there is one. Nothing is lost if it is not waited for to the end.
    pub async fn next(&mut self) -> Option<Seen> {
        tokio::select! {
            seen = self.answered.recv() => seen,
            seen = self.watched.recv() => seen,
        }
    }

    /// The next, if there is one by now.
    pub fn take(&mut self) -> Option<Seen> {
        let answered = self.answered.try_recv();
        answered.or_else(|_| self.watched.try_recv()).ok()
    }

    /// Whether nothing is in it.
    pub fn is_empty(&self) -> bool {
        self.answered.is_empty() && self.watched.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shell::kind::Kind;

    #[tokio::test]
    async fn a_watch_waits_for_what_was_not_taken_in_and_an_answer_does_not() {
        let mut inbox = Inbox::new();
        let listed = || Seen::Listed(Kind::MutexRule, String::new());
        let watch = inbox.watched();
        for _ in 0..WATCHED {
            watch.try_send(listed()).unwrap();
        }
        assert!(watch.try_send(listed()).is_err(), "no stranger fills the memory");
        inbox.answered().send(Seen::Dealt).unwrap();
        assert!(
            matches!(inbox.take(), Some(Seen::Dealt)),
            "answers wait behind no flood"
        );
        assert!(inbox.next().await.is_some());
        watch.try_send(listed()).unwrap();
        let mut left = 0;
        while inbox.take().is_some() {
            left += 1;
        }
        assert_eq!(left, WATCHED);
        assert!(inbox.is_empty());
    }
}
