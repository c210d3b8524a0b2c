//! What the tags of a scale set say of requests: one tag for each. Pure: it reads and changes maps, and calls nothing.
//!
//! A tag `numo-request-ID` has one of two values, both far below Azure's 256 characters for one:
//!
//! - `wanted;SECONDS;NEWEST;SINCE;RANGES`: the capacity was raised for it. No machine that was there then is its own: none whose number is in
//!   RANGES (`0-3,7`), unless it was made after NEWEST, when the newest of them was. Azure uses numbers again, so a number alone says little.
//!   Ranges that would be too long are drawn together; a number between them is then told by its time. And none that was made before SINCE,
//!   when the scale set was read: a list may miss a machine that is there, because it lags, or because machines go between its pages.
//! - `made;SECONDS;NUMBER;VMID`: this machine is its own.

use crate::{
    model::{Machine, tag},
    time,
};
use numo_provider_sdk::serde_json::{Map, Value};

/// What the keys of its tags begin with.
pub const PREFIX: &str = "numo-request-";
/// Tags that Azure allows on one resource.
pub const TAGS: usize = 50;
/// Requests with a machine that are remembered at most, unless they are young.
const REMEMBERED: usize = 24;
/// Age in seconds from which one whose machine is gone may be forgotten.
const GONE_SECONDS: u64 = 600;
/// Age in seconds from which one with a machine may be forgotten when there are too many.
const OLD_SECONDS: u64 = 3600;
/// Characters of the ranges in a tag, so that all of it stays below 256.
const RANGES_CHARACTERS: usize = 160;
/// Seconds by which the clocks of Azure's servers may differ.
const CLOCKS_SECONDS: u64 = 5;

/// What is known of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Record {
    /// The capacity was raised for it.
    Wanted(Base),
    /// It has a machine.
    Made(Made),
}

/// The machines that were there when the capacity was raised.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Base {
    seconds: u64,
    newest: String,
    since: u64,
    ranges: Vec<(u64, u64)>,
}

/// The machine of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Made {
    seconds: u64,
    /// Its number.
    pub instance: String,
    vm_id: String,
}

impl Made {
    /// The machine is the request's from now on.
    pub fn of(machine: &Machine, now: u64) -> Self {
        Self {
            seconds: now,
            instance: machine.instance.clone(),
            vm_id: machine.vm_id.clone(),
        }
    }

    /// Whether this is the machine, and not another with its number.
    pub fn is(&self, machine: &Machine) -> bool {
        self.instance == machine.instance && self.vm_id.eq_ignore_ascii_case(&machine.vm_id)
    }
}

impl Base {
    /// All machines that are there now; by Azure's clock the scale set was read at `read_at`, if that is known.
    pub fn of(machines: &[Machine], read_at: Option<u64>, now: u64) -> Self {
        let mut numbers: Vec<u64> = machines.iter().filter_map(Machine::number).collect();
        numbers.sort_unstable();
        let newest = machines
            .iter()
            .filter_map(|machine| machine.created.as_deref())
            .max();
        let mut gap = 1;
        let mut ranges = drawn_together(&numbers, gap);
        while written(&ranges).len() > RANGES_CHARACTERS {
            gap = gap.saturating_mul(2);
            ranges = drawn_together(&numbers, gap);
        }
        Self {
            seconds: now,
            newest: newest.unwrap_or_default().to_owned(),
            since: read_at.unwrap_or_default().saturating_sub(CLOCKS_SECONDS),
            ranges,
        }
    }

    /// The same machines, written down at another time: so that the scale set is another one even if its capacity is not.
    pub fn renewed(self, now: u64) -> Self {
        Self { seconds: now, ..self }
    }

    /// Whether a machine was made after the capacity was raised.
    pub fn is_before(&self, machine: &Machine) -> bool {
        let Some(number) = machine.number() else {
            return false;
        };
        let created = machine.created.as_deref();
        if created
            .and_then(time::of_utc)
            .is_some_and(|created| created < self.since)
        {
            return false;
        }
        let later = created.is_some_and(|created| !self.newest.is_empty() && created > self.newest.as_str());
        let within = |(first, last): &(u64, u64)| (*first..=*last).contains(&number);
        later || !self.ranges.iter().any(within)
    }
}

fn drawn_together(numbers: &[u64], gap: u64) -> Vec<(u64, u64)> {
    let mut ranges: Vec<(u64, u64)> = Vec::new();
    for number in numbers {
        match ranges.last_mut() {
            Some((_, last)) if number.saturating_sub(*last) <= gap => *last = *number,
            _ => ranges.push((*number, *number)),
        }
    }
    ranges
}

fn written(ranges: &[(u64, u64)]) -> String {
    let parts: Vec<String> = ranges
        .iter()
        .map(|(first, last)| {
            if first == last {
                first.to_string()
            } else {
                format!("{first}-{last}")
            }
        })
        .collect();
    parts.join(",")
}

