//! Attention over a paged cache of keys and values, as the captured runs have it: per block of 16 cached tokens, on 16
//! heads of 16 elements,
//!
//! ```text
//!  QK (AIC)  s = q · kᵀ          SF (AIV)  p = exp(s - m), m and l per head
//!  PV (AIC)  o = p · v           UP (AIV)  merges (m, l, o) into the sequence's own; the last one writes o / l
//! ```
//!
//! Each sequence opens a scope with an alloc for its m, l and o; each block opens one inside with its four tasks. The
//! captured run has 4 sequences of 33, 64, 128 and 15 tokens: 64 tasks and 4 allocs. The results are compared with the
//! plain softmax in f64; only `p` is rounded (to bf16), so that they differ by less than a part in a hundred.

use super::small_integers;
use crate::builder::{BuildError, ProgramBuilder};
use crate::memory::{KernelCtx, TensorView};
use crate::program::{Init, KernelId, Program, TensorId};
use dfx_collector::abi::tensor::DataType::{Bfloat16, Float32, Uint64};
use std::sync::Arc;
use std::time::Duration;

/// Heads, elements of a head, tokens of a block: a tile is square.
const SIDE: u32 = 16;
const TILE: u32 = SIDE * SIDE;
/// Blocks of the cache.
const BLOCKS: u32 = 32;
/// The captured sequences: tokens, and the blocks of the cache that hold them.
const SEQUENCES: [(u32, &[u32]); 4] =
    [(33, &[22, 6, 23]), (64, &[20, 11, 1, 18]), (128, &[26, 5, 11, 2, 8, 11, 21, 5]), (15, &[27])];
/// Sequences by default.
pub(super) const DEFAULT: u32 = SEQUENCES.len() as u32;
/// Most sequences: their queries are one buffer, whose elements a view counts in 32 bits.
pub(super) const MAX: u32 = 65_536;
/// What the scores are multiplied by.
const SCALE: f32 = 1.0;
/// How far a result may be from the plain computation.
const TOLERANCE: f32 = 0.01;

/// The tensors of the whole program.
struct Tensors {
    query: TensorId,
    keys: TensorId,
    values: TensorId,
    out: TensorId,
}

/// A sequence's own: what its blocks are merged into.
struct Merged {
    m: TensorId,
    l: TensorId,
    o: TensorId,
}

struct Kernels {
    qk: KernelId,
    sf: KernelId,
    pv: KernelId,
    up: KernelId,
}

pub(super) fn build(sequences: u32, seed: u64) -> Result<Program, BuildError> {
    let mut p = ProgramBuilder::new("paged_attention");
    let kernels = Kernels {
        qk: p.kernel("QK", Duration::from_micros(30), scores),
        sf: p.kernel("SF", Duration::from_micros(20), softmax),
        pv: p.kernel("PV", Duration::from_micros(30), weighted),
        up: p.kernel("UP", Duration::from_micros(15), update),
    };
    // Multiples of 1/4 up to 2: exact in bf16.
    let quarters = |seed, tiles: u32, most: i16| -> Vec<f32> {
        small_integers(seed, (tiles * TILE) as usize, -most..=most).iter().map(|value| value / 4.0).collect()
    };
    let query = quarters(seed, sequences, 4);
    let keys = quarters(seed.wrapping_add(1), BLOCKS, 4);
    let values = quarters(seed.wrapping_add(2), BLOCKS, 8);
    let bf16 = |p: &mut ProgramBuilder, name, values: &[f32], tiles: u32| {
        let bytes = values.iter().flat_map(|value| to_bf16(*value).to_le_bytes()).collect();
        p.host(name, Bfloat16, &[tiles * SIDE, SIDE], Init::Bytes(bytes))
    };
    let tensors = Tensors {
        query: bf16(&mut p, "query", &query, sequences)?,
        keys: bf16(&mut p, "key_cache", &keys, BLOCKS)?,
        values: bf16(&mut p, "value_cache", &values, BLOCKS)?,
        out: p.host("out", Float32, &[sequences * SIDE, SIDE], Init::Zero)?,
    };
    for sequence in 0..sequences {
        p.scope_begin();
        let merged = Merged {
            o: p.tensor("o", Float32, &[SIDE, SIDE])?,
            l: per_head(&mut p, "l")?,
            m: per_head(&mut p, "m")?,
        };
        p.alloc(&[merged.o, merged.l, merged.m])?;
        let (tokens, blocks) = SEQUENCES[sequence as usize % SEQUENCES.len()];
        for (i, &block) in (0..).zip(blocks) {
            p.scope_begin();
            let last = i as usize + 1 == blocks.len();
            let valid = (tokens - i * SIDE).min(SIDE);
            one_block(
                &mut p,
                &kernels,
                &tensors,
                &merged,
                Block { sequence, block, valid, first: i == 0, last },
            )?;
            p.scope_end()?;
        }
        p.scope_end()?;
    }
    let mut program = p.build()?;
    let out = program.tensors[tensors.out.0 as usize].clone();
    let expected = reference(sequences, &query, &keys, &values);
    program.verify = Some(Arc::new(move |memory| {
        let found = memory.tensor(&out).read_to_vec_f32();
        // NaN is not close to anything.
        let close = |(found, expected): (&f32, &f32)| (found - expected).abs() <= TOLERANCE;
        match found.iter().zip(&expected).position(|pair| !close(pair)) {
            Some(i) => {
                Err(format!("`out`[{i}] is {}, expected {} within {TOLERANCE}", found[i], expected[i]))
            }
            None => Ok(()),
        }
    }));
    Ok(program)
}

