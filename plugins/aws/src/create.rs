//! Makes one machine for a request, and looks for it. Nothing else adds machines, and nothing here changes a group but `AttachInstances`.
//!
//! # How
//!
//! `RunInstances` with the request as client token and as tag, from the group's launch template and in one of its subnets; once the instance
//! runs, `AttachInstances`, which raises DesiredCapacity by one, puts the group's tags on the instance and registers it with the group's load
//! balancers. What is not known yet is pending: nothing waits in here, and only a launch that EC2 has refused for its form is made in another.
//!
//! # Why not otherwise
//!
//! - `SetDesiredCapacity` has no idempotency: after a lost answer nobody knows whether n+1 is ours or the autoscaler's, and which of the new
//!   instances is. A tag on the group with the size to be reached cannot be compared and set, so that two requests at once, or the cluster
//!   autoscaler between two calls, take the same number. A tag on an instance that the group has made cannot either.
//! - `LaunchInstances` (2025) is idempotent by a client token and knows the group's whole policy, but takes no tags, so that a machine whose
//!   answer was lost is found only by asking for it again, which would make it; [`find`] must not.
//! - `CreateFleet` puts the subnets into one call, but what a repetition answers that met no capacity the first time is not documented.
//!
//! # Why one machine and never two
//!
//! EC2 promises it for one client token and one availability zone. So what can go wrong is that a repetition chooses another zone:
//!
//! - A group with one subnet has one zone. It is asked for at once.
//! - With several, the order of the subnets is chosen first and is in the token, and the instance is made `SETTLE_SECONDS` later, if none
//!   with the tag of the request is there. A repetition with the token asks for the same zone; one without (numo was started anew) lets
//!   EC2's lists settle before it looks, and finds what was made. It chooses anew only what the group's members then say.
//! - Another subnet is tried only once EC2 has refused the one before it, and this, too, is in the token first.
//! - A repetition with other parameters (somebody gave the group another template) is refused by EC2 (`IdempotentParameterMismatch`): the
//!   instance is there, and is looked for by its tag.
//! - What is left: numo was started anew, EC2 lists the instance later than that, and the members of the zones have changed meanwhile. Then
//!   there are two; the one that is no member is ended as soon as both are seen (`keep_one`), if that is before the first is attached.
//!
//! What others do to the group meanwhile does not matter: no size is read to be written.

use crate::{
    call::{Query, Refusal, ask},
    group,
    launch::{self, Asked, Recipe},
    machine::{self, Machine},
    place,
    settings::Config,
    token::Token,
};
use numo_provider_sdk::{
    CreatedNode, Creation, Failure, FailureCode, Pending,
    failure::failure,
    host::{Clock, Cloud, Level, Log},
};

/// Seconds after which EC2 lists an instance that it has made, usually within one.
const SETTLE_SECONDS: u64 = 10;
/// Seconds until a starting instance is looked at again.
const START_SECONDS: u32 = 10;
/// Codes of a subnet that has no room. Another may have some.
const NO_ROOM: [&str; 5] = [
    "InsufficientInstanceCapacity",
    "InsufficientHostCapacity",
    "InsufficientReservedInstanceCapacity",
    "InsufficientFreeAddressesInSubnet",
    "Unsupported",
];

/// Makes the machine of a request, or goes on with it.
///
/// Errors: the group cannot take one, or AWS refuses or does not answer.
pub fn create<H: Cloud + Clock + Log>(
    host: &H,
    config: &Config,
    asked: Asked<'_>,
    token: Option<&str>,
) -> Result<Creation, Failure> {
    let now = host.now().seconds;
    match Token::read(token, now) {
        None => begin(host, config, asked, now),
        Some(Token::Made { at }) => match look(host, config, asked)? {
            Some(machine) => go_on(host, config, asked, &machine),
            None => Ok(unseen(at)),
        },
        Some(Token::Placed { from, .. }) if now < from => {
            let left = u32::try_from(from - now).unwrap_or(START_SECONDS);
            Ok(pending(token.unwrap_or_default().to_owned(), left, WAITS_TO_LOOK))
        }
        Some(Token::Placed { subnets, recipe, .. }) => {
            if let Some(machine) = look(host, config, asked)? {
                return go_on(host, config, asked, &machine);
            }
            let recipe = match recipe {
                Some(recipe) => recipe,
                None => Recipe::of(&group::by_name(host, config, asked.group)?)?,
            };
            make(host, config, asked, &recipe, &subnets)
        }
    }
}

