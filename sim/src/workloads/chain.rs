//! One task after the other: every task adds 1 to the same counter, AIC and AIV in turn.

use crate::builder::{BuildError, ProgramBuilder};
use crate::program::{Init, Program};
use dfx_collector::abi::tensor::DataType::Int32;
use std::time::Duration;

pub(super) fn build(submits: u32) -> Result<Program, BuildError> {
    let mut p = ProgramBuilder::new("chain");
    let step = |ctx: &crate::memory::KernelCtx<'_>| {
        let counter = ctx.tensor(0);
        counter.set_i32(0, counter.i32(0).wrapping_add(1));
    };
    let on_aic = p.kernel("step_aic", Duration::from_micros(2), step);
    let on_aiv = p.kernel("step_aiv", Duration::from_micros(2), step);
    let counter = p.host("counter", Int32, &[1], Init::Zero)?;
    for number in 0..submits {
        let submit = p.submit();
        let submit = if number % 2 == 0 { submit.aic(on_aic) } else { submit.aiv(on_aiv) };
        submit.inout(counter).done()?;
    }
    let mut program = p.build()?;
    let counter = program.tensors[counter.0 as usize].clone();
    program.verify = Some(std::sync::Arc::new(move |memory| match memory.tensor(&counter).i32(0) {
        count if count as u32 == submits => Ok(()),
        count => Err(format!("the counter is {count} after {submits} steps")),
    }));
    Ok(program)
}
