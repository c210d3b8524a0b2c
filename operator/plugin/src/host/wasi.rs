//! WASI 0.2, empty-handed: what a standard library links whether it is used or not. No arguments, no environment, no
//! files, input at its end, the time of the evaluation, and randomness that is the same for the same moment. Output
//! goes to the component's log and what is over is dropped (a stream that closes makes `println!` panic).

use std::{convert::Infallible, time::Duration};

use jiff::Timestamp;
use sha2::{Digest, Sha256};
use wasmtime::component::{Linker, ResourceTable};
use wasmtime_wasi::{
    HostMonotonicClock, HostWallClock, WasiCtx, WasiCtxBuilder, WasiCtxView, WasiView,
    cli::{WasiCli, WasiCliView as _},
    clocks::{WasiClocks, WasiClocksView as _},
    filesystem::{WasiFilesystem, WasiFilesystemView as _},
    p2::bindings::{cli, clocks, filesystem, random},
    random::WasiRandom,
};
use wasmtime_wasi_io::IoView;

use super::{output::Output, sandbox::Sandbox};
use crate::limits::Limits;

/// Links, interface by interface, what a component may import. Sockets and HTTP are not among them.
pub(crate) fn link(linker: &mut Linker<Sandbox>) -> wasmtime::Result<()> {
    let l = linker;
    wasmtime_wasi_io::add_to_linker_async(l)?;
    clocks::wall_clock::add_to_linker::<_, WasiClocks>(l, Sandbox::clocks)?;
    clocks::monotonic_clock::add_to_linker::<_, WasiClocks>(l, Sandbox::clocks)?;
    filesystem::preopens::add_to_linker::<_, WasiFilesystem>(l, Sandbox::filesystem)?;
    filesystem::types::add_to_linker::<_, WasiFilesystem>(l, Sandbox::filesystem)?;
    random::random::add_to_linker::<_, WasiRandom>(l, |t| t.ctx().ctx.random())?;
    random::insecure::add_to_linker::<_, WasiRandom>(l, |t| t.ctx().ctx.random())?;
    random::insecure_seed::add_to_linker::<_, WasiRandom>(l, |t| t.ctx().ctx.random())?;
    cli::exit::add_to_linker::<_, WasiCli>(l, Sandbox::cli)?;
    cli::environment::add_to_linker::<_, WasiCli>(l, Sandbox::cli)?;
    cli::stdin::add_to_linker::<_, WasiCli>(l, Sandbox::cli)?;
    cli::stdout::add_to_linker::<_, WasiCli>(l, Sandbox::cli)?;
    cli::stderr::add_to_linker::<_, WasiCli>(l, Sandbox::cli)?;
    cli::terminal_input::add_to_linker::<_, WasiCli>(l, Sandbox::cli)?;
    cli::terminal_output::add_to_linker::<_, WasiCli>(l, Sandbox::cli)?;
    cli::terminal_stdin::add_to_linker::<_, WasiCli>(l, Sandbox::cli)?;
    cli::terminal_stdout::add_to_linker::<_, WasiCli>(l, Sandbox::cli)?;
    cli::terminal_stderr::add_to_linker::<_, WasiCli>(l, Sandbox::cli)?;
    Ok(())
}

impl IoView for Sandbox {
    fn table(&mut self) -> &mut ResourceTable {
        let most = self.limits.handles;
        self.table.get_or_insert_with(|| new_table(most))
    }
}

impl WasiView for Sandbox {
    fn ctx(&mut self) -> WasiCtxView<'_> {
        let most = self.limits.handles;
        let now = self.moment();
        // Made when first used: most rules never do.
        let (limits, output) = (&self.limits, &self.output);
        WasiCtxView {
            ctx: self.wasi.get_or_insert_with(|| context(now, limits, output)),
            table: self.table.get_or_insert_with(|| new_table(most)),
        }
    }
}

fn new_table(most: u64) -> ResourceTable {
    let mut table = ResourceTable::new();
    table.set_max_capacity(usize::try_from(most).unwrap_or(usize::MAX));
    table
}

fn context(now: Timestamp, limits: &Limits, output: &Output) -> WasiCtx {
    let moment = Duration::try_from(now.duration_since(Timestamp::UNIX_EPOCH)).unwrap_or_default();
    let seed = |what: u8| Stream {
        key: moment.as_nanos().to_le_bytes(),
        what,
        block: 0,
        left: Vec::new(),
    };
    let mut builder = WasiCtxBuilder::new();
    builder
        .allow_blocking_current_thread(false)
        .stdout(output.clone())
        .stderr(output.clone())
        .wall_clock(Still(moment))
        .monotonic_clock(Still(moment))
        .secure_random(seed(0))
        .insecure_random(seed(1))
        .insecure_random_seed(moment.as_nanos())
        .max_random_size(limits.random_bytes);
    builder.build()
}

/// A clock that stands.
struct Still(Duration);

impl HostWallClock for Still {
    fn resolution(&self) -> Duration {
        Duration::from_nanos(1)
    }

    fn now(&self) -> Duration {
        self.0
    }
}

impl HostMonotonicClock for Still {
    fn resolution(&self) -> u64 {
        1
    }

    fn now(&self) -> u64 {
        u64::try_from(self.0.as_nanos()).unwrap_or(u64::MAX)
    }
}

/// SHA-256 of key and counter: the same numbers for the same moment, so that an evaluation replays. Not secret.
struct Stream {
    key: [u8; 16],
    what: u8,
    block: u64,
    left: Vec<u8>,
}

impl Stream {
    fn fill(&mut self, bytes: &mut [u8]) {
        for byte in bytes {
            if self.left.is_empty() {
                let hasher = Sha256::new().chain_update(self.key).chain_update([self.what]);
                self.left = hasher.chain_update(self.block.to_le_bytes()).finalize().to_vec();
                self.block += 1;
            }
            *byte = self.left.pop().unwrap_or_default();
        }
    }
}

impl rand_core::TryRng for Stream {
    type Error = Infallible;

    fn try_next_u32(&mut self) -> Result<u32, Infallible> {
        let mut bytes = [0; 4];
        self.fill(&mut bytes);
        Ok(u32::from_le_bytes(bytes))
    }

    fn try_next_u64(&mut self) -> Result<u64, Infallible> {
        let mut bytes = [0; 8];
        self.fill(&mut bytes);
        Ok(u64::from_le_bytes(bytes))
    }

    fn try_fill_bytes(&mut self, bytes: &mut [u8]) -> Result<(), Infallible> {
        self.fill(bytes);
        Ok(())
    }
}
