//! The runtime's own first example, as the captured artifacts show it: `f = (c + 1) · (c + 2) + c` with `c = a + b`.
//! The sum is made in the outer ring, the rest in a scope of its own; `f` belongs to the host.

use crate::builder::{BuildError, ProgramBuilder};
use crate::program::Program;
use dfx_collector::abi::tensor::DataType::Float32;
use std::time::Duration;

/// Elements of each tensor.
const N: u32 = 16_384;
/// The last scalar of two of the kernels, as captured.
const TRAILING: u32 = 3;

pub(super) fn build() -> Result<Program, BuildError> {
    let mut p = ProgramBuilder::new("vector_example");
    p.pace(true);
    let kernel_add = p.kernel("kernel_add", Duration::from_micros(40), |ctx| {
        let (x, y, out) = (ctx.tensor(0), ctx.tensor(1).read_to_vec_f32(), ctx.tensor(2));
        let x = x.read_to_vec_f32();
        out.fill_in(0..out.len(), |i| x[i] + y[i]);
    });
    let kernel_add_scalar = p.kernel("kernel_add_scalar", Duration::from_micros(30), |ctx| {
        let (x, out, by) = (ctx.tensor(0).read_to_vec_f32(), ctx.tensor(1), ctx.scalar_f32(0));
        out.fill_in(0..out.len(), |i| x[i] + by);
    });
    let kernel_mul = p.kernel("kernel_mul", Duration::from_micros(40), |ctx| {
        let (x, y) = (ctx.tensor(0).read_to_vec_f32(), ctx.tensor(1).read_to_vec_f32());
        let out = ctx.tensor(2);
        out.fill_in(0..out.len(), |i| x[i] * y[i]);
    });

    let (a_values, b_values) = (vec![2.0; N as usize], vec![3.0; N as usize]);
    let a = p.host_f32("a", &[N], &a_values)?;
    let b = p.host_f32("b", &[N], &b_values)?;
    let f = p.host_f32("f", &[N], &vec![0.0; N as usize])?;
    let [c, d, e, g] = ["c", "d", "e", "g"].map(|name| p.tensor(name, Float32, &[N]));
    let (c, d, e, g) = (c?, d?, e?, g?);

    p.submit().aiv(kernel_add).input(a).input(b).output(c).done()?;
    p.scope_begin();
    p.submit().aiv(kernel_add_scalar).input(c).output(d).f32(1.0).u32(TRAILING).done()?;
    p.submit().aiv(kernel_add_scalar).input(c).output(e).f32(2.0).u32(TRAILING).done()?;
    p.submit().aiv(kernel_mul).input(d).input(e).output(g).u32(TRAILING).done()?;
    p.submit().aiv(kernel_add).input(g).input(c).output_existing(f).done()?;
    p.scope_end()?;

    let value = |(a, b): (&f32, &f32)| {
        let c = f64::from(*a) + f64::from(*b);
        (c * c + 4.0 * c + 2.0) as f32
    };
    p.expect_f32(vec![(f, a_values.iter().zip(&b_values).map(value).collect())]);
    p.build()
}
