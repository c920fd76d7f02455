//! A core's PMU registers, and what its counters count: a function of the task that a test can compute.
//!
//! The register file is laid out as the platform's own ([`Registers`]): selectors, counters that reading clears, the
//! cycle count, the control words. The hardware half is [`SimRegisters::run`]: one kernel's worth of work passes, and is
//! counted if the core's gate (bit 0 of `CTRL`) is open and the PMU is on. AICPU and core reach the file through the
//! collector's [`RegisterFile`].
//!
//! *What is counted.* A counter whose selector names event `e` goes up by [`counted`]`(work, e)` per kernel; one without
//! an event (selector 0) stays 0; the cycle count goes up by [`Work::ticks`]. On the virtual clock these are exactly the
//! kernel's declared duration in ticks of the platform's counter; in real time they are what it took.

use dfx_collector::abi::registers::Registers;
use dfx_collector::abi::{Geometry, Platform};
use dfx_collector::pmu::RegisterFile;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// One kernel on one core, as the hardware sees it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Work {
    /// The task, or the node of a graph task.
    pub task_id: u64,
    /// The submit that it belongs to.
    pub submit: u32,
    /// The kernel.
    pub func_id: u32,
    /// Which block of an SPMD task.
    pub block: u32,
    /// How long it ran.
    pub nanos: u64,
}

impl Work {
    /// How long it ran, in ticks of a counter of `hz`, rounded down.
    pub fn ticks(&self, hz: u64) -> u64 {
        (u128::from(self.nanos) * u128::from(hz) / 1_000_000_000) as u64
    }
}

/// What a counter of event `event` counts of a kernel: 1 to 2^20, from its task, kernel and block; 0 for event 0.
///
/// The words are folded by multiplication with an odd constant (that of Fibonacci hashing) and a shift, so that two tasks,
/// kernels, blocks or events hardly ever count alike.
pub fn counted(work: &Work, event: u32) -> u32 {
    const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;
    if event == 0 {
        return 0;
    }
    let words = [work.task_id, u64::from(work.func_id), u64::from(work.block), u64::from(event)];
    let mixed = words.into_iter().fold(0, |hash: u64, word| {
        let hash = (hash ^ word).wrapping_add(1).wrapping_mul(GOLDEN);
        hash ^ hash >> 29
    });
    1 + (mixed >> 44) as u32
}

/// The bit of `CTRL` that lets the counters count.
const GATE: u32 = 1;

/// One core's registers.
#[derive(Debug)]
pub struct SimRegisters {
    registers: &'static Registers,
    words: Box<[AtomicU32]>,
}

impl SimRegisters {
    /// The registers of a core of `platform`, all 0.
    pub fn new(platform: Platform) -> Self {
        let registers = Registers::of(platform);
        let words = (0..registers.sim_bytes() / 4).map(|_| AtomicU32::new(0)).collect();
        SimRegisters { registers, words }
    }

    /// The word at `offset`, if the platform keeps it.
    fn word(&self, offset: u32) -> Option<&AtomicU32> {
        let mut before = 0;
        for page in self.registers.sim_pages {
            if let Some(inside) = offset.checked_sub(page.base).filter(|inside| *inside < page.bytes) {
                return self.words.get(((before + inside) / 4) as usize);
            }
            before += page.bytes;
        }
        None
    }

    fn load(&self, offset: u32) -> u32 {
        self.word(offset).map_or(0, |word| word.load(Ordering::Acquire))
    }

    fn add(&self, offset: u32, amount: u32) -> bool {
        self.word(offset)
            .is_some_and(|word| word.fetch_add(amount, Ordering::AcqRel).checked_add(amount).is_none())
    }

    /// Whether what runs now is counted.
    fn counting(&self) -> bool {
        let on = |control: &dfx_collector::abi::registers::Control| {
            self.load(control.offset) & control.enable == control.enable
        };
        self.load(self.registers.ctrl) & GATE != 0 && self.registers.pmu_ctrl.iter().all(on)
    }

    /// The hardware: a kernel runs, and is counted if the gate is open. Counters wrap at 32 bits, as theirs do.
    pub fn run(&self, work: &Work) {
        let ticks = work.ticks(Geometry::of(self.registers.platform).clock_hz);
        if !self.counting() {
            return;
        }
        for (&counter, &selector) in self.registers.pmu_counters.iter().zip(self.registers.pmu_selectors) {
            self.add(counter, counted(work, self.load(selector)));
        }
        let [low, high] = self.registers.pmu_total;
        let carry = self.add(low, ticks as u32);
        self.add(high, (ticks >> 32) as u32 + u32::from(carry));
    }

    /// Whether reading the register clears it.
    fn clears(&self, offset: u32) -> bool {
        self.registers.pmu_counters.contains(&offset) || self.registers.pmu_total.contains(&offset)
    }
}

