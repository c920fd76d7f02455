//! The ledger: what became of every record, per lane.

use crate::report::{Feature, StreamKind, StreamReport};

/// A lane's account. Records are counted once each: `produced = collected + dropped + lost + mismatched`.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Account {
    /// Records that the device counted; `None` where the other half keeps no total.
    pub produced: Option<u64>,
    /// Records that reached the host, each once.
    pub collected: u64,
    /// Records that the device had no room for.
    pub dropped: u64,
    /// Records that were produced and did not reach the host.
    pub lost: u64,
    /// Of `collected`: taken from buffers that were never published.
    pub recovered: u64,
    /// Records that belonged to another task and were not attributed.
    pub mismatched: u64,
    /// Records that came a second time and were left out.
    pub duplicate: u64,
    /// Values from shared memory that could not be: indices, counts, pointers, kinds.
    pub corrupt: u64,
    /// Buffers that reached the host.
    pub buffers: u64,
    /// Of these: full ones, exchanged for an empty one.
    pub rotations: u64,
    /// Buffers that could not be given back to the device.
    pub buffers_withheld: u64,
    /// Waits of the producer.
    pub stalls: u64,
    /// Ticks waited in all.
    pub stall_ticks: u64,
    /// The longest wait in ticks.
    pub max_stall_ticks: u64,
    /// Records beyond the count that the device had shown of its last buffer, had or not.
    pub unshown: u64,
    /// Of these: begun, but not whole.
    pub torn: u64,
    /// Records in buffers whose transfer failed for good.
    pub transfer_lost: u64,
    /// An index that could not be, as last seen (each value is counted once).
    last_bad_index: Option<u32>,
}

impl Account {
    /// Counts a free-queue or ready-queue index that cannot be. The same value seen again is the same fault.
    pub fn corrupt_index(&mut self, index: u32) {
        if self.last_bad_index != Some(index) {
            self.last_bad_index = Some(index);
            self.corrupt += 1;
        }
    }

    /// Closes the account with the device's own totals, once everything was collected.
    ///
    /// `at_least`: the device ended without publishing its totals, so they are a lower bound. They are in any case where
    /// records lay beyond the count that it had shown: those are not in its total.
    pub fn close(&mut self, total: u64, dropped: u64, at_least: bool) {
        self.dropped = dropped;
        let seen = self.collected + dropped + self.mismatched;
        let at_least = at_least || self.unshown > 0;
        let produced = if at_least { (total + self.unshown).max(seen + self.torn) } else { total };
        self.lost = produced.saturating_sub(seen);
        if seen > produced {
            // More than was produced: the total cannot be right, and what was collected stands.
            self.corrupt += 1;
        }
        self.produced = Some(produced.max(seen));
    }

    /// As `run.json` lists it, for a lane of a device whose counter ticks `clock_hz` times a second.
    pub fn report(&self, feature: Feature, kind: StreamKind, lane: u32, clock_hz: u64) -> StreamReport {
        let nanos = |ticks: u64| (u128::from(ticks) * 1_000_000_000 / u128::from(clock_hz)) as u64;
        StreamReport {
            produced: self.produced,
            collected: self.collected,
            dropped: self.dropped,
            lost: self.lost,
            recovered: self.recovered,
            duplicate: self.duplicate,
            corrupt: self.corrupt,
            buffers: self.buffers,
            rotations: self.rotations,
            stalls: self.stalls,
            mismatched: self.mismatched,
            stall_ns: nanos(self.stall_ticks),
            max_stall_ns: nanos(self.max_stall_ticks),
            ..StreamReport::new(feature, kind, lane)
        }
    }

    /// Whether nothing is missing and nothing was wrong.
    pub fn whole(&self) -> bool {
        self.dropped == 0 && self.lost == 0 && self.corrupt == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_lost() {
        let mut account = Account { collected: 90, ..Account::default() };
        account.close(100, 4, false);
        assert_eq!((account.produced, account.dropped, account.lost, account.corrupt), (Some(100), 4, 6, 0));
        assert!(!account.whole());
    }

    #[test]
    fn a_total_that_was_not_published_is_a_lower_bound() {
        let mut account = Account { collected: 90, ..Account::default() };
        account.close(64, 0, true);
        assert_eq!((account.produced, account.lost, account.corrupt), (Some(90), 0, 0));
        assert!(account.whole());
    }

    #[test]
    fn records_beyond_the_shown_count_are_produced_too() {
        let account = Account { collected: 1_015, unshown: 8, torn: 1, ..Account::default() };
        for at_least in [false, true] {
            let mut account = account.clone();
            // A buffer of 1,000 never came: what lay beyond the count does not make up for it.
            account.close(2_008, 0, at_least);
            assert_eq!((account.produced, account.lost, account.corrupt), (Some(2_016), 1_001, 0));
            // The device was stopped between the count and the total.
            account.close(1_000, 0, at_least);
            assert_eq!((account.produced, account.lost, account.corrupt), (Some(1_016), 1, 0));
        }
    }

    #[test]
    fn more_than_was_produced_is_a_fault() {
        let mut account = Account { collected: 11, ..Account::default() };
        account.close(10, 0, false);
        assert_eq!((account.produced, account.lost, account.corrupt), (Some(11), 0, 1));
    }

    #[test]
    fn a_bad_index_is_counted_once_per_value() {
        let mut account = Account::default();
        for index in [7, 7, 7, 8, 8] {
            account.corrupt_index(index);
        }
        assert_eq!(account.corrupt, 2);
    }
}
