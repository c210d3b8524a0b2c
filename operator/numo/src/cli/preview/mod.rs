//! `numo preview`: what an owner would do, before it does it. The operator's own core decides on a copy of the cluster;
//! rules are asked now, Jobs and manifests are judged by server-side dry run. Nothing is written.

mod args;
mod asking;
mod manifests;
mod object;
mod outlook;
mod owner;
mod rules;
mod site;

pub use self::args::PreviewArgs;

use self::{
    asking::Asking,
    manifests::{manifests, take_in},
    object::owner_of,
    outlook::Preview,
    owner::of_owner,
    site::{Site, missing},
};
use crate::{
    cli::{
        error::{self, CliError},
        live::{self, Look, settings},
        snapshot,
        status::say_unseen,
    },
    shell::{list, surroundings},
};

/// Shows what would come of it.
pub async fn preview(args: PreviewArgs) -> Result<(), CliError> {
    let offline = args.snapshot.is_some();
    if let Some(given) = &args.to_version
        && let Err(error) = semver::Version::parse(given)
    {
        return Err(CliError::Usage(format!(
            "--to-version: found {given:?}, wanted a version such as 4.17.0: {error}"
        )));
    }
    // What is wrong with the file is said before the cluster is asked.
    let given = args.filename.as_ref().map(manifests).transpose()?;
    let mut connection = None;
    let mut default = "default".to_owned();
    let (mut store, mut unseen, now) = if let Some(path) = &args.snapshot {
        let read = snapshot::read(path)?;
        (read.store, read.unseen, read.at)
    } else {
        let (found, namespace) = args.cluster.connect("preview").await?;
        default = namespace;
        let (store, unseen) = list::once(&found.read, settings())
            .await
            .map_err(error::api("looking at the cluster"))?;
        let now = found.clock.now();
        connection = Some(found);
        (store, unseen, now)
    };
    let namespace = args.namespace.clone().unwrap_or(default);
    let mut owners = Vec::new();
    if let Some(path) = &args.filename {
        let objects = given.unwrap_or_default();
        owners = take_in(connection.as_ref(), &mut store, objects, &namespace, now).await?;
        if let Some(connection) = &connection {
            // What these owners refer to has room first.
            list::give_room(&connection.read, &mut store)
                .await
                .map_err(error::api("reading mutexrules"))?;
        }
        if owners.is_empty() && args.object.is_none() {
            return Err(CliError::Usage(format!(
                "-f {}: found no MutexRunConfig, Plan or NodeMaintenance; name one of the cluster's: mutexrunconfig/NAME",
                path.display()
            )));
        }
    }
    if let Some(object) = &args.object {
        owners = vec![owner_of(&store, &unseen, object, &namespace)?];
    }
    let mut site = None;
    if let Some(connection) = &connection {
        let asking = if args.without_rules {
            None
        } else {
            Some(Asking::begin(connection, &mut store, args.registries_on_loopback).await)
        };
        let place = live::place(connection).await;
        site = Some(Site {
            connection,
            asking,
            around: surroundings::surroundings(&connection.read, &mut unseen).await,
            missing: missing(connection, &place, &mut unseen).await,
            place,
        });
    }
    // Owners are watched wherever they are: the operator's flags are not known here.
    let Look { mut store, .. } = Look::of(store, Vec::new(), now);
    let mut previews = Vec::new();
    for owner in &owners {
        let one = of_owner(site.as_mut(), &mut store, owner, &args, now, &mut unseen).await?;
        previews.push(one);
    }
    args.output.print(
        &previews,
        |_| previews.iter().map(Preview::text).collect::<Vec<_>>().join("\n"),
        || {
            previews
                .iter()
                .map(|one| one.owner.to_lowercase().replacen(' ', "/", 1))
                .collect()
        },
    )?;
    unseen.sort();
    unseen.dedup();
    say_unseen(&unseen);
    if offline {
        eprintln!(
            "numo: from a snapshot of {now}: rules were not asked, and nothing was judged by an API server"
        );
    }
    let against = previews.iter().map(Preview::against).sum::<usize>();
    match against {
        0 => Ok(()),
        1 => Err(CliError::Closed("one thing stands against it".to_owned())),
        number => Err(CliError::Closed(format!("{number} things stand against it"))),
    }
}
