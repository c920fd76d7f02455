//! What init and finalize do to a core's registers, for every event type of both platforms.

mod plain;
#[path = "plain/pmu.rs"]
mod pmu;

use dfx_collector::abi::Platform;
use dfx_collector::abi::pmu::{EventType, counters};
use dfx_collector::abi::registers::{Reg, Registers};
use dfx_collector::pmu::{Mmio, PmuRecorder, RegisterFile};
use dfx_mock::region::Memory;
use dfx_mock::scaled;
use plain::PLATFORMS;
use pmu::{Board, at};

#[test]
fn every_event_type_programs_its_selectors_then_clears_then_enables() {
    for geometry in PLATFORMS {
        let platform = geometry.platform;
        let table = Registers::of(platform);
        for event in EventType::ALL.into_iter().step_by(scaled(1, 3) as usize) {
            let board = Board::cold(geometry, 2, event as u32);
            for core in &board.cores {
                core.count(platform, 9);
                core.set(table.pmu_ctrl[0].offset, 0x30);
            }
            board.init(2);
            assert_eq!(board.device.event(), Some(event));
            for core in &board.cores {
                let mut expected: Vec<(u32, u32)> = counters(platform, event)
                    .iter()
                    .zip(0..)
                    .map(|(counter, n)| (at(platform, Reg::PmuSelector(n)), counter.event_id))
                    .collect();
                expected.extend(table.pmu_start.map(|offset| (offset, 0)));
                expected.extend(table.pmu_stop.map(|offset| (offset, u32::MAX)));
                expected.extend(table.pmu_ctrl.iter().map(|control| (control.offset, control.enable)));
                assert_eq!(core.writes(), expected, "{platform:?} {event:?}");
                let reads = core.reads();
                let cleared = table.pmu_counters.iter().chain(&table.pmu_total);
                assert!(cleared.copied().eq(reads[..table.pmu_counters.len() + 2].iter().copied()));
                assert!(table.pmu_counters.iter().all(|&offset| core.get(offset) == 0), "cleared");
            }
        }
    }
}

#[test]
fn an_unknown_event_type_counts_pipe_utilization() {
    for geometry in PLATFORMS {
        for unknown in [0, 3, 9, u32::MAX] {
            let board = Board::new(geometry, 1, unknown);
            assert_eq!(board.device.event(), Some(EventType::PipeUtilization));
            let first = counters(geometry.platform, EventType::PipeUtilization)[0].event_id;
            assert_eq!(board.cores[0].get(at(geometry.platform, Reg::PmuSelector(0))), first);
        }
    }
}

#[test]
fn finalize_puts_every_control_register_back_once() {
    for geometry in PLATFORMS {
        let table = Registers::of(geometry.platform);
        let board = Board::cold(geometry, 2, 2);
        for (control, value) in table.pmu_ctrl.iter().zip([0x30, 0x40]) {
            board.cores[0].set(control.offset, value);
        }
        board.init(2);
        board.cores[0].writes();
        // SAFETY: this thread has all cores.
        unsafe { board.device.finalize(&[0, 7]) };
        let expected: Vec<_> = table.pmu_ctrl.iter().map(|c| c.offset).zip([0x30, 0x40]).collect();
        assert_eq!(board.cores[0].writes(), expected);
        assert_eq!(board.device.misused(), 1, "core 7 is counted");
        // SAFETY: as above.
        unsafe { board.device.finalize(&[0]) };
        assert_eq!(board.cores[0].writes(), [], "once");
        assert_eq!(board.cores[1].get(table.pmu_ctrl[0].offset), 7, "core 1 still counts");
    }
}

#[test]
fn a_core_gates_its_counters_around_the_kernel_and_leaves_other_bits_alone() {
    for platform in [Platform::A2a3, Platform::A5] {
        let registers = pmu::FakeRegisters::new(platform);
        registers.set(0, 0xF0);
        let mut core = PmuRecorder::gates(platform, registers.clone());
        core.begin();
        assert_eq!(registers.get(0), 0xF1);
        core.end();
        assert_eq!(registers.get(0), 0xF0);
        registers.reads();
        core.record(5);
        assert!(registers.reads().is_empty(), "no ring: nothing is read");
    }
}

#[test]
fn mapped_registers_are_read_and_written_at_their_offsets() {
    let page = Memory::new(0x6000);
    // SAFETY: the page covers every offset used below.
    let registers = unsafe { Mmio::new(page.addr(0)) }.expect("a base");
    registers.write(0x4200, 7);
    registers.write(0x2524, 9);
    assert_eq!((registers.read(0x4200), registers.read(0x2524), registers.read(0x4204)), (7, 9, 0));
    assert_eq!(page.bytes(0x4200..0x4201), [7]);
    // SAFETY: a null base is none.
    assert!(unsafe { Mmio::new(dfx_collector::abi::DeviceAddr::NULL) }.is_none());
}