/// The machine that was made for a request, or none.
///
/// Errors: EC2 refuses or does not answer.
pub fn find(host: &impl Cloud, config: &Config, asked: Asked<'_>) -> Result<Option<CreatedNode>, Failure> {
    let found = machine::by_request(host, config, asked.group, asked.request)?;
    found.first().map(|machine| machine.created(config)).transpose()
}

const WAITS_TO_LOOK: &str = "looks in a moment whether EC2 has made an instance for this request before";

fn pending(token: String, retry_after_seconds: u32, message: impl Into<String>) -> Creation {
    Creation::Pending(Pending {
        token,
        retry_after_seconds,
        message: message.into(),
    })
}

fn unseen(at: u64) -> Creation {
    let message = "EC2 has made the instance, and does not list it yet";
    pending(Token::Made { at }.write(), 5, message)
}

/// The first call for a request, or one after a crash.
fn begin<H: Cloud + Clock + Log>(
    host: &H,
    config: &Config,
    asked: Asked<'_>,
    now: u64,
) -> Result<Creation, Failure> {
    let group = group::by_name(host, config, asked.group)?;
    let recipe = Recipe::of(&group)?;
    if group.desired >= group.max {
        // It may be the machine of this very request that fills the group.
        if let Some(machine) = look(host, config, asked)? {
            return go_on(host, config, asked, &machine);
        }
        let wanted = format!("{} or more", group.desired.saturating_add(1));
        return Err(full(asked, &group.max.to_string(), &wanted));
    }
    let subnets = place::order(host, config, &group, asked.request)?;
    if subnets.len() == 1 {
        return make(host, config, asked, &recipe, &subnets);
    }
    let token = Token::Placed {
        at: now,
        from: now.saturating_add(SETTLE_SECONDS),
        subnets,
        recipe: Some(recipe),
    };
    let seconds = u32::try_from(SETTLE_SECONDS).unwrap_or(START_SECONDS);
    Ok(pending(token.write(), seconds, WAITS_TO_LOOK))
}

fn full(asked: Asked<'_>, found: &str, wanted: &str) -> Failure {
    let message = format!(
        "auto scaling group {}, MaxSize: found {found}, wanted {wanted}, since a new machine joins before the old one goes",
        asked.group
    );
    failure(FailureCode::Exhausted, message)
}

/// Makes the machine in the first of these subnets.
fn make<H: Cloud + Clock + Log>(
    host: &H,
    config: &Config,
    asked: Asked<'_>,
    recipe: &Recipe,
    subnets: &[String],
) -> Result<Creation, Failure> {
    let Some((subnet, others)) = subnets.split_first() else {
        return Err(failure(
            FailureCode::Invalid,
            format!("{}: no subnet", asked.about()),
        ));
    };
    let now = host.now().seconds;
    match launch::run(host, config, asked, recipe, subnet) {
        Ok(machine) => go_on(host, config, asked, &machine),
        Err(refusal) if refusal.is(&["IdempotentParameterMismatch"]) => match look(host, config, asked)? {
            Some(machine) => go_on(host, config, asked, &machine),
            None => Ok(unseen(now)),
        },
        Err(refusal) if refusal.is(&NO_ROOM) && !others.is_empty() => {
            let token = Token::Placed {
                at: now,
                from: now,
                subnets: others.to_vec(),
                recipe: Some(recipe.clone()),
            };
            let message = format!(
                "subnet {subnet} has no room, another is tried: {}",
                refusal.failure.message
            );
            Ok(pending(token.write(), 1, message))
        }
        Err(refusal) => {
            let mut failure = refusal.failure;
            if refusal.code == "Unsupported" {
                failure.code = FailureCode::Exhausted;
            }
            Err(failure)
        }
    }
}

