//! A program, laid out for a launch: every task and every node of a graph task is a *unit* with a number, a task id and a
//! way in which it is run. What cannot run on this board is refused here, before anything starts.
//!
//! Units 0..S are the submits in program order; after them come the nodes of all graph tasks.

use super::LaunchError;
use crate::program::{Kernel, KernelId, Op, Program, SUBTASKS, Shape, Submit, SubmitId, TaskIdRule};
use std::sync::Arc;
use std::time::Duration;

/// Rings of task ids: a scope's depth, capped.
pub(crate) const RINGS: usize = 4;
/// Ring of a graph task's nodes.
const NODE_RING: u64 = 1;
/// Bits of a node's number in its task id.
const NODE_BITS: u32 = 10;
/// Not a node.
const NO_NODE: u32 = u32::MAX;

/// How a unit is run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    /// Retires at once on the orchestrator.
    Alloc,
    /// No kernel: retires on a scheduler.
    Dummy,
    /// Its predicate is false: likewise.
    Skip,
    /// Makes its nodes.
    Graph,
    /// Runs on cores, block by block as they become free.
    Blocks,
    /// Runs on cores, all blocks at once.
    Together,
}

/// A unit's fixed facts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Unit {
    /// `(ring << 32) | local`.
    pub task_id: u64,
    /// The submit that it is, or whose node it is.
    pub submit: u32,
    node: u32,
    /// A graph task's first node (a unit's number).
    pub first_node: u32,
    /// Blocks; nodes for a graph task.
    pub blocks: u32,
    /// Active subtask slots, one bit each.
    pub subtasks: u8,
    /// Ring whose window it occupies.
    pub ring: u8,
    /// Cores it needs per block.
    pub shape: Shape,
    /// How it is run.
    pub kind: Kind,
}

impl Unit {
    /// Its number among its graph task's nodes, if it is one.
    pub(crate) fn node(&self) -> Option<usize> {
        (self.node != NO_NODE).then_some(self.node as usize)
    }

    /// Core rows of the unit itself.
    pub(crate) fn rows(&self) -> u32 {
        self.blocks * self.subtasks.count_ones()
    }
}

/// A program ready to be launched on a board.
pub(crate) struct Plan {
    pub(crate) program: Arc<Program>,
    units: Vec<Unit>,
    /// By submit: its operation.
    ops: Vec<u32>,
    /// Whether any task may be dispatched early.
    pub(crate) early: bool,
}

impl Plan {
    pub(crate) fn new(program: Arc<Program>, board_blocks: u32) -> Result<Self, LaunchError> {
        let mut units = Vec::new();
        let mut ops = Vec::new();
        let mut nodes = Vec::new();
        let mut depth = 0usize;
        let mut next_local = [0u64; RINGS];
        let mut early = false;
        for (at, op) in program.ops.iter().enumerate() {
            let submit = match op {
                Op::ScopeBegin { .. } => {
                    depth += 1;
                    continue;
                }
                Op::ScopeEnd => {
                    depth = depth.saturating_sub(1);
                    continue;
                }
                Op::Submit(submit) => &**submit,
            };
            check_submit(&program, submit, units.len() as u32, board_blocks)?;
            let task_id = match submit.task_id {
                TaskIdRule::Fixed(id) => id,
                TaskIdRule::Next => {
                    let ring = depth.min(RINGS - 1);
                    let local = next_local[ring];
                    next_local[ring] += 1;
                    (ring as u64) << 32 | local
                }
            };
            let unit = unit_of(submit, task_id);
            early |= submit.early_dispatch && may_go_early(&unit);
            if unit.kind == Kind::Graph {
                if u64::from(task_id as u32) >> (32 - NODE_BITS) != 0 {
                    return Err(LaunchError::NodeIds { submit: submit.id, task_id });
                }
                nodes.push(units.len());
            }
            ops.push(at as u32);
            units.push(unit);
        }
        let mut plan = Self { program, units, ops, early };
        for graph in nodes {
            plan.add_nodes(graph);
        }
        Ok(plan)
    }

    fn add_nodes(&mut self, graph: usize) {
        let first_node = self.units.len() as u32;
        self.units[graph].first_node = first_node;
        let outer = self.units[graph];
        for node in 0..outer.blocks {
            let kernels = self.submit_of(outer.submit).nodes[node as usize].kernels;
            let shape = shape_of(&kernels);
            self.units.push(Unit {
                task_id: NODE_RING << 32 | u64::from(outer.task_id as u32) << NODE_BITS | u64::from(node),
                submit: outer.submit,
                node,
                first_node: 0,
                blocks: 1,
                subtasks: subtasks_of(&kernels),
                ring: NODE_RING as u8,
                shape,
                kind: if shape == Shape::None { Kind::Dummy } else { Kind::Blocks },
            });
        }
    }

    /// The unit numbered `unit`.
    pub(crate) fn unit(&self, unit: u32) -> &Unit {
        &self.units[unit as usize]
    }

    pub(crate) fn units(&self) -> &[Unit] {
        &self.units
    }

    /// Submits, which are units 0 up to this.
    pub(crate) fn submits(&self) -> u32 {
        self.ops.len() as u32
    }

