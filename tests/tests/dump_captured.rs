//! The dumps that the existing runtime left, again from simulated workloads: every field of every entry, and every byte.
//! Only where in `args.bin` a payload lies may differ: there it does so from run to run.

use dfx_collector::abi::tensor::DataType::Float32;
use dfx_host_drain::DfxConfig;
use dfx_sim::builder::{BuildError, ProgramBuilder};
use dfx_sim::program::{KernelId, Program, TensorId};
use dfx_sim::run::{ClockKind, Rig, RunRequest};
use dfx_tests::dump::Dump;
use dfx_tests::{A2A3, A5, interop_dir, run_on};
use std::path::Path;
use std::time::Duration;

/// Elements of each tensor.
const N: u32 = 16_384;
/// How long a kernel takes.
const SHORT: Duration = Duration::from_micros(20);

/// The kernel of both examples that comes first: `out = x + y`.
fn add(p: &mut ProgramBuilder) -> KernelId {
    p.kernel("add", SHORT, |ctx| {
        let (x, y, out) = (ctx.tensor(0), ctx.tensor(1), ctx.tensor(2));
        out.fill_in(0..out.len(), |i| x.f32(i) + y.f32(i));
    })
}

/// A tensor that the host makes, with one value everywhere.
fn host(p: &mut ProgramBuilder, name: &str, value: f32) -> Result<TensorId, BuildError> {
    p.host_f32(name, &[N], &vec![value; N as usize])
}

/// The runtime's example of partial dumps: a whole task marked twice, a lone scalar, and a task of which two tensors are
/// marked and a scalar that is given twice.
fn partial() -> Result<Program, BuildError> {
    let mut p = ProgramBuilder::new("args_dump_partial");
    let add = add(&mut p);
    let add_scalar = p.kernel("add_scalar", SHORT, |ctx| {
        let (x, out, by) = (ctx.tensor(0), ctx.tensor(1), ctx.scalar_f32(0));
        out.fill_in(0..out.len(), |i| x.f32(i) + by);
    });
    let mul = p.kernel("mul", SHORT, |ctx| {
        let (x, y, out) = (ctx.tensor(0), ctx.tensor(1), ctx.tensor(2));
        out.fill_in(0..out.len(), |i| x.f32(i) * y.f32(i));
    });
    let (a, b, f) = (host(&mut p, "a", 2.0)?, host(&mut p, "b", 3.0)?, host(&mut p, "f", 0.0)?);
    let [c, d, e, g] = ["c", "d", "e", "g"].map(|name| p.tensor(name, Float32, &[N]));
    let (c, d, e, g) = (c?, d?, e?, g?);
    p.submit().aiv(add).input(a).input(b).output(c).done()?;
    p.scope_begin();
    p.submit().aiv(add_scalar).input(c).output(d).f32(1.0).u32(3).dump_task().done()?;
    p.submit().aiv(add_scalar).input(c).output(e).f32(2.0).u32(3).dump_scalar(0).done()?;
    let product = p.submit().aiv(mul).input(d).input(e).output(g).u32(3).u32(3);
    product.dumps(&[d, g]).dump_scalar(0).done()?;
    p.submit().aiv(add).input(g).input(c).output_existing(f).dump_task().done()?;
    p.scope_end()?;
    p.build()
}

/// The example of a graph that the host built: two tasks, of which the second, which works in place, is marked.
fn host_built() -> Result<Program, BuildError> {
    let mut p = ProgramBuilder::new("hbg_dump_args");
    let add = add(&mut p);
    let raise = p.kernel("raise", SHORT, |ctx| {
        let (x, by) = (ctx.tensor(0), ctx.scalar_f32(0));
        x.fill_in(0..x.len(), |i| x.f32(i) + by);
    });
    let (a, b, f) = (host(&mut p, "a", 2.0)?, host(&mut p, "b", 3.0)?, host(&mut p, "f", 0.0)?);
    p.submit().aiv(add).input(a).input(b).output_existing(f).done()?;
    p.submit().aiv(raise).inout(f).f32(1.0).dump_task().done()?;
    p.build()
}

/// The dump in `dir`, without the places of its payload.
fn placeless(dir: &Path) -> Dump {
    let mut dump = Dump::read(dir);
    for arg in dump.args.values_mut() {
        arg.entry.as_object_mut().expect("an object").remove("bin_offset");
    }
    dump
}

/// Issue 4, point 5.
#[test]
fn every_captured_dump_comes_out_again_field_by_field_and_byte_by_byte() {
    let Some(interop) = interop_dir() else { return };
    let (partial, host_built) = (partial().expect("a program"), host_built().expect("a program"));
    for (name, program, target, levels) in [
        ("a2a3_args_dump_partial", &partial, A2A3, &[1, 2, 3][..]),
        ("a2a3_hbg_dump_args", &host_built, A2A3, &[1, 2, 3]),
        ("a5_hbg_dump_args", &host_built, A5, &[2, 3]),
    ] {
        for &level in levels {
            let mut request =
                RunRequest { target, clock: ClockKind::Virtual, ..RunRequest::new(program.name.clone(), "") };
            request.config.dump_args = DfxConfig::dump_level(level).expect("a level");
            let run = run_on(request, program.clone(), &Rig::new(target));
            assert!(run.report().complete, "{name}: {:#?}", run.report().reasons);
            let captured = placeless(&interop.join(format!("{name}/dump{level}/default")));
            let ours = placeless(&run.outputs());
            assert_eq!(ours.head, captured.head, "{name}, level {level}");
            assert_eq!(ours.order, captured.order, "{name}, level {level}");
            for (place, arg) in &ours.args {
                let theirs = &captured.args[place];
                assert_eq!(arg.entry, theirs.entry, "{name}, level {level}: {place:?}");
                assert!(arg.bytes == theirs.bytes, "{name}, level {level}: {place:?} has other bytes");
            }
        }
    }
}
