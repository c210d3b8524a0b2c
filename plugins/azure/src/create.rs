//! Makes the machine of a request, and finds it again. The protocol stands in the crate's documentation; whatever is written here is a change
//! of the scale set under the version that was read, so that of two who write at once one reads anew.

use crate::{
    arm::{Answer, Arm, Change, Progress, Refusal},
    config::Config,
    ids::{GroupId, MachineId},
    ledger::{self, Base, Made, Record},
    model::{Machine, ScaleSet},
    token::Token,
};
use numo_provider_sdk::{
    CreatedNode, Creation, Failure, FailureCode, Pending,
    failure::{failure, invalid},
    host::{Clock, Cloud, Method},
    serde_json::{Map, Value, json},
};

/// How often one call reads anew because somebody else wrote.
const ATTEMPTS: u32 = 3;
/// Seconds until the next call when others write all the time, and while a machine is waited for.
const CHANGED_SECONDS: u32 = 2;
const WAIT_SECONDS: u32 = 10;
/// How long a machine must be missed before it is asked for anew: longer than lists lag behind.
const MISSED_SECONDS: u64 = 90;

/// One call about one request.
pub struct Making<'a, H> {
    arm: Arm<'a, H>,
    group: &'a GroupId,
    request: &'a str,
    now: u64,
}

/// What Azure says now.
struct Seen {
    set: ScaleSet,
    machines: Vec<Machine>,
}

impl Seen {
    fn is_there(&self, made: &Made) -> Option<&Machine> {
        self.machines.iter().find(|machine| made.is(machine))
    }

    /// Whether all machines that the scale set is to have are there. The capacity was read before the list: it may have been raised since,
    /// but then it is not this version of the scale set that is written.
    fn is_full(&self) -> bool {
        let staying = self
            .machines
            .iter()
            .filter(|machine| !machine.is_leaving())
            .count();
        u64::try_from(staying).unwrap_or(u64::MAX) >= self.set.capacity
    }

    /// The machine that a request may take, and whether Azure has done with it.
    fn choose(&self, base: &Base) -> Option<(&Machine, bool)> {
        let machine = ledger::choose(&self.set.tags, base, &self.machines)?;
        Some((machine, machine.is_settled() || !self.set.is_updating()))
    }
}

/// What a look at the scale set came to.
enum Step {
    Is(Creation),
    Changed,
}

impl<'a, H: Cloud + Clock> Making<'a, H> {
    /// Begins.
    pub fn new(host: &'a H, config: &'a Config, group: &'a GroupId, request: &'a str) -> Self {
        Self {
            arm: Arm::new(host, config),
            group,
            request,
            now: host.now().seconds,
        }
    }

    /// Makes the machine, or goes on with it.
    pub fn create(&self, token: Option<&str>) -> Result<Creation, Failure> {
        let token = Token::read(token);
        let mut failed = None;
        if let Some(operation) = &token.operation {
            match self
                .arm
                .progress(operation, &format!("scaling of scale set {}", self.group.name()))?
            {
                Progress::Running(seconds) => {
                    return Ok(pending(&token, seconds, self.words("is being scaled")));
                }
                Progress::Over => {}
                Progress::Failed(failure) => failed = Some(failure),
            }
        }
        for _ in 0..ATTEMPTS {
            if let Step::Is(creation) = self.step(&token, failed.as_ref())? {
                return Ok(creation);
            }
        }
        Ok(pending(
            &token,
            CHANGED_SECONDS,
            self.words("is changed by others"),
        ))
    }

