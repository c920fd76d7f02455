//! The rules one by one.

use super::oracle;
use super::random::replayed;
use super::raw::{self, Submit, view};
use dfx_collector::abi::tensor::{Tensor, TensorArgType};
use dfx_host_drain::deps::Overlap::{self, Covered, Other};

const IN: TensorArgType = TensorArgType::Input;
const INOUT: TensorArgType = TensorArgType::Inout;
const OUT: TensorArgType = TensorArgType::OutputExisting;

/// `(pred, succ, source)` of every edge.
fn edges(submits: &[Submit]) -> Vec<(u64, u64, &'static str)> {
    let rows = replayed(&raw::stored(submits), submits);
    assert_eq!(rows, oracle::edges(submits));
    rows.iter().map(|row| (row.pred, row.succ, row.source)).collect()
}

/// How a reader of `consumer` meets a writer of `write`; both ways of finding it must agree.
fn meets(consumer: Tensor, write: Tensor) -> Option<Overlap> {
    let submits = [Submit::new(1).arg(OUT, write), Submit::new(2).arg(IN, consumer)];
    let alone = replayed(&raw::stored(&submits), &submits).first().and_then(|row| row.overlap);
    let mut crowd: Vec<Submit> =
        (0..200).map(|i| Submit::new(100 + i).arg(OUT, view(64, 1 << 20, 100_000 + i, &[1], &[1]))).collect();
    crowd.insert(77, Submit::new(1).arg(OUT, write));
    crowd.push(Submit::new(2).arg(IN, consumer));
    let rows = replayed(&raw::stored(&crowd), &crowd);
    let crowded = rows.iter().find(|row| row.pred == 1).and_then(|row| row.overlap);
    assert_eq!(alone, crowded);
    alone
}

#[test]
fn explicit_comes_first_then_creator_then_writes_newest_first() {
    let mut x = view(64, 8, 0, &[8], &[1]);
    x.owner_task_id.raw = 50;
    let submits = [
        Submit::new(1).arg(OUT, x),
        Submit::new(2).arg(OUT, x),
        Submit::new(3).arg(IN, x).arg(IN, x).deps([2, 40, 2]),
    ];
    let (explicit, creator, map) = ("explicit", "creator", "tensormap");
    let expected = [
        (50, 1, creator),
        (50, 2, creator),
        (2, 3, explicit),
        (40, 3, explicit),
        (50, 3, creator),
        // Rows of the map are never merged.
        (2, 3, map),
        (1, 3, map),
        (2, 3, map),
        (1, 3, map),
    ];
    assert_eq!(edges(&submits), expected);
}

#[test]
fn a_write_that_is_a_predecessor_already_hides_a_later_creator() {
    let x = view(64, 8, 0, &[8], &[1]);
    let mut made = view(128, 8, 0, &[8], &[1]);
    made.owner_task_id.raw = 1;
    let submits = [Submit::new(1).arg(OUT, x), Submit::new(2).arg(IN, x).arg(IN, made)];
    assert_eq!(edges(&submits), [(1, 2, "tensormap")]);
    let swapped = [Submit::new(1).arg(OUT, x), Submit::new(2).arg(IN, made).arg(IN, x)];
    assert_eq!(edges(&swapped), [(1, 2, "creator"), (1, 2, "tensormap")]);
}

#[test]
fn only_an_inout_that_covers_a_write_removes_it() {
    let (x, low) = (view(64, 8, 0, &[8], &[1]), view(64, 8, 0, &[4], &[1]));
    let map = |pred, succ| (pred, succ, "tensormap");
    let read = [Submit::new(1).arg(OUT, low), Submit::new(2).arg(IN, x), Submit::new(3).arg(INOUT, x)];
    let then = |submits: &[Submit]| [submits, &[Submit::new(9).arg(IN, low)]].concat();
    assert_eq!(edges(&then(&read)), [map(1, 2), map(1, 3), map(3, 9)]);
    let partial = [Submit::new(1).arg(OUT, x), Submit::new(2).arg(INOUT, low)];
    assert_eq!(edges(&then(&partial)), [map(1, 2), map(2, 9), map(1, 9)]);
    let overwritten = [Submit::new(1).arg(OUT, low), Submit::new(2).arg(OUT, x)];
    assert_eq!(edges(&then(&overwritten)), [map(2, 9), map(1, 9)]);
}

#[test]
fn a_submit_does_not_meet_its_own_writes_and_manual_tensors_meet_none() {
    let x = view(64, 8, 0, &[8], &[1]);
    let mut quiet = x;
    quiet.manual_dep = 1;
    let submits = [
        Submit::new(1).arg(OUT, x).arg(IN, x),
        Submit::new(2).arg(INOUT, quiet),
        Submit::new(3).arg(TensorArgType::NoDep, x),
        Submit::new(4).arg(IN, x),
    ];
    assert_eq!(edges(&submits), [(1, 4, "tensormap")]);
}

