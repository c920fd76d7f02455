//! A byte buffer that rows of numbers are formatted into, on their way to a [`Write`].
//!
//! Every number is a decimal integer. Two things make it fast: pieces of known length are copied as such, and the
//! leading digits of a time stamp, which its neighbour shares, are formatted once (see [`Digits`]).

use std::io::{self, Write};

/// Size of the buffer in bytes.
const CAPACITY: usize = 128 * 1024;
/// The longest row, in bytes: what [`Text::row`] makes sure of.
pub(super) const ROW_BYTES: usize = 512;

/// `00` to `99`.
static PAIRS: [[u8; 2]; 100] = {
    let mut pairs = [[0; 2]; 100];
    let mut i = 0;
    while i < 100 {
        pairs[i] = [b'0' + (i / 10) as u8, b'0' + (i % 10) as u8];
        i += 1;
    }
    pairs
};

/// What the low digits of a number are taken modulo.
const LOW: u64 = 100_000_000;

/// The digits above the lowest eight of the number that was written last through this value.
#[derive(Debug, Default)]
pub(super) struct Digits {
    high: u64,
    text: [u8; 12],
    len: usize,
}

/// Formats rows into a buffer and hands full buffers to `out`.
pub(super) struct Text<'w, W: Write + ?Sized> {
    out: &'w mut W,
    buffer: Vec<u8>,
    at: usize,
}

impl<'w, W: Write + ?Sized> Text<'w, W> {
    pub(super) fn new(out: &'w mut W) -> Self {
        Text { out, buffer: vec![0; CAPACITY], at: 0 }
    }

    /// Makes room for a row of [`ROW_BYTES`] bytes.
    #[inline]
    pub(super) fn row(&mut self) -> io::Result<()> {
        if self.at > CAPACITY - ROW_BYTES { self.finish() } else { Ok(()) }
    }

    /// Hands over what is buffered.
    #[cold]
    pub(super) fn finish(&mut self) -> io::Result<()> {
        self.out.write_all(&self.buffer[..self.at])?;
        self.at = 0;
        Ok(())
    }

    /// Appends text of any length. Not for rows: it makes its own room.
    pub(super) fn text(&mut self, text: &str) -> io::Result<()> {
        if text.len() > ROW_BYTES {
            self.finish()?;
            return self.out.write_all(text.as_bytes());
        }
        self.row()?;
        self.slice(text.as_bytes());
        Ok(())
    }

    /// Appends a short slice; room was made by [`row`](Self::row).
    #[inline]
    pub(super) fn slice(&mut self, bytes: &[u8]) {
        self.buffer[self.at..self.at + bytes.len()].copy_from_slice(bytes);
        self.at += bytes.len();
    }

    /// Appends a piece of known length; room was made by [`row`](Self::row).
    #[inline(always)]
    pub(super) fn fixed<const N: usize>(&mut self, bytes: &[u8; N]) {
        self.put(bytes, N);
    }

    /// Copies all of `bytes` but keeps only `len` of them.
    #[inline(always)]
    fn put<const N: usize>(&mut self, bytes: &[u8; N], len: usize) {
        self.buffer[self.at..self.at + N].copy_from_slice(bytes);
        self.at += len;
    }

    /// Appends `value`, expected to be small.
    #[inline]
    pub(super) fn number(&mut self, value: u32) {
        if value < 10 {
            self.fixed(&[b'0' + value as u8]);
        } else if value < 100 {
            self.fixed(&PAIRS[value as usize]);
        } else if value < 10_000 {
            let (high, low) = (PAIRS[value as usize / 100], PAIRS[value as usize % 100]);
            if value < 1_000 {
                self.fixed(&[high[1], low[0], low[1]]);
            } else {
                self.fixed(&[high[0], high[1], low[0], low[1]]);
            }
        } else {
            self.slice(itoa::Buffer::new().format(value).as_bytes());
        }
    }

