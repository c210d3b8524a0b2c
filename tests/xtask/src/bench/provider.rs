//! `provider_wall_ratio`: what the sandbox adds to the time that a provider of machines takes, for the provider of Google Cloud against its local
//! server. The same code is asked natively and as a component; both send each request by the same sender from a thread of its own, and take
//! turns in one process.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, ensure};
use async_trait::async_trait;
use numo_clouds::{Loopback, gcp, native};
use numo_plugin::provider::{
    Ask, Cloud, CloudRequest, Lent, MachineProvider, MachineState, ProviderGrants, Said,
};
use numo_plugin::services::{ErrorCode, FetchResponse, HostError};
use numo_plugin::{RuleLimits, Services};
use numo_plugin_tests::guest;
use numo_provider_sdk::fake::World;
use numo_provider_sdk::host::Request;
use numo_provider_sdk::{Error, NodeState, Provider as _};
use provider_gcp::Gcp;
use serde_json::json;
use tokio::runtime::Handle;

use super::{Measured, wasm};

/// Questions of one turn: so many times state, image and group of a machine.
const ROUNDS: u32 = 20;
/// Turns of each side, after one that warms caches: 200 times each question.
const TURNS: usize = 10;
/// How long the server takes for an answer. A cloud takes 50 to 300 ms: beside that the sandbox would add less.
const LATENCY: Duration = Duration::from_millis(20);
const MACHINE: &str = "gce://numo-test/zone-a/workers-0000";
const CONFIG: &str = r#"{"project": "numo-test"}"#;
/// What the provider has its requests signed with, as local servers take it.
const SIGNED: &[u8] = b"bearer gcp";

/// A cloud with one machine.
fn cloud(latency: Duration) -> Result<gcp::Cloud> {
    let cloud = gcp::Cloud::start()?;
    let mut state = cloud.lock();
    let image = state.add_image("node-1");
    let labels = json!({"constellation-uid": "bench", "constellation-role": "worker"});
    let template = state.add_template("workers", &image, &labels);
    state.add_group("zones/zone-a", "workers", &template, 1);
    state.knobs.latency = latency;
    drop(state);
    Ok(cloud)
}

/// Sends what a component asks for.
struct Way(Loopback);

#[async_trait]
impl Cloud for Way {
    async fn send(&self, request: CloudRequest) -> Result<FetchResponse, HostError> {
        let loopback = self.0.clone();
        let sending = tokio::task::spawn_blocking(move || {
            let CloudRequest {
                method,
                url,
                headers,
                body,
                ..
            } = request;
            let own = headers
                .iter()
                .map(|(name, value)| (name.as_str(), value.as_bytes()));
            let all = own.chain([("x-authorization", SIGNED)]);
            loopback.send((method.as_str(), url.as_str()), all, body)
        });
        let answer = sending.await.map_err(|error| error.to_string()).flatten();
        let answer = answer.map_err(|words| HostError::new(ErrorCode::Unavailable, words))?;
        Ok(FetchResponse {
            status: answer.status,
            headers: answer.headers,
            body: answer.body,
        })
    }
}

/// The component and what it is lent.
struct Component {
    provider: MachineProvider,
    lent: Lent,
}

impl Component {
    fn new(provider: MachineProvider, address: SocketAddr) -> Result<Self> {
        let grants: ProviderGrants = serde_json::from_value(json!({
            "cloud": [{"host": "compute.googleapis.com", "credentials": ["gcp"]}],
        }))?;
        let lent = Lent {
            grants: Arc::new(grants),
            config_json: CONFIG.into(),
            cloud: Some(Arc::new(Way(Loopback::to(address)))),
            ..Lent::default()
        };
        Ok(Self { provider, lent })
    }

    async fn ask(&self, ask: Ask) -> Result<Said> {
        let lent = (self.lent.clone(), Services::none(jiff::Timestamp::UNIX_EPOCH));
        let said = self.provider.ask(ask, &RuleLimits::default(), lent).await;
        said.map_err(|failed| anyhow!("{failed}"))
    }

