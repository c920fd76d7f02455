//! The keys that only host-orchestrated runs have. Times are ns of the host's monotonic clock.

use serde::Deserialize;

/// One submit, made on the host.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HostSubmit {
    /// Counts submits from 0.
    pub submit_idx: u32,
    /// The submitted task.
    pub task_id: u64,
    /// In ns.
    pub start_host_ns: u64,
    /// In ns.
    pub end_host_ns: u64,
}

/// One upload from host to device.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HostUpload {
    /// `graph_upload`, `sm_h2d` or `arena_h2d`.
    pub phase: String,
    /// In ns.
    pub start_host_ns: u64,
    /// In ns.
    pub end_host_ns: u64,
    /// Bytes, where the phase counts them.
    pub detail: u64,
}

/// The account of the host's own recording.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HostCapture {
    /// `complete`, `dropped` or `incomplete`.
    pub status: String,
    /// Tasks submitted.
    pub expected_records: u64,
    /// Submits recorded.
    pub recorded_records: u64,
    /// Records that the pool took.
    pub pool_records: u64,
    /// Records that it had no room for.
    pub dropped_records: u64,
    /// Why it is not complete.
    pub error: Option<String>,
}

/// What relates the host's clock to the device's counter.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClockAnchors {
    /// 1.
    pub schema_version: u32,
    /// Who read the device's clock.
    pub provider: String,
    /// Unit of [`AnchorSample::device_cycles`].
    pub device_timestamp_unit: String,
    /// Unit of [`AnchorSample::raw_device_timestamp`].
    pub raw_device_timestamp_unit: String,
    /// Samples asked for at each position.
    pub samples_per_position: u32,
    /// The readings.
    pub samples: Vec<AnchorSample>,
}

/// A reading of both clocks.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AnchorSample {
    /// `pre_host_orchestration` or `post_device_execution`.
    pub position: String,
    /// Counts the samples of a position from 0.
    pub sample_idx: u32,
    /// Host time before the device's clock was read, in ns.
    pub host_before_ns: u64,
    /// The device's time stamp in its own unit.
    pub raw_device_timestamp: Option<u64>,
    /// The same in ticks.
    pub device_cycles: Option<u64>,
    /// Host time after it, in ns.
    pub host_after_ns: u64,
    /// How long the reading took, in ns.
    pub rtt_ns: u64,
    /// How far the device's time may be off the middle of the reading, in ns.
    pub uncertainty_ns: u64,
    /// Why there is no reading.
    pub error: Option<AnchorError>,
}

/// Why a clock could not be read.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AnchorError {
    /// The step that failed.
    pub stage: String,
    /// Its code.
    pub code: i64,
}
