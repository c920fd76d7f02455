//! What goes wrong on purpose, by name: the fault plan of `dfx run --inject`.
//!
//! Each fault acts at the place where the real one would: in the platform's memory calls ([`memory`]), in the host's
//! transport and workers ([`host`]), in what the device publishes ([`device`]), in the runtime (a dead AICPU thread, a
//! hung core), in the file system, or on the whole process.

pub mod device;
pub mod host;
pub mod memory;

use crate::program::SubmitId;
use dfx_host_drain::ConfigError;
use dfx_host_drain::artifact::ARTIFACT_NAMES;
use std::str::FromStr;
use std::time::Duration;

/// Faults with their arguments and what they do.
pub const ALL: &[(&str, &str)] = &[
    ("copy-fail-once", "one transfer from the device fails"),
    ("copy-fail", "every transfer from the device fails from the launch on"),
    ("register-fail:K", "the K-th registration of device memory fails"),
    ("register-fail-small", "registrations below 64 KiB fail"),
    ("alloc-fail:K", "the K-th allocation of device memory fails"),
    ("host-stall:MS", "the drain does nothing for so long, once"),
    ("dry-lane:CORE", "the host gives that core's lanes no empty buffers for 20 ms"),
    ("consumer-dead", "the drain's thread panics"),
    ("aicpu-dies:TASK", "the AICPU thread that would dispatch that submit dies where it stands"),
    ("core-hang:TASK", "the core that runs that submit never finishes"),
    ("enospc:FILE", "the disk is full when that artifact is written"),
    ("dup-ready", "ready entries are published twice"),
    ("reorder-ready", "ready entries overtake one another"),
    ("corrupt-count", "a buffer's count is beyond its capacity"),
    ("corrupt-pointer", "a ready entry names memory that is not a buffer"),
    ("corrupt-index", "a ready entry names a lane that is not there"),
    ("level-mismatch:N", "the device finds another level in the header than the host asked for"),
    ("pmu-stale:TASK", "the cores of that submit leave their PMU counters under another task's token (a5)"),
    ("kill:MS", "SIGKILL of the whole process after so long"),
];

/// One fault.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Fault {
    /// One transfer fails.
    CopyFailOnce,
    /// All transfers fail from the launch on.
    CopyFail,
    /// The k-th registration fails, counted from 1.
    RegisterFail(u32),
    /// Small registrations fail.
    RegisterFailSmall,
    /// The k-th allocation fails, counted from 1.
    AllocFail(u32),
    /// The drain stalls once.
    HostStall(Duration),
    /// A core's lanes get no empty buffers for a time.
    DryLane(u32),
    /// The drain's thread panics.
    ConsumerDead,
    /// An AICPU thread dies at this submit.
    AicpuDies(u32),
    /// A core hangs in this submit.
    CoreHang(u32),
    /// The disk is full for this file.
    Enospc(String),
    /// Entries come twice.
    DupReady,
    /// Entries come out of order.
    ReorderReady,
    /// A count is beyond the capacity.
    CorruptCount,
    /// A pointer is no buffer's.
    CorruptPointer,
    /// An index is no lane's.
    CorruptIndex,
    /// The header says this level.
    LevelMismatch(u32),
    /// Counters in a core's ring are not this submit's.
    PmuStale(u32),
    /// SIGKILL of the process.
    Kill(Duration),
}

impl FromStr for Fault {
    type Err = ConfigError;

