//! A real Prometheus on loopback that scrapes gauges which the test sets, and evaluates alerts on them. It judges
//! nothing.

use std::{
    collections::BTreeMap,
    fmt::Write as _,
    io::{Read as _, Write as _},
    net::{TcpListener, TcpStream},
    process::{Child, Command, Stdio},
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail};

use crate::programs;

/// What is scraped, by series: `shop_errors{shop="a"}`.
type Gauges = Arc<Mutex<BTreeMap<String, f64>>>;

/// A running Prometheus; it ends with this value, and with this process.
#[derive(Debug)]
pub struct Running {
    /// `127.0.0.1:20000`
    pub address: String,
    child: Child,
    gauges: Gauges,
    folder: tempfile::TempDir,
}

impl Running {
    /// Starts it. `alerts` are its rules: name and PromQL; they have the label `severity="critical"`. Blocks for seconds.
    pub fn start(alerts: &[(&str, &str)]) -> Result<Self> {
        let gauges = Gauges::default();
        let exporter = serve(gauges.clone())?;
        let mut rules = String::from("groups:\n- name: test\n  interval: 1s\n  rules:\n");
        for (name, query) in alerts {
            write!(
                rules,
                "  - alert: {name}\n    expr: {query:?}\n    labels: {{severity: critical}}\n"
            )?;
        }
        Self::scraping(&exporter, if alerts.is_empty() { "" } else { &rules }, gauges)
    }

    /// Starts it on somebody else's metrics, with these rules (YAML of a rule file). Blocks for seconds.
    pub fn of(target: &str, rules: &str) -> Result<Self> {
        Self::scraping(target, rules, Gauges::default())
    }

    fn scraping(exporter: &str, rules: &str, gauges: Gauges) -> Result<Self> {
        let program = programs::debian("prometheus")?;
        let folder = tempfile::tempdir()?;
        std::fs::write(folder.path().join("rules.yml"), rules)?;
        let files = if rules.is_empty() {
            ""
        } else {
            "rule_files: [rules.yml]\n"
        };
        let config = format!(
            "global: {{scrape_interval: 1s, scrape_timeout: 1s, evaluation_interval: 1s}}\n{files}\
             scrape_configs:\n- job_name: test\n  static_configs: [{{targets: [\"{exporter}\"]}}]\n"
        );
        std::fs::write(folder.path().join("prometheus.yml"), config)?;
        let address = TcpListener::bind("127.0.0.1:0")?.local_addr()?.to_string();
        let log = std::fs::File::create(folder.path().join("log"))?;
        // It does not notice that its starter is gone: the shell does, by its standard input.
        let child = Command::new("sh")
            .args(["-c", r#""$0" "$@" & p=$!; cat >/dev/null; kill -9 $p"#])
            .arg(program)
            .arg(format!(
                "--config.file={}",
                folder.path().join("prometheus.yml").display()
            ))
            .arg(format!(
                "--storage.tsdb.path={}",
                folder.path().join("data").display()
            ))
            .arg(format!("--web.listen-address={address}"))
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .context("prometheus")?;
        let mut running = Self {
            address,
            child,
            gauges,
            folder,
        };
        running.wait()?;
        Ok(running)
    }

    /// Where it is asked.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Sets a gauge from the next scrape on, within a second.
    pub fn set(&self, series: &str, value: f64) {
        let mut gauges = self.gauges.lock().unwrap_or_else(PoisonError::into_inner);
        gauges.insert(series.to_owned(), value);
    }

    /// Takes a gauge away from the next scrape on.
    pub fn unset(&self, series: &str) {
        let mut gauges = self.gauges.lock().unwrap_or_else(PoisonError::into_inner);
        gauges.remove(series);
    }

    /// What a query is answered with: `data.result` of Prometheus' own answer. An error is its words.
    pub fn ask(&self, query: &str) -> Result<Vec<serde_json::Value>> {
        let query: String = url::form_urlencoded::byte_serialize(query.as_bytes()).collect();
        let answer = get(&self.address, &format!("/api/v1/query?query={query}"))?;
        let (_, body) = answer.split_once("\r\n\r\n").context("an answer")?;
        let body: serde_json::Value = serde_json::from_str(body).with_context(|| body.to_owned())?;
        let result = body.pointer("/data/result").and_then(serde_json::Value::as_array);
        result.cloned().with_context(|| body.to_string())
    }

    /// Waits until a query is answered with this value, at most half a minute.
    pub async fn answers(&self, query: &str, value: f64) -> Result<()> {
        let wanted = format!("\"{value}\"]");
        for _ in 0..300 {
            let path = format!("/api/v1/query?query={query}");
            if get(&self.address, &path).is_ok_and(|answer| answer.contains(&wanted)) {
                return Ok(());
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        bail!("{query} is not {value} after half a minute")
    }

    fn wait(&mut self) -> Result<()> {
        let begin = Instant::now();
        while begin.elapsed() < Duration::from_mins(1) {
            if is_ready(&self.address).unwrap_or(false) {
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        let log = std::fs::read_to_string(self.folder.path().join("log")).unwrap_or_default();
        bail!("prometheus is not ready after a minute: {log}")
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}

fn is_ready(address: &str) -> std::io::Result<bool> {
    let answer = get(address, "/-/ready")?;
    Ok(answer.starts_with("HTTP/1.0 200") || answer.starts_with("HTTP/1.1 200"))
}

fn get(address: &str, path: &str) -> std::io::Result<String> {
    let mut stream = TcpStream::connect(address)?;
    write!(stream, "GET {path} HTTP/1.0\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}

/// Serves the gauges until the process ends.
fn serve(gauges: Gauges) -> Result<String> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?.to_string();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let _ = answer(stream, &gauges);
        }
    });
    Ok(address)
}

fn answer(mut stream: TcpStream, gauges: &Gauges) -> Result<()> {
    stream.set_read_timeout(Some(Duration::from_secs(5)))?;
    let mut head = [0_u8; 4096];
    let _ = stream.read(&mut head)?;
    let gauges = gauges.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let mut body = String::new();
    for (series, value) in &gauges {
        writeln!(body, "{series} {value}")?;
    }
    let length = body.len();
    let text = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}"
    );
    stream.write_all(text.as_bytes())?;
    Ok(())
}
