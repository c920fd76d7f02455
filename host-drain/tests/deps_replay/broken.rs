//! Captures that are no whole graph: refused, and the reason names the task and the slot.

use super::raw::{self, Submit, slots};
use dfx_collector::abi::dep_gen::{OVERFLOW_DEPS, OverflowRecord, RECORDS, SubmitRecord, flags};
use dfx_collector::abi::tensor::TensorArgType;
use dfx_host_drain::deps::{DeviceCount, Refusal, SlotFault, SubmitStore};

fn refusal(slots: &[SubmitRecord]) -> Refusal {
    let mut store = SubmitStore::new();
    store.push_buffer(3, slots);
    let refusal = store.refusal().expect("it is refused").clone();
    let submits = slots.iter().filter(|slot| slot.flags & flags::OVERFLOW == 0).count() as u64;
    let count = DeviceCount { submits, overflow: slots.len() as u64 - submits, dropped: 0 };
    assert_eq!(store.finish(count).expect_err("so is the whole"), refusal);
    refusal
}

/// A good submit, then task 42, whose slots `damage` changes.
fn damaged(deps: u64, damage: impl Fn(&mut Vec<SubmitRecord>)) -> Refusal {
    let tensor = raw::view(4096, 16, 0, &[16], &[1]);
    let mut chain = slots(&Submit::new(42).arg(TensorArgType::Inout, tensor).deps(0..deps));
    damage(&mut chain);
    let mut all = slots(&Submit::new(1));
    all.extend(chain);
    refusal(&all)
}

fn overflow(slot: &mut SubmitRecord) -> &mut OverflowRecord {
    zerocopy::transmute_mut!(slot)
}

#[track_caller]
fn assert_slot(refusal: &Refusal, at: usize, of: u64, expected: &SlotFault) {
    let Refusal::Slot { buffer: 3, slot, task_id, fault } = refusal else { panic!("{refusal:?}") };
    assert_eq!((*slot, *task_id, fault), (at, of, expected));
    let text = refusal.to_string();
    assert!(text.contains(&format!("buffer 3, slot {at} (task {of})")), "{text}");
}

#[test]
fn counts_and_types_that_no_device_writes_are_refused() {
    assert_slot(&damaged(0, |c| c[0].tensor_count = 33), 1, 42, &SlotFault::Tensors(33));
    assert_slot(&damaged(0, |c| c[0].explicit_dep_count = 65), 1, 42, &SlotFault::Deps(65));
    assert_slot(&damaged(0, |c| c[0].arg_types[0] = 5), 1, 42, &SlotFault::ArgType { arg: 0, value: 5 });
    assert_slot(&damaged(0, |c| c[0].tensors[0].ndims = 6), 1, 42, &SlotFault::Dims { arg: 0, ndims: 6 });
    assert_slot(&damaged(0, |c| c[0].flags |= flags::TRUNCATED), 1, 42, &SlotFault::Truncated);
}

#[test]
fn a_broken_chain_is_refused_at_the_slot_that_breaks_it() {
    assert_slot(&damaged(2000, |c| c.truncate(3)), 3, 42, &SlotFault::NoLast);
    assert_slot(&damaged(2000, |c| c.truncate(1)), 1, 42, &SlotFault::NoLast);
    assert_slot(&damaged(2000, |c| c[2] = slots(&Submit::new(50))[0]), 2, 42, &SlotFault::NoLast);
    assert_slot(&damaged(100, |c| overflow(&mut c[1]).flags = flags::OVERFLOW), 2, 42, &SlotFault::NoLast);
    let wrong = damaged(100, |c| overflow(&mut c[1]).task_id = 43);
    assert_slot(&wrong, 2, 43, &SlotFault::WrongTask { expected: 42 });
    let beyond = damaged(2000, |c| overflow(&mut c[2]).dep_count = 583);
    assert_slot(&beyond, 3, 42, &SlotFault::OverflowDeps(583));
    assert_slot(&damaged(100, |c| c[0].flags = 0), 2, 42, &SlotFault::Orphan);
    assert_slot(&damaged(100, |c| c.push(c[1])), 3, 42, &SlotFault::Orphan);
    assert_slot(&damaged(100, |c| c.rotate_left(1)), 1, 42, &SlotFault::Orphan);
}

#[test]
fn a_chain_that_fills_a_buffer_may_have_been_cut() {
    let whole = 64 + (RECORDS as u64 - 1) * OVERFLOW_DEPS as u64;
    let cut = refusal(&slots(&Submit::new(42).deps(0..whole)));
    assert_eq!(cut, Refusal::ChainCut { task_id: 42, deps: whole as usize });
    assert!(cut.to_string().contains("task 42"), "{cut}");
    let submits = [Submit::new(42).deps(0..whole - 1)];
    assert!(raw::stored(&submits).finish(raw::count(&submits)).is_ok());
}

#[test]
fn a_buffer_that_comes_twice_or_is_too_long_is_refused() {
    let mut store = SubmitStore::new();
    assert_eq!(store.push_buffer(0, &slots(&Submit::new(1))), 1);
    assert_eq!(store.push_buffer(0, &slots(&Submit::new(1).deps(0..100))), 1);
    assert_eq!(store.refusal(), Some(&Refusal::Duplicate { buffer: 0 }));
    let long = vec![slots(&Submit::new(1))[0]; RECORDS + 1];
    assert_eq!(refusal(&long), Refusal::Size { buffer: 3, slots: RECORDS + 1 });
}

#[test]
fn what_the_device_counted_must_have_come() {
    let submits = [Submit::new(1), Submit::new(2).deps(0..100)];
    let store = raw::stored(&submits);
    let count = raw::count(&submits);
    assert_eq!((store.slots(), store.submits()), (3, 2));
    assert!(store.finish(count).is_ok());
    let dropped = store.finish(DeviceCount { dropped: 5, ..count }).unwrap_err();
    assert_eq!(dropped, Refusal::Dropped { dropped: 5 });
    assert!(dropped.to_string().contains("dropped 5"), "{dropped}");
    for count in [DeviceCount { submits: 3, ..count }, DeviceCount { overflow: 2, ..count }] {
        let missing = store.finish(count).unwrap_err();
        assert_eq!(missing, Refusal::Incomplete { submits: count.submits, counted: 4, collected: 3 });
    }
    let swapped = DeviceCount { submits: 1, overflow: 2, dropped: 0 };
    assert!(store.finish(swapped).is_err());
}

#[test]
fn an_unknown_dtype_is_named_and_a_null_tensor_is_harmless() {
    let mut tensor = raw::view(4096, 16, 0, &[16], &[1]);
    tensor.dtype = 77;
    let null = zerocopy::FromZeros::new_zeroed();
    let submits = [Submit::new(1).arg(TensorArgType::Inout, tensor).arg(TensorArgType::Input, null)];
    let store = raw::stored(&submits);
    let mut text = Vec::new();
    let whole = store.finish(raw::count(&submits)).unwrap();
    dfx_host_drain::deps::write(&mut text, whole, dfx_host_drain::deps::Variant::Device).unwrap();
    let text = String::from_utf8(text).unwrap();
    assert!(text.contains(r#""dtype":"UNKNOWN","buffer_numel":"0"}"#), "{text}");
    assert!(serde_json::from_str::<serde_json::Value>(&text).is_ok());
}
