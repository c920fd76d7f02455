//! Configurations from the environment, for a runtime that knows nothing of us but its own start: the same values and the
//! same errors as the command line's switches.

use crate::config::Config;
use crate::log;
use crate::status::Failure;
use dfx_host_drain::{ConfigError, DfxConfig, PmuEvent};
use std::ffi::OsString;
use std::path::PathBuf;

/// The reference runtime's own variable for the PMU's event.
const SIMPLER_PMU: &str = "SIMPLER_PMU_EVENT_TYPE";

/// What `lookup` says.
pub(crate) fn config(lookup: &dyn Fn(&str) -> Option<OsString>) -> Result<Config, Failure> {
    let env = Env { lookup };
    let mut config = Config {
        output: (lookup)("DFX_OUTPUT_PREFIX").filter(|dir| !dir.is_empty()).map(PathBuf::from),
        ..Config::default()
    };
    let dfx = &mut config.dfx;
    if let Some(level) = env.level("DFX_CHIP_SWIMLANE", 4, "a level from 0 to 4")? {
        dfx.chip_swimlane = DfxConfig::swimlane_level(level).map_err(named("DFX_CHIP_SWIMLANE"))?;
    }
    if let Some(level) = env.level("DFX_DUMP_ARGS", 1, "a level from 0 to 3")? {
        dfx.dump_args = DfxConfig::dump_level(level).map_err(named("DFX_DUMP_ARGS"))?;
    }
    if let Some(event) = env.level("DFX_PMU", 2, "an event type, 0 is off")? {
        dfx.pmu = event_of(&env, event)?;
    }
    dfx.dep_gen = env.switch("DFX_DEP_GEN")?.unwrap_or(dfx.dep_gen);
    dfx.scope_stats = env.switch("DFX_SCOPE_STATS")?.unwrap_or(dfx.scope_stats);
    if let Some(budget) = env.text("DFX_DUMP_BUDGET")? {
        dfx.dump_budget = budget.parse().map_err(named("DFX_DUMP_BUDGET"))?;
    }
    if let Some(policy) = env.text("DFX_BACKPRESSURE")? {
        dfx.backpressure = policy.parse().map_err(named("DFX_BACKPRESSURE"))?;
    }
    if let Some(region) = env.text("DFX_REGION")? {
        let expected =
            "nothing: shared memory comes from the platform's callbacks and is not backed by a file";
        return Err(Failure::invalid("DFX_REGION", region, expected));
    }
    if let Some(level) = env.text("DFX_LOG")? {
        let level = log::level_of(&level)
            .ok_or_else(|| Failure::invalid("DFX_LOG", &level, "off, error, warn, info, debug or trace"))?;
        log::set_level(level);
    }
    Ok(config)
}

/// The event that is asked for; the reference runtime's variable wins over `event` if the counters are on at all.
fn event_of(env: &Env<'_>, event: i64) -> Result<Option<PmuEvent>, Failure> {
    let number = u32::try_from(event)
        .map_err(|_| Failure::invalid("DFX_PMU", event, "an event type, 0 (off) or more"))?;
    let (mut chosen, replaced) = DfxConfig::pmu_event(number);
    if replaced {
        tracing::warn!(event, "DFX_PMU names no event type: 2 (PIPE_UTILIZATION) is counted");
    }
    if let (Some(_), Some(text)) = (chosen, env.text(SIMPLER_PMU)?) {
        match text.parse().ok().and_then(PmuEvent::from_raw) {
            Some(event) => chosen = Some(event),
            None => tracing::warn!(text, "{SIMPLER_PMU} names no event type and is passed over"),
        }
    }
    Ok(chosen)
}

/// An error about a value, said of the variable that it came from.
fn named(variable: &'static str) -> impl Fn(ConfigError) -> Failure {
    move |error| ConfigError { field: variable, ..error }.into()
}

struct Env<'a> {
    lookup: &'a dyn Fn(&str) -> Option<OsString>,
}

