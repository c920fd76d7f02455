//! Equal values once: a table from values to dense numbers.

/// A value that can be looked up quickly.
pub(super) trait Key: Copy + Eq {
    /// Folds what makes the value into `hash`.
    fn fold(&self, hash: Fold) -> Fold;
}

/// A multiplicative hash, word by word.
#[derive(Clone, Copy)]
pub(super) struct Fold(u64);

impl Fold {
    pub(super) fn word(self, word: u64) -> Fold {
        Fold((self.0.rotate_left(26) ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15))
    }

    fn slot(self, mask: usize) -> usize {
        // The upper bits are the mixed ones.
        (self.0 ^ (self.0 >> 32)) as usize & mask
    }
}

/// Where to look for `word` first in a table of `mask + 1` slots.
pub(super) fn slot_of(word: u64, mask: usize) -> usize {
    Fold(0).word(word).slot(mask)
}

impl Key for u64 {
    fn fold(&self, hash: Fold) -> Fold {
        hash.word(*self)
    }
}

/// Distinct values, numbered from 0 in the order of their arrival.
pub(super) struct Interner<T> {
    values: Vec<T>,
    /// Numbers plus one; 0 is free. At most half full.
    table: Vec<u32>,
    /// The value met last: it often comes again.
    last: u32,
}

impl<T> Default for Interner<T> {
    fn default() -> Self {
        Interner { values: Vec::new(), table: vec![0; 64], last: 0 }
    }
}

impl<T: Key> Interner<T> {
    /// All values, by number.
    pub(super) fn values(&self) -> &[T] {
        &self.values
    }

    /// The number of `value`, and whether it is new. There must be room below `u32::MAX`.
    pub(super) fn intern(&mut self, value: T) -> (u32, bool) {
        if self.values.get(self.last as usize) == Some(&value) {
            return (self.last, false);
        }
        let mask = self.table.len() - 1;
        let mut slot = value.fold(Fold(0)).slot(mask);
        loop {
            match self.table[slot] {
                0 => break,
                number if self.values[number as usize - 1] == value => {
                    self.last = number - 1;
                    return (self.last, false);
                }
                _ => slot = (slot + 1) & mask,
            }
        }
        self.values.push(value);
        self.table[slot] = self.values.len() as u32;
        self.last = self.values.len() as u32 - 1;
        if self.values.len() * 2 > self.table.len() {
            self.grow();
        }
        (self.last, true)
    }

    fn grow(&mut self) {
        let mask = self.table.len() * 2 - 1;
        self.table.clear();
        self.table.resize(mask + 1, 0);
        for (number, value) in (1..).zip(&self.values) {
            let mut slot = value.fold(Fold(0)).slot(mask);
            while self.table[slot] != 0 {
                slot = (slot + 1) & mask;
            }
            self.table[slot] = number;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_dense_in_order_of_arrival_and_stable() {
        let mut interner = Interner::default();
        let value = |i: u64| i * i * 0x1_0000_0000;
        let count = if cfg!(miri) { 500 } else { 10_000 };
        for i in 0..count {
            assert_eq!(interner.intern(value(i)), (i as u32, true));
        }
        for i in (0..count).rev() {
            assert_eq!(interner.intern(value(i)), (i as u32, false));
        }
        assert_eq!(interner.values().len() as u64, count);
    }
}
