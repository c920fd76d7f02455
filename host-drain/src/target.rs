//! Where a program runs: which chip, and whether on it or on its simulator.

use crate::config::{ConfigError, TransportKind};
use dfx_collector::abi::{Geometry, Platform};
use std::str::FromStr;

/// A chip (`backend_type`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum BackendType {
    /// a2a3.
    Ascend910B,
    /// a5.
    Ascend950,
}

impl BackendType {
    /// As users write it.
    pub const fn name(self) -> &'static str {
        match self {
            BackendType::Ascend910B => "Ascend910B",
            BackendType::Ascend950 => "Ascend950",
        }
    }
}

impl FromStr for BackendType {
    type Err = ConfigError;
    fn from_str(text: &str) -> Result<Self, ConfigError> {
        match text {
            "Ascend910B" => Ok(BackendType::Ascend910B),
            "Ascend950" => Ok(BackendType::Ascend950),
            _ => Err(ConfigError::new("backend_type", text, "Ascend910B or Ascend950")),
        }
    }
}

/// On the chip or on its simulator (`execution_mode`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum ExecutionMode {
    /// On the chip.
    Onboard,
    /// On the simulator.
    Sim,
}

impl ExecutionMode {
    /// As users write it.
    pub const fn name(self) -> &'static str {
        match self {
            ExecutionMode::Onboard => "ONBOARD",
            ExecutionMode::Sim => "SIM",
        }
    }
}

impl FromStr for ExecutionMode {
    type Err = ConfigError;
    fn from_str(text: &str) -> Result<Self, ConfigError> {
        match text {
            "ONBOARD" => Ok(ExecutionMode::Onboard),
            "SIM" => Ok(ExecutionMode::Sim),
            _ => Err(ConfigError::new("execution_mode", text, "ONBOARD or SIM")),
        }
    }
}

/// A chip and a mode.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub struct Target {
    /// Which chip.
    pub backend: BackendType,
    /// On it, or on its simulator.
    pub mode: ExecutionMode,
}

impl Target {
    /// The a2a3 simulator, where nothing else is asked for.
    pub const DEFAULT: Target = Target { backend: BackendType::Ascend910B, mode: ExecutionMode::Sim };

    /// All targets with their old single-word names.
    pub const ALL: [Target; 4] = [
        Target { backend: BackendType::Ascend910B, mode: ExecutionMode::Onboard },
        Target { backend: BackendType::Ascend910B, mode: ExecutionMode::Sim },
        Target { backend: BackendType::Ascend950, mode: ExecutionMode::Onboard },
        Target { backend: BackendType::Ascend950, mode: ExecutionMode::Sim },
    ];

    /// The old single-word name (`platform`).
    pub const fn name(self) -> &'static str {
        match (self.backend, self.mode) {
            (BackendType::Ascend910B, ExecutionMode::Onboard) => "a2a3",
            (BackendType::Ascend910B, ExecutionMode::Sim) => "a2a3sim",
            (BackendType::Ascend950, ExecutionMode::Onboard) => "a5",
            (BackendType::Ascend950, ExecutionMode::Sim) => "a5sim",
        }
    }

    /// The platform whose ABI it speaks.
    pub const fn platform(self) -> Platform {
        match self.backend {
            BackendType::Ascend910B => Platform::A2a3,
            BackendType::Ascend950 => Platform::A5,
        }
    }

    /// The platform's numbers.
    pub const fn geometry(self) -> &'static Geometry {
        Geometry::of(self.platform())
    }

    /// How its host reaches device memory.
    pub const fn transport(self) -> TransportKind {
        match self.backend {
            BackendType::Ascend910B => TransportKind::Svm,
            BackendType::Ascend950 => TransportKind::Copy,
        }
    }

    /// The target that these words mean; what is not given is that of [`DEFAULT`](Self::DEFAULT).
    ///
    /// # Errors
    /// An unknown word, or a `platform` that the other two contradict.
    pub fn resolve(
        platform: Option<&str>,
        backend: Option<BackendType>,
        mode: Option<ExecutionMode>,
    ) -> Result<Target, ConfigError> {
        let Some(name) = platform else {
            return Ok(Target {
                backend: backend.unwrap_or(Self::DEFAULT.backend),
                mode: mode.unwrap_or(Self::DEFAULT.mode),
            });
        };
        let target = Self::ALL.into_iter().find(|target| target.name() == name);
        let target =
            target.ok_or_else(|| ConfigError::new("platform", name, "a2a3, a2a3sim, a5 or a5sim"))?;
        if backend.is_some_and(|backend| backend != target.backend) {
            let expected =
                format!("{} (which `platform={name}` means), or leave `platform` out", target.backend.name());
            return Err(ConfigError::new("backend_type", backend.map_or("", BackendType::name), expected));
        }
        if mode.is_some_and(|mode| mode != target.mode) {
            let expected =
                format!("{} (which `platform={name}` means), or leave `platform` out", target.mode.name());
            return Err(ConfigError::new("execution_mode", mode.map_or("", ExecutionMode::name), expected));
        }
        Ok(target)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_old_name_means_its_pair() {
        for target in Target::ALL {
            assert_eq!(Target::resolve(Some(target.name()), None, None), Ok(target));
            assert_eq!(
                Target::resolve(Some(target.name()), Some(target.backend), Some(target.mode)),
                Ok(target)
            );
            assert_eq!(Target::resolve(None, Some(target.backend), Some(target.mode)), Ok(target));
        }
    }

    #[test]
    fn a_contradiction_and_an_unknown_word_are_errors_that_name_the_field() {
        let wrong = Target::resolve(Some("a5sim"), Some(BackendType::Ascend910B), None).unwrap_err();
        assert_eq!(wrong.field, "backend_type");
        let wrong = Target::resolve(Some("a5sim"), None, Some(ExecutionMode::Onboard)).unwrap_err();
        assert_eq!(wrong.field, "execution_mode");
        let wrong = Target::resolve(Some("a7"), None, None).unwrap_err();
        assert!(wrong.to_string().contains("a7") && wrong.to_string().contains("a2a3sim"), "{wrong}");
    }
}
