//! Values as text, as the reference's viewer writes them: C's `%.6g` for float32, `%.4g` for float16, `%.3g` for bfloat16 and the
//! smaller floats, `True` / `False`, integers in decimal, bytes of an unknown type as `0x2a`.
//!
//! A dump is mostly numbers, so their formatting is what an export costs. A value is scaled to an integer of the wanted
//! digits by one exact power of ten, one rounding; where that rounding could decide between two neighbours (a tie, or
//! within a millionth of one) or the power is not exact, the exact way of the standard library decides.

use super::dtype::{Dtype, bf16, fp4_e2m1, fp8_e4m3fn, fp8_e8m0, fp16, words};
use std::io::Write;

/// Powers of ten that binary64 holds exactly.
const EXACT: [f64; 23] = [
    1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18,
    1e19, 1e20, 1e21, 1e22,
];

/// Appends `value` as C's `%.<digits>g` does; `digits` from 1 to 9.
pub(super) fn general(out: &mut Vec<u8>, value: f64, digits: u32) {
    if value.is_nan() {
        out.extend_from_slice(b"nan");
        return;
    }
    if value.is_sign_negative() {
        out.push(b'-');
    }
    let magnitude = value.abs();
    if magnitude.is_infinite() {
        out.extend_from_slice(b"inf");
    } else if magnitude < EXACT[digits as usize] && magnitude.trunc() == magnitude {
        integer(out, magnitude as u64);
    } else {
        let (significand, exponent) = quick(magnitude, digits).unwrap_or_else(|| exact(magnitude, digits));
        lay_out(out, significand, exponent, digits);
    }
}

/// The `digits` first digits of `magnitude` as an integer, and its decimal exponent; `None` where only the exact way knows.
fn quick(magnitude: f64, digits: u32) -> Option<(u32, i32)> {
    let low = EXACT[digits as usize - 1];
    let binary = (magnitude.to_bits() >> 52) as i32 - 1023;
    // The floor of the logarithm, or one less.
    let mut exponent = (binary * 1233) >> 12;
    for _ in 0..2 {
        let scale = digits as i32 - 1 - exponent;
        let power = *EXACT.get(scale.unsigned_abs() as usize)?;
        let scaled = if scale >= 0 { magnitude * power } else { magnitude / power };
        if scaled >= low * 10.0 {
            exponent += 1;
            continue;
        }
        let rounded = (scaled + 0.5).floor();
        let from_tie = (scaled - scaled.floor() - 0.5).abs();
        if from_tie <= 1e-6 || rounded < low {
            return None;
        }
        let carried = rounded >= low * 10.0;
        return Some(if carried { (low as u32, exponent + 1) } else { (rounded as u32, exponent) });
    }
    None
}

/// The same by the standard library, which rounds the exact value, half to even.
#[cold]
fn exact(magnitude: f64, digits: u32) -> (u32, i32) {
    let text = format!("{magnitude:.*e}", digits as usize - 1);
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let number = mantissa.bytes().filter(u8::is_ascii_digit).fold(0, |n, d| n * 10 + u32::from(d - b'0'));
    (number, exponent.parse().unwrap_or(0))
}

