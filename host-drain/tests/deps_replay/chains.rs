//! Explicit dependencies through real slots.

use super::oracle;
use super::random::replayed;
use super::raw::{self, Submit};
use dfx_collector::abi::dep_gen::RECORDS;

/// Issue 5, point 1: every length at which a chain changes its form.
#[test]
fn a_chain_of_any_length_gives_its_edges_in_order() {
    for deps in [0u64, 1, 63, 64, 65, 646, 647, 1228, 1229, 5000] {
        let mut submits: Vec<Submit> = (0..20).map(|i| Submit::new(10_000 + i)).collect();
        submits.push(Submit::new(1 << 33).deps(0..deps));
        submits.push(Submit::new(1 << 34).deps((0..deps).rev()));
        let rows = replayed(&raw::stored(&submits), &submits);
        assert_eq!(rows, oracle::edges(&submits), "{deps}");
        assert_eq!(rows.len() as u64, 2 * deps);
        assert!(rows.iter().take(deps as usize).map(|row| row.pred).eq(0..deps), "{deps}");
    }
}

#[test]
fn a_predecessor_named_twice_is_one_edge_even_across_slots() {
    let submits = [Submit::new(7).deps((0..2000).chain(0..2000)).deps([5, 3000])];
    let rows = replayed(&raw::stored(&submits), &submits);
    assert_eq!(rows.len(), 2001);
    assert_eq!(rows[2000].pred, 3000);
}

#[test]
fn chains_that_end_with_their_buffer_are_whole() {
    let submits: Vec<Submit> =
        (0..RECORDS as u64).map(|i| Submit::new(1_000_000 + i).deps(0..64 + 582)).collect();
    assert_eq!(raw::buffers(&submits, RECORDS).len(), 2);
    let rows = replayed(&raw::stored(&submits), &submits);
    assert_eq!(rows.len(), submits.len() * 646);
}

#[test]
fn manual_scopes_take_their_explicit_dependencies_only() {
    let tensor = raw::view(4096, 16, 0, &[16], &[1]);
    let inout = dfx_collector::abi::tensor::TensorArgType::Inout;
    let mut submits = vec![Submit::new(1).arg(inout, tensor), Submit::new(2).arg(inout, tensor).deps([9])];
    submits[1].manual = true;
    submits.push(Submit::new(3).arg(inout, tensor));
    let rows = replayed(&raw::stored(&submits), &submits);
    let pairs: Vec<_> = rows.iter().map(|row| (row.pred, row.succ, row.source)).collect();
    assert_eq!(pairs, [(9, 2, "explicit"), (1, 3, "tensormap")]);
}
