//! Every kind of task, dumped: its arguments once, as they were before its first block and after its last, whatever number
//! of blocks, cores and nodes it has. What never runs is not dumped.

use dfx_host_drain::DumpLevel;
use dfx_sim::builder::{BuildError, ProgramBuilder};
use dfx_sim::memory::{KernelCtx, share};
use dfx_sim::program::{AIC, AIV0, KernelId, Program, SubmitId};
use dfx_sim::run::{ClockKind, Rig, RunRequest};
use dfx_sim::runtime::Faults;
use dfx_tests::dump::{Dump, Place};
use dfx_tests::{PLATFORMS, run_on};
use serde_json::json;
use std::time::Duration;

/// Elements of the value that goes through all tasks.
const N: usize = 48;
/// The tasks that run, with the kernels that their records name; each adds one to every element.
const TASKS: [(u64, &[i32]); 8] = [
    (0, &[0]),
    (1, &[1, 1, 1]),
    (2, &[0]),
    (3, &[0]),
    (4, &[0]),
    // Dispatched before the one before it ended.
    (5, &[0]),
    (6, &[2]),
    (9, &[0]),
];

/// Adds one to a part of the only tensor.
fn raise(ctx: &KernelCtx<'_>, part: std::ops::Range<usize>) {
    let x = ctx.tensor(0);
    x.fill_in(part, |i| x.f32(i) + 1.0);
}

/// One after the other: a plain task, a MIX task, an SPMD task, one whose blocks start together, one that ends by an event,
/// one that is dispatched early, a graph task, one whose predicate is false, a dummy, and another early one.
fn program() -> Result<Program, BuildError> {
    let mut p = ProgramBuilder::new("tasks");
    let long = Duration::from_micros(30);
    let blocks = p.kernel("blocks", long, |ctx| raise(ctx, ctx.share(N)));
    let thirds = p.kernel("thirds", long, |ctx| raise(ctx, share(N, ctx.subtask, 3)));
    let halves = p.kernel("halves", long, |ctx| raise(ctx, share(N, ctx.node().unwrap_or(0), 2)));
    let x = p.host_f32("x", &[N as u32], &[0.0; N])?;
    p.dump_tag(x)?;
    p.submit().aiv(blocks).inout(x).done()?;
    p.submit().aic(thirds).aiv(thirds).aiv1(thirds).inout(x).done()?;
    p.submit().aiv(blocks).inout(x).blocks(6).done()?;
    p.submit().aiv(blocks).inout(x).blocks(2).sync_start().done()?;
    p.submit().aiv(blocks).inout(x).async_after(Duration::from_micros(100)).done()?;
    p.submit().aiv(blocks).inout(x).early_dispatch().done()?;
    let on = |slot: usize| {
        let mut slots: [Option<KernelId>; 3] = [None; 3];
        slots[slot] = Some(halves);
        slots
    };
    let graph = p.submit().inout(x).node(on(AIC), &[]).node(on(AIV0), &[0]).done()?;
    let skipped = p.submit().aiv(blocks).inout(x).predicate(false).done()?;
    let dummy = p.submit().deps(&[graph, skipped]).done()?;
    p.submit().aiv(blocks).inout(x).deps(&[dummy]).early_dispatch().done()?;
    p.build()
}

#[test]
fn every_kind_of_task_is_dumped_once_as_it_was_given_and_as_it_left_it() {
    let program = program().expect("a program");
    for target in PLATFORMS {
        for clock in [ClockKind::Virtual, ClockKind::Threads] {
            for level in [DumpLevel::Partial, DumpLevel::Full, DumpLevel::Hybrid] {
                let what = format!("{} {clock:?} level {}", target.name(), level as u32);
                let mut request = RunRequest { target, clock, ..RunRequest::new("tasks", "") };
                request.config.dump_args = level;
                let run = run_on(request, program.clone(), &Rig::new(target));
                assert!(run.report().complete, "{what}: {:#?}", run.report().reasons);
                assert_eq!(run.outcome.leaked, 0, "{what}");
                let dump = Dump::of(&run);
                let places: Vec<Place> =
                    TASKS.iter().flat_map(|&(task, _)| [(task, false, 0), (task, true, 0)]).collect();
                assert_eq!(dump.places(), places, "{what}");
                for (done, (task, kernels)) in TASKS.into_iter().enumerate() {
                    for after in [false, true] {
                        let arg = &dump.args[&(task, after, 0)];
                        let value = (done + usize::from(after)) as f32;
                        assert!(
                            arg.bytes.len() == 4 * N && arg.bytes.chunks(4).all(|b| b == value.to_le_bytes()),
                            "{what}: task {task}, after: {after}: not {value} everywhere"
                        );
                        assert_eq!(arg.entry["func_id"], json!(kernels), "{what}: task {task}");
                    }
                }
            }
        }
    }
}

/// A core that never finishes, in a MIX task, an SPMD task and a graph task: what it had written by then is dumped, once.
#[test]
fn the_outputs_of_every_kind_of_task_that_hangs_are_dumped_as_they_stood() {
    let program = program().expect("a program");
    for target in PLATFORMS {
        for at in [1_u32, 2, 6] {
            let what = format!("{}, task {at}", target.name());
            let mut request =
                RunRequest { target, clock: ClockKind::Virtual, ..RunRequest::new("tasks", "") };
            request.config.dump_args = DumpLevel::Full;
            request.config.timeouts.scheduler = Duration::from_millis(50);
            let faults = Faults { core_hang: Some(SubmitId(at)), ..Faults::default() };
            let run = run_on(request, program.clone(), &Rig { faults, ..Rig::new(target) });
            let report = run.report();
            let said = report.reasons.iter().find(|reason| reason.code == "dumped_while_running");
            let said = said.unwrap_or_else(|| panic!("{what}: {:#?}", report.reasons));
            assert!(said.count == 1 && said.message.contains(&format!("{at:#x}")), "{what}: {said:?}");
            assert_eq!(run.outcome.leaked, 0, "{what}");
            let dump = Dump::of(&run);
            let places: Vec<Place> =
                (0..=at.into()).flat_map(|task| [(task, false, 0), (task, true, 0)]).collect();
            assert_eq!(dump.places(), places, "{what}");
            for ((task, after, _), arg) in &dump.args {
                let (before, done) = (*task as f32, *task as f32 + 1.0);
                let hung = *task == u64::from(at) && *after;
                let may = |bytes: &[u8]| match (hung, after) {
                    (true, _) => bytes == before.to_le_bytes() || bytes == done.to_le_bytes(),
                    (false, true) => bytes == done.to_le_bytes(),
                    (false, false) => bytes == before.to_le_bytes(),
                };
                let whole = arg.bytes.len() == 4 * N && arg.bytes.chunks(4).all(may);
                assert!(whole, "{what}: task {task}, after: {after}");
            }
        }
    }
}
