//! Submits as the device writes them: raw slots, with garbage wherever nothing is live.

use dfx_collector::abi::dep_gen::{OVERFLOW_DEPS, OverflowRecord, RECORDS, SubmitRecord, flags};
use dfx_collector::abi::task_id;
use dfx_collector::abi::tensor::{MAX_DIMS, Tensor, TensorArgType};
use dfx_host_drain::deps::{DeviceCount, Refusal, SubmitStore};
use zerocopy::{FromBytes, FromZeros};

/// What a test says of a submit.
#[derive(Clone, Debug)]
pub(crate) struct Submit {
    pub(crate) task_id: u64,
    pub(crate) manual: bool,
    pub(crate) early: bool,
    pub(crate) kernels: [i32; 3],
    pub(crate) blocks: u32,
    /// The tensor of an `Output` is written as zeros.
    pub(crate) args: Vec<(TensorArgType, Tensor)>,
    pub(crate) deps: Vec<u64>,
}

impl Submit {
    pub(crate) fn new(task_id: u64) -> Self {
        let (args, deps) = (Vec::new(), Vec::new());
        Submit { task_id, manual: false, early: false, kernels: [-1, 0, -1], blocks: 1, args, deps }
    }

    pub(crate) fn arg(mut self, arg_type: TensorArgType, tensor: Tensor) -> Self {
        self.args.push((arg_type, tensor));
        self
    }

    pub(crate) fn deps(mut self, deps: impl IntoIterator<Item = u64>) -> Self {
        self.deps.extend(deps);
        self
    }
}

/// A view of a buffer at `addr` of `elements` elements of four bytes.
pub(crate) fn view(addr: u64, elements: u64, start: u64, shape: &[u32], strides: &[u32]) -> Tensor {
    let mut tensor = garbage::<Tensor>();
    tensor.buffer.addr = addr;
    tensor.buffer.size = elements * 4;
    tensor.owner_task_id.raw = task_id::INVALID;
    tensor.start_offset = start;
    tensor.version = 0;
    tensor.ndims = shape.len() as u32;
    tensor.dtype = 0;
    tensor.manual_dep = 0;
    tensor.shapes[..shape.len()].copy_from_slice(shape);
    tensor.strides[..shape.len()].copy_from_slice(strides);
    let mut dense = 1;
    let mut contiguous = true;
    for (&n, &stride) in shape.iter().zip(strides).rev() {
        contiguous &= stride == dense;
        dense *= n;
    }
    tensor.is_contiguous = contiguous.into();
    // The cache of a contiguous view is not read: it may be stale.
    if !contiguous {
        let last: u64 =
            shape.iter().zip(strides).map(|(&n, &stride)| u64::from(n.max(1) - 1) * u64::from(stride)).sum();
        tensor.extent_elem_cache = if shape.contains(&0) { 0 } else { last + 1 };
    }
    tensor
}

/// Old bytes.
pub(crate) fn garbage<T: FromBytes>() -> T {
    T::read_from_bytes(&vec![0xa5; size_of::<T>()]).expect("as long as it is")
}

/// The slots of `submit`: its record and its overflow.
pub(crate) fn slots(submit: &Submit) -> Vec<SubmitRecord> {
    let mut record = garbage::<SubmitRecord>();
    let inline = submit.deps.len().min(record.explicit_deps.len());
    record.task_id = submit.task_id;
    record.flags = u32::from(submit.manual) * flags::IN_MANUAL_SCOPE
        + u32::from(submit.early) * flags::EARLY_DISPATCH
        + u32::from(submit.deps.len() > inline) * flags::HAS_OVERFLOW;
    record.tensor_count = submit.args.len() as u16;
    record.explicit_dep_count = inline as u16;
    record.explicit_deps[..inline].copy_from_slice(&submit.deps[..inline]);
    record.kernel_id = submit.kernels;
    record.block_num = submit.blocks;
    for (i, (arg_type, tensor)) in submit.args.iter().enumerate() {
        record.arg_types[i] = *arg_type as u8;
        record.tensors[i] = if *arg_type == TensorArgType::Output { Tensor::new_zeroed() } else { *tensor };
    }
    let mut slots = vec![record];
    let overflow: Vec<&[u64]> = submit.deps[inline..].chunks(OVERFLOW_DEPS).collect();
    for (i, deps) in overflow.iter().enumerate() {
        let mut more = garbage::<OverflowRecord>();
        more.task_id = submit.task_id;
        more.flags = flags::OVERFLOW + u32::from(i + 1 == overflow.len()) * flags::LAST_OVERFLOW;
        more.dep_count = deps.len() as u16;
        more.deps[..deps.len()].copy_from_slice(deps);
        slots.push(zerocopy::transmute!(more));
    }
    slots
}

/// The buffers that a device fills with `submits`: none has more than `capacity` slots, no chain crosses two.
pub(crate) fn buffers(submits: &[Submit], capacity: usize) -> Vec<Vec<SubmitRecord>> {
    assert!(capacity <= RECORDS);
    let mut buffers = vec![Vec::new()];
    for chain in submits.iter().map(slots) {
        let last = buffers.last_mut().expect("there is one");
        if !last.is_empty() && last.len() + chain.len() > capacity {
            buffers.push(chain);
        } else {
            last.extend(chain);
        }
    }
    buffers
}

/// What the device counted for `submits`.
pub(crate) fn count(submits: &[Submit]) -> DeviceCount {
    let slots: usize = submits.iter().map(|submit| slots(submit).len()).sum();
    DeviceCount { submits: submits.len() as u64, overflow: (slots - submits.len()) as u64, dropped: 0 }
}

/// A store of `submits`, whose buffers of `capacity` slots come in the order of `shuffle` (any numbers).
pub(crate) fn store(submits: &[Submit], capacity: usize, shuffle: &[u32]) -> SubmitStore {
    let buffers = buffers(submits, capacity);
    let mut order: Vec<usize> = (0..buffers.len()).collect();
    for (i, &number) in shuffle.iter().enumerate().take(order.len()) {
        let other = number as usize % order.len();
        order.swap(i, other);
    }
    let mut store = SubmitStore::new();
    for i in order {
        store.push_buffer(i as u32, &buffers[i]);
    }
    store
}

/// A store of `submits`, in order.
pub(crate) fn stored(submits: &[Submit]) -> SubmitStore {
    let store = store(submits, RECORDS, &[]);
    assert_eq!(store.refusal(), None::<&Refusal>);
    store
}

const _: () = assert!(MAX_DIMS == 5);
