//! When a token is obtained anew, on a virtual clock.

use crate::stage::{AZURE, Endpoint, Stage, at, get, header, said, token_answer};
use std::sync::Arc;

fn stage() -> Stage {
    let stage = Stage::new(AZURE);
    stage.write("secret", "hush");
    stage
}

/// Gives these tokens, each for an hour.
fn tokens(tokens: &[&str]) -> Endpoint {
    Endpoint::saying(tokens.iter().map(|token| (200, token_answer(token, 3600))))
}

#[tokio::test]
async fn a_token_is_kept_until_five_minutes_before_its_end() {
    let (stage, endpoint) = (stage(), tokens(&["one", "two", "three"]));
    for (second, token) in [
        (0, "one"),
        (3299, "one"),
        (3300, "two"),
        (6599, "two"),
        (6600, "three"),
    ] {
        assert_eq!(
            stage.bearer(&endpoint, second).await.unwrap(),
            format!("Bearer {token}"),
            "{second}"
        );
    }
    assert_eq!(endpoint.count(), 3);
}

#[tokio::test]
async fn a_short_token_is_obtained_anew_after_half_of_its_time() {
    let stage = stage();
    let endpoint = Endpoint::saying([(200, token_answer("one", 60)), (200, token_answer("two", 1))]);
    for (second, token) in [(0, "one"), (29, "one"), (30, "two"), (31, "two")] {
        assert_eq!(
            stage.bearer(&endpoint, second).await.unwrap(),
            format!("Bearer {token}"),
            "{second}"
        );
    }
    assert_eq!(endpoint.count(), 3);
}

#[tokio::test]
async fn when_a_refresh_fails_the_old_token_is_used_until_its_end() {
    let (stage, endpoint) = (stage(), tokens(&["one"]));
    stage.bearer(&endpoint, 0).await.unwrap();
    let broken = Endpoint::saying([(503, String::new())]);
    for second in [3300, 3310, 3329, 3330, 3589] {
        assert_eq!(
            stage.bearer(&broken, second).await.unwrap(),
            "Bearer one",
            "{second}"
        );
    }
    // At 3300, 3330 and 3589.
    assert_eq!(broken.count(), 3);
    let told = said(
        &stage.bearer(&broken, 3600).await.unwrap_err(),
        "CredentialUnavailable",
    );
    assert!(told.ends_with("is not available: (status 503)"), "{told}");
    assert_eq!(broken.count(), 3, "remembered");
    stage.bearer(&broken, 3620).await.unwrap_err();
    assert_eq!(broken.count(), 4);
}

