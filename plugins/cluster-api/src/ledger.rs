//! What the provider has done to a group, in one annotation of its MachineDeployment or MachinePool. It is written in the same patch as
//! `spec.replicas`, and every such patch tests it: what stands there was done, once. Makes no calls.

use numo_provider_sdk::{
    Failure, FailureCode,
    failure::failure,
    serde_json::{self, Value, json},
};

/// The annotation of the group.
pub const LEDGER: &str = "numo.openshift-optional.skrzypek.io/machine-ledger";
/// Bytes of the annotation at most: objects have 256 KiB for all of theirs.
const BYTES: usize = 64 * 1024;
/// Requests and deletions that are remembered.
const REMEMBERED: usize = 100;
/// How long a request is kept open whose machine nobody has seen (seconds).
const OPEN_SECONDS: u64 = 24 * 3600;
/// Characters of a uid that tell machines apart.
const UID: usize = 8;

/// One replica that was added.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// Id of the request.
    pub id: String,
    /// When (seconds since 1970).
    pub at: u64,
    /// Machines that were there before, the beginnings of their uids one after the other. Empty once it is closed.
    pub known: String,
    /// Whether its machine was seen: no other is ever claimed for it.
    pub closed: bool,
}

/// A machine for which the group is held: Cluster API is not to choose which MachineSet shrinks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hold {
    /// Name of the Machine.
    pub machine: String,
    /// Its uid.
    pub uid: String,
    /// Its MachineSet.
    pub set: String,
    /// Replicas of that MachineSet before.
    pub from: i64,
}

/// The annotation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ledger {
    /// Replicas that were added, the oldest first.
    pub requests: Vec<Request>,
    /// Uids of machines for which the group was lowered, the oldest first.
    pub deleted: Vec<String>,
    /// Whether the group is held.
    pub hold: Option<Hold>,
}

impl Request {
    /// Whether the machine was there before.
    pub fn knows(&self, uid: &str) -> bool {
        let (known, uid) = (self.known.as_bytes(), short(uid));
        uid.is_empty() || known.chunks(UID).any(|one| one == uid.as_bytes())
    }
}

/// What tells a machine apart from others.
fn short(uid: &str) -> &str {
    uid.get(..UID).unwrap_or_default()
}

/// The machines that are there.
pub fn known<'a>(uids: impl Iterator<Item = &'a str>) -> String {
    uids.map(short).collect()
}

fn text(value: &Value, key: &str) -> Option<String> {
    let text = value.get(key).and_then(Value::as_str);
    text.map(ToOwned::to_owned)
}

fn request(value: &Value) -> Option<Request> {
    Some(Request {
        id: text(value, "id")?,
        at: value.get("at").and_then(Value::as_u64)?,
        known: text(value, "known").unwrap_or_default(),
        closed: value.get("closed").and_then(Value::as_bool).unwrap_or_default(),
    })
}

fn hold(value: &Value) -> Option<Hold> {
    Some(Hold {
        machine: text(value, "machine")?,
        uid: text(value, "uid")?,
        set: text(value, "set")?,
        from: value.get("from").and_then(Value::as_i64)?,
    })
}

impl Ledger {
    /// Reads the annotation; none is an empty one.
    ///
    /// Errors: it is not what the provider writes. Nothing is then known of what was done, and nothing is done.
    pub fn parse(json: Option<&str>, group: &str) -> Result<Self, Failure> {
        let Some(json) = json else {
            return Ok(Self::default());
        };
        let value: Option<Value> = serde_json::from_str(json).ok();
        let read = value.as_ref().and_then(Self::of);
        read.ok_or_else(|| {
            let message = format!(
                "{group}, annotation {LEDGER}: found {} bytes that numo did not write, wanted its own or none; \
                 look at its Machines before you delete it",
                json.len()
            );
            failure(FailureCode::Other, message)
        })
    }

    fn of(value: &Value) -> Option<Self> {
        let list = |key: &str| {
            value
                .get(key)
                .map_or(Some(&[][..]), |list| list.as_array().map(Vec::as_slice))
        };
        let uids = list("deleted")?
            .iter()
            .map(|uid| uid.as_str().map(ToOwned::to_owned));
        Some(Self {
            requests: list("requests")?.iter().map(request).collect::<Option<_>>()?,
            deleted: uids.collect::<Option<_>>()?,
            hold: match value.get("hold") {
                None => None,
                Some(found) => Some(hold(found)?),
            },
        })
        .filter(|_| value.is_object())
    }

    /// The annotation's text.
    ///
    /// Errors: there are too many open requests for it.
    pub fn write(&self) -> Result<String, Failure> {
        let requests = self.requests.iter().map(|one| {
            let mut value = json!({"id": one.id, "at": one.at});
            if let Some(fields) = value.as_object_mut() {
                if one.closed {
                    fields.insert("closed".to_owned(), Value::Bool(true));
                } else {
                    fields.insert("known".to_owned(), Value::String(one.known.clone()));
                }
            }
            value
        });
        let mut value = json!({"requests": requests.collect::<Vec<_>>(), "deleted": self.deleted});
        if let (Some(fields), Some(hold)) = (value.as_object_mut(), &self.hold) {
            let held = json!({"machine": hold.machine, "uid": hold.uid, "set": hold.set, "from": hold.from});
            fields.insert("hold".to_owned(), held);
        }
        let json = value.to_string();
        if json.len() > BYTES {
            let message = format!(
                "annotation {LEDGER}: {} requests wait for their Machines, and there is no room for another",
                self.requests.iter().filter(|one| !one.closed).count()
            );
            let mut failed = failure(FailureCode::Throttled, message);
            failed.retry_after_seconds = Some(30);
            return Err(failed);
        }
        Ok(json)
    }