#[test]
fn boxes_of_one_array_are_told_apart() {
    let tile = |row: u64, col: u64| view(64, 16, row * 4 + col, &[2, 2], &[4, 1]);
    let whole = view(64, 16, 0, &[4, 4], &[4, 1]);
    assert_eq!(meets(whole, tile(2, 2)), Some(Covered));
    assert_eq!(meets(tile(2, 2), whole), Some(Other));
    assert_eq!(meets(tile(0, 0), tile(0, 2)), None);
    assert_eq!(meets(tile(0, 0), tile(1, 1)), Some(Other));
    assert_eq!(meets(tile(1, 1), tile(1, 1)), Some(Covered));
}

#[test]
fn what_cannot_be_told_apart_meets() {
    let tile = |col: u64| view(64, 16, col, &[2, 2], &[4, 1]);
    let with = |mut tensor: Tensor, change: fn(&mut Tensor)| {
        change(&mut tensor);
        tensor
    };
    let newer = |tensor| with(tensor, |t| t.version = 1);
    let cases = [
        ("a newer version", newer(tile(0)), tile(2), Some(Other)),
        (
            "a newer version elsewhere",
            newer(view(64, 99, 0, &[2], &[1])),
            view(64, 99, 50, &[2], &[1]),
            Some(Other),
        ),
        ("an older version", tile(0), newer(tile(2)), None),
        ("spans apart", view(64, 16, 0, &[4], &[1]), view(64, 16, 4, &[2, 2], &[4, 1]), None),
        ("another dtype", with(tile(0), |t| t.dtype = 4), tile(2), Some(Other)),
        ("another rank", view(64, 16, 0, &[16], &[1]), tile(0), Some(Other)),
        ("other strides", view(64, 16, 0, &[2, 2], &[8, 1]), tile(2), Some(Other)),
        ("rank 0", view(64, 16, 3, &[], &[]), view(64, 16, 3, &[], &[]), Some(Other)),
        ("rank 0, apart", view(64, 16, 3, &[], &[]), view(64, 16, 4, &[], &[]), None),
        ("no unit stride", view(64, 16, 0, &[2], &[2]), view(64, 16, 1, &[2], &[2]), Some(Other)),
        (
            "strides that do not nest",
            view(64, 15, 0, &[2, 2, 2], &[5, 2, 1]),
            view(64, 15, 3, &[2, 2, 1], &[5, 2, 1]),
            Some(Other),
        ),
        ("a broadcast", view(64, 16, 0, &[2, 2], &[0, 1]), view(64, 16, 1, &[2, 2], &[0, 1]), Some(Other)),
        ("no whole rows", view(64, 14, 0, &[2, 2], &[4, 1]), view(64, 14, 2, &[2, 2], &[4, 1]), Some(Other)),
        ("beyond the row", tile(3), tile(0), Some(Other)),
        (
            "beyond the buffer",
            view(64, 16, 12, &[2, 2], &[4, 1]),
            view(64, 16, 14, &[1, 2], &[4, 1]),
            Some(Other),
        ),
        ("empty", view(64, 16, 2, &[0], &[1]), view(64, 16, 0, &[8], &[1]), None),
        (
            "a write beyond what the consumer says the buffer is",
            tile(0),
            view(64, 32, 14, &[4, 2], &[4, 1]),
            None,
        ),
        (
            "at the end of all addresses",
            view(64, 16, u64::MAX, &[4], &[1]),
            view(64, 16, u64::MAX - 1, &[8], &[1]),
            Some(Other),
        ),
    ];
    for (what, consumer, write, expected) in cases {
        assert_eq!(meets(consumer, write), expected, "{what}");
    }
}

#[test]
fn a_crowd_that_becomes_few_again_keeps_its_order() {
    let part = |start: u64, len: u32| view(64, 256, start, &[len], &[1]);
    // Written in an order that is not that of their places.
    let mut submits: Vec<Submit> =
        (0..64).map(|i| Submit::new(i).arg(OUT, part(i * 27 % 64 * 4, 4))).collect();
    submits.push(Submit::new(100).arg(INOUT, part(0, 58 * 4)));
    submits.push(Submit::new(101).arg(OUT, part(8, 240)));
    submits.push(Submit::new(102).arg(IN, part(0, 256)));
    let preds: Vec<u64> = edges(&submits).iter().filter(|edge| edge.1 == 102).map(|edge| edge.0).collect();
    assert_eq!(preds.len(), 8);
    assert!(preds.is_sorted_by(|newer, older| newer > older), "{preds:?}");
}