impl Env<'_> {
    /// The variable's value; `None` if it is unset or empty.
    fn text(&self, name: &'static str) -> Result<Option<String>, Failure> {
        let Some(value) = (self.lookup)(name) else { return Ok(None) };
        let value =
            value.into_string().map_err(|odd| Failure::invalid(name, odd.to_string_lossy(), "UTF-8"))?;
        Ok(Some(value).filter(|value| !value.is_empty()))
    }

    fn switch(&self, name: &'static str) -> Result<Option<bool>, Failure> {
        let Some(value) = self.text(name)? else { return Ok(None) };
        match value.as_str() {
            "1" | "true" => Ok(Some(true)),
            "0" | "false" => Ok(Some(false)),
            _ => Err(Failure::invalid(name, value, "0, 1, false or true")),
        }
    }

    /// A number; `true` is what the bare switch means, `false` is 0.
    fn level(&self, name: &'static str, bare: i64, expected: &str) -> Result<Option<i64>, Failure> {
        let Some(value) = self.text(name)? else { return Ok(None) };
        match value.as_str() {
            "true" => Ok(Some(bare)),
            "false" => Ok(Some(0)),
            _ => value.parse().map(Some).map_err(|_| Failure::invalid(name, value, expected)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use dfx_collector::abi::swimlane::Level;
    use dfx_host_drain::{Backpressure, DumpBudget, DumpLevel};

    fn from(pairs: &[(&str, &str)]) -> Result<Config, Failure> {
        config(&|name| pairs.iter().find(|(key, _)| *key == name).map(|(_, value)| value.into()))
    }

    #[test]
    fn nothing_set_and_empty_values_leave_every_switch_off() {
        assert!(!from(&[]).unwrap().dfx.any());
        let empty = from(&[("DFX_CHIP_SWIMLANE", ""), ("DFX_PMU", ""), ("DFX_OUTPUT_PREFIX", "")]).unwrap();
        assert!(!empty.dfx.any() && empty.output.is_none());
    }

    #[test]
    fn each_variable_means_what_its_switch_means() {
        let all = from(&[
            ("DFX_OUTPUT_PREFIX", "/tmp/a b"),
            ("DFX_CHIP_SWIMLANE", "true"),
            ("DFX_DEP_GEN", "1"),
            ("DFX_DUMP_ARGS", "2"),
            ("DFX_PMU", "true"),
            ("DFX_SCOPE_STATS", "true"),
            ("DFX_DUMP_BUDGET", "42MB/s"),
            ("DFX_BACKPRESSURE", "block"),
        ])
        .unwrap();
        assert_eq!(all.output.as_deref(), Some(std::path::Path::new("/tmp/a b")));
        let dfx = all.dfx;
        assert_eq!((dfx.chip_swimlane, dfx.dump_args), (Level::OrchPhases, DumpLevel::Full));
        assert_eq!((dfx.dep_gen, dfx.scope_stats), (true, true));
        assert_eq!(dfx.pmu, Some(PmuEvent::PipeUtilization));
        assert_eq!((dfx.dump_budget, dfx.backpressure), (DumpBudget::Rate(42_000_000), Backpressure::Block));
    }

    #[test]
    fn the_reference_runtimes_event_wins_only_if_it_is_one_and_counting_is_on() {
        let event = |pairs: &[(&str, &str)]| from(pairs).unwrap().dfx.pmu.map(|event| event as u32);
        assert_eq!(event(&[("DFX_PMU", "2"), (SIMPLER_PMU, "4")]), Some(4));
        assert_eq!(event(&[("DFX_PMU", "2"), (SIMPLER_PMU, "3")]), Some(2));
        assert_eq!(event(&[("DFX_PMU", "99")]), Some(2));
        assert_eq!(event(&[("DFX_PMU", "0"), (SIMPLER_PMU, "4")]), None);
        assert_eq!(event(&[(SIMPLER_PMU, "4")]), None);
    }

    #[test]
    fn a_value_that_cannot_be_had_is_an_error_that_names_the_variable() {
        for (name, value) in [
            ("DFX_CHIP_SWIMLANE", "5"),
            ("DFX_CHIP_SWIMLANE", "yes"),
            ("DFX_DUMP_ARGS", "-1"),
            ("DFX_PMU", "-2"),
            ("DFX_DEP_GEN", "2"),
            ("DFX_DUMP_BUDGET", "fast"),
            ("DFX_BACKPRESSURE", "wait"),
            ("DFX_REGION", "/tmp/region"),
            ("DFX_LOG", "loud"),
        ] {
            let error = format!("{:?}", from(&[(name, value)]).err().unwrap());
            assert!(error.contains(name) && error.contains(value), "{error}");
        }
    }
}