    /// Appends a signed `value`, expected to be small.
    #[inline]
    pub(super) fn signed(&mut self, value: i16) {
        if value < 0 {
            self.fixed(b"-");
        }
        self.number(u32::from(value.unsigned_abs()));
    }

    /// Appends `value`, expected to share its leading digits with the one before in `digits`.
    #[inline]
    pub(super) fn large(&mut self, value: u64, digits: &mut Digits) {
        let (high, low) = (value / LOW, (value % LOW) as usize);
        if high == 0 {
            self.number(low as u32);
            return;
        }
        if high != digits.high {
            digits.set(high);
        }
        self.put(&digits.text, digits.len);
        let (upper, lower) = (low / 10_000, low % 10_000);
        let [a, b, c, d] = [upper / 100, upper % 100, lower / 100, lower % 100].map(|pair| PAIRS[pair]);
        self.fixed(&[a[0], a[1], b[0], b[1], c[0], c[1], d[0], d[1]]);
    }
}

impl Digits {
    #[cold]
    fn set(&mut self, high: u64) {
        let mut buffer = itoa::Buffer::new();
        let text = buffer.format(high).as_bytes();
        self.text[..text.len()].copy_from_slice(text);
        self.len = text.len();
        self.high = high;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn larges(values: &[u64]) -> String {
        let mut out = Vec::new();
        let mut text = Text::new(&mut out);
        let mut digits = Digits::default();
        for value in values {
            text.row().unwrap();
            text.large(*value, &mut digits);
            text.fixed(b",");
        }
        text.finish().unwrap();
        String::from_utf8(out).unwrap()
    }

    fn joined<T: ToString>(values: &[T]) -> String {
        values.iter().map(|v| v.to_string() + ",").collect()
    }

    /// Every power of ten and of two, and their neighbours.
    fn edges() -> Vec<u64> {
        let tens = (0..20).map(|e| 10u64.pow(e));
        let twos = (0..64).map(|e| 1u64 << e);
        let mut edges: Vec<u64> =
            tens.chain(twos).flat_map(|v| [v.wrapping_sub(1), v, v.wrapping_add(1)]).collect();
        edges.extend([0, u64::MAX, u64::MAX - 1]);
        edges
    }

    #[test]
    fn numbers_at_the_edges_are_exact() {
        assert_eq!(larges(&edges()), joined(&edges()));
        let mut backwards = edges();
        backwards.reverse();
        assert_eq!(larges(&backwards), joined(&backwards));
        let few = if cfg!(miri) { 200 } else { 20_000 };
        let small: Vec<u32> = edges().into_iter().filter_map(|v| v.try_into().ok()).chain(0..few).collect();
        let mut out = Vec::new();
        let mut text = Text::new(&mut out);
        for value in &small {
            text.row().unwrap();
            text.number(*value);
            text.fixed(b",");
        }
        text.finish().unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), joined(&small));
    }

    proptest! {
        #[test]
        fn any_sequence_of_large_numbers_is_exact(
            values in prop::collection::vec(
                prop_oneof![any::<u64>(), 0..200_000_000u64, u64::MAX - 1000..=u64::MAX, 99_999_990..100_000_010u64],
                0..if cfg!(miri) { 20 } else { 300 },
            ),
        ) {
            prop_assert_eq!(larges(&values), joined(&values));
        }

        #[test]
        fn any_depth_is_exact(value: i16) {
            let mut out = Vec::new();
            let mut text = Text::new(&mut out);
            text.signed(value);
            text.finish().unwrap();
            prop_assert_eq!(String::from_utf8(out).unwrap(), value.to_string());
        }
    }

    #[test]
    fn long_text_keeps_its_place() {
        let mut out = Vec::new();
        let mut text = Text::new(&mut out);
        let long = "x".repeat(3 * CAPACITY);
        text.text("a").unwrap();
        text.text(&long).unwrap();
        text.text("b").unwrap();
        text.finish().unwrap();
        assert!(String::from_utf8(out).unwrap() == format!("a{long}b"));
    }
}
