//! Tests of the derivation, and the brute-force oracle: element sets of every pair.

use super::*;
use crate::builder::ProgramBuilder;
use crate::program::{Init, KernelId, Op};
use dfx_collector::abi::tensor::DataType::{Float32, Int8, Int32};
use proptest::prelude::*;
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

fn builder() -> (ProgramBuilder, KernelId) {
    let mut p = ProgramBuilder::new("test");
    let kernel = p.kernel("nop", Duration::ZERO, |_| {});
    (p, kernel)
}

/// Predecessors of every submit.
fn fanins(program: &Program) -> Vec<Vec<u32>> {
    let mut fanin = Fanin::new(program);
    let mut scopes = vec![false];
    let mut all = Vec::new();
    for op in &program.ops {
        match op {
            Op::ScopeBegin { manual } => scopes.push(*manual),
            Op::ScopeEnd => drop(scopes.pop()),
            Op::Submit(submit) => {
                let mut out = Vec::new();
                fanin.submit(submit, *scopes.last().unwrap(), &mut out);
                all.push(out.into_iter().map(|pred| pred.0).collect());
            }
        }
    }
    all
}

#[test]
fn explicit_comes_first_then_creator_then_writers_newest_first() {
    let (mut p, k) = builder();
    let x = p.tensor("x", Float32, &[8]).unwrap();
    let half = p.view(x, "half", &[4], &[1], 0).unwrap();
    let alloc = p.alloc(&[x]).unwrap();
    let first = p.submit().aiv(k).output_existing(half).done().unwrap();
    let second = p.submit().aiv(k).output_existing(x).done().unwrap();
    let other = p.submit().deps(&[second, second]).done().unwrap();
    p.submit().aiv(k).input(x).deps(&[other, first]).done().unwrap();
    let fanins = fanins(&p.build().unwrap());
    assert_eq!(fanins[1..3], [vec![alloc.0], vec![alloc.0]]);
    assert_eq!(fanins[3], [second.0]);
    assert_eq!(fanins[4], [other.0, first.0, alloc.0, second.0]);
}

#[test]
fn an_inout_that_covers_a_writer_replaces_it() {
    let (mut p, k) = builder();
    let x = p.host("x", Float32, &[8], Init::Zero).unwrap();
    let (low, high) = (p.view(x, "low", &[4], &[1], 0).unwrap(), p.view(x, "high", &[4], &[1], 4).unwrap());
    p.submit().aiv(k).output_existing(low).done().unwrap();
    p.submit().aiv(k).output_existing(high).done().unwrap();
    p.submit().aiv(k).inout(low).done().unwrap();
    p.submit().aiv(k).input(x).done().unwrap();
    p.submit().aiv(k).inout(x).done().unwrap();
    p.submit().aiv(k).input(high).done().unwrap();
    let expected: [&[u32]; 6] = [&[], &[], &[0], &[2, 1], &[2, 1], &[4]];
    assert_eq!(fanins(&p.build().unwrap()), expected);
}

#[test]
fn own_writes_are_registered_after_all_look_ups() {
    let (mut p, k) = builder();
    let x = p.host("x", Float32, &[8], Init::Zero).unwrap();
    p.submit().aiv(k).output_existing(x).input(x).done().unwrap();
    p.submit().aiv(k).inout(x).input(x).done().unwrap();
    p.submit().aiv(k).inout(x).done().unwrap();
    assert_eq!(fanins(&p.build().unwrap()), [vec![], vec![0], vec![1]]);
}

#[test]
fn manual_scopes_and_manual_deps_derive_nothing() {
    let (mut p, k) = builder();
    let x = p.host("x", Float32, &[8], Init::Zero).unwrap();
    let quiet = p.manual_dep(x).unwrap();
    let made = p.tensor("made", Float32, &[8]).unwrap();
    let quiet_made = {
        p.submit().aiv(k).output(made).done().unwrap();
        p.manual_dep(made).unwrap()
    };
    let writer = p.submit().aiv(k).inout(x).done().unwrap();
    p.manual_scope_begin();
    p.submit().aiv(k).inout(x).done().unwrap();
    p.submit().aiv(k).inout(x).deps(&[writer]).done().unwrap();
    p.scope_end().unwrap();
    p.submit().aiv(k).inout(quiet).done().unwrap();
    p.submit().aiv(k).input(quiet_made).done().unwrap();
    p.submit().aiv(k).input(x).done().unwrap();
    assert_eq!(fanins(&p.build().unwrap()), [vec![], vec![], vec![], vec![1], vec![], vec![0], vec![1]]);
}

fn view(shape: &[u32], strides: &[u32], start_offset: u64) -> TensorDef {
    TensorDef {
        name: "v".into(),
        buffer: BufferId(0),
        dtype: Float32,
        shape: shape.to_vec(),
        strides: strides.to_vec(),
        start_offset,
        version: 0,
        manual_dep: false,
    }
}

