//! What the runtime tells the args dump: which arguments of a task, as which roles, at which stage.
//!
//! A task's inputs are dumped when its last producer has completed and before its first block is given to a core; its
//! outputs when it has completed and before anybody learns of it; both once per task, by one scheduler thread. So the bytes
//! are those that the kernel was given, or left. What never reaches a core (allocs, dummies, skipped tasks) is not dumped.
//! A graph task is one task: its arguments are dumped around all of its nodes, which have none of their own.

use super::record::AicpuRecorder;
use super::shared::Shared;
use crate::exec::{ActorId, Cost};
use crate::program::{Arg, KernelId, Submit, TensorDef};
use dfx_collector::abi::args_dump::{FLAG_ARG_INDEX_AMBIGUOUS, Info, Kind, Level, MAX_FUNC_IDS, Role, Stage};
use dfx_collector::abi::tensor::{DataType, MAX_SCALAR_ARGS};
use dfx_collector::args_dump::is_dumped_at;

/// Whether marks matter at `level`.
fn takes_marks(level: Level) -> bool {
    matches!(level, Level::Partial | Level::Hybrid)
}

/// The orchestrator submits `submit` as `task_id`: tells its marks and its scalars' types, if they are asked for.
pub(super) fn mark<A: AicpuRecorder>(recorder: &mut A, level: Level, task_id: u64, submit: &Submit) {
    if !takes_marks(level) || !submit.is_dumped() {
        return;
    }
    let marks = submit.marks;
    if marks.mask != 0 {
        recorder.mark_task(task_id, marks.mask, marks.ambiguous);
    }
    let scalars = submit.args.iter().filter_map(|arg| match arg {
        Arg::Scalar(_, dtype) => Some(*dtype as u8),
        _ => None,
    });
    let dtypes: heapless::Vec<u8, MAX_SCALAR_ARGS> = scalars.take(MAX_SCALAR_ARGS).collect();
    if !dtypes.is_empty() && (level == Level::Hybrid || marks.mask != 0) {
        recorder.scalar_dtypes(task_id, &dtypes);
    }
}

/// Who dumps.
pub(super) struct Dumper<'a, A> {
    pub(super) shared: &'a Shared,
    pub(super) exec: &'a dyn crate::exec::Exec,
    pub(super) me: ActorId,
    pub(super) recorder: &'a mut A,
    pub(super) level: Level,
}

impl<A: AicpuRecorder> Dumper<'_, A> {
    /// Dumps what is due of the submit that is unit `unit` at `stage`. Returns how many records that gave.
    pub(super) fn task(&mut self, unit: u32, stage: Stage) -> u32 {
        let (task_id, submit) = (self.shared.plan.unit(unit).task_id, self.shared.plan.submit(unit));
        let (mask, ambiguous) =
            if takes_marks(self.level) { self.recorder.task_marks(task_id) } else { Default::default() };
        if self.level == Level::Partial && mask == 0 {
            return 0;
        }
        let mut dtypes = [DataType::Uint64 as u8; MAX_SCALAR_ARGS];
        if takes_marks(self.level) {
            self.recorder.task_scalar_dtypes(task_id, &mut dtypes);
        }
        let (func_ids, func_count) = func_ids(submit);
        let bit = |mask: u64, at: usize| at < 64 && mask >> at & 1 != 0;
        let mut scalars = 0;
        let mut records = 0;
        for (at, arg) in submit.args.iter().enumerate() {
            let marked = bit(mask, at);
            let scalar = scalars;
            scalars += usize::from(matches!(arg, Arg::Scalar(..)));
            if self.level == Level::Partial && !marked {
                continue;
            }
            let info = Info {
                task_id,
                stage: stage as u8,
                arg_index: at as u32,
                func_ids,
                func_count,
                flags: if bit(ambiguous, at) { FLAG_ARG_INDEX_AMBIGUOUS } else { 0 },
                capture_payload: u8::from(self.level != Level::Hybrid || marked),
                ..Info::default()
            };
            let info = match *arg {
                Arg::Scalar(raw, own) => {
                    let dtype = if takes_marks(self.level) { dtypes[scalar] } else { own as u8 };
                    scalar_info(info, raw, dtype, stage)
                }
                Arg::In(id) | Arg::Out(id) | Arg::InOut(id) | Arg::OutExisting(id) => {
                    let def = &self.shared.plan.program.tensors[id.0 as usize];
                    self.tensor_info(info, def, role(arg), stage)
                }
            };
            if let Some(info) = info {
                let bytes = self.recorder.dump_arg(&info);
                records += 1;
                self.exec.spend(self.me, Cost::DumpArg { bytes });
            }
        }
        records
    }

    fn tensor_info(&self, info: Info, def: &TensorDef, role: Role, stage: Stage) -> Option<Info> {
        if !is_dumped_at(role, stage) {
            return None;
        }
        // A buffer that could not be had has no bytes: the run fails for it (`ProgramMemory::verify`).
        let buffer_addr = self.shared.memory.ensure(def.buffer).ok()?;
        let mut info = Info {
            role: role as u8,
            dtype: def.dtype as u8,
            ndims: def.shape.len() as u8,
            kind: Kind::Tensor as u8,
            buffer_addr,
            start_offset: def.start_offset,
            ..info
        };
        info.shapes[..def.shape.len()].copy_from_slice(&def.shape);
        info.strides[..def.strides.len()].copy_from_slice(&def.strides);
        Some(info)
    }
}

fn scalar_info(info: Info, raw: u64, dtype: u8, stage: Stage) -> Option<Info> {
    let (role, kind) = (Role::Input as u8, Kind::Scalar as u8);
    (stage == Stage::BeforeDispatch).then_some(Info { role, kind, dtype, scalar_value: raw, ..info })
}

fn role(arg: &Arg) -> Role {
    match arg {
        Arg::In(_) | Arg::Scalar(..) => Role::Input,
        Arg::Out(_) | Arg::OutExisting(_) => Role::Output,
        Arg::InOut(_) => Role::Inout,
    }
}

/// The active kernels; of a graph task, its nodes' first few.
fn func_ids(submit: &Submit) -> ([i32; MAX_FUNC_IDS], i32) {
    let mut ids: heapless::Vec<i32, MAX_FUNC_IDS> = heapless::Vec::new();
    let nodes = submit.nodes.iter().flat_map(|node| &node.kernels);
    for &KernelId(id) in submit.kernels.iter().chain(nodes).flatten() {
        if submit.nodes.is_empty() || !ids.contains(&(id as i32)) {
            let _ = ids.push(id as i32);
        }
    }
    let mut all = [-1; MAX_FUNC_IDS];
    all[..ids.len()].copy_from_slice(&ids);
    (all, ids.len() as i32)
}
