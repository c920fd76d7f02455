//! The types of elements, and what their bits mean.
//!
//! Every type decodes to `f64` without loss except the 64-bit integers beyond 2^53, which decode to `i128` as well.
//! Formats, by their public definitions: fp16 and bf16 as IEEE 754 has them; fp8 E4M3FN has no infinities and one NaN
//! per sign (`0x7f`, `0xff`); E8M0 is 2^(code - 127), `0xff` is NaN; FP4 E2M1 is packed, two values a byte, **the low
//! nibble first**, so that a tensor whose last dimension is N bytes prints as 2 N values.

use serde::{Deserialize, Serialize};
use std::str::FromStr;

/// The type of an element.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Dtype {
    /// IEEE 754 binary32.
    Float32,
    /// IEEE 754 binary16.
    Float16,
    /// Signed, 32 bits.
    Int32,
    /// Signed, 16 bits.
    Int16,
    /// Signed, 8 bits.
    Int8,
    /// Unsigned, 8 bits.
    Uint8,
    /// The upper half of a binary32.
    Bfloat16,
    /// Signed, 64 bits.
    Int64,
    /// Unsigned, 64 bits.
    Uint64,
    /// Unsigned, 16 bits.
    Uint16,
    /// Unsigned, 32 bits.
    Uint32,
    /// A byte; anything but 0 is true.
    Bool,
    /// 8 bits: 4 of exponent, 3 of mantissa, no infinities.
    Fp8E4m3fn,
    /// 8 bits of exponent: a power of two.
    Fp8E8m0,
    /// 4 bits: 2 of exponent, 1 of mantissa; two to a byte.
    Fp4E2m1,
    /// A number that no type has; its bytes can be shown, not understood.
    Unknown,
}

/// What kind of number a type is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Class {
    Float,
    Int,
    Bool,
    Opaque,
}

impl Dtype {
    /// All types that there are.
    pub const ALL: [Dtype; 15] = [
        Dtype::Float32,
        Dtype::Float16,
        Dtype::Int32,
        Dtype::Int16,
        Dtype::Int8,
        Dtype::Uint8,
        Dtype::Bfloat16,
        Dtype::Int64,
        Dtype::Uint64,
        Dtype::Uint16,
        Dtype::Uint32,
        Dtype::Bool,
        Dtype::Fp8E4m3fn,
        Dtype::Fp8E8m0,
        Dtype::Fp4E2m1,
    ];

