//! What the channels of Plans answered. This file asks none.

use super::Store;
use jiff::Timestamp;
use numo_core::observed::{ChannelView, Key};

impl Store {
    /// Notes that the channel of a Plan is being asked.
    pub fn asks_channel(&mut self, plan: &Key, url: &str, at: Timestamp) {
        let known = self
            .observed
            .channels
            .remove(plan)
            .filter(|known| known.url == url);
        let view = ChannelView {
            at,
            under_way: true,
            url: url.to_owned(),
            answer: known.as_ref().and_then(|known| known.answer.clone()),
            failures: known.map_or(0, |known| known.failures),
        };
        self.observed.channels.insert(plan.clone(), view);
    }

    pub(super) fn answered(
        &mut self,
        plan: &Key,
        url: &str,
        at: Timestamp,
        answer: Result<String, String>,
    ) -> bool {
        let Some(view) = self
            .observed
            .channels
            .get_mut(plan)
            .filter(|view| view.url == url)
        else {
            return false;
        };
        view.failures = if answer.is_ok() {
            0
        } else {
            view.failures.saturating_add(1)
        };
        view.under_way = false;
        view.at = at;
        view.answer = Some(answer);
        true
    }
}