    /// The machine of the request, if there is one. Takes one that was made for it, and raises nothing.
    pub fn find(&self) -> Result<Option<CreatedNode>, Failure> {
        for _ in 0..ATTEMPTS {
            let set = ScaleSet::get(&self.arm, self.group)?;
            let base = match self.record(&set)? {
                None => return Ok(None),
                Some(Record::Made(made)) => return self.still_there(&made),
                Some(Record::Wanted(base)) => base,
            };
            let machines = Machine::list(&self.arm, self.group)?;
            let seen = Seen { set, machines };
            match seen.choose(&base) {
                Some((machine, true)) => match self.claim(&seen, machine)? {
                    Step::Is(Creation::Created(node)) => return Ok(Some(node)),
                    Step::Is(Creation::Pending(_)) => return Err(self.unsure("is being given its machine")),
                    Step::Changed => {}
                },
                Some((_, false)) => return Err(self.unsure("is making the machine")),
                None if seen.set.is_updating() || !seen.is_full() => {
                    let words = format!(
                        "is to have {} machines and has {}",
                        seen.set.capacity,
                        seen.machines.len()
                    );
                    return Err(self.unsure(&words));
                }
                None => return Ok(None),
            }
        }
        Err(self.unsure("is changed by others"))
    }

    fn still_there(&self, made: &Made) -> Result<Option<CreatedNode>, Failure> {
        let id = MachineId {
            group: self.group.clone(),
            instance: made.instance.clone(),
        };
        match Machine::get(&self.arm, &id)? {
            Some((machine, _)) if made.is(&machine) => Ok(Some(self.node(&machine)?)),
            _ => Ok(None),
        }
    }

    fn step(&self, token: &Token, failed: Option<&Failure>) -> Result<Step, Failure> {
        let set = ScaleSet::get(&self.arm, self.group)?;
        set.check_countable(self.group)?;
        let record = self.record(&set)?;
        let machines = Machine::list(&self.arm, self.group)?;
        let seen = Seen { set, machines };
        match record {
            Some(Record::Wanted(base)) => self.go_on(&seen, base, token, failed),
            Some(Record::Made(made)) => match seen.is_there(&made) {
                Some(machine) => Ok(Step::Is(Creation::Created(self.node(machine)?))),
                None => self.raise(&seen, self.base(&seen), 1),
            },
            None => self.raise(&seen, self.base(&seen), 1),
        }
    }

    /// The capacity was raised: takes the machine, or waits for it, or has Azure try again.
    fn go_on(
        &self,
        seen: &Seen,
        base: Base,
        token: &Token,
        failed: Option<&Failure>,
    ) -> Result<Step, Failure> {
        match seen.choose(&base) {
            Some((machine, true)) => return self.claim(seen, machine),
            Some((machine, false)) => {
                let words = format!("is making machine {}", machine.instance);
                return Ok(Step::Is(pending(
                    &Token::default(),
                    WAIT_SECONDS,
                    self.words(&words),
                )));
            }
            None => {}
        }
        if seen.set.is_updating() {
            return Ok(Step::Is(pending(
                &Token::default(),
                WAIT_SECONDS,
                self.words("is being updated"),
            )));
        }
        if seen.set.has_failed() && !seen.is_full() {
            // The same capacity again is no second machine.
            let step = self.raise(seen, base, 0)?;
            return match (step, failed) {
                (Step::Is(_), Some(failed)) => Err(failed.clone()),
                (step, _) => Ok(step),
            };
        }
        let since = token.missed_since.unwrap_or(self.now).min(self.now);
        if self.now - since < MISSED_SECONDS {
            let token = Token {
                operation: None,
                missed_since: Some(since),
            };
            return Ok(Step::Is(pending(
                &token,
                WAIT_SECONDS,
                self.words("shows no new machine yet"),
            )));
        }
        if seen.is_full() {
            // All machines that are to be there are, and none is the request's: somebody took it away.
            return self.raise(seen, self.base(seen), 1);
        }
        self.raise(seen, base, 0)
    }

    /// The machines that are there now.
    fn base(&self, seen: &Seen) -> Base {
        Base::of(&seen.machines, seen.set.read_at, self.now)
    }