    /// The name that artifacts use.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Dtype::Float32 => "FLOAT32",
            Dtype::Float16 => "FLOAT16",
            Dtype::Int32 => "INT32",
            Dtype::Int16 => "INT16",
            Dtype::Int8 => "INT8",
            Dtype::Uint8 => "UINT8",
            Dtype::Bfloat16 => "BFLOAT16",
            Dtype::Int64 => "INT64",
            Dtype::Uint64 => "UINT64",
            Dtype::Uint16 => "UINT16",
            Dtype::Uint32 => "UINT32",
            Dtype::Bool => "BOOL",
            Dtype::Fp8E4m3fn => "FP8E4M3FN",
            Dtype::Fp8E8m0 => "FP8E8M0",
            Dtype::Fp4E2m1 => "FP4E2M1",
            Dtype::Unknown => "UNKNOWN",
        }
    }

    /// What the manifest counts as one element, in bytes; a byte when the type is unknown.
    #[must_use]
    pub const fn bytes(self) -> u64 {
        match self {
            Dtype::Int64 | Dtype::Uint64 => 8,
            Dtype::Float32 | Dtype::Int32 | Dtype::Uint32 => 4,
            Dtype::Float16 | Dtype::Bfloat16 | Dtype::Int16 | Dtype::Uint16 => 2,
            _ => 1,
        }
    }

    /// Values in what the manifest counts as one element: 2 of FP4, else 1.
    #[must_use]
    pub const fn values_per_element(self) -> u64 {
        if matches!(self, Dtype::Fp4E2m1) { 2 } else { 1 }
    }

    pub(super) const fn class(self) -> Class {
        match self {
            Dtype::Float32
            | Dtype::Float16
            | Dtype::Bfloat16
            | Dtype::Fp8E4m3fn
            | Dtype::Fp8E8m0
            | Dtype::Fp4E2m1 => Class::Float,
            Dtype::Bool => Class::Bool,
            Dtype::Unknown => Class::Opaque,
            _ => Class::Int,
        }
    }

    /// Appends the values in `bytes`, whole elements, to `out`. Integers beyond 2^53 are rounded.
    pub fn decode(self, bytes: &[u8], out: &mut Vec<f64>) {
        match self {
            Dtype::Float32 => out.extend(words(bytes).map(|b| f64::from(f32::from_le_bytes(b)))),
            Dtype::Float16 => out.extend(words(bytes).map(|b| f64::from(fp16(u16::from_le_bytes(b))))),
            Dtype::Bfloat16 => out.extend(words(bytes).map(|b| f64::from(bf16(u16::from_le_bytes(b))))),
            Dtype::Int32 => out.extend(words(bytes).map(|b| f64::from(i32::from_le_bytes(b)))),
            Dtype::Uint32 => out.extend(words(bytes).map(|b| f64::from(u32::from_le_bytes(b)))),
            Dtype::Int16 => out.extend(words(bytes).map(|b| f64::from(i16::from_le_bytes(b)))),
            Dtype::Uint16 => out.extend(words(bytes).map(|b| f64::from(u16::from_le_bytes(b)))),
            Dtype::Int64 => out.extend(words(bytes).map(|b| i64::from_le_bytes(b) as f64)),
            Dtype::Uint64 => out.extend(words(bytes).map(|b| u64::from_le_bytes(b) as f64)),
            Dtype::Int8 => out.extend(bytes.iter().map(|&b| f64::from(b as i8))),
            Dtype::Uint8 | Dtype::Unknown => out.extend(bytes.iter().map(|&b| f64::from(b))),
            Dtype::Bool => out.extend(bytes.iter().map(|&b| f64::from(u8::from(b != 0)))),
            Dtype::Fp8E4m3fn => out.extend(bytes.iter().map(|&b| f64::from(fp8_e4m3fn(b)))),
            Dtype::Fp8E8m0 => out.extend(bytes.iter().map(|&b| f64::from(fp8_e8m0(b)))),
            Dtype::Fp4E2m1 => {
                out.extend(bytes.iter().flat_map(|&b| [fp4_e2m1(b & 15), fp4_e2m1(b >> 4)]).map(f64::from));
            }
        }
    }

    /// Appends the integers in `bytes`, exactly; a type that is no integer's has its bits taken for one.
    pub fn decode_exact(self, bytes: &[u8], out: &mut Vec<i128>) {
        match self {
            Dtype::Int64 => out.extend(words(bytes).map(|b| i128::from(i64::from_le_bytes(b)))),
            Dtype::Uint64 => out.extend(words(bytes).map(|b| i128::from(u64::from_le_bytes(b)))),
            Dtype::Int32 => out.extend(words(bytes).map(|b| i128::from(i32::from_le_bytes(b)))),
            Dtype::Uint32 | Dtype::Float32 => {
                out.extend(words(bytes).map(|b| i128::from(u32::from_le_bytes(b))));
            }
            Dtype::Int16 => out.extend(words(bytes).map(|b| i128::from(i16::from_le_bytes(b)))),
            Dtype::Uint16 | Dtype::Float16 | Dtype::Bfloat16 => {
                out.extend(words(bytes).map(|b| i128::from(u16::from_le_bytes(b))));
            }
            Dtype::Int8 => out.extend(bytes.iter().map(|&b| i128::from(b as i8))),
            Dtype::Bool => out.extend(bytes.iter().map(|&b| i128::from(b != 0))),
            Dtype::Uint8 | Dtype::Unknown | Dtype::Fp8E4m3fn | Dtype::Fp8E8m0 => {
                out.extend(bytes.iter().map(|&b| i128::from(b)));
            }
            Dtype::Fp4E2m1 => {
                out.extend(bytes.iter().flat_map(|&b| [i128::from(b & 15), i128::from(b >> 4)]));
            }
        }
    }
}

