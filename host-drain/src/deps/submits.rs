//! Captured submits in little room: what a record says, without the 4 KiB that most records leave unused.
//!
//! Buffers may come in any order; their numbers put the submits in order. A slot that no device half writes refuses the
//! whole capture: a graph that lacks something must not pass as complete.

use super::intern::{Fold, Interner, Key};
use super::refusal::{Refusal, SlotFault};
use super::view::{Layout, Region};
use dfx_collector::abi::dep_gen::{
    MAX_EXPLICIT_DEPS, OVERFLOW_DEPS, OverflowRecord, RECORDS, SubmitRecord, flags,
};
use dfx_collector::abi::tensor::{MAX_DIMS, MAX_TENSOR_ARGS, Tensor, TensorArgType};
use std::fmt;
use std::ops::Range;

/// A value on a buffer: what `deps.json` calls a tensor.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Identity {
    addr: u64,
    version: i32,
}

impl Key for Identity {
    fn fold(&self, hash: Fold) -> Fold {
        hash.word(self.addr).word(self.version as u64)
    }
}

/// What follows from an [`Identity`].
struct IdentityFacts {
    tensor_id: u64,
    buffer: u32,
}

/// `tensor_id` of version `version` of the buffer at `addr`: FNV-1a 64.
fn tensor_id(addr: u64, version: i32) -> u64 {
    let bytes = addr.to_le_bytes().into_iter().chain(version.to_le_bytes());
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3))
}

/// A tensor argument.
#[derive(Clone, Copy)]
pub(super) struct Arg {
    pub(super) start: u64,
    /// The task that makes the tensor, or [`INVALID`](dfx_collector::abi::task_id::INVALID).
    pub(super) owner: u64,
    pub(super) layout: u32,
    pub(super) identity: u32,
    pub(super) arg_type: TensorArgType,
    pub(super) manual_dep: bool,
}

/// A submit; what it names lies in the arenas.
#[derive(Clone, Copy)]
pub(super) struct Submit {
    pub(super) task_id: u64,
    first_arg: u32,
    first_dep: u32,
    dep_count: u32,
    pub(super) block_num: u32,
    pub(super) kernel_id: [i32; 3],
    arg_count: u8,
    pub(super) manual: bool,
    pub(super) early_dispatch: bool,
}

/// What the device counted, for [`SubmitStore::finish`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct DeviceCount {
    /// `total_record_count`: submits, recorded or dropped.
    pub submits: u64,
    /// `total_overflow_record_count`: slots that overflow took.
    pub overflow: u64,
    /// `dropped_record_count`.
    pub dropped: u64,
}

/// Collects the buffers of one run. The first fault refuses the capture; what follows is only counted then.
#[derive(Debug, Default)]
pub struct SubmitStore {
    submits: Submits,
    slots: u64,
    refusal: Option<Refusal>,
}

impl SubmitStore {
    /// Nothing captured yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes in the filled slots of the buffer with number `seq`. Buffers may come in any order, each once. Returns how
    /// many of the slots are submits, not overflow; what is wrong with them is told by [`refusal`](Self::refusal).
    pub fn push_buffer(&mut self, seq: u32, slots: &[SubmitRecord]) -> u64 {
        self.slots += slots.len() as u64;
        if self.refusal.is_none() {
            self.refusal = self.submits.take_buffer(seq, slots).err();
            if self.refusal.is_some() {
                // Nobody will ask for them.
                self.submits = Submits::default();
            }
        }
        slots.iter().filter(|slot| slot.flags & flags::OVERFLOW == 0).count() as u64
    }

    /// Why the capture is refused, if what came so far says so.
    #[must_use]
    pub fn refusal(&self) -> Option<&Refusal> {
        self.refusal.as_ref()
    }

    /// Slots that came, submits and overflow.
    #[must_use]
    pub fn slots(&self) -> u64 {
        self.slots
    }

    /// Submits that were kept.
    #[must_use]
    pub fn submits(&self) -> u64 {
        self.submits.rows.len() as u64
    }

    /// The submits in order, if they are all that the device counted. Call it when all buffers are in.
    ///
    /// # Errors
    /// The [`Refusal`] says what is missing or broken: then there is no graph to be written.
    pub fn finish(&self, count: DeviceCount) -> Result<&Submits, Refusal> {
        let DeviceCount { submits, overflow, dropped } = count;
        if let Some(refusal) = &self.refusal {
            return Err(refusal.clone());
        }
        if dropped != 0 {
            return Err(Refusal::Dropped { dropped });
        }
        let (counted, collected) = (submits.saturating_add(overflow), self.slots);
        if self.submits() != submits || collected != counted {
            return Err(Refusal::Incomplete { submits, counted, collected });
        }
        Ok(&self.submits)
    }
}