/// Appends a significand of `digits` digits with its decimal exponent, trailing zeros dropped.
fn lay_out(out: &mut Vec<u8>, significand: u32, exponent: i32, digits: u32) {
    let mut text = [0u8; 9];
    let mut rest = significand;
    for place in (0..digits as usize).rev() {
        text[place] = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
    let mut length = digits as usize;
    while length > 1 && text[length - 1] == b'0' {
        length -= 1;
    }
    let text = &text[..length];
    if exponent < -4 || exponent >= digits as i32 {
        out.push(text[0]);
        if length > 1 {
            out.push(b'.');
            out.extend_from_slice(&text[1..]);
        }
        out.push(b'e');
        out.push(if exponent < 0 { b'-' } else { b'+' });
        if exponent.unsigned_abs() < 10 {
            out.push(b'0');
        }
        integer(out, u64::from(exponent.unsigned_abs()));
    } else if exponent < 0 {
        out.extend_from_slice(&b"0.000"[..1 + exponent.unsigned_abs() as usize]);
        out.extend_from_slice(text);
    } else {
        let whole = exponent as usize + 1;
        if length > whole {
            out.extend_from_slice(&text[..whole]);
            out.push(b'.');
            out.extend_from_slice(&text[whole..]);
        } else {
            out.extend_from_slice(text);
            out.resize(out.len() + whole - length, b'0');
        }
    }
}

/// Appends `value` in decimal.
pub(super) fn integer(out: &mut Vec<u8>, value: u64) {
    let mut text = [0u8; 20];
    let mut at = text.len();
    let mut rest = value;
    loop {
        at -= 1;
        text[at] = b'0' + (rest % 10) as u8;
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    out.extend_from_slice(&text[at..]);
}

fn signed(out: &mut Vec<u8>, value: i64) {
    if value < 0 {
        out.push(b'-');
    }
    integer(out, value.unsigned_abs());
}

/// Values written one behind the other.
#[derive(Default, Debug)]
pub(super) struct Texts {
    text: Vec<u8>,
    /// Where each value ends.
    ends: Vec<usize>,
}

impl Texts {
    /// All, in order.
    pub(super) fn iter(&self) -> impl Iterator<Item = &[u8]> + '_ {
        let mut begin = 0;
        self.ends.iter().map(move |&end| {
            let value = &self.text[begin..end];
            begin = end;
            value
        })
    }

    /// Adds one value.
    pub(super) fn push_text(&mut self, value: &[u8]) {
        self.text.extend_from_slice(value);
        self.ends.push(self.text.len());
    }

    /// The longest value, in characters.
    pub(super) fn widest(&self) -> usize {
        self.iter().map(<[u8]>::len).max().unwrap_or(0)
    }

    /// Forgets the values.
    pub(super) fn clear(&mut self) {
        self.text.clear();
        self.ends.clear();
    }

    /// Adds the values in `bytes`, whole elements of `dtype`.
    pub(super) fn push(&mut self, dtype: Dtype, bytes: &[u8]) {
        let float = |v: f32| f64::from(v);
        match dtype {
            Dtype::Float32 => {
                self.all(words(bytes), |out, b| general(out, float(f32::from_le_bytes(b)), 6));
            }
            Dtype::Float16 => {
                self.all(words(bytes), |out, b| general(out, float(fp16(u16::from_le_bytes(b))), 4));
            }
            Dtype::Bfloat16 => {
                self.all(words(bytes), |out, b| general(out, float(bf16(u16::from_le_bytes(b))), 3));
            }
            Dtype::Int32 => self.all(words(bytes), |out, b| signed(out, i32::from_le_bytes(b).into())),
            Dtype::Int16 => self.all(words(bytes), |out, b| signed(out, i16::from_le_bytes(b).into())),
            Dtype::Int64 => self.all(words(bytes), |out, b| signed(out, i64::from_le_bytes(b))),
            Dtype::Uint32 => self.all(words(bytes), |out, b| integer(out, u32::from_le_bytes(b).into())),
            Dtype::Uint16 => self.all(words(bytes), |out, b| integer(out, u16::from_le_bytes(b).into())),
            Dtype::Uint64 => self.all(words(bytes), |out, b| integer(out, u64::from_le_bytes(b))),
            Dtype::Int8 => self.all(bytes.iter(), |out, &b| signed(out, (b as i8).into())),
            Dtype::Uint8 => self.all(bytes.iter(), |out, &b| integer(out, b.into())),
            Dtype::Bool => self.all(bytes.iter(), |out, &b| {
                out.extend_from_slice(if b == 0 { b"False" } else { b"True" });
            }),
            Dtype::Fp8E4m3fn => self.all(bytes.iter(), |out, &b| general(out, float(fp8_e4m3fn(b)), 3)),
            Dtype::Fp8E8m0 => self.all(bytes.iter(), |out, &b| general(out, float(fp8_e8m0(b)), 3)),
            Dtype::Fp4E2m1 => {
                let codes = bytes.iter().flat_map(|&b| [b & 15, b >> 4]);
                self.all(codes, |out, code| general(out, float(fp4_e2m1(code)), 3));
            }
            Dtype::Unknown => self.all(bytes.iter(), |out, b| {
                // Writing to memory does not fail.
                let _ = write!(out, "{b:#04x}");
            }),
        }
    }

    #[inline]
    fn all<T>(&mut self, values: impl Iterator<Item = T>, write: impl Fn(&mut Vec<u8>, T)) {
        for value in values {
            write(&mut self.text, value);
            self.ends.push(self.text.len());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(value: f64, digits: u32) -> String {
        let mut out = Vec::new();
        general(&mut out, value, digits);
        String::from_utf8(out).unwrap()
    }

    /// What C's printf and Python's `%` give.
    #[test]
    fn general_is_that_of_c() {
        let six = [
            (0.0, "0"),
            (-0.0, "-0"),
            (1.0, "1"),
            (-12.5, "-12.5"),
            (0.1, "0.1"),
            (1e-5, "1e-05"),
            (0.0001, "0.0001"),
            (0.000_123_456_78, "0.000123457"),
            (123_456.5, "123456"),
            (999_999.5, "1e+06"),
            (999_999.4, "999999"),
            (100_000.0, "100000"),
            (1e6, "1e+06"),
            (1_234_567.0, "1.23457e+06"),
            (1e16, "1e+16"),
            (1e100, "1e+100"),
            (5e-324, "4.94066e-324"),
            (f64::MAX, "1.79769e+308"),
            (f64::from(f32::MIN_POSITIVE), "1.17549e-38"),
            (f64::from(f32::MAX), "3.40282e+38"),
            (f64::NAN, "nan"),
            (f64::INFINITY, "inf"),
            (f64::NEG_INFINITY, "-inf"),
        ];
        for (value, expected) in six {
            assert_eq!(text(value, 6), expected, "{value:e}");
        }
        for (value, expected) in [(0.125, "0.12"), (0.375, "0.38"), (2.5e10, "2.5e+10"), (99.5, "1e+02")] {
            assert_eq!(text(value, 2), expected, "{value:e}");
        }
        assert_eq!(text(2.5, 1), "2");
        assert_eq!(text(3.5, 1), "4");
    }

    /// The quick way and the exact way agree wherever the quick way answers.
    #[test]
    fn the_quick_way_is_exact_where_it_answers() {
        let mut state = 0x9e37_79b9_7f4a_7c15u64;
        let (mut answered, mut asked) = (0, 0);
        for round in 0..400_000u32 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let value = match round % 4 {
                0 => f64::from(f32::from_bits((state >> 32) as u32)),
                1 => f64::from(bf16((state >> 40) as u16)),
                2 => f64::from(fp16((state >> 40) as u16)),
                _ => (state >> 40) as f64 / 4096.0,
            }
            .abs();
            if !value.is_finite() || value == 0.0 {
                continue;
            }
            for digits in [3, 4, 6] {
                asked += 1;
                if let Some(quick) = quick(value, digits) {
                    answered += 1;
                    assert_eq!(quick, exact(value, digits), "{value:e} to {digits}");
                }
            }
        }
        assert!(answered * 2 > asked, "{answered} of {asked}");
    }
}
