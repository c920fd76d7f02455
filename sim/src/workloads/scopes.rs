//! Scopes in scopes, on small heaps: what each holds comes to more than a ring's heap in some and to far less in others.
//! In ring 0 and 1 no heap pointer ever passes its end, in ring 2 six times per scope, in ring 3 once or not at all.
//! Every task makes a tensor of one value, which the next adds to a sum.

use crate::builder::{BuildError, ProgramBuilder};
use crate::program::{KernelId, Program, TensorId};
use dfx_collector::abi::tensor::DataType::Float32;
use std::time::Duration;

/// Bytes of each ring's heap.
const HEAP: u64 = 16 << 10;
/// Elements of the sum.
const N: u32 = 256;
/// How often the outermost scope is opened.
const ROUNDS: u32 = 4;
/// Tensors in a scope of ring 2: six heaps' worth.
const MANY: u32 = 24;

struct Parts {
    make: KernelId,
    add: KernelId,
    sum: TensorId,
    made: u32,
}

impl Parts {
    /// Makes `count` tensors of `kib` KiB one after the other, and adds each to the sum.
    fn tensors(&mut self, p: &mut ProgramBuilder, count: u32, kib: u32) -> Result<(), BuildError> {
        for _ in 0..count {
            self.made += 1;
            let tensor = p.tensor("part", Float32, &[kib * N])?;
            p.submit().aic(self.make).output(tensor).f32(self.made as f32).done()?;
            p.submit().aiv(self.add).input(tensor).inout(self.sum).done()?;
        }
        Ok(())
    }
}

pub(super) fn build() -> Result<Program, BuildError> {
    let mut p = ProgramBuilder::new("scopes");
    p.ring_heap(HEAP);
    let make = p.kernel("make", Duration::from_micros(4), |ctx| {
        let (out, value) = (ctx.tensor(0), ctx.scalar_f32(0));
        out.fill_in(0..out.len(), |_| value);
    });
    // The part's last elements: they are there only if the whole of it is.
    let add = p.kernel("add", Duration::from_micros(3), |ctx| {
        let (part, sum) = (ctx.tensor(0), ctx.tensor(1));
        let skip = part.len() - sum.len();
        sum.fill_in(0..sum.len(), |i| sum.f32(i) + part.f32(skip + i));
    });
    let sum = p.host_f32("sum", &[N], &[0.0; N as usize])?;
    let mut parts = Parts { make, add, sum, made: 0 };
    parts.tensors(&mut p, 1, 1)?;
    for _ in 0..ROUNDS {
        p.scope_begin();
        parts.tensors(&mut p, 2, 1)?;
        p.scope_begin();
        parts.tensors(&mut p, MANY, 4)?;
        p.scope_begin();
        parts.tensors(&mut p, 5, 3)?;
        // As deep as rings go, and deeper: the same ring.
        p.scope_begin();
        parts.tensors(&mut p, 1, 2)?;
        p.scope_end()?;
        p.scope_end()?;
        p.scope_end()?;
        p.scope_begin();
        p.scope_end()?;
        p.scope_end()?;
    }
    parts.tensors(&mut p, 1, 1)?;
    // Small whole numbers: exact in any order.
    let expected = (1..=parts.made).sum::<u32>() as f32;
    p.expect_f32(vec![(sum, vec![expected; N as usize])]);
    p.build()
}
