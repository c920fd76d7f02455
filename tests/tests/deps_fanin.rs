//! The replay of captured submits and the simulator's own derivation of its fan-in: two implementations of one set of
//! rules that share no code. Programs become raw dep_gen slots here; the predecessors must be the same.

use dfx_collector::abi::dep_gen::{
    MAX_EXPLICIT_DEPS, OVERFLOW_DEPS, OverflowRecord, RECORDS, SubmitRecord, flags,
};
use dfx_collector::abi::task_id;
use dfx_collector::abi::tensor::{DataType, Tensor, TensorArgType};
use dfx_host_drain::deps::{DeviceCount, Source, SubmitStore};
use dfx_sim::builder::ProgramBuilder;
use dfx_sim::fanin::Fanin;
use dfx_sim::graph::{GraphParams, random};
use dfx_sim::program::{Arg, Init, KernelId, Op, Program, Submit, SubmitId, TensorId};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::time::Duration;
use zerocopy::FromZeros;

/// The task id that a submit is given here.
fn id(submit: SubmitId) -> u64 {
    task_id::new((submit.0 % 4) as u8, submit.0)
}

fn tensor_of(program: &Program, tensor: TensorId) -> Tensor {
    let def = &program.tensors[tensor.0 as usize];
    let buffer = &program.buffers[def.buffer.0 as usize];
    let mut tensor = Tensor::default();
    tensor.buffer.addr = 4096 * (1 + u64::from(def.buffer.0));
    tensor.buffer.size = buffer.bytes;
    tensor.owner_task_id.raw = buffer.creator.map_or(task_id::INVALID, id);
    tensor.start_offset = def.start_offset;
    tensor.version = def.version;
    tensor.ndims = def.shape.len() as u32;
    tensor.dtype = def.dtype as u8;
    tensor.manual_dep = def.manual_dep.into();
    tensor.shapes[..def.shape.len()].copy_from_slice(&def.shape);
    tensor.strides[..def.strides.len()].copy_from_slice(&def.strides);
    tensor.extent_elem_cache = (def.end() - u128::from(def.start_offset)) as u64;
    tensor
}

/// The slots that the device half writes for `submit`.
fn slots(program: &Program, submit: &Submit, manual: bool) -> Vec<SubmitRecord> {
    let mut record = SubmitRecord::new_zeroed();
    let deps: Vec<u64> = submit.deps.iter().copied().map(id).collect();
    let (inline, more) = deps.split_at(deps.len().min(MAX_EXPLICIT_DEPS));
    record.task_id = id(submit.id);
    record.block_num = submit.block_num;
    record.explicit_dep_count = inline.len() as u16;
    record.explicit_deps[..inline.len()].copy_from_slice(inline);
    record.flags =
        u32::from(manual) * flags::IN_MANUAL_SCOPE + u32::from(!more.is_empty()) * flags::HAS_OVERFLOW;
    let tensors = submit.args.iter().filter_map(|arg| match *arg {
        Arg::In(tensor) => Some((TensorArgType::Input, tensor)),
        Arg::Out(tensor) => Some((TensorArgType::Output, tensor)),
        Arg::InOut(tensor) => Some((TensorArgType::Inout, tensor)),
        Arg::OutExisting(tensor) => Some((TensorArgType::OutputExisting, tensor)),
        Arg::Scalar(..) => None,
    });
    for (i, (arg_type, tensor)) in tensors.enumerate() {
        record.tensor_count = i as u16 + 1;
        record.arg_types[i] = arg_type as u8;
        record.tensors[i] = tensor_of(program, tensor);
    }
    let mut slots = vec![record];
    for deps in more.chunks(OVERFLOW_DEPS) {
        let mut overflow = OverflowRecord::new_zeroed();
        overflow.task_id = record.task_id;
        overflow.flags = flags::OVERFLOW;
        overflow.dep_count = deps.len() as u16;
        overflow.deps[..deps.len()].copy_from_slice(deps);
        slots.push(zerocopy::transmute!(overflow));
    }
    if let [_, .., last] = &mut slots[..] {
        last.flags |= flags::LAST_OVERFLOW;
    }
    slots
}

/// Predecessors by submit; allocs are no submits of their own.
type Fanins = BTreeMap<u64, BTreeSet<u64>>;

fn walk(program: &Program, mut visit: impl FnMut(&Submit, bool)) {
    let mut scopes = vec![false];
    for op in &program.ops {
        match op {
            Op::ScopeBegin { manual } => scopes.push(*manual),
            Op::ScopeEnd => drop(scopes.pop()),
            Op::Submit(submit) => visit(submit, *scopes.last().expect("scopes are balanced")),
        }
    }
}

/// What the simulator's orchestrator declares.
fn declared(program: &Program) -> Fanins {
    let (mut fanin, mut fanins) = (Fanin::new(program), Fanins::new());
    walk(program, |submit, manual| {
        let mut preds = Vec::new();
        fanin.submit(submit, manual, &mut preds);
        if !submit.alloc {
            fanins.insert(id(submit.id), preds.into_iter().map(id).collect());
        }
    });
    fanins
}

