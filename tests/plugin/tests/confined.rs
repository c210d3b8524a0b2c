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