impl RegisterFile for SimRegisters {
    fn read(&self, offset: u32) -> u32 {
        match self.word(offset) {
            Some(word) if self.clears(offset) => word.swap(0, Ordering::AcqRel),
            Some(word) => word.load(Ordering::Acquire),
            None => 0,
        }
    }

    fn write(&self, offset: u32, value: u32) {
        if let Some(word) = self.word(offset) {
            word.store(value, Ordering::Release);
        }
    }
}

/// A core's registers as one of their users holds them: AICPU, or the core itself.
#[derive(Clone, Debug)]
pub struct SharedRegisters(pub Arc<SimRegisters>);

impl RegisterFile for SharedRegisters {
    fn read(&self, offset: u32) -> u32 {
        self.0.read(offset)
    }
    fn write(&self, offset: u32, value: u32) {
        self.0.write(offset, value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WORK: Work = Work { task_id: 2 << 32 | 7, submit: 7, func_id: 3, block: 1, nanos: 5_000_000_000 };
    const PLATFORMS: [Platform; 2] = [Platform::A2a3, Platform::A5];

    /// A core's registers with the PMU on; counter `i` counts event `10 + i`, the last one nothing.
    fn armed(platform: Platform) -> SimRegisters {
        let core = SimRegisters::new(platform);
        let registers = Registers::of(platform);
        for (i, &selector) in registers.pmu_selectors.iter().enumerate() {
            core.write(selector, if i + 1 == registers.pmu_selectors.len() { 0 } else { 10 + i as u32 });
        }
        for control in registers.pmu_ctrl {
            core.write(control.offset, control.enable);
        }
        core
    }

    #[test]
    fn a_kernel_is_counted_between_the_gates_only_and_reading_clears() {
        for platform in PLATFORMS {
            let (core, registers) = (armed(platform), Registers::of(platform));
            let all = || registers.pmu_counters.iter().map(|&counter| core.read(counter)).collect::<Vec<_>>();
            core.run(&WORK);
            assert!(all().iter().all(|&count| count == 0), "{platform:?}: counted with the gate shut");
            core.write(registers.ctrl, GATE);
            core.run(&WORK);
            core.write(registers.ctrl, 0);
            core.run(&WORK);
            let expected: Vec<u32> = (0..registers.pmu_counters.len() as u32)
                .map(
                    |i| if i + 1 == registers.pmu_counters.len() as u32 { 0 } else { counted(&WORK, 10 + i) },
                )
                .collect();
            assert_eq!(all(), expected, "{platform:?}");
            assert!(all().iter().all(|&count| count == 0), "{platform:?}: reading did not clear");
            let [low, high] = registers.pmu_total;
            assert_eq!(
                u64::from(core.read(low)) | u64::from(core.read(high)) << 32,
                WORK.ticks(Geometry::of(platform).clock_hz)
            );
            core.write(registers.pmu_ctrl[0].offset, 0);
            core.write(registers.ctrl, GATE);
            core.run(&WORK);
            assert_eq!(core.read(low), 0, "{platform:?}: counted with the PMU off");
        }
    }

    #[test]
    fn the_cycle_count_carries_into_its_high_half() {
        let (core, registers) = (armed(Platform::A5), &Registers::A5);
        core.write(registers.ctrl, GATE);
        (0..3).for_each(|_| core.run(&Work { nanos: 0xC000_0001, ..WORK }));
        let [low, high] = registers.pmu_total;
        assert_eq!(u64::from(core.read(low)) | u64::from(core.read(high)) << 32, 3 * 0xC000_0001);
    }

    #[test]
    fn every_register_of_a_platform_has_a_word_of_its_own() {
        for platform in PLATFORMS {
            let (core, registers) = (SimRegisters::new(platform), Registers::of(platform));
            let all =
                (0..=u8::MAX).map_while(|id| registers.by_id(id)).filter_map(|reg| registers.offset(reg));
            let all: Vec<u32> = all.collect();
            assert!(all.len() > 20);
            all.iter().zip(1..).for_each(|(&offset, value)| core.write(offset, value));
            for (&offset, value) in all.iter().zip(1..) {
                assert_eq!(core.read(offset), value, "{platform:?} {offset:#x}");
            }
            core.write(0xFFFF_0000, 1);
            assert_eq!(core.read(0xFFFF_0000), 0);
        }
    }

    #[test]
    fn tasks_kernels_blocks_and_events_count_differently() {
        let mut seen = std::collections::BTreeSet::new();
        for task_id in 0..8 {
            for func_id in 0..4 {
                for block in 0..4 {
                    for event in 1..8 {
                        let count = counted(&Work { task_id, func_id, block, ..WORK }, event);
                        assert!((1..=1 << 20).contains(&count));
                        seen.insert(count);
                    }
                }
            }
        }
        assert!(seen.len() > 890, "{} of 896 differ", seen.len());
        assert_eq!(counted(&WORK, 0), 0);
    }
}