    fn from_str(text: &str) -> Result<Self, ConfigError> {
        let (name, arg) = match text.split_once(':') {
            Some((name, arg)) => (name, Some(arg)),
            None => (text, None),
        };
        let known = ALL.iter().find(|(spelling, _)| spelling.split(':').next() == Some(name));
        let Some(&(spelling, _)) = known else {
            let names: Vec<_> = ALL.iter().map(|(spelling, _)| *spelling).collect();
            return Err(ConfigError::new("inject", text, format!("one of {}", names.join(", "))));
        };
        let wrong = || ConfigError::new("inject", text, spelling);
        if arg.is_some() != spelling.contains(':') {
            return Err(wrong());
        }
        let arg = arg.unwrap_or_default();
        let number = || arg.parse::<u32>().map_err(|_| wrong());
        let millis = || arg.parse::<u64>().map(Duration::from_millis).map_err(|_| wrong());
        Ok(match name {
            "copy-fail-once" => Fault::CopyFailOnce,
            "copy-fail" => Fault::CopyFail,
            "register-fail" => Fault::RegisterFail(number()?),
            "register-fail-small" => Fault::RegisterFailSmall,
            "alloc-fail" => Fault::AllocFail(number()?),
            "host-stall" => Fault::HostStall(millis()?),
            "dry-lane" => Fault::DryLane(number()?),
            "consumer-dead" => Fault::ConsumerDead,
            "aicpu-dies" => Fault::AicpuDies(number()?),
            "core-hang" => Fault::CoreHang(number()?),
            "enospc" if ARTIFACT_NAMES.contains(&arg) => Fault::Enospc(arg.to_owned()),
            "enospc" => {
                let names = format!("enospc:FILE, with one of {}", ARTIFACT_NAMES.join(", "));
                return Err(ConfigError::new("inject", text, names));
            }
            "dup-ready" => Fault::DupReady,
            "reorder-ready" => Fault::ReorderReady,
            "corrupt-count" => Fault::CorruptCount,
            "corrupt-pointer" => Fault::CorruptPointer,
            "corrupt-index" => Fault::CorruptIndex,
            "level-mismatch" => Fault::LevelMismatch(number()?),
            "pmu-stale" => Fault::PmuStale(number()?),
            "kill" => Fault::Kill(millis()?),
            _ => return Err(wrong()),
        })
    }
}

/// The faults of one run.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct FaultPlan(pub Vec<Fault>);

impl FaultPlan {
    /// What `pick` finds among the faults, first come first.
    pub fn find<T>(&self, pick: impl Fn(&Fault) -> Option<T>) -> Option<T> {
        self.0.iter().find_map(pick)
    }

    /// The level that the device is to find in the header.
    pub fn level_mismatch(&self) -> Option<u32> {
        self.find(|fault| match fault {
            Fault::LevelMismatch(level) => Some(*level),
            _ => None,
        })
    }

    /// The submit whose counters carry another task's token.
    pub fn stale_counters(&self) -> Option<u32> {
        self.find(|fault| match fault {
            Fault::PmuStale(submit) => Some(*submit),
            _ => None,
        })
    }

    /// When the process is to be killed.
    pub fn kill(&self) -> Option<Duration> {
        self.find(|fault| match fault {
            Fault::Kill(time) => Some(*time),
            _ => None,
        })
    }

    /// How many bytes of `file` still fit on the disk; `None`: all.
    pub fn disk_room(&self, file: &str) -> Option<u64> {
        self.has(&Fault::Enospc(file.to_owned())).then_some(host::ROOM)
    }

    /// The runtime's part, over what the rig asks for.
    pub fn runtime(&self, rig: &crate::runtime::Faults) -> crate::runtime::Faults {
        let core_hang = self.find(|fault| match fault {
            Fault::CoreHang(submit) => Some(SubmitId(*submit)),
            _ => None,
        });
        let aicpu_dies = self.find(|fault| match fault {
            Fault::AicpuDies(submit) => Some(SubmitId(*submit)),
            _ => None,
        });
        crate::runtime::Faults {
            core_hang: core_hang.or(rig.core_hang),
            aicpu_dies: aicpu_dies.or(rig.aicpu_dies),
        }
    }

    /// Whether `fault` is among them.
    pub fn has(&self, fault: &Fault) -> bool {
        self.0.contains(fault)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_listed_fault_parses_with_its_argument() {
        for (spelling, _) in ALL {
            let text = spelling
                .replace("MS", "5")
                .replace("TASK", "7")
                .replace("FILE", "run.json")
                .replace("CORE", "2");
            let text = text.replace(":K", ":2").replace(":N", ":3");
            assert!(text.parse::<Fault>().is_ok(), "{text}");
        }
    }

    #[test]
    fn a_wrong_fault_is_refused_by_name() {
        for text in [
            "",
            "nonsense",
            "copy-fail:1",
            "register-fail",
            "register-fail:x",
            "kill:",
            "enospc:",
            "enospc:x.json",
            "dry-lane",
        ] {
            let error = text.parse::<Fault>().unwrap_err();
            assert_eq!(error.field, "inject", "{text}");
        }
    }
}
