//! The rules again, slowly: every pair of a consumer and an earlier write, as sets of elements.
//!
//! Where views are boxes of one array, element sets decide; where they are not, the conservative clauses do. That a view
//! is a box of its array is told by its elements, too: each must have the digits that its indices say.

use super::raw::Submit;
use dfx_collector::abi::task_id;
use dfx_collector::abi::tensor::{DataType, Tensor, TensorArgType};
use dfx_host_drain::deps::{Edge, Overlap, Source};
use std::collections::HashSet;

/// An edge, with everything that `deps.json` says of it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Row {
    pub(crate) pred: u64,
    pub(crate) succ: u64,
    pub(crate) source: &'static str,
    pub(crate) arg: i32,
    pub(crate) overlap: Option<Overlap>,
    pub(crate) consumer: Option<Side>,
    pub(crate) producer: Option<Side>,
}

/// Address, version, dtype, start, shape, strides.
type Side = (u64, i32, u8, u64, Vec<u32>, Vec<u32>);

fn side(tensor: &Tensor) -> Side {
    let dims = tensor.ndims as usize;
    let (shape, strides) = (tensor.shapes[..dims].to_vec(), tensor.strides[..dims].to_vec());
    (tensor.buffer.addr, tensor.version, tensor.dtype, tensor.start_offset, shape, strides)
}

/// What the replay said.
pub(crate) fn row(edge: &Edge<'_>) -> Row {
    let side = |view: &dfx_host_drain::deps::View<'_>| {
        let (shape, strides) = (view.shape.to_vec(), view.strides.to_vec());
        (view.buffer_addr, view.version, view.dtype, view.start_offset, shape, strides)
    };
    let (arg, overlap, consumer, producer) = match &edge.source {
        Source::Explicit => (-1, None, None, None),
        Source::Creator { arg, consumer } => (i32::from(*arg), None, Some(side(consumer)), None),
        Source::TensorMap { arg, consumer, producer, overlap } => {
            (i32::from(*arg), Some(*overlap), Some(side(consumer)), Some(side(producer)))
        }
    };
    let source = edge.source.name();
    Row { pred: edge.pred, succ: edge.succ, source, arg, overlap, consumer, producer }
}

/// A view's elements, if it is a box of the array that its strides make of `elements` elements.
fn elements(tensor: &Tensor, elements: u64) -> Option<HashSet<u64>> {
    let dims = tensor.ndims as usize;
    let strides: Vec<u64> = tensor.strides[..dims].iter().map(|&s| s.into()).collect();
    let shape = &tensor.shapes[..dims];
    if dims == 0 || strides[dims - 1] != 1 || strides.contains(&0) || !elements.is_multiple_of(strides[0]) {
        return None;
    }
    if (1..dims).any(|d| !strides[d - 1].is_multiple_of(strides[d])) {
        return None;
    }
    let digits =
        |mut offset: u64| -> Vec<u64> { strides.iter().map(|s| (offset / s, offset %= s).0).collect() };
    let origin = digits(tensor.start_offset);
    let mut indices = vec![vec![]];
    for &n in shape {
        indices = indices
            .into_iter()
            .flat_map(|index: Vec<u64>| (0..u64::from(n)).map(move |i| [&index[..], &[i]].concat()))
            .collect();
    }
    let mut set = HashSet::new();
    for index in indices {
        let offset = tensor.start_offset + index.iter().zip(&strides).map(|(i, s)| i * s).sum::<u64>();
        let expected: Vec<u64> = origin.iter().zip(&index).map(|(o, i)| o + i).collect();
        if offset >= elements || digits(offset) != expected {
            return None;
        }
        set.insert(offset);
    }
    Some(set)
}

fn extent(tensor: &Tensor) -> u128 {
    let shape = &tensor.shapes[..tensor.ndims as usize];
    if shape.contains(&0) {
        0
    } else if tensor.is_contiguous != 0 {
        shape.iter().map(|&n| u128::from(n)).product()
    } else {
        tensor.extent_elem_cache.into()
    }
}

/// How `c` meets the write `w` on their common buffer.
pub(crate) fn overlap(c: &Tensor, w: &Tensor) -> Option<Overlap> {
    if c.version > w.version {
        return Some(Overlap::Other);
    }
    let (c_start, w_start) = (u128::from(c.start_offset), u128::from(w.start_offset));
    let common = c_start.max(w_start)..(c_start + extent(c)).min(w_start + extent(w));
    if common.is_empty() {
        return None;
    }
    let dims = c.ndims as usize;
    if c.dtype != w.dtype || c.ndims != w.ndims || c.strides[..dims] != w.strides[..dims] {
        return Some(Overlap::Other);
    }
    let numel = c.buffer.size.checked_div(DataType::bytes_of(c.dtype)).unwrap_or(0);
    match (elements(c, numel), elements(w, numel)) {
        (Some(c), Some(w)) if c.is_disjoint(&w) => None,
        (Some(c), Some(w)) if w.is_subset(&c) => Some(Overlap::Covered),
        _ => Some(Overlap::Other),
    }
}

/// All edges of `submits`, in order.
pub(crate) fn edges(submits: &[Submit]) -> Vec<Row> {
    let mut writes: Vec<(u64, Tensor)> = Vec::new();
    let mut rows = Vec::new();
    for submit in submits {
        let (succ, mut seen) = (submit.task_id, HashSet::new());
        for &pred in &submit.deps {
            if seen.insert(pred) {
                let (overlap, consumer, producer) = (None, None, None);
                rows.push(Row { pred, succ, source: "explicit", arg: -1, overlap, consumer, producer });
            }
        }
        if submit.manual {
            continue;
        }
        for (arg, (arg_type, tensor)) in (0..).zip(&submit.args) {
            if *arg_type == TensorArgType::Output {
                continue;
            }
            let (pred, consumer) = (tensor.owner_task_id.raw, Some(side(tensor)));
            if pred != task_id::INVALID && seen.insert(pred) {
                let consumer = consumer.clone();
                rows.push(Row {
                    pred,
                    succ,
                    source: "creator",
                    arg,
                    overlap: None,
                    consumer,
                    producer: None,
                });
            }
            let updates = *arg_type == TensorArgType::Inout;
            if tensor.manual_dep != 0 || !(updates || *arg_type == TensorArgType::Input) {
                continue;
            }
            let mut covered = Vec::new();
            for (i, (pred, write)) in writes.iter().enumerate().rev() {
                let meets =
                    (write.buffer.addr == tensor.buffer.addr).then(|| overlap(tensor, write)).flatten();
                if meets.is_none() {
                    continue;
                }
                seen.insert(*pred);
                let (consumer, producer) = (consumer.clone(), Some(side(write)));
                let pred = *pred;
                rows.push(Row { pred, succ, source: "tensormap", arg, overlap: meets, consumer, producer });
                if updates && meets == Some(Overlap::Covered) {
                    covered.push(i);
                }
            }
            for i in covered {
                writes.remove(i);
            }
        }
        for (arg_type, tensor) in &submit.args {
            let writer = matches!(arg_type, TensorArgType::Inout | TensorArgType::OutputExisting);
            if writer && tensor.manual_dep == 0 {
                writes.push((succ, *tensor));
            }
        }
    }
    rows
}