    /// The submit that `unit` is or belongs to.
    pub(crate) fn submit(&self, unit: u32) -> &Submit {
        self.submit_of(self.unit(unit).submit)
    }

    fn submit_of(&self, submit: u32) -> &Submit {
        match &self.program.ops[self.ops[submit as usize] as usize] {
            Op::Submit(submit) => submit,
            // `ops` names submits only.
            _ => unreachable!("operation of submit {submit} is a scope"),
        }
    }

    /// The number of the unit's kernel in `subtask`.
    pub(crate) fn kernel_id(&self, unit: u32, subtask: usize) -> Option<KernelId> {
        let submit = self.submit(unit);
        let kernels = self.unit(unit).node().map_or(&submit.kernels, |node| &submit.nodes[node].kernels);
        kernels[subtask]
    }

    /// The unit's kernel in `subtask`.
    pub(crate) fn kernel(&self, unit: u32, subtask: usize) -> Option<&Kernel> {
        self.kernel_id(unit, subtask).map(|id| &self.program.kernels[id.0 as usize])
    }

    /// How long the unit's kernel in `subtask` takes.
    pub(crate) fn duration(&self, unit: u32, subtask: usize) -> Duration {
        let own = self.submit(unit).duration.filter(|_| self.unit(unit).node().is_none());
        own.or_else(|| self.kernel(unit, subtask).map(|kernel| kernel.duration)).unwrap_or_default()
    }

    /// Whether the unit may be written to a core before its producers ended.
    pub(crate) fn goes_early(&self, unit: u32) -> bool {
        let facts = self.unit(unit);
        facts.node().is_none() && may_go_early(facts) && self.submit(unit).early_dispatch
    }
}

/// MIX tasks wait for a whole block, and tasks that start together for all of theirs: those do not go early.
fn may_go_early(unit: &Unit) -> bool {
    unit.kind == Kind::Blocks && matches!(unit.shape, Shape::Aic | Shape::Aiv)
}

fn shape_of(kernels: &[Option<KernelId>; SUBTASKS]) -> Shape {
    match kernels {
        [None, None, None] => Shape::None,
        [Some(_), None, None] => Shape::Aic,
        [None, Some(_), None] | [None, None, Some(_)] => Shape::Aiv,
        _ => Shape::Mix,
    }
}

fn subtasks_of(kernels: &[Option<KernelId>; SUBTASKS]) -> u8 {
    kernels.iter().enumerate().fold(0, |bits, (slot, kernel)| bits | u8::from(kernel.is_some()) << slot)
}

fn unit_of(submit: &Submit, task_id: u64) -> Unit {
    let shape = submit.shape();
    let kind = if submit.alloc {
        Kind::Alloc
    } else if !submit.predicate {
        Kind::Skip
    } else if !submit.nodes.is_empty() {
        Kind::Graph
    } else if shape == Shape::None {
        Kind::Dummy
    } else if submit.sync_start && submit.block_num > 1 {
        Kind::Together
    } else {
        Kind::Blocks
    };
    let blocks = if kind == Kind::Graph { submit.nodes.len() as u32 } else { submit.block_num };
    Unit {
        task_id,
        submit: submit.id.0,
        node: NO_NODE,
        first_node: 0,
        blocks,
        subtasks: subtasks_of(&submit.kernels),
        ring: (task_id >> 32).min(RINGS as u64 - 1) as u8,
        shape,
        kind,
    }
}

fn check_submit(program: &Program, submit: &Submit, number: u32, blocks: u32) -> Result<(), LaunchError> {
    let id = submit.id;
    if id.0 != number {
        return Err(LaunchError::SubmitOrder { expected: SubmitId(number), found: id });
    }
    if submit.block_num == 0 {
        return Err(LaunchError::NoBlocksOfTask { submit: id });
    }
    if let Some(&dep) = submit.deps.iter().find(|dep| **dep >= id) {
        return Err(LaunchError::ForwardDep { submit: id, dep });
    }
    if !submit.nodes.is_empty() && (submit.shape() != Shape::None || submit.alloc) {
        return Err(LaunchError::GraphWithKernels { submit: id });
    }
    if submit.nodes.len() > 1 << NODE_BITS {
        return Err(LaunchError::TooManyNodes { submit: id, nodes: submit.nodes.len(), max: 1 << NODE_BITS });
    }
    for (node, def) in submit.nodes.iter().enumerate() {
        if let Some(&dep) = def.deps.iter().find(|dep| **dep as usize >= node) {
            return Err(LaunchError::NodeDep { submit: id, node: node as u32, dep });
        }
    }
    let of_nodes = submit.nodes.iter().flat_map(|node| &node.kernels);
    let unknown = |kernel: &&KernelId| kernel.0 as usize >= program.kernels.len();
    if let Some(&kernel) = submit.kernels.iter().chain(of_nodes).flatten().find(unknown) {
        return Err(LaunchError::UnknownKernel { submit: id, kernel });
    }
    if submit.sync_start {
        let available = match submit.shape() {
            Shape::Aiv => 2 * blocks,
            _ => blocks,
        };
        if submit.block_num > available && submit.shape() != Shape::None {
            return Err(LaunchError::TooWideToStartTogether {
                submit: id,
                blocks: submit.block_num,
                shape: submit.shape(),
                available,
            });
        }
    }
    Ok(())
}