    /// Writes the request and the capacity in one change.
    fn raise(&self, seen: &Seen, base: Base, more: u64) -> Result<Step, Failure> {
        let tags = ledger::tidied(&seen.set.tags, &seen.machines, self.now);
        let tags = ledger::with(&tags, self.request, &Record::Wanted(base.renewed(self.now)));
        if tags.len() > ledger::TAGS {
            let words = format!(
                "scale set {}, tags: found {} of the {} that Azure allows, wanted room for one more; tags {}… of requests that nobody makes \
                 any more may be deleted",
                self.group.name(),
                seen.set.tags.len(),
                ledger::TAGS,
                ledger::PREFIX
            );
            return Err(failure(FailureCode::Exhausted, words));
        }
        let mut sku = seen.set.sku.clone();
        let capacity = seen.set.capacity.saturating_add(more);
        if let Some(sku) = sku.as_object_mut() {
            sku.insert("capacity".to_owned(), capacity.into());
        }
        match self.write(seen, &json!({ "sku": sku, "tags": tags }))? {
            None => Ok(Step::Changed),
            Some(answer) => {
                let token = Token {
                    operation: answer.operation,
                    missed_since: None,
                };
                let words = self.words(&format!("is to have {capacity} machines"));
                Ok(Step::Is(pending(&token, answer.retry_after_seconds, words)))
            }
        }
    }

    /// Writes that a machine is the request's.
    fn claim(&self, seen: &Seen, machine: &Machine) -> Result<Step, Failure> {
        let node = self.node(machine)?;
        let record = Record::Made(Made::of(machine, self.now));
        let tags = ledger::with(&seen.set.tags, self.request, &record);
        let Some(answer) = self.write(seen, &json!({ "tags": tags }))? else {
            return Ok(Step::Changed);
        };
        let written = answer.body.get("tags").and_then(Value::as_object);
        if written.is_some_and(|tags: &Map<String, Value>| ledger::says(tags, self.request, &record)) {
            return Ok(Step::Is(Creation::Created(node)));
        }
        // Accepted, but not yet shown: the next call reads it.
        let words = self.words(&format!("has made machine {}", machine.instance));
        Ok(Step::Is(pending(&Token::default(), CHANGED_SECONDS, words)))
    }

    /// Changes the scale set if nobody did since it was read.
    fn write(&self, seen: &Seen, body: &Value) -> Result<Option<Answer>, Failure> {
        let what = format!("scale set {}", self.group.name());
        let Some(etag) = seen.set.etag.as_deref() else {
            return Err(failure(
                FailureCode::Other,
                format!(
                    "{what}, etag: found nothing, wanted one: without it two requests could be taken for one"
                ),
            ));
        };
        let path = self.group.path();
        let change = Change {
            method: Method::Patch,
            path: &path,
            what: &what,
            body,
            etag: Some(etag),
        };
        match self.arm.change(&change) {
            Ok(answer) => Ok(Some(answer)),
            Err(Refusal::Changed(_)) => Ok(None),
            Err(refusal) => Err(refusal.into()),
        }
    }

    fn record(&self, set: &ScaleSet) -> Result<Option<Record>, Failure> {
        let found = ledger::find(&set.tags, self.request);
        found.map_err(|words| invalid(format!("scale set {}, {words}", self.group.name())))
    }

    fn node(&self, machine: &Machine) -> Result<CreatedNode, Failure> {
        let name = machine.node_name.clone().ok_or_else(|| {
            failure(
                FailureCode::Unavailable,
                format!(
                    "machine {} of scale set {}, osProfile.computerName: found nothing, wanted the name of the node",
                    machine.instance,
                    self.group.name()
                ),
            )
        })?;
        Ok(CreatedNode {
            node_name: name,
            provider_id: self.group.machine(&machine.instance),
            attributes: Vec::new(),
        })
    }

    fn words(&self, of_group: &str) -> String {
        format!("scale set {} {of_group}", self.group.name())
    }

    /// There may be a machine, or not: neither is said.
    fn unsure(&self, of_group: &str) -> Failure {
        let words = format!("request {}: {}", self.request, self.words(of_group));
        Failure {
            retry_after_seconds: Some(WAIT_SECONDS),
            ..failure(FailureCode::Unavailable, words)
        }
    }
}

fn pending(token: &Token, seconds: u32, message: String) -> Creation {
    Creation::Pending(Pending {
        token: token.write(),
        retry_after_seconds: seconds,
        message,
    })
}
