//! How fast payload may be drained, and how fast it is.

use crate::config::ConfigError;
use std::fmt;
use std::str::FromStr;

/// What the documentation of boards gives as the drain's rate, in bytes per second: an expectation, not a ceiling.
pub const BOARD_RATE: u64 = 42_000_000;
/// What [`DumpBudget`] accepts.
pub(crate) const ACCEPTED: &str =
    "auto, unlimited, or a rate such as 42MB/s (B, kB, MB, GB, KiB, MiB, GiB per second), not 0";

/// The ceiling that the drain of dumped payload keeps to.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Hash)]
pub enum DumpBudget {
    /// As fast as the way from the device goes: the rate is measured and reported, and no ceiling is set.
    #[default]
    Auto,
    /// So many bytes per second.
    Rate(u64),
    /// No ceiling.
    Unlimited,
}

impl DumpBudget {
    /// The ceiling in bytes per second, if there is one.
    pub const fn ceiling(self) -> Option<u64> {
        match self {
            DumpBudget::Rate(rate) => Some(rate),
            DumpBudget::Auto | DumpBudget::Unlimited => None,
        }
    }
}

impl fmt::Display for DumpBudget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DumpBudget::Auto => f.write_str("auto"),
            DumpBudget::Unlimited => f.write_str("unlimited"),
            DumpBudget::Rate(rate) => write!(f, "{rate}B/s"),
        }
    }
}

impl FromStr for DumpBudget {
    type Err = ConfigError;
    fn from_str(text: &str) -> Result<Self, ConfigError> {
        match text {
            "auto" => return Ok(DumpBudget::Auto),
            "unlimited" => return Ok(DumpBudget::Unlimited),
            _ => {}
        }
        let refuse = || ConfigError::new("dump_budget", text, ACCEPTED);
        let rate = text.strip_suffix("/s").unwrap_or(text);
        let digits = rate.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rate.len());
        let (number, unit) = rate.split_at(digits);
        let unit: u64 = match unit.trim_start() {
            "" | "B" => 1,
            "kB" | "KB" => 1_000,
            "MB" => 1_000_000,
            "GB" => 1_000_000_000,
            "KiB" => 1 << 10,
            "MiB" => 1 << 20,
            "GiB" => 1 << 30,
            _ => return Err(refuse()),
        };
        let rate = number.parse::<f64>().map_err(|_| refuse())? * unit as f64;
        // Beyond 2^53 no link is meant.
        if (1.0..9e15).contains(&rate) { Ok(DumpBudget::Rate(rate.round() as u64)) } else { Err(refuse()) }
    }
}

/// A token bucket: what has been drained in any span of time is at most the rate times that span, and one hundredth of a
/// second's worth more.
#[derive(Debug)]
pub(crate) struct Bucket {
    rate: u64,
    tokens: u64,
    /// What is not yet a token, in bytes × ns/s.
    rest: u64,
    last: Option<u64>,
}

impl Bucket {
    const SECOND: u64 = 1_000_000_000;

    pub(crate) fn new(rate: u64) -> Bucket {
        Bucket { rate, tokens: 0, rest: 0, last: None }
    }

    /// The largest piece that is ever let through at once.
    pub(crate) fn burst(&self) -> u64 {
        (self.rate / 100).max(1)
    }

    /// Whether `bytes`, at most [`burst`](Self::burst), may go at `now` (ns); they are then taken as gone.
    pub(crate) fn take(&mut self, now: u64, bytes: u64) -> bool {
        let waited = now.saturating_sub(self.last.replace(now).unwrap_or(now));
        let gained = u128::from(waited) * u128::from(self.rate) + u128::from(self.rest);
        let whole = gained / u128::from(Self::SECOND);
        self.rest = (gained % u128::from(Self::SECOND)) as u64;
        self.tokens = u64::try_from(whole).unwrap_or(u64::MAX).saturating_add(self.tokens);
        if self.tokens >= self.burst() {
            (self.tokens, self.rest) = (self.burst(), 0);
        }
        let may = bytes <= self.tokens;
        if may {
            self.tokens -= bytes;
        }
        may
    }
}

/// The rate at which a queue is emptied: only time in which something waited counts.
#[derive(Debug, Default)]
pub(crate) struct Meter {
    since: Option<u64>,
    /// Decayed, for the rate of now.
    recent: (u64, u64),
    /// In all: bytes and ns.
    all: (u64, u64),
}

