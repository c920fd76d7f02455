//! A cache far larger than what a drain can carry: 64 tasks, one after the other, each of which is given all of it and
//! changes a little of it everywhere, and a small `probe`, which is what one would want to look at.

use crate::builder::{BuildError, ProgramBuilder};
use crate::program::{Init, Program};
use dfx_collector::abi::tensor::DataType::{Float32, Uint32};
use std::time::Duration;

/// Tasks.
const TASKS: u32 = 64;
/// Most GiB: the cache's row number fits a tensor's extent many times over.
pub(super) const MAX: u32 = 1 << 10;
/// Elements of a row of the cache, which is 1 MiB.
const ROW: u32 = 1 << 18;
/// Words that a task changes per row, far apart.
const WORDS: u32 = 4;
/// Elements of `probe`, which is 1 MiB.
const PROBE: u32 = 1 << 18;

/// `cache` takes memory only where it is written: what nobody has touched reads as zero.
pub(super) fn build(gib: u32) -> Result<Program, BuildError> {
    let mut p = ProgramBuilder::new("kv_cache");
    p.pace(true);
    let attend = p.kernel("attend", Duration::from_millis(1), |ctx| {
        let (cache, probe, step) = (ctx.tensor(0), ctx.tensor(1), ctx.scalar(0));
        for row in 0..u64::from(cache.shape()[0]) {
            for word in 0..u64::from(WORDS) {
                let place = row * u64::from(ROW) + word * u64::from(ROW / WORDS);
                cache.set_bits(place as usize, step << 20 | row << 2 | word);
            }
        }
        probe.fill_in(0..probe.len(), |_| step as f32);
    });
    let cache = p.host("cache", Uint32, &[gib << 10, ROW], Init::Zero)?;
    let probe = p.host("probe", Float32, &[PROBE], Init::Zero)?;
    for step in 1..=TASKS {
        p.submit().aiv(attend).inout(cache).inout(probe).u32(step).done()?;
    }
    p.expect_f32(vec![(probe, vec![TASKS as f32; PROBE as usize])]);
    p.build()
}