#[tokio::test]
async fn a_failure_is_remembered_for_half_a_minute_or_until_the_file_changes() {
    let stage = stage();
    let endpoint = Endpoint::saying([
        (401, r#"{"error": "invalid_client"}"#.to_owned()),
        (200, token_answer("one", 3600)),
    ]);
    for second in [0, 1, 29] {
        said(
            &stage.bearer(&endpoint, second).await.unwrap_err(),
            "CredentialRefused",
        );
    }
    assert_eq!(endpoint.count(), 1);
    stage.write("secret", "other");
    assert_eq!(stage.bearer(&endpoint, 29).await.unwrap(), "Bearer one");
    assert_eq!(endpoint.value("client_secret"), "other");
    let stage = self::stage();
    let endpoint = Endpoint::default();
    endpoint.then(Err("no route to host".to_owned()));
    endpoint.then(Ok((200, token_answer("one", 3600))));
    let told = said(
        &stage.bearer(&endpoint, 0).await.unwrap_err(),
        "CredentialUnavailable",
    );
    assert!(told.ends_with("is not available: no route to host"), "{told}");
    assert_eq!(stage.bearer(&endpoint, 30).await.unwrap(), "Bearer one");
}

#[tokio::test]
async fn a_file_that_is_replaced_or_gone_counts_at_once() {
    let (stage, endpoint) = (stage(), tokens(&["one", "two"]));
    stage.bearer(&endpoint, 0).await.unwrap();
    stage.write("secret", "other");
    assert_eq!(stage.bearer(&endpoint, 1).await.unwrap(), "Bearer two");
    std::fs::remove_file(stage.path("secret")).unwrap();
    let told = said(
        &stage.bearer(&endpoint, 2).await.unwrap_err(),
        "CredentialUnreadable",
    );
    assert!(told.contains("/secret: No such file"), "{told}");
}

#[tokio::test]
async fn when_a_file_changes_and_nobody_answers_the_old_token_is_used() {
    let (stage, endpoint) = (stage(), tokens(&["one"]));
    stage.bearer(&endpoint, 0).await.unwrap();
    // A projected token changes every hour: that is no reason to stop while an endpoint is away.
    stage.write("secret", "other");
    let broken = Endpoint::saying([(503, String::new())]);
    for second in [1, 2] {
        assert_eq!(stage.bearer(&broken, second).await.unwrap(), "Bearer one");
    }
    assert_eq!(broken.count(), 1);
    // One that is refused stands for itself.
    stage.write("secret", "another");
    let refusing = Endpoint::saying([(400, String::new())]);
    for second in [3, 4] {
        said(
            &stage.bearer(&refusing, second).await.unwrap_err(),
            "CredentialRefused",
        );
    }
    assert_eq!(refusing.count(), 1);
    assert_eq!(stage.bearer(&tokens(&["two"]), 40).await.unwrap(), "Bearer two");
}

#[tokio::test]
async fn a_refusal_of_an_unchanged_file_lets_the_old_token_end() {
    let (stage, endpoint) = (stage(), tokens(&["one"]));
    stage.bearer(&endpoint, 0).await.unwrap();
    let refusing = Endpoint::saying([(400, String::new())]);
    assert_eq!(stage.bearer(&refusing, 3300).await.unwrap(), "Bearer one");
    said(
        &stage.bearer(&refusing, 3590).await.unwrap_err(),
        "CredentialRefused",
    );
}

#[tokio::test]
async fn a_token_that_is_doubted_is_obtained_anew_but_once_a_minute() {
    let (stage, endpoint) = (stage(), tokens(&["one", "two", "three"]));
    stage.credentials.forget("a");
    stage.credentials.forget("other");
    for (second, token) in [
        (0, "one"),
        (59, "one"),
        (60, "two"),
        (61, "two"),
        (119, "two"),
        (120, "three"),
    ] {
        assert_eq!(
            stage.bearer(&endpoint, second).await.unwrap(),
            format!("Bearer {token}"),
            "{second}"
        );
        stage.credentials.forget("a");
    }
    // Who is doubted does not stand in for who is not there.
    let broken = Endpoint::saying([(503, String::new())]);
    said(
        &stage.bearer(&broken, 180).await.unwrap_err(),
        "CredentialUnavailable",
    );
}

#[tokio::test]
async fn a_clock_that_goes_back_far_is_not_believed() {
    let (stage, endpoint) = (stage(), tokens(&["one", "two"]));
    for (second, token) in [(100_000, "one"), (99_700, "one"), (99_699, "two")] {
        assert_eq!(
            stage.bearer(&endpoint, second).await.unwrap(),
            format!("Bearer {token}"),
            "{second}"
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_signers_make_one_exchange() {
    let stage = Arc::new(stage());
    let endpoint = Arc::new(tokens(&["one"]));
    let all: Vec<_> = (0..64)
        .map(|_| {
            let (stage, endpoint) = (Arc::clone(&stage), Arc::clone(&endpoint));
            tokio::spawn(async move { stage.bearer(&endpoint, 0).await })
        })
        .collect();
    for one in all {
        assert_eq!(one.await.unwrap().unwrap(), "Bearer one");
    }
    assert_eq!(endpoint.count(), 1);
    // And one refusal.
    let stage = Arc::new(self::stage());
    let broken = Arc::new(Endpoint::saying([(400, String::new())]));
    let all: Vec<_> = (0..64)
        .map(|_| {
            let (stage, broken) = (Arc::clone(&stage), Arc::clone(&broken));
            tokio::spawn(async move { stage.bearer(&broken, 0).await })
        })
        .collect();
    for one in all {
        said(&one.await.unwrap().unwrap_err(), "CredentialRefused");
    }
    assert_eq!(broken.count(), 1);
}

#[tokio::test]
async fn who_obtains_and_is_cancelled_leaves_the_turn_to_the_next() {
    let (stage, endpoint) = (stage(), tokens(&["one"]));
    {
        let mut request = get("https://a.example/");
        let signed = stage
            .credentials
            .sign("a", "bearer", &[], &mut request, b"", at(0), &endpoint);
        // The endpoint gives way more than once before it answers.
        tokio::select! {
            biased;
            done = signed => panic!("{done:?}"),
            () = tokio::task::yield_now() => {}
        }
        assert_eq!(header(&request, "authorization"), None);
    }
    assert_eq!(endpoint.count(), 1);
    assert_eq!(stage.bearer(&endpoint, 0).await.unwrap(), "Bearer one");
    assert_eq!(endpoint.count(), 2);
}