impl Meter {
    /// A moving average over about this long, in ns.
    const SPAN: u64 = 1_000_000_000;

    /// Something waits at `now`.
    pub(crate) fn waiting(&mut self, now: u64) {
        self.since.get_or_insert(now);
    }

    /// `bytes` went by `now`; `more`: something waits still.
    pub(crate) fn went(&mut self, now: u64, bytes: u64, more: bool) {
        let ns = now.saturating_sub(self.since.unwrap_or(now));
        self.since = more.then_some(now);
        for sum in [&mut self.recent, &mut self.all] {
            *sum = (sum.0 + bytes, sum.1 + ns);
        }
        while self.recent.1 > Self::SPAN {
            self.recent = (self.recent.0 / 2, self.recent.1 / 2);
        }
    }

    fn per_second((bytes, ns): (u64, u64)) -> u64 {
        if ns == 0 {
            0
        } else {
            (u128::from(bytes) * 1_000_000_000 / u128::from(ns)).min(u128::from(u64::MAX)) as u64
        }
    }

    /// Bytes per second, of late.
    pub(crate) fn recent(&self) -> u64 {
        Self::per_second(self.recent)
    }

    /// Bytes per second, on the whole; 0 when no time passed.
    pub(crate) fn overall(&self) -> u64 {
        Self::per_second(self.all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_read_with_decimal_and_binary_units() {
        let rate = |text: &str| text.parse::<DumpBudget>().map_err(|error| error.to_string());
        for (text, bytes) in [
            ("42MB/s", 42_000_000),
            ("42 MB/s", 42_000_000),
            ("1.5GB/s", 1_500_000_000),
            ("1MiB/s", 1 << 20),
            ("512KiB", 512 << 10),
            ("9kB/s", 9_000),
            ("7", 7),
            ("2GiB/s", 2 << 30),
        ] {
            assert_eq!(rate(text), Ok(DumpBudget::Rate(bytes)), "{text}");
        }
        assert_eq!((rate("auto"), rate("unlimited")), (Ok(DumpBudget::Auto), Ok(DumpBudget::Unlimited)));
        for text in [
            "",
            "0",
            "0MB/s",
            "fast",
            "-1MB/s",
            "1..2MB/s",
            "MB/s",
            "42mb/s",
            "1e400",
            "99999999999GB/s",
            "AUTO",
        ] {
            let error = rate(text).expect_err(text);
            assert!(error.contains("dump_budget") && error.contains("42MB/s"), "{error}");
        }
    }

    /// Whatever the size of pieces and however often it is asked.
    #[test]
    fn every_second_has_the_rate_within_two_percent() {
        let many = [(42_000_000, 1 << 20, 200_000), (42_000_000, 4096, 9_000_000), (1_000_003, 77, 50_000)];
        let few = [(42_000_000, 1 << 20, 5_000_000), (60_007, 77, 4_000_000), (60_007, 200, 7_000_000)];
        let step = if cfg!(miri) { 240_000_000 } else { 7_000_000 };
        for (rate, piece, poll) in if cfg!(miri) { few } else { many } {
            let mut bucket = Bucket::new(rate);
            let piece = bucket.burst().min(piece);
            let (mut now, mut went) = (5, Vec::new());
            while now < 4_000_000_000 {
                while bucket.take(now, piece) {
                    went.push((now, piece));
                }
                now += poll;
            }
            for from in (0..3_000_000_000_u64).step_by(step).skip(1) {
                let inside = went.iter().filter(|&&(at, _)| at >= from && at < from + 1_000_000_000);
                let sum: u64 = inside.map(|&(_, bytes)| bytes).sum();
                assert!(sum.abs_diff(rate) * 50 <= rate, "{sum} in the second from {from}, of {rate}");
            }
        }
    }

    #[test]
    fn time_in_which_nothing_waits_is_no_time() {
        let mut meter = Meter::default();
        meter.waiting(0);
        meter.went(500_000_000, 10, false);
        meter.waiting(9_000_000_000);
        meter.went(9_500_000_000, 30, true);
        assert_eq!((meter.recent(), meter.overall()), (40, 40));
        meter.went(10_500_000_000, 0, false);
        assert_eq!(meter.overall(), 20);
    }
}
