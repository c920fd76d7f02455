//! The replay against the oracle, on random programs.

use super::oracle::{self, Row};
use super::raw::{self, Submit};
use dfx_collector::abi::task_id;
use dfx_collector::abi::tensor::{Tensor, TensorArgType};
use dfx_host_drain::deps::SubmitStore;
use proptest::prelude::*;
use std::convert::Infallible;

/// What the replay makes of `store`.
pub(crate) fn replayed(store: &SubmitStore, submits: &[Submit]) -> Vec<Row> {
    let mut rows = Vec::new();
    let whole = store.finish(raw::count(submits)).expect("a whole capture");
    let Ok(()) = whole.replay::<Infallible>(|edge| {
        rows.push(oracle::row(&edge));
        Ok(())
    });
    rows
}

/// Bounds of the random programs.
#[derive(Clone, Copy)]
struct Size {
    submits: usize,
    args: usize,
    buffers: u64,
    /// Rows and columns of every buffer.
    rows: u32,
    cols: u32,
    /// How often a view is something else than a box of the buffer's rows and columns, out of 100.
    odd: u32,
}

/// A box of the buffer's rows and columns; what is drawn may stick out.
fn tile(size: Size) -> impl Strategy<Value = (u64, Vec<u32>, Vec<u32>)> {
    let Size { rows, cols, .. } = size;
    (0..rows, 0..cols, 1..=rows, 1..=cols, 0..100u32).prop_map(move |(row, col, height, width, clip)| {
        // Most views keep inside, and most are small.
        let (height, width) = if clip < 60 { (1 + height % 3, 1 + width % 3) } else { (height, width) };
        let (height, width) =
            if clip < 90 { (height.min(rows - row), width.min(cols - col)) } else { (height, width) };
        (u64::from(row * cols + col), vec![height, width], vec![cols, 1])
    })
}

/// Any view: rank, shape, strides and start as they come.
fn odd(size: Size) -> impl Strategy<Value = (u64, Vec<u32>, Vec<u32>)> {
    let Size { rows, cols, .. } = size;
    let start = 0..=u64::from(rows * cols);
    let flat = (start.clone(), 0..=cols).prop_map(|(start, n)| (start, vec![n], vec![1]));
    let cube = (start.clone(), prop::collection::vec(0..4u32, 3))
        .prop_map(move |(start, shape)| (start, shape, vec![cols * 2, 2, 1]));
    let stride = prop_oneof![Just(0), Just(1), Just(2), Just(3), Just(cols), Just(cols * 2)];
    let any = (start, prop::collection::vec((0..4u32, stride), 0..=5)).prop_map(|(start, dims)| {
        let (shape, strides) = dims.into_iter().unzip();
        (start, shape, strides)
    });
    prop_oneof![2 => flat, 1 => cube, 1 => any]
}

fn tensor(size: Size) -> impl Strategy<Value = Tensor> {
    let shape = prop_oneof![
        100 - size.odd => tile(size).boxed(),
        size.odd => odd(size).boxed(),
    ];
    let odd = size.odd;
    let rare = move |one_in: u32| (0..one_in).prop_map(move |n| n == 0 && odd > 0);
    let kind = (rare(6), rare(8), rare(12), rare(20), 0..4u64);
    (0..size.buffers, shape, kind, 0..1_000_000u64).prop_map(
        move |(buffer, (start, shape, strides), (newer, dtype, manual, resized, owned), owner)| {
            let elements = u64::from(size.rows * size.cols) + u64::from(resized) * u64::from(size.cols / 2);
            let mut tensor = raw::view(0x1000 + buffer * 64, elements, start, &shape, &strides);
            tensor.version = i32::from(newer) - i32::from(resized);
            tensor.dtype = if dtype { 5 + 9 * (owner % 2) as u8 + 90 * (owner % 3 / 2) as u8 } else { 0 };
            tensor.manual_dep = manual.into();
            // Taken modulo the submit's number later.
            tensor.owner_task_id.raw = if owned == 0 { owner } else { task_id::INVALID };
            tensor
        },
    )
}

fn id(number: u64) -> u64 {
    task_id::new((number % 3) as u8, number as u32)
}

fn program(size: Size) -> impl Strategy<Value = Vec<Submit>> {
    let arg_type = prop_oneof![
        4 => Just(TensorArgType::Input),
        1 => Just(TensorArgType::Output),
        4 => Just(TensorArgType::Inout),
        3 => Just(TensorArgType::OutputExisting),
        1 => Just(TensorArgType::NoDep),
    ];
    let args = prop::collection::vec((arg_type, tensor(size)), 0..=size.args);
    let deps = prop::collection::vec(0..1_000_000u64, 0..4);
    let submit = (args, deps, 0..12u32).prop_map(|(args, deps, manual)| {
        let args = args.into_iter().fold(Submit::new(0), |submit, (arg_type, t)| submit.arg(arg_type, t));
        Submit { manual: manual == 0, early: manual == 1, ..args.deps(deps) }
    });
    prop::collection::vec(submit, 1..=size.submits).prop_map(|mut submits| {
        for (number, submit) in (0..).zip(&mut submits) {
            submit.task_id = id(number);
            // The first submit's owner is an alloc that was never captured.
            let earlier = |n: u64| id(if number == 0 { 999 } else { n % number });
            submit.deps.iter_mut().for_each(|dep| *dep = earlier(*dep));
            let owners = submit.args.iter_mut().map(|(_, tensor)| &mut tensor.owner_task_id.raw);
            owners.filter(|owner| **owner != task_id::INVALID).for_each(|owner| *owner = earlier(*owner));
        }
        submits
    })
}

fn check(submits: &[Submit], capacity: usize, shuffle: &[u32]) -> Result<(), TestCaseError> {
    let store = raw::store(submits, capacity, shuffle);
    prop_assert_eq!(store.refusal(), None);
    let (replayed, expected) = (replayed(&store, submits), oracle::edges(submits));
    for (i, (row, expected)) in replayed.iter().zip(&expected).enumerate() {
        prop_assert_eq!(row, expected, "edge {}", i);
    }
    prop_assert_eq!(replayed.len(), expected.len());
    Ok(())
}

const SMALL: Size = Size { submits: 24, args: 4, buffers: 2, rows: 4, cols: 6, odd: 50 };
const CROWDED: Size = Size { submits: 300, args: 2, buffers: 1, rows: 16, cols: 16, odd: 0 };
const MIXED: Size = Size { submits: 160, args: 3, buffers: 1, rows: 12, cols: 12, odd: 15 };

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3000))]
    #[test]
    fn small_programs_give_the_oracles_edges_in_its_order(
        submits in program(SMALL), capacity in 1..9usize, shuffle in prop::collection::vec(any::<u32>(), 0..9),
    ) {
        check(&submits, capacity, &shuffle)?;
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]
    #[test]
    fn many_tiles_on_one_buffer_give_the_oracles_edges_in_its_order(submits in program(CROWDED)) {
        check(&submits, 100, &[3, 0])?;
    }

    #[test]
    fn many_odd_views_on_one_buffer_give_the_oracles_edges_in_its_order(submits in program(MIXED)) {
        check(&submits, 100, &[])?;
    }
}