impl FromStr for Dtype {
    type Err = String;

    /// By the artifact's name or a usual short one, in any case.
    fn from_str(text: &str) -> Result<Self, String> {
        let upper = text.to_ascii_uppercase();
        let short = match upper.as_str() {
            "F32" | "FP32" | "FLOAT" => Some(Dtype::Float32),
            "F16" | "FP16" | "HALF" => Some(Dtype::Float16),
            "BF16" => Some(Dtype::Bfloat16),
            "I8" => Some(Dtype::Int8),
            "I16" => Some(Dtype::Int16),
            "I32" => Some(Dtype::Int32),
            "I64" => Some(Dtype::Int64),
            "U8" => Some(Dtype::Uint8),
            "U16" => Some(Dtype::Uint16),
            "U32" => Some(Dtype::Uint32),
            "U64" => Some(Dtype::Uint64),
            "FP8" | "E4M3FN" => Some(Dtype::Fp8E4m3fn),
            "E8M0" => Some(Dtype::Fp8E8m0),
            "FP4" | "E2M1" => Some(Dtype::Fp4E2m1),
            "UNKNOWN" => Some(Dtype::Unknown),
            _ => Dtype::ALL.into_iter().find(|dtype| dtype.name() == upper),
        };
        short.ok_or_else(|| {
            let names: Vec<_> = Dtype::ALL.iter().map(|dtype| dtype.name()).collect();
            format!("unknown dtype `{text}`, there are {}", names.join(", "))
        })
    }
}

/// `bytes` as arrays of `N`; a rest that makes none is left.
pub(super) fn words<const N: usize>(bytes: &[u8]) -> impl Iterator<Item = [u8; N]> + '_ {
    bytes.as_chunks::<N>().0.iter().copied()
}

/// The value of fp16 bits.
#[must_use]
pub fn fp16(bits: u16) -> f32 {
    let sign = u32::from(bits & 0x8000) << 16;
    let (exponent, mantissa) = (u32::from(bits >> 10 & 31), u32::from(bits & 0x3ff));
    let magnitude = match exponent {
        // Subnormal: the mantissa counts 2^-24.
        0 => (mantissa as f32 * (1.0 / 16_777_216.0)).to_bits(),
        31 => 0x7f80_0000 | mantissa << 13,
        _ => (exponent + 112) << 23 | mantissa << 13,
    };
    f32::from_bits(sign | magnitude)
}

/// The value of bf16 bits.
#[must_use]
pub fn bf16(bits: u16) -> f32 {
    f32::from_bits(u32::from(bits) << 16)
}

/// The value of an fp8 E4M3FN code.
#[must_use]
pub fn fp8_e4m3fn(code: u8) -> f32 {
    let sign = u32::from(code & 0x80) << 24;
    let (exponent, mantissa) = (u32::from(code >> 3 & 15), u32::from(code & 7));
    let magnitude = match (exponent, mantissa) {
        (15, 7) => f32::NAN.to_bits(),
        // Subnormal: the mantissa counts 2^-9.
        (0, _) => (mantissa as f32 * (1.0 / 512.0)).to_bits(),
        _ => (exponent + 120) << 23 | mantissa << 20,
    };
    f32::from_bits(sign | magnitude)
}

/// The value of an E8M0 code.
#[must_use]
pub fn fp8_e8m0(code: u8) -> f32 {
    match code {
        // 2^-127 is subnormal in binary32.
        0 => f32::from_bits(0x0040_0000),
        255 => f32::NAN,
        _ => f32::from_bits(u32::from(code) << 23),
    }
}

/// The value of an FP4 E2M1 code, the lower four bits of `code`.
#[must_use]
pub fn fp4_e2m1(code: u8) -> f32 {
    const MAGNITUDES: [f32; 8] = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0];
    let magnitude = MAGNITUDES[usize::from(code & 7)];
    if code & 8 == 0 { magnitude } else { -magnitude }
}
