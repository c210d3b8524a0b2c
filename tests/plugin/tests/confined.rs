//! The children that read strangers' bytes are shut in: what would be numo's own if one were taken over is not there.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a failed step of a test is its failure, in what it calls too"
)]

use numo_plugin::confined::{self, Ended};
use std::{net::TcpListener, path::Path, time::Duration};

/// What went through.
async fn went(how: &str) -> Vec<String> {
    let folder = tempfile::tempdir().unwrap();
    let token = folder.path().join("token");
    std::fs::write(&token, "secret").unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let arguments = [how.to_owned(), token.to_string_lossy().into_owned(), address];
    let program = Path::new(env!("CARGO_BIN_EXE_numo-plugin-shut-in"));
    let time = Duration::from_secs(20);
    match confined::ask(program, &arguments, (b"", b""), 4096, time)
        .await
        .unwrap()
    {
        Ended::Answered(lines) => String::from_utf8(lines)
            .unwrap()
            .lines()
            .map(ToOwned::to_owned)
            .collect(),
        other => panic!("{how}: {other:?}"),
    }
}

#[tokio::test]
async fn a_child_that_is_taken_over_opens_connects_to_and_starts_nothing() {
    let free = went("free").await;
    for attempt in [
        "reads",
        "writes",
        "connects",
        "starts",
        "looks at its parent",
        "threads",
    ] {
        assert!(
            free.iter().any(|one| one == attempt),
            "the attempt itself works: {free:?}"
        );
    }
    assert!(
        confined::missing().is_empty(),
        "this machine has both walls: {:?}",
        confined::missing()
    );
    assert_eq!(went("confined").await, Vec::<String>::new());
}

/// On a kernel that has only one of the walls: it is said which one is missing, the child does its work, and the other wall holds.
#[tokio::test]
async fn without_one_wall_the_other_holds_and_what_is_missing_is_said() {
    assert_eq!(went("without landlock").await, ["missing: Landlock"]);
    let went = went("without seccomp").await;
    let (missing, went) = went.split_first().unwrap();
    assert_eq!(
        missing,
        "missing: seccomp, so that the network is not shut in but for TCP"
    );
    let shut = |attempt: &str| !went.iter().any(|one| one == attempt);
    for attempt in [
        "reads",
        "writes",
        "lists",
        "connects",
        "starts",
        "looks at its parent",
    ] {
        assert!(shut(attempt), "{attempt}: {went:?}");
    }
    // What is said to be open is.
    assert!(!shut("binds"), "{went:?}");
}
