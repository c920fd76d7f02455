//! A scalar's value as JSON: text that reads back as exactly the value that the task was given.

use dfx_collector::abi::tensor::DataType;
use std::io::Write;

/// The value of an IEEE 754 binary16. From its bits: `powi` promises no exact power of two.
fn half(bits: u16) -> f32 {
    const SMALLEST: f32 = 1.0 / (1 << 24) as f32;
    let (exponent, mantissa) = (u32::from(bits >> 10 & 31), bits & 1023);
    let magnitude = match exponent {
        0 => f32::from(mantissa) * SMALLEST,
        31 if mantissa != 0 => f32::NAN,
        31 => f32::INFINITY,
        _ => f32::from_bits((exponent + 127 - 15) << 23 | u32::from(mantissa) << 13),
    };
    if bits >> 15 != 0 { -magnitude } else { magnitude }
}

/// A float of either width: the shortest decimal that reads back as the same, or what stands for a value that JSON has
/// not.
macro_rules! float {
    ($out:expr, $value:expr) => {{
        let value = $value;
        if value.is_nan() {
            $out.extend_from_slice(b"null");
        } else if value.is_infinite() {
            $out.extend_from_slice(if value > 0.0 { b"\"$Inf\"" } else { b"\"-$Inf\"" });
        } else {
            // Always with a point or an exponent. Writing to a Vec cannot fail.
            let _ = write!($out, "{value:?}");
        }
    }};
}

/// Appends the value in `slot` of a scalar whose type has number `dtype`.
pub(super) fn append(out: &mut Vec<u8>, dtype: u8, slot: u64) {
    let mut number = itoa::Buffer::new();
    let mut signed = |value: i64| out.extend_from_slice(number.format(value).as_bytes());
    let unsigned = match DataType::from_raw(dtype) {
        Some(DataType::Int8) => return signed(i64::from(slot as i8)),
        Some(DataType::Int16) => return signed(i64::from(slot as i16)),
        Some(DataType::Int32) => return signed(i64::from(slot as i32)),
        Some(DataType::Int64) => return signed(slot as i64),
        Some(DataType::Bool) => return out.extend_from_slice(if slot == 0 { b"false" } else { b"true" }),
        // A double is tagged as a float; unlike one it reaches into the slot's upper half.
        Some(DataType::Float32) if slot >> 32 != 0 => return float!(out, f64::from_bits(slot)),
        Some(DataType::Float32) => return float!(out, f32::from_bits(slot as u32)),
        Some(DataType::Float16) => return float!(out, half(slot as u16)),
        Some(DataType::Bfloat16) => return float!(out, f32::from_bits(u32::from(slot as u16) << 16)),
        Some(DataType::Uint8) => u64::from(slot as u8),
        Some(DataType::Uint16) => u64::from(slot as u16),
        Some(DataType::Uint32) => u64::from(slot as u32),
        // No decimal is agreed on for these: the code itself.
        Some(DataType::Uint64 | DataType::Fp8E4m3fn | DataType::Fp8E8m0 | DataType::Fp4E2m1) | None => slot,
    };
    out.extend_from_slice(number.format(unsigned).as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(dtype: DataType, slot: u64) -> String {
        let mut out = Vec::new();
        append(&mut out, dtype as u8, slot);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn values_are_as_the_format_page_has_them_where_it_is_exact() {
        use DataType::*;
        let f = |value: f32| text(Float32, u64::from(value.to_bits()));
        assert_eq!((f(1.0).as_str(), f(0.1).as_str(), f(-0.0).as_str()), ("1.0", "0.1", "-0.0"));
        assert_eq!((f(f32::NAN).as_str(), f(f32::INFINITY).as_str()), ("null", "\"$Inf\""));
        assert_eq!(f(f32::NEG_INFINITY), "\"-$Inf\"");
        assert_eq!(text(Int32, (-5_i64) as u64), "-5");
        assert_eq!(text(Int32, u64::from(-5_i32 as u32)), "-5");
        assert_eq!(text(Int64, u64::MAX), "-1");
        assert_eq!(text(Uint32, 3 | 7 << 32), "3");
        assert_eq!(text(Uint64, u64::MAX), "18446744073709551615");
        assert_eq!((text(Bool, 1 << 40).as_str(), text(Bool, 0).as_str()), ("true", "false"));
        assert_eq!(text(Fp8E4m3fn, 56), "56");
        let mut out = Vec::new();
        append(&mut out, 99, 7);
        assert_eq!(out, b"7");
    }

    /// Behaviour page, §9: where the reference rounds or prints the raw slot.
    #[test]
    fn values_are_exact_where_the_reference_is_not() {
        use DataType::*;
        assert_eq!(text(Float32, u64::from(123_456.7_f32.to_bits())), "123456.7");
        assert_eq!(text(Float32, std::f64::consts::PI.to_bits()), "3.141592653589793");
        assert_eq!(text(Float32, 1.0_f64.to_bits()), "1.0");
        assert_eq!(text(Int8, 255), "-1");
        assert_eq!(text(Int16, 0xFFFE), "-2");
        assert_eq!(text(Float16, 15360), "1.0");
        assert_eq!(text(Bfloat16, 16256), "1.0");
        assert_eq!(text(Float16, 0xFC00), "\"-$Inf\"");
    }

    #[test]
    fn every_half_and_every_exponent_of_a_float_reads_back_bit_for_bit() {
        for bits in (0..=u16::MAX).step_by(if cfg!(miri) { 499 } else { 1 }) {
            let value = half(bits);
            let json = text(DataType::Float16, u64::from(bits));
            if value.is_finite() {
                let read: f32 = json.parse().unwrap();
                assert_eq!(read.to_bits(), value.to_bits(), "{bits:#x}");
                assert!(serde_json::from_str::<serde_json::Value>(&json).unwrap().is_number(), "{json}");
            }
            let wide = f32::from_bits(u32::from(bits) << 16 | 0x5A5A);
            if wide.is_finite() {
                let json = text(DataType::Float32, u64::from(wide.to_bits()));
                assert_eq!(json.parse::<f32>().unwrap().to_bits(), wide.to_bits(), "{json}");
                serde_json::from_str::<serde_json::Value>(&json)
                    .unwrap_or_else(|error| panic!("{json}: {error}"));
            }
        }
    }
}
