//! A rule that misbehaves in whatever way its configuration says. Never shipped, never a template.

wit_bindgen::generate!({
    path: ["../../wit/host", "../../wit/rule"],
    world: "numo:rule/rule",
    generate_all,
});

use exports::numo::rule::evaluation::{
    ConfigProblem, Description, Guest, Input, Report, RuleError, Verdict, Wait, Want,
};
use numo::host::{
    clock, history, http,
    kubernetes::{self, Freshness, ListQuery, Projection},
    log::{self, Level},
    prometheus,
    types::{Error, ObjectRef},
};

struct Conformance;

export!(Conformance);

impl From<Error> for RuleError {
    fn from(error: Error) -> Self {
        Self::Host(error)
    }
}

fn report(reason: &str, summary: String) -> Report {
    Report { reason: reason.into(), summary, findings: Vec::new(), data_json: None, attributes: Vec::new() }
}

fn pass(summary: impl Into<String>) -> Result<Verdict, RuleError> {
    Ok(Verdict::Pass(report("Fine", summary.into())))
}

fn want(capability: &str, target: &str) -> Want {
    Want { capability: capability.into(), target: target.into(), purpose: "to misbehave".into(), optional: true }
}

fn whole() -> Projection {
    Projection { fields: Vec::new(), freshness: Freshness::Cached }
}

fn pod(name: &str) -> ObjectRef {
    ObjectRef { api_version: "v1".into(), kind: "Pod".into(), namespace: Some("a".into()), name: name.into() }
}

fn pods(limit: u32, continue_token: Option<String>) -> ListQuery {
    ListQuery {
        api_version: "v1".into(),
        kind: "Pod".into(),
        namespace: Some("a".into()),
        label_selector: None,
        field_selector: None,
        projection: whole(),
        limit,
        continue_token,
    }
}

/// The compiler must not see through it.
#[inline(never)]
#[allow(unconditional_recursion, reason = "that is what it is for")]
fn deep(depth: u64) -> u64 {
    let room = [depth; 32];
    let below = deep(std::hint::black_box(depth + 1));
    below + std::hint::black_box(room)[7]
}

/// The string after `"key":`; the tests write no escapes.
fn field<'a>(json: &'a str, key: &str) -> Option<&'a str> {
    let (_, rest) = json.split_once(&format!("\"{key}\""))?;
    let rest = rest.trim_start().strip_prefix(':')?.trim_start().strip_prefix('"')?;
    rest.split('"').next()
}

