//! The table and the list of several clusters, without a cluster.

use super::*;
use crate::cli::{live::Look, sample, status::picture::Selection};
use numo_api::MutexRunConfigSpec;
use serde_json::{Value, json};

const EVERYTHING: Selection<'_> = Selection {
    namespace: None,
    what: None,
    name: None,
    labelled: None,
};

/// A cluster with the run ops/upgrade, asked for the owners of a namespace.
fn seen(context: &str, namespace: Option<&str>) -> Cluster {
    let store = sample::store(&[], MutexRunConfigSpec::default());
    let mut look = Look::of(store, Vec::new(), Timestamp::UNIX_EPOCH);
    look.idle = Some("no numo leads".to_owned());
    let selection = Selection {
        namespace,
        ..EVERYTHING
    };
    let picture = Picture::of(&look, &selection);
    Cluster {
        context: context.to_owned(),
        absence: picture.absence(&look, &selection).unwrap(),
        found: Found::Seen(Box::new(picture)),
        now: look.now,
    }
}

fn unseen(context: &str) -> Cluster {
    Cluster {
        context: context.to_owned(),
        found: Found::Unseen {
            error: "connection refused".to_owned(),
        },
        now: Timestamp::UNIX_EPOCH,
        absence: None,
    }
}

#[test]
fn each_cluster_has_rows_of_one_table_and_none_is_left_out() {
    let mut first = seen("canary", None);
    if let Found::Seen(picture) = &mut first.found {
        picture.stopped.push("Stopped: by ada".to_owned());
        picture.owners[0].since = Some("1969-12-31T23:00:00Z".to_owned());
        picture.owners[0].target = Some("4.17.0".to_owned());
        picture.owners[0].message = "it waits".to_owned();
    }
    let all = [first, seen("west", Some("elsewhere")), unseen("east")];
    let found = sample::plain(&text(&all, Layout::default()));
    assert_eq!(
        found,
        "CONTEXT   OWNER                        REASON           DONE   TO       SINCE   MESSAGE\n\
         canary    MutexRunConfig ops/upgrade   TargetNotFound   0/0    4.17.0   60m     it waits\n\
         west      -                            -                -      -        -       found no MutexRunConfig, Plan or \
         NodeMaintenance in namespace elsewhere; try -n ops, or `numo status -A`\n\
         east      -                            not seen         -      -        -       connection refused\n\
         canary: Stopped: by ada\n"
    );
    let headless = Layout {
        no_headers: true,
        ..Layout::default()
    };
    assert!(!text(&all, headless).contains("CONTEXT"));
}

#[test]
fn programs_get_a_list_with_the_context_of_each() {
    let all = [seen("canary", None), unseen("east")];
    let found = serde_json::to_value(&all[..]).unwrap();
    assert_eq!(found[0]["context"], "canary");
    assert_eq!(found[0]["owners"][0]["name"], "upgrade");
    assert_eq!(found[0]["idle"], "no numo leads");
    assert_eq!(found[0].get("error"), None::<&Value>);
    assert_eq!(
        found[1],
        json!({"context": "east", "error": "connection refused"})
    );
}

#[test]
fn who_could_not_be_looked_at_is_named_in_the_end() {
    assert!(verdict(&[seen("canary", None)]).is_ok());
    let error = verdict(&[unseen("a"), seen("b", None), unseen("c")]).unwrap_err();
    assert_eq!(error.code(), 1);
    assert_eq!(error.to_string(), "2 of 3 clusters could not be looked at: a, c");
}

#[test]
fn contexts_are_named_once_and_not_too_many() {
    let check = |names: &[&str]| {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        check_names(&names).map_err(|error| (error.code(), error.to_string()))
    };
    let many: Vec<String> = (0..=MOST).map(|number| format!("c{number}")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    assert_eq!(check(&many[1..]), Ok(()));
    for (names, words) in [
        (&many[..], "found 33 contexts, wanted 32 at most"),
        (&["a", "b", "a"], "found \"a\" twice"),
        (&["a", ""], "without a name"),
    ] {
        let (code, said) = check(names).unwrap_err();
        assert!(code == 2 && said.contains(words), "{said}");
    }
}

type Change = fn(&mut ClusterArgs);

#[test]
fn what_is_about_one_cluster_is_refused_beside_several() {
    let of = |change: fn(&mut ClusterArgs)| {
        let mut cluster = ClusterArgs::default();
        change(&mut cluster);
        check_flags(&cluster).map_err(|error| error.to_string())
    };
    // These mean the same of each cluster.
    assert_eq!(of(|cluster| cluster.impersonate = Some("ada".to_owned())), Ok(()));
    assert_eq!(of(|cluster| cluster.insecure_skip_tls_verify = true), Ok(()));
    let refused: [(&str, Change); 3] = [
        ("--context", |cluster| {
            cluster.kubeconfig.context = Some("a".to_owned());
        }),
        ("--server", |cluster| {
            cluster.server = Some("https://a".to_owned());
        }),
        ("--token", |cluster| cluster.token = Some("t".to_owned())),
    ];
    for (flag, change) in refused {
        let said = of(change).unwrap_err();
        assert!(said.starts_with(flag) && said.contains("--contexts"), "{said}");
    }
}
