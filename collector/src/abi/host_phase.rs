//! Phases that the host stamps itself while it prepares a run, when it builds the graph.
//!
//! They stay in host memory; their record is pinned because runtime and collector exchange buffers of them.

use super::swimlane::RecordBuffer;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// `PLATFORM_HOST_PHASE_RECORDS_PER_BUFFER`: records of a [`Buffer`].
pub const RECORDS: usize = 512;
/// `PLATFORM_HOST_PHASE_BUFFERS`: buffers that a host makes by default.
pub const BUFFERS: usize = 24;

/// A step of the host's preparation (`HostPhaseKind`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
#[repr(u32)]
pub enum Kind {
    /// Binding: the arguments.
    BindArgs = 0,
    /// Binding: building the arena.
    BindArenaBuild = 1,
    /// Binding: the static arena.
    BindStaticArena = 2,
    /// Binding: the heap in global memory.
    BindGmHeap = 3,
    /// Binding: the shared memory.
    BindSharedMem = 4,
    /// Binding: the runtime's initialisation.
    BindRuntimeInit = 5,
    /// Binding: the orchestrator's run.
    BindHostOrch = 6,
    /// Binding: copying the graph to the device.
    BindGraphUpload = 7,
    /// Binding: turning host addresses into device addresses.
    BindRelocate = 8,
    /// Binding: copying the shared memory to the device.
    BindSmH2d = 9,
    /// Binding: copying the arena to the device.
    BindArenaH2d = 10,
    /// Binding: closing the host's view.
    BindHostViewClose = 11,
    /// Orchestrator: a task's submit.
    OrchSubmitTask = 12,
    /// Orchestrator: allocating tensors.
    OrchAllocTensors = 13,
    /// Orchestrator: recording a graph's node.
    OrchRecordNode = 14,
    /// Orchestrator: a graph's submit.
    OrchGraphSubmit = 15,
    /// Orchestrator: building a graph's definition.
    OrchBuildDefinition = 16,
}

impl Kind {
    /// All kinds, by number; its length is `kHostPhaseKindCount`.
    pub const ALL: [Kind; 17] = [
        Kind::BindArgs,
        Kind::BindArenaBuild,
        Kind::BindStaticArena,
        Kind::BindGmHeap,
        Kind::BindSharedMem,
        Kind::BindRuntimeInit,
        Kind::BindHostOrch,
        Kind::BindGraphUpload,
        Kind::BindRelocate,
        Kind::BindSmH2d,
        Kind::BindArenaH2d,
        Kind::BindHostViewClose,
        Kind::OrchSubmitTask,
        Kind::OrchAllocTensors,
        Kind::OrchRecordNode,
        Kind::OrchGraphSubmit,
        Kind::OrchBuildDefinition,
    ];

    /// The kind with number `raw`, if there is one.
    pub const fn from_raw(raw: u32) -> Option<Kind> {
        if (raw as usize) < Self::ALL.len() { Some(Self::ALL[raw as usize]) } else { None }
    }

    /// The name that artifacts use.
    pub const fn name(self) -> &'static str {
        match self {
            Kind::BindArgs => "args",
            Kind::BindArenaBuild => "arena_build",
            Kind::BindStaticArena => "static_arena",
            Kind::BindGmHeap => "gm_heap",
            Kind::BindSharedMem => "shared_mem",
            Kind::BindRuntimeInit => "runtime_init",
            Kind::BindHostOrch => "host_orch",
            Kind::BindGraphUpload => "graph_upload",
            Kind::BindRelocate => "relocate",
            Kind::BindSmH2d => "sm_h2d",
            Kind::BindArenaH2d => "arena_h2d",
            Kind::BindHostViewClose => "host_view_close",
            Kind::OrchSubmitTask => "submit_task",
            Kind::OrchAllocTensors => "alloc_tensors",
            Kind::OrchRecordNode => "record_node",
            Kind::OrchGraphSubmit => "graph_submit",
            Kind::OrchBuildDefinition => "build_definition",
        }
    }

    /// Whether the step makes a task.
    pub const fn submits_task(self) -> bool {
        matches!(self, Kind::OrchSubmitTask | Kind::OrchAllocTensors | Kind::OrchGraphSubmit)
    }

    /// Whether the step copies to the device.
    pub const fn device_upload(self) -> bool {
        matches!(self, Kind::BindGraphUpload | Kind::BindSmH2d | Kind::BindArenaH2d)
    }
}

/// One phase (`HostPhaseRecord`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct Record {
    /// On the host's monotonic clock, in ns.
    pub start_ns: u64,
    /// On the host's monotonic clock, in ns.
    pub end_ns: u64,
    /// Depends on the kind: a task id where a task is submitted, else a detail such as a size in bytes.
    pub payload: u64,
    /// A [`Kind`].
    pub kind: u32,
    /// Counts submits from 0.
    pub index: u32,
    /// The host thread.
    pub thread_id: u32,
    /// Unused.
    pub _pad: u32,
}

/// `HostPhaseRecordBuffer`
pub type Buffer = RecordBuffer<Record, RECORDS>;

const _: () = assert!(size_of::<Record>() == 40 && size_of::<Buffer>() == 20544);