    /// The entry of a request.
    pub fn request(&self, id: &str) -> Option<&Request> {
        self.requests.iter().find(|one| one.id == id)
    }

    /// How many requests that were made after this one know the machine. They cannot take it, so that this one should, before another that
    /// they can.
    pub fn lost_to_others(&self, id: &str, uid: &str) -> usize {
        let later = self.requests.iter().skip_while(|one| one.id != id).skip(1);
        later.filter(|one| !one.closed && one.knows(uid)).count()
    }

    /// Closes the requests whose machine is there or that are too old, and forgets the oldest.
    pub fn tidy(&mut self, now: u64, is_made: impl Fn(&str) -> bool) {
        for one in &mut self.requests {
            if is_made(&one.id) || one.at.saturating_add(OPEN_SECONDS) < now {
                one.closed = true;
                one.known.clear();
            }
        }
        let mut closed = self.requests.iter().filter(|one| one.closed).count();
        self.requests.retain(|one| {
            let goes = one.closed && closed > REMEMBERED;
            closed -= usize::from(goes);
            !goes
        });
        let surplus = self.deleted.len().saturating_sub(REMEMBERED);
        self.deleted.drain(..surplus);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(id: &str, known: &str) -> Request {
        Request {
            id: id.to_owned(),
            at: 1000,
            known: known.to_owned(),
            closed: false,
        }
    }

    #[test]
    fn what_is_written_is_read_again() {
        let ledger = Ledger {
            requests: vec![entry("a", "0123456789abcdef"), entry("b", "")],
            deleted: vec!["uid".to_owned()],
            hold: Some(Hold {
                machine: "m".to_owned(),
                uid: "u".to_owned(),
                set: "s".to_owned(),
                from: 3,
            }),
        };
        let json = ledger.write().unwrap();
        assert_eq!(Ledger::parse(Some(&json), "g").unwrap(), ledger);
        assert_eq!(Ledger::parse(None, "g").unwrap(), Ledger::default());
    }

    #[test]
    fn what_somebody_else_wrote_is_refused() {
        for json in [
            "",
            "[]",
            "1",
            "{\"requests\": 1}",
            "{\"requests\": [{}]}",
            "{\"deleted\": [1]}",
            "{\"hold\": {}}",
            "{\"hold\": null}",
        ] {
            assert!(Ledger::parse(Some(json), "g").is_err(), "{json}");
        }
    }

    #[test]
    fn a_machine_that_was_there_is_known_by_its_uid() {
        let request = entry("a", &known(["01234567-1", "89abcdef-2"].into_iter()));
        assert!(request.knows("01234567-1") && request.knows("89abcdef-9"));
        assert!(!request.knows("23456789-3"), "not across two of them");
        assert!(
            request.knows("short"),
            "one that cannot be told apart is never taken"
        );
    }

    #[test]
    fn a_machine_is_lost_to_those_who_know_it() {
        let (one, two) = ("01234567", "89abcdef");
        let requests = vec![
            entry("a", ""),
            entry("b", one),
            entry("c", &format!("{one}{two}")),
        ];
        let ledger = Ledger {
            requests,
            ..Ledger::default()
        };
        assert_eq!(
            (ledger.lost_to_others("a", one), ledger.lost_to_others("a", two)),
            (2, 1)
        );
        assert_eq!(
            (ledger.lost_to_others("b", two), ledger.lost_to_others("c", two)),
            (1, 0)
        );
    }

    #[test]
    fn the_oldest_are_forgotten_but_never_an_open_request() {
        let mut ledger = Ledger::default();
        ledger.requests.push(entry("open", "01234567"));
        for number in 0..150 {
            ledger.requests.push(entry(&format!("r{number}"), "01234567"));
            ledger.deleted.push(number.to_string());
        }
        ledger.tidy(2000, |id| id != "open");
        assert_eq!((ledger.requests.len(), ledger.deleted.len()), (101, 100));
        assert!(!ledger.request("open").unwrap().closed);
        assert!(ledger.request("r49").is_none() && ledger.request("r50").unwrap().closed);
        ledger.tidy(1000 + OPEN_SECONDS + 1, |_| false);
        assert!(
            ledger.request("open").is_none(),
            "closed by its age, and the oldest"
        );
    }

    #[test]
    fn a_ledger_that_does_not_fit_is_throttled() {
        let ledger = Ledger {
            requests: vec![entry("a", &"0".repeat(BYTES))],
            ..Ledger::default()
        };
        assert_eq!(ledger.write().unwrap_err().code, FailureCode::Throttled);
    }
}
