//! What one owner would do: batches and waves, refusals, drains, rules.

use super::{
    args::PreviewArgs,
    outlook::{BatchSaid, BeginSaid, DrainSaid, ForecastSaid, NodeSaid, Preview, Said, TimesSaid, WaveSaid},
    rules::{rules, settle},
    site::Site,
};
use crate::{
    cli::{
        error::{self, CliError},
        live,
        named::Named,
    },
    shell::{list, store::Store, surroundings},
};
use jiff::Timestamp;
use numo_api::{Reason, Step, conditions::Actor};
use numo_core::{
    Owner, OwnerKind,
    calendar::Calendar,
    forecast::{Surroundings, Weight, forecast},
    model::{Batch, Course, Imagined, Times},
    observed::Observed,
    pace::{self, Took, Whose},
    report::{Report, RunPhase},
    time::words,
};
use std::{
    collections::BTreeSet,
    time::{Duration, Instant},
};

/// Batches that are imagined whatever time that takes.
const BATCHES: usize = 200;
/// For how long further ones are imagined: one at a time, the nodes of a big cluster would take hours.
const PATIENCE: Duration = Duration::from_secs(30);

/// What an owner would do. What needs an API server is asked of the site, where there is one.
pub(super) async fn of_owner(
    site: Option<&mut Site<'_>>,
    store: &mut Store,
    owner: &Owner,
    args: &PreviewArgs,
    now: Timestamp,
    unseen: &mut Vec<String>,
) -> Result<Preview, CliError> {
    let mut imagined = Imagined::new(store.observed.clone(), now);
    let mut one = Preview {
        object: Named::owner(owner),
        is_maintenance: matches!(owner.kind, OwnerKind::NodeMaintenance(_)),
        ..Preview::default()
    };
    let report = upgrade(&mut one, &mut imagined, owner, args.to_version.as_ref())?;
    one.target.clone_from(&report.target);
    refusals(&mut one, &report);
    if owner.kind == OwnerKind::Plan && report.nodes.is_empty() && one.refused.is_empty() {
        one.refused.push(Said {
            reason: Reason::NoNodes,
            message: "spec.nodeSelector selects no node".to_owned(),
            ends_by: Reason::NoNodes.who().phrase(),
        });
    }
    let before = imagined.clone();
    let (course, took) = carried_out(&mut imagined, owner, &report, now);
    if owner.kind == OwnerKind::MutexRunConfig {
        let run = store.observed.runs.get(&owner.key);
        one.ordered_by = run.map(|run| format!("spec.order: {:?}", run.spec.order.unwrap_or_default()));
    }
    let batches = course.batches.iter();
    let mut order: Vec<String> = batches.flat_map(|batch| &batch.nodes).cloned().collect();
    say_batches(&mut one, owner, &store.observed, (&course, took));
    say_course(&mut one, course);
    if let OwnerKind::NodeMaintenance(_) = owner.kind
        && let Some(view) = store.observed.maintenances.get(owner)
    {
        order = vec![view.spec.node_name.clone()];
    }
    let looked_at: Vec<String> = order.iter().take(args.drains).cloned().collect();
    one.not_checked = order.len() - looked_at.len();
    if let Some(site) = site {
        let connection = site.connection;
        let found = list::pods(&connection.read, store, &looked_at, &mut None).await;
        unseen.extend(found.map_err(error::api("pods"))?);
        drains(&mut one, &store.observed, &site.around, owner, &looked_at, now);
        // Who is not drained serves on.
        if live::drain_options(&store.observed, owner).is_some() {
            one.webhooks = surroundings::webhooks(&connection.read, &order, unseen).await;
        }
        if let (Some(asking), Some(node)) = (&mut site.asking, order.first()) {
            one.rules = rules(connection, &site.place, asking, store, before, owner, node).await;
        }
        one.missing.clone_from(&site.missing);
    } else {
        let nothing = Surroundings::default();
        drains(&mut one, &store.observed, &nothing, owner, &looked_at, now);
    }
    Ok(one)
}

/// The turns that it would give, and by what their times are known.
fn carried_out(
    imagined: &mut Imagined,
    owner: &Owner,
    report: &Report,
    now: Timestamp,
) -> (Course, Option<Took>) {
    let took = forecast_of(owner, report, (&imagined.observed, now));
    if let Some(took) = &took {
        imagined.take(took.median_seconds);
    }
    let began = Instant::now();
    let goes_on = |batches| batches < BATCHES || began.elapsed() < PATIENCE;
    let course = imagined.course(owner, goes_on, |observed, report, at| {
        settle(observed, owner, report, at);
    });
    (course, took)
}

/// What a person should know of its waves, and what keeps no node from its turn.
fn notes(report: &Report) -> Vec<String> {
    let of_waves = report.wave.iter().flat_map(|wave| &wave.notes);
    of_waves.chain(&report.notes).cloned().collect()
}

