//! What a MutexNotifier has told, and why it tells nothing.

use super::explanation::Explanation;
use crate::{
    cli::{live::Look, named::Named},
    frontends::mutex_notifier::NotifierView,
    shell::project::Kind,
};
use numo_api::{Reason, conditions::types};
use numo_core::text::counted;

/// How a notifier stands, as its status says.
pub(super) fn notifier(look: &Look, view: &NotifierView) -> Explanation {
    let (name, status) = (&view.name, &view.status);
    let object = Named::of_cluster(Kind::MutexNotifier, name);
    let mut conditions = status.conditions.iter();
    let ready = conditions.find(|one| one.type_ == types::READY);
    let Some(ready) = ready.filter(|_| status.observed_generation == Some(view.generation)) else {
        return Explanation {
            phase: Some("not judged yet; is numo running?".to_owned()),
            ..Explanation::of(object, (None, "numo has not looked at it yet".to_owned()))
        };
    };
    let is_ready = ready.status == "True";
    let reason = ready.reason.as_deref().and_then(Reason::named);
    let mut one = Explanation {
        phase: Some(if is_ready { "ready" } else { "not ready" }.to_owned()),
        ..Explanation::of(object, (reason, ready.message.clone().unwrap_or_default()))
    };
    if !is_ready {
        one.commands = vec![format!("kubectl edit mutexnotifier {name}")];
        if let Some(secret) = &view.spec.secret_ref {
            let namespace = &look.store.observed.settings.namespace;
            one.commands
                .push(format!("kubectl -n {namespace} edit secret {}", secret.name));
        }
    }
    if let Some(sink) = &status.sink {
        one.link("sink", sink.clone());
    }
    let number = |number: Option<i64>| number.unwrap_or(0);
    let last = status.last_sent_at.as_ref();
    let last = last.map_or_else(String::new, |at| format!(", last at {at}"));
    one.link(
        "told",
        format!(
            "{} sent{last}; {} given up, {} dropped",
            number(status.sent),
            number(status.failed),
            number(status.dropped)
        ),
    );
    if let Some(silences) = status.silences {
        one.link(
            "silences",
            counted(usize::try_from(silences).unwrap_or(0), "node"),
        );
    }
    one
}
