//! A core's registers: where they lie, by platform, and the numbers that name them.
//!
//! All offsets are bytes from a core's register base. On a5 the PMU's registers lie in other pages than the core's own.

use super::platform::Platform;

/// A register of a core (`RegId`). Numbers and presence differ by platform: see [`Registers`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum Reg {
    /// `DATA_MAIN_BASE`: AICPU writes the token here to dispatch a task.
    DataMainBase,
    /// `COND`: the core answers here with a token and a state.
    Cond,
    /// `FAST_PATH_ENABLE` (a2a3): opens the core to dispatches.
    FastPathEnable,
    /// `CTRL`: the core's control word.
    Ctrl,
    /// `PMU_CTRL_n`: turns the PMU on.
    PmuCtrl(u8),
    /// `PMU_CNTn`: a counter; reading clears it.
    PmuCounter(u8),
    /// `PMU_CNT_TOTALn`: low and high half of the cycle count; reading clears it.
    PmuTotal(u8),
    /// `PMU_START_CYCn`: low and high half of the cycle from which to count.
    PmuStart(u8),
    /// `PMU_STOP_CYCn`: low and high half of the cycle up to which to count.
    PmuStop(u8),
    /// `PMU_CNTn_IDX`: which event a counter counts.
    PmuSelector(u8),
}

/// A register with the value that turns it on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Control {
    /// Where it lies.
    pub offset: u32,
    /// What to write.
    pub enable: u32,
}

/// The gate to a core's dispatches.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FastPath {
    /// `REG_SPR_FAST_PATH_ENABLE_OFFSET`
    pub offset: u32,
    /// `REG_SPR_FAST_PATH_OPEN`: what to write to open it.
    pub open: u32,
    /// `REG_SPR_FAST_PATH_CLOSE`: what to write to close it.
    pub close: u32,
}

/// A run of bytes that the simulator keeps of a core's registers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SimPage {
    /// The first register offset.
    pub base: u32,
    /// In bytes.
    pub bytes: u32,
}

/// The registers of a platform's core.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Registers {
    /// Whose they are.
    pub platform: Platform,
    /// `REG_SPR_DATA_MAIN_BASE_OFFSET`
    pub data_main_base: u32,
    /// `REG_SPR_COND_OFFSET`
    pub cond: u32,
    /// The gate to dispatches (a2a3).
    pub fast_path: Option<FastPath>,
    /// `REG_SPR_CTRL_OFFSET`
    pub ctrl: u32,
    /// `REG_MMIO_PMU_CTRL_n_OFFSET`, `REG_MMIO_PMU_CTRL_n_ENABLE_VAL`
    pub pmu_ctrl: &'static [Control],
    /// `REG_MMIO_PMU_CNTn_OFFSET`
    pub pmu_counters: &'static [u32],
    /// `REG_MMIO_PMU_CNT_TOTALn_OFFSET`
    pub pmu_total: [u32; 2],
    /// `REG_MMIO_PMU_START_CYCn_OFFSET`
    pub pmu_start: [u32; 2],
    /// `REG_MMIO_PMU_STOP_CYCn_OFFSET`
    pub pmu_stop: [u32; 2],
    /// `REG_MMIO_PMU_CNTn_IDX_OFFSET`
    pub pmu_selectors: &'static [u32],
    /// `SIM_REG_BLOCK_SIZE` (a2a3), `SIM_REG_PAGEn_BASE` and `_SIZE` (a5)
    pub sim_pages: &'static [SimPage],
}

/// Registers of one sort: how many there are, and the `n`th of them.
type Sort = (usize, fn(u8) -> Reg);

impl Registers {
    /// The registers on a2a3.
    pub const A2A3: Registers = Registers {
        platform: Platform::A2a3,
        data_main_base: 0xA0,
        cond: 0x4C8,
        fast_path: Some(FastPath { offset: 0x18, open: 0xE, close: 0xF }),
        ctrl: 0,
        pmu_ctrl: &[Control { offset: 0x200, enable: 7 }],
        pmu_counters: &[0x210, 0x218, 0x220, 0x228, 0x230, 0x238, 0x240, 0x248],
        pmu_total: [0x250, 0x254],
        pmu_start: [0x2A0, 0x2A4],
        pmu_stop: [0x2A8, 0x2AC],
        pmu_selectors: &[0x1280, 0x1284, 0x1288, 0x128C, 0x1290, 0x1294, 0x1298, 0x129C],
        sim_pages: &[SimPage { base: 0, bytes: 0x1400 }],
    };