#[test]
fn overlap_is_exact_for_boxes_of_one_array_and_cautious_otherwise() {
    let tile = |row: u64, col: u64| view(&[2, 2], &[4, 1], row * 4 + col);
    let whole = view(&[4, 4], &[4, 1], 0);
    assert_eq!(overlap(&whole, &tile(2, 2), 16), Overlap::Covered);
    assert_eq!(overlap(&tile(2, 2), &whole, 16), Overlap::Other);
    assert_eq!(overlap(&tile(0, 0), &tile(0, 2), 16), Overlap::None);
    assert_eq!(overlap(&tile(0, 0), &tile(1, 1), 16), Overlap::Other);
    let cases = [
        (TensorDef { version: 1, ..tile(0, 0) }, tile(0, 2), Overlap::Other),
        (tile(0, 0), TensorDef { version: 1, ..tile(0, 2) }, Overlap::None),
        (TensorDef { dtype: Int8, ..tile(0, 0) }, tile(0, 2), Overlap::Other),
        (view(&[16], &[1], 0), tile(0, 0), Overlap::Other),
        (view(&[], &[], 0), view(&[], &[], 0), Overlap::Other),
        (view(&[2], &[2], 0), view(&[2], &[2], 1), Overlap::Other),
        (view(&[2, 2], &[5, 2], 0), view(&[2, 2], &[5, 2], 1), Overlap::Other),
        (view(&[2, 2], &[3, 1], 0), view(&[2, 2], &[3, 1], 0), Overlap::Other),
        (tile(0, 3), tile(0, 0), Overlap::Other),
        (view(&[0], &[1], 2), view(&[8], &[1], 0), Overlap::None),
    ];
    for (i, (consumer, writer, expected)) in cases.iter().enumerate() {
        assert_eq!(overlap(consumer, writer, 16), *expected, "case {i}");
    }
}

#[test]
fn a_long_chain_on_one_buffer_takes_linear_time() {
    let (mut p, k) = builder();
    let x = p.host("x", Int32, &[16], Init::Zero).unwrap();
    for _ in 0..300_000 {
        p.submit().aiv(k).inout(x).done().unwrap();
    }
    let program = p.build().unwrap();
    let started = Instant::now();
    let fanins = fanins(&program);
    assert!(started.elapsed() < Duration::from_secs(5), "{:?}", started.elapsed());
    assert!(fanins.iter().enumerate().skip(1).all(|(i, preds)| *preds == [i as u32 - 1]));
}

/// An argument of the oracle's programs: how it is used and which rows and columns of the 6 × 4 array it takes.
#[derive(Clone, Debug)]
struct Use {
    access: u8,
    rows: (u32, u32),
    cols: (u32, u32),
    flat: bool,
}

impl Use {
    fn elements(&self) -> BTreeSet<u32> {
        let (rows, cols) = (self.rows.0..self.rows.0 + self.rows.1, self.cols.0..self.cols.0 + self.cols.1);
        rows.flat_map(|row| cols.clone().map(move |col| row * 4 + col)).collect()
    }
}

fn uses(flat: bool) -> impl Strategy<Value = Vec<Vec<Use>>> {
    let span = |size: u32| (0..size).prop_flat_map(move |start| (Just(start), 1..=size - start));
    let one = (0..3u8, span(6), span(4), any::<bool>()).prop_map(move |(access, rows, cols, is_flat)| {
        // A contiguous 1-D view takes whole rows.
        let flat = flat && is_flat;
        Use { access, rows, cols: if flat { (0, 4) } else { cols }, flat }
    });
    prop::collection::vec(prop::collection::vec(one, 1..4), 1..24)
}

fn program_of(submits: &[Vec<Use>]) -> Program {
    let (mut p, k) = builder();
    let array = p.host("array", Float32, &[6, 4], Init::Zero).unwrap();
    for uses in submits {
        let mut tensors = Vec::new();
        for Use { rows, cols, flat, .. } in uses {
            let offset = u64::from(rows.0 * 4 + cols.0);
            let view = match flat {
                true => p.view(array, "flat", &[rows.1 * 4], &[1], offset),
                false => p.view(array, "box", &[rows.1, cols.1], &[4, 1], offset),
            };
            tensors.push(view.unwrap());
        }
        let submit = uses.iter().zip(tensors).fold(p.submit().aiv(k), |submit, (u, tensor)| match u.access {
            0 => submit.input(tensor),
            1 => submit.inout(tensor),
            _ => submit.output_existing(tensor),
        });
        submit.done().unwrap();
    }
    p.build().unwrap()
}

/// The same rules on sets of elements.
fn by_element_sets(submits: &[Vec<Use>]) -> Vec<BTreeSet<u32>> {
    let mut writers: Vec<(u32, BTreeSet<u32>)> = Vec::new();
    let mut all = Vec::new();
    for (id, uses) in submits.iter().enumerate() {
        let mut preds = BTreeSet::new();
        for u in uses.iter().filter(|u| u.access < 2) {
            let own = u.elements();
            preds.extend(writers.iter().filter(|(_, set)| !set.is_disjoint(&own)).map(|(writer, _)| *writer));
            writers.retain(|(_, set)| u.access == 0 || !set.is_subset(&own));
        }
        writers.extend(uses.iter().filter(|u| u.access > 0).map(|u| (id as u32, u.elements())));
        all.push(preds);
    }
    all
}

proptest! {
    #[test]
    fn boxes_of_one_array_give_exactly_the_predecessors_of_the_element_sets(submits in uses(false)) {
        let derived: Vec<BTreeSet<u32>> =
            fanins(&program_of(&submits)).into_iter().map(|preds| preds.into_iter().collect()).collect();
        prop_assert_eq!(derived, by_element_sets(&submits));
    }

    #[test]
    fn views_of_different_ranks_give_at_least_those(submits in uses(true)) {
        let derived = fanins(&program_of(&submits));
        for (preds, expected) in derived.iter().zip(by_element_sets(&submits)) {
            prop_assert!(expected.iter().all(|pred| preds.contains(pred)), "{preds:?} lacks some of {expected:?}");
        }
    }
}