impl Record {
    fn read(value: &str) -> Option<Self> {
        let (kind, rest) = value.split_once(';')?;
        let (seconds, rest) = rest.split_once(';')?;
        let (third, rest) = rest.split_once(';')?;
        let seconds = seconds.parse().ok()?;
        match kind {
            "wanted" => {
                let (since, ranges) = rest.split_once(';')?;
                let ranges = ranges.split(',').filter(|part| !part.is_empty());
                Some(Self::Wanted(Base {
                    seconds,
                    newest: third.to_owned(),
                    since: since.parse().ok()?,
                    ranges: ranges.map(range).collect::<Option<_>>()?,
                }))
            }
            "made" => Some(Self::Made(Made {
                seconds,
                instance: third.to_owned(),
                vm_id: rest.to_owned(),
            })),
            _ => None,
        }
    }

    fn write(&self) -> String {
        match self {
            Self::Wanted(base) => {
                let ranges = written(&base.ranges);
                format!("wanted;{};{};{};{ranges}", base.seconds, base.newest, base.since)
            }
            Self::Made(made) => format!("made;{};{};{}", made.seconds, made.instance, made.vm_id),
        }
    }
}

fn range(part: &str) -> Option<(u64, u64)> {
    let (first, last) = part.split_once('-').unwrap_or((part, part));
    Some((first.parse().ok()?, last.parse().ok()?))
}

/// What the tags say of one request: none if nothing.
///
/// Errors: the tag is there, and nobody can read it; the words say what was found.
pub fn find(tags: &Map<String, Value>, request: &str) -> Result<Option<Record>, String> {
    let key = format!("{PREFIX}{request}");
    let Some(value) = tags
        .iter()
        .find(|(name, _)| name.eq_ignore_ascii_case(&key))
        .map(|(_, value)| value)
    else {
        return Ok(None);
    };
    let record = value.as_str().and_then(Record::read);
    record.map(Some).ok_or_else(|| {
        let found: String = value.to_string().chars().take(100).collect();
        format!("tag {key}: found {found}, wanted what numo wrote there; a person must look whether its machine is there, and delete the tag")
    })
}

/// The same tags with another record of a request.
pub fn with(tags: &Map<String, Value>, request: &str, record: &Record) -> Map<String, Value> {
    let key = format!("{PREFIX}{request}");
    let mut tags = tags.clone();
    tags.retain(|name, _| !name.eq_ignore_ascii_case(&key));
    tags.insert(key, Value::String(record.write()));
    tags
}

/// Whether the tags say this.
pub fn says(tags: &Map<String, Value>, request: &str, record: &Record) -> bool {
    tag(tags, &format!("{PREFIX}{request}")) == Some(record.write().as_str())
}

fn records(tags: &Map<String, Value>) -> impl Iterator<Item = (&str, Record)> {
    tags.iter().filter_map(|(name, value)| {
        let start = name.get(..PREFIX.len())?;
        let record = start
            .eq_ignore_ascii_case(PREFIX)
            .then(|| value.as_str().and_then(Record::read))??;
        Some((name.as_str(), record))
    })
}

/// The machine that a request may take: made after its capacity was raised, of no other request, and not leaving.
///
/// Of several it takes one that the fewest others may take: a later request may not take all that an earlier one may, and must not be left
/// without. Among those it takes the oldest, so that all who look see the same.
pub fn choose<'a>(tags: &Map<String, Value>, base: &Base, machines: &'a [Machine]) -> Option<&'a Machine> {
    let known: Vec<Record> = records(tags).map(|(_, record)| record).collect();
    let taken = |machine: &Machine| {
        known
            .iter()
            .any(|record| matches!(record, Record::Made(made) if made.is(machine)))
    };
    let wanting = |machine: &Machine| {
        let others = known
            .iter()
            .filter(|record| matches!(record, Record::Wanted(other) if other.is_before(machine)));
        others.count()
    };
    let free = machines
        .iter()
        .filter(|machine| base.is_before(machine) && !machine.is_leaving() && !taken(machine));
    free.min_by_key(|machine| (wanting(machine), machine.created.clone(), machine.number()))
}

/// The tags without what may be forgotten: requests whose machine is gone for long, and the oldest of too many. One that waits for its
/// machine is never forgotten.
pub fn tidied(tags: &Map<String, Value>, machines: &[Machine], now: u64) -> Map<String, Value> {
    let mut made: Vec<(String, Made)> = records(tags)
        .filter_map(|(key, record)| match record {
            Record::Made(made) => Some((key.to_owned(), made)),
            Record::Wanted(_) => None,
        })
        .collect();
    made.sort_by_key(|(_, made)| made.seconds);
    let mut tags = tags.clone();
    let mut left = made.len();
    for (key, made) in made {
        let age = now.saturating_sub(made.seconds);
        let gone = age >= GONE_SECONDS && !machines.iter().any(|machine| made.is(machine));
        let crowded = left > REMEMBERED || tags.len() >= TAGS;
        if gone || (crowded && age >= OLD_SECONDS) {
            tags.remove(&key);
            left -= 1;
        }
    }
    tags
}

#[cfg(test)]
#[path = "ledger_tests.rs"]
mod tests;
