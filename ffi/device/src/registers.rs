//! A core's registers, reached as the runtime wants it: through its own functions (the drop-in), through two callbacks, or
//! as memory.

use core::ptr::null_mut;
use core::sync::atomic::{AtomicPtr, Ordering::Relaxed};
use dfx_collector::abi::DeviceAddr;
use dfx_collector::abi::registers::Registers;
use dfx_collector::pmu::{Mmio, RegisterFile};

unsafe extern "C" {
    /// `uint64_t read_reg(uint64_t base, RegId)`
    #[link_name = "_Z8read_regm5RegId"]
    fn read_reg(base: u64, id: u8) -> u64;
    /// `void reg_store_release(volatile uint32_t *, uint32_t)`
    #[cfg(dfx_platform = "a2a3")]
    #[link_name = "_Z17reg_store_releasePVjj"]
    fn reg_store_release(at: *mut u32, value: u32);
    /// `void write_reg(uint64_t base, RegId, uint64_t value)`
    #[cfg(dfx_platform = "a5")]
    #[link_name = "_Z9write_regm5RegIdm"]
    fn write_reg(base: u64, id: u8, value: u64);
}

/// A core's registers behind the runtime's functions.
pub(crate) struct RuntimeRegisters(u64);

impl RuntimeRegisters {
    /// The registers at `base`; none if that is 0.
    ///
    /// # Safety
    /// `base` is 0 or what the runtime's functions accept as a core's register base, for as long as this value is used.
    pub(crate) unsafe fn new(base: u64) -> Option<RuntimeRegisters> {
        (base != 0).then_some(RuntimeRegisters(base))
    }
}

impl RegisterFile for RuntimeRegisters {
    #[inline(always)]
    fn read(&self, offset: u32) -> u32 {
        // SAFETY: `new`'s caller vouched for the base.
        unsafe { read_reg(self.0, id_of(offset)) as u32 }
    }

    #[inline(always)]
    #[cfg(dfx_platform = "a2a3")]
    fn write(&self, offset: u32, value: u32) {
        // SAFETY: as above; here a core's registers lie one behind the other.
        unsafe { reg_store_release((self.0 + u64::from(offset)) as *mut u32, value) }
    }

    #[inline(always)]
    #[cfg(dfx_platform = "a5")]
    fn write(&self, offset: u32, value: u32) {
        // SAFETY: as above.
        unsafe { write_reg(self.0, id_of(offset), u64::from(value)) }
    }
}

/// The runtime's number (`RegId`) of the PMU register at `offset`: a few instructions for a counter, none where the offset is
/// known.
#[inline(always)]
#[cfg(dfx_platform = "a2a3")]
const fn id_of(offset: u32) -> u8 {
    match offset {
        0x210..0x250 => 5 + ((offset - 0x210) / 8) as u8,
        0x250 => 13,
        0x254 => 14,
        0x2A0..0x2B0 => 15 + ((offset - 0x2A0) / 4) as u8,
        0x1280..0x12A0 => 19 + ((offset - 0x1280) / 4) as u8,
        0x200 => 4,
        _ => NO_ID,
    }
}

/// As above.
#[cfg(dfx_platform = "a5")]
const fn id_of(offset: u32) -> u8 {
    match offset {
        0x4210..0x4254 => 5 + ((offset - 0x4210) / 8) as u8,
        0x4254 => 14,
        0x4260 => 15,
        0x4264 => 16,
        0x42A0..0x42B0 => 17 + ((offset - 0x42A0) / 4) as u8,
        0x2500..0x2528 => 21 + ((offset - 0x2500) / 4) as u8,
        0x4200 => 3,
        0x2400 => 4,
        _ => NO_ID,
    }
}

/// No register that the PMU uses.
const NO_ID: u8 = u8::MAX;

// The numbers run through the registers in the order in which the ABI lists them, the control registers first.
const _: () = {
    const fn follow(offsets: &[u32], mut id: u8) -> u8 {
        let mut i = 0;
        while i < offsets.len() {
            assert!(id_of(offsets[i]) == id);
            id += 1;
            i += 1;
        }
        id
    }
    let registers = Registers::of(crate::state::GEOMETRY.platform);
    let mut id = registers.fast_path.is_some() as u8 + 3;
    let mut i = 0;
    while i < registers.pmu_ctrl.len() {
        assert!(id_of(registers.pmu_ctrl[i].offset) == id);
        id += 1;
        i += 1;
    }
    let id = follow(registers.pmu_counters, id);
    let id = follow(&registers.pmu_total, id);
    let id = follow(&registers.pmu_start, id);
    let id = follow(&registers.pmu_stop, id);
    follow(registers.pmu_selectors, id);
};

/// Reads the register at `offset` bytes from a core's base.
pub(crate) type Read = unsafe extern "C" fn(base: u64, offset: u32) -> u32;
/// Writes the register at `offset` bytes from a core's base.
pub(crate) type Write = unsafe extern "C" fn(base: u64, offset: u32, value: u32);

static READ: AtomicPtr<()> = AtomicPtr::new(null_mut());
static WRITE: AtomicPtr<()> = AtomicPtr::new(null_mut());

/// Sets how native registers are reached; as memory, if nothing.
pub(crate) fn set(access: Option<(Read, Write)>) {
    let (read, write) =
        access.map_or((null_mut(), null_mut()), |(read, write)| (read as *mut (), write as *mut ()));
    READ.store(read, Relaxed);
    WRITE.store(write, Relaxed);
}

/// A core's registers behind the callbacks, or as memory if there are none.
pub(crate) struct NativeRegisters(u64);

impl NativeRegisters {
    /// The registers at `base`; none if that is 0.
    ///
    /// # Safety
    /// `base` is 0, or what the callbacks accept, or, without them, maps every register of a core, for as long as this value
    /// is used.
    pub(crate) unsafe fn new(base: u64) -> Option<NativeRegisters> {
        (base != 0).then_some(NativeRegisters(base))
    }

    /// The registers as memory.
    fn mmio(&self) -> Option<Mmio> {
        // SAFETY: `new`'s caller vouched for the mapping.
        unsafe { Mmio::new(DeviceAddr(self.0)) }
    }
}

impl RegisterFile for NativeRegisters {
    #[inline(always)]
    fn read(&self, offset: u32) -> u32 {
        let read = READ.load(Relaxed);
        if read.is_null() {
            return self.mmio().map_or(0, |mmio| mmio.read(offset));
        }
        // SAFETY: only `set` stores here, and it stores a `Read`; the base is one that it accepts.
        unsafe { core::mem::transmute::<*mut (), Read>(read)(self.0, offset) }
    }

    #[inline(always)]
    fn write(&self, offset: u32, value: u32) {
        let write = WRITE.load(Relaxed);
        if write.is_null() {
            if let Some(mmio) = self.mmio() {
                mmio.write(offset, value);
            }
            return;
        }
        // SAFETY: as above, a `Write`.
        unsafe { core::mem::transmute::<*mut (), Write>(write)(self.0, offset, value) }
    }
}