/// One value per head. Its buffer is a whole KiB: the runtime's heap gives no less.
fn per_head(p: &mut ProgramBuilder, name: &str) -> Result<TensorId, BuildError> {
    let buffer = p.tensor(name, Float32, &[256])?;
    p.view(buffer, name, &[SIDE], &[1], 0)
}

/// What the tasks of a block are about.
struct Block {
    sequence: u32,
    block: u32,
    /// Tokens of the block that are the sequence's.
    valid: u32,
    first: bool,
    last: bool,
}

fn one_block(
    p: &mut ProgramBuilder,
    kernels: &Kernels,
    tensors: &Tensors,
    merged: &Merged,
    of: Block,
) -> Result<(), BuildError> {
    let tile = |p: &mut ProgramBuilder, whole, name, number: u32| {
        p.view(whole, name, &[SIDE, SIDE], &[SIDE, 1], u64::from(number) * u64::from(TILE))
    };
    let q = tile(p, tensors.query, "q", of.sequence)?;
    let k = tile(p, tensors.keys, "k", of.block)?;
    let v = tile(p, tensors.values, "v", of.block)?;
    let out = tile(p, tensors.out, "out", of.sequence)?;
    let s = p.tensor("s", Float32, &[SIDE, SIDE])?;
    let s_valid = p.view(s, "s.valid", &[SIDE, of.valid], &[SIDE, 1], 0)?;
    let prob = p.tensor("p", Bfloat16, &[2 * TILE])?;
    let prob = p.view(prob, "p", &[SIDE, SIDE], &[SIDE, 1], 0)?;
    let (m, l) = (per_head(p, "m.block")?, per_head(p, "l.block")?);
    let o = p.tensor("o.block", Float32, &[SIDE, SIDE])?;
    let raw = |value: u32| u64::from(value);

    p.submit().aic(kernels.qk).input(q).input(k).output(s).done()?;
    let softmax = p.submit().aiv(kernels.sf).input(s_valid).output(prob).output(m).output(l);
    softmax.scalar(raw(SCALE.to_bits()), Uint64).done()?;
    p.submit().aic(kernels.pv).input(prob).input(v).output(o).done()?;
    let update = p.submit().aiv(kernels.up).input(m).input(l).input(o);
    let update = update.inout(merged.m).inout(merged.l).inout(merged.o).inout(out);
    update.scalar(raw(of.first.into()), Uint64).scalar(raw(of.last.into()), Uint64).done()?;
    Ok(())
}

/// The nearest bf16 to a finite value, ties to even.
fn to_bf16(value: f32) -> u16 {
    let bits = value.to_bits();
    ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16) as u16
}

fn from_bf16(bits: u16) -> f32 {
    f32::from_bits(u32::from(bits) << 16)
}