/// What a node of the owner takes, by the journals that are kept; none of a maintenance, which a person ends.
fn forecast_of(owner: &Owner, report: &Report, (observed, now): (&Observed, Timestamp)) -> Option<Took> {
    if matches!(owner.kind, OwnerKind::NodeMaintenance(_)) {
        return None;
    }
    let owner_uid = observed.uid_of(owner)?;
    let run_id = &report.run_id;
    pace::took(observed, Whose { owner_uid, run_id }, now)
}

/// When each batch and each declared wave begins and is done, and by what that is known.
fn say_batches(
    one: &mut Preview,
    owner: &Owner,
    observed: &Observed,
    (course, took): (&Course, Option<Took>),
) {
    let nodes = course.batches.iter().flat_map(|batch| &batch.nodes);
    let clock = Calendar::of(owner, observed).clock(nodes.map(String::as_str));
    let spread = took.as_ref().map_or(0, |took| took.spread_seconds);
    let said = |times: Times| {
        let done = times
            .done
            .map(|at| (at, spread.saturating_mul(i64::from(times.turns))));
        let by = done.map_or_else(String::new, |(at, spread)| {
            format!(", done by {} ± {}", clock(at), words(spread))
        });
        TimesSaid {
            begins: times.begins.to_string(),
            done_by: done.map(|(at, _)| at.to_string()),
            spread_seconds: done.map(|(_, spread)| spread),
            words: format!("begins {}{by}", clock(times.begins)),
        }
    };
    let batches = course.batches.iter().map(|batch| BatchSaid {
        nodes: batch.nodes.clone(),
        wave: batch.wave.as_ref().map(|wave| wave.number),
        times: batch.times.map(said),
    });
    one.batches = batches.collect();
    one.waves = waves(course, said);
    one.forecast = took.map(|took| ForecastSaid {
        words: format!(
            "{took}; four of five took that ± {}, which adds up from batch to batch until the hours open again",
            words(took.spread_seconds)
        ),
        median_seconds: took.median_seconds,
        spread_seconds: took.spread_seconds,
        nodes: took.of,
        earlier: took.is_earlier,
    });
}

/// The waves that the owner declares: each begins with the first of its batches, and is done with the last.
fn waves(course: &Course, said: impl Fn(Times) -> TimesSaid) -> Vec<WaveSaid> {
    let number = |batch: &Batch| batch.wave.as_ref().map(|wave| wave.number);
    let of_one_wave = |before: &Batch, batch: &Batch| number(before) == number(batch);
    // A wave that is under way at the end has nodes that have no turn, and is not done.
    let under_way = course.last.wave.as_ref().filter(|wave| wave.soak_until.is_none());
    let waves = course.batches.chunk_by(of_one_wave).filter_map(|batches| {
        let (first, last) = (batches.first()?, batches.last()?);
        let wave = last.wave.as_ref()?;
        // Where the preview broke off, nobody knows when the wave is done.
        let is_whole = !course.more || course.batches.last() != Some(last);
        let is_done = is_whole && under_way.is_none_or(|last| last.number != wave.number);
        let times = first.times.map(|before| Times {
            begins: before.begins,
            done: last.times.and_then(|times| times.done).filter(|_| is_done),
            turns: last.times.map_or(0, |times| times.turns),
        });
        Some(WaveSaid {
            number: wave.number,
            of: wave.of,
            name: wave.name.clone(),
            is_rest: wave.is_rest,
            nodes: batches.iter().map(|batch| batch.nodes.len()).sum(),
            of_nodes: wave.nodes,
            times: times.map(&said),
        })
    });
    waves.collect()
}

/// From when on nodes begin, what is to be approved for it, and who has no turn.
fn say_course(one: &mut Preview, course: Course) {
    let Course {
        batches,
        begins,
        approvals,
        more,
        last,
    } = course;
    one.more = more;
    one.approvals = approvals.iter().map(ToString::to_string).collect();
    one.begins = begins.filter(|_| !batches.is_empty()).map(|(at, why)| BeginSaid {
        at: at.to_string(),
        reason: why.reason,
        message: why.message.to_string(),
    });
    if one.target.is_none() {
        one.target.clone_from(&last.target);
    }
    let turns: BTreeSet<&String> = batches.iter().flat_map(|batch| &batch.nodes).collect();
    if !more {
        one.left = left(&last, &turns);
    }
}

/// Brings the copy of the cluster to the version that the owner would be at work on, and decides there.
fn upgrade(
    one: &mut Preview,
    imagined: &mut Imagined,
    owner: &Owner,
    given: Option<&String>,
) -> Result<Report, CliError> {
    let first = imagined.decide(owner).report;
    let idle = first.phase == RunPhase::Idle && owner.kind == OwnerKind::MutexRunConfig;
    let later = idle.then(|| later(&imagined.observed)).flatten();
    let is_default = later.is_some() && given.is_none();
    if let Some(version) = given.cloned().or(later) {
        if owner.kind == OwnerKind::MutexRunConfig {
            one.assumed = true;
            one.default_target = is_default;
            imagined.upgrade_to(&version);
        } else if given.is_some() {
            return Err(CliError::Usage("--to-version is for a MutexRunConfig".to_owned()));
        }
    }
    let mut report = imagined.decide(owner).report;
    // The cluster's own operators bring the control plane there, and render the pools' configurations.
    let comes = |reason: Reason| matches!(reason, Reason::ControlPlaneUpdating | Reason::PoolNotRendered);
    if let Some(version) = report.target.clone()
        && owner.kind == OwnerKind::MutexRunConfig
        && report.nodes.values().any(|node| comes(node.why.reason))
    {
        one.assumed = true;
        imagined.upgrade_to(&version);
        report = imagined.decide(owner).report;
    }
    Ok(report)
}

