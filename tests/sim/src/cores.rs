//! Work that is split over all cores. It may not know what the work is.

use std::{num::NonZero, panic::resume_unwind, thread};

/// Does the work for each number below `count`, side by side, and returns what comes of it, in the order of the numbers. A panic of the work
/// is one of the caller.
pub fn on_all_cores<R: Send>(count: usize, work: impl Fn(usize) -> R + Sync) -> Vec<R> {
    let threads = thread::available_parallelism().map_or(1, NonZero::get);
    let work = &work;
    let mut all: Vec<(usize, R)> = thread::scope(|scope| {
        let of_part = |part| {
            move || {
                (part..count)
                    .step_by(threads)
                    .map(|one| (one, work(one)))
                    .collect::<Vec<_>>()
            }
        };
        let parts: Vec<_> = (0..threads).map(|part| scope.spawn(of_part(part))).collect();
        let done = parts
            .into_iter()
            .map(|part| part.join().unwrap_or_else(|panic| resume_unwind(panic)));
        done.flatten().collect()
    });
    all.sort_unstable_by_key(|(number, _)| *number);
    all.into_iter().map(|(_, done)| done).collect()
}
