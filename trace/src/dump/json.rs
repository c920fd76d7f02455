//! What JSON has no word for, said as the manifest says it: NaN is `null`, the infinities are `"$Inf"` and `"-$Inf"`.

use serde::Serializer;

/// A float.
pub(super) fn float<S: Serializer>(value: &f64, serializer: S) -> Result<S::Ok, S::Error> {
    if value.is_nan() {
        serializer.serialize_none()
    } else if value.is_infinite() {
        serializer.serialize_str(if *value > 0.0 { "$Inf" } else { "-$Inf" })
    } else {
        serializer.serialize_f64(*value)
    }
}

/// A task id, as the manifest writes it.
pub(super) fn task_id<S: Serializer>(id: &u64, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&format_args!("{id:#018x}"))
}