/// Nodes that are not done and get no turn.
fn left(last: &Report, turns: &BTreeSet<&String>) -> Vec<NodeSaid> {
    let left = last
        .nodes
        .iter()
        .filter(|(name, node)| !matches!(node.step, Step::Done) && !turns.contains(name));
    left.map(|(name, node)| NodeSaid {
        node: name.clone(),
        step: node.step,
        reason: node.why.reason,
        message: node.why.message.to_string(),
        ends_by: node.why.who().phrase(),
    })
    .collect()
}

/// The minor version after the one that the cluster is at, by its ClusterVersion, or else by the newest configuration of its pools.
/// None where nobody says a version: then there is none to go on from.
fn later(observed: &Observed) -> Option<String> {
    let version = |text: &str| semver::Version::parse(text).ok();
    let cluster = observed.cluster_version.as_ref();
    let latest = cluster.and_then(|cluster| cluster.latest.as_ref());
    let now = cluster
        .and_then(|cluster| version(&cluster.desired).or_else(|| version(cluster.asked_for())))
        .or_else(|| version(&latest?.1))
        .or_else(|| {
            let configs = observed.configs.values();
            configs
                .filter_map(|config| version(config.version.as_deref()?))
                .max()
        })?;
    Some(format!("{}.{}.0", now.major, now.minor + 1))
}

fn refusals(one: &mut Preview, report: &Report) {
    one.notes = notes(report);
    let hold = report.hold.iter();
    for why in report.problems.iter().chain(hold).chain(&report.unchecked) {
        // What ends by itself is no refusal, hours that open among it.
        let stands = matches!(
            why.who(),
            Actor::ClusterAdmin
                | Actor::RuleAuthor
                | Actor::OtherController
                | Actor::OtherRun
                | Actor::OtherPlan
        ) && !(why.reason.is_of_hours() && why.until.is_some());
        let known = one.refused.iter().any(|said| said.message == *why.message);
        if stands && !known {
            one.refused.push(Said {
                reason: why.reason,
                message: why.message.to_string(),
                ends_by: why.who().phrase(),
            });
        }
    }
}

fn drains(
    one: &mut Preview,
    observed: &Observed,
    around: &Surroundings,
    owner: &Owner,
    nodes: &[String],
    now: Timestamp,
) {
    let Some(options) = live::drain_options(observed, owner) else {
        return;
    };
    for node in nodes.iter().filter_map(|name| observed.nodes.get(name)) {
        let found = forecast(observed, around, node, &options, now);
        let found = found.into_iter().flatten().map(|obstacle| DrainSaid {
            node: node.name.clone(),
            weight: match obstacle.weight {
                Weight::Never => "never",
                Weight::Now => "now",
                Weight::Slow => "slow",
                Weight::Costs => "costs",
            },
            reason: obstacle.reason,
            message: obstacle.message,
        });
        one.drains.extend(found);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use numo_core::observed::{ClusterVersionView, ConfigView};

    /// The version that is imagined for a cluster that says these of itself: desired, asked for, last in its history, of a pool.
    fn imagined([desired, asked, latest, pool]: [&str; 4]) -> Option<String> {
        let mut observed = Observed::default();
        let given = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
        observed.cluster_version = Some(ClusterVersionView {
            desired: desired.to_owned(),
            desired_update: given(asked),
            latest: given(latest).map(|version| ("Completed".to_owned(), version)),
            ..ClusterVersionView::default()
        });
        let configs = [pool, "4.9.1", "not a version"].map(|version| ConfigView {
            version: given(version).filter(|_| !pool.is_empty()),
        });
        for (number, config) in configs.into_iter().enumerate() {
            observed.configs.insert(format!("rendered-{number}"), config);
        }
        later(&observed)
    }

    #[test]
    fn the_next_minor_version_is_that_of_the_cluster() {
        for (said, wanted) in [
            (["4.20.4", "", "", ""], Some("4.21.0")),
            (["4.20.4", "4.20.4", "4.20.4", "4.19.1"], Some("4.21.0")),
            (["", "4.20.4", "", ""], Some("4.21.0")),
            (["", "", "4.20.4-rc.1", ""], Some("4.21.0")),
            (["", "", "", "4.20.4"], Some("4.21.0")),
            (["", "", "", ""], None),
        ] {
            assert_eq!(imagined(said).as_deref(), wanted, "{said:?}");
        }
    }
}