fn read_bf16(view: TensorView<'_>) -> Vec<f32> {
    (0..view.len()).map(|i| from_bf16(view.bits(i) as u16)).collect()
}

/// `a · b`, or `a · bᵀ`, of two square tiles.
fn product(a: &[f32], b: &[f32], transposed: bool) -> Vec<f32> {
    let n = SIDE as usize;
    let at = |i: usize, j: usize| if transposed { b[j * n + i] } else { b[i * n + j] };
    let element = |(row, col)| (0..n).map(|i| a[row * n + i] * at(i, col)).sum();
    (0..n * n).map(|place| element((place / n, place % n))).collect()
}

fn scores(ctx: &KernelCtx<'_>) {
    let (q, k) = (read_bf16(ctx.tensor(0)), read_bf16(ctx.tensor(1)));
    ctx.tensor(2).write_from_f32(&product(&q, &k, true));
}

fn softmax(ctx: &KernelCtx<'_>) {
    let (s, p, m, l) = (ctx.tensor(0), ctx.tensor(1), ctx.tensor(2), ctx.tensor(3));
    let scale = ctx.scalar_f32(0);
    let valid = s.shape()[1];
    for head in 0..SIDE {
        let score = |token| scale * s.at_f32(&[head, token]);
        let most = (0..valid).map(score).fold(f32::NEG_INFINITY, f32::max);
        let mut sum = 0.0;
        for token in 0..SIDE {
            let weight = if token < valid { to_bf16((score(token) - most).exp()) } else { 0 };
            p.set_bits(p.linear(&[head, token]), weight.into());
            // Of what is used, so that the weights come to 1.
            sum += from_bf16(weight);
        }
        m.set_f32(head as usize, most);
        l.set_f32(head as usize, sum);
    }
}

fn weighted(ctx: &KernelCtx<'_>) {
    let (p, v) = (read_bf16(ctx.tensor(0)), read_bf16(ctx.tensor(1)));
    ctx.tensor(2).write_from_f32(&product(&p, &v, false));
}

fn update(ctx: &KernelCtx<'_>) {
    let [m_block, l_block, o_block, m, l, o, out] = std::array::from_fn(|i| ctx.tensor(i));
    let (first, last) = (ctx.scalar(0) != 0, ctx.scalar(1) != 0);
    let n = SIDE as usize;
    for head in 0..n {
        let (before, now) = (if first { f32::NEG_INFINITY } else { m.f32(head) }, m_block.f32(head));
        let most = before.max(now);
        let (keep, take) = ((before - most).exp(), (now - most).exp());
        let old = |value: f32| if first { 0.0 } else { keep * value };
        let sum = old(l.f32(head)) + take * l_block.f32(head);
        m.set_f32(head, most);
        l.set_f32(head, sum);
        for at in head * n..(head + 1) * n {
            let merged = old(o.f32(at)) + take * o_block.f32(at);
            o.set_f32(at, merged);
            if last {
                out.set_f32(at, merged / sum);
            }
        }
    }
}

/// The softmax of all scores of a head at once, in f64.
fn reference(sequences: u32, query: &[f32], keys: &[f32], values: &[f32]) -> Vec<f32> {
    let n = SIDE as usize;
    let mut out = Vec::with_capacity(query.len());
    for sequence in 0..sequences as usize {
        let (tokens, blocks) = SEQUENCES[sequence % SEQUENCES.len()];
        let rows: Vec<usize> =
            (0..tokens as usize).map(|token| (blocks[token / n] as usize * n + token % n) * n).collect();
        for head in 0..n {
            let q = &query[(sequence * n + head) * n..][..n];
            let dot = |row: &usize| -> f64 {
                q.iter().zip(&keys[*row..]).map(|(q, k)| f64::from(*q) * f64::from(*k)).sum()
            };
            let weights: Vec<f64> = rows.iter().map(|row| (f64::from(SCALE) * dot(row)).exp()).collect();
            let all: f64 = weights.iter().sum();
            out.extend((0..n).map(|col| {
                let sum: f64 = rows
                    .iter()
                    .zip(&weights)
                    .map(|(row, weight)| weight * f64::from(values[row + col]))
                    .sum();
                (sum / all) as f32
            }));
        }
    }
    out
}
