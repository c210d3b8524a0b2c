//! Ports that no other cluster on this machine has or will get.

use std::fs::{self, File};
use std::hash::{BuildHasher, RandomState};
use std::net::{Ipv4Addr, TcpListener};
use std::ops::Range;

use anyhow::{Context, Result, bail};

/// Below the range from which kernels give ports to outgoing connections
/// (32768 on Linux, 49152 elsewhere): a client must not take a port between our
/// choice of it and the server's bind.
const RANGE: Range<u16> = 20_000..30_000;

/// A port on 127.0.0.1. It is ours as long as this value lives: a locked file says
/// so to every other cluster of this user, and the kernel drops the lock with us.
#[derive(Debug)]
pub(crate) struct Port {
    pub(crate) number: u16,
    _lock: File,
}

impl Port {
    pub(crate) fn take() -> Result<Self> {
        let dir = std::env::temp_dir().join(format!("numo-ports-{}", nix::unistd::getuid()));
        fs::create_dir_all(&dir).with_context(|| format!("create {}", dir.display()))?;
        let length = RANGE.end - RANGE.start;
        // Somewhere else each time, so that parallel starts seldom try the same ones.
        let offset = u16::try_from(RandomState::new().hash_one(0) % u64::from(length)).unwrap_or_default();
        for step in 0..length {
            let number = RANGE.start + (offset + step) % length;
            let lock = File::create(dir.join(number.to_string()))?;
            if lock.try_lock().is_ok() && TcpListener::bind((Ipv4Addr::LOCALHOST, number)).is_ok() {
                return Ok(Self { number, _lock: lock });
            }
        }
        bail!("every port of {RANGE:?} is in use");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn ports_held_at_one_time_differ() {
        let held: Vec<_> = (0..200).map(|_| Port::take().unwrap()).collect();
        let numbers: BTreeSet<_> = held.iter().map(|port| port.number).collect();
        assert_eq!(numbers.len(), held.len());
    }

    #[test]
    fn port_in_use_is_not_given() {
        let held = Port::take().unwrap();
        let lock = File::create(
            std::env::temp_dir()
                .join(format!("numo-ports-{}", nix::unistd::getuid()))
                .join(held.number.to_string()),
        )
        .unwrap();
        assert!(lock.try_lock().is_err());
    }
}