/// What the replay of the program's slots says. Explicit and creator edges come once per predecessor.
fn replayed(program: &Program) -> Fanins {
    let (mut store, mut fanins) = (SubmitStore::new(), Fanins::new());
    let (mut buffer, mut seq, mut count) = (Vec::new(), 0, DeviceCount::default());
    walk(program, |submit, manual| {
        if submit.alloc {
            return;
        }
        let chain = slots(program, submit, manual);
        count.submits += 1;
        count.overflow += chain.len() as u64 - 1;
        if buffer.len() + chain.len() > RECORDS {
            store.push_buffer(seq, &buffer);
            (buffer, seq) = (Vec::new(), seq + 1);
        }
        buffer.extend(chain);
        fanins.insert(id(submit.id), BTreeSet::new());
    });
    store.push_buffer(seq, &buffer);
    let Ok(()) = store.finish(count).expect("a whole capture").replay::<Infallible>(|edge| {
        let new = fanins.get_mut(&edge.succ).expect("a submit").insert(edge.pred);
        assert!(new || matches!(edge.source, Source::TensorMap { .. }), "{edge:?} is named twice");
        Ok(())
    });
    fanins
}

fn assert_same(what: &str, program: &Program) {
    let (declared, replayed) = (declared(program), replayed(program));
    assert_eq!(declared.len(), replayed.len(), "{what}");
    for (task, preds) in declared {
        assert_eq!(preds, replayed[&task], "{what}: task {task}");
    }
}

/// Issue 5, point 1: made-up graphs, whose edges are explicit, with allocs and manual scopes.
#[test]
fn the_replay_of_a_random_graph_gives_the_fan_in_that_the_simulator_declares() {
    for seed in 0..40 {
        let params = GraphParams { tasks: 50 + seed as u32 * 10, ..GraphParams::default() };
        assert_same(&format!("seed {seed}"), &random(seed, params));
    }
    let wide = GraphParams { tasks: 6_000, max_fanin: 5_000, ..GraphParams::default() };
    assert_same("wide", &random(99, wide));
}

/// An argument of a random program.
#[derive(Clone, Debug)]
struct Use {
    access: u8,
    buffer: usize,
    start: u32,
    kind: u8,
    shape: (u32, u32),
    version: i32,
    /// Left out of derivation.
    manual: bool,
}

/// A submit of a random program.
#[derive(Clone, Debug)]
struct Draw {
    args: Vec<Use>,
    deps: Vec<u32>,
    scope: u8,
}

fn draws() -> impl Strategy<Value = Vec<Draw>> {
    let version = (0..8i32).prop_map(|n| (n - 6).max(0));
    let manual = (0..16u8).prop_map(|n| n == 0);
    let arg = (0..4u8, 0..3usize, 0..64u32, 0..6u8, (0..5u32, 0..9u32), version, manual);
    let arg = arg.prop_map(|(access, buffer, start, kind, shape, version, manual)| Use {
        access,
        buffer,
        start,
        kind,
        shape,
        version,
        manual,
    });
    let args = prop::collection::vec(arg, 0..4);
    let deps = prop::collection::vec(any::<u32>(), 0..3);
    let submit = (args, deps, 0..10u8).prop_map(|(args, deps, scope)| Draw { args, deps, scope });
    prop::collection::vec(submit, 1..60)
}

const ROWS: u32 = 8;
const COLS: u32 = 8;

/// Three arrays of 8 × 8: one that the host makes, one that an alloc makes, one that the first submit makes.
fn program(draws: &[Draw]) -> Program {
    let mut p = ProgramBuilder::new("random");
    let kernel: KernelId = p.kernel("nop", Duration::ZERO, |_| {});
    let host = p.host("host", DataType::Float32, &[ROWS, COLS], Init::Zero).expect("a tensor");
    let alloc = p.tensor("alloc", DataType::Float32, &[ROWS, COLS]).expect("a tensor");
    let made = p.tensor("made", DataType::Float32, &[ROWS, COLS]).expect("a tensor");
    let mut submits = vec![p.alloc(&[alloc]).expect("an alloc")];
    submits.push(p.submit().aiv(kernel).output(made).done().expect("a submit"));
    let mut versions = BTreeMap::new();
    for draw in draws {
        let mut args = Vec::new();
        for &Use { access, buffer, start, kind, shape: (rows, cols), version, manual } in &draw.args {
            let base = [host, alloc, made][buffer];
            let (row, col) = (start / COLS, start % COLS);
            let (rows, cols) = (rows.min(ROWS - row), cols.min(COLS - col));
            let view = match kind {
                0..3 => p.view(base, "box", &[rows, cols], &[COLS, 1], start.into()),
                3 => p.view(base, "flat", &[cols], &[1], start.into()),
                4 => p.view(base, "column", &[rows], &[COLS], start.into()),
                _ => p.view(base, "cube", &[rows.min(1), cols.min(2), 2], &[16, 4, 1], (start / 2).into()),
            };
            let mut view = view.expect("within its buffer");
            if manual {
                view = p.manual_dep(view).expect("a tensor");
            }
            versions.insert(view, version);
            args.push((access, view));
        }
        match draw.scope {
            0 => p.manual_scope_begin(),
            1 => p.scope_begin(),
            _ => {}
        }
        let deps: Vec<SubmitId> =
            draw.deps.iter().map(|dep| submits[*dep as usize % submits.len()]).collect();
        let submit =
            args.into_iter().fold(
                p.submit().aiv(kernel).deps(&deps),
                |submit, (access, view)| match access {
                    0 | 1 => submit.input(view),
                    2 => submit.inout(view),
                    _ => submit.output_existing(view),
                },
            );
        submits.push(submit.done().expect("a submit"));
        if draw.scope < 2 {
            p.scope_end().expect("an open scope");
        }
    }
    let mut program = p.build().expect("a program");
    for (view, version) in versions {
        program.tensors[view.0 as usize].version = version;
    }
    program
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]
    /// Issue 5, point 1: overlapping and strided views, versions, updates, manual scopes.
    #[test]
    fn the_replay_of_a_random_program_gives_the_fan_in_that_the_simulator_declares(draws in draws()) {
        assert_same("random", &program(&draws));
    }
}