impl Guest for Conformance {
    fn describe() -> Description {
        Description {
            name: "conformance".into(),
            version: "1.0.0".into(),
            summary: "Misbehaves as its configuration says".into(),
            phases: ["pre-run", "pre", "post", "post-run"].map(Into::into).into(),
            wants: vec![
                want("numo:host/kubernetes", "v1/Pod"),
                want("numo:host/http", ""),
                want("numo:host/prometheus", ""),
            ],
            config_schema_json: Some(r#"{"type":"object"}"#.into()),
            attributes: Vec::new(),
        }
    }

    fn validate_config(config: String) -> Result<(), Vec<ConfigProblem>> {
        match field(&config, "do") {
            Some("bad-config") => {
                Err(vec![ConfigProblem { pointer: "/do".into(), message: "it is bad".into() }])
            }
            Some("ask-in-validate") => match kubernetes::get_object(&pod("a"), &whole()) {
                Err(error) => Err(vec![ConfigProblem { pointer: String::new(), message: error.message }]),
                Ok(_) => Ok(()),
            },
            _ => Ok(()),
        }
    }

    fn evaluate(input: Input) -> Result<Verdict, RuleError> {
        match field(&input.config_json, "do").unwrap_or_default() {
            "loop" => loop {
                std::hint::black_box(());
            },
            "allocate" => {
                let mut all: Vec<Vec<u8>> = Vec::new();
                loop {
                    all.push(vec![1; 1 << 20]);
                    std::hint::black_box(&all);
                }
            }
            "recurse" => pass(deep(0).to_string()),
            "panic" => panic!("the rule panics\u{1b}[31m on purpose"),
            "big-result" => Ok(Verdict::Pass(report("Fine", "x".repeat(8 << 20)))),
            "big-log" => {
                log::write(Level::Info, &"x".repeat(8 << 20), &[]);
                pass("logged")
            }
            "log-flood" => {
                for line in 0..2000 {
                    log::write(Level::Info, &format!("line {line}\u{1b}[2J\n"), &[("key".into(), "value".into())]);
                }
                pass("logged")
            }
            "log-for-ever" => loop {
                log::write(Level::Debug, "again", &[]);
            },
            "print-flood" => {
                for line in 0..20_000 {
                    println!("line {line}");
                }
                pass("printed")
            }
            "get-flood" => {
                let mut last = Ok(None);
                for _ in 0..1000 {
                    last = kubernetes::get_object(&pod("a"), &whole());
                }
                last?;
                pass("asked")
            }
            "get-flood-and-pass" => {
                for _ in 0..1000 {
                    let _ = kubernetes::get_object(&pod("a"), &whole());
                }
                pass("asked and did not look")
            }
            "get" => {
                let name = field(&input.config_json, "name").unwrap_or("a");
                let found = kubernetes::get_object(&pod(name), &whole())?;
                pass(found.unwrap_or_else(|| "none".into()))
            }
            "get-secret" => {
                let secret = ObjectRef { kind: "Secret".into(), ..pod("a") };
                pass(kubernetes::get_object(&secret, &whole())?.unwrap_or_default())
            }
            "list" => {
                let (mut token, mut count, mut pages) = (None, 0, 0);
                loop {
                    let page = kubernetes::list_objects(&pods(0, token))?;
                    count += page.items.len();
                    pages += 1;
                    token = page.continue_token;
                    if token.is_none() {
                        return pass(format!("{count} on {pages} pages"));
                    }
                }
            }
            "list-all" => {
                let everywhere = ListQuery { namespace: None, ..pods(0, None) };
                pass(kubernetes::list_objects(&everywhere)?.items.len().to_string())
            }
            "list-other-token" => {
                let page = kubernetes::list_objects(&pods(1, None))?;
                let other = ListQuery { label_selector: Some("a=b".into()), ..pods(1, page.continue_token) };
                pass(kubernetes::list_objects(&other)?.items.len().to_string())
            }
            "fetch" => {
                let url = field(&input.config_json, "url").unwrap_or_default().into();
                let response = http::fetch(&http::Request {
                    method: http::Method::Get,
                    url,
                    headers: Vec::new(),
                    credential: field(&input.config_json, "credential").map(Into::into),
                    timeout_milliseconds: None,
                })?;
                pass(format!("{} {}", response.status, String::from_utf8_lossy(&response.body)))
            }
            "query" => {
                let answer = prometheus::query("up")?;
                pass(format!("{} series", answer.samples.len()))
            }
            "history" => {
                let entries = history::entries(0)?;
                pass(format!("{} {}", entries.len(), entries.first().map_or("", |entry| entry.verdict.as_str())))
            }
            "clock" => {
                let parsed = clock::parse_rfc3339("2026-11-21T12:00:00Z").map(|instant| instant.seconds);
                pass(format!("{}", parsed == Some(clock::now().seconds)))
            }
            "wasi-clock" => {
                let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
                pass(format!("{}", now.as_secs() == clock::now().seconds))
            }
            "sleep" => {
                std::thread::sleep(std::time::Duration::from_secs(3600));
                pass("slept")
            }
            "files" => pass(format!(
                "{} {} {}",
                std::fs::read_to_string("/etc/hostname").is_ok(),
                std::env::vars().count(),
                std::env::args().count()
            )),
            "exit" => std::process::exit(0),
            "wait" => Ok(Verdict::Wait(Wait {
                report: report("Busy", "not yet".into()),
                retry_after_seconds: 1,
                progress_percent: Some(200),
            })),
            "fail" => Err(RuleError::Failed("it cannot tell".into())),
            "bad-data" => Ok(Verdict::Pass(Report { data_json: Some("x".repeat(20 << 10)), ..report("Fine", "".into()) })),
            _ => pass("as it should be"),
        }
    }
}
