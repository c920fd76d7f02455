//! Every scheduling feature in one program, so that every scheduler phase has something to do: AIC, AIV and MIX tasks, an
//! alloc, a manual scope with explicit dependencies, a dummy, a task whose predicate is false, early dispatch, a task that
//! completes by an event, a sync-start SPMD task, and a graph task. One vector goes through it several times.

use super::small_integers;
use crate::builder::{BuildError, ProgramBuilder};
use crate::memory::{KernelCtx, share};
use crate::program::{AIC, AIV0, AIV1, KernelId, Program, TensorId};
use dfx_collector::abi::tensor::DataType::Float32;
use std::time::Duration;

/// Elements of the vector.
const N: u32 = 768;
/// How often it goes through.
const ROUNDS: usize = 6;
/// How long after its kernel the asynchronous task completes.
const EVENT: Duration = Duration::from_micros(150);

/// The kernels, by what they do.
struct Kernels {
    double_on_aic: KernelId,
    add_on_aiv: KernelId,
    subtract_third: KernelId,
    sum: KernelId,
    update_on_aiv: KernelId,
    poison: KernelId,
    update_node: KernelId,
    mean: KernelId,
}

impl Kernels {
    fn new(p: &mut ProgramBuilder) -> Self {
        let short = Duration::from_micros(15);
        Self {
            double_on_aic: p.kernel("double_on_aic", short, |ctx| {
                let (x, out) = (ctx.tensor(0), ctx.tensor(1));
                out.fill_in(0..out.len(), |i| 2.0 * x.f32(i));
            }),
            add_on_aiv: p.kernel("add_on_aiv", short, |ctx| {
                let (x, out, by) = (ctx.tensor(0), ctx.tensor(1), ctx.scalar_f32(0));
                out.fill_in(0..out.len(), |i| x.f32(i) + by);
            }),
            // Each subtask of the MIX task takes a third.
            subtract_third: p.kernel("subtract_third", Duration::from_micros(25), |ctx| {
                let (x, y, out) = (ctx.tensor(0), ctx.tensor(1), ctx.tensor(2));
                out.fill_in(share(out.len(), ctx.subtask, 3), |i| x.f32(i) - y.f32(i));
            }),
            sum: p.kernel("sum", short, |ctx| {
                let (x, y, out) = (ctx.tensor(0), ctx.tensor(1), ctx.tensor(2));
                out.fill_in(0..out.len(), |i| x.f32(i) + y.f32(i));
            }),
            update_on_aiv: p.kernel("update_on_aiv", short, |ctx| {
                let len = ctx.tensor(0).len();
                update(ctx, ctx.share(len));
            }),
            poison: p.kernel("poison", short, |ctx| {
                let x = ctx.tensor(0);
                x.fill_in(0..x.len(), |_| f32::NAN);
            }),
            update_node: p.kernel("update_node", short, node),
            mean: p.kernel("mean", short, |ctx| {
                let (x, out) = (ctx.tensor(0), ctx.tensor(1));
                out.fill_in(0..out.len(), |i| 0.5 * (out.f32(i) + x.f32(i)));
            }),
        }
    }
}

/// Multiplies by the first scalar and adds the second, on part of the only tensor.
fn update(ctx: &KernelCtx<'_>, part: std::ops::Range<usize>) {
    let (x, by, plus) = (ctx.tensor(0), ctx.scalar_f32(0), ctx.scalar_f32(1));
    x.fill_in(part, |i| by * x.f32(i) + plus);
}

/// Nodes 0 and 1 update a half each; node 2, on both AIV cores, negates a half on each.
fn node(ctx: &KernelCtx<'_>) {
    let x = ctx.tensor(0);
    match ctx.node() {
        Some(half @ (0 | 1)) => update(ctx, share(x.len(), half, 2)),
        _ => x.fill_in(share(x.len(), usize::from(ctx.subtask == AIV1), 2), |i| -x.f32(i)),
    }
}

pub(super) fn build(seed: u64) -> Result<Program, BuildError> {
    let mut p = ProgramBuilder::new("mixed");
    p.pace(true);
    let kernels = Kernels::new(&mut p);
    let mut values = small_integers(seed, N as usize, -100..=100);
    let state = p.host_f32("state", &[N], &values)?;
    for _ in 0..ROUNDS {
        p.scope_begin();
        round(&mut p, &kernels, state)?;
        p.scope_end()?;
        values.iter_mut().enumerate().for_each(|(i, value)| *value = expected(i, *value));
    }
    p.expect_f32(vec![(state, values)]);
    p.build()
}

fn round(p: &mut ProgramBuilder, k: &Kernels, state: TensorId) -> Result<(), BuildError> {
    let [doubled, raised, work, out] =
        ["doubled", "raised", "work", "out"].map(|name| p.tensor(name, Float32, &[N]));
    let (doubled, raised, work, out) = (doubled?, raised?, work?, out?);
    let low = p.view(work, "work.low", &[N / 2], &[1], 0)?;
    let high = p.view(work, "work.high", &[N / 2], &[1], u64::from(N / 2))?;

    p.submit().aic(k.double_on_aic).input(state).output(doubled).done()?;
    p.submit().aiv(k.add_on_aiv).input(state).output(raised).f32(1.0).done()?;
    p.alloc(&[work])?;
    let third = k.subtract_third;
    let mix = p.submit().aic(third).aiv(third).aiv1(third);
    let mix = mix.input(doubled).input(raised).output_existing(work).done()?;

    p.manual_scope_begin();
    let by_hand = |p: &mut ProgramBuilder, x, by, plus, deps: &[_]| {
        p.submit().aiv(k.update_on_aiv).inout(x).f32(by).f32(plus).deps(deps).done()
    };
    let first = by_hand(p, low, 1.0, 10.0, &[mix])?;
    let second = by_hand(p, high, 1.0, 20.0, &[mix])?;
    let both = p.submit().deps(&[first, second]).done()?;
    let halved = by_hand(p, work, 0.5, 0.0, &[both])?;
    p.scope_end()?;

    p.submit().aiv(k.sum).input(work).input(doubled).output(out).deps(&[halved]).early_dispatch().done()?;
    p.submit().aiv(k.poison).inout(out).predicate(false).done()?;
    p.submit().aiv(k.update_on_aiv).inout(out).f32(1.0).f32(3.0).async_after(EVENT).done()?;
    p.submit().aiv(k.update_on_aiv).inout(out).f32(0.5).f32(1.0).blocks(2).sync_start().done()?;
    let on = |slot: usize| {
        let mut slots = [None; 3];
        slots[slot] = Some(k.update_node);
        slots
    };
    let both_aiv = [None, Some(k.update_node), Some(k.update_node)];
    let graph = p.submit().inout(out).f32(1.0).f32(2.0);
    graph.node(on(AIC), &[]).node(on(AIV0), &[]).node(both_aiv, &[0, 1]).done()?;
    p.submit().aiv(k.mean).input(out).inout(state).early_dispatch().done()?;
    Ok(())
}

/// What a round makes of element `i`.
fn expected(i: usize, state: f32) -> f32 {
    let raised_by = if i < N as usize / 2 { 10.0 } else { 20.0 };
    let work = (2.0 * state - (state + 1.0) + raised_by) * 0.5;
    let out = ((work + 2.0 * state) + 3.0) * 0.5 + 1.0;
    0.5 * (state - (out + 2.0))
}
