//! A tiled matrix product: `C += A · B` tile by tile on AIC cores, each tile's products one after the other (`INOUT`),
//! then `D = max(C + bias, 0)` on AIV cores.

use super::small_integers;
use crate::builder::{BuildError, ProgramBuilder};
use crate::memory::KernelCtx;
use crate::program::{Init, Program, TensorId};
use dfx_collector::abi::tensor::DataType::Float32;
use std::time::Duration;

/// Rows and columns of a tile.
const TILE: u32 = 64;
/// Rows of `A`, `C` and `D`.
const M: u32 = 3 * TILE;
/// Columns of `B`, `C` and `D`.
const N: u32 = 3 * TILE;
/// Columns of `A`, rows of `B`.
const K: u32 = 2 * TILE;

pub(super) fn build(seed: u64) -> Result<Program, BuildError> {
    let mut p = ProgramBuilder::new("matmul");
    let product = p.kernel("tile_product", Duration::from_micros(60), tile_product);
    let epilogue = p.kernel("bias_relu", Duration::from_micros(15), bias_relu);

    // Products of integers up to 8, 128 to a sum: exact in f32, whatever the order.
    let a_values = small_integers(seed, (M * K) as usize, -8..=8);
    let b_values = small_integers(seed.wrapping_add(1), (K * N) as usize, -8..=8);
    let bias_values = small_integers(seed.wrapping_add(2), N as usize, -8..=8);
    let a = p.host_f32("a", &[M, K], &a_values)?;
    let b = p.host_f32("b", &[K, N], &b_values)?;
    let bias = p.host_f32("bias", &[N], &bias_values)?;
    let c = p.host("c", Float32, &[M, N], Init::Zero)?;
    let d = p.host("d", Float32, &[M, N], Init::Zero)?;
    for row in 0..M / TILE {
        for col in 0..N / TILE {
            let c_tile = tile(&mut p, c, "c", N, row, col)?;
            for inner in 0..K / TILE {
                let a_tile = tile(&mut p, a, "a", K, row, inner)?;
                let b_tile = tile(&mut p, b, "b", N, inner, col)?;
                p.submit().aic(product).input(a_tile).input(b_tile).inout(c_tile).done()?;
            }
            let d_tile = tile(&mut p, d, "d", N, row, col)?;
            let part = p.view(bias, &format!("bias[{col}]"), &[TILE], &[1], u64::from(col * TILE))?;
            p.submit().aiv(epilogue).input(c_tile).input(part).output_existing(d_tile).done()?;
        }
    }
    p.expect_f32(vec![(d, reference(&a_values, &b_values, &bias_values))]);
    p.build()
}

/// Tile (`row`, `col`) of a matrix with rows of `width` elements.
fn tile(
    p: &mut ProgramBuilder,
    of: TensorId,
    name: &str,
    width: u32,
    row: u32,
    col: u32,
) -> Result<TensorId, BuildError> {
    let offset = u64::from(row * TILE * width + col * TILE);
    p.view(of, &format!("{name}[{row},{col}]"), &[TILE, TILE], &[width, 1], offset)
}

fn tile_product(ctx: &KernelCtx<'_>) {
    let (a, b, c) = (ctx.tensor(0).read_to_vec_f32(), ctx.tensor(1).read_to_vec_f32(), ctx.tensor(2));
    let mut sums = c.read_to_vec_f32();
    for (a_row, sums) in a.chunks_exact(TILE as usize).zip(sums.chunks_exact_mut(TILE as usize)) {
        for (a, b_row) in a_row.iter().zip(b.chunks_exact(TILE as usize)) {
            for (sum, b) in sums.iter_mut().zip(b_row) {
                *sum += a * b;
            }
        }
    }
    c.write_from_f32(&sums);
}

fn bias_relu(ctx: &KernelCtx<'_>) {
    let (c, bias, d) = (ctx.tensor(0).read_to_vec_f32(), ctx.tensor(1).read_to_vec_f32(), ctx.tensor(2));
    d.fill_in(0..d.len(), |i| (c[i] + bias[i % TILE as usize]).max(0.0));
}

/// `max(A · B + bias, 0)`, element by element.
fn reference(a: &[f32], b: &[f32], bias: &[f32]) -> Vec<f32> {
    let (n, k) = (N as usize, K as usize);
    let element = |at: usize| {
        let (row, col) = (at / n, at % n);
        let sum: f64 = (0..k).map(|i| f64::from(a[row * k + i]) * f64::from(b[i * n + col])).sum();
        (sum + f64::from(bias[col])).max(0.0) as f32
    };
    (0..(M * N) as usize).map(element).collect()
}