    /// The registers on a5.
    pub const A5: Registers = Registers {
        platform: Platform::A5,
        data_main_base: 0xD0,
        cond: 0x5108,
        fast_path: None,
        ctrl: 0,
        pmu_ctrl: &[Control { offset: 0x4200, enable: 7 }, Control { offset: 0x2400, enable: 1 }],
        pmu_counters: &[0x4210, 0x4218, 0x4220, 0x4228, 0x4230, 0x4238, 0x4240, 0x4248, 0x4250, 0x4254],
        pmu_total: [0x4260, 0x4264],
        pmu_start: [0x42A0, 0x42A4],
        pmu_stop: [0x42A8, 0x42AC],
        pmu_selectors: &[0x2500, 0x2504, 0x2508, 0x250C, 0x2510, 0x2514, 0x2518, 0x251C, 0x2520, 0x2524],
        sim_pages: &[
            SimPage { base: 0, bytes: 0x1000 },
            SimPage { base: 0x5000, bytes: 0x1000 },
            SimPage { base: 0x2400, bytes: 0x2000 },
        ],
    };

    /// The registers of `platform`.
    pub const fn of(platform: Platform) -> &'static Registers {
        match platform {
            Platform::A2a3 => &Registers::A2A3,
            Platform::A5 => &Registers::A5,
        }
    }

    /// Where `reg` lies; nothing when the platform lacks it.
    pub fn offset(&self, reg: Reg) -> Option<u32> {
        match reg {
            Reg::DataMainBase => Some(self.data_main_base),
            Reg::Cond => Some(self.cond),
            Reg::FastPathEnable => self.fast_path.map(|gate| gate.offset),
            Reg::Ctrl => Some(self.ctrl),
            Reg::PmuCtrl(n) => self.pmu_ctrl.get(n as usize).map(|control| control.offset),
            Reg::PmuCounter(n) => self.pmu_counters.get(n as usize).copied(),
            Reg::PmuTotal(n) => self.pmu_total.get(n as usize).copied(),
            Reg::PmuStart(n) => self.pmu_start.get(n as usize).copied(),
            Reg::PmuStop(n) => self.pmu_stop.get(n as usize).copied(),
            Reg::PmuSelector(n) => self.pmu_selectors.get(n as usize).copied(),
        }
    }

    /// The register with number `id` on this platform, if there is one.
    pub fn by_id(&self, id: u8) -> Option<Reg> {
        let mut left = id as usize;
        for (count, make) in self.numbered() {
            if left < count {
                return Some(make(left as u8));
            }
            left -= count;
        }
        None
    }

    /// The number of `reg` on this platform; nothing when the platform lacks it.
    pub fn id(&self, reg: Reg) -> Option<u8> {
        (0..self.numbered().iter().map(|(count, _)| *count as u8).sum())
            .find(|id| self.by_id(*id) == Some(reg))
    }

    /// The registers in the order of their numbers.
    fn numbered(&self) -> [Sort; 10] {
        [
            (1, |_| Reg::DataMainBase),
            (1, |_| Reg::Cond),
            (self.fast_path.is_some() as usize, |_| Reg::FastPathEnable),
            (1, |_| Reg::Ctrl),
            (self.pmu_ctrl.len(), Reg::PmuCtrl),
            (self.pmu_counters.len(), Reg::PmuCounter),
            (self.pmu_total.len(), Reg::PmuTotal),
            (self.pmu_start.len(), Reg::PmuStart),
            (self.pmu_stop.len(), Reg::PmuStop),
            (self.pmu_selectors.len(), Reg::PmuSelector),
        ]
    }

    /// `SIM_REG_BLOCK_SIZE` (a2a3), `SIM_REG_TOTAL_SIZE` (a5): what the simulator keeps per core, in bytes.
    pub fn sim_bytes(&self) -> u32 {
        self.sim_pages.iter().map(|page| page.bytes).sum()
    }
}
