//! One task on many cores: every block sums its share of `x`, a single task sums the sums, and two blocks that start
//! together add the total to every element.

use super::small_integers;
use crate::builder::{BuildError, ProgramBuilder};
use crate::program::Program;
use dfx_collector::abi::tensor::DataType::Float32;
use std::time::Duration;

/// Elements per block.
const SHARE: u32 = 64;

pub(super) fn build(blocks: u32, seed: u64) -> Result<Program, BuildError> {
    let mut p = ProgramBuilder::new("spmd");
    // At most 3 · 64 · 65,535 in all: every sum is exact in 24 bits.
    let n = blocks * SHARE;
    let values = small_integers(seed, n as usize, 0..=3);
    let x = p.host_f32("x", &[n], &values)?;
    let sums = p.tensor("sums", Float32, &[blocks])?;
    let total = p.tensor("total", Float32, &[1])?;
    let shifted = p.tensor("shifted", Float32, &[n])?;

    let sum_share = p.kernel("sum_share", Duration::from_micros(20), |ctx| {
        let (x, sums, mut sum) = (ctx.tensor(0), ctx.tensor(1), 0.0);
        x.for_each_in(ctx.share(x.len()), |_, value| sum += value);
        sums.set_f32(ctx.block_idx as usize, sum);
    });
    let sum_all = p.kernel("sum_all", Duration::from_micros(20), |ctx| {
        let mut sum = 0.0;
        ctx.tensor(0).for_each(|_, value| sum += value);
        ctx.tensor(1).set_f32(0, sum);
    });
    let shift = p.kernel("shift", Duration::from_micros(20), |ctx| {
        let (x, by, out) = (ctx.tensor(0), ctx.tensor(1).f32(0), ctx.tensor(2));
        out.fill_in(ctx.share(x.len()), |i| x.f32(i) + by);
    });
    p.submit().aiv(sum_share).input(x).output(sums).blocks(blocks).done()?;
    p.submit().aiv(sum_all).input(sums).output(total).done()?;
    p.submit().aiv(shift).input(x).input(total).output(shifted).blocks(2).sync_start().done()?;

    let sum: f64 = values.iter().map(|&value| f64::from(value)).sum();
    let expected = values.iter().map(|&value| (f64::from(value) + sum) as f32).collect();
    p.expect_f32(vec![(total, vec![sum as f32]), (shifted, expected)]);
    p.build()
}
