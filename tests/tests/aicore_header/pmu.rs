//! The PMU: gates and a5's ring.

use super::{ENTRY, block, dirty, token_value, wide, word};
use dfx_collector::abi::pmu::AicoreRing;
use dfx_collector::abi::registers::Registers;
use dfx_collector::abi::{DeviceAddr, Platform, token};
use dfx_collector::pmu::{Mmio, PmuRecorder, RegisterFile};
use dfx_collector::sync::Ordering::Relaxed;
use dfx_mock::region::Memory;
use dfx_tests::glue::{self, Cache, CorePmu, Flavor, Glue, cache_events};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

const RING: usize = 512;
const WINDOW: usize = 4096;
const WINDOW_BYTES: usize = 0x6000;

/// What happens to a core's PMU.
#[derive(Clone, Debug)]
enum PmuOp {
    /// A launch: with registers, with a ring.
    Open(bool, bool),
    /// A register holds this.
    Set(u32, u32),
    Begin,
    End,
    Record(u32),
}

fn pmu_op(platform: Platform) -> impl Strategy<Value = PmuOp> {
    let table = Registers::of(platform);
    let mut offsets = vec![table.ctrl];
    offsets.extend(table.pmu_counters.iter().chain(&table.pmu_total));
    let value = prop_oneof![any::<u32>(), Just(0), Just(u32::MAX), 0..4u32];
    prop_oneof![
        1 => (prop::bool::weighted(0.8), prop::bool::weighted(0.8)).prop_map(|(at, ring)| PmuOp::Open(at, ring)),
        6 => (prop::sample::select(offsets), value).prop_map(|(at, value)| PmuOp::Set(at, value)),
        2 => Just(PmuOp::Begin),
        2 => Just(PmuOp::End),
        4 => token_value().prop_map(PmuOp::Record),
    ]
}

enum Pmu {
    Rust(PmuRecorder<Mmio>),
    C(CorePmu),
    None,
}

/// Plays `ops` on a fresh block with mapped registers: all its bytes. Without `glue`: in Rust. `named`: the glue was compiled
/// for the platform.
fn play(
    platform: Platform,
    glue: Option<&'static Glue>,
    named: bool,
    memory: &Memory,
    ops: &[PmuOp],
) -> Vec<u8> {
    let bytes = WINDOW + WINDOW_BYTES;
    dirty(memory, bytes);
    let open = |registers: bool, ring: bool| {
        let registers = if registers { memory.addr(WINDOW) } else { DeviceAddr::NULL };
        // An a2a3 host has no rings: there is no table, hence no entry. What was compiled for a2a3 looks at none.
        let entry = if platform == Platform::A5 || named { memory.addr(ENTRY).0 } else { 0 };
        wide(memory, ENTRY).store(if ring { memory.addr(RING).0 } else { 0 }, Relaxed);
        // SAFETY: registers, entry and ring are in the block; nobody else uses them.
        unsafe {
            match (glue, Mmio::new(registers)) {
                (Some(glue), _) => Pmu::C(CorePmu::mapped(glue, registers.0, entry)),
                (None, None) => Pmu::None,
                (None, Some(registers)) if platform == Platform::A2a3 => {
                    Pmu::Rust(PmuRecorder::gates(platform, registers))
                }
                (None, Some(registers)) => Pmu::Rust(PmuRecorder::attach(registers, wide(memory, ENTRY))),
            }
        }
    };
    let mut pmu = open(true, true);
    for op in ops {
        match (op, &mut pmu) {
            (PmuOp::Open(registers, ring), _) => pmu = open(*registers, *ring),
            (PmuOp::Set(at, value), _) => word(memory, WINDOW + *at as usize).store(*value, Relaxed),
            (PmuOp::Begin, Pmu::Rust(pmu)) => pmu.begin(),
            (PmuOp::Begin, Pmu::C(pmu)) => pmu.begin(),
            (PmuOp::End, Pmu::Rust(pmu)) => pmu.end(),
            (PmuOp::End, Pmu::C(pmu)) => pmu.end(),
            (PmuOp::Record(token), Pmu::Rust(pmu)) => pmu.record(*token),
            (PmuOp::Record(token), Pmu::C(pmu)) => pmu.record(*token),
            (_, Pmu::None) => {}
        }
    }
    memory.bytes(0..bytes)
}

