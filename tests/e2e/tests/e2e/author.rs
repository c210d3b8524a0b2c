//! The author's loop: a rule is begun, built, tested, asked about a node of a cluster, recorded and replayed, by the
//! command line alone.

use std::path::Path;

use anyhow::{Context, Result, ensure};
use numo_e2e::{Said, call_in, crates, manifests, rules};
use serde_json::{Value, json};

use crate::{set, workers};

/// What it says, if it succeeds.
async fn numo(folder: &Path, arguments: &[&str]) -> Result<String> {
    let said = call_in(folder, arguments).await?;
    ensure!(said.code == Some(0), "numo {}: {said:?}", arguments.join(" "));
    Ok(said.out)
}

/// What it says, as it fails.
async fn fails(folder: &Path, arguments: &[&str]) -> Result<Said> {
    let said = call_in(folder, arguments).await?;
    ensure!(said.code == Some(1), "numo {}: {said:?}", arguments.join(" "));
    Ok(said)
}

fn write(folder: &Path, name: &str, text: &str) -> Result<()> {
    std::fs::write(folder.join(name), text).context("a file of the test")
}

/// The component of a rule that ships.
async fn component(name: &str) -> Result<String> {
    let path = rules::components(&[name]).await?.join(format!("{name}.wasm"));
    Ok(path.display().to_string())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_rule_is_built_tested_and_checked_without_anything_of_numo_but_its_binary() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let folder = folder.path();
    let files = numo(folder, &["plugin", "new", "disk-check"]).await?;
    assert!(files.contains("disk-check/src/lib.rs"), "{files}");
    let again = fails(folder, &["plugin", "new", "disk-check"]).await?;
    assert!(
        again.err.contains("nothing is overwritten") && again.err.contains("Cargo.toml"),
        "{again:?}"
    );
    let wrong = fails(folder, &["plugin", "new", "Disk_Check"]).await?;
    assert!(wrong.err.contains("NAME: found \"Disk_Check\""), "{wrong:?}");

    let rule = folder.join("disk-check");
    let built = numo(&rule, &["plugin", "build"]).await?;
    let words: Vec<_> = built.split_whitespace().collect();
    assert!(
        words[0].ends_with("disk-check.wasm") && words[1].starts_with("sha256:"),
        "{built}"
    );
    let checked = numo(&rule, &["plugin", "check", "disk-check.wasm"]).await?;
    assert!(
        checked.starts_with("disk-check 0.1.0 speaks contract 1.0.0"),
        "{checked}"
    );
    let tested = numo(&rule, &["plugin", "test"]).await?;
    assert!(tested.ends_with("5 passed, 0 failed\n"), "{tested}");

    // The core module makes the same component, again and elsewhere.
    let module = crates().join("wasm32-unknown-unknown/release/disk_check.wasm");
    let module = module.display().to_string();
    let from_module = numo(&rule, &["plugin", "build", &module, "--file", "again.wasm"]).await?;
    assert!(from_module.contains(words[1]), "{from_module} {built}");
    // With WASI it is another, and as good.
    numo(
        &rule,
        &[
            "plugin",
            "build",
            "--target",
            "wasm32-wasip2",
            "--file",
            "wasi.wasm",
        ],
    )
    .await?;
    let tested = numo(&rule, &["plugin", "test", "--component", "wasi.wasm"]).await?;
    assert!(tested.contains("5 passed"), "{tested}");

    let measured = numo(
        &rule,
        &[
            "plugin",
            "bench",
            "disk-check.wasm",
            "tests/cases.yaml",
            "--case",
            "another node",
            "--seconds",
            "1",
            "--output",
            "json",
        ],
    )
    .await?;
    let measured: Value = serde_json::from_str(&measured)?;
    assert!(measured["compileMilliseconds"].as_f64() > Some(0.0), "{measured}");
    assert_eq!(measured["cases"][0]["said"], "Pass NotHeld");
    assert!(
        measured["cases"][0]["evaluations"].as_u64() >= Some(20),
        "{measured}"
    );
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_provider_of_machines_is_checked_and_shown_and_taken_for_no_rule() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let folder = folder.path();
    let sim = component("provider-sim").await?;
    let checked = numo(folder, &["plugin", "check", &sim]).await?;
    assert!(
        checked.starts_with("sim ")
            && checked.ends_with("speaks contract 1.0.0 and makes and deletes machines\n"),
        "{checked}"
    );
    let shown = numo(folder, &["plugin", "inspect", &sim]).await?;
    assert!(
        shown.contains("\nhosts      none\n") && shown.contains("numo:provider/objects@1.0.0 "),
        "{shown}"
    );
    assert!(!shown.contains("phases"), "{shown}");
    let shown: Value =
        serde_json::from_str(&numo(folder, &["plugin", "inspect", &sim, "-o", "json"]).await?)?;
    assert_eq!(shown["inspection"]["world"], "provider");
    assert_eq!(shown["description"]["hosts"], json!([]));

    let cases = manifests::root().join("plugins/pdb-headroom/tests/cases.yaml");
    let cases = cases.display().to_string();
    for call in [
        &["plugin", "scaffold", &sim][..],
        &["plugin", "run", &sim, "--node", "worker-0"],
        &["plugin", "test", &cases, "--component", &sim],
        &["plugin", "bench", &sim],
    ] {
        let said = fails(folder, call).await?;
        assert!(
            said.err.contains("found a provider of machines") && said.err.contains("wanted a rule"),
            "{call:?}: {said:?}"
        );
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn the_rules_that_ship_pass_their_cases_in_the_sandbox() -> Result<()> {
    let names = [
        "pdb-headroom",
        "node-requirement",
        "http-check",
        "prometheus-gate",
        "cluster-operators",
        "workloads-ready",
    ];
    for name in names {
        let cases = manifests::root().join(format!("plugins/{name}/tests/cases.yaml"));
        let cases = cases.display().to_string();
        let folder = tempfile::tempdir()?;
        let said = numo(
            folder.path(),
            &["plugin", "test", &cases, "--component", &component(name).await?],
        )
        .await?;
        assert!(said.contains(" passed, 0 failed"), "{said}");
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_case_that_fails_says_what_was_found_and_what_was_wanted() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let folder = folder.path();
    let component = component("http-check").await?;
    let cases = r"
cases:
  - name: right
    node: {metadata: {name: w1}}
    config: {url: 'https://a.example.com/x'}
    http: {'https://a.example.com/x': {status: 503}}
    expect: {verdict: Wait}
  - name: another word
    node: {metadata: {name: w1}}
    config: {url: 'https://a.example.com/x'}
    http: {'https://a.example.com/x': {status: 503}}
    expect: {verdict: Pass, reason: ResponseAsWanted, findings: []}
  - name: not answered
    node: {metadata: {name: w1}}
    config: {url: 'https://a.example.com/y'}
    http: {'https://a.example.com/x': {status: 503}}
    expect: {verdict: Error, error: RuleError}
";
    write(folder, "cases.yaml", cases)?;
    let call = ["plugin", "test", "cases.yaml", "--component", &component];
    let said = fails(folder, &call).await?;
    for words in [
        "  ok    right",
        "  FAIL  another word",
        "verdict: found Wait, wanted Pass",
        "reason: found \"StatusUnexpected\", wanted \"ResponseAsWanted\"",
        "asked, and not in the case: http https://a.example.com/y",
        "1 passed, 2 failed",
    ] {
        assert!(said.out.contains(words), "{words}: {}", said.out);
    }
    assert!(said.err.contains("2 of 3 cases failed"), "{}", said.err);
    let said = fails(folder, &[&call[..], &["--output", "json"]].concat()).await?;
    let json: Value = serde_json::from_str(&said.out)?;
    assert_eq!((&json["passed"], &json["failed"]), (&json!(1), &json!(2)));
    assert_eq!(json["cases"][1]["differences"][0]["field"], "verdict");
    assert_eq!(json["cases"][1]["found"]["verdict"], "Wait");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_wrong_with_a_file_of_cases_is_said_by_line_and_field() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let folder = folder.path();
    let component = component("node-requirement").await?;
    let table = [
        ("cases: [\n", "cases.yaml:", ""),
        ("cases: []\n", "cases.yaml:1:", "cases: found none"),
        (
            "cases:\n  - name: a\n    expext: {verdict: Pass}\n",
            "cases.yaml:3:5",
            "expext",
        ),
        (
            "cases:\n  - name: a\n    expect: {verdict: Maybe}\n",
            "cases.yaml:3:",
            "Maybe",
        ),
        (
            "cases:\n  - expect: {verdict: Pass}\n",
            "cases.yaml:2:5",
            "cases[0].name: found none",
        ),
        (
            "cases:\n  - name: a\n",
            "cases.yaml:2:5",
            "cases[0].expect: found none",
        ),
        (
            "cases:\n  - name: a\n    expect: {verdict: Error, error: Tired}\n",
            "cases.yaml:3:13",
            "cases[0].expect.error: found Tired",
        ),
        (
            "cases:\n  - name: a\n    phase: Before\n    expect: {verdict: Pass}\n",
            "cases.yaml:3:12",
            "cases[0].phase: found \"Before\"",
        ),
        (
            "cases:\n  - name: a\n    expect: {verdict: Pass}\n",
            "cases.yaml:2:5",
            "cases[0].node: found none",
        ),
        (
            "cases:\n  - name: a\n    node: gone.yaml\n    expect: {verdict: Pass}\n",
            "cases.yaml:3:11",
            "gone.yaml",
        ),
        (
            "cases:\n  - name: a\n    node: {metadata: {name: w}}\n    objects: [{kind: Pod}]\n    expect: {verdict: Pass}\n",
            "cases.yaml:4:15",
            "cases[0].objects[0]: found no apiVersion",
        ),
        (
            "cases:\n  - name: a\n    node: {metadata: {name: w}}\n    limits: {memory: much}\n    expect: {verdict: Pass}\n",
            "cases.yaml:4:13",
            "cases[0].limits: memory: found \"much\"",
        ),
        (
            "cases:\n  - name: a\n    node: {metadata: {name: w}}\n    http: {nowhere: {}}\n    expect: {verdict: Pass}\n",
            "cases.yaml:4:",
            "cases[0].http: \"nowhere\"",
        ),
        (
            "cases:\n  - name: a\n    node: {metadata: {name: w}}\n    prometheus: {up: {value: many}}\n    expect: {verdict: Pass}\n",
            "cases.yaml:4:",
            "cases[0].prometheus: up: value: found \"many\"",
        ),
        (
            "defaults: {expect: {verdict: Pass}}\ncases:\n  - name: a\n    expect: {verdict: Pass}\n",
            "cases.yaml:1:",
            "defaults.expect: each case has its own",
        ),
    ];
    for (text, place, what) in table {
        write(folder, "cases.yaml", text)?;
        let said = fails(
            folder,
            &["plugin", "test", "cases.yaml", "--component", &component],
        )
        .await?;
        assert!(
            said.err.contains(place) && said.err.contains(what),
            "{text}\n{place} {what}\n{}",
            said.err
        );
    }
    let said = fails(
        folder,
        &["plugin", "test", "gone.yaml", "--component", &component],
    )
    .await?;
    assert!(said.err.contains("gone.yaml"), "{}", said.err);
    write(
        folder,
        "cases.yaml",
        table[2].0.replace("expext", "expect").as_str(),
    )?;
    let said = fails(folder, &["plugin", "test", "cases.yaml"]).await?;
    assert!(said.err.contains("component: found none"), "{}", said.err);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rule_is_asked_about_a_node_of_a_cluster_and_its_recording_replays_anywhere() -> Result<()> {
    let stage = set(workers(2), Vec::new()).await?;
    let folder = tempfile::tempdir()?;
    let folder = folder.path();
    let at = |name: &str| folder.join(name).display().to_string();
    let (headroom, requirement) = (
        component("pdb-headroom").await?,
        component("node-requirement").await?,
    );
    let record = at("record.json");
    let said = stage
        .say(&[
            "plugin", "run", &headroom, "--node", "worker-0", "--record", &record,
        ])
        .await?;
    for words in [
        "Pass HeadroomSuffices",
        "list v1 Pod everywhere, spec.nodeName=worker-0",
        "used ",
    ] {
        assert!(said.contains(words), "{words}: {said}");
    }
    let recorded: Value = serde_json::from_slice(&std::fs::read(&record)?)?;
    assert_eq!(recorded["input"]["node"]["metadata"]["name"], "worker-0");
    assert_eq!(recorded["said"]["reason"], "HeadroomSuffices");

    // Offline, by hand and as a case.
    let again = numo(folder, &["plugin", "run", &headroom, "--replay", &record]).await?;
    assert!(again.contains("\nas recorded\n"), "{again}");
    let cases = "cases:\n  - name: as it was\n    replay: record.json\n  - name: by its words\n    replay: record.json\n    \
                 expect: {verdict: Pass, reason: HeadroomSuffices}\n";
    write(folder, "cases.yaml", cases)?;
    let tested = numo(
        folder,
        &["plugin", "test", "cases.yaml", "--component", &headroom],
    )
    .await?;
    assert!(tested.contains("2 passed"), "{tested}");
    // A call that is not in it is named.
    let mut less = recorded.clone();
    less["calls"] = json!([]);
    write(folder, "less.json", &less.to_string())?;
    let said = fails(folder, &["plugin", "run", &headroom, "--replay", "less.json"]).await?;
    assert!(
        said.err.contains("not recorded: list v1 Pod everywhere"),
        "{said:?}"
    );
    // And a rule that says something else is said to.
    let said = fails(folder, &["plugin", "run", &requirement, "--replay", &record]).await?;
    assert!(
        said.out.contains("not as recorded:") && said.out.contains("verdict: found Error, wanted Pass"),
        "{said:?}"
    );

    // A MutexRule gives configuration, grants and phase.
    let rule = manifests::root()
        .join("examples/rule-pdb-headroom.yaml")
        .display()
        .to_string();
    let said = stage
        .say(&[
            "plugin", "run", &headroom, "--node", "worker-0", "--rule", &rule, "--output", "json",
        ])
        .await?;
    let json: Value = serde_json::from_str(&said)?;
    assert_eq!(json["said"]["verdict"], "Pass", "{said}");

    // Nothing was written, and what was read was read as whoever asked.
    let events = stage.cluster.audit()?;
    let own: Vec<_> = events
        .iter()
        .filter(|event| event.user_agent.ends_with("plugin run"))
        .collect();
    assert!(own.len() > 3, "{own:?}");
    assert!(
        own.iter()
            .all(|event| ["get", "list"].contains(&event.verb.as_str())),
        "{own:?}"
    );

    // A ServiceAccount without rights reads nothing, and that is no pass.
    let nobody = [
        "plugin",
        "run",
        &headroom,
        "--node",
        "worker-0",
        "--service-account",
        "default/default",
    ];
    let said = stage.call(&nobody).await?;
    assert_eq!(said.code, Some(1), "{said:?}");
    assert!(
        said.out
            .contains("ServiceAccount default/default may not list pods"),
        "{said:?}"
    );
    let gone = stage
        .call(&["plugin", "run", &headroom, "--node", "nowhere"])
        .await?;
    assert!(
        gone.code == Some(1) && gone.err.contains("Node nowhere"),
        "{gone:?}"
    );
    let disk = r#"{"labels": [{"key": "example.com/disk", "operator": "Exists"}]}"#;
    let said = stage
        .say(&[
            "plugin",
            "run",
            &requirement,
            "--node",
            "worker-1",
            "--config",
            disk,
        ])
        .await?;
    assert!(
        said.contains("Wait RequirementsUnmet") && said.contains("read nothing"),
        "{said}"
    );
    stage.strike().await
}

/// kubectl finds its plugins by their names.
#[tokio::test(flavor = "multi_thread")]
async fn it_is_kubectl_numo_by_that_name() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let plugin = folder.path().join("kubectl-numo");
    std::os::unix::fs::symlink(numo_e2e::binary()?, &plugin)?;
    let said = |arguments: &'static [&'static str]| {
        let output = std::process::Command::new(&plugin).args(arguments).output();
        output.map(|output| String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned())
    };
    let help = said(&["plugin", "new", "--help"])?;
    assert!(help.contains("Usage: kubectl numo plugin new"), "{help}");
    let wrong = said(&["explian"])?;
    assert!(
        wrong.contains("kubectl numo") && wrong.contains("explain"),
        "{wrong}"
    );
    Ok(())
}
