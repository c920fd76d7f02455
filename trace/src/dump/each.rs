//! Work on many records at once.

use super::DumpError;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// More threads than this only wait for the disk.
const MAX_THREADS: usize = 8;

/// `work` of each item, in the order of the items; of several errors the first.
pub(super) fn map<I: Copy + Sync, T: Send>(
    items: &[I],
    work: impl Fn(I) -> Result<T, DumpError> + Sync,
) -> Result<Vec<T>, DumpError> {
    let threads = thread::available_parallelism().map_or(1, usize::from).min(MAX_THREADS).min(items.len());
    if threads < 2 {
        return items.iter().map(|&item| work(item)).collect();
    }
    let next = AtomicUsize::new(0);
    let results = Mutex::new(Vec::with_capacity(items.len()));
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    let Some(&item) = items.get(at) else { break };
                    let result = work(item);
                    if result.is_err() {
                        next.store(items.len(), Ordering::Relaxed);
                    }
                    results.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).push((at, result));
                }
            });
        }
    });
    let mut results = results.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner());
    results.sort_by_key(|&(at, _)| at);
    results.into_iter().map(|(_, result)| result).collect()
}