    /// Seconds of a turn.
    async fn turn(&self) -> Result<f64> {
        let begin = Instant::now();
        for _ in 0..ROUNDS {
            let provider_id = MACHINE.to_owned();
            let state = self
                .ask(Ask::State {
                    provider_id: provider_id.clone(),
                })
                .await?;
            ensure!(state == Said::State(MachineState::Ready), "{state:?}");
            self.ask(Ask::NodeImage {
                provider_id: provider_id.clone(),
            })
            .await?;
            self.ask(Ask::GroupOf { provider_id }).await?;
        }
        Ok(begin.elapsed().as_secs_f64())
    }
}

/// The same natively.
async fn native_turn(address: SocketAddr) -> Result<f64> {
    let handle = Handle::current();
    let turn = tokio::task::spawn_blocking(move || -> Result<f64> {
        let world = world(handle, address);
        let wrong = |failure: numo_provider_sdk::Failure| anyhow!("{failure:?}");
        let begin = Instant::now();
        for _ in 0..ROUNDS {
            let state = Gcp::node_state(&world, MACHINE).map_err(wrong)?;
            ensure!(state == NodeState::Ready, "{state:?}");
            Gcp::node_image(&world, MACHINE).map_err(wrong)?;
            Gcp::scaling_group_id(&world, MACHINE).map_err(wrong)?;
        }
        Ok(begin.elapsed().as_secs_f64())
    });
    turn.await.context("a native turn")?
}

/// A host that sends each request from a thread of its own, as a component's are sent.
fn world(handle: Handle, address: SocketAddr) -> World {
    let send = Arc::new(native(address));
    let cloud = move |request: &Request| {
        let (send, request) = (send.clone(), request.clone());
        let sending = handle.spawn_blocking(move || send(&request));
        handle.block_on(sending).unwrap_or_else(|error| {
            Err(Error {
                code: numo_provider_sdk::ErrorCode::Unavailable,
                message: error.to_string(),
                details: Vec::new(),
            })
        })
    };
    World {
        cloud: Some(Box::new(cloud)),
        config_json: CONFIG.to_owned(),
        ..World::default()
    }
}

/// Median of the ratios over turns, and what to say of it.
async fn compare(provider: &MachineProvider, latency: Duration) -> Result<(f64, String)> {
    let cloud = cloud(latency)?;
    let address = cloud.address();
    let component = Component::new(provider.clone(), address)?;
    let requests = || cloud.lock().log.len();
    let (mut ours, mut theirs, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
    for turn in 0..=TURNS {
        // They take turns in who is first; the first turn warms caches.
        let (with, without) = if turn.is_multiple_of(2) {
            let with = component.turn().await?;
            (with, native_turn(address).await?)
        } else {
            let without = native_turn(address).await?;
            (component.turn().await?, without)
        };
        if turn > 0 {
            ours.push(with);
            theirs.push(without);
            ratios.push(with / without);
        }
    }
    let before = requests();
    component.turn().await?;
    let of_component = requests() - before;
    native_turn(address).await?;
    let of_native = requests() - before - of_component;
    ensure!(
        of_component == of_native,
        "the component sent {of_component} requests, the native provider {of_native}"
    );
    let ratio = wasm::median(ratios);
    let each = |seconds: Vec<f64>| wasm::median(seconds) * 1000.0 / f64::from(3 * ROUNDS);
    let note = format!(
        "answers after {} ms: ratio {ratio:.3}, {:.2} ms a question over {:.2} ms natively, {of_native} requests in {} questions",
        latency.as_millis(),
        each(ours),
        each(theirs),
        3 * ROUNDS
    );
    Ok((ratio, note))
}

/// `provider_wall_ratio`: with a server that takes its time. Without latency the ratio is that of instantiation to a connection of loopback, and
/// only told.
pub async fn ratio() -> Result<Measured> {
    let name = "provider-gcp";
    let file = guest::components(&[name]).await?.join(format!("{name}.wasm"));
    let bytes = std::fs::read(&file).with_context(|| file.display().to_string())?;
    let engine = wasm::engine(None)?;
    let provider = engine.load_provider(&bytes).await?;
    let (value, slow) = compare(&provider, LATENCY).await?;
    let (_, fast) = compare(&provider, Duration::ZERO).await?;
    Ok(Measured {
        value,
        notes: vec![slow, fast],
    })
}
