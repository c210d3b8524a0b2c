//! libFuzzer around the target that `NUMO_FUZZ_TARGET` names. Its mutations are libFuzzer's; now and then one begins anew
//! from what the target makes up itself. Started by `cargo xtask fuzz`, which says where inputs and finds lie.
#![no_main]
#![allow(unsafe_code, reason = "libFuzzer calls by C names, which its macros export")]
#![allow(missing_docs, reason = "the macros' own items")]

use std::sync::OnceLock;

use libfuzzer_sys::{fuzz_mutator, fuzz_target, fuzzer_mutate};
use numo_fuzz::Target;

fn target() -> &'static Target {
    static TARGET: OnceLock<&'static Target> = OnceLock::new();
    TARGET.get_or_init(|| {
        let name = std::env::var("NUMO_FUZZ_TARGET").unwrap_or_default();
        Target::named(&name).unwrap_or_else(|| {
            eprintln!("NUMO_FUZZ_TARGET={name:?} is no target");
            std::process::exit(1)
        })
    })
}

fuzz_target!(|bytes: &[u8]| {
    target().check(bytes);
});

fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    if !seed.is_multiple_of(16) {
        return fuzzer_mutate(data, size, max_size);
    }
    let made = target().generate(u64::from(seed));
    let length = made.len().min(max_size).min(data.len());
    data[..length].copy_from_slice(&made[..length]);
    length
});
