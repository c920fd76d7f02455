//! Programs that would take hours if every look-up went through all earlier writes.

use super::raw::{Submit, slots, view};
use dfx_collector::abi::dep_gen::{RECORDS, SubmitRecord};
use dfx_collector::abi::tensor::{Tensor, TensorArgType};
use dfx_host_drain::deps::{DeviceCount, SubmitStore};
use std::convert::Infallible;
use std::time::{Duration, Instant};

/// Generous: the plain rules would need 10^10 comparisons and more.
const BOUND: Duration = Duration::from_secs(30);

/// How many edges `count` submits have, of which `tensor` gives the only argument.
fn edges(count: u64, tensor: impl Fn(u64) -> (TensorArgType, Tensor)) -> u64 {
    let mut slot = slots(&Submit::new(0).arg(TensorArgType::Inout, view(64, 1, 0, &[1], &[1])))[0];
    let mut store = SubmitStore::new();
    let mut buffer: Vec<SubmitRecord> = Vec::new();
    for task in 0..count {
        let (arg_type, tensor) = tensor(task);
        slot.task_id = task;
        slot.arg_types[0] = arg_type as u8;
        slot.tensors[0] = tensor;
        buffer.push(slot);
        if buffer.len() == RECORDS || task + 1 == count {
            store.push_buffer((task / RECORDS as u64) as u32, &buffer);
            buffer.clear();
        }
    }
    let whole = store.finish(DeviceCount { submits: count, ..DeviceCount::default() }).unwrap();
    let mut edges = 0;
    let started = Instant::now();
    let Ok(()) = whole.replay::<Infallible>(|_| {
        edges += 1;
        Ok(())
    });
    assert!(started.elapsed() < BOUND, "{:?}", started.elapsed());
    edges
}

const N: u64 = 200_000;
/// Odd, so that multiples of it visit every number below a power of two.
const STEP: u64 = 0x9e37_79b1;

#[test]
fn covering_inouts_on_one_buffer_take_linear_time() {
    let x = view(64, 1024, 0, &[1024], &[1]);
    assert_eq!(edges(N, |_| (TensorArgType::Inout, x)), N - 1);
}

#[test]
fn disjoint_ranges_of_one_buffer_take_no_time_in_any_order() {
    let n = N.next_power_of_two();
    let range = |i: u64| view(64, n * 16, i % n * 16, &[16], &[1]);
    assert_eq!(edges(n, |i| (TensorArgType::Inout, range(i))), 0);
    assert_eq!(edges(n, |i| (TensorArgType::Inout, range(i * STEP))), 0);
    assert_eq!(edges(n, |i| (TensorArgType::Inout, range(i % (n / 2) * STEP))), n / 2);
}

#[test]
fn disjoint_tiles_of_one_array_take_no_time_in_any_order() {
    let n = N.next_power_of_two();
    let side = 1 << (n.trailing_zeros() / 2);
    let cols = n / side;
    let tile = |i: u64| {
        let (row, col) = (i % n / cols * 4, i % cols * 4);
        view(64, n * 16, row * cols * 4 + col, &[4, 4], &[cols as u32 * 4, 1])
    };
    assert_eq!(edges(n, |i| (TensorArgType::Inout, tile(i))), 0);
    assert_eq!(edges(n, |i| (TensorArgType::Inout, tile(i * STEP))), 0);
}

#[test]
fn columns_of_one_array_are_told_apart_although_their_spans_meet() {
    let n = N as u32;
    let column = |i: u64| view(64, N * 4, i, &[4, 1], &[n, 1]);
    assert_eq!(edges(N, |i| (TensorArgType::Inout, column(i))), 0);
    let again = |i: u64| column(i % (N / 2) * 2 + i / (N / 2) % 2 * (i % 2));
    assert!(edges(N, |i| (TensorArgType::Inout, again(i))) > 0);
}

#[test]
fn a_mix_of_arrays_and_versions_follows_the_size_of_the_output() {
    let mixed = |i: u64| {
        let start = i * 64;
        let mut tensor = match i % 4 {
            0 => view(64, N * 64, start, &[8, 8], &[8, 1]),
            1 => view(64, N * 64, start, &[16], &[2]),
            2 => view(64, N * 64, start, &[4, 4, 4], &[16, 4, 1]),
            // More kinds of arrays than there are groups.
            _ => view(64, N * 64, start, &[1, 4], &[4 + i as u32 % 1000 / 4, 1]),
        };
        tensor.version = -(i as i32);
        (TensorArgType::Inout, tensor)
    };
    assert_eq!(edges(N, mixed), 0);
}

#[test]
fn rewriting_one_corner_of_a_crowded_buffer_stays_fast() {
    let corner = |i: u64| match i {
        _ if i < N / 2 => view(64, N * 16, i * 16, &[16], &[1]),
        _ if i < N / 2 + N / 4 => view(64, N * 16, i * 16, &[4], &[1]),
        _ => view(64, N * 16, N / 2 * 16, &[N as u32 * 8], &[1]),
    };
    assert_eq!(edges(N, |i| (TensorArgType::Inout, corner(i))), N / 4 + N / 4 - 1);
}