fn assert_same_pmu(platform: Platform, ops: &[PmuOp]) -> Result<(), TestCaseError> {
    let memory = block(WINDOW + WINDOW_BYTES);
    let expected = play(platform, None, false, &memory, ops);
    let named = if platform == Platform::A5 { "A5" } else { "A2A3" };
    for (flavor, chosen) in
        Flavor::PLAIN.into_iter().flat_map(|flavor| [(flavor, None), (flavor, Some(named))])
    {
        for glue in Glue::all(flavor, chosen) {
            let got = play(platform, Some(glue), chosen.is_some(), &memory, ops);
            let odd = got.iter().zip(&expected).position(|(got, expected)| got != expected);
            prop_assert_eq!(odd, None, "{:?} {:?}: the first byte that differs", glue, chosen);
        }
    }
    Ok(())
}

proptest! {
    #[test]
    fn the_header_leaves_the_same_counters_on_a5(ops in prop::collection::vec(pmu_op(Platform::A5), 0..60)) {
        assert_same_pmu(Platform::A5, &ops)?;
    }

    #[test]
    fn the_header_gates_the_same_on_a2a3(ops in prop::collection::vec(pmu_op(Platform::A2a3), 0..60)) {
        assert_same_pmu(Platform::A2a3, &ops)?;
    }
}

/// A register file that tells what was done to it; reading a counter clears it.
#[derive(Clone, Default)]
struct Told(Arc<Mutex<Bank>>);

#[derive(Default)]
struct Bank {
    values: BTreeMap<u32, u32>,
    log: Vec<Access>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Access {
    Read(u32),
    Write(u32, u32),
}

impl RegisterFile for Told {
    fn read(&self, offset: u32) -> u32 {
        let mut bank = self.0.lock().expect("no panic while it is held");
        let Bank { values, log } = &mut *bank;
        log.push(Access::Read(offset));
        let value = values.entry(offset).or_insert(offset.wrapping_mul(0x0101_0101));
        if offset == 0 { *value } else { std::mem::take(value) }
    }
    fn write(&self, offset: u32, value: u32) {
        let mut bank = self.0.lock().expect("no panic while it is held");
        let Bank { values, log } = &mut *bank;
        log.push(Access::Write(offset, value));
        values.insert(offset, value);
    }
}

#[test]
fn every_register_is_read_and_written_as_the_rust_recorder_does() {
    let memory = block(WINDOW);
    wide(&memory, ENTRY).store(memory.addr(RING).0, Relaxed);
    let ring = |memory: &Memory| memory.bytes(RING..RING + size_of::<AicoreRing>());
    let told = Told::default();
    // SAFETY: the ring is in the block, and the entry names it.
    let mut rust = unsafe { PmuRecorder::attach(told.clone(), wide(&memory, ENTRY)) };
    let tokens = [7, 8, token::EXIT_SIGNAL - 1];
    for token in tokens {
        rust.begin();
        rust.end();
        rust.record(token);
    }
    let (expected, left) = (told.0.lock().expect("no panic").log.clone(), ring(&memory));
    assert_eq!(expected.len(), 3 * (4 + 10 + 2));
    for glue in Glue::all(Flavor::Hooks, Some("A5")) {
        dirty(&memory, WINDOW);
        wide(&memory, ENTRY).store(memory.addr(RING).0, Relaxed);
        let told = Told::default();
        // SAFETY: as above.
        let mut core = unsafe { CorePmu::hooked(glue, told.clone(), memory.addr(ENTRY).0) };
        for token in tokens {
            core.begin();
            core.end();
            core.record(token);
        }
        assert_eq!(told.0.lock().expect("no panic").log, expected, "{glue:?}");
        assert_eq!(ring(&memory), left, "{glue:?}");
    }
}

#[test]
fn a_cache_that_is_not_coherent_is_told_to_write_the_slot_back() {
    let memory = block(WINDOW);
    let (entry, ring) = (memory.addr(ENTRY).0, memory.addr(RING).0);
    wide(&memory, ENTRY).store(ring, Relaxed);
    for glue in Glue::all(Flavor::Hooks, Some("A5")) {
        let mut opened = None;
        // SAFETY: entry and ring are in the block.
        let found = cache_events(|| opened = Some(unsafe { CorePmu::hooked(glue, Told::default(), entry) }));
        assert_eq!(found, [Cache::In(entry)], "{glue:?}");
        let mut core = opened.expect("set above");
        let recorded = cache_events(|| core.record(5));
        assert_eq!(recorded, [Cache::Barrier, Cache::Out(ring + 64), Cache::Barrier], "{glue:?}");
        assert_eq!(glue.now(), Some(u64::from(glue::NOW)));
    }
}