/// A whole capture: what is replayed and written.
#[derive(Default)]
pub struct Submits {
    pub(super) layouts: Interner<Layout>,
    identities: Interner<Identity>,
    facts: Vec<IdentityFacts>,
    buffers: Interner<u64>,
    rows: Vec<Submit>,
    args: Vec<Arg>,
    deps: Vec<u64>,
    /// Buffers by number, and which of `rows` came with each.
    chunks: Vec<(u32, Range<u32>)>,
}

impl fmt::Debug for Submits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Submits({} submits, {} tensor arguments)", self.rows.len(), self.args.len())
    }
}

impl Submits {
    /// How many submits there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Submits in order.
    pub(super) fn in_order(&self) -> impl Iterator<Item = &Submit> {
        self.chunks.iter().flat_map(|(_, rows)| &self.rows[rows.start as usize..rows.end as usize])
    }

    /// Numbers of the tensor arguments of `submit`, for [`arg`](Self::arg).
    pub(super) fn args_of(&self, submit: &Submit) -> Range<u32> {
        submit.first_arg..submit.first_arg + u32::from(submit.arg_count)
    }

    pub(super) fn arg(&self, number: u32) -> &Arg {
        &self.args[number as usize]
    }

    /// The named predecessors of `submit`.
    pub(super) fn deps_of(&self, submit: &Submit) -> &[u64] {
        &self.deps[submit.first_dep as usize..][..submit.dep_count as usize]
    }

    pub(super) fn buffer_count(&self) -> usize {
        self.buffers.values().len()
    }

    pub(super) fn identity_count(&self) -> usize {
        self.facts.len()
    }

    /// The number of the buffer that `arg` lies in.
    pub(super) fn buffer_of(&self, arg: &Arg) -> u32 {
        self.facts[arg.identity as usize].buffer
    }

    pub(super) fn layout_of(&self, arg: &Arg) -> &Layout {
        &self.layouts.values()[arg.layout as usize]
    }

