//! A PMU region and cores whose registers a test can read.
#![allow(dead_code)] // no test uses all of it

use super::plain::{Plan, Rig};
use dfx_collector::abi::layout::{BufferLayout, PmuLayout};
use dfx_collector::abi::pmu::{AicoreRing, RecordA2a3, RecordA5};
use dfx_collector::abi::registers::{Reg, Registers};
use dfx_collector::abi::{Geometry, Platform};
use dfx_collector::pmu::{Pmu, RegisterFile};
use dfx_collector::stall::Budget;
use dfx_mock::clock::ScriptClock;
use dfx_mock::region::Memory;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex};
use zerocopy::FromBytes;

/// A budget of 10 ms a wait, 1 s in all.
pub(crate) const BUDGET: Budget = Budget { wait_ms: 10, total_ms: 1000 };

/// Bytes of a core's registers.
const BANK: usize = 0x8000;

/// What a core's registers hold, and what was done to them.
#[derive(Debug)]
pub(crate) struct Bank {
    values: Vec<u32>,
    pub(crate) writes: Vec<(u32, u32)>,
    pub(crate) reads: Vec<u32>,
    /// Which are cleared when they are read.
    counters: Vec<bool>,
}

/// A core's registers: reading a counter clears it.
#[derive(Debug, Clone)]
pub(crate) struct FakeRegisters(pub(crate) Arc<Mutex<Bank>>);

impl FakeRegisters {
    pub(crate) fn new(platform: Platform) -> Self {
        let table = Registers::of(platform);
        let mut counters = vec![false; BANK / 4];
        for offset in table.pmu_counters.iter().chain(&table.pmu_total) {
            counters[*offset as usize / 4] = true;
        }
        let (values, writes, reads) = (vec![0; BANK / 4], Vec::new(), Vec::new());
        FakeRegisters(Arc::new(Mutex::new(Bank { values, writes, reads, counters })))
    }

    pub(crate) fn set(&self, offset: u32, value: u32) {
        self.0.lock().unwrap().values[offset as usize / 4] = value;
    }

    pub(crate) fn get(&self, offset: u32) -> u32 {
        self.0.lock().unwrap().values[offset as usize / 4]
    }

    pub(crate) fn writes(&self) -> Vec<(u32, u32)> {
        std::mem::take(&mut self.0.lock().unwrap().writes)
    }

    pub(crate) fn reads(&self) -> Vec<u32> {
        std::mem::take(&mut self.0.lock().unwrap().reads)
    }

    /// The counters as a task with this seed leaves them.
    pub(crate) fn count(&self, platform: Platform, seed: u32) {
        let table = Registers::of(platform);
        for (i, &offset) in (0..).zip(table.pmu_counters) {
            self.set(offset, seed * 100 + i);
        }
        self.set(table.pmu_total[0], seed * 100 + 50);
        self.set(table.pmu_total[1], seed);
    }
}

/// What [`FakeRegisters::count`] makes of a record's counters and cycles.
pub(crate) fn counted<const N: usize>(seed: u32) -> ([u32; N], u64) {
    (std::array::from_fn(|i| seed * 100 + i as u32), u64::from(seed) << 32 | u64::from(seed * 100 + 50))
}

impl RegisterFile for FakeRegisters {
    fn read(&self, offset: u32) -> u32 {
        let mut bank = self.0.lock().unwrap();
        bank.reads.push(offset);
        let register = offset as usize / 4;
        let value = bank.values[register];
        if bank.counters[register] {
            bank.values[register] = 0;
        }
        value
    }
    fn write(&self, offset: u32, value: u32) {
        let mut bank = self.0.lock().unwrap();
        bank.writes.push((offset, value));
        bank.values[offset as usize / 4] = value;
    }
}

pub(crate) type Device = Pmu<ScriptClock, FakeRegisters>;

/// A region, its cores, and on a5 their rings.
pub(crate) struct Board {
    pub(crate) rig: Rig,
    pub(crate) layout: PmuLayout,
    pub(crate) cores: Vec<FakeRegisters>,
    pub(crate) rings: Memory,
    pub(crate) device: Device,
    pub(crate) clock: ScriptClock,
}

impl Board {
    /// `cores` cores, two buffers each, counting `event`; nothing is initialised yet.
    pub(crate) fn cold(geometry: &'static Geometry, cores: u32, event: u32) -> Board {
        let layout = PmuLayout::of(geometry.platform, cores);
        let plan = Plan {
            geometry,
            bytes: layout.bytes(),
            queue: layout.queue,
            lane: layout.state,
            buffer: BufferLayout::pmu(geometry.platform),
            states: layout.header_bytes,
            lanes: cores as usize,
            budget_at: layout.stall_budget,
        };
        let rig = Rig::new(plan, 2, Some(BUDGET));
        rig.word(layout.num_cores).store(cores, Relaxed);
        rig.word(layout.event_type).store(event, Relaxed);
        let rings = Memory::new(size_of::<AicoreRing>() * cores as usize);
        let clock = ScriptClock::new(0, geometry.clock_hz / 10_000);
        let board = Board {
            rig,
            layout,
            cores: (0..cores).map(|_| FakeRegisters::new(geometry.platform)).collect(),
            rings,
            device: Pmu::new(clock.clone()),
            clock,
        };
        for core in 0..cores {
            board.set_ring(core, board.ring(core));
        }
        board
    }

    pub(crate) fn new(geometry: &'static Geometry, cores: u32, event: u32) -> Board {
        let board = Board::cold(geometry, cores, event);
        board.init(cores);
        board
    }

    pub(crate) fn init(&self, cores: u32) {
        let registers = |core: u32| self.cores.get(core as usize).cloned();
        // SAFETY: the region is one and outlives the device's use; nothing else runs.
        unsafe { self.device.init(self.rig.plan.geometry, self.rig.base(), cores, registers, Some(0)) }
            .expect("a region");
    }

    pub(crate) fn ring(&self, core: u32) -> u64 {
        self.rings.addr(core as usize * size_of::<AicoreRing>()).0
    }

    /// Names a core's ring in its state (a5).
    pub(crate) fn set_ring(&self, core: u32, at: u64) {
        if let Some(offset) = self.layout.ring_ptr {
            self.rig.wide(self.rig.state(core as usize) + offset).store(at, Relaxed);
        }
    }

    pub(crate) fn mismatched(&self, core: usize) -> u32 {
        let offset = self.layout.mismatched.expect("a5");
        self.rig.word(self.rig.state(core) + offset).load(Relaxed)
    }

    pub(crate) fn a2a3(&self, core: usize) -> Vec<RecordA2a3> {
        let read = |bytes: &Vec<u8>| RecordA2a3::read_from_bytes(bytes).expect("a record");
        self.rig.records(core).iter().map(read).collect()
    }

    pub(crate) fn a5(&self, core: usize) -> Vec<RecordA5> {
        let read = |bytes: &Vec<u8>| RecordA5::read_from_bytes(bytes).expect("a record");
        self.rig.records(core).iter().map(read).collect()
    }
}

pub(crate) fn at(platform: Platform, reg: Reg) -> u32 {
    Registers::of(platform).offset(reg).expect("a register of the platform")
}