/// The machine of this request, and no second one.
fn look<H: Cloud + Log>(host: &H, config: &Config, asked: Asked<'_>) -> Result<Option<Machine>, Failure> {
    let mut found = machine::by_request(host, config, asked.group, asked.request)?.into_iter();
    let Some(first) = found.next() else {
        return Ok(None);
    };
    keep_one(host, config, asked, &first, found)?;
    Ok(Some(first))
}

/// Ends what was made beside the machine of a request: instances with its tag that live and are members of no group.
fn keep_one<H: Cloud + Log>(
    host: &H,
    config: &Config,
    asked: Asked<'_>,
    first: &Machine,
    others: impl Iterator<Item = Machine>,
) -> Result<(), Failure> {
    for other in others.filter(|other| !other.is_ending()) {
        let line = format!("{}: instance {} beside {}", asked.about(), other.id, first.id);
        host.write(Level::Warn, &line);
        if other.member_of.is_none() {
            machine::terminate(host, config, &other.id)?;
        }
    }
    Ok(())
}

/// What is to be done with the machine next.
fn go_on<H: Cloud + Clock>(
    host: &H,
    config: &Config,
    asked: Asked<'_>,
    machine: &Machine,
) -> Result<Creation, Failure> {
    let at = host.now().seconds;
    match (machine.state.as_str(), machine.member_of.as_deref()) {
        // One that has ended is told as it is: its state says so, and there will be no other.
        ("shutting-down" | "terminated", _) => Ok(Creation::Created(machine.created(config)?)),
        (_, Some(group)) if group.eq_ignore_ascii_case(asked.group) => {
            Ok(Creation::Created(machine.created(config)?))
        }
        (_, Some(other)) => Err(failure(
            FailureCode::Invalid,
            format!(
                "{}: instance {} is a member of group {other}",
                asked.about(),
                machine.id
            ),
        )),
        ("pending", None) => {
            let message = format!("instance {} starts; a group takes it once it runs", machine.id);
            Ok(pending(Token::Made { at }.write(), START_SECONDS, message))
        }
        ("running", None) => attach(host, config, asked, machine, at),
        (state, None) => Err(failure(
            FailureCode::Other,
            format!(
                "{}: instance {}: found state {state}, wanted running, to attach it",
                asked.about(),
                machine.id
            ),
        )),
    }
}

fn attach(
    host: &impl Cloud,
    config: &Config,
    asked: Asked<'_>,
    machine: &Machine,
    now: u64,
) -> Result<Creation, Failure> {
    // Asked before anything is changed: a name that is not there yet comes by itself.
    let created = machine.created(config)?;
    let query = Query::autoscaling("AttachInstances")
        .with("AutoScalingGroupName", asked.group)
        .with("InstanceIds.member.1", &machine.id);
    let about = format!("{}, instance {}", asked.about(), machine.id);
    match ask(host, config, &about, &query, |_| Ok(())) {
        Ok(()) => Ok(Creation::Created(created)),
        Err(refusal) => refused(asked, machine, refusal, created, now),
    }
}

/// What a refused attachment means: it may have been made before, or be too early.
fn refused(
    asked: Asked<'_>,
    machine: &Machine,
    refusal: Refusal,
    created: CreatedNode,
    now: u64,
) -> Result<Creation, Failure> {
    if !refusal.is(&["ValidationError"]) {
        return Err(refusal.failure);
    }
    if refusal.says("already part of") {
        let words = refusal.words.to_ascii_lowercase();
        let group = asked.group.to_ascii_lowercase();
        let before = words.trim_end_matches('.').strip_suffix(group.as_str());
        return match before {
            Some(before) if before.trim_end().ends_with(':') => Ok(Creation::Created(created)),
            _ => Err(refusal.failure),
        };
    }
    if refusal.says("max-size") || refusal.says("maximum") {
        let found = format!(
            "too little for instance {}, which runs ({})",
            machine.id, refusal.words
        );
        return Err(full(asked, &found, "one more"));
    }
    if refusal.says("correct state") || refusal.says("running' state") {
        let message = format!("instance {} is not ready to be attached", machine.id);
        return Ok(pending(Token::Made { at: now }.write(), START_SECONDS, message));
    }
    Err(refusal.failure)
}