    pub(super) fn region_of(&self, arg: &Arg) -> Region<'_> {
        let version = self.identities.values()[arg.identity as usize].version;
        Region { layout: self.layout_of(arg), start: arg.start, version }
    }

    /// What a person sees of `arg`.
    pub(super) fn view_of(&self, arg: &Arg) -> View<'_> {
        let identity = &self.identities.values()[arg.identity as usize];
        let layout = self.layout_of(arg);
        View {
            tensor_id: self.facts[arg.identity as usize].tensor_id,
            buffer_addr: identity.addr,
            version: identity.version,
            dtype: layout.dtype,
            buffer_numel: layout.buffer_numel(),
            start_offset: arg.start,
            shape: layout.shape(),
            strides: layout.strides(),
        }
    }

    fn take_buffer(&mut self, buffer: u32, slots: &[SubmitRecord]) -> Result<(), Refusal> {
        if slots.len() > RECORDS {
            return Err(Refusal::Size { buffer, slots: slots.len() });
        }
        let Err(place) = self.chunks.binary_search_by_key(&buffer, |(number, _)| *number) else {
            return Err(Refusal::Duplicate { buffer });
        };
        let first = self.rows.len() as u32;
        let mut slot = 0;
        while slot < slots.len() {
            slot += self.take_chain(buffer, slot, &slots[slot..])?;
        }
        self.chunks.insert(place, (buffer, first..self.rows.len() as u32));
        Ok(())
    }

    /// Takes in the submit at the start of `slots` and the overflow behind it; returns how many slots these are.
    fn take_chain(&mut self, buffer: u32, slot: usize, slots: &[SubmitRecord]) -> Result<usize, Refusal> {
        let record = &slots[0];
        let task_id = record.task_id;
        let fault = |at, task_id, fault| Refusal::Slot { buffer, slot: slot + at, task_id, fault };
        if record.flags & flags::OVERFLOW != 0 {
            return Err(fault(0, task_id, SlotFault::Orphan));
        }
        if record.flags & flags::TRUNCATED != 0 {
            return Err(fault(0, task_id, SlotFault::Truncated));
        }
        let first_dep = index(self.deps.len(), "explicit dependencies")?;
        self.take_submit(record).map_err(|error| match error {
            TakeError::Fault(found) => fault(0, task_id, found),
            TakeError::Refusal(refusal) => refusal,
        })?;
        let mut taken = 1;
        let mut open = record.flags & flags::HAS_OVERFLOW != 0;
        while open {
            let more = slots.get(taken).filter(|more| more.flags & flags::OVERFLOW != 0);
            let more = more.ok_or_else(|| fault(taken - 1, task_id, SlotFault::NoLast))?;
            let more: &OverflowRecord = zerocopy::transmute_ref!(more);
            if more.task_id != task_id {
                return Err(fault(taken, more.task_id, SlotFault::WrongTask { expected: task_id }));
            }
            let count = usize::from(more.dep_count);
            let deps = more.deps.get(..count);
            let deps = deps.ok_or_else(|| fault(taken, task_id, SlotFault::OverflowDeps(more.dep_count)))?;
            self.deps.extend_from_slice(deps);
            taken += 1;
            open = more.flags & flags::LAST_OVERFLOW == 0;
            if !open && taken == RECORDS && count == OVERFLOW_DEPS {
                return Err(Refusal::ChainCut { task_id, deps: self.deps.len() - first_dep as usize });
            }
        }
        if let Some(submit) = self.rows.last_mut() {
            submit.dep_count = index(self.deps.len(), "explicit dependencies")? - first_dep;
        }
        Ok(taken)
    }

    /// Takes in a record without what overflowed.
    fn take_submit(&mut self, record: &SubmitRecord) -> Result<(), TakeError> {
        let args = usize::from(record.tensor_count);
        if args > MAX_TENSOR_ARGS {
            return Err(SlotFault::Tensors(record.tensor_count).into());
        }
        let deps = record.explicit_deps.get(..usize::from(record.explicit_dep_count));
        let deps = deps.ok_or(SlotFault::Deps(record.explicit_dep_count))?;
        debug_assert!(deps.len() <= MAX_EXPLICIT_DEPS);
        let submit = Submit {
            task_id: record.task_id,
            first_arg: index(self.args.len(), "tensor arguments")?,
            first_dep: index(self.deps.len(), "explicit dependencies")?,
            dep_count: 0,
            block_num: record.block_num.max(1),
            kernel_id: record.kernel_id,
            arg_count: args as u8,
            manual: record.flags & flags::IN_MANUAL_SCOPE != 0,
            early_dispatch: record.flags & flags::EARLY_DISPATCH != 0,
        };
        index(self.rows.len(), "submits")?;
        for (arg, (tensor, &raw)) in record.tensors[..args].iter().zip(&record.arg_types).enumerate() {
            let arg_type = TensorArgType::from_raw(raw.into());
            let arg_type = arg_type.ok_or(SlotFault::ArgType { arg, value: raw })?;
            let taken = match arg_type {
                // Its tensor does not exist yet: the bytes say nothing.
                TensorArgType::Output => {
                    Arg { start: 0, owner: 0, layout: 0, identity: 0, arg_type, manual_dep: false }
                }
                _ if tensor.ndims as usize > MAX_DIMS => {
                    return Err(SlotFault::Dims { arg, ndims: tensor.ndims }.into());
                }
                _ => self.take_arg(tensor, arg_type),
            };
            self.args.push(taken);
        }
        self.deps.extend_from_slice(deps);
        self.rows.push(submit);
        Ok(())
    }

    fn take_arg(&mut self, tensor: &Tensor, arg_type: TensorArgType) -> Arg {
        let (layout, _) = self.layouts.intern(Layout::of(tensor));
        let addr = tensor.buffer.addr;
        let (identity, new) = self.identities.intern(Identity { addr, version: tensor.version });
        if new {
            let (buffer, _) = self.buffers.intern(addr);
            self.facts.push(IdentityFacts { tensor_id: tensor_id(addr, tensor.version), buffer });
        }
        Arg {
            start: tensor.start_offset,
            owner: tensor.owner_task_id.raw,
            layout,
            identity,
            arg_type,
            manual_dep: tensor.manual_dep != 0,
        }
    }
}

/// A tensor argument as a person sees it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct View<'a> {
    /// The hash of `buffer_addr` and `version`.
    pub tensor_id: u64,
    /// The buffer's device address.
    pub buffer_addr: u64,
    /// The value's version on it.
    pub version: i32,
    /// A [`DataType`](dfx_collector::abi::tensor::DataType), or a number that no type has.
    pub dtype: u8,
    /// The buffer's size in elements; 0 for a type of unknown size.
    pub buffer_numel: u64,
    /// The first element, in elements from the buffer's start.
    pub start_offset: u64,
    /// In elements, per dimension.
    pub shape: &'a [u32],
    /// In elements, per dimension.
    pub strides: &'a [u32],
}

/// Either kind of failure of a record.
enum TakeError {
    Fault(SlotFault),
    Refusal(Refusal),
}

impl From<SlotFault> for TakeError {
    fn from(fault: SlotFault) -> Self {
        TakeError::Fault(fault)
    }
}

impl From<Refusal> for TakeError {
    fn from(refusal: Refusal) -> Self {
        TakeError::Refusal(refusal)
    }
}

/// `len` as the number of the next element; the arenas' sums stay below `u32::MAX` because a buffer is small.
fn index(len: usize, what: &'static str) -> Result<u32, Refusal> {
    /// More than one chain or one submit can add.
    const ROOM: usize = RECORDS * OVERFLOW_DEPS;
    if len < u32::MAX as usize - ROOM { Ok(len as u32) } else { Err(Refusal::TooLarge { what }) }
}
